//! The steps of the fast path, wired by hand: what they answer by themselves, and that a chain of them does to packets what the router
//! does.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use std::collections::BTreeMap;

use common::traffic::*;
use common::wired::*;
use common::*;
use serde_json::{Value, json};
use weir_config::Folder;
use weir_ip::steps::{Ipv4Check, Ipv4Rewrite, Ipv4Route};
use weir_port_mem::MemHandle;
use weir_stage::{MakeStage, Random, Settings};
use weir_wire::ipv4::write_checksum;
use weir_wire::{MacAddr, checksum};

/// The steps of IPv4, with the hosts that the model knows for next hops.
fn steps() -> Steps {
    let next_hop = |host: &&'static str| {
        let [.., port, _] = host.parse::<Ipv4Addr>().unwrap().octets();
        (*host, usize::from(port), mac_of(host))
    };
    let next_hops = HOSTS.iter().map(next_hop).collect();
    Steps { ports: PORTS, check: &Ipv4Check, route: &Ipv4Route, rewrite: &Ipv4Rewrite, next_hops }
}

/// The model's routes, and those to the hosts themselves.
fn routes() -> Value {
    let known =
        ROUTES.iter().filter(|(_, via)| HOSTS.contains(via)).map(|(prefix, via)| ((*prefix).to_owned(), json!(via)));
    let hosts = HOSTS.iter().map(|host| (format!("{host}/32"), json!(host)));
    Value::Object(known.chain(hosts).collect())
}

/// A router with the model's routes, whose slow path takes nothing to speak of.
fn router() -> Rig {
    let neighbors: serde_json::Map<_, _> =
        HOSTS.iter().map(|host| ((*host).to_owned(), json!(mac_of(host).to_string()))).collect();
    let config = json!({ "neighbors": neighbors, "routes": routes(), "neighbor_timers": { "own_probes": 0 } });
    let mut rig = Rig::new(PORTS, config);
    rig.run(10 * SECOND);
    (0..PORTS.len()).for_each(|port| drop(rig.sent(port)));
    rig
}

/// Lets the same packets through the router and a chain; what the model says is forwarded must leave both as it says.
fn compare(parted: bool) {
    let (mut router, mut chain) = (router(), Chain::new(&steps(), parted, &routes()));
    let mut random = Random::new(17 + u64::from(parted));
    let mut agreed = 0;
    for _ in 0..6_000 {
        let port = random.position(PORTS.len());
        assert_eq!(router.mac(port), chain.bench.mac(port));
        let mut frame = make(&mut random, router.mac(port), 1600);
        if random.one_in(3) {
            mutate(&mut random, &mut frame, 1600);
        }
        let verdict = model(&frame, router.mac(port));
        router.send(port, frame.clone());
        chain.bench.handles[port].send(frame.clone());
        (0..6).for_each(|_| _ = router.engine.step());
        (0..6).for_each(|_| _ = chain.engine.step());
        let by_chain: Vec<Vec<Vec<u8>>> = chain.bench.handles.iter().map(MemHandle::received).collect();
        let by_router: Vec<Vec<Vec<u8>>> = (0..PORTS.len()).map(|port| router.sent(port)).collect();
        if let Verdict::Sent(to, host) = verdict {
            let expected = forwarded(&frame, to, chain.bench.mac(to), host);
            for (n, sent) in by_chain.iter().enumerate() {
                let right: &[Vec<u8>] = if n == to { std::slice::from_ref(&expected) } else { &[] };
                assert_eq!(sent, right, "port {n}");
            }
            assert!(by_router[to].contains(&expected), "the router did another thing");
            agreed += 1;
        }
    }
    assert!(agreed > 700, "{agreed}");
    // What is wrong with packets has the same names, and is as often.
    chain.settle();
    router.settle();
    let (by_chain, by_router) = (chain.drops(), router.drops());
    let early = ["too-short", "not-for-us", "unknown-ethertype", "martian-source", "martian-destination", "multicast"];
    let late = ["ip-checksum", "ip-truncated", "ip-version", "broadcast", "link-broadcast", "link-local"];
    for reason in early.iter().chain(&late) {
        assert_eq!(by_chain.get(*reason), by_router.get(&format!("router.forward/{reason}")), "{reason}");
    }
    for reason in ["ip-checksum", "not-for-us", "link-broadcast", "options", "arp", "expired", "too-big"] {
        assert!(by_chain.contains_key(reason), "{reason} did not occur: {by_chain:?}");
    }
    router.finish();
    chain.finish();
}

#[test]
fn a_chain_of_steps_does_what_the_router_does() {
    compare(false);
}

#[test]
fn so_does_a_chain_whose_steps_have_workers_of_their_own() {
    compare(true);
}

#[test]
fn sections_keep_every_packet_and_its_order() {
    let mut chain = Chain::new(&steps(), true, &routes());
    let mut sent = Vec::new();
    for n in 0..3_000u16 {
        let mut frame = vec![0x11; 60];
        frame[..6].copy_from_slice(&chain.bench.mac(0).0);
        frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
        frame[18..20].copy_from_slice(&n.to_be_bytes());
        frame[26..34].copy_from_slice(&[10, 0, 0, 9, 192, 0, 2, 1]);
        write_checksum(&mut frame[14..]);
        sent.push(forwarded(&frame, 1, chain.bench.mac(1), mac_of("10.0.1.8")));
        chain.bench.handles[0].send(frame);
        if n % 500 == 499 {
            chain.settle();
        }
    }
    assert_eq!(chain.bench.handles[1].received(), sent);
    assert_eq!(chain.drops(), BTreeMap::new());
    chain.finish();
}

/// A valid frame to a station on port 0.
fn plain(to: MacAddr, ttl: u8, destination: [u8; 4], source_port: u16) -> Vec<u8> {
    let mut frame = vec![0x22; 60];
    frame[..6].copy_from_slice(&to.0);
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, ttl, 17]);
    frame[26..30].copy_from_slice(&[10, 0, 0, 9]);
    frame[30..34].copy_from_slice(&destination);
    frame[34..36].copy_from_slice(&source_port.to_be_bytes());
    write_checksum(&mut frame[14..]);
    frame
}

/// What tests of both families need to know of this one.
fn family() -> Family {
    Family {
        steps: steps(),
        plain: |to, ttl, source_port| plain(to, ttl, [192, 0, 2, 1], source_port),
        sent: |frame, source, to| forwarded(frame, 1, source, to),
        hops: 22,
        group: MacAddr([1, 0, 0x5e, 0, 0, 9]),
        to_group: "link-broadcast",
        shared: json!({ "192.0.2.0/24": ["10.0.1.9", "10.0.1.8", "10.0.0.9"] }),
    }
}

#[test]
fn any_station_may_be_meant_but_never_all_of_them() {
    any_station_may_be_meant(&family());
}

#[test]
fn the_last_hop_is_found_where_the_ttl_is_taken_off() {
    let sent = the_last_hop_is_found_by_the_rewrite(&family());
    assert!(sent.iter().all(|frame| checksum::is_valid(&frame[14..34])));
}

#[test]
fn next_hops_share_flows_and_each_flow_keeps_to_one() {
    next_hops_share_flows(&family());
}

#[test]
fn a_file_of_routes_is_read_anew() {
    let filed = Filed {
        name: "wired",
        next_hops: ["10.0.1.9", "10.0.1.8"],
        prefixes: ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"],
        frames: [[192, 0, 2, 1], [198, 51, 100, 1], [203, 0, 113, 1]].map(|to| plain(MacAddr([2; 6]), 64, to, 1)),
        stranger: "10.0.1.7",
    };
    assert_eq!(
        a_file_is_read_anew(PORTS, &Ipv4Route, &filed),
        "routes.csv:2:14: via: 10.0.1.7 is none of the next hops; write one of 10.0.1.8, 10.0.1.9, or add it \
         to next_hops"
    );
}

/// As many different sets of next hops as there may be, and then as many others in their place.
#[test]
fn all_sets_of_next_hops_change_at_once() {
    const SETS: usize = 4096;
    let path = std::env::temp_dir().join(format!("weir-wired-sets-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    let file = path.join("routes.csv");
    let mut bench = Bench::new(PORTS);
    bench.folder = Some(Folder::open(&path).unwrap());
    let next_hops: Vec<String> = (0..64).map(|n| format!("10.0.1.{}", n + 1)).collect();
    let all = (0..64).flat_map(|a| (0..a).flat_map(move |b| (0..b).map(move |c| [a, b, c])));
    let sets: Vec<[usize; 3]> = all.take(2 * SETS + 1).collect();
    let write = |sets: &[[usize; 3]]| {
        let line = |(n, set): (usize, &[usize; 3])| {
            let via = set.map(|hop| next_hops[hop].as_str()).join(";");
            format!("198.{}.{}.0/24,{via}\n", 18 + n / 256, n % 256)
        };
        let lines: String = sets.iter().enumerate().map(line).collect();
        std::fs::write(&file, format!("prefix,via\n{lines}")).unwrap();
    };
    let config = json!({ "next_hops": next_hops, "routes_csv": "routes.csv" });
    let lost = |make: &dyn MakeStage| -> usize {
        let frames: Vec<_> =
            (0..SETS).map(|n| plain(bench.mac(0), 64, [198, 18 + (n / 256) as u8, (n % 256) as u8, 1], 1)).collect();
        let ways = frames.chunks(64).map(|frames| run(make, frames));
        ways.map(|ways| ways.get("no-route").map_or(0, Vec::len)).sum()
    };
    let (first, rest) = sets.split_at(SETS);
    write(first);
    let make = bench.make(&Ipv4Route, &config).unwrap();
    assert_eq!(lost(&*make), 0);

    let element = settings(PORTS, &Ipv4Route, &config).unwrap();
    let settings = Settings { element: &element, path: element.path(), value: element.value() };
    write(rest);
    let said = make.prepare(&settings, &bench.env()).err().unwrap();
    assert_eq!(
        said[0].to_string(),
        "test.lua:2: stage.routes_csv: 4097 different sets of next hops share traffic; 4096 may"
    );
    write(&rest[..SETS]);
    make.prepare(&settings, &bench.env()).unwrap()(0);
    assert_eq!(lost(&*make), 0, "routes were refused, and nobody was told");
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn wrong_settings_are_told_all_at_once() {
    let wrong = json!({
        "next_hops": ["10.0.1.9", "10.0.1.8", "10.0.1.9"],
        "routes": { "192.0.2.0/24": "10.0.1.7", "198.51.100.0/24": ["10.0.1.9", "10.0.1.6"] },
    });
    assert_eq!(
        said(PORTS, &Ipv4Route, wrong),
        [
            "test.lua:2: stage.next_hops: 10.0.1.9 stands here twice; leave one out",
            "test.lua:2: stage.routes[\"192.0.2.0/24\"]: 10.0.1.7 is none of the next hops; write one of 10.0.1.8, 10.0.1.9, or \
             add it to next_hops",
            "test.lua:2: stage.routes[\"198.51.100.0/24\"]: 10.0.1.6 is none of the next hops; write one of 10.0.1.8, 10.0.1.9, \
             or add it to next_hops",
        ]
    );
    let many: serde_json::Map<_, _> = (0..20).map(|n| (format!("10.9.{n}.0/24"), json!("10.0.1.9"))).collect();
    assert_eq!(
        said(PORTS, &Ipv4Route, json!({ "next_hops": ["10.0.1.9"], "routes": many, "max_routes": 16 })),
        ["test.lua:2: stage.max_routes: 16 is too few: there are 20 routes"]
    );
    assert_eq!(
        said(PORTS, &Ipv4Rewrite, json!({ "from": "right", "to": "ff:ff:ff:ff:ff:ff" })),
        [
            "test.lua:2: stage.to: ff:ff:ff:ff:ff:ff is not the address of one station; write that of the next hop on the port's link"
        ]
    );
    assert!(
        said(PORTS, &Ipv4Rewrite, json!({ "from": "rihgt", "to": "02:00:00:00:00:01" }))[0].contains("did you mean")
    );
}

#[test]
fn schemas_are_sound() {
    assert_eq!(defects(&steps()), Vec::<String>::new());
}
