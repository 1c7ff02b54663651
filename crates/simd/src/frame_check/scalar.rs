//! The portable twin: the rules as they are read.

use super::{BATCH, Destinations, Frame, LinkPattern, header};
use crate::ipv4::is_good;

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
        let ip = header(frame);
        let is_ours = is_for(station, frame);
        let is_local = [ip[12], ip[13]] == LINK_LOCAL || destination >> 16 == u32::from(u16::from_be_bytes(LINK_LOCAL));
        let sound = is_good(ip, length.saturating_sub(station.front));
        good |= u64::from(is_ours && !is_local && sound) << i;
    }
    good
}

const LINK_LOCAL: [u8; 2] = [169, 254];

fn is_for(station: LinkPattern, frame: &Frame) -> bool {
    let start = frame.first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes));
    (start ^ station.value) & station.mask == 0
}
