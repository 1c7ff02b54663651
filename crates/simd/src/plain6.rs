//! Tells which of up to 64 Ethernet frames carry IPv6 that a router surely may forward without a second look.
//!
//! There is no checksum, so that few words of each header are looked at: one frame after the other, each as one register.

use crate::cpu::{Kernel, Level};
use crate::frame_check::BATCH;

#[cfg(target_arch = "x86_64")]
mod x86;

/// An Ethernet header, an IPv6 header, and what follows, as they lie in the packet.
pub type Frame = [u8; 64];

/// What a slot without a packet refers to. It carries no IPv6.
pub static NO_FRAME: Frame = [0; 64];

/// Bytes of both headers.
const HEADERS: usize = 54;

/// Where fields stand.
const ETHERTYPE: usize = 12;
const VERSION: usize = 14;
const PAYLOAD: usize = 18;
const NEXT: usize = 20;
const HOP_LIMIT: usize = 21;
const SOURCE: usize = 22;
const DESTINATION: usize = 38;

/// The EtherType of IPv6 (RFC 2464).
const IPV6: [u8; 2] = [0x86, 0xdd];

/// The first half of the first address that is not of the usual kind any more: fe80::.
const FIRST_SPECIAL: u64 = 0xfe80 << 48;

/// Whether a frame says that it carries IPv6.
#[inline(always)]
pub fn is_six(frame: &Frame) -> bool {
    bytes::<ETHERTYPE, 2>(frame) == IPV6
}

/// Answers a mask of those of the first `count` frames that carry IPv6 and keep all of these rules (RFC 8200 sections 3 and 4, RFC 4291 section 2):
///
/// - they are for the `station`, if there is one;
/// - version 6;
/// - the payload length is at most what follows both headers, `lengths[i]` being the bytes of the frame;
/// - no hop-by-hop options follow;
/// - hop limit at least 2: one hop can be taken off;
/// - neither address is below 0:0:0:1:: or from fe80:: on, where those are that are never forwarded, or not by every router: of no host, of
///   links, of groups.
#[inline]
pub fn check(
    kernel: Kernel,
    station: Option<[u8; 6]>,
    frames: &[&Frame; BATCH],
    lengths: &[u16; BATCH],
    count: usize,
) -> u64 {
    match kernel.level() {
        // SAFETY: a `Kernel` of this level exists only where its features were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { x86::check_avx512(station, frames, lengths, count) },
        _ => scalar(station, frames, lengths, count),
    }
}

/// The portable twin: the rules as they are read.
#[inline(always)]
fn scalar(station: Option<[u8; 6]>, frames: &[&Frame; BATCH], lengths: &[u16; BATCH], count: usize) -> u64 {
    let mut good = 0;
    for (i, (frame, length)) in frames.iter().zip(lengths).enumerate().take(count) {
        let is_ours = station.is_none_or(|station| bytes::<0, 6>(frame) == station);
        let is_plain = bytes::<VERSION, 1>(frame)[0] >> 4 == 6
            && bytes::<NEXT, 1>(frame) != [0]
            && bytes::<HOP_LIMIT, 1>(frame)[0] >= 2
            && is_usual(bytes::<SOURCE, 8>(frame))
            && is_usual(bytes::<DESTINATION, 8>(frame));
        good |= u64::from(is_six(frame) && is_ours && is_plain && is_whole(frame, *length)) << i;
    }
    good
}

/// Whether the first half of an address is of the usual kind.
fn is_usual(half: [u8; 8]) -> bool {
    (1..FIRST_SPECIAL).contains(&u64::from_be_bytes(half))
}

/// Whether all of the payload is there.
#[inline(always)]
fn is_whole(frame: &Frame, length: u16) -> bool {
    HEADERS + usize::from(u16::from_be_bytes([frame[PAYLOAD], frame[PAYLOAD + 1]])) <= usize::from(length)
}

/// So many bytes at `AT`.
#[inline(always)]
fn bytes<const AT: usize, const N: usize>(frame: &Frame) -> [u8; N] {
    const { assert!(AT + N <= 64) };
    frame.split_at(AT).1.first_chunk().copied().unwrap_or([0; N])
}
