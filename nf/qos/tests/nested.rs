//! What subports guarantee classes where others are below them: configured, changed while packets wait, shown, saved, and refused where it does not fit.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::*;
use serde_json::{Value, json};

/// Bytes of every frame here, with overhead.
const LENGTH: u64 = 124;

/// A subport of 10 Mbit/s that guarantees class 3 so many.
fn subport(parent: Option<&str>, guarantee: Option<&str>) -> Value {
    let class = guarantee.map_or_else(|| json!({}), |rate| json!({ "tc_guarantee": rate }));
    let mut subport = json!({ "ceil": "10 Mbit/s", "tb_size": "1240 B", "classes": [{}, {}, {}, class] });
    parent.into_iter().for_each(|parent| subport["parent"] = parent.into());
    subport
}

/// User 1.1 in `east`, which is below `city`, 1.2 in `city`, and 1.3 in `land`, which both are below; any of them may send more than `land` may.
fn keys(subports: Value) -> Value {
    let user = |n: u16, subport: &str| json!({ "tags": format!("1.{n}"), "profile": "any", "subport": subport });
    let mut keys = json!({
        "users": [user(1, "east"), user(2, "city"), user(3, "land")],
        "classify": { "dscp": { "ef": "0" } },
        "scheduler": scheduler(json!({
            "any": { "tb_rate": "20 Mbit/s", "tb_size": "2 KiB", "classes": [{ "queue_size": 100 }, {}, {}, { "queue_size": 100 }] },
        })),
    });
    keys["scheduler"]["subports"] = subports;
    keys
}

fn subports(land: &str, city: &str, east: &str) -> Value {
    json!({
        "land": subport(None, Some(land)),
        "city": subport(Some("land"), Some(city)),
        "east": subport(Some("city"), Some(east)),
    })
}

/// User 1.1 has packets of class 3, the others of class 0, whenever they are looked at. Mbit/s of each in a second.
fn second(rig: &mut Rig, waiting: &mut [u64; 3]) -> [f64; 3] {
    let mut sent = [0_u64; 3];
    for _ in 0..1_000 {
        for (n, (user, dscp)) in [(1, 0), (2, 46), (3, 46)].into_iter().enumerate() {
            while waiting[n] < 50 {
                rig.send(0, frame((1, user), dscp, 0, 100));
                waiting[n] += 1;
            }
        }
        rig.run(MS);
        for frame in rig.sent(1) {
            let n = usize::from(inner(&frame)) - 1;
            (sent[n], waiting[n]) = (sent[n] + 1, waiting[n] - 1);
        }
    }
    sent.map(|frames| (frames * LENGTH * 8) as f64 / 1e6)
}

/// That user 1.1 sent so many Mbit/s, and the others, in turns of theirs and of subports, the rest of 10.
fn assert_mbits(found: [f64; 3], guaranteed: f64) {
    let [low, others @ ..] = found;
    let rest = others.iter().sum::<f64>();
    let fits = (low - guaranteed).abs() < 0.04 && (low + rest - 10.0).abs() < 0.1;
    assert!(fits && others.iter().all(|other| *other > rest / 3.0), "{found:?} Mbit/s, not {guaranteed}");
}

#[test]
fn classes_of_subports_above_others_are_guaranteed_what_is_said() {
    let mut rig = Rig::new(keys(subports("3 Mbit/s", "2 Mbit/s", "1 Mbit/s")));
    let mut waiting = [0; 3];
    assert_mbits(second(&mut rig, &mut waiting), 3.0);
    // While packets wait: first what is above, then what is part of it.
    let set = |rig: &Rig, subport: &str, class: &str| {
        rig.request("subport set", json!({ "subport": subport, "classes": [class] })).map(|_| ())
    };
    let told = set(&rig, "city", "3=4 Mbit/s..none").unwrap_err();
    let words = "land.classes[4].tc_guarantee: 3 Mbit/s is less than what is guaranteed to the class right below it together (city), 4 Mbit/s: raise it, or lower their tc_guarantee";
    assert_eq!(told, words);
    set(&rig, "land", "3=5 Mbit/s..none").unwrap();
    set(&rig, "city", "3=4 Mbit/s..none").unwrap();
    assert_mbits(second(&mut rig, &mut waiting), 5.0);
    let shown =
        |rig: &Rig| rig.show("subports", None).into_iter().map(|row| row["classes"].clone()).collect::<Vec<_>>();
    let all = [json!({ "3": "5 Mbit/s..none" }), json!({ "3": "4 Mbit/s..none" }), json!({ "3": "1 Mbit/s..none" })];
    assert_eq!(shown(&rig), all);
    // It stays so through a reload; what is saved, put where the configuration has it, is the same.
    rig.reload(keys(subports("2 Mbit/s", "1 Mbit/s", "1 Mbit/s")));
    assert_mbits(second(&mut rig, &mut waiting), 5.0);
    let mut same = subports("2 Mbit/s", "1 Mbit/s", "1 Mbit/s");
    for saved in rig.instance.save().piece() {
        same[saved.under.unwrap()] = saved.entry.unwrap();
    }
    let again = Rig::new(keys(same));
    assert_eq!(shown(&again), all);
    again.finish();
    // Where the configuration counts again, it is checked as well: what is part of it goes first.
    let reset = |rig: &Rig, subport: &str| rig.request("subport reset", json!({ "subport": subport })).map(|_| ());
    assert!(reset(&rig, "land").unwrap_err().contains("is less than what is guaranteed to the class right below it"));
    reset(&rig, "city").unwrap();
    reset(&rig, "land").unwrap();
    assert_mbits(second(&mut rig, &mut waiting), 2.0);
    rig.reload(keys(json!({ "land": subport(None, None), "city": subport(Some("land"), None), "east": subport(Some("city"), None) })));
    assert_mbits(second(&mut rig, &mut waiting), 0.0);
    // Another one comes between, with what waits.
    rig.reload(keys(subports("3 Mbit/s", "2 Mbit/s", "1 Mbit/s")));
    rig.request("subport set", json!({ "subport": "east", "parent": "land" })).unwrap();
    assert_mbits(second(&mut rig, &mut waiting), 3.0);
    assert!(rig.drops().is_empty());
    assert_eq!(rig.held(), waiting.iter().sum::<u64>());
    rig.finish();
}
