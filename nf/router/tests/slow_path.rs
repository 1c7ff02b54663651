//! The slow path as a whole: ARP, ICMP, options, fragments, waiting packets; with packets from the RFCs' definitions.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::*;
use serde_json::json;
use weir_wire::ipv4::write_checksum;
use weir_wire::{Ipv4, MacAddr, View, icmp, validity};

const HOST: MacAddr = MacAddr([2, 0, 0, 0, 7, 7]);

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

#[test]
fn a_packet_waits_for_its_neighbour_and_then_goes_the_fast_way() {
    let mut rig = Rig::new(TWO, json!({}));
    let frame = rig.udp(0, "10.0.0.9", "10.0.1.9").to_vec(b"data");
    rig.send(0, frame.clone());
    rig.settle();
    let asked = rig.sent_arp(1);
    let request = asked.iter().find(|(_, arp)| arp.target == ip("10.0.1.9")).unwrap();
    assert_eq!((request.0, request.1.sender), (MacAddr::BROADCAST, ip("10.0.1.1")));
    assert_eq!(rig.account().held, 1);
    rig.arp_reply(1, ip("10.0.1.9"), HOST, ip("10.0.1.1"));
    rig.settle();
    let [first] = &rig.sent_ip(1)[..] else { panic!("one packet") };
    rig.send(0, frame.clone());
    rig.settle();
    let [second] = &rig.sent_ip(1)[..] else { panic!("one packet") };
    assert_eq!(first, second, "both paths do the same to a packet");
    assert_eq!((&first[..6], &first[6..12]), (&HOST.0[..], &rig.mac(1).0[..]));
    assert_eq!(validity::check_slice(&first[14..]), Ok(()));
    assert_eq!(Ipv4::view(&first[14..]).unwrap().ttl, 63);
    assert_eq!(first[14 + 12..], frame[14 + 12..first.len()]);
    let ways = ["arp", "port[1]", "unresolved"].map(|way| (way.to_owned(), 1));
    assert_eq!(rig.ways(), ways.into());
    rig.finish();
}

/// A router whose hosts are all known, with a route by the right one, at rest.
fn known(extra: serde_json::Value) -> Rig {
    known_on(TWO, extra)
}

fn known_on(ports: &[PortSpec], extra: serde_json::Value) -> Rig {
    let mut config = json!({
        "neighbors": { "10.0.1.9": HOST.to_string(), "10.0.0.9": "02:00:00:00:09:00" },
        "routes": { "192.0.2.0/24": "10.0.1.9" },
        "neighbor_timers": { "own_probes": 0 },
    });
    for (key, value) in extra.as_object().unwrap() {
        config[key] = value.clone();
    }
    let mut rig = Rig::new(ports, config);
    rig.run(5 * SECOND);
    (0..ports.len()).for_each(|port| drop(rig.sent(port)));
    rig
}

/// The ICMP error that RFC 792 and RFC 1812 section 4.3 ask for, byte for byte: 64 hops, precedence 6, as much of the
/// packet as 576 bytes allow.
fn expected_error(rig: &Rig, about: &[u8], kind: u8, code: u8, rest: [u8; 4], identification: u16) -> Vec<u8> {
    let quote = &about[14..];
    let quote = &quote[..quote.len().min(548)];
    let mut frame = Vec::new();
    frame.extend([2, 0, 0, 0, 9, 0]);
    frame.extend(rig.mac(0).0);
    frame.extend([8, 0]);
    let message = icmp_message(kind, code, rest, quote);
    let mut ip = vec![0x45, 0xc0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 9];
    ip[2..4].copy_from_slice(&((20 + message.len()) as u16).to_be_bytes());
    ip[4..6].copy_from_slice(&identification.to_be_bytes());
    write_checksum(&mut ip);
    frame.extend(ip);
    frame.extend(message);
    frame
}

#[test]
fn every_icmp_error_byte_for_byte() {
    const PORTS: &[PortSpec] = &[PortSpec("left", &["10.0.0.1/24"], 9000), PortSpec("right", &["10.0.1.1/24"], 600)];
    let mut rig = known_on(PORTS, json!({}));
    let udp = |rig: &Rig, to: &str, size: usize| rig.udp(0, "10.0.0.9", to).to_vec(&vec![0x5a; size]);
    let mut expired = udp(&rig, "192.0.2.7", 600);
    expired[22] = 1;
    write_checksum(&mut expired[14..]);
    let mut whole = udp(&rig, "192.0.2.7", 700);
    Ipv4::view_mut(&mut whole[14..]).unwrap().set_fragment(true, false, 0);
    write_checksum(&mut whole[14..]);
    let bad_option = ip_frame(&rig, 0, "10.0.0.9", "192.0.2.7", 17, &[7, 9, 4, 0], &[0; 8]);
    let source_route = ip_frame(&rig, 0, "10.0.0.9", "192.0.2.7", 17, &[131, 7, 4, 10, 0, 1, 9, 0], &[0; 8]);
    let cases = [
        ("ttl-expired", expired, 11, 0, [0; 4]),
        ("no-route", udp(&rig, "198.51.100.1", 20), 3, 0, [0; 4]),
        ("local-port", udp(&rig, "10.0.1.1", 20), 3, 3, [0; 4]),
        ("local-protocol", ip_frame(&rig, 0, "10.0.0.9", "10.0.0.1", 6, &[], &[0; 20]), 3, 2, [0; 4]),
        ("local-protocol", ip_frame(&rig, 0, "10.0.0.9", "10.0.0.1", 89, &[], &[0; 20]), 3, 2, [0; 4]),
        ("fragmentation-needed", whole, 3, 4, [0, 0, 0x02, 0x58]),
        ("bad-options", bad_option, 12, 0, [21, 0, 0, 0]),
        ("source-route", source_route, 3, 5, [0; 4]),
    ];
    for (n, (reason, frame, kind, code, rest)) in cases.into_iter().enumerate() {
        rig.send(0, frame.clone());
        rig.settle();
        let [answer] = &rig.sent(0)[..] else { panic!("{reason}: one answer") };
        assert_eq!(*answer, expected_error(&rig, &frame, kind, code, rest, n as u16 + 1), "{reason}");
        assert!(rig.drops()[&format!("router.control/{reason}")] > 0);
        assert!(rig.sent(1).is_empty());
    }
    rig.finish();
}

#[test]
fn an_unreachable_host_is_reported_for_every_packet_that_waited() {
    let mut rig = known(json!({}));
    let frame = rig.udp(0, "10.0.0.9", "10.0.1.77").to_vec(b"data");
    for _ in 0..3 {
        rig.send(0, frame.clone());
    }
    rig.settle();
    assert_eq!(rig.account().held, 3);
    rig.run(5 * SECOND);
    // Three requests a second apart (RFC 1122 section 2.3.2.1), then it is given up.
    let asked = rig.sent_arp(1);
    assert_eq!(asked.iter().filter(|(_, arp)| arp.target == ip("10.0.1.77")).count(), 3);
    assert_eq!(rig.drops()["router.control/neighbor-unresolved"], 3);
    let answers = rig.sent_ip(0);
    assert_eq!(answers.len(), 3);
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(*answer, expected_error(&rig, &frame, 3, 1, [0; 4], n as u16 + 1));
    }
    rig.finish();
}

#[test]
fn no_error_about_what_must_not_be_reported() {
    let mut rig = known(json!({}));
    let expired = |mut frame: Vec<u8>| {
        frame[22] = 1;
        write_checksum(&mut frame[14..]);
        frame
    };
    let udp = |from: &str| rig.udp(0, from, "192.0.2.7").to_vec(&[0; 20]);
    let mut first = udp("10.0.0.9");
    let mut later = udp("10.0.0.9");
    Ipv4::view_mut(&mut later[14..]).unwrap().set_fragment(false, false, 8);
    let errors = [3, 4, 5, 11, 12]
        .map(|kind| ip_frame(&rig, 0, "10.0.0.9", "192.0.2.7", 1, &[], &icmp_message(kind, 0, [0; 4], &[0x45; 28])));
    let mut silent: Vec<Vec<u8>> = errors.into_iter().map(expired).collect();
    silent.push(expired(later));
    // From a subnet's broadcast and network address, and from where no route leads back.
    silent.extend(["10.0.0.255", "10.0.1.0", "203.0.113.9"].map(|from| expired(udp(from))));
    let count = silent.len() as u64;
    for frame in silent {
        rig.send(0, frame);
    }
    // An echo request may be reported, as may a first fragment.
    let echo = expired(ip_frame(&rig, 0, "10.0.0.9", "192.0.2.7", 1, &[], &icmp_message(8, 0, [0; 4], b"ping")));
    Ipv4::view_mut(&mut first[14..]).unwrap().set_fragment(false, true, 0);
    rig.send(0, echo);
    rig.send(0, expired(first));
    rig.settle();
    assert_eq!(rig.drops()["router.control/ttl-expired"], count + 2);
    assert_eq!(rig.sent_ip(0).len(), 2);
    rig.finish();
}

#[test]
fn errors_are_limited_by_kind() {
    let mut rig = known(json!({ "icmp_rate": "20 pps", "punt_rate": "1 Mpps" }));
    for second in 0..3u64 {
        for n in 0..50 {
            let mut frame = rig.udp(0, "10.0.0.9", "192.0.2.7").to_vec(&[n; 20]);
            frame[22] = 1;
            write_checksum(&mut frame[14..]);
            rig.send(0, frame);
        }
        rig.run(SECOND);
        // A tenth of a second's worth may be saved up.
        assert_eq!(rig.sent_ip(0).len(), 2, "second {second}");
        let unrouted = rig.udp(0, "10.0.0.9", "203.0.113.1").to_vec(&[0; 20]);
        rig.send(0, unrouted);
        rig.run(SECOND);
        assert_eq!(rig.sent_ip(0).len(), 1, "another kind has a rate of its own");
    }
    rig.finish();
}

#[test]
fn an_echo_request_is_answered_whatever_its_ttl_and_size() {
    const PORTS: &[PortSpec] = &[PortSpec("left", &["10.0.0.1/24"], 9000), PortSpec("right", &["10.0.1.1/24"], 9000)];
    let mut rig = known_on(PORTS, json!({}));
    for (to, ttl, size) in [("10.0.0.1", 64, 0), ("10.0.0.1", 1, 56), ("10.0.1.1", 0, 1400), ("10.0.0.1", 255, 8900)] {
        let message = icmp_message(8, 0, icmp::echo_rest(7, 9), &vec![0xab; size]);
        let mut request = ip_frame(&rig, 0, "10.0.0.9", to, 1, &[], &message);
        request[22] = ttl;
        write_checksum(&mut request[14..]);
        rig.send(0, request.clone());
        rig.settle();
        let mut expected = request.clone();
        expected[..6].copy_from_slice(&[2, 0, 0, 0, 9, 0]);
        expected[6..12].copy_from_slice(&rig.mac(0).0);
        expected[22] = 64;
        let (source, destination) = ([10, 0, 0, 9], ip(to).octets());
        expected[26..30].copy_from_slice(&destination);
        expected[30..34].copy_from_slice(&source);
        write_checksum(&mut expected[14..]);
        icmp::write_header(&mut expected[34..], 0, 0, icmp::echo_rest(7, 9));
        assert_eq!(rig.sent(0), [expected], "{to} TTL {ttl}");
    }
    assert_eq!(rig.fates()["echo-answered"], 4);
    rig.finish();
}

#[test]
fn an_answer_waits_for_its_neighbour_too() {
    let mut rig = known(json!({}));
    let request = ip_frame(&rig, 0, "10.0.0.50", "10.0.0.1", 1, &[], &icmp_message(8, 0, [0; 4], b"hello"));
    rig.send(0, request);
    rig.settle();
    assert_eq!((rig.sent_ip(0).len(), rig.account().held), (0, 1));
    rig.arp_reply(0, ip("10.0.0.50"), HOST, ip("10.0.0.1"));
    rig.settle();
    let [reply] = &rig.sent_ip(0)[..] else { panic!("one reply") };
    assert_eq!((&reply[..6], reply[22], reply[34]), (&HOST.0[..], 64, 0));
    rig.finish();
}

#[test]
fn what_else_comes_for_the_router() {
    let mut rig = known(json!({}));
    let mut bad_checksum = ip_frame(&rig, 0, "10.0.0.9", "10.0.0.1", 1, &[], &icmp_message(8, 0, [0; 4], b"x"));
    *bad_checksum.last_mut().unwrap() ^= 1;
    let mut fragment = ip_frame(&rig, 0, "10.0.0.9", "10.0.0.1", 17, &[], &[0; 15]);
    Ipv4::view_mut(&mut fragment[14..]).unwrap().set_fragment(false, true, 0);
    write_checksum(&mut fragment[14..]);
    let cases = [
        ("local-icmp-malformed", bad_checksum),
        ("local-icmp-malformed", ip_frame(&rig, 0, "10.0.0.9", "10.0.0.1", 1, &[], &[8, 0, 0xf7])),
        ("local-icmp", ip_frame(&rig, 0, "10.0.0.9", "10.0.0.1", 1, &[], &icmp_message(0, 0, [0; 4], b"x"))),
        ("local-icmp", ip_frame(&rig, 0, "10.0.0.9", "10.0.0.1", 1, &[], &icmp_message(3, 1, [0; 4], &[0x45; 28]))),
        ("fragment-malformed", fragment),
    ];
    for (reason, frame) in cases {
        rig.send(0, frame);
        rig.settle();
        assert!(rig.drops().contains_key(&format!("router.control/{reason}")), "{reason}: {:?}", rig.drops());
        assert!(rig.sent(0).is_empty(), "{reason}");
    }
    rig.finish();
}

#[test]
fn a_long_packet_is_taken_apart_and_comes_together_again() {
    const PORTS: &[PortSpec] = &[PortSpec("left", &["10.0.0.1/24"], 9000), PortSpec("right", &["10.0.1.1/24"], 600)];
    let mut rig = known_on(PORTS, json!({}));
    let data: Vec<u8> = (0..4000u32).map(|n| n as u8).collect();
    let frame = rig.udp(0, "10.0.0.9", "192.0.2.7").to_vec(&data);
    rig.send(0, frame.clone());
    rig.settle();
    let pieces = rig.sent_ip(1);
    // 4008 bytes of payload in pieces of 576, the largest multiple of 8 that fits 600 less the header.
    assert_eq!(pieces.len(), 7);
    let mut whole = vec![0; 4008];
    for (n, piece) in pieces.iter().enumerate() {
        assert_eq!(validity::check_slice(&piece[14..]), Ok(()));
        let header = Ipv4::view(&piece[14..]).unwrap();
        assert!(header.total_len() <= 600 && piece.len() == 14 + header.total_len());
        assert_eq!((header.ttl, header.more_fragments()), (63, n < 6));
        assert_eq!(&piece[..6], &HOST.0);
        whole[header.fragment_offset()..][..piece.len() - 34].copy_from_slice(&piece[34..]);
    }
    assert_eq!(whole, frame[34..]);
    assert_eq!((rig.fates()["fragmented"], rig.fates()["fragment"]), (1, 7));
    rig.finish();
}

#[test]
fn options_are_carried_out_on_the_way() {
    let mut rig = known(json!({}));
    let record = [7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let full = [7, 7, 8, 1, 2, 3, 4, 0];
    let stamps = [68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let overflow = [68, 8, 9, 0x30, 0, 0, 0, 0];
    let alert = [148, 4, 0, 0];
    let nops = [1, 1, 1, 0];
    let mut sent = Vec::new();
    for options in [&record[..], &full, &stamps, &overflow, &alert, &nops] {
        let frame = ip_frame(&rig, 0, "10.0.0.9", "192.0.2.7", 17, options, &[0x11; 20]);
        rig.send(0, frame);
        rig.settle();
        let [out] = &rig.sent_ip(1)[..] else { panic!("{options:?}: {:?}", rig.drops()) };
        assert_eq!(validity::check_slice(&out[14..]), Ok(()));
        assert_eq!((out[22], &out[34 + options.len()..]), (63, &[0x11; 20][..]));
        sent.push(out[34..34 + options.len()].to_vec());
    }
    // RFC 791: the address "of this internet module as known in the environment into which this datagram is being
    // forwarded", and the pointer moves on by four.
    assert_eq!(sent[0], [7, 11, 8, 10, 0, 1, 1, 0, 0, 0, 0, 0]);
    assert_eq!(sent[1], full, "no room is left");
    assert_eq!((&sent[2][..8], sent[2][8] & 0x80), (&[68, 12, 13, 1, 10, 0, 1, 1][..], 0x80));
    assert_eq!(sent[3], [68, 8, 9, 0x40, 0, 0, 0, 0]);
    assert_eq!((&sent[4][..], &sent[5][..]), (&alert[..], &nops[..]));
    rig.finish();
}

#[test]
fn a_time_stamp_is_asked_of_the_router_by_any_of_its_addresses() {
    // RFC 1812 section 5.3.13.6: "It is not necessary that the prespecified address be either the address of the interface on
    // which the packet arrived or the address of the interface over which it will be sent."
    const PORTS: &[PortSpec] = &[TWO[0], TWO[1], PortSpec("third", &["10.0.2.1/24", "10.0.3.1/24"], 1500)];
    let mut rig = known_on(PORTS, json!({}));
    for (named, is_ours) in
        [([10, 0, 0, 1], true), ([10, 0, 1, 1], true), ([10, 0, 3, 1], true), ([10, 0, 1, 9], false)]
    {
        let [a, b, c, d] = named;
        let asked = [68, 12, 5, 3, a, b, c, d, 0, 0, 0, 0];
        let frame = ip_frame(&rig, 0, "10.0.0.9", "192.0.2.7", 17, &asked, &[0x11; 20]);
        rig.send(0, frame);
        rig.settle();
        let [out] = &rig.sent_ip(1)[..] else { panic!("{:?}", rig.drops()) };
        let pointer = if is_ours { 13 } else { 5 };
        assert_eq!(out[34..42], [68, 12, pointer, 3, a, b, c, d], "the address stays as it was asked for");
        assert_eq!(out[42] & 0x80 != 0, is_ours);
    }
    rig.finish();
}

#[test]
fn a_ping_whose_reply_has_no_way_back_is_not_counted_as_answered() {
    let mut rig = known(json!({}));
    let request = ip_frame(&rig, 0, "198.51.100.7", "10.0.0.1", 1, &[], &icmp_message(8, 0, [0; 4], b"x"));
    rig.send(0, request);
    rig.settle();
    assert!(rig.sent_ip(0).is_empty() && rig.sent_ip(1).is_empty());
    assert_eq!(rig.fates().get("echo-answered"), None);
    assert_eq!(rig.drops()["router.control/echo-unanswered"], 1);
    rig.finish();
}

#[test]
fn a_fragment_beyond_the_longest_packet_is_not_taken_apart_again() {
    let mut rig = known_on(&[TWO[0], PortSpec("right", &["10.0.1.1/24"], 600)], json!({}));
    let mut frame = ip_frame(&rig, 0, "10.0.0.9", "192.0.2.7", 17, &[], &[0; 1000]);
    Ipv4::view_mut(&mut frame[14..]).unwrap().set_fragment(false, false, 65_528);
    write_checksum(&mut frame[14..]);
    rig.send(0, frame);
    rig.settle();
    assert!(rig.sent_ip(0).is_empty() && rig.sent_ip(1).is_empty());
    assert_eq!(rig.drops()["router.control/fragment-beyond-end"], 1);
    rig.finish();
}

#[test]
fn options_that_make_no_sense_are_reported_where_they_do_not() {
    let mut rig = known(json!({}));
    let cases: [(&[u8], u8); 7] = [
        (&[7, 7, 3, 0, 0, 0, 0, 0], 22),     // the pointer is before the first address
        (&[7, 7, 5, 0, 0, 0, 0, 0], 22),     // not enough room for an address
        (&[7, 0, 4, 0], 21),                 // no length
        (&[1, 7, 40, 4], 22),                // longer than the header
        (&[68, 8, 9, 0xf0, 0, 0, 0, 0], 23), // the overflow count is full
        (&[68, 8, 5, 2, 0, 0, 0, 0], 23),    // flags that RFC 791 does not define
        (&[68, 8, 4, 0, 0, 0, 0, 0], 22),    // the pointer is inside the option's own header
    ];
    for (options, pointer) in cases {
        let frame = ip_frame(&rig, 0, "10.0.0.9", "192.0.2.7", 17, options, &[0; 8]);
        rig.send(0, frame);
        rig.settle();
        let [answer] = &rig.sent_ip(0)[..] else { panic!("{options:?}") };
        assert_eq!((answer[34], answer[35], answer[38]), (12, 0, pointer), "{options:?}");
        assert!(rig.sent(1).is_empty());
    }
    // An echo request with a record route gets it back with the router's address in it (RFC 1812 section 4.3.3.6).
    let record = [7, 7, 4, 0, 0, 0, 0, 0];
    let request = ip_frame(&rig, 0, "10.0.0.9", "10.0.0.1", 1, &record, &icmp_message(8, 0, [0; 4], b"x"));
    rig.send(0, request);
    rig.settle();
    let [reply] = &rig.sent_ip(0)[..] else { panic!("one reply") };
    assert_eq!((&reply[34..42], reply[42]), (&[7, 7, 8, 10, 0, 0, 1, 0][..], 0));
    rig.finish();
}

#[test]
fn queues_are_bounded_and_keep_the_latest_in_order() {
    let mut rig = known(json!({ "limits": { "queue_per_neighbor": 4, "queue": 6 } }));
    for n in 0..7u8 {
        let frame = rig.udp(0, "10.0.0.9", "10.0.1.50").to_vec(&[n; 20]);
        rig.send(0, frame);
        rig.settle();
    }
    assert_eq!((rig.account().held, rig.drops()["router.control/neighbor-queue-full"]), (4, 3));
    for n in 0..4u8 {
        let frame = rig.udp(0, "10.0.0.9", "10.0.1.51").to_vec(&[n; 20]);
        rig.send(0, frame);
        rig.settle();
    }
    assert_eq!((rig.account().held, rig.drops()["router.control/neighbor-queue-full"]), (6, 5));
    rig.sent(1);
    rig.arp_reply(1, ip("10.0.1.50"), HOST, ip("10.0.1.1"));
    rig.settle();
    let tags: Vec<u8> = rig.sent_ip(1).iter().map(|frame| frame[42]).collect();
    assert_eq!(tags, [3, 4, 5, 6]);
    rig.finish();
}

#[test]
fn what_waits_for_a_deleted_neighbour_or_route_is_dropped_by_name() {
    let mut rig = known(json!({}));
    rig.request("route add", json!({ "prefix": "203.0.113.0/24", "via": ["10.0.1.60"] })).unwrap();
    let frame = rig.udp(0, "10.0.0.9", "203.0.113.5").to_vec(&[1; 20]);
    rig.send(0, frame.clone());
    rig.settle();
    assert_eq!(rig.account().held, 1);
    // The route goes; when the neighbour answers there is nowhere to send it.
    rig.request("route del", json!({ "prefix": "203.0.113.0/24" })).unwrap();
    rig.arp_reply(1, ip("10.0.1.60"), HOST, ip("10.0.1.1"));
    rig.settle();
    assert_eq!((rig.account().held, rig.drops()["router.control/no-route"]), (0, 1));
    assert!(rig.sent_ip(1).is_empty());
    // The neighbour goes while a packet waits for it.
    let frame = rig.udp(0, "10.0.0.9", "10.0.1.61").to_vec(&[1; 20]);
    rig.send(0, frame.clone());
    rig.settle();
    rig.request("neighbor del", json!({ "address": "10.0.1.61" })).unwrap();
    rig.run(20_000_000);
    assert_eq!((rig.account().held, rig.drops()["router.control/neighbor-gone"]), (0, 1));
    // The link goes down.
    rig.send(0, frame);
    rig.settle();
    assert_eq!(rig.account().held, 1);
    rig.instance.link_changed(1, false, rig.engine.now());
    rig.run(20_000_000);
    assert_eq!((rig.account().held, rig.drops()["router.control/neighbor-gone"]), (0, 2));
    rig.finish();
}

#[test]
fn a_route_that_moves_while_packets_wait_takes_them_along() {
    let mut rig = known(json!({}));
    rig.request("route add", json!({ "prefix": "203.0.113.0/24", "via": ["10.0.1.60"] })).unwrap();
    let frame = rig.udp(0, "10.0.0.9", "203.0.113.5").to_vec(&[1; 20]);
    rig.send(0, frame);
    rig.settle();
    rig.request("route add", json!({ "prefix": "203.0.113.0/24", "via": ["10.0.1.9"] })).unwrap();
    rig.arp_reply(1, ip("10.0.1.60"), MacAddr([2, 0, 0, 0, 6, 6]), ip("10.0.1.1"));
    rig.settle();
    let [sent] = &rig.sent_ip(1)[..] else { panic!("one packet") };
    assert_eq!(&sent[..6], &HOST.0, "by the new route");
    rig.finish();
}

#[test]
fn shutdown_drops_what_waits_by_name() {
    let mut rig = known(json!({}));
    let frame = rig.udp(0, "10.0.0.9", "10.0.1.61").to_vec(&[1; 20]);
    rig.send(0, frame);
    rig.settle();
    assert_eq!(rig.account().held, 1);
    let account = rig.finish();
    assert_eq!(account.dropped, 1);
}
