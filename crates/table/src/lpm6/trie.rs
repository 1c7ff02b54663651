//! What workers look up in.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_mem::prefetch::prefetch_slice;
use weir_mem::{HugeSlice, arena};

use super::link::{Leads, Link, Range, Slot, WORDS};
use super::{BATCH, Lookup6, Walk};

/// The words that readers see.
#[derive(Debug)]
pub struct Trie {
    /// The slot of ::/0, whose value is at least that of a miss.
    root: AtomicU64,
    /// Line after line. The first one is never used, so that it is an array of one slot that leads nowhere.
    words: HugeSlice<AtomicU64>,
}

impl Trie {
    pub(super) fn new(max_lines: u32, miss: u32) -> Result<Trie, arena::Error> {
        let root = AtomicU64::new(Slot::new(Some(miss), Link::NONE).0);
        Ok(Trie { root, words: HugeSlice::new(max_lines as usize * WORDS)? })
    }

    /// The word of the slot of ::/0.
    pub(super) fn root(&self) -> &AtomicU64 {
        &self.root
    }

    /// A line of nodes; none for a link to nowhere, which is never stored.
    #[inline(always)]
    pub(super) fn line(&self, line: u32) -> Option<&[AtomicU64; WORDS]> {
        self.words.get(first_word(line) as usize..)?.first_chunk()
    }

    /// Bytes of memory that lookups may touch.
    pub fn bytes(&self) -> usize {
        self.words.bytes()
    }

    /// A word of a line or of those behind it.
    #[inline(always)]
    pub(super) fn word(&self, line: u32, place: u32) -> Option<&AtomicU64> {
        self.words.get(first_word(line).wrapping_add(place) as usize)
    }

    #[inline(always)]
    fn first(&self) -> Slot {
        // Acquire, here and below: a node is seen filled.
        Slot(self.root.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn slot(&self, word: u32) -> Slot {
        Slot(self.words.get(word as usize).map_or(0, |word| word.load(Ordering::Acquire)))
    }

    /// From a step that leads to an array, the next one, which is asked for. Others stay. There is no branch in it: which way it
    /// goes is random. `top` answers the bits of the address behind a depth, as many as it can.
    #[inline(always)]
    fn step(&self, from: Step, top: impl Fn(u8) -> u64) -> Step {
        let is_bucket = from.slot.link().is_bucket();
        let next = self.slot(from.word).or(from.slot);
        let slot = if is_bucket { from.slot } else { next };
        let depth = if is_bucket { from.depth } else { from.next_depth() };
        let to = Step::at(slot, depth, top(depth));
        prefetch_slice(&self.words, to.word as usize);
        to
    }

    /// The lower half of the last range of a bucket that begins at an address or before it, of which these are the bits.
    #[inline(always)]
    fn range(&self, link: Link, top: u64) -> Range {
        let Some(words) = self.line(link.line()) else { return Range(0) };
        // Relaxed: whoever has come here has seen the line filled, and it does not change.
        let load = |at: usize| words[at % WORDS].load(Ordering::Relaxed);
        let last = top | u64::from(u32::MAX);
        let mut at = usize::from(load(4) <= last) * 4;
        at += usize::from(load(at + 2) <= last) * 2;
        at += usize::from(load(at + 1) <= last);
        Range(load(at))
    }

    /// Goes on with these lookups until none leads to an array.
    #[inline(always)]
    fn pass_arrays(&self, addresses: &[u128], walk: &mut Walk, of: u64) {
        let mut arrays = 0_u64;
        for at in 0..BATCH {
            arrays |= u64::from(walk.get(at).slot.link().is_array()) << at;
        }
        arrays &= of;
        while arrays != 0 {
            let mut further = 0_u64;
            for at in places(arrays) {
                let Some(&address) = addresses.get(at) else { continue };
                let step = self.step(walk.get(at), |depth| top(address, depth));
                walk.set(at, step);
                further |= u64::from(step.slot.link().is_array()) << at;
            }
            arrays = further;
        }
    }

    /// Goes on with these lookups, whose buckets lead on, up to the next buckets. Answers which of these lead on.
    #[inline(never)]
    fn go_on(&self, addresses: &[u128], walk: &mut Walk, values: &mut [u32], of: u64) -> u64 {
        for at in places(of) {
            if let Some(&address) = addresses.get(at) {
                walk.set(at, self.enter(walk.get(at), address));
            }
        }
        self.pass_arrays(addresses, walk, of);
        let mut deeper = 0;
        for at in places(of) {
            let (Some(&address), Some(value)) = (addresses.get(at), values.get_mut(at)) else { continue };
            let (found, leads_on) = self.value(walk.get(at), address);
            *value = found;
            deeper |= u64::from(leads_on) << at;
        }
        deeper
    }

    /// The value of an address whose last step leads to a bucket or nowhere, and whether the bucket leads on instead.
    #[inline(always)]
    fn value(&self, at: Step, address: u128) -> (u32, bool) {
        // Those that have no bucket look into the first line, whose answer is not taken.
        let (slot, link) = (at.slot, at.slot.link());
        let range = self.range(link, top(address, at.depth));
        let value = if link.is_bucket() & range.has_value() { range.value() } else { slot.value() };
        (value, link.is_bucket() & range.leads_on())
    }

    /// From a step that leads to a bucket, that behind its range.
    #[inline(always)]
    fn enter(&self, from: Step, address: u128) -> Step {
        let (slot, depth) = match self.range(from.slot.link(), top(address, from.depth)).leads() {
            Leads::Nowhere => (from.slot.with_link(Link::NONE), from.depth),
            Leads::Value(value) => (Slot::new(Some(value), Link::NONE), from.depth),
            Leads::Slot { line, bits } => (self.slot(first_word(line)).or(from.slot), from.depth.wrapping_add(bits)),
        };
        let to = Step::at(slot, depth, top(address, depth));
        prefetch_slice(&self.words, to.word as usize);
        to
    }
}

/// The first word of a line.
#[inline(always)]
const fn first_word(line: u32) -> u32 {
    line.wrapping_mul(WORDS as u32)
}

/// The bits of an address behind the first `depth`, 64 at most, from the highest one on.
#[inline(always)]
const fn top(address: u128, depth: u8) -> u64 {
    let (high, low) = ((address >> 64) as u64, address as u64);
    let shift = depth & 63;
    if depth < 64 { high << shift | low >> 1 >> (63 - shift) } else { low << shift }
}

/// How far a lookup has come.
#[derive(Clone, Copy)]
struct Step {
    /// The last slot, with the last value.
    slot: Slot,
    /// The word that it leads to.
    word: u32,
    /// Bits of the address that led to it.
    depth: u8,
}

impl Step {
    #[inline(always)]
    const fn at(slot: Slot, depth: u8, top: u64) -> Step {
        let link = slot.link();
        // In two steps: no bits at all are a shift by 64.
        let place = (top >> 1 >> (63 - link.bits())) as u32;
        Step { slot, word: first_word(link.line()).wrapping_add(place), depth }
    }

    #[inline(always)]
    const fn next_depth(self) -> u8 {
        self.depth.wrapping_add(self.slot.link().bits())
    }
}

/// The places of the bits that are set, from the lowest on.
#[inline(always)]
fn places(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (mask != 0).then_some(mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        lowest
    })
}

impl Walk {
    #[inline(always)]
    fn get(&self, at: usize) -> Step {
        let at = at % BATCH;
        Step { slot: Slot(self.slots[at]), word: self.words[at], depth: self.depths[at] }
    }

    #[inline(always)]
    fn set(&mut self, at: usize, step: Step) {
        let at = at % BATCH;
        (self.slots[at], self.words[at], self.depths[at]) = (step.slot.0, step.word, step.depth);
    }
}

impl Lookup6 for Trie {
    #[inline(always)]
    fn prefetch(&self, address: u128) {
        prefetch_slice(&self.words, Step::at(self.first(), 0, top(address, 0)).word as usize);
    }

    #[inline]
    fn lookup(&self, address: u128) -> u32 {
        let mut at = Step::at(self.first(), 0, top(address, 0));
        while !at.slot.link().is_none() {
            let is_bucket = at.slot.link().is_bucket();
            at = if is_bucket { self.enter(at, address) } else { self.step(at, |depth| top(address, depth)) };
        }
        at.slot.value()
    }

    // Always, as below too, so that it is compiled for what the caller's kernel has.
    #[inline(always)]
    fn approach(&self, addresses: &[u128], walk: &mut Walk) {
        let first = self.first();
        if first.link().is_bucket() {
            // Few prefixes, or all begin alike.
            for (at, &address) in addresses.iter().take(BATCH).enumerate() {
                walk.set(at, self.enter(Step::at(first, 0, top(address, 0)), address));
            }
            return;
        }
        for (at, &address) in addresses.iter().take(BATCH).enumerate() {
            let high = top(address, 0);
            walk.set(at, self.step(Step::at(first, 0, high), |depth| high << depth));
        }
    }

    #[inline(always)]
    fn advance(&self, addresses: &[u128], walk: &mut Walk) {
        for (at, &address) in addresses.iter().take(BATCH).enumerate() {
            let high = top(address, 0);
            // A bucket and an array, or two, tell at most 48 bits apart, and what is asked for is an array of 16 more at most.
            walk.set(at, self.step(walk.get(at), |depth| high << (depth & 63)));
        }
    }

    #[inline(always)]
    fn finish(&self, addresses: &[u128], walk: &mut Walk, values: &mut [u32]) {
        let count = addresses.len().min(values.len()).min(BATCH);
        let (Some(addresses), Some(values)) = (addresses.get(..count), values.get_mut(..count)) else { return };
        self.pass_arrays(addresses, walk, u64::MAX >> (BATCH - count.max(1)));
        let (mut deeper, mut at) = (0_u64, 0);
        for (&address, value) in addresses.iter().zip(values.iter_mut()) {
            let (found, leads_on) = self.value(walk.get(at), address);
            *value = found;
            deeper |= u64::from(leads_on) << at;
            at += 1;
        }
        while deeper != 0 {
            deeper = self.go_on(addresses, walk, values, deeper);
        }
    }
}
