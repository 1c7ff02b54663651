//! A bridge among ports in memory, under the virtual clock.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared by tests, each of which uses a part of it; a failed unwrap fails the test"
)]

use serde_json::Value;
use weir_bridge::Bridge;

pub use weir_rig::{MS, PORTS, Rig, SECOND, all_rows};

/// A bridge with these keys.
pub fn bridge(keys: Value) -> Rig {
    Rig::new(&Bridge, keys)
}

/// What is said of a configuration.
pub fn messages(config: &Value) -> Vec<String> {
    weir_rig::messages(&Bridge, config)
}

/// An Ethernet address of a station.
pub fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

pub const BROADCAST: [u8; 6] = [0xff; 6];

/// A frame of 60 bytes with a number in its payload.
pub fn frame(to: [u8; 6], from: [u8; 6], number: u32) -> Vec<u8> {
    let mut frame = [&to[..], &from[..], &[0x88, 0xb5], &number.to_be_bytes()[..]].concat();
    frame.resize(60, 0);
    frame
}

/// The same with tags: TPID and control information of each, the outer one first.
pub fn tagged(mut frame: Vec<u8>, tags: &[(u16, u16)]) -> Vec<u8> {
    let tags: Vec<u8> = tags.iter().flat_map(|(tpid, tci)| [tpid.to_be_bytes(), tci.to_be_bytes()].concat()).collect();
    frame.splice(12..12, tags);
    frame
}
