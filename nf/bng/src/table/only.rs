//! GRE keys with exactly one IPv4 address, as most subscribers have: a word each, which leads to its binding without a hash.
//!
//! Keys are dense, so that the words of 65,536 subscribers fill 512 KiB. Keys with several addresses, and those from the bound on,
//! lead nowhere here: they are looked up with their addresses, which is what is certain in any case.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_mem::prefetch::prefetch_slice;
use weir_mem::{HugeSlice, arena};

use super::Found;
use super::owners::words_of_keys;

/// What workers read.
pub(super) struct OnlyWords(HugeSlice<AtomicU64>);

impl OnlyWords {
    #[inline(always)]
    pub(super) fn prefetch(&self, key: u32) {
        prefetch_slice(&self.0, key as usize);
    }

    #[inline(always)]
    pub(super) fn get(&self, key: u32) -> Found {
        // Acquire: the record is seen whole.
        self.0.get(key as usize).map_or(Found::NONE, |word| Found(word.load(Ordering::Acquire)))
    }

    fn set(&self, key: u32, found: Found) {
        // Release: the record was written before.
        self.0.get(key as usize).into_iter().for_each(|word| word.store(found.0, Ordering::Release));
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// How many IPv4 addresses each key has that has a word. The control side counts.
pub(super) struct Only {
    counts: Vec<u32>,
}

impl Only {
    /// For about as many keys as subscribers. Empty if there are no keys.
    pub(super) fn new(has_keys: bool, subscribers: u32) -> Result<(Only, OnlyWords), arena::Error> {
        let count = if has_keys { words_of_keys(subscribers) } else { 0 };
        Ok((Only { counts: vec![0; count] }, OnlyWords(HugeSlice::new(count)?)))
    }

    /// An address was given to a key.
    pub(super) fn added(&mut self, words: &OnlyWords, key: u32, found: Found) {
        if let Some(count) = self.counts.get_mut(key as usize) {
            *count += 1;
            words.set(key, if *count == 1 { found } else { Found::NONE });
        }
    }

    /// An address of a key has another record. One that was left alone is known from then on.
    pub(super) fn replaced(&self, words: &OnlyWords, key: u32, found: Found) {
        if self.counts.get(key as usize) == Some(&1) {
            words.set(key, found);
        }
    }

    /// An address was taken from a key. If one is left, it is looked up until it is set again.
    pub(super) fn removed(&mut self, words: &OnlyWords, key: u32) {
        if let Some(count) = self.counts.get_mut(key as usize) {
            *count -= 1;
            words.set(key, Found::NONE);
        }
    }
}
