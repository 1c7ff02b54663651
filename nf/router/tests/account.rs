//! Everything that comes in is accounted for, whatever it is; and what is forwarded goes where a model says that it must.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::traffic::*;
use common::*;
use serde_json::json;
use weir_stage::Random;
use weir_wire::ipv4::write_checksum;

fn rig() -> Rig {
    let neighbors: serde_json::Map<_, _> =
        HOSTS.iter().map(|host| ((*host).to_owned(), json!(mac_of(host).to_string()))).collect();
    let routes: serde_json::Map<_, _> = ROUTES.iter().map(|(prefix, via)| ((*prefix).to_owned(), json!(via))).collect();
    let mut rig = Rig::new(PORTS, json!({ "neighbors": neighbors, "routes": routes, "punt_rate": "100 kpps" }));
    rig.run(10 * SECOND);
    (0..PORTS.len()).for_each(|port| drop(rig.sent(port)));
    rig
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
    // Long enough for neighbours to be given up.
    rig.run(5_000_000_000);
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
        let before = rig.ways();
        rig.handles[port].send(frame.clone());
        // A pipeline takes a turn more.
        (0..2).for_each(|_| _ = rig.engine.step());
        let after = rig.ways();
        let out = (0..3).find(|n| {
            let name = format!("port[{n}]");
            before.get(&name) != after.get(&name)
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
