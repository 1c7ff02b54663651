//! AVX2 and AVX-512: eight rules are one register.

use std::arch::x86_64::*;

use super::{Block, KEYS, LANES, NO_NUMBER};

/// The same code for two sets of features: with AVX-512 the compiler makes one instruction of what is two or three without.
macro_rules! first {
    ($name:ident, $features:literal) => {
        #[target_feature(enable = $features)]
        pub(super) fn $name<const W: usize>(
            blocks: &[Block<W>],
            at: &[u32; KEYS],
            keys: &[[u32; KEYS]; W],
            count: usize,
            found: &mut [u32; KEYS],
        ) {
            for i in 0..count.min(KEYS) {
                let Some(block) = blocks.get(at[i] as usize) else {
                    found[i] = NO_NUMBER;
                    continue;
                };
                let mut differ = _mm256_setzero_si256();
                for (n, (word, keys)) in block.words.iter().zip(keys).enumerate() {
                    let key = _mm256_set1_epi32(keys[i] as i32);
                    let (value, mask) = (load(&word.value), load(&word.mask));
                    let wrong = if n + 1 < W {
                        _mm256_and_si256(_mm256_xor_si256(key, value), mask)
                    } else {
                        // What is left of the distance from the lower bound beyond that of the upper one.
                        _mm256_subs_epu16(_mm256_sub_epi16(key, value), mask)
                    };
                    differ = _mm256_or_si256(differ, wrong);
                }
                let same = _mm256_cmpeq_epi32(differ, _mm256_setzero_si256());
                let hits = _mm256_movemask_ps(_mm256_castsi256_ps(same)) as u32;
                let lane = (hits | 1 << LANES).trailing_zeros() as usize;
                found[i] = block.numbers[lane % (2 * LANES)];
            }
        }
    };
}

first!(first_avx2, "avx2,bmi1,bmi2,lzcnt,movbe,popcnt");
first!(first_avx512, "avx2,bmi1,bmi2,lzcnt,movbe,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl");

#[inline(always)]
fn load(lanes: &[u32; LANES]) -> __m256i {
    // SAFETY: the array is 32 bytes, all of them initialized, and the load asks for no alignment.
    unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
}
