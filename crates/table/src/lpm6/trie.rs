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
    /// Line after line. The first one is a bucket in which no prefix ends, for lookups that have no other bucket.
    words: HugeSlice<AtomicU64>,
}

impl Trie {
    pub(super) fn new(max_lines: u32, miss: u32) -> Result<Trie, arena::Error> {
        let root = AtomicU64::new(Slot::new(Some(miss), Link::NONE).0);
        let trie = Trie { root, words: HugeSlice::new(max_lines as usize * WORDS)? };
        for word in trie.line(Link::NONE.line()).into_iter().flatten() {
            word.store(Range::NOWHERE.0, Ordering::Relaxed);
        }
        Ok(trie)
    }

    /// The word of the slot of ::/0.
    pub(super) fn root(&self) -> &AtomicU64 {
        &self.root
    }

    /// A line of nodes.
    pub(super) fn line(&self, line: u32) -> Option<&[AtomicU64; WORDS]> {
        self.words().line(line)
    }

    /// Bytes of memory that lookups may touch.
    pub fn bytes(&self) -> usize {
        self.words.bytes()
    }

    /// A word of a line or of those behind it.
    pub(super) fn word(&self, line: u32, place: u32) -> Option<&AtomicU64> {
        self.words.get(first_word(line).wrapping_add(place) as usize)
    }

    /// The slots of an array.
    pub(super) fn slots(&self, line: u32, bits: u8) -> &[AtomicU64] {
        let first = first_word(line) as usize;
        self.words.get(first..first + (1 << bits)).unwrap_or_default()
    }

    #[inline(always)]
    fn first(&self) -> Slot {
        // Acquire, here and below: a node is seen filled.
        Slot(self.root.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn words(&self) -> Words<'_> {
        Words(&self.words)
    }
}

/// The words as who looks up holds them: behind a reference, the compiler would fetch where they are with each of them.
#[derive(Clone, Copy)]
struct Words<'t>(&'t [AtomicU64]);

impl<'t> Words<'t> {
    #[inline(always)]
    fn line(self, line: u32) -> Option<&'t [AtomicU64; WORDS]> {
        self.0.as_chunks().0.get(line as usize)
    }

    #[inline(always)]
    fn slot(self, word: u32) -> Slot {
        Slot(self.0.get(word as usize).map_or(0, |word| word.load(Ordering::Acquire)))
    }

    #[inline(always)]
    fn prefetch(self, word: u32) {
        prefetch_slice(self.0, word as usize);
    }

    /// The step to a slot that so many bits of an address lead to; what it leads to is asked for.
    #[inline(always)]
    fn at(self, slot: Slot, depth: u8, address: u128) -> Step {
        let to = Step::at(slot, depth, top(address, depth));
        self.prefetch(to.word);
        to
    }

    /// From a step that leads to an array, the next one.
    #[inline(always)]
    fn step(self, from: Step, address: u128) -> Step {
        let (slot, bits) = (self.slot(from.word).or(from.slot), from.slot.link().bits());
        self.at(slot, from.depth.wrapping_add(bits), address)
    }

    /// The next step of lookups that lead to arrays, so many; others stay. No bits behind the 64th are looked at. All words are loaded,
    /// then all is reckoned, which the compiler makes vectors of, then all is asked for.
    #[inline(always)]
    fn step_all(self, walk: &mut Walk, count: usize) {
        let mut nexts = [0; BATCH];
        for (next, word) in nexts.iter_mut().zip(&walk.words).take(count) {
            *next = self.slot(*word).0;
        }
        for (at, next) in nexts.iter().enumerate() {
            let from = walk.get(at);
            let (slot, bits) = from.passed(Slot(*next));
            walk.set(at, Step::at(slot, from.depth.wrapping_add(bits), from.top << bits));
        }
        for word in walk.words.iter().take(count) {
            self.prefetch(*word);
        }
    }

    /// The last range of a bucket that begins at an address or before it, of which these are the bits.
    #[inline(always)]
    fn range(self, link: Link, top: u64) -> Range {
        let Some(words) = self.line(link.line()) else { return Range::NOWHERE };
        // Relaxed: whoever has come here has seen the line filled, and it does not change.
        let load = |at: usize| words[at % WORDS].load(Ordering::Relaxed);
        let last = top | u64::from(u32::MAX);
        let mut at = usize::from(load(4) <= last) * 4;
        at += usize::from(load(at + 2) <= last) * 2;
        at += usize::from(load(at + 1) <= last);
        Range(load(at))
    }

    /// From a slot that leads to an index, one that leads to the bucket, which is asked for.
    #[inline(always)]
    fn choose(self, slot: Slot, top: u64) -> Slot {
        let index = slot.link().line();
        let Some(words) = self.line(index) else { return slot };
        // Relaxed, as above.
        let load = |at: usize| words[at % WORDS].load(Ordering::Relaxed);
        let (first, bits) = (top & !u64::from(u32::MAX), (top >> 32) as u32);
        let mut at = usize::from(load(4) < first) * 4;
        at += usize::from(load(at + 2) < first) * 2;
        at += usize::from(load(at + 1) < first);
        // Of the two that the word is about, the second one if what is before it is before the address.
        let bucket = 2 * at as u32 + u32::from((load(at) as u32) < bits);
        let line = index.wrapping_add(1 + bucket);
        self.prefetch(first_word(line));
        slot.with_link(Link::bucket(line))
    }

    /// From a step that leads to a bucket, that behind its range.
    #[inline(always)]
    fn enter(self, from: Step, address: u128) -> Step {
        self.follow(from, self.range(from.slot.link(), from.top), address)
    }

    /// From a step that leads to a bucket, that behind this range of it.
    #[inline(always)]
    fn follow(self, from: Step, range: Range, address: u128) -> Step {
        let (slot, depth) = match range.leads() {
            Leads::Nowhere => (from.slot.with_link(Link::NONE), from.depth),
            Leads::Value(value) => (Slot::new(Some(value), Link::NONE), from.depth),
            Leads::Slot { line, bits } => (self.slot(first_word(line)).or(from.slot), from.depth.wrapping_add(bits)),
        };
        self.at(slot, depth, address)
    }

    /// The next step, behind a bucket also where an index leads to it.
    #[inline(always)]
    fn step_or_enter(self, from: Step, address: u128) -> Step {
        let link = from.slot.link();
        if link.is_array() {
            return self.step(from, address);
        }
        let slot = if link.is_index() { self.choose(from.slot, from.top) } else { from.slot };
        self.enter(Step { slot, ..from }, address)
    }

    /// The value of a lookup that has come so far.
    #[inline(always)]
    fn go_on(self, mut at: Step, address: u128) -> u32 {
        while !at.slot.link().is_none() {
            at = self.step_or_enter(at, address);
        }
        at.slot.value()
    }

    /// Goes on with these lookups until none leads to an array. Answers which of them lead to indexes.
    #[inline(always)]
    fn pass_arrays(self, addresses: &[u128], walk: &mut Walk, arrays: u64) -> u64 {
        let mut queue = Queue { places: [0; BATCH], first: 0, end: 0, indexes: 0 };
        for at in places(arrays) {
            self.pass_array(addresses, walk, at, &mut queue);
        }
        while let Some(at) = queue.next() {
            self.pass_array(addresses, walk, at, &mut queue);
        }
        queue.indexes
    }

    #[inline(always)]
    fn pass_array(self, addresses: &[u128], walk: &mut Walk, at: usize, queue: &mut Queue) {
        let step = self.step(walk.get(at), addresses.get(at).copied().unwrap_or(0));
        walk.set(at, step);
        queue.put(at, step.slot.link());
    }

    /// Goes on with these lookups, which lead to indexes, to buckets.
    #[inline(always)]
    fn pass_indexes(self, walk: &mut Walk, indexes: u64) {
        for at in places(indexes) {
            let slot = &mut walk.slots[at % BATCH];
            *slot = self.choose(Slot(*slot), walk.tops[at % BATCH]).0;
        }
    }

    /// The lower halves of the ranges of lookups that lead to buckets, or nowhere.
    #[inline(always)]
    fn ranges(self, walk: &Walk, count: usize) -> [u32; BATCH] {
        let mut ranges = [0; BATCH];
        for ((range, slot), top) in ranges.iter_mut().zip(&walk.slots).zip(&walk.tops).take(count) {
            *range = self.range(Slot(*slot).link(), *top).0 as u32;
        }
        ranges
    }

    /// Goes on with these lookups, whose ranges lead on, up to the next ranges and their values. Answers which of these lead on.
    #[inline(never)]
    fn go_far(
        self,
        addresses: &[u128],
        walk: &mut Walk,
        ranges: &mut [u32; BATCH],
        values: &mut [u32],
        of: u64,
    ) -> u64 {
        let (mut arrays, mut indexes, mut deeper) = (0, 0, 0);
        for at in places(of) {
            let address = addresses.get(at).copied().unwrap_or(0);
            let step = self.follow(walk.get(at), Range(u64::from(ranges[at % BATCH])), address);
            walk.set(at, step);
            arrays |= u64::from(step.slot.link().is_array()) << at;
            indexes |= u64::from(step.slot.link().is_index()) << at;
        }
        indexes |= self.pass_arrays(addresses, walk, arrays);
        self.pass_indexes(walk, indexes);
        for at in places(of) {
            let step = walk.get(at);
            let range = self.range(step.slot.link(), step.top);
            ranges[at % BATCH] = range.0 as u32;
            if let Some(value) = values.get_mut(at) {
                *value = range.value_or(step.slot);
            }
            deeper |= u64::from(range.leads_on()) << at;
        }
        deeper
    }
}

/// Lookups that lead to arrays, in the order in which they came to them: there is no end of a round to be guessed.
struct Queue {
    /// Each is here once.
    places: [u8; BATCH],
    first: usize,
    end: usize,
    /// Those that came to indexes.
    indexes: u64,
}

impl Queue {
    /// Puts in a lookup if this link leads to an array, without a branch: that is random.
    #[inline(always)]
    fn put(&mut self, at: usize, link: Link) {
        self.places[self.end % BATCH] = at as u8;
        self.end += usize::from(link.is_array());
        self.indexes |= u64::from(link.is_index()) << at;
    }

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let next = (self.first < self.end).then(|| usize::from(self.places[self.first % BATCH]));
        self.first += 1;
        next
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
    let (high, low) = if depth < 64 { (high, low) } else { (low, 0) };
    let shift = depth & 63;
    high << shift | low >> 1 >> (63 - shift)
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
    /// The bits behind these, 32 at least.
    top: u64,
}

impl Step {
    #[inline(always)]
    const fn at(slot: Slot, depth: u8, top: u64) -> Step {
        let link = slot.link();
        // In two steps: no bits at all are a shift by 64.
        let place = (top >> 1 >> (63 - link.bits())) as u32;
        Step { slot, word: first_word(link.line()).wrapping_add(place), depth, top }
    }

    /// The slot behind this step and how many bits further it is, if it leads to an array, whose word this is; else it stays.
    #[inline(always)]
    const fn passed(self, next: Slot) -> (Slot, u8) {
        let link = self.slot.link();
        let is_array = link.is_array();
        let next = next.or(self.slot);
        let slot = if is_array { next } else { self.slot };
        let bits = if is_array { link.bits() } else { 0 };
        (slot, bits)
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

/// Which of these leads on.
#[inline(always)]
fn leading_on(ranges: &[u32]) -> u64 {
    let mut leading = 0;
    for (at, range) in ranges.iter().enumerate().take(BATCH) {
        leading |= u64::from(Range(u64::from(*range)).leads_on()) << at;
    }
    leading
}

impl Walk {
    #[inline(always)]
    fn get(&self, at: usize) -> Step {
        let at = at % BATCH;
        Step { slot: Slot(self.slots[at]), word: self.words[at], depth: self.depths[at], top: self.tops[at] }
    }

    #[inline(always)]
    fn set(&mut self, at: usize, step: Step) {
        let at = at % BATCH;
        (self.slots[at], self.words[at], self.depths[at]) = (step.slot.0, step.word, step.depth);
        self.tops[at] = step.top;
    }

    /// Starts at the slot of ::/0, without the lower halves of addresses.
    #[inline(always)]
    fn start(&mut self, first: Slot, addresses: &[u128]) {
        for (top, address) in self.tops.iter_mut().zip(addresses) {
            *top = (*address >> 64) as u64;
        }
        for at in 0..BATCH {
            self.set(at, Step::at(first, 0, self.tops[at]));
        }
    }

    /// Of the first lookups, so many, those that lead to arrays, and those that lead to indexes.
    #[inline(always)]
    fn kinds(&self, count: usize) -> (u64, u64) {
        let (mut arrays, mut indexes) = (0_u64, 0_u64);
        for (at, slot) in self.slots.iter().enumerate().take(count) {
            let link = Slot(*slot).link();
            arrays |= u64::from(link.is_array()) << at;
            indexes |= u64::from(link.is_index()) << at;
        }
        (arrays, indexes)
    }

    /// Writes the values of lookups with these ranges.
    #[inline(always)]
    fn answer(&self, ranges: &[u32; BATCH], values: &mut [u32]) {
        for (value, (range, slot)) in values.iter_mut().zip(ranges.iter().zip(&self.slots)) {
            *value = Range(u64::from(*range)).value_or(Slot(*slot));
        }
    }
}

impl Lookup6 for Trie {
    #[inline(always)]
    fn prefetch(&self, address: u128) {
        self.words().prefetch(Step::at(self.first(), 0, top(address, 0)).word);
    }

    #[inline]
    fn lookup(&self, address: u128) -> u32 {
        self.words().go_on(Step::at(self.first(), 0, top(address, 0)), address)
    }

    // Always, as below too, so that it is compiled for what the caller's kernel has.
    #[inline(always)]
    fn approach(&self, addresses: &[u128], walk: &mut Walk) {
        let (first, words) = (self.first(), self.words());
        walk.is_even = first.link().is_array() && addresses.len() >= walk.even_from;
        if walk.is_even {
            walk.start(first, addresses);
            words.step_all(walk, addresses.len());
            return;
        }
        for (at, &address) in addresses.iter().take(BATCH).enumerate() {
            walk.set(at, words.step_or_enter(Step::at(first, 0, top(address, 0)), address));
        }
    }

    #[inline(always)]
    fn advance(&self, addresses: &[u128], walk: &mut Walk) {
        let words = self.words();
        if walk.is_even {
            // Two arrays tell 32 bits apart at most, and as many are left of 64 for a bucket.
            words.step_all(walk, addresses.len());
            return;
        }
        for (at, &address) in addresses.iter().take(BATCH).enumerate() {
            let from = walk.get(at);
            let (slot, bits) = from.passed(words.slot(from.word));
            walk.set(at, words.at(slot, from.depth.wrapping_add(bits), address));
        }
    }

    #[inline(always)]
    fn finish(&self, addresses: &[u128], walk: &mut Walk, values: &mut [u32]) {
        let count = addresses.len().min(values.len()).min(BATCH);
        let (Some(addresses), Some(values)) = (addresses.get(..count), values.get_mut(..count)) else { return };
        let words = self.words();
        let (arrays, mut indexes) = walk.kinds(count);
        indexes |= words.pass_arrays(addresses, walk, arrays);
        words.pass_indexes(walk, indexes);
        let mut ranges = words.ranges(walk, count);
        walk.answer(&ranges, values);
        let mut deeper = leading_on(ranges.get(..count).unwrap_or_default());
        while deeper != 0 {
            deeper = words.go_far(addresses, walk, &mut ranges, values, deeper);
        }
    }
}
