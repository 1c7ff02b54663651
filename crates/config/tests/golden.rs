//! Wrong documents and what is said to each, word by word.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use common::document;
use serde_json::{Value as Json, json};
use weir_config::{Folder, Kind};

/// What is said to a router whose ports `wan` and `lan` are declared before it.
fn said_of_router(router: Json) -> Vec<String> {
    said(&[
        ("port", json!({"name": "wan", "device": "null"})),
        ("port", json!({"name": "lan", "device": "null"})),
        ("router", router),
    ])
}

fn said(declarations: &[(&str, Json)]) -> Vec<String> {
    let errors = document(declarations).check(&common::catalogue(), None).unwrap_err();
    errors.iter().map(ToString::to_string).collect()
}

/// One wrong key of an else right router, and the one line that must be said to it.
#[test]
fn one_wrong_key_of_a_router() {
    let cases = [
        (
            json!({"ports": null}),
            r#"ports: is missing; expected a list of 1 to 4, each the name of a port; add ports = { "lan" }"#,
        ),
        (json!({"ports": []}), "ports: has 0 entries; expected 1 to 4"),
        (json!({"ports": ["wan", "lan", "wan", "lan", "wan"]}), "ports: has 5 entries; expected 1 to 4"),
        (
            json!({"ports": "wan"}),
            r#"ports: "wan" is a string, not what this key holds; expected a list of 1 to 4, each the name of a port"#,
        ),
        (
            json!({"ports": ["wna"]}),
            r#"ports[1]: "wna" names no port; expected the name of a port, such as "lan", "wan"; did you mean "wan"?"#,
        ),
        (
            json!({"ports": ["wan", "uplink"]}),
            r#"ports[2]: "uplink" names no port; expected the name of a port, such as "lan", "wan"; declare it with port { name = "uplink", ... }"#,
        ),
        (json!({"ports": ["wan", 2]}), "ports[2]: 2 is a number, not what this key holds; expected the name of a port"),
        (
            json!({"ports": {"1": "wan", "3": "lan"}}),
            "ports: has no entry 2, yet others after it or before 1; expected a list whose entries are numbered from 1 without a gap; look for a nil among its entries",
        ),
        (
            json!({"ports": {"a": "wan"}}),
            "ports: a table of 1 is not what this key holds; expected a list of 1 to 4, each the name of a port",
        ),
        (json!({"workers": [128]}), "workers[1]: 128 is out of range; expected an integer from 0 to 127"),
        (json!({"workers": [-1]}), "workers[1]: -1 is out of range; expected an integer from 0 to 127"),
        (json!({"mtu": 67}), "mtu: 67 is out of range; expected an integer from 68 to 9216"),
        (
            json!({"mtu": 1500.5}),
            "mtu: 1500.5 is a number, not what this key holds; expected an integer from 68 to 9216; write a whole number",
        ),
        (
            json!({"mtu": "1500"}),
            r#"mtu: "1500" is a string, not what this key holds; expected an integer from 68 to 9216; write 1500 without quotes"#,
        ),
        (json!({"mtu": true}), "mtu: true is a boolean, not what this key holds; expected an integer from 68 to 9216"),
        (
            json!({"mtuu": 1500}),
            "mtuu: is not a key here; expected one of name, ports, workers, routes, routes_csv, mtu, share, rate, memory, proxy_arp, mac, idle, label, metrics, martians, limits, costs; did you mean mtu?",
        ),
        (
            json!({"1": "wan"}),
            "[1]: is not a key here; expected one of name, ports, workers, routes, routes_csv, mtu, share, rate, memory, proxy_arp, mac, idle, label, metrics, martians, limits, costs",
        ),
        (json!({"share": 1.5}), "share: 1.5 is out of range; expected a number from 0 to 1"),
        (json!({"share": 2}), "share: 2 is out of range; expected a number from 0 to 1"),
        (
            json!({"share": "half"}),
            r#"share: "half" is a string, not what this key holds; expected a number from 0 to 1"#,
        ),
        (
            json!({"rate": 10}),
            r#"rate: 10 has no unit; expected a rate from 1 kbit/s to 100 Gbit/s, e.g. "10 Mbit/s"; write it as in "10 Mbit/s""#,
        ),
        (
            json!({"rate": "10"}),
            r#"rate: "10" has no unit; expected a rate from 1 kbit/s to 100 Gbit/s, e.g. "10 Mbit/s"; write it as in "10 Mbit/s""#,
        ),
        (
            json!({"rate": "10 ms"}),
            r#"rate: "10 ms" has the unit "ms", which a rate cannot have; expected a rate from 1 kbit/s to 100 Gbit/s, e.g. "10 Mbit/s"; use one of bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s"#,
        ),
        (
            json!({"rate": "10 mbit/s"}),
            r#"rate: "10 mbit/s" has the unit "mbit/s", which a rate cannot have; expected a rate from 1 kbit/s to 100 Gbit/s, e.g. "10 Mbit/s"; did you mean Mbit/s?"#,
        ),
        (
            json!({"rate": "1 Tbit/s"}),
            r#"rate: "1 Tbit/s" is out of range; expected a rate from 1 kbit/s to 100 Gbit/s, e.g. "10 Mbit/s""#,
        ),
        (
            json!({"rate": "fast"}),
            r#"rate: "fast" is not a rate; expected a rate from 1 kbit/s to 100 Gbit/s, e.g. "10 Mbit/s""#,
        ),
        (
            json!({"rate": [1]}),
            r#"rate: a list of 1 is not what this key holds; expected a rate from 1 kbit/s to 100 Gbit/s, e.g. "10 Mbit/s""#,
        ),
        (
            json!({"memory": "64 kib"}),
            r#"memory: "64 kib" has the unit "kib", which a size cannot have; expected a size, e.g. "64 KiB"; did you mean KiB?"#,
        ),
        (json!({"memory": "0.3 B"}), r#"memory: "0.3 B" is no whole number of B; expected a size, e.g. "64 KiB""#),
        (
            json!({"proxy_arp": "true"}),
            r#"proxy_arp: "true" is a string, not what this key holds; expected true or false; write true without quotes"#,
        ),
        (
            json!({"mac": "02:00:00:00:00"}),
            r#"mac: "02:00:00:00:00" is not a MAC address; expected a MAC address, e.g. "02:00:00:00:00:01""#,
        ),
        (json!({"idle": "spni"}), r#"idle: "spni" is no choice; expected one of "spin", "sleep"; did you mean spin?"#),
        (
            json!({"label": "much too long"}),
            r#"label: "much too long" is out of range; expected a string of 1 to 8 characters"#,
        ),
        (
            json!({"label": 7}),
            "label: 7 is a number, not what this key holds; expected a string of 1 to 8 characters; write \"7\"",
        ),
        (
            json!({"metrics": "a b"}),
            r#"metrics: "a b" has the wrong form; expected a name (a letter, then up to 31 letters, digits, - or _)"#,
        ),
        (
            json!({"martians": ["10.0.0.1/8"]}),
            r#"martians[1]: "10.0.0.1/8" has host bits set; expected a prefix, e.g. "192.0.2.0/24"; write "10.0.0.0/8""#,
        ),
        (
            json!({"martians": ["fe80::/129"]}),
            r#"martians[1]: "fe80::/129" has a prefix length of 129, and the longest is 128; expected a prefix, e.g. "192.0.2.0/24""#,
        ),
        (
            json!({"martians": ["10.0.0.1"]}),
            r#"martians[1]: "10.0.0.1" has no prefix length; expected a prefix, e.g. "192.0.2.0/24"; write "10.0.0.1/32" or another length"#,
        ),
        (
            json!({"routes": {"10/8": "192.0.2.999"}}),
            r#"routes["10/8"]: "192.0.2.999" is not an IPv4 address; expected an IPv4 address, e.g. "192.0.2.9""#,
        ),
        (
            json!({"routes": {"10/8": {"via": "192.0.2.999"}}}),
            r#"routes["10/8"].via: "192.0.2.999" is not an IPv4 address; expected an IPv4 address, e.g. "192.0.2.9""#,
        ),
        (
            json!({"routes": {"10/8": {"via": "192.0.2.9/24"}}}),
            r#"routes["10/8"].via: "192.0.2.9/24" has a prefix length, and an IPv4 address has none; expected an IPv4 address, e.g. "192.0.2.9"; write "192.0.2.9""#,
        ),
        (
            json!({"routes": {"10/8": {"metric": 1}}}),
            r#"routes["10/8"].via: is missing; expected an IPv4 address, e.g. "192.0.2.9", or a list of 1 to 16 of such; add via = { "192.0.2.9" }"#,
        ),
        (json!({"routes": {"10/8": {"via": []}}}), r#"routes["10/8"].via: has 0 entries; expected 1 to 16"#),
        (
            json!({"routes": {"10/8": ["192.0.2.9", "::1"]}}),
            r#"routes["10/8"][2]: "::1" is not an IPv4 address; expected an IPv4 address, e.g. "192.0.2.9""#,
        ),
        (
            json!({"routes": {"10/8": true}}),
            r#"routes["10/8"]: true is a boolean, not what this key holds; expected an IPv4 address, e.g. "192.0.2.9", or a list of such; or a table with the keys via, metric"#,
        ),
        (
            json!({"routes": {"10.0.0.1/8": "192.0.2.9"}}),
            r#"routes["10.0.0.1/8"]: "10.0.0.1/8" has host bits set; expected an IPv4 prefix, e.g. "192.0.2.0/24"; write "10.0.0.0/8""#,
        ),
        (
            json!({"routes": {"10/8": "192.0.2.9", "10.0.0.0/8": "192.0.2.8"}}),
            r#"routes["10/8"]: is the same key as another, ["10.0.0.0/8"]; remove one of the two"#,
        ),
        (
            json!({"routes": ["192.0.2.9"]}),
            r#"routes[1]: 1 is a number, not what this key holds; expected an IPv4 prefix, e.g. "192.0.2.0/24""#,
        ),
        (
            json!({"routes": 5}),
            r#"routes: 5 is a number, not what this key holds; expected a table from an IPv4 prefix, e.g. "192.0.2.0/24" to an IPv4 address, e.g. "192.0.2.9", or a list of such; or a table with the keys via, metric"#,
        ),
        (
            json!({"routes_csv": "/etc/passwd"}),
            r#"routes_csv: "/etc/passwd" is an absolute path; expected a file below the folder of the script, e.g. "routes.csv"; write the path from the folder of the script"#,
        ),
        (
            json!({"routes_csv": "../routes.csv"}),
            r#"routes_csv: "../routes.csv" leads out of the folder of the script; expected a file below the folder of the script, e.g. "routes.csv"; move the file below that folder"#,
        ),
        (
            json!({"limits": {"icmp": "0 pps"}}),
            r#"limits.icmp: "0 pps" is out of range; expected a packet rate from 1 pps to 1 Mpps, e.g. "1 Mpps""#,
        ),
        (
            json!({"limits": {"aging": "5 s"}}),
            "limits.aging: is not a key here; expected one of icmp, ageing; did you mean ageing?",
        ),
        (
            json!({"limits": "none"}),
            r#"limits: "none" is a string, not what this key holds; expected a table with the keys icmp, ageing"#,
        ),
        (json!({"costs": {"256": 1}}), "costs[256]: 256 is out of range; expected an integer from 0 to 255"),
        (json!({"costs": {"1": 1, "2": 1, "3": 1, "4": 1}}), "costs: has 4 entries; expected 0 to 3"),
    ];
    for (wrong, line) in cases {
        let mut router = json!({"ports": ["wan", "lan"]});
        router.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        let separator = if line.starts_with('[') { "" } else { "." };
        assert_eq!(said_of_router(router), [format!("router.lua:3: router{separator}{line}")]);
    }
}

#[test]
fn wrong_declarations() {
    let port = || ("port", json!({"name": "wan", "device": "null"}));
    let cases = [
        (
            vec![port(), ("ruoter", json!({}))],
            "router.lua:2: ruoter: is nothing that can be declared; expected one of port, engine, router; did you mean router?",
        ),
        (
            vec![("port", json!({"device": "null"}))],
            r#"router.lua:1: port.name: is missing; expected a name (a letter, then up to 31 letters, digits, - or _); add name = "wan""#,
        ),
        (
            vec![("port", json!({"name": "0 wan", "device": "null"}))],
            r#"router.lua:1: port["0 wan"].name: "0 wan" has the wrong form; expected a name (a letter, then up to 31 letters, digits, - or _)"#,
        ),
        (
            vec![("port", json!({"name": "wan", "device": "null", "address": "192.0.2.0/24"}))],
            r#"router.lua:1: port["wan"].address: "192.0.2.0/24" is the network address of 192.0.2.0/24; expected an interface address, e.g. "192.0.2.1/24"; write an address between the first and the last, such as "192.0.2.1/24""#,
        ),
        (
            vec![port(), port()],
            r#"router.lua:2: port["wan"]: is declared already at router.lua:1; give it another name"#,
        ),
        (
            vec![port(), ("router", json!({"ports": ["wan"]})), ("router", json!({"ports": ["wan"]}))],
            r#"router.lua:3: router: is declared already at router.lua:2; give each a name of its own, as in name = "one""#,
        ),
        (
            vec![("engine", json!({})), ("engine", json!({}))],
            "router.lua:2: engine: is declared already at router.lua:1; put all keys into one declaration",
        ),
        (
            vec![("engine", json!({"name": "x"}))],
            "router.lua:1: engine.name: is not a key here; expected one of buffers",
        ),
        (
            vec![("router", json!({"ports": ["wan"]}))],
            r#"router.lua:1: router.ports[1]: "wan" names no port; expected the name of a port, and none is declared; declare it with port { name = "wan", ... }"#,
        ),
        // Advice is such that following it helps.
        (
            vec![("port", json!({"name": 5, "device": "null"}))],
            r#"router.lua:1: port.name: 5 is a number, not what this key holds; expected a name (a letter, then up to 31 letters, digits, - or _); write one that is allowed, such as "wan""#,
        ),
        (
            vec![port(), ("port", json!({"device": "null"}))],
            r#"router.lua:2: port.name: is missing; expected a name (a letter, then up to 31 letters, digits, - or _); add name = "wan2""#,
        ),
        (
            vec![port(), ("router", json!({"ports": ["wan", "to the north"]}))],
            r#"router.lua:2: router.ports[2]: "to the north" names no port; expected the name of a port, such as "wan"; name one that is declared: "to the north" can not be, for it is not a name (a letter, then up to 31 letters, digits, - or _)"#,
        ),
        (
            vec![port(), ("router", json!({"ports": ["wan"], "mtu": "9999999"}))],
            r#"router.lua:2: router.mtu: "9999999" is a string, not what this key holds; expected an integer from 68 to 9216; write one that is allowed, such as 68"#,
        ),
        (
            vec![port(), ("router", json!({"ports": ["wan"], "routes": {"2001:db8::1": "192.0.2.1"}}))],
            r#"router.lua:2: router.routes["2001:db8::1"]: "2001:db8::1" has no prefix length; expected an IPv4 prefix, e.g. "192.0.2.0/24"; write one that is allowed, such as "192.0.2.0/24""#,
        ),
        (
            vec![("engine", json!("fast"))],
            r#"router.lua:1: engine: "fast" is a string, not what this key holds; expected a table with the keys buffers"#,
        ),
    ];
    for (declarations, line) in cases {
        assert_eq!(said(&declarations), [line]);
    }
}

#[test]
fn all_errors_are_told_at_once_and_in_order() {
    let lines = said(&[
        ("port", json!({"name": "wan", "divice": "null"})),
        ("router", json!({"name": "edge", "ports": ["wan", "lan"], "mtu": 1, "rate": 5})),
    ]);
    let starts = [
        r#"router.lua:1: port["wan"].divice: is not a key"#,
        r#"router.lua:1: port["wan"].device: is missing"#,
        r#"router.lua:2: router["edge"].ports[2]: "lan" names no port"#,
        r#"router.lua:2: router["edge"].mtu: 1 is out of range"#,
        r#"router.lua:2: router["edge"].rate: 5 has no unit"#,
    ];
    assert_eq!(lines.len(), starts.len(), "{lines:#?}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
}

#[test]
fn what_is_right_is_there_beside_what_is_wrong() {
    let declared = document(&[
        ("port", json!({"name": "wan", "device": "null"})),
        ("port", json!({"name": "lan", "divice": "null"})),
        ("engine", json!({"buffers": "many"})),
        ("router", json!({"ports": ["wan", "lan"]})),
    ]);
    let (checked, errors) = declared.examine(&common::catalogue(), None);
    assert_eq!(errors.len(), 3, "{errors:?}");
    let there: Vec<(&str, &str)> = checked.elements().iter().map(|element| (element.kind(), element.name())).collect();
    assert_eq!(there, [("port", "wan"), ("router", "router"), ("engine", "engine")], "the engine by its defaults");
    assert_eq!(declared.check(&common::catalogue(), None).unwrap_err(), errors);
}

#[test]
fn files_must_be_there_when_the_folder_is_known() {
    let folder = Folder::open(std::path::Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    let document = document(&[
        ("port", json!({"name": "wan", "device": "null"})),
        ("router", json!({"ports": ["wan"], "routes_csv": "none.csv"})),
        ("router", json!({"name": "two", "ports": ["wan"], "routes_csv": "Cargo.toml"})),
    ]);
    let errors = document.check(&common::catalogue(), Some(&folder)).unwrap_err();
    let [error] = errors.as_slice() else { panic!("{errors:?}") };
    let start = r#"router.lua:2: router.routes_csv: "none.csv" does not exist in the folder "#;
    assert!(error.to_string().starts_with(start), "{error}");
}

#[test]
fn every_mistake_that_a_schema_speaks_of_is_told() {
    for kind in common::catalogue().kinds() {
        assert_eq!(kind.schema().defects(), Vec::<String>::new(), "{}", kind.name());
    }
    let wrong = common::RouterConfig::schema().wrong_values();
    assert!(wrong.len() >= 70, "{}", wrong.len());
}

#[test]
fn a_bad_schema_has_defects() {
    weir_config::config! {
        struct Bad {
            pub mtu: u16 = default(5), live, range(68..=9216);
        }
    }
    let defects = Kind::single("bad", Bad::schema()).schema().defects();
    let starts = [r#"the table "" has no doc text"#, "the key .mtu has no doc text", "a default is refused: "];
    assert_eq!(defects.len(), starts.len(), "{defects:#?}");
    for (defect, start) in defects.iter().zip(starts) {
        assert!(defect.starts_with(start), "{defect}");
    }
    assert_eq!(Bad { mtu: 100 }.mtu, 100);
}
