//! IPv6 subscribers: carried both ways, found by neighbour discovery and traffic, told of errors. RFC 8200, 4861, 4443, 2784.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

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
    assert_eq!(down(&mut rig, true, 8, &packet(FAR, "2001:db8:0:100::1", 60)).len(), 0, "its router was not heard");
    let drops = rig.drops();
    let of = |reason: &str| {
        let stage = match reason {
            "unknown-destination" => "six-down",
            "host-unresolved" => "control",
            _ => "six-up",
        };
        drops.get(&format!("bng.{stage}/{reason}")).copied().unwrap_or(0)
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
        // RFC 4861 section 7.2.5: a host drops a router whose advertisement does not say that it is one.
        let expected = nd::Message::advertisement(target, rig.mac(CPE), from, true);
        assert_eq!(answer, Some(expected));
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
        assert_eq!(advertisement.len(), 40 + 16 + 8 + 8 + 32 * networks);
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

/// Frames to customers: to which station, and with which packet.
fn to_stations(rig: &mut Rig, ethertype_at: usize) -> Vec<(MacAddr, Vec<u8>)> {
    let sent = rig.sent(CPE);
    assert!(sent.iter().all(|frame| frame[ethertype_at..ethertype_at + 2] == [0x86, 0xdd]));
    sent.iter().map(|frame| (MacAddr(frame[..6].try_into().unwrap()), frame[22..].to_vec())).collect()
}

fn up_from(rig: &mut Rig, station: MacAddr, source: &str) -> usize {
    let frame = tagged(rig.mac(CPE), station, 1, ethernet::IPV6, &packet(source, FAR, 60));
    rig.send(CPE, frame);
    rig.settle();
    rig.sent(CORE).len()
}

fn core_sends(rig: &mut Rig, destination: &str) -> Vec<(MacAddr, Vec<u8>)> {
    let frame = rig.tunneled_as(ethernet::IPV6, 7, &packet(FAR, destination, 60));
    rig.send(CORE, frame);
    rig.settle();
    to_stations(rig, 20)
}

/// Who is asked for an address, by which station: the frame's destination.
fn asked(frames: &[(MacAddr, Vec<u8>)]) -> Vec<(MacAddr, Ipv6Addr)> {
    let questions = frames.iter().filter_map(|(to, packet)| match nd::parse(packet)?.body {
        nd::Body::Solicitation { target, .. } => Some((*to, target)),
        _ => None,
    });
    questions.collect()
}

fn answer(rig: &mut Rig, station: MacAddr, address: &str) {
    let mut frame = [0; nd::FRAME_LEN];
    let gateway = rig.mac(CPE);
    let address = address.parse().unwrap();
    let answer = nd::Message::advertisement(address, station, nd::link_local(gateway), false);
    answer.write(&mut frame, station, gateway).unwrap();
    let frame = tagged(gateway, station, 1, ethernet::IPV6, &frame[14..]);
    rig.send(CPE, frame);
    rig.settle();
}

const FIRST: MacAddr = MacAddr([2, 0, 0, 6, 0, 1]);
const SECOND_STATION: MacAddr = MacAddr([2, 0, 0, 6, 0, 2]);

/// RFC 4861: each host of a network gets what is for it, and who was not heard is asked for.
#[test]
fn hosts_that_share_a_network_are_told_apart() {
    let mut rig = rig(true);
    let [a, b, c, nobody] = ["2001:db8:0:7::a", "2001:db8:0:7::b", "2001:db8:0:7::c", "2001:db8:0:7::dead"];
    // One station: a router, or a host with many addresses. All is for it.
    assert_eq!(up_from(&mut rig, FIRST, a), 1);
    assert_eq!(up_from(&mut rig, FIRST, "2001:db8:0:7:1:2:3:4"), 1);
    assert_eq!(up_from(&mut rig, FIRST, a), 1);
    assert_eq!(core_sends(&mut rig, c), [(FIRST, hopped(packet(FAR, c, 60)))]);
    // A second one.
    assert_eq!(up_from(&mut rig, SECOND_STATION, b), 1);
    assert_eq!(core_sends(&mut rig, b), [(SECOND_STATION, hopped(packet(FAR, b, 60)))]);
    assert_eq!(core_sends(&mut rig, a), [(FIRST, hopped(packet(FAR, a, 60)))]);
    // An address that was not heard is asked for, by all; the packet waits.
    let sent = core_sends(&mut rig, c);
    let group = nd::group_mac(nd::solicited_node(c.parse().unwrap()));
    assert_eq!(asked(&sent), [(group, c.parse().unwrap())]);
    assert_eq!((sent.len(), rig.account().held), (1, 1));
    answer(&mut rig, SECOND_STATION, c);
    assert_eq!(to_stations(&mut rig, 20), [(SECOND_STATION, hopped(packet(FAR, c, 60)))]);
    assert_eq!(core_sends(&mut rig, c).len(), 1);
    // Who does not answer is lost, and asked for three times.
    let mut sent = core_sends(&mut rig, nobody);
    rig.run(4 * common::SECOND);
    sent.extend(to_stations(&mut rig, 20));
    assert_eq!(asked(&sent).len(), 3);
    assert_eq!(rig.drops().get("bng.control/host-unresolved"), Some(&1));
    let shown: Vec<(Value, Value)> =
        rig.show("hosts").iter().map(|row| (row["address"].clone(), row["mac"].clone())).collect();
    for (address, mac) in [(a, FIRST), (b, SECOND_STATION), (c, SECOND_STATION)] {
        assert!(shown.contains(&(json!(address), json!(mac.to_string()))), "{address}: {shown:?}");
    }
    rig.finish();
}

#[test]
fn a_silent_host_is_asked_for_before_anybody_spoke() {
    let mut rig = rig(true);
    let sent = core_sends(&mut rig, HERE);
    assert_eq!((sent.len(), asked(&sent).len()), (1, 1));
    answer(&mut rig, FIRST, HERE);
    assert_eq!(to_stations(&mut rig, 20), [(FIRST, hopped(packet(FAR, HERE, 60)))]);
    rig.finish();
}

/// Stations that are silent are asked, and forgotten; the one that is left has the network for itself.
#[test]
fn when_one_station_is_left_all_is_for_it() {
    let mut rig = rig(true);
    let [a, b] = ["2001:db8:0:7::a", "2001:db8:0:7::b"];
    up_from(&mut rig, FIRST, a);
    up_from(&mut rig, SECOND_STATION, b);
    rig.sent(CPE);
    rig.run(1500 * common::SECOND);
    let questions = asked(&to_stations(&mut rig, 20));
    assert!(questions.contains(&(FIRST, a.parse().unwrap())), "the station itself is asked: {questions:?}");
    answer(&mut rig, FIRST, a);
    rig.run(10 * common::SECOND);
    rig.sent(CPE);
    assert_eq!(core_sends(&mut rig, b), [(FIRST, hopped(packet(FAR, b, 60)))]);
    rig.finish();
}

/// One subscriber has so many hosts, whatever it does, and whatever the core asks for.
#[test]
fn hosts_of_a_network_are_bounded() {
    let mut config = tunnels();
    config["routes_ipv6"] = json!({ "2001:db8:ffff::/48": "west" });
    config["subscribers"] = json!([{ "svlan": 100, "cvlan": 1, "key": 7, "ipv6": ["2001:db8:0:7::/64"] }]);
    config["limits"] = json!({ "hosts_ipv6": 4 });
    config["subscriber_punt_rate"] = json!("1 kpps");
    let mut rig = Rig::new(TWO, config);
    rig.settle();
    rig.router_answers();
    rig.sent(CORE);
    let gone: usize =
        (1..=20).map(|n| up_from(&mut rig, MacAddr([2, 0, 0, 6, 1, n]), &format!("2001:db8:0:7::{n:x}"))).sum();
    assert_eq!((gone, rig.drops()["bng.control/too-many-addresses"]), (4, 16));
    for n in 0..40 {
        core_sends(&mut rig, &format!("2001:db8:0:7:5::{n:x}"));
    }
    assert_eq!((rig.account().held, rig.drops()["bng.control/host-unresolved"]), (8, 32));
    // One network, four hosts, eight that are asked for.
    assert_eq!(rig.show("hosts").len(), 1 + 4 + 8);
    rig.run(20 * common::SECOND);
    assert_eq!((rig.account().held, rig.show("hosts").len()), (0, 1 + 4));
    rig.finish();
}

/// A prefix that is not a link is routed to who spoke last, whoever sends.
#[test]
fn routed_prefixes_have_one_router() {
    let mut rig = rig(true);
    let mut send = |station: MacAddr, source: &str| {
        let frame = tagged(rig.mac(CPE), station, 2, ethernet::IPV6, &packet(source, FAR, 60));
        rig.send(CPE, frame);
        rig.settle();
        assert_eq!(rig.sent(CORE).len(), 1);
        let frame = rig.tunneled_as(ethernet::IPV6, 8, &packet(FAR, "2001:db8:0:100::77", 60));
        rig.send(CORE, frame);
        rig.settle();
        to_stations(&mut rig, 20)[0].0
    };
    assert_eq!(send(FIRST, "2001:db8:0:100::1"), FIRST);
    assert_eq!(send(SECOND_STATION, "2001:db8:0:100::2"), FIRST);
    assert_eq!(rig.drops().values().sum::<u64>(), 0);
    rig.finish();
}

/// As for IPv4: the priority by `pcp`, the DSCP by `dscp`, congestion by RFC 6040 section 4.2.
#[test]
fn packets_to_customers_are_marked() {
    let mut config = tunnels();
    config["subscribers"] = json!([{ "svlan": 100, "cvlan": 1, "key": 7, "ipv6": ["2001:db8:0:7::/64"] }]);
    config["routes_ipv6"] = json!({ "2001:db8:ffff::/48": "west" });
    config["dscp"] = json!({ "46": 10 });
    config["pcp"] = json!({ "10": 5, "0": 1 });
    let mut rig = Rig::new(TWO, config);
    rig.settle();
    rig.router_answers();
    up_from(&mut rig, FIRST, HERE);
    let mut send = |class: u8, outer: u8| {
        let mut bytes = packet(FAR, HERE, 60);
        (bytes[0], bytes[1]) = (0x60 | class >> 4, class << 4 | 3);
        let mut frame = rig.tunneled_as(ethernet::IPV6, 7, &bytes);
        frame[19] = outer;
        weir_wire::ipv4::write_checksum(&mut frame[18..38]);
        rig.send(CORE, frame);
        rig.settle();
        let sent = rig.sent(CPE);
        let frame = sent.first()?;
        assert_eq!((frame[22] >> 4, frame[23] & 15, &frame[24..29], frame[29]), (6, 3, &bytes[2..7], 63));
        assert_eq!((frame[14] >> 5, &frame[30..]), (frame[18] >> 5, &bytes[8..]));
        Some((frame[14] >> 5, frame[22] << 4 | frame[23] >> 4))
    };
    assert_eq!(send(46 << 2 | 1, 0), Some((5, 10 << 2 | 1)));
    assert_eq!(send(0, 0), Some((1, 0)));
    assert_eq!(send(8 << 2, 1), Some((0, 8 << 2)));
    assert_eq!(send(46 << 2 | 2, 3), Some((5, 10 << 2 | 3)));
    assert_eq!(send(46 << 2, 3), None);
    assert_eq!(rig.drops().get("bng.six-down/congestion"), Some(&1));
    rig.finish();
}
