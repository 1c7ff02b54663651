//! What `weir bench cpp lua` measures: scripts that users begin with.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use weir_stage::case::{HEADER, Prepare, Traffic};
use weir_stage::{Case, Knob, Random};
use weir_wire::build::{UDP_OVERHEAD, UdpFrame};

/// Bytes of a frame, 64 with its check sequence.
const LENGTH: usize = 60;
/// With which TTL they come.
const TTL: u8 = 64;

const SOURCES: Knob =
    Knob { name: "sources", help: "different source addresses", usual: 1024, least: 1, most: 1 << 17 };

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let case = |name, help, script: &str, knobs, prepare: Prepare| {
        let script = format!("lua {{ paths = {{ \"in -> out\" }}, script = [[{script}]] }}");
        Case { name, help, needs: &[], script, port_keys: "", knobs, prepare }
    };
    let one: Prepare = |_, _, _| Ok(traffic(1, TTL));
    let many: Prepare = |_, _, chosen| Ok(traffic(chosen.number("sources"), TTL));
    vec![
        case("pass", "a script that looks at nothing", "function run() end", &[], one),
        case(
            "ttl",
            "a script that takes one off the TTL of IPv4, with its checksum",
            include_str!("cases/ttl.lua"),
            &[],
            |_, _, _| Ok(traffic(1, TTL - 1)),
        ),
        case(
            "filter",
            "a script that lets by what comes from a network and goes to a UDP port",
            include_str!("cases/filter.lua"),
            &[],
            one,
        ),
        case(
            "counter-per-source",
            "a script that counts packets and bytes of each source address, in a table of its own",
            include_str!("cases/counter.lua"),
            &[SOURCES],
            many,
        ),
        paper_router(),
    ]
}

/// What the routes of `cases/routes.lua` are: the values of their prefixes.
fn routes() -> HashMap<Ipv4Net, u8> {
    let route = |n: u64| {
        let mixed = n.wrapping_mul(2_654_435_761) as u32;
        let length = if n % 100 < 55 { 24 } else { 16 + (n % 8) as u8 };
        let [first, rest @ ..] = mixed.to_be_bytes();
        let address = u32::from_be_bytes([11 + first % 110, rest[0], rest[1], rest[2]]);
        Some((Ipv4Net::new(Ipv4Addr::from_bits(address), length).ok()?.trunc(), (n % 194) as u8))
    };
    (1..=410_000).filter_map(route).collect()
}

/// The value of the longest prefix that holds an address, found by trying every length; 0 where only the default route does.
fn longest(routes: &HashMap<Ipv4Net, u8>, address: Ipv4Addr) -> u8 {
    let prefixes = (16..=24).rev().filter_map(|length| Ipv4Net::new(address, length).ok());
    prefixes.map(|prefix| prefix.trunc()).find_map(|prefix| routes.get(&prefix).copied()).unwrap_or(0)
}

/// Addresses that are drawn at random, in all networks that there are routes to, and a few others.
fn paper_router() -> Case {
    /// Frames in a round.
    const FRAMES: u64 = 1_000_000;
    let script = format!(
        "{} lua {{ paths = {{ \"in -> out\" }}, tables = {{ routes = {{ prefixes = routes() }} }}, script = [[{}]] }}",
        include_str!("cases/routes.lua"),
        include_str!("cases/paper-router.lua"),
    );
    let prepare: Prepare = |_, _, _| {
        let (routes, mut random) = (routes(), Random::new(2));
        let made =
            |destination, ttl| UdpFrame { destination, ttl, ..UdpFrame::default() }.to_vec(&[0; LENGTH - UDP_OVERHEAD]);
        let frame = move |_: u64, bytes: &mut [u8; HEADER]| {
            let destination = Ipv4Addr::from_bits((11 << 24) + random.below(110 << 24) as u32);
            bytes.iter_mut().zip(made(destination, TTL)).for_each(|(to, from)| *to = from);
            LENGTH
        };
        let check = move |bytes: &[u8]| {
            let destination = bytes.get(30..34).and_then(|to| <[u8; 4]>::try_from(to).ok()).unwrap_or_default();
            let wanted = made(destination.into(), TTL - 1);
            let hop = longest(&routes, destination.into());
            match bytes.get(12..) == wanted.get(12..) && bytes.get(..6) == Some(&[2, 0, 0, 1, 0, hop]) {
                true => Ok(()),
                false => Err(format!("{bytes:?} came out in place of {wanted:?} to next hop {hop}")),
            }
        };
        Ok(Traffic { frame: Box::new(frame), frames: FRAMES, check: Box::new(check) })
    };
    Case {
        name: "paper-router",
        help: "the router of the thesis of 2015 as a script: checks, 410,000 prefixes in a table of Weir's, one hop on; a million destinations",
        needs: &[],
        script,
        port_keys: "",
        knobs: &[],
        prepare,
    }
}

/// Frames from so many sources, which come out with another TTL, or the same.
fn traffic(sources: u64, ttl: u8) -> Traffic {
    let made = move |n: u64, ttl: u8| {
        let low = u32::try_from(n % sources.max(1)).unwrap_or(0);
        let source = Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)) + low);
        UdpFrame { source, ttl, ..UdpFrame::default() }.to_vec(&[0; LENGTH - UDP_OVERHEAD])
    };
    let frame = move |n: u64, bytes: &mut [u8; HEADER]| {
        bytes.iter_mut().zip(made(n, TTL)).for_each(|(to, from)| *to = from);
        LENGTH
    };
    let check = move |bytes: &[u8]| {
        let source = bytes.get(26..30).and_then(|source| <[u8; 4]>::try_from(source).ok()).unwrap_or_default();
        let wanted = made(u64::from(u32::from_be_bytes(source) & 0x1_ffff), ttl);
        // Ports may write Ethernet addresses of their own.
        match bytes.get(12..) == wanted.get(12..) {
            true => Ok(()),
            false => Err(format!("{bytes:?} came out in place of {wanted:?}")),
        }
    };
    Traffic { frame: Box::new(frame), frames: sources.max(1), check: Box::new(check) }
}
