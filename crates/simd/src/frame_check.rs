//! Validates up to 64 Ethernet frames at once that carry plain IPv4 to this station.
//!
//! One pass answers which packets a router may forward without a second look. Whoever is not among them is looked at
//! again, one by one, to find out why; so a frame may be refused here by any of several rules at once.
//!
//! Link and network are checked in one pass: where a router's packets come straight from an Ethernet port, both headers are
//! in the same cache line, and checking the Ethernet header by vectors saves a dozen instructions for each packet.

use crate::cpu::{Kernel, Level};

mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

/// How many frames at most.
pub const BATCH: usize = 64;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// An Ethernet header and a fixed IPv4 header, as they lie in the packet.
pub type Frame = [u8; ETHERNET + 20];
/// What a slot without a packet refers to. It is refused.
pub static NO_FRAME: Frame = [0; ETHERNET + 20];

/// IPv4 destination addresses in host order, one for each frame.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Destinations(pub [u32; BATCH]);

impl Default for Destinations {
    fn default() -> Self {
        Self([0; BATCH])
    }
}

/// The destination address that a frame would have if it carried IPv4, in host order.
#[inline(always)]
pub fn destination_of(frame: &Frame) -> u32 {
    let [.., a, b, c, d] = *frame;
    u32::from_be_bytes([a, b, c, d])
}

/// What the 14 bytes before the IPv4 header must be: whom frames are for, and that they say to carry IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPattern {
    /// The bytes, first byte lowest; the last two are not the frame's and are 0.
    value: u128,
    /// The bits that count.
    mask: u128,
    /// Bytes in front of the IPv4 header that lengths count.
    front: u16,
    /// Whether packets must have ports, too.
    has_ports: bool,
}

impl LinkPattern {
    /// Whomever: somebody else looks at the destination address. The EtherType is IPv4's.
    pub const ANY: LinkPattern =
        LinkPattern { value: IPV4, mask: 0xffff << 96, front: ETHERNET as u16, has_ports: false };

    /// The station of this MAC address. The EtherType is IPv4's.
    #[inline(always)]
    pub const fn only([a, b, c, d, e, f]: [u8; 6]) -> LinkPattern {
        let address = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        LinkPattern { value: IPV4 | address as u128, mask: LinkPattern::ANY.mask | ((1 << 48) - 1), ..LinkPattern::ANY }
    }

    /// Whatever else may stand before an IPv4 header, such as tags or a tunnel's header: the bits in `mask` are as in `value`.
    #[inline(always)]
    pub const fn pattern(value: [u8; ETHERNET], mask: [u8; ETHERNET]) -> LinkPattern {
        let mask = number(mask);
        LinkPattern { value: number(value) & mask, mask, ..LinkPattern::ANY }
    }

    /// With lengths that count so many bytes in front of the IPv4 header, in place of the 14 of an Ethernet header.
    #[inline(always)]
    pub const fn with_front(self, front: u16) -> LinkPattern {
        LinkPattern { front, ..self }
    }

    /// With one rule more: packets are no fragments, and of TCP or UDP, with both ports.
    #[inline(always)]
    pub const fn with_ports(self) -> LinkPattern {
        LinkPattern { has_ports: true, ..self }
    }
}

/// The EtherType of IPv4 where it stands in a frame.
const IPV4: u128 = 0x0008 << 96;

/// 14 bytes as a number, first byte lowest.
const fn number([a, b, c, d, e, f, g, h, i, j, k, l, m, n]: [u8; ETHERNET]) -> u128 {
    u128::from_le_bytes([a, b, c, d, e, f, g, h, i, j, k, l, m, n, 0, 0])
}

/// Answers a mask of the frames that keep all of these rules (RFC 1812 sections 5.2.2, 5.3.1, 5.3.7):
///
/// - the 14 bytes before the IPv4 header are as the station says: its MAC address and the EtherType of IPv4;
/// - version 4 and no options: the first byte of the IPv4 header is 0x45;
/// - total length at least 20 and at most what follows the Ethernet header, `lengths[i]` being the bytes of the frame (or
///   [counted](LinkPattern::with_front) from elsewhere);
/// - the header's checksum is right;
/// - TTL at least 2: one hop can be taken off;
/// - neither address is a martian that is never forwarded: 0/8, 127/8, or 224/4 and 240/4 (multicast, reserved,
///   broadcast);
/// - neither address is link-local, 169.254/16: such are never forwarded (RFC 3927 section 7);
/// - where the station says [so](LinkPattern::with_ports): no fragment, of TCP or UDP, and the total length at least 24.
///
/// `destinations` has what [`destination_of`] says of each frame: whoever gathers the frames asks for their table entries in
/// the same loop, as early as can be, and so has them. Only the first `count` frames are answered.
#[inline]
pub fn check(
    kernel: Kernel,
    station: LinkPattern,
    frames: &[&Frame; BATCH],
    lengths: &[u16; BATCH],
    destinations: &Destinations,
    count: usize,
) -> u64 {
    let count = count.min(BATCH);
    let good = match kernel.level() {
        Level::Scalar => scalar::check(station, frames, lengths, destinations, count),
        // SAFETY: a `Kernel` of this level exists only where its features were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { x86::check_avx2(station, frames, lengths, destinations, count) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { x86::check_avx512(station, frames, lengths, destinations, count) },
        #[cfg(not(target_arch = "x86_64"))]
        Level::Avx2 | Level::Avx512 => scalar::check(station, frames, lengths, destinations, count),
    };
    good & first(count)
}

/// [`check`] for one frame of `length` bytes: where there are so few that vectors, and the arrays for them, cost more than they save.
#[inline(always)]
pub fn check_one(station: LinkPattern, frame: &Frame, length: u16) -> bool {
    scalar::check_one(station, frame, length, destination_of(frame))
}

/// A mask of the first `count` frames.
fn first(count: usize) -> u64 {
    if count >= BATCH { u64::MAX } else { (1 << count) - 1 }
}

/// The IPv4 header in a frame.
#[inline(always)]
fn header(frame: &Frame) -> &crate::ipv4::Header {
    frame.last_chunk().unwrap_or(&[0; 20])
}
