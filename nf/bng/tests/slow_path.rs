//! The slow path as the engine runs it: routers, ICMP, packets that wait or go in pieces. By RFC 792, 1122, 1191 and 1812.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use common::{CORE, CPE, PortSpec, ROUTER_MAC, Rig, SECOND, TWO, echo, host, plain, rig, tagged, tunnels, udp};
use serde_json::json;
use weir_wire::{Ipv4, MacAddr, View, checksum, ethernet};

/// ICMP type and code in a frame to a line, from and to whom; checked whole.
fn icmp_in(frame: &[u8]) -> (u8, u8, String, String) {
    let packet = &frame[22..];
    let ip = Ipv4::view(packet).unwrap();
    assert!(checksum::is_valid(&packet[..20]) && checksum::is_valid(&packet[20..ip.total_len()]));
    (packet[20], packet[21], ip.source_addr().to_string(), ip.destination_addr().to_string())
}

#[test]
fn routers_of_the_core_are_found_before_the_first_packet() {
    let mut rig = Rig::new(TWO, tunnels());
    rig.settle();
    let asked: Vec<_> = rig.sent(CORE).iter().filter(|frame| frame[38..42] == [192, 0, 2, 2]).cloned().collect();
    assert_eq!(asked.len(), 1, "one question for the next router");
    assert_eq!(asked[0][..6], MacAddr::BROADCAST.0);
    // What comes meanwhile waits, in order, and then goes.
    let (first, second) = (rig.customer(1, "10.0.0.7", "203.0.113.1"), rig.customer(1, "10.0.0.7", "203.0.113.2"));
    rig.send(CPE, first);
    rig.send(CPE, second);
    rig.settle();
    assert_eq!(rig.sent(CORE).len(), 0);
    assert_eq!(rig.account().held, 2);
    rig.router_answers();
    let sent = rig.sent(CORE);
    assert_eq!(sent.len(), 2);
    for (frame, last) in sent.iter().zip([1, 2]) {
        assert_eq!(frame[..6], ROUTER_MAC.0);
        assert_eq!(frame[12..14], [0x88, 0x47]);
        assert_eq!(frame[14 + 4 + 28 + 16..14 + 4 + 28 + 20], [203, 0, 113, last]);
    }
    rig.finish();
}

#[test]
fn senders_are_told_when_a_router_does_not_answer() {
    let mut rig = Rig::new(TWO, tunnels());
    rig.settle();
    let frame = rig.customer(1, "10.0.0.7", "203.0.113.1");
    rig.send(CPE, frame);
    rig.run(4 * SECOND);
    let sent = rig.sent(CPE);
    assert_eq!(sent.len(), 1);
    assert_eq!(icmp_in(&sent[0]), (3, 1, "10.0.0.1".to_owned(), "10.0.0.7".to_owned()));
    assert_eq!(rig.drops().get("bng.core.control/neighbor-unresolved"), Some(&1));
    rig.finish();
}

#[test]
fn a_ping_to_the_gateway_is_answered_through_the_tags() {
    let mut rig = rig(tunnels());
    let frame = tagged(rig.mac(CPE), host(1), 1, ethernet::IPV4, &echo("10.0.0.7", "10.0.0.1"));
    rig.send(CPE, frame.clone());
    rig.settle();
    let sent = rig.sent(CPE);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0][..22], [&host(1).0[..], &rig.mac(CPE).0, &[0x88, 0xa8, 0, 100, 0x81, 0, 0, 1, 8, 0]].concat());
    assert_eq!(icmp_in(&sent[0]), (0, 0, "10.0.0.1".to_owned(), "10.0.0.7".to_owned()));
    // The data come back as they were, without the padding.
    assert_eq!(sent[0][22 + 24..], frame[22 + 24..22 + 60]);
    // UDP to the gateway: nothing listens. Another protocol: nobody speaks it.
    let frame = rig.customer(1, "10.0.0.7", "10.0.0.1");
    rig.send(CPE, frame.clone());
    let mut other = frame;
    other[22 + 9] = 132;
    weir_wire::ipv4::write_checksum(&mut other[22..]);
    rig.send(CPE, other);
    rig.settle();
    let sent = rig.sent(CPE);
    let kinds: Vec<_> = sent.iter().map(|frame| icmp_in(frame)).map(|(kind, code, ..)| (kind, code)).collect();
    assert_eq!(kinds, [(3, 3), (3, 2)]);
    // A ping from the core to its port.
    let ping = rig.untunneled(&echo("192.0.2.2", "192.0.2.1"));
    rig.send(CORE, ping);
    rig.settle();
    let sent = rig.sent(CORE);
    assert_eq!((sent.len(), &sent[0][..6], sent[0][34]), (1, &ROUTER_MAC.0[..], 0));
    rig.finish();
}

#[test]
fn customers_are_told_why_their_packets_end() {
    let mut config = tunnels();
    config["routes"] = json!({ "203.0.113.0/24": "west" });
    let mut rig = rig(config);
    let send = |rig: &mut Rig, packet: &[u8]| {
        let frame = tagged(rig.mac(CPE), host(1), 1, ethernet::IPV4, packet);
        rig.send(CPE, frame);
        rig.settle();
        rig.sent(CPE)
    };
    let mut dying = udp("10.0.0.7", "203.0.113.1", 100);
    dying[8] = 1;
    weir_wire::ipv4::write_checksum(&mut dying);
    let sent = send(&mut rig, &dying);
    assert_eq!(icmp_in(&sent[0]), (11, 0, "10.0.0.1".to_owned(), "10.0.0.7".to_owned()));
    // The packet as it came is quoted, its TTL not yet decremented (RFC 1812 section 4.3.2.3).
    assert_eq!(sent[0][22 + 28..], dying);
    let sent = send(&mut rig, &udp("10.0.0.7", "198.51.100.1", 100));
    assert_eq!(icmp_in(&sent[0]).0, 3);
    assert_eq!(icmp_in(&sent[0]).1, 0);
    // 28 bytes of tunnel and a label do not fit: RFC 1191 tells how much does.
    let mut long = udp("10.0.0.7", "203.0.113.1", 1500);
    long[6] = 0x40;
    weir_wire::ipv4::write_checksum(&mut long);
    let sent = send(&mut rig, &long);
    assert_eq!(icmp_in(&sent[0]), (3, 4, "10.0.0.1".to_owned(), "10.0.0.7".to_owned()));
    assert_eq!(u16::from_be_bytes([sent[0][22 + 26], sent[0][22 + 27]]), 1500 - 32);
    assert_eq!(sent[0].len(), 22 + 576);
    let mut fits = udp("10.0.0.7", "203.0.113.1", 1500 - 32);
    fits[6] = 0x40;
    weir_wire::ipv4::write_checksum(&mut fits);
    assert_eq!(send(&mut rig, &fits), Vec::<Vec<u8>>::new());
    assert_eq!(rig.sent(CORE).len(), 1);
    rig.finish();
}

/// The IPv4 packets in frames, which begin at `at`: fragments in order, and their payload put together.
fn joined(frames: &[Vec<u8>], at: usize) -> Vec<u8> {
    let mut payload = Vec::new();
    for (n, frame) in frames.iter().enumerate() {
        let packet = &frame[at..];
        let ip = Ipv4::view(packet).unwrap();
        assert!(checksum::is_valid(&packet[..20]));
        assert_eq!((ip.fragment_offset(), ip.more_fragments()), (payload.len(), n + 1 < frames.len()));
        payload.extend(&packet[20..ip.total_len()]);
    }
    payload
}

#[test]
fn what_may_be_fragmented_goes_in_pieces() {
    for has_keys in [true, false] {
        let mut config = if has_keys { tunnels() } else { plain() };
        config["gateways"]["west"]["mtu"] = json!(1000);
        let mut rig = Rig::new(&[PortSpec("cpe", &[], 600), TWO[1]], config);
        rig.settle();
        rig.router_answers();
        rig.arp_request(1, "10.0.0.7", "10.0.0.1");
        rig.settle();
        rig.sent(CORE);
        rig.sent(CPE);
        let packet = udp("10.0.0.7", "203.0.113.1", 1400);
        let frame = tagged(rig.mac(CPE), host(1), 1, ethernet::IPV4, &packet);
        rig.send(CPE, frame);
        rig.settle();
        let sent = rig.sent(CORE);
        let at = if has_keys { 14 + 4 + 28 } else { 14 };
        assert_eq!((sent.len(), joined(&sent, at)), (2, packet[20..].to_vec()));
        assert!(sent.iter().all(|frame| frame.len() <= 14 + 1000 && frame[at + 8] == 63));
        let packet = udp("203.0.113.1", "10.0.0.7", 1400);
        let frame = if has_keys { rig.tunneled(7, &packet) } else { rig.untunneled(&packet) };
        rig.send(CORE, frame);
        rig.settle();
        let sent = rig.sent(CPE);
        assert_eq!((sent.len(), joined(&sent, 22)), (3, packet[20..].to_vec()));
        assert!(sent.iter().all(|frame| frame.len() <= 22 + 600 && frame[22 + 8] == 63));
        assert_eq!(rig.fates().get("fragment"), Some(&5));
        rig.finish();
    }
}

#[test]
fn what_can_not_be_taken_apart_is_not_told_to_be_too_long() {
    let mut rig = Rig::new(&[PortSpec("cpe", &[], 600), TWO[1]], tunnels());
    rig.settle();
    rig.router_answers();
    rig.arp_request(1, "10.0.0.7", "10.0.0.1");
    rig.settle();
    rig.sent(CORE);
    rig.sent(CPE);
    // The last fragment of a packet that would be longer than any, and one with options of no length.
    let mut beyond = udp("203.0.113.1", "10.0.0.7", 1000);
    Ipv4::view_mut(&mut beyond).unwrap().set_fragment(false, false, 65_528);
    let mut options = udp("203.0.113.1", "10.0.0.7", 1000);
    options[0] = 0x46;
    options[20..24].copy_from_slice(&[7, 0, 4, 0]);
    for (packet, reason) in [(beyond, "fragment-beyond-end"), (options, "bad-options")] {
        let mut packet = packet;
        weir_wire::ipv4::write_checksum(&mut packet);
        let frame = rig.tunneled(7, &packet);
        rig.send(CORE, frame);
        rig.settle();
        assert_eq!((rig.sent(CPE).len(), rig.sent(CORE).len()), (0, 0), "no piece, and no word of an MTU");
        assert_eq!(rig.drops().get(&format!("bng.core.control/{reason}")), Some(&1));
    }
    rig.finish();
}

#[test]
fn a_subscriber_gets_no_more_than_ten_errors_a_second() {
    let mut rig = rig(tunnels());
    let mut dying = udp("10.0.0.7", "203.0.113.1", 100);
    dying[8] = 1;
    weir_wire::ipv4::write_checksum(&mut dying);
    let start = rig.engine.now();
    for _ in 0..200 {
        let frame = tagged(rig.mac(CPE), host(1), 1, ethernet::IPV4, &dying);
        rig.send(CPE, frame);
        rig.run(5_000_000);
    }
    // Ten at once, and then ten a second.
    let most = 10 + (rig.engine.now() - start) * 10 / SECOND;
    let errors = rig.sent(CPE).len() as u64;
    assert!((most - 1..=most).contains(&errors), "{errors} of {most}");
    rig.finish();
}

#[test]
fn sources_in_the_core_are_told_too() {
    for has_keys in [true, false] {
        let mut rig = rig(if has_keys { tunnels() } else { plain() });
        rig.arp_request(1, "10.0.0.7", "10.0.0.1");
        rig.settle();
        rig.sent(CPE);
        let mut dying = udp("203.0.113.1", "10.0.0.7", 100);
        dying[8] = 1;
        weir_wire::ipv4::write_checksum(&mut dying);
        let frame = if has_keys { rig.tunneled(7, &dying) } else { rig.untunneled(&dying) };
        rig.send(CORE, frame);
        rig.settle();
        let sent = rig.sent(CORE);
        assert_eq!((sent.len(), rig.sent(CPE).len()), (1, 0));
        let at = if has_keys { 14 + 4 + 20 + 8 } else { 14 };
        let packet = &sent[0][at..];
        let ip = Ipv4::view(packet).unwrap();
        assert_eq!(
            (ip.source_addr().to_string(), ip.destination_addr().to_string()),
            ("10.0.0.1".into(), "203.0.113.1".into())
        );
        assert!(checksum::is_valid(&packet[..20]) && checksum::is_valid(&packet[20..ip.total_len()]));
        assert_eq!(packet[20..22], [11, 0]);
        assert_eq!(packet[28..], dying);
        if has_keys {
            assert_eq!(sent[0][at - 8..at], [0x20, 0, 8, 0, 0, 0, 0, 7]);
        }
        rig.finish();
    }
}

#[test]
fn requests_take_effect_on_traffic_at_once() {
    let mut rig = rig(tunnels());
    let frame = rig.customer(3, "10.0.0.33", "203.0.113.1");
    rig.send(CPE, frame.clone());
    rig.settle();
    assert_eq!(rig.sent(CORE).len(), 0);
    rig.request("subscriber add", json!({ "svlan": 100, "cvlan": 3, "key": 9, "ipv4": ["10.0.0.33"] })).unwrap();
    rig.send(CPE, frame.clone());
    rig.settle();
    let sent = rig.sent(CORE);
    assert_eq!((sent.len(), &sent[0][42..46]), (1, &[0, 0, 0, 9][..]));
    rig.request("subscriber set", json!({ "svlan": 100, "cvlan": 3, "key": 10 })).unwrap();
    rig.send(CPE, frame.clone());
    rig.settle();
    let sent = rig.sent(CORE);
    assert_eq!((sent.len(), &sent[0][42..46]), (1, &[0, 0, 0, 10][..]));
    let row = rig.show("subscribers").into_iter().find(|row| row["cvlan"] == 3).unwrap();
    assert_eq!((&row["up_packets"], &row["source"], &row["key"]), (&json!(2), &json!("cli"), &json!(10)));
    rig.request("subscriber del", json!({ "svlan": 100, "cvlan": 3 })).unwrap();
    rig.send(CPE, frame);
    rig.settle();
    assert_eq!(rig.sent(CORE).len(), 0);
    // One that comes anew begins to count anew.
    rig.request("subscriber add", json!({ "svlan": 100, "cvlan": 3, "key": 9 })).unwrap();
    let row = rig.show("subscribers").into_iter().find(|row| row["cvlan"] == 3).unwrap();
    assert_eq!((&row["up_packets"], &row["drops"]), (&json!(0), &json!({})));
    rig.finish();
}
