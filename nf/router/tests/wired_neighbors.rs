//! Steps wired by hand that send to neighbours of a router: they follow what its table says, while it learns, changes and loses them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use crate::common;

use std::net::IpAddr;
use std::sync::Arc;

use common::six::*;
use common::wired::{Bench, run, said};
use common::*;
use serde_json::{Value, json};
use weir_ip::steps::{Ipv4Rewrite, Ipv6Rewrite};
use weir_stage::harness::{Boxed, Harness};
use weir_stage::{FollowedNeighbor, MakeStage, StageKind};
use weir_wire::MacAddr;
use weir_wire::nd::{Body, Message};

const HOST: MacAddr = MacAddr([2, 0, 0, 0, 7, 7]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 8, 8]);
const NEIGHBOR: &str = "10.0.1.9";

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

/// A router, and what makes a step of another function that sends to a neighbour of it.
struct Pair {
    rig: Rig,
    make: Box<dyn MakeStage>,
    frame: Vec<u8>,
}

impl Pair {
    fn new(kind: &dyn StageKind, ports: &'static [PortSpec], to: &str, config: Value) -> Pair {
        let make = Bench::new(ports).make(kind, &json!({ "from": "right", "to": to })).unwrap();
        let rig = Rig::new(ports, config).quiet();
        let six = udp6(&rig, 0, LEFT, "2001:db8:99::1", 64, 20);
        let frame = if kind.kind() == "ipv6-rewrite" { six } else { frame4(&rig) };
        let pair = Pair { rig, make, frame };
        pair.meet();
        pair
    }

    /// With a step of IPv4 to the usual neighbour.
    fn four(config: Value) -> Pair {
        Pair::new(&Ipv4Rewrite, TWO, "10.0.1.9%right", config)
    }

    /// Tells the router of the neighbour, as the program does.
    fn meet(&self) {
        self.rig.instance.publish_neighbors(self.make.followed());
    }

    /// Whom the step sends a frame to; `None` if it leaves the frame as it is, as the neighbour is not known.
    fn sends_to(&self) -> Option<MacAddr> {
        let mut ways = run(&*self.make, std::slice::from_ref(&self.frame));
        if let Some(left) = ways.remove("unresolved") {
            assert_eq!(left, std::slice::from_ref(&self.frame), "it is as it was");
            return None;
        }
        let sent = ways.remove("out").unwrap().remove(0);
        assert_eq!(sent[6..12], self.rig.mac(1).0, "it comes from the port that it leaves by");
        Some(MacAddr(sent[..6].try_into().unwrap()))
    }

    /// The host answers a request for it, or speaks by itself.
    fn answer(&mut self, mac: MacAddr) {
        self.rig.arp_reply(1, ip(NEIGHBOR), mac, ip("10.0.1.1"));
        self.rig.settle();
    }

    /// Somebody states where the neighbour is.
    fn state(&self, mac: MacAddr) {
        self.rig.request("neighbor add", json!({ "address": NEIGHBOR, "mac": mac.to_string() })).unwrap();
    }

    /// Somebody has the router forget it.
    fn forget(&self) {
        self.rig.request("neighbor del", json!({ "address": NEIGHBOR })).unwrap();
    }

    /// The Ethernet destinations of requests for the neighbour since the last call.
    fn asked(&mut self) -> Vec<MacAddr> {
        let asked = self.rig.sent_arp(1).into_iter().filter(|(_, arp)| arp.target == ip(NEIGHBOR));
        asked.map(|(to, _)| to).collect()
    }

    fn entry(&self) -> Option<Value> {
        self.rig.show("neighbors").into_iter().find(|row| row["address"] == NEIGHBOR)
    }
}

fn frame4(rig: &Rig) -> Vec<u8> {
    rig.udp(0, "10.0.0.9", "198.51.100.1").to_vec(&[0; 20])
}

#[test]
fn a_neighbour_is_asked_for_when_there_are_packets_for_it_and_sent_to_when_it_answers() {
    let mut pair = Pair::four(json!({}));
    pair.rig.run(5 * SECOND);
    assert_eq!((pair.asked(), pair.entry()), (vec![], None), "nobody has packets for it");
    assert_eq!(pair.sends_to(), None);
    pair.rig.run(2 * SECOND);
    assert_eq!(pair.asked()[0], MacAddr::BROADCAST);
    assert_eq!(pair.sends_to(), None);
    pair.answer(HOST);
    assert_eq!(pair.sends_to(), Some(HOST));
    pair.rig.finish();
}

/// Whichever way the router learns of it: here a packet that it routes itself has it ask.
#[test]
fn what_the_router_learns_for_itself_the_step_knows() {
    let mut pair = Pair::four(json!({}));
    let frame = pair.rig.udp(0, "10.0.0.9", NEIGHBOR).to_vec(&[0; 20]);
    pair.rig.send(0, frame);
    pair.rig.settle();
    pair.answer(HOST);
    assert_eq!((pair.sends_to(), pair.rig.sent_ip(1).len()), (Some(HOST), 1));
    pair.rig.finish();
}

#[test]
fn the_step_follows_a_neighbour_whose_address_changes() {
    let mut pair = Pair::four(json!({}));
    pair.answer(HOST);
    assert_eq!(pair.sends_to(), None, "an answer that nobody asked for teaches nothing");
    pair.rig.run(2 * SECOND);
    for mac in [HOST, OTHER, HOST] {
        pair.answer(mac);
        assert_eq!(pair.sends_to(), Some(mac));
    }
    pair.rig.finish();
}

#[test]
fn a_neighbour_that_falls_silent_is_sent_to_no_longer_and_found_again() {
    let mut pair = Pair::four(json!({ "neighbor_timers": { "reachable": "5 s" } }));
    assert_eq!(pair.sends_to(), None);
    pair.rig.run(2 * SECOND);
    pair.answer(HOST);
    pair.asked();
    let mut sent = Vec::new();
    for _ in 0..150 {
        sent.push(pair.sends_to());
        pair.rig.run(SECOND / 10);
    }
    // It is in use and does not answer: two unicast polls, three broadcasts, a second apart (RFC 1122 section 2.3.2.1).
    assert_eq!(pair.asked()[..5], [HOST, HOST, MacAddr::BROADCAST, MacAddr::BROADCAST, MacAddr::BROADCAST]);
    let lost = sent.iter().position(Option::is_none).unwrap();
    assert!((80..110).contains(&lost), "after {lost} tenths of a second");
    assert!(sent[lost..].iter().all(Option::is_none));
    // It is there again, with another address.
    pair.answer(OTHER);
    assert_eq!(pair.sends_to(), Some(OTHER));
    pair.rig.finish();
}

/// RFC 4861 section 7.3: a neighbour that is used is checked, and one that is not is forgotten.
#[test]
fn a_neighbour_that_only_the_step_sends_to_is_kept() {
    let mut pair = Pair::four(json!({ "neighbor_timers": { "reachable": "2 s", "stale": "3 s" } }));
    assert_eq!(pair.sends_to(), None);
    pair.rig.run(2 * SECOND);
    pair.answer(HOST);
    for tenth in 0..600 {
        assert_eq!(pair.sends_to(), Some(HOST), "after {tenth} tenths of a second");
        pair.rig.run(SECOND / 10);
        if !pair.asked().is_empty() {
            pair.answer(HOST);
        }
    }
    assert!(pair.rig.fates()["arp-revalidation"] >= 10, "{:?}", pair.rig.fates());
    pair.rig.run(20 * SECOND);
    assert_eq!(pair.entry(), None);
    assert_eq!(pair.sends_to(), None);
    pair.rig.finish();
}

#[test]
fn static_neighbours_are_known_at_once_and_for_as_long_as_they_are_stated() {
    let config = json!({ "neighbors": { NEIGHBOR: HOST.to_string() } });
    let mut pair = Pair::four(config.clone());
    assert_eq!(pair.sends_to(), Some(HOST));
    pair.rig.reload(&json!({}));
    assert_eq!(pair.sends_to(), None);
    pair.state(OTHER);
    assert_eq!(pair.sends_to(), Some(OTHER));
    pair.forget();
    assert_eq!(pair.sends_to(), None);
    pair.rig.reload(&config);
    assert_eq!(pair.sends_to(), Some(HOST));
    pair.rig.finish();
}

#[test]
fn nothing_goes_over_a_link_that_is_down() {
    let config = json!({ "neighbors": { "10.0.1.8": OTHER.to_string() } });
    let mut pair = Pair::four(config);
    let stated = Arc::new(FollowedNeighbor::new("right", "10.0.1.8".parse().unwrap()));
    let on_left = Arc::new(FollowedNeighbor::new("left", "10.0.1.8".parse().unwrap()));
    let all = [pair.make.followed(), vec![Arc::clone(&stated), Arc::clone(&on_left)]].concat();
    pair.rig.instance.publish_neighbors(all);
    assert_eq!(pair.sends_to(), None);
    pair.rig.run(2 * SECOND);
    pair.answer(HOST);
    for _ in 0..2 {
        assert_eq!((pair.sends_to(), stated.mac()), (Some(HOST), Some(OTHER.0)));
        assert_eq!(on_left.mac(), None, "the same address on another link is somebody else");
        pair.rig.instance.link_changed(1, false, pair.rig.engine.now());
        assert_eq!((pair.sends_to(), stated.mac()), (None, None));
        pair.rig.instance.link_changed(1, true, pair.rig.engine.now());
        assert_eq!(stated.mac(), Some(OTHER.0), "who is stated is still there");
        assert_eq!(pair.sends_to(), None, "somebody else may be there now");
        pair.rig.run(20 * SECOND);
        assert_eq!(pair.sends_to(), None);
        pair.rig.run(2 * SECOND);
        pair.answer(HOST);
    }
    pair.rig.finish();
}

#[test]
fn interfaces_come_and_go_and_their_neighbours_with_them() {
    let mut rig = Rig::new(TWO, json!({ "neighbor_timers": { "own_probes": 0 } })).quiet();
    let [first, second] = ["right.5", "right.6"].map(|interface| {
        let address: IpAddr = "10.5.0.9".parse().unwrap();
        Arc::new(FollowedNeighbor::new(interface, address))
    });
    rig.instance.publish_neighbors(vec![Arc::clone(&first), Arc::clone(&second)]);
    let add = |rig: &Rig, name: &str, vlan: &str, mac: MacAddr| {
        let interface = json!({ "name": name, "on": "right", "vlan": vlan, "address": ["10.5.0.1/24"] });
        rig.request("interface add", interface).unwrap();
        rig.request("neighbor add", json!({ "address": "10.5.0.9", "mac": mac.to_string() })).unwrap();
    };
    for _ in 0..3 {
        assert_eq!((first.mac(), second.mac()), (None, None));
        add(&rig, "right.5", "5", HOST);
        assert_eq!((first.mac(), second.mac()), (Some(HOST.0), None));
        rig.request("interface del", json!({ "name": "right.5" })).unwrap();
        assert_eq!((first.mac(), second.mac()), (None, None));
        // The next one may get its number.
        rig.run(SECOND);
        add(&rig, "right.6", "6", OTHER);
        assert_eq!((first.mac(), second.mac()), (None, Some(OTHER.0)));
        rig.request("interface del", json!({ "name": "right.6" })).unwrap();
        rig.run(SECOND);
    }
    rig.finish();
}

/// What is built anew is told of the neighbours, and knows those that the one before had learned.
#[test]
fn a_router_that_is_built_anew_goes_on() {
    let mut pair = Pair::four(json!({}));
    assert_eq!(pair.sends_to(), None);
    pair.rig.run(2 * SECOND);
    pair.answer(HOST);
    pair.rig.rebuild(&json!({ "limits": { "routes": 4096 } }));
    assert_eq!(pair.sends_to(), Some(HOST));
    pair.meet();
    assert_eq!(pair.sends_to(), Some(HOST));
    // It is the new one that is followed from here on.
    pair.forget();
    assert_eq!(pair.sends_to(), None);
    pair.rig.finish();
}

#[test]
fn whom_nobody_follows_any_more_the_router_leaves_alone() {
    let mut pair = Pair::four(json!({}));
    pair.state(HOST);
    pair.rig.instance.publish_neighbors(Vec::new());
    pair.forget();
    assert_eq!(pair.sends_to(), Some(HOST), "another function may have the interface now, and speak for it");
    pair.rig.run(3 * SECOND);
    assert_eq!(pair.asked(), []);
    pair.rig.finish();
}

#[test]
fn all_workers_follow() {
    let pair = Pair::four(json!({}));
    pair.state(HOST);
    let mut stages: Vec<_> =
        (0..4).map(|replica| Harness::small(Boxed(pair.make.stage(replica).unwrap()), 16)).collect();
    let mut ways = || -> Vec<String> {
        let frames = [pair.frame.clone()];
        stages.iter_mut().flat_map(|stage| stage.run(0, &frames).ways.into_keys()).collect()
    };
    assert_eq!(ways(), ["out"; 4]);
    pair.forget();
    assert_eq!(ways(), ["unresolved"; 4]);
    pair.rig.finish();
}

/// What can be sent at once, the step judges as if the neighbour were a station.
#[test]
fn other_ways_are_those_of_a_step_to_a_station() {
    let pair = Pair::four(json!({ "neighbors": { NEIGHBOR: HOST.to_string() } }));
    let station = Bench::new(TWO).make(&Ipv4Rewrite, &json!({ "from": "right", "to": HOST.to_string() })).unwrap();
    let long = pair.rig.udp(0, "10.0.0.9", "198.51.100.1").to_vec(&[0; 1473]);
    let ended = pair.rig.udp(0, "10.0.0.9", "198.51.100.1");
    let ended = weir_wire::build::UdpFrame { ttl: 1, ..ended }.to_vec(&[0; 20]);
    let frames = [pair.frame.clone(), long, ended];
    let ways = run(&*pair.make, &frames);
    assert_eq!(ways.keys().collect::<Vec<_>>(), ["expired", "out", "too-big"]);
    assert_eq!(ways, run(&*station, &frames));
    pair.rig.finish();
}

#[test]
fn neighbours_of_ipv6_are_followed_by_discovery() {
    for address in [RIGHT, "fe80::9"] {
        let mut pair = Pair::new(&Ipv6Rewrite, TWO6, &format!("{address}%right"), json!({}));
        assert_eq!(pair.sends_to(), None);
        pair.rig.run(2 * SECOND);
        let asked = pair.rig.sent_nd(1);
        let own = asked.iter().find(|(_, message)| asks_for(message, address)).unwrap().1.source;
        for mac in [HOST, OTHER] {
            pair.rig.nd_reply(1, address, mac, own);
            assert_eq!(pair.sends_to(), Some(mac));
        }
        pair.rig.instance.link_changed(1, false, pair.rig.engine.now());
        assert_eq!(pair.sends_to(), None);
        pair.rig.finish();
    }
}

/// RFC 8950: a packet of IPv4 may go by a neighbour that is known by its IPv6 address.
#[test]
fn ipv4_goes_by_a_neighbour_of_ipv6() {
    let config = json!({ "neighbors": { "fe80::9%right": HOST.to_string() } });
    let pair = Pair::new(&Ipv4Rewrite, TWO6, "fe80::9%right", config);
    assert_eq!(pair.sends_to(), Some(HOST));
    pair.rig.finish();
}

/// Whether a message asks for an address.
fn asks_for(message: &Message, address: &str) -> bool {
    matches!(message.body, Body::Solicitation { target, .. } if target == ip6(address))
}

#[test]
fn wrong_neighbours_are_told() {
    let told = |kind: &dyn StageKind, ports, to: &str| said(ports, kind, json!({ "from": "right", "to": to }));
    for (to, expected) in [
        ("10.0.1.1%right", "10.0.1.1 is the address of right itself; write the address of a host of 10.0.1.0/24"),
        ("10.0.0.9%right", "10.0.0.9 is on no network of right; write the address of a host of 10.0.1.0/24"),
        (
            "10.0.1.255%right",
            "10.0.1.255 is the broadcast address of its network; write the address of a host of 10.0.1.0/24",
        ),
        ("fe80::9%right", "fe80::9 is on no network of right; give right an IPv6 address, or name another interface"),
    ] {
        assert_eq!(told(&Ipv4Rewrite, TWO, to), [format!("test.lua:2: stage.to: {expected}")]);
    }
    assert_eq!(
        told(&Ipv6Rewrite, TWO, "10.0.1.9%right"),
        ["test.lua:2: stage.to: an IPv6 packet cannot go by 10.0.1.9; write the neighbour's IPv6 address"]
    );
    assert!(told(&Ipv4Rewrite, TWO, "10.0.1.9")[0].contains("does not say on whose link"));
}
