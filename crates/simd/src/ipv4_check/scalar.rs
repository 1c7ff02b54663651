//! The portable twin: the rules as they are read.

use super::{BATCH, Destinations, Header};

#[inline(always)]
pub(super) fn check(
    headers: &[&Header; BATCH],
    lengths: &[u16; BATCH],
    count: usize,
    destinations: &mut Destinations,
    mut ahead: impl FnMut(u32),
) -> u64 {
    let mut good = 0;
    let slots = headers.iter().zip(lengths).zip(&mut destinations.0);
    for (i, ((header, &length), destination)) in slots.enumerate().take(count) {
        *destination = long(header, 16);
        ahead(*destination);
        good |= u64::from(is_good(header, length)) << i;
    }
    good
}

/// Whether one header keeps all rules.
pub(crate) fn is_good(header: &Header, length: u16) -> bool {
    let total = u16::from_be_bytes([header[2], header[3]]);
    header[0] == 0x45
        && (20..=length).contains(&total)
        && sums_up(header)
        && header[8] >= 2
        && !is_martian(long(header, 12))
        && !is_martian(long(header, 16))
}

/// RFC 1071: the one's complement sum of all words, the checksum among them, is all ones.
fn sums_up(header: &Header) -> bool {
    let (words, _) = header.as_chunks::<2>();
    let sum: u32 = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    // Ten words carry at most 9; adding the carries can carry once more.
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum & 0xffff) + (sum >> 16) == 0xffff
}

/// RFC 1812 section 5.3.7: never to be forwarded from or to.
fn is_martian(address: u32) -> bool {
    matches!(address >> 24, 0 | 127 | 224..)
}

#[inline(always)]
fn long(header: &Header, at: usize) -> u32 {
    header[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
