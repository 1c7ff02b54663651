//! What the log tells of hostile customers: who and why, within bounds, whatever they do.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use std::collections::{BTreeMap, BTreeSet};

use common::{CORE, CPE, Rig, SECOND, TWO, host, request, tagged, tunnels, udp};
use serde_json::{Value, json};
use weir_wire::{MacAddr, ethernet};

/// A line of the log: what is told, by names.
type Line = BTreeMap<&'static str, String>;

/// What is told now, apart from what can not be told.
fn told(rig: &Rig) -> (Vec<Line>, Option<u64>) {
    let notices = rig.instance.notices(rig.engine.now());
    let (lines, sums): (Vec<_>, Vec<_>) =
        notices.into_iter().partition(|notice| notice.message.starts_with("a customer"));
    let sums: Vec<u64> = sums.iter().map(|notice| notice.facts[0].1.parse().unwrap()).collect();
    assert!(sums.len() <= 1);
    (lines.into_iter().map(|notice| notice.facts.into_iter().collect()).collect(), sums.first().copied())
}

fn rig(change: impl Fn(&mut Value)) -> Rig {
    let mut config = tunnels();
    change(&mut config);
    let mut rig = Rig::new(TWO, config);
    rig.settle();
    rig.router_answers();
    rig
}

fn line(subscriber: &str, reason: &str, packets: u64, why: &str) -> Line {
    let facts = [("port", "cpe"), ("subscriber", subscriber), ("reason", reason), ("why", why)];
    let facts = facts.into_iter().filter(|(_, fact)| !fact.is_empty()).map(|(name, fact)| (name, fact.to_owned()));
    facts.chain([("packets", packets.to_string())]).collect()
}

#[test]
fn one_line_in_an_interval_for_each_reason_however_many_packets_there_are() {
    let mut rig = rig(|_| {});
    let mut lines = Vec::new();
    for second in 0..150 {
        for n in 0..10 {
            let frame = rig.customer(1, &format!("172.16.0.{}", n + 1), "203.0.113.1");
            rig.send(CPE, frame);
        }
        let honest = rig.customer(2, "10.0.0.8", "203.0.113.1");
        rig.send(CPE, honest);
        rig.run(SECOND);
        let (told, more) = told(&rig);
        assert_eq!(more, None);
        lines.extend(told.into_iter().map(|line| (second, line)));
    }
    let spoofed =
        |packets| line("100.1", "spoofed-source", packets, "From an address that the subscriber has no right to.");
    assert_eq!(lines, [(0, spoofed(10)), (60, spoofed(610)), (120, spoofed(1210))]);
    let shown = rig.show("subscribers");
    assert_eq!(shown[0]["drops"]["spoofed-source"], json!(1500), "as is shown");
    rig.finish();
}

/// Spoofed sources, addresses that move, storms of ARP, malformed tags and lengths, too many addresses: each by its name.
#[test]
fn each_kind_of_hostility_has_its_line() {
    let mut rig = rig(|config| {
        config["limits"] = json!({ "addresses": 2 });
        config["log"] = json!({ "lines": 100 });
    });
    let gateway = rig.mac(CPE);
    let good = udp("10.0.0.7", "203.0.113.1", 80);
    let customer = |packet: &[u8]| tagged(gateway, host(1), 1, ethernet::IPV4, packet);
    let mut frames = Vec::new();
    let mut short = good.clone();
    short[3] = 10;
    weir_wire::ipv4::write_checksum(&mut short[..20]);
    let mut broken = good.clone();
    broken[10] ^= 1;
    let mut untagged = customer(&good);
    untagged.drain(12..20);
    let mut one_tag = customer(&good);
    one_tag.drain(16..20);
    frames.extend([customer(&short), customer(&broken), untagged, one_tag]);
    frames.push(tagged(gateway, host(9), 9, ethernet::IPV4, &good));
    for n in 1..=3 {
        frames.push(customer(&udp(&format!("10.0.3.{n}"), "203.0.113.1", 80)));
    }
    frames.push(tagged(gateway, host(1), 1, ethernet::ARP, &[0, 1, 8, 0]));
    for frame in frames {
        rig.send(CPE, frame);
    }
    rig.arp_request(1, "172.16.0.8", "10.0.0.1");
    rig.settle();
    // Stations that fight for an address.
    for n in 0..4 {
        rig.arp_reply(2, "10.0.0.8", MacAddr([2, 0, 0, 9, 0, n]));
    }
    rig.settle();
    for n in 0..200 {
        rig.arp(2, MacAddr::BROADCAST, &request(host(2), "10.0.0.8", &format!("10.0.1.{n}")));
    }
    rig.run(2 * SECOND);
    let (lines, more) = told(&rig);
    let of = |subscriber: Option<&str>| -> BTreeSet<String> {
        let lines = lines.iter().filter(|line| line.get("subscriber").map(String::as_str) == subscriber);
        lines.map(|line| line["reason"].clone()).collect()
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(of(None), names(&["no-svlan", "no-cvlan", "unknown-subscriber"]));
    assert_eq!(
        of(Some("100.1")),
        names(&["ip-total-length", "ip-checksum", "too-many-addresses", "arp-malformed", "spoofed-source"])
    );
    assert_eq!(of(Some("100.2")), names(&["moves-too-often", "punt-policed-subscriber"]));
    assert_eq!(more, None);
    rig.finish();
}

/// A hundred subscribers at once.
#[test]
fn all_lines_together_are_bounded_and_everybody_has_a_turn() {
    let subscribers: Vec<Value> =
        (1..=100).map(|n| json!({ "svlan": 100, "cvlan": n, "key": n, "ipv4": [format!("10.0.4.{n}")] })).collect();
    let mut rig = rig(|config| {
        config["subscribers"] = json!(subscribers);
        config["log"] = json!({ "lines": 8, "interval": "10 s" });
    });
    let mut named = BTreeMap::<String, u32>::new();
    let (mut all, mut sums) = (0, Vec::new());
    for second in 0..200 {
        for cvlan in 1..=100 {
            let frame = rig.customer(cvlan, "172.16.0.1", "203.0.113.1");
            rig.send(CPE, frame);
        }
        rig.run(SECOND);
        let (lines, more) = told(&rig);
        sums.extend(more);
        all += lines.len();
        assert!(all <= 8 * (1 + second / 10), "{all} lines in {second} s");
        lines.iter().for_each(|line| *named.entry(line["subscriber"].clone()).or_default() += 1);
    }
    assert_eq!(named.len(), 100, "everybody was named");
    assert!(sums.len() >= 15 && sums.iter().all(|sum| *sum == 92), "{sums:?}");
    rig.finish();
}

#[test]
fn nothing_is_told_where_nothing_is_wanted_or_wrong() {
    let mut rig = rig(|config| config["log"] = json!({ "lines": 0 }));
    let spoof = |rig: &mut Rig| {
        let frame = rig.customer(1, "172.16.0.1", "203.0.113.1");
        rig.send(CPE, frame);
        let honest = rig.customer(2, "10.0.0.8", "203.0.113.1");
        rig.send(CPE, honest);
        rig.run(2 * SECOND);
        told(rig).0.len()
    };
    assert_eq!(spoof(&mut rig), 0);
    // Bounds change while it runs.
    rig.reload(&tunnels());
    assert_eq!(spoof(&mut rig), 1);
    rig.finish();
}

/// The announcements among what was sent to lines: CVLAN and address.
fn announced(rig: &mut Rig) -> Vec<(u16, String)> {
    let sent =
        common::arps(&rig.sent(CPE)).into_iter().filter(|(to, _, arp)| to.is_broadcast() && arp.sender == arp.target);
    sent.map(|(_, cvlan, arp)| (cvlan, arp.sender.to_string())).collect()
}

#[test]
fn a_customer_with_the_gateways_address_is_answered_seldom_and_told() {
    let mut rig = rig(|_| {});
    rig.sent(CPE);
    for _ in 0..25 {
        rig.arp_request(1, "10.0.0.1", "10.0.0.8");
        rig.run(SECOND);
    }
    assert_eq!(announced(&mut rig), vec![(1, "10.0.0.1".to_owned()); 3], "one in ten seconds (RFC 5227 section 2.4)");
    assert_eq!(rig.drops()["bng.control/gateway-address"], 25);
    let (lines, _) = told(&rig);
    let why = "ARP of a customer's station that uses one of the gateway's own addresses.";
    assert_eq!(lines, [line("100.1", "gateway-address", 25, why)]);
    // What comes back from a loop on the line is not answered.
    let own = request(rig.mac(CPE), "10.0.0.1", "10.0.0.1");
    rig.arp(2, MacAddr::BROADCAST, &own);
    rig.settle();
    assert_eq!(announced(&mut rig), []);
    rig.finish();
}

#[test]
fn a_station_of_the_core_with_the_gateways_address_is_told_once() {
    let mut rig = rig(|_| {});
    for _ in 0..20 {
        let mut frame = vec![0; 60];
        request(host(7), "192.0.2.1", "192.0.2.2").write(MacAddr::BROADCAST, &mut frame).unwrap();
        rig.send(CORE, frame);
        rig.run(SECOND);
        let notices = rig.instance.notices(rig.engine.now());
        if rig.fates()["arp-conflict"] > 1 {
            assert_eq!(notices, []);
            continue;
        }
        let [notice] = &notices[..] else { panic!("{notices:?}") };
        assert_eq!(notice.message, "another station uses one of our addresses");
        let facts = [("port", "core"), ("address", "192.0.2.1"), ("mac", &host(7).to_string()), ("times", "1")];
        assert_eq!(notice.facts, facts.map(|(name, fact)| (name, fact.to_owned())));
    }
    rig.finish();
}
