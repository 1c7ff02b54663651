//! Floods for the slow path: who asks for little gets it, whatever somebody else asks for. Who tells them apart is the interface that they come by,
//! and the prefix of their source.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use crate::common;

use common::sides::{C, mac, tagged};
use common::six::{icmp6, packet6};
use common::*;
use serde_json::json;
use weir_wire::arp::{ArpFields, Operation};
use weir_wire::{MacAddr, icmp};

const LEFT: &[&str] = &["10.0.0.1/24", "2001:db8:0:1::1/64"];
const RIGHT: &[&str] = &["10.0.1.1/24", "2001:db8:0:2::1/64"];
const PORTS: &[PortSpec] = &[PortSpec("left", LEFT, 1500), PortSpec("right", RIGHT, 1500)];

const MILLISECOND: u64 = SECOND / 1000;

/// Who asks for little.
const ASKS: MacAddr = mac(1);
/// Who sends the flood.
const FLOODS: MacAddr = mac(2);

/// The router has 800 packets a second for each kind that matters here.
fn rig() -> Rig {
    let vlan = |name, id, address| interface(name, Some("left"), &[(C, id)], &[address]);
    let vlans = vec![vlan("left.10", 10, "10.1.0.1/24"), vlan("left.20", 20, "10.2.0.1/24")];
    let (asks, floods) = (ASKS.to_string(), FLOODS.to_string());
    let config = json!({
        "punt_rate": "4 kpps", "neighbor_timers": { "own_probes": 0 },
        "neighbors": {
            "10.0.0.9": asks, "10.1.0.9": asks, "2001:db8:0:1::9": asks,
            "10.0.0.254": floods, "10.0.1.254": floods, "2001:db8:0:1::fe": floods,
        },
        "routes": { "198.18.0.0/15": "10.0.0.254", "100.0.0.0/8": "10.0.1.254", "2001:db8:f00::/40": "2001:db8:0:1::fe" },
    });
    Rig::with(PORTS, vlans, config).quiet()
}

/// An echo request by a port.
fn ping(rig: &Rig, (port, from): (usize, MacAddr), source: &str, own: &str) -> Vec<u8> {
    let message = icmp_message(8, 0, icmp::echo_rest(7, 9), &[0; 26]);
    let mut frame = ip_frame(rig, port, source, own, 1, &[], &message);
    frame[6..12].copy_from_slice(&from.0);
    frame
}

fn ping6(rig: &Rig, from: MacAddr, source: &str) -> Vec<u8> {
    let own = "2001:db8:0:1::1";
    let packet = packet6(source, own, 58, 64, &icmp6(source, own, 128, 0, [0, 7, 0, 9], &[0; 10]));
    [&rig.mac(0).0[..], &from.0, &[0x86, 0xdd], &packet].concat()
}

/// A question for one of the router's addresses, in a VLAN.
fn question(from: MacAddr, sender: &str, target: &str, vlan: u16) -> Vec<u8> {
    let arp = ArpFields {
        operation: Operation::Request,
        sender_mac: from,
        sender: sender.parse().unwrap(),
        target_mac: MacAddr::ZERO,
        target: target.parse().unwrap(),
    };
    let mut frame = [0; 60];
    arp.write(MacAddr::BROADCAST, &mut frame).unwrap();
    tagged(&frame, &[(C, vlan)])
}

/// Of a hundred questions a second, an eighth of what there is, how many are answered while a flood asks 64 times a millisecond; and what is dropped
/// for want of more.
fn answered(mut rig: Rig, flood: impl Fn(u64) -> (usize, Vec<u8>), asked: &[u8]) -> (usize, u64) {
    let mut answers = 0;
    for at in 0..2_000 {
        for n in 0..64 {
            let (port, frame) = flood(at * 64 + n);
            rig.send(port, frame);
        }
        if at % 10 == 9 {
            rig.send(0, asked.to_vec());
        }
        rig.run(MILLISECOND);
        answers += rig.sent(0).iter().filter(|frame| frame[..6] == ASKS.0).count();
        drop(rig.sent(1));
    }
    let policed = rig.drops().iter().filter(|(name, _)| name.contains("punt-policed")).map(|(_, count)| count).sum();
    rig.finish();
    (answers, policed)
}

#[test]
fn a_flood_of_one_prefix_leaves_others_on_the_same_interface_their_answers() {
    let rig = rig();
    let asked = ping(&rig, (0, ASKS), "10.0.0.9", "10.0.0.1");
    let flood: Vec<Vec<u8>> = (0..250).map(|n| ping(&rig, (0, FLOODS), &format!("198.18.7.{n}"), "10.0.0.1")).collect();
    let (answers, policed) = answered(rig, |n| (0, flood[n as usize % flood.len()].clone()), &asked);
    assert_eq!(answers, 200);
    assert!(policed > 64 * 2_000 - 2_000, "{policed}: the flood was one");
}

#[test]
fn a_flood_of_all_prefixes_leaves_other_interfaces_their_answers() {
    let rig = rig();
    let asked = ping(&rig, (0, ASKS), "10.0.0.9", "10.0.0.1");
    let flood: Vec<Vec<u8>> =
        (0..5_000).map(|n| ping(&rig, (1, FLOODS), &format!("100.{}.{}.1", n / 250, n % 250), "10.0.1.1")).collect();
    let (answers, policed) = answered(rig, |n| (1, flood[n as usize % flood.len()].clone()), &asked);
    assert_eq!(answers, 200);
    assert!(policed > 64 * 2_000 - 2_000, "{policed}: the flood was one");
}

#[test]
fn a_flood_of_one_site_of_ipv6_leaves_others_on_the_same_interface_their_answers() {
    let rig = rig();
    let asked = ping6(&rig, ASKS, "2001:db8:0:1::9");
    // Many networks of one site.
    let flood: Vec<Vec<u8>> = (0..500).map(|n| ping6(&rig, FLOODS, &format!("2001:db8:f00:{n:x}::1"))).collect();
    let (answers, policed) = answered(rig, |n| (0, flood[n as usize % flood.len()].clone()), &asked);
    assert_eq!(answers, 200);
    assert!(policed > 64 * 2_000 - 2_000, "{policed}: the flood was one");
}

#[test]
fn a_flood_of_arp_in_one_vlan_leaves_others_of_the_same_port_their_answers() {
    let rig = rig();
    let asked = question(ASKS, "10.1.0.9", "10.1.0.1", 10);
    let flood: Vec<Vec<u8>> = (2..250).map(|n| question(FLOODS, &format!("10.2.0.{n}"), "10.2.0.1", 20)).collect();
    let (answers, policed) = answered(rig, |n| (0, flood[n as usize % flood.len()].clone()), &asked);
    assert_eq!(answers, 200);
    assert!(policed > 64 * 2_000 - 2_000, "{policed}: the flood was one");
}
