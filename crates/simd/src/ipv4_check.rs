//! Validates the fixed 20-byte IPv4 headers of up to 64 packets at once.
//!
//! One pass answers which packets a router may forward without a second look. Whoever is not among them is looked at
//! again, one by one, to find out why; so a header may be refused here by any of several rules at once.
//!
//! The vector kernels transpose: 16 (or 8) headers are loaded and turned so that a register holds the same 32-bit word
//! of each; then every rule costs a few instructions for all of them.

use crate::cpu::{Kernel, Level};

mod scalar;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

pub(crate) use scalar::is_good;

/// How many packets at most.
pub const BATCH: usize = 64;
/// A fixed IPv4 header (RFC 791), without options, as it lies in the packet.
pub type Header = [u8; 20];
/// What a slot without a packet refers to. It is refused.
pub static NO_HEADER: Header = [0; 20];

/// What the pass writes beside the mask.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Destinations(
    /// Destination addresses in host order, of refused packets and empty slots too.
    pub [u32; BATCH],
);

impl Default for Destinations {
    fn default() -> Self {
        Self([0; BATCH])
    }
}

/// Answers a mask of the packets whose header keeps all of these rules (RFC 1812 sections 5.2.2, 5.3.1, 5.3.7):
///
/// - version 4 and no options: the first byte is 0x45;
/// - total length at least 20 and at most `lengths[i]`, the bytes from the header's start to the packet's end;
/// - the header's checksum is right;
/// - TTL at least 2: one hop can be taken off;
/// - neither address is a martian that is never forwarded: 0/8, 127/8, or 224/4 and 240/4 (multicast, reserved,
///   broadcast).
///
/// Only the first `count` slots are looked at (rounded up to the kernel's width; bits from `count` on are 0). Every
/// destination of these is written to `destinations` and given to `ahead`, valid or not, as early as it is known: prefetch
/// the lookup with it.
#[inline]
pub fn check(
    kernel: Kernel,
    headers: &[&Header; BATCH],
    lengths: &[u16; BATCH],
    count: usize,
    destinations: &mut Destinations,
    ahead: impl FnMut(u32),
) -> u64 {
    let count = count.min(BATCH);
    let good = match kernel.level() {
        Level::Scalar => scalar::check(headers, lengths, count, destinations, ahead),
        // SAFETY: a `Kernel` of this level exists only where its features were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { x86::check_avx2(headers, lengths, count, destinations, ahead) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { x86::check_avx512(headers, lengths, count, destinations, ahead) },
        #[cfg(not(target_arch = "x86_64"))]
        Level::Avx2 | Level::Avx512 => scalar::check(headers, lengths, count, destinations, ahead),
    };
    good & first(count)
}

/// A mask of the first `count` packets.
pub(crate) fn first(count: usize) -> u64 {
    if count >= BATCH { u64::MAX } else { (1 << count) - 1 }
}
