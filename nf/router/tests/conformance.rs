//! Clauses of `docs/conformance.md` that no other test shows: mostly what a router leaves alone.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::six::*;
use common::*;
use serde_json::json;

const BOTH: &[PortSpec] = &[
    PortSpec("left", &["10.0.0.1/24", "2001:db8:0:1::1/64"], 1500),
    PortSpec("right", &["10.0.1.1/24", "2001:db8:0:2::1/64"], 1500),
];

/// A router whose hosts are all known, at rest.
fn known() -> Rig {
    let config = json!({
        "neighbors": {
            "10.0.0.9": LEFT_MAC.to_string(), "10.0.1.9": RIGHT_MAC.to_string(),
            LEFT: LEFT_MAC.to_string(), RIGHT: RIGHT_MAC.to_string(),
        },
        "routes": {
            "192.0.2.0/24": "10.0.1.9", "198.51.100.0/24": "unreachable", "203.0.113.0/24": "prohibit",
            "2001:db8:7::/48": RIGHT,
        },
        "icmp_rate": "100 kpps", "punt_rate": "1 Mpps",
    });
    Rig::new(BOTH, config).quiet()
}

/// An IPv4 frame from the host on the left, from its parts.
fn frame4(rig: &Rig, to: &str, protocol: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    ip_frame(rig, 0, "10.0.0.9", to, protocol, options, payload)
}

/// What the router sends to the left because of a frame from there.
fn answers(rig: &mut Rig, frame: Vec<u8>) -> Vec<Vec<u8>> {
    rig.send(0, frame);
    rig.settle();
    assert!(rig.sent_ip(1).is_empty(), "nothing goes on");
    rig.sent_ip(0)
}

/// RFC 1812 sections 4.3.2.1, 4.3.3.7, 5.2.7.2 and 5.3.6: of all types of ICMP messages to the router, echo requests are answered, and all
/// others are dropped silently: redirects, Source Quench (RFC 6633), information and mask requests, and those that nobody has defined.
#[test]
fn no_icmp_message_but_an_echo_request_is_answered_or_heeded() {
    let mut rig = known();
    let routes = rig.show("routes");
    for kind in 0..=255 {
        for code in [0, 1] {
            // A redirect to the host on the left, for a network that the right one has the way to.
            let about = frame4(&rig, "192.0.2.7", 17, &[], &[0; 8]);
            let message = icmp_message(kind, code, [10, 0, 0, 9], &about[14..42]);
            let frame = frame4(&rig, "10.0.0.1", 1, &[], &message);
            let count = answers(&mut rig, frame).len();
            assert_eq!(count, usize::from(kind == 8), "type {kind}");
        }
    }
    assert_eq!(rig.show("routes"), routes, "no redirect was heeded");
    assert_eq!(rig.drops()["router.control/local-icmp"], 255 * 2);
    rig.finish();
}

/// RFC 1812 section 5.3.13.4 with RFC 7126 section 4.4: strict source routes are followed no more than loose ones.
#[test]
fn strict_source_routes_are_refused() {
    let mut rig = known();
    let frame = frame4(&rig, "192.0.2.7", 17, &[137, 7, 4, 10, 0, 1, 9, 0], &[0; 8]);
    let [answer] = &answers(&mut rig, frame)[..] else { panic!("one answer: {:?}", rig.drops()) };
    assert_eq!((answer[34], answer[35]), (3, 5));
    rig.finish();
}

/// RFC 1812 section 5.3.13.3: the obsolete stream identifier is ignored, and passed on as it is.
#[test]
fn a_stream_identifier_is_passed_on() {
    let mut rig = known();
    let option = [136, 4, 0x12, 0x34];
    rig.send(0, frame4(&rig, "192.0.2.7", 17, &option, &[7; 20]));
    rig.settle();
    let [out] = &rig.sent_ip(1)[..] else { panic!("one packet: {:?}", rig.drops()) };
    assert_eq!((&out[34..38], out[22]), (&option[..], 63));
    rig.finish();
}

/// RFC 1812 section 4.3.3.6: a timestamp option in an echo request comes back with the router's time in it.
#[test]
fn the_timestamp_of_an_echo_request_comes_back() {
    let mut rig = known();
    let option = [68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let frame = frame4(&rig, "10.0.0.1", 1, &option, &icmp_message(8, 0, [0, 1, 0, 2], b"data"));
    let [reply] = &answers(&mut rig, frame)[..] else { panic!("one reply: {:?}", rig.drops()) };
    assert_eq!((&reply[34..42], reply[42] & 0x80, reply[46]), (&[68, 12, 13, 1, 10, 0, 0, 1][..], 0x80, 0));
    rig.finish();
}

/// RFC 1812 section 5.2.7.1: which codes of Destination Unreachable the router sends, the obsolete ones (6, 8) never.
#[test]
fn routes_that_reject_are_told_by_their_codes() {
    let mut rig = known();
    for (to, code) in [("198.51.100.7", 0), ("203.0.113.7", 13), ("8.8.8.8", 0)] {
        let frame = frame4(&rig, to, 17, &[], &[0; 8]);
        let [answer] = &answers(&mut rig, frame)[..] else { panic!("{to}: one answer: {:?}", rig.drops()) };
        assert_eq!((answer[34], answer[35]), (3, code), "{to}");
    }
    rig.finish();
}

/// RFC 8200 sections 3, 6 and 7: every traffic class, and flow labels of every bit, pass as they are.
#[test]
fn traffic_class_and_flow_label_pass_on() {
    let mut rig = known();
    let words = (0..=255u32).map(|class| class << 20).chain((0..20).map(|bit| 1 << bit)).chain([0x0abf_edcb]);
    for word in words {
        let mut frame = udp6(&rig, 0, LEFT, "2001:db8:7::7", 64, 20);
        frame[14..18].copy_from_slice(&(6 << 28 | word).to_be_bytes());
        rig.send(0, frame.clone());
        rig.settle();
        let [out] = &rig.sent_six(1)[..] else { panic!("{word:x}: {:?}", rig.drops()) };
        assert_eq!((&out[14..21], out[21], &out[22..]), (&frame[14..21], 63, &frame[22..]), "{word:x}");
    }
    rig.finish();
}

/// RFC 6980 section 5: messages of neighbour discovery that come in fragments are ignored.
#[test]
fn discovery_in_fragments_is_ignored() {
    let mut rig = known();
    let (from, to) = ("2001:db8:0:1::77", "2001:db8:0:1::1");
    let target = ip6(to).octets();
    let message = icmp6(from, to, 135, 0, [0; 4], &[&target[..], &[1, 1, 2, 0, 0, 0, 9, 7]].concat());
    let header = |offset: u16| [&[58, 0][..], &offset.to_be_bytes(), &[0, 0, 0, 9]].concat();
    let whole = frame6(&rig, 0, &packet6(from, to, 58, 255, &message));
    let atomic = packet6(from, to, 44, 255, &[header(0), message.clone()].concat());
    let pieces = [(1, &message[..16]), (16, &message[16..])];
    let pieces = pieces.map(|(offset, part)| packet6(from, to, 44, 255, &[&header(offset)[..], part].concat()));
    for packet in [&atomic, &pieces[0], &pieces[1]] {
        rig.send(0, frame6(&rig, 0, packet));
        rig.settle();
        assert!(rig.sent_nd(0).is_empty(), "no answer");
    }
    assert_eq!(rig.drops()["router.control/nd-malformed"], 2);
    rig.send(0, whole);
    rig.settle();
    assert_eq!(rig.sent_nd(0).len(), 1, "the same in one piece is answered");
    rig.finish();
}
