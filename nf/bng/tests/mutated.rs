//! Mutated frames of everything that the gateway parses, both ways: tags, ARP, neighbour discovery, labels, GRE, fragments, IPv4 and
//! IPv6. They do no harm, and each is accounted for.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use std::net::Ipv6Addr;

use common::{CORE, CPE, PortSpec, Rig, SECOND, echo, host, plain, request, tagged, tunnels, udp};
use serde_json::json;
use weir_stage::Random;
use weir_wire::{MacAddr, ethernet, ipv4, nd};
use zerocopy::IntoBytes;

const PORTS: &[PortSpec] = &[PortSpec("cpe", &[], 1400), PortSpec("core", &["192.0.2.1/30"], 1500)];

/// A gateway that hands all to the slow path that belongs there.
fn rig(has_keys: bool) -> Rig {
    let mut config = if has_keys { tunnels() } else { plain() };
    config["addresses"] = json!(["10.0.0.1/16", "2001:db8::1/64"]);
    config["routes_ipv6"] = json!({ "2001:db8:ffff::/48": "west" });
    config["subscribers"] = json!([
        { "svlan": 100, "cvlan": 1, "key": 7, "ipv4": ["10.0.0.7"], "ipv6": ["2001:db8:0:7::/64"] },
        { "svlan": 100, "cvlan": 2, "key": 8, "ipv4": ["10.0.0.8", "10.8.0.0/29"], "ipv6": ["2001:db8:0:100::/56"] },
        { "svlan": 100, "cvlan": 3, "key": 9, "ipv4": ["10.0.0.9"], "mac": host(3).to_string() },
    ]);
    config["gateways"]["west"]["mtu"] = json!(600);
    if has_keys {
        config["tunnel"] = json!({ "fragment": true });
    }
    config["punt_rate"] = json!("100 Mpps");
    config["subscriber_punt_rate"] = json!("1 Mpps");
    config["icmp_rate"] = json!("1 Mpps");
    let mut rig = Rig::new(PORTS, config);
    rig.settle();
    rig.router_answers();
    for port in [CPE, CORE] {
        rig.sent(port);
    }
    rig
}

const HOSTS: [&str; 6] = ["10.0.0.7", "10.0.0.8", "10.8.0.3", "10.0.0.9", "10.0.55.1", "10.0.0.1"];
const FAR: [&str; 4] = ["203.0.113.1", "192.0.2.2", "224.0.0.5", "255.255.255.255"];
const HOSTS6: [&str; 5] =
    ["2001:db8:0:7::7", "2001:db8:0:7::8", "2001:db8:0:142::9", "2001:db8::1", "fe80::200:ff:fe01:1"];

fn one_of<'a>(random: &mut Random, list: &[&'a str]) -> &'a str {
    list[random.position(list.len())]
}

fn packet6(source: &str, destination: &str, bytes: usize) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((bytes as u16).to_be_bytes());
    packet.extend([17, 64]);
    packet.extend([source, destination].map(|text| text.parse::<Ipv6Addr>().unwrap().octets()).concat());
    packet.resize(40 + bytes, 0x5a);
    packet
}

/// An IP packet between a customer and somewhere else, either way, as a protocol's EtherType and bytes.
fn packet(random: &mut Random, up: bool) -> (u16, Vec<u8>) {
    let bytes = if random.one_in(8) { 60 + random.position(1400) } else { 60 + random.position(80) };
    if random.one_in(3) {
        let (near, far) = (one_of(random, &HOSTS6), "2001:db8:ffff::9");
        let (source, destination) = if up { (near, far) } else { (far, near) };
        return (ethernet::IPV6, packet6(source, destination, bytes));
    }
    let (near, far) = (one_of(random, &HOSTS), one_of(random, &FAR));
    let (source, destination) = if up { (near, far) } else { (far, near) };
    let mut packet = if random.one_in(6) { echo(near, "10.0.0.1") } else { udp(source, destination, bytes) };
    packet[8] = if random.one_in(8) { random.position(3) as u8 } else { 64 };
    packet[6] = [0, 0x40, 0x20, 0][random.position(4)];
    ipv4::write_checksum(&mut packet[..20]);
    (ethernet::IPV4, packet)
}

/// What customers send.
fn customer(random: &mut Random, rig: &Rig) -> Vec<u8> {
    let cvlan = 1 + random.position(3) as u16;
    let station = if random.one_in(8) { host(random.next() as u16 & 7) } else { host(cvlan) };
    let to = if random.one_in(16) { MacAddr::BROADCAST } else { rig.mac(CPE) };
    match random.position(8) {
        0 => {
            let arp = request(station, one_of(random, &HOSTS), one_of(random, &HOSTS));
            tagged(to, station, cvlan, ethernet::ARP, arp.to_wire().as_bytes())
        }
        1 => {
            let mut frame = [0; nd::FRAME_LEN];
            let (own, target) = (one_of(random, &HOSTS6).parse().unwrap(), one_of(random, &HOSTS6).parse().unwrap());
            let gateway = rig.mac(CPE);
            if random.one_in(2) {
                nd::write_solicitation(&mut frame, station, own, target).unwrap();
            } else {
                let answer = nd::Message::advertisement(own, station, nd::link_local(gateway), false);
                answer.write(&mut frame, station, gateway).unwrap();
            }
            tagged(to, station, cvlan, ethernet::IPV6, &frame[14..])
        }
        _ => {
            let (ethertype, packet) = packet(random, true);
            tagged(to, station, cvlan, ethertype, &packet)
        }
    }
}

/// What comes from the core.
fn core(random: &mut Random, rig: &Rig, has_keys: bool) -> Vec<u8> {
    if random.one_in(16) {
        let mut frame = vec![0; 60];
        request(common::ROUTER_MAC, "192.0.2.2", "192.0.2.1").write(rig.mac(CORE), &mut frame).unwrap();
        return frame;
    }
    let (ethertype, packet) = packet(random, false);
    if !has_keys {
        let mut frame = rig.untunneled(&packet);
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        return frame;
    }
    let mut frame = rig.tunneled_as(ethertype, 7 + random.position(3) as u32, &packet);
    if random.one_in(4) {
        // A fragment, mostly the first or the last of two, of so few identifications that some become whole.
        let outer = &mut frame[18..];
        outer[4..6].copy_from_slice(&(random.position(512) as u16).to_be_bytes());
        let offset = random.position(2) as u16 * 10;
        let more = if (offset == 0) == random.one_in(8) { 0 } else { 0x2000 };
        outer[6..8].copy_from_slice(&(more | offset).to_be_bytes());
        let keep = if more == 0 || random.one_in(4) { outer.len() } else { 20 + 80 };
        outer[2..4].copy_from_slice(&(keep as u16).to_be_bytes());
        frame.truncate(18 + keep);
    }
    frame[19] = random.position(4) as u8;
    ipv4::write_checksum(&mut frame[18..38]);
    frame
}

/// Where IPv4 headers may begin: behind tags, an Ethernet header, a label, a tunnel, or both.
const HEADERS: [usize; 5] = [22, 14, 18, 46, 42];

/// Flips bits, cuts, lengthens or exchanges bytes, and mends checksums of what may be IPv4 headers.
fn mutate(random: &mut Random, frame: &mut Vec<u8>) {
    for _ in 0..=random.position(3) {
        let at = random.position(frame.len().min(100));
        match random.position(6) {
            0 => frame[at] ^= 1 << random.position(8),
            1 => frame[at] = [0, 1, 0x7f, 0x80, 0xff][random.position(5)],
            2 => frame.truncate(1 + random.position(frame.len())),
            3 => frame.resize((frame.len() + random.position(64)).min(1600), random.next() as u8),
            4 => {
                // More labels, or fewer bytes in front.
                let at = at.min(14).min(frame.len());
                frame.splice(at..at, [0, 3, random.next() as u8 & 1, 64]);
            }
            _ => {
                let other = random.position(frame.len());
                frame.swap(at, other);
            }
        }
    }
    if !random.one_in(4) {
        for at in HEADERS {
            if frame.get(at).is_some_and(|first| (0x45..0x50).contains(first)) {
                ipv4::write_checksum(&mut frame[at..]);
            }
        }
    }
}

/// Packets dropped for what the first checks refuse.
fn early_drops(rig: &mut Rig) -> u64 {
    const NAMES: [&str; 6] =
        ["too-short", "not-for-us", "no-svlan", "no-cvlan", "unknown-subscriber", "unknown-ethertype"];
    let drops = rig.drops();
    let is_early = |name: &str| {
        let Some((stage, reason)) = name.split_once('/') else { return false };
        let starts =
            ["ip-", "mpls-", "outer-ip", "outer-destination", "gre-"].iter().any(|start| reason.starts_with(start));
        !stage.ends_with("control") && (starts || NAMES.contains(&reason))
    };
    drops.iter().filter(|(name, _)| is_early(name)).map(|(_, count)| count).sum()
}

#[test]
fn mutated_frames_do_no_harm_and_are_all_accounted_for() {
    // Ten million, as a release has to pass, take minutes: WEIR_MUTATED=10000000 cargo test ...
    let count = std::env::var("WEIR_MUTATED").map_or(60_000, |count| count.parse::<u64>().unwrap());
    for has_keys in [true, false] {
        let mut rig = rig(has_keys);
        let mut random = Random::new(7 + u64::from(has_keys));
        let before = rig.account();
        let mut out = 0;
        for n in 0..count / 2 {
            let port = random.position(2);
            let mut frame = if port == CPE { customer(&mut random, &rig) } else { core(&mut random, &rig, has_keys) };
            if !random.one_in(4) {
                mutate(&mut random, &mut frame);
            }
            rig.send(port, frame);
            if n % 256 == 255 {
                rig.run(200_000);
                out += rig.sent(CPE).len() + rig.sent(CORE).len();
            }
        }
        rig.run(100 * SECOND);
        out += rig.sent(CPE).len() + rig.sent(CORE).len();
        let account = rig.account();
        assert_eq!(account.received - before.received, count / 2, "each frame that was sent in was counted");
        assert_eq!((account.transmitted - before.transmitted).abs_diff(out as u64), 0, "and each that came out");
        assert_eq!(account.held, 0);
        let passed = count / 2 - early_drops(&mut rig);
        assert!(passed * 10 >= count / 2 * 3, "{passed} of {} passed the first checks", count / 2);
        let (drops, fates) = (rig.drops(), rig.fates());
        let expected: &[&str] = if has_keys {
            &["outer-fragment-overlap", "outer-fragment-timeout", "spoofed-source", "nd-ignored", "local-protocol"]
        } else {
            &["spoofed-source", "nd-ignored", "local-protocol", "arp-malformed"]
        };
        for reason in expected {
            assert!(
                drops.keys().any(|name| name.ends_with(&format!("/{reason}"))),
                "{reason} did not occur: {drops:?}"
            );
        }
        let made: &[&str] = if has_keys { &["whole", "fragment", "reassembled"] } else { &["fragment", "echo-reply"] };
        for reason in made {
            assert!(fates.contains_key(*reason), "{reason} did not occur: {fates:?}");
        }
        println!("{passed} of {} passed the first checks, {out} came out", count / 2);
        rig.finish();
    }
}
