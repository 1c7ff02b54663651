//! ARP in all its states, by the virtual clock; links of two, hosts of one, proxies and duplicates.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::*;
use serde_json::{Value, json};
use weir_wire::MacAddr;
use weir_wire::arp::{ArpFields, Operation};

const HOST: MacAddr = MacAddr([2, 0, 0, 0, 7, 7]);

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn send_arp(rig: &mut Rig, port: usize, to: MacAddr, arp: ArpFields) {
    let mut frame = vec![0; 60];
    arp.write(to, &mut frame).unwrap();
    rig.send(port, frame);
    rig.settle();
}

fn request(from: &str, mac: MacAddr, target: &str) -> ArpFields {
    ArpFields {
        operation: Operation::Request,
        sender_mac: mac,
        sender: ip(from),
        target_mac: MacAddr::ZERO,
        target: ip(target),
    }
}

fn neighbor(rig: &Rig, address: &str) -> Option<Value> {
    rig.show("neighbors").into_iter().find(|row| row["address"] == address)
}

/// Quiet after its own announcements.
fn quiet(ports: &[PortSpec], config: Value) -> Rig {
    let mut rig = Rig::new(ports, config);
    rig.run(10 * SECOND);
    (0..ports.len()).for_each(|port| drop(rig.sent(port)));
    rig
}

#[test]
fn own_addresses_are_probed_and_announced() {
    let mut rig = Rig::new(TWO, json!({}));
    rig.run(10 * SECOND);
    let sent = rig.sent_arp(0);
    // RFC 5227: probes have no sender, announcements name the address twice.
    let (probes, announcements) = sent.split_at(3);
    assert!(
        probes.iter().all(|(to, arp)| to.is_broadcast() && arp.sender.is_unspecified() && arp.target == ip("10.0.0.1"))
    );
    assert_eq!(announcements.len(), 2);
    assert!(announcements.iter().all(|(_, arp)| (arp.sender, arp.target) == (ip("10.0.0.1"), ip("10.0.0.1"))));
    assert!(sent.iter().all(|(_, arp)| arp.operation == Operation::Request && arp.sender_mac == rig.mac(0)));
    rig.finish();
}

#[test]
fn a_request_is_answered_and_teaches() {
    let mut rig = quiet(TWO, json!({}));
    send_arp(&mut rig, 0, MacAddr::BROADCAST, request("10.0.0.9", HOST, "10.0.0.1"));
    let [(to, reply)] = rig.sent_arp(0)[..] else { panic!("one reply") };
    assert_eq!((to, reply.operation), (HOST, Operation::Reply));
    assert_eq!((reply.sender_mac, reply.sender), (rig.mac(0), ip("10.0.0.1")));
    assert_eq!((reply.target_mac, reply.target), (HOST, ip("10.0.0.9")));
    assert_eq!(neighbor(&rig, "10.0.0.9").unwrap()["state"], "stale");
    // What is learned is used at once: the first packet needs no request.
    let frame = rig.udp(1, "10.0.1.9", "10.0.0.9").to_vec(&[0; 20]);
    rig.send(1, frame);
    rig.settle();
    assert_eq!(rig.sent_ip(0).len(), 1);
    assert_eq!(rig.account().held, 0);
    rig.finish();
}

#[test]
fn requests_of_others_and_nonsense_teach_nothing() {
    let mut rig = quiet(TWO, json!({}));
    send_arp(&mut rig, 0, MacAddr::BROADCAST, request("10.0.0.9", HOST, "10.0.0.8"));
    assert_eq!(rig.drops()["router.control/arp-ignored"], 1);
    for (from, mac) in [("10.0.0.255", HOST), ("127.0.0.1", HOST), ("224.0.0.1", HOST), ("10.0.0.9", MacAddr([3; 6]))] {
        send_arp(&mut rig, 0, MacAddr::BROADCAST, request(from, mac, "10.0.0.1"));
    }
    let mut short = vec![0; 40];
    short[..6].fill(0xff);
    short[12..14].copy_from_slice(&[8, 6]);
    rig.send(0, short);
    rig.settle();
    assert_eq!(rig.drops()["router.control/arp-malformed"], 5);
    assert!(rig.sent_arp(0).is_empty());
    assert!(rig.show("neighbors").is_empty());
    rig.finish();
}

/// Forwards a packet to 10.0.1.9 every 100 ms for some seconds; answers how many came out.
fn traffic(rig: &mut Rig, seconds: u64) -> usize {
    for _ in 0..seconds * 10 {
        let frame = rig.udp(0, "10.0.0.9", "10.0.1.9").to_vec(&[0; 20]);
        rig.send(0, frame);
        rig.run(SECOND / 10);
    }
    let frames = rig.handles[1].received();
    let (arp, ip): (Vec<_>, Vec<_>) = frames.into_iter().partition(|frame| frame[12..14] == [8, 6]);
    arp.into_iter().for_each(|frame| rig.handles[1].send(answer(&frame)));
    ip.len()
}

/// A host's answer to a request for it.
fn answer(request: &[u8]) -> Vec<u8> {
    let arp = ArpFields::parse(&request[14..]).unwrap();
    let reply = ArpFields {
        operation: Operation::Reply,
        sender_mac: HOST,
        sender: arp.target,
        target_mac: arp.sender_mac,
        target: arp.sender,
    };
    let mut frame = vec![0; 60];
    reply.write(arp.sender_mac, &mut frame).unwrap();
    frame
}

#[test]
fn a_neighbour_in_use_is_revalidated_without_losing_a_packet() {
    let mut rig = quiet(TWO, json!({ "neighbor_timers": { "reachable": "10 s" } }));
    rig.send(0, rig.udp(0, "10.0.0.9", "10.0.1.9").to_vec(&[0; 20]));
    rig.settle();
    rig.sent(1);
    rig.arp_reply(1, ip("10.0.1.9"), HOST, ip("10.0.1.1"));
    rig.settle();
    assert_eq!(neighbor(&rig, "10.0.1.9").unwrap()["state"], "reachable");
    rig.sent(1);
    let mut forwarded = 0;
    for _ in 0..40 {
        forwarded += traffic(&mut rig, 1);
    }
    assert_eq!(forwarded, 400, "all of them, through several revalidations");
    assert!(rig.fates()["arp-revalidation"] >= 3, "{:?}", rig.fates());
    assert_eq!(rig.drops(), Default::default());
    rig.finish();
}

#[test]
fn a_neighbour_that_falls_silent_is_given_up_and_asked_again() {
    let timers = json!({ "neighbor_timers": { "reachable": "5 s", "failed": "2 s" } });
    let mut rig = quiet(TWO, timers);
    rig.send(0, rig.udp(0, "10.0.0.9", "10.0.1.9").to_vec(&[0; 20]));
    rig.settle();
    rig.arp_reply(1, ip("10.0.1.9"), HOST, ip("10.0.1.1"));
    rig.settle();
    rig.sent(1);
    // It is in use and does not answer: two unicast polls, three broadcasts, a second apart (RFC 1122 section 2.3.2.1).
    for _ in 0..110 {
        rig.send(0, rig.udp(0, "10.0.0.9", "10.0.1.9").to_vec(&[0; 20]));
        rig.run(SECOND / 10);
    }
    let asked = rig.sent_arp(1);
    let to: Vec<bool> = asked.iter().take(5).map(|(to, _)| to.is_broadcast()).collect();
    assert_eq!(to, [false, false, true, true, true]);
    assert!(asked.iter().take(2).all(|(to, arp)| *to == HOST && arp.target == ip("10.0.1.9")));
    assert!(rig.drops()["router.control/neighbor-unresolved"] > 0);
    // Later it is there again.
    rig.run(10 * SECOND);
    assert_eq!(neighbor(&rig, "10.0.1.9"), None, "forgotten");
    rig.send(0, rig.udp(0, "10.0.0.9", "10.0.1.9").to_vec(&[0; 20]));
    rig.settle();
    rig.sent(1);
    rig.arp_reply(1, ip("10.0.1.9"), HOST, ip("10.0.1.1"));
    rig.settle();
    assert_eq!(rig.sent_ip(1).len(), 1);
    rig.finish();
}

#[test]
fn an_unused_neighbour_is_forgotten() {
    let mut rig = quiet(TWO, json!({ "neighbor_timers": { "reachable": "5 s", "stale": "10 s" } }));
    send_arp(&mut rig, 0, MacAddr::BROADCAST, request("10.0.0.9", HOST, "10.0.0.1"));
    rig.run(8 * SECOND);
    assert!(neighbor(&rig, "10.0.0.9").is_some());
    rig.run(4 * SECOND);
    assert_eq!(neighbor(&rig, "10.0.0.9"), None);
    assert!(all_rows(rig.instance.show("routes", Some("learned"), 0).unwrap()).is_empty());
    rig.finish();
}

#[test]
fn a_gratuitous_announcement_moves_traffic() {
    let mut rig = quiet(TWO, json!({}));
    send_arp(&mut rig, 1, MacAddr::BROADCAST, request("10.0.1.9", HOST, "10.0.1.1"));
    let moved = MacAddr([2, 0, 0, 0, 8, 8]);
    send_arp(&mut rig, 1, MacAddr::BROADCAST, request("10.0.1.9", moved, "10.0.1.9"));
    rig.sent(1);
    rig.send(0, rig.udp(0, "10.0.0.9", "10.0.1.9").to_vec(&[0; 20]));
    rig.settle();
    assert_eq!(rig.sent_ip(1)[0][..6], moved.0);
    rig.finish();
}

#[test]
fn a_duplicate_of_an_own_address_is_told_and_defended_against() {
    let mut rig = quiet(TWO, json!({}));
    for _ in 0..3 {
        send_arp(&mut rig, 0, MacAddr::BROADCAST, request("10.0.0.1", HOST, "10.0.0.9"));
    }
    // One announcement in ten seconds (RFC 5227 section 2.4).
    let defence = rig.sent_arp(0);
    assert_eq!(defence.len(), 1);
    assert_eq!((defence[0].1.sender, defence[0].1.sender_mac), (ip("10.0.0.1"), rig.mac(0)));
    assert_eq!(rig.fates()["arp-conflict"], 3);
    let addresses = rig.show("addresses");
    assert_eq!(addresses.iter().find(|row| row["address"] == "10.0.0.1/24").unwrap()["rival"], HOST.to_string());
    let gauges = rig.instance.gauges();
    assert_eq!(gauges.iter().find(|gauge| gauge.0 == "duplicate_addresses").unwrap().2, 1.0);
    // Told once, however often it is heard, and answered once in ten seconds though it never falls silent.
    let told = rig.instance.notices(rig.engine.now());
    let [notice] = &told[..] else { panic!("{told:?}") };
    assert_eq!(notice.message, "another station uses one of our addresses");
    let facts = [("port", "left"), ("address", "10.0.0.1"), ("mac", "02:00:00:00:07:07"), ("times", "3")];
    assert_eq!(notice.facts, facts.map(|(name, fact)| (name, fact.to_owned())));
    for _ in 0..30 {
        rig.run(SECOND);
        send_arp(&mut rig, 0, MacAddr::BROADCAST, request("10.0.0.1", HOST, "10.0.0.9"));
    }
    assert_eq!(rig.sent_arp(0).len(), 3);
    assert!(rig.instance.notices(rig.engine.now()).is_empty());
    rig.finish();
}

#[test]
fn proxy_arp_answers_for_what_is_reached_by_another_port() {
    let mut rig = quiet(TWO, json!({ "proxy_arp": ["left"], "routes": { "192.0.2.0/24": "10.0.1.9" } }));
    for (target, answers) in [("10.0.1.77", 1), ("192.0.2.7", 1), ("10.0.0.77", 0), ("203.0.113.1", 0)] {
        send_arp(&mut rig, 0, MacAddr::BROADCAST, request("10.0.0.9", HOST, target));
        let sent = rig.sent_arp(0);
        assert_eq!(sent.len(), answers, "{target}");
        assert!(sent.iter().all(|(to, arp)| *to == HOST && arp.sender == ip(target) && arp.sender_mac == rig.mac(0)));
        send_arp(&mut rig, 1, MacAddr::BROADCAST, request("10.0.1.9", HOST, "10.0.0.77"));
        assert!(rig.sent_arp(1).is_empty(), "not on the other port");
    }
    // A probe or an announcement is not contradicted.
    send_arp(&mut rig, 0, MacAddr::BROADCAST, request("0.0.0.0", HOST, "10.0.1.77"));
    send_arp(&mut rig, 0, MacAddr::BROADCAST, request("10.0.1.77", HOST, "10.0.1.77"));
    assert!(rig.sent_arp(0).is_empty());
    rig.reload(&json!({ "routes": { "192.0.2.0/24": "10.0.1.9" } }));
    send_arp(&mut rig, 0, MacAddr::BROADCAST, request("10.0.0.9", HOST, "192.0.2.7"));
    assert!(rig.sent_arp(0).is_empty());
    rig.finish();
}

#[test]
fn no_proxy_answers_for_what_no_station_has() {
    let mut rig = quiet(TWO, json!({ "proxy_arp": ["left"], "routes": { "0.0.0.0/0": "10.0.1.9" } }));
    let nobodys =
        ["0.0.0.1", "127.0.0.1", "169.254.0.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"];
    for target in nobodys {
        send_arp(&mut rig, 0, MacAddr::BROADCAST, request("10.0.0.9", HOST, target));
        assert!(rig.sent_arp(0).is_empty(), "{target}");
    }
    send_arp(&mut rig, 0, MacAddr::BROADCAST, request("10.0.0.9", HOST, "203.0.113.1"));
    assert_eq!(rig.sent_arp(0).len(), 1, "the default route leads there");
    rig.finish();
}

#[test]
fn a_link_of_two_and_an_address_of_one() {
    const PORTS: &[PortSpec] =
        &[PortSpec("left", &["10.0.0.0/31", "203.0.113.1/32"], 1500), PortSpec("right", &["10.0.1.1/24"], 1500)];
    let mut rig = quiet(PORTS, json!({ "routes": { "192.0.2.0/24": "10.0.0.1" } }));
    // RFC 3021: both addresses of a /31 are hosts, one of them the router's own.
    rig.send(1, rig.udp(1, "10.0.1.9", "192.0.2.1").to_vec(&[0; 20]));
    rig.settle();
    assert_eq!(rig.sent_arp(0)[0].1.target, ip("10.0.0.1"));
    rig.arp_reply(0, ip("10.0.0.1"), HOST, ip("10.0.0.0"));
    rig.settle();
    assert_eq!(rig.sent_ip(0).len(), 1);
    // A /32 is nobody's but the router's own.
    let rows: Vec<Value> = rig.show("routes");
    assert!(rows.iter().all(|row| row["prefix"] != "203.0.113.1/32"));
    send_arp(&mut rig, 0, MacAddr::BROADCAST, request("10.0.0.1", HOST, "203.0.113.1"));
    assert_eq!(rig.sent_arp(0).len(), 1, "and it answers for it");
    rig.finish();
}

#[test]
fn a_link_that_goes_down_forgets_its_neighbours_and_routes() {
    let mut rig = quiet(TWO, json!({ "routes": { "192.0.2.0/24": "10.0.1.9" } }));
    send_arp(&mut rig, 1, MacAddr::BROADCAST, request("10.0.1.9", HOST, "10.0.1.1"));
    rig.sent(1);
    let frame = rig.udp(0, "10.0.0.9", "192.0.2.7").to_vec(&[0; 20]);
    rig.send(0, frame.clone());
    rig.settle();
    assert_eq!(rig.sent_ip(1).len(), 1);
    rig.instance.link_changed(1, false, rig.engine.now());
    assert!(rig.show("neighbors").is_empty());
    rig.send(0, frame.clone());
    rig.settle();
    assert_eq!(rig.drops()["router.control/no-route"], 1);
    rig.instance.link_changed(1, true, rig.engine.now());
    rig.send(0, frame);
    rig.settle();
    // Asked for again: somebody else may be there now. And the router announces itself again.
    assert!(rig.sent_arp(1).iter().any(|(_, arp)| arp.target == ip("10.0.1.9")));
    assert_eq!(rig.account().held, 2, "the packet, and the error about the one before");
    rig.finish();
}
