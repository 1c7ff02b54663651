//! `weir flowstat` in the whole program, on captures that the program made itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Folder, text, weir};
use serde_json::{Value, json};

/// A capture of packets that carry a signature.
fn generated(folder: &Folder, name: &str, more: &[&str]) -> String {
    let path = folder.path(name);
    let port = format!("pcap:,{path}");
    let output =
        weir(&[&["gen", "--port", &port, "--rate", "1 Mpps", "--count", "1000", "--signature"], more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    path
}

fn analysed(arguments: &[&str]) -> Value {
    let output = weir(&[&["flowstat"], arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A capture without the records that `keep` does not want, and with those moved by so many nanoseconds.
fn changed(capture: &str, keep: impl Fn(usize) -> bool, later: u32) -> Vec<u8> {
    let bytes = std::fs::read(capture).unwrap();
    let (header, mut records) = bytes.split_at(24);
    let mut all = header.to_vec();
    for n in 0.. {
        let Some(length) = records.get(8..12) else { break };
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let (record, rest) = records.split_at(16 + length);
        records = rest;
        if keep(n) {
            let nanos = u32::from_le_bytes(record[4..8].try_into().unwrap()) + later;
            all.extend_from_slice(&record[..4]);
            all.extend_from_slice(&nanos.to_le_bytes());
            all.extend_from_slice(&record[8..]);
        }
    }
    all
}

#[test]
fn what_was_lost_and_how_late_the_rest_came_is_told() {
    let folder = Folder::new("flowstat");
    let sent = generated(&folder, "sent.pcap", &[]);
    let received = folder.write("received.pcap", changed(&sent, |n| n % 100 >= 3, 250));
    let received = received.to_str().unwrap();
    for model in [&["--model", "signature", "--by", "signature"][..], &[]] {
        let report = analysed(&[&[sent.as_str(), received], model].concat());
        assert_eq!(report["version"], json!(1));
        let counts = ["sent", "received", "matched", "lost", "duplicated", "ambiguous", "reordered", "unmatched"];
        let counts = counts.map(|name| report["total"][name].as_u64().unwrap());
        assert_eq!(counts, [1000, 970, 970, 30, 0, 0, 0, 0]);
        let stream = &report["streams"][0];
        assert_eq!((&stream["latency_ns"]["min"], &stream["latency_ns"]["max"]), (&json!(250), &json!(250)));
        assert_eq!((&stream["loss"]["periods"], &stream["loss"]["lengths"]["max"]), (&json!(10), &json!(3)));
    }
    let output = weir(&["flowstat", &sent, received, "--by", "file", "--clock", "offset"]);
    let shown = text(&output.stdout);
    assert!(output.status.success() && shown.contains("1 of 1") && shown.contains("3.0000 %"), "{shown}");
    assert!(shown.contains("only how delays vary"), "{shown}");
}

#[test]
fn a_damaged_file_is_told_and_read_up_to_the_damage() {
    let folder = Folder::new("flowstat-damaged");
    let sent = generated(&folder, "sent.pcap", &[]);
    let whole = std::fs::read(&sent).unwrap();
    let received = folder.write("cut.pcap", &whole[..whole.len() / 2]);
    let output = weir(&["flowstat", &sent, received.to_str().unwrap(), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let matched = report["total"]["matched"].as_u64().unwrap();
    assert!((400..600).contains(&matched), "{matched}");
    let told = report["partial"][0].as_str().unwrap();
    assert!(told.contains("cut.pcap") && told.contains(&format!("record {matched}")), "{told}");
    assert!(text(&output.stderr).contains(told));
}

/// All keys but the fields of streams, whose names are the user's choice.
fn keys(value: &Value, found: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                found.insert(key.clone());
                if key != "key" {
                    keys(value, found);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn every_key_of_the_json_is_described() {
    let folder = Folder::new("flowstat-keys");
    let sent = generated(&folder, "sent.pcap", &[]);
    let received = folder.write("received.pcap", changed(&sent, |n| n % 10 != 3, 250));
    let more = ["--by", "src", "--rate", "1 Mbit/s", "--burst", "1 KiB"];
    let report = analysed(&[&[sent.as_str(), received.to_str().unwrap()], &more[..]].concat());
    let mut found = std::collections::BTreeSet::new();
    keys(&report, &mut found);
    let document = include_str!("../../docs/json.md");
    let missing: Vec<&String> = found.iter().filter(|key| !document.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty() && found.len() > 80, "docs/json.md does not mention {missing:?} of {}", found.len());
}

/// The script of the manual's page, and what a wrong one is told.
#[test]
fn a_script_says_what_packets_are_known_by() {
    let folder = Folder::new("flowstat-script");
    let sent = generated(&folder, "sent.pcap", &[]);
    let script = folder.write("keys.lua", "match { sent = { 'src', 'payload' }, received = { 'src', 'payload' } }\n");
    let report = analysed(&[&sent, &sent, "--model", "custom", "--keys", script.to_str().unwrap()]);
    assert_eq!((&report["total"]["matched"], &report["total"]["ambiguous"]), (&json!(1000), &json!(0)));
    let wrong = folder.write("wrong.lua", "match { sent = { 'scr' }, received = { 'src', 'id' } }\n");
    let output = weir(&["flowstat", &sent, &sent, "--model", "custom", "--keys", wrong.to_str().unwrap()]);
    let told = text(&output.stderr);
    assert!(told.contains("did you mean src?") && told.contains("name as many on both sides"), "{told}");
}

#[test]
fn its_speed_is_measured_and_what_it_finds_is_checked() {
    let folder = Folder::new("flowstat-bench");
    let words = ["bench", "flowstat", "--packets", "3000", "--runs", "1", "--memory", "64 KiB", "--json", "--folder"];
    let output = weir(&[&words[..], &[folder.0.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["points"][0]["figures"][0]["name"], json!("time"));
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0, "nothing stays");
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let refused = |arguments: &[&str]| {
        let output = weir(&[&["flowstat"], arguments].concat());
        assert!(!output.status.success() && output.stdout.is_empty());
        text(&output.stderr)
    };
    let told =
        refused(&["/no/a", "/no/b", "--by", "colour", "--filter-sent", "prot tcp", "--filter-received", "udp and"]);
    for mistake in ["\"colour\" is no field", "--filter-sent: column", "--filter-received: column"] {
        assert!(told.contains(mistake), "{told}");
    }
    let told = refused(&["/no/a", "/no/b"]);
    assert!(told.contains("/no/a") && told.contains("/no/b"), "{told}");
    assert!(refused(&["a", "b", "--window", "5"]).contains("write it as in \"5 ms\""));
    assert!(refused(&["a", "b", "--rate", "1 Mbit/s"]).contains("--burst"));
}
