//! Stations: learned, aged, limited, moved, said to be somewhere; on one worker and on several.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use crate::common;

use common::*;
use serde_json::{Value, json};
use weir_stage::harness::{Boxed, Harness};

/// Four ports, with what is special about the bridge.
fn keys(more: Value) -> Value {
    let mut keys = json!({ "ports": { "a": {}, "b": {}, "c": {}, "d": {} } });
    keys.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    keys
}

/// A station behind each port says something to all.
fn greet(rig: &mut Rig, ports: &[usize]) {
    for port in ports {
        rig.pass(*port, &[frame(BROADCAST, mac(*port as u8 + 1), 0)]);
    }
}

fn to(from: u8, to: u8) -> Vec<u8> {
    frame(mac(to), mac(from), 9)
}

#[test]
fn what_is_not_known_is_flooded_and_what_is_goes_its_way() {
    let mut rig = bridge(keys(json!({})));
    assert_eq!(rig.ways(0, to(1, 2)), "bcd");
    assert_eq!(rig.ways(1, to(2, 1)), "a");
    assert_eq!(rig.ways(0, to(1, 2)), "b");
    assert_eq!(rig.ways(0, frame(BROADCAST, mac(1), 0)), "bcd");
    // A station behind the port that a frame came in by has had it.
    rig.pass(0, &[frame(BROADCAST, mac(9), 0)]);
    assert_eq!(rig.ways(0, to(1, 9)), "");
    assert_eq!(rig.drops(), [("bridge.forward/same-port".to_owned(), 1)].into());
    assert_eq!((rig.show("macs", None).len(), rig.show("macs", Some("a")).len()), (3, 2));
    assert_eq!(rig.show("macs", Some("02:00:00:00:00:02"))[0]["port"], "b");
    // Copies are counted: three floods of two copies each, beside the frames themselves.
    let account = rig.account();
    assert_eq!((account.received, account.created, account.transmitted, account.dropped), (6, 6, 11, 1), "{account:?}");
    let explained = rig.instance.explain("bridge.forward", "port[1]", &to(1, 2), 0);
    assert_eq!(explained.as_deref(), Some("02:00:00:00:00:02 is behind b"));
    rig.finish();
}

#[test]
fn stations_that_say_nothing_are_forgotten_in_time() {
    let mut rig = bridge(keys(json!({ "ageing": "16 s" })));
    greet(&mut rig, &[0, 1]);
    rig.run(15 * SECOND);
    rig.pass(0, &[to(1, 2)]);
    assert_eq!(rig.show("macs", Some("b"))[0]["age_s"], 15);
    rig.run(500 * MS);
    assert_eq!(rig.show("macs", None).len(), 2, "none is forgotten before its time");
    rig.run(2 * SECOND);
    // A sixteenth later at most; who spoke meanwhile is known on.
    assert_eq!(rig.ways(0, to(1, 2)), "bcd");
    assert_eq!(rig.show("macs", None).len(), 1);
    // A shorter time counts at once.
    rig.reload(keys(json!({ "ageing": "1 s" })));
    rig.run(1200 * MS);
    assert_eq!((rig.show("macs", None).len(), rig.gauge("bridge_macs")), (0, 0.0));
    rig.finish();
}

#[test]
fn limits_bound_what_is_learned() {
    for (on_limit, ways) in [("forward", "bcd"), ("drop", "")] {
        let mut config = keys(json!({ "on_limit": on_limit, "limits": { "macs": 5 } }));
        config["ports"]["a"]["max_macs"] = json!(2);
        let mut rig = bridge(config.clone());
        for station in 1..=3 {
            let due = if station < 3 { "bcd" } else { ways };
            assert_eq!(rig.ways(0, frame(BROADCAST, mac(station), 0)), due);
        }
        assert_eq!(rig.show("macs", Some("a")).len(), 2);
        // Three more fit the bridge, wherever they are.
        for station in 11..=14 {
            rig.pass(1, &[frame(BROADCAST, mac(station), 0)]);
        }
        assert_eq!(
            (rig.show("macs", None).len(), rig.gauge("bridge_macs"), rig.gauge("bridge_macs_refused")),
            (5, 5.0, 2.0)
        );
        let notices = rig.instance.notices(rig.engine.now());
        assert_eq!(notices.len(), 1);
        assert!(notices[0].message.contains("limit") && rig.instance.notices(rig.engine.now()).is_empty());
        let dropped = rig.drops().get("bridge.forward/mac-limit").copied().unwrap_or(0);
        assert_eq!(dropped, if on_limit == "drop" { 2 } else { 0 });
        // Who goes makes room, and a limit that is lifted counts at once.
        rig.request("mac del", json!({ "mac": "02:00:00:00:00:0b" })).unwrap();
        config["ports"]["a"]["max_macs"] = Value::Null;
        rig.reload(config);
        assert_eq!(rig.ways(0, frame(BROADCAST, mac(3), 0)), "bcd");
        assert_eq!(rig.show("macs", Some("a")).len(), 3);
        rig.finish();
    }
}

#[test]
fn each_vlan_has_its_limit() {
    let mut rig = bridge(json!({ "tagging": "802.1q", "limits": { "macs_per_vlan": 2 },
        "ports": { "a": { "tagged": "10,20" }, "b": { "tagged": "10,20" } } }));
    for vlan in [10, 20] {
        for station in 1..=3 {
            rig.pass(0, &[tagged(frame(BROADCAST, mac(station), 0), &[(0x8100, vlan)])]);
        }
    }
    let counts: Vec<_> = rig.show("vlans", None).iter().map(|row| (row["vlan"].clone(), row["macs"].clone())).collect();
    assert_eq!(counts, [(json!(10), json!(2)), (json!(20), json!(2))]);
    assert_eq!(rig.show("vlans", Some("20"))[0]["tagged"], "a b");
    assert_eq!(rig.request("mac flush", json!({ "vlan": "10" })), Ok(json!({ "changed": 2 })));
    assert_eq!(rig.show("macs", None).len(), 2);
    rig.finish();
}

#[test]
fn moves_are_counted_and_bounded() {
    let mut rig = bridge(keys(json!({ "max_moves": "10 pps" })));
    greet(&mut rig, &[0]);
    // A station that is seen behind two ports in turn: a loop. One move to each is in reserve, and ten a second follow.
    let mut passed = 0;
    for round in 0..1000 {
        let port = 1 - round % 2;
        passed += usize::from(!rig.ways(port, frame(BROADCAST, mac(1), 0)).is_empty());
    }
    let moves: u64 = rig.show("bridge-ports", None).iter().map(|row| row["moves"].as_u64().unwrap()).sum();
    assert!((19..=23).contains(&moves), "{moves} moves in a second");
    assert_eq!(rig.drops()["bridge.forward/move-limit"], 1000 - passed as u64);
    assert_eq!(rig.gauge("bridge_mac_moves"), moves as f64);
    let counts: Vec<u64> = rig.show("bridge-ports", None).iter().map(|row| row["macs"].as_u64().unwrap()).collect();
    assert_eq!(counts.iter().sum::<u64>(), 1, "it is behind one of them");
    rig.finish();
}

#[test]
fn stations_stay_where_they_are_said_to_be() {
    let fixed = |port: Value| keys(json!({ "ageing": "1 s", "macs": [{ "mac": "02:00:00:00:00:07", "port": port }] }));
    let mut rig = bridge(fixed(json!("c")));
    assert_eq!(rig.ways(0, to(1, 7)), "c");
    // It is forwarded wherever it speaks, and is not learned there; and it does not age.
    assert_eq!(rig.ways(1, to(7, 1)), "a");
    rig.run(3 * SECOND);
    assert_eq!(rig.ways(0, to(1, 7)), "c");
    assert_eq!((rig.show("macs", Some("c"))[0]["source"].as_str(), rig.gauge("bridge_macs")), (Some("config"), 1.0));
    // A request says otherwise, until it is taken back.
    rig.request("mac add", json!({ "mac": "02:00:00:00:00:07", "port": "d" })).unwrap();
    assert_eq!(rig.ways(0, to(1, 7)), "d");
    let saved = rig.instance.save().piece();
    assert_eq!(saved[0].entry, Some(json!({ "mac": "02:00:00:00:00:07", "port": "d" })));
    rig.reload(fixed(json!("b")));
    assert_eq!((rig.ways(0, to(1, 7)).as_str(), rig.show("macs", Some("d"))[0]["source"].as_str()), ("d", Some("cli")));
    rig.request("mac del", json!({ "mac": "02:00:00:00:00:07" })).unwrap();
    assert_eq!((rig.ways(0, to(1, 7)).as_str(), rig.instance.save().piece().len()), ("b", 0));
    // Nowhere at all.
    rig.reload(fixed(Value::Null));
    assert_eq!(rig.ways(0, to(1, 7)), "");
    assert_eq!(rig.drops(), [("bridge.forward/blackhole".to_owned(), 1)].into());
    // A station that was learned is fixed in place, and learned again when it is not.
    greet(&mut rig, &[1]);
    rig.request("mac add", json!([{ "mac": "02:00:00:00:00:02", "port": "a" }, { "mac": "02:00:00:00:00:63" }]))
        .unwrap();
    assert_eq!((rig.ways(2, to(3, 2)).as_str(), rig.ways(2, to(3, 0x63)).as_str()), ("a", ""));
    rig.request("mac del", json!([{ "mac": "02:00:00:00:00:02" }, { "mac": "02:00:00:00:00:63" }])).unwrap();
    assert_eq!(rig.ways(2, to(3, 2)), "abd");
    rig.finish();
}

#[test]
fn requests_that_are_wrong_say_why_and_change_nothing() {
    let mut rig = bridge(keys(json!({ "macs": [{ "mac": "02:00:00:00:00:07", "port": "c" }] })));
    greet(&mut rig, &[0]);
    for (verb, arguments, words) in [
        ("mac add", json!({ "port": "a" }), "mac is missing"),
        ("mac add", json!({ "mac": "02:00", "port": "a" }), "is not a MAC address"),
        ("mac add", json!({ "mac": "01:00:00:00:00:01", "port": "a" }), "is no address of a station"),
        (
            "mac add",
            json!({ "mac": "02:00:00:00:00:01", "port": "x" }),
            "port: \"x\" is no port of this bridge; it has a, b, c, d",
        ),
        ("mac add", json!({ "mac": "02:00:00:00:00:01", "vlan": 10, "port": "a" }), "vlan: means nothing"),
        ("mac del", json!({ "mac": "02:00:00:00:00:07" }), "stands in the configuration"),
        ("mac del", json!({ "mac": "02:00:00:00:00:44" }), "there is no mac 02:00:00:00:00:44"),
        ("mac flush", json!({ "port": "x" }), "is no port"),
        ("mac flush", json!({ "vlan": "x" }), "is not an integer from 1 to 4094"),
        ("mac move", json!({ "mac": "02:00:00:00:00:01" }), "there is no request"),
        ("mac add", json!([{ "mac": "02:00:00:00:00:01", "port": "b" }, { "mac": "x" }]), "entry 2: "),
        ("mac del", json!([{ "mac": "02:00:00:00:00:01" }, { "mac": "x" }]), "entry 2: "),
    ] {
        let told = rig.request(verb, arguments).unwrap_err();
        assert!(told.contains(words), "{told}");
    }
    // Of many, none was done where one was wrong: what was learned is there again.
    let rows = rig.show("macs", Some("02:00:00:00:00:01"));
    assert_eq!((rows[0]["port"].as_str(), rows[0]["source"].as_str()), (Some("a"), Some("learned")));
    assert_eq!((rig.gauge("bridge_macs"), rig.instance.save().piece().len()), (1.0, 0));
    for (what, filter) in
        [("macs", "zz"), ("vlans", "a"), ("bridge-ports", "7"), ("groups", "zz"), ("multicast-routers", "x")]
    {
        assert!(rig.instance.show(what, Some(filter), 0).is_err());
    }
    rig.finish();
}

#[test]
fn isolated_ports_reach_others_only() {
    let mut config = keys(json!({}));
    config["ports"]["a"]["isolated"] = json!(true);
    config["ports"]["b"]["isolated"] = json!(true);
    let mut rig = bridge(config);
    greet(&mut rig, &[0, 1, 2]);
    assert_eq!(rig.ways(0, frame(BROADCAST, mac(1), 0)), "cd");
    assert_eq!(
        (rig.ways(0, to(1, 2)).as_str(), rig.ways(0, to(1, 3)).as_str(), rig.ways(2, to(3, 1)).as_str()),
        ("", "c", "a")
    );
    assert_eq!(rig.drops(), [("bridge.forward/not-reached".to_owned(), 1)].into());
    rig.reload(keys(json!({})));
    assert_eq!(rig.ways(0, to(1, 2)), "b");
    rig.finish();
}

#[test]
fn a_port_without_a_link_gets_nothing_and_its_stations_are_forgotten() {
    let mut rig = bridge(keys(json!({})));
    greet(&mut rig, &[0, 1]);
    rig.instance.link_changed(1, false, 0);
    assert_eq!(rig.ways(0, to(1, 2)), "cd");
    assert_eq!(rig.show("bridge-ports", Some("b"))[0]["link"], "down");
    rig.instance.link_changed(1, true, 0);
    assert_eq!(rig.ways(0, to(1, 2)), "bcd");
    rig.finish();
}

#[test]
fn frames_between_bridges_pass_by_option() {
    for (option, passed) in [("drop", &[][..]), ("stp", &[0]), ("all", &[0, 2, 3, 14, 15])] {
        let mut rig = bridge(keys(json!({ "control_frames": option })));
        for last in 0..18 {
            let ways = rig.ways(0, frame([1, 0x80, 0xc2, 0, 0, last], mac(1), 0));
            let due = last > 15 || passed.contains(&last) || option == "all" && last != 1;
            assert_eq!(ways, if due { "bcd" } else { "" }, "{option}: {last}");
        }
        rig.finish();
    }
}

/// A second of frames of a kind, ten a millisecond: what passes is the rate and a tenth of a second's reserve.
#[test]
fn storms_are_kept_out_kind_by_kind() {
    let storm = json!({ "broadcast": "1 kpps", "multicast_bits": "480 kbit/s", "unknown": "100 pps", "unknown_bits": "1 Gbit/s" });
    let mut config = keys(json!({}));
    config["ports"]["a"]["storm"] = storm;
    let mut rig = bridge(config.clone());
    greet(&mut rig, &[1]);
    let kinds =
        [(BROADCAST, "broadcast", 1_100), ([1, 0, 0x5e, 1, 1, 1], "multicast", 1_000 + 153), (mac(99), "unknown", 110)];
    for (to, name, due) in kinds {
        let mut passed = 0;
        for n in 0..1000 {
            let out = rig.pass(0, &(0..10).map(|m| frame(to, mac(1), n * 10 + m)).collect::<Vec<_>>());
            assert_eq!(out[1].len(), out[3].len());
            passed += out[1].len() as u64;
            // Others are not kept out, nor is what goes to a station that is known.
            if n % 100 == 0 {
                assert_eq!(rig.ways(0, frame(mac(2), mac(1), 0)), "b");
                assert_eq!(rig.ways(2, frame(to, mac(3), 0)), "abd");
            }
        }
        assert!(passed.abs_diff(due) <= due / 30, "{name}: {passed} of {due}");
        assert_eq!(rig.drops()[&format!("bridge.forward/storm-{name}")], 10_000 - passed);
    }
    // Without bounds all pass.
    rig.reload(keys(json!({})));
    let out = rig.pass(0, &vec![frame(BROADCAST, mac(1), 0); 500]);
    assert_eq!(out[1].len(), 500);
    rig.finish();
}

/// What a reload keeps: stations in VLANs that their ports still have, and requests; by the names of ports where a rebuild numbers them anew.
#[test]
fn what_was_learned_survives_a_reload() {
    let vlans = |b: &str| json!({ "tagging": "802.1q", "ports": { "a": { "tagged": "10,20" }, "b": { "tagged": b }, "d": { "tagged": "10" } } });
    let mut rig = bridge(vlans("10,20"));
    for (port, station, vlan) in [(0, 1, 10), (1, 2, 10), (1, 3, 20), (3, 4, 10)] {
        rig.pass(port, &[tagged(frame(BROADCAST, mac(station), 0), &[(0x8100, vlan)])]);
    }
    rig.request("mac add", json!({ "mac": "02:00:00:00:00:50", "vlan": 10, "port": "d" })).unwrap();
    rig.reload(vlans("10"));
    let known = |rows: Vec<Value>| {
        let mut known: Vec<String> = rows
            .iter()
            .map(|row| format!("{} {} {}", row["mac"].as_str().unwrap(), row["port"].as_str().unwrap(), row["vlan"]))
            .collect();
        known.sort();
        known
    };
    let due = ["02:00:00:00:00:01 a 10", "02:00:00:00:00:02 b 10", "02:00:00:00:00:04 d 10", "02:00:00:00:00:50 d 10"];
    assert_eq!(known(rig.show("macs", None)), due);
    // A port less: others have other numbers.
    let next =
        rig.rebuilt(json!({ "tagging": "802.1q", "ports": { "b": { "tagged": "10" }, "d": { "tagged": "10" } } }));
    assert_eq!(known(all_rows(next.show("macs", None, 0).unwrap())), due[1..]);
    assert_eq!(next.gauges()[0].2, 2.0);
    // Where tags mean something else, nothing of it counts.
    let next = rig.rebuilt(json!({ "ports": { "b": {}, "d": {} } }));
    assert!(known(all_rows(next.show("macs", None, 0).unwrap())).is_empty());
    drop(next);
    rig.finish();
}

/// Two replicas of the data path share what they learn.
#[test]
fn what_one_worker_learns_all_know() {
    let rig = bridge(keys(json!({})));
    let replica = |n: usize| {
        let (nodes, _) = rig.instance.graph(n).unwrap().into_parts();
        let forward = nodes.into_iter().find(|node| node.name == "bridge.forward").unwrap();
        Harness::reading(Boxed(forward.stage), &rig.domain)
    };
    let (mut one, mut other) = (replica(0), replica(1));
    one.lanes().port.all_mut().fill(0);
    other.lanes().port.all_mut().fill(1);
    assert_eq!(one.run(0, &[to(1, 2)]).way("port[3]").len(), 1);
    assert_eq!(other.run(0, &[to(2, 1)]).counts(), [("port[0]", 1)].into());
    assert_eq!(one.run(0, &[to(1, 2)]).counts(), [("port[1]", 1)].into());
    drop((one, other));
    rig.finish();
}

/// A thousand new stations each millisecond, while others talk: none of theirs is lost or flooded.
#[test]
fn a_million_new_stations_a_second_disturb_nobody() {
    let mut rig = bridge(keys(json!({ "limits": { "macs": 200_000 } })));
    greet(&mut rig, &[0, 1]);
    for round in 0..100_u32 {
        let mut frames = Vec::new();
        for n in 0..1000 {
            let [a, b, c, _] = (round * 1000 + n).to_le_bytes();
            frames.push(frame(mac(2), [6, 0, 0, a, b, c], 0));
            frames.push(to(1, 2));
        }
        let out = rig.pass(0, &frames);
        assert_eq!((out[1].len(), out[2].len()), (2000, 0));
    }
    assert_eq!(rig.gauge("bridge_macs"), 100_002.0);
    assert!(rig.drops().is_empty());
    rig.finish();
}
