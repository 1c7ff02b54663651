//! Rates of subports that change while packets wait: by the definition, bytes over a window.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::*;
use serde_json::{Value, json};

/// Bytes of every frame here, with overhead.
const LENGTH: u64 = 124;

/// What a subport may save up.
const SIZE: u64 = 1240;

/// Users 1.1 and 1.2, who may send more than their subport.
fn keys(narrow: Value) -> Value {
    let mut keys = json!({
        "users": [{ "tags": "1.1-2", "profile": "fast", "subport": "narrow" }],
        "scheduler": scheduler(json!({
            "fast": { "tb_rate": "100 Mbit/s", "tb_size": "2 KiB", "classes": [{}, {}, {}, { "queue_size": 1000 }] },
        })),
    });
    keys["scheduler"]["subports"] = json!({ "narrow": narrow, "wide": {} });
    keys
}

fn narrow() -> Value {
    json!({ "tb_rate": "1 Mbit/s", "tb_size": SIZE.to_string() + " B" })
}

struct World {
    rig: Rig,
    offered: u64,
    sent: u64,
}

impl World {
    fn new(keys: Value) -> World {
        World { rig: Rig::new(keys), offered: 0, sent: 0 }
    }

    /// Lets so many milliseconds pass, while packets always wait. How many bytes went, with overhead.
    fn run(&mut self, millis: u64) -> u64 {
        let before = self.sent;
        for _ in 0..millis {
            while self.offered - self.sent < 100 {
                self.rig.send(0, frame((1, 1 + self.offered as u16 % 2), 0, self.offered as u32, 100));
                self.offered += 1;
            }
            self.rig.run(MS);
            self.sent += self.rig.sent(1).len() as u64;
        }
        (self.sent - before) * LENGTH
    }

    fn set(&self, fields: Value) {
        let mut arguments = fields;
        arguments["subport"] = json!("narrow");
        assert_eq!(self.rig.request("subport set", arguments), Ok(json!({ "changed": 1 })));
    }

    fn row(&self) -> Value {
        self.rig.show("subports", Some("narrow")).remove(0)
    }

    /// Nothing was lost: what does not wait was sent.
    fn finish(mut self) {
        assert!(self.rig.drops().is_empty());
        assert_eq!(self.rig.held(), self.offered - self.sent);
        self.rig.finish();
    }
}

/// That in so many milliseconds at so many bit/s so many bytes went: no less than the definition says but for two frames, and no more than that and what was saved up.
fn assert_went(bytes: u64, millis: u64, rate: u64) {
    let due = rate * millis / 8_000;
    assert!((due - 2 * LENGTH..=due + SIZE).contains(&bytes), "{bytes} of {due}");
}

#[test]
fn a_subport_goes_by_its_new_rate_with_what_waits() {
    let mut world = World::new(keys(narrow()));
    assert_went(world.run(100), 100, 1_000_000);
    world.set(json!({ "tb_rate": "8 Mbit/s" }));
    assert_went(world.run(100), 100, 8_000_000);
    let row = world.row();
    assert_eq!((&row["tb_rate"], &row["source"], &row["users"]), (&json!("8 Mbit/s"), &json!("cli"), &json!(2)));
    // A ceiling counts in place of the rate; none does where the rate is gone, too: then it is what the users may.
    world.set(json!({ "tb_rate": "none", "ceil": "2 Mbit/s" }));
    assert_went(world.run(100), 100, 2_000_000);
    world.set(json!({ "ceil": "none" }));
    assert!(world.run(10) > 10 * 100 * LENGTH / 2);
    world.set(json!({ "ceil": "2 Mbit/s" }));
    assert_went(world.run(100), 100, 2_000_000);
    world.rig.request("subport reset", json!({ "subport": "narrow" })).unwrap();
    assert_went(world.run(100), 100, 1_000_000);
    assert_eq!(world.row()["source"], "config");
    world.finish();
}

#[test]
fn a_class_goes_by_its_new_rate_with_what_waits() {
    // All packets are of class 3, of which nothing is said at first.
    let mut world = World::new(keys(json!({ "ceil": "8 Mbit/s", "tb_size": SIZE.to_string() + " B" })));
    assert_went(world.run(100), 100, 8_000_000);
    // In 2480 microseconds at 4 Mbit/s are as many bytes as the subport may save up.
    world.set(json!({ "classes": ["3=4 Mbit/s,2480 us", "0=1 Mbit/s"] }));
    assert_went(world.run(100), 100, 4_000_000);
    assert_eq!(world.row()["classes"], json!({ "0": "1 Mbit/s", "3": "4 Mbit/s" }));
    assert_eq!(world.rig.show("users", Some("1.1"))[0]["held_by"], "class 3 of subport");
    // Its period stays, and so does what the other class has; what the subport may send counts, too.
    world.set(json!({ "classes": "3=2 Mbit/s" }));
    assert_went(world.run(100), 100, 2_000_000);
    world.set(json!({ "ceil": "1 Mbit/s" }));
    assert_went(world.run(100), 100, 1_000_000);
    assert_eq!(world.row()["classes"], json!({ "0": "1 Mbit/s", "3": "2 Mbit/s" }));
    world.set(json!({ "classes": "3=none", "ceil": "8 Mbit/s" }));
    assert_went(world.run(100), 100, 8_000_000);
    world.set(json!({ "classes": ["none"] }));
    assert_eq!(world.row()["classes"], json!({}));
    world.set(json!({ "classes": "3=4 Mbit/s,2480 us" }));
    world.rig.request("subport reset", json!({ "subport": "narrow" })).unwrap();
    assert_went(world.run(100), 100, 8_000_000);
    world.finish();
}

#[test]
fn a_thousand_changes_of_a_class_a_second_give_nobody_anything() {
    let mut world =
        World::new(keys(json!({ "classes": [{}, {}, {}, { "tc_rate": "5 Mbit/s", "tc_period": "1 ms" }] })));
    let mut went = 0;
    for n in 0..1_000 {
        world.set(json!({ "classes": if n % 2 == 0 { "3=15 Mbit/s,660 us" } else { "3=5 Mbit/s,1980 us" } }));
        went += world.run(1);
    }
    assert_went(went, 1_000, 10_000_000);
    world.finish();
}

#[test]
fn what_classes_were_given_is_saved_and_counts_for_subports_that_are_added() {
    let configured = json!({ "ceil": "8 Mbit/s", "classes": [{ "tc_rate": "1 Mbit/s" }] });
    let mut world = World::new(keys(configured.clone()));
    world.set(json!({ "classes": ["0=none", "3=4 Mbit/s,5 ms"] }));
    world.rig.reload(keys(configured.clone()));
    assert_eq!(world.row()["classes"], json!({ "3": "4 Mbit/s" }));
    let saved = world.rig.instance.save().piece().remove(0);
    assert_eq!(saved.arguments["classes"], json!(["0=none", "1=none", "2=none", "3=4 Mbit/s,5 ms"]));
    let again = Rig::new(keys(saved.entry.clone().unwrap()));
    assert_eq!(again.show("subports", Some("narrow"))[0]["classes"], json!({ "3": "4 Mbit/s" }));
    let third = Rig::new(keys(json!({ "classes": [{ "tc_rate": "9 Mbit/s" }, { "tc_rate": "9 Mbit/s" }] })));
    third.request(&saved.verb, saved.arguments.clone()).unwrap();
    assert_eq!(third.show("subports", Some("narrow"))[0]["classes"], json!({ "3": "4 Mbit/s" }));
    // One that is added, and to which users move, has them from the start; saved and said again, it is the same.
    let added = json!({ "subport": "new", "classes": ["3=2 Mbit/s,4960 us"] });
    third.request("subport add", added).unwrap();
    let pieces = third.instance.save().piece();
    let saved = pieces.iter().find(|saved| saved.verb == "subport add").unwrap();
    again.request(&saved.verb, saved.arguments.clone()).unwrap();
    for rig in [again, third] {
        assert_eq!(rig.show("subports", Some("new"))[0]["classes"], json!({ "3": "2 Mbit/s" }));
        rig.finish();
    }
    world.rig.request("subport add", json!({ "subport": "new", "classes": ["3=2 Mbit/s,4960 us"] })).unwrap();
    for user in ["1.1", "1.2"] {
        world.rig.request("user set", json!({ "user": user, "subport": "new" })).unwrap();
    }
    assert_went(world.run(100), 100, 2_000_000);
    world.finish();
}

#[test]
fn a_thousand_changes_a_second_give_nobody_anything() {
    let mut world = World::new(keys(narrow()));
    let mut went = 0;
    for n in 0..1_000 {
        let rate = if n % 2 == 0 { "15 Mbit/s" } else { "5 Mbit/s" };
        world.set(json!({ "tb_rate": rate }));
        went += world.run(1);
    }
    assert_went(went, 1_000, 10_000_000);
    world.finish();
}

#[test]
fn users_whose_profile_changes_a_thousand_times_a_second_gain_nothing() {
    let mut keys = keys(json!({}));
    keys["scheduler"]["profiles"]["slow"] = json!({ "tb_rate": "5 Mbit/s", "tb_size": SIZE.to_string() + " B",
                                                    "classes": [{}, {}, {}, { "queue_size": 1000 }] });
    keys["scheduler"]["profiles"]["fast"]["tb_rate"] = json!("15 Mbit/s");
    keys["scheduler"]["profiles"]["fast"]["tb_size"] = json!(SIZE.to_string() + " B");
    let mut world = World::new(keys);
    let mut went = world.run(1);
    for n in 0..1_000 {
        let profile = if n % 2 == 0 { "fast" } else { "slow" };
        let change = |user: &str| json!({ "user": user, "profile": profile });
        world.rig.request("user set", json!([change("1.1"), change("1.2")])).unwrap();
        went += world.run(1);
    }
    // Two users, each with what it has saved up.
    let due = 2 * 10_000_000 / 8;
    assert!((due - 4 * LENGTH..=due + 2 * SIZE + LENGTH * 200).contains(&went), "{went} of {due}");
    world.finish();
}

#[test]
fn what_a_subport_was_given_stays_through_reloads_and_is_saved() {
    let mut world = World::new(keys(narrow()));
    world.set(json!({ "tb_rate": "8 Mbit/s", "ceil": "9 Mbit/s", "weight": 7 }));
    // The configuration says something else: what was given counts, until it is taken back.
    let mut other = keys(narrow());
    other["scheduler"]["subports"]["narrow"]["tb_rate"] = json!("3 Mbit/s");
    world.rig.reload(other);
    assert_went(world.run(100), 100, 9_000_000);
    let row = world.row();
    assert_eq!((&row["tb_rate"], &row["weight"], &row["source"]), (&json!("8 Mbit/s"), &json!(7), &json!("cli")));
    // What is saved, put where the configuration has it, is the same without a request.
    let saved = world.rig.instance.save().piece().remove(0);
    assert_eq!(
        (saved.verb.as_str(), saved.key.as_str(), saved.under.as_deref()),
        ("subport set", "scheduler.subports", Some("narrow"))
    );
    let again = Rig::new(keys(saved.entry.clone().unwrap()));
    let same = |mut row: Value| {
        ["source", "packets", "bytes"].into_iter().for_each(|word| row[word] = Value::Null);
        row
    };
    assert_eq!(same(again.show("subports", Some("narrow")).remove(0)), same(row.clone()));
    // And so is the request, said again where the configuration is another.
    let third = Rig::new(keys(json!({ "ceil": "1 Mbit/s", "tb_size": "9 KiB" })));
    third.request(&saved.verb, saved.arguments.clone()).unwrap();
    assert_eq!(same(third.show("subports", Some("narrow")).remove(0)), same(world.row()));
    again.finish();
    third.finish();
    world.rig.request("subport reset", json!({ "subport": "narrow" })).unwrap();
    assert_went(world.run(100), 100, 3_000_000);
    assert!(world.rig.instance.save().piece().is_empty());
    world.finish();
}

#[test]
fn requests_that_are_wrong_say_why_and_change_nothing() {
    let rig = Rig::new(keys(narrow()));
    let before = rig.show("subports", None);
    for (verb, arguments, words) in [
        (
            "subport set",
            json!({ "subport": "narow", "weight": 2 }),
            "there is no subport \"narow\"; did you mean \"narrow\"?",
        ),
        ("subport set", json!({ "weight": 2 }), "subport is missing"),
        ("subport set", json!({ "subport": "narrow" }), "give one of tb_rate, ceil, tb_size, weight"),
        ("subport set", json!({ "subport": "narrow", "ceil": "10 apples" }), "ceil: \"10 apples\""),
        (
            "subport set",
            json!({ "subport": "narrow", "ceil": "7 kbit/s" }),
            "out of range; expected a rate from 8 kbit/s to 1 Tbit/s",
        ),
        ("subport set", json!({ "subport": "narrow", "weight": 101 }), "100"),
        (
            "subport set",
            json!({ "subport": "narrow", "ceil": "900 kbit/s" }),
            "ceil: 900 kbit/s is less than tb_rate, 1 Mbit/s",
        ),
        (
            "subport set",
            json!({ "subport": "narrow", "classes": "0:1 Mbit/s" }),
            "classes: \"0:1 Mbit/s\" is not a class and its rate",
        ),
        (
            "subport set",
            json!({ "subport": "narrow", "classes": ["0=1 apples/s"] }),
            "has a rate, \"1 apples/s\", that has the unit",
        ),
        (
            "subport set",
            json!({ "subport": "narrow", "classes": ["0=1 kbit/s"] }),
            "has a rate out of range: 1 kbit/s; give one from 8 kbit/s to 1 Tbit/s",
        ),
        (
            "subport set",
            json!({ "subport": "narrow", "classes": ["4=1 Mbit/s"] }),
            "classes: the scheduler has no class 4: name one from 0 to 3",
        ),
        (
            "subport set",
            json!({ "subport": "narrow", "classes": ["1=1 Mbit/s", "1=none"] }),
            "classes: class 1 is given twice",
        ),
        ("subport reset", json!({ "subport": "other" }), "there is no subport"),
        // Of many, none is carried out where one is wrong.
        ("subport set", json!([{ "subport": "narrow", "weight": 9 }, { "subport": "wide", "weight": 0 }]), "entry 2: "),
    ] {
        let told = rig.request(verb, arguments.clone()).unwrap_err();
        assert!(told.contains(words), "{arguments}: {told}");
    }
    assert_eq!(rig.show("subports", None), before);
    let Err(told) = rig.instance.show("subports", Some("wid"), 0) else { panic!("there is no such subport") };
    assert!(told.0.contains("did you mean \"wide\"?"), "{}", told.0);
    rig.finish();
}

/// Users 1.1 and 1.2 in a subport of 8 Mbit/s, of whom one sends in class 0, the other in class 3.
fn two_classes(classes: Value) -> Value {
    let mut keys = keys(json!({ "ceil": "8 Mbit/s", "tb_size": SIZE.to_string() + " B", "classes": classes }));
    keys["classify"] = json!({ "dscp": { "ef": "0" } });
    keys
}

#[test]
fn classes_are_guaranteed_what_is_said_while_others_take_all_they_can() {
    let mut rig = Rig::new(two_classes(json!([{}, {}, {}, { "tc_guarantee": "2 Mbit/s", "tc_rate": "5 Mbit/s" }])));
    let mut waiting = [0_u64; 2];
    // Frames that went in a second, of class 0 and class 3, of which some always wait.
    let mut second = |rig: &mut Rig, busy: [bool; 2]| {
        let mut sent = [0_u64; 2];
        for _ in 0..1_000 {
            for (n, (user, dscp)) in [(1, 46), (2, 0)].into_iter().enumerate() {
                while busy[n] && waiting[n] < 50 {
                    rig.send(0, frame((1, user), dscp, 0, 100));
                    waiting[n] += 1;
                }
            }
            rig.run(MS);
            for frame in rig.sent(1) {
                let n = usize::from(inner(&frame) == 2);
                (sent[n], waiting[n]) = (sent[n] + 1, waiting[n] - 1);
            }
        }
        sent.map(|frames| frames as f64 * LENGTH as f64 * 8.0 / 1e6)
    };
    let assert_mbits = |found: [f64; 2], expected: [f64; 2]| {
        let fits = (0..2).all(|n| (found[n] - expected[n]).abs() < 0.01 * expected[n].max(4.0));
        assert!(fits, "{found:?} Mbit/s, not {expected:?}");
    };
    assert_mbits(second(&mut rig, [true, true]), [6.0, 2.0]);
    assert_eq!(rig.show("subports", Some("narrow"))[0]["classes"], json!({ "3": "2 Mbit/s..5 Mbit/s" }));
    // By a request, and by a reload, with what waits.
    rig.request("subport set", json!({ "subport": "narrow", "classes": ["3=3 Mbit/s..none"] })).unwrap();
    assert_mbits(second(&mut rig, [true, true]), [5.0, 3.0]);
    rig.request("subport reset", json!({ "subport": "narrow" })).unwrap();
    rig.reload(two_classes(json!([{}, {}, {}, { "tc_guarantee": "1 Mbit/s" }])));
    assert_mbits(second(&mut rig, [true, true]), [7.0, 1.0]);
    rig.reload(two_classes(json!([])));
    assert_mbits(second(&mut rig, [true, true]), [8.0, 0.0]);
    // Nothing of it is lost where nobody wants it, and none is sent beyond a rate.
    rig.reload(two_classes(json!([{}, {}, {}, { "tc_guarantee": "2 Mbit/s", "tc_rate": "5 Mbit/s" }])));
    second(&mut rig, [false, true]);
    assert_mbits(second(&mut rig, [false, true]), [0.0, 5.0]);
    rig.run(SECOND);
    assert!(rig.drops().is_empty());
    rig.finish();
}

#[test]
fn what_classes_are_guaranteed_is_saved() {
    let rig = Rig::new(two_classes(json!([{ "tc_rate": "1 Mbit/s" }])));
    let said = json!(["0=none", "1=500 kbit/s..1 Mbit/s", "3=2 Mbit/s..none,5 ms"]);
    rig.request("subport set", json!({ "subport": "narrow", "classes": said })).unwrap();
    let shown = json!({ "1": "500 kbit/s..1 Mbit/s", "3": "2 Mbit/s..none" });
    let saved = rig.instance.save().piece().remove(0);
    let whole = json!(["0=none", "1=500 kbit/s..1 Mbit/s,10 ms", "2=none", "3=2 Mbit/s..none,5 ms"]);
    assert_eq!(saved.arguments["classes"], whole);
    let (again, third) = (Rig::new(keys(saved.entry.clone().unwrap())), Rig::new(keys(narrow())));
    third.request("subport set", json!({ "subport": "narrow", "tb_rate": "9 Mbit/s" })).unwrap();
    third.request(&saved.verb, saved.arguments.clone()).unwrap();
    for rig in [rig, again, third] {
        assert_eq!(rig.show("subports", Some("narrow"))[0]["classes"], shown);
        rig.finish();
    }
}

#[test]
fn no_more_is_guaranteed_to_classes_of_a_subport_than_it_may_send() {
    let told = |subports: Value| {
        let mut keys = keys(json!({}));
        keys["scheduler"]["subports"] = subports;
        messages(&config(keys), None)
    };
    let class = |rate: &str| json!({ "tc_guarantee": rate });
    let fine = json!({ "narrow": { "ceil": "8 Mbit/s", "classes": [class("5 Mbit/s"), {}, class("3 Mbit/s")] } });
    assert_eq!(told(fine), Vec::<String>::new());
    for (narrow, words) in [
        (
            json!({ "ceil": "8 Mbit/s", "classes": [class("5 Mbit/s"), {}, class("4 Mbit/s")] }),
            "subports.narrow.ceil: 8 Mbit/s is less than what is guaranteed to its classes together, 9 Mbit/s: raise it, or lower their tc_guarantee",
        ),
        (
            json!({ "tb_rate": "8 Mbit/s", "classes": [class("9 Mbit/s")] }),
            "subports.narrow.tb_rate: 8 Mbit/s is less than what is guaranteed to its classes together",
        ),
        (
            json!({ "classes": [{ "tc_guarantee": "2 Mbit/s", "tc_rate": "1 Mbit/s" }] }),
            "subports.narrow.classes[1].tc_guarantee: 2 Mbit/s is more than the class may send, its tc_rate of 1 Mbit/s: lower it, or raise tc_rate",
        ),
    ] {
        let told = told(json!({ "narrow": narrow }));
        assert!(told.len() == 1 && told[0].contains(words), "{told:?}");
    }
    let tree = json!({ "narrow": { "classes": [{}, class("1 Mbit/s")] }, "below": { "parent": "narrow" } });
    assert_eq!(told(tree), Vec::<String>::new());
    let tree = json!({
        "narrow": { "classes": [{}, class("2 Mbit/s")] },
        "below": { "parent": "narrow" },
        "lowest": { "parent": "below", "classes": [{}, class("1 Mbit/s")] },
    });
    let words = "subports.below.classes[2].tc_guarantee: it is missing, and those right below it have one (lowest), 1 Mbit/s together, which is part of this: give it so much or more, or take theirs away";
    let found = told(tree);
    assert!(found.len() == 1 && found[0].contains(words), "{found:?}");
    // The same at run time: of what it is to have, and of what comes to be below it.
    let mut keys = keys(json!({ "ceil": "8 Mbit/s", "classes": [class("1 Mbit/s")] }));
    keys["scheduler"]["subports"]["wide"] = json!({});
    keys["scheduler"]["subports"]["wider"] = json!({ "parent": "wide", "classes": [class("2 Mbit/s")] });
    let rig = Rig::new(keys);
    for (arguments, words) in [
        (
            json!({ "subport": "narrow", "classes": ["0=9 Mbit/s..none"] }),
            "ceil: 8 Mbit/s is less than what is guaranteed to its classes together, 9 Mbit/s",
        ),
        (json!({ "subport": "narrow", "classes": ["0=2 Mbit/s..1 Mbit/s"] }), "its tc_rate of 1 Mbit/s"),
        (json!({ "subport": "narrow", "classes": ["0=1 kbit/s..none"] }), "has a guarantee out of range: 1 kbit/s"),
        (
            json!({ "subport": "wide", "classes": ["0=1 Mbit/s..none"] }),
            "classes[1].tc_guarantee: 1 Mbit/s is less than what is guaranteed to the class right below it together (wider), 2 Mbit/s",
        ),
        (
            json!({ "subport": "wider", "parent": "narrow" }),
            "narrow.classes[1].tc_guarantee: 1 Mbit/s is less than what is guaranteed to the class right below it together (wider), 2 Mbit/s",
        ),
    ] {
        let told = rig.request("subport set", arguments.clone()).unwrap_err();
        assert!(told.contains(words), "{arguments}: {told}");
    }
    rig.finish();
}
