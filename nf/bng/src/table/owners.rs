//! Which worker has the subscriber behind a pair of tags, or a GRE key: a byte each, for balancers.
//!
//! A balancer looks at nearly nothing else, so that what it touches stays in a cache that is near: 64 KiB of 65,536 subscribers with one
//! byte each. Whoever is not known belongs to worker 0, which drops what is nobody's by name.

use std::sync::atomic::{AtomicU8, Ordering};

use weir_mem::prefetch::prefetch_slice;
use weir_mem::{HugeSlice, arena};

/// The fewest and the most keys that have a byte or a word of their own: those below. Others are looked up with their addresses.
const LEAST_KEYS: usize = 1 << 16;
const MOST_KEYS: usize = 1 << 22;

/// How many keys have one, of so many subscribers.
pub(super) fn words_of_keys(subscribers: u32) -> usize {
    (subscribers as usize * 4).next_power_of_two().clamp(LEAST_KEYS, MOST_KEYS)
}

/// Owners as balancers see them, and the control side writes them.
pub(super) struct OwnerBytes {
    /// As the words of CVLANs lie.
    cvlans: HugeSlice<AtomicU8>,
    keys: HugeSlice<AtomicU8>,
}

impl OwnerBytes {
    /// For so many words of CVLANs, and about as many keys as subscribers. Empty if nobody balances.
    pub(super) fn new(is_balanced: bool, cvlans: usize, subscribers: u32) -> Result<OwnerBytes, arena::Error> {
        let count = |count: usize| if is_balanced { count } else { 0 };
        let keys = words_of_keys(subscribers);
        Ok(OwnerBytes { cvlans: HugeSlice::new(count(cvlans))?, keys: HugeSlice::new(count(keys))? })
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, at: u32) {
        prefetch_slice(&self.cvlans, at as usize);
    }

    #[inline(always)]
    pub(super) fn by_tags(&self, at: u32) -> u8 {
        // Nothing else is read by what it says.
        self.cvlans.get(at as usize).map_or(0, |byte| byte.load(Ordering::Relaxed))
    }

    /// Whether a key has a byte of its own; it is asked for then.
    #[inline(always)]
    pub(super) fn prefetch_key(&self, key: u32) -> bool {
        prefetch_slice(&self.keys, key as usize);
        (key as usize) < self.keys.len()
    }

    #[inline(always)]
    pub(super) fn by_key(&self, key: u32) -> u8 {
        self.keys.get(key as usize).map_or(0, |byte| byte.load(Ordering::Relaxed))
    }

    pub(super) fn set_tags(&self, at: usize, owner: u8) {
        self.cvlans.get(at).into_iter().for_each(|byte| byte.store(owner, Ordering::Relaxed));
    }

    pub(super) fn set_key(&self, key: u32, owner: u8) {
        self.keys.get(key as usize).into_iter().for_each(|byte| byte.store(owner, Ordering::Relaxed));
    }

    pub(super) fn bytes(&self) -> usize {
        self.cvlans.bytes() + self.keys.bytes()
    }
}
