//! What is decided from a configuration, without a device.

use std::path::Path;

use serde_json::{Value as Json, json};
use weir_config::{ConfigError, Declaration, Document, Folder, Key, Place, Value};

use super::config::{Loaded, Next, load_document};
use super::routed::{self, Sides};

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(bool) => Value::Bool(*bool),
        Json::Number(number) => Value::Integer(number.as_i64().unwrap()),
        Json::String(text) => Value::text(text),
        Json::Array(list) => Value::List(list.iter().map(value).collect()),
        Json::Object(table) => {
            Value::Table(table.iter().map(|(key, json)| (Key::from(key.as_str()), value(json))).collect())
        }
    }
}

/// A configuration of these declarations: kinds, and what stands in their tables.
fn loaded(declarations: &[(String, Json)]) -> Result<Loaded, Vec<ConfigError>> {
    let declaration = |(line, (kind, table)): (u64, &(String, Json))| Declaration {
        kind: kind.clone(),
        table: value(table),
        place: Place::line("test", line),
        incomplete: false,
    };
    let declarations = (1..).zip(declarations).map(declaration).collect();
    let document = Document { file: "test".to_owned(), declarations, ..Document::default() };
    let here = Path::new(".");
    load_document(&document, here, Folder::open(here).unwrap(), Some(&["--allow-lua"]), Next::Nothing)
}

/// What functions make of ports, as the files of this folder say it: nothing here knows their names.
#[derive(serde::Deserialize)]
struct Case {
    functions: Vec<(String, Json)>,
    promiscuous: Vec<bool>,
}

#[test]
fn ports_are_promiscuous_where_a_function_takes_frames_to_whatever_address() {
    let names = ["lan", "wan", "one", "two"];
    let cases: Vec<Case> = serde_json::from_str(include_str!("promiscuous.json")).unwrap();
    for Case { functions, promiscuous } in cases {
        let loaded = with_ports(&functions, &names);
        let decided: Vec<bool> = names.iter().map(|port| loaded.promiscuous(port)).collect();
        assert_eq!(decided, promiscuous, "{functions:?}");
    }
}

/// These ports, and functions on them.
fn with_ports(functions: &[(String, Json)], names: &[&str]) -> Loaded {
    let ports = names.iter().zip(0..).map(|(name, net)| {
        let table =
            json!({ "name": name, "device": format!("af_packet:{name}"), "address": format!("10.0.{net}.1/24") });
        ("port".to_owned(), table)
    });
    loaded(&ports.chain(functions.iter().cloned()).collect::<Vec<_>>()).unwrap()
}

#[test]
fn what_was_checked_comes_to_the_same_when_it_is_checked_again() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("promiscuous.json")).unwrap();
    for Case { functions, .. } in cases {
        let loaded = with_ports(&functions, &["lan", "wan", "one", "two"]);
        let again = loaded.with_sides(&Sides::new(), &["--allow-lua"]).unwrap();
        assert_eq!(again.checked, loaded.checked, "{functions:?}");
    }
}

/// A function that switches and tells VLANs apart, and two that route, as a file of this folder says it.
fn functions() -> Vec<(String, Json)> {
    serde_json::from_str(include_str!("sides.json")).unwrap()
}

fn one_switches_and_two_route() -> Loaded {
    with_ports(&functions(), &["lan", "wan", "one", "two"])
}

fn sides(of: &[(&str, &[&str])]) -> Sides {
    let names = |functions: &[&str]| functions.iter().map(|name| (*name).to_owned()).collect();
    of.iter().map(|(side, functions)| ((*side).to_owned(), names(functions))).collect()
}

/// The ports of a configuration beside those that a test gave it, and who has them.
fn joined(loaded: &Loaded) -> Vec<String> {
    let sides = loaded.ports.iter().map(|(name, ..)| name).filter(|name| name.contains(':'));
    let who = |port: &String| loaded.functions_on(port).map(weir_stage::Configured::name).collect::<Vec<_>>().join(" ");
    sides.map(|port| format!("{port}: {}", who(port))).collect()
}

#[test]
fn a_configuration_is_given_routed_sides() {
    let before = one_switches_and_two_route();
    assert_eq!(joined(&before), Vec::<String>::new());
    let one = before.with_sides(&sides(&[("bridge:lan", &["edge"])]), &[]).unwrap();
    assert_eq!(joined(&one), ["bridge:lan: edge", "lan:routed: lan"]);
    // Another function has interfaces there, too.
    let both = one.with_sides(&sides(&[("bridge:lan", &["core"])]), &[]).unwrap();
    assert_eq!(joined(&both), ["bridge:lan: core edge", "lan:routed: lan"]);
    // Everything else stays as it is.
    let changed = one.differs_from(&before).to_string();
    assert!(changed.contains("= router[\"core\"]: unchanged"), "{changed}");
}

#[test]
fn what_was_added_to_what_is_gone_is_left_out() {
    let without = with_ports(&functions()[1..], &["lan", "wan"]);
    let document = without.checked.document("test");
    let more = routed::join(&document, &sides(&[("bridge:lan", &["core"])]));
    assert_eq!(more.declarations, document.declarations);
    assert_eq!(more.errors, document.errors);
}

#[test]
fn who_cannot_be_on_a_side_is_told_why() {
    let loaded = one_switches_and_two_route();
    let told = |side: &str, arguments: Json| routed::refusal(&loaded.checked, side, &arguments);
    assert_eq!(told("bridge:lan", json!({ "vlan": "10" })), None);
    let cases = [
        ("bridge:lan", "vlan is missing: bridge:lan tells VLANs apart; write one of 10, 20, 21"),
        ("bridge:wan", "there is no bridge \"wan\"; an interface is on a port, or one of bridge:lan"),
        (
            "router:core",
            "\"router:core\" is nothing that interfaces may be on: router has no routed side; an interface is on a port, or one of bridge:lan",
        ),
        (
            "flute:x",
            "\"flute:x\" is nothing that interfaces may be on; an interface is on a port, or one of bridge:lan",
        ),
    ];
    for (side, said) in cases {
        assert_eq!(told(side, json!({})).as_deref(), Some(said));
    }
}
