//! Stages wired by hand, in the whole program: what crosses, what is warned of, and a script that is exchanged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Folder, Running, check_account, frames, pcap, read_pcap, said, text, weir};
use serde_json::{Value, json};

const PORTS: &str = r#"
    engine { clock = "virtual" }
    port { name = "in", device = "pcap:in.pcap," }
    port { name = "out", device = "pcap:,out.pcap" }
    port { name = "watch", device = "pcap:,watch.pcap" }
"#;

#[test]
fn what_is_wired_is_what_happens() {
    let folder = Folder::new("wired");
    let sent = frames(1000);
    folder.write("in.pcap", pcap(&sent));
    let wiring = r#"wiring { receive = { ["in"] = "copy" }, stages = {
        copy = { kind = "copy", ways = { out = "swap", copy = "port watch" } },
        swap = { kind = "swap-macs", ways = { out = "port out" } },
    } }"#;
    let mut running = Running::start(&folder, &format!("{PORTS}{wiring}"), &["--until-drained", "--json"]);
    let (printed, status) = running.rest();
    assert_eq!(status, Some(0), "{}", running.log());
    assert!(!running.log().contains("leads nowhere"), "{}", running.log());
    let stats: Value = serde_json::from_str(&printed).unwrap();
    check_account(&stats);
    assert_eq!((&stats["account"]["created"], &stats["account"]["transmitted"]), (&json!(1000), &json!(2000)));
    assert_eq!(read_pcap(&folder.0.join("watch.pcap")), sent);
    for (out, sent) in read_pcap(&folder.0.join("out.pcap")).iter().zip(&sent) {
        assert_eq!([&out[6..12], &out[..6], &out[12..]].concat(), *sent);
    }
}

#[test]
fn ways_that_lead_nowhere_are_warned_of() {
    let folder = Folder::new("loose");
    folder.write("in.pcap", pcap(&frames(10)));
    let wiring = |ways: &str| {
        let ports = PORTS.replace("    port { name = \"watch\", device = \"pcap:,watch.pcap\" }\n", "");
        format!(
            r#"{ports}wiring {{ receive = {{ ["in"] = "dns" }}, stages = {{
            dns = {{ kind = "match", filter = "udp port 53", ways = {{ {ways} }} }} }} }}"#
        )
    };
    let warning = "weir.lua:5: wiring: way other of stage wiring.dns leads nowhere: its packets are dropped as other; \
                   lead it somewhere, or to \"drop\" if that is meant";
    let file = folder.write("weir.lua", wiring(r#"out = "port out""#));
    let said = weir(&["check", file.to_str().unwrap()]);
    assert!(said.status.success());
    assert!(text(&said.stdout).contains(warning), "{}", text(&said.stdout));
    let said = weir(&["check", "--json", file.to_str().unwrap()]);
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((&said["ok"], said["warnings"].as_array().unwrap().len()), (&json!(true), 1));
    let mut running = Running::start(&folder, &wiring(r#"out = "port out""#), &["--until-drained", "--json"]);
    let (printed, _) = running.rest();
    assert!(running.log().contains("way other of stage wiring.dns leads nowhere"), "{}", running.log());
    let stats: Value = serde_json::from_str(&printed).unwrap();
    check_account(&stats);
    assert_eq!((&stats["drops"][0]["reason"], &stats["drops"][0]["packets"]), (&json!("other"), &json!(10)));

    // What is said to be meant is not warned of.
    let file = folder.write("weir.lua", wiring(r#"out = "port out", other = "drop""#));
    assert!(!text(&weir(&["check", file.to_str().unwrap()]).stdout).contains("warning"));
}

#[test]
fn a_changed_script_is_taken_over() {
    let folder = Folder::new("script");
    folder.write("in.pcap", pcap(&frames(100)));
    folder.write("stage.lua", "function run(batch) local x = nil + 1 end");
    let script = r#"
        port { name = "in", device = "mem:replay=in.pcap,rate=20 kpps" }
        port { name = "out", device = "mem:null" }
        wiring { receive = { ["in"] = "script" }, stages = {
            script = { kind = "lua", file = "stage.lua", ways = { out = "port out" } } } }"#;
    let refused = weir(&["run", folder.write("refused.lua", script).to_str().unwrap()]);
    assert!(text(&refused.stderr).contains("--allow-lua-stages"), "{}", text(&refused.stderr));

    let running = Running::start(&folder, script, &["--json", "--allow-lua-stages"]);
    let disabled = |table: &Value| table["rows"][0]["troubles"].as_str().is_some_and(|said| said.contains("disabled"));
    let troubles = running.wait_for(&["show", "wiring"], disabled);
    assert!(troubles.to_string().contains("stage.lua:1"), "{troubles}");
    folder.write("stage.lua", "function run(batch) end");
    running.say(&["reload"]);
    let sent = |stats: &Value| stats["ports"]["out"]["tx_packets"].as_u64() > Some(100);
    check_account(&running.wait_for(&["show", "stats"], sent));
    let (printed, status) = running.stop_by("TERM");
    assert_eq!(status, Some(0));
    check_account(&serde_json::from_str(&printed).unwrap());
}

/// A router wired by hand, with a script and a copy between its steps, each section on a worker of its own.
#[test]
fn a_router_wired_by_hand_keeps_every_packet_and_its_order() {
    let folder = Folder::new("wired-router");
    let sent = frames(1000);
    folder.write("in.pcap", pcap(&sent));
    folder.write("mark.lua", "function run(batch) for i = 1, batch:count() do batch:set_u8(i, 55, 7) end end");
    let wiring = r#"wiring { workers = { 0, 1 }, layout = "pipeline", receive = { ["in"] = "check" }, stages = {
        check = { kind = "ipv4-check", any_station = true, ways = { out = "mark", options = "drop", arp = "drop" } },
        mark = { kind = "lua", file = "mark.lua", ways = { out = "route" } },
        route = { kind = "ipv4-route", section = 1, next_hops = { "10.0.0.2" }, routes = { ["0.0.0.0/0"] = "10.0.0.2" },
                  ways = { ["way[0]"] = "copy", ["no-route"] = "drop" } },
        copy = { kind = "copy", section = 1, ways = { out = "send", copy = "port watch" } },
        send = { kind = "ipv4-rewrite", section = 2, from = "out", to = "02:00:00:00:07:07",
                 ways = { out = "port out", expired = "drop", ["too-big"] = "drop" } },
    } }"#;
    let arguments = ["--until-drained", "--json", "--allow-lua-stages"];
    let mut running = Running::start(&folder, &format!("{PORTS}{wiring}"), &arguments);
    let (printed, status) = running.rest();
    assert_eq!(status, Some(0), "{}", running.log());
    let stats: Value = serde_json::from_str(&printed).unwrap();
    check_account(&stats);
    assert_eq!((&stats["account"]["created"], &stats["account"]["transmitted"]), (&json!(1000), &json!(2000)));
    let marked: Vec<Vec<u8>> = sent.iter().map(|frame| [&frame[..55], &[7], &frame[56..]].concat()).collect();
    assert_eq!(read_pcap(&folder.0.join("watch.pcap")), marked);
    let out = read_pcap(&folder.0.join("out.pcap"));
    assert_eq!(out.len(), marked.len());
    for (out, marked) in out.iter().zip(&marked) {
        // RFC 1812 section 5.3.1: all is as it was behind the link header, but for the TTL and the checksum over it.
        assert_eq!((&out[..6], out[22], &out[26..]), (&[2, 0, 0, 0, 7, 7][..], marked[22] - 1, &marked[26..]));
        assert!(weir_wire::checksum::is_valid(&out[14..34]));
    }
}

/// A step that sends to a neighbour of a router beside it, on two workers, and what else comes to the router.
const FOLLOWING: &str = r#"
    port { name = "in", device = "mem:replay=in.pcap,rate=20 kpps" }
    port { name = "out", device = "mem:null" }
    port { name = "up", device = "joint:up" }
    port { name = "r", device = "joint:up", address = "10.0.0.1/24" }
    wiring { workers = { 0, 1 }, layout = "distributor", receive = { ["in"] = "check", up = "answers" }, stages = {
        check = { kind = "ipv4-check", any_station = true, ways = { out = "send", options = "drop", arp = "drop" } },
        send = { kind = "ipv4-rewrite", from = "out", to = "10.0.0.2%r",
                 ways = { out = "port out", expired = "drop", ["too-big"] = "drop", unresolved = "port up" } },
        answers = { kind = "discard", ways = { out = "drop" } },
    } }
    router { ports = { "r" } }
"#;

/// Packets that have left the step by a way.
fn left_by(stats: &Value, way: &str) -> u64 {
    let stages = stats["stages"].as_array().unwrap().iter().filter(|stage| stage["name"] == "wiring.send");
    stages.filter_map(|stage| stage["ways"][way].as_u64()).sum()
}

/// Waits until packets leave the step by one way, and no more by the other.
fn settles_on(running: &Running, way: &str, other: &str) {
    common::until(&format!("packets leave by {way} alone"), || {
        let before = running.json(&["show", "stats"]);
        running.wait_for(&["show", "stats"], |stats| {
            [way, other].iter().map(|way| left_by(stats, way) - left_by(&before, way)).sum::<u64>() > 2000
        });
        let after = running.json(&["show", "stats"]);
        check_account(&after);
        left_by(&after, other) == left_by(&before, other)
    });
}

#[test]
fn a_step_follows_a_neighbour_through_changes_and_reloads() {
    let folder = Folder::new("following");
    folder.write("in.pcap", pcap(&frames(100)));
    let running = Running::start(&folder, FOLLOWING, &["--json"]);
    let add = || running.say(&["neighbor", "add", "10.0.0.2", "mac", "02:00:00:00:08:08"]);
    let del = || running.say(&["neighbor", "del", "10.0.0.2"]);
    settles_on(&running, "unresolved", "out");
    add();
    settles_on(&running, "out", "unresolved");

    // A router built anew, the wiring as it is: it has the neighbour that was added, and is the one that is followed.
    folder.write("weir.lua", FOLLOWING.replace("router { ", "router { limits = { routes = 4096 }, "));
    running.say(&["reload"]);
    settles_on(&running, "out", "unresolved");
    del();
    settles_on(&running, "unresolved", "out");

    // The wiring built anew; and then another router in the place of this one, which has the neighbour.
    let wiring = FOLLOWING.replace(r#"layout = "distributor""#, r#"layout = "distributor", spread_by = "source""#);
    folder.write("weir.lua", &wiring);
    running.say(&["reload"]);
    add();
    settles_on(&running, "out", "unresolved");
    del();
    let other = r#"router { name = "other", neighbors = { ["10.0.0.2"] = "02:00:00:00:07:07" }, "#;
    folder.write("weir.lua", wiring.replace("router { ", other));
    running.say(&["reload"]);
    settles_on(&running, "out", "unresolved");
    folder.write("weir.lua", wiring.replace("router { ", r#"router { name = "other", "#));
    running.say(&["reload"]);
    settles_on(&running, "unresolved", "out");
    let (printed, status) = running.stop_by("TERM");
    assert_eq!(status, Some(0));
    check_account(&serde_json::from_str(&printed).unwrap());
}

/// Whose interfaces are that steps name for neighbours on their links, beside what the steps say themselves.
#[test]
fn neighbours_are_on_links_of_interfaces_that_functions_have() {
    let check = |name: &str, to: &str, more: &str| {
        said(
            name,
            &format!(
                r#"
        port {{ name = "in", device = "mem:null", address = "10.0.3.1/24" }}
        port {{ name = "r", device = "mem:null", address = "10.0.0.1/24" }}
        port {{ name = "tagged", device = "mem:null" }}
        wiring {{ receive = {{ ["in"] = "check" }}, stages = {{
            check = {{ kind = "ipv4-check", ways = {{ out = "send", options = "drop", arp = "drop" }} }},
            send = {{ kind = "ipv4-rewrite", from = "in", to = "{to}",
                     ways = {{ out = "port in", expired = "drop", ["too-big"] = "drop", unresolved = "drop" }} }} }} }}
        {more}"#
            ),
        )
    };
    let router = r#"router { ports = { "r", "tagged" } }
        interface { name = "tagged.7", on = "tagged", vlan = 7, address = { "10.0.7.1/24", "2001:db8:7::1/64" } }"#;
    for to in ["10.0.0.2%r", "10.0.7.2%tagged.7", "fe80::2%tagged.7", "2001:db8:7::2%tagged.7"] {
        let (told, right) = check("check-neighbors", to, router);
        assert!(right, "{to}: {told}");
    }
    let one_of = "expected one of r, tagged, tagged.7";
    for (to, expected) in [
        ("10.0.3.2%in", format!("\"in\" is a port of wiring, which knows no neighbours there; {one_of}")),
        ("10.0.7.2%tagged.8", format!("\"tagged.8\" names no interface; {one_of}; did you mean \"tagged.7\"?")),
        (
            "10.0.7.2%tagged",
            "10.0.7.2 is on no network of tagged; give tagged an IPv4 address, or name another interface".to_owned(),
        ),
        ("10.0.7.2%r", "10.0.7.2 is on no network of r; write the address of a host of 10.0.0.0/24".to_owned()),
        ("10.0.0.2", "\"10.0.0.2\" does not say on whose link the neighbour is; ".to_owned()),
    ] {
        let (told, right) = check("check-neighbors-wrong", to, router);
        assert!(!right && told.contains(&format!("weir.lua:5: wiring.stages.send.to: {expected}")), "{to}: {told}");
        assert_eq!(told.lines().filter(|line| line.contains(".to: ")).count(), 1, "{told}");
    }
    let (told, right) = check("check-neighbors-alone", "10.0.0.2%r", "");
    let expected = "wiring.stages.send.to: \"r\" names no interface; declare a router, and name one of its interfaces";
    assert!(!right && told.contains(expected), "{told}");
}
