//! AVX2 (8 frames at a time) and AVX-512 (16).

use std::arch::x86_64::*;

use super::{BATCH, Destinations, Frame, LinkPattern, header};
use crate::ipv4::x86::{ports_avx2, ports_avx512, rules_avx2, rules_avx512, start, transpose_avx2, transpose_avx512};

/// The first half of 169.254/16, as it lies in memory.
const LINK_LOCAL: i32 = 0xfea9;

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe,popcnt")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
pub(super) fn check_avx512(
    station: LinkPattern,
    frames: &[&Frame; BATCH],
    lengths: &[u16; BATCH],
    destinations: &Destinations,
    count: usize,
) -> u64 {
    let mut good = 0;
    let link = Link::of(station);
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
        let length = _mm512_sub_epi32(_mm512_cvtepu16_epi32(lengths), _mm512_set1_epi32(station.front.into()));
        let ours = link_avx512(&link, frames);
        let low = _mm512_set1_epi32(0xffff);
        let ours =
            _mm512_mask_cmpneq_epi32_mask(ours, _mm512_and_si512(words.source, low), _mm512_set1_epi32(LINK_LOCAL));
        // The destination is in host order here.
        let local = _mm512_set1_epi32(0xa9fe);
        let ours = _mm512_mask_cmpneq_epi32_mask(ours, _mm512_srli_epi32::<16>(destination), local);
        let ours = if station.has_ports { ours & ports_avx512(&words) } else { ours };
        good |= u64::from(rules_avx512(&words, length) & ours) << (16 * group);
    }
    good
}

/// What the first 16 bytes of a frame must be.
struct Link {
    value: __m128i,
    /// The bits that count.
    mask: __m128i,
}

impl Link {
    #[inline(always)]
    fn of(station: LinkPattern) -> Link {
        let whole = |number: u128| {
            // SAFETY: SSE2 is part of x86-64.
            unsafe { _mm_set_epi64x((number >> 64) as i64, number as i64) }
        };
        Link { value: whole(station.value), mask: whole(station.mask) }
    }
}

/// Which of 16 frames are for the station and say that they carry IPv4.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn link_avx512(link: &Link, frames: &[&Frame; 16]) -> u16 {
    let (value, mask) = (_mm512_broadcast_i32x4(link.value), _mm512_broadcast_i32x4(link.mask));
    // As in `transpose_avx512`: 128-bit lane q of register r is frame 4q+r's.
    let differs = |r: usize| {
        let low = _mm512_castsi128_si512(start(frames[r]));
        let low = _mm512_inserti32x4::<1>(low, start(frames[r + 4]));
        let low = _mm512_inserti32x4::<2>(low, start(frames[r + 8]));
        let row = _mm512_inserti32x4::<3>(low, start(frames[r + 12]));
        _mm512_and_si512(_mm512_xor_si512(row, value), mask)
    };
    let rows = [differs(0), differs(1), differs(2), differs(3)];
    let any = _mm512_or_si512(_mm512_or_si512(rows[0], rows[1]), _mm512_or_si512(rows[2], rows[3]));
    // Nearly always all are.
    if _mm512_test_epi32_mask(any, any) == 0 {
        return u16::MAX;
    }
    let strangers = rows.iter().enumerate().fold(0, |strangers, (r, row)| {
        let words = _mm512_test_epi32_mask(*row, *row);
        let pairs = words | words >> 1;
        strangers | ((pairs | pairs >> 2) & 0x1111) << r
    });
    !strangers
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe,popcnt")]
pub(super) fn check_avx2(
    station: LinkPattern,
    frames: &[&Frame; BATCH],
    lengths: &[u16; BATCH],
    destinations: &Destinations,
    count: usize,
) -> u64 {
    let mut good = 0;
    let link = Link::of(station);
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
        let length = _mm256_sub_epi32(_mm256_cvtepu16_epi32(lengths), _mm256_set1_epi32(station.front.into()));
        let low = _mm256_set1_epi32(0xffff);
        let source = _mm256_cmpeq_epi32(_mm256_and_si256(words.source, low), _mm256_set1_epi32(LINK_LOCAL));
        // The destination is in host order here.
        let destination = _mm256_cmpeq_epi32(_mm256_srli_epi32::<16>(destination), _mm256_set1_epi32(0xa9fe));
        let local = _mm256_or_si256(source, destination);
        // One bit per lane, 8 of them.
        let local = (_mm256_movemask_ps(_mm256_castsi256_ps(local)) & 0xff) as u8;
        let ours = link_avx2(&link, frames) & !local;
        let ours = if station.has_ports { ours & ports_avx2(&words) } else { ours };
        good |= u64::from(rules_avx2(&words, length) & ours) << (8 * group);
    }
    good
}

/// Which of 8 frames are for the station and say that they carry IPv4.
#[inline]
#[target_feature(enable = "avx2")]
fn link_avx2(link: &Link, frames: &[&Frame; 8]) -> u8 {
    let (value, mask) = (_mm256_broadcastsi128_si256(link.value), _mm256_broadcastsi128_si256(link.mask));
    // As in `transpose_avx2`: 128-bit lane q of register r is frame 4q+r's.
    let differs = |r: usize| {
        let row = _mm256_set_m128i(start(frames[r + 4]), start(frames[r]));
        _mm256_and_si256(_mm256_xor_si256(row, value), mask)
    };
    let rows = [differs(0), differs(1), differs(2), differs(3)];
    let any = _mm256_or_si256(_mm256_or_si256(rows[0], rows[1]), _mm256_or_si256(rows[2], rows[3]));
    // Nearly always all are.
    if _mm256_testz_si256(any, any) == 1 {
        return u8::MAX;
    }
    rows.iter().enumerate().fold(0, |ours, (r, row)| {
        let same = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(*row, _mm256_setzero_si256())));
        ours | u8::from(same & 0x0f == 0x0f) << r | u8::from(same & 0xf0 == 0xf0) << (r + 4)
    })
}
