//! Hostile customers, and many changes at once: whatever comes, the account is exact, and others are served.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use common::{CORE, CPE, Rig, TWO, arps, echo, host, plain, request, tagged, tunnels, udp};
use serde_json::{Value, json};
use weir_wire::{MacAddr, ethernet, ipv4};
use zerocopy::IntoBytes;

/// Frames that go to the slow path for each of its reasons, with their port.
fn frames(rig: &Rig, has_keys: bool) -> Vec<(usize, Vec<u8>)> {
    let gateway = rig.mac(CPE);
    let customer = |packet: &[u8]| tagged(gateway, host(1), 1, ethernet::IPV4, packet);
    let dying = |mut packet: Vec<u8>| {
        packet[8] = 1;
        ipv4::write_checksum(&mut packet[..20]);
        packet
    };
    let core = |packet: &[u8]| if has_keys { rig.tunneled(7, packet) } else { rig.untunneled(packet) };
    let arp = request(host(1), "10.0.0.7", "10.0.0.1");
    let mut router = vec![0; 60];
    request(common::ROUTER_MAC, "192.0.2.2", "192.0.2.1").write(rig.mac(CORE), &mut router).unwrap();
    let solicitation = {
        let mut frame = vec![0; weir_wire::nd::FRAME_LEN];
        let (own, target) = ("2001:db8::7".parse().unwrap(), "2001:db8::1".parse().unwrap());
        weir_wire::nd::write_solicitation(&mut frame, host(1), own, target).unwrap();
        frame.split_off(14)
    };
    vec![
        (CPE, tagged(MacAddr::BROADCAST, host(1), 1, ethernet::ARP, arp.to_wire().as_bytes())),
        (CPE, customer(&echo("10.0.0.7", "10.0.0.1"))),
        (CPE, customer(&udp("10.0.5.5", "203.0.113.1", 80))),
        (CPE, customer(&dying(udp("10.0.0.7", "203.0.113.1", 80)))),
        (CPE, tagged(gateway, host(1), 1, ethernet::IPV6, &solicitation)),
        (CORE, router),
        (CORE, rig.untunneled(&echo("192.0.2.2", "192.0.2.1"))),
        (CORE, core(&udp("203.0.113.1", "10.0.0.7", 80))),
        (CORE, core(&dying(udp("203.0.113.1", "10.0.0.8", 80)))),
        (CORE, core(&udp("203.0.113.1", "10.0.77.7", 80))),
    ]
}

/// How many packets left for the core in tunnels since the last call; the rest is ARP.
fn in_tunnels(rig: &mut Rig) -> usize {
    rig.sent(CORE).iter().filter(|frame| frame[12..14] == ethernet::MPLS.to_be_bytes()).count()
}

/// Nobody is told to be slower: all of it is to reach the slow path.
fn without_policing(mut config: Value) -> Value {
    config["punt_rate"] = json!("100 Mpps");
    config["subscriber_punt_rate"] = json!("1 Mpps");
    config
}

/// Every truncation of every frame, and every bit of the first 100 bytes turned over.
#[test]
fn frames_that_are_broken_anywhere_are_accounted_for() {
    for has_keys in [true, false] {
        let mut rig = Rig::new(TWO, without_policing(if has_keys { tunnels() } else { plain() }));
        rig.settle();
        rig.router_answers();
        let mut sent = 0;
        for (port, frame) in frames(&rig, has_keys) {
            for len in 1..frame.len() {
                rig.send(port, frame[..len].to_vec());
            }
            for bit in 0..frame.len().min(100) * 8 {
                let mut broken = frame.clone();
                broken[bit / 8] ^= 1 << (bit % 8);
                rig.send(port, broken);
            }
            sent += frame.len() - 1 + frame.len().min(100) * 8;
            rig.settle();
        }
        let account = rig.account();
        assert_eq!(account.received, sent as u64 + 1, "and the router's answer");
        let out = rig.sent(CPE).len() + rig.sent(CORE).len();
        assert_eq!(account.transmitted, out as u64);
        rig.finish();
    }
}

/// ARP storms, spoofed sources and stolen addresses of one subscriber; another is served all the while.
#[test]
fn a_flood_of_one_subscriber_is_contained() {
    let mut rig = Rig::new(TWO, tunnels());
    rig.settle();
    rig.router_answers();
    rig.arp_request(2, "10.0.0.8", "10.0.0.1");
    rig.settle();
    rig.sent(CPE);
    rig.sent(CORE);
    let mut delivered = 0;
    let start = rig.engine.now();
    for round in 0..50 {
        for n in 0..200_u16 {
            let spoofed = format!("172.16.{}.{}", n / 100, n % 100 + 1);
            let storm = request(host(1), "10.0.0.7", &format!("10.0.1.{}", n + 1));
            let stolen = request(host(1), "10.0.0.8", "10.0.0.1");
            let frame = rig.customer(1, &spoofed, "203.0.113.1");
            rig.send(CPE, frame);
            rig.arp(1, MacAddr::BROADCAST, &storm);
            rig.arp(1, MacAddr::BROADCAST, &stolen);
        }
        rig.arp_request(2, "10.0.0.8", "10.0.0.1");
        let frame = rig.customer(2, "10.0.0.8", "203.0.113.1");
        rig.send(CPE, frame);
        let frame = rig.tunneled(8, &udp("203.0.113.1", "10.0.0.8", 100));
        rig.send(CORE, frame);
        rig.run(10_000_000);
        let sent = rig.sent(CPE);
        let answered = arps(&sent).iter().filter(|(_, cvlan, _)| *cvlan == 2).count();
        assert_eq!(answered, 1, "round {round}");
        delivered += sent.iter().filter(|frame| frame[20..22] == [8, 0] && frame[18..20] == [0, 2]).count();
        assert_eq!(in_tunnels(&mut rig), 1, "round {round}");
    }
    assert_eq!(delivered, 50);
    let rows = rig.show("subscribers");
    let of = |cvlan: u16| rows.iter().find(|row| row["cvlan"] == cvlan).unwrap();
    assert_eq!(of(2)["drops"], json!({}));
    let drops = of(1)["drops"].as_object().unwrap();
    let count: u64 = drops.values().map(|count| count.as_u64().unwrap()).sum();
    // What its own bucket let through was looked at: about a hundred a second, and sixteen at once.
    let seconds = (rig.engine.now() - start) as f64 / 1e9;
    let reached = 30_000 - drops["punt-policed-subscriber"].as_u64().unwrap();
    assert!(count > 25_000 && reached as f64 <= 100.0 * seconds + 40.0, "{reached} in {seconds} s: {drops:?}");
    rig.finish();
}

/// A thousand subscribers are added, changed and deleted while packets flow.
#[test]
fn churn_loses_nothing_unaccounted() {
    let mut rig = Rig::new(TWO, without_policing(tunnels()));
    rig.settle();
    rig.router_answers();
    rig.arp_request(1, "10.0.0.7", "10.0.0.1");
    rig.settle();
    rig.sent(CORE);
    let (mut forwarded, rounds) = (0, 200_u16);
    for round in 0..rounds {
        let line = |n: u16| json!({ "svlan": 200 + n % 4, "cvlan": 1 + n, "key": 1000 + u32::from(n), "ipv4": [format!("10.1.{}.{}", n / 250, 1 + n % 250)] });
        rig.request(
            "subscriber add",
            json!([
                line(round * 5),
                line(round * 5 + 1),
                line(round * 5 + 2),
                line(round * 5 + 3),
                line(round * 5 + 4)
            ]),
        )
        .unwrap();
        rig.request(
            "subscriber set",
            json!({ "svlan": 200 + (round * 5) % 4, "cvlan": 1 + round * 5, "profile": "gold" }),
        )
        .unwrap();
        if round >= 20 {
            let gone = (round - 20) * 5;
            let tags = |n: u16| json!({ "svlan": 200 + n % 4, "cvlan": 1 + n });
            rig.request("subscriber del", json!([tags(gone), tags(gone + 1), tags(gone + 2)])).unwrap();
        }
        // One that stays, the newest, one that is gone or never was.
        let frame = rig.customer(1, "10.0.0.7", "203.0.113.1");
        rig.send(CPE, frame);
        let newest = round * 5 + 4;
        let mut frame = rig.customer(1, &format!("10.1.{}.{}", newest / 250, 1 + newest % 250), "203.0.113.1");
        frame[14..16].copy_from_slice(&(200 + newest % 4).to_be_bytes());
        frame[18..20].copy_from_slice(&(1 + newest).to_be_bytes());
        rig.send(CPE, frame.clone());
        let nobody = if round < 80 { newest + 2000 } else { newest - 2 - 400 };
        frame[18..20].copy_from_slice(&(1 + nobody).to_be_bytes());
        rig.send(CPE, frame);
        let down = rig.tunneled(7, &udp("203.0.113.1", "10.0.0.7", 100));
        rig.send(CORE, down);
        rig.run(1_000_000);
        forwarded += in_tunnels(&mut rig);
        assert_eq!(rig.sent(CPE).iter().filter(|frame| frame[20..22] == [8, 0]).count(), 1);
        rig.account();
    }
    assert_eq!(forwarded, 2 * usize::from(rounds));
    assert_eq!(rig.show("subscribers").len(), 2 + 200 * 5 - 180 * 3);
    rig.finish();
}
