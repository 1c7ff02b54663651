//! Every key that `--json` prints is described in `docs/json.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use common::{Folder, Running, WEIR, everything, frames, pcap, text, weir};
use serde_json::{Deserializer, Value};

/// Objects whose keys are names.
const BY_NAME: &[&str] = &["ports", "ways", "rx_lost", "key", "parameters", "configurations", "settings", "versions"];

/// All keys in a value. The rows of a table have its columns as keys, which are those of functions.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                found.insert(key.clone());
                match value {
                    Value::Object(inner) if BY_NAME.contains(&key.as_str()) => {
                        inner.values().for_each(|value| keys(value, found));
                    }
                    _ if key == "rows" => {}
                    value => keys(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

/// What a command printed must be data, whose keys are described.
fn described(what: &str, printed: &str, least: usize) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/json.md");
    let document = std::fs::read_to_string(path).unwrap();
    let mut found = BTreeSet::new();
    for value in Deserializer::from_str(printed).into_iter::<Value>() {
        keys(&value.unwrap_or_else(|error| panic!("{what}: {error}: {printed}")), &mut found);
    }
    let missing: Vec<&String> = found.iter().filter(|key| !document.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/json.md does not mention what {what} prints: {missing:?}");
    assert!(found.len() >= least, "{what}: only {} keys were found in {printed}", found.len());
}

fn printed(arguments: &[&str]) -> String {
    let output = weir(arguments);
    assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn keys_of_what_a_running_weir_tells() {
    let (_folder, running) = everything::start("json");
    let asked: [(&[&str], usize); 16] = [
        (&["show", "stats"], 60),
        (&["show", "graph"], 8),
        (&["show", "ports"], 3),
        (&["show", "routes"], 3),
        (&["show", "cycles"], 10),
        (&["show", "stages"], 8),
        (&["show", "links"], 5),
        (&["show", "drops"], 2),
        (&["version"], 6),
        (&["log"], 2),
        (&["save"], 2),
        (&["reload", "--dry-run"], 4),
        (&["route", "add", "203.0.113.128/25", "via", "192.0.2.9"], 3),
        (&["neighbor", "add", "192.0.2.9", "mac", "02:00:00:00:00:09"], 3),
        (&["subscriber", "add", "7", "8"], 3),
        (&["user", "set", "1.2", "profile", "two"], 3),
    ];
    for (arguments, least) in asked {
        // The gateway has routes and neighbours, too.
        let of_several = ["routes", "route", "neighbor"].iter().any(|noun| arguments.contains(noun));
        let function: &[&str] = if of_several { &["--function", "router"] } else { &[] };
        described(&arguments.join(" "), &running.say(&[arguments, function, &["--json"]].concat()), least);
    }
    described("a failure", &text(&running.ask(&["show", "ports", "nosuch", "--json"]).stdout), 4);
}

#[test]
fn keys_of_what_is_told_while_packets_flow() {
    let folder = Folder::new("json-flow");
    folder.write("in.pcap", pcap(&frames(100)));
    let script = r#"
        port { name = "in", device = "mem:replay=in.pcap,rate=20 kpps" }
        port { name = "out", device = "mem:null" }
        forward { paths = { "in -> out" } }"#;
    let running = Running::start(&folder, script, &["--json"]);
    described("trace", &running.say(&["trace", "-n", "1", "--json"]), 8);
    let watching = ["show", "stats", "--watch", "--json", "--socket", &running.socket];
    let mut watching = Command::new(WEIR).args(watching).stdout(Stdio::piped()).spawn().unwrap();
    let looks = Deserializer::from_reader(watching.stdout.take().unwrap()).into_iter::<Value>();
    let second = looks.map(Result::unwrap).nth(1).unwrap();
    watching.kill().unwrap();
    watching.wait().unwrap();
    assert!(second["rates"].is_object(), "{second}");
    described("show stats --watch", &second.to_string(), 70);
    let (last, status) = running.stop_by("TERM");
    assert_eq!(status, Some(0));
    described("run", &last, 50);
}

#[test]
fn keys_of_what_other_commands_print() {
    let folder = Folder::new("json-others");
    let good = folder.write("good.lua", 
        "for _, name in ipairs { 'a', 'b', 'idle' } do port { name = name, device = 'mem:null' } end forward { paths = { 'a -> b' } }",
    );
    let checked = printed(&["check", good.to_str().unwrap(), "--json"]);
    assert!(checked.contains("idle"), "a warning is among it: {checked}");
    described("check", &checked, 5);
    let wrong = folder.write("wrong.lua", "port { name = 5 }");
    described("check of what is wrong", &text(&weir(&["check", wrong.to_str().unwrap(), "--json"]).stdout), 9);
    let looped = folder.write(
        "looped.lua",
        "engine { clock = 'virtual' } port { name = 'loop', device = 'mem:loop' }
        gen { streams = { { port = 'loop', rate = '10 kpps', count = 50, signature = true } }, receive = 'loop' }",
    );
    let told = printed(&["gen", looped.to_str().unwrap(), "--json"]);
    assert!(told.contains("\"latency_ns\""), "what came back is measured: {told}");
    described("gen", &told, 60);
    // The second packet is of before the first.
    let mut backwards = pcap(&frames(3));
    backwards[24 + 16 + frames(1)[0].len()..][..4].copy_from_slice(&1_u32.to_le_bytes());
    let file = folder.write("backwards.pcap", backwards);
    let (file, out) = (file.to_str().unwrap(), format!("pcap:,{}", folder.path("out.pcap")));
    let replayed = printed(&["gen", "--port", &out, "--replay", file, "--timing", "recorded", "--json"]);
    assert!(replayed.contains("\"remark\""), "{replayed}");
    described("gen --replay", &replayed, 30);
    described("flowstat", &printed(&["flowstat", file, file, "--json"]), 60);
    described("doctor", &text(&weir(&["doctor", "--json"]).stdout), 5);
    described("bench cpp", &printed(&["bench", "cpp", "forward", "--runs", "1", "--json"]), 40);
}
