//! What may change while packets wait, and what is said of it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::*;
use serde_json::{Value, json};

fn keys(users: Value, rate: &str) -> Value {
    json!({
        "users": users,
        "scheduler": scheduler(json!({
            "slow": { "tb_rate": rate, "tb_size": "124 B" },
            "fast": { "tb_rate": "100 Mbit/s", "tb_size": "124 B" },
        })),
    })
}

fn two_users() -> Value {
    json!([{ "tags": "1.1-2", "profile": "slow" }])
}

fn waiting() -> Rig {
    let mut rig = Rig::new(keys(two_users(), "8 kbit/s"));
    for n in 0..30 {
        rig.send(0, frame((1, 1), 0, n, 100));
        rig.send(0, frame((1, 2), 0, n, 100));
    }
    rig.run(MS);
    assert_eq!((rig.sent(1).len(), rig.held()), (2, 58));
    rig
}

fn numbers(frames: &[Vec<u8>], user: u16) -> Vec<u32> {
    frames.iter().filter(|frame| inner(frame) == user).map(|frame| number(frame)).collect()
}

#[test]
fn a_user_gets_another_profile_and_loses_nothing() {
    let mut rig = waiting();
    assert_eq!(rig.request("user set", json!({ "user": "1.2", "profile": "fast" })), Ok(json!({ "changed": 1 })));
    rig.run(MS);
    let sent = rig.sent(1);
    assert_eq!((numbers(&sent, 1).len(), numbers(&sent, 2)), (0, (1..30).collect()));
    let row = &rig.show("users", Some("1.2"))[0];
    assert_eq!((row["profile"].as_str(), row["source"].as_str()), (Some("fast"), Some("cli")));
    assert_eq!(row["packets"], 30);
    let saved = rig.instance.save().piece();
    assert_eq!((saved.len(), saved[0].arguments.clone()), (1, json!({ "user": "1.2", "profile": "fast" })));
    // It stays through a reload, until it is taken back.
    rig.reload(keys(two_users(), "8 kbit/s"));
    assert_eq!(rig.show("users", Some("fast")).len(), 1);
    rig.request("user reset", json!({ "user": "1.2" })).unwrap();
    assert!(rig.show("users", Some("fast")).is_empty() && rig.instance.save().piece().is_empty());
    assert!(rig.drops().is_empty());
    assert_eq!(rig.held(), 29);
    rig.finish();
}

#[test]
fn a_user_moves_to_another_subport_with_what_waits() {
    let mut keys = keys(json!([{ "tags": "1.1-2", "profile": "fast", "subport": "narrow" }]), "8 kbit/s");
    keys["scheduler"]["subports"] =
        json!({ "narrow": { "tb_rate": "8 kbit/s", "tb_size": "124 B" }, "wide": { "tb_rate": "100 Mbit/s" } });
    let mut rig = Rig::new(keys.clone());
    for n in 0..30 {
        rig.send(0, frame((1, 1), 0, n, 100));
        rig.send(0, frame((1, 2), 0, n, 100));
    }
    rig.run(MS);
    assert_eq!((numbers(&rig.sent(1), 1), rig.held()), (vec![0], 59));
    let told = rig.request("user set", json!({ "user": "1.2", "subport": "wdie" })).unwrap_err();
    assert!(told.contains("did you mean \"wide\"?"), "{told}");
    rig.request("user set", json!({ "user": "1.2", "subport": "wide" })).unwrap();
    rig.run(MS);
    let sent = rig.sent(1);
    assert_eq!((numbers(&sent, 1).len(), numbers(&sent, 2)), (0, (0..30).collect()));
    let row = &rig.show("users", Some("1.2"))[0];
    assert_eq!((row["subport"].as_str(), row["profile"].as_str()), (Some("wide"), Some("fast")));
    assert_eq!(row["source"], "cli");
    let saved = rig.instance.save().piece();
    assert_eq!((saved.len(), saved[0].arguments.clone()), (1, json!({ "user": "1.2", "subport": "wide" })));
    // It stays through a reload, beside another profile, until it is taken back.
    rig.reload(keys);
    rig.request("user set", json!({ "user": "1.2", "profile": "slow" })).unwrap();
    let row = &rig.show("users", Some("1.2"))[0];
    assert_eq!((row["subport"].as_str(), row["profile"].as_str()), (Some("wide"), Some("slow")));
    rig.request("user reset", json!({ "user": "1.2" })).unwrap();
    assert_eq!(rig.show("users", Some("1.2"))[0]["subport"], "narrow");
    assert!(rig.drops().is_empty() && rig.instance.save().piece().is_empty());
    assert_eq!(rig.held(), 29);
    rig.finish();
}

#[test]
fn a_reload_keeps_what_waits() {
    let mut rig = waiting();
    // Another rate for the profile, a third user, and the second is gone: what it has waiting still goes.
    rig.reload(keys(json!([{ "tags": "1.1", "profile": "slow" }, { "tags": "1.3", "profile": "fast" }]), "100 Mbit/s"));
    // Whoever is gone goes by the time that was set before it went.
    rig.run(200 * MS);
    let sent = rig.sent(1);
    assert_eq!((numbers(&sent, 1), numbers(&sent, 2)), ((1..30).collect(), (1..30).collect()));
    rig.send(0, frame((1, 2), 0, 99, 100));
    rig.send(0, frame((1, 3), 0, 99, 100));
    rig.run(MS);
    assert_eq!(numbers(&rig.sent(1), 3), [99]);
    assert_eq!(rig.drops().into_iter().collect::<Vec<_>>(), [("qos.identify/unknown-user".to_owned(), 1)]);
    rig.finish();
}

#[test]
fn a_reload_that_is_wrong_changes_nothing() {
    let mut rig = waiting();
    let told = rig.refused(keys(json!([{ "tags": "1.1", "profile": "slwo" }]), "8 kbit/s"));
    assert_eq!(told, ["test.lua:1: qos.users[1].profile: there is no profile \"slwo\"; did you mean \"slow\"?"]);
    rig.run(MS);
    assert_eq!(rig.show("users", None).len(), 2);
    rig.finish();
}

#[test]
fn requests_that_are_wrong_say_why() {
    let rig = Rig::new(keys(two_users(), "8 kbit/s"));
    for (verb, arguments, words) in [
        ("user set", json!({ "user": "1.9", "profile": "fast" }), "there is no user 1.9"),
        ("user set", json!({ "user": "1.1", "profile": "fats" }), "did you mean \"fast\"?"),
        ("user set", json!({ "user": "1.1" }), "profile is missing"),
        ("user set", json!({ "user": "x", "profile": "fast" }), "\"x\" is not a user"),
        ("user reset", json!({ "user": 7 }), "there is no user 7"),
        ("user set", json!([{ "user": "1.1", "profile": "fast" }, { "user": "1.1", "profile": "no" }]), "entry 2: "),
        ("user drop", json!({ "user": "1.1" }), "there is no request"),
    ] {
        let told = rig.request(verb, arguments).unwrap_err();
        assert!(told.contains(words), "{told}");
    }
    // Of many, none was done where one was wrong.
    assert!(rig.show("users", Some("fast")).is_empty());
    assert_eq!(rig.show("schedulers", None)[0]["users"], 2);
    for filter in ["no-such", "1-2"] {
        assert!(rig.instance.show("users", Some(filter), 0).is_err());
    }
    rig.finish();
}
