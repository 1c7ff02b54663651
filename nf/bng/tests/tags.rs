//! Interfaces with VLAN tags on the core side: a gateway behind them does what it does without.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use crate::common;

use std::collections::BTreeMap;

use common::{
    CORE, CPE, PortSpec, ROUTER, ROUTER_MAC, Rig, SECOND, TWO, echo, interface, plain, request, tunnels, udp,
};
use serde_json::{Value, json};
use weir_stage::TagInfo;
use weir_wire::{MacAddr, ethernet, ipv4};
use zerocopy::IntoBytes;

const C: u16 = ethernet::CVLAN;
const S: u16 = ethernet::SVLAN;

const ONE: &[TagInfo] = &[TagInfo { tpid: C, vlan: 100 }];
const BOTH: &[TagInfo] = &[TagInfo { tpid: S, vlan: 4094 }, TagInfo { tpid: C, vlan: 1 }];

/// A core port with addresses of both families.
const PORTS: &[PortSpec] =
    &[PortSpec("cpe", &[], 1500), PortSpec("core", &["192.0.2.1/30", "2001:db8:0:1::1/64"], 1500)];

/// Two subscribers of both families, in tunnels or not, on so many workers.
fn config(is_tunnel: bool, workers: u16) -> Value {
    let mut config = if is_tunnel { tunnels() } else { plain() };
    config["addresses"] = json!(["10.0.0.1/16", "2001:db8:0:7::1/64"]);
    config["subscribers"][0]["ipv6"] = json!(["2001:db8:0:7::/64"]);
    config["icmp_rate"] = json!("1 Mpps");
    config["subscriber_punt_rate"] = json!("1 Mpps");
    if workers > 1 {
        config["workers"] = json!((0..workers).collect::<Vec<_>>());
        config["layout"] = json!("distributor");
    }
    config
}

/// Frames from the core: of each kind that a gateway tells apart.
fn from_the_core(rig: &Rig) -> Vec<Vec<u8>> {
    let own = rig.mac(CORE);
    let ethernet = |to: MacAddr, ethertype: u16, payload: &[u8]| {
        let mut frame = [&to.0[..], &ROUTER_MAC.0, &ethertype.to_be_bytes(), payload].concat();
        frame.resize(frame.len().max(60), 0);
        frame
    };
    let ttl = |mut packet: Vec<u8>, ttl: u8| {
        packet[8] = ttl;
        ipv4::write_checksum(&mut packet[..20]);
        packet
    };
    let packet = udp("203.0.113.9", "10.0.0.7", 100);
    let mut six = vec![0x60, 0, 0, 0, 0, 20, 59, 64];
    six.extend("2001:db8:99::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
    six.extend("2001:db8:0:7::5".parse::<std::net::Ipv6Addr>().unwrap().octets());
    six.extend([7; 20]);
    let mut frames = Vec::new();
    for inner in [
        packet.clone(),
        ttl(packet.clone(), 1),
        udp("203.0.113.9", "10.0.0.8", 1400),
        udp("203.0.113.9", "10.0.9.9", 60),
    ] {
        frames.push(rig.tunneled(7, &inner));
        frames.push(rig.tunneled(8, &inner));
        frames.push(rig.untunneled(&inner));
    }
    frames.push(rig.tunneled_as(ethernet::IPV6, 7, &six));
    frames.push(ethernet(own, ethernet::IPV6, &six));
    frames.push(ethernet(MacAddr([2, 9, 9, 9, 9, 9]), ethernet::IPV4, &packet));
    frames.push(ethernet(own, 0x9999, &packet));
    frames.push(ethernet(own, ethernet::IPV4, &echo("192.0.2.2", "192.0.2.1")));
    frames.push(ethernet(own, ethernet::IPV4, &udp("192.0.2.2", "192.0.2.1", 60)));
    frames.push(ethernet(own, ethernet::IPV4, &echo("192.0.2.2", "10.0.0.1")));
    frames.push(ethernet(
        MacAddr::BROADCAST,
        ethernet::ARP,
        request(ROUTER_MAC, ROUTER, "192.0.2.1").to_wire().as_bytes(),
    ));
    frames.push(ethernet(own, ethernet::IPV4, &udp("192.0.2.2", "224.0.0.5", 60)));
    frames.push(ethernet(own, ethernet::IPV4, &packet[..10]));
    frames
}

/// Frames of customers: packets that pass, that end, that do not fit, to the gateway.
fn from_customers(rig: &Rig) -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = (0..32)
        .map(|last| {
            rig.customer(1 + last % 2, ["10.0.0.7", "10.0.0.8"][usize::from(last % 2)], &format!("203.0.113.{last}"))
        })
        .collect();
    let tagged = |packet: &[u8]| common::tagged(rig.mac(CPE), common::host(1), 1, ethernet::IPV4, packet);
    let mut short_lived = udp("10.0.0.7", "203.0.113.1", 100);
    short_lived[8] = 1;
    ipv4::write_checksum(&mut short_lived[..20]);
    frames.push(tagged(&short_lived));
    for bytes in [1456, 1468, 1472, 1473, 1500] {
        frames.push(tagged(&udp("10.0.0.7", "203.0.113.1", bytes)));
        let mut whole = udp("10.0.0.7", "203.0.113.1", bytes);
        whole[6] = 0x40;
        ipv4::write_checksum(&mut whole[..20]);
        frames.push(tagged(&whole));
    }
    frames.push(tagged(&echo("10.0.0.7", "10.0.0.1")));
    frames.push(tagged(&echo("10.0.0.7", "192.0.2.1")));
    frames
}

/// A frame with one of its bytes behind the EtherType changed.
fn mutated(frame: &[u8], n: usize) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let at = 14 + n * 7919 % (frame.len() - 14).min(90);
    frame[at] ^= 1 << (n % 8);
    frame
}

/// Both, started and with their router known.
fn pair(is_tunnel: bool, workers: u16, tags: &[TagInfo]) -> [Rig; 2] {
    let config = config(is_tunnel, workers);
    [Rig::new(PORTS, config.clone()), Rig::tagged(PORTS, config, tags)].map(|mut rig| {
        rig.run(3 * SECOND);
        rig.router_answers();
        rig.arp_reply(1, "10.0.0.7", common::host(1));
        rig.arp_reply(2, "10.0.0.8", common::host(2));
        rig.settle();
        rig.sent(CORE);
        rig.sent(CPE);
        rig
    })
}

/// Drops by reason, whichever stage did it: of what is not for the function, tags tell one stage sooner.
fn reasons(rig: &mut Rig) -> BTreeMap<String, u64> {
    let mut reasons = BTreeMap::new();
    for (drop, packets) in rig.drops() {
        let reason = drop.split_once('/').unwrap().1.to_owned();
        *reasons.entry(reason).or_default() += packets;
    }
    reasons
}

#[test]
fn a_gateway_behind_tags_does_what_it_does_without() {
    let (mut passed, mut delivered) = (0, 0);
    for (is_tunnel, workers) in [(true, 1), (false, 1), (true, 3), (false, 3)] {
        for tags in [ONE, BOTH] {
            let mut rigs = pair(is_tunnel, workers, tags);
            for n in 0..60 {
                let (core, cpe) = (from_the_core(&rigs[0]), from_customers(&rigs[0]));
                let both = [(CORE, core), (CPE, cpe)];
                for (port, frames) in both {
                    for frame in frames {
                        // The first time as they are, then as they must not be.
                        let frame = if n == 0 { frame } else { mutated(&frame, n * 31) };
                        let sent = rigs.each_mut().map(|rig| {
                            rig.send(port, frame.clone());
                            rig.settle();
                            // What it announces of itself comes at times of its own.
                            let is_answer = |frame: &Vec<u8>| frame[0] != 0x33;
                            [CPE, CORE].map(|port| rig.sent(port).into_iter().filter(is_answer).collect::<Vec<_>>())
                        });
                        assert_eq!(sent[0], sent[1], "{tags:?}, tunnels {is_tunnel}: {frame:02x?}");
                        passed += sent[0].iter().flatten().count();
                        let source = [203, 0, 113, 9];
                        delivered += sent[0][CPE].iter().filter(|frame| frame[34..38] == source).count();
                    }
                }
            }
            let [mut bare, mut tagged] = rigs;
            assert_eq!(reasons(&mut bare), reasons(&mut tagged));
            bare.finish();
            tagged.finish();
        }
    }
    assert!(passed > 10_000 && delivered > 500, "{passed} passed, {delivered} to customers");
}

/// The row of an interface.
fn row(rig: &Rig, name: &str) -> Value {
    rig.show("interfaces").into_iter().find(|row| row["name"] == name).unwrap()
}

#[test]
fn interfaces_count_what_comes_and_goes_once() {
    for is_tunnel in [true, false] {
        let mut rig = Rig::tagged(PORTS, config(is_tunnel, 1), ONE);
        rig.run(3 * SECOND);
        rig.router_answers();
        let (before, name) = (row(&rig, "core.tagged"), "core.tagged");
        let (mut packets, mut bytes) = (0, 0);
        for frame in from_the_core(&rig) {
            packets += 1;
            bytes += frame.len() + 4;
            rig.send(CORE, frame);
        }
        rig.settle();
        let now = row(&rig, name);
        let difference = |key: &str| now[key].as_u64().unwrap() - before[key].as_u64().unwrap();
        assert_eq!((difference("rx_packets"), difference("rx_bytes")), (packets, bytes as u64));
        // Without tags, too: all by the port's own interface.
        let mut bare = Rig::new(PORTS, config(is_tunnel, 1));
        bare.run(3 * SECOND);
        bare.router_answers();
        let before = row(&bare, "core");
        for frame in from_the_core(&bare) {
            bare.send(CORE, frame);
        }
        bare.settle();
        let now = row(&bare, "core");
        assert_eq!(now["rx_packets"].as_u64().unwrap() - before["rx_packets"].as_u64().unwrap(), packets);
        rig.finish();
        bare.finish();
    }
}

/// Tags of nobody, of an interface that is down, and of one in another VRF.
#[test]
fn what_comes_by_other_interfaces_is_not_for_customers() {
    let mut config = config(true, 1);
    config["vrfs"] = json!({ "management": {} });
    config["gateways"]["west"]["port"] = json!("core.tagged");
    let mut ports = PORTS.to_vec();
    let core = interface(&ports[CORE], ONE);
    ports[CORE].1 = &[];
    let management = weir_stage::InterfaceInfo {
        name: "core.7".to_owned(),
        vrf: Some("management".to_owned()),
        ..interface(&PortSpec("core", &["192.0.2.1/30"], 1500), &[TagInfo { tpid: C, vlan: 7 }])
    };
    let mut rig = Rig::with_interfaces(&ports, vec![core, management], config);
    rig.run(3 * SECOND);
    let with = |rig: &Rig, vlan: u16, frame: Vec<u8>| {
        let mut frame = frame;
        frame.splice(12..12, [C.to_be_bytes(), vlan.to_be_bytes()].concat());
        assert_eq!(&frame[..6], &rig.mac(CORE).0);
        frame
    };
    // The subscriber's host is known.
    rig.arp_reply(1, "10.0.0.7", common::host(1));
    rig.settle();
    rig.sent(CPE);
    rig.sent(CORE);
    let packet = rig.tunneled(7, &udp("203.0.113.9", "10.0.0.7", 100));
    let send = |rig: &mut Rig, vlan: u16| {
        let frame = with(rig, vlan, packet.clone());
        rig.send_as_is(CORE, frame);
        rig.settle();
        rig.sent(CPE).len()
    };
    assert_eq!(send(&mut rig, 100), 1);
    assert_eq!((send(&mut rig, 7), send(&mut rig, 8)), (0, 0));
    rig.send_as_is(CORE, packet.clone());
    rig.settle();
    assert_eq!(rig.sent(CPE).len(), 1, "the untagged interface is one of the core side, too");
    let drops = rig.drops();
    assert_eq!(drops["bng.core.forward/unknown-tag"], 1, "{drops:?}");
    // The other VRF has its own addresses, and answers for them.
    let ping = [&rig.mac(CORE).0[..], &ROUTER_MAC.0, &[8, 0], &echo("192.0.2.2", "192.0.2.1")].concat();
    let ping = with(&rig, 7, ping);
    rig.send_as_is(CORE, ping);
    rig.run(SECOND);
    let asked = rig.sent(CORE).into_iter().any(|frame| frame[12..18] == [0x81, 0, 0, 7, 8, 6]);
    assert!(asked, "who is to be answered is asked for in the VLAN that it asked from");
    // What is down takes nothing, and is back with the next packet when it is up.
    rig.request("interface set", json!({ "name": "core.tagged", "state": "down" })).unwrap();
    rig.settle();
    assert_eq!(send(&mut rig, 100), 0);
    rig.request("interface set", json!({ "name": "core.tagged", "state": "up" })).unwrap();
    rig.settle();
    assert_eq!(send(&mut rig, 100), 1);
    // So for the port's own interface.
    rig.request("interface set", json!({ "name": "core", "state": "down" })).unwrap();
    rig.settle();
    rig.send_as_is(CORE, packet.clone());
    rig.settle();
    assert_eq!(rig.sent(CPE).len(), 0);
    assert_eq!(send(&mut rig, 100), 1, "tagged ones are others");
    rig.finish();
}

#[test]
fn interfaces_come_and_go_while_packets_flow() {
    let mut rig = common::rig(tunnels());
    rig.request("interface add", json!({ "name": "core.9", "on": "core", "vlan": "9", "address": ["192.0.2.9/30"] }))
        .unwrap();
    rig.run(4 * SECOND);
    rig.sent(CORE);
    rig.request("route add", json!({ "prefix": "198.51.100.9/32", "via": ["192.0.2.10"] })).unwrap();
    let mut hello =
        [&rig.mac(CORE).0[..], &[2, 0, 0, 0, 2, 10], &[0x81, 0, 0, 9], &ethernet::ARP.to_be_bytes()].concat();
    hello.extend(request(MacAddr([2, 0, 0, 0, 2, 10]), "192.0.2.10", "192.0.2.9").to_wire().as_bytes());
    rig.send_as_is(CORE, hello);
    rig.settle();
    assert!(rig.sent(CORE).iter().any(|frame| frame[12..18] == [0x81, 0, 0, 9, 8, 6]), "ARP is answered");
    let leaves = |rig: &mut Rig| {
        let frame = rig.customer(1, "10.0.0.7", "203.0.113.1");
        rig.send(CPE, frame);
        rig.settle();
        rig.sent(CORE).pop().unwrap()
    };
    let frame = leaves(&mut rig);
    assert_eq!((&frame[..6], &frame[12..18]), (&[2, 0, 0, 0, 2, 10][..], &[0x81, 0, 0, 9, 0x88, 0x47][..]));
    rig.request("interface del", json!({ "name": "core.9" })).unwrap();
    rig.settle();
    let frame = leaves(&mut rig);
    assert_eq!((&frame[..6], &frame[12..14]), (&ROUTER_MAC.0[..], &[0x88, 0x47][..]), "by the route that is left");
    rig.finish();
}

#[test]
fn gateways_are_behind_interfaces_that_are_there() {
    let mut config = tunnels();
    config["gateways"]["west"]["port"] = json!("core.5");
    let wrong = common::build(TWO, &config).err().unwrap();
    let expected = "test.lua:1: bng.gateways[\"west\"].port: \"core.5\" is no core port, and no interface on one; choose one of core";
    assert_eq!(wrong.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}
