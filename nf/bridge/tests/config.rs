//! What is said of configurations that are wrong: everything at once, with what to do.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use common::*;
use serde_json::json;

#[test]
fn what_is_wrong_is_told_at_once() {
    let told = messages(&json!({
        "tagging": "802.1q",
        "ports": {
            "a": {},
            "b": { "vlan": 10, "tagged": "5-20" },
            "c": { "vlan": 10, "accept": "tagged" },
            "d": { "tagged": "10", "accept": "untagged" },
        },
        "macs": [
            { "mac": "02:00:00:00:00:01", "port": "c" },
            { "mac": "01:00:00:00:00:01", "vlan": 10, "port": "e" },
            { "mac": "02:00:00:00:00:02", "vlan": 30, "port": "b" },
            { "mac": "02:00:00:00:00:03", "vlan": 10, "port": "b" },
            { "mac": "02:00:00:00:00:03", "vlan": 10 },
        ],
    }));
    let due = [
        "bridge.ports.a: is in no VLAN; name one by `vlan`, or some by `tagged`",
        "bridge.ports.b.tagged: has VLAN 10, whose frames have no tag here, as `vlan` says; leave it out of one of the two",
        "bridge.ports.c.accept: leaves only tagged frames, for which the port has no VLAN; name some by `tagged`, or leave `accept` out",
        "bridge.ports.d.accept: leaves only untagged frames, for which the port has no VLAN; name their VLAN by `vlan`, or leave `accept` out",
        "bridge.macs[1].vlan: is missing: a station of this bridge is in a VLAN; name it",
        "bridge.macs[2].mac: 01:00:00:00:00:01 is no address of a station; the lowest bit of its first byte says that it is a group's",
        "bridge.macs[2].port: \"e\" is no port of this bridge; it has a, b, c, d",
        "bridge.macs[3].port: \"b\" is not in VLAN 30; put it there by `vlan` or `tagged`, or name another port",
        "bridge.macs[5]: 02:00:00:00:00:03 vlan 10 is number 4, too; leave one out",
    ];
    let due: Vec<String> = due.iter().map(|line| format!("test.lua:1: {line}")).collect();
    assert_eq!(told, due);
}

#[test]
fn keys_of_tags_mean_nothing_without_them() {
    let told = messages(
        &json!({ "ports": { "a": { "vlan": 1, "tagged": "2", "accept": "all" } }, "macs": [{ "mac": "02:00:00:00:00:01", "vlan": 3 }] }),
    );
    assert_eq!(told.len(), 3);
    assert!(
        told.iter().all(|line| line.contains("means nothing to a bridge that takes no notice of tags")),
        "{told:?}"
    );
    for (keys, words) in [
        (json!({ "ports": {} }), "ports"),
        (json!({ "ports": { "a": { "vlan": 4095 } } }), "4095 is out of range"),
        (json!({ "ports": { "x": {} } }), "names no port"),
        (json!({ "ports": { "a": {} }, "ageing": "10 ms" }), "out of range"),
        (json!({ "ports": { "a": { "storm": { "broadcast": "10 Mbit/s" } } } }), "storm.broadcast"),
        (json!({ "ports": { "a": { "tagged": "10-5" } } }), "VLANs"),
    ] {
        let told = messages(&keys);
        assert!(told.iter().any(|line| line.contains(words)), "{told:?}");
    }
}

#[test]
fn a_reload_that_is_wrong_changes_nothing() {
    let mut rig = bridge(json!({ "ports": { "a": {}, "b": {} } }));
    rig.pass(1, &[frame(BROADCAST, mac(2), 0)]);
    let told =
        rig.refused(json!({ "ports": { "a": {}, "b": {} }, "macs": [{ "mac": "02:00:00:00:00:02", "port": "c" }] }));
    assert_eq!(told.len(), 1);
    assert_eq!(rig.ways(0, frame(mac(2), mac(1), 0)), "b");
    rig.finish();
}
