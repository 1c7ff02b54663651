//! The slow path of IPv6: errors, echo, packets that wait; with packets from the RFCs' definitions.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::six::*;
use common::*;
use serde_json::{Value, json};
use weir_wire::nd::Body;

/// A router whose hosts are all known, at rest.
fn known(extra: &Value) -> Rig {
    known_on(TWO6, extra)
}

fn known_on(ports: &[PortSpec], extra: &Value) -> Rig {
    let mut config = json!({
        "neighbors": { LEFT: LEFT_MAC.to_string(), RIGHT: RIGHT_MAC.to_string() },
        "routes": {
            "2001:db8:7::/48": RIGHT,
            "2001:db8:b::/48": "blackhole", "2001:db8:c::/48": "unreachable", "2001:db8:d::/48": "prohibit",
        },
    });
    for (key, value) in extra.as_object().unwrap() {
        config[key] = value.clone();
    }
    Rig::new(ports, config).quiet()
}

/// The router's address on the left.
const OWN: &str = "2001:db8:0:1::1";
const FAR: &str = "2001:db8:7::7";

/// A packet with extension headers: the number of the first one, and all that follows.
fn with(rig: &Rig, destination: &str, next: u8, payload: &[u8]) -> Vec<u8> {
    frame6(rig, 0, &packet6(LEFT, destination, next, 64, payload))
}

/// An options header of 8 bytes with one option of 4 bytes.
fn options(next: u8, kind: u8) -> Vec<u8> {
    vec![next, 0, kind, 4, 0, 0, 0, 0]
}

/// RFC 4443 section 3, each type and code that a router sends, byte for byte.
#[test]
fn every_icmpv6_error_byte_for_byte() {
    let mut rig = known(&json!({}));
    let udp = |to: &str, hops, size| udp6(&rig, 0, LEFT, to, hops, size);
    let many: Vec<u8> = (0..8).flat_map(|_| options(60, 0x1e)).chain(options(17, 0x1e)).chain([0; 8]).collect();
    let crowded: Vec<u8> = [&[17, 2][..], &[0; 22], &[0; 8]].concat();
    let long: Vec<u8> = [&[17, 64, 1, 255][..], &[0; 516], &[0; 8]].concat();
    let routing = [&[17, 2, 0, 1][..], &[0; 20], &[0; 8]].concat();
    let misplaced = [options(0, 0x1e), options(17, 0x1e), vec![0; 8]].concat();
    let cases = [
        ("ttl-expired", udp(FAR, 1, 1500), (3, 0, 0)),
        ("ttl-expired", udp(FAR, 0, 0), (3, 0, 0)),
        ("no-route", udp("2001:db8:ffff::1", 64, 20), (1, 0, 0)),
        ("rejected", udp("2001:db8:c::1", 64, 20), (1, 6, 0)),
        ("prohibited", udp("2001:db8:d::1", 64, 20), (1, 1, 0)),
        ("packet-too-big", udp(FAR, 64, 1353), (2, 0, 1400)),
        ("local-port", udp(OWN, 64, 20), (1, 4, 0)),
        ("local-port", udp("2001:db8:0:2::1", 1, 20), (1, 4, 0)),
        ("local-protocol", with(&rig, OWN, 6, &[0; 20]), (4, 1, 6)),
        ("local-protocol", with(&rig, OWN, 60, &[options(89, 0x1e), vec![0; 8]].concat()), (4, 1, 40)),
        ("bad-extension-header", with(&rig, FAR, 0, &[options(17, 0x9e), vec![0; 8]].concat()), (4, 2, 42)),
        ("bad-extension-header", with(&rig, FAR, 0, &[options(17, 0xde), vec![0; 8]].concat()), (4, 2, 42)),
        ("bad-extension-header", with(&rig, FAR, 0, &[17, 0, 5, 9, 0, 0, 0, 0, 0, 0]), (4, 0, 43)),
        ("bad-extension-header", with(&rig, FAR, 0, &crowded), (4, 9, 58)),
        ("bad-extension-header", with(&rig, FAR, 0, &long), (4, 7, 552)),
        ("bad-extension-header", with(&rig, OWN, 60, &[options(17, 0x9e), vec![0; 8]].concat()), (4, 2, 42)),
        ("bad-extension-header", with(&rig, OWN, 43, &routing), (4, 0, 42)),
        ("bad-extension-header", with(&rig, OWN, 60, &misplaced), (4, 1, 40)),
        ("bad-extension-header", with(&rig, OWN, 60, &many), (4, 8, 104)),
    ];
    for (n, (reason, frame, (kind, code, rest))) in cases.into_iter().enumerate() {
        rig.send(0, frame.clone());
        rig.settle();
        // "If the message is a response to a message sent to one of the node's unicast addresses, the Source Address of the reply MUST
        // be that same address" (section 2.2).
        let asked = std::net::Ipv6Addr::from_octets(frame[38..54].try_into().unwrap()).to_string();
        let from = if reason.starts_with("local") && asked.ends_with("::1") { asked.as_str() } else { OWN };
        let answers = rig.sent_six(0);
        let [answer] = &answers[..] else {
            panic!("{n} {reason}: one answer, not {}: {:?}", answers.len(), rig.drops())
        };
        assert_eq!(*answer, error6(&rig, from, &frame, kind, code, rest), "{n} {reason}");
        assert!(rig.drops()[&format!("router.control/{reason}")] > 0);
        assert!(rig.sent_six(1).is_empty());
    }
    rig.finish();
}

/// RFC 4443 section 3.1 code 2, and RFC 4007 section 9.
#[test]
fn a_link_local_source_stays_on_its_link() {
    let mut rig = known(&json!({}));
    let source = "fe80::9";
    let frame = udp6(&rig, 0, source, FAR, 64, 20);
    rig.send(0, frame.clone());
    rig.settle();
    rig.nd_reply(0, source, LEFT_MAC, rig.link_local(0));
    let [answer] = &rig.sent_six(0)[..] else { panic!("one answer: {:?}", rig.drops()) };
    assert_eq!(*answer, error6(&rig, &rig.link_local(0).to_string(), &frame, 1, 2, 0));
    // To the router itself it is as good as any other.
    let frame = udp6(&rig, 0, source, OWN, 64, 20);
    rig.send(0, frame.clone());
    rig.settle();
    assert_eq!(rig.sent_six(0), [error6(&rig, OWN, &frame, 1, 4, 0)]);
    assert!(rig.sent_six(1).is_empty());
    rig.finish();
}

/// RFC 4443 section 3.1 code 3: each packet that waited is reported.
#[test]
fn an_unreachable_host_is_reported_for_every_packet_that_waited() {
    let mut rig = known(&json!({}));
    let frame = udp6(&rig, 0, LEFT, "2001:db8:0:2::77", 64, 20);
    (0..3).for_each(|_| rig.send(0, frame.clone()));
    rig.settle();
    assert_eq!(rig.account().held, 3);
    rig.run(5 * SECOND);
    let target = ip6("2001:db8:0:2::77");
    let asked = rig
        .sent_nd(1)
        .into_iter()
        .filter(|(_, message)| matches!(message.body, Body::Solicitation { target: asked, .. } if asked == target));
    assert_eq!(asked.count(), 3);
    assert_eq!(rig.drops()["router.control/neighbor-unresolved"], 3);
    assert_eq!(rig.sent_six(0), vec![error6(&rig, OWN, &frame, 1, 3, 0); 3]);
    rig.finish();
}

/// RFC 4443 section 2.4 (e), and RFC 8200 section 4.2.
#[test]
fn no_error_about_what_must_not_be_reported() {
    let mut rig = known(&json!({}));
    let about = |kind: u8| {
        let message = icmp6(LEFT, FAR, kind, 0, [0; 4], &[0x60; 48]);
        frame6(&rig, 0, &packet6(LEFT, FAR, 58, 1, &message))
    };
    let mut silent: Vec<(&str, Vec<u8>)> = [1, 2, 3, 4, 100, 127].map(|kind| ("ttl-expired", about(kind))).into();
    // Nobody could be told: the source is behind no route, or it came to all.
    silent.push(("ttl-expired", udp6(&rig, 0, "2001:db8:ffff::1", FAR, 1, 20)));
    let mut to_all = with(&rig, FAR, 0, &[options(17, 0xde), vec![0; 8]].concat());
    to_all[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
    silent.push(("blackhole", udp6(&rig, 0, LEFT, "2001:db8:b::1", 64, 20)));
    // "01 - discard the packet."
    silent.push(("bad-extension-header", with(&rig, FAR, 0, &[options(17, 0x5e), vec![0; 8]].concat())));
    silent.push(("bad-extension-header", with(&rig, OWN, 60, &[options(17, 0x5e), vec![0; 8]].concat())));
    // "11 - [...] only if the packet's Destination Address was not a multicast address".
    silent.push(("bad-extension-header", with(&rig, "ff02::1", 60, &[options(17, 0xde), vec![0; 8]].concat())));
    silent.push(("local-protocol", with(&rig, "ff02::1", 6, &[0; 20])));
    silent.push(("local-port", udp6(&rig, 0, LEFT, "ff02::1", 64, 20)));
    silent.push(("local-protocol", with(&rig, OWN, 59, &[0; 20])));
    for (n, (reason, frame)) in silent.into_iter().enumerate() {
        rig.send(0, frame);
        rig.settle();
        let dropped = rig.drops();
        assert!(dropped.keys().any(|key| key.ends_with(&format!("/{reason}"))), "{n} {reason}: {dropped:?}");
        assert!(rig.sent_six(0).is_empty(), "{n} {reason}");
    }
    // "10 - [...] regardless of whether or not the packet's Destination Address was a multicast address".
    let told = with(&rig, "ff02::1", 60, &[options(17, 0x9e), vec![0; 8]].concat());
    // An echo request may be reported.
    let echo = icmp6(LEFT, FAR, 128, 0, [0; 4], b"ping");
    let echo = frame6(&rig, 0, &packet6(LEFT, FAR, 58, 1, &echo));
    for (frame, (kind, code, rest)) in [(told, (4, 2, 42)), (echo, (3, 0, 0))] {
        rig.send(0, frame.clone());
        rig.settle();
        assert_eq!(rig.sent_six(0), [error6(&rig, OWN, &frame, kind, code, rest)]);
    }
    rig.finish();
}

#[test]
fn errors_are_limited_by_kind_and_by_family() {
    let mut rig = known(&json!({ "icmp_rate": "20 pps", "punt_rate": "1 Mpps" }));
    for second in 0..3u64 {
        let expired = udp6(&rig, 0, LEFT, FAR, 1, 20);
        (0..50).for_each(|_| rig.send(0, expired.clone()));
        rig.run(SECOND);
        // A tenth of a second's worth may be saved up.
        assert_eq!(rig.sent_six(0).len(), 2, "second {second}");
        let unrouted = udp6(&rig, 0, LEFT, "2001:db8:ffff::1", 64, 20);
        rig.send(0, unrouted);
        rig.run(SECOND);
        assert_eq!(rig.sent_six(0).len(), 1, "another kind has a rate of its own");
    }
    rig.finish();
}

/// An echo request from a host on the left; `None` behind nothing, else behind destination options.
fn echo_request(rig: &Rig, source: &str, to: &str, hops: u8, size: usize, ahead: Option<Vec<u8>>) -> Vec<u8> {
    let data: Vec<u8> = (0..size).map(|n| n as u8).collect();
    let message = icmp6(source, to, 128, 0, [0, 7, 0, 9], &data);
    match ahead {
        None => frame6(rig, 0, &packet6(source, to, 58, hops, &message)),
        Some(ahead) => frame6(rig, 0, &packet6(source, to, 60, hops, &[ahead, message].concat())),
    }
}

fn echo_reply(rig: &Rig, from: &str, to: &str, size: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..size).map(|n| n as u8).collect();
    let packet = packet6(from, to, 58, 64, &icmp6(from, to, 129, 0, [0, 7, 0, 9], &data));
    [&LEFT_MAC.0[..], &rig.mac(0).0, &[0x86, 0xdd], &packet].concat()
}

/// RFC 4443 section 4.2: from the address that was asked; "if [...] sent to an IPv6 multicast address [...] of an interface".
#[test]
fn an_echo_request_is_answered_from_the_address_that_was_asked() {
    let mut rig = known(&json!({}));
    let link_local = rig.link_local(0).to_string();
    let source = "fe80::9";
    // Its link-local address becomes known by its question.
    rig.nd(0, LEFT_MAC, &weir_wire::nd::Message::solicitation(ip6(source), LEFT_MAC, rig.link_local(0)));
    rig.settle();
    rig.sent(0);
    let node = weir_wire::nd::solicited_node(ip6(OWN)).to_string();
    let cases = [
        (LEFT, OWN, OWN),
        (LEFT, "2001:db8:0:2::1", "2001:db8:0:2::1"),
        (LEFT, link_local.as_str(), link_local.as_str()),
        (source, link_local.as_str(), link_local.as_str()),
        (source, OWN, OWN),
        // The anycast address of the subnet's routers, and groups: one of the interface's own, of the asker's scope.
        (LEFT, "2001:db8:0:1::", OWN),
        (LEFT, "ff02::1", OWN),
        (source, "ff02::1", link_local.as_str()),
        (source, "ff02::2", link_local.as_str()),
        (source, node.as_str(), link_local.as_str()),
    ];
    for (asker, asked, answers) in cases {
        for (hops, size, ahead) in [(64, 0, None), (1, 57, None), (255, 1000, Some(options(58, 0x1e)))] {
            let request = echo_request(&rig, asker, asked, hops, size, ahead);
            rig.send(0, request);
            rig.settle();
            let expected = echo_reply(&rig, answers, asker, size);
            assert_eq!(rig.sent_six(0), [expected], "{asker} asks {asked}, {size}: {:?}", rig.drops());
        }
    }
    assert_eq!(rig.fates()["echo-answered"], 30);
    rig.finish();
}

#[test]
fn what_else_comes_for_the_router() {
    let mut rig = known(&json!({}));
    let mut bad_checksum = echo_request(&rig, LEFT, OWN, 64, 8, None);
    *bad_checksum.last_mut().unwrap() ^= 1;
    let icmp = |to: &str, kind| frame6(&rig, 0, &packet6(LEFT, to, 58, 64, &icmp6(LEFT, to, kind, 0, [0; 4], b"x")));
    let other = rig.link_local(1).to_string();
    let cases = [
        ("local-icmp-malformed", bad_checksum),
        ("local-icmp-malformed", frame6(&rig, 0, &packet6(LEFT, OWN, 58, 64, &[128, 0, 0xf7]))),
        ("local-icmp", icmp(OWN, 129)),
        ("local-icmp", icmp(OWN, 1)),
        ("local-icmp", icmp(OWN, 200)),
        // Its address on another link, and a group that nobody listens to here.
        ("link-local", icmp(&other, 128)),
        ("link-local", icmp("fe80::77", 128)),
        ("not-listening", icmp("ff02::5", 128)),
        ("not-listening", icmp("ff02::1:ff00:9999", 128)),
    ];
    for (reason, frame) in cases {
        rig.send(0, frame);
        rig.settle();
        assert!(rig.drops().contains_key(&format!("router.control/{reason}")), "{reason}: {:?}", rig.drops());
        assert!(rig.sent_six(0).is_empty(), "{reason}");
    }
    rig.finish();
}

#[test]
fn a_packet_waits_for_its_neighbour_and_then_goes_the_fast_way() {
    let mut rig = Rig::new(TWO6, json!({})).quiet();
    let frame = udp6(&rig, 0, LEFT, RIGHT, 64, 30);
    rig.send(0, frame.clone());
    rig.settle();
    let [(to, message)] = rig.sent_nd(1)[..] else { panic!("one question") };
    let node = weir_wire::nd::solicited_node(ip6(RIGHT));
    assert_eq!((to, message.destination), (weir_wire::nd::group_mac(node), node));
    assert_eq!((message.source, rig.account().held), (ip6("2001:db8:0:2::1"), 1));
    rig.nd_reply(1, RIGHT, RIGHT_MAC, message.source);
    let [first] = &rig.sent_six(1)[..] else { panic!("one packet") };
    rig.send(0, frame.clone());
    rig.settle();
    let [second] = &rig.sent_six(1)[..] else { panic!("one packet") };
    assert_eq!(first, second, "both paths do the same to a packet");
    let mut expected = [&RIGHT_MAC.0[..], &rig.mac(1).0, &frame[12..]].concat();
    expected[21] = 63;
    assert_eq!(*first, expected);
    rig.finish();
}

#[test]
fn an_answer_waits_for_its_neighbour_too() {
    for host in ["2001:db8:0:1::50", "fe80::50"] {
        let mut rig = known(&json!({}));
        let request = echo_request(&rig, host, OWN, 64, 5, None);
        rig.send(0, request);
        rig.settle();
        let [(_, asked)] = rig.sent_nd(0)[..] else { panic!("one question") };
        assert_eq!(rig.account().held, 1);
        rig.nd_reply(0, host, LEFT_MAC, asked.source);
        assert_eq!(rig.sent_six(0), [echo_reply(&rig, OWN, host, 5)]);
        rig.finish();
    }
}

/// Hop-by-hop options that ask nothing are passed on, and a router alert (RFC 2711) is of no interest here.
#[test]
fn hop_by_hop_options_are_carried_out_on_the_way() {
    let mut rig = known(&json!({}));
    for option in [[1, 4, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [5, 2, 0, 0, 1, 0], [0x1e, 4, 9, 9, 9, 9]] {
        let frame = with(&rig, FAR, 0, &[&[17, 0][..], &option, &[0x11; 20]].concat());
        rig.send(0, frame.clone());
        rig.settle();
        let mut expected = [&RIGHT_MAC.0[..], &rig.mac(1).0, &frame[12..]].concat();
        expected[21] = 63;
        assert_eq!(rig.sent_six(1), [expected], "{option:?}: {:?}", rig.drops());
    }
    // At the end of its hops such a packet is told so as any other.
    let mut expired = with(&rig, FAR, 0, &[&[17, 0, 1, 4][..], &[0; 12]].concat());
    expired[21] = 1;
    rig.send(0, expired.clone());
    rig.settle();
    assert_eq!(rig.sent_six(0), [error6(&rig, OWN, &expired, 3, 0, 0)]);
    rig.finish();
}
