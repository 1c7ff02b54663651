//! AVX2 (8 frames at a time) and AVX-512 (16).

use std::arch::x86_64::*;

use super::{BATCH, Destinations, ETHERNET, Frame, Station, header};
use crate::ipv4_check::x86::{rules_avx2, rules_avx512, start, transpose_avx2, transpose_avx512};

/// EtherType of IPv4 and the first half of 169.254/16, as they lie in memory.
const IPV4: i32 = 0x0008;
const LINK_LOCAL: i32 = 0xfea9;

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe,popcnt")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
pub(super) fn check_avx512(
    station: Station,
    frames: &[&Frame; BATCH],
    lengths: &[u16; BATCH],
    count: usize,
    destinations: &mut Destinations,
    ahead: impl FnMut(u32),
) -> u64 {
    let mut good = 0;
    note_destinations(frames, count.next_multiple_of(16), destinations, ahead);
    let (frames, _) = frames.as_chunks::<16>();
    let (lengths, _) = lengths.as_chunks::<16>();
    let (destinations, _) = destinations.0.as_chunks::<16>();
    let groups = frames.iter().zip(lengths).zip(destinations);
    for (group, ((frames, lengths), destinations)) in groups.enumerate().take(count.div_ceil(16)) {
        // SAFETY: 16 words of 4 bytes are readable at the array; unaligned loads are allowed.
        let destination = unsafe { _mm512_loadu_si512(destinations.as_ptr().cast()) };
        // SAFETY: 16 words of 2 bytes are readable at the array; unaligned loads are allowed.
        let lengths = unsafe { _mm256_loadu_si256(lengths.as_ptr().cast()) };
        let headers = frames.map(header);
        let words = transpose_avx512(&headers, destination);
        let length = _mm512_sub_epi32(_mm512_cvtepu16_epi32(lengths), _mm512_set1_epi32(ETHERNET as i32));
        let ours = link_avx512(station, frames);
        let low = _mm512_set1_epi32(0xffff);
        let ours =
            _mm512_mask_cmpneq_epi32_mask(ours, _mm512_and_si512(words.source, low), _mm512_set1_epi32(LINK_LOCAL));
        // The destination is in host order here.
        let local = _mm512_set1_epi32(0xa9fe);
        let ours = _mm512_mask_cmpneq_epi32_mask(ours, _mm512_srli_epi32::<16>(destination), local);
        good |= u64::from(rules_avx512(&words, length) & ours) << (16 * group);
    }
    good
}

/// Which of 16 frames are for the station and say that they carry IPv4.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn link_avx512(station: Station, frames: &[&Frame; 16]) -> u16 {
    // As in `transpose_avx512`: 32-bit lane i is frame i's.
    let row = |r: usize| {
        let low = _mm512_castsi128_si512(start(frames[r]));
        let low = _mm512_inserti32x4::<1>(low, start(frames[r + 4]));
        let low = _mm512_inserti32x4::<2>(low, start(frames[r + 8]));
        _mm512_inserti32x4::<3>(low, start(frames[r + 12]))
    };
    let (a, b, c, d) = (row(0), row(1), row(2), row(3));
    let (ab_low, cd_low) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
    let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
    let differs = |word, value: u32, mask: u32| {
        let value = _mm512_set1_epi32(value as i32);
        _mm512_and_si512(_mm512_xor_si512(word, value), _mm512_set1_epi32(mask as i32))
    };
    let first = differs(_mm512_unpacklo_epi64(ab_low, cd_low), station.address as u32, station.mask as u32);
    let second =
        differs(_mm512_unpackhi_epi64(ab_low, cd_low), (station.address >> 32) as u32, (station.mask >> 32) as u32);
    let ethertype = differs(_mm512_unpackhi_epi64(ab_high, cd_high), IPV4 as u32, 0xffff);
    let any = _mm512_or_si512(_mm512_or_si512(first, second), ethertype);
    _mm512_testn_epi32_mask(any, any)
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe,popcnt")]
pub(super) fn check_avx2(
    station: Station,
    frames: &[&Frame; BATCH],
    lengths: &[u16; BATCH],
    count: usize,
    destinations: &mut Destinations,
    ahead: impl FnMut(u32),
) -> u64 {
    let mut good = 0;
    note_destinations(frames, count.next_multiple_of(8), destinations, ahead);
    let (frames, _) = frames.as_chunks::<8>();
    let (lengths, _) = lengths.as_chunks::<8>();
    let (destinations, _) = destinations.0.as_chunks::<8>();
    let groups = frames.iter().zip(lengths).zip(destinations);
    for (group, ((frames, lengths), destinations)) in groups.enumerate().take(count.div_ceil(8)) {
        // SAFETY: 8 words of 4 bytes are readable at the array; unaligned loads are allowed.
        let destination = unsafe { _mm256_loadu_si256(destinations.as_ptr().cast()) };
        // SAFETY: 8 words of 2 bytes are readable at the array; unaligned loads are allowed.
        let lengths = unsafe { _mm_loadu_si128(lengths.as_ptr().cast()) };
        let headers = frames.map(header);
        let words = transpose_avx2(&headers, destination);
        let length = _mm256_sub_epi32(_mm256_cvtepu16_epi32(lengths), _mm256_set1_epi32(ETHERNET as i32));
        let low = _mm256_set1_epi32(0xffff);
        let source = _mm256_cmpeq_epi32(_mm256_and_si256(words.source, low), _mm256_set1_epi32(LINK_LOCAL));
        // The destination is in host order here.
        let destination = _mm256_cmpeq_epi32(_mm256_srli_epi32::<16>(destination), _mm256_set1_epi32(0xa9fe));
        let ours = _mm256_andnot_si256(_mm256_or_si256(source, destination), link_avx2(station, frames));
        // One bit per lane, 8 of them.
        let ours = (_mm256_movemask_ps(_mm256_castsi256_ps(ours)) & 0xff) as u8;
        good |= u64::from(rules_avx2(&words, length) & ours) << (8 * group);
    }
    good
}

/// All ones for those of 8 frames that are for the station and say that they carry IPv4.
#[inline]
#[target_feature(enable = "avx2")]
fn link_avx2(station: Station, frames: &[&Frame; 8]) -> __m256i {
    let row = |r: usize| _mm256_set_m128i(start(frames[r + 4]), start(frames[r]));
    let (a, b, c, d) = (row(0), row(1), row(2), row(3));
    let (ab_low, cd_low) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
    let (ab_high, cd_high) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
    let differs = |word, value: u32, mask: u32| {
        let value = _mm256_set1_epi32(value as i32);
        _mm256_and_si256(_mm256_xor_si256(word, value), _mm256_set1_epi32(mask as i32))
    };
    let first = differs(_mm256_unpacklo_epi64(ab_low, cd_low), station.address as u32, station.mask as u32);
    let second =
        differs(_mm256_unpackhi_epi64(ab_low, cd_low), (station.address >> 32) as u32, (station.mask >> 32) as u32);
    let ethertype = differs(_mm256_unpackhi_epi64(ab_high, cd_high), IPV4 as u32, 0xffff);
    let any = _mm256_or_si256(_mm256_or_si256(first, second), ethertype);
    _mm256_cmpeq_epi32(any, _mm256_setzero_si256())
}

/// Writes all destinations before any vector of them is read: a load that spans stores still on their way to the cache would
/// wait for them.
#[inline(always)]
fn note_destinations(
    frames: &[&Frame; BATCH],
    count: usize,
    destinations: &mut Destinations,
    mut ahead: impl FnMut(u32),
) {
    for (frame, destination) in frames.iter().zip(&mut destinations.0).take(count) {
        let [.., a, b, c, d] = **frame;
        *destination = u32::from_be_bytes([a, b, c, d]);
        ahead(*destination);
    }
}
