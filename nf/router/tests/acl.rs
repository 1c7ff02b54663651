//! Access lists: what rules match, against a twin that reads frames byte by byte; what they do, and how they change while packets flow.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use crate::common;

use common::acl_twin::{Dice, first_match, random_frame, random_rule};
use common::six::udp6;
use common::*;
use serde_json::{Value, json};

const PORTS: &[PortSpec] = &[
    PortSpec("lan", &["10.0.0.1/24", "2001:db8:0::1/64"], 1500),
    PortSpec("wan", &["10.0.1.1/24", "2001:db8:1::1/64"], 1500),
];

/// A router that sends everything to one neighbour on `wan`.
fn config(more: &Value) -> Value {
    let mut config = json!({
        "routes": { "0.0.0.0/0": "10.0.1.9", "::/0": "2001:db8:1::9" },
        "neighbors": { "10.0.1.9": "02:00:00:00:01:09", "2001:db8:1::9": "02:00:00:00:01:09" },
        "neighbor_timers": { "own_probes": 0 },
    });
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

fn rig(more: &Value) -> Rig {
    let mut rig = Rig::new(PORTS, config(more));
    rig.run(5 * SECOND);
    (0..2).for_each(|port| drop(rig.sent(port)));
    rig
}

/// What `wan` sent to the neighbour since the last call.
fn out(rig: &mut Rig) -> Vec<Vec<u8>> {
    rig.settle();
    rig.sent(1).into_iter().filter(|frame| frame[..6] == [2, 0, 0, 0, 1, 9]).collect()
}

fn counts(rig: &Rig) -> Vec<u64> {
    rig.show("acls").iter().map(|row| row["packets"].as_u64().unwrap()).collect()
}

fn denied(rig: &mut Rig, side: &str) -> u64 {
    rig.drops().get(&format!("router.acl-{side}/acl-denied")).copied().unwrap_or(0)
}

#[test]
fn rules_match_what_they_say() {
    let mut dice = Dice(0x5eed);
    for round in 0..6 {
        let rules: Vec<String> = (0..[3, 20, 100, 300][round % 4]).map(|_| random_rule(&mut dice)).collect();
        let default = if round % 2 == 0 { "permit" } else { "deny" };
        let lists = json!({ "edge": { "rules": rules, "default": default } });
        let mut rig = rig(&json!({ "acls": lists, "acl_in": { "lan": "edge" } }));
        let mut expected = vec![0; rules.len() + 1];
        let mut all_denied = 0;
        for _ in 0..40 {
            let mut permitted = 0;
            for _ in 0..50 {
                let frame = random_frame(&mut dice, rig.mac(0).0);
                let found = first_match(&rules, &frame);
                let action = found.map_or(default, |rule| rules[rule].split(' ').next().unwrap());
                expected[found.unwrap_or(rules.len())] += 1;
                permitted += usize::from(action == "permit");
                all_denied += u64::from(action == "deny");
                rig.send(0, frame);
            }
            assert_eq!(out(&mut rig).len(), permitted, "round {round}");
        }
        assert_eq!(counts(&rig), expected, "round {round}");
        assert_eq!(denied(&mut rig, "in"), all_denied);
        rig.finish();
    }
}

/// Frames whose IPv4 header is cut short are nobody's, wherever they stand among others; those that are whole are judged each by its own rule.
#[test]
fn frames_that_are_cut_short_are_judged_by_no_rule() {
    let mut dice = Dice(0xc07);
    let rules: Vec<String> = (0..8).map(|n| format!("deny protocol udp to 192.0.2.{n}/32")).collect();
    let lists = json!({ "edge": { "rules": rules, "default": "permit" } });
    let mut rig = rig(&json!({ "acls": lists, "acl_in": { "lan": "edge" } }));
    let mut expected = vec![0; rules.len() + 1];
    let mut cut = 0;
    for _ in 0..60 {
        for _ in 0..dice.below(70) {
            let to = dice.below(9) as usize;
            let mut frame = rig.udp(0, "10.0.0.9", &format!("192.0.2.{to}")).to_vec(&[0; 18]);
            match dice.below(6) {
                0 => frame.truncate(14 + dice.below(20) as usize),
                // Options: its key is made in the other way.
                1 => frame = ip_frame(&rig, 0, "10.0.0.9", &format!("192.0.2.{to}"), 17, &[1, 1, 1, 0], &[0; 8]),
                _ => {}
            }
            if frame.len() < 34 {
                cut += 1;
            } else {
                expected[to] += 1;
            }
            rig.send(0, frame);
        }
        rig.settle();
        drop(rig.sent(1));
    }
    assert!(cut > 100 && expected.iter().all(|count| *count > 50), "{cut} {expected:?}");
    assert_eq!(counts(&rig), expected);
    assert_eq!(denied(&mut rig, "in"), expected[..8].iter().sum::<u64>());
    rig.finish();
}

#[test]
fn what_leaves_is_judged_by_the_interface_that_it_leaves_by() {
    let lists = json!({ "no-dns": { "rules": ["deny protocol udp to-port 53"], "default": "permit" } });
    let mut rig = rig(&json!({ "acls": lists, "acl_out": { "wan": "no-dns" } }));
    let mut frame = rig.udp(0, "10.0.0.9", "192.0.2.1");
    frame.destination_port = 53;
    rig.send(0, frame.to_vec(&[0; 18]));
    frame.destination_port = 54;
    rig.send(0, frame.to_vec(&[0; 18]));
    assert_eq!(out(&mut rig).len(), 1);
    assert_eq!(counts(&rig)[0], 1);
    assert_eq!(denied(&mut rig, "out-1"), 1);
    // What goes by the slow path is judged, too: options are carried out there.
    let options = ip_frame(&rig, 0, "10.0.0.9", "192.0.2.1", 17, &[1, 1, 1, 0], &[0, 9, 0, 53, 0, 8, 0, 0]);
    rig.send(0, options);
    assert_eq!(out(&mut rig).len(), 0);
    assert_eq!(denied(&mut rig, "out-control-1"), 1);
    rig.finish();
}

#[test]
fn rules_come_and_go_while_packets_flow() {
    let lists = |rules: &[&str]| json!({ "edge": { "rules": rules, "default": "permit" } });
    let with = |rules: &[&str]| config(&json!({ "acls": lists(rules), "acl_in": { "lan": "edge" } }));
    let mut rig = Rig::new(PORTS, with(&["deny to 192.0.2.1/32"]));
    rig.run(5 * SECOND);
    drop(rig.sent(1));
    let passes = |rig: &mut Rig, to: &str| {
        let frame = rig.udp(0, "10.0.0.9", to).to_vec(&[0; 18]);
        rig.send(0, frame);
        !out(rig).is_empty()
    };
    assert!(!passes(&mut rig, "192.0.2.1") && passes(&mut rig, "192.0.2.2"));
    let add =
        |rig: &Rig, at: u64, rule: &str| rig.request("acl add", json!({ "list": "edge", "at": at, "rule": rule }));
    add(&rig, 1, "deny to 192.0.2.0/24").unwrap();
    add(&rig, 1, "permit to 192.0.2.1/32").unwrap();
    assert!(passes(&mut rig, "192.0.2.1") && !passes(&mut rig, "192.0.2.2"));
    assert_eq!(counts(&rig), [1, 1, 1, 1]);
    // All of a list of changes, or none.
    let wrong = json!([{ "list": "edge", "rule": "deny" }, { "list": "edge", "rule": "deny to 10.0.0.0" }]);
    let told = rig.request("acl add", wrong).unwrap_err();
    assert!(told.starts_with("entry 2: the rule has 10.0.0.0, which has no prefix length"), "{told}");
    assert!(passes(&mut rig, "192.0.2.1"));
    let del = |rig: &Rig, list: &str, at: u64| rig.request("acl del", json!({ "list": list, "at": at }));
    del(&rig, "edge", 1).unwrap();
    assert!(!passes(&mut rig, "192.0.2.1"));
    assert_eq!(
        del(&rig, "edge", 2).unwrap_err(),
        "rule 2 of edge stands in the configuration; delete it there and reload"
    );
    assert_eq!(del(&rig, "edge", 9).unwrap_err(), "edge has 2 rules; `show acls` numbers them");
    assert_eq!(del(&rig, "egde", 1).unwrap_err(), "there is no access list \"egde\"; write one of edge");
    // Added rules outlive a reload and a rebuild, and what stays the same goes on counting.
    rig.reload(&with(&["deny to 192.0.2.1/32", "deny to 203.0.113.0/24"]));
    assert!(!passes(&mut rig, "192.0.2.2") && !passes(&mut rig, "203.0.113.9") && passes(&mut rig, "203.0.114.9"));
    assert_eq!(counts(&rig)[1], 1);
    rig.rebuild(&with(&["deny to 192.0.2.1/32"]));
    assert!(!passes(&mut rig, "192.0.2.2") && passes(&mut rig, "203.0.113.9"));
    del(&rig, "edge", 1).unwrap();
    assert!(passes(&mut rig, "192.0.2.2"));
    rig.finish();
}

#[test]
fn rules_mark_and_police() {
    let rules = [
        "permit protocol udp to 192.0.2.1/32;2001:db8:9::/48 set-dscp ef log",
        "permit to 192.0.2.2/32 police 80kbit/s",
    ];
    let lists = json!({ "edge": { "rules": rules, "default": "permit" } });
    let mut rig = rig(&json!({ "acls": lists, "acl_in": { "lan": "edge" } }));
    let mut frame = rig.udp(0, "10.0.0.9", "192.0.2.1").to_vec(&[0; 18]);
    // A DSCP of its own, and a mark of congestion, which stays.
    frame[15] = 10 << 2 | 3;
    weir_wire::ipv4::write_checksum(&mut frame[14..]);
    rig.send(0, frame);
    let sent = out(&mut rig);
    assert_eq!(sent[0][15], 46 << 2 | 3);
    assert!(weir_wire::checksum::is_valid(&sent[0][14..34]));
    let log = rig.show("acl-log");
    assert_eq!((log.len(), &log[0]["destination"], &log[0]["interface"]), (1, &json!("192.0.2.1"), &json!("lan")));
    let six = udp6(&rig, 0, "2001:db8:0::9", "2001:db8:9::9", 9, 18);
    rig.send(0, six);
    let sent = out(&mut rig);
    assert_eq!((sent[0][14], sent[0][15] & 0xc0), (0x6b, 0x80));
    // 10,000 bytes a second, of which 500 may come at once.
    let mut passed = 0;
    for _ in 0..200 {
        for _ in 0..10 {
            let frame = rig.udp(0, "10.0.0.9", "192.0.2.2").to_vec(&[0; 58]);
            rig.send(0, frame);
        }
        rig.run(9_000_000);
        passed += out(&mut rig).len();
    }
    assert!((195..=212).contains(&passed), "{passed} of 2,000 packets of 100 bytes in 2 s");
    assert_eq!(rig.drops()["router.acl-in/acl-policed"], 2000 - passed as u64);
    rig.finish();
}

#[test]
fn what_is_for_the_router_itself_meets_a_list_of_its_own() {
    let rules = ["permit protocol icmp", "permit protocol icmpv6", "permit protocol udp to-port 161 from 10.0.0.8/32"];
    let lists = json!({ "own": { "rules": rules, "default": "deny" } });
    let mut config = config(&json!({ "acls": lists, "acl_own": { "default": "own" }, "vrfs": { "blue": {} } }));
    config["neighbors"]["10.0.0.9"] = json!("02:00:00:00:00:09");
    let ports = [PORTS, &[PortSpec("blue", &["10.0.3.1/24"], 1500)]].concat();
    let mut rig = Rig::new(&ports, config);
    rig.run(5 * SECOND);
    (0..3).for_each(|port| drop(rig.sent(port)));
    let udp = |rig: &Rig, port: usize, from: &str, to: &str, to_port: u16| {
        let mut frame = rig.udp(port, from, to);
        frame.destination_port = to_port;
        frame.to_vec(&[0; 18])
    };
    let before = counts(&rig);
    // What is forwarded is none of its business, nor is what is for others in a network of the router, nor what is of another VRF.
    for (port, from, to) in [
        (0, "10.0.0.9", "192.0.2.1"),
        (0, "10.0.0.9", "10.0.1.9"),
        (2, "10.0.3.9", "10.0.3.1"),
        (2, "10.0.3.9", "10.0.0.1"),
    ] {
        let frame = udp(&rig, port, from, to, 179);
        rig.send(port, frame);
    }
    assert_eq!(out(&mut rig).len(), 2);
    assert_eq!(counts(&rig), before);
    // Own addresses of whichever interface, groups and broadcasts, at the end of their TTL and with options.
    let mut denied_now = 0;
    for to in ["10.0.0.1", "10.0.1.1", "224.0.0.5", "255.255.255.255"] {
        let frame = udp(&rig, 0, "10.0.0.9", to, 179);
        rig.send(0, frame);
        denied_now += 1;
    }
    let six = udp6(&rig, 0, "2001:db8:0::9", "2001:db8:1::1", 9, 18);
    rig.send(0, six);
    let mut last_hop = udp(&rig, 0, "10.0.0.9", "10.0.0.1", 179);
    last_hop[22] = 1;
    weir_wire::ipv4::write_checksum(&mut last_hop[14..]);
    rig.send(0, last_hop);
    let options = ip_frame(&rig, 0, "10.0.0.9", "10.0.0.1", 17, &[1, 1, 1, 0], &[0, 9, 0, 179, 0, 8, 0, 0]);
    rig.send(0, options);
    denied_now += 3;
    rig.settle();
    assert_eq!(denied(&mut rig, "own"), denied_now);
    assert_eq!(counts(&rig)[3] - before[3], denied_now);
    // One that a rule permits gets as far as it would: nobody listens there.
    let frame = udp(&rig, 0, "10.0.0.8", "10.0.0.1", 161);
    rig.send(0, frame);
    rig.settle();
    assert_eq!((denied(&mut rig, "own"), counts(&rig)[2]), (denied_now, 1));
    // What is denied takes nothing from the share of what is not: it never comes to where that is policed.
    for _ in 0..20_000 {
        let frame = udp(&rig, 0, "10.0.0.9", "10.0.0.1", 179);
        rig.send(0, frame);
    }
    let echo = icmp_message(8, 0, [0, 1, 0, 1], &[0; 26]);
    let echo = ip_frame(&rig, 0, "10.0.0.9", "10.0.0.1", 1, &[], &echo);
    rig.send(0, echo);
    drop(rig.sent(0));
    rig.run(100_000_000);
    let answers = rig.fates().get("echo-reply").copied().unwrap_or(0);
    assert_eq!(denied(&mut rig, "own"), denied_now + 20_000);
    assert_eq!((answers, rig.drops().get("router.forward/punt-policed-local")), (1, None));
    rig.finish();
}

#[test]
fn rules_that_were_added_are_saved_in_their_order() {
    let lists = json!({ "edge": { "rules": ["deny to 192.0.2.1/32"], "default": "permit" } });
    let rig = Rig::new(PORTS, config(&json!({ "acls": lists })));
    for rule in ["deny to 192.0.2.2/32", "permit protocol udp"] {
        rig.request("acl add", json!({ "list": "edge", "rule": rule })).unwrap();
    }
    let saved = all_rows(rig.instance.save());
    let told: Vec<&Value> = saved.iter().map(|saved| saved.entry.as_ref().unwrap()).collect();
    assert_eq!(told, ["permit protocol udp", "deny to 192.0.2.2/32"]);
    let within = saved[0].within.unwrap();
    assert_eq!((within.key, &saved[0].arguments[within.argument], &*saved[0].key), ("acls", &json!("edge"), "rules"));
    // Whoever carries it out has what there was.
    let other = Rig::new(PORTS, config(&json!({ "acls": lists })));
    saved.iter().for_each(|saved| drop(other.request(&saved.verb, saved.arguments.clone()).unwrap()));
    assert_eq!(other.show("acls"), rig.show("acls"));
}

#[test]
fn what_is_wrong_is_told_at_once() {
    let more = json!({
        "acls": { "edge": { "rules": ["permit to-port 80", "deny protocol tcp flags syn fragment later", "allow"], "default": "deny" } },
    });
    let told: Vec<String> = build(PORTS, &config(&more)).err().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].contains("has ports, and no protocol that has them"), "{told:?}");
    let more = json!({
        "acls": { "edge": { "default": "deny" } },
        "acl_in": { "lna": "edge" },
        "acl_out": { "wan": "core" },
        "acl_vrf": { "blue": "edge" },
        "acl_own": { "red": "edge" },
    });
    let told: Vec<String> = build(PORTS, &config(&more)).err().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(
        told[0].contains("there is no interface \"lna\"") && told[2].contains("there is no VRF \"blue\""),
        "{told:?}"
    );
}
