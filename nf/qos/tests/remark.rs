//! Packets that leave with other DSCPs and priorities, and stages that come and go in a reload.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weir_wire::vlan::Vlan;
use weir_wire::{Ipv4, View, checksum};

use crate::common::*;

/// Two users, the first of whom is policed to 10 frames; the third pair of tags is nobody's.
fn keys(more: Value) -> Value {
    let mut keys = json!({
        "users": [{ "tags": "1.1", "profile": "policed" }, { "tags": "1.2", "profile": "free" }],
        "classify": { "dscp": { "ef": "0", "af11": "1" } },
        "scheduler": scheduler(json!({ "policed": { "tb_rate": "1 Gbit/s" }, "free": { "tb_rate": "1 Gbit/s" } })),
    });
    keys.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    keys
}

fn colours() -> Value {
    json!({ "policed": { "cir": "8 kbit/s", "cbs": "1240 B", "ebs": "620 B", "drop_red": false } })
}

/// What a frame left with: DSCP, ECN, priority and drop eligible indicator of the outer tag, and priority of the inner one.
fn marks(frame: &[u8]) -> (u8, u8, u8, bool, u8) {
    let (outer, inner) = (Vlan::view(&frame[14..]).unwrap(), Vlan::view(&frame[18..]).unwrap());
    let ip = Ipv4::view(&frame[22..]).unwrap();
    assert_eq!(checksum::checksum(&frame[22..42]), 0, "the checksum is right");
    (ip.tos >> 2, ip.tos & 3, outer.priority(), outer.drop_eligible(), inner.priority())
}

/// A frame whose checksum is right, and whose transport is capable of ECN.
fn sound(tags: (u16, u16), dscp: u8) -> Vec<u8> {
    let mut bytes = frame(tags, dscp, 0, 100);
    bytes[23] |= 2;
    assert!(weir_wire::ipv4::write_checksum(&mut bytes[22..]));
    bytes
}

fn sent_with(rig: &mut Rig, tags: (u16, u16), dscp: u8) -> (u8, u8, u8, bool, u8) {
    rig.send(0, sound(tags, dscp));
    rig.run(MS);
    let sent = rig.sent(1);
    assert_eq!(sent.len(), 1);
    marks(&sent[0])
}

#[test]
fn class_colour_and_dscp_say_what_packets_leave_with() {
    let mut rig = Rig::new(keys(json!({
        "police": colours(),
        "remark": [
            { "colour": "yellow", "dscp": "af12", "drop_eligible": true },
            { "colour": "red", "dscp": "af13", "priority": 1, "drop_eligible": true },
            { "class": 0, "priority": 5 },
            { "from": ["cs6", "cs7"], "dscp": "cs0" },
        ],
    })));
    // The bucket has room for ten frames of 124 bytes; five more are yellow, the rest red.
    let mut all = Vec::new();
    (0..17).for_each(|_| all.push(sent_with(&mut rig, (1, 1), 10)));
    let (green, yellow, red) = ((10, 2, 0, false, 0), (12, 2, 0, true, 0), (14, 2, 1, true, 0));
    assert_eq!(all, [vec![green; 10], vec![yellow; 5], vec![red; 2]].concat());
    // Nobody polices the other one.
    assert_eq!(sent_with(&mut rig, (1, 2), 46), (46, 2, 5, false, 0));
    assert_eq!(sent_with(&mut rig, (1, 2), 56), (0, 2, 0, false, 0));
    assert_eq!(sent_with(&mut rig, (1, 2), 8), (8, 2, 0, false, 0));
    rig.finish();
}

/// The class was told before the packet was remarked, and counts.
#[test]
fn a_packet_goes_by_the_dscp_that_it_came_with() {
    let mut rig = Rig::new(keys(json!({ "remark": [{ "class": 0, "dscp": "af11" }, { "class": 1, "dscp": "ef" }] })));
    assert_eq!(sent_with(&mut rig, (1, 2), 46).0, 10);
    assert_eq!(sent_with(&mut rig, (1, 2), 10).0, 46);
    let classes = rig.show("users", None);
    let of_free = classes.iter().find(|row| row["user"] == "1.2").unwrap();
    assert_eq!(of_free["packets"], 2);
    rig.finish();
}

#[test]
fn both_directions_are_remarked_where_both_are_shaped() {
    let mut rig = Rig::new(keys(json!({ "reverse": "shape", "remark": [{ "dscp": "cs1" }] })));
    rig.send(1, sound((1, 2), 46));
    rig.run(MS);
    let sent = rig.sent(0);
    assert_eq!(marks(&sent[0]).0, 8);
    assert_eq!(sent_with(&mut rig, (1, 2), 46).0, 8);
    rig.finish();
}

/// Stages come and go in a reload; what waits at the scheduler stays there.
#[test]
fn a_reload_brings_policers_and_remarking_and_takes_them_away() {
    let slow = |more: Value| {
        let mut keys = keys(more);
        keys["scheduler"]["profiles"]["free"]["tb_rate"] = json!("100 kbit/s");
        keys["scheduler"]["profiles"]["free"]["tb_size"] = json!("1 KiB");
        keys
    };
    let mut rig = Rig::new(slow(json!({})));
    (0..40).for_each(|n| rig.send(0, frame((1, 2), 0, n, 100)));
    rig.run(MS);
    let (before, waiting) = (rig.sent(1).len() as u64, rig.held());
    assert_eq!(before + waiting, 40);
    assert!(waiting > 20, "{waiting}");
    let police = json!({ "policed": { "cir": "8 kbit/s", "cbs": "124 B" } });
    rig.reload(slow(json!({ "police": police, "remark": [{ "dscp": "af41" }] })));
    assert_eq!(rig.held(), waiting);
    (0..3).for_each(|_| rig.send(0, sound((1, 1), 0)));
    rig.run(MS);
    assert_eq!(rig.drops(), BTreeMap::from([("qos.police/policed".to_owned(), 2)]));
    let sent = rig.sent(1);
    let remarked: Vec<&Vec<u8>> = sent.iter().filter(|frame| inner(frame) == 1).collect();
    assert_eq!((remarked.len(), marks(remarked[0]).0), (1, 34));
    // What waited comes as it would have.
    let before = before + sent.len() as u64 - 1;
    rig.reload(slow(json!({})));
    (0..3).for_each(|_| rig.send(0, sound((1, 1), 0)));
    rig.run(SECOND);
    let sent = rig.sent(1);
    let (of_one, of_two): (Vec<_>, Vec<_>) = sent.iter().partition(|frame| inner(frame) == 1);
    assert_eq!((of_one.len(), of_two.len() as u64), (3, 40 - before));
    assert_eq!(marks(of_one[0]).0, 0);
    rig.finish();
}

/// A reload decides what becomes of packets of nobody, too.
#[test]
fn a_reload_takes_everybody_else_in_and_drops_them_again() {
    let mut rig = Rig::new(keys(json!({})));
    let mut outcome = |keys: Option<Value>| {
        keys.into_iter().for_each(|keys| rig.reload(keys));
        let before = rig.drops().values().sum::<u64>();
        rig.send(0, frame((9, 9), 0, 0, 100));
        rig.run(MS);
        (rig.sent(1).len(), rig.drops().values().sum::<u64>() - before)
    };
    assert_eq!(outcome(None), (0, 1));
    assert_eq!(outcome(Some(keys(json!({ "others": "free" })))), (1, 0));
    assert_eq!(outcome(Some(keys(json!({})))), (0, 1));
    rig.finish();
}

#[test]
fn rules_that_cannot_be_are_refused_together() {
    let wrong = config(keys(json!({ "remark": [{ "class": 1 }, { "class": 6, "dscp": "ef" }, { "dscp": "ef" }] })));
    assert_eq!(
        messages(&wrong, None),
        [
            "test.lua:1: qos.remark: [1] sets nothing; give it `dscp`, `priority` or `drop_eligible`, or leave it out",
            "test.lua:1: qos.remark: [2] class: there is no class 6; the classes are 0 to 3",
        ]
    );
    let schema = |rule: Value| messages(&config(keys(json!({ "remark": [rule] }))), None);
    for rule in [json!({ "priority": 8 }), json!({ "dscp": "af14" }), json!({ "colour": "blue", "dscp": "ef" })] {
        assert_eq!(schema(rule.clone()).len(), 1, "{rule}");
    }
}
