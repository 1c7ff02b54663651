//! The portable twin: the rules as they are read.

use super::{BATCH, Destinations, Frame, LinkPattern, header};
use crate::ipv4::{has_ports, is_good};

#[inline(always)]
pub(super) fn check(
    station: LinkPattern,
    frames: &[&Frame; BATCH],
    lengths: &[u16; BATCH],
    destinations: &Destinations,
    count: usize,
) -> u64 {
    let mut good = 0;
    let slots = frames.iter().zip(lengths).zip(&destinations.0);
    for (i, ((frame, &length), destination)) in slots.enumerate().take(count) {
        good |= u64::from(check_one(station, frame, length, *destination)) << i;
    }
    good
}

#[inline(always)]
pub(super) fn check_one(station: LinkPattern, frame: &Frame, length: u16, destination: u32) -> bool {
    let ip = header(frame);
    let is_local = [ip[12], ip[13]] == LINK_LOCAL || destination >> 16 == u32::from(u16::from_be_bytes(LINK_LOCAL));
    is_for(station, frame)
        && !is_local
        && is_good(ip, length.saturating_sub(station.front))
        && (!station.has_ports || has_ports(ip))
}

const LINK_LOCAL: [u8; 2] = [169, 254];

#[inline(always)]
fn is_for(station: LinkPattern, frame: &Frame) -> bool {
    let start = frame.first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes));
    (start ^ station.value) & station.mask == 0
}
