//! What became of one user's packets lately, as `show history` says it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::*;
use serde_json::{Value, json};

fn rig() -> Rig {
    Rig::new(json!({
        "users": [{ "tags": "1.1-2", "profile": "slow" }],
        "scheduler": scheduler(json!({ "slow": { "tb_rate": "1 Mbit/s", "tb_size": "248 B" } })),
    }))
}

/// Frames of 100 bytes, one a millisecond with overhead, beyond what the queue holds once.
fn second(rig: &mut Rig, frames: u32) {
    (0..frames).for_each(|n| rig.send(0, frame((1, 1), 0, n, 100)));
    rig.run(SECOND);
    rig.sent(1);
}

fn history(rig: &Rig, user: &str) -> Vec<Value> {
    rig.show("history", Some(user))
}

#[test]
fn seconds_and_minutes_are_told_from_the_first_question_on() {
    let mut rig = rig();
    rig.run(SECOND / 2);
    assert!(history(&rig, "1.1").is_empty());
    rig.run(SECOND / 2 + 10 * MS);
    assert!(history(&rig, "1.1").is_empty(), "the first second was not whole");
    second(&mut rig, 50);
    second(&mut rig, 0);
    second(&mut rig, 80);
    let rows = history(&rig, "1.1");
    assert_eq!(rows.len(), 3);
    let column = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    let dropped = rig.drops()["qos.shape/queue-full"];
    assert_eq!(column("ago"), [1, 2, 3]);
    assert_eq!(column("packets"), [80 - dropped, 0, 50]);
    assert_eq!(column("rate"), [(80 - dropped) * 800, 0, 50 * 800]);
    assert_eq!(
        (column("dropped"), &rows[0]["drops"]),
        (vec![json!(dropped), json!(0), json!(0)], &json!({ "queue-full": dropped }))
    );
    // Two go at once; of the others, each waits a frame's time, 0.992 ms, more than the one before it.
    assert_eq!((&rows[1]["p50_ms"], &rows[0]["span"]), (&Value::Null, &json!("second")));
    let (half, most) = (rows[2]["p50_ms"].as_f64().unwrap(), rows[2]["p99_ms"].as_f64().unwrap());
    assert!((23.0 * 0.992..23.0 * 0.992 * 1.13 + 0.1).contains(&half), "{half}");
    assert!((48.0 * 0.992..48.0 * 0.992 * 1.13 + 0.1).contains(&most), "{most}");
    rig.run(120 * SECOND);
    let rows = history(&rig, "1.1");
    assert_eq!(rows.iter().filter(|row| row["span"] == "minute").count(), 1);
    assert_eq!(rows.len(), 11);
    rig.finish();
}

#[test]
fn who_asks_about_a_user_has_it_watched_and_nobody_else() {
    let mut rig = rig();
    rig.run(SECOND / 2);
    rig.show("users", Some("1.1"));
    rig.show("users", None);
    rig.run(3 * SECOND);
    assert_eq!((history(&rig, "1.1").len(), history(&rig, "1.2").len()), (2, 0));
    // Nobody asks for long: then it is forgotten, and begins anew.
    rig.run(1000 * SECOND);
    second(&mut rig, 10);
    assert!(history(&rig, "1.1").is_empty());
    second(&mut rig, 10);
    second(&mut rig, 10);
    assert_eq!(history(&rig, "1.1").len(), 1);
    for filter in [None, Some("1.9"), Some("slow"), Some("others")] {
        let Err(told) = rig.instance.show("history", filter, 0) else { panic!("{filter:?} is no user") };
        assert!(told.0.contains("write"), "{}", told.0);
    }
    rig.finish();
}
