//! What becomes of packets: rates, classes, queues, users, both directions.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use std::collections::BTreeMap;

use common::*;
use serde_json::{Value, json};

/// Frames of 100 bytes in a second of 1 Mbit/s, with overhead.
const PER_SECOND: u64 = 1_000_000 / (8 * (100 + OVERHEAD));

#[test]
fn every_user_gets_its_rate() {
    let mut rig = Rig::new(json!({
        "users": [{ "tags": "7.1-8", "profile": "one" }, { "tags": "7.3", "profile": "two" }],
        "scheduler": scheduler(json!({
            "one": { "tb_rate": "1 Mbit/s", "tb_size": "1 KiB" },
            "two": { "tb_rate": "2 Mbit/s", "tb_size": "1 KiB" },
        })),
    }));
    // Five times as much as those with one have, in all of two seconds.
    let mut next = 0;
    let began = rig.engine.now();
    for _ in 0..200 {
        for _ in 0..50 {
            for user in 1..=8 {
                rig.send(0, frame((7, user), 0, next, 100));
                next += 1;
            }
        }
        rig.run(10 * MS);
    }
    // Time goes on by what is due next, so that it may be a little longer.
    let seconds = (rig.engine.now() - began) as f64 / SECOND as f64;
    assert!((2.0..2.2).contains(&seconds), "{seconds}");
    let mut counts: BTreeMap<u16, u64> = BTreeMap::new();
    let sent = rig.sent(1);
    for frame in &sent {
        *counts.entry(inner(frame)).or_default() += 1;
    }
    for (user, count) in counts {
        let expected = (seconds * PER_SECOND as f64) as u64 * if user == 3 { 2 } else { 1 };
        // At most a full bucket more.
        assert!((expected - 4..=expected + 1_024 / 124 + 2).contains(&count), "user {user}: {count}, not {expected}");
    }
    // Each user's frames are in order.
    for user in 1..=8 {
        let numbers: Vec<u32> = sent.iter().filter(|frame| inner(frame) == user).map(|frame| number(frame)).collect();
        assert!(numbers.is_sorted() && !numbers.is_empty());
    }
    let drops = rig.drops();
    assert_eq!(drops.keys().collect::<Vec<_>>(), ["qos.shape/queue-full"]);
    assert_eq!(sent.len() as u64 + drops["qos.shape/queue-full"] + rig.held(), u64::from(next));
    let shown: u64 = rig.show("users", None).iter().map(|row| row["packets"].as_u64().unwrap()).sum();
    assert_eq!(shown, sent.len() as u64);
    rig.finish();
}

#[test]
fn higher_classes_go_first() {
    let mut rig = Rig::new(json!({
        "users": [{ "tags": "1.1", "profile": "user" }],
        "classify": { "dscp": { "ef": "0", "af41": "1", "cs1": "3.1" } },
        "scheduler": scheduler(json!({ "user": { "tb_rate": "1 Mbit/s", "tb_size": "200 B", "weights": [3, 1] } })),
    }));
    let mut send = |dscp, first: u32| (0..20).for_each(|n| rig.send(0, frame((1, 1), dscp, first + n, 100)));
    // The lowest class comes first, its first queue with three times the weight of its second.
    send(0, 3_000);
    send(8, 3_100);
    send(34, 1_000);
    send(46, 0);
    rig.run(SECOND / 10);
    let order: Vec<u32> = rig.sent(1).iter().map(|frame| number(frame)).collect();
    assert_eq!(order.len(), 80);
    // What could go at once has gone before the others came.
    let place = |wanted: u32| order.iter().position(|number| *number == wanted).unwrap();
    assert!(place(19) < place(1_000) && place(1_019) < place(3_005) && place(1_019) < place(3_105), "{order:?}");
    rig.finish();
}

#[test]
fn queues_of_any_class_share_by_weight() {
    let profile = json!({
        "tb_rate": "2 Mbit/s", "tb_size": "200 B",
        "classes": [{}, { "tc_rate": "1 Mbit/s", "tc_period": "1 ms", "weights": [1, 4, 2], "queue_size": 20 }, { "weights": [1, 1] }],
    });
    let keys = |profile: &Value, dscp: Value| {
        json!({
            "users": [{ "tags": "1.1", "profile": "user" }],
            "classify": { "dscp": dscp },
            "scheduler": scheduler(json!({ "user": profile })),
        })
    };
    let dscp = json!({ "cs1": "1", "cs2": "1.1", "cs3": "1.2", "cs4": "2.1", "cs5": "3.5" });
    let mut rig = Rig::new(keys(&profile, dscp));
    // All queues of class 1 always have packets, as has the lowest class; the numbers tell which they are.
    let mut sent = [0_u64; 4];
    for round in 0..400 {
        for (queue, dscp) in [8, 16, 24, 40].into_iter().enumerate() {
            (0..8).for_each(|n| rig.send(0, frame((1, 1), dscp, 1_000_000 * queue as u32 + 8 * round + n, 100)));
        }
        rig.run(5 * MS);
        for frame in rig.sent(1) {
            sent[number(&frame) as usize / 1_000_000] += 1;
        }
    }
    let class: u64 = sent[..3].iter().sum();
    // Two seconds, of which half is for class 1.
    let fair = |share: f64, found: u64| (found as f64 / (2.0 * PER_SECOND as f64 * share) - 1.0).abs() < 0.02;
    assert!(fair(1.0, class) && fair(1.0, sent[3]), "{sent:?}");
    assert!(fair(1.0 / 7.0, sent[0]) && fair(4.0 / 7.0, sent[1]) && fair(2.0 / 7.0, sent[2]), "{sent:?}");
    // A reload takes the queues away with what waits in them; nothing is lost but what found its queue full.
    let (mut plain, waiting) = (profile.clone(), rig.held());
    plain["classes"] = json!([{}, { "queue_size": 200 }]);
    rig.reload(keys(&plain, json!({ "cs1": "1", "cs5": "3.5" })));
    rig.run(SECOND / 5);
    let late: Vec<u32> = rig.sent(1).iter().map(|frame| number(frame)).collect();
    // All of class 1, the packets of each queue in the order in which they came, before those of class 3.
    assert_eq!((late.len() as u64, rig.held()), (waiting, 0));
    let of = |queue: u32| late.iter().copied().filter(|number| number / 1_000_000 == queue).collect::<Vec<_>>();
    assert!((0..4).all(|queue| !of(queue).is_empty() && of(queue).is_sorted()), "{late:?}");
    let drops = rig.drops();
    assert_eq!(drops.keys().collect::<Vec<_>>(), ["qos.shape/queue-full"]);
    assert_eq!(sent.iter().sum::<u64>() + drops["qos.shape/queue-full"] + waiting, 400 * 32);
    rig.finish();
}

#[test]
fn users_may_be_known_by_addresses() {
    let keys = |by: &str, others: bool| {
        let mut keys = json!({
            "user_by": by,
            "reverse": "shape",
            "users": [{ "prefix": "10.0.0.0/24", "each": 32, "profile": "user" }, { "prefix": ["10.0.1.0/24", "2001:db8::/32"], "profile": "user" }],
            "scheduler": { "rate": "1 Gbit/s", "users": 300, "buffers": 2048, "profiles": { "user": { "tb_rate": "1 Mbit/s", "tb_size": "124 B" } } },
        });
        if others {
            keys["others"] = json!("user");
        }
        keys
    };
    let mut rig = Rig::new(keys("source", false));
    for _ in 0..10 {
        // Two users, one with many addresses; and nobody.
        rig.send(0, untagged([10, 0, 0, 5], [192, 0, 2, 1], 100));
        rig.send(0, untagged([10, 0, 1, 5], [192, 0, 2, 1], 100));
        rig.send(0, untagged([10, 0, 1, 6], [192, 0, 2, 1], 100));
        rig.send(0, untagged([10, 0, 2, 5], [10, 0, 0, 1], 100));
        // The other way, a user's source is its destination.
        rig.send(1, untagged([192, 0, 2, 1], [10, 0, 0, 5], 100));
    }
    // Six times 124 bytes at 1 Mbit/s, and one at once; ends between two packets.
    rig.run(6 * MS);
    let sources = |frames: Vec<Vec<u8>>, at: usize| {
        let mut counts: BTreeMap<u8, u64> = BTreeMap::new();
        frames.iter().for_each(|frame| *counts.entry(frame[at]).or_default() += 1);
        counts
    };
    assert_eq!(sources(rig.sent(1), 28), BTreeMap::from([(0, 7), (1, 7)]));
    assert_eq!(sources(rig.sent(0), 32), BTreeMap::from([(0, 7)]));
    assert_eq!(rig.drops(), BTreeMap::from([("qos.identify/unknown-user".to_owned(), 10)]));
    rig.finish();
    let mut rig = Rig::new(keys("destination", true));
    (0..10).for_each(|_| rig.send(0, untagged([10, 0, 2, 5], [10, 0, 0, 1], 100)));
    (0..10).for_each(|_| rig.send(0, untagged([10, 0, 2, 5], [10, 0, 2, 1], 100)));
    rig.run(6 * MS);
    assert_eq!(rig.sent(1).len(), 14);
    rig.finish();
}

#[test]
fn what_comes_back_is_not_shaped() {
    let mut rig = Rig::new(json!({
        "user_by": "nothing",
        "others": "user",
        "scheduler": scheduler(json!({ "user": { "tb_rate": "8 kbit/s", "tb_size": "124 B" } })),
    }));
    for _ in 0..50 {
        rig.send(0, untagged([10, 0, 0, 1], [10, 0, 0, 2], 100));
        rig.send(1, untagged([10, 0, 0, 2], [10, 0, 0, 1], 100));
    }
    rig.run(MS);
    assert_eq!((rig.sent(0).len(), rig.sent(1).len(), rig.held()), (50, 1, 49));
    // What waits when the engine stops has its time to go.
    assert_eq!(rig.finish().transmitted, 100);
}

#[test]
fn policers_and_the_limit_stand_in_front() {
    let mut rig = Rig::new(json!({
        "users": [{ "tags": "1.1-2", "profile": "policed" }, { "tags": "1.3", "profile": "free" }],
        "police": { "policed": { "cir": "1 Mbit/s", "cbs": "1240 B" } },
        "limit": "10 kpps",
        "scheduler": scheduler(json!({ "policed": { "tb_rate": "1 Gbit/s" }, "free": { "tb_rate": "1 Gbit/s" } })),
    }));
    for n in 0..20 {
        (1..=3).for_each(|user| rig.send(0, frame((1, user), 0, n, 100)));
    }
    rig.run(MS);
    let drops = rig.drops();
    // Ten frames of 124 bytes fit each bucket, and at 1 Mbit/s one more comes in a millisecond.
    assert_eq!(drops, BTreeMap::from([("qos.police/policed".to_owned(), 20)]));
    assert_eq!(rig.sent(1).len(), 40);
    // A batch is let through at once; then ten a millisecond.
    (0..200).for_each(|n| rig.send(0, frame((1, 3), 0, n, 100)));
    rig.run(10 * MS);
    let limited = rig.drops()["qos.limit/limited"];
    assert_eq!(rig.sent(1).len() as u64 + limited, 200);
    assert!(limited > 100, "{limited}");
    rig.finish();
}

/// A worker receives up to two batches of a queue in one loop; all of them go in it, too.
#[test]
fn nothing_waits_where_all_may_send() {
    let mut rig = Rig::new(json!({
        "user_by": "nothing",
        "others": "user",
        "scheduler": { "rate": "1 Tbit/s", "users": 2, "buffers": 256, "profiles": { "user": { "tb_rate": "1 Tbit/s", "tb_size": "1 MiB", "classes": [{}, {}, {}, { "queue_size": 256 }] } } },
    }));
    (0..4_000).for_each(|_| rig.send(0, untagged([10, 0, 0, 1], [10, 0, 0, 2], 100)));
    rig.run(10 * MS);
    assert_eq!((rig.sent(1).len(), rig.drops().len()), (4_000, 0));
    rig.finish();
}
