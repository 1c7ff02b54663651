//! Outer packets that may be fragmented on their way (`tunnel.df = false`) have identifications, of which none is another's: whichever
//! worker they come from, whatever they carry (RFC 6864).
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use common::*;
use serde_json::{Value, json};
use weir_wire::{Ipv4, View, checksum, ethernet};

/// Ethernet header and one label.
const HEAD: usize = 18;

const LINES: u16 = 40;

fn config(layout: &str, workers: usize) -> Value {
    let mut config = tunnels();
    config["layout"] = json!(layout);
    config["workers"] = json!((0..workers).collect::<Vec<usize>>());
    config["tunnel"] = json!({ "df": false });
    config["gateways"]["west"]["mac"] = json!(ROUTER_MAC.to_string());
    config["addresses"] = json!(["10.0.0.1/16", "2001:db8::1/64"]);
    config["routes_ipv6"] = json!({ "2001:db8:ffff::/48": "west" });
    let line = |n: u16| json!({ "svlan": 100, "cvlan": n, "key": n, "ipv4": [format!("10.0.1.{n}")], "ipv6": [format!("2001:db8:0:{n:x}::/64")] });
    config["subscribers"] = (1..=LINES).map(line).collect();
    config
}

fn six(source: &str, destination: &str, hop_limit: u8) -> Vec<u8> {
    let addresses = [source, destination].map(|text| text.parse::<Ipv6Addr>().unwrap().octets()).concat();
    [&[0x60, 0, 0, 0, 0, 0, 59, hop_limit][..], &addresses].concat()
}

/// The identifications of all frames with labels, whose outer headers are right.
fn identifications(frames: &[Vec<u8>]) -> Vec<u16> {
    let outer = |frame: &Vec<u8>| {
        assert!(checksum::is_valid(&frame[HEAD..HEAD + 20]));
        let ip = Ipv4::view(&frame[HEAD..]).unwrap();
        assert!(!ip.dont_fragment());
        ip.identification.get()
    };
    frames.iter().filter(|frame| frame[12..14] == ethernet::MPLS.to_be_bytes()).map(outer).collect()
}

#[test]
fn no_two_packets_have_the_same() {
    for (layout, workers) in [("run-to-completion", 1), ("distributor", 4), ("pipeline", 3)] {
        let mut rig = Rig::new(TWO, config(layout, workers));
        rig.settle();
        let (gateway, mut seen) = (rig.mac(CPE), Vec::new());
        for _ in 0..5 {
            for n in 1..=LINES {
                let four = udp(&format!("10.0.1.{n}"), "203.0.113.1", 60);
                let six = six(&format!("2001:db8:0:{n:x}::9"), "2001:db8:ffff::9", 64);
                rig.send(CPE, tagged(gateway, host(n), n, ethernet::IPV4, &four));
                rig.send(CPE, tagged(gateway, host(n), n, ethernet::IPV6, &six));
            }
            rig.run(10_000_000);
            // What the gateway says itself: the hop limits of packets from the core end here.
            for n in 1..=3_u16 {
                let late = six("2001:db8:ffff::9", &format!("2001:db8:0:{n:x}::9"), 1);
                let frame = rig.tunneled_as(ethernet::IPV6, n.into(), &late);
                rig.send(CORE, frame);
            }
            rig.run(10_000_000);
            seen.extend(identifications(&rig.sent(CORE)));
        }
        assert_eq!(seen.len(), 5 * (2 * usize::from(LINES) + 3), "{layout}: {:?}", rig.drops());
        assert!(!seen.contains(&0), "{layout}: one has none");
        assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len(), "{layout}: some have another's");
        rig.finish();
    }
}
