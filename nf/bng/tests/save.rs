//! What is saved while others change it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use std::collections::BTreeSet;

use common::*;
use serde_json::{Value, json};
use weir_stage::{PIECE, Saved};

fn subscriber(number: usize) -> Value {
    json!({ "svlan": 200 + number / 4000, "cvlan": 1 + number % 4000, "key": 1000 + number })
}

fn tags(saved: &Value) -> (u64, u64) {
    (saved["svlan"].as_u64().unwrap(), saved["cvlan"].as_u64().unwrap())
}

fn ask(rig: &Rig, verb: &str, numbers: impl Iterator<Item = usize>) {
    for number in numbers {
        let mut arguments = subscriber(number);
        if verb == "subscriber del" {
            arguments.as_object_mut().unwrap().remove("key");
        }
        rig.request(verb, arguments).unwrap();
    }
}

#[test]
fn who_is_there_all_the_time_is_saved_once() {
    const ALL: usize = 5 * PIECE + 7;
    let rig = Rig::new(TWO, tunnels());
    ask(&rig, "subscriber add", 0..ALL);
    let mut table = rig.instance.save();
    let first = table.piece();
    assert_eq!(first.len(), PIECE);
    // Some of those that were told go, and some that were not; some of either come again, in other places; others come.
    ask(&rig, "subscriber del", (0..ALL).step_by(3));
    ask(&rig, "subscriber add", (0..ALL).step_by(6).rev());
    ask(&rig, "subscriber add", ALL..ALL + 2000);
    let all: Vec<Saved> = first.into_iter().chain(all_rows(table)).collect();
    let saved: Vec<(u64, u64)> = all.iter().map(|saved| tags(&saved.arguments)).collect();
    assert!(saved.is_sorted());
    let once: BTreeSet<(u64, u64)> = saved.iter().copied().collect();
    assert_eq!(once.len(), saved.len(), "nobody twice");
    assert!((0..ALL).filter(|number| number % 3 != 0).all(|number| once.contains(&tags(&subscriber(number)))));
    assert!(once.iter().all(|(svlan, _)| *svlan >= 200), "those of the configuration are not saved");
    // Each as it was added.
    let wrong = all.iter().find(|saved| {
        let (svlan, cvlan) = tags(&saved.arguments);
        saved.arguments["key"] != json!(1000 + (svlan - 200) * 4000 + cvlan - 1)
            || saved.entry.as_ref() != Some(&saved.arguments)
    });
    assert_eq!(wrong, None);
}
