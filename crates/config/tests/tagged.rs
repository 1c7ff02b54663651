//! Tables whose keys depend on the word of one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use common::value;
use serde_json::{Value as Json, json};
use weir_config::{
    Catalogue, Change, Declaration, Document, Key, KeySchema, Kind, Length, Place, Plan, Presence, Schema, Type, config,
};

config! {
    /// Waits.
    pub struct Wait {
        /// How long, in seconds.
        pub time: u16 = required, live, range(1..=9);
    }
}

config! {
    /// Speaks.
    pub struct Say {
        /// What it says.
        pub text: String = required, rebuild, length(1..=8);
        /// How often.
        pub times: u8 = default(1), live;
    }
}

fn schema() -> Schema {
    let steps = Type::Map {
        key: Box::new(Type::Text { length: Length { min: 1, max: 8 }, pattern: None }),
        value: Box::new(Type::Tagged { tag: "kind", cases: vec![("wait", Wait::schema()), ("say", Say::schema())] }),
        length: Length::ANY,
    };
    Schema::new(
        "Does things.",
        vec![KeySchema::new("steps", steps, Presence::Required, Change::Rebuild, "The things.")],
    )
}

fn kinds() -> Catalogue {
    [Kind::single("plan", schema())].into_iter().collect()
}

fn document(steps: &Json) -> Document {
    let table = value(&json!({ "steps": steps }));
    let declaration =
        Declaration { kind: "plan".to_owned(), table, place: Place::line("plan.lua", 1), incomplete: false };
    Document { file: "plan.lua".to_owned(), declarations: vec![declaration], ..Document::default() }
}

fn said(steps: &Json) -> Vec<String> {
    document(steps).check(&kinds(), None).unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn each_word_has_keys_of_its_own() {
    let checked = document(&json!({"a": {"kind": "say", "text": "hello"}, "b": {"kind": "wait", "time": 3}}));
    let checked = checked.check(&kinds(), None).unwrap();
    let plan = checked.get("plan", "plan").unwrap().value().as_table().unwrap();
    let steps = plan.get("steps").unwrap().as_table().unwrap();
    assert_eq!(steps.0[&Key::from("a")], value(&json!({"kind": "say", "text": "hello", "times": 1})));
    assert_eq!(steps.0[&Key::from("b")], value(&json!({"kind": "wait", "time": 3})));
}

#[test]
fn every_mistake_is_told() {
    let expected = r#"expected "wait" or "say""#;
    assert_eq!(
        said(&json!({"a": {"text": "hello"}})),
        [format!(r#"plan.lua:1: plan.steps.a.kind: is missing; {expected}; add kind = "wait""#)]
    );
    assert_eq!(
        said(&json!({"a": []})),
        [format!(r#"plan.lua:1: plan.steps.a.kind: is missing; {expected}; add kind = "wait""#)]
    );
    assert_eq!(
        said(&json!({"a": {"kind": "weit", "time": 3}})),
        [format!(r#"plan.lua:1: plan.steps.a.kind: "weit" is no choice; {expected}; did you mean wait?"#)]
    );
    assert_eq!(
        said(&json!({"a": {"kind": 5}})),
        [format!("plan.lua:1: plan.steps.a.kind: 5 is not what this key holds; {expected}")]
    );
    assert_eq!(
        said(&json!({"a": {"kind": "say", "time": 3, "text": "hello"}})),
        ["plan.lua:1: plan.steps.a.time: is not a key here; expected one of text, times; did you mean times?"]
    );
    assert_eq!(
        said(&json!({"a": "wait"})),
        [
            r#"plan.lua:1: plan.steps.a: "wait" is a string, not what this key holds; expected a table with kind = "wait" or "say" and the keys of that"#
        ]
    );
    assert_eq!(schema().defects(), Vec::<String>::new());
}

#[test]
fn a_change_is_that_of_its_key_and_of_the_whole_where_the_word_changes() {
    let plan = |one: &Json, two: &Json| {
        let [one, two] = [one, two].map(|steps| document(steps).check(&kinds(), None).unwrap());
        Plan::between(&kinds(), &one, &two)
    };
    let say = |times: u8| json!({"a": {"kind": "say", "text": "hello", "times": times}});
    assert_eq!(plan(&say(1), &say(2)).strongest(), Some(Change::Live));
    assert!(plan(&say(1), &say(1)).is_empty());
    let wait = json!({"a": {"kind": "wait", "time": 3}});
    assert_eq!(plan(&say(1), &wait).strongest(), Some(Change::Rebuild));
}

#[test]
fn the_manual_has_a_section_for_each_word() {
    let kinds = kinds();
    let page = kinds.kind("plan").unwrap().manual();
    for section in [r#"### `plan.steps[key] with kind = "wait"`"#, r#"### `plan.steps[key] with kind = "say"`"#] {
        assert!(page.contains(section), "{page}");
    }
}
