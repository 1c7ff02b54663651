//! What `weir bench cpp lua` measures: scripts that users begin with.
#![forbid(unsafe_code)]

use std::net::Ipv4Addr;

use weir_stage::case::{HEADER, Prepare, Traffic};
use weir_stage::{Case, Knob};
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
    ]
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
