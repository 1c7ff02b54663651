//! Filters of `weir show`: one that means nothing is refused, for whatever can be shown.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::BTreeMap;

use common::{Running, everything, text, weir};

/// Functions some of whose tables others have, too.
const WITH_TABLES: [&str; 8] = ["router", "bng", "lwaftr", "vxlan", "bridge", "qos", "lua", "wiring"];

/// What nothing is called.
const NOTHING: &str = "zzz-nothing";

/// All that can be shown, with what the help says of it.
fn shows() -> BTreeMap<String, String> {
    let help = text(&weir(&["show", "--help"]).stdout);
    let values = help.split("Possible values:").nth(1).unwrap().split("[FILTER]").next().unwrap();
    let entry = |entry: &str| {
        let (name, said) = entry.split_once(':')?;
        Some((name.to_owned(), said.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    values.split("\n          - ").skip(1).filter_map(entry).collect()
}

/// That a filter is refused with the word, and what to do.
fn refused(running: &Running, what: &str, word: &str) {
    if !text(&running.ask(&["show", what, word]).stderr).contains("name one with --function") {
        return refused_by(running, (what, word), &[]);
    }
    let has_none = |function: &str| {
        let said = text(&running.ask(&["show", what, word, "--function", function]).stderr);
        said.contains(&format!("no running function has a table '{what}'"))
    };
    let having: Vec<&str> = WITH_TABLES.iter().copied().filter(|function| !has_none(function)).collect();
    assert!(having.len() >= 2, "{what}: {having:?}");
    having.iter().for_each(|function| refused_by(running, (what, word), &["--function", function]));
}

/// The same of one function.
fn refused_by(running: &Running, (what, word): (&str, &str), function: &[&str]) {
    let output = running.ask(&[&["show", what, word], function].concat());
    let said = text(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{what} {word}: {}", text(&output.stdout));
    let remedies = ["; write ", "there are ", "; expected ", "leave the word out"];
    assert!(said.contains(word.split('=').next_back().unwrap()), "{what} {word}: {said}");
    assert!(remedies.iter().any(|remedy| said.contains(remedy)), "{what} {word} tells nothing to do: {said}");
}

#[test]
fn no_table_takes_a_word_that_means_nothing() {
    let (_folder, running) = everything::start("filters");
    let shows = shows();
    assert!(
        ["stats", "version", "routes", "streams", "hosts", "users", "wiring"]
            .iter()
            .all(|what| shows.contains_key(*what))
    );
    for (what, help) in &shows {
        refused(&running, what, NOTHING);
        // Filters of the form `profile=NAME` are told in the help.
        let help = if help.contains("as of subscribers") { &shows["subscribers"] } else { help };
        let named = help
            .split([' ', ',', '.'])
            .filter_map(|word| word.split_once('='))
            .filter(|(_, value)| !value.is_empty() && value.chars().all(|letter| letter.is_ascii_uppercase()));
        for (key, _) in named {
            refused(&running, what, &format!("{key}={NOTHING}"));
        }
        refused(&running, what, &format!("{NOTHING}=1"));
    }
}

#[test]
fn a_word_that_may_be_selects_what_there_is() {
    let (_folder, running) = everything::start("filters-right");
    let rows = |what: &str, word: &str| running.json(&["show", what, word])["rows"].as_array().unwrap().len();
    assert_eq!((rows("streams", "gen"), rows("streams", "1")), (2, 1));
    assert_eq!(
        (rows("subscribers", "profile=home"), rows("subscribers", "svlan=1"), rows("subscribers", "1.2")),
        (1, 1, 1)
    );
    // Nobody has such tags at present, yet somebody may.
    assert_eq!((rows("subscribers", "svlan=4094"), rows("hosts", "7.8")), (0, 0));
    assert_eq!(running.say(&["show", "subscribers", "7.8"]), "none: \"7.8\" selects nothing at present\n");
    for word in ["svlan=4096", "1.5000", "profile=hoem", "key=-1"] {
        refused(&running, "subscribers", word);
    }
    assert_eq!((rows("users", "one"), rows("users", "1.2")), (1, 1));
}
