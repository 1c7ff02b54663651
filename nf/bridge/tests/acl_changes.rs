//! Access lists that change at run time, and what rules do beside permitting and denying.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use common::*;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Ports that take no notice of tags; `a` has a list for what comes in, `b` one for what leaves.
fn keys(rules: &[&str]) -> Value {
    let acls = json!({ "edge": { "default": "permit", "rules": rules }, "out": { "default": "permit" } });
    json!({ "acls": acls, "ports": { "a": { "acl_in": "edge" }, "b": { "acl_out": "out" } } })
}

const A: usize = 0;

fn add(rig: &Rig, at: Option<u64>, rule: &str) -> Result<Value, String> {
    rig.request("acl add", json!({ "list": "edge", "at": at, "rule": rule }))
}

fn del(rig: &Rig, at: u64) -> Result<Value, String> {
    rig.request("acl del", json!({ "list": "edge", "at": at }))
}

/// Rules of a list, with who stated them and the frames that each matched; the default is the last.
fn rules(rig: &Rig, list: &str) -> Vec<(String, String, u64)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rows = rig.show("acls", Some(list));
    rows.iter().map(|row| (text(&row["rule"]), text(&row["source"]), row["packets"].as_u64().unwrap())).collect()
}

/// Whether frames from these stations pass, `.` for each that does.
fn pass(rig: &mut Rig, from: std::ops::Range<u8>) -> String {
    from.map(|n| if rig.ways(A, frame(BROADCAST, mac(n), 0)).is_empty() { 'x' } else { '.' }).collect()
}

#[test]
fn rules_come_and_go_while_frames_flow() {
    let mut rig = bridge(keys(&["deny from 02:00:00:00:00:01"]));
    assert_eq!(pass(&mut rig, 1..4), "x..");
    add(&rig, None, "deny from 02:00:00:00:00:02").unwrap();
    assert_eq!(pass(&mut rig, 1..4), "xx.");
    // In front of the others, unless it is said where.
    add(&rig, Some(1), "permit from 02:00:00:00:00:00/46").unwrap();
    add(&rig, Some(9), "deny").unwrap();
    assert_eq!(pass(&mut rig, 1..5), "...x");
    let row = |rule: &str, source: &str, frames| (rule.to_owned(), source.to_owned(), frames);
    assert_eq!(
        rules(&rig, "edge"),
        [
            row("permit from 02:00:00:00:00:00/46", "cli", 3),
            row("deny from 02:00:00:00:00:02", "cli", 1),
            row("deny from 02:00:00:00:00:01", "config", 2),
            row("deny", "cli", 1),
            row("permit (default)", "config", 3),
        ]
    );
    del(&rig, 1).unwrap();
    del(&rig, 3).unwrap();
    assert_eq!(pass(&mut rig, 1..4), "xx.");
    for (told, why) in [
        (del(&rig, 2), "rule 2 of edge stands in the configuration; delete it there and reload"),
        (del(&rig, 3), "edge has 2 rules; `show acls` numbers them"),
        (del(&rig, 0), "at: \"0\" is not an integer from 1 to 4294967295"),
        (rig.request("acl del", json!({ "list": "edge" })), "at is missing; `show acls` numbers the rules"),
        (
            rig.request("acl add", json!({ "list": "egde", "rule": "deny" })),
            "there is no access list \"egde\"; write one of edge, out",
        ),
        (
            add(&rig, None, "deny to"),
            "the rule has nothing behind to; deny from 02:00:00:00:00:00/24 to group vlan 10,20-29 ethertype ipv4,0x88cc",
        ),
    ] {
        assert_eq!(told.unwrap_err(), why);
    }
    rig.finish();
}

#[test]
fn many_are_changed_at_once_or_none() {
    let mut rig = bridge(keys(&[]));
    let one = |rule: &str| json!({ "list": "edge", "rule": ["deny", "from", rule] });
    let all = json!([one("02:00:00:00:00:01"), one("02:00:00:00:00:02"), one("02:00:00:00:00:03/24")]);
    assert!(rig.request("acl add", all).unwrap_err().contains('3'), "the third is wrong");
    assert_eq!(pass(&mut rig, 1..4), "...");
    assert_eq!(rules(&rig, "edge").len(), 1);
    rig.request("acl add", json!([one("02:00:00:00:00:01"), one("02:00:00:00:00:02")])).unwrap();
    assert_eq!(pass(&mut rig, 1..4), "xx.");
    rig.finish();
}

#[test]
fn what_was_added_outlives_reloads_and_is_saved() {
    let mut rig = bridge(keys(&["deny from 02:00:00:00:00:01"]));
    add(&rig, None, "deny from 02:00:00:00:00:02").unwrap();
    add(&rig, Some(2), "permit from 02:00:00:00:00:01").unwrap();
    assert_eq!(pass(&mut rig, 1..4), ".x.");
    let saved = all_rows(rig.instance.save());
    let told: Vec<&Value> = saved.iter().map(|saved| saved.entry.as_ref().unwrap()).collect();
    assert_eq!(told, [&json!("deny from 02:00:00:00:00:02"), &json!("permit from 02:00:00:00:00:01")]);
    let within = saved[0].within.unwrap();
    assert_eq!((within.key, &saved[0].arguments[within.argument], &*saved[0].key), ("acls", &json!("edge"), "rules"));
    let mut other = bridge(keys(&["deny from 02:00:00:00:00:01"]));
    saved.iter().for_each(|saved| drop(other.request(&saved.verb, saved.arguments.clone()).unwrap()));
    assert_eq!(pass(&mut other, 1..4), ".x.");
    other.finish();
    // A change of what the configuration says leaves them, and what they counted.
    rig.reload(keys(&["deny from 02:00:00:00:00:03"]));
    assert_eq!(pass(&mut rig, 1..4), ".xx");
    assert_eq!(rules(&rig, "edge")[0].2, 2);
    // So does another shape.
    let mut wanted = keys(&["deny from 02:00:00:00:00:03"]);
    wanted["ports"]["c"] = json!({ "acl_in": "edge" });
    let anew = rig.rebuilt(wanted);
    rig.replace(anew);
    assert_eq!(pass(&mut rig, 1..4), ".xx");
    assert_eq!(rules(&rig, "edge")[0].2, 3);
    rig.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Changes at random, also of rules that come to so many combinations that all is built anew: the first rule in the order that is shown says what becomes of a frame,
    /// and each counts what it says it counted.
    #[test]
    fn the_first_rule_counts_whatever_came_before(changes in prop::collection::vec((0u8..8, any::<u8>(), prop::collection::vec(1u8..8, 0..4), any::<bool>()), 1..24)) {
        let mut rig = bridge(keys(&["deny from 02:00:00:00:00:01"]));
        let mut twin: Vec<(String, Vec<u8>, bool, bool, u64)> = vec![("deny from 02:00:00:00:00:01".to_owned(), vec![1], false, false, 0)];
        let mut default = 0;
        for (what, at, from, permits) in changes {
            let at = usize::from(at) % (twin.len() + 1);
            match twin.get(at).map(|rule| rule.3) {
                Some(true) if what < 3 => {
                    del(&rig, at as u64 + 1).unwrap();
                    twin.remove(at);
                }
                _ => {
                    let mut text = if permits { "permit" } else { "deny" }.to_owned();
                    let stations: Vec<String> = from.iter().map(|n| format!("02:00:00:00:00:0{n}")).collect();
                    if !from.is_empty() {
                        text += &format!(" from {}", stations.join(","));
                    }
                    if what == 7 {
                        // Frames have none of these but the last.
                        let many: Vec<String> = (0x9000..0x9030).map(|kind| format!("0x{kind:04x}")).collect();
                        text += &format!(" ethertype {},0x88b5", many.join(","));
                    }
                    add(&rig, Some(at as u64 + 1), &text).unwrap();
                    twin.insert(at, (text, from, permits, true, 0));
                }
            }
            for n in 1..8 {
                let found = twin.iter_mut().find(|(_, from, ..)| from.is_empty() || from.contains(&n));
                let passes = found.as_ref().is_none_or(|rule| rule.2);
                *found.map_or(&mut default, |rule| &mut rule.4) += 1;
                prop_assert_eq!(!rig.ways(A, frame(BROADCAST, mac(n), 0)).is_empty(), passes);
            }
            let due: Vec<(String, u64)> = twin.iter().map(|rule| (rule.0.clone(), rule.4)).chain([("permit (default)".to_owned(), default)]).collect();
            let shown: Vec<(String, u64)> = rules(&rig, "edge").into_iter().map(|(rule, _, frames)| (rule, frames)).collect();
            prop_assert_eq!(shown, due);
        }
        rig.finish();
    }
}

#[test]
fn a_sample_of_frames_is_kept() {
    let mut keys = keys(&["permit from 02:00:00:00:00:01 log", "deny from 02:00:00:00:00:02 log"]);
    keys["tagging"] = json!("802.1q");
    keys["ports"] = json!({ "a": { "vlan": 10, "acl_in": "edge" }, "b": { "tagged": "10", "acl_out": "edge" } });
    let mut rig = bridge(keys);
    let log = |rig: &Rig| rig.show("acl-log", None);
    // Many at once are one in the log; after a millisecond there is another.
    let burst: Vec<Vec<u8>> = (0..20).map(|n| frame(BROADCAST, mac(1), n)).collect();
    rig.pass(A, &burst);
    let told = log(&rig);
    let row = |side: &str, port: &str| {
        json!({ "acl": "edge", "port": port, "side": side, "source": "02:00:00:00:00:01", "destination": "ff:ff:ff:ff:ff:ff", "vlan": 10,
                "ethertype": "0x88b5", "rule": "permit from 02:00:00:00:00:01 log" })
    };
    let without_time = |mut row: Value| {
        assert!(row.as_object_mut().unwrap().remove("time").unwrap().is_u64());
        row
    };
    assert_eq!(told.into_iter().map(without_time).collect::<Vec<_>>(), [row("in", "a"), row("out", "b")]);
    rig.run(2 * MS);
    rig.pass(A, &[frame(mac(9), mac(2), 0)]);
    let told = log(&rig);
    assert_eq!((told.len(), &told[2]["destination"]), (3, &json!("02:00:00:00:00:09")));
    assert_eq!(rig.show("acl-log", Some("edge")).len(), 3);
    assert_eq!(rules(&rig, "edge")[0].2, 40, "all are counted");
    rig.finish();
}

#[test]
fn a_rule_lets_no_more_pass_than_its_rate() {
    let mut rig = bridge(keys(&["permit from 02:00:00:00:00:01 police 240kbit/s"]));
    // 500 frames of 60 bytes are a second's worth. Twice as many come: four in 4 ms.
    let mut passed = 0;
    for _ in 0..1000 {
        let burst: Vec<Vec<u8>> = (0..4).map(|n| frame(BROADCAST, mac(1), n)).collect();
        passed += rig.pass(A, &burst)[1].len();
        rig.run(2 * MS);
        // Who is under no rule has no bound.
        assert_eq!(rig.ways(A, frame(BROADCAST, mac(2), 0)), "b");
    }
    // What comes in 50 ms may pass at once, and the rate from then on.
    let dropped = rig.drops()["bridge.acl-in/acl-policed"];
    assert_eq!(passed as u64 + dropped, 4000);
    assert_eq!(rig.account().dropped, dropped);
    let seconds = rig.engine.now() as f64 / 1e9;
    assert!((passed as f64 - seconds * 500.0 - 25.0).abs() < 10.0, "{passed} in {seconds} s");
    rig.finish();
}
