//! Second level: the 256 addresses of each /24 that holds longer prefixes.

use std::sync::atomic::{AtomicU32, Ordering};

use weir_mem::prefetch::prefetch_slice;
use weir_mem::{Domain, HugeSlice, arena};

use super::table::Paint;
use crate::free_list::FreeList;

/// Addresses in a group.
pub(crate) const GROUP: usize = 256;
/// Set in a word of the first level that points to a group.
pub(crate) const POINTER: u32 = 1 << 31;

/// The words that readers see.
#[derive(Debug)]
pub(crate) struct Words(HugeSlice<AtomicU32>);

impl Words {
    pub(crate) fn new(groups: u32) -> Result<Self, arena::Error> {
        HugeSlice::new(groups as usize * GROUP).map(Self)
    }

    /// The value of an address in the group that `pointer` points to. 0 for a pointer to nowhere, which is never stored.
    #[inline(always)]
    pub(crate) fn value(&self, pointer: u32, address: u32) -> u32 {
        // Relaxed: the pointer was loaded with acquire, after the group was filled.
        self.0.get(place(pointer, address)).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Asks for the line of an address's value.
    #[inline(always)]
    pub(crate) fn prefetch(&self, pointer: u32, address: u32) {
        prefetch_slice(&self.0, place(pointer, address));
    }

    fn group(&self, group: u32) -> &[AtomicU32] {
        let start = group as usize * GROUP;
        self.0.get(start..start + GROUP).unwrap_or_default()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// Where the value of an address is, below what `pointer` points to.
#[inline(always)]
fn place(pointer: u32, address: u32) -> usize {
    ((pointer & !POINTER) as usize * GROUP) | (address as usize % GROUP)
}

/// What only the writer knows of the groups.
#[derive(Debug)]
pub(crate) struct Groups {
    max: u32,
    /// For each address: 1 + the length of the prefix that its value is from, or 0.
    depths: Vec<u8>,
    /// For each group: how many prefixes longer than /24 it holds.
    prefixes: Vec<u16>,
    numbers: FreeList,
}

impl Groups {
    pub(crate) fn new(max: u32, domain: &Domain) -> Self {
        Self {
            max,
            depths: vec![0; max as usize * GROUP],
            prefixes: vec![0; max as usize],
            numbers: FreeList::new(max, domain),
        }
    }

    /// How many there can be.
    pub(crate) fn max(&self) -> u32 {
        self.max
    }

    /// Whether [`take`](Self::take) will find a group.
    pub(crate) fn has_room(&mut self) -> bool {
        self.numbers.has_any()
    }

    /// A group whose addresses all have the same value; not yet pointed to.
    pub(crate) fn take(&mut self, words: &Words, from: Paint) -> Option<u32> {
        let group = self.numbers.take()?;
        // Relaxed: the pointer to it is stored with release.
        words.group(group).iter().for_each(|word| word.store(from.value, Ordering::Relaxed));
        self.depths_mut(group).fill(from.depth);
        Some(group)
    }

    /// Takes back a group that no word points to any more.
    pub(crate) fn give_back(&mut self, group: u32) {
        self.numbers.give_back(group);
    }

    /// Gives those of some addresses that are at most `limit` deep a new value and depth. `from` and `to` are counted
    /// in the group.
    pub(crate) fn paint(&mut self, words: &Words, group: u32, addresses: (u8, u8), limit: u8, with: Paint) {
        let (from, to) = (usize::from(addresses.0), usize::from(addresses.1));
        let words = words.group(group).iter();
        let both = words.zip(self.depths_mut(group)).take(to + 1).skip(from);
        for (word, depth) in both.filter(|(_, depth)| **depth <= limit) {
            *depth = with.depth;
            // Relaxed: a value stands alone.
            word.store(with.value, Ordering::Relaxed);
        }
    }

    /// How many prefixes longer than /24 a group holds.
    pub(crate) fn prefixes(&self, group: u32) -> u16 {
        self.prefixes.get(group as usize).copied().unwrap_or(0)
    }

    /// Counts a prefix more or less; a /24 has room for 510 of them.
    pub(crate) fn count(&mut self, group: u32, more: i16) {
        if let Some(count) = self.prefixes.get_mut(group as usize) {
            *count = count.saturating_add_signed(more);
        }
    }

    /// Groups in use.
    pub(crate) fn used(&self) -> u32 {
        self.numbers.used()
    }

    /// Groups that wait for readers to pass.
    pub(crate) fn waiting(&self) -> usize {
        self.numbers.waiting()
    }

    /// Bytes held by the writer, about.
    pub(crate) fn bytes(&self) -> usize {
        self.depths.len() + size_of_val(self.prefixes.as_slice()) + self.numbers.bytes()
    }

    fn depths_mut(&mut self, group: u32) -> &mut [u8] {
        let start = group as usize * GROUP;
        self.depths.get_mut(start..start + GROUP).unwrap_or_default()
    }
}
