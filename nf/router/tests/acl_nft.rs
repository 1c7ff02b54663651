//! Access lists against the kernel: the same rules in `nft`, the same frames to both, and the same counts for each rule.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use crate::common;

use common::acl_twin::{Dice, random_frame, random_rule};
use common::kernel::Namespace;
use common::*;
use serde_json::{Value, json};

const PORTS: &[PortSpec] =
    &[PortSpec("lan", &["10.0.0.1/24", "2001:db8:0::1/64"], 1500), PortSpec("wan", &["10.0.1.1/24"], 1500)];

/// Marks fragments that are not the first.
const LATER: &str = "  ip frag-off & 0x1fff != 0 meta mark set 1\n  frag frag-off != 0 meta mark set 1\n";

/// A rule in the words of nft, for each family; both count under the rule's number.
fn in_nft(rule: &str, number: usize) -> String {
    let words: Vec<&str> = rule.split(' ').collect();
    let verdict = if words[0] == "permit" { "accept" } else { "drop" };
    let mut all = String::new();
    for (family, is_six) in [("ip", false), ("ip6", true)] {
        let mut parts = vec![format!("meta protocol {family}")];
        let mut protocol = "";
        let mut is_for_it = true;
        for pair in words[1..].chunks(2) {
            let (word, value) = (pair[0], pair[1]);
            let set = format!("{{ {} }}", value.replace(';', ", "));
            match word {
                "protocol" => {
                    is_for_it &= !matches!((value, is_six), ("icmp", true) | ("icmpv6", false));
                    protocol = value;
                    parts.push(format!("meta l4proto {}", if value == "icmpv6" { "ipv6-icmp" } else { value }));
                }
                "from" | "to" => {
                    is_for_it &= value.contains(':') == is_six;
                    let side = if word == "from" { "saddr" } else { "daddr" };
                    // Sets may not overlap; one prefix within the other says nothing more.
                    let nets: Vec<&str> = value.split(';').collect();
                    let nets = if nets.len() == 2 { outer(nets[0], nets[1]) } else { nets };
                    parts.push(format!("{family} {side} {{ {} }}", nets.join(", ")));
                }
                "from-port" => parts.push(format!("{protocol} sport {set}")),
                "to-port" => parts.push(format!("{protocol} dport {set}")),
                "flags" => {
                    let all: Vec<&str> = value.split(';').map(|flag| flag.trim_start_matches('!')).collect();
                    let set: Vec<&str> = value.split(';').filter(|flag| !flag.starts_with('!')).collect();
                    parts.push(format!("tcp flags & ({}) == {}", all.join("|"), set.join("|")));
                }
                "icmp" => {
                    let (kind, code) = value.split_once('/').map_or((value, None), |(kind, code)| (kind, Some(code)));
                    parts.push(format!("{protocol} type {kind}"));
                    parts.extend(code.map(|code| format!("{protocol} code {code}")));
                }
                "fragment" => parts.push(
                    match (value, is_six) {
                        ("none", false) => "ip frag-off & 0x3fff == 0",
                        ("any", false) => "ip frag-off & 0x3fff != 0",
                        ("first", false) => "ip frag-off & 0x3fff == 0x2000",
                        ("later", false) => "ip frag-off & 0x1fff != 0",
                        ("none", true) => "exthdr frag missing",
                        ("any", true) => "exthdr frag exists",
                        ("first", true) => "frag frag-off 0",
                        (_, _) => "frag frag-off != 0",
                    }
                    .to_owned(),
                ),
                "dscp" => parts.push(format!("{family} dscp {value}")),
                _ => panic!("{word}"),
            }
        }
        // Of a later fragment the kernel takes data for ports at this hook.
        let looks_behind =
            words[1..].chunks(2).any(|pair| matches!(pair[0], "from-port" | "to-port" | "flags" | "icmp"));
        if looks_behind {
            parts.insert(0, "meta mark != 1".to_owned());
        }
        if is_for_it {
            all += &format!("  {} counter {verdict} comment \"{number}\"\n", parts.join(" "));
        }
    }
    all
}

/// Of two prefixes, those that are not within the other.
fn outer<'n>(one: &'n str, other: &'n str) -> Vec<&'n str> {
    let (a, b): (ipnet::IpNet, ipnet::IpNet) = (one.parse().unwrap(), other.parse().unwrap());
    match (a.contains(&b), b.contains(&a)) {
        (true, _) => vec![one],
        (_, true) => vec![other],
        _ => vec![one, other],
    }
}

/// Packets by rule, as nft counted them; behind them, all.
fn counted(listed: &str, rules: usize) -> Vec<u64> {
    let listed: Value = serde_json::from_str(listed).unwrap();
    let mut counts = vec![0; rules + 1];
    for rule in listed["nftables"].as_array().unwrap().iter().filter_map(|item| item.get("rule")) {
        let Some(number) = rule.get("comment") else { continue };
        let number: usize = number.as_str().unwrap().parse().unwrap();
        let counters = rule["expr"].as_array().unwrap().iter().filter_map(|part| part.get("counter"));
        counts[number] += counters.map(|counter| counter["packets"].as_u64().unwrap()).sum::<u64>();
    }
    counts
}

/// Whether the kernel reads a packet otherwise: it takes what is behind one for part of it, and a port, or a type of ICMP, for one where the other
/// port, or the checksum, is cut off.
fn is_read_otherwise(frame: &[u8]) -> bool {
    let number = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    let (mut at, end) = if frame[12] == 8 { (34, 14 + number(16)) } else { (54, 54 + number(18)) };
    let mut next = if frame[12] == 8 { 0 } else { frame[20] };
    while matches!(next, 44 | 60) {
        next = frame[at];
        at += 8;
    }
    frame.len() != end || end < at + 4
}

#[test]
fn each_rule_counts_what_it_counts_in_nft() {
    let Some(namespace) = Namespace::new("acl") else { return };
    namespace.run("sysctl", &["-qw", "net.ipv6.conf.v0.disable_ipv6=1", "net.ipv6.conf.v1.disable_ipv6=1"], "");
    let mut dice = Dice(0xacc);
    for round in 0..4 {
        let rules: Vec<String> = (0..[5, 40, 120, 250][round]).map(|_| random_rule(&mut dice)).collect();
        let lists = json!({ "edge": { "rules": rules, "default": "deny" } });
        let config = json!({
            "routes": { "0.0.0.0/0": "blackhole", "::/0": "blackhole" },
            "neighbor_timers": { "own_probes": 0 },
            "acls": lists,
            "acl_in": { "lan": "edge" },
        });
        let mut rig = Rig::new(PORTS, config);
        rig.settle();
        let mut frames = Vec::new();
        while frames.len() < 3000 {
            let frame = random_frame(&mut dice, rig.mac(0).0);
            if !is_read_otherwise(&frame) {
                frames.push(frame);
            }
        }
        for some in frames.chunks(50) {
            some.iter().for_each(|frame| rig.send(0, frame.clone()));
            rig.settle();
        }
        let ours: Vec<u64> = rig.show("acls").iter().map(|row| row["packets"].as_u64().unwrap()).collect();
        let script: String = rules.iter().enumerate().map(|(n, rule)| in_nft(rule, n)).collect();
        let script = format!(
            "table netdev weir {{\n chain c {{\n  type filter hook ingress device v1 priority 0; policy accept;\n  counter comment \"{}\"\n{LATER}{script} }}\n}}\n",
            rules.len()
        );
        namespace.run("nft", &["-f", "-"], &script);
        namespace.send(&frames);
        let theirs = counted(&namespace.run("nft", &["-j", "list", "table", "netdev", "weir"], ""), rules.len());
        namespace.run("nft", &["delete", "table", "netdev", "weir"], "");
        assert_eq!(theirs[rules.len()], frames.len() as u64, "the kernel saw all");
        for (n, rule) in rules.iter().enumerate() {
            assert_eq!(ours[n], theirs[n], "round {round}, rule {n}: {rule}");
        }
        assert!(theirs.iter().filter(|count| **count > 0).count() > rules.len().min(20) / 5, "few rules matched");
        rig.finish();
    }
}
