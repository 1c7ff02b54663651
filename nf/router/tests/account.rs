//! Everything that comes in is accounted for, whatever it is; and what is forwarded goes where a model says that it must.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

mod common;

use common::*;
use serde_json::json;
use weir_stage::Random;
use weir_wire::ipv4::write_checksum;
use weir_wire::{Ipv4, MacAddr, View, checksum, martian};

const PORTS: &[PortSpec] = &[
    PortSpec("left", &["10.0.0.1/24"], 1500),
    PortSpec("right", &["10.0.1.1/24"], 1500),
    PortSpec("small", &["10.0.2.1/24"], 576),
];

const ROUTES: &[(&str, &str)] = &[
    ("0.0.0.0/0", "10.0.1.9"),
    ("192.0.2.0/24", "10.0.1.8"),
    ("192.0.2.128/25", "10.0.2.9"),
    ("192.0.2.200/32", "10.0.0.9"),
    ("198.51.0.0/16", "10.0.2.8"),
    ("198.51.100.0/24", "10.0.1.77"),
];

/// Hosts that are known by hand; 10.0.1.77 and others are not.
const HOSTS: &[&str] = &["10.0.1.9", "10.0.1.8", "10.0.2.9", "10.0.2.8", "10.0.0.9"];

fn mac_of(host: &str) -> MacAddr {
    let [.., third, fourth] = host.parse::<Ipv4Addr>().unwrap().octets();
    MacAddr([2, 0, 0, 0, third, fourth])
}

fn rig() -> Rig {
    let neighbors: serde_json::Map<_, _> =
        HOSTS.iter().map(|host| ((*host).to_owned(), json!(mac_of(host).to_string()))).collect();
    let routes: serde_json::Map<_, _> = ROUTES.iter().map(|(prefix, via)| ((*prefix).to_owned(), json!(via))).collect();
    let mut rig = Rig::new(PORTS, json!({ "neighbors": neighbors, "routes": routes, "punt_rate": "100 kpps" }));
    rig.run(10 * SECOND);
    (0..PORTS.len()).for_each(|port| drop(rig.sent(port)));
    rig
}

const DESTINATIONS: &[[u8; 4]] = &[
    [8, 8, 8, 8],
    [192, 0, 2, 1],
    [192, 0, 2, 130],
    [192, 0, 2, 200],
    [198, 51, 7, 7],
    [198, 51, 100, 7],
    [10, 0, 0, 9],
    [10, 0, 1, 9],
    [10, 0, 1, 200],
    [10, 0, 2, 1],
    [10, 0, 1, 255],
    [224, 0, 0, 5],
    [255, 255, 255, 255],
    [127, 0, 0, 1],
    [169, 254, 3, 4],
];

/// A frame to the router on a port: IPv4 of any kind, at times ARP, of any length.
fn make(random: &mut Random, router: MacAddr, longest: usize) -> Vec<u8> {
    let options = if random.one_in(8) { random.position(11) * 4 } else { 0 };
    let payload = if random.one_in(4) { random.position(longest - 80) } else { random.position(120) };
    let mut frame = vec![0; 34 + options + payload];
    frame.iter_mut().for_each(|byte| *byte = random.next() as u8);
    let to = if random.one_in(20) { MacAddr::BROADCAST } else { router };
    frame[..6].copy_from_slice(&to.0);
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 8, 0]);
    if random.one_in(20) {
        frame[13] = 6;
        frame[14..22].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1 + random.position(2) as u8]);
        return frame;
    }
    frame[14] = 0x45 + (options / 4) as u8;
    let total = (20 + options + payload) as u16;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    if !random.one_in(6) {
        frame[20..22].fill(0);
    }
    frame[22] = if random.one_in(8) { random.position(3) as u8 } else { 64 };
    frame[23] = [1, 6, 17, 17, 89][random.position(5)];
    frame[26..30].copy_from_slice(&[10, 0, 0, 9]);
    let to = DESTINATIONS[random.position(DESTINATIONS.len())];
    frame[30..34].copy_from_slice(&to);
    write_checksum(&mut frame[14..]);
    if frame[23] == 1 && random.one_in(2) && frame.len() >= 42 + options {
        let at = 34 + options;
        frame[at] = 8;
        frame[at + 2..at + 4].fill(0);
        let sum = checksum::checksum(&frame[at..]);
        frame[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

/// Flips bits, cuts, lengthens or exchanges bytes.
fn mutate(random: &mut Random, frame: &mut Vec<u8>, longest: usize) {
    for _ in 0..=random.position(3) {
        let at = random.position(frame.len().min(64));
        match random.position(5) {
            0 => frame[at] ^= 1 << random.position(8),
            1 => frame[at] = [0, 1, 0x7f, 0x80, 0xff][random.position(5)],
            2 => frame.truncate(1 + random.position(frame.len())),
            3 => frame.resize((frame.len() + random.position(64)).min(longest), random.next() as u8),
            _ => {
                let other = random.position(frame.len());
                frame.swap(at, other);
            }
        }
    }
    if random.one_in(2) {
        write_checksum(frame.get_mut(14..).unwrap_or_default());
    }
}

/// Lets a number of frames through the router, made and mutated; answers how many passed the first check.
fn torture(rig: &mut Rig, random: &mut Random, count: u64, longest: usize) -> u64 {
    let before = rig.account();
    let early = early_drops(rig);
    for n in 0..count {
        let port = random.position(PORTS.len());
        let mut frame = make(random, rig.mac(port), longest);
        if random.one_in(2) {
            mutate(random, &mut frame, longest);
        }
        rig.send(port, frame);
        if n % 256 == 255 {
            rig.run(200_000);
            (0..PORTS.len()).for_each(|port| drop(rig.sent(port)));
        }
    }
    rig.run(20_000_000);
    let after = rig.account();
    assert_eq!(after.received - before.received, count, "each frame that was sent in was counted");
    count - (early_drops(rig) - early)
}

/// Packets dropped for what the first check refuses.
fn early_drops(rig: &mut Rig) -> u64 {
    let first = |name: &String| {
        let reason = name.strip_prefix("router.forward/").unwrap_or_default();
        reason.starts_with("ip-") || matches!(reason, "too-short" | "not-for-us" | "unknown-ethertype")
    };
    rig.drops().iter().filter(|(name, _)| first(name)).map(|(_, count)| count).sum()
}

#[test]
fn mutated_packets_do_no_harm_and_are_all_accounted_for() {
    // Ten million, as a release has to pass, take minutes: WEIR_MUTATED=10000000 cargo test --release ...
    let count = std::env::var("WEIR_MUTATED").map_or(100_000, |count| count.parse().unwrap());
    let mut passed = 0;
    let mut rig = rig();
    let mut random = Random::new(7);
    for _ in 0..8 {
        passed += torture(&mut rig, &mut random, count / 8, 600);
    }
    assert!(passed * 10 >= count * 3, "{passed} of {count} passed the first check");
    let drops = rig.drops();
    for reason in ["ip-checksum", "ip-truncated", "martian-destination", "multicast", "link-broadcast", "too-short"] {
        assert!(drops.contains_key(&format!("router.forward/{reason}")), "{reason} did not occur");
    }
    for reason in ["ttl-expired", "bad-options", "local-port", "neighbor-unresolved", "neighbor-queue-full"] {
        assert!(drops.contains_key(&format!("router.control/{reason}")), "{reason} did not occur: {drops:?}");
    }
    rig.run(30 * SECOND);
    rig.finish();
}

#[test]
fn frames_of_all_lengths_from_1_to_9000() {
    let mut rig = rig();
    let mut random = Random::new(11);
    for length in 1..=9000usize {
        let port = random.position(3);
        let mut frame = make(&mut random, rig.mac(port), 9014);
        frame.resize(length, 0x77);
        if length >= 34 && random.one_in(2) {
            frame[14] = 0x45;
            frame[16..18].copy_from_slice(&((length - 14) as u16).to_be_bytes());
            write_checksum(&mut frame[14..]);
        }
        rig.send(port, frame);
        if length % 256 == 0 {
            rig.run(200_000);
            (0..PORTS.len()).for_each(|port| drop(rig.sent(port)));
        }
    }
    rig.run(SECOND);
    assert!(rig.account().received >= 9000);
    assert!(rig.fates()["fragment"] > 0);
    rig.finish();
}

/// What a router does with a packet, as plainly as can be said: the slow twin.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// Out of this port to this host.
    Sent(usize, MacAddr),
    /// Not forwarded at once: dropped, answered, asked for, taken apart.
    Otherwise,
}

fn model(frame: &[u8], router: MacAddr) -> Verdict {
    if frame.len() < 34 || frame[..6] != router.0 || frame[12..14] != [8, 0] || frame[14] != 0x45 {
        return Verdict::Otherwise;
    }
    let ip = Ipv4::view(&frame[14..]).unwrap();
    let (source, destination) = (ip.source.get(), ip.destination.get());
    let sound = checksum::is_valid(&frame[14..34]) && (20..=frame.len() - 14).contains(&ip.total_len()) && ip.ttl >= 2;
    let strange = martian::is_martian_source(source)
        || martian::is_martian_destination(destination)
        || destination >> 28 >= 0xe
        || source >> 16 == 0xa9fe
        || destination >> 16 == 0xa9fe;
    if !sound || strange {
        return Verdict::Otherwise;
    }
    let address = Ipv4Addr::from_bits(destination);
    let [.., third, fourth] = address.octets();
    let on_link = address.octets()[..2] == [10, 0] && third < 3;
    let host = if on_link {
        if matches!(fourth, 0 | 1 | 255) {
            return Verdict::Otherwise;
        }
        address.to_string()
    } else {
        let around = ROUTES.iter().filter(|(prefix, _)| {
            let (net, length) = prefix.split_once('/').unwrap();
            let (net, length): (Ipv4Addr, u32) = (net.parse().unwrap(), length.parse().unwrap());
            length == 0 || net.to_bits() >> (32 - length) == destination >> (32 - length)
        });
        let best = around.max_by_key(|(prefix, _)| prefix.split_once('/').unwrap().1.parse::<u32>().unwrap()).unwrap();
        best.1.to_owned()
    };
    let port = usize::from(host.parse::<Ipv4Addr>().unwrap().octets()[2]);
    if !HOSTS.contains(&host.as_str()) || ip.total_len() > usize::from(PORTS[port].2) {
        return Verdict::Otherwise;
    }
    Verdict::Sent(port, mac_of(&host))
}

#[test]
fn every_decision_agrees_with_a_plain_model() {
    let mut rig = rig();
    let mut random = Random::new(3);
    let mut forwarded = 0;
    for _ in 0..20_000 {
        let port = random.position(3);
        let mut frame = make(&mut random, rig.mac(port), 1600);
        if random.one_in(3) {
            mutate(&mut random, &mut frame, 1600);
        }
        let expected = model(&frame, rig.mac(port));
        let before = rig.snapshot()[0].stages[0].ways.clone();
        rig.handles[port].send(frame.clone());
        rig.engine.step();
        let after = rig.snapshot()[0].stages[0].ways.clone();
        let count = |ways: &[(String, u64)], name: &str| ways.iter().find(|way| way.0 == name).map_or(0, |way| way.1);
        let out = (0..3).find(|n| {
            let name = format!("port[{n}]");
            count(&before, &name) != count(&after, &name)
        });
        // What the slow path sends meanwhile may keep the burst open for a while.
        (0..4).for_each(|_| _ = rig.engine.step());
        match (&expected, out) {
            (Verdict::Otherwise, None) => {}
            (Verdict::Sent(to, mac), Some(out)) => {
                assert_eq!(*to, out, "{frame:02x?}");
                let sent = rig.sent(out);
                assert!(
                    sent.iter()
                        .any(|sent| sent[..6] == mac.0 && sent[22] == frame[22] - 1 && sent[26..34] == frame[26..34])
                );
                forwarded += 1;
            }
            _ => panic!("expected {expected:?}, and it left by {out:?}: {frame:02x?}"),
        }
        if random.one_in(50) {
            rig.run(5_000_000);
            (0..3).for_each(|port| drop(rig.sent(port)));
        }
    }
    assert!(forwarded > 2_500, "{forwarded}");
    rig.finish();
}

#[test]
fn routes_and_neighbours_that_change_under_load_lose_no_account() {
    let mut rig = rig();
    let mut random = Random::new(5);
    for round in 0..60u64 {
        for _ in 0..100 {
            let port = random.position(3);
            let frame = make(&mut random, rig.mac(port), 1600);
            rig.send(port, frame);
        }
        rig.run(1 + random.next() % 300_000);
        let prefix = format!("198.51.{}.0/24", random.position(4));
        let via = ["10.0.1.9", "10.0.1.77", "10.0.2.9"][random.position(3)];
        match round % 6 {
            0 | 1 => drop(rig.request("route add", json!({ "prefix": prefix, "via": [via, "10.0.2.8"] })).unwrap()),
            2 => drop(rig.request("route del", json!({ "prefix": prefix }))),
            3 => drop(rig.request("neighbor del", json!({ "address": "10.0.1.200" }))),
            4 => rig.instance.link_changed(random.position(3) as u16, false, rig.engine.now()),
            _ => (0..3).for_each(|port| rig.instance.link_changed(port, true, rig.engine.now())),
        }
        rig.account();
        if round % 15 == 14 {
            let neighbors: serde_json::Map<_, _> =
                HOSTS.iter().map(|host| ((*host).to_owned(), json!(mac_of(host).to_string()))).collect();
            rig.rebuild(&json!({ "neighbors": neighbors, "routes": { "0.0.0.0/0": "10.0.1.9" } }));
        }
    }
    rig.run(30 * SECOND);
    assert_eq!(rig.account().received, 6000);
    rig.finish();
}
