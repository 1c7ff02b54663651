//! Both directions shaped together: what users, subports and the port may send is what they send and get.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use serde_json::{Value, json};

use crate::common::*;

/// Bytes that a frame of 100 counts.
const FRAME: u64 = 100 + OVERHEAD;

/// Three users with 1, 2 and 4 Mbit/s, of whom the last two are in a subport that may send so much.
fn keys(layout: &str, workers: usize, narrow: &str) -> Value {
    let profile = |rate: u32| json!({ "tb_rate": format!("{rate} Mbit/s"), "tb_size": "1 KiB" });
    let mut scheduler = scheduler(json!({ "one": profile(1), "two": profile(2), "four": profile(4) }));
    scheduler["subports"] = json!({ "free": {}, "narrow": { "ceil": narrow, "tb_size": "1 KiB" } });
    json!({
        "reverse": "together",
        "layout": layout,
        "workers": (0..workers).collect::<Vec<usize>>(),
        "users": [
            { "tags": "7.1", "profile": "one", "subport": "free" },
            { "tags": "7.2", "profile": "two", "subport": "narrow" },
            { "tags": "7.3", "profile": "four", "subport": "narrow" },
        ],
        "classify": { "dscp": { "ef": "0" } },
        "scheduler": scheduler,
    })
}

/// For each user, whether it sends and whether it gets packets, many more than it may, for a second or a bit more; the bits that went through
/// per second of each user, from `from` to `to` and back.
fn rates(rig: &mut Rig, users: [(u16, bool, bool); 3]) -> Vec<[f64; 2]> {
    // What has been saved and what waits is gone first.
    let mut counts = vec![[0_u64; 2]; users.len()];
    let (mut began, mut number) = (rig.engine.now(), 0);
    for round in 0..150 {
        if round == 50 {
            (began, counts) = (rig.engine.now(), vec![[0; 2]; users.len()]);
        }
        for (user, sends, gets) in users {
            // In turns: whoever came first each time would fill the queue.
            let does = |port: u32| [sends, gets][port as usize] && (!(sends && gets) || round % 2 == port);
            for port in (0..2).filter(|port| does(*port)) {
                (0..60).for_each(|_| {
                    number += 1;
                    rig.send(port as usize, frame((7, user), 0, number, 100));
                });
            }
        }
        rig.run(10 * MS);
        for (direction, port) in [1, 0].into_iter().enumerate() {
            for sent in rig.sent(port) {
                let position = users.iter().position(|(user, ..)| *user == inner(&sent)).unwrap();
                counts[position][direction] += 1;
            }
        }
    }
    let seconds = (rig.engine.now() - began) as f64 / SECOND as f64;
    counts.into_iter().map(|both| both.map(|count| (count * FRAME * 8) as f64 / seconds)).collect()
}

fn is_about(bits: f64, megabits: f64) -> bool {
    (bits / 1e6 / megabits - 1.0).abs() < 0.03
}

#[test]
fn the_rate_of_a_user_is_for_what_it_sends_and_gets() {
    let layouts = [("run-to-completion", 1), ("distributor", 3), ("pipeline", 2), ("pipeline", 4)];
    for (layout, workers) in layouts {
        let mut rig = Rig::new(keys(layout, workers, "100 Mbit/s"));
        // One that sends and gets, one that only sends, one that only gets.
        let seen = rates(&mut rig, [(1, true, true), (2, true, false), (3, false, false)]);
        assert!(is_about(seen[0].iter().sum(), 1.0), "{layout} {workers}: {seen:?}");
        assert!(seen[0].iter().all(|rate| *rate > 0.3e6), "{layout} {workers}: {seen:?}");
        assert!(is_about(seen[1][0], 2.0), "{layout} {workers}: {seen:?}");
        let seen = rates(&mut rig, [(1, false, true), (2, false, true), (3, false, false)]);
        assert!(is_about(seen[0][1], 1.0) && is_about(seen[1][1], 2.0), "{layout} {workers}: {seen:?}");
        rig.finish();
    }
}

/// One user of a subport sends, another gets: the subport holds both.
#[test]
fn an_aggregate_is_of_both_directions() {
    let mut rig = Rig::new(keys("run-to-completion", 1, "3 Mbit/s"));
    let seen = rates(&mut rig, [(1, false, false), (2, true, false), (3, false, true)]);
    assert!(is_about(seen[1][0] + seen[2][1], 3.0), "{seen:?}");
    // Alone, each has what its own rate and the subport's let it.
    let seen = rates(&mut rig, [(1, false, false), (2, false, false), (3, true, false)]);
    assert!(is_about(seen[2][0], 3.0), "{seen:?}");
    rig.finish();
}

#[test]
fn a_higher_class_goes_first_whichever_way_it_goes() {
    let mut rig = Rig::new(keys("run-to-completion", 1, "3 Mbit/s"));
    (0..60).for_each(|n| rig.send(0, frame((7, 1), 0, n, 100)));
    rig.run(MS);
    let before = rig.sent(1).len();
    (0..4).for_each(|n| rig.send(1, frame((7, 1), 46, n, 100)));
    // Four frames take 4 ms, in which no other goes.
    rig.run(5 * MS);
    let (forth, back) = (rig.sent(1).len(), rig.sent(0));
    assert_eq!(back.iter().map(|frame| number(frame)).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(forth <= 2 && before + forth < 20, "{before} {forth}");
    rig.run(SECOND);
    assert_eq!(before + forth + rig.sent(1).len(), 60);
    rig.finish();
}

#[test]
fn there_is_one_row_for_both() {
    let mut rig = Rig::new(keys("run-to-completion", 1, "3 Mbit/s"));
    rig.send(0, frame((7, 1), 0, 1, 100));
    rig.send(1, frame((7, 1), 0, 2, 100));
    rig.run(MS);
    assert_eq!((rig.sent(0).len(), rig.sent(1).len()), (1, 1));
    let rows = rig.show("users", Some("7.1"));
    assert_eq!(rows.len(), 1);
    assert_eq!((&rows[0]["direction"], &rows[0]["packets"]), (&json!("both"), &json!(2)));
    assert_eq!(rig.show("schedulers", None).len(), 1);
    rig.finish();
}
