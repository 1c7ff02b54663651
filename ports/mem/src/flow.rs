//! Which receive queue a frame belongs to.

use std::hash::{DefaultHasher, Hasher};

/// A number that frames of one flow share: a hash of the addresses of the IPv4 or IPv6 packet, else of the MAC addresses.
///
/// It stands for a device's RSS, in tests: ports and protocol are left out so that fragments stay with their flow.
pub(crate) fn flow_of(frame: &[u8]) -> u32 {
    let ethertype = frame.get(12..14);
    let addresses = match ethertype {
        Some([0x08, 0x00]) => frame.get(26..34), // RFC 791: source and destination at 12 and 16 of the header
        Some([0x86, 0xdd]) => frame.get(22..54), // RFC 8200: at 8 and 24
        _ => None,
    };
    let of = addresses.or(frame.get(..12)).unwrap_or(frame);
    let mut hasher = DefaultHasher::new();
    hasher.write(of);
    hasher.finish() as u32
}
