//! Validates up to 64 Ethernet frames at once that carry plain IPv4 to this station.
//!
//! The rules of [`ipv4_check`], and those of the link before them, in one pass: where a router's packets
//! come straight from an Ethernet port, the Ethernet header is in the same cache line, and checking it by vectors saves a dozen
//! instructions for each packet.

use crate::cpu::{Kernel, Level};
pub use crate::ipv4_check::{BATCH, Destinations};

mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;

/// An Ethernet header and a fixed IPv4 header, as they lie in the packet.
pub type Frame = [u8; ETHERNET + 20];
/// What a slot without a packet refers to. It is refused.
pub static NO_FRAME: Frame = [0; ETHERNET + 20];

/// Whom frames must be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// The destination address, first byte lowest.
    address: u64,
    /// The bits that count.
    mask: u64,
}

impl Station {
    /// Whomever: somebody else looks at the destination address.
    pub const ANY: Station = Station { address: 0, mask: 0 };

    /// The station of this MAC address.
    pub const fn only([a, b, c, d, e, f]: [u8; 6]) -> Station {
        Station { address: u64::from_le_bytes([a, b, c, d, e, f, 0, 0]), mask: (1 << 48) - 1 }
    }
}

/// Answers a mask of the frames that keep all of these rules:
///
/// - the destination MAC address is the station's, the EtherType is IPv4's;
/// - all rules of [`ipv4_check::check`](crate::ipv4_check::check), `lengths[i]` being the bytes of the whole frame;
/// - neither IPv4 address is link-local, 169.254/16: such are never forwarded (RFC 3927 section 7).
///
/// `count`, `destinations` and `ahead` as there.
#[inline]
pub fn check(
    kernel: Kernel,
    station: Station,
    frames: &[&Frame; BATCH],
    lengths: &[u16; BATCH],
    count: usize,
    destinations: &mut Destinations,
    ahead: impl FnMut(u32),
) -> u64 {
    let count = count.min(BATCH);
    let good = match kernel.level() {
        Level::Scalar => scalar::check(station, frames, lengths, count, destinations, ahead),
        // SAFETY: a `Kernel` of this level exists only where its features were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { x86::check_avx2(station, frames, lengths, count, destinations, ahead) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { x86::check_avx512(station, frames, lengths, count, destinations, ahead) },
        #[cfg(not(target_arch = "x86_64"))]
        Level::Avx2 | Level::Avx512 => scalar::check(station, frames, lengths, count, destinations, ahead),
    };
    good & crate::ipv4_check::first(count)
}

/// The IPv4 header in a frame.
#[inline(always)]
fn header(frame: &Frame) -> &crate::ipv4_check::Header {
    frame.last_chunk().unwrap_or(&crate::ipv4_check::NO_HEADER)
}
