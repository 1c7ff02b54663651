//! Everything of IPv6 that comes in is accounted for, whatever it is: chains of headers, fragments, neighbour discovery, in VRFs and with
//! tags.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::six::*;
use common::*;
use serde_json::json;
use weir_stage::{InterfaceInfo, Random};
use weir_wire::nd;

/// Where packets go: hosts that answer and such that do not, routes of every kind, groups, own addresses, and what nobody may have.
const TO: &[&str] = &[
    RIGHT,
    "2001:db8:0:2::77",
    "2001:db8:7::7",
    "2001:db8:b::1",
    "2001:db8:c::1",
    "2001:db8:d::1",
    "2001:db8:ffff::1",
    "2001:db8:0:1::1",
    "2001:db8:0:2::1",
    "2001:db8:0:1::",
    "fe80::9",
    "ff02::1",
    "ff02::2",
    "ff02::1:ff00:1",
    "ff0e::7",
    "::1",
    "::",
    "::ffff:192.0.2.1",
];

/// Where they come from.
const FROM: &[&str] = &[LEFT, LEFT, LEFT, RIGHT, "fe80::9", "::", "ff02::1", "::1", "2001:db8:0:1::1"];

fn rig() -> Rig {
    let vlan = InterfaceInfo {
        vrf: Some("red".to_owned()),
        ..interface("left.5", Some("left"), &[(0x8100, 5)], &["2001:db8:0:1::1/64"])
    };
    let config = json!({
        "neighbors": { LEFT: LEFT_MAC.to_string(), RIGHT: RIGHT_MAC.to_string() },
        "routes": {
            "2001:db8:7::/48": [RIGHT, "fe80::9%right"],
            "2001:db8:b::/48": "blackhole", "2001:db8:c::/48": "unreachable", "2001:db8:d::/48": "prohibit",
        },
        "vrfs": { "red": { "routes": { "2001:db8:7::/48": "2001:db8:0:2::9%right" } } },
        "advertise": { "left": { "interval": "4 s" } },
        "proxy_arp": ["left"],
        "redirects": true,
        "punt_rate": "100 kpps",
    });
    Rig::with(TWO6, vec![vlan], config).quiet()
}

fn pick<'a>(random: &mut Random, of: &[&'a str]) -> &'a str {
    of[random.position(of.len())]
}

/// An extension header, which says that `next` comes behind it: hop-by-hop, routing, fragment, destination options.
fn extension(random: &mut Random, next: u8) -> (u8, Vec<u8>) {
    let kind = [0, 43, 44, 60, 60, 51, 135][random.position(7)];
    let units = random.below(4) as u8;
    let mut header = vec![next, if kind == 44 { 0 } else { units }];
    let length = if kind == 44 {
        8
    } else if kind == 51 {
        4 * (usize::from(units) + 2)
    } else {
        8 * (usize::from(units) + 1)
    };
    header.extend(
        (2..length).map(|_| if random.one_in(3) { random.next() as u8 } else { [0, 1, 5, 0x1e][random.position(4)] }),
    );
    (kind, header)
}

/// What a packet carries: the number of it, and its bytes.
fn carried(random: &mut Random, from: &str, to: &str) -> (u8, Vec<u8>) {
    let data: Vec<u8> = (0..random.below(300)).map(|n| n as u8).collect();
    match random.below(8) {
        0..=2 => (17, [&[0xc0, 0x20, 0, 9, 0, 8, 0, 0][..], &data].concat()),
        3 => (58, icmp6(from, to, 128, 0, [0, 7, 0, 1], &data)),
        4 => (58, icmp6(from, to, 1 + random.below(4) as u8, 0, [0; 4], &data)),
        5 => {
            let kind = 130 + random.below(8) as u8;
            let target = ip6(pick(random, TO)).octets();
            (58, icmp6(from, to, kind, 0, [0x60, 0, 0, 0], &[&target[..], &[1, 1, 2, 0, 0, 0, 9, 7]].concat()))
        }
        6 => (6, data),
        _ => (random.next() as u8, data),
    }
}

/// A frame to the router, by a port of which this is the MAC address.
fn make(random: &mut Random, rig: &Rig, port: usize) -> Vec<u8> {
    let (from, to) = (pick(random, FROM), pick(random, TO));
    let (mut next, mut payload) = carried(random, from, to);
    let chain = if random.one_in(40) { 30 } else { random.below(4).saturating_sub(1) };
    for _ in 0..chain {
        let (kind, header) = extension(random, next);
        payload = [header, payload].concat();
        next = kind;
    }
    let hops = [255, 64, 2, 1, 0][random.position(5)];
    let mut frame = frame6(rig, port, &packet6(from, to, next, hops, &payload));
    if random.one_in(4) {
        let tag = [0x81, 0, 0, if random.one_in(5) { 6 } else { 5 }];
        frame.splice(12..12, tag);
    }
    if random.one_in(6) {
        frame[5] ^= 1;
    }
    frame
}

/// Changes some bytes, or the length.
fn mutate(random: &mut Random, frame: &mut Vec<u8>) {
    match random.below(6) {
        0 => frame.truncate(1 + random.position(frame.len())),
        1 => frame.extend((0..random.below(100)).map(|n| n as u8)),
        _ => {
            for _ in 0..=random.below(3) {
                let at =
                    if random.one_in(2) { random.position(frame.len().min(80)) } else { random.position(frame.len()) };
                frame[at] = random.next() as u8;
            }
        }
    }
}

/// Packets dropped for what the first check refuses.
fn early_drops(rig: &mut Rig) -> u64 {
    let first = |name: &String| {
        let reason = name.strip_prefix("router.forward/").unwrap_or_default();
        reason.starts_with("ip") && !reason.ends_with("multicast")
            || matches!(reason, "too-short" | "not-for-us" | "unknown-ethertype" | "unknown-tag")
    };
    rig.drops().iter().filter(|(name, _)| first(name)).map(|(_, count)| count).sum()
}

#[test]
fn mutated_packets_do_no_harm_and_are_all_accounted_for() {
    // Ten million, as a release has to pass, take half a minute: WEIR_MUTATED=10000000 cargo test ...
    let count: u64 = std::env::var("WEIR_MUTATED").map_or(1_000_000, |count| count.parse().unwrap());
    let (mut rig, mut random) = (rig(), Random::new(7));
    let before = rig.account();
    for n in 0..count {
        let port = random.position(2);
        let mut frame = make(&mut random, &rig, port);
        if random.one_in(2) {
            mutate(&mut random, &mut frame);
        }
        rig.send(port, frame);
        if n % 256 == 255 {
            rig.run(200_000);
            (0..2).for_each(|port| drop(rig.sent(port)));
        }
    }
    // Long enough for neighbours and fragments to be given up.
    rig.run(70 * SECOND);
    assert_eq!(rig.account().received - before.received, count, "each frame that was sent in was counted");
    let passed = count - early_drops(&mut rig);
    assert!(passed * 10 >= count * 3, "{passed} of {count} passed the first check");
    let drops = rig.drops();
    for reason in ["ip6-truncated", "ip6-martian-destination", "blackhole", "ip6-multicast", "too-short", "unknown-tag"]
    {
        assert!(drops.contains_key(&format!("router.forward/{reason}")), "{reason} did not occur: {drops:?}");
    }
    for reason in [
        "ttl-expired",
        "bad-extension-header",
        "local-port",
        "neighbor-unresolved",
        "prohibited",
        "rejected",
        "beyond-scope",
    ] {
        assert!(drops.contains_key(&format!("router.control/{reason}")), "{reason} did not occur: {drops:?}");
    }
    assert!(rig.show("neighbors").len() < 5_000, "whoever speaks does not fill the table");
    rig.finish();
}

/// A scan of a network of 2^64 addresses: those who are there are reached all the same, and memory is bounded.
#[test]
fn a_scan_of_a_network_drives_nobody_out() {
    let mut rig = Rig::new(TWO6, json!({ "neighbors": { LEFT: LEFT_MAC.to_string() } })).quiet();
    // Somebody is there, and is talked to.
    rig.nd(1, RIGHT_MAC, &nd::Message::solicitation(ip6(RIGHT), RIGHT_MAC, ip6("2001:db8:0:2::1")));
    let known = udp6(&rig, 0, LEFT, RIGHT, 64, 20);
    for n in 0u32..65_536 {
        let host = format!("2001:db8:0:2::{:x}:{:x}", 0x100 + n / 65_536, n % 65_536);
        rig.send(0, udp6(&rig, 0, LEFT, &host, 64, 20));
        if n % 64 == 63 {
            rig.run(1_000_000);
            drop(rig.sent(1));
        }
    }
    assert!(rig.show("neighbors").len() <= 1_100, "{} are in the table", rig.show("neighbors").len());
    assert!(rig.account().held <= 1_200, "{} wait", rig.account().held);
    rig.send(0, known);
    rig.settle();
    assert_eq!(rig.sent_six(1).len(), 1, "who is there is reached at once");
    rig.run(70 * SECOND);
    rig.finish();
}
