//! Every way and every drop of the fast path for IPv6, each from the rule that it stands for.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use crate::common;

use std::collections::BTreeMap;

use common::sides::{C, S, tagged};
use common::six::*;
use common::*;
use serde_json::{Value, json};
use weir_stage::Random;
use weir_wire::MacAddr;

const PORTS: &[PortSpec] = &[
    PortSpec("left", &["10.0.0.1/24", "2001:db8:0::1/64"], 1500),
    PortSpec("right", &["10.0.1.1/24", "2001:db8:1::1/64"], 1500),
];

const fn mac(last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 7, last])
}

/// A router that knows hosts on either side and has routes of all kinds.
fn config() -> Value {
    let hosts = ["2001:db8:0::9", "2001:db8:1::9", "2001:db8:1::8", "2001:db8:1::7", "10.0.1.9"];
    let neighbors: serde_json::Map<_, _> =
        hosts.iter().zip(1..).map(|(host, n)| ((*host).to_owned(), json!(mac(n).to_string()))).collect();
    json!({
        "neighbors": neighbors,
        "routes": {
            "2001:db8:100::/40": "2001:db8:1::9",
            "2001:db8:100:1::/64": "2001:db8:1::8",
            "2001:db8:100:1::7/128": "2001:db8:1::7",
            "2001:db8:200::/48": ["2001:db8:1::9", "2001:db8:1::8", "2001:db8:1::7"],
            "2001:db8:300::/48": "blackhole",
            "2001:db8:301::/48": "unreachable",
            "2001:db8:302::/48": "prohibit",
            "2001:db8:303::/48": "2001:db8:1::77",
            "192.0.2.0/24": "10.0.1.9",
            "198.51.100.0/24": "blackhole",
            "198.51.101.0/24": "prohibit",
        },
        "neighbor_timers": { "own_probes": 0 },
    })
}

fn quiet(mut rig: Rig) -> Rig {
    rig.run(5 * SECOND);
    (0..rig.infos.len()).for_each(|port| drop(rig.sent(port)));
    rig
}

fn rig() -> Rig {
    quiet(Rig::new(PORTS, config()))
}

fn frame(rig: &Rig) -> Vec<u8> {
    rig.udp6(0, "2001:db8:0::9", "2001:db8:100::5").to_vec(&[0x5a; 20])
}

/// Counters that are more than before.
fn more(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> Vec<String> {
    after.iter().filter(|(name, count)| before.get(*name) != Some(count)).map(|(name, _)| name.clone()).collect()
}

/// The ways out of the fast path that a frame took, its new drops there included.
fn fate(rig: &mut Rig, frame: Vec<u8>) -> Vec<String> {
    let (ways, drops) = (rig.ways(), rig.drops());
    rig.send(0, frame);
    rig.settle();
    let mut fate = more(&ways, &rig.ways());
    fate.extend(
        more(&drops, &rig.drops()).iter().filter_map(|drop| drop.strip_prefix("router.forward/")).map(str::to_owned),
    );
    fate
}

#[test]
fn a_valid_packet_is_forwarded() {
    let mut rig = rig();
    for (hop_limit, count) in (2..=255).zip([1, 64].into_iter().cycle()) {
        let mut before = frame(&rig);
        before[21] = hop_limit;
        (0..count).for_each(|_| rig.send(0, before.clone()));
        rig.settle();
        let after = rig.sent_six(1);
        assert_eq!(after.len(), count);
        let right = forwarded6(&before, rig.mac(1), mac(2));
        assert!(after.iter().all(|frame| *frame == right));
    }
    assert_eq!(rig.drops(), Default::default());
    rig.finish();
}

#[test]
fn what_is_wrong_with_a_packet_is_told_by_name() {
    let mut rig = rig();
    let good = frame(&rig);
    let with = |at: usize, bytes: &[u8]| {
        let mut frame = good.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    };
    let (source, destination) = (22, 38);
    let address = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let cases = [
        (good[..13].to_vec(), "too-short"),
        (with(5, &[0]), "not-for-us"),
        (good[..53].to_vec(), "ip6-too-short"),
        (good[..good.len() - 1].to_vec(), "ip6-truncated"),
        (with(14, &[0x40]), "ip6-version"),
        (with(source, &address("ff02::1")), "ip6-martian-source"),
        (with(source, &address("::")), "ip6-martian-source"),
        (with(source, &address("::1")), "ip6-martian-source"),
        (with(destination, &address("::ffff:10.0.1.9")), "ip6-martian-destination"),
        (with(destination, &address("ff01::1")), "ip6-martian-destination"),
        (with(destination, &address("ff05::2")), "ip6-multicast"),
        (with(destination, &address("ff0e::1234")), "ip6-multicast"),
        (with(0, &[0x33, 0x33, 0, 0, 0, 1]), "ip6-link-broadcast"),
        (with(destination, &address("2001:db8:300::1")), "blackhole"),
    ];
    for (frame, reason) in cases {
        assert_eq!(fate(&mut rig, frame), [reason]);
    }
    assert_eq!(rig.sent_six(1), Vec::<Vec<u8>>::new());
    rig.finish();
}

#[test]
fn what_needs_the_slow_path_goes_there_by_what_it_is() {
    let mut rig = rig();
    let from = |rig: &Rig, source: &str, destination: &str| rig.udp6(0, source, destination).to_vec(&[1; 20]);
    let last_hop = |rig: &Rig, destination: &str| {
        let frame = rig.udp6(0, "2001:db8:0::9", destination);
        Udp6 { hop_limit: 1, ..frame }.to_vec(&[1; 20])
    };
    let solicitation = |rig: &Rig, source: &str, destination: &str, target: &str| {
        let target = target.parse::<std::net::Ipv6Addr>().unwrap().octets();
        let message = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &target].concat();
        Udp6 { hop_limit: 255, ..rig.udp6(0, source, destination) }.around(58, &message)
    };
    let to_group = |mut frame: Vec<u8>| {
        frame[..6].copy_from_slice(&[0x33, 0x33, 0xff, 0, 0, 1]);
        frame
    };
    let hop_by_hop =
        |rig: &Rig, destination: &str| rig.udp6(0, "2001:db8:0::9", destination).around(0, &[59, 0, 1, 4, 0, 0, 0, 0]);
    let own = "2001:db8:0::1";
    let cases = [
        (solicitation(&rig, "fe80::9", own, own), "nd"),
        (solicitation(&rig, "2001:db8:0::9", own, own), "nd"),
        (to_group(solicitation(&rig, "fe80::9", "ff02::1:ff00:1", own)), "nd"),
        (to_group(solicitation(&rig, "::", "ff02::1:ff00:1", own)), "nd"),
        (solicitation(&rig, "fe80::9", "fe80::1", own), "nd"),
        (from(&rig, "2001:db8:0::9", own), "local"),
        (from(&rig, "fe80::9", own), "local"),
        (last_hop(&rig, own), "local"),
        (from(&rig, "fe80::9", "fe80::1"), "local"),
        (to_group(from(&rig, "2001:db8:0::9", "ff02::1")), "local"),
        (to_group(from(&rig, "::", "ff02::16")), "local"),
        (hop_by_hop(&rig, "2001:db8:100::5"), "options"),
        (hop_by_hop(&rig, own), "options"),
        (last_hop(&rig, "2001:db8:100::5"), "ttl-expired"),
        (from(&rig, "fe80::9", "2001:db8:100::5"), "beyond-scope"),
        (from(&rig, "2001:db8:0::9", "2001:db8:301::1"), "rejected"),
        (from(&rig, "2001:db8:0::9", "2001:db8:302::1"), "rejected"),
        (from(&rig, "2001:db8:0::9", "2a00::1"), "no-route"),
        (from(&rig, "2001:db8:0::9", "2001:db8:303::1"), "unresolved"),
        (from(&rig, "2001:db8:0::9", "2001:db8:1::99"), "unresolved"),
    ];
    for (frame, way) in cases {
        assert_eq!(fate(&mut rig, frame.clone())[0], way, "{frame:02x?}");
    }
    // A solicitation for somebody else on the way is a packet like others.
    let passing = solicitation(&rig, "2001:db8:0::9", "2001:db8:100::5", "2001:db8:100::5");
    assert_eq!(fate(&mut rig, passing), ["port[1]"]);
    // Of IPv4, too.
    for (destination, fates) in [("198.51.100.1", "blackhole"), ("198.51.101.1", "rejected")] {
        let frame = rig.udp(0, "10.0.0.9", destination).to_vec(&[1; 20]);
        assert_eq!(fate(&mut rig, frame)[0], fates);
    }
}

/// A packet of the largest size passes; one byte more is for the slow path, and what follows a packet is cut off where it does not fit.
#[test]
fn the_mtu_is_that_of_the_interface_it_leaves_by() {
    const PORTS: &[PortSpec] =
        &[PortSpec("left", &["2001:db8:0::1/64"], 9000), PortSpec("right", &["2001:db8:1::1/64"], 1400)];
    let config =
        json!({ "neighbors": { "2001:db8:1::9": mac(2).to_string() }, "neighbor_timers": { "own_probes": 0 } });
    let mut rig = quiet(Rig::new(PORTS, config));
    let of = |rig: &Rig, size: usize| rig.udp6(0, "2001:db8:0::9", "2001:db8:1::9").to_vec(&vec![1; size - 48]);
    let frame = of(&rig, 1400);
    assert_eq!(fate(&mut rig, frame.clone()), ["port[1]"]);
    assert_eq!(rig.sent_six(1), [forwarded6(&frame, rig.mac(1), mac(2))]);
    let longer = of(&rig, 1401);
    assert_eq!(fate(&mut rig, longer)[0], "too-big");
    rig.sent(1);
    let padded = [&of(&rig, 100)[..], &[0xdd; 3000]].concat();
    assert_eq!(fate(&mut rig, padded), ["port[1]"]);
    assert_eq!(rig.sent_six(1)[0].len(), 114);
    rig.instance.link_changed(1, false, rig.engine.now());
    let frame = of(&rig, 100);
    assert!(!fate(&mut rig, frame).contains(&"port[1]".to_owned()));
}

#[test]
fn the_longest_prefix_wins() {
    let mut rig = rig();
    let to = [
        ("2001:db8:100::5", 2),
        ("2001:db8:100:1::5", 3),
        ("2001:db8:100:1::7", 4),
        ("2001:db8:1ff::1", 2),
        ("2001:db8:1::8", 3),
    ];
    for (destination, last) in to {
        let frame = rig.udp6(0, "2001:db8:0::9", destination).to_vec(&[0; 18]);
        rig.send(0, frame);
        rig.settle();
        let sent = rig.sent_six(1);
        assert_eq!(sent[0][..6], mac(last).0, "{destination}");
    }
    rig.finish();
}

/// RFC 6437, RFC 6438: a flow is told by its addresses, its ports and its label; it keeps its path.
#[test]
fn equal_cost_paths_share_flows_by_ports_and_label() {
    let mut rig = rig();
    let mut paths = |by_label: bool| {
        for flow in 0..3000_u16 {
            let mut frame = rig.udp6(0, "2001:db8:0::9", "2001:db8:200::5");
            if by_label {
                frame.label = flow.into()
            } else {
                frame.source_port = flow
            }
            let frame = frame.to_vec(&flow.to_be_bytes());
            rig.send(0, frame);
        }
        rig.run(5_000_000);
        let mut paths = vec![0; 3000];
        for frame in rig.sent_six(1) {
            paths[usize::from(u16::from_be_bytes([frame[62], frame[63]]))] = frame[5];
        }
        for last in 2..=4 {
            let share = paths.iter().filter(|&&path| path == last).count();
            assert!((850..1150).contains(&share), "{share} of 3000 by {last}");
        }
        paths
    };
    for by_label in [true, false] {
        assert_eq!(paths(by_label), paths(by_label), "a flow stays on its path");
    }
    rig.finish();
}

/// Both families, one next hop and several, what the slow path needs and what is dropped, in batches with all mixes of them.
#[test]
fn packets_of_one_batch_go_each_its_own_way() {
    let mut rig = rig();
    let kinds: Vec<(Vec<u8>, Vec<u8>)> = {
        let six = |destination: &str| rig.udp6(0, "2001:db8:0::9", destination).to_vec(&[0; 18]);
        let four = |destination: &str| rig.udp(0, "10.0.0.9", destination).to_vec(&[0; 18]);
        vec![
            (six("2001:db8:100::5"), vec![2]),
            (four("192.0.2.7"), vec![5]),
            (six("2001:db8:100:1::5"), vec![3]),
            (six("2001:db8:200::5"), vec![2, 3, 4]),
            (six("2001:db8:300::1"), vec![]),
            (four("198.51.100.1"), vec![]),
        ]
    };
    let (mut sent_in, mut forwarded) = (0, 0);
    for mix in 1..64_usize {
        let there: Vec<_> = kinds.iter().enumerate().filter(|(n, _)| mix >> n & 1 == 1).map(|(_, kind)| kind).collect();
        let mut expected = Vec::new();
        for n in 0..64 {
            let (frame, stations) = there[n % there.len()];
            rig.send(0, frame.clone());
            sent_in += 1;
            if !stations.is_empty() {
                expected.push((frame, stations));
            }
        }
        rig.settle();
        let sent: Vec<_> = rig.sent(1).into_iter().filter(|frame| frame[0] & 1 == 0).collect();
        assert_eq!(sent.len(), expected.len(), "mix {mix}");
        forwarded += sent.len() as u64;
        for (out, (frame, stations)) in sent.iter().zip(expected) {
            assert!(stations.contains(&out[5]), "mix {mix}");
            assert_eq!((&out[6..12], &out[12..14]), (&rig.mac(1).0[..], &frame[12..14]), "in the order that they came");
            assert_eq!(out[26..], frame[26..]);
        }
    }
    let drops = rig.drops();
    assert_eq!(drops["router.forward/blackhole"] + forwarded, sent_in);
    let counted: u64 = rig.show("nexthops").iter().filter_map(|row| row["packets"].as_u64()).sum();
    assert_eq!(counted, forwarded);
    let left = rig.show("interfaces").into_iter().find(|row| row["name"] == "left").unwrap();
    assert_eq!(left["rx_packets"], sent_in);
    rig.finish();
}

/// From and to interfaces with no, one and two tags, alone and in whole batches, with IPv4 between.
#[test]
fn tags_come_off_and_on() {
    /// An interface, its tags, and the number of its networks.
    type Side = (&'static str, &'static [(u16, u16)], &'static str);
    const SIDES: [Side; 4] = [
        ("right", &[], "1"),
        ("right.100", &[(C, 100)], "2"),
        ("right.s7", &[(S, 7)], "3"),
        ("right.7.9", &[(S, 7), (C, 9)], "4"),
    ];
    let interfaces = SIDES[1..].iter().map(|(name, tags, n)| {
        interface(name, Some("right"), tags, &[&format!("10.0.{n}.1/24"), &format!("2001:db8:{n}::1/64")])
    });
    let hosts = SIDES.iter().flat_map(|(_, _, n)| [format!("2001:db8:{n}::9"), format!("10.0.{n}.9")]);
    let neighbors: serde_json::Map<_, _> = hosts.map(|host| (host, json!(mac(9).to_string()))).collect();
    let config = json!({ "neighbors": neighbors, "neighbor_timers": { "own_probes": 0 } });
    let mut rig = quiet(Rig::with(PORTS, interfaces.collect(), config));
    for (from, from_tags, n) in SIDES {
        for (to, to_tags, m) in SIDES.iter().filter(|(name, ..)| *name != from) {
            for count in [1, 64] {
                let mut right = Vec::new();
                for at in 0..count {
                    let six =
                        rig.udp6(1, &format!("2001:db8:{n}::5"), &format!("2001:db8:{m}::9")).to_vec(&[at as u8; 30]);
                    let four = rig.udp(1, &format!("10.0.{n}.5"), &format!("10.0.{m}.9")).to_vec(&[at as u8; 30]);
                    if at % 3 != 2 {
                        right.push(tagged(&forwarded6(&six, rig.mac(1), mac(9)), to_tags));
                    }
                    rig.send(1, tagged(if at % 3 == 2 { &four } else { &six }, from_tags));
                }
                rig.settle();
                let front = 14 + 4 * to_tags.len();
                let sent: Vec<_> = rig.sent(1).into_iter().filter(|frame| frame[0] & 1 == 0).collect();
                assert_eq!(sent.len(), count, "{from} to {to}");
                let six: Vec<_> = sent.into_iter().filter(|frame| frame[front - 2..front] == [0x86, 0xdd]).collect();
                assert_eq!(six, right, "{from} to {to}");
            }
        }
    }
    assert_eq!(rig.drops(), Default::default());
    rig.finish();
}

/// What is made and mutated at random is all accounted for.
#[test]
fn mutated_packets_do_no_harm_and_are_all_accounted_for() {
    let count = std::env::var("WEIR_MUTATED").map_or(50_000, |count| count.parse().unwrap());
    let mut rig = rig();
    let mut random = Random::new(11);
    let destinations =
        ["2001:db8:100::5", "2001:db8:200::5", "2001:db8:0::1", "ff02::1", "fe80::1", "2001:db8:303::1", "2a00::1"];
    let (before, mut passed) = (rig.account().received, 0);
    for n in 0..count {
        let source = ["2001:db8:0::9", "fe80::9"][usize::from(random.one_in(6))];
        let destination = destinations[random.position(destinations.len())];
        let data = vec![random.next() as u8; random.position(100)];
        let mut frame = rig.udp6(0, source, destination).to_vec(&data);
        if random.one_in(4) {
            frame[20] = [0, 43, 44, 58, 60, 135][random.position(6)];
        }
        if random.one_in(2) {
            common::traffic::mutate(&mut random, &mut frame, 1500);
        }
        passed += u64::from(frame.len() > 54 && frame[12..15] == [0x86, 0xdd, 0x60]);
        rig.send(0, frame);
        if n % 256 == 255 {
            rig.run(200_000);
            (0..2).for_each(|port| drop(rig.sent(port)));
        }
    }
    rig.run(10 * SECOND);
    assert_eq!(rig.account().received - before, count);
    assert!(passed > count * 3 / 10);
    rig.finish();
}

/// RFC 4861 section 8.2: a copy of what turns round goes to the slow path; neighbour discovery does not use up the sample.
#[test]
fn a_copy_of_what_turns_round_is_looked_at() {
    let mut config = config();
    config["redirects"] = json!(true);
    config["routes"]["2001:db8:500::/48"] = json!("2001:db8:0::9");
    let mut rig = quiet(Rig::new(PORTS, config));
    for (destination, out, copies) in [("2001:db8:500::1", 0, 1), ("2001:db8:100::5", 1, 1), ("2001:db8:0::9", 0, 2)] {
        let advertisement = rig.udp6(0, "2001:db8:0::5", "2001:db8:0::1").around(58, &[136; 24]);
        let frame = rig.udp6(0, "2001:db8:0::5", destination).to_vec(&[1; 20]);
        rig.send(0, advertisement);
        rig.settle();
        rig.send(0, frame.clone());
        rig.run(20_000_000);
        let sent = rig.sent_six(out);
        assert!(sent.iter().any(|sent| sent[22..] == frame[22..] && sent[21] == frame[21] - 1), "{destination}");
        assert_eq!(rig.fates().get("redirect-copy"), Some(&copies), "{destination}");
    }
}
