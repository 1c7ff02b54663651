//! What is saved while others change it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use std::collections::BTreeSet;

use common::*;
use serde_json::json;
use weir_stage::{PIECE, Saved};

/// The prefix of route `number`.
fn prefix(number: usize) -> String {
    format!("11.{}.{}.0/24", number / 256, number % 256)
}

fn add(rig: &Rig, numbers: impl Iterator<Item = usize>) {
    let list: Vec<_> = numbers.map(|number| json!({ "prefix": prefix(number), "via": "10.0.1.9" })).collect();
    rig.request("route add", list.into()).unwrap();
}

fn delete(rig: &Rig, numbers: impl Iterator<Item = usize>) {
    let list: Vec<_> = numbers.map(|number| json!({ "prefix": prefix(number) })).collect();
    rig.request("route del", list.into()).unwrap();
}

fn prefixes(saved: &[Saved]) -> Vec<String> {
    saved.iter().map(|saved| saved.arguments["prefix"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_there_all_the_time_is_saved_once() {
    const ALL: usize = 5 * PIECE + 7;
    let rig = Rig::new(TWO, json!({}));
    add(&rig, 0..ALL);
    let mut table = rig.instance.save();
    let first = table.piece();
    assert_eq!(first.len(), PIECE);
    // Some of those that were told go, and some that were not; some of either come again; others come.
    delete(&rig, (0..ALL).step_by(3));
    add(&rig, (0..ALL).step_by(6));
    add(&rig, ALL..ALL + 2000);
    let all: Vec<Saved> = first.into_iter().chain(all_rows(table)).collect();
    let saved = prefixes(&all);
    let once: BTreeSet<&String> = saved.iter().collect();
    assert_eq!(once.len(), saved.len(), "nothing twice");
    assert!((0..ALL).filter(|number| number % 3 != 0).all(|number| once.contains(&prefix(number))));
    assert!(once.iter().all(|prefix| prefix.starts_with("11.")));
    rig.finish();
}

#[test]
fn the_end_is_told_only_once_everything_was() {
    let rig = Rig::new(TWO, json!({ "neighbor_timers": { "own_probes": 0 } }));
    add(&rig, 0..3 * PIECE);
    rig.request("neighbor add", json!({ "address": "10.0.1.9", "mac": "02:00:00:00:07:07" })).unwrap();
    let mut table = rig.instance.save();
    assert_eq!(table.piece().len(), PIECE);
    // All of the next piece is gone, and the one behind it is not.
    delete(&rig, PIECE..2 * PIECE);
    let rest = all_rows(table);
    assert_eq!(rest.len(), PIECE + 1);
    assert_eq!(rest.last().unwrap().verb, "neighbor add");
    rig.finish();
}
