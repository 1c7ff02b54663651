//! The steps of the fast path for IPv6, wired by hand: what they answer by themselves, and that a chain of them does to packets what the rules
//! say one by one, and what the router does.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use crate::common;

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use common::six::{Udp6, ip6};
use common::traffic::mutate;
use common::wired::*;
use common::*;
use serde_json::{Value, json};
use weir_ip::steps::{Ipv6Check, Ipv6Rewrite, Ipv6Route};
use weir_port_mem::MemHandle;
use weir_stage::Random;
use weir_wire::MacAddr;

/// The last one carries no more than every link must (RFC 8200 section 5).
const PORTS: &[PortSpec] = &[
    PortSpec("left", &["2001:db8::1/64"], 1500),
    PortSpec("right", &["2001:db8:0:1::1/64"], 1500),
    PortSpec("small", &["2001:db8:0:2::1/64"], 1280),
];

/// Hosts that are next hops, with the ports that they are behind.
const HOSTS: [(&str, usize, MacAddr); 4] = [
    ("2001:db8:0:1::9", 1, MacAddr([2, 0, 0, 0, 1, 9])),
    ("2001:db8:0:1::8", 1, MacAddr([2, 0, 0, 0, 1, 8])),
    ("2001:db8:0:2::9", 2, MacAddr([2, 0, 0, 0, 2, 9])),
    ("2001:db8::9", 0, MacAddr([2, 0, 0, 0, 0, 9])),
];

/// Prefixes, and which of the hosts each leads to.
const ROUTES: [(&str, u8, usize); 8] = [
    ("2000::", 3, 0),
    ("2001:db8:100::", 40, 1),
    ("2001:db8:100:1::", 64, 2),
    ("2001:db8:100:1::7", 128, 3),
    ("2001:db8:0:1::9", 128, 0),
    ("2001:db8:0:1::8", 128, 1),
    ("2001:db8:0:2::9", 128, 2),
    ("2001:db8::9", 128, 3),
];

const DESTINATIONS: [&str; 18] = [
    "2620::1",
    "2001:db8:100::5",
    "2001:db8:100:1::5",
    "2001:db8:100:1::7",
    "2001:db8:0:1::9",
    "2001:db8:0:2::9",
    "2001:db8::9",
    "2001:db8::1",
    "2001:db8:0:1::77",
    "4000::1",
    "fe80::9",
    "ff02::1",
    "ff02::1:ff00:9",
    "ff05::2",
    "ff01::1",
    "::ffff:10.0.0.1",
    "::1",
    "::",
];

const SOURCES: [&str; 6] = ["fe80::9", "::", "::1", "ff02::9", "::ffff:10.0.0.9", "fe80::a"];

fn steps() -> Steps {
    Steps { ports: PORTS, check: &Ipv6Check, route: &Ipv6Route, rewrite: &Ipv6Rewrite, next_hops: HOSTS.to_vec() }
}

fn routes() -> Value {
    Value::Object(ROUTES.iter().map(|(net, length, host)| (format!("{net}/{length}"), json!(HOSTS[*host].0))).collect())
}

/// A router with the same routes that knows the hosts.
fn router() -> Rig {
    let neighbors: serde_json::Map<_, _> =
        HOSTS.iter().map(|(host, _, mac)| ((*host).to_owned(), json!(mac.to_string()))).collect();
    let config = json!({ "neighbors": neighbors, "routes": routes(), "neighbor_timers": { "own_probes": 0 } });
    Rig::new(PORTS, config).quiet()
}

/// What becomes of a frame in a chain.
#[derive(Debug, PartialEq)]
enum Fate {
    /// It leaves by this way, or is dropped for this reason.
    By(&'static str),
    /// It is sent to a host.
    Sent(usize),
}

/// Whether an address is ::, ::1, ::a.b.c.d or ::ffff:a.b.c.d, which are of no host on a link (RFC 4291 sections 2.5.2 to 2.5.5, RFC 6890).
fn is_of_no_host(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [0, 0, 0, 0, 0, 0, _, _] | [0, 0, 0, 0, 0, 0xffff, _, _])
}

/// What the rules say of a frame without tags that came in at this station, one after the other.
fn fate(frame: &[u8], station: MacAddr) -> Fate {
    use Fate::By;
    if frame.len() < 14 {
        return By("too-short");
    }
    let to_group = frame[0] & 1 == 1;
    if !to_group && frame[..6] != station.0 {
        return By("not-for-us");
    }
    if frame[12..14] != [0x86, 0xdd] {
        return By("unknown-ethertype");
    }
    let ip = &frame[14..];
    // RFC 8200 section 3.
    if ip.len() < 40 {
        return By("ip6-too-short");
    }
    let payload = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
    if ip[0] >> 4 != 6 {
        return By("ip6-version");
    }
    if payload > ip.len() - 40 {
        return By("ip6-truncated");
    }
    let [source, destination] = [8, 24].map(|at| Ipv6Addr::from_octets(ip[at..at + 16].try_into().unwrap()));
    // RFC 4291 section 2.7 and RFC 7346: the scope is in the lower half of the second byte, 2 for the link.
    let scope = destination.is_multicast().then_some(destination.octets()[1] & 0xf);
    let for_link = scope == Some(2) || destination.is_unicast_link_local();
    if source.is_multicast() || is_of_no_host(source) && !(source.is_unspecified() && for_link) {
        return By("ip6-martian-source");
    }
    if is_of_no_host(destination) || matches!(scope, Some(0 | 1)) {
        return By("ip6-martian-destination");
    }
    if scope.is_some() && !for_link {
        return By("ip6-multicast");
    }
    if scope.is_none() && to_group {
        return By("ip6-link-broadcast");
    }
    // RFC 4861 section 4: types 133 to 137. RFC 4007 section 9: what has an address of the link stays there.
    if for_link && ip[6] == 58 && payload > 0 && (133..=137).contains(&ip[40]) {
        return By("nd");
    }
    if for_link || source.is_unicast_link_local() {
        return By("link");
    }
    // RFC 8200 section 4.3.
    if ip[6] == 0 {
        return By("options");
    }
    let Some(host) = route_of(destination) else { return By("no-route") };
    // RFC 8200 section 3: "If the Hop Limit is decremented to 0 [...] discard".
    if ip[7] <= 1 {
        return By("expired");
    }
    if 40 + payload > usize::from(PORTS[HOSTS[host].1].2) { By("too-big") } else { Fate::Sent(host) }
}

/// The host that the longest prefix leads to which covers an address.
fn route_of(address: Ipv6Addr) -> Option<usize> {
    let covers = |net: &str, length: u8| (ip6(net).to_bits() ^ address.to_bits()).leading_zeros() >= length.into();
    let around = ROUTES.iter().filter(|(net, length, _)| covers(net, *length));
    around.max_by_key(|(_, length, _)| *length).map(|(_, _, host)| *host)
}

/// The frame as it is sent on: another link header, one hop less, and no more than the link carries.
fn sent(frame: &[u8], source: MacAddr, destination: MacAddr, mtu: u16) -> Vec<u8> {
    let mut frame = [&destination.0, &source.0, &frame[12..]].concat();
    frame[21] -= 1;
    if frame.len() > 14 + usize::from(mtu) {
        let payload = usize::from(u16::from_be_bytes([frame[18], frame[19]]));
        frame.truncate((54 + payload).max(60));
    }
    frame
}

/// A frame to a station: IPv6 of any kind, at times something else, of any length.
fn make(random: &mut Random, station: MacAddr) -> Vec<u8> {
    let payload = if random.one_in(4) { random.position(1540) } else { random.position(120) };
    let mut frame = vec![0; 54 + payload];
    frame.iter_mut().for_each(|byte| *byte = random.next() as u8);
    let to = if random.one_in(16) { MacAddr([0x33, 0x33, 0, 0, 0, 1]) } else { station };
    frame[..6].copy_from_slice(&to.0);
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 0x86, 0xdd]);
    if random.one_in(30) {
        frame[12..14].copy_from_slice(&[8, 6 * random.position(2) as u8]);
    }
    frame[14] = 0x60 | frame[14] & 0xf;
    let said = if random.one_in(8) { random.position(payload + 1) } else { payload };
    frame[18..20].copy_from_slice(&(said as u16).to_be_bytes());
    frame[20] = [6, 17, 58, 58, 0, 43, 44, 59][random.position(8)];
    frame[21] = if random.one_in(8) { random.position(3) as u8 } else { 64 };
    let from = if random.one_in(6) { SOURCES[random.position(SOURCES.len())] } else { "2001:db8::9" };
    frame[22..38].copy_from_slice(&ip6(from).octets());
    frame[38..54].copy_from_slice(&ip6(DESTINATIONS[random.position(DESTINATIONS.len())]).octets());
    if payload > 0 && frame[20] == 58 && random.one_in(2) {
        frame[54] = 132 + random.position(7) as u8;
    }
    frame
}

/// Lets the same packets through the router and a chain. All that leaves the chain, and all that is dropped there, is what the rules say; what
/// they say is sent leaves the router as well, and it drops the others under the same names.
fn compare(parted: bool) {
    let (mut router, mut chain) = (router(), Chain::new(&steps(), parted, &routes()));
    let mut random = Random::new(61 + u64::from(parted));
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    let mut agreed = 0;
    for _ in 0..8_000 {
        let port = random.position(PORTS.len());
        assert_eq!(router.mac(port), chain.bench.mac(port));
        let mut frame = make(&mut random, router.mac(port));
        if random.one_in(3) {
            mutate(&mut random, &mut frame, 1600);
        }
        if frame.get(12..14).is_some_and(|ethertype| ethertype == [0x81, 0] || ethertype == [0x88, 0xa8]) {
            continue;
        }
        router.send(port, frame.clone());
        chain.bench.handles[port].send(frame.clone());
        (0..6).for_each(|_| _ = router.engine.step());
        (0..6).for_each(|_| _ = chain.engine.step());
        let by_chain: Vec<Vec<Vec<u8>>> = chain.bench.handles.iter().map(MemHandle::received).collect();
        let by_router: Vec<Vec<Vec<u8>>> = (0..PORTS.len()).map(|port| router.sent(port)).collect();
        let mut right = vec![Vec::new(); PORTS.len()];
        match fate(&frame, router.mac(port)) {
            Fate::By(name) => *expected.entry(name.to_owned()).or_default() += 1,
            Fate::Sent(host) => {
                let (_, to, mac) = HOSTS[host];
                let frame_sent = sent(&frame, chain.bench.mac(to), mac, PORTS[to].2);
                // The router asks for hosts of its links, and keeps what is for itself.
                let destination = Ipv6Addr::from_octets(frame[38..54].try_into().unwrap());
                let on_link = (0..3).any(|net| destination.segments()[..4] == [0x2001, 0xdb8, 0, net]);
                if !on_link || HOSTS.iter().any(|(host, ..)| ip6(host) == destination) {
                    assert!(by_router[to].contains(&frame_sent), "the router did another thing with {frame:02x?}");
                    agreed += 1;
                }
                right[to].push(frame_sent);
            }
        }
        assert_eq!(by_chain, right, "{frame:02x?}");
    }
    assert!(agreed > 1000, "{agreed}");
    chain.settle();
    router.settle();
    let (by_chain, by_router) = (chain.drops(), router.drops());
    assert_eq!(by_chain, expected);
    let all = [
        "too-short",
        "not-for-us",
        "unknown-ethertype",
        "ip6-too-short",
        "ip6-version",
        "ip6-truncated",
        "ip6-martian-source",
        "ip6-martian-destination",
        "ip6-multicast",
        "ip6-link-broadcast",
    ];
    for reason in all {
        assert!(by_chain.contains_key(reason), "{reason} did not occur");
        if reason != "unknown-ethertype" {
            assert_eq!(by_chain.get(reason), by_router.get(&format!("router.forward/{reason}")), "{reason}");
        }
    }
    for way in ["nd", "link", "options", "no-route", "expired", "too-big"] {
        assert!(by_chain.contains_key(way), "{way} did not occur: {by_chain:?}");
    }
    router.finish();
    chain.finish();
}

#[test]
fn a_chain_of_steps_does_what_the_rules_say_and_the_router_does() {
    compare(false);
}

#[test]
fn so_does_a_chain_whose_steps_have_workers_of_their_own() {
    compare(true);
}

/// A valid frame to a station.
fn plain(to: MacAddr, hop_limit: u8, destination: &str, source_port: u16) -> Vec<u8> {
    let (source_mac, source) = (MacAddr([2, 0, 0, 0, 0, 9]), ip6("2001:db8::9"));
    let frame = Udp6 {
        source_mac,
        destination_mac: to,
        source,
        destination: ip6(destination),
        label: 0,
        hop_limit,
        source_port,
    };
    frame.to_vec(&[0x22; 18])
}

/// What tests of both families need to know of this one.
fn family() -> Family {
    Family {
        steps: steps(),
        plain: |to, hop_limit, source_port| plain(to, hop_limit, "2620::1", source_port),
        sent: |frame, source, to| sent(frame, source, to, PORTS[1].2),
        hops: 21,
        group: MacAddr([0x33, 0x33, 0, 0, 0, 9]),
        to_group: "ip6-link-broadcast",
        shared: json!({ "2620::/32": ["2001:db8:0:1::9", "2001:db8:0:1::8", "2001:db8::9"] }),
    }
}

#[test]
fn any_station_may_be_meant_but_never_all_of_them() {
    any_station_may_be_meant(&family());
}

#[test]
fn the_last_hop_is_found_where_the_hop_limit_is_taken_off() {
    the_last_hop_is_found_by_the_rewrite(&family());
}

#[test]
fn next_hops_share_flows_and_each_flow_keeps_to_one() {
    next_hops_share_flows(&family());
}

/// Random routes against the list of them, gone through for each packet; runs of the same destination among others, and :: at the start, which
/// a stage between may have written.
#[test]
fn the_longest_prefix_is_found_whatever_stands_in_a_batch() {
    let mut random = Random::new(7);
    let bench = Bench::new(PORTS);
    for round in 0..40 {
        let mut list: BTreeMap<(u128, u8), usize> = BTreeMap::new();
        for _ in 0..1 + random.position(120) {
            let length = [0, 3, 16, 32, 48, 56, 64, 96, 127, 128][random.position(10)];
            let address = few_bits(&mut random);
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            list.insert((address & mask, length), random.position(5));
        }
        let next_hops: Vec<String> = (0..5).map(|n| format!("2001:db8::{}", n + 1)).collect();
        let routes = list
            .iter()
            .map(|((net, length), hop)| (format!("{}/{length}", Ipv6Addr::from_bits(*net)), json!(next_hops[*hop])));
        let routes: serde_json::Map<_, _> = routes.collect();
        let make = bench.make(&Ipv6Route, &json!({ "next_hops": next_hops, "routes": routes })).unwrap();
        let mut destination = if round % 2 == 0 { 0 } else { few_bits(&mut random) };
        let mut frames = Vec::new();
        let mut right = Vec::new();
        for n in 0..1 + random.position(64) {
            if n > 0 && !random.one_in(3) {
                destination = few_bits(&mut random);
            }
            frames.push(plain(bench.mac(0), 64, &Ipv6Addr::from_bits(destination).to_string(), n as u16));
            let covers = |(net, length): (u128, u8)| (net ^ destination).leading_zeros() >= length.into();
            let best = list.iter().filter(|(prefix, _)| covers(**prefix)).max_by_key(|((_, length), _)| *length);
            right.push(best.map_or(usize::MAX, |(_, hop)| *hop));
        }
        assert_eq!(ways_of(&*make, &frames), right, "round {round}: {list:?}");
    }
}

/// An address with a handful of values in each part, so that prefixes lie inside each other.
fn few_bits(random: &mut Random) -> u128 {
    (0..8).fold(0, |address, _| address << 16 | if random.one_in(2) { 0 } else { random.position(3) as u128 })
}

#[test]
fn a_file_of_routes_is_read_anew() {
    let filed = Filed {
        name: "wired6",
        next_hops: ["2001:db8::9", "fe80::8"],
        prefixes: ["2620::/32", "2621::/32", "2622::/32"],
        frames: ["2620::1", "2621::1", "2622::1"].map(|to| plain(MacAddr([2; 6]), 64, to, 1)),
        stranger: "2001:db8::7",
    };
    assert_eq!(
        a_file_is_read_anew(PORTS, &Ipv6Route, &filed),
        "routes.csv:2:11: via: 2001:db8::7 is none of the next hops; write one of 2001:db8::9, fe80::8, or add it to next_hops"
    );
}

#[test]
fn wrong_settings_are_told_all_at_once() {
    let wrong = json!({
        "next_hops": ["fe80::9", "fe80::8", "fe80::9"],
        "routes": { "2620::/32": "fe80::7", "2621::/32": ["fe80::9", "fe80::6"] },
    });
    assert_eq!(
        said(PORTS, &Ipv6Route, wrong),
        [
            "test.lua:2: stage.next_hops: fe80::9 stands here twice; leave one out",
            "test.lua:2: stage.routes[\"2620::/32\"]: fe80::7 is none of the next hops; write one of fe80::8, fe80::9, or add it \
             to next_hops",
            "test.lua:2: stage.routes[\"2621::/32\"]: fe80::6 is none of the next hops; write one of fe80::8, fe80::9, or add it \
             to next_hops",
        ]
    );
    let route = |n: u32| (format!("{:x}:{n:x}::/128", 0x2000 + (n * 7919) % 8192), json!("fe80::9"));
    let many = |count| (0..count).map(route).collect::<serde_json::Map<_, _>>();
    assert_eq!(
        said(PORTS, &Ipv6Route, json!({ "next_hops": ["fe80::9"], "routes": many(20), "max_routes": 16 })),
        ["test.lua:2: stage.max_routes: 16 is too few: there are 20 routes"]
    );
    let full = said(PORTS, &Ipv6Route, json!({ "next_hops": ["fe80::9"], "routes": many(2000), "max_lines": 1024 }));
    let (start, end) = (
        "test.lua:2: stage.max_lines: is too little for ",
        "the table is full: its 1024 lines of 64 bytes are in use, or wait for readers to pass; raise it",
    );
    assert!(matches!(full.as_slice(), [one] if one.starts_with(start) && one.ends_with(end)), "{full:?}");
    assert!(said(PORTS, &Ipv6Route, json!({ "next_hops": ["192.0.2.1"] }))[0].contains("an IPv6 address"));
    assert_eq!(
        said(PORTS, &Ipv6Rewrite, json!({ "from": "right", "to": "33:33:00:00:00:01" })),
        [
            "test.lua:2: stage.to: 33:33:00:00:00:01 is not the address of one station; write that of the next hop on the port's link"
        ]
    );
}

#[test]
fn schemas_are_sound() {
    assert_eq!(defects(&steps()), Vec::<String>::new());
}
