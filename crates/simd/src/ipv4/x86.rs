//! AVX2 (8 headers at a time) and AVX-512 (16).
//!
//! Words are compared as they lie in memory, little-endian reads of network-order bytes: byte k of a header word is
//! bits 8k.. of its lane. One's complement sums come out the same in either byte order (RFC 1071 section 2 B).

use std::arch::x86_64::*;

use super::{Header, WITH_PORTS};

/// More fragments and the offset, as they lie in memory, in the second word of a header.
const FRAGMENT: i32 = 0xff3f_0000_u32 as i32;
/// The protocol in the third word, and TCP and UDP there.
const PROTOCOL: i32 = 0xff00;
const TCP: i32 = 6 << 8;
const UDP: i32 = 17 << 8;

/// The five 32-bit words of a header, one register each, one lane per packet.
pub(crate) struct Words<V> {
    /// Version and header length, service, total length.
    pub(crate) first: V,
    pub(crate) second: V,
    /// TTL, protocol, checksum.
    pub(crate) third: V,
    pub(crate) source: V,
    pub(crate) destination: V,
}

/// Loads 16 headers; `destination` comes in host order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn transpose_avx512(headers: &[&Header; 16], destination: __m512i) -> Words<__m512i> {
    // Register r: 16-byte starts of headers r, r+4, r+8, r+12, so that after a 4x4 transposition inside each 128-bit
    // lane, 32-bit lane 4q+r is header 4q+r.
    let row = |r: usize| {
        let low = _mm512_castsi128_si512(start(headers[r]));
        let low = _mm512_inserti32x4::<1>(low, start(headers[r + 4]));
        let low = _mm512_inserti32x4::<2>(low, start(headers[r + 8]));
        _mm512_inserti32x4::<3>(low, start(headers[r + 12]))
    };
    let (a, b, c, d) = (row(0), row(1), row(2), row(3));
    let (ab_low, cd_low) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
    let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
    Words {
        first: _mm512_unpacklo_epi64(ab_low, cd_low),
        second: _mm512_unpackhi_epi64(ab_low, cd_low),
        third: _mm512_unpacklo_epi64(ab_high, cd_high),
        source: _mm512_unpackhi_epi64(ab_high, cd_high),
        destination,
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn rules_avx512(words: &Words<__m512i>, length: __m512i) -> u16 {
    let Words { first, second, third, source, destination } = *words;
    let all = |value: i32| _mm512_set1_epi32(value);
    let version = _mm512_cmpeq_epi32_mask(_mm512_and_si512(first, all(0xff)), all(0x45));
    let total = total_avx512(first);
    let long_enough = _mm512_mask_cmpge_epu32_mask(version, total, all(20));
    // Signed, so that a length below 0 is too short for anything.
    let fits = _mm512_mask_cmple_epi32_mask(long_enough, total, length);
    // The destination is in host order here: its two 16-bit halves need their bytes swapped to be summed with the rest.
    let low = all(0xffff);
    let swapped = _mm512_or_si512(
        _mm512_slli_epi32::<8>(_mm512_and_si512(destination, all(0x00ff_00ff))),
        _mm512_and_si512(_mm512_srli_epi32::<8>(destination), all(0x00ff_00ff)),
    );
    let halves = |word: __m512i| _mm512_add_epi32(_mm512_and_si512(word, low), _mm512_srli_epi32::<16>(word));
    let front = _mm512_add_epi32(halves(first), halves(second));
    let back = _mm512_add_epi32(halves(third), halves(source));
    let sum = _mm512_add_epi32(_mm512_add_epi32(front, back), halves(swapped));
    let sums_up = _mm512_mask_cmpeq_epi32_mask(fits, halves(halves(sum)), low);
    let ttl = _mm512_mask_cmpgt_epu32_mask(sums_up, _mm512_and_si512(third, all(0xff)), all(1));
    let source = unicast_avx512(ttl, _mm512_and_si512(source, all(0xff)));
    unicast_avx512(source, _mm512_srli_epi32::<24>(destination))
}

/// The lanes whose packets have ports: no fragments, of TCP or UDP, and long enough.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn ports_avx512(words: &Words<__m512i>) -> u16 {
    let all = |value: i32| _mm512_set1_epi32(value);
    let whole = _mm512_testn_epi32_mask(words.second, all(FRAGMENT));
    let long_enough = _mm512_mask_cmpge_epu32_mask(whole, total_avx512(words.first), all(WITH_PORTS.into()));
    let protocol = _mm512_and_si512(words.third, all(PROTOCOL));
    long_enough & (_mm512_cmpeq_epi32_mask(protocol, all(TCP)) | _mm512_cmpeq_epi32_mask(protocol, all(UDP)))
}

/// Total lengths, of the first words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn total_avx512(first: __m512i) -> __m512i {
    bytes_swapped_avx512(_mm512_srli_epi32::<16>(first))
}

/// Of `among`, the lanes whose first address byte is of no martian.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn unicast_avx512(among: u16, byte: __m512i) -> u16 {
    let not_loopback = _mm512_mask_cmpneq_epi32_mask(among, byte, _mm512_set1_epi32(127));
    // 1..=223, as one comparison: 0 wraps to the largest.
    let shifted = _mm512_sub_epi32(byte, _mm512_set1_epi32(1));
    _mm512_mask_cmplt_epu32_mask(not_loopback, shifted, _mm512_set1_epi32(223))
}

/// The low 16 bits of each lane with their bytes swapped; the high ones must be 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn bytes_swapped_avx512(halves: __m512i) -> __m512i {
    let high = _mm512_and_si512(_mm512_slli_epi32::<8>(halves), _mm512_set1_epi32(0xff00));
    _mm512_or_si512(high, _mm512_srli_epi32::<8>(halves))
}

/// Loads 8 headers; `destination` comes in host order.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn transpose_avx2(headers: &[&Header; 8], destination: __m256i) -> Words<__m256i> {
    let row = |r: usize| _mm256_set_m128i(start(headers[r + 4]), start(headers[r]));
    let (a, b, c, d) = (row(0), row(1), row(2), row(3));
    let (ab_low, cd_low) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
    let (ab_high, cd_high) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
    Words {
        first: _mm256_unpacklo_epi64(ab_low, cd_low),
        second: _mm256_unpackhi_epi64(ab_low, cd_low),
        third: _mm256_unpacklo_epi64(ab_high, cd_high),
        source: _mm256_unpackhi_epi64(ab_high, cd_high),
        destination,
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn rules_avx2(words: &Words<__m256i>, length: __m256i) -> u8 {
    let Words { first, second, third, source, destination } = *words;
    let all = |value: i32| _mm256_set1_epi32(value);
    let both = |a, b| _mm256_and_si256(a, b);
    let version = _mm256_cmpeq_epi32(_mm256_and_si256(first, all(0xff)), all(0x45));
    let total = total_avx2(first);
    // 16-bit values in 32-bit lanes: signed comparisons do.
    let long_enough = _mm256_cmpgt_epi32(total, all(19));
    let too_long = _mm256_cmpgt_epi32(total, length);
    let bytes = all(0x00ff_00ff);
    let swapped = _mm256_or_si256(
        _mm256_slli_epi32::<8>(both(destination, bytes)),
        both(_mm256_srli_epi32::<8>(destination), bytes),
    );
    let low = all(0xffff);
    let halves = |word: __m256i| _mm256_add_epi32(_mm256_and_si256(word, low), _mm256_srli_epi32::<16>(word));
    let front = _mm256_add_epi32(halves(first), halves(second));
    let back = _mm256_add_epi32(halves(third), halves(source));
    let sum = _mm256_add_epi32(_mm256_add_epi32(front, back), halves(swapped));
    let sums_up = _mm256_cmpeq_epi32(halves(halves(sum)), low);
    let ttl = _mm256_cmpgt_epi32(both(third, all(0xff)), all(1));
    let source = unicast_avx2(both(source, all(0xff)));
    let destination = unicast_avx2(_mm256_srli_epi32::<24>(destination));
    let form = _mm256_andnot_si256(too_long, both(version, long_enough));
    let good = both(both(form, both(sums_up, ttl)), both(source, destination));
    // One bit per lane, 8 of them.
    (_mm256_movemask_ps(_mm256_castsi256_ps(good)) & 0xff) as u8
}

/// One bit for each packet that has ports: no fragment, of TCP or UDP, and long enough.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn ports_avx2(words: &Words<__m256i>) -> u8 {
    let all = |value: i32| _mm256_set1_epi32(value);
    let whole = _mm256_cmpeq_epi32(_mm256_and_si256(words.second, all(FRAGMENT)), _mm256_setzero_si256());
    let long_enough = _mm256_cmpgt_epi32(total_avx2(words.first), all(i32::from(WITH_PORTS) - 1));
    let protocol = _mm256_and_si256(words.third, all(PROTOCOL));
    let known = _mm256_or_si256(_mm256_cmpeq_epi32(protocol, all(TCP)), _mm256_cmpeq_epi32(protocol, all(UDP)));
    let good = _mm256_and_si256(_mm256_and_si256(whole, long_enough), known);
    (_mm256_movemask_ps(_mm256_castsi256_ps(good)) & 0xff) as u8
}

/// Total lengths, of the first words.
#[inline]
#[target_feature(enable = "avx2")]
fn total_avx2(first: __m256i) -> __m256i {
    let upper = _mm256_srli_epi32::<16>(first);
    let low = _mm256_and_si256(_mm256_slli_epi32::<8>(upper), _mm256_set1_epi32(0xff00));
    _mm256_or_si256(low, _mm256_srli_epi32::<8>(upper))
}

/// All ones where the first address byte is of no martian.
#[inline]
#[target_feature(enable = "avx2")]
fn unicast_avx2(byte: __m256i) -> __m256i {
    let loopback = _mm256_cmpeq_epi32(byte, _mm256_set1_epi32(127));
    let below = _mm256_cmpgt_epi32(_mm256_set1_epi32(224), byte);
    let above = _mm256_cmpgt_epi32(byte, _mm256_setzero_si256());
    _mm256_andnot_si256(loopback, _mm256_and_si256(below, above))
}

/// The first 16 bytes.
#[inline(always)]
pub(crate) fn start<const N: usize>(header: &[u8; N]) -> __m128i {
    const { assert!(N >= 16) };
    // SAFETY: 16 of the array's bytes; unaligned loads are allowed, and SSE2 is part of x86-64.
    unsafe { _mm_loadu_si128(header.as_ptr().cast()) }
}
