//! Every way and every drop of the fast path, each from the rule that it stands for.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use std::net::Ipv4Addr;

use common::*;
use serde_json::json;
use weir_wire::build::UdpFrame;
use weir_wire::ipv4::write_checksum;
use weir_wire::{Ipv4, MacAddr, View, checksum};

const HOST: &str = "02:00:00:00:07:07";

/// A router that knows a host on either side and a route to 192.0.2.0/24 by the right one.
fn rig() -> Rig {
    let mut rig = Rig::new(
        TWO,
        json!({
            "neighbors": { "10.0.1.9": HOST, "10.0.0.9": HOST },
            "routes": { "192.0.2.0/24": "10.0.1.9" },
            "neighbor_timers": { "own_probes": 0 },
        }),
    );
    rig.run(5 * SECOND);
    (0..2).for_each(|port| drop(rig.sent(port)));
    rig
}

/// Sends one frame on the left and answers the new drops, and what came out on either side.
fn outcome(rig: &mut Rig, frame: Vec<u8>) -> (Vec<String>, [Vec<Vec<u8>>; 2]) {
    let before = rig.drops();
    rig.send(0, frame);
    rig.settle();
    let after = rig.drops();
    let new = after.iter().filter(|(name, count)| before.get(*name) != Some(count));
    let sent = [rig.sent(0), rig.sent(1)];
    (new.map(|(name, _)| name.clone()).collect(), sent)
}

fn frame(rig: &Rig) -> Vec<u8> {
    rig.udp(0, "10.0.0.9", "192.0.2.7").to_vec(&[0x5a; 20])
}

/// Changes a good frame, mends its checksum, and expects it to be dropped for `reason`.
#[track_caller]
fn expect_drop(rig: &mut Rig, reason: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut frame = frame(rig);
    change(&mut frame);
    write_checksum(frame.get_mut(14..).unwrap_or_default());
    expect_drop_as_is(rig, reason, frame);
}

#[track_caller]
fn expect_drop_as_is(rig: &mut Rig, reason: &str, frame: Vec<u8>) {
    let (drops, sent) = outcome(rig, frame.clone());
    assert_eq!(drops, [format!("router.forward/{reason}")]);
    assert_eq!(sent, [Vec::<Vec<u8>>::new(), vec![]], "{reason}");
    // A few packets are passed one by one, more of them by vectors.
    (0..OTHERS).for_each(|_| rig.send(0, self::frame(rig)));
    let (drops, [left, right]) = outcome(rig, frame);
    assert_eq!(drops, [format!("router.forward/{reason}")], "among others");
    assert_eq!((left.len(), right.len()), (0, OTHERS), "{reason}, among others");
}

/// As many more packets in a batch as make it more than a few.
const OTHERS: usize = 8;

#[test]
fn a_valid_packet_is_forwarded() {
    let mut rig = rig();
    let before = frame(&rig);
    let (drops, [left, right]) = outcome(&mut rig, before.clone());
    assert_eq!((drops, left), (vec![], vec![]));
    let [after] = &right[..] else { panic!("one packet") };
    // RFC 1812 section 5.3.1, 4.2.2.5: everything as it was but the link header, the TTL and the checksum over it.
    let mut expected = before.clone();
    expected[..6].copy_from_slice(&[2, 0, 0, 0, 7, 7]);
    expected[6..12].copy_from_slice(&rig.mac(1).0);
    expected[14 + 8] -= 1;
    write_checksum(&mut expected[14..]);
    assert_eq!(*after, expected);
    rig.finish();
}

#[test]
fn link_layer_rules() {
    let mut rig = rig();
    for length in 1..14 {
        let short = frame(&rig)[..length].to_vec();
        expect_drop_as_is(&mut rig, "too-short", short);
    }
    expect_drop(&mut rig, "not-for-us", |frame| frame[5] ^= 1);
    expect_drop(&mut rig, "not-for-us", |frame| frame[0] ^= 4);
    expect_drop(&mut rig, "link-broadcast", |frame| frame[..6].fill(0xff));
    expect_drop(&mut rig, "link-broadcast", |frame| frame[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0, 1]));
    for ethertype in [0x0801, 0x86de, 0x0000, 0xffff, 46] {
        expect_drop(&mut rig, "unknown-ethertype", |frame| frame[12..14].copy_from_slice(&u16::to_be_bytes(ethertype)));
    }
    for tpid in [0x8100, 0x88a8, 0x9100] {
        expect_drop(&mut rig, "unknown-tag", |frame| frame[12..14].copy_from_slice(&u16::to_be_bytes(tpid)));
    }
    // What comes in by the other port carries another address.
    let other = rig.mac(1).0;
    expect_drop(&mut rig, "not-for-us", |frame| frame[..6].copy_from_slice(&other));
    rig.finish();
}

#[test]
fn each_clause_of_rfc_1812_section_5_2_2() {
    let mut rig = rig();
    let good = frame(&rig);
    for length in 14..34 {
        expect_drop_as_is(&mut rig, "ip-too-short", good[..length].to_vec());
    }
    for bit in 16..160 {
        let mut bad = good.clone();
        bad[14 + bit / 8] ^= 1 << (bit % 8);
        expect_drop_as_is(&mut rig, "ip-checksum", bad);
    }
    for version in (0..16).filter(|&version| version != 4) {
        expect_drop(&mut rig, "ip-version", |frame| frame[14] = version << 4 | 5);
    }
    for ihl in 0..5 {
        let mut bad = good.clone();
        bad[14] = 0x40 | ihl;
        expect_drop_as_is(&mut rig, "ip-header-length", bad);
    }
    for total in 0..20u16 {
        expect_drop(&mut rig, "ip-total-length", |frame| frame[16..18].copy_from_slice(&total.to_be_bytes()));
    }
    for length in 34..good.len() {
        expect_drop_as_is(&mut rig, "ip-truncated", good[..length].to_vec());
    }
    // IHL against what arrived, which is easily left out: options that are not there.
    let mut bad = good[..40].to_vec();
    bad[14] = 0x4f;
    expect_drop_as_is(&mut rig, "ip-truncated", bad);
    rig.finish();
}

#[test]
fn martians_broadcasts_and_multicasts() {
    let mut rig = rig();
    let cases: &[(&str, usize, [u8; 4])] = &[
        ("martian-source", 26, [0, 0, 0, 0]),
        ("martian-source", 26, [0, 9, 9, 9]),
        ("martian-source", 26, [127, 0, 0, 1]),
        ("martian-source", 26, [224, 0, 0, 1]),
        ("martian-source", 26, [240, 0, 0, 1]),
        ("martian-source", 26, [255, 255, 255, 255]),
        ("martian-destination", 30, [0, 0, 0, 1]),
        ("martian-destination", 30, [127, 0, 0, 1]),
        ("martian-destination", 30, [240, 0, 0, 1]),
        ("martian-destination", 30, [255, 255, 255, 254]),
        ("broadcast", 30, [255, 255, 255, 255]),
        ("multicast", 30, [224, 0, 0, 1]),
        ("multicast", 30, [239, 255, 255, 255]),
        ("link-local", 26, [169, 254, 1, 1]),
        ("link-local", 30, [169, 254, 1, 1]),
        ("directed-broadcast", 30, [10, 0, 1, 255]),
        ("directed-broadcast", 30, [10, 0, 1, 0]),
        ("directed-broadcast", 30, [10, 0, 0, 255]),
    ];
    for &(reason, at, address) in cases {
        expect_drop(&mut rig, reason, |frame| frame[at..at + 4].copy_from_slice(&address));
    }
    // Both as the link's own broadcasts and multicasts carry them.
    expect_drop(&mut rig, "broadcast", |frame| {
        frame[..6].fill(0xff);
        frame[30..34].fill(255);
    });
    expect_drop(&mut rig, "multicast", |frame| {
        frame[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0, 5]);
        frame[30..34].copy_from_slice(&[224, 0, 0, 5]);
    });
    rig.finish();
}

#[test]
fn directed_broadcasts_are_flooded_where_that_is_wanted() {
    let mut rig = Rig::new(TWO, json!({ "directed_broadcast": true, "neighbor_timers": { "own_probes": 0 } }));
    let frame = rig.udp(0, "10.0.0.9", "10.0.1.255").to_vec(&[1; 20]);
    rig.send(0, frame);
    rig.settle();
    let sent = rig.sent_ip(1);
    assert_eq!((sent.len(), &sent[0][..6]), (1, &[0xff; 6][..]));
    rig.reload(&json!({}));
    let frame = rig.udp(0, "10.0.0.9", "10.0.1.255").to_vec(&[1; 20]);
    rig.send(0, frame);
    rig.settle();
    assert_eq!(rig.drops()["router.forward/directed-broadcast"], 1);
    rig.finish();
}

#[test]
fn ttl_and_checksum_for_every_ttl() {
    let mut rig = rig();
    for ttl in 2..=255u8 {
        let mut frame = frame(&rig);
        frame[22] = ttl;
        frame[18..20].copy_from_slice(&(u16::from(ttl) * 257).to_be_bytes());
        write_checksum(&mut frame[14..]);
        let (_, [_, right]) = outcome(&mut rig, frame);
        assert_eq!(right[0][22], ttl - 1);
        assert!(checksum::is_valid(&right[0][14..34]));
    }
    rig.finish();
}

#[test]
fn what_follows_a_packet_is_cut_off_only_when_it_does_not_fit() {
    let mut rig = rig();
    let mut padded = rig.udp(0, "10.0.0.9", "192.0.2.7").to_vec(&[0x5a; 10]);
    padded.resize(60, 0xee);
    let (_, [_, right]) = outcome(&mut rig, padded.clone());
    assert_eq!(right[0].len(), 60);
    let long = [&frame(&rig)[..], &[0xdd; 3000]].concat();
    let (drops, [_, right]) = outcome(&mut rig, long);
    assert_eq!(drops, Vec::<String>::new());
    assert_eq!(right[0].len(), 14 + 48, "the packet alone");
    rig.finish();
}

/// A frame of the largest size passes; one byte more is for the slow path.
#[test]
fn the_mtu_is_that_of_the_port_it_leaves_by() {
    const PORTS: &[PortSpec] = &[PortSpec("left", &["10.0.0.1/24"], 9000), PortSpec("right", &["10.0.1.1/24"], 600)];
    let mut rig = Rig::new(PORTS, json!({ "neighbors": { "10.0.1.9": HOST }, "neighbor_timers": { "own_probes": 0 } }));
    for (size, ways) in [(600, 1), (601, 0)] {
        let mut frame = rig.udp(0, "10.0.0.9", "10.0.1.9").to_vec(&vec![1; size - 28]);
        Ipv4::view_mut(&mut frame[14..]).unwrap().set_fragment(true, false, 0);
        write_checksum(&mut frame[14..]);
        rig.send(0, frame);
        rig.settle();
        assert_eq!(rig.sent_ip(1).len(), ways, "{size}");
    }
    assert_eq!(rig.drops()["router.control/fragmentation-needed"], 1);
    rig.finish();
}

fn route_ports(count: usize) -> Vec<PortSpec> {
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
    const ADDRESSES: [&[&str]; 5] =
        [&["10.0.0.1/24"], &["10.0.1.1/24"], &["10.0.2.1/24"], &["10.0.3.1/24"], &["10.0.4.1/24"]];
    (0..count).map(|n| PortSpec(NAMES[n], ADDRESSES[n], 1500)).collect()
}

fn ecmp_rig() -> Rig {
    let neighbors: serde_json::Map<_, _> =
        (1..5).map(|n| (format!("10.0.{n}.9"), json!(format!("02:00:00:00:01:0{n}")))).collect();
    let via: Vec<_> = (1..5).map(|n| format!("10.0.{n}.9")).collect();
    Rig::new(
        &route_ports(5),
        json!({ "neighbors": neighbors, "routes": { "0.0.0.0/0": via }, "neighbor_timers": { "own_probes": 0 } }),
    )
}

/// Sends flows that differ in their source port, and answers the port that each came out of.
fn paths(rig: &mut Rig, flows: u16) -> Vec<usize> {
    for flow in 0..flows {
        let mut frame = rig.udp(0, "10.0.0.9", "192.0.2.7");
        frame.source_port = flow;
        let frame = frame.to_vec(&[0; 18]);
        rig.send(0, frame);
    }
    rig.run(5_000_000);
    let mut paths = vec![0; flows.into()];
    for port in 1..rig.infos.len() {
        for frame in rig.sent_ip(port) {
            paths[usize::from(u16::from_be_bytes([frame[34], frame[35]]))] = port;
        }
    }
    assert!(paths.iter().all(|&path| path != 0), "every packet came out");
    paths
}

#[test]
fn equal_cost_paths_share_flows_evenly_and_keep_them() {
    let mut rig = ecmp_rig();
    let first = paths(&mut rig, 4000);
    for port in 1..5 {
        let share = first.iter().filter(|&&path| path == port).count();
        assert!((850..1150).contains(&share), "port {port}: {share} of 4000");
    }
    assert_eq!(paths(&mut rig, 4000), first, "a flow stays on its path");
    // A link goes down: only its flows move.
    rig.instance.link_changed(2, false, rig.engine.now());
    let second = paths(&mut rig, 4000);
    assert!(second.iter().all(|&path| path != 2));
    let moved = first.iter().zip(&second).filter(|(before, after)| before != after).count();
    assert_eq!(moved, first.iter().filter(|&&path| path == 2).count());
    // And comes back: what it lost returns to it.
    rig.instance.link_changed(2, true, rig.engine.now());
    let third = paths(&mut rig, 4000);
    let share = third.iter().filter(|&&path| path == 2).count();
    assert!((850..1150).contains(&share), "{share} of 4000");
    assert!(second.iter().zip(&third).all(|(before, after)| before == after || *after == 2));
    rig.finish();
}

#[test]
fn without_any_path_left_there_is_no_route() {
    let mut rig = ecmp_rig();
    for port in 1..5 {
        rig.instance.link_changed(port, false, rig.engine.now());
    }
    let frame = rig.udp(0, "10.0.0.9", "192.0.2.7").to_vec(&[0; 18]);
    rig.send(0, frame);
    rig.settle();
    assert_eq!(rig.drops()["router.control/no-route"], 1);
    rig.finish();
}

#[test]
fn next_hops_count_packets_and_bytes() {
    let mut rig = rig();
    for _ in 0..130 {
        let frame = frame(&rig);
        rig.send(0, frame);
    }
    rig.settle();
    let rows = rig.show("nexthops");
    let row = rows.iter().find(|row| row["via"] == "10.0.1.9").unwrap();
    assert_eq!(
        (row["packets"].as_u64(), row["bytes"].as_u64(), &row["interface"]),
        (Some(130), Some(130 * 62), &json!("right"))
    );
    rig.finish();
}

#[test]
fn the_longest_prefix_wins() {
    let mut rig = Rig::new(
        TWO,
        json!({
            "neighbors": { "10.0.1.9": "02:00:00:00:01:09", "10.0.1.8": "02:00:00:00:01:08", "10.0.1.7": "02:00:00:00:01:07" },
            "routes": { "0.0.0.0/0": "10.0.1.9", "192.0.2.0/24": "10.0.1.8", "192.0.2.7/32": "10.0.1.7" },
            "neighbor_timers": { "own_probes": 0 },
        }),
    );
    for (destination, last) in [("8.8.8.8", 9), ("192.0.2.1", 8), ("192.0.2.7", 7), ("192.0.3.0", 9)] {
        let frame = rig.udp(0, "10.0.0.9", destination).to_vec(&[0; 18]);
        rig.send(0, frame);
        rig.settle();
        let sent = rig.sent_ip(1);
        assert_eq!(MacAddr(sent[0][..6].try_into().unwrap()), MacAddr([2, 0, 0, 0, 1, last]), "{destination}");
    }
    rig.finish();
}

/// Packets whose values the table has at hand, one access further, and behind a choice among next hops, all in one batch.
#[test]
fn packets_of_one_batch_go_each_its_own_way() {
    for table in ["dir24", "packed"] {
        let mut rig = Rig::new(
            TWO,
            json!({
                "table": table,
                "neighbors": { "10.0.1.9": "02:00:00:00:01:09", "10.0.1.8": "02:00:00:00:01:08", "10.0.1.7": "02:00:00:00:01:07" },
                "routes": {
                    "0.0.0.0/0": "10.0.1.9",
                    "192.0.2.0/24": "10.0.1.8",
                    "192.0.2.128/25": "10.0.1.7",
                    "192.0.2.192/26": ["10.0.1.8", "10.0.1.9"],
                },
                "neighbor_timers": { "own_probes": 0 },
            }),
        );
        let hosts = ["8.8.8.8", "192.0.2.1", "192.0.2.130", "192.0.2.200", "192.0.3.0"];
        let expected: [&[u8]; 5] = [&[9], &[8], &[7], &[8, 9], &[9]];
        // Of all mixes, so that each kind is the only one of some batch, the first of some, and missing in some.
        for mix in 1..32u32 {
            let there: Vec<usize> = (0..hosts.len()).filter(|host| mix >> host & 1 == 1).collect();
            for n in 0..64 {
                let frame = rig.udp(0, "10.0.0.9", hosts[there[n % there.len()]]).to_vec(&[n as u8; 18]);
                rig.send(0, frame);
            }
            rig.settle();
            let sent = rig.sent_ip(1);
            assert_eq!(sent.len(), 64, "{table}, mix {mix}");
            for frame in sent {
                let host = Ipv4Addr::from(<[u8; 4]>::try_from(&frame[30..34]).unwrap()).to_string();
                let host = hosts.iter().position(|known| *known == host).unwrap();
                assert!(expected[host].contains(&frame[5]), "{table}, mix {mix}: {} to {}", hosts[host], frame[5]);
                assert_eq!(frame[22], UdpFrame::default().ttl - 1);
            }
        }
        let counted: u64 = rig.show("nexthops").iter().filter_map(|row| row["packets"].as_u64()).sum();
        assert_eq!(counted, 31 * 64, "{table}");
        rig.finish();
    }
}

/// More next hops than the small words of the prefix table tell apart, in batches with all kinds of them.
#[test]
fn many_next_hops_are_told_apart() {
    const HOPS: u32 = 20_000;
    let ports = [TWO[0], PortSpec("right", &["20.0.0.1/8"], 1500)];
    let gateway = |n: u32| Ipv4Addr::from_bits(Ipv4Addr::new(20, 0, 0, 2).to_bits() + n);
    let mac = |n: u32| MacAddr([2, 0, 0, 1, (n >> 8) as u8, n as u8]);
    let network = |n: u32| Ipv4Addr::from_bits(Ipv4Addr::new(40, 0, 0, 0).to_bits() + (n << 8));
    let neighbors: serde_json::Map<_, _> =
        (0..HOPS).map(|n| (gateway(n).to_string(), json!(mac(n).to_string()))).collect();
    let routes: serde_json::Map<_, _> =
        (0..HOPS).map(|n| (format!("{}/24", network(n)), json!(gateway(n).to_string()))).collect();
    for table in ["dir24", "packed"] {
        let mut rig = Rig::new(
            &ports,
            json!({
                "table": table,
                "limits": { "neighbors": HOPS },
                "neighbors": neighbors,
                "routes": routes,
                "neighbor_timers": { "own_probes": 0 },
            }),
        );
        // From both ends, so that each batch has near and far ones.
        let order = (0..HOPS / 2).flat_map(|n| [n, HOPS - 1 - n]);
        let mut expected = Vec::new();
        for n in order.step_by(7) {
            // The routes to neighbours have words that lead to others, one of which this byte finds: far next hops must not be taken for such.
            let host = Ipv4Addr::from_bits(network(n).to_bits() + 200);
            let frame = rig.udp(0, "10.0.0.9", &host.to_string()).to_vec(&[0; 18]);
            rig.send(0, frame);
            expected.push(mac(n));
            if expected.len() == 64 {
                rig.settle();
                let sent: Vec<_> = rig.sent_ip(1).iter().map(|frame| MacAddr(frame[..6].try_into().unwrap())).collect();
                assert_eq!(sent, std::mem::take(&mut expected), "{table}");
            }
        }
        rig.finish();
    }
}
