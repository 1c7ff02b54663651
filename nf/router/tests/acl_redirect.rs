//! Access lists that redirect: packets are looked up in another VRF, on the fast path and on the slow path; what is for the router stays there.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use crate::common;

use common::acl_twin::{Dice, first_match, random_frame, random_redirect, vrf_of};
use common::sides::{C, tagged};
use common::six::{Udp6, answer6, frame6, icmp6, packet6};
use common::*;
use serde_json::{Value, json};
use weir_router::Router;
use weir_stage::{Env, Ground, rehearsal};
use weir_wire::ipv4::write_checksum;
use weir_wire::{Ipv4, MacAddr, View};

/// Two ports in the default VRF, and a narrower one in another.
const PORTS: &[PortSpec] = &[
    PortSpec("lan", &["10.0.0.1/24", "2001:db8:0::1/64"], 1500),
    PortSpec("wan", &["10.0.1.1/24", "2001:db8:1::1/64"], 1500),
    PortSpec("blue", &["10.0.2.1/24", "2001:db8:2::1/64"], 1400),
];

const LAN: usize = 0;
const WAN: usize = 1;
const BLUE: usize = 2;

const HOST: &str = "10.0.0.9";
const HOST6: &str = "2001:db8:0::9";

/// A router in which all goes by one neighbour on `wan`, or, in the VRF `blue`, by one on `blue`. In the VRF `red` are no routes.
fn config(more: &Value) -> Value {
    let neighbors = |port: u8| {
        let mac = format!("02:00:00:00:0{port}:09");
        [(format!("10.0.{port}.9"), json!(mac)), (format!("2001:db8:{port}::9"), json!(mac))]
    };
    let routes = |port: u8| json!({ "0.0.0.0/0": format!("10.0.{port}.9"), "::/0": format!("2001:db8:{port}::9") });
    let mut known: serde_json::Map<String, Value> = neighbors(1).into_iter().collect();
    known.extend([(HOST.to_owned(), json!("02:00:00:00:09:00")), (HOST6.to_owned(), json!("02:00:00:00:09:00"))]);
    let blue: serde_json::Map<String, Value> = neighbors(2).into_iter().collect();
    let mut config = json!({
        "routes": routes(1),
        "neighbors": known,
        "vrfs": { "blue": { "routes": routes(2), "neighbors": blue }, "red": {} },
        "neighbor_timers": { "own_probes": 0 },
    });
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

/// One list, on what comes in by `lan`.
fn with_rules(rules: &[&str]) -> Value {
    config(&json!({ "acls": { "pbr": { "rules": rules, "default": "permit" } }, "acl_in": { "lan": "pbr" } }))
}

fn quiet(mut rig: Rig) -> Rig {
    rig.run(5 * SECOND);
    (0..rig.infos.len()).for_each(|port| drop(rig.sent(port)));
    rig
}

fn rig(rules: &[&str]) -> Rig {
    quiet(Rig::new(PORTS, with_rules(rules)))
}

/// What a port sent to the neighbour that its routes lead to since the last call.
fn to_neighbor(rig: &mut Rig, port: usize) -> Vec<Vec<u8>> {
    rig.sent(port).into_iter().filter(|frame| frame[..6] == [2, 0, 0, 0, port as u8, 9]).collect()
}

/// How many packets the neighbours of `wan` and of `blue` had since the last call.
fn gone(rig: &mut Rig) -> [usize; 2] {
    rig.settle();
    [WAN, BLUE].map(|port| to_neighbor(rig, port).len())
}

/// A packet of a host on `lan` with a payload of so many bytes.
fn packet(rig: &Rig, to: &str, size: usize) -> Vec<u8> {
    match to.contains(':') {
        true => rig.udp6(LAN, HOST6, to).to_vec(&vec![7; size]),
        false => rig.udp(LAN, HOST, to).to_vec(&vec![7; size]),
    }
}

/// The same with so many hops left.
fn with_hops(rig: &Rig, to: &str, hops: u8) -> Vec<u8> {
    if to.contains(':') {
        return Udp6 { hop_limit: hops, ..rig.udp6(LAN, HOST6, to) }.to_vec(&[7; 18]);
    }
    let mut frame = packet(rig, to, 18);
    frame[22] = hops;
    write_checksum(&mut frame[14..]);
    frame
}

/// Type and code of the ICMP message, or that of ICMPv6, which is all that `lan` sent to the host since the last call.
fn told(rig: &mut Rig) -> (u8, u8) {
    let frames = rig.sent(LAN);
    let is_icmp = |frame: &&Vec<u8>| {
        let is_six = frame[12..14] == [0x86, 0xdd];
        frame[..6] == [2, 0, 0, 0, 9, 0] && (is_six && frame[20] == 58 || frame[12..14] == [8, 0] && frame[23] == 1)
    };
    let all: Vec<&Vec<u8>> = frames.iter().filter(is_icmp).collect();
    let [message] = &all[..] else { panic!("{} messages", all.len()) };
    let at = if message[12] == 8 { 34 } else { 54 };
    (message[at], message[at + 1])
}

#[test]
fn what_a_rule_redirects_goes_where_routes_of_the_other_vrf_lead() {
    let mut dice = Dice(0xb1ce);
    for round in 0..4 {
        let rules: Vec<String> = (0..[3, 20, 100, 200][round]).map(|_| random_redirect(&mut dice, "blue")).collect();
        let texts: Vec<&str> = rules.iter().map(String::as_str).collect();
        let mut rig = rig(&texts);
        let mut counted = vec![0; rules.len() + 1];
        for _ in 0..40 {
            let mut expected = [0; 2];
            for _ in 0..dice.one_of(&[1, 3, 50]) {
                let frame = random_frame(&mut dice, rig.mac(LAN).0);
                let found = first_match(&rules, &frame);
                counted[found.unwrap_or(rules.len())] += 1;
                match found.map_or(Some("default"), |rule| vrf_of(&rules[rule])) {
                    Some("default") => expected[0] += 1,
                    Some(_) => expected[1] += 1,
                    None => {}
                }
                rig.send(LAN, frame);
            }
            assert_eq!(gone(&mut rig), expected, "round {round}");
        }
        let counts: Vec<u64> = rig.show("acls").iter().map(|row| row["packets"].as_u64().unwrap()).collect();
        assert_eq!(counts, counted, "round {round}");
        rig.finish();
    }
}

#[test]
fn packets_with_tags_are_redirected_one_by_one() {
    let lists = json!({ "pbr": { "rules": ["permit to 192.0.2.0/25,2001:db8:9::/48 redirect vrf blue"], "default": "permit" } });
    let interfaces = vec![interface("lan.5", Some("lan"), &[(C, 5)], &["10.5.0.1/24", "2001:db8:5::1/64"])];
    let config = config(&json!({ "acls": lists, "acl_in": { "lan.5": "pbr" } }));
    let mut rig = quiet(Rig::with(PORTS, interfaces, config));
    for step in [1, 2, 5] {
        let mut expected = [0; 2];
        for n in 0..60 {
            let to = ["192.0.2.1", "192.0.2.129", "2001:db8:9::1", "2001:db8:a::1"][n * step % 4];
            expected[usize::from(["192.0.2.1", "2001:db8:9::1"].contains(&to))] += 1;
            let frame = packet(&rig, to, 18);
            // Every other one is of an interface without a list.
            if n % 2 == 0 {
                rig.send(LAN, frame.clone());
                expected[0] += 1;
            }
            rig.send(LAN, tagged(&frame, &[(C, 5)]));
        }
        assert_eq!(gone(&mut rig), expected);
        // All of one interface, of which few are redirected.
        let [stays, goes] = ["192.0.2.129", "192.0.2.1"].map(|to| tagged(&packet(&rig, to, 18), &[(C, 5)]));
        (0..128).for_each(|n| rig.send(LAN, if n % 61 == 60 { goes.clone() } else { stays.clone() }));
        assert_eq!(gone(&mut rig), [126, 2]);
    }
    assert_eq!(rig.drops(), Default::default());
    rig.finish();
}

#[test]
fn the_slow_path_looks_up_in_the_same_vrf_and_answers_by_that_of_the_interface() {
    let mut rig = rig(&["permit to 203.0.113.0/24,2001:db8:f::/48 redirect vrf red", "permit redirect vrf blue"]);
    // Hops that end: both families, told by `lan`, and nothing leaves elsewhere.
    for (to, answer) in [("192.0.2.1", (11, 0)), ("2001:db8:9::1", (3, 0))] {
        let frame = with_hops(&rig, to, 1);
        rig.send(LAN, frame);
        assert_eq!(gone(&mut rig), [0, 0], "{to}");
        assert_eq!(told(&mut rig), answer, "{to}");
    }
    // No route in the chosen VRF, though there is one in the other.
    for (to, answer) in [("203.0.113.1", (3, 0)), ("2001:db8:f::1", (1, 0))] {
        let frame = packet(&rig, to, 18);
        rig.send(LAN, frame);
        assert_eq!(gone(&mut rig), [0, 0], "{to}");
        assert_eq!(told(&mut rig), answer, "{to}");
    }
    // Longer than `blue` carries: told, or taken apart.
    let mut whole = packet(&rig, "192.0.2.1", 1400);
    Ipv4::view_mut(&mut whole[14..]).unwrap().set_fragment(true, false, 0);
    write_checksum(&mut whole[14..]);
    for (frame, answer) in [(whole, (3, 4)), (packet(&rig, "2001:db8:9::1", 1400), (2, 0))] {
        rig.send(LAN, frame);
        assert_eq!(gone(&mut rig), [0, 0]);
        assert_eq!(told(&mut rig), answer);
    }
    let long = packet(&rig, "192.0.2.1", 1400);
    rig.send(LAN, long);
    assert_eq!(gone(&mut rig), [0, 2]);
    // Options, and hop-by-hop options.
    let options = ip_frame(&rig, LAN, HOST, "192.0.2.1", 17, &[1, 1, 1, 0], &[0, 9, 0, 53, 0, 8, 0, 0]);
    rig.send(LAN, options);
    let hop_by_hop = rig.udp6(LAN, HOST6, "2001:db8:9::1").around(0, &[59, 0, 1, 4, 0, 0, 0, 0]);
    rig.send(LAN, hop_by_hop);
    assert_eq!(gone(&mut rig), [0, 2]);
    rig.finish();
}

#[test]
fn what_waits_for_a_neighbour_waits_in_the_chosen_vrf() {
    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 2, 0x77]);
    let mut rig = rig(&["permit redirect vrf blue"]);
    let mut frame = packet(&rig, "10.0.2.77", 18);
    rig.send(LAN, frame.clone());
    rig.settle();
    assert_eq!(rig.sent_arp(BLUE).iter().filter(|(_, arp)| arp.target == Ipv4Addr::new(10, 0, 2, 77)).count(), 1);
    rig.arp_reply(BLUE, Ipv4Addr::new(10, 0, 2, 77), MAC, Ipv4Addr::new(10, 0, 2, 1));
    rig.settle();
    let sent = rig.sent_ip(BLUE);
    frame[22] -= 1;
    write_checksum(&mut frame[14..]);
    assert_eq!((sent.len(), &sent[0][..6], &sent[0][14..]), (1, &MAC.0[..], &frame[14..]));
    let frame = packet(&rig, "2001:db8:2::77", 18);
    rig.send(LAN, frame);
    rig.settle();
    let [(_, asked)] = &rig.sent_nd(BLUE)[..] else { panic!("it is asked for") };
    let answer = answer6("2001:db8:2::77", MAC, asked.source);
    rig.nd(BLUE, MAC, &answer);
    let sent = rig.sent_six(BLUE);
    assert_eq!((sent.len(), &sent[0][..6]), (1, &MAC.0[..]));
    // Nobody answers: the source hears of it, by its own interface.
    let frame = packet(&rig, "10.0.2.78", 18);
    rig.send(LAN, frame);
    rig.run(5 * SECOND);
    assert_eq!(told(&mut rig), (3, 1));
    assert_eq!(gone(&mut rig), [0, 0]);
    rig.finish();
}

/// An echo request of the host on `lan`.
fn echo(rig: &Rig, to: &str) -> Vec<u8> {
    if to.contains(':') {
        let message = icmp6(HOST6, to, 128, 0, [0, 1, 0, 1], &[0; 26]);
        return frame6(rig, LAN, &packet6(HOST6, to, 58, 64, &message));
    }
    ip_frame(rig, LAN, HOST, to, 1, &[], &icmp_message(8, 0, [0, 1, 0, 1], &[0; 26]))
}

#[test]
fn own_addresses_are_not_redirected_away() {
    let mut rig = rig(&["permit redirect vrf blue"]);
    // Of the interface's VRF first, as of Linux's table `local`; then of the chosen one.
    for to in ["10.0.0.1", "10.0.1.1", "10.0.2.1", "2001:db8:0::1", "2001:db8:1::1", "2001:db8:2::1"] {
        let frame = echo(&rig, to);
        rig.send(LAN, frame);
        assert_eq!(gone(&mut rig), [0, 0], "{to}");
        assert_eq!(told(&mut rig), if to.contains(':') { (129, 0) } else { (0, 0) }, "{to}");
        // The same at the end of its hops.
        let frame = with_hops(&rig, to, 1);
        rig.send(LAN, frame);
        rig.settle();
        assert_eq!(told(&mut rig), if to.contains(':') { (1, 4) } else { (3, 3) }, "{to}");
    }
    // Broadcasts of the interface's networks, and groups, are nobody's to redirect.
    let frame = packet(&rig, "10.0.1.255", 18);
    rig.send(LAN, frame);
    assert_eq!(gone(&mut rig), [0, 0]);
    assert_eq!(rig.drops()["router.forward/directed-broadcast"], 1);
    let frame = packet(&rig, "224.0.0.5", 18);
    rig.send(LAN, frame);
    assert_eq!(gone(&mut rig), [0, 0]);
    assert_eq!(rig.drops()["router.forward/multicast"], 1);
    rig.finish();
}

#[test]
fn the_list_for_the_router_itself_judges_what_was_redirected_to_it() {
    let lists = json!({
        "pbr": { "rules": ["permit redirect vrf blue"], "default": "permit" },
        "own": { "default": "deny" },
    });
    let more = json!({ "acls": lists, "acl_in": { "lan": "pbr" }, "acl_own": { "default": "own" } });
    let mut rig = quiet(Rig::new(PORTS, config(&more)));
    let before = rig.drops().get("router.acl-own/acl-denied").copied().unwrap_or(0);
    for to in ["10.0.0.1", "10.0.2.1", "2001:db8:1::1", "2001:db8:2::1"] {
        let frame = echo(&rig, to);
        rig.send(LAN, frame);
    }
    let (one, other) = (packet(&rig, "192.0.2.1", 18), packet(&rig, "2001:db8:9::1", 18));
    rig.send(LAN, one);
    rig.send(LAN, other);
    assert_eq!(gone(&mut rig), [0, 2]);
    assert_eq!(rig.drops()["router.acl-own/acl-denied"] - before, 4);
    rig.finish();
}

#[test]
fn sources_are_looked_up_in_the_vrf_of_the_interface() {
    let mut config = with_rules(&["permit redirect vrf blue"]);
    config["urpf"] = json!({ "lan": "strict" });
    let mut rig = quiet(Rig::new(PORTS, config));
    let (good, bad) = (rig.udp(LAN, HOST, "192.0.2.1"), rig.udp(LAN, "10.0.2.9", "192.0.2.1"));
    rig.send(LAN, good.to_vec(&[7; 18]));
    rig.send(LAN, bad.to_vec(&[7; 18]));
    assert_eq!(gone(&mut rig), [0, 1]);
    assert_eq!(rig.drops()["router.urpf/urpf-strict"], 1);
    rig.finish();
}

#[test]
fn rules_come_and_go_while_packets_flow() {
    let mut rig = rig(&["permit to 198.51.100.0/24 redirect vrf blue"]);
    let add = |rig: &Rig, rule: &str| rig.request("acl add", json!({ "list": "pbr", "rule": rule }));
    for round in 0..8 {
        let send = |rig: &mut Rig| {
            for to in ["192.0.2.1", "2001:db8:9::1"] {
                let frame = packet(rig, to, 18);
                (0..20).for_each(|_| rig.send(LAN, frame.clone()));
            }
        };
        send(&mut rig);
        add(&rig, "permit redirect vrf blue").unwrap();
        assert_eq!(gone(&mut rig), [0, 40], "round {round}");
        send(&mut rig);
        add(&rig, "permit to 192.0.2.0/24 redirect vrf default").unwrap();
        assert_eq!(gone(&mut rig), [20, 20], "round {round}");
        for _ in 0..2 {
            rig.request("acl del", json!({ "list": "pbr", "at": 1 })).unwrap();
        }
        send(&mut rig);
        assert_eq!(gone(&mut rig), [40, 0], "round {round}");
    }
    // A reload changes the rule as it stands.
    let frame = packet(&rig, "198.51.100.1", 18);
    rig.send(LAN, frame.clone());
    assert_eq!(gone(&mut rig), [0, 1]);
    rig.reload(&with_rules(&["permit to 198.51.100.0/24"]));
    rig.send(LAN, frame);
    assert_eq!(gone(&mut rig), [1, 0]);
    assert_eq!(rig.drops(), Default::default());
    rig.finish();
}

/// Why a configuration is refused in place of the one that runs, by a reload that changes it or by one that rebuilds.
fn refused(rig: &Rig, config: &Value) -> [Vec<String>; 2] {
    let names: Vec<&str> = rig.infos.iter().map(|info| info.name.as_str()).collect();
    let element = element(&names, config).unwrap();
    let env = Env { ports: &rig.infos, interfaces: &rig.interfaces, folder: None, running: Some(&*rig.instance) };
    let ground = Ground { domain: &rig.domain, now: rig.engine.now() };
    let changed = rehearsal::change(&Router, &element, &env).err();
    let built = rehearsal::build(&Router, &element, &env, &ground).err();
    [changed, built].map(|errors| errors.unwrap_or_default().iter().map(ToString::to_string).collect())
}

#[test]
fn what_is_wrong_is_told() {
    let lists = json!({
        "pbr": { "rules": ["permit redirect vrf blue", "permit redirect vrf bleu"], "default": "permit" },
        "out": { "rules": ["permit redirect vrf blue"], "default": "permit" },
        "own": { "rules": ["permit protocol udp redirect vrf blue"], "default": "permit" },
    });
    let more =
        json!({ "acls": lists, "acl_in": { "lan": "pbr" }, "acl_out": { "wan": "out" }, "acl_own": { "blue": "own" } });
    let told: Vec<String> = build(PORTS, &config(&more)).err().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    let has = |told: &str, parts: &[&str]| parts.iter().for_each(|part| assert!(told.contains(part), "{told}"));
    has(
        &told[0],
        &["acls[\"out\"]", "judges what leaves or is for the router itself", "acl_in", "a list without redirect"],
    );
    has(&told[1], &["acls[\"own\"]", "\"permit protocol udp redirect vrf blue\""]);
    has(
        &told[2],
        &["acls[\"pbr\"]", "\"bleu\", and there is no such VRF", "one of default, blue, red", "declare it in vrfs"],
    );
    for (rule, part) in [
        ("permit redirect", "has nothing behind redirect"),
        ("permit redirect blue", "redirects to no VRF"),
        ("permit redirect vrf", "redirects to no VRF"),
        ("permit redirect vrf blue redirect vrf red", "has redirect twice"),
        ("deny redirect vrf blue", "denies, and says what becomes of packets that go on"),
    ] {
        let told = build(PORTS, &with_rules(&[rule])).err().unwrap();
        has(&told[0].to_string(), &[part]);
    }
}

#[test]
fn rules_that_were_added_hold_on_to_what_they_need() {
    let lists = json!({ "pbr": { "default": "permit" }, "out": { "default": "permit" } });
    let more = json!({ "acls": lists, "acl_in": { "lan": "pbr" }, "acl_out": { "wan": "out" } });
    let rig = quiet(Rig::new(PORTS, config(&more)));
    let add = |list: &str, rule: &str| rig.request("acl add", json!({ "list": list, "rule": rule }));
    assert_eq!(
        add("pbr", "permit redirect vrf bleu").unwrap_err(),
        "the rule redirects to \"bleu\", and there is no such VRF; write one of default, blue, red, or declare it in vrfs"
    );
    assert_eq!(
        add("out", "permit redirect vrf blue").unwrap_err(),
        "the rule redirects, and its list judges what leaves or is for the router itself; give acl_out and acl_own a list without redirect"
    );
    add("pbr", "permit protocol udp redirect vrf red").unwrap();
    // It is saved, and comes back.
    let saved = all_rows(rig.instance.save());
    let other = Rig::new(PORTS, config(&more));
    saved.iter().for_each(|saved| drop(other.request(&saved.verb, saved.arguments.clone()).unwrap()));
    let rules = |rig: &Rig| rig.show("acls").iter().map(|row| row["rule"].clone()).collect::<Vec<_>>();
    assert_eq!(rules(&other), ["permit (default)", "permit protocol udp redirect vrf red", "permit (default)"]);
    // Its VRF does not go without a word, nor does its list come to judge what leaves.
    let mut without = config(&more);
    without["vrfs"].as_object_mut().unwrap().remove("red");
    let mut outward = config(&more);
    outward["acl_out"]["wan"] = json!("pbr");
    for (config, part) in [(without, "there is no such VRF"), (outward, "judges what leaves")] {
        for told in refused(&rig, &config) {
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].contains("which was added to pbr at run time") && told[0].contains(part), "{told:?}");
        }
    }
    rig.request("acl del", json!({ "list": "pbr", "at": 1 })).unwrap();
    let mut without = config(&more);
    without["vrfs"].as_object_mut().unwrap().remove("red");
    assert_eq!(refused(&rig, &without)[1], Vec::<String>::new());
}
