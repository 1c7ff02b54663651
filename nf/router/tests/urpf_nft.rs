//! Checks of sources against the kernel's: the same routes in both, the same frames to both, and the same ones pass.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use common::acl_twin::{Dice, four, prefix, six};
use common::kernel::Namespace;
use common::six::udp6;
use common::*;
use serde_json::{Value, json};
use weir_wire::MacAddr;

const PORTS: &[PortSpec] = &[
    PortSpec("lan", &["10.0.0.1/24", "2001:db8:0::1/64"], 1500),
    PortSpec("wan", &["10.0.1.1/24", "2001:db8:1::1/64"], 1500),
    PortSpec("up", &["10.0.2.1/24", "2001:db8:2::1/64"], 1500),
];

/// What the kernel notes: the source ports of packets that pass strictly, and loosely.
const RULES: &str = "table inet weir {
  set strict { type inet_service; flags dynamic; size 65535; }
  set loose { type inet_service; flags dynamic; size 65535; }
  chain c {
    type filter hook prerouting priority -300; policy accept;
    iifname v1 udp dport 7 fib saddr . iif oif exists add @strict { udp sport }
    iifname v1 udp dport 7 fib saddr oif exists add @loose { udp sport }
    iifname v1 udp dport 7 drop
  }
}
";

/// Where a route leads, in the words of a configuration and of `ip route`.
fn random_via(dice: &mut Dice, is_six: bool) -> (Value, String) {
    let [lan, wan] = if is_six { ["2001:db8:0::9", "2001:db8:1::9"] } else { ["10.0.0.9", "10.0.1.9"] };
    match dice.below(6) {
        0 | 1 => (json!(lan), format!("via {lan} dev v1")),
        2 => (json!(wan), format!("via {wan} dev w1")),
        // Of several next hops of IPv6 the kernel looks at one only.
        3 if !is_six => (json!([lan, wan]), format!("nexthop via {lan} dev v1 nexthop via {wan} dev w1")),
        4 => (json!("%wan"), "dev w1".to_owned()),
        _ => {
            let word = dice.one_of(&["blackhole", "unreachable", "prohibit"]);
            (json!(word), word.to_owned())
        }
    }
}

/// The kernel with these routes, beside networks as the router has them.
fn kernel(mac: MacAddr, routes: &BTreeMap<String, String>) -> Option<Namespace> {
    let namespace = Namespace::new("urpf")?;
    namespace.cable("w0", "w1");
    let mut batch = format!("link set v1 address {mac}\n");
    for (n, end) in ["v1", "w1"].iter().enumerate() {
        batch += &format!("addr add 10.0.{n}.1/24 dev {end}\naddr add 2001:db8:{n}::1/64 dev {end} nodad\n");
    }
    for (net, via) in routes {
        batch += &match via.as_str() {
            "blackhole" | "unreachable" | "prohibit" => format!("route add {via} {net}\n"),
            via => format!("route add {net} {via}\n"),
        };
    }
    namespace.run("ip", &["-batch", "-"], &batch);
    namespace.run("nft", &["-f", "-"], RULES);
    Some(namespace)
}

/// What is in a set of the kernel's.
fn noted(namespace: &Namespace, set: &str) -> BTreeSet<u16> {
    let listed = namespace.run("nft", &["-j", "list", "set", "inet", "weir", set], "");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let set = listed["nftables"].as_array().unwrap().iter().find_map(|item| item.get("set")).unwrap();
    let elements = set["elem"].as_array().cloned().unwrap_or_default();
    // Some versions of nft write an element as a table.
    let number = |element: &Value| element.as_u64().or_else(|| element["elem"]["val"].as_u64()).unwrap();
    elements.iter().map(|element| u16::try_from(number(element)).unwrap()).collect()
}

/// Sources of networks that routes may lead to, and of hosts on the links.
fn random_source(dice: &mut Dice) -> IpAddr {
    match dice.below(10) {
        0 => dice.one_of(&["10.0.0.7", "10.0.1.7", "2001:db8:0::7", "2001:db8:1::7"]).parse().unwrap(),
        other if other % 2 == 0 => four(dice, 0).into(),
        _ => six(dice, 0).into(),
    }
}

/// A packet from a source, whose UDP source port is its number.
fn frame(rig: &Rig, source: IpAddr, number: u16) -> Vec<u8> {
    let (mut frame, ports) = match source {
        IpAddr::V4(source) => (rig.udp(0, &source.to_string(), "203.0.113.9").to_vec(&[0; 18]), 34),
        IpAddr::V6(source) => (udp6(rig, 0, &source.to_string(), "2001:db8:ffff::9", 9, 18), 54),
    };
    frame[ports..ports + 2].copy_from_slice(&number.to_be_bytes());
    frame[ports + 2..ports + 4].copy_from_slice(&7_u16.to_be_bytes());
    frame
}

/// The numbers of the packets that a router lets pass.
fn passed(urpf: &str, routes: &Value, sources: &[IpAddr]) -> BTreeSet<u16> {
    let mut config = json!({
        "neighbors": { "10.0.2.9": "02:00:00:00:02:09", "2001:db8:2::9": "02:00:00:00:02:09" },
        "neighbor_timers": { "own_probes": 0 },
        "routes": routes,
        "urpf": { "lan": urpf },
    });
    config["routes"]["203.0.113.9/32"] = json!("10.0.2.9");
    config["routes"]["2001:db8:ffff::9/128"] = json!("2001:db8:2::9");
    let mut rig = Rig::new(PORTS, config);
    rig.run(5 * SECOND);
    drop(rig.sent(2));
    let mut numbers = BTreeSet::new();
    for (some, n) in sources.chunks(50).zip(0..) {
        for (source, number) in some.iter().zip(n * 50..) {
            let frame = frame(&rig, *source, number);
            rig.send(0, frame);
        }
        rig.settle();
        for frame in rig.sent(2) {
            let ports = if frame[12] == 8 { 34 } else { 54 };
            if frame[ports + 2..ports + 4] == [0, 7] {
                numbers.insert(u16::from_be_bytes([frame[ports], frame[ports + 1]]));
            }
        }
    }
    rig.finish();
    numbers
}

#[test]
fn what_passes_is_what_the_kernel_lets_pass() {
    let mut dice = Dice(0x3704);
    let (mut ours, mut theirs) = (json!({}), BTreeMap::new());
    for n in 0..40 {
        let net = prefix(&mut dice, n % 2 == 0, 0);
        let (via, words) = random_via(&mut dice, n % 2 == 0);
        ours[&net] = via;
        theirs.insert(net, words);
    }
    let sources: Vec<IpAddr> = (0..1500).map(|_| random_source(&mut dice)).collect();
    let rig = Rig::new(PORTS, json!({}));
    let Some(namespace) = kernel(rig.mac(0), &theirs) else { return };
    namespace.send(&sources.iter().zip(0..).map(|(source, n)| frame(&rig, *source, n)).collect::<Vec<_>>());
    rig.finish();
    for urpf in ["strict", "loose"] {
        let (ours, theirs) = (passed(urpf, &ours, &sources), noted(&namespace, urpf));
        let other: Vec<_> = ours.symmetric_difference(&theirs).map(|n| sources[usize::from(*n)]).collect();
        assert!(other.is_empty(), "{urpf}: {} of ours, {} of theirs; differ: {other:?}", ours.len(), theirs.len());
        assert!((200..1400).contains(&ours.len()), "{urpf}: {} of {} passed", ours.len(), sources.len());
    }
}
