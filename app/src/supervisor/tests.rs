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
pub(super) fn loaded(declarations: &[(&str, Json)]) -> Result<Loaded, Vec<ConfigError>> {
    let declaration = |(line, (kind, table)): (u64, &(&str, Json))| Declaration {
        kind: (*kind).to_owned(),
        table: value(table),
        place: Place::line("test", line),
        incomplete: false,
    };
    let declarations = (1..).zip(declarations).map(declaration).collect();
    let document = Document { file: "test".to_owned(), declarations, ..Document::default() };
    let here = Path::new(".");
    load_document(&document, here, Folder::open(here).unwrap(), Some(&["--allow-lua"]), Next::Nothing)
}

fn port(name: &str, device: &str, address: &str) -> (&'static str, Json) {
    ("port", json!({ "name": name, "device": device, "address": address }))
}

#[test]
fn ports_are_promiscuous_where_a_function_takes_frames_to_whatever_address() {
    let ports = [
        port("lan", "af_packet:lan", "10.0.0.1/24"),
        port("wan", "af_xdp:wan", "192.0.2.1/24"),
        port("one", "af_packet:one", "10.0.1.1/24"),
        port("two", "af_packet:two", "10.0.2.1/24"),
    ];
    let two = |kind| (kind, json!({ "pairs": [["one", "two"]] }));
    let of = |functions: &[(&str, Json)]| {
        let loaded = loaded(&[&ports, functions].concat()).unwrap();
        ["lan", "wan", "one", "two"].map(|port| loaded.promiscuous(port))
    };
    let router = ("router", json!({ "ports": ["lan", "wan"] }));
    assert_eq!(of(&[router.clone(), two("forward")]), [false, false, true, true]);
    let gateway = json!({
        "access": ["one"], "core": ["two"], "local_address": "21.22.23.24", "routes": { "0.0.0.0/0": "west" },
        "gateways": { "west": { "port": "two", "address": "10.0.2.2" } },
    });
    assert_eq!(of(&[router.clone(), ("bng", gateway)]), [false; 4]);
    let shaper = json!({
        "from": "one", "to": "two", "users": [{ "tags": "100.1-8", "profile": "user" }],
        "scheduler": { "rate": "1 Gbit/s", "profiles": { "user": { "tb_rate": "1 Mbit/s" } } },
    });
    assert_eq!(of(&[router.clone(), ("qos", shaper)]), [false, false, true, true]);
    let generator = json!({ "streams": [{ "name": "s", "port": "one", "rate": "1 pps" }], "receive": ["two"] });
    assert_eq!(of(&[router.clone(), ("gen", generator)]), [false, false, true, true]);
    // A port that nobody has takes nothing.
    assert_eq!(of(&[router]), [false; 4]);
}
