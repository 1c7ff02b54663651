//! AVX2: eight rules are one register.

use std::arch::x86_64::*;

use super::{KEYS, LANES, NO_LANE, Row};

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe,popcnt")]
pub(super) fn first_avx2<const W: usize>(
    rows: &[Row<W>],
    at: &[u32; KEYS],
    keys: &[[u32; KEYS]; W],
    count: usize,
    lanes: &mut [u8; KEYS],
) {
    for i in 0..count.min(KEYS) {
        let Some(row) = rows.get(at[i] as usize) else {
            lanes[i] = NO_LANE;
            continue;
        };
        let mut differ = _mm256_setzero_si256();
        for word in 0..W {
            let key = _mm256_set1_epi32(keys[word][i] as i32);
            let (value, mask) = (load(&row[word].value), load(&row[word].mask));
            let wrong = if word + 1 < W {
                _mm256_and_si256(_mm256_xor_si256(key, value), mask)
            } else {
                // What is left of the distance from the lower bound beyond that of the upper one.
                _mm256_subs_epu16(_mm256_sub_epi16(key, value), mask)
            };
            differ = _mm256_or_si256(differ, wrong);
        }
        let same = _mm256_cmpeq_epi32(differ, _mm256_setzero_si256());
        let hits = _mm256_movemask_ps(_mm256_castsi256_ps(same)) as u32;
        lanes[i] = (hits | 1 << LANES).trailing_zeros() as u8;
    }
}

#[inline(always)]
fn load(lanes: &[u32; LANES]) -> __m256i {
    // SAFETY: the array is 32 bytes, all of them initialized, and the load asks for no alignment.
    unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
}
