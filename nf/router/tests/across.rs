//! Across families and VRFs: IPv4 over next hops with IPv6 addresses (RFC 8950), link-local next hops, and VRFs that know nothing of each
//! other; on the slow path.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::six::*;
use common::*;
use serde_json::json;
use weir_stage::InterfaceInfo;
use weir_wire::ipv4::write_checksum;
use weir_wire::{Ipv4, View, checksum};

const HOP: &str = "fe80::9";

/// Both families on the left, IPv6 alone on the right.
const PORTS: &[PortSpec] =
    &[PortSpec("left", &["10.0.0.1/24", "2001:db8:0:1::1/64"], 1500), PortSpec("right", &["2001:db8:0:2::1/64"], 1400)];

fn router() -> Rig {
    let config = json!({
        "neighbors": { "10.0.0.9": LEFT_MAC.to_string(), LEFT: LEFT_MAC.to_string() },
        "routes": { "192.0.2.0/24": "fe80::9%right", "2001:db8:7::/48": "fe80::9%right", "198.51.100.0/24": "prohibit" },
    });
    Rig::new(PORTS, config).quiet()
}

#[test]
fn packets_of_both_families_wait_for_one_next_hop() {
    let mut rig = router();
    let mut four = rig.udp(0, "10.0.0.9", "192.0.2.7").to_vec(&[7; 30]);
    four[6..12].copy_from_slice(&LEFT_MAC.0);
    let six = udp6(&rig, 0, LEFT, "2001:db8:7::7", 64, 30);
    for frame in [&four, &six] {
        rig.send(0, frame.clone());
    }
    rig.settle();
    let [(_, asked)] = rig.sent_nd(1)[..] else { panic!("one question for both") };
    assert_eq!((asked.source, rig.account().held), (rig.link_local(1), 2));
    rig.nd_reply(1, HOP, RIGHT_MAC, asked.source);
    let expected = [&four, &six].map(|frame| {
        let mut frame = [&RIGHT_MAC.0[..], &rig.mac(1).0, &frame[12..]].concat();
        if frame[12] == 8 {
            frame[22] -= 1;
            write_checksum(&mut frame[14..]);
        } else {
            frame[21] -= 1;
        }
        frame
    });
    let sent = |rig: &mut Rig| -> Vec<Vec<u8>> {
        rig.sent(1)
            .into_iter()
            .filter(|frame| frame[6..12] == rig.mac(1).0 && frame[14] != 0x60 || frame[20] == 17)
            .collect()
    };
    assert_eq!(sent(&mut rig), expected);
    // From now on the fast path does the same.
    rig.send(0, four.clone());
    rig.send(0, six.clone());
    rig.settle();
    assert_eq!(sent(&mut rig), expected);
    // IPv4 is taken apart where IPv6 is reported.
    let long = rig.udp(0, "10.0.0.9", "192.0.2.7").to_vec(&[7; 1390]);
    rig.send(0, long);
    rig.settle();
    let pieces = rig.sent_ip(1);
    assert_eq!(pieces.len(), 2);
    assert!(
        pieces.iter().all(|piece| piece[..6] == RIGHT_MAC.0 && Ipv4::view(&piece[14..]).unwrap().total_len() <= 1400)
    );
    rig.finish();
}

/// The ICMP error in a frame: type, code, source, destination.
fn error4(frame: &[u8]) -> (u8, u8, [u8; 4], [u8; 4]) {
    let end = 14 + Ipv4::view(&frame[14..]).unwrap().total_len();
    assert!(checksum::is_valid(&frame[14..34]) && checksum::is_valid(&frame[34..end]));
    (frame[34], frame[35], frame[26..30].try_into().unwrap(), frame[30..34].try_into().unwrap())
}

#[test]
fn ipv4_is_told_that_a_next_hop_of_ipv6_does_not_answer_and_of_routes_that_forbid() {
    let mut rig = router();
    let lost = rig.udp(0, "10.0.0.9", "192.0.2.7").to_vec(&[7; 30]);
    rig.send(0, lost);
    rig.run(5 * SECOND);
    let own = ([10, 0, 0, 1], [10, 0, 0, 9]);
    let forbidden = rig.udp(0, "10.0.0.9", "198.51.100.7").to_vec(&[7; 30]);
    rig.send(0, forbidden);
    rig.settle();
    let errors: Vec<_> = rig.sent_ip(0).iter().map(|frame| error4(frame)).collect();
    // Host unreachable; communication administratively prohibited (RFC 1812 section 5.2.7.1).
    assert_eq!(errors, [(3, 1, own.0, own.1), (3, 13, own.0, own.1)]);
    assert_eq!(rig.fates()["icmp-prohibited"], 1);
    rig.finish();
}

/// RFC 7600 section 4.8: whoever has no IPv4 address at all speaks from the dummy address.
#[test]
fn a_router_without_ipv4_addresses_still_tells_of_errors() {
    const ONLY_SIX: &[PortSpec] =
        &[PortSpec("left", &["2001:db8:0:1::1/64"], 1500), PortSpec("right", &["2001:db8:0:2::1/64"], 1500)];
    let config = json!({
        "neighbors": { "fe80::9%left": LEFT_MAC.to_string(), "fe80::9%right": RIGHT_MAC.to_string() },
        "routes": { "0.0.0.0/0": "fe80::9%left", "192.0.2.0/24": "fe80::9%right" },
    });
    let mut rig = Rig::new(ONLY_SIX, config).quiet();
    let mut expired = rig.udp(0, "10.9.9.9", "192.0.2.7").to_vec(&[7; 30]);
    expired[22] = 1;
    write_checksum(&mut expired[14..]);
    rig.send(0, expired);
    rig.settle();
    let [error] = &rig.sent_ip(0)[..] else { panic!("one error: {:?}", rig.drops()) };
    assert_eq!(error4(error), (11, 0, [192, 0, 0, 8], [10, 9, 9, 9]));
    assert_eq!(error[..6], LEFT_MAC.0);
    rig.finish();
}

/// An interface with one tag, in a VRF.
fn tagged(port: &str, vlan: u16, address: &[&str], vrf: &str) -> InterfaceInfo {
    let name = format!("{port}.{vlan}");
    InterfaceInfo { vrf: Some(vrf.to_owned()), ..interface(&name, Some(port), &[(0x8100, vlan)], address) }
}

fn with_tag(frame: &[u8], vlan: u16) -> Vec<u8> {
    [&frame[..12], &[0x81, 0], &vlan.to_be_bytes(), &frame[12..]].concat()
}

/// The IPv6 packets with a tag that a port sent, without it.
fn sent_with_tag(rig: &mut Rig, port: usize, vlan: u16) -> Vec<Vec<u8>> {
    let tag = with_tag(&[0; 12], vlan)[12..].to_vec();
    let ours = rig.sent(port).into_iter().filter(|frame| frame[12..16] == tag);
    ours.map(|frame| [&frame[..12], &frame[16..]].concat()).filter(|frame| frame[12..14] == [0x86, 0xdd]).collect()
}

/// The same addresses in two VRFs: each answers for itself, errors go back where the packets came from, and fragments are not mixed.
#[test]
fn vrfs_with_the_same_addresses_know_nothing_of_each_other() {
    let own = "2001:db8:0:1::1";
    let interfaces =
        vec![tagged("left", 10, &["2001:db8:0:1::1/64"], "red"), tagged("left", 20, &["2001:db8:0:1::1/64"], "blue")];
    let config = json!({
        "vrfs": {
            "red": { "routes": { "2001:db8:7::/48": "unreachable" }, "neighbors": { "2001:db8:0:1::9": LEFT_MAC.to_string() } },
            "blue": { "neighbors": { "2001:db8:0:1::9": RIGHT_MAC.to_string() } },
        },
    });
    let mut rig = Rig::with(TWO, interfaces, config).quiet();
    let ping = packet6(LEFT, own, 58, 64, &icmp6(LEFT, own, 128, 0, [0; 4], b"ping"));
    let far = packet6(LEFT, "2001:db8:7::7", 59, 64, &[]);
    for (vlan, mac, other, (kind, code)) in [(10, LEFT_MAC, 20, (1, 6)), (20, RIGHT_MAC, 10, (1, 0))] {
        for (packet, expected) in [(&ping, (129, 0)), (&far, (kind, code))] {
            let frame = with_tag(&frame6(&rig, 0, packet), vlan);
            rig.send(0, frame);
            rig.settle();
            assert!(rig.handles[0].received().iter().all(|frame| {
                assert_eq!(frame[12..16], with_tag(&[0; 12], vlan)[12..], "not on VLAN {other}");
                assert_eq!((&frame[..6], frame[58], frame[59]), (&mac.0[..], expected.0, expected.1));
                true
            }));
        }
    }
    let fates = rig.fates();
    assert_eq!((fates["echo-reply"], fates["icmp6-reject-route"], fates["icmp6-no-route"]), (2, 1, 1));
    // Halves of one packet, in two VRFs.
    let message = icmp6(LEFT, own, 128, 0, [0; 4], &[9; 40]);
    let half = |at: usize, more: u8| {
        let header = [58, 0, 0, at as u8 | more, 0, 0, 0, 1];
        packet6(LEFT, own, 44, 64, &[&header[..], &message[at..if more > 0 { 24 } else { 48 }]].concat())
    };
    for (vlan, packet) in [(10, half(0, 1)), (20, half(24, 0))] {
        let frame = with_tag(&frame6(&rig, 0, &packet), vlan);
        rig.send(0, frame);
    }
    rig.settle();
    assert_eq!((rig.account().held, sent_with_tag(&mut rig, 0, 10).len()), (2, 0));
    let frame = with_tag(&frame6(&rig, 0, &half(24, 0)), 10);
    rig.send(0, frame);
    rig.settle();
    assert_eq!((rig.account().held, sent_with_tag(&mut rig, 0, 10).len()), (1, 1));
    rig.finish();
}

/// What was made here and waits for its neighbour still knows its VRF.
#[test]
fn an_answer_that_waits_leaves_in_its_vrf() {
    let own = "2001:db8:0:1::1";
    let interfaces =
        vec![tagged("left", 10, &["2001:db8:0:1::1/64"], "red"), tagged("right", 10, &["2001:db8:0:1::1/64"], "blue")];
    let mut rig = Rig::with(TWO, interfaces, json!({ "vrfs": { "red": {}, "blue": {} } })).quiet();
    let ping = packet6(LEFT, own, 58, 64, &icmp6(LEFT, own, 128, 0, [0; 4], b"ping"));
    let frame = with_tag(&frame6(&rig, 1, &ping), 10);
    rig.send(1, frame);
    rig.settle();
    assert_eq!((rig.account().held, sent_with_tag(&mut rig, 0, 10).len()), (1, 0));
    assert_eq!(sent_with_tag(&mut rig, 1, 10).len(), 1, "the question");
    let flags = weir_wire::nd::Flags { router: false, solicited: true, over: true };
    let body = weir_wire::nd::Body::Advertisement { target: ip6(LEFT), link: Some(RIGHT_MAC), flags };
    let message = weir_wire::nd::Message { source: ip6(LEFT), destination: ip6(own), body };
    let mut frame = vec![0; 86];
    message.write(&mut frame, RIGHT_MAC, rig.mac(1)).unwrap();
    rig.send(1, with_tag(&frame, 10));
    rig.settle();
    let [reply] = &sent_with_tag(&mut rig, 1, 10)[..] else { panic!("one reply: {:?}", rig.drops()) };
    assert_eq!((&reply[..6], reply[54]), (&RIGHT_MAC.0[..], 129));
    rig.finish();
}
