//! AVX-512: each frame is one register.

use std::arch::x86_64::*;

use super::{DESTINATION, ETHERTYPE, FIRST_SPECIAL, Frame, HOP_LIMIT, IPV6, NEXT, SOURCE, VERSION, is_whole};
use crate::frame_check::BATCH;

/// The qwords in which the first halves of both addresses stand once they are turned: the first of the lanes that they lie in.
const HALVES: u8 = 1 << (2 * (SOURCE / 16)) | 1 << (2 * (DESTINATION / 16));

/// Bytes that must be as they are, those bits of them that count, and the least that bytes may be.
struct Rules {
    value: Frame,
    mask: Frame,
    least: Frame,
}

impl Rules {
    #[inline(always)]
    fn of(station: Option<[u8; 6]>) -> Rules {
        let mut rules = Rules { value: [0; 64], mask: [0; 64], least: [0; 64] };
        if let Some(station) = station {
            rules.value[..6].copy_from_slice(&station);
            rules.mask[..6].fill(0xff);
        }
        rules.value[ETHERTYPE..ETHERTYPE + 2].copy_from_slice(&IPV6);
        rules.mask[ETHERTYPE..ETHERTYPE + 2].fill(0xff);
        (rules.value[VERSION], rules.mask[VERSION]) = (0x60, 0xf0);
        // A next header of 0 is that of hop-by-hop options.
        (rules.least[NEXT], rules.least[HOP_LIMIT]) = (1, 2);
        rules
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe,popcnt")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
pub(super) fn check_avx512(
    station: Option<[u8; 6]>,
    frames: &[&Frame; BATCH],
    lengths: &[u16; BATCH],
    count: usize,
) -> u64 {
    let rules = Rules::of(station);
    let (value, mask, least) = (load(&rules.value), load(&rules.mask), load(&rules.least));
    // Both halves lie at the same place of their lanes, and are turned into host order at the start of these.
    const { assert!(SOURCE % 16 == DESTINATION % 16 && SOURCE % 16 == 6) };
    let turn = _mm512_broadcast_i32x4(_mm_set_epi8(-1, -1, -1, -1, -1, -1, -1, -1, 6, 7, 8, 9, 10, 11, 12, 13));
    let (one, end) = (_mm512_set1_epi64(1), _mm512_set1_epi64((FIRST_SPECIAL - 1) as i64));
    let mut good = 0;
    for (i, (frame, length)) in frames.iter().zip(lengths).enumerate().take(count) {
        let bytes = load(frame);
        // The value's bits that differ, and the bits that bytes lack of the least that they may be.
        let differ = _mm512_xor_si512(_mm512_and_si512(bytes, mask), value);
        let small = _mm512_xor_si512(_mm512_min_epu8(bytes, least), least);
        let halves = _mm512_sub_epi64(_mm512_shuffle_epi8(bytes, turn), one);
        let special = _mm512_mask_cmpge_epu64_mask(HALVES, halves, end);
        let wrong = _mm512_or_si512(differ, small);
        // In one mask: each takes its time on its way to a register.
        let wrong = _mm512_test_epi64_mask(wrong, wrong) | special;
        good |= u64::from((wrong == 0) & is_whole(frame, *length)) << i;
    }
    good
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(frame: &Frame) -> __m512i {
    // SAFETY: 64 bytes are readable at the array; unaligned loads are allowed.
    unsafe { _mm512_loadu_si512(frame.as_ptr().cast()) }
}
