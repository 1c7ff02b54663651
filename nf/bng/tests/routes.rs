//! Customers among routes, with plain IP: what they have leads to the gateway, by whichever interface, from whichever VRF and from whomever packets
//! come. Routers forward by the most specific route (RFC 1812 section 5.2.4.3).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use crate::common;

use common::{CORE, CPE, ROUTER_MAC, Rig, TWO, arps, echo, host, plain, request, tagged, tunnels, udp};
use serde_json::{Value, json};
use weir_config::{InterfaceAddress, Scalar as _};
use weir_stage::{InterfaceInfo, TagInfo};
use weir_wire::{MacAddr, ethernet, ipv4, nd};

/// The routes of the gateway's own: prefixes and whether packets follow them.
fn routes(rig: &Rig) -> Vec<(String, bool)> {
    let rows = rig.show("routes").into_iter().filter(|row| row["source"] == "bng");
    rows.map(|row| {
        assert_eq!((&row["via"], &row["vrf"]), (&json!(["@bng"]), &json!("default")));
        (row["prefix"].as_str().unwrap().to_owned(), row["active"] == json!(true))
    })
    .collect()
}

fn prefixes(rig: &Rig) -> Vec<String> {
    routes(rig).into_iter().map(|(prefix, _)| prefix).collect()
}

/// Plain IP with IPv6, a network in which addresses are learned, and one customer that has addresses beyond.
fn config() -> Value {
    let mut config = plain();
    config["addresses"] = json!(["10.0.0.1/16", "2001:db8::1/64"]);
    config["subscribers"] = json!([
        { "svlan": 100, "cvlan": 1, "ipv4": ["10.0.0.7"], "ipv6": ["2001:db8:0:7::/64"] },
        { "svlan": 100, "cvlan": 2, "ipv4": ["10.0.0.8", "198.18.0.0/29"], "ipv6": ["2001:db8:0:100::/56"] },
    ]);
    config
}

fn rig() -> Rig {
    common::rig(config())
}

#[test]
fn what_customers_have_are_routes_that_follow_them() {
    let mut rig = rig();
    let at_first = ["10.0.0.0/16", "198.18.0.0/29", "2001:db8:0:7::/64", "2001:db8:0:100::/56"];
    assert_eq!(prefixes(&rig), at_first);
    assert!(routes(&rig).iter().all(|(_, is_active)| *is_active));
    let add = |rig: &Rig, cvlan: u16, ipv4: Value| {
        rig.request("subscriber add", json!({ "svlan": 100, "cvlan": cvlan, "ipv4": ipv4 })).unwrap()
    };
    // One in the network where addresses are learned needs no route of its own; others are joined where all of one is customers'.
    add(&rig, 3, json!(["10.0.0.9"]));
    assert_eq!(prefixes(&rig), at_first);
    add(&rig, 4, json!(["198.18.0.8", "198.18.0.9"]));
    add(&rig, 5, json!(["198.18.0.12/30"]));
    add(&rig, 6, json!(["198.18.0.11"]));
    assert_eq!(prefixes(&rig)[1..5], ["198.18.0.0/29", "198.18.0.8/31", "198.18.0.11/32", "198.18.0.12/30"]);
    rig.request("subscriber set", json!({ "svlan": 100, "cvlan": 6, "ipv4": ["198.18.0.10", "198.18.0.11"] })).unwrap();
    assert_eq!(prefixes(&rig)[1..2], ["198.18.0.0/28"]);
    rig.request("subscriber del", json!({ "svlan": 100, "cvlan": 4 })).unwrap();
    assert_eq!(prefixes(&rig)[1..4], ["198.18.0.0/29", "198.18.0.10/31", "198.18.0.12/30"]);
    // What is refused changes nothing, be it half done.
    let refused = json!([{ "svlan": 100, "cvlan": 9, "ipv4": ["192.0.2.77"] }, { "svlan": 100, "cvlan": 10, "ipv4": ["10.0.0.7"] }]);
    rig.request("subscriber add", refused).unwrap_err();
    assert_eq!(prefixes(&rig).len(), 6);
    // Learned ones come and go within theirs.
    rig.arp_request(1, "10.0.77.1", "10.0.0.1");
    rig.settle();
    assert_eq!(rig.show("hosts").iter().filter(|row| row["address"] == "10.0.77.1").count(), 1);
    assert_eq!(prefixes(&rig).len(), 6);
    let mut next = config();
    next["learn"] = json!({ "networks": ["10.0.128.0/17", "0.0.0.0/0"] });
    next["subscribers"] = json!([{ "svlan": 100, "cvlan": 1, "ipv4": ["10.0.0.7", "10.0.200.7"] }]);
    rig.reload(&next);
    let left = ["10.0.0.7/32", "10.0.0.9/32", "10.0.128.0/17", "198.18.0.10/31", "198.18.0.12/30"];
    assert_eq!(prefixes(&rig), left, "what was added stays");
    rig.rebuild(&next);
    assert_eq!(prefixes(&rig), left, "and so it does in the gateway that follows");
    // Somebody else's word on a prefix counts where a person's does.
    rig.request("route add", json!([{ "prefix": "10.0.128.0/17", "via": ["blackhole"] }])).unwrap();
    assert!(routes(&rig).contains(&("10.0.128.0/17".to_owned(), false)));
    let refusal = rig.request("route add", json!([{ "prefix": "10.1.0.0/17", "via": ["@lwaftr"] }])).unwrap_err();
    assert!(refusal.contains("there is no inlet \"lwaftr\"; write one of @bng"), "{refusal}");
    rig.finish();
}

/// Behind a key, addresses are nobody's alone: two customers may have the same.
#[test]
fn in_tunnels_customers_are_no_routes() {
    let rig = common::rig(tunnels());
    assert_eq!(prefixes(&rig), Vec::<String>::new());
    let refusal = rig.request("route add", json!([{ "prefix": "10.1.0.0/17", "via": ["@bng"] }])).unwrap_err();
    assert!(refusal.contains("no route leads into this function"), "{refusal}");
    rig.finish();
}

/// A packet to a customer as it leaves, with one hop less.
fn delivered(rig: &Rig, cvlan: u16, packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let ethertype = if packet[0] >> 4 == 6 { ethernet::IPV6 } else { ethernet::IPV4 };
    match ethertype {
        ethernet::IPV6 => packet[7] -= 1,
        _ => {
            packet[8] -= 1;
            ipv4::write_checksum(&mut packet[..20]);
        }
    }
    let mut frame = tagged(host(cvlan), rig.mac(CPE), cvlan, ethertype, &packet);
    frame.truncate(22 + packet.len());
    frame
}

/// No frames, of one port and of both.
const NONE: Vec<Vec<u8>> = Vec::new();
const NOTHING: [Vec<Vec<u8>>; 2] = [NONE, NONE];

/// What a customer sends, and what leaves towards customers and the core.
fn from(rig: &mut Rig, cvlan: u16, packet: &[u8]) -> [Vec<Vec<u8>>; 2] {
    let ethertype = if packet[0] >> 4 == 6 { ethernet::IPV6 } else { ethernet::IPV4 };
    let frame = tagged(rig.mac(CPE), host(cvlan), cvlan, ethertype, packet);
    rig.send(CPE, frame);
    rig.settle();
    [rig.sent(CPE), rig.sent(CORE)]
}

/// Counters of a customer: packets up and down.
fn counted(rig: &Rig, cvlan: u16) -> (u64, u64) {
    let row = rig.show("subscribers").into_iter().find(|row| row["cvlan"] == cvlan).unwrap();
    (row["up_packets"].as_u64().unwrap(), row["down_packets"].as_u64().unwrap())
}

#[test]
fn customers_reach_each_other_without_the_core() {
    let mut rig = rig();
    let packet = udp("10.0.0.7", "10.0.0.8", 100);
    rig.arp_request(1, "10.0.0.7", "10.0.0.1");
    rig.settle();
    rig.sent(CPE);
    // Whoever is not known is asked for; the packet waits.
    let [sent, to_core] = from(&mut rig, 1, &packet);
    let asked: Vec<_> = arps(&sent).into_iter().map(|(to, cvlan, arp)| (to, cvlan, arp.target)).collect();
    assert_eq!((asked, to_core.len()), (vec![(MacAddr::BROADCAST, 2, "10.0.0.8".parse().unwrap())], 0));
    rig.arp_reply(2, "10.0.0.8", host(2));
    rig.settle();
    assert_eq!(rig.sent(CPE), [delivered(&rig, 2, &packet)]);
    // From then on it is delivered at once, be it the first of a batch or not.
    for _ in 0..3 {
        assert_eq!(from(&mut rig, 1, &packet), [vec![delivered(&rig, 2, &packet)], vec![]]);
    }
    assert_eq!((counted(&rig, 1), counted(&rig, 2)), ((3, 0), (0, 4)));
    // An address of theirs that nobody has.
    assert_eq!(from(&mut rig, 1, &udp("10.0.0.7", "10.0.99.9", 100)), NOTHING);
    assert_eq!(rig.drops()["bng.up/unknown-destination"], 1);
    // At the end of its hops.
    let mut last = packet.clone();
    last[8] = 1;
    ipv4::write_checksum(&mut last[..20]);
    let [told, _] = from(&mut rig, 1, &last);
    assert_eq!((told.len(), &told[0][22 + 20..22 + 22], &told[0][18..20]), (1, &[11, 0][..], &[0, 1][..]));
    // Whose own address it is not.
    assert_eq!(from(&mut rig, 2, &packet), NOTHING);
    rig.finish();
}

#[test]
fn customers_reach_each_other_by_ipv6() {
    let mut rig = rig();
    let packet = |to: &str| {
        let mut packet = vec![0x60, 0, 0, 0, 0, 40, 17, 64];
        for address in ["2001:db8:0:7::9", to] {
            packet.extend(address.parse::<std::net::Ipv6Addr>().unwrap().octets());
        }
        packet.extend([7; 40]);
        packet
    };
    let across = packet("2001:db8:0:100::77");
    assert_eq!(from(&mut rig, 1, &across), NOTHING);
    assert_eq!(rig.drops()["bng.control/host-unresolved"], 1, "routed prefixes are not asked for");
    // Its router is heard of.
    let mut frame = vec![0; nd::FRAME_LEN];
    let own = nd::link_local(rig.mac(CPE));
    nd::write_solicitation(&mut frame, host(2), "2001:db8:0:100::1".parse().unwrap(), own).unwrap();
    let frame = tagged(rig.mac(CPE), host(2), 2, ethernet::IPV6, &frame[14..]);
    rig.send(CPE, frame);
    rig.settle();
    rig.sent(CPE);
    for _ in 0..2 {
        assert_eq!(from(&mut rig, 1, &across), [vec![delivered(&rig, 2, &across)], vec![]]);
    }
    // Nobody's, and no route: the customer is told (RFC 4443 section 3.1).
    let [told, to_core] = from(&mut rig, 1, &packet("2001:db8:0:200::1"));
    assert_eq!((told.len(), to_core.len(), &told[0][18..20], &told[0][62..64]), (1, 0, &[0, 1][..], &[1, 0][..]));
    rig.finish();
}

/// An interface on the core port, with a VLAN tag.
fn interface(vlan: u16, address: &str, vrf: Option<&str>) -> InterfaceInfo {
    let port = common::PortSpec("core", &[], 1500);
    let tag = TagInfo { tpid: ethernet::CVLAN, vlan };
    let mut interface = common::interface(&port, &[tag]);
    interface.name = format!("core.{vlan}");
    interface.addresses = vec![InterfaceAddress::parse(address).unwrap()];
    interface.vrf = vrf.map(str::to_owned);
    interface
}

/// A frame of a VLAN of the core port.
fn vlan(rig: &Rig, vlan: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = [&rig.mac(CORE).0[..], &ROUTER_MAC.0, &[0x81, 0]].concat();
    frame.extend(vlan.to_be_bytes());
    frame.extend(if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] });
    frame.extend(packet);
    frame
}

/// A gateway with a VRF for management beside the interface that is for customers. The hosts of the customers are known.
fn managed(routes: Value) -> Rig {
    let mut config = config();
    config["gateways"]["west"]["port"] = json!("core.10");
    config["gateways"]["west"]["mac"] = json!(ROUTER_MAC.to_string());
    config["vrfs"] = json!({ "management": { "routes": routes } });
    let interfaces = vec![interface(10, "192.0.2.1/30", None), interface(20, "172.16.0.1/24", Some("management"))];
    let ports = [common::PortSpec("cpe", &[], 1500), common::PortSpec("core", &[], 1500)];
    let mut rig = Rig::with_interfaces(&ports, interfaces, config);
    rig.settle();
    for (cvlan, address) in [(1, "10.0.0.7"), (2, "10.0.0.8")] {
        rig.arp_request(cvlan, address, "10.0.0.1");
    }
    rig.settle();
    [CPE, CORE].into_iter().for_each(|port| drop(rig.sent(port)));
    rig
}

/// Sends a packet by a VLAN of the core port; answers what customers get.
fn by_vlan(rig: &mut Rig, of: u16, packet: &[u8]) -> Vec<Vec<u8>> {
    let frame = vlan(rig, of, packet);
    rig.send_as_is(CORE, frame);
    rig.settle();
    rig.sent(CPE)
}

#[test]
fn routes_of_other_vrfs_lead_to_customers() {
    let mut rig = managed(json!({}));
    let packet = udp("172.16.0.9", "10.0.0.7", 100);
    let usual = udp("203.0.113.9", "10.0.0.7", 100);
    assert_eq!(by_vlan(&mut rig, 10, &usual), [delivered(&rig, 1, &usual)]);
    assert_eq!(by_vlan(&mut rig, 20, &packet), NONE, "another VRF without a route");
    rig.request("route add", json!([{ "prefix": "10.0.0.0/24", "via": ["@bng"], "vrf": "management" }])).unwrap();
    let before = counted(&rig, 1);
    for _ in 0..2 {
        assert_eq!(by_vlan(&mut rig, 20, &packet), [delivered(&rig, 1, &packet)]);
    }
    assert_eq!(counted(&rig, 1), (before.0, before.1 + 2));
    // An address whose host is not known is asked for, and has the packet then.
    let waits = udp("172.16.0.9", "198.18.0.2", 100);
    rig.request("route add", json!([{ "prefix": "198.18.0.0/24", "via": ["@bng"], "vrf": "management" }])).unwrap();
    assert_eq!(arps(&by_vlan(&mut rig, 20, &waits)).len(), 1);
    rig.arp_reply(2, "198.18.0.2", host(2));
    rig.settle();
    assert_eq!(rig.sent(CPE), [delivered(&rig, 2, &waits)]);
    // One that no customer has is dropped by name.
    assert_eq!(by_vlan(&mut rig, 20, &udp("172.16.0.9", "10.0.0.77", 100)), NONE);
    assert_eq!(rig.drops()["bng.control/unknown-destination"], 1);
    rig.request("route del", json!([{ "prefix": "10.0.0.0/24", "vrf": "management" }])).unwrap();
    assert_eq!(by_vlan(&mut rig, 20, &packet), NONE);
    // On each interface, what came by it.
    let rows = rig.show("interfaces");
    let received = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap()["rx_packets"].clone();
    assert_eq!((received("core.10"), received("core.20")), (json!(1), json!(6)));
    rig.finish();
}

/// The configuration, too, may lead from a VRF to customers.
#[test]
fn the_configuration_leads_from_a_vrf_to_customers() {
    let mut rig = managed(json!({ "10.0.0.0/16": "@bng", "2001:db8::/32": "@bng" }));
    let packet = udp("172.16.0.9", "10.0.0.8", 100);
    assert_eq!(by_vlan(&mut rig, 20, &packet), [delivered(&rig, 2, &packet)]);
    rig.finish();
}

/// What the network layer itself says to a customer's address goes to the customer, not round by the core.
#[test]
fn what_the_gateway_says_goes_to_customers() {
    let mut rig = rig();
    rig.arp_request(1, "10.0.0.7", "10.0.0.1");
    rig.settle();
    rig.sent(CPE);
    // A ping of the customer's that came round by the core.
    let ping = echo("10.0.0.7", "192.0.2.1");
    let frame = rig.untunneled(&ping);
    rig.send(CORE, frame);
    rig.settle();
    let (told, to_core) = (rig.sent(CPE), rig.sent(CORE));
    assert_eq!((told.len(), to_core.len()), (1, 0));
    assert_eq!((&told[0][..6], &told[0][18..20]), (&host(1).0[..], &[0, 1][..]));
    assert_eq!((&told[0][34..42], told[0][42]), (&[192, 0, 2, 1, 10, 0, 0, 7][..], 0));
    rig.finish();
}

/// What one customer sends another is told when it is too long.
#[test]
fn what_is_too_long_for_another_customer_is_told() {
    let ports = [common::PortSpec("cpe", &[], 1400), TWO[1]];
    let mut rig = Rig::new(&ports, config());
    rig.settle();
    rig.router_answers();
    for (cvlan, address) in [(1, "10.0.0.7"), (2, "10.0.0.8")] {
        rig.arp_request(cvlan, address, "10.0.0.1");
    }
    rig.settle();
    [CPE, CORE].into_iter().for_each(|port| drop(rig.sent(port)));
    let mut packet = udp("10.0.0.7", "10.0.0.8", 1420);
    packet[6] |= 0x40;
    ipv4::write_checksum(&mut packet[..20]);
    let [told, to_core] = from(&mut rig, 1, &packet);
    assert_eq!((told.len(), to_core.len()), (1, 0));
    assert_eq!(
        (&told[0][18..20], &told[0][42..44], &told[0][48..50]),
        (&[0, 1][..], &[3, 4][..], &1400_u16.to_be_bytes()[..])
    );
    // And goes in pieces where it may.
    packet[6] &= !0x40;
    ipv4::write_checksum(&mut packet[..20]);
    let [pieces, _] = from(&mut rig, 1, &packet);
    assert_eq!(pieces.iter().map(|frame| frame[18..20] == [0, 2]).collect::<Vec<_>>(), [true, true]);
    rig.finish();
}

/// Where each customer is some worker's, and its packets are shaped there, what another worker's customer sends it goes there; else it is delivered
/// at once. On every layout it arrives.
#[test]
fn customers_of_all_workers_reach_each_other() {
    let scheduler =
        json!({ "rate": "1 Gbit/s", "users": 64, "buffers": 64, "profiles": { "any": { "tb_rate": "500 Mbit/s" } } });
    let layouts = [("run-to-completion", 1), ("distributor", 3), ("pipeline", 2), ("pipeline", 4)];
    for ((layout, workers), is_shaped) in layouts.into_iter().flat_map(|layout| [(layout, false), (layout, true)]) {
        let mut config = config();
        config["limits"] = json!({ "subscribers": 16, "bindings": 64 });
        (config["layout"], config["workers"]) = (json!(layout), json!((0..workers).collect::<Vec<usize>>()));
        config["subscribers"] = json!([
            { "svlan": 100, "cvlan": 1, "ipv4": ["10.0.0.7"], "user": 2 },
            { "svlan": 100, "cvlan": 2, "ipv4": ["10.0.0.8"], "user": 3 },
            { "svlan": 100, "cvlan": 3, "ipv4": ["10.0.0.9"], "user": 4 },
        ]);
        if is_shaped {
            config["qos"] = json!({ "up": scheduler, "down": scheduler, "usual": "any" });
        }
        let mut rig = common::rig(config);
        for (cvlan, address) in [(1, "10.0.0.7"), (2, "10.0.0.8"), (3, "10.0.0.9")] {
            let arp = request(host(cvlan), address, "10.0.0.1");
            rig.arp(cvlan, MacAddr::BROADCAST, &arp);
        }
        rig.run(10_000_000);
        rig.sent(CPE);
        for (cvlan, to) in [(2, "10.0.0.8"), (3, "10.0.0.9")] {
            let packet = udp("10.0.0.7", to, 100);
            let frame = tagged(rig.mac(CPE), host(1), 1, ethernet::IPV4, &packet);
            rig.send(CPE, frame);
            rig.run(10_000_000);
            let sent = rig.sent(CPE);
            assert_eq!(sent, [delivered(&rig, cvlan, &packet)], "{layout} {workers} {is_shaped}: {:?}", rig.drops());
        }
        rig.finish();
    }
}
