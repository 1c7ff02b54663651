//! What a fixed IPv4 header must be for a router to forward its packet without a second look, for [`frame_check`].
//!
//! The vector kernels transpose: 16 (or 8) headers are loaded and turned so that a register holds the same 32-bit word
//! of each; then every rule costs a few instructions for all of them.
//!
//! [`frame_check`]: crate::frame_check

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

/// A fixed IPv4 header (RFC 791), without options, as it lies in the packet.
pub(crate) type Header = [u8; 20];

/// Whether one header of a packet of `length` bytes keeps all rules of [`check`](crate::frame_check::check) for it.
#[inline(always)]
pub(crate) fn is_good(header: &Header, length: u16) -> bool {
    let total = u16::from_be_bytes([header[2], header[3]]);
    header[0] == 0x45
        && (20..=length).contains(&total)
        && sums_up(header)
        && header[8] >= 2
        && !is_martian(long(header, 12))
        && !is_martian(long(header, 16))
}

/// Whether a header is that of a packet with ports: no fragment, of TCP (6) or UDP (17), and long enough for both.
#[inline(always)]
pub(crate) fn has_ports(header: &Header) -> bool {
    let [_, _, t0, t1, _, _, f0, f1, _, protocol, ..] = *header;
    // More fragments, and the offset (RFC 791 section 3.1).
    let is_fragment = u16::from_be_bytes([f0, f1]) & 0x3fff != 0;
    u16::from_be_bytes([t0, t1]) >= WITH_PORTS && !is_fragment && matches!(protocol, 6 | 17)
}

/// Bytes of a header and both ports.
const WITH_PORTS: u16 = 24;

/// RFC 1071: the one's complement sum of all words, the checksum among them, is all ones. Its section 2 allows for sums of longer words in either byte
/// order, whose halves are added up in the end: three additions, where ten are made vectors of by the compiler, which wait for each other.
#[inline(always)]
fn sums_up(header: &Header) -> bool {
    let (words, rest) = header.as_chunks::<8>();
    let rest = rest.first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
    let sum: u128 = words.iter().map(|word| u128::from(u64::from_ne_bytes(*word))).sum();
    let sum = sum + u128::from(rest);
    // Two words of 64 bits carry at most twice; adding halves can carry once more.
    let sum = (sum >> 64) as u64 + u64::from(sum as u32) + u64::from((sum >> 32) as u32);
    let sum = (sum >> 32) + u64::from(sum as u16) + u64::from((sum >> 16) as u16);
    (sum & 0xffff) + (sum >> 16) == 0xffff
}

/// RFC 1812 section 5.3.7: never to be forwarded from or to.
#[inline(always)]
fn is_martian(address: u32) -> bool {
    matches!(address >> 24, 0 | 127 | 224..)
}

#[inline(always)]
fn long(header: &Header, at: usize) -> u32 {
    header[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
