//! A Linux that speaks for a VRF, as the router sees it: what goes there, what comes from there, its routes and addresses.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use crate::common;

use std::net::IpAddr;
use std::sync::Arc;

use common::*;
use serde_json::json;
use weir_stage::harness::{Boxed, Harness, Outcome};
use weir_stage::{HostHop, HostSide, Need, RoutePlace};
use weir_wire::MacAddr;
use weir_wire::arp::{ArpFields, Operation};

const HOST: MacAddr = MacAddr([2, 0, 0, 0, 7, 7]);

fn rig() -> (Rig, Arc<dyn HostSide>) {
    let mut rig = Rig::new(TWO, json!({ "linux": { "netns": "x" }, "neighbor_timers": { "own_probes": 0 } }));
    rig.run(3 * SECOND);
    let side = rig.instance.host_side("default").unwrap();
    side.frames().attend(Some(Box::new(|| ())));
    (0..2).for_each(|port| drop(rig.sent(port)));
    (rig, side)
}

fn id(side: &dyn HostSide, name: &str) -> u16 {
    side.interfaces().into_iter().find(|one| one.name == name).unwrap().id
}

/// A frame of these addresses and this EtherType.
fn frame(to: [u8; 6], ethertype: u16, rest: &[u8]) -> Vec<u8> {
    let mut frame = [&to[..], &HOST.0, &ethertype.to_be_bytes(), rest].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

#[test]
fn a_router_says_what_it_needs_and_others_need_nothing() {
    use weir_stage::{AnyFunction, Configured};
    let needs = |config| {
        let element = element(&["left", "right"], &config).unwrap();
        AnyFunction::configure(&weir_router::Router, &element).map(|given: Configured| given.needs().to_vec()).unwrap()
    };
    assert_eq!(needs(json!({})), []);
    let vrfs = json!({ "blue": { "linux": { "table": 7, "fpm": 2620 } } });
    let (netns, vrf) = (Some("x".to_owned()), "default".to_owned());
    assert_eq!(
        needs(json!({ "linux": { "netns": "x" }, "vrfs": vrfs })),
        [
            Need::Taps { vrf: vrf.clone(), netns: netns.clone() },
            Need::Routes { vrf, netns, table: 254, fpm: None },
            Need::Taps { vrf: "blue".to_owned(), netns: None },
            Need::Routes { vrf: "blue".to_owned(), netns: None, table: 7, fpm: Some(2620) },
        ]
    );
}

#[test]
fn what_is_for_the_router_goes_to_linux_and_what_it_forwards_does_not() {
    let (mut rig, side) = rig();
    let left = id(&*side, "left");
    let echo = ip_frame(&rig, 0, "10.0.0.9", "10.0.0.1", 1, &[], &icmp_message(8, 0, [0; 4], b"ping"));
    let tcp = ip_frame(&rig, 0, "10.0.0.9", "10.0.1.1", 6, &[], &[0; 20]);
    let ospf =
        frame([1, 0, 0x5e, 0, 0, 5], 0x0800, &ip_frame(&rig, 0, "10.0.0.9", "224.0.0.5", 89, &[], &[0; 24])[14..]);
    let far =
        frame([1, 0, 0x5e, 1, 0, 5], 0x0800, &ip_frame(&rig, 0, "10.0.0.9", "239.1.0.5", 17, &[], &[0; 24])[14..]);
    let lldp = frame([1, 0x80, 0xc2, 0, 0, 0xe], 0x88cc, &[2, 7, 4]);
    let lacp = frame([1, 0x80, 0xc2, 0, 0, 2], 0x8809, &[1, 1]);
    let isis = frame([1, 0x80, 0xc2, 0, 0, 0x14], 48, &[0xfe, 0xfe, 3, 0x83]);
    let unknown = frame([1, 0x80, 0xc2, 0, 0, 0xe], 0x1234, &[]);
    let group = frame([1, 0, 0x0c, 0xcc, 0xcc, 0xcc], 100, &[0xaa, 0xaa, 3]);
    let to_linux = [&echo, &tcp, &ospf, &lldp, &lacp, &isis];
    for frame in to_linux.into_iter().chain([&far, &unknown, &group]) {
        rig.send(0, frame.clone());
    }
    rig.settle();
    let mut expected: Vec<Vec<u8>> = to_linux.into_iter().cloned().collect();
    let mut came: Vec<Vec<u8>> = side
        .frames()
        .take_for_linux(99)
        .into_iter()
        .map(|(from, frame)| {
            assert_eq!(from, left);
            frame.into_vec()
        })
        .collect();
    // By way of which batch is none of Linux's concern.
    expected.sort();
    came.sort();
    assert_eq!(came, expected);
    assert_eq!(rig.fates()["delivered"], 6);
    let drops = rig.drops();
    assert_eq!((drops["router.forward/multicast"], drops["router.forward/unknown-ethertype"]), (1, 2));
    rig.finish();
}

#[test]
fn where_nobody_reads_packets_for_the_router_are_dropped_by_name() {
    let (mut rig, side) = rig();
    side.frames().attend(None);
    rig.send(0, ip_frame(&rig, 0, "10.0.0.9", "10.0.0.1", 6, &[], &[0; 20]));
    rig.settle();
    assert_eq!(rig.drops()["router.control/linux-full"], 1);
    rig.finish();
}

#[test]
fn what_linux_sends_leaves_as_it_is() {
    let (mut rig, side) = rig();
    let right = id(&*side, "right");
    let sent = frame([2, 0, 0, 0, 3, 3], 0x0800, &rig.udp(1, "10.0.0.9", "203.0.113.9").to_vec(&[])[14..]);
    side.frames().put(right, &sent[..]);
    side.frames().put(999, &sent[..]);
    rig.settle();
    assert_eq!(rig.sent(1), [sent]);
    assert_eq!((rig.fates()["from-linux"], side.frames().losses()), (1, (0, 1)));
    rig.finish();
}

/// They are dropped rather than let others wait for long: until there is room again.
#[test]
fn frames_of_linux_wait_for_room_behind_their_port_though_not_for_long() {
    const MS: u64 = SECOND / 1000;
    let (rig, side) = rig();
    let (left, right) = (id(&*side, "left"), id(&*side, "right"));
    let nodes = rig.instance.graph(0).unwrap().into_parts().0;
    let control = nodes.into_iter().find(|node| node.name == "router.control").unwrap();
    let mut harness = Harness::small(Boxed(control.stage), 256);
    let now = rig.engine.now();
    let sent = frame([2, 0, 0, 0, 3, 3], 0x0800, &[1; 46]);
    let put = |interface, count| (0..count).for_each(|_| side.frames().put(interface, &sent[..]));
    let ports = |outcome: Outcome| ["port[0]", "port[1]"].map(|way| outcome.way(way).len());
    put(right, 10);
    put(left, 1);
    harness.set_room("port[1]", 4);
    assert_eq!(ports(harness.poll(now)), [0, 4]);
    harness.set_room("port[1]", 0);
    assert_eq!(ports(harness.poll(now + 5 * MS - 1)), [0, 0], "nor do those behind them pass");
    assert_eq!(ports(harness.poll(now + 5 * MS)), [1, 6]);
    put(right, 1);
    assert_eq!(ports(harness.poll(now + 6 * MS)), [0, 1], "there is no room yet, and nobody waits for it any more");
    harness.set_room("port[1]", 2);
    put(right, 2);
    assert_eq!(ports(harness.poll(now + 7 * MS)), [0, 2]);
    harness.set_room("port[1]", 0);
    put(right, 1);
    assert_eq!(ports(harness.poll(now + 8 * MS)), [0, 0], "there was room");
    assert_eq!(ports(harness.poll(now + 13 * MS)), [0, 1]);
    drop(harness);
    rig.finish();
}

fn arp(operation: Operation, sender: (MacAddr, &str), target: (MacAddr, &str)) -> Vec<u8> {
    let fields = ArpFields {
        operation,
        sender_mac: sender.0,
        sender: sender.1.parse().unwrap(),
        target_mac: target.0,
        target: target.1.parse().unwrap(),
    };
    let mut frame = vec![0; 60];
    fields.write(if operation == Operation::Request { MacAddr::BROADCAST } else { target.0 }, &mut frame).unwrap();
    frame
}

#[test]
fn linux_learns_neighbours_from_weir_which_alone_speaks_on_the_link() {
    let (mut rig, side) = rig();
    let (left, mac) = (id(&*side, "left"), rig.mac(0));
    let question = arp(Operation::Request, (mac, "10.0.0.1"), (MacAddr::ZERO, "10.0.0.9"));
    side.frames().put(left, &question[..]);
    // What Linux says of itself Weir says.
    side.frames().put(left, arp(Operation::Request, (mac, "10.0.0.1"), (MacAddr::ZERO, "10.0.0.1")));
    side.frames().put(left, arp(Operation::Request, (mac, "0.0.0.0"), (MacAddr::ZERO, "10.0.0.1")));
    rig.settle();
    let asked = rig.sent_arp(0);
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!((asked[0].1.operation, asked[0].1.target), (Operation::Request, Ipv4Addr::new(10, 0, 0, 9)));
    assert!(side.frames().take_for_linux(9).is_empty(), "nobody has answered yet");
    rig.arp_reply(0, Ipv4Addr::new(10, 0, 0, 9), HOST, Ipv4Addr::new(10, 0, 0, 1));
    rig.settle();
    let answer = |side: &dyn HostSide| {
        let [(of, frame)] = &side.frames().take_for_linux(9)[..] else { panic!("no answer, or several") };
        assert_eq!((*of, &frame[..6]), (left, &mac.0[..]));
        ArpFields::parse(&frame[14..]).unwrap()
    };
    let expected = ArpFields {
        operation: Operation::Reply,
        sender_mac: HOST,
        sender: Ipv4Addr::new(10, 0, 0, 9),
        target_mac: mac,
        target: Ipv4Addr::new(10, 0, 0, 1),
    };
    assert_eq!(answer(&*side), expected);
    // Once it is known, at once, and without a word on the link.
    side.frames().put(left, &question[..]);
    rig.settle();
    assert_eq!(answer(&*side), expected);
    assert!(rig.sent_arp(0).is_empty());
    assert_eq!(rig.show("neighbors")[0]["mac"], json!(HOST.to_string()));
    // The link's questions are Weir's to answer.
    rig.send(0, arp(Operation::Request, (HOST, "10.0.0.9"), (MacAddr::ZERO, "10.0.0.1")));
    rig.settle();
    assert_eq!(rig.sent_arp(0)[0].1.operation, Operation::Reply);
    assert!(side.frames().take_for_linux(9).is_empty());
    rig.finish();
}

#[test]
fn routes_of_linux_stand_behind_those_of_people() {
    let (mut rig, side) = rig();
    let (left, right) = (id(&*side, "left"), id(&*side, "right"));
    let net = |text: &str| text.parse().unwrap();
    let by = |address: &str, id| HostHop::Via(address.parse::<IpAddr>().unwrap(), id);
    side.change_routes(&[
        (net("192.0.2.0/24"), vec![by("10.0.1.9", right), by("10.0.0.9", left)]),
        (net("198.51.100.0/24"), vec![HostHop::Blackhole]),
        (net("2001:db8:7::/48"), vec![by("fe80::9", left)]),
        (net("203.0.113.0/24"), vec![by("10.0.0.9", left)]),
    ]);
    rig.request("route add", json!({ "prefix": "203.0.113.0/24", "via": ["10.0.1.8"] })).unwrap();
    let active = |rig: &Rig, prefix: &str| {
        let rows = rig.show("routes");
        let row = rows.iter().find(|row| row["prefix"] == prefix && row["active"] == true).cloned();
        row.map(|row| (row["source"].as_str().unwrap().to_owned(), row["via"].to_string()))
    };
    assert_eq!(
        active(&rig, "192.0.2.0/24"),
        Some(("linux".to_owned(), r#"["10.0.0.9%left","10.0.1.9%right"]"#.to_owned()))
    );
    assert_eq!(active(&rig, "198.51.100.0/24").unwrap().1, r#"["blackhole"]"#);
    assert_eq!(active(&rig, "2001:db8:7::/48").unwrap().1, r#"["fe80::9%left"]"#);
    assert_eq!(active(&rig, "203.0.113.0/24").unwrap().0, "cli");
    let mut told = Vec::new();
    let mut place = Some(RoutePlace::default());
    while let Some(at) = place {
        place = side.routes_from(at, &mut |prefix, hops| told.push((prefix, hops.to_vec())));
    }
    assert_eq!(told.len(), 4);
    assert!(told.contains(&(net("203.0.113.0/24"), vec![by("10.0.0.9", left)])));
    // A router that is built anew has them at once.
    rig.rebuild(&json!({ "linux": { "netns": "x" }, "hash_seed": 3 }));
    assert_eq!(active(&rig, "192.0.2.0/24").unwrap().0, "linux");
    let side = rig.instance.host_side("default").unwrap();
    side.sweep_routes(&mut |prefix| prefix != net("192.0.2.0/24"));
    side.change_routes(&[(net("198.51.100.0/24"), Vec::new())]);
    assert_eq!((active(&rig, "192.0.2.0/24"), active(&rig, "198.51.100.0/24")), (None, None));
    assert_eq!(
        rig.request("route del", json!({ "prefix": "2001:db8:7::/48" })).unwrap_err(),
        "the route to 2001:db8:7::/48 is linux; only those added at run time can be deleted"
    );
    rig.settle();
    rig.finish();
}

#[test]
fn an_interface_whose_routes_are_linuxs_keeps_its_number_until_they_are_gone() {
    let (mut rig, side) = rig();
    let add = |rig: &Rig| {
        rig.request("interface add", json!({ "name": "left.7", "on": "left", "vlan": "7", "address": ["10.7.0.1/24"] }))
            .unwrap()
    };
    let (before, _) = (side.version(), add(&rig));
    assert_ne!(side.version(), before);
    let seven = id(&*side, "left.7");
    side.change_routes(&[("192.0.2.0/24".parse().unwrap(), vec![HostHop::Via("10.7.0.9".parse().unwrap(), seven)])]);
    rig.request("interface del", json!({ "name": "left.7" })).unwrap();
    rig.run(SECOND);
    // As many as there are numbers come and go: none of them is this one.
    let others: Vec<u16> = (0..70)
        .map(|_| {
            add(&rig);
            let other = id(&*side, "left.7");
            rig.request("interface del", json!({ "name": "left.7" })).unwrap();
            side.forget_interface(other);
            rig.settle();
            other
        })
        .collect();
    assert!(!others.contains(&seven));
    side.forget_interface(seven);
    rig.settle();
    rig.finish();
}

#[test]
fn addresses_of_linux_join_those_of_the_configuration() {
    let (mut rig, side) = rig();
    let left = id(&*side, "left");
    let nets: Vec<ipnet::IpNet> = ["10.0.0.1/24", "172.16.0.1/24"].iter().map(|text| text.parse().unwrap()).collect();
    let addresses = |rig: &Rig| {
        let rows = rig.show("addresses");
        rows.iter()
            .filter(|row| row["interface"] == "left")
            .map(|row| row["address"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    side.set_addresses(left, &nets);
    assert_eq!(addresses(&rig), ["10.0.0.1/24", "172.16.0.1/24"]);
    assert_eq!(side.interfaces()[0].addresses, nets[..1], "those of Linux are not told back as the configuration's");
    side.set_addresses(left, &[]);
    assert_eq!(addresses(&rig), ["10.0.0.1/24"], "the configuration's stays");
    side.set_enabled(left, false);
    assert!(!side.interfaces()[0].up);
    side.set_enabled(left, true);
    assert!(side.interfaces()[0].up);
    side.set_neighbor(left, "10.0.0.77".parse().unwrap(), Some(HOST.0));
    let neighbor = |rig: &Rig| {
        rig.show("neighbors").iter().find(|row| row["address"] == "10.0.0.77").map(|row| row["source"].clone())
    };
    assert_eq!(neighbor(&rig), Some(json!("linux")));
    side.set_neighbor(left, "10.0.0.77".parse().unwrap(), None);
    assert_eq!(neighbor(&rig), None);
    rig.settle();
    rig.finish();
}
