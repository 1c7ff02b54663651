//! IPv6 subscribers: carried both ways, found by neighbour discovery and traffic, told of errors. RFC 8200, 4861, 4443, 2784.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::net::Ipv6Addr;

use common::{CORE, CPE, Rig, TWO, host, plain, tagged, tunnels};
use serde_json::{Value, json};
use weir_wire::checksum::Sum;
use weir_wire::{MacAddr, ethernet, nd};

const FAR: &str = "2001:db8:ffff::9";
const HERE: &str = "2001:db8:0:7::9";

fn rig(has_keys: bool) -> Rig {
    let mut config = if has_keys { tunnels() } else { plain() };
    config["addresses"] = json!(["10.0.0.1/16", "2001:db8::1/64"]);
    config["routes_ipv6"] = json!({ "2001:db8:ffff::/48": "west" });
    config["subscribers"] = json!([
        { "svlan": 100, "cvlan": 1, "key": 7, "ipv6": ["2001:db8:0:7::/64"] },
        { "svlan": 100, "cvlan": 2, "key": 8, "ipv6": ["2001:db8:0:100::/56"] },
    ]);
    let mut rig = Rig::new(TWO, config);
    rig.settle();
    rig.router_answers();
    rig.sent(CORE);
    rig
}

/// An IPv6 packet with a payload of so many bytes.
fn packet(source: &str, destination: &str, bytes: usize) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((bytes as u16).to_be_bytes());
    packet.extend([17, 64]);
    packet.extend(source.parse::<Ipv6Addr>().unwrap().octets());
    packet.extend(destination.parse::<Ipv6Addr>().unwrap().octets());
    packet.extend((0..bytes).map(|n| n as u8));
    packet
}

/// With one hop less.
fn hopped(mut packet: Vec<u8>) -> Vec<u8> {
    packet[7] -= 1;
    packet
}

fn up(rig: &mut Rig, cvlan: u16, packet: &[u8]) -> Vec<Vec<u8>> {
    let frame = tagged(rig.mac(CPE), host(cvlan), cvlan, ethernet::IPV6, packet);
    rig.send(CPE, frame);
    rig.settle();
    rig.sent(CORE)
}

fn down(rig: &mut Rig, has_keys: bool, key: u32, packet: &[u8]) -> Vec<Vec<u8>> {
    let mut frame = if has_keys { rig.tunneled_as(ethernet::IPV6, key, packet) } else { rig.untunneled(packet) };
    if !has_keys {
        frame[12..14].copy_from_slice(&ethernet::IPV6.to_be_bytes());
    }
    rig.send(CORE, frame);
    rig.settle();
    rig.sent(CPE)
}

/// Type and code of an ICMPv6 packet, and its source; checked whole.
fn icmp6(packet: &[u8]) -> (u8, u8, Ipv6Addr) {
    let payload = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
    let sum = Sum::new().bytes(&packet[8..40]).word(payload as u16).word(58).bytes(&packet[40..40 + payload]);
    assert_eq!((packet[6], sum.fold()), (58, 0xffff));
    (packet[40], packet[41], <[u8; 16]>::try_from(&packet[8..24]).unwrap().into())
}

#[test]
fn packets_go_both_ways() {
    for has_keys in [true, false] {
        let mut rig = rig(has_keys);
        let out = packet(HERE, FAR, 100);
        for round in 0..2 {
            // The first one teaches where the subscriber's network is, and goes all the same.
            let sent = up(&mut rig, 1, &out);
            assert_eq!(sent.len(), 1, "round {round}");
            let at = if has_keys { 14 + 4 + 20 + 8 } else { 14 };
            assert_eq!(sent[0][at..], hopped(out.clone()));
            if has_keys {
                assert_eq!(sent[0][at - 8..at], [0x20, 0, 0x86, 0xdd, 0, 0, 0, 7]);
            } else {
                assert_eq!(sent[0][12..14], [0x86, 0xdd]);
            }
        }
        let back = packet(FAR, "2001:db8:0:7:1:2:3:4", 100);
        let sent = down(&mut rig, has_keys, 7, &back);
        let head = [&host(1).0[..], &rig.mac(CPE).0, &[0x88, 0xa8, 0, 100, 0x81, 0, 0, 1, 0x86, 0xdd]].concat();
        assert_eq!(sent, [[&head[..], &hopped(back)].concat()]);
        let row = rig.show("subscribers").into_iter().find(|row| row["cvlan"] == 1).unwrap();
        assert_eq!((&row["up_packets"], &row["down_packets"], &row["drops"]), (&json!(2), &json!(1), &json!({})));
        rig.finish();
    }
}

#[test]
fn what_may_not_go_is_dropped_by_name() {
    let mut rig = rig(true);
    let cases: [(&str, &str, &str); 8] = [
        ("2001:db8:0:8::9", FAR, "spoofed-source"),
        ("2001:db8:0:100::9", FAR, "spoofed-source"),
        ("::", FAR, "martian-source"),
        ("::1", FAR, "martian-source"),
        ("fe80::9", FAR, "link-local"),
        (HERE, "ff0e::1", "multicast"),
        (HERE, "::1", "martian-destination"),
        (HERE, "fe80::1", "link-local"),
    ];
    for (source, destination, _) in cases {
        assert_eq!(up(&mut rig, 1, &packet(source, destination, 60)).len(), 0);
    }
    let mut cut = packet(HERE, FAR, 60);
    cut[5] = 200;
    assert_eq!(up(&mut rig, 1, &cut).len(), 0);
    assert_eq!(down(&mut rig, true, 7, &packet(FAR, "2001:db8:0:9::1", 60)).len(), 0);
    assert_eq!(down(&mut rig, true, 7, &packet(FAR, HERE, 60)).len(), 0, "nothing was heard of it");
    /// What only packets from the core are dropped for.
    const DOWN: [&str; 2] = ["unknown-destination", "host-unresolved"];
    let drops = rig.drops();
    let of = |reason: &str| {
        drops
            .get(&format!("bng.{}/{reason}", if DOWN.contains(&reason) { "six-down" } else { "six-up" }))
            .copied()
            .unwrap_or(0)
    };
    for (_, _, reason) in cases {
        assert_eq!(of(reason), cases.iter().filter(|case| case.2 == reason).count() as u64, "{reason}");
    }
    assert_eq!((of("ip-truncated"), of("unknown-destination"), of("host-unresolved")), (1, 1, 1));
    rig.finish();
}

#[test]
fn the_gateway_answers_neighbour_solicitations() {
    let mut rig = rig(true);
    let link_local = nd::link_local(rig.mac(CPE));
    for (target, from) in [("2001:db8::1".parse().unwrap(), HERE), (link_local, "fe80::9")] {
        let from: Ipv6Addr = from.parse().unwrap();
        let mut frame = [0; nd::FRAME_LEN];
        nd::write_solicitation(&mut frame, host(1), from, target).unwrap();
        let group = MacAddr(frame[..6].try_into().unwrap());
        let question = tagged(group, host(1), 1, ethernet::IPV6, &frame[14..]);
        rig.send(CPE, question);
        rig.settle();
        let sent = rig.sent(CPE);
        assert_eq!((sent.len(), &sent[0][..6]), (1, &host(1).0[..]));
        assert_eq!(sent[0][12..22], [0x88, 0xa8, 0, 100, 0x81, 0, 0, 1, 0x86, 0xdd]);
        let answer = nd::parse(&sent[0][22..]);
        assert_eq!(answer, Some(nd::Message::Advertisement { target, link: Some(rig.mac(CPE)) }));
    }
    // Now it is known where the subscriber's network is.
    assert_eq!(down(&mut rig, true, 7, &packet(FAR, HERE, 60)).len(), 1);
    // Others' addresses, and liars.
    let mut ask = |from: &str, mac: MacAddr, target: &str| {
        let mut frame = [0; nd::FRAME_LEN];
        nd::write_solicitation(&mut frame, mac, from.parse().unwrap(), target.parse().unwrap()).unwrap();
        let question = tagged(MacAddr([0x33, 0x33, 0xff, 0, 0, 1]), host(1), 1, ethernet::IPV6, &frame[14..]);
        rig.send(CPE, question);
        rig.settle();
        rig.sent(CPE).len()
    };
    assert_eq!(ask(HERE, host(1), "2001:db8::2"), 0);
    assert_eq!(ask(HERE, host(2), "2001:db8::1"), 0);
    assert_eq!(ask("2001:db8:0:100::9", host(1), "2001:db8::1"), 0);
    let drops = rig.drops();
    assert_eq!((drops.get("bng.control/nd-spoofed"), drops.get("bng.control/spoofed-source")), (Some(&1), Some(&1)));
    rig.finish();
}

#[test]
fn hosts_that_ask_for_routers_are_told_of_the_gateway_and_their_network() {
    let mut rig = rig(true);
    let to: Ipv6Addr = "ff02::2".parse().unwrap();
    for (cvlan, from) in [(1, "fe80::9"), (1, "::"), (2, "fe80::9")] {
        let from: Ipv6Addr = from.parse().unwrap();
        let mut solicitation = packet(&from.to_string(), "ff02::2", 8);
        (solicitation[6], solicitation[7]) = (58, 255);
        solicitation[40..].copy_from_slice(&[133, 0, 0, 0, 0, 0, 0, 0]);
        let sum = Sum::new().bytes(&from.octets()).bytes(&to.octets()).word(8).word(58).bytes(&solicitation[40..]);
        solicitation[42..44].copy_from_slice(&sum.checksum().to_be_bytes());
        let frame = tagged(MacAddr([0x33, 0x33, 0, 0, 0, 2]), host(cvlan), cvlan, ethernet::IPV6, &solicitation);
        rig.send(CPE, frame);
        rig.settle();
        let sent = rig.sent(CPE);
        assert_eq!(sent.len(), 1);
        let advertisement = &sent[0][22..];
        assert_eq!(icmp6(advertisement), (134, 0, nd::link_local(rig.mac(CPE))));
        assert_eq!((advertisement[7], sent[0][..6].to_vec()), (255, host(cvlan).0.to_vec()));
        let all_nodes: Ipv6Addr = "ff02::1".parse().unwrap();
        assert_eq!(advertisement[24..40], if from.is_unspecified() { all_nodes } else { from }.octets());
        // A /56 is for the customer's own router to part (RFC 8415), and hosts take no addresses of it.
        let networks = if cvlan == 1 { 1 } else { 0 };
        assert_eq!(advertisement.len(), nd::router_advertisement_len(networks) - 14);
    }
    rig.finish();
}

#[test]
fn errors_are_told_both_ways() {
    for has_keys in [true, false] {
        let mut rig = rig(has_keys);
        up(&mut rig, 1, &packet(HERE, FAR, 60));
        let own: Ipv6Addr = "2001:db8::1".parse().unwrap();
        let mut told = |packet: &[u8]| {
            assert_eq!(up(&mut rig, 1, packet).len(), 0);
            let sent = rig.sent(CPE);
            assert_eq!(sent.len(), 1);
            let (kind, code, source) = icmp6(&sent[0][22..]);
            assert_eq!(source, own);
            (kind, code, sent[0][22 + 44..22 + 48].to_vec(), sent[0][22 + 48..].to_vec())
        };
        let mut dying = packet(HERE, FAR, 60);
        dying[7] = 1;
        assert_eq!(told(&dying), (3, 0, vec![0; 4], dying.clone()));
        let lost = packet(HERE, "2001:db8:eeee::1", 60);
        assert_eq!(told(&lost), (1, 0, vec![0; 4], lost.clone()));
        if has_keys {
            let long = packet(HERE, FAR, 1460);
            let (kind, code, mtu, quote) = told(&long);
            assert_eq!((kind, code, mtu), (2, 0, (1500_u32 - 32).to_be_bytes().to_vec()));
            assert_eq!(quote, long[..1280 - 48]);
        }
        // And the other way round.
        let mut dying = packet(FAR, HERE, 60);
        dying[7] = 1;
        assert_eq!(down(&mut rig, has_keys, 7, &dying).len(), 0);
        let sent = rig.sent(CORE);
        let at = if has_keys { 14 + 4 + 20 + 8 } else { 14 };
        assert_eq!((sent.len(), icmp6(&sent[0][at..])), (1, (3, 0, own)));
        assert_eq!(sent[0][at + 48..], dying);
        rig.finish();
    }
}

#[test]
fn a_ping_to_the_gateway_is_answered() {
    let mut rig = rig(true);
    let mut request = packet(HERE, "2001:db8::1", 40);
    request[6] = 58;
    request[40..44].copy_from_slice(&[128, 0, 0, 0]);
    let sum = Sum::new().bytes(&request[8..40]).word(40).word(58).bytes(&request[40..]).checksum();
    request[42..44].copy_from_slice(&sum.to_be_bytes());
    up(&mut rig, 1, &request);
    let sent = rig.sent(CPE);
    assert_eq!(sent.len(), 1);
    assert_eq!(icmp6(&sent[0][22..]), (129, 0, "2001:db8::1".parse().unwrap()));
    assert_eq!(sent[0][22 + 44..], request[44..]);
    rig.finish();
}

/// Every truncation and every flipped bit of what IPv6 has here.
#[test]
fn broken_packets_are_accounted_for() {
    for has_keys in [true, false] {
        let mut rig = rig(has_keys);
        let mut solicitation = [0; nd::FRAME_LEN];
        let (own, target) = (HERE.parse().unwrap(), "2001:db8::1".parse().unwrap());
        nd::write_solicitation(&mut solicitation, host(1), own, target).unwrap();
        let gateway = rig.mac(CPE);
        let mut core = if has_keys {
            rig.tunneled_as(ethernet::IPV6, 7, &packet(FAR, HERE, 20))
        } else {
            rig.untunneled(&packet(FAR, HERE, 20))
        };
        if !has_keys {
            core[12..14].copy_from_slice(&ethernet::IPV6.to_be_bytes());
        }
        let frames: [(usize, Vec<u8>); 3] = [
            (CPE, tagged(gateway, host(1), 1, ethernet::IPV6, &packet(HERE, FAR, 20))),
            (CPE, tagged(gateway, host(1), 1, ethernet::IPV6, &solicitation[14..])),
            (CORE, core),
        ];
        let mut sent = 1;
        for (port, frame) in frames {
            for bit in 0..frame.len() * 8 {
                let mut broken = frame.clone();
                broken[bit / 8] ^= 1 << (bit % 8);
                rig.send(port, broken);
            }
            (1..frame.len()).for_each(|len| rig.send(port, frame[..len].to_vec()));
            sent += frame.len() * 9 - 1;
            rig.settle();
        }
        assert_eq!(rig.account().received, sent as u64);
        rig.finish();
    }
}

#[test]
fn routes_must_lead_to_gateways() {
    let mut config: Value = tunnels();
    config["routes_ipv6"] = json!({ "2001:db8::/32": "east" });
    let errors = common::build(TWO, &config).err().unwrap();
    let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["test.lua:1: bng.routes_ipv6[\"2001:db8::/32\"]: \"east\" is no gateway; expected one of west"]);
}
