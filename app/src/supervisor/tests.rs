//! What is decided from a configuration, without a device.

use std::path::Path;

use serde_json::{Value as Json, json};
use weir_config::{ConfigError, Declaration, Document, Folder, Key, Place, Value};

use super::config::{Loaded, Next, load_document};

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
    let ports = names.iter().zip(0..).map(|(name, net)| {
        let table =
            json!({ "name": name, "device": format!("af_packet:{name}"), "address": format!("10.0.{net}.1/24") });
        ("port".to_owned(), table)
    });
    let ports: Vec<(String, Json)> = ports.collect();
    let cases: Vec<Case> = serde_json::from_str(include_str!("promiscuous.json")).unwrap();
    for Case { functions, promiscuous } in cases {
        let loaded = loaded(&[ports.clone(), functions.clone()].concat()).unwrap();
        let decided: Vec<bool> = names.iter().map(|port| loaded.promiscuous(port)).collect();
        assert_eq!(decided, promiscuous, "{functions:?}");
    }
}
