//! Subscribers whose flows take turns, and whose packets are marked in place of being dropped, in both directions.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use serde_json::{Value, json};
use weir_wire::{checksum, ethernet, ipv4};

use crate::common;

use common::*;

/// The flow that sends much, and those that send little: by source port. Two may have the same number, but hardly more than one that of the first.
const MUCH: u16 = 1;
const LITTLE: [u16; 5] = [100, 200, 300, 400, 500];

const CUSTOMER: &str = "10.0.0.7";
const FAR: &str = "203.0.113.5";

/// A gateway at which each subscriber has 10 Mbit/s either way.
fn config(flows: &str) -> Value {
    let codel = json!({ "target": "1 ms", "interval": "5 ms", "ecn": true });
    let class = json!({ "flows": flows, "queue_size": 200, "codel": codel });
    let profile = json!({ "tb_rate": "10 Mbit/s", "tb_size": "2 KiB", "classes": [{}, {}, {}, class] });
    let scheduler = json!({ "rate": "1 Gbit/s", "users": 16, "buffers": 2048, "profiles": { "home": profile } });
    let mut config = plain();
    config["limits"] = json!({ "subscribers": 16 });
    config["subscribers"][0]["mac"] = json!(host(1).to_string());
    config["qos"] = json!({ "up": scheduler, "down": scheduler, "usual": "home" });
    config
}

/// A packet of a flow that may be marked.
fn packet(source: &str, destination: &str, flow: u16) -> Vec<u8> {
    let mut packet = udp(source, destination, 1_000);
    packet[1] = 2;
    packet[20..22].copy_from_slice(&flow.to_be_bytes());
    assert!(ipv4::write_checksum(&mut packet));
    packet
}

/// What came out: flows, and how many packets bear the mark. Their checksums are right.
fn seen(frames: &[Vec<u8>], at: usize) -> (Vec<u16>, u64) {
    let packets: Vec<&[u8]> = frames.iter().map(|frame| &frame[at..]).filter(|packet| packet[0] == 0x45).collect();
    assert!(packets.iter().all(|packet| checksum::is_valid(&packet[..20])));
    let marked = packets.iter().filter(|packet| packet[1] & 3 == 3).count() as u64;
    (packets.iter().map(|packet| u16::from_be_bytes([packet[20], packet[21]])).collect(), marked)
}

#[test]
fn flows_take_turns_and_packets_are_marked_both_ways() {
    for (flows, soon) in [("fair", true), ("fifo", false)] {
        let mut rig = rig(config(flows));
        let gateway = rig.mac(CPE);
        let send = |rig: &mut Rig, flow| {
            let up = packet(CUSTOMER, FAR, flow);
            rig.send(CPE, tagged(gateway, host(1), 1, ethernet::IPV4, &up));
            let down = [&rig.mac(CORE).0[..], &ROUTER_MAC.0, &[8, 0], &packet(FAR, CUSTOMER, flow)].concat();
            rig.send(CORE, down);
        };
        (0..100).for_each(|_| send(&mut rig, MUCH));
        rig.settle();
        LITTLE.into_iter().for_each(|flow| send(&mut rig, flow));
        // A frame takes 0.8 ms.
        rig.run(20_000_000);
        let first = [(CORE, 14), (CPE, 22)].map(|(port, at)| seen(&rig.sent(port), at));
        for (came, _) in &first {
            let little = came.iter().filter(|flow| **flow != MUCH).count();
            assert!(came.len() > 15 && if soon { little >= 4 } else { little == 0 }, "{flows}: {came:?}");
        }
        rig.run(1_000_000_000);
        let rest = [(CORE, 14), (CPE, 22)].map(|(port, at)| seen(&rig.sent(port), at));
        let sent: usize = first.iter().chain(&rest).map(|(came, _)| came.len()).sum();
        let marked: u64 = first.iter().chain(&rest).map(|(_, marked)| marked).sum();
        assert_eq!((sent, rig.account().held), (210, 0));
        let row = rig.show("subscribers").remove(0);
        assert_eq!((&row["marked"], &row["marks"]), (&json!(marked), &json!({ "3": marked })), "{row}");
        assert!(marked > 10, "{marked}");
        rig.finish();
    }
}
