//! IGMP and MLD snooping, as RFC 4541 has it: where groups go, where messages go, and what is malformed.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use std::net::{Ipv4Addr, Ipv6Addr};

use common::*;
use serde_json::{Value, json};
use weir_wire::checksum::{Sum, checksum};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
const IGMP3: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 0x1234);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A router may be behind `a`; hosts are behind the others.
fn keys(more: Value) -> Value {
    let mut snooping = json!({ "enabled": true });
    snooping.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "ports": { "a": {}, "b": {}, "c": {}, "d": {} }, "snooping": snooping })
}

fn group_mac(group: Ipv4Addr) -> [u8; 6] {
    let [_, b, c, d] = group.octets();
    [1, 0, 0x5e, b & 127, c, d]
}

fn ipv4(from: u8, source: Ipv4Addr, to: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = (24 + payload.len()) as u16;
    // A router alert (RFC 2113), as IGMP has it.
    let mut header = [&[0x46, 0xc0][..], &len.to_be_bytes(), &[0, 0, 0, 0, 1, protocol, 0, 0]].concat();
    header.extend([source.octets(), to.octets(), [0x94, 4, 0, 0]].concat());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [&group_mac(to)[..], &mac(from), &[8, 0], &header, payload].concat()
}

/// An IGMP message: its type, its second byte, its group, and what follows.
fn igmp(from: u8, source: Ipv4Addr, to: Ipv4Addr, (kind, code): (u8, u8), group: [u8; 4], more: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, code, 0, 0][..], &group, more].concat();
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ipv4(from, source, to, 2, &message)
}

fn query(from: u8, group: Option<Ipv4Addr>) -> Vec<u8> {
    let to = group.unwrap_or(ALL_HOSTS);
    igmp(from, ROUTER, to, (0x11, 10), group.unwrap_or(Ipv4Addr::UNSPECIFIED).octets(), &[])
}

fn report(from: u8, group: Ipv4Addr) -> Vec<u8> {
    igmp(from, Ipv4Addr::new(10, 0, 0, from), group, (0x16, 0), group.octets(), &[])
}

fn leave(from: u8, group: Ipv4Addr) -> Vec<u8> {
    igmp(from, Ipv4Addr::new(10, 0, 0, from), Ipv4Addr::new(224, 0, 0, 2), (0x17, 0), group.octets(), &[])
}

/// A report of version 3: records of a type, a group and a number of sources.
fn report3(from: u8, records: &[(u8, Ipv4Addr, u16)]) -> Vec<u8> {
    let mut more = Vec::new();
    for (kind, group, sources) in records {
        more.extend(
            [&[*kind, 0][..], &sources.to_be_bytes(), &group.octets(), &vec![9; 4 * usize::from(*sources)]].concat(),
        );
    }
    let [high, low] = (records.len() as u16).to_be_bytes();
    igmp(from, Ipv4Addr::new(10, 0, 0, from), IGMP3, (0x22, 0), [0, 0, high, low], &more)
}

fn data(from: u8, group: Ipv4Addr) -> Vec<u8> {
    ipv4(from, Ipv4Addr::new(10, 0, 0, from), group, 17, &[0; 30])
}

fn ipv6(from: u8, to: Ipv6Addr, hop_limit: u8, next: u8, payload: &[u8]) -> Vec<u8> {
    let [.., a, b, c, d] = to.octets();
    let source = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, u16::from(from));
    let len = (payload.len() as u16).to_be_bytes();
    let header = [&[0x60, 0, 0, 0, len[0], len[1], next, hop_limit][..], &source.octets(), &to.octets()].concat();
    [&[0x33, 0x33, a, b, c, d][..], &mac(from), &[0x86, 0xdd], &header, payload].concat()
}

fn mld(from: u8, to: Ipv6Addr, kind: u8, rest: &[u8]) -> Vec<u8> {
    let source = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, u16::from(from));
    let mut message = [&[kind, 0, 0, 0][..], rest].concat();
    let sum = Sum::new().bytes(&source.octets()).bytes(&to.octets()).word(message.len() as u16).word(58);
    let sum = sum.bytes(&message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ipv6(from, to, 1, 0, &[&[58, 0, 5, 2, 0, 0, 1, 0][..], &message].concat())
}

fn mld1(from: u8, kind: u8, group: Ipv6Addr) -> Vec<u8> {
    let to = if kind == 131 { group } else { Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2) };
    mld(from, to, kind, &[&[0, 0, 0, 0][..], &group.octets()].concat())
}

fn query6(from: u8, group: Option<Ipv6Addr>) -> Vec<u8> {
    let asked = group.unwrap_or(Ipv6Addr::UNSPECIFIED);
    mld(from, group.unwrap_or(ALL_NODES), 130, &[&[3, 232, 0, 0][..], &asked.octets(), &[0, 0, 0, 0]].concat())
}

fn report6(from: u8, kind: u8, group: Ipv6Addr) -> Vec<u8> {
    let to = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
    mld(from, to, 143, &[&[0, 0, 0, 1, kind, 0, 0, 0][..], &group.octets()].concat())
}

#[test]
fn a_group_goes_where_somebody_listens_and_to_routers() {
    let mut rig = bridge(keys(json!({})));
    // Nobody asked for it: to all. There is no router to tell of the first report, which is used up.
    assert_eq!(rig.ways(0, data(1, GROUP)), "bcd");
    assert_eq!(rig.ways(1, report(2, GROUP)), "");
    assert_eq!(rig.ways(0, data(1, GROUP)), "b");
    // A query goes to all, and shows where a router is; reports go to that alone, and groups as well.
    assert_eq!(rig.ways(3, query(4, None)), "abc");
    assert_eq!(rig.ways(2, report3(3, &[(4, GROUP, 0)])), "d");
    assert_eq!(rig.ways(0, data(1, GROUP)), "bcd");
    assert_eq!((rig.ways(1, data(2, GROUP)).as_str(), rig.ways(3, data(4, GROUP)).as_str()), ("cd", "bc"));
    let rows = rig.show("groups", Some("239.1.2.3"));
    let told: Vec<_> =
        rows.iter().map(|row| (row["port"].as_str().unwrap(), row["version"].as_u64().unwrap())).collect();
    assert_eq!(told, [("b", 2), ("c", 3)]);
    assert_eq!(rig.show("multicast-routers", None)[0]["port"], "d");
    assert_eq!(rig.gauge("bridge_groups"), 1.0);
    // Groups of the link go to all, whatever is said of them.
    rig.ways(1, report(2, Ipv4Addr::new(224, 0, 0, 251)));
    assert_eq!(rig.ways(0, data(1, Ipv4Addr::new(224, 0, 0, 251))), "bcd");
    // Another group with the same Ethernet address is another group.
    assert_eq!(rig.ways(0, data(1, Ipv4Addr::new(239, 129, 2, 3))), "bcd");
    rig.finish();
}

#[test]
fn who_leaves_or_falls_silent_gets_no_more() {
    let times = json!({ "membership": "10 s", "router": "30 s", "last_member": "2 s", "unregistered": "routers" });
    let mut rig = bridge(keys(times));
    rig.ways(3, query(4, None));
    assert_eq!(rig.ways(0, data(1, GROUP)), "d", "nobody asked for it: to the router alone");
    rig.ways(1, report(2, GROUP));
    rig.ways(2, report(3, GROUP));
    assert_eq!(rig.ways(0, data(1, GROUP)), "bcd");
    // One leaves; the querier asks whether others are there, and one answers.
    assert_eq!(rig.ways(1, leave(2, GROUP)), "d");
    assert_eq!(rig.ways(0, data(1, GROUP)), "bcd");
    rig.ways(3, query(4, Some(GROUP)));
    rig.ways(2, report(3, GROUP));
    rig.run(2_100 * MS);
    assert_eq!(rig.ways(0, data(1, GROUP)), "cd");
    // Nobody reports any more.
    rig.run(10 * SECOND);
    assert_eq!((rig.ways(0, data(1, GROUP)).as_str(), rig.show("groups", None).len()), ("d", 0));
    // Nor does the router ask.
    rig.run(20 * SECOND);
    assert_eq!((rig.ways(0, data(1, GROUP)).as_str(), rig.show("multicast-routers", None).len()), ("", 0));
    rig.finish();
}

#[test]
fn ports_may_leave_at_once_and_be_routers_or_not() {
    let mut config = keys(json!({ "unregistered": "routers" }));
    config["ports"]["b"]["fast_leave"] = json!(true);
    config["ports"]["c"]["multicast_router"] = json!("always");
    config["ports"]["d"]["multicast_router"] = json!("never");
    let mut rig = bridge(config);
    rig.ways(3, query(4, None));
    assert_eq!(rig.ways(1, report(2, GROUP)), "c");
    assert_eq!(rig.ways(0, data(1, GROUP)), "bc");
    rig.ways(1, leave(2, GROUP));
    assert_eq!(rig.ways(0, data(1, GROUP)), "c");
    assert_eq!(
        rig.show("multicast-routers", None),
        [json!({ "vlan": null, "port": "c", "source": "config", "ends_in_s": null })]
    );
    rig.finish();
}

/// Every kind of record (RFC 3376 section 4.2.12), with sources and without.
#[test]
fn records_of_version_3_join_and_leave() {
    for (kind, sources, joins) in [
        (1, 0, false),
        (1, 2, true),
        (2, 0, true),
        (2, 3, true),
        (3, 0, false),
        (3, 1, true),
        (4, 0, true),
        (4, 1, true),
        (5, 1, true),
        (6, 1, false),
        (7, 0, false),
        (0, 0, false),
    ] {
        let mut config = keys(json!({ "unregistered": "routers" }));
        config["ports"]["b"]["fast_leave"] = json!(true);
        let mut rig = bridge(config);
        rig.ways(1, report3(2, &[(6, Ipv4Addr::new(239, 9, 9, 9), 2), (kind, GROUP, sources)]));
        assert_eq!(rig.ways(0, data(1, GROUP)), if joins { "b" } else { "" }, "type {kind} with {sources} sources");
        // What leaves is gone, and nothing else: to block sources ends nothing.
        rig.ways(1, report(2, GROUP));
        rig.ways(1, report3(2, &[(kind, GROUP, sources)]));
        let stays = !matches!((kind, sources), (1 | 3, 0));
        assert_eq!(rig.ways(0, data(1, GROUP)), if stays { "b" } else { "" }, "type {kind} with {sources} sources");
        rig.finish();
    }
}

#[test]
fn mld_of_both_versions_is_heard() {
    let mut rig = bridge(keys(json!({ "unregistered": "routers" })));
    let data = |group| ipv6(1, group, 64, 17, &[0; 20]);
    assert_eq!(rig.ways(3, query6(4, None)), "abc");
    assert_eq!(rig.ways(0, data(GROUP6)), "d");
    assert_eq!(rig.ways(1, mld1(2, 131, GROUP6)), "d");
    assert_eq!(rig.ways(2, report6(3, 4, GROUP6)), "d");
    assert_eq!(rig.ways(0, data(GROUP6)), "bcd");
    // All nodes are always reached (RFC 4541 section 3).
    assert_eq!(rig.ways(0, data(ALL_NODES)), "bcd");
    assert_eq!(rig.ways(1, mld1(2, 132, GROUP6)), "d");
    rig.ways(3, query6(4, Some(GROUP6)));
    rig.ways(2, report6(3, 2, GROUP6));
    rig.run(2_100 * MS);
    assert_eq!(rig.ways(0, data(GROUP6)), "cd");
    let told: Vec<_> = rig.show("groups", Some("ff05::1234")).iter().map(|row| row["version"].clone()).collect();
    assert_eq!(told, [json!(2)]);
    rig.finish();
}

#[test]
fn routers_are_found_by_pim_and_router_discovery_and_not_by_proxies() {
    let pim = ipv4(2, ROUTER, Ipv4Addr::new(224, 0, 0, 13), 103, &[0x20, 0, 0, 0]);
    let pim6 = ipv6(2, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xd), 1, 103, &[0x20, 0, 0, 0]);
    let advertisement = igmp(2, ROUTER, Ipv4Addr::new(224, 0, 0, 106), (0x30, 20), [0; 4], &[]);
    for message in [pim, pim6, advertisement] {
        let mut rig = bridge(keys(json!({ "unregistered": "routers" })));
        assert_eq!(rig.ways(1, message), "acd");
        assert_eq!(rig.ways(0, data(1, GROUP)), "b");
        let gone = igmp(2, ROUTER, Ipv4Addr::new(224, 0, 0, 106), (0x32, 0), [0; 4], &[]);
        rig.ways(1, gone);
        assert_eq!(rig.ways(0, data(1, GROUP)), "");
        rig.finish();
    }
    // A query from 0.0.0.0 is a switch's, and shows no router; other PIM messages show nothing.
    let mut rig = bridge(keys(json!({ "unregistered": "routers" })));
    assert_eq!(rig.ways(1, igmp(2, Ipv4Addr::UNSPECIFIED, ALL_HOSTS, (0x11, 10), [0; 4], &[])), "acd");
    assert_eq!(rig.ways(1, ipv4(2, ROUTER, Ipv4Addr::new(224, 0, 0, 13), 103, &[0x23, 0, 0, 0])), "acd");
    // What is not known is flooded (RFC 4541 section 2.1.1 (4)).
    assert_eq!(rig.ways(1, igmp(2, ROUTER, GROUP, (0x44, 0), [0; 4], &[])), "acd");
    assert_eq!(rig.ways(0, data(1, GROUP)), "");
    rig.finish();
}

/// Messages that are cut short, broken or not valid teach nothing, and go nowhere (RFC 4541 section 2.1.1 (5)).
#[test]
fn what_is_malformed_is_dropped_by_name() {
    let mut rig = bridge(keys(json!({ "unregistered": "routers" })));
    let broken = |mut frame: Vec<u8>, at: usize, bits: u8| {
        frame[at] ^= bits;
        frame
    };
    let (good, good3, good6) = (report(2, GROUP), report3(2, &[(4, GROUP, 2)]), report6(2, 4, GROUP6));
    let mut wrong = vec![
        broken(good.clone(), 24, 1),
        broken(good.clone(), 41, 1),
        broken(good6.clone(), 65, 1),
        broken(good6.clone(), 21, 2),
        igmp(2, ROUTER, GROUP, (0x16, 0), [10, 0, 0, 1], &[]),
        igmp(2, ROUTER, GROUP, (0x11, 0), [0; 4], &[]),
        igmp(2, ROUTER, ALL_HOSTS, (0x11, 0), [0; 4], &[0]),
        igmp(2, ROUTER, ALL_HOSTS, (0x11, 0), [0; 4], &[0, 0, 0, 1]),
        igmp(2, ROUTER, IGMP3, (0x22, 0), [0, 0, 0, 2], &[4, 0, 0, 0, 239, 1, 2, 3]),
        igmp(2, ROUTER, IGMP3, (0x22, 0), [0, 0, 0, 1], &[4, 0, 0, 0, 10, 1, 2, 3]),
        mld(2, GROUP6, 131, &[0; 20]),
        mld(2, ALL_NODES, 130, &[0; 22]),
    ];
    for cut in 1..=12 {
        wrong.push(good3[..good3.len() - cut].to_vec());
    }
    let count = wrong.len() as u64;
    for (n, message) in wrong.into_iter().enumerate() {
        assert_eq!(rig.ways(1, message), "", "{n}");
    }
    assert_eq!(rig.drops(), [("bridge.control/snoop-malformed".to_owned(), count)].into());
    assert_eq!((rig.ways(0, data(1, GROUP)).as_str(), rig.show("groups", None).len()), ("", 0));
    for message in [good, good3, good6] {
        rig.ways(1, message);
    }
    assert_eq!(rig.show("groups", None).len(), 2);
    rig.finish();
}

/// VLANs have groups and routers of their own, and messages get the tags of the ports that they leave by.
#[test]
fn groups_are_those_of_a_vlan() {
    let mut rig = bridge(json!({ "tagging": "802.1q", "snooping": { "enabled": true, "unregistered": "routers" },
        "ports": { "a": { "tagged": "10,20" }, "b": { "vlan": 10 }, "c": { "vlan": 20 }, "d": { "vlan": 10, "tagged": "20" } } }));
    let in_vlan = |frame: Vec<u8>, vlan| tagged(frame, &[(0x8100, vlan)]);
    let out = rig.pass(0, &[in_vlan(query(1, None), 10)]);
    assert_eq!((&out[1], out[2].len(), &out[3]), (&vec![query(1, None)], 0, &vec![query(1, None)]));
    let out = rig.pass(1, &[report(2, GROUP)]);
    assert_eq!((&out[0], out[3].len()), (&vec![in_vlan(report(2, GROUP), 10)], 0));
    assert_eq!(rig.ways(3, data(4, GROUP)), "ab");
    assert_eq!(rig.ways(3, in_vlan(data(4, GROUP), 20)), "", "the router is in VLAN 10");
    rig.ways(2, report(3, GROUP));
    assert_eq!(rig.ways(3, in_vlan(data(4, GROUP), 20)), "c");
    assert_eq!(rig.show("groups", Some("20"))[0]["port"], "c");
    rig.finish();
}

#[test]
fn what_is_read_is_bounded() {
    let mut rig = bridge(keys(json!({ "rate": "1 kpps" })));
    rig.ways(3, query(4, None));
    let group = |n: u16| Ipv4Addr::new(239, 1, (n >> 8) as u8, n as u8);
    let mut config = keys(json!({ "rate": "1 kpps" }));
    config["limits"] = json!({ "groups": 50 });
    rig.reload(config);
    for round in 0..10 {
        let reports: Vec<Vec<u8>> = (0..100).map(|n| report(2, group(round * 100 + n))).collect();
        rig.pass(1, &reports);
    }
    // A hundred in reserve, and one for each millisecond.
    let policed = rig.drops()["bridge.forward/snoop-policed"];
    assert!((880..=900).contains(&policed), "{policed}");
    assert_eq!(rig.show("groups", None).len(), 50);
    assert_eq!((rig.gauge("bridge_groups"), rig.gauge("bridge_groups_refused")), (50.0, 950.0 - policed as f64));
    // Switched off, nothing is read, and what was heard is forgotten.
    rig.reload(keys(json!({ "enabled": false })));
    assert_eq!((rig.ways(1, report(2, GROUP)).as_str(), rig.show("groups", None).len()), ("acd", 0));
    rig.finish();
}
