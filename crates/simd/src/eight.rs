//! Compares up to 64 keys, each with eight rules: which is the first that it matches.
//!
//! A key is `W` words. All but the last are compared below masks; the halves of the last are numbers between bounds.

use crate::Kernel;
#[cfg(target_arch = "x86_64")]
use crate::cpu::Level;

#[cfg(target_arch = "x86_64")]
mod x86;

/// Rules that are compared at once.
pub const LANES: usize = 8;

/// Keys that are compared in one call at most.
pub const KEYS: usize = 64;

/// Found where there is no block, and where no rule matches of one that no other follows.
pub const NO_NUMBER: u32 = u32::MAX;

/// Set in what a block finds where none of its rules matches, but another block goes on with further ones: that one's place is in the other
/// bits. Not so in [`NO_NUMBER`].
pub const GOES_ON: u32 = 1 << 31;

/// The block that goes on where this was found.
#[inline(always)]
pub fn going_on(number: u32) -> Option<u32> {
    (number & GOES_ON != 0 && number != NO_NUMBER).then_some(number & !GOES_ON)
}

/// What eight rules ask of one word of a key: a line of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Word {
    /// The value below the mask; of the last word the lower bounds of both halves.
    pub value: [u32; LANES],
    /// Bits that count; of the last word how far the upper bounds are from the lower ones.
    pub mask: [u32; LANES],
}

/// Eight rules, in lines of the cache that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Block<const W: usize> {
    /// What they ask.
    pub words: [Word; W],
    /// What is found where the rule of a lane is the first that matches; behind those of all lanes, what is found where none does. The rest
    /// fills the line.
    pub numbers: [u32; 2 * LANES],
}

/// Writes the number of the first rule that each of the first `count` keys matches of the block that `at` says, or of those that
/// [go on](GOES_ON) behind it, which must not lead back; [`NO_NUMBER`] for a block that is not there.
#[inline(always)]
pub fn first<const W: usize>(
    kernel: Kernel,
    blocks: &[Block<W>],
    at: &[u32; KEYS],
    (keys, count): (&[[u32; W]; KEYS], usize),
    found: &mut [u32; KEYS],
) {
    match kernel.level() {
        // SAFETY: a `Kernel` of this level exists only where its features were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { x86::first_avx512(blocks, at, keys, count, found) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { x86::first_avx2(blocks, at, keys, count, found) },
        _ => {
            for ((found, key), at) in found.iter_mut().zip(keys).zip(at).take(count) {
                *found = first_from(blocks, *at, key);
            }
        }
    }
}

/// The number of the first rule that one key matches of a block, and of those that go on behind it. This is the portable twin.
pub fn first_from<const W: usize>(blocks: &[Block<W>], at: u32, key: &[u32; W]) -> u32 {
    let mut at = at;
    while let Some(block) = blocks.get(at as usize) {
        let number = first_of(block, key);
        match going_on(number) {
            Some(next) => at = next,
            None => return number,
        }
    }
    NO_NUMBER
}

/// The number of the first rule of a block that one key matches.
fn first_of<const W: usize>(block: &Block<W>, key: &[u32; W]) -> u32 {
    let lane = (0..LANES).find(|lane| matches(&block.words, key, *lane)).unwrap_or(LANES);
    block.numbers[lane % (2 * LANES)]
}

fn matches<const W: usize>(words: &[Word; W], key: &[u32; W], lane: usize) -> bool {
    words.iter().zip(key).enumerate().all(|(n, (word, key))| {
        let (Some(&value), Some(&mask)) = (word.value.get(lane), word.mask.get(lane)) else { return false };
        if n + 1 < W {
            return (key ^ value) & mask == 0;
        }
        let is_within = |key: u16, least: u16, span: u16| key.wrapping_sub(least) <= span;
        is_within((key >> 16) as u16, (value >> 16) as u16, (mask >> 16) as u16)
            && is_within(*key as u16, value as u16, mask as u16)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: u64) -> impl FnMut() -> u32 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32 ^ (state >> 7) as u32
        }
    }

    /// Eight rules that ask for nothing, of which each lane has its own number.
    fn block<const W: usize>(number: u32) -> Block<W> {
        let numbers = std::array::from_fn(|lane| number * 16 + lane as u32);
        Block { words: [Word { value: [0; LANES], mask: [0; LANES] }; W], numbers }
    }

    /// Few values, so that rules match often; bounds at all distances; some blocks go on with the next one. Answers how often each lane was the first,
    /// none was, and the first was in a block that goes on.
    fn compare<const W: usize>(seed: u64) -> [usize; LANES + 2] {
        let mut next = numbers(seed);
        let mut seen = [0; LANES + 2];
        for _ in 0..200 {
            let mut blocks: Vec<Block<W>> = (0..5).map(block).collect();
            for (n, block) in blocks.iter_mut().enumerate() {
                if n < 4 && next().is_multiple_of(2) {
                    block.numbers[LANES] = GOES_ON | (n as u32 + 1);
                }
                for (n, word) in block.words.iter_mut().enumerate() {
                    for lane in 0..LANES {
                        let is_last = n + 1 == W;
                        word.value[lane] = if is_last { next() } else { next() & 3 };
                        word.mask[lane] = if is_last { next() | next() } else { next() & next() & 3 };
                    }
                }
            }
            let mut keys = [[0; W]; KEYS];
            for key in &mut keys {
                key.iter_mut().enumerate().for_each(|(n, word)| *word = if n + 1 == W { next() } else { next() & 3 });
            }
            // In half the rounds, one block in six is not there.
            let some = 5 + next() % 2;
            let at: [u32; KEYS] = std::array::from_fn(|_| next() % some);
            let count = next() as usize % (KEYS + 1);
            for kernel in Kernel::available() {
                let mut found = [0xee; KEYS];
                first(kernel, &blocks, &at, (&keys, count), &mut found);
                for (i, found) in found.into_iter().enumerate() {
                    let expected = first_from(&blocks, at[i], &keys[i]);
                    assert_eq!(found, if i < count { expected } else { 0xee }, "{kernel} {i} {:?}", keys[i]);
                    if expected != NO_NUMBER {
                        // All blocks in front of that one go on, and it is none of theirs.
                        let behind = (at[i]..expected / 16).map(|n| &blocks[n as usize]);
                        assert!(behind.zip(at[i]..).all(|(block, n)| first_of(block, &keys[i]) == GOES_ON | (n + 1)));
                        seen[if expected / 16 == at[i] { expected as usize % 16 } else { LANES + 1 }] += 1;
                    }
                }
            }
        }
        seen
    }

    #[test]
    fn every_kernel_finds_what_the_portable_one_finds() {
        for seen in [compare::<1>(1), compare::<2>(2), compare::<4>(3), compare::<10>(4)] {
            assert!(seen[0] > 0 && seen[LANES] > 0, "{seen:?}");
        }
        assert!(compare::<4>(5).iter().all(|seen| *seen > 0));
    }

    #[test]
    fn bounds_are_within() {
        let mut block = block::<1>(0);
        block.words[0] = Word { value: [80 << 16 | 1024; LANES], mask: [(u32::from(u16::MAX) - 1024); LANES] };
        let none = LANES as u32;
        for (key, lane) in
            [(80 << 16 | 1024, 0), (80 << 16 | 1023, none), (80 << 16 | 0xffff, 0), (81 << 16 | 1024, none)]
        {
            assert_eq!(first_of(&block, &[key]), lane, "{key:#x}");
        }
    }
}
