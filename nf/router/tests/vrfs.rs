//! VRFs: a packet is looked up in the tables of the VRF of the interface that it came in by, and in no other.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use crate::common;

use common::sides::{C, tagged};
use common::*;
use serde_json::{Value, json};
use weir_stage::InterfaceInfo;
use weir_wire::MacAddr;

/// Two ports in the default VRF and two in another, with the same addresses.
const PORTS: &[PortSpec] = &[
    PortSpec("left", &["10.0.0.1/24", "2001:db8:0::1/64"], 1500),
    PortSpec("right", &["10.0.1.1/24", "2001:db8:1::1/64"], 1500),
    PortSpec("blue-left", &["10.0.0.1/24", "2001:db8:0::1/64"], 1500),
    PortSpec("blue-right", &["10.0.1.1/24", "2001:db8:1::1/64"], 1500),
];

const fn mac(vrf: u8, last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, vrf, last])
}

/// Routes and neighbours of a VRF, by whose number their stations are told apart.
fn entries(vrf: u8) -> Value {
    let neighbors: serde_json::Map<_, _> = ["2001:db8:1::9", "2001:db8:1::8", "10.0.1.9", "10.0.1.8"]
        .iter()
        .zip([9, 8, 9, 8])
        .map(|(host, last)| ((*host).to_owned(), json!(mac(vrf, last).to_string())))
        .collect();
    json!({
        "neighbors": neighbors,
        "routes": {
            "192.0.2.0/24": "10.0.1.9",
            "2001:db8:100::/40": "2001:db8:1::9",
            "2001:db8:200::/48": ["2001:db8:1::9", "2001:db8:1::8"],
            "198.51.100.0/24": ["10.0.1.9", "10.0.1.8"],
        },
    })
}

fn config() -> Value {
    let mut config = entries(0);
    let mut blue = entries(1);
    blue["routes"]["203.0.113.0/24"] = json!("10.0.1.8");
    blue["routes"]["2001:db8:300::/48"] = json!("2001:db8:1::8");
    // From one VRF to another.
    config["routes"]["203.0.114.0/24"] = json!("10.0.1.8%blue-right");
    config["routes"]["2001:db8:400::/48"] = json!("2001:db8:1::8%blue-right");
    config["vrfs"] = json!({ "blue": blue });
    config["neighbor_timers"] = json!({ "own_probes": 0 });
    config
}

fn quiet(mut rig: Rig) -> Rig {
    rig.run(5 * SECOND);
    (0..rig.infos.len()).for_each(|port| drop(rig.sent(port)));
    rig
}

fn rig() -> Rig {
    quiet(Rig::new(PORTS, config()))
}

/// A packet of either family to the router on a port.
fn to(rig: &Rig, port: usize, destination: &str) -> Vec<u8> {
    match destination.contains(':') {
        true => rig.udp6(port, "2001:db8:0::9", destination).to_vec(&[7; 18]),
        false => rig.udp(port, "10.0.0.9", destination).to_vec(&[7; 18]),
    }
}

/// What all ports sent to single stations since the last call, by port.
fn sent(rig: &mut Rig) -> Vec<(usize, MacAddr)> {
    let ports = 0..rig.infos.len();
    let all = ports.flat_map(|port| rig.sent(port).into_iter().map(move |frame| (port, frame)).collect::<Vec<_>>());
    let stations =
        all.filter(|(_, frame)| frame[0] & 1 == 0).map(|(port, frame)| (port, MacAddr(frame[..6].try_into().unwrap())));
    stations.collect()
}

#[test]
fn the_same_addresses_are_others_in_each_vrf() {
    let mut rig = rig();
    for destination in ["192.0.2.7", "2001:db8:100::5"] {
        for count in [1, 64] {
            for (port, vrf) in [(0, 0), (2, 1), (2, 1), (0, 0)] {
                let frame = to(&rig, port, destination);
                (0..count).for_each(|_| rig.send(port, frame.clone()));
                rig.settle();
                assert_eq!(sent(&mut rig), vec![(1 + 2 * usize::from(vrf), mac(vrf, 9)); count], "{destination}");
            }
        }
    }
    assert_eq!(rig.drops(), Default::default());
    rig.finish();
}

#[test]
fn packets_of_both_vrfs_flow_side_by_side() {
    let mut rig = rig();
    for round in 0..20 {
        for n in 0..64 {
            for (port, destination) in
                [(0, "192.0.2.7"), (2, "2001:db8:100::5"), (2, "198.51.100.1"), (0, "2001:db8:200::5")]
            {
                if n % 7 != round % 7 {
                    let frame = to(&rig, port, destination);
                    rig.send(port, frame);
                }
            }
        }
        rig.settle();
        for (port, station) in sent(&mut rig) {
            assert_eq!(usize::from(station.0[4]), port / 2);
        }
    }
    assert_eq!(rig.drops(), Default::default());
    rig.finish();
}

#[test]
fn a_route_of_one_vrf_is_none_in_another_unless_it_leads_there() {
    let mut rig = rig();
    for destination in ["203.0.113.1", "2001:db8:300::1"] {
        let frame = to(&rig, 2, destination);
        rig.send(2, frame);
        rig.settle();
        assert_eq!(sent(&mut rig), [(3, mac(1, 8))]);
        let before = rig.ways().get("no-route").copied().unwrap_or(0);
        let frame = to(&rig, 0, destination);
        rig.send(0, frame);
        rig.settle();
        assert_eq!(rig.ways()["no-route"], before + 1);
        (0..4).for_each(|port| drop(rig.sent(port)));
    }
    for destination in ["203.0.114.1", "2001:db8:400::1"] {
        let frame = to(&rig, 0, destination);
        rig.send(0, frame);
        rig.settle();
        assert_eq!(sent(&mut rig), [(3, mac(1, 8))], "from the default VRF to the other");
    }
}

/// Own addresses are own in the VRFs of their interfaces only.
#[test]
fn own_addresses_are_those_of_the_vrf() {
    const PORTS: &[PortSpec] = &[
        PortSpec("left", &["10.0.0.1/24", "2001:db8:0::1/64"], 1500),
        PortSpec("blue", &["10.0.9.1/24", "2001:db8:9::1/64"], 1500),
    ];
    let mut rig = quiet(Rig::new(PORTS, json!({ "vrfs": { "blue": {} }, "neighbor_timers": { "own_probes": 0 } })));
    for (destination, of) in [("10.0.0.1", 0), ("2001:db8:0::1", 0), ("10.0.9.1", 1), ("2001:db8:9::1", 1)] {
        for port in 0..2 {
            let before = rig.ways();
            let frame = to(&rig, port, destination);
            rig.send(port, frame);
            rig.settle();
            let after = rig.ways();
            let way = if port == of { "local" } else { "no-route" };
            let count = |ways: &std::collections::BTreeMap<String, u64>| ways.get(way).copied().unwrap_or(0);
            assert_eq!(count(&after), count(&before) + 1, "{destination} by port {port}");
        }
    }
}

/// Interfaces on one port, each with a tag of its own, in three VRFs in turn.
fn many() -> (Vec<InterfaceInfo>, Value) {
    const NAMES: [Option<&str>; 3] = [None, Some("blue"), Some("red")];
    let mut interfaces = Vec::new();
    for n in 1..=9_u16 {
        let mut one = interface(&format!("left.{n}"), Some("left"), &[(C, n)], &[&format!("10.1.{n}.1/24")]);
        one.vrf = NAMES[usize::from(n) % 3].map(str::to_owned);
        interfaces.push(one);
    }
    for (n, name) in NAMES.iter().enumerate().skip(1) {
        let vlan = 100 + n as u16;
        let mut out =
            interface(&format!("right.{vlan}"), Some("right"), &[(C, vlan)], &["10.0.1.1/24", "2001:db8:1::1/64"]);
        out.vrf = name.map(str::to_owned);
        interfaces.push(out);
    }
    let mut config = entries(0);
    config["vrfs"] = json!({ "blue": entries(1), "red": entries(2) });
    config["neighbor_timers"] = json!({ "own_probes": 0 });
    (interfaces, config)
}

#[test]
fn packets_of_one_batch_are_each_of_the_vrf_of_their_interface() {
    let (interfaces, config) = many();
    let mut rig = quiet(Rig::with(&PORTS[..2], interfaces, config));
    let destinations = ["192.0.2.7", "2001:db8:100::5", "198.51.100.1", "2001:db8:200::5"];
    // All of one, of two and of three VRFs, of one family and of both.
    for (interfaces, families) in [(1..=1, 4), (1..=2, 1), (1..=9, 2), (1..=9, 4), (3..=3, 4), (2..=9, 3)] {
        let interfaces: Vec<u16> = interfaces.collect();
        let mut expected = Vec::new();
        for n in 0..64 {
            let vlan = interfaces[n * 5 % interfaces.len()];
            let frame = tagged(&to(&rig, 0, destinations[n % families]), &[(C, vlan)]);
            rig.send(0, frame);
            expected.push(vlan % 3);
        }
        rig.settle();
        let sent: Vec<_> = rig.sent(1).into_iter().filter(|frame| frame[0] & 1 == 0).collect();
        assert_eq!(sent.len(), 64);
        for (frame, vrf) in sent.iter().zip(expected) {
            assert_eq!(u16::from(frame[4]), vrf);
            let vlan = (frame[12..14] == [0x81, 0]).then(|| u16::from_be_bytes([frame[14], frame[15]]));
            assert_eq!(vlan, (vrf > 0).then_some(100 + vrf), "with the tag of the interface there");
        }
    }
    assert_eq!(rig.drops(), Default::default());
    rig.finish();
}
