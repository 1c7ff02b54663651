//! Subports below others: what they may send together, who is held by which of them, and how they are shown, moved and refused.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::*;
use serde_json::{Value, json};

/// Bytes of every frame here, with overhead.
const LENGTH: u64 = 124;

/// What a subport may save up.
const SIZE: u64 = 1240;

fn narrow(mbit: u64, more: Value) -> Value {
    let mut subport = json!({ "ceil": format!("{mbit} Mbit/s"), "tb_size": format!("{SIZE} B") });
    subport.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    subport
}

/// Users 1.1 in `east`, 1.2 in `west`, both below `city`, which is below `land`, and 1.3 in `land` itself; 1.4 is in `far`.
fn subports() -> Value {
    json!({
        "land": narrow(10, json!({})),
        "city": narrow(4, json!({ "parent": "land" })),
        "east": narrow(3, json!({ "parent": "city" })),
        "west": narrow(4, json!({ "parent": "city", "weight": 3 })),
        "far": narrow(2, json!({})),
    })
}

fn keys(subports: Value) -> Value {
    let user = |n: u16, subport: &str| json!({ "tags": format!("1.{n}"), "profile": "any", "subport": subport });
    let mut keys = json!({
        "users": [user(1, "east"), user(2, "west"), user(3, "land"), user(4, "far")],
        "scheduler": scheduler(json!({
            "any": { "tb_rate": "16 kbit/s", "ceil": "100 Mbit/s", "tb_size": "2 KiB", "classes": [{}, {}, {}, { "queue_size": 100 }] },
        })),
    });
    keys["scheduler"]["subports"] = subports;
    keys
}

struct World {
    rig: Rig,
    /// Packets of each user that were offered, and that were sent.
    offered: [u64; 5],
    sent: [u64; 5],
}

impl World {
    fn new(keys: Value) -> World {
        World { rig: Rig::new(keys), offered: [0; 5], sent: [0; 5] }
    }

    /// Lets so many milliseconds pass, while packets of these users always wait. How many bit/s each user sent, with overhead.
    fn run(&mut self, millis: u64, users: &[u16]) -> [f64; 5] {
        let before = self.sent;
        for _ in 0..millis {
            for user in users {
                let at = usize::from(*user);
                while self.offered[at] - self.sent[at] < 40 {
                    self.rig.send(0, frame((1, *user), 0, self.offered[at] as u32, 100));
                    self.offered[at] += 1;
                }
            }
            self.rig.run(MS);
            for frame in self.rig.sent(1) {
                self.sent[usize::from(inner(&frame))] += 1;
            }
        }
        std::array::from_fn(|n| ((self.sent[n] - before[n]) * LENGTH * 8) as f64 * 1e3 / millis as f64)
    }

    fn set(&self, arguments: Value) -> Result<Value, String> {
        self.rig.request("subport set", arguments)
    }

    fn names(&self, filter: Option<&str>) -> Vec<(String, u64)> {
        let row = |row: Value| (row["subport"].as_str().unwrap().to_owned(), row["level"].as_u64().unwrap());
        self.rig.show("subports", filter).into_iter().map(row).collect()
    }

    fn held_by(&self, user: &str) -> Value {
        self.rig.show("users", Some(user))[0]["held_by"].clone()
    }

    /// Nothing was lost: what does not wait was sent.
    fn finish(mut self) {
        assert!(self.rig.drops().is_empty());
        let waiting = self.offered.iter().sum::<u64>() - self.sent.iter().sum::<u64>();
        assert_eq!(self.rig.held(), waiting);
        self.rig.finish();
    }
}

/// That rates in Mbit/s are these, to one in a hundred.
fn assert_rates(found: [f64; 5], expected: [f64; 4]) {
    for (n, (found, expected)) in found.iter().skip(1).zip(expected).enumerate() {
        assert!((found / 1e6 - expected).abs() <= 0.01 * expected + 0.02, "user 1.{}: {found} of {expected}", n + 1);
    }
}

#[test]
fn levels_share_keep_their_ceilings_and_are_told() {
    let mut world = World::new(keys(subports()));
    world.run(100, &[1, 2, 3, 4]);
    // Of 10 Mbit/s in land, city may have 4, of which west has three parts of four.
    assert_rates(world.run(1_000, &[1, 2, 3, 4]), [1.0, 3.0, 6.0, 2.0]);
    assert_eq!((world.held_by("1.3"), world.held_by("1.4")), (json!("subport"), json!("subport")));
    let all = [("far", 1), ("land", 1), ("city", 2), ("east", 3), ("west", 3)];
    assert_eq!(world.names(None), all.map(|(name, level)| (name.to_owned(), level)));
    let city = [("city", 2), ("east", 3), ("west", 3)];
    assert_eq!(world.names(Some("city")), city.map(|(name, level)| (name.to_owned(), level)));
    let rows = world.rig.show("subports", Some("land"));
    let packets: Vec<u64> = rows.iter().map(|row| row["packets"].as_u64().unwrap()).collect();
    let [_, east, west, land, _] = world.sent;
    assert_eq!(packets, [land + east + west, east + west, east, west]);
    assert_eq!(rows.iter().map(|row| row["users"].as_u64().unwrap()).collect::<Vec<_>>(), [3, 2, 1, 1]);
    assert_eq!((&rows[0]["bytes"], &rows[0]["dropped"]), (&json!((land + east + west) * 100), &json!(0)));
    // Where land has more than they may have, the two in city are held by that; who is alone there, by its own subport.
    world.run(500, &[1, 2, 4]);
    assert_eq!((world.held_by("1.1"), world.held_by("1.2")), (json!("subport city"), json!("subport city")));
    world.run(200, &[1, 4]);
    assert_rates(world.run(1_000, &[1, 4]), [3.0, 0.0, 0.0, 2.0]);
    assert_eq!(world.held_by("1.1"), "subport");
    world.finish();
}

#[test]
fn the_rate_of_a_class_of_a_level_counts_for_all_below_it_and_no_longer_for_who_moves_away() {
    let mut world = World::new(keys(subports()));
    // All packets are of class 3. What may be sent of it in two milliseconds at 2 Mbit/s is less than what land may save up.
    world.set(json!({ "subport": "land", "classes": "3=2 Mbit/s,2 ms" })).unwrap();
    world.run(100, &[1, 2, 3, 4]);
    let sent = world.run(1_000, &[1, 2, 3, 4]);
    let land: f64 = sent[1..4].iter().sum();
    assert!((1.98e6..=2.02e6).contains(&land) && (1.98e6..=2.02e6).contains(&sent[4]), "{sent:?}");
    assert_eq!(
        (world.held_by("1.1"), world.held_by("1.3")),
        (json!("class 3 of subport land"), json!("class 3 of subport"))
    );
    // East moves below far, with what waits and has stood aside: nothing of land holds it any longer.
    world.set(json!({ "subport": "land", "classes": "3=8 kbit/s" })).unwrap();
    world.run(300, &[1, 2, 3, 4]);
    world.set(json!({ "subport": "east", "parent": "far" })).unwrap();
    world.run(20, &[1, 2, 3, 4]);
    let sent = world.run(1_000, &[1, 2, 3, 4]);
    assert!((0.99e6..=1.01e6).contains(&sent[1]) && (0.99e6..=1.01e6).contains(&sent[4]), "{sent:?}");
    assert!(sent[2] + sent[3] <= 10_000.0, "{sent:?}");
    world.finish();
}

#[test]
fn a_level_that_changes_or_moves_takes_with_it_what_waits() {
    let mut world = World::new(keys(subports()));
    world.run(100, &[1, 2, 3, 4]);
    world.set(json!({ "subport": "city", "ceil": "2 Mbit/s" })).unwrap();
    world.run(100, &[1, 2, 3, 4]);
    assert_rates(world.run(1_000, &[1, 2, 3, 4]), [0.5, 1.5, 8.0, 2.0]);
    world.set(json!({ "subport": "west", "weight": 1 })).unwrap();
    assert_rates(world.run(1_000, &[1, 2, 3, 4]), [1.0, 1.0, 8.0, 2.0]);
    // East moves below far, and city out of land, with all that waits.
    world.set(json!([{ "subport": "east", "parent": "far" }, { "subport": "city", "parent": "none" }])).unwrap();
    world.run(100, &[1, 2, 3, 4]);
    assert_rates(world.run(1_000, &[1, 2, 3, 4]), [1.0, 2.0, 10.0, 1.0]);
    assert_eq!(world.held_by("1.1"), "subport far");
    let rows = world.rig.show("subports", Some("city"));
    assert_eq!((&rows[0]["parent"], &rows[0]["source"], &rows[0]["level"]), (&Value::Null, &json!("cli"), &json!(1)));
    // It stays so through a reload, and is saved: what is saved, put where the configuration has it, is the same.
    world.rig.reload(keys(subports()));
    assert_rates(world.run(1_000, &[1, 2, 3, 4]), [1.0, 2.0, 10.0, 1.0]);
    let mut same = subports();
    for saved in world.rig.instance.save().piece() {
        same[saved.under.unwrap()] = saved.entry.unwrap();
    }
    let again = World::new(keys(same));
    assert_eq!(again.names(None), world.names(None));
    again.finish();
    for subport in ["east", "city", "west"] {
        world.rig.request("subport reset", json!({ "subport": subport })).unwrap();
    }
    world.run(100, &[1, 2, 3, 4]);
    assert_rates(world.run(1_000, &[1, 2, 3, 4]), [1.0, 3.0, 6.0, 2.0]);
    world.finish();
}

#[test]
fn a_thousand_moves_a_second_lose_nothing() {
    let mut world = World::new(keys(subports()));
    world.run(100, &[1, 2, 3, 4]);
    let mut all = [0.0; 5];
    for n in 0..1_000 {
        let parent = ["far", "land", "none", "city"][n % 4];
        world.set(json!({ "subport": "east", "parent": parent, "ceil": if n % 8 == 0 { "1 Mbit/s" } else { "3 Mbit/s" } })).unwrap();
        let subport = ["land", "west", "far"][n % 3];
        world.rig.request("user set", json!({ "user": "1.3", "subport": subport })).unwrap();
        let went = world.run(1, &[1, 2, 3, 4]);
        all.iter_mut().zip(went).for_each(|(all, went)| *all += went / 1e3);
    }
    // No more than east, west, land and far may; and what is always there, goes.
    assert!(all.iter().sum::<f64>() <= 15.2e6 && all[1] > 0.5e6 && all[2] > 0.5e6, "{all:?}");
    world.finish();
}

#[test]
fn what_is_wrong_is_told_with_what_to_do() {
    let mut wrong = subports();
    wrong["land"]["parent"] = json!("east");
    wrong["far"]["parent"] = json!("lnd");
    let told = messages(&config(keys(wrong)), None).join("\n");
    for words in [
        "subports.land.parent: it would be below itself (land below east below city below land)",
        "subports.far.parent: no subport is called \"lnd\"; declare it in subports, or name one of city, east, land, west",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let mut wrong = subports();
    wrong["east"]["tb_rate"] = json!("3 Mbit/s");
    wrong["west"]["tb_rate"] = json!("2 Mbit/s");
    let told = messages(&config(keys(wrong)), None).join("\n");
    assert!(told.contains("subports.city.ceil: 4 Mbit/s is less than what is guaranteed to those below it"), "{told}");
    let world = World::new(keys(subports()));
    let before = world.rig.show("subports", None);
    for (arguments, words) in [
        (json!({ "subport": "east", "parent": "est" }), "parent: no subport is called \"est\""),
        (
            json!({ "subport": "land", "parent": "west" }),
            "parent: it would be below itself (land below west below city below land)",
        ),
        (
            json!({ "subport": "far", "parent": "east" }),
            "parent: far below east below city below land are more than 3 levels",
        ),
        (
            json!({ "subport": "west", "tb_rate": "3 Mbit/s", "parent": "far" }),
            "far.ceil: 2 Mbit/s is less than what is guaranteed to those below",
        ),
    ] {
        let told = world.set(arguments.clone()).unwrap_err();
        assert!(told.contains(words), "{arguments}: {told}");
    }
    assert_eq!(world.rig.show("subports", None), before);
    world.finish();
    // Where nothing was below anything, nothing comes to be.
    let flat = World::new(keys(json!({ "east": {}, "west": {}, "land": {}, "far": {} })));
    let told = flat.set(json!({ "subport": "east", "parent": "far" })).unwrap_err();
    assert!(told.contains("made for one level") && told.contains("weir reload"), "{told}");
    flat.finish();
}

#[test]
fn a_subport_comes_is_used_and_goes() {
    let mut world = World::new(keys(subports()));
    world.run(100, &[1, 2, 3, 4]);
    world
        .rig
        .request(
            "subport add",
            json!({ "subport": "new", "parent": "far", "ceil": "1 Mbit/s", "tb_size": "1240 B", "weight": 2 }),
        )
        .unwrap();
    world.rig.request("user set", json!({ "user": "1.3", "subport": "new" })).unwrap();
    world.run(100, &[1, 2, 3, 4]);
    // Of 2 Mbit/s in far, new has no more than its ceiling, with what waited.
    assert_rates(world.run(1_000, &[1, 2, 3, 4]), [1.0, 3.0, 1.0, 1.0]);
    let rows = world.rig.show("subports", Some("new"));
    assert_eq!(
        (&rows[0]["parent"], &rows[0]["source"], &rows[0]["users"], &rows[0]["level"]),
        (&json!("far"), &json!("cli"), &json!(1), &json!(2))
    );
    for (verb, arguments, words) in [
        (
            "subport add",
            json!({ "subport": "new" }),
            "there is a subport \"new\" already: `weir subport set new` changes it",
        ),
        ("subport add", json!({ "subport": "more", "parent": "west" }), "more than 3 levels"),
        (
            "subport add",
            json!({ "subport": "more", "tb_rate": "2 Mbit/s", "ceil": "1 Mbit/s" }),
            "ceil: 1 Mbit/s is less than tb_rate",
        ),
        ("subport del", json!({ "subport": "new" }), "user 1.3 is in subport \"new\", and 0 others: move them first"),
        ("subport del", json!({ "subport": "east" }), "subport \"east\" is in the configuration"),
        ("subport del", json!({ "subport": "nw" }), "there is no subport \"nw\"; did you mean \"new\"?"),
        ("subport del", json!({ "subport": "" }), "there is no subport \"\""),
        ("subport reset", json!({ "subport": "new" }), "`weir subport del new` takes it away"),
    ] {
        let told = world.rig.request(verb, arguments.clone()).unwrap_err();
        assert!(told.contains(words), "{arguments}: {told}");
    }
    // It stays through a reload, with its user, and what is saved says it again.
    world.rig.reload(keys(subports()));
    assert_rates(world.run(1_000, &[1, 2, 3, 4]), [1.0, 3.0, 1.0, 1.0]);
    let mut rows = world.rig.instance.save();
    let mut saved = std::iter::from_fn(|| Some(rows.piece()).filter(|piece| !piece.is_empty())).flatten();
    let added = saved.find(|saved| saved.verb == "subport add").unwrap();
    let again = World::new(keys(subports()));
    again.rig.request("subport add", added.arguments.clone()).unwrap();
    let configured = World::new(keys({
        let mut all = subports();
        all["new"] = added.entry.clone().unwrap();
        all
    }));
    assert_eq!(again.names(None), world.names(None));
    assert_eq!(configured.names(None), world.names(None));
    again.finish();
    configured.finish();
    // One with another below it stays; then both go.
    world.rig.request("subport add", json!({ "subport": "newer", "parent": "new" })).unwrap();
    world.rig.request("user set", json!({ "user": "1.3", "subport": "newer" })).unwrap();
    let told = world.rig.request("subport del", json!({ "subport": "new" })).unwrap_err();
    assert!(told.contains("subport \"newer\" is below \"new\": move it first"), "{told}");
    world.run(100, &[3]);
    assert_rates(world.run(1_000, &[3]), [0.0, 0.0, 1.0, 0.0]);
    assert_eq!(world.held_by("1.3"), "subport new");
    world.rig.request("user reset", json!({ "user": "1.3" })).unwrap();
    // All of a list, or none: newer would go, but east stays.
    world.rig.request("subport del", json!([{ "subport": "newer" }, { "subport": "east" }])).unwrap_err();
    assert_eq!(world.names(Some("new")).len(), 2);
    world.rig.request("subport del", json!([{ "subport": "newer" }, { "subport": "new" }])).unwrap();
    assert_eq!(world.names(None).len(), 5);
    world.run(100, &[1, 2, 3, 4]);
    assert_rates(world.run(1_000, &[1, 2, 3, 4]), [1.0, 3.0, 6.0, 2.0]);
    world.finish();
}

#[test]
fn there_is_room_for_so_many_and_they_survive_a_thousand_comings_and_goings() {
    let mut with_room = keys(subports());
    with_room["scheduler"]["spare_subports"] = json!(2);
    let mut world = World::new(with_room);
    world.run(100, &[1, 2, 3, 4]);
    for n in 0..500 {
        let (name, parent) = (format!("s{n}"), ["land", "city", "far", "none"][n % 4]);
        let arguments = json!({ "subport": name, "parent": parent, "ceil": "1 Mbit/s", "tb_rate": "100 kbit/s" });
        world.rig.request("subport add", arguments).unwrap();
        world.rig.request("user set", json!({ "user": "1.3", "subport": name })).unwrap();
        if n > 0 {
            world.rig.request("subport del", json!({ "subport": format!("s{}", n - 1) })).unwrap();
        }
        world.run(1, &[1, 2, 3, 4]);
    }
    world.rig.request("subport add", json!({ "subport": "last" })).unwrap();
    let told = world.rig.request("subport add", json!({ "subport": "none left" })).unwrap_err();
    assert!(
        told.contains("there are 7 subports, for which there is room") && told.contains("spare_subports"),
        "{told}"
    );
    world.run(100, &[1, 2, 3, 4]);
    world.finish();
    let mut nameless = keys(json!({}));
    nameless["users"] = json!([{ "tags": "1.1", "profile": "any" }]);
    let nameless = World::new(nameless);
    let told = nameless.rig.request("subport add", json!({ "subport": "first" })).unwrap_err();
    assert!(told.contains("no subport is configured"), "{told}");
    nameless.finish();
}

#[test]
fn an_old_parent_that_the_configuration_no_longer_allows_is_forgotten() {
    let world = World::new(keys(subports()));
    world.set(json!({ "subport": "city", "parent": "none" })).unwrap();
    world.set(json!({ "subport": "land", "parent": "city", "weight": 7 })).unwrap();
    // City is below land in the configuration: when that counts again, land is where it was, with the weight that it was given.
    let told = world.rig.request("subport reset", json!({ "subport": "city" })).unwrap_err();
    assert!(told.contains("it would be below itself"), "{told}");
    world.rig.request("subport reset", json!({ "subport": "land" })).unwrap();
    world.rig.request("subport reset", json!({ "subport": "city" })).unwrap();
    assert_eq!(world.names(None).len(), 5);
    world.finish();
}
