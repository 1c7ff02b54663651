//! Shaping on several workers: the same for users whatever the layout.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use std::collections::BTreeMap;

use common::*;
use serde_json::{Value, json};

/// Workers and layouts.
const LAYOUTS: &[(&str, usize)] = &[
    ("run-to-completion", 1),
    ("distributor", 2),
    ("distributor", 4),
    ("pipeline", 2),
    ("pipeline", 3),
    ("pipeline", 6),
];

/// Users with the outer VLANs 1 to 7 and the inner ones 1 to 5, of three rates: 95 % of the port's together.
const RATES: [u64; 3] = [1, 2, 5];

fn keys((layout, workers): (&str, usize), more: Value) -> Value {
    let users: Vec<Value> = (1..=7_u16)
        .flat_map(|outer| (1..=5_u16).map(move |inner| (outer, inner)))
        .map(|(outer, inner)| json!({ "tags": format!("{outer}.{inner}"), "profile": format!("r{}", rate(outer, inner)) }))
        .collect();
    let profile = |rate: u64| json!({ "tb_rate": format!("{rate} Mbit/s"), "tb_size": "3000 B" });
    let profiles = json!({ "r1": profile(1), "r2": profile(2), "r5": profile(5) });
    let mut keys = json!({
        "layout": layout,
        "workers": (0..workers).collect::<Vec<usize>>(),
        "users": users,
        "scheduler": { "rate": "100 Mbit/s", "users": 64, "buffers": 2048, "profiles": profiles },
    });
    keys.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    keys
}

fn rate(outer: u16, inner: u16) -> u64 {
    RATES[usize::from(outer * 5 + inner) % 3]
}

/// Every user offers twice its rate both ways; each gets its rate, in its order. What is nobody's is dropped by name.
#[test]
fn each_user_has_its_rate_in_every_layout() {
    const LENGTH: usize = 726;
    let frame_cost = LENGTH as u64 + OVERHEAD;
    let total: u64 = (1..=7).flat_map(|outer| (1..=5).map(move |inner| rate(outer, inner))).sum();
    assert!((90..=95).contains(&total), "{total}");
    for &layout in LAYOUTS {
        let mut rig = Rig::new(keys(layout, json!({ "reverse": "shape" })));
        let mut owed: BTreeMap<(u16, u16), u64> = BTreeMap::new();
        let mut last_seen: [BTreeMap<(u8, u16), u32>; 2] = Default::default();
        let mut counts: [BTreeMap<(u8, u16), u64>; 2] = Default::default();
        let (mut count, mut strangers) = (0, 0);
        let (mut start, mut last) = (rig.engine.now(), rig.engine.now());
        for round in 0..460 {
            let now = rig.engine.now();
            let passed = now - std::mem::replace(&mut last, now);
            if round == 60 {
                (counts, start) = (Default::default(), now);
            }
            for outer in 1..=7 {
                for inner in 1..=5 {
                    let owed = owed.entry((outer, inner)).or_default();
                    *owed += 2 * rate(outer, inner) * passed / 8_000;
                    while *owed >= frame_cost {
                        *owed -= frame_cost;
                        count += 1;
                        (0..2).for_each(|port| rig.send(port, frame((outer, inner), 0, count, LENGTH)));
                    }
                }
            }
            rig.send(0, frame((9, 9), 0, 0, LENGTH));
            strangers += 1;
            rig.run(MS);
            for (seen, port) in [1, 0].into_iter().enumerate() {
                for frame in rig.sent(port) {
                    let user = (frame[15], inner(&frame));
                    *counts[seen].entry(user).or_default() += 1;
                    let before = last_seen[seen].insert(user, number(&frame));
                    assert!(before.is_none_or(|before| before < number(&frame)), "{layout:?}: {user:?}");
                }
            }
        }
        let nanos = rig.engine.now() - start;
        for counts in &counts {
            for outer in 1..=7_u16 {
                for inner in 1..=5 {
                    let rate = rate(outer, inner);
                    let (bytes, due) = (counts[&(outer as u8, inner)] * frame_cost, rate * nanos / 8_000);
                    assert!(bytes <= due + 3_000, "{layout:?}: {outer}.{inner} sent {bytes} of {due}");
                    assert!(bytes + 3_000 + frame_cost >= due, "{layout:?}: {outer}.{inner} sent {bytes} of {due}");
                }
            }
        }
        assert_eq!(rig.drops()["qos.identify/unknown-user"], strangers, "{layout:?}");
        rig.run(SECOND);
        rig.finish();
    }
}

/// A policer in front has its users' state where their packets come: the committed rate holds for each, however many workers there are.
#[test]
fn policers_hold_in_every_layout() {
    for &layout in LAYOUTS {
        let police =
            json!({ "r1": { "cir": "500 kbit/s", "cbs": "3000 B" }, "r2": { "cir": "1 Mbit/s", "cbs": "3000 B" } });
        let mut rig = Rig::new(keys(layout, json!({ "police": police })));
        let users: Vec<(u16, u16)> = (1..=7).flat_map(|outer| (1..=5).map(move |inner| (outer, inner))).collect();
        for &user in &users {
            (0..20).for_each(|number| rig.send(0, frame(user, 0, number, 726)));
        }
        rig.run(MS / 100);
        rig.run(SECOND);
        let mut counts: BTreeMap<(u8, u16), usize> = BTreeMap::new();
        rig.sent(1).iter().for_each(|frame| *counts.entry((frame[15], inner(frame))).or_default() += 1);
        for (outer, inner) in users {
            // 3,000 bytes at once: four of 750, and what comes while they are looked at.
            let most = if rate(outer, inner) == 5 { 20 } else { 4 };
            assert_eq!(counts[&(outer as u8, inner)], most, "{layout:?}: {outer}.{inner}");
        }
        rig.finish();
    }
}

/// Profiles change and users come and go while their packets wait; packets of those who stay are all there in the end.
#[test]
fn users_change_while_packets_wait() {
    for &layout in LAYOUTS {
        // Room for all, however it is divided.
        let keys = || {
            let mut keys = keys(layout, json!({}));
            keys["scheduler"]["buffers"] = json!(16_384);
            keys
        };
        let mut rig = Rig::new(keys());
        let users: Vec<(u16, u16)> = (1..=7).flat_map(|outer| (1..=5).map(move |inner| (outer, inner))).collect();
        for round in 0..10_u16 {
            for &user in &users {
                (0..6).for_each(|number| rig.send(0, frame(user, 0, u32::from(round) * 10 + number, 726)));
            }
            rig.run(MS);
            let mut keys = keys();
            // One goes, and is back the next time; the others' rates change places.
            let list = keys["users"].as_array_mut().unwrap();
            list.remove(usize::from(34 - round % 2));
            let profile = list[usize::from(round)]["profile"].clone();
            list[usize::from(round) + 10]["profile"] = profile;
            rig.reload(keys);
            assert!(rig.request("user set", json!({ "user": "1.1", "profile": "r5" })).is_ok());
            rig.account();
        }
        rig.run(5 * SECOND);
        let account = rig.account();
        assert_eq!((account.received, account.held), (10 * 6 * 35, 0), "{layout:?}");
        let dropped: u64 = rig.drops().values().sum();
        assert_eq!(account.transmitted + dropped, account.received, "{layout:?}");
        let of_others = rig.sent(1).iter().filter(|frame| (frame[15], inner(frame)) < (7, 4)).count();
        assert_eq!(of_others, 10 * 6 * 33, "{layout:?}: {:?}", rig.drops());
        rig.finish();
    }
}
