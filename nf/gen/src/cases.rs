//! What `weir bench cpp gen` measures: packets made for the port `out`, as fast as it takes them. The port `in` has no part in it.

use std::collections::HashSet;

use weir_measure::signature;
use weir_stage::Case;
use weir_stage::case::Traffic;
use weir_wire::{Ethernet, Ipv4, View, udp, validity};

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let case = |name, help, keys: &str, prepare| Case {
        name,
        help,
        needs: &[],
        script: format!("gen {{ streams = {{ {{ port = \"out\", {keys} }} }} }}"),
        port_keys: "",
        knobs: &[],
        prepare,
    };
    vec![
        case("plain", "64-byte UDP packets, each written anew", "", |_, _, _| Ok(traffic(|_| Ok(())))),
        case(
            "signed",
            "the same with a random source, both checksums, and a signature: sequence number, time, check",
            "signature = true, layers = { { ethernet = {} }, { ipv4 = { source = \"198.18.0.0/16 random\" } }, { udp = {} } }",
            |_, _, _| Ok(traffic(check_signed())),
        ),
        case(
            "imix",
            "the same in the mix of sizes that \"imix\" stands for",
            "signature = true, size = \"imix\", layers = { { ethernet = {} }, { ipv4 = { source = \"198.18.0.0/16 random\" } }, { udp = {} } }",
            |_, _, _| Ok(traffic(check_signed())),
        ),
    ]
}

/// Nothing comes in; what goes out must be valid, and right in the eyes of `more`.
fn traffic(mut more: impl FnMut(&[u8]) -> Result<(), String> + std::marker::Send + 'static) -> Traffic {
    let check = move |frame: &[u8]| {
        let (_, packet) = Ethernet::split(frame).ok_or("a frame came out without an Ethernet header")?;
        validity::check_slice(packet).map_err(|defect| format!("a packet came out that is not valid: {defect}"))?;
        let (ip, datagram) = Ipv4::split(packet).ok_or("a packet came out without an IPv4 header")?;
        if !udp::is_valid(ip, datagram) {
            return Err("a packet came out whose UDP checksum is wrong".to_owned());
        }
        more(frame)
    };
    Traffic { frame: Box::new(|_, _| 60), frames: 1, check: Box::new(check) }
}

/// Whether signatures are intact and no number comes twice.
fn check_signed() -> impl FnMut(&[u8]) -> Result<(), String> {
    /// Numbers that are remembered.
    const MOST: usize = 1 << 20;
    let mut seen = HashSet::new();
    move |frame| {
        let signature = signature::read(frame).ok_or("a packet came out without a signature")?;
        if seen.len() < MOST && !seen.insert(signature.sequence) {
            return Err(format!("number {} came out twice", signature.sequence));
        }
        if signature.intact { Ok(()) } else { Err("a packet came out whose signature is wrong".to_owned()) }
    }
}
