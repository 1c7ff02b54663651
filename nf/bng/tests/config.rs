//! What is wrong with a configuration is told, all at once, each with its place and what to do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use std::io::Write;

use common::*;
use serde_json::{Value, json};
use weir_config::Folder;

/// The errors of a configuration that differs from a right one.
fn errors(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut config = tunnels();
    change(&mut config);
    build(TWO, &config).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

#[test]
fn right_configurations_are_taken() {
    assert_eq!(errors(|_| {}), Vec::<String>::new());
    assert!(build(TWO, &plain()).is_ok());
}

#[test]
fn what_is_wrong_with_gateways_is_told_key_by_key() {
    let wrong = errors(|config| {
        config["gateways"]["west"] = json!({
            "port": "cpe", "address": "192.0.2.1", "via": "224.0.0.5", "mac": "01:00:00:00:00:01", "labels": [3], "mtu": 1600
        });
    });
    let expected = [
        "test.lua:1: bng.gateways[\"west\"].port: \"cpe\" is no core port, and no interface on one; choose one of core",
        "test.lua:1: bng.gateways[\"west\"].via: 224.0.0.5 is no address of a host",
        "test.lua:1: bng.gateways[\"west\"].address: 192.0.2.1 is this end of the tunnel; write the other end's",
        "test.lua:1: bng.gateways[\"west\"].mac: 01:00:00:00:00:01 is not the address of one station",
        "test.lua:1: bng.gateways[\"west\"].labels: 3 is a label that may not be pushed (RFC 3032 section 2.1); choose 0 or 16 to 1048575",
    ];
    assert_eq!(wrong, expected);
    let wrong = errors(|config| config["gateways"]["west"]["mtu"] = json!(1600));
    let expected = "test.lua:1: bng.gateways[\"west\"].mtu: 1600 is more than the 1500 of \"core\"; lower it, or raise mtu of the port";
    assert_eq!(wrong, [expected]);
}

#[test]
fn an_end_of_tunnels_is_needed_and_labels_need_tunnels() {
    let wrong = errors(|config| {
        config.as_object_mut().unwrap().remove("local_address");
    });
    assert!(wrong.len() == 1 && wrong[0].starts_with("test.lua:1: bng.local_address: is missing"), "{wrong:?}");
    let mut config = plain();
    config["gateways"]["west"]["labels"] = json!([17]);
    let wrong = build(TWO, &config).err().unwrap();
    let expected = "test.lua:1: bng.gateways[\"west\"].labels: has labels, and plain ip carries none; leave them out, or choose gre+mpls";
    assert_eq!(wrong.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}

#[test]
fn the_core_side_speaks_both_families_and_tunnels_ipv4() {
    let ports = [TWO[0], PortSpec("core", &["192.0.2.1/30", "2001:db8::1/64"], 1500)];
    let mut config = tunnels();
    config["gateways"]["west"]["via"] = json!("2001:db8::2");
    build(&ports, &config).unwrap();
    config["gateways"]["west"]["address"] = json!("2001:db8:1::9");
    let wrong = build(&ports, &config).err().unwrap();
    let expected = "test.lua:1: bng.gateways[\"west\"].address: 2001:db8:1::9 is of IPv6, and tunnels are of IPv4; write an IPv4 address";
    assert_eq!(wrong.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}

#[test]
fn a_gateway_is_somebody_else() {
    let wrong = errors(|config| config["gateways"]["west"]["via"] = json!("192.0.2.1"));
    let expected =
        "test.lua:1: bng.gateways[\"west\"].via: 192.0.2.1 is this gateway's own address; write the other station's";
    assert_eq!(wrong, [expected]);
}

#[test]
fn a_gateway_is_not_called_as_a_port_is() {
    let mut config = tunnels();
    let west = config["gateways"]["west"].take();
    config["gateways"] = json!({ "core": west });
    config["routes"] = json!({ "0.0.0.0/0": "core" });
    let wrong = build(TWO, &config).err().unwrap();
    let expected =
        "test.lua:1: bng.gateways[\"core\"].port: a port has the name \"core\", too; give the gateway another";
    assert_eq!(wrong.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}

/// Mistakes of the gateway and of its subscribers are told together.
#[test]
fn what_is_wrong_with_subscribers_is_told_with_the_rest() {
    let wrong = errors(|config| {
        config["routes"]["10.0.0.0/8"] = json!("nowhere");
        config["subscribers"] = json!([
            { "svlan": 100, "cvlan": 1, "key": 7, "ipv4": ["127.0.0.1"] },
            { "svlan": 100, "cvlan": 2, "ipv4": ["10.0.0.8"] },
        ]);
    });
    assert_eq!(wrong.len(), 3, "{wrong:?}");
    assert!(wrong[0].contains("routes[\"10.0.0.0/8\"]"), "{wrong:?}");
    assert!(wrong[1].contains("subscribers[1]") && wrong[2].contains("subscribers[2]"), "{wrong:?}");
}

#[test]
fn routes_lead_to_gateways_that_there_are() {
    let wrong = errors(|config| config["routes"]["10.0.0.0/8"] = json!("nowhere"));
    let expected = "test.lua:1: bng.routes[\"10.0.0.0/8\"]: \"nowhere\" is no gateway; expected one of west";
    assert_eq!(wrong, [expected]);
}

#[test]
fn a_dscp_has_six_bits() {
    let wrong = errors(|config| config["tunnel"] = json!({ "dscp": 64 }));
    assert_eq!(wrong, ["test.lua:1: bng.tunnel.dscp: 64 is no DSCP, which are 0 to 63"]);
}

#[test]
fn a_port_is_on_one_side() {
    let wrong = errors(|config| {
        config["access"] = json!(["cpe", "core"]);
        config["core"] = json!(["core"]);
    });
    assert!(wrong[0].contains("bng.core[1]: \"core\" stands in access or core twice; leave one out"), "{wrong:?}");
}

/// Routes from a file: every wrong line is told, with its column.
#[test]
fn routes_of_a_file_are_checked_line_by_line() {
    let name = format!("weir-bng-config-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let mut file = std::fs::File::create(folder.join("routes.csv")).unwrap();
    file.write_all(b"prefix,gateway\n10.0.0.0/8,west\n10.0.0.1/8,west\n11.0.0.0/8,east\n10.0.0.0/8,west\n").unwrap();
    drop(file);
    let mut config = tunnels();
    config["routes_csv"] = json!("routes.csv");
    let opened = Folder::open(&folder).unwrap();
    let wrong = build_in(TWO, &config, Some(&opened)).err().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    assert_eq!(wrong.len(), 3, "{wrong:?}");
    for (error, place) in wrong.iter().zip(["routes.csv:3:1:", "routes.csv:4:12:", "routes.csv:5:1:"]) {
        assert!(error.starts_with(place), "{error}");
    }
}

#[test]
fn plain_ip_has_no_outer_packet_to_fragment() {
    let mut config = plain();
    config["tunnel"] = json!({ "fragment": true });
    let wrong = build(TWO, &config).err().unwrap();
    let expected = "test.lua:1: bng.tunnel.fragment: plain ip has no outer packet that could be fragmented; leave it out, or choose gre+mpls";
    assert_eq!(wrong.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}
