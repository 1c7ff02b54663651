//! The core side on the network layer: routes that change, traffic that is shared, neighbours of both families.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use crate::common;

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use common::{CORE, CPE, PortSpec, ROUTER, ROUTER_MAC, Rig, SECOND, all_rows, tunnels};
use serde_json::{Value, json};
use weir_wire::arp::{ArpFields, Operation};
use weir_wire::nd::{self, Body, Message};
use weir_wire::{MacAddr, ethernet};

/// Two ports to the core.
const THREE: &[PortSpec] = &[
    PortSpec("cpe", &[], 1500),
    PortSpec("core", &["192.0.2.1/30", "2001:db8:0:1::1/64"], 1500),
    PortSpec("far", &["192.0.2.5/30"], 1500),
];
const FAR: usize = 2;
const FAR_MAC: MacAddr = MacAddr([2, 0, 0, 0, 2, 6]);

/// Two gateways, one behind each port, that share the traffic.
fn shared(is_tunnel: bool) -> Value {
    let mut config = if is_tunnel { tunnels() } else { common::plain() };
    config["gateways"]["east"] = match is_tunnel {
        true => json!({ "port": "far", "address": "198.51.100.13", "via": "192.0.2.6" }),
        false => json!({ "port": "far", "address": "192.0.2.6" }),
    };
    config["routes"] = json!({ "0.0.0.0/0": ["west", "east"] });
    config
}

/// A station answers ARP for itself.
fn answers(rig: &mut Rig, port: usize, (sender, sender_mac): (&str, MacAddr), target: &str) {
    let (sender, target, target_mac) = (sender.parse().unwrap(), target.parse().unwrap(), rig.mac(port));
    let arp = ArpFields { operation: Operation::Reply, sender_mac, sender, target_mac, target };
    let mut frame = vec![0; 60];
    arp.write(rig.mac(port), &mut frame).unwrap();
    rig.send(port, frame);
    rig.settle();
}

/// A gateway both of whose routers are known.
fn rig(config: Value) -> Rig {
    let mut rig = Rig::new(THREE, config);
    rig.settle();
    answers(&mut rig, CORE, (ROUTER, ROUTER_MAC), "192.0.2.1");
    answers(&mut rig, FAR, ("192.0.2.6", FAR_MAC), "192.0.2.5");
    for port in [CPE, CORE, FAR] {
        rig.sent(port);
    }
    rig
}

/// The port that a packet to each of 64 addresses leaves by, in one batch.
fn ways(rig: &mut Rig) -> BTreeMap<u8, usize> {
    for last in 0..64 {
        let frame = rig.customer(1, "10.0.0.7", &format!("203.0.113.{last}"));
        rig.send(CPE, frame);
    }
    rig.settle();
    let of = |port: usize, frames: Vec<Vec<u8>>| {
        // Besides, there are neighbours and groups to be talked with.
        let is_ipv6 = |frame: &Vec<u8>| frame[12..14] == ethernet::IPV6.to_be_bytes();
        let packets = frames.into_iter().filter(move |frame| frame.len() > 100 && !is_ipv6(frame));
        packets.map(move |frame| {
            // The last byte of the destination, which is followed by UDP: 8 bytes and 72 more.
            let at = frame.len() - 81;
            assert_eq!(frame[at - 3..at], [203, 0, 113]);
            let expected = [ROUTER_MAC, FAR_MAC][port - CORE];
            assert_eq!(frame[..6], expected.0, "to the router of its port");
            (frame[at], port)
        })
    };
    let (near, far) = (rig.sent(CORE), rig.sent(FAR));
    of(CORE, near).chain(of(FAR, far)).collect()
}

/// How many of them leave by each port.
fn counts(ways: &BTreeMap<u8, usize>) -> (usize, usize) {
    let far = ways.values().filter(|port| **port == FAR).count();
    (ways.len() - far, far)
}

#[test]
fn gateways_share_traffic_flow_by_flow() {
    for is_tunnel in [true, false] {
        let mut rig = rig(shared(is_tunnel));
        let first = ways(&mut rig);
        let (near, far) = counts(&first);
        assert!(near + far == 64 && near > 16 && far > 16, "{near} and {far}");
        assert_eq!(ways(&mut rig), first, "a flow stays where it was");
        // Without its link a gateway has no part, and with it one again.
        rig.instance.link_changed(1, false, rig.engine.now());
        rig.settle();
        assert_eq!(counts(&ways(&mut rig)), (0, 64));
        rig.instance.link_changed(1, true, rig.engine.now());
        let inlets = rig.show("interfaces").into_iter().filter(|row| row["name"] == "west");
        assert!(inlets.into_iter().all(|row| row["state"] == "up"), "at once");
        rig.run(2 * SECOND);
        answers(&mut rig, CORE, (ROUTER, ROUTER_MAC), "192.0.2.1");
        rig.run(SECOND);
        for port in [CORE, FAR] {
            rig.sent(port);
        }
        let (near, far) = counts(&ways(&mut rig));
        assert!(near + far == 64 && near > 16 && far > 16, "{near} and {far}");
        rig.finish();
    }
}

#[test]
fn routes_change_while_packets_flow() {
    for (is_tunnel, via) in [(true, "%east"), (false, "192.0.2.6")] {
        let mut config = shared(is_tunnel);
        config["routes"] = json!({ "0.0.0.0/0": "west" });
        let mut rig = rig(config.clone());
        assert_eq!(counts(&ways(&mut rig)), (64, 0));
        rig.request("route add", json!({ "prefix": "203.0.113.32/27", "via": [via] })).unwrap();
        assert_eq!(counts(&ways(&mut rig)), (32, 32));
        let added = |rig: &Rig| rig.show("routes").into_iter().filter(|route| route["source"] == "cli").count();
        assert_eq!(added(&rig), 1);
        assert_eq!(all_rows(rig.instance.save()).len(), 1, "what was added is saved");
        // A reload has its own routes follow, and leaves that one alone.
        config["routes"] = json!({ "0.0.0.0/0": "west", "203.0.113.0/28": "east" });
        rig.reload(&config);
        rig.settle();
        assert_eq!((counts(&ways(&mut rig)), added(&rig)), ((16, 48), 1));
        rig.request("route del", json!({ "prefix": "203.0.113.32/27" })).unwrap();
        assert_eq!(counts(&ways(&mut rig)), (48, 16));
        assert_eq!(rig.drops(), BTreeMap::new());
        rig.finish();
    }
}

#[test]
fn routes_that_lead_nowhere_are_obeyed_and_counted() {
    let mut rig = rig(shared(true));
    rig.request("route add", json!({ "prefix": "203.0.113.0/26", "via": ["blackhole"] })).unwrap();
    assert_eq!(ways(&mut rig).len(), 0);
    assert_eq!(rig.drops(), BTreeMap::from([("bng.up/blackhole".to_owned(), 64)]));
    let row = rig.show("subscribers").into_iter().find(|row| row["cvlan"] == 1).unwrap();
    assert_eq!(row["drops"], json!({ "blackhole": 64 }));
    // In tunnels nothing leaves but by gateways: a router is none.
    rig.request("route add", json!({ "prefix": "203.0.113.0/26", "via": [ROUTER] })).unwrap();
    assert_eq!(ways(&mut rig).len(), 0);
    assert!(rig.drops()["bng.core.control/no-route"] > 0);
    rig.finish();
}

/// What stands in front of packets is prepared for all of a gateway: it must be that of now.
#[test]
fn a_router_with_another_ethernet_address_gets_the_next_packet() {
    for is_tunnel in [true, false] {
        let mut rig = rig(shared(is_tunnel));
        assert_eq!(ways(&mut rig).len(), 64);
        for n in 1..=3 {
            let other = MacAddr([2, 0, 0, 0, 3, n]);
            answers(&mut rig, FAR, ("192.0.2.6", other), "192.0.2.5");
            // Workers and the slow path are on different threads, of which either may be first to have its turn.
            for last in 0..64 {
                let frame = rig.customer(1, "10.0.0.7", &format!("203.0.113.{last}"));
                rig.send(CPE, frame);
            }
            rig.settle();
            let sent = rig.sent(FAR);
            assert!(sent.iter().filter(|frame| frame.len() > 100).count() > 16);
            assert!(sent.iter().all(|frame| frame[..6] == other.0), "to {other}");
        }
        rig.finish();
    }
}

/// The next router has an IPv6 address, and packets are of IPv4 (RFC 8950).
#[test]
fn next_routers_are_found_by_neighbour_discovery() {
    let mut config = tunnels();
    config["gateways"]["west"]["via"] = json!("2001:db8:0:1::2");
    let mut rig = Rig::new(THREE, config);
    // The gateway's own address must be found to be nobody else's first (RFC 4862).
    rig.run(3 * SECOND);
    let router: Ipv6Addr = "2001:db8:0:1::2".parse().unwrap();
    let asks = |frame: &&Vec<u8>| {
        let message = frame.get(14..).and_then(nd::parse);
        matches!(message.map(|message| message.body), Some(Body::Solicitation { target, .. }) if target == router)
    };
    assert!(rig.sent(CORE).iter().any(|frame| asks(&frame)));
    let mut frame = vec![0; nd::FRAME_LEN];
    let own = "2001:db8:0:1::1".parse().unwrap();
    let answer = Message::advertisement(router, ROUTER_MAC, own, true);
    answer.write(&mut frame, ROUTER_MAC, rig.mac(CORE)).unwrap();
    rig.send(CORE, frame);
    rig.settle();
    rig.sent(CORE);
    let frame = rig.customer(1, "10.0.0.7", "203.0.113.1");
    rig.send(CPE, frame);
    rig.settle();
    let sent = rig.sent(CORE);
    assert_eq!(sent.len(), 1);
    assert_eq!((&sent[0][..6], &sent[0][12..14]), (&ROUTER_MAC.0[..], &ethernet::MPLS.to_be_bytes()[..]));
    let found = rig.show("neighbors").into_iter().find(|row| row["address"] == "2001:db8:0:1::2").unwrap();
    assert_eq!(found["mac"], ROUTER_MAC.to_string());
    rig.finish();
}

/// Whoever asks on the core side for one of the gateway's own IPv6 addresses is answered (RFC 4861 section 7.2.4).
#[test]
fn the_core_side_answers_for_its_own_addresses() {
    for is_tunnel in [true, false] {
        let mut rig = Rig::new(THREE, shared(is_tunnel));
        rig.run(3 * SECOND);
        rig.sent(CORE);
        let (asking, own): (Ipv6Addr, Ipv6Addr) =
            ("2001:db8:0:1::2".parse().unwrap(), "2001:db8:0:1::1".parse().unwrap());
        let mut frame = vec![0; nd::FRAME_LEN];
        nd::write_solicitation(&mut frame, ROUTER_MAC, asking, own).unwrap();
        assert_eq!(frame[..2], [0x33, 0x33], "to all who may have it");
        rig.send(CORE, frame);
        rig.settle();
        let answer = rig.sent(CORE).iter().find_map(|frame| nd::parse(frame.get(14..)?).map(|message| message.body));
        let Some(Body::Advertisement { target, link, .. }) = answer else { panic!("no answer") };
        assert_eq!((target, link), (own, Some(rig.mac(CORE))));
        rig.finish();
    }
}
