//! DIR-24-8: the first level is an array with a halfword for each /24, so that a cache line answers for 32 networks side by
//! side.
//!
//! ```text
//!              31 30 29              14 13               0
//!             +-----+------------------+------------------+
//! word        |     |        0         |                  |
//!             +-----+------------------+------------------+
//! halfword     15 14                    13               0
//! ```
//!
//! What a word has between is 0 for values below 16,384, with or without their highest bit, and for as many pointers. Any other
//! word stands in a second array, at the same place, and its halfword says so.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use weir_mem::prefetch::prefetch_slice;
use weir_mem::{Domain, HugeSlice, arena};

use super::table::{ELSEWHERE, First, SLOTS, Table};
use super::{BATCH, Config, Memory, Refused};

/// A table whose lookups are one access to 32 MiB (two below a /24 with longer prefixes, or for values from 16,384 on).
pub type Dir24 = Table<Flat>;

/// A word for each /24.
#[derive(Debug)]
pub struct Flat {
    halves: HugeSlice<AtomicU16>,
    /// The words that do not fit in `halves`. Backed only as far as there are any.
    wholes: HugeSlice<AtomicU32>,
}

/// Bits of a word that a halfword does not have.
const LEFT_OUT: u32 = 0x3fff_c000;
/// From the two highest bits of a halfword to those of a word.
const APART: u32 = 16;

const _: () = assert!(ELSEWHERE & LEFT_OUT == 0, "it has a halfword of its own");

/// The halfword of a word: that of [`ELSEWHERE`], which no word of its own needs, when it does not fit.
#[inline(always)]
fn half(word: u32) -> u16 {
    let word = if word & LEFT_OUT == 0 { word } else { ELSEWHERE };
    (word >> APART | word & !LEFT_OUT) as u16
}

/// The word of a halfword.
#[inline(always)]
fn whole(half: u16) -> u32 {
    let low = !LEFT_OUT as u16 as u32;
    let half = u32::from(half);
    half & low | (half & !low) << APART
}

impl Flat {
    /// The word of a slot whose halfword is known.
    #[inline(always)]
    fn follow(&self, slot: usize, half: u16) -> u32 {
        let word = whole(half);
        if word != ELSEWHERE {
            return word;
        }
        // Acquire, with the release of `store`: a group is seen filled. A newer word than the halfword's own may be here by now.
        self.wholes.get(slot).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Stores a word whose halfword goes to `to`; `elsewhere` counts those that have none.
    fn store(&self, elsewhere: &mut usize, slot: usize, to: &AtomicU16, word: u32) {
        let half = half(word);
        // Relaxed: this is the only writer.
        *elsewhere -= usize::from(whole(to.load(Ordering::Relaxed)) == ELSEWHERE);
        if whole(half) == ELSEWHERE {
            *elsewhere += 1;
            if let Some(place) = self.wholes.get(slot) {
                // Release: a group that it points to was filled before, and a reader may look here already.
                place.store(word, Ordering::Release);
            }
        }
        // Release: so was the group, and so was the word at the other place.
        to.store(half, Ordering::Release);
    }
}

impl First for Flat {
    /// Words that stand in `wholes`.
    type Writer = usize;

    fn new(config: &Config, _: &Domain) -> Result<(Self, usize), arena::Error> {
        let mut flat = Self { halves: HugeSlice::new(SLOTS)?, wholes: HugeSlice::sparse(SLOTS)? };
        flat.halves.iter_mut().for_each(|to| *to.get_mut() = half(config.miss));
        let elsewhere = whole(half(config.miss)) == ELSEWHERE;
        if elsewhere {
            flat.wholes.iter_mut().for_each(|to| *to.get_mut() = config.miss);
        }
        Ok((flat, if elsewhere { SLOTS } else { 0 }))
    }

    #[inline(always)]
    fn prefetch(&self, slot: usize) {
        prefetch_slice(&self.halves, slot);
    }

    #[inline(always)]
    fn word(&self, slot: usize) -> u32 {
        // Acquire, with the release of `store`: a group, or the word at the other place, is seen.
        self.halves.get(slot).map_or(0, |half| self.follow(slot, half.load(Ordering::Acquire)))
    }

    #[inline(always)]
    fn approach(&self, _: &[u32], _: &mut [u32]) {}

    #[inline(always)]
    fn words(&self, addresses: &[u32], words: &mut [u32]) {
        // An array of every slot there can be needs no check of the index.
        let Some(slots) = self.halves.first_chunk::<SLOTS>() else { return };
        let mut halves = [0; BATCH];
        for (half, &address) in halves.iter_mut().zip(addresses) {
            // Acquire: as above.
            *half = slots[address as usize >> 8].load(Ordering::Acquire);
        }
        // Apart from the loads, and as many as there can be, so that it is a few vector instructions.
        let wholes = halves.map(whole);
        match words.first_chunk_mut() {
            Some(words) => *words = wholes,
            None => words.iter_mut().zip(wholes).for_each(|(word, whole)| *word = whole),
        }
    }

    #[inline(always)]
    fn prefetch_elsewhere(&self, slot: usize) {
        prefetch_slice(&self.wholes, slot);
    }

    fn reserve(
        &self,
        _: &mut usize,
        _: RangeInclusive<usize>,
        _: impl FnMut(usize, u32) -> u32,
    ) -> Result<(), Refused> {
        Ok(())
    }

    fn change(&self, elsewhere: &mut usize, slots: RangeInclusive<usize>, mut change: impl FnMut(usize, u32) -> u32) {
        let first = *slots.start();
        let halves = self.halves.get(slots).unwrap_or_default();
        for (slot, half) in (first..).zip(halves) {
            // Relaxed: this is the only writer.
            let old = self.follow(slot, half.load(Ordering::Relaxed));
            let new = change(slot, old);
            if new != old {
                self.store(elsewhere, slot, half, new);
            }
        }
    }

    fn memory(&self, elsewhere: &usize) -> Memory {
        let used = self.halves.bytes() + elsewhere * size_of::<AtomicU32>();
        Memory { lookup: self.halves.bytes() + self.wholes.bytes(), used, ..Memory::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lpm4::MAX_VALUE;
    use crate::lpm4::groups::POINTER;

    #[test]
    fn a_halfword_stands_for_one_word() {
        for bits in 0..=u16::MAX {
            let word = whole(bits);
            assert_eq!(half(word), bits);
            for bit in 14..30 {
                assert_eq!(whole(half(word | 1 << bit)), ELSEWHERE, "{word:#x} with bit {bit}");
            }
        }
        let values = [0, 0x3fff, 1 << 30, 1 << 30 | 0x3fff, POINTER, POINTER | 0x3fff];
        assert_eq!(values.map(|word| whole(half(word))), values);
        let others = [0x4000, MAX_VALUE, 1 << 30 | 0x4000, POINTER | 0x4000, POINTER | 0x00ff_ffff];
        assert_eq!(others.map(|word| whole(half(word))), [ELSEWHERE; 5]);
    }
}
