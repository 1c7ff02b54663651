//! Why a user is slow, as `show users` says it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::*;
use serde_json::{Value, json};

/// Users 1.1 (over its own rate), 1.2 (in a full subport), 1.3 (a capped class) and 1.4, who sends nothing.
fn keys() -> Value {
    let mut keys = json!({
        "users": [
            { "tags": "1.1", "profile": "slow", "subport": "wide" },
            { "tags": "1.2", "profile": "fast", "subport": "narrow" },
            { "tags": "1.3", "profile": "capped", "subport": "wide" },
            { "tags": "1.4", "profile": "slow", "subport": "wide" },
        ],
        "classify": { "dscp": { "ef": "0" } },
        "scheduler": scheduler(json!({
            "slow": { "tb_rate": "1 Mbit/s", "tb_size": "248 B" },
            "fast": { "tb_rate": "100 Mbit/s", "tb_size": "2 KiB" },
            "capped": { "tb_rate": "100 Mbit/s", "tb_size": "2 KiB", "classes": [{ "tc_rate": "1 Mbit/s" }] },
        })),
    });
    keys["scheduler"]["subports"] = json!({ "wide": {}, "narrow": { "tb_rate": "1 Mbit/s", "tb_size": "248 B" } });
    keys
}

fn held(rig: &Rig, user: &str) -> (Value, f64) {
    let row = &rig.show("users", Some(user))[0];
    (row["held_by"].clone(), row["held_for"].as_f64().unwrap_or(-1.0))
}

#[test]
fn it_is_said_which_level_holds_a_user_and_for_how_long() {
    let mut rig = Rig::new(keys());
    rig.run(SECOND / 2);
    for n in 0..60 {
        [(1, 0), (2, 0), (3, 46)].into_iter().for_each(|(user, dscp)| rig.send(0, frame((1, user), dscp, n, 100)));
    }
    // At 1 Mbit/s a frame takes a millisecond, with overhead.
    rig.run(20 * MS);
    for (user, level) in [("1.1", "rate"), ("1.2", "subport"), ("1.3", "class 0")] {
        let (by, seconds) = held(&rig, user);
        assert_eq!(by, level, "{user}");
        assert!((0.018..0.025).contains(&seconds), "{user}: {seconds}");
    }
    assert_eq!(held(&rig, "1.4"), (Value::Null, -1.0));
    // A reload is no new beginning.
    rig.reload(keys());
    rig.run(10 * MS);
    let (by, seconds) = held(&rig, "1.1");
    assert!(by == "rate" && (0.028..0.035).contains(&seconds), "{by} {seconds}");
    rig.run(SECOND);
    assert_eq!(rig.held(), 0);
    for user in ["1.1", "1.2", "1.3", "1.4"] {
        assert_eq!(held(&rig, user), (Value::Null, -1.0), "{user}");
    }
    rig.finish();
}

#[test]
fn where_the_port_is_full_it_is_the_port() {
    let mut keys = keys();
    keys["scheduler"]["rate"] = json!("1 Mbit/s");
    keys["scheduler"]["burst"] = json!("248 B");
    let mut rig = Rig::new(keys);
    (0..60).for_each(|n| rig.send(0, frame((1, 3), 0, n, 100)));
    rig.run(20 * MS);
    assert_eq!(held(&rig, "1.3").0, "port");
    rig.run(SECOND);
    assert_eq!((held(&rig, "1.3").0, rig.held()), (Value::Null, 0));
    rig.finish();
}

#[test]
fn drops_are_told_by_reason() {
    let mut rig = Rig::new(keys());
    for n in 0..400 {
        rig.send(0, frame((1, 1), 0, n, 100));
    }
    rig.run(MS);
    let row = &rig.show("users", Some("1.1"))[0];
    let dropped = rig.drops()["qos.shape/queue-full"];
    assert_eq!((&row["drops"], &row["dropped"]), (&json!({ "queue-full": dropped }), &json!(dropped)));
    assert_eq!(rig.show("users", Some("1.4"))[0]["drops"], json!({}));
    rig.finish();
}

/// Two users of a subport whose class 0 is full; one of them has packets of another class, too.
fn classes(north: &Value) -> Value {
    let mut keys = json!({
        "users": [{ "tags": "1.1-2", "profile": "fast", "subport": "north" }],
        "classify": { "dscp": { "ef": "0" } },
        "scheduler": scheduler(json!({ "fast": { "tb_rate": "100 Mbit/s", "tb_size": "2 KiB" } })),
    });
    keys["scheduler"]["subports"] = json!({ "north": north, "south": {} });
    keys
}

#[test]
fn the_rate_of_a_class_of_a_subport_holds_its_users_and_no_other_class() {
    let rate = |rate: &str| json!({ "classes": [{ "tc_rate": rate, "tc_period": "2 ms" }] });
    let mut rig = Rig::new(classes(&rate("1 Mbit/s")));
    rig.run(SECOND / 2);
    for n in 0..40 {
        (1..=2).for_each(|user| rig.send(0, frame((1, user), 46, n, 100)));
        rig.send(0, frame((1, 2), 0, n, 100));
    }
    rig.run(20 * MS);
    // A frame of class 0 takes a millisecond, with overhead; all forty of class 3 have gone.
    let sent = rig.sent(1).len();
    assert!((60..=64).contains(&sent), "{sent}");
    assert_eq!((held(&rig, "1.1").0, held(&rig, "1.2").0), (json!("class 0 of subport"), json!("class 0 of subport")));
    let row = &rig.show("subports", Some("north"))[0];
    assert_eq!(row["classes"], json!({ "0": "1 Mbit/s" }));
    // What is given at run time leaves the classes as they are.
    assert_eq!(rig.request("subport set", json!({ "subport": "north", "weight": 2 })), Ok(json!({ "changed": 1 })));
    rig.run(20 * MS);
    let sent = rig.sent(1).len();
    assert!((19..=21).contains(&sent), "{sent}");
    // A reload gives the class another rate; what waits goes by it.
    rig.request("subport reset", json!({ "subport": "north" })).unwrap();
    rig.reload(classes(&rate("4 Mbit/s")));
    rig.run(5 * MS);
    let sent = rig.sent(1).len();
    assert!((18..=22).contains(&sent), "{sent}");
    rig.run(SECOND);
    assert_eq!((rig.held(), held(&rig, "1.1").0), (0, Value::Null));
    rig.finish();
}
