//! Named sets of prefixes that rules of access lists use, against a twin whose rules have all prefixes written out.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use crate::common;

use std::collections::BTreeMap;

use common::acl_twin::{Dice, first_match, prefix, random_frame, random_rule};
use common::*;
use serde_json::{Value, json};

const PORTS: &[PortSpec] = &[PortSpec("lan", &["10.0.0.1/24", "2001:db8:0::1/64"], 1500)];

/// Sets by their names.
type Sets = BTreeMap<&'static str, Vec<String>>;

const NAMES: [&str; 3] = ["one", "two", "none"];

fn config(rules: &[String], sets: &Sets) -> Value {
    json!({
        "routes": { "0.0.0.0/0": "blackhole", "::/0": "blackhole" },
        "neighbor_timers": { "own_probes": 0 },
        "prefix_sets": sets,
        "acls": { "edge": { "rules": rules, "default": "permit" } },
        "acl_in": { "lan": "edge" },
    })
}

/// A rule at random, with sets in place of some of its prefixes, or beside them.
fn rule_with_sets(dice: &mut Dice) -> String {
    let rule = loop {
        let rule = random_rule(dice);
        if rule.contains("from ") || rule.contains("to ") {
            break rule;
        }
    };
    let mut words: Vec<String> = rule.split(' ').map(str::to_owned).collect();
    for at in 1..words.len() {
        if matches!(&*words[at - 1], "from" | "to") {
            let name = dice.one_of(&NAMES);
            match dice.below(3) {
                0 => words[at] += &format!(";@{name}"),
                _ => words[at] = format!("@{name}"),
            }
        }
    }
    words.join(" ")
}

/// The same with all prefixes written out; those of an empty set are nobody's.
fn written_out(rule: &str, sets: &Sets) -> String {
    let all = |part: &str| match part.strip_prefix('@') {
        Some(name) if sets[name].is_empty() => "255.255.255.255/32".to_owned(),
        Some(name) => sets[name].join(";"),
        None => part.to_owned(),
    };
    rule.split(' ').map(|word| word.split(';').map(all).collect::<Vec<_>>().join(";")).collect::<Vec<_>>().join(" ")
}

fn counts(rig: &Rig) -> Vec<u64> {
    rig.show("acls").iter().map(|row| row["packets"].as_u64().unwrap()).collect()
}

#[test]
fn rules_match_what_is_in_their_sets_whatever_changes() {
    let mut dice = Dice(0x5e75);
    let mut sets: Sets = NAMES.map(|name| (name, Vec::new())).into();
    let rules: Vec<String> = (0..60).map(|_| rule_with_sets(&mut dice)).collect();
    assert!(rules.iter().all(|rule| rule.contains('@')));
    let mut rig = Rig::new(PORTS, config(&rules, &sets));
    rig.settle();
    let mut expected = vec![0; rules.len() + 1];
    for round in 0..24 {
        let is_four = round % 2 == 0;
        let name = dice.one_of(&["one", "two"]);
        let known = sets.get_mut(name).unwrap();
        // Sources and destinations in turn.
        let net = prefix(&mut dice, !is_four, (round / 2 % 2) as u8);
        if round % 5 == 4 && !known.is_empty() {
            let gone = known.remove(0);
            rig.request("prefix-set del", json!({ "set": name, "prefix": gone })).unwrap();
        } else if !known.contains(&net) {
            known.push(net.clone());
            rig.request("prefix-set add", json!({ "set": name, "prefix": [net] })).unwrap();
        }
        let plain: Vec<String> = rules.iter().map(|rule| written_out(rule, &sets)).collect();
        for _ in 0..40 {
            let frame = random_frame(&mut dice, rig.mac(0).0);
            expected[first_match(&plain, &frame).unwrap_or(rules.len())] += 1;
            rig.send(0, frame);
        }
        rig.settle();
        assert_eq!(counts(&rig), expected, "round {round}");
    }
    let matched: u64 = expected.iter().take(rules.len()).sum();
    assert!(matched > 20, "{matched} packets matched rules");
    // Added ones outlive a reload and a rebuild, and are saved.
    let stated: Sets = NAMES.map(|name| (name, Vec::new())).into();
    let before = rig.show("prefix-sets");
    rig.reload(&config(&rules, &stated));
    assert_eq!(rig.show("prefix-sets"), before);
    rig.rebuild(&config(&rules, &stated));
    assert_eq!(rig.show("prefix-sets"), before);
    assert_eq!(before.len(), sets.values().map(Vec::len).sum::<usize>());
    let saved = all_rows(rig.instance.save());
    let told: Vec<&Value> = saved.iter().map(|saved| &saved.arguments).collect();
    assert_eq!(told[0], &json!({ "set": "one", "prefix": sets["one"] }));
    assert_eq!((&*saved[0].key, saved[0].entry.as_ref()), ("prefix_sets", None));
    rig.finish();
}

#[test]
fn a_change_is_all_or_nothing() {
    let sets: Sets = [("one", vec!["192.0.2.0/24".to_owned()])].into();
    let rig = Rig::new(PORTS, config(&["deny from @one".to_owned()], &sets));
    let refused = |verb: &str, arguments: Value| rig.request(verb, arguments).unwrap_err();
    let add = |prefixes: &[&str]| json!({ "set": "one", "prefix": prefixes });
    assert_eq!(
        refused("prefix-set add", add(&["198.51.100.0/24", "192.0.2.0/24"])),
        "192.0.2.0/24 is in the set one already"
    );
    assert_eq!(
        refused("prefix-set add", json!([add(&["198.51.100.0/24"]), { "set": "eno", "prefix": "::/0" }])),
        "entry 2: there is no prefix set \"eno\"; write one of one"
    );
    assert_eq!(
        refused("prefix-set del", add(&["192.0.2.0/24"])),
        "192.0.2.0/24 stands in the configuration; delete it there and reload"
    );
    assert!(refused("prefix-set del", add(&["198.51.100.0/24"])).starts_with("198.51.100.0/24 is not in the set one"));
    assert_eq!(rig.show("prefix-sets"), [json!({ "set": "one", "prefix": "192.0.2.0/24", "source": "config" })]);
    // A rule has room for so many matches, with its sets.
    let rule = format!(
        "deny protocol udp from @one to-port {}",
        (1..=2048).map(|n| n.to_string()).collect::<Vec<_>>().join(",")
    );
    rig.request("acl add", json!({ "list": "edge", "rule": rule })).unwrap();
    rig.request("prefix-set add", add(&["198.51.100.0/24"])).unwrap();
    let told = refused("prefix-set add", add(&["203.0.113.0/24"]));
    assert!(told.starts_with("then a rule of edge comes to more than 4096 pairs"), "{told}");
    assert_eq!(rig.show("prefix-sets").len(), 2);
    let told = refused("acl add", json!({ "list": "edge", "rule": "deny from @two" }));
    assert_eq!(told, "the rule names the set \"two\", which prefix_sets does not have");
    rig.finish();
}

#[test]
fn sets_that_are_not_there_are_told_of() {
    let told: Vec<String> = build(PORTS, &config(&["deny from @one;10.0.0.0/8 to @2".to_owned()], &Sets::new()))
        .err()
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(told[0].contains("has the prefix set @2") || told[0].contains("has the prefix set 2"), "{told:?}");
    let told: Vec<String> = build(PORTS, &config(&["deny from @one".to_owned()], &Sets::new()))
        .err()
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(told[0].contains("names the set \"one\", which prefix_sets does not have"), "{told:?}");
}
