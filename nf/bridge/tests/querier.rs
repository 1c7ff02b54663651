//! The bridge as a querier of IGMP and MLD: what it asks, when, and when it lets another ask (RFC 2236, RFC 3376, RFC 2710, RFC 3810).
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use std::net::{Ipv4Addr, Ipv6Addr};

use common::*;
use serde_json::{Value, json};
use weir_wire::checksum::{Sum, checksum};

/// A bridge that is a querier, with these keys of it.
fn keys(more: Value) -> Value {
    let mut querier = json!({ "enabled": true });
    querier.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "ports": { "a": {}, "b": {} }, "snooping": { "enabled": true, "querier": querier } })
}

/// An IPv4 packet with a message of IGMP.
fn igmp(from: u8, source: Ipv4Addr, to: Ipv4Addr, mut message: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let len = (24 + message.len()) as u16;
    let mut header = [&[0x46, 0xc0][..], &len.to_be_bytes(), &[0, 0, 0, 0, 1, 2, 0, 0]].concat();
    header.extend([source.octets(), to.octets(), [0x94, 4, 0, 0]].concat());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let [_, b, c, d] = to.octets();
    [&[1, 0, 0x5e, b & 127, c, d][..], &mac(from), &[8, 0], &header, &message].concat()
}

const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

/// A general query of version 2 from an address.
fn query(source: Ipv4Addr) -> Vec<u8> {
    igmp(77, source, ALL_HOSTS, vec![0x11, 100, 0, 0, 0, 0, 0, 0])
}

fn report(from: u8) -> Vec<u8> {
    igmp(from, Ipv4Addr::new(10, 0, 0, from), GROUP, [&[0x16, 0, 0, 0][..], &GROUP.octets()].concat())
}

fn leave(from: u8) -> Vec<u8> {
    let to = Ipv4Addr::new(224, 0, 0, 2);
    igmp(from, Ipv4Addr::new(10, 0, 0, from), to, [&[0x17, 0, 0, 0][..], &GROUP.octets()].concat())
}

/// An MLD query of version 1 from a link-local address.
fn query6(source: Ipv6Addr) -> Vec<u8> {
    let to = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let mut message = [&[130, 0, 0, 0, 0x27, 0x10, 0, 0][..], &[0; 16]].concat();
    let sum = Sum::new().bytes(&source.octets()).bytes(&to.octets()).word(24).word(58).bytes(&message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let header = [&[0x60, 0, 0, 0, 0, 32, 0, 1][..], &source.octets(), &to.octets()].concat();
    [&[0x33, 0x33, 0, 0, 0, 1][..], &mac(78), &[0x86, 0xdd], &header, &[58, 0, 5, 2, 0, 0, 1, 0], &message].concat()
}

/// What is sent by a port in some seconds, with the tenths of seconds in which it is.
fn heard(rig: &mut Rig, port: usize, seconds: u64) -> Vec<(u64, Vec<u8>)> {
    let mut all = Vec::new();
    for _ in 0..seconds * 10 {
        rig.run(100 * MS);
        let tenth = rig.engine.now() / (100 * MS);
        all.extend(rig.sent(port).into_iter().map(|frame| (tenth, frame)));
    }
    all
}

const IPV4: usize = 0x0800;
const IPV6: usize = 0x86dd;

/// The tenths at which there are questions of a family among frames.
fn times(heard: &[(u64, Vec<u8>)], ethertype: usize) -> Vec<u64> {
    let is_it = |frame: &[u8]| usize::from(frame[12]) << 8 | usize::from(frame[13]) == ethertype;
    heard.iter().filter(|(_, frame)| is_it(frame)).map(|(tenth, _)| *tenth).collect()
}

#[test]
fn questions_are_as_the_rfcs_have_them() {
    let mut rig =
        bridge(keys(json!({ "address": "10.0.0.2", "interval": "200s", "response": "16s", "robustness": 3 })));
    rig.run(10 * MS);
    let (a, b) = (rig.sent(0), rig.sent(1));
    assert_eq!(a, b, "to all ports");
    let [four, six] = &a[..] else { unreachable!("{a:?}") };
    let own = [four[6..12].to_vec(), six[6..12].to_vec()];
    assert_eq!(own[0], own[1]);
    assert_eq!(own[0][0], 2, "an address that is administered locally");
    // RFC 3376 section 4.1: the maximum response code 0x84 is (4 | 16) << 3 = 160 tenths, QQIC 0x89 is (9 | 16) << 3 = 200 s.
    let mut due = igmp(0, Ipv4Addr::new(10, 0, 0, 2), ALL_HOSTS, vec![0x11, 0x84, 0, 0, 0, 0, 0, 0, 3, 0x89, 0, 0]);
    due[6..12].copy_from_slice(&own[0]);
    assert_eq!(four, &due);
    // RFC 3810 section 5.1, behind a header with a router alert; 16,000 ms are 0x3e80.
    let to = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let [a, b, c, d, e, f] = own[0][..] else { unreachable!() };
    let source: Ipv6Addr = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f].into();
    let mut message = [&[130, 0, 0, 0, 0x3e, 0x80, 0, 0][..], &[0; 16], &[3, 0x89, 0, 0]].concat();
    let sum = Sum::new().bytes(&source.octets()).bytes(&to.octets()).word(28).word(58).bytes(&message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let header = [&[0x60, 0, 0, 0, 0, 36, 0, 1][..], &source.octets(), &to.octets()].concat();
    let due = [&[0x33, 0x33, 0, 0, 0, 1][..], &own[0], &[0x86, 0xdd], &header, &[58, 0, 5, 2, 0, 0, 1, 0], &message];
    assert_eq!(six, &due.concat());
    // A bridge that only listens takes both for a router's.
    let mut other = bridge(json!({ "ports": { "a": {}, "b": {} }, "snooping": { "enabled": true } }));
    assert_eq!(other.ways(0, four.clone()), "b");
    assert_eq!(other.show("multicast-routers", None)[0]["port"], "a");
    assert_eq!(other.ways(1, six.clone()), "a");
    assert_eq!(other.show("multicast-routers", None).len(), 2);
    assert_eq!(other.drops(), [].into());
    other.finish();
    rig.finish();
}

#[test]
fn it_asks_fast_at_first_and_then_in_its_interval() {
    let mut rig = bridge(keys(json!({ "interval": "40s", "response": "5s", "robustness": 3 })));
    let heard = heard(&mut rig, 1, 180);
    // RFC 3376 sections 8.6 and 8.7: as many as the robustness variable, a quarter of the interval between them.
    for family in [IPV4, IPV6] {
        let told = times(&heard, family);
        let gaps: Vec<u64> = told.windows(2).map(|pair| (pair[1] - pair[0] + 5) / 10).collect();
        assert_eq!((told[0], gaps), (1, vec![10, 10, 40, 40, 40]), "{told:?}");
    }
    let account = rig.account();
    assert_eq!(account.created, account.transmitted);
    rig.finish();
}

#[test]
fn the_lowest_address_asks() {
    let own = Ipv4Addr::new(10, 0, 0, 5);
    let mut rig = bridge(keys(json!({ "address": own.to_string(), "interval": "20s", "response": "10s" })));
    heard(&mut rig, 1, 10);
    let who = |rig: &Rig| {
        let rows = rig.show("queriers", None);
        let row = rows.iter().find(|row| row["family"] == "ipv4").unwrap();
        (row["querier"].as_str().unwrap().to_owned(), row["is_self"].as_bool().unwrap())
    };
    // One with a higher address, one with the same, and one without do not count.
    for other in [Ipv4Addr::new(10, 0, 0, 6), own, Ipv4Addr::UNSPECIFIED] {
        rig.send(0, query(other));
        rig.run(MS);
        assert_eq!(who(&rig), ("10.0.0.5".to_owned(), true), "{other}");
    }
    let lower = Ipv4Addr::new(9, 255, 255, 255);
    rig.send(0, query(lower));
    rig.run(MS);
    rig.sent(1);
    assert_eq!(who(&rig), ("9.255.255.255".to_owned(), false));
    // RFC 3376 section 8.5: it is believed in for the robustness variable times the interval, and half the time of answers: 45 s. MLD is no affair of it.
    let began = rig.engine.now() / (100 * MS);
    let quiet = heard(&mut rig, 1, 44);
    assert!(times(&quiet, IPV4).is_empty());
    assert_eq!(times(&quiet, IPV6).len(), 2);
    rig.send(0, query(lower));
    rig.run(MS);
    rig.sent(1);
    let then = heard(&mut rig, 1, 80);
    let told = times(&then, IPV4);
    assert!(told[0].abs_diff(began + 440 + 450) <= 2, "{told:?} since {began}");
    assert_eq!((told[1] - told[0] + 5) / 10, 20);
    assert_eq!(who(&rig), ("10.0.0.5".to_owned(), true));
    rig.finish();
}

#[test]
fn without_an_address_it_gives_way_to_any_other() {
    let mut rig = bridge(keys(json!({ "address_ipv6": "fe80::5" })));
    heard(&mut rig, 1, 1);
    let selves = |rig: &Rig| rig.show("queriers", None).iter().map(|row| row["is_self"].clone()).collect::<Vec<_>>();
    assert_eq!(selves(&rig), [json!(true), json!(true)]);
    rig.send(0, query(Ipv4Addr::new(223, 255, 255, 254)));
    rig.send(0, query6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 6)));
    rig.run(MS);
    assert_eq!(selves(&rig), [json!(false), json!(true)]);
    rig.send(0, query6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 4)));
    rig.run(MS);
    assert_eq!(selves(&rig), [json!(false), json!(false)]);
    rig.finish();
}

#[test]
fn who_is_left_in_a_group_is_asked() {
    let mut rig = bridge(keys(json!({ "address": "10.0.0.2" })));
    heard(&mut rig, 1, 40);
    let members = |rig: &Rig| rig.show("groups", None).len();
    rig.pass(0, &[report(1)]);
    // A station that leaves what nobody listens to there is nobody's affair.
    rig.pass(1, &[leave(2)]);
    assert!(heard(&mut rig, 0, 3).is_empty());
    assert_eq!(members(&rig), 1);
    // Two questions for the group, a second between them, and it ends when nobody answers (RFC 2236 section 3, RFC 3376 section 8.8).
    let began = rig.engine.now() / (100 * MS);
    rig.send(0, leave(1));
    let told = heard(&mut rig, 1, 3);
    let mut due =
        igmp(0, Ipv4Addr::new(10, 0, 0, 2), GROUP, [&[0x11, 10, 0, 0][..], &GROUP.octets(), &[2, 125, 0, 0]].concat());
    due[6..12].copy_from_slice(&told[0].1[6..12]);
    let asked: Vec<u64> = told.iter().filter(|(_, frame)| *frame == due).map(|(tenth, _)| tenth - began).collect();
    assert!(asked.len() == 2 && asked[0] <= 2 && asked[1].abs_diff(asked[0] + 10) <= 1, "{asked:?}");
    assert_eq!(members(&rig), 0);
    // Where somebody else answers, it goes on.
    rig.pass(0, &[report(1)]);
    rig.send(0, leave(1));
    heard(&mut rig, 1, 1);
    rig.send(0, report(3));
    heard(&mut rig, 1, 9);
    assert_eq!(members(&rig), 1);
    // Another querier does that where there is one.
    rig.send(0, query(Ipv4Addr::new(10, 0, 0, 1)));
    rig.run(MS);
    rig.send(0, leave(1));
    rig.run(MS);
    rig.sent(1);
    assert!(times(&heard(&mut rig, 1, 5), IPV4).is_empty());
    assert_eq!(members(&rig), 1);
    rig.finish();
}

#[test]
fn each_vlan_is_asked_in_its_form() {
    let querier = json!({ "enabled": true, "vlans": "10,30-40" });
    let keys = json!({
        "tagging": "802.1q", "snooping": { "enabled": true, "querier": querier },
        "ports": { "a": { "vlan": 10 }, "b": { "vlan": 20, "tagged": "10,30" } },
    });
    let mut rig = bridge(keys.clone());
    rig.run(10 * MS);
    let tag = |frame: &Vec<u8>| u32::from_be_bytes(frame[12..16].try_into().unwrap());
    let told: Vec<u32> = rig.sent(1).iter().map(tag).collect();
    assert_eq!(told, [0x8100_000a, 0x8100_000a, 0x8100_001e, 0x8100_001e]);
    let told: Vec<u32> = rig.sent(0).iter().map(|frame| tag(frame) >> 16).collect();
    assert_eq!(told, [0x0800, 0x86dd]);
    assert_eq!(rig.show("queriers", Some("30")).len(), 2);
    // A VLAN that comes is asked at once, and one that goes no more; so is all of it.
    let mut wanted = keys.clone();
    wanted["snooping"]["querier"]["vlans"] = json!("20");
    rig.reload(wanted);
    rig.run(200 * MS);
    assert_eq!(rig.sent(1).iter().map(|frame| tag(frame) >> 16).collect::<Vec<u32>>(), [0x0800, 0x86dd]);
    assert_eq!(rig.show("queriers", None).len(), 2);
    let mut wanted = keys;
    wanted["snooping"]["querier"]["enabled"] = json!(false);
    rig.reload(wanted);
    assert!(heard(&mut rig, 1, 300).is_empty());
    assert_eq!(rig.show("queriers", None), Vec::<Value>::new());
    rig.finish();
}

#[test]
fn many_vlans_are_asked_one_after_the_other() {
    let querier = json!({ "enabled": true });
    let ports = json!({ "a": { "tagged": "1-4094" }, "b": { "vlan": 1 } });
    let mut rig =
        bridge(json!({ "tagging": "802.1q", "snooping": { "enabled": true, "querier": querier }, "ports": ports }));
    rig.run(SECOND);
    let told = rig.sent(0);
    assert_eq!(told.len(), 2 * 4094);
    assert_eq!(rig.sent(1).len(), 2);
    let account = rig.account();
    assert_eq!((account.created, account.dropped), (2 * 4094 + 2, 0));
    rig.finish();
}

#[test]
fn what_is_wrong_with_a_querier_is_told() {
    let told = |more: Value, snoops: bool| {
        let mut wanted = keys(more);
        wanted["snooping"]["enabled"] = json!(snoops);
        messages(&wanted)
    };
    for (more, snoops, words) in [
        (json!({}), false, "snooping.querier.enabled: asks, and nobody hears answers; set snooping.enabled = true"),
        (
            json!({ "interval": "10s" }),
            true,
            "snooping.querier.response: 10 s is no shorter than the time between questions, 10 s",
        ),
        (json!({ "address_ipv6": "2001:db8::1" }), true, "is not a link-local address"),
        (json!({ "address": "224.0.0.1" }), true, "224.0.0.1 is no address of a station"),
        (json!({ "vlans": "10" }), true, "means nothing to a bridge that takes no notice of tags"),
    ] {
        let told = told(more, snoops);
        assert!(told.len() == 1 && told[0].contains(words), "{words}: {told:?}");
    }
}
