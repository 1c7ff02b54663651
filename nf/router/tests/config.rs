//! Configurations that are wrong, requests, shows, what is saved, and reloads.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use std::fs;

use common::*;
use serde_json::{Value, json};
use weir_config::Folder;

fn messages(ports: &[PortSpec], config: &Value) -> Vec<String> {
    build(ports, config).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let config = json!({
        "routes": {
            "192.0.2.0/24": "172.16.0.1",
            "198.51.100.0/24": "10.0.0.1",
            "203.0.113.0/24": ["10.0.1.9", "10.0.1.255"],
            "203.0.114.0/24": [],
        },
        "neighbors": { "172.16.0.2": "02:00:00:00:00:01", "10.0.0.7": "01:00:5e:00:00:01" },
        "limits": { "next_hops": 16 },
    });
    let told = messages(TWO, &config);
    let remedy = "; choose a host of one of the networks 10.0.0.0/24, 10.0.1.0/24";
    assert_eq!(
        told,
        [
            "test.lua:1: router.neighbors[\"10.0.0.7\"]: 01:00:5e:00:00:01 is not the address of one station"
                .to_owned(),
            format!(
                "test.lua:1: router.neighbors[\"172.16.0.2\"]: 172.16.0.2 is on no network that is connected to the router{remedy}"
            ),
            format!(
                "test.lua:1: router.routes[\"192.0.2.0/24\"]: 172.16.0.1 is on no network that is connected to the router{remedy}"
            ),
            format!(
                "test.lua:1: router.routes[\"198.51.100.0/24\"]: 10.0.0.1 is an address of the router itself{remedy}"
            ),
            format!(
                "test.lua:1: router.routes[\"203.0.113.0/24\"]: 10.0.1.255 is the broadcast address of 10.0.1.0/24{remedy}"
            ),
            format!("test.lua:1: router.routes[\"203.0.114.0/24\"]: has no next hop{remedy}"),
        ]
    );
}

#[test]
fn ports_that_do_not_fit_together() {
    const NONE: &[PortSpec] = &[PortSpec("left", &[], 1500), PortSpec("right", &["10.0.1.1/24"], 1500)];
    const SIX: &[PortSpec] = &[PortSpec("left", &["10.0.0.1/24", "::1/64"], 1500), TWO[1]];
    const SMALL: &[PortSpec] = &[PortSpec("left", &["10.0.0.1/24", "2001:db8::1/64"], 1279), TWO[1]];
    const SAME: &[PortSpec] = &[PortSpec("left", &["10.0.0.1/24"], 1500), PortSpec("right", &["10.0.0.2/24"], 1500)];
    const TWICE: &[PortSpec] = &[PortSpec("left", &["10.0.0.1/24"], 1500), PortSpec("right", &["10.0.0.1/16"], 1500)];
    let cases: [(&[PortSpec], Value, &str); 8] = [
        (SIX, json!({}), "router.ports[1]: port \"left\": ::1 is not a unicast address"),
        (
            SMALL,
            json!({}),
            "router.ports[1]: port \"left\" has an IPv6 address and an MTU of 1279; IPv6 needs 1280 at least; raise the MTU, or leave the address out",
        ),
        (
            NONE,
            json!({}),
            "router.ports[1]: port \"left\" has no address; give it one, as in port { ..., address = \"192.0.2.1/24\" }",
        ),
        (
            SAME,
            json!({}),
            "router.ports[2]: port \"right\" has the address 10.0.0.2/24, and port \"left\" has the same network; give each interface a network of its own",
        ),
        (
            TWICE,
            json!({}),
            "router.ports[2]: port \"right\" has the address 10.0.0.1/16, and port \"left\" has the same address; give each interface a network of its own",
        ),
        (TWO, json!({ "ports": ["left", "left"] }), "router.ports[2]: \"left\" stands here twice; leave one out"),
        (
            TWO,
            json!({ "ports": ["left"], "proxy_arp": ["right"] }),
            "router.proxy_arp[1]: \"right\" is no port of this router; expected one of left",
        ),
        (
            TWO,
            json!({ "routes_csv": "routes.csv" }),
            "router.routes_csv: \"routes.csv\" can not be opened: the configuration has no folder",
        ),
    ];
    for (ports, config, expected) in cases {
        assert_eq!(messages(ports, &config), [format!("test.lua:1: {expected}")]);
    }
}

#[test]
fn limits_are_told_before_anything_is_built() {
    let routes: serde_json::Map<_, _> =
        (0..30).map(|n| (format!("192.0.{n}.4/30"), json!(format!("10.0.1.{}", n + 2)))).collect();
    let limits = json!({ "routes": 16, "next_hops": 16, "long_prefix_networks": 16 });
    let told = messages(TWO, &json!({ "routes": routes, "limits": limits }));
    assert_eq!(
        told,
        [
            "test.lua:1: router.limits.routes: 16 is too few: the routes of this configuration take 32",
            "test.lua:1: router.limits.next_hops: 16 is too few: the routes of this configuration take 32",
            "test.lua:1: router.limits.long_prefix_networks: 16 is too few: the routes of this configuration take 34",
        ]
    );
}

#[test]
fn routes_from_a_file_with_the_place_of_every_error() {
    let path = std::env::temp_dir().join(format!("weir-router-{}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    let folder = Folder::open(&path).unwrap();
    let told = |text: &str| -> Vec<String> {
        fs::write(path.join("routes.csv"), text).unwrap();
        let config = json!({ "routes_csv": "routes.csv", "routes": { "192.0.2.0/24": "10.0.1.9" } });
        build_in(TWO, &config, Some(&folder)).err().unwrap_or_default().iter().map(ToString::to_string).collect()
    };
    assert_eq!(told("prefix,via\n198.51.100.0/24,10.0.1.9\n10/8,10.0.1.9;10.0.1.8\n"), Vec::<String>::new());
    assert_eq!(
        told("via,prefix\n10.0.1.9,300.0.0.0/8\n\n172.16.0.1,198.51.100.0/24\n10.0.1.9,192.0.2.0/24\n10.0.1.1,11/8\n"),
        [
            "routes.csv:2:10: prefix: \"300.0.0.0/8\" is not an IPv4 prefix; expected a prefix, e.g. \"192.0.2.0/24\"",
            "routes.csv:4:1: via: 172.16.0.1 is on no network that is connected to the router; choose a host of one of the networks 10.0.0.0/24, 10.0.1.0/24",
            "routes.csv:6:1: via: 10.0.1.1 is an address of the router itself; choose a host of one of the networks 10.0.0.0/24, 10.0.1.0/24",
            "test.lua:1: router.routes_csv: line 5 has a route to 192.0.2.0/24, and so is one in the script; put all addresses of a prefix into one line, parted by ;",
        ]
    );
    assert!(!told("nothing\n").is_empty());
    fs::remove_dir_all(&path).unwrap();
}

fn prefixes(rig: &Rig, filter: Option<&str>) -> Vec<String> {
    let rows = all_rows(rig.instance.show("routes", filter, 0).unwrap());
    rows.iter().map(|row| format!("{} {}", row["prefix"].as_str().unwrap(), row["source"].as_str().unwrap())).collect()
}

#[test]
fn routes_are_added_replaced_and_deleted_at_run_time() {
    let mut rig = Rig::new(TWO, json!({ "routes": { "192.0.2.0/24": "10.0.1.9" } }));
    assert_eq!(prefixes(&rig, None), ["10.0.0.0/24 connected", "10.0.1.0/24 connected", "192.0.2.0/24 config"]);
    rig.request("route add", json!({ "prefix": "10.1.0.0/16", "via": ["10.0.1.7", "10.0.1.8"] })).unwrap();
    rig.request("route add", json!({ "prefix": "192.0.2.0/24", "via": "10.0.1.7" })).unwrap();
    assert_eq!(prefixes(&rig, Some("cli")), ["10.1.0.0/16 cli", "192.0.2.0/24 cli"]);
    assert_eq!(prefixes(&rig, Some("192.0.2.77")), ["192.0.2.0/24 cli", "192.0.2.0/24 config"]);
    let rows = all_rows(rig.instance.show("routes", Some("10.1.0.0/16"), 0).unwrap());
    assert_eq!(
        rows,
        [
            json!({ "prefix": "10.1.0.0/16", "via": ["10.0.1.7", "10.0.1.8"], "source": "cli", "active": true, "vrf": "default" })
        ]
    );
    let rows = all_rows(rig.instance.show("routes", Some("192.0.2.0/24"), 0).unwrap());
    assert_eq!((&rows[0]["active"], &rows[1]["active"]), (&json!(true), &json!(false)), "the command wins");
    // Some of its next hops, then the rest.
    rig.request("route del", json!({ "prefix": "10.1.0.0/16", "via": ["10.0.1.7"] })).unwrap();
    let rows = all_rows(rig.instance.show("routes", Some("10.1.0.0/16"), 0).unwrap());
    assert_eq!(rows[0]["via"], json!(["10.0.1.8"]));
    rig.request("route del", json!({ "prefix": "10.1.0.0/16" })).unwrap();
    rig.request("route del", json!({ "prefix": "192.0.2.0/24" })).unwrap();
    assert!(prefixes(&rig, Some("cli")).is_empty());
    let rows = all_rows(rig.instance.show("routes", Some("192.0.2.0/24"), 0).unwrap());
    assert_eq!((rows.len(), &rows[0]["source"], &rows[0]["active"]), (1, &json!("config"), &json!(true)));
    rig.settle();
    rig.finish();
}

/// A table of thousands of routes is told in pieces, between which anything may be asked and changed.
#[test]
fn a_long_table_keeps_nobody_waiting() {
    let rig = Rig::new(TWO, json!({}));
    let prefix = |n: u32| format!("172.{}.{}.{}/31", 16 + n / 32_768, n / 128 % 256, n % 128 * 2);
    for n in 0..5000 {
        rig.request("route add", json!({ "prefix": prefix(n), "via": "10.0.1.7" })).unwrap();
    }
    let mut table = rig.instance.show("routes", Some("cli"), 0).unwrap();
    let mut told: Vec<Value> = table.piece();
    assert_eq!(told.len(), weir_stage::PIECE);
    // One that was told, one that was not, and one that was not there.
    for gone in [0, 4000] {
        rig.request("route del", json!({ "prefix": prefix(gone) })).unwrap();
    }
    rig.request("route add", json!({ "prefix": "192.0.2.0/24", "via": "10.0.1.7" })).unwrap();
    assert_eq!(all_rows(rig.instance.show("routes", Some("192.0.2.0/24"), 0).unwrap()).len(), 1);
    while let piece @ [_, ..] = &*table.piece() {
        assert!(piece.len() <= weir_stage::PIECE);
        told.extend_from_slice(piece);
    }
    let told: Vec<&str> = told.iter().map(|row| row["prefix"].as_str().unwrap()).collect();
    let expected: Vec<String> = (0..5000).filter(|n| *n != 4000).map(prefix).collect();
    assert_eq!(told, expected);
}

#[test]
fn a_wrong_request_changes_nothing() {
    let rig = Rig::new(TWO, json!({ "routes": { "192.0.2.0/24": "10.0.1.9" } }));
    let wrong = |verb: &str, arguments: Value| rig.request(verb, arguments).unwrap_err();
    let networks = "; choose a host of one of the networks 10.0.0.0/24, 10.0.1.0/24";
    assert_eq!(wrong("route add", json!({ "via": "10.0.1.9" })), "prefix is missing");
    assert_eq!(wrong("route add", json!({ "prefix": "10/8" })), "via is missing; name at least one next hop");
    assert_eq!(
        wrong("route add", json!({ "prefix": "10.1/8", "via": "10.0.1.9" })),
        "\"10.1/8\" has host bits set; write \"10.0.0.0/8\""
    );
    assert_eq!(
        wrong("route add", json!({ "prefix": "10/8", "via": "10.0.1" })),
        "\"10.0.1\" is not a next hop; write an address, one with its interface (fe80::9%lan), %lan, blackhole, unreachable or prohibit"
    );
    assert_eq!(
        wrong("route add", json!({ "prefix": "10/8", "via": ["10.0.1.9", "172.16.0.1"] })),
        format!("172.16.0.1 is on no network that is connected to the router{networks}")
    );
    assert_eq!(
        wrong("route del", json!({ "prefix": "192.0.2.0/24" })),
        "the route to 192.0.2.0/24 stands in the configuration; delete it there and reload"
    );
    assert_eq!(
        wrong("route del", json!({ "prefix": "10.0.0.0/24" })),
        "the route to 10.0.0.0/24 is connected; only those added at run time can be deleted"
    );
    assert_eq!(wrong("route del", json!({ "prefix": "11/8" })), "there is no route to 11.0.0.0/8");
    assert_eq!(
        wrong("neighbor add", json!({ "address": "10.0.1.9", "mac": "ff:ff:ff:ff:ff:ff" })),
        "ff:ff:ff:ff:ff:ff is not the address of one station"
    );
    assert_eq!(
        wrong("neighbor del", json!({ "address": "10.0.1.9" })),
        "10.0.1.9 is no neighbour; `show neighbors` lists them"
    );
    assert_eq!(wrong("nonsense", json!({})), "there is no request 'nonsense'");
    // A list is done whole or not at all: the second entry here undoes the first.
    let list = json!([{ "prefix": "11/8", "via": "10.0.1.9" }, { "prefix": "12/8", "via": "10.0.0.1" }]);
    assert_eq!(wrong("route add", list), format!("entry 2: 10.0.0.1 is an address of the router itself{networks}"));
    assert!(prefixes(&rig, Some("cli")).is_empty());
    assert!(rig.instance.show("nonsense", None, 0).is_err());
    assert!(rig.instance.show("routes", Some("nonsense"), 0).is_err());
    // A filter that means nothing is told what there is; one that means something may have no rows.
    let shown = |what: &str, word: &str| {
        rig.instance.show(what, Some(word), 0).map(|rows| all_rows(rows).len()).map_err(|error| error.0)
    };
    assert_eq!(
        shown("neighbors", "foo").unwrap_err(),
        "\"foo\" selects no neighbors; write an address, an interface (left, right), a state (incomplete, reachable, stale, delay, probe, \
         failed, permanent), a source (connected, cli, config, linux, learned), a VRF (default)"
    );
    assert_eq!(
        shown("nexthops", "foo").unwrap_err(),
        "\"foo\" selects no nexthops; write an address, an interface (left, right)"
    );
    assert!(shown("addresses", "foo").is_err() && shown("fib", "foo").is_err());
    for word in ["10.0.0.77", "left", "stale", "learned"] {
        assert_eq!(shown("neighbors", word), Ok(0), "{word}");
    }
    rig.finish();
}

#[test]
fn a_list_that_fails_half_way_restores_what_it_replaced() {
    let rig = Rig::new(TWO, json!({ "limits": { "routes": 16 } }));
    rig.request("route add", json!({ "prefix": "11/8", "via": "10.0.1.9" })).unwrap();
    let mut list = vec![json!({ "prefix": "11/8", "via": "10.0.1.8" })];
    list.extend((0..20).map(|n| json!({ "prefix": format!("12.{n}.0.0/16"), "via": "10.0.1.9" })));
    let error = rig.request("route add", list.into()).unwrap_err();
    assert_eq!(
        error,
        "entry 15: 12.13.0.0/16: the table is full: it is configured for 16 routes; delete some or configure more"
    );
    let rows = all_rows(rig.instance.show("routes", Some("cli"), 0).unwrap());
    assert_eq!(
        rows,
        [json!({ "prefix": "11.0.0.0/8", "via": ["10.0.1.9"], "source": "cli", "active": true, "vrf": "default" })]
    );
    rig.finish();
}

#[test]
fn static_neighbours_come_and_go_and_are_saved() {
    let mut rig = Rig::new(TWO, json!({ "neighbor_timers": { "own_probes": 0 } }));
    rig.request("neighbor add", json!({ "address": "10.0.1.9", "mac": "02:00:00:00:07:07" })).unwrap();
    rig.request("route add", json!({ "prefix": "192.0.2.0/24", "via": ["10.0.1.9"] })).unwrap();
    rig.send(0, rig.udp(0, "10.0.0.9", "192.0.2.7").to_vec(&[0; 20]));
    rig.settle();
    assert_eq!(rig.sent_ip(1)[0][..6], [2, 0, 0, 0, 7, 7]);
    let saved: Vec<Value> =
        all_rows(rig.instance.save()).iter().map(|entry| serde_json::to_value(entry).unwrap()).collect();
    assert_eq!(
        saved,
        [
            json!({ "verb": "route add", "arguments": { "prefix": "192.0.2.0/24", "via": ["10.0.1.9"] }, "key": "routes" }),
            json!({ "verb": "neighbor add", "arguments": { "address": "10.0.1.9", "mac": "02:00:00:00:07:07" }, "key": "neighbors" }),
        ]
    );
    rig.request("neighbor del", json!({ "address": "10.0.1.9" })).unwrap();
    rig.send(0, rig.udp(0, "10.0.0.9", "192.0.2.7").to_vec(&[0; 20]));
    rig.settle();
    assert_eq!(rig.account().held, 1, "it is asked for again");
    rig.finish();
}

#[test]
fn a_reload_changes_only_what_the_configuration_owns() {
    let mut rig = Rig::new(TWO, json!({ "routes": { "192.0.2.0/24": "10.0.1.9", "198.51.100.0/24": "10.0.1.9" } }));
    rig.request("route add", json!({ "prefix": "203.0.113.0/24", "via": "10.0.1.7" })).unwrap();
    rig.reload(&json!({
        "routes": { "198.51.100.0/24": "10.0.1.8", "172.16.0.0/12": "10.0.1.9" },
        "neighbors": { "10.0.1.8": "02:00:00:00:08:08" },
    }));
    assert_eq!(
        prefixes(&rig, None),
        [
            "10.0.0.0/24 connected",
            "10.0.1.0/24 connected",
            "172.16.0.0/12 config",
            "198.51.100.0/24 config",
            "203.0.113.0/24 cli"
        ]
    );
    rig.send(0, rig.udp(0, "10.0.0.9", "198.51.100.7").to_vec(&[0; 20]));
    rig.settle();
    assert_eq!(rig.sent_ip(1)[0][..6], [2, 0, 0, 0, 8, 8]);
    // The static neighbour goes with the configuration that named it.
    rig.reload(&json!({}));
    assert_eq!(prefixes(&rig, None).len(), 3);
    assert!(rig.show("neighbors").is_empty());
    rig.finish();
}

#[test]
fn a_rebuild_takes_over_what_was_added_and_learned() {
    let mut rig = Rig::new(TWO, json!({ "neighbor_timers": { "own_probes": 0 } }));
    rig.request("route add", json!({ "prefix": "192.0.2.0/24", "via": "10.0.1.9" })).unwrap();
    rig.request("neighbor add", json!({ "address": "10.0.0.77", "mac": "02:00:00:00:07:07" })).unwrap();
    let frame = rig.udp(0, "10.0.0.9", "192.0.2.7").to_vec(&[0; 20]);
    rig.send(0, frame.clone());
    rig.settle();
    rig.arp_reply(1, "10.0.1.9".parse().unwrap(), weir_wire::MacAddr([2, 0, 0, 0, 9, 9]), "10.0.1.1".parse().unwrap());
    rig.settle();
    rig.sent(1);
    let waiting = rig.udp(0, "10.0.0.9", "10.0.1.55").to_vec(&[0; 20]);
    rig.send(0, waiting);
    rig.settle();
    assert_eq!(rig.account().held, 1);
    rig.rebuild(&json!({ "neighbor_timers": { "own_probes": 0 }, "table": "dir24" }));
    rig.settle();
    // What a rebuild must drop is dropped as such.
    assert_eq!((rig.account().held, rig.drops()["router.control/reload"]), (0, 1));
    rig.sent(1);
    rig.send(0, frame);
    rig.settle();
    assert_eq!(rig.sent_ip(1)[0][..6], [2, 0, 0, 0, 9, 9], "no packet waits for what is known");
    assert_eq!(prefixes(&rig, Some("cli")), ["192.0.2.0/24 cli"]);
    assert!(rig.show("neighbors").iter().any(|row| row["address"] == "10.0.0.77" && row["source"] == "cli"));
    rig.finish();
}
