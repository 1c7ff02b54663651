//! Routes, addresses and neighbours of both families and in VRFs, as they are configured, changed, shown and saved.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::{PortSpec, Rig, SECOND, TWO, all_rows, build, interface};
use serde_json::{Value, json};
use weir_stage::InterfaceInfo;

/// The same two ports, each with a network of either family.
const BOTH: &[PortSpec] = &[
    PortSpec("left", &["10.0.0.1/24", "2001:db8:a::1/64"], 1500),
    PortSpec("right", &["10.0.1.1/24", "2001:db8:b::1/64"], 1500),
];

const C: u16 = 0x8100;

/// An interface in a VRF.
fn in_vrf(name: &str, on: &str, vlan: u16, vrf: &str, addresses: &[&str]) -> InterfaceInfo {
    InterfaceInfo { vrf: Some(vrf.to_owned()), ..interface(name, Some(on), &[(C, vlan)], addresses) }
}

/// Routes as `PREFIX via NEXT HOPS source`, with their VRF where it is not the default one; in brackets if they are not active.
fn told(rig: &Rig, filter: &str) -> Vec<String> {
    let row = |row: Value| {
        let via: Vec<&str> = row["via"].as_array().unwrap().iter().map(|via| via.as_str().unwrap()).collect();
        let vrf = row["vrf"].as_str().filter(|vrf| *vrf != "default").map_or(String::new(), |vrf| format!(" in {vrf}"));
        let text = format!("{} {}{vrf}", row["prefix"].as_str().unwrap(), via.join(" "));
        if row["active"] == json!(true) { text } else { format!("({text})") }
    };
    all_rows(rig.instance.show("routes", Some(filter), 0).unwrap()).into_iter().map(row).collect()
}

#[test]
fn routes_of_both_families_are_added_shown_saved_and_deleted() {
    let mut rig =
        Rig::new(BOTH, json!({ "routes": { "2001:db8:c::/48": "2001:db8:b::9", "203.0.113.0/24": "2001:db8:b::9" } }));
    rig.run(SECOND);
    assert_eq!(
        told(&rig, "connected"),
        ["10.0.0.0/24 %left", "10.0.1.0/24 %right", "2001:db8:a::/64 %left", "2001:db8:b::/64 %right",]
    );
    assert_eq!(told(&rig, "config"), ["203.0.113.0/24 2001:db8:b::9", "2001:db8:c::/48 2001:db8:b::9"]);
    for (prefix, via) in [
        ("2001:db8:d::/48", json!(["fe80::9%right", "2001:db8:b::7"])),
        ("2001:db8:c::/48", json!("blackhole")),
        ("192.0.2.0/24", json!("prohibit")),
        ("192.0.3.0/24", json!("%right")),
        ("::/0", json!("fe80::1%left")),
    ] {
        rig.request("route add", json!({ "prefix": prefix, "via": via })).unwrap();
    }
    let added = [
        "192.0.2.0/24 prohibit",
        "192.0.3.0/24 %right",
        "::/0 fe80::1%left",
        "2001:db8:c::/48 blackhole",
        "2001:db8:d::/48 2001:db8:b::7 fe80::9%right",
    ];
    let sorted = |mut told: Vec<String>| {
        // Next hops of a route that names interfaces stand as they were given.
        told.iter_mut()
            .for_each(|line| *line = line.replace("fe80::9%right 2001:db8:b::7", "2001:db8:b::7 fe80::9%right"));
        told
    };
    assert_eq!(sorted(told(&rig, "cli")), added);
    assert_eq!(
        told(&rig, "2001:db8:c::1"),
        ["2001:db8:c::/48 blackhole", "(2001:db8:c::/48 2001:db8:b::9)", "::/0 fe80::1%left",]
    );
    let saved: Vec<_> = all_rows(rig.instance.save());
    let lines: Vec<Value> = saved.iter().map(|saved| saved.arguments.clone()).collect();
    assert!(lines.contains(&json!({ "prefix": "::/0", "via": ["fe80::1%left"] })), "{lines:?}");
    assert_eq!(saved.len(), added.len());
    // What is saved is what is asked for again.
    for saved in &saved {
        rig.request(&saved.verb, saved.arguments.clone()).unwrap();
    }
    assert_eq!(sorted(told(&rig, "cli")), added);
    rig.request("route del", json!({ "prefix": "2001:db8:d::/48", "via": "fe80::9%right" })).unwrap();
    assert_eq!(told(&rig, "2001:db8:d::/48"), ["2001:db8:d::/48 2001:db8:b::7"]);
    for prefix in ["2001:db8:d::/48", "2001:db8:c::/48", "192.0.2.0/24", "192.0.3.0/24", "::/0"] {
        rig.request("route del", json!({ "prefix": prefix })).unwrap();
    }
    assert!(told(&rig, "cli").is_empty());
    assert_eq!(told(&rig, "2001:db8:c::/48"), ["2001:db8:c::/48 2001:db8:b::9"]);
    rig.finish();
}

#[test]
fn wrong_routes_are_told_and_change_nothing() {
    let rig = Rig::new(BOTH, json!({}));
    let wrong =
        |prefix: &str, via: &str| rig.request("route add", json!({ "prefix": prefix, "via": via })).unwrap_err();
    let networks = "choose a host of one of the networks 10.0.0.0/24, 10.0.1.0/24, 2001:db8:a::/64, 2001:db8:b::/64";
    assert_eq!(wrong("::/0", "10.0.0.9"), "an IPv6 route cannot go by 10.0.0.9; write the router's IPv6 address");
    assert_eq!(
        wrong("::/0", "fe80::9"),
        format!("fe80::9 is link-local, and may be on any link; write its interface, too: fe80::9%lan; {networks}")
    );
    assert_eq!(
        wrong("::/0", "2001:db8:f::9"),
        format!("2001:db8:f::9 is on no network that is connected to the router; {networks}")
    );
    assert_eq!(wrong("::/0", "fe80::9%middle"), "there is no interface middle; `show interfaces` lists them");
    assert_eq!(wrong("2001:db8::1/32", "blackhole"), "\"2001:db8::1/32\" has host bits set; write \"2001:db8::/32\"");
    let error =
        rig.request("route add", json!({ "prefix": "::/0", "via": ["blackhole", "2001:db8:a::9"] })).unwrap_err();
    assert_eq!(error, "::/0: a blackhole route leads nowhere, and can have no next hops; leave one or the other out");
    let error = rig.request("route add", json!({ "prefix": "::/0", "via": "blackhole", "vrf": "red" })).unwrap_err();
    assert_eq!(error, "there is no VRF \"red\"; write one of default");
    assert!(told(&rig, "cli").is_empty());
    let told =
        build(BOTH, &json!({ "routes": { "::/0": "10.0.0.9" }, "vrfs": { "default": {}, "a b": {} } })).err().unwrap();
    let told: Vec<String> = told.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    rig.finish();
}

/// Two VRFs with the same networks, and one route from one to the other.
fn two_vrfs(extra: Value) -> Rig {
    let interfaces = vec![
        in_vrf("red", "left", 5, "red", &["10.0.0.1/24", "2001:db8:a::1/64"]),
        in_vrf("blue", "right", 6, "blue", &["10.0.0.1/24"]),
    ];
    let mut config = json!({
        "vrfs": {
            "red": { "routes": { "0.0.0.0/0": "10.0.0.9", "192.0.2.0/24": "10.0.0.9%blue" }, "neighbors": { "10.0.0.9": "02:00:00:00:07:07" } },
            "blue": { "routes": { "0.0.0.0/0": "10.0.0.8" } },
        },
        "neighbor_timers": { "own_probes": 0 },
    });
    config.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    Rig::with(TWO, interfaces, config)
}

#[test]
fn vrfs_are_apart() {
    let mut rig = two_vrfs(json!({}));
    rig.run(3 * SECOND);
    assert_eq!(
        told(&rig, "10.0.0.0/24"),
        ["10.0.0.0/24 %left", "10.0.0.0/24 %blue in blue", "10.0.0.0/24 %red in red"]
    );
    assert_eq!(
        told(&rig, "red"),
        [
            "0.0.0.0/0 10.0.0.9 in red",
            "10.0.0.0/24 %red in red",
            "192.0.2.0/24 10.0.0.9%blue in red",
            "2001:db8:a::/64 %red in red",
        ]
    );
    rig.request("route add", json!({ "prefix": "11/8", "via": "10.0.0.7", "vrf": "blue" })).unwrap();
    let error = rig.request("route del", json!({ "prefix": "11/8" })).unwrap_err();
    assert_eq!(error, "there is no route to 11.0.0.0/8");
    rig.request("neighbor add", json!({ "address": "10.0.0.9", "mac": "02:00:00:00:08:08", "vrf": "blue" })).unwrap();
    let macs = |rig: &Rig| -> Vec<String> {
        let rows = all_rows(rig.instance.show("neighbors", Some("10.0.0.9"), 0).unwrap());
        rows.iter().map(|row| format!("{} {}", row["mac"].as_str().unwrap(), row["vrf"].as_str().unwrap())).collect()
    };
    assert_eq!(macs(&rig), ["02:00:00:00:07:07 red", "02:00:00:00:08:08 blue"]);
    let saved: Vec<Value> = all_rows(rig.instance.save()).into_iter().map(|saved| saved.arguments).collect();
    assert_eq!(
        saved,
        [
            json!({ "prefix": "11.0.0.0/8", "via": ["10.0.0.7"], "vrf": "blue" }),
            json!({ "address": "10.0.0.9", "mac": "02:00:00:00:08:08", "vrf": "blue" }),
        ]
    );
    let vrfs = rig.show("vrfs");
    let counts = |row: &Value| json!([row["name"], row["interfaces"], row["neighbors"]]);
    assert_eq!(
        vrfs.iter().map(counts).collect::<Vec<_>>(),
        [json!(["default", 2, 0]), json!(["blue", 1, 1]), json!(["red", 1, 1]),]
    );
    rig.request("route del", json!({ "prefix": "11/8", "vrf": "blue" })).unwrap();
    rig.request("neighbor del", json!({ "address": "10.0.0.9", "vrf": "blue" })).unwrap();
    assert_eq!(macs(&rig), ["02:00:00:00:07:07 red"]);
    rig.finish();
}

#[test]
fn what_was_added_survives_a_rebuild_by_the_names_of_its_vrf_and_interfaces() {
    let mut rig = two_vrfs(json!({}));
    rig.request("route add", json!({ "prefix": "11/8", "via": "10.0.0.7", "vrf": "red" })).unwrap();
    rig.request("route add", json!({ "prefix": "12/8", "via": "10.0.0.7%red", "vrf": "blue" })).unwrap();
    rig.request("neighbor add", json!({ "address": "10.0.0.7", "mac": "02:00:00:00:08:08", "vrf": "red" })).unwrap();
    // Another VRF in front of them, so that all have other numbers.
    let config = json!({ "vrfs": { "amber": {}, "blue": {}, "red": {} }, "hash_seed": 7 });
    rig.rebuild(&config);
    assert_eq!(told(&rig, "cli"), ["12.0.0.0/8 10.0.0.7%red in blue", "11.0.0.0/8 10.0.0.7 in red"]);
    let rows = all_rows(rig.instance.show("neighbors", Some("red"), 0).unwrap());
    assert_eq!((rows.len(), &rows[0]["mac"]), (1, &json!("02:00:00:00:08:08")));
    rig.settle();
    rig.finish();
}

#[test]
fn a_reload_changes_the_routes_of_a_vrf_and_nothing_else() {
    let mut rig = two_vrfs(json!({}));
    rig.request("route add", json!({ "prefix": "11/8", "via": "10.0.0.7", "vrf": "red" })).unwrap();
    rig.reload(&json!({
        "vrfs": { "red": { "routes": { "0.0.0.0/0": "unreachable" } }, "blue": { "routes": { "0.0.0.0/0": "10.0.0.8" } } },
        "neighbor_timers": { "own_probes": 0 },
    }));
    assert_eq!(told(&rig, "config"), ["0.0.0.0/0 10.0.0.8 in blue", "0.0.0.0/0 unreachable in red"]);
    assert_eq!(told(&rig, "cli"), ["11.0.0.0/8 10.0.0.7 in red"]);
    assert!(all_rows(rig.instance.show("neighbors", Some("config"), 0).unwrap()).is_empty());
    rig.finish();
}

/// An interface that comes back has another number: routes that name it lead there again.
#[test]
fn routes_that_name_an_interface_follow_it() {
    let config = json!({ "routes": { "::/0": "fe80::9%right" }, "neighbor_timers": { "own_probes": 0 } });
    let mut rig = Rig::new(BOTH, config);
    let add = json!({ "name": "right.7", "on": "right", "vlan": "7", "address": ["2001:db8:7::1/64"] });
    rig.request("interface add", add.clone()).unwrap();
    rig.request("route add", json!({ "prefix": "2001:db8:c::/48", "via": ["fe80::7%right.7", "fe80::9%right"] }))
        .unwrap();
    rig.request("route add", json!({ "prefix": "2001:db8:e::/48", "via": "fe80::7%right.7" })).unwrap();
    rig.settle();
    assert_eq!(told(&rig, "2001:db8:e::/48"), ["2001:db8:e::/48 fe80::7%right.7"]);
    rig.request("interface del", json!({ "name": "right.7" })).unwrap();
    rig.settle();
    assert_eq!(told(&rig, "2001:db8:e::/48"), ["(2001:db8:e::/48 fe80::7%right.7)"], "it waits for its interface");
    assert_eq!(
        told(&rig, "2001:db8:c::/48"),
        ["2001:db8:c::/48 fe80::7%right.7 fe80::9%right"],
        "the other one is left"
    );
    // Somebody else has the number meanwhile.
    rig.request(
        "interface add",
        json!({ "name": "left.8", "on": "left", "vlan": "8", "address": ["2001:db8:8::1/64"] }),
    )
    .unwrap();
    rig.settle();
    assert_eq!(told(&rig, "2001:db8:e::/48"), ["(2001:db8:e::/48 fe80::7%right.7)"]);
    rig.request("interface add", add).unwrap();
    rig.settle();
    assert_eq!(told(&rig, "2001:db8:e::/48"), ["2001:db8:e::/48 fe80::7%right.7"]);
    assert_eq!(told(&rig, "config"), ["::/0 fe80::9%right"]);
    rig.finish();
}

#[test]
fn neighbours_of_ipv6_are_entered_by_hand() {
    let neighbors = json!({ "fe80::9%right": "02:00:00:00:09:09", "2001:db8:a::5": "02:00:00:00:05:05" });
    let mut rig = Rig::new(BOTH, json!({ "neighbors": neighbors }));
    rig.request("neighbor add", json!({ "address": "fe80::9%left", "mac": "02:00:00:00:08:08" })).unwrap();
    let told: Vec<String> = rig
        .show("neighbors")
        .iter()
        .map(|row| {
            format!(
                "{} {} {}",
                row["address"].as_str().unwrap(),
                row["interface"].as_str().unwrap(),
                row["source"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(told, ["2001:db8:a::5 left config", "fe80::9 left cli", "fe80::9 right config"]);
    let saved: Vec<Value> = all_rows(rig.instance.save()).into_iter().map(|saved| saved.arguments).collect();
    assert_eq!(saved, [json!({ "address": "fe80::9%left", "mac": "02:00:00:00:08:08" })]);
    let error = rig.request("neighbor del", json!({ "address": "fe80::9" })).unwrap_err();
    assert_eq!(error, "fe80::9 is a neighbour on several interfaces; write fe80::9%INTERFACE");
    let error = rig.request("neighbor add", json!({ "address": "fe80::9", "mac": "02:00:00:00:08:08" })).unwrap_err();
    assert!(error.starts_with("fe80::9 is link-local"), "{error}");
    rig.request("neighbor del", json!({ "address": "fe80::9%left" })).unwrap();
    assert_eq!(rig.show("neighbors").len(), 2);
    rig.settle();
    rig.finish();
}

#[test]
fn addresses_of_ipv6_are_used_once_they_are_found_to_be_nobody_elses() {
    let mut rig = Rig::new(BOTH, json!({}));
    let usable = |rig: &Rig| -> Vec<String> {
        let rows = rig.show("addresses").into_iter().filter(|row| row["usable"] == json!(true));
        rows.map(|row| row["address"].as_str().unwrap().to_owned()).collect()
    };
    rig.settle();
    assert_eq!(usable(&rig), ["10.0.0.1/24", "10.0.1.1/24"]);
    rig.run(3 * SECOND);
    let all = usable(&rig);
    assert_eq!(all.len(), 6, "both link-local ones, too: {all:?}");
    assert_eq!(all.iter().filter(|address| address.starts_with("fe80::")).count(), 2);
    // The one that an interface has by itself is not configured, and so not saved or shown as its address.
    let addresses: Vec<Value> = rig.show("interfaces").iter().map(|row| row["addresses"].clone()).collect();
    assert_eq!(addresses, [json!(["10.0.0.1/24", "2001:db8:a::1/64"]), json!(["10.0.1.1/24", "2001:db8:b::1/64"])]);
    rig.instance.link_changed(0, false, rig.engine.now());
    rig.instance.link_changed(0, true, rig.engine.now());
    rig.settle();
    assert_eq!(usable(&rig).len(), 4, "they are asked for anew behind a link that was down");
    rig.run(3 * SECOND);
    assert_eq!(usable(&rig).len(), 6);
    rig.finish();
}

#[test]
fn the_link_local_address_of_an_interface_may_be_chosen() {
    const CHOSEN: &[PortSpec] = &[PortSpec("left", &["fe80::1/64", "2001:db8:a::1/64"], 1500), TWO[1]];
    let mut rig = Rig::new(CHOSEN, json!({}));
    rig.run(3 * SECOND);
    let addresses: Vec<String> =
        rig.show("addresses").iter().map(|row| row["address"].as_str().unwrap().to_owned()).collect();
    assert_eq!(addresses, ["10.0.1.1/24", "fe80::1/64", "2001:db8:a::1/64"]);
    assert_eq!(
        told(&rig, "connected"),
        ["10.0.1.0/24 %right", "2001:db8:a::/64 %left"],
        "no route is needed to fe80::/64"
    );
    rig.finish();
}
