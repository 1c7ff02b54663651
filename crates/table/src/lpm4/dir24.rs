//! DIR-24-8: the first level is an array of a word for each /24.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_mem::prefetch::prefetch_slice;
use weir_mem::{Domain, HugeSlice, arena};

use super::table::{First, SLOTS, Table};
use super::{Config, Memory, Refused};

/// A table whose lookups are one access to 64 MiB (two below a /24 with longer prefixes).
pub type Dir24 = Table<Flat>;

/// A word for each /24.
#[derive(Debug)]
pub struct Flat(HugeSlice<AtomicU32>);

impl First for Flat {
    type Writer = ();

    fn new(config: &Config, _: &Domain) -> Result<(Self, ()), arena::Error> {
        let mut words = HugeSlice::<AtomicU32>::new(SLOTS)?;
        words.iter_mut().for_each(|word| *word.get_mut() = config.miss);
        Ok((Self(words), ()))
    }

    #[inline(always)]
    fn prefetch(&self, slot: usize) {
        prefetch_slice(&self.0, slot);
    }

    #[inline(always)]
    fn word(&self, slot: usize) -> u32 {
        // Acquire, with the release of `change`: a group is seen filled.
        self.0.get(slot).map_or(0, |word| word.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn approach(&self, _: &[u32], _: &mut [u32]) {}

    #[inline(always)]
    fn words(&self, addresses: &[u32], words: &mut [u32]) {
        // An array of every slot there can be needs no check of the index.
        let Some(slots) = self.0.first_chunk::<SLOTS>() else { return };
        for (word, &address) in words.iter_mut().zip(addresses) {
            // Acquire: as above.
            *word = slots[address as usize >> 8].load(Ordering::Acquire);
        }
    }

    fn reserve(&self, (): &mut (), _: RangeInclusive<usize>, _: impl FnMut(usize, u32) -> u32) -> Result<(), Refused> {
        Ok(())
    }

    fn change(&self, (): &mut (), slots: RangeInclusive<usize>, mut change: impl FnMut(usize, u32) -> u32) {
        let first = *slots.start();
        let words = self.0.get(slots).unwrap_or_default();
        for (slot, word) in (first..).zip(words) {
            // Relaxed: this is the only writer.
            let old = word.load(Ordering::Relaxed);
            let new = change(slot, old);
            if new != old {
                // Release: a group that it points to was filled before.
                word.store(new, Ordering::Release);
            }
        }
    }

    fn memory(&self, (): &()) -> Memory {
        Memory { lookup: self.0.bytes(), used: self.0.bytes(), ..Memory::default() }
    }
}
