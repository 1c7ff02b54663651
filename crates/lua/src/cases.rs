//! What `weir bench cpp lua` measures: scripts that users begin with.
#![forbid(unsafe_code)]

use std::net::Ipv4Addr;

use weir_stage::case::{HEADER, Prepare, Traffic};
use weir_stage::{Case, Knob};
use weir_wire::build::UdpFrame;

/// Bytes of a frame, 64 with its check sequence.
const LENGTH: usize = 60;
/// Where the TTL and the header checksum of IPv4 lie behind untagged Ethernet.
const TTL: usize = 22;

const SOURCES: Knob =
    Knob { name: "sources", help: "different source addresses", usual: 1024, least: 1, most: 1 << 17 };

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let case = |name, help, script: &str, knobs, prepare: Prepare| {
        let script = format!("lua {{ paths = {{ \"in -> out\" }}, script = [[{script}]] }}");
        Case { name, help, needs: &[], script, port_keys: "", knobs, prepare }
    };
    let one: Prepare = |_, _, _| Ok(traffic(1, |frame| frame.to_vec()));
    let many: Prepare = |_, _, chosen| Ok(traffic(chosen.number("sources"), |frame| frame.to_vec()));
    vec![
        case("pass", "a script that looks at nothing", "function run() end", &[], one),
        case(
            "ttl",
            "a script that takes one off the TTL of IPv4, with its checksum",
            include_str!("cases/ttl.lua"),
            &[],
            |_, _, _| Ok(traffic(1, one_hop_on)),
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

/// Frames from so many sources, and what must come out of them.
fn traffic(sources: u64, becomes: fn(&[u8]) -> Vec<u8>) -> Traffic {
    let made = move |n: u64| {
        let low = u32::try_from(n % sources.max(1)).unwrap_or(0);
        let source = Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)) + low);
        UdpFrame { source, ..UdpFrame::default() }.to_vec(&[0; LENGTH - weir_wire::build::UDP_OVERHEAD])
    };
    let frame = move |n: u64, bytes: &mut [u8; HEADER]| {
        bytes.iter_mut().zip(made(n)).for_each(|(to, from)| *to = from);
        LENGTH
    };
    let check = move |bytes: &[u8]| {
        let low = bytes.get(28..30).and_then(|low| low.try_into().ok()).map_or(0, u16::from_be_bytes);
        let high = bytes.get(27).map_or(0, |high| u64::from(*high & 1) << 16);
        let wanted = becomes(&made(high | u64::from(low)));
        // Ports may write Ethernet addresses of their own.
        match bytes.get(12..) == wanted.get(12..) {
            true => Ok(()),
            false => Err(format!("{bytes:?} came out in place of {wanted:?}")),
        }
    };
    Traffic { frame: Box::new(frame), frames: sources.max(1), check: Box::new(check) }
}

/// What a router makes of a frame: the definition, all sums anew.
fn one_hop_on(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if let Some(ttl) = frame.get_mut(TTL) {
        *ttl -= 1;
    }
    if let Some(header) = frame.get_mut(14..34) {
        header.iter_mut().skip(10).take(2).for_each(|byte| *byte = 0);
        let words = header.chunks(2).map(|word| word.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)));
        let sum: u32 = words.sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let sum = !u16::try_from(folded & 0xffff).unwrap_or(0).wrapping_add(u16::try_from(folded >> 16).unwrap_or(0));
        header.iter_mut().skip(10).zip(sum.to_be_bytes()).for_each(|(to, from)| *to = from);
    }
    frame
}
