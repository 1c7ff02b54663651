//! Untagged packets of a port that belong to an interface of another name, or to nobody: so it is on the routed side of a bridge.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::six::{LEFT_MAC, RIGHT_MAC};
use common::*;
use serde_json::json;
use weir_stage::InterfaceInfo;

const PORTS: &[PortSpec] = &[PortSpec("side", &[], 1500), PortSpec("wan", &["192.0.2.1/24"], 1500)];

fn rig(interfaces: Vec<InterfaceInfo>) -> Rig {
    // Hosts of the networks that there are.
    let hosts = [("10.0.0.9", LEFT_MAC), ("10.0.5.9", LEFT_MAC), ("192.0.2.9", RIGHT_MAC)];
    let is_connected = |host: &str| {
        let mut nets = interfaces.iter().flat_map(|info| &info.addresses).map(|address| address.net().trunc());
        host.starts_with("192") || nets.any(|net| net.contains(&host.parse::<std::net::IpAddr>().unwrap()))
    };
    let known = hosts.iter().filter(|(host, _)| is_connected(host));
    let neighbors: serde_json::Map<_, _> =
        known.map(|(host, mac)| ((*host).to_owned(), json!(mac.to_string()))).collect();
    let config = json!({ "neighbors": neighbors, "neighbor_timers": { "own_probes": 0 } });
    let mut rig = Rig::with(PORTS, interfaces, config);
    rig.settle();
    (0..2).for_each(|port| drop(rig.sent(port)));
    rig
}

/// Packets that came and went by an interface.
fn counts(rig: &Rig, name: &str) -> [u64; 2] {
    let rows = rig.show("interfaces");
    let row = rows.iter().find(|row| row["name"] == name).unwrap();
    ["rx_packets", "tx_packets"].map(|key| row[key].as_u64().unwrap())
}

#[test]
fn they_belong_to_the_interface_that_is_declared_for_them() {
    let mut inside = interface("inside", Some("side"), &[], &["10.0.0.1/24"]);
    inside.mtu = Some(1400);
    let five = interface("five", Some("side"), &[(0x8100, 5)], &["10.0.5.1/24"]);
    let mut rig = rig(vec![inside, five]);
    let shown = rig.show("interfaces");
    let names: Vec<_> = shown.iter().map(|row| (row["name"].as_str().unwrap(), row["mtu"].as_u64().unwrap())).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.contains(&("inside", 1400)) && names.contains(&("wan", 1500)), "{names:?}");
    let before = counts(&rig, "inside");
    let frame = rig.udp(0, "10.0.0.9", "192.0.2.9").to_vec(&[7; 30]);
    rig.send(0, frame);
    let frame = rig.udp(1, "192.0.2.9", "10.0.0.9").to_vec(&[7; 30]);
    rig.send(1, frame);
    rig.settle();
    assert_eq!((rig.sent(1).len(), rig.sent(0).len()), (1, 1), "{:?}", rig.drops());
    assert_eq!(counts(&rig, "inside"), before.map(|packets| packets + 1));
    // It is set like any other.
    rig.request("interface set", json!({ "name": "inside", "state": "down" })).unwrap();
    let frame = rig.udp(0, "10.0.0.9", "192.0.2.9").to_vec(&[7; 30]);
    rig.send(0, frame);
    rig.settle();
    assert_eq!(rig.drops(), [("router.forward/interface-down".to_owned(), 1)].into());
    rig.finish();
}

#[test]
fn they_may_be_nobodys() {
    let mut nobody = interface("side", Some("side"), &[], &[]);
    nobody.of = String::new();
    let five = interface("five", Some("side"), &[(0x8100, 5)], &["10.0.5.1/24"]);
    let mut rig = rig(vec![nobody, five]);
    let shown = rig.show("interfaces");
    let names: Vec<_> = shown.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert!(!names.contains(&"side") && names.len() == 2, "{names:?}");
    let frame = rig.udp(0, "10.0.0.9", "192.0.2.9").to_vec(&[7; 30]);
    rig.send(0, frame);
    rig.settle();
    // As by an interface that is down.
    assert_eq!(rig.drops(), [("router.forward/interface-down".to_owned(), 1)].into());
    rig.finish();
}
