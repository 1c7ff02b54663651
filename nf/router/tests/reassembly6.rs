//! IPv6 fragments to the router's own addresses (RFC 8200 section 4.5, RFC 5722, RFC 6946, RFC 7112).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::six::*;
use common::*;
use serde_json::json;

const OWN: &str = "2001:db8:0:1::1";

fn router(fragments: u32) -> Rig {
    let config = json!({
        "neighbors": { LEFT: LEFT_MAC.to_string(), "fe80::9%left": LEFT_MAC.to_string() },
        "limits": { "fragments": fragments },
    });
    Rig::new(TWO6, config).quiet()
}

/// A part of a payload, as a packet from the host to the router; `more` says whether others follow.
fn part(source: &str, to: &str, identification: u32, next: u8, piece: &[u8], at: usize, more: bool) -> Vec<u8> {
    let mut payload = vec![next, 0];
    payload.extend((at as u16 | u16::from(more)).to_be_bytes());
    payload.extend(identification.to_be_bytes());
    payload.extend(piece);
    packet6(source, to, 44, 9, &payload)
}

fn fragment(rig: &Rig, identification: u32, next: u8, payload: &[u8], from: usize, to: usize) -> Vec<u8> {
    frame6(rig, 0, &part(LEFT, OWN, identification, next, &payload[from..to], from, to < payload.len()))
}

fn echo_request(data: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..data).map(|n| (n % 251) as u8).collect();
    icmp6(LEFT, OWN, 128, 0, [0, 7, 0, 9], &data)
}

#[test]
fn an_echo_request_in_fragments_is_answered_in_fragments() {
    let mut rig = router(256);
    let mut identifications = Vec::new();
    for round in 0..2 {
        let request = echo_request(20_000);
        let bounds: Vec<usize> = (0..request.len()).step_by(1448).chain([request.len()]).collect();
        // From the last to the first.
        for pair in bounds.windows(2).rev() {
            let [from, to] = pair else { panic!() };
            assert!(rig.sent_six(0).is_empty());
            let frame = fragment(&rig, 1, 58, &request, *from, *to);
            rig.send(0, frame);
            rig.settle();
        }
        let mut reply = vec![0; request.len()];
        let pieces = rig.sent_six(0);
        // This router does not look for the MTU of paths, so that it sends nothing beyond what every link carries.
        assert_eq!(pieces.len(), request.len().div_ceil(1280 - 48));
        for (n, piece) in pieces.iter().enumerate() {
            assert_eq!((&piece[22..38], &piece[38..54]), (&ip6(OWN).octets()[..], &ip6(LEFT).octets()[..]));
            assert!(piece.len() - 14 <= 1280 && piece[20] == 44 && piece[54] == 58 && piece[21] == 64);
            let offset = usize::from(u16::from_be_bytes([piece[56], piece[57]]));
            assert_eq!(offset & 7, usize::from(n + 1 < pieces.len()));
            reply[offset & !7..][..piece.len() - 62].copy_from_slice(&piece[62..]);
        }
        assert_eq!(sum6(ip6(OWN), ip6(LEFT), 58, &reply), 0);
        assert_eq!((reply[0], &reply[4..]), (129, &request[4..]));
        identifications.push(pieces[0][58..62].to_vec());
        let (fates, all) = (rig.fates(), (round + 1) * pieces.len() as u64);
        assert_eq!((fates["echo-answered"], fates["echo-reply"]), (round + 1, round + 1));
        assert_eq!(fates["fragment"], all - round - 1);
    }
    assert_ne!(identifications[0], identifications[1]);
    rig.finish();
}

#[test]
fn what_nobody_listens_to_is_refused_when_it_is_whole() {
    let mut rig = router(256);
    let payload: Vec<u8> = (0..64).collect();
    let first = fragment(&rig, 1, 17, &payload, 0, 32);
    rig.send(0, first);
    rig.settle();
    assert_eq!((rig.sent_six(0).len(), rig.account().held), (0, 1));
    let last = fragment(&rig, 1, 17, &payload, 32, 64);
    rig.send(0, last);
    rig.settle();
    // It quotes what was put together.
    let whole = frame6(&rig, 0, &packet6(LEFT, OWN, 17, 9, &payload));
    assert_eq!(rig.sent_six(0), [error6(&rig, OWN, &whole, 1, 4, 0)]);
    assert_eq!((rig.drops()["router.control/local-port"], rig.fates()["reassembled"]), (1, 1));
    rig.finish();
}

/// RFC 8200 section 4.5: Time Exceeded, code 1, "if the first fragment [...] has been received".
#[test]
fn the_source_is_told_when_time_is_over_if_the_first_fragment_came() {
    let mut rig = router(256);
    let request = echo_request(100);
    let first = fragment(&rig, 1, 58, &request, 0, 48);
    let later = fragment(&rig, 2, 58, &request, 48, 96);
    rig.send(0, first.clone());
    rig.send(0, later);
    rig.run(59 * SECOND);
    assert_eq!((rig.account().held, rig.sent_six(0).len()), (2, 0));
    rig.run(2 * SECOND);
    assert_eq!(rig.sent_six(0), [error6(&rig, OWN, &first, 3, 1, 0)]);
    assert_eq!((rig.drops()["router.control/fragment-timeout"], rig.account().held), (2, 0));
    rig.finish();
}

/// RFC 5722: all of a packet whose fragments overlap is dropped, with what still comes of it.
#[test]
fn fragments_that_overlap_are_all_dropped() {
    let mut rig = router(256);
    let request = echo_request(100);
    for (from, to, held) in [(0, 48, 1), (40, 96, 0), (48, 96, 0), (96, 108, 0)] {
        let frame = fragment(&rig, 1, 58, &request, from, to);
        rig.send(0, frame);
        rig.settle();
        assert_eq!(rig.account().held, held);
    }
    assert!(rig.sent_six(0).is_empty());
    assert_eq!(rig.drops()["router.control/fragment-overlap"], 4);
    rig.finish();
}

/// RFC 6946: by itself, whatever waits with the same identification.
#[test]
fn a_whole_packet_with_a_fragment_header_is_answered_at_once() {
    let mut rig = router(256);
    let request = echo_request(40);
    let waits = fragment(&rig, 1, 58, &request, 0, 24);
    rig.send(0, waits);
    let atomic = fragment(&rig, 1, 58, &request, 0, request.len());
    rig.send(0, atomic);
    rig.settle();
    let [reply] = &rig.sent_six(0)[..] else { panic!("one reply") };
    assert_eq!((reply[20], reply[54], &reply[58..]), (58, 129, &request[4..]));
    assert_eq!((rig.account().held, rig.fates().get("reassembled")), (1, None));
    rig.finish();
}

/// RFC 8200 section 4.5 and RFC 7112: what its source is told of.
#[test]
fn pieces_that_can_be_none_are_reported_where_the_rfc_says() {
    let mut rig = router(256);
    let odd = frame6(&rig, 0, &part(LEFT, OWN, 1, 17, &[0; 12], 0, true));
    let beyond = frame6(&rig, 0, &part(LEFT, OWN, 2, 17, &[0; 16], 65_528, false));
    let without_header = frame6(&rig, 0, &part(LEFT, OWN, 3, 60, &[6, 0, 1, 4, 0, 0, 0, 0], 0, true));
    let empty = frame6(&rig, 0, &part(LEFT, OWN, 4, 17, &[], 8, false));
    for (frame, told) in [(odd, Some((0, 4))), (beyond, Some((0, 42))), (without_header, Some((3, 0))), (empty, None)] {
        rig.send(0, frame.clone());
        rig.settle();
        let expected: Vec<_> =
            told.map(|(code, pointer)| error6(&rig, OWN, &frame, 4, code, pointer)).into_iter().collect();
        assert_eq!(rig.sent_six(0), expected);
    }
    assert_eq!((rig.drops()["router.control/fragment-malformed"], rig.account().held), (4, 0));
    rig.finish();
}

/// What counts on a link only says nothing of other links: two hosts with the same link-local address are two.
#[test]
fn fragments_from_two_links_are_not_mixed() {
    let mut rig = router(256);
    let to = "ff02::1";
    let request = icmp6("fe80::9", to, 128, 0, [0, 7, 0, 9], &[1; 40]);
    let (first, last) = request.split_at(24);
    let on = |rig: &Rig, port, piece: &[u8], at, more| frame6(rig, port, &part("fe80::9", to, 1, 58, piece, at, more));
    let frames = [(0, on(&rig, 0, first, 0, true)), (1, on(&rig, 1, last, 24, false))];
    for (port, frame) in frames {
        rig.send(port, frame);
    }
    rig.settle();
    assert_eq!((rig.account().held, rig.sent_six(0).len(), rig.sent_six(1).len()), (2, 0, 0));
    let frame = on(&rig, 0, last, 24, false);
    rig.send(0, frame);
    rig.settle();
    assert_eq!((rig.account().held, rig.sent_six(0).len()), (1, 1));
    rig.finish();
}

#[test]
fn fragments_are_bounded_over_both_families() {
    let mut rig = router(4);
    let request = echo_request(100);
    for n in 0..10 {
        let frame = fragment(&rig, n, 58, &request, 0, 48);
        rig.send(0, frame);
    }
    rig.settle();
    assert_eq!((rig.account().held, rig.drops()["router.control/fragment-queue-full"]), (4, 6));
    rig.finish();
}
