//! The routed side: interfaces at the other end of a joint, which the bridge is told of.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::sync::Arc;

use crate::common;

use common::*;
use serde_json::{Value, json};
use weir_config::{Key, Table};
use weir_packet::Batch;
use weir_stage::{Beyond, Function, InterfaceSet, Switched, TagInfo};

/// Interfaces in these VLANs, whatever the port.
struct Vlans(&'static [u16]);

impl InterfaceSet for Vlans {
    fn select(&self, _batch: &Batch, _among: u64) -> u64 {
        0
    }

    fn has(&self, _port: u16, tags: &[TagInfo]) -> bool {
        matches!(tags, [tag] if self.0.contains(&tag.vlan))
    }

    fn has_vlan(&self, _port: u16, vlan: u16) -> bool {
        self.0.contains(&vlan)
    }
}

/// The address of the interfaces.
const GATEWAY: [u8; 6] = mac_of(0xfe);

const fn mac_of(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

/// Interfaces of two functions in these VLANs.
fn beyond(one: &'static [u16], other: &'static [u16]) -> Beyond {
    Beyond { port: 77, mac: GATEWAY, sets: vec![Arc::new(Vlans(one)), Arc::new(Vlans(other))] }
}

/// Access ports in VLANs 10 and 20, a trunk, and the routed side `d`.
fn keys(routed: Value) -> Value {
    json!({ "tagging": "802.1q", "ports": {
        "a": { "vlan": 10 }, "b": { "vlan": 20 }, "c": { "tagged": "10,20,30" }, "d": routed,
    } })
}

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;

/// A frame as it is on a trunk.
fn in_vlan(frame: Vec<u8>, vlan: u16) -> Vec<u8> {
    tagged(frame, &[(0x8100, vlan)])
}

#[test]
fn floods_of_the_vlans_of_interfaces_go_there_and_no_others() {
    let mut rig = bridge(keys(json!({ "routed": true })));
    assert_eq!(rig.ways(A, frame(BROADCAST, mac(1), 0)), "c", "nobody is beyond it yet");
    rig.instance.joined_to(D as u16, &beyond(&[10], &[30]));
    assert_eq!(rig.ways(A, frame(BROADCAST, mac(1), 0)), "cd");
    assert_eq!(rig.ways(B, frame(BROADCAST, mac(2), 0)), "c");
    assert_eq!(rig.ways(C, in_vlan(frame(BROADCAST, mac(3), 0), 30)), "d");
    // With their tag.
    let sent = rig.pass(A, &[frame(BROADCAST, mac(1), 7)]);
    assert_eq!(sent[D], [in_vlan(frame(BROADCAST, mac(1), 7), 10)]);
    // One comes, and one goes.
    rig.instance.joined_to(D as u16, &beyond(&[20], &[30]));
    assert_eq!(rig.ways(A, frame(BROADCAST, mac(1), 0)), "c");
    assert_eq!(rig.ways(B, frame(BROADCAST, mac(2), 0)), "cd");
    let row = &rig.show("bridge-ports", Some("d"))[0];
    assert_eq!(row["tagged"], "20,30");
    rig.finish();
}

#[test]
fn interfaces_are_stations_that_nobody_takes_the_place_of() {
    let mut rig = bridge(keys(json!({ "routed": true })));
    rig.instance.joined_to(D as u16, &beyond(&[10, 20], &[]));
    // They are known though they have said nothing, in their VLANs alone.
    assert_eq!(rig.ways(A, frame(GATEWAY, mac(1), 0)), "d");
    assert_eq!(rig.ways(B, frame(GATEWAY, mac(2), 0)), "d");
    assert_eq!(rig.ways(C, in_vlan(frame(GATEWAY, mac(3), 0), 30)), "", "nobody else is in VLAN 30");
    let gateway = "02:00:00:00:00:fe";
    let rows = rig.show("macs", Some(gateway));
    let shown: Vec<_> = rows.iter().map(|row| (&row["vlan"], &row["port"], &row["source"], &row["age_s"])).collect();
    let (source, port, nothing) = (json!("interface"), json!("d"), Value::Null);
    assert_eq!(shown.len(), 2);
    for (vlan, at, by, age) in shown {
        assert!([json!(10), json!(20)].contains(vlan));
        assert_eq!((at, by, age), (&port, &source, &nothing));
    }
    // A host that says it is one of them is not believed, nor is it the other way round a reason to learn.
    rig.pass(A, &[frame(BROADCAST, GATEWAY, 0)]);
    assert_eq!(rig.ways(C, in_vlan(frame(GATEWAY, mac(3), 0), 10)), "d");
    // They do not age, nor are they flushed.
    rig.run(1_000 * SECOND);
    rig.request("mac flush", json!({})).unwrap();
    assert_eq!(rig.ways(A, frame(GATEWAY, mac(1), 0)), "d");
    // What they send goes straight to stations that are known.
    rig.pass(B, &[frame(BROADCAST, mac(2), 0)]);
    assert_eq!(rig.ways(D, in_vlan(frame(mac(2), GATEWAY, 0), 20)), "b");
    assert_eq!(rig.gauge("bridge_mac_moves"), 0.0);
    // What somebody says of such a station counts more, until it is taken back.
    let said = json!({ "mac": gateway, "vlan": "10", "port": "c" });
    rig.request("mac add", said).unwrap();
    assert_eq!(rig.ways(A, frame(GATEWAY, mac(1), 0)), "c");
    rig.request("mac del", json!({ "mac": gateway, "vlan": "10" })).unwrap();
    assert_eq!(rig.ways(A, frame(GATEWAY, mac(1), 0)), "d");
    // Gone, it is a station like any other.
    rig.instance.joined_to(D as u16, &beyond(&[20], &[]));
    assert_eq!(rig.show("macs", Some(gateway)).len(), 1);
    assert_eq!(rig.ways(A, frame(GATEWAY, mac(1), 0)), "c");
    rig.finish();
}

#[test]
fn a_bridge_without_vlans_has_one_station_there() {
    let mut rig = bridge(json!({ "ports": { "a": {}, "b": {}, "d": { "routed": true } } }));
    rig.instance.joined_to(D as u16, &beyond(&[], &[]));
    assert_eq!(rig.ways(A, frame(GATEWAY, mac(1), 0)), "d");
    assert_eq!(rig.ways(A, frame(BROADCAST, mac(1), 0)), "bd");
    assert_eq!(rig.show("macs", Some("d"))[0]["source"], "interface");
    rig.finish();
}

#[test]
fn other_ports_are_told_nothing() {
    let mut rig = bridge(keys(json!({ "tagged": "10" })));
    rig.instance.joined_to(D as u16, &beyond(&[10, 20], &[]));
    assert_eq!(rig.ways(A, frame(GATEWAY, mac(1), 0)), "cd", "it is not known");
    assert_eq!(rig.ways(B, frame(BROADCAST, mac(2), 0)), "c");
    rig.finish();
}

#[test]
fn a_routed_side_hears_groups_that_nobody_there_reports() {
    let mut keys = keys(json!({ "routed": true }));
    keys["snooping"] = json!({ "enabled": true, "unregistered": "routers" });
    let mut rig = bridge(keys);
    rig.instance.joined_to(D as u16, &beyond(&[10], &[]));
    let mut solicitation = frame([0x33, 0x33, 0xff, 0, 0, 1], mac(1), 0);
    // IPv6 to ff02::1:ff00:1, where neighbours ask who has an address.
    solicitation[12..14].copy_from_slice(&[0x86, 0xdd]);
    solicitation[14] = 0x60;
    solicitation[20] = 17;
    solicitation[38..54].copy_from_slice(&[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 1]);
    assert_eq!(rig.ways(A, solicitation), "d");
    rig.finish();
}

#[test]
fn what_is_built_anew_knows_interfaces_before_it_is_told() {
    let mut rig = bridge(keys(json!({ "routed": true })));
    rig.instance.joined_to(D as u16, &beyond(&[10, 20], &[]));
    let anew = rig.rebuilt(json!({ "tagging": "802.1q", "ports": {
        "a": { "vlan": 10 }, "d": { "routed": true }, "e": { "vlan": 10 },
    } }));
    rig.replace(anew);
    assert_eq!(rig.ways(A, frame(GATEWAY, mac(1), 0)), "d");
    assert_eq!(rig.ways(A, frame(BROADCAST, mac(1), 0)), "de");
    // One that is no routed side any more is told so.
    rig.reload(json!({ "tagging": "802.1q", "ports": {
        "a": { "vlan": 10 }, "d": { "vlan": 10 }, "e": { "vlan": 10 },
    } }));
    rig.instance.joined_to(D as u16, &beyond(&[10, 20], &[]));
    assert_eq!(rig.show("macs", Some("02:00:00:00:00:fe")), Vec::<Value>::new());
    rig.finish();
}

fn table(keys: &Value) -> Table {
    weir_rig::script(keys).as_table().cloned().unwrap_or_default()
}

#[test]
fn what_is_switched_is_read_of_what_is_written() {
    let switched = |keys: &Value| weir_bridge::Bridge.switched(&table(keys)).unwrap();
    let none = switched(&json!({}));
    assert_eq!(none, Switched::default());
    let found = switched(&json!({ "tagging": "802.1ad", "ports": {
        "a": { "vlan": 10 }, "b": { "tagged": "20-22" }, "c": { "vlan": 5, "tagged": 7 }, "d": { "tagged": "9-3" }, "e": { "vlan": "x" },
    } }));
    assert_eq!(found.tpid, Some(0x88a8));
    assert_eq!(Vec::from_iter(found.vlans), [5, 7, 10, 20, 21, 22]);
    assert_eq!(Vec::from_iter(found.ports), ["a", "b", "c", "d", "e"]);
}

#[test]
fn a_port_is_added_to_what_is_written() {
    let added = |keys: Value, vlans: &[u16]| {
        let mut keys = table(&keys);
        weir_bridge::Bridge.add_port(&mut keys, "x:routed", &vlans.iter().copied().collect());
        let ports = keys.get("ports").unwrap().as_table().unwrap();
        ports.0.get(&Key::from("x:routed")).unwrap().to_string()
    };
    assert_eq!(
        added(json!({ "tagging": "802.1q", "ports": { "a": { "vlan": 1 } } }), &[1, 2, 3, 9]),
        "{ routed = true, tagged = \"1-3,9\" }"
    );
    assert_eq!(added(json!({ "ports": { "a": {} } }), &[]), "{ routed = true }");
    // Without VLANs, what has tags passes as it is.
    assert_eq!(added(json!({ "ports": [] }), &[7]), "{ routed = true }");
}
