//! AVX2 and AVX-512: eight rules are one register.

use std::arch::x86_64::*;

use super::{Block, GOES_ON, KEYS, LANES, NO_NUMBER, first_from, going_on};

/// The same code for two sets of features: with AVX-512 the compiler makes one instruction of what is two or three without.
macro_rules! first {
    ($name:ident, $features:literal) => {
        #[target_feature(enable = $features)]
        pub(super) fn $name<const W: usize>(
            blocks: &[Block<W>],
            at: &[u32; KEYS],
            keys: &[[u32; W]; KEYS],
            count: usize,
            found: &mut [u32; KEYS],
        ) {
            let (count, spread) = (count.min(KEYS), Spread::new());
            let one = |key: &[u32; W], block: &Block<W>| {
                let mut differ = _mm256_setzero_si256();
                for (n, word) in block.words.iter().enumerate() {
                    let key = spread.word(key, n);
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
                block.numbers[lane % (2 * LANES)]
            };
            // Whether all blocks are there is asked for all keys at once, and so is where they are.
            let most = at.iter().take(count).fold(0, |most: u32, at| most.max(*at));
            if most as usize >= blocks.len() || size_of_val(blocks) > u32::MAX as usize {
                for ((found, key), at) in found.iter_mut().zip(keys).zip(at).take(count) {
                    *found = first_from(blocks, *at, key);
                }
                return;
            }
            let bytes = at.map(|at| at.wrapping_mul(size_of::<Block<W>>() as u32));
            for ((found, key), bytes) in found.iter_mut().zip(keys).zip(bytes).take(count) {
                // SAFETY: it is so many bytes to a block whose number is below the length of the slice: see above.
                let block = unsafe { &*blocks.as_ptr().byte_add(bytes as usize) };
                *found = one(key, block);
            }
            // Which keys go on is as random as keys: to ask each of them would cost more by wrong guesses than what is asked for.
            let mut left = going(found) & u64::MAX.checked_shr((KEYS - count) as u32).unwrap_or(0);
            while left != 0 {
                let i = left.trailing_zeros() as usize;
                found[i] = blocks.get((found[i] & !GOES_ON) as usize).map_or(NO_NUMBER, |block| one(&keys[i], block));
                if going_on(found[i]).is_none() {
                    left &= left - 1;
                }
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

/// A mask of the numbers that lead to another block: those below 0, but -1, as signed ones.
#[inline]
#[target_feature(enable = "avx2")]
fn going(found: &[u32; KEYS]) -> u64 {
    let (chunks, _) = found.as_chunks::<LANES>();
    let below = |n: usize| _mm256_cmpgt_epi32(_mm256_set1_epi32(NO_NUMBER as i32), load(&chunks[n]));
    // Packing takes turns between the halves of registers: the order is put right behind it.
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let half = |n: usize| {
        let front = _mm256_packs_epi32(below(n), below(n + 1));
        let back = _mm256_packs_epi32(below(n + 2), below(n + 3));
        let all = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(front, back), order);
        u64::from(_mm256_movemask_epi8(all) as u32)
    };
    half(0) | half(4) << 32
}

/// Spreads words of keys over all lanes. What is loaded is what takes the time: so four words are loaded at once.
struct Spread([__m256i; 4]);

impl Spread {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new() -> Spread {
        let word = |n: i32| _mm256_set1_epi32(0x0302_0100 + n * 0x0404_0404);
        // Known to the compiler, it would make single loads of them again.
        Spread(std::hint::black_box([word(0), word(1), word(2), word(3)]))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn word<const W: usize>(&self, key: &[u32; W], n: usize) -> __m256i {
        let (fours, rest) = key.as_chunks::<4>();
        match fours.get(n / 4) {
            Some(four) => {
                // SAFETY: the array is 16 bytes, all of them initialized, and the load asks for no alignment.
                let four = unsafe { _mm_loadu_si128(four.as_ptr().cast()) };
                _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(four), self.0[n % 4])
            }
            None => _mm256_set1_epi32(rest.get(n % 4).map_or(0, |word| *word as i32)),
        }
    }
}
