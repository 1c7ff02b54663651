//! Who sees whom.

use std::collections::BTreeSet;

use crate::{Edge, Member};

/// What each member may see; a star stands for every member of a folder. Tests may also see what is below these,
/// and the ports in memory if `crates/stage` is below, and what [`TESTS`] lists.
const EDGES: &[(&str, &[&str])] = &[
    ("crates/mem", &[]),
    ("crates/wire", &[]),
    ("crates/config", &[]),
    ("crates/dpdk-sys", &[]),
    ("crates/page", &["crates/host"]),
    ("crates/stat", &["crates/mem"]),
    ("crates/simd", &["crates/mem", "crates/wire"]),
    ("crates/table", &["crates/mem", "crates/simd"]),
    ("crates/packet", &["crates/mem"]),
    ("crates/net", &["crates/wire", "crates/table", "crates/config"]),
    ("crates/acl", &["crates/table", "crates/config", "crates/stage"]),
    (
        "crates/ip",
        &[
            "crates/wire",
            "crates/simd",
            "crates/table",
            "crates/mem",
            "crates/config",
            "crates/net",
            "crates/packet",
            "crates/acl",
            "crates/stage",
        ],
    ),
    ("crates/measure", &["crates/stat", "crates/wire"]),
    ("crates/filter", &["crates/wire", "crates/codegen"]),
    ("crates/flows", &["crates/wire", "crates/stage"]),
    ("crates/openflow", &[]),
    ("crates/tls", &[]),
    (
        "crates/flow-tables",
        &["crates/openflow", "crates/table", "crates/simd", "crates/mem", "crates/wire", "crates/codegen"],
    ),
    ("crates/capture", &["crates/wire"]),
    ("crates/stage", &["crates/packet", "crates/stat", "crates/config", "crates/mem"]),
    ("crates/codegen", &[]),
    ("crates/lua", &["crates/config", "crates/stage", "crates/packet", "crates/table", "crates/wire", "crates/mem"]),
    (
        "crates/sched",
        &[
            "crates/table",
            "crates/packet",
            "crates/stage",
            "crates/config",
            "crates/stat",
            "crates/mem",
            "crates/wire",
            "crates/net",
        ],
    ),
    ("crates/engine", &["crates/stage", "crates/packet", "crates/stat", "crates/config", "crates/mem"]),
    ("crates/host", &["crates/net", "crates/config", "crates/wire"]),
    ("crates/protocol", &["crates/config"]),
    // Only tests see it.
    ("crates/rig", &["crates/engine", "crates/stage", "crates/packet", "crates/config", "crates/mem", PORTS_IN_MEMORY]),
    // Ports read the options of their device as configuration values.
    ("ports/dpdk", &["crates/stage", "crates/packet", "crates/config", "crates/host", "crates/dpdk-sys"]),
    ("ports/pcap", &["crates/stage", "crates/packet", "crates/config", "crates/host", "crates/capture"]),
    ("ports/*", &["crates/stage", "crates/packet", "crates/config"]),
    ("nf/*", &["crates/*"]),
    ("tools/*", &["crates/*"]),
    // Whatever parses bytes.
    ("fuzz/*", &["crates/*", "ports/*"]),
    ("app", &["*"]),
];

/// What the stars above do not include.
const EXCEPT: &[(&str, &[&str])] = &[
    ("nf/*", &["crates/lua", "crates/engine", "crates/rig", "crates/host", "crates/dpdk-sys"]),
    ("tools/*", &["crates/engine", "crates/rig"]),
    ("fuzz/*", &["crates/engine", "crates/rig", "crates/dpdk-sys"]),
];

/// What only tests may see beyond that: functions are tested as the engine runs them. `crates/lua` holds one too.
const TESTS: &[(&str, &[&str])] = &[
    ("nf/*", &["crates/engine", "crates/rig"]),
    ("crates/lua", &["crates/engine"]),
    // An example has access lists beside the code of filters.
    ("crates/ip", &["crates/filter"]),
];

const PORTS_IN_MEMORY: &str = "ports/mem";

fn is(folder: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => folder.starts_with(start),
        None => folder == pattern,
    }
}

/// The first entry for `folder`, so that a name goes before a star.
fn entry<'a>(table: &[(&str, &'a [&'a str])], folder: &str) -> Option<&'a [&'a str]> {
    table.iter().find(|(pattern, _)| is(folder, pattern)).map(|(_, to)| *to)
}

fn lists(table: &[(&str, &[&str])], from: &str, to: &str) -> bool {
    entry(table, from).is_some_and(|list| list.iter().any(|pattern| is(to, pattern)))
}

/// Whether `from` may see `to` outside its tests.
fn may_see(from: &str, to: &str) -> bool {
    lists(EDGES, from, to) && !lists(EXCEPT, from, to)
}

/// Every member of `members` that is below `from`: what it may see, what that may see, and so on.
fn below<'a>(from: &str, members: &'a [Member]) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(next) = open.pop() {
        for member in members.iter().map(|member| member.folder.as_str()) {
            if may_see(next, member) && found.insert(member) {
                open.push(member);
            }
        }
    }
    found
}

fn allowed(from: &str, edge: &Edge, members: &[Member]) -> bool {
    if may_see(from, &edge.to) {
        return true;
    }
    if !edge.dev {
        return false;
    }
    if lists(TESTS, from, &edge.to) {
        return true;
    }
    let below = below(from, members);
    below.contains(edge.to.as_str()) || (edge.to == PORTS_IN_MEMORY && below.contains("crates/stage"))
}

/// The edges that are not allowed, each with what to do about it.
pub(crate) fn faults(members: &[Member]) -> Vec<String> {
    let mut faults = Vec::new();
    for Member { folder, edges, .. } in members {
        let Some(list) = entry(EDGES, folder) else {
            faults
                .push(format!("{folder} has no place in the house: say in tools/layers/src/edges.rs what it may see"));
            continue;
        };
        for edge in edges.iter().filter(|edge| !allowed(folder, edge, members)) {
            let mut list = if list.is_empty() { "nothing of ours".to_owned() } else { list.join(", ") };
            if let Some(except) = entry(EXCEPT, folder) {
                list = format!("{list} except {}", except.join(", "));
            }
            let whose = if edge.dev { "the tests of " } else { "" };
            faults.push(format!(
                "{whose}{folder} must not see {}: it may see {list}. Remove the dependency: hand what is needed in as \
                 an argument or a trait, or move it below both",
                edge.to
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(folder: &str, edges: &[(&str, bool)]) -> Member {
        let edges = edges.iter().map(|&(to, dev)| Edge { to: to.to_owned(), dev }).collect();
        Member { folder: folder.to_owned(), roots: Vec::new(), edges }
    }

    fn house(last: Member) -> Vec<Member> {
        let mut members: Vec<Member> = EDGES
            .iter()
            .map(|(folder, _)| folder.replace('*', "mem"))
            .filter(|folder| *folder != last.folder)
            .map(|folder| member(&folder, &[]))
            .collect();
        members.push(last);
        members
    }

    fn refused(from: &str, to: &str, dev: bool) -> bool {
        let faults = faults(&house(member(from, &[(to, dev)])));
        assert!(faults.iter().all(|fault| fault.contains(from) && fault.contains(to)), "{faults:?}");
        !faults.is_empty()
    }

    #[test]
    fn the_design_holds() {
        for (from, to) in [
            ("crates/stat", "crates/mem"),
            ("crates/net", "crates/table"),
            ("ports/dpdk", "crates/dpdk-sys"),
            ("ports/pcap", "crates/stage"),
            ("nf/router", "crates/codegen"),
            ("nf/router", "crates/net"),
            ("tools/bench", "crates/stage"),
            ("fuzz/stable", "crates/lua"),
            ("fuzz/stable", "ports/pcap"),
            ("app", "nf/router"),
            ("app", "ports/dpdk"),
        ] {
            assert!(!refused(from, to, false), "{from} {to}");
        }
    }

    #[test]
    fn what_points_up_or_sideways_is_refused() {
        for (from, to) in [
            ("crates/mem", "crates/wire"),
            ("crates/wire", "crates/packet"),
            ("crates/packet", "crates/stage"),
            ("crates/stage", "crates/engine"),
            ("crates/engine", "ports/mem"),
            ("crates/engine", "nf/router"),
            ("crates/net", "crates/mem"),
            ("ports/pcap", "crates/dpdk-sys"),
            ("ports/mem", "ports/pcap"),
            ("ports/mem", "crates/capture"),
            ("crates/capture", "crates/stage"),
            ("nf/router", "nf/forward"),
            ("nf/router", "crates/lua"),
            ("nf/router", "crates/engine"),
            ("nf/router", "crates/host"),
            ("nf/router", "crates/dpdk-sys"),
            ("nf/router", "ports/mem"),
            ("tools/bench", "crates/engine"),
            ("tools/bench", "nf/router"),
            ("tools/bench", "ports/mem"),
            ("tools/bench", "app"),
            ("fuzz/stable", "crates/engine"),
            ("fuzz/stable", "nf/router"),
        ] {
            assert!(refused(from, to, false), "{from} {to}");
        }
    }

    #[test]
    fn tests_see_more() {
        for (from, to) in [
            ("crates/net", "crates/mem"),
            ("crates/engine", "ports/mem"),
            ("nf/router", "ports/mem"),
            ("nf/router", "crates/engine"),
            ("crates/lua", "crates/engine"),
            ("crates/lua", "ports/mem"),
            ("ports/pcap", "ports/mem"),
            ("crates/host", "crates/simd"),
        ] {
            assert!(!refused(from, to, true), "{from} {to}");
        }
        for (from, to) in [
            ("crates/wire", "ports/mem"),
            ("crates/mem", "crates/packet"),
            ("nf/router", "nf/forward"),
            ("nf/router", "crates/lua"),
            ("nf/router", "ports/pcap"),
            ("crates/engine", "nf/forward"),
        ] {
            assert!(refused(from, to, true), "{from} {to}");
        }
    }

    #[test]
    fn a_stranger_is_noticed() {
        let faults = faults(&[member("crates/novel", &[])]);
        assert!(faults[0].contains("crates/novel has no place"), "{faults:?}");
    }
}
