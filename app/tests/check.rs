//! `weir check`: what is wrong in meaning is told beside what is wrong in form, and what is hardly meant is told, too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::process::Command;

use common::{Folder, WEIR, said, text};

#[test]
fn what_no_form_forbids_is_told() {
    let (said, right) = said(
        "check-meant",
        r#"
        port { name = "lan", device = "mem:null", address = "10.0.0.1/8" }
        port { name = "wan", device = "mem:null", address = { "10.1.0.1/16", "192.0.2.1/24" } }
        port { name = "spare", device = "mem:null", address = "10.2.0.1/16" }
        router { ports = { "lan", "wan" } }
        "#,
    );
    assert!(right, "{said}");
    assert!(
        said.contains("warning: weir.lua:3: port[\"wan\"].address: its network 10.1.0.0/16 lies in 10.0.0.0/8, that of port \"lan\""),
        "{said}"
    );
    assert!(said.contains("warning: weir.lua:4: port[\"spare\"]: belongs to no function"), "{said}");
    assert!(!said.contains("10.2.0.0") && !said.contains("192.0.2.0"), "{said}");
    assert!(said.ends_with("weir.lua: no mistake, and 2 things that are hardly meant\n"), "{said}");
}

/// Tables of these sizes take several GiB, of which the program gets less than one.
#[test]
fn checking_builds_no_tables() {
    let folder = Folder::new("check-tables");
    let file = folder.write(
        "weir.lua",
        r#"
        for n, name in ipairs { "a", "b", "c", "d", "e", "f" } do
            port { name = name, device = "mem:null", address = "10.0." .. n .. ".1/24" }
        end
        router { ports = { "a", "b" }, limits = { routes = 8000000, next_hops = 1000000, long_prefix_networks = 1048576 } }
        bng {
            access = { "c" }, core = { "d" }, core_encapsulation = "ip", addresses = "100.64.0.1/10",
            gateways = { west = { port = "d", address = "10.0.4.2" } }, routes = { ["0.0.0.0/0"] = "west" },
            limits = { subscribers = 1048576, bindings = 4194304, svlans = 131072, routes = 4000000 },
        }
        qos {
            from = "e", to = "f", user_by = "source", others = "all",
            scheduler = {
                rate = "10 Gbit/s", users = 1000000, buffers = 1000000, profiles = { all = { tb_rate = "1 Gbit/s" } },
            },
            limits = { prefixes = 1048576, networks = 1048576 },
        }
        "#,
    );
    let bounded = "ulimit -v 900000 && exec \"$0\" check \"$1\"";
    let output = Command::new("sh").args(["-c", bounded, WEIR, file.to_str().unwrap()]).output().unwrap();
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && said.ends_with(": nothing is wrong\n"), "{said}");
}

#[test]
fn an_address_that_is_of_no_use_is_a_mistake() {
    let (said, right) = said(
        "check-six",
        r#"
        port { name = "lan", device = "mem:null", address = { "10.0.0.1/24", "::1/64" } }
        router { ports = { "lan" } }
        "#,
    );
    assert!(!right && said.contains("port \"lan\": ::1 is not a unicast address"), "{said}");
}

#[test]
fn mistakes_of_meaning_are_told_beside_those_of_form() {
    let (said, right) = said(
        "check-both",
        r#"
        engine { buffers = "many" }
        port { name = "lan", device = "pcapp:a,b", address = "10.0.0.1/24" }
        port { name = "wan", device = "mem:null", address = "192.0.2.1/24" }
        port { name = "bad", device = "mem:null", address = "10.9.0.1/24", mtuu = 1500 }
        router { ports = { "lan", "wan" }, routes = { ["0.0.0.0/0"] = "203.0.113.1" } }
        forward { paths = { "bad -> lan" }, workers = { 1, 1 } }
        "#,
    );
    assert!(!right);
    let told = [
        "weir.lua:2: engine.buffers: \"many\"",
        "weir.lua:5: port[\"bad\"].mtuu: is not a key here",
        "weir.lua:3: port[\"lan\"].device: \"pcapp:a,b\": \"pcapp\" is no kind of device: it is one of pcap, mem, joint, af_xdp",
        "did you mean \"pcap:a,b\"?",
        "weir.lua:7: forward: port \"lan\" belongs to router already",
        "weir.lua:7: forward.workers: core 1 stands here twice",
        "203.0.113.1 is on no network",
    ];
    for sentence in told {
        assert!(said.contains(sentence), "{sentence}\n{said}");
    }
    assert_eq!(said.lines().count(), told.len(), "nothing that only follows from them: {said}");
}

#[test]
fn following_the_advice_helps() {
    let with_name = |name: &str| {
        format!("port {{ name = {name}, device = \"mem:null\" }}\nforward {{ paths = {{ \"wan -> wan\" }} }}\n")
    };
    let (told, right) = said("check-name", &with_name("5"));
    assert!(!right && told.contains("write one that is allowed, such as \"wan\""), "{told}");
    let (told, right) = said("check-name-2", &with_name("\"wan\""));
    assert!(right, "{told}");
    // Not to write "5", which is no device either.
    let with_device = |device: &str| {
        format!("port {{ name = \"wan\", device = {device} }}\nforward {{ paths = {{ \"wan -> wan\" }} }}\n")
    };
    let (told, right) = said("check-device", &with_device("5"));
    assert!(!right && told.contains("write one that is allowed, such as \"af_xdp:eth0\""), "{told}");
    let (told, right) = said("check-device-2", &with_device("\"af_xdp:eth0\""));
    assert!(right, "{told}");
}

#[test]
fn joints_have_two_ends_that_functions_have() {
    let script = |ports: &str, pairs: &str| format!("{ports}\nforward {{ pairs = {{ {pairs} }} }}\n");
    let port = |name: &str, device: &str| format!("port {{ name = \"{name}\", device = \"{device}\" }}\n");
    let of = |name: &str, ports: &str, pairs: &str| said(name, &script(ports, pairs));
    let (a, b, null) = (port("a", "joint:x"), port("b", "joint:x,mac=02:00:00:00:00:07"), port("n", "mem:null"));
    let (text, fine) =
        of("joint-fine", &format!("{a}{b}{null}{}", port("m", "mem:null")), "{ 'a', 'n' }, { 'b', 'm' }");
    assert!(fine, "{text}");
    let cases: [(&str, String, &str, &str); 6] = [
        (
            "one-end",
            format!("{a}{null}"),
            "{ 'a', 'n' }",
            "joint \"x\" has one end; it takes two ports; give a second port the device \"joint:x\"",
        ),
        (
            "three-ends",
            format!("{a}{b}{}", port("c", "joint:x")),
            "{ 'a', 'b' }, { 'c', 'c' }",
            "joint \"x\" has its two ends already: ports \"a\" and \"b\"; give this port another joint",
        ),
        (
            "unused-end",
            format!("{a}{b}{null}"),
            "{ 'a', 'n' }",
            "belongs to no function, and what comes over joint \"x\" has nowhere to go; name it among the ports of a function",
        ),
        (
            "mtu",
            format!("{}{b}", "port { name = 'a', device = 'joint:x', mtu = 9000 }\n"),
            "{ 'a', 'b' }",
            "is not the MTU of port \"a\", the other end of joint \"x\"; give both ends the same MTU",
        ),
        (
            "no-name",
            format!("{}{null}", port("a", "joint:")),
            "{ 'a', 'n' }",
            "names no joint; write it as in joint:uplink",
        ),
        ("option", format!("{}{b}", port("a", "joint:x,rate=3")), "{ 'a', 'b' }", "the options are mac"),
    ];
    for (name, ports, pairs, expected) in cases {
        let (text, fine) = of(&format!("joint-{name}"), &ports, pairs);
        assert!(!fine && text.contains(expected), "{name}: {text}");
    }
}

#[test]
fn an_interface_of_a_shared_port_belongs_to_one_function() {
    let script = |trunk: &str, ten: &str, twenty: &str| {
        format!(
            r#"port {{ name = "lan", device = "mem:null", address = "10.0.0.1/24" }}
        port {{ name = "trunk", device = "mem:null", {trunk} }}
        interface {{ name = "trunk.10", on = "trunk", vlan = 10, address = "10.0.10.1/24", {ten} }}
        interface {{ name = "trunk.20", on = "trunk", address = "10.0.20.1/24", {twenty} }}
        router {{ name = "first", ports = {{ "lan", "trunk" }} }}
        router {{ name = "second", ports = {{ "trunk" }} }}"#
        )
    };
    let [first, twenty] = [r#"of = "first""#, r#"of = "second", vlan = 20"#];
    let address = r#"address = "10.0.1.1/24""#;
    for trunk in ["", &format!("{address}, {first}")] {
        let (text, fine) = said("shared-fine", &script(trunk, first, twenty));
        assert!(fine, "{text}");
    }
    let share = "first and second share port \"trunk\"; expected one of first, second";
    let nobody = "\"third\" is no function that has port \"trunk\"; expected one of first, second";
    let third = r#"of = "third""#;
    let cases = [
        ("", "", twenty, format!("weir.lua:3: interface[\"trunk.10\"].of: is missing: {share}")),
        (address, first, twenty, format!("weir.lua:2: port[\"trunk\"].of: is missing: {share}")),
        ("", third, twenty, format!("weir.lua:3: interface[\"trunk.10\"].of: {nobody}")),
        (third, first, twenty, format!("weir.lua:2: port[\"trunk\"].of: {nobody}")),
        (
            "",
            first,
            r#"of = "second", vlan = 10"#,
            "interface \"trunk.10\" has the same tags on the same port".to_owned(),
        ),
    ];
    for (trunk, ten, twenty, wanted) in cases {
        let (text, fine) = said("shared-wrong", &script(trunk, ten, twenty));
        assert!(!fine && text.contains(&wanted), "{wanted}\n{text}");
    }
}

#[test]
fn interfaces_have_ports_tags_and_owners() {
    let script = |interfaces: &str| {
        format!(
            r#"
        port {{ name = "lan", device = "mem:null", address = "10.0.0.1/24" }}
        port {{ name = "wan", device = "mem:null", address = "192.0.2.1/24" }}
        port {{ name = "f", device = "mem:null" }}
        router {{ ports = {{ "lan", "wan" }} }}
        forward {{ paths = {{ "f -> f" }}, workers = {{ 1 }} }}
        {interfaces}
        "#
        )
    };
    let (text, fine) = said(
        "interfaces-fine",
        &script(
            r#"
        interface { name = "lan.5", on = "lan", vlan = 5, address = "10.5.0.1/24" }
        interface { name = "lan.s5", on = "lan", vlan = 5, tpid = 0x88a8, address = "10.6.0.1/24" }
        interface { name = "lan.5.5", on = "lan", vlan = 5, inner_vlan = 5, address = "10.7.0.1/24" }
        interface { name = "wan:5", on = "wan", vlan = 5 }
        interface { name = "lo0", address = "203.0.113.1/32" }"#,
        ),
    );
    assert!(fine, "{text}");
    let cases = [
        (r#"name = "x", on = "lan""#, "interface[\"x\"].vlan: is missing"),
        (r#"name = "x", vlan = 5"#, "interface[\"x\"].on: is missing"),
        (r#"name = "x", on = "lan", vlan = 4095"#, "interface[\"x\"].vlan: 4095 is out of range"),
        (
            r#"name = "x", on = "f", vlan = 5"#,
            "port \"f\" belongs to forward, and forward has no interfaces; expected one of the ports",
        ),
        (r#"name = "x", on = "lann", vlan = 5"#, "did you mean \"lan\"?"),
        (r#"name = "lan", on = "lan", vlan = 5"#, "is the name of a port too"),
        (
            r#"name = "x", of = "forward", address = "203.0.113.1/32""#,
            "\"forward\" is no function that has interfaces; expected one of router",
        ),
        (
            r#"name = "x", on = "lan", of = "forward", vlan = 5"#,
            "interface[\"x\"].of: \"forward\" is no function that has port \"lan\"; expected one of router",
        ),
        (
            r#"name = "x", on = "lan", vlan = 5, tpid = 0x86dd"#,
            "interface[\"x\"].tpid: announces what interfaces carry themselves",
        ),
        (r#"name = "x", on = "lan", vlan = 5, inner_tpid = 0x8100"#, "interface[\"x\"].inner_tpid: is that of no tag"),
        (r#"name = "x", address = "203.0.113.1/24""#, "and none is connected to a loopback; write 203.0.113.1/32"),
        (r#"name = "x", on = "lan", vlan = 5, address = "192.0.2.77/24""#, "port \"wan\" has the same network"),
    ];
    for (keys, told) in cases {
        let (text, fine) = said("interfaces-wrong", &script(&format!("interface {{ {keys} }}")));
        assert!(!fine && text.contains(told), "{keys}\n{text}");
    }
    let twice = "interface { name = 'x', on = 'lan', vlan = 5 } interface { name = 'y', on = 'lan', vlan = 5 }";
    let (text, fine) = said("interfaces-twice", &script(twice));
    assert!(
        !fine && text.contains("interface[\"y\"].vlan: interface \"x\" has the same tags on the same port"),
        "{text}"
    );
}

#[test]
fn as_many_interfaces_as_tags_allow() {
    let script = r#"
        port { name = "a", device = "mem:null" }
        for outer = 1, 4 do
          for inner = 1, 4094 do
            interface {
              name = "a." .. outer .. "." .. inner, on = "a", vlan = outer, inner_vlan = inner,
              address = "10." .. (outer * 16 + bit.rshift(inner, 8)) .. "." .. bit.band(inner, 255) .. ".1/24",
            }
          end
        end
        router { ports = { "a" }, limits = { long_prefix_networks = 40000 } }
    "#;
    let (text, fine) = said("interfaces-many", script);
    assert!(fine, "{text}");
}

#[test]
fn a_routed_side_is_a_bridge_that_is_there() {
    let script = |interfaces: &str| {
        format!(
            r#"
        port {{ name = "one", device = "mem:null" }}
        port {{ name = "two", device = "mem:null" }}
        port {{ name = "wan", device = "mem:null", address = "192.0.2.1/24" }}
        bridge {{ name = "lan", tagging = "802.1q", ports = {{ one = {{ vlan = 10 }}, two = {{ tagged = "20-29" }} }} }}
        router {{ ports = {{ "wan" }} }}
        {interfaces}
        "#
        )
    };
    let (text, fine) = said(
        "routed-fine",
        &script(
            r#"
        interface { name = "office", on = "bridge:lan", vlan = 10, address = { "10.0.10.1/24", "2001:db8:10::1/64" } }
        interface { name = "guests", on = "bridge:lan", vlan = 20, address = "10.0.20.1/24" }
        interface { name = "inner", on = "bridge:lan", vlan = 21, inner_vlan = 7, address = "10.0.21.1/24" }"#,
        ),
    );
    assert!(fine && text.ends_with("nothing is wrong\n"), "{text}");
    let cases = [
        (
            r#"name = "x", on = "bridge:lam", vlan = 10"#,
            "interface[\"x\"].on: there is no bridge \"lam\"; expected a port, or one of bridge:lan",
        ),
        (
            r#"name = "x", on = "forward:lan", vlan = 10"#,
            "interface[\"x\"].on: \"forward:lan\" is nothing that interfaces may be on: forward has no routed side; expected a port, or one of bridge:lan",
        ),
        (
            r#"name = "x", on = "brigde:lan", vlan = 10"#,
            "\"brigde:lan\" is nothing that interfaces may be on; expected a port, or one of bridge:lan",
        ),
        (
            r#"name = "x", on = "bridge:lan", address = "10.0.10.1/24""#,
            "interface[\"x\"].vlan: is missing: bridge:lan tells VLANs apart; expected one of 10, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29",
        ),
        (
            r#"name = "x", on = "bridge:lan", vlan = 30"#,
            "interface[\"x\"].vlan: 30 is in no port of bridge:lan: nobody would be reached there; expected one of 10, 20,",
        ),
        (
            r#"name = "x", on = "bridge:lan", vlan = 10, tpid = 0x88a8"#,
            "interface[\"x\"].tpid: is not that of the tags of bridge:lan, which is 0x8100; leave it out",
        ),
        (
            r#"name = "x", on = "bridge:lan", vlan = 10, of = "lan""#,
            "interface[\"x\"].of: \"lan\" is no function that routes; expected one of router",
        ),
    ];
    for (keys, wanted) in cases {
        let (text, fine) = said("routed-wrong", &script(&format!("interface {{ {keys} }}")));
        assert!(!fine && text.contains(wanted), "{wanted}\n{text}");
        assert!(text.ends_with("weir: 1 mistake in the configuration\n"), "nothing that only follows from it: {text}");
    }
    // What else is wrong is told as of other interfaces.
    let ten = r#"interface { name = "ten", on = "bridge:lan", vlan = 10, address = "10.0.10.1/24" }"#;
    for (keys, wanted) in [
        (r#"name = "x", on = "bridge:lan", vlan = 10"#, "interface \"ten\" has the same tags on the same port"),
        (r#"name = "x", on = "bridge:lan", vlan = 4095"#, "interface[\"x\"].vlan: 4095 is out of range"),
        (r#"name = "x", on = "bridge:lan", vlan = 20, mtu = 9000"#, "9000 is more than the MTU of port \"bridge:lan\""),
        (
            r#"name = "x", on = "bridge:lan", vlan = 20, vrf = "red""#,
            "names the VRF \"red\", which router does not have",
        ),
    ] {
        let (text, fine) = said("routed-more", &script(&format!("{ten}\ninterface {{ {keys} }}")));
        assert!(!fine && text.contains(wanted), "{wanted}\n{text}");
    }
}

#[test]
fn a_routed_side_belongs_to_a_function_that_routes() {
    let script = |bridge: &str, routers: &str, interfaces: &str| {
        format!(
            r#"
        port {{ name = "one", device = "mem:null" }}
        bridge {{ {bridge} ports = {{ one = {{}} }} }}
        {routers}
        {interfaces}
        "#
        )
    };
    let side = r#"interface { name = "inside", on = "bridge:bridge", address = "10.0.0.1/24" }"#;
    let router = "router {}";
    let (text, fine) = said("routed-alone", &script("", router, side));
    assert!(fine, "a router needs no other port: {text}");
    let two = r#"router { name = "r" } router { name = "s" }"#;
    let twice = r#"interface { name = "other", on = "bridge:bridge", address = "10.0.1.1/24" }"#;
    let cases = [
        (
            "",
            "",
            side,
            "\"bridge:bridge\" has a routed side where there is a function that routes; declare one: router",
        ),
        (
            "",
            two,
            side,
            "interface[\"inside\"].of: is missing: who routes for bridge:bridge is not clear; expected one of r, s",
        ),
        (
            "",
            router,
            &format!("{side}\n{twice}"),
            "interface[\"other\"].vlan: is missing: interface \"inside\" has the frames without a tag already; leave one of the two out",
        ),
        (
            "",
            router,
            &format!(r#"{side} port {{ name = "bridge:bridge", device = "mem:null" }}"#),
            "port[\"bridge:bridge\"].name: is the name of a routed side, and not a name (a letter, then up to 31 letters, digits, - or _); write one such as wan",
        ),
    ];
    for (bridge, routers, interfaces, wanted) in cases {
        let (text, fine) = said("routed-owner", &script(bridge, routers, interfaces));
        assert!(!fine && text.contains(wanted), "{wanted}\n{text}");
    }
    // Two of them share it.
    let of = |name: &str, net: u8, of: &str| {
        format!(
            r#"interface {{ name = "{name}", on = "bridge:bridge", vlan = {net}, address = "10.0.{net}.1/24", of = "{of}" }}"#
        )
    };
    let (text, fine) = said("routed-shared", &script("", two, &format!("{}\n{}", of("a", 1, "r"), of("b", 2, "s"))));
    assert!(fine, "{text}");
}

#[test]
fn how_a_device_is_driven_is_said_only_of_devices_that_can_be_told() {
    let ports = r#"
        port { name = "file", device = "pcap:in.pcap", burst = 8 }
        port { name = "memory", device = "mem:null", flush = "1 us", descriptors = 64 }
        port { name = "link", device = "memif:0", descriptors = 64, burst = 8 }
        port { name = "guest", device = "virtio_user:/v", descriptors = 64 }
        port { name = "good", device = "null", burst = 8, flush = "20 us" }
        port { name = "card", device = "pci:0000:3b:00.0", descriptors = 4096, burst = 65 }
        port { name = "typo", device = "pci:3b:00.0", burst = 8 }
        port { name = "joined", device = "joint:one", burst = 8 }
        "#;
    let (said, right) = said("check-tuning", ports);
    assert!(!right);
    for (line, key, problem, remedy) in [
        (2, "file\"].burst", "says nothing about \"pcap:in.pcap\"", "leave it out"),
        (3, "memory\"].flush", "says nothing about \"mem:null\"", "leave it out"),
        (3, "memory\"].descriptors", "says nothing about \"mem:null\"", "leave it out"),
        (4, "link\"].descriptors", "says nothing about \"memif:0\"", "rsize=N"),
        (5, "guest\"].descriptors", "says nothing about \"virtio_user:/v\"", "queue_size=N"),
        (7, "card\"].burst", "65", "from 1 to 64"),
        (9, "joined\"].burst", "says nothing about \"joint:one\"", "leave it out"),
    ] {
        let told = |said: &&str| {
            said.contains(&format!("weir.lua:{line}: port[\"{key}: "))
                && said.contains(problem)
                && said.contains(remedy)
        };
        assert!(said.lines().any(|said| told(&said)), "{line} {key}: {said}");
    }
    // Of a device that is misspelt it is not known which it is meant to be.
    for right in ["link\"].burst", "good", "card\"].descriptors", "typo\"].burst"] {
        assert!(!said.contains(right), "{right}: {said}");
    }
    assert!(said.contains("weir.lua:8: port[\"typo\"].device: "), "{said}");
}
