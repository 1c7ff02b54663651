//! Softwires by address and PSID in one array, for tables whose addresses lie close to each other and are all divided alike, as those of most
//! providers are: a look-up reads one word in place of computing a hash and searching a bucket.
//!
//! The array has room for twice as many softwires as the table. What does not fit in it, or is divided in several ways, is looked up in the index
//! alone, which always has everything. The array may be behind the index for a while, or of other addresses than a reader thinks: what it answers is
//! compared with the record, as what the index answers is.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weir_mem::prefetch::prefetch_slice;
use weir_mem::{HugeSlice, arena};
use weir_wire::port_sets::PortSets;

use super::{Key, NOWHERE};

/// What workers look up in.
pub(crate) struct Dense {
    /// A place and 1; 0 where there is no softwire.
    words: HugeSlice<AtomicU32>,
    /// [`IN_USE`], and the address that the array begins with; 0 while nothing is to be looked up.
    first: AtomicU64,
}

const IN_USE: u64 = 1 << 32;

/// The array as it is during a batch.
#[derive(Clone, Copy)]
pub(crate) struct DenseView<'t> {
    words: &'t [AtomicU32],
    first: u32,
    length: u32,
}

impl Dense {
    pub(super) fn new(softwires: u32) -> Result<Dense, arena::Error> {
        Ok(Dense { words: HugeSlice::new(2 * softwires as usize)?, first: AtomicU64::new(0) })
    }

    /// What there is to look up in, if all addresses are divided like this.
    #[inline(always)]
    pub(super) fn view(&self, sets: PortSets) -> Option<DenseView<'_>> {
        let first = self.first.load(Ordering::Acquire);
        let view = DenseView { words: &self.words, first: first as u32, length: sets.length().into() };
        (first != 0).then_some(view)
    }
}

impl DenseView<'_> {
    /// Where a part stands; nowhere if that is behind the end.
    #[inline(always)]
    pub(crate) fn position(self, ipv4: u32, psid: u16) -> u64 {
        u64::from(ipv4.wrapping_sub(self.first)) << self.length | u64::from(psid)
    }

    /// Asks for the line that a [look-up](Self::place) reads.
    #[inline(always)]
    pub(crate) fn prefetch(self, position: u64) {
        prefetch_slice(self.words, position as usize);
    }

    /// The place of the record of the part at a position, most probably; a place that there is not if there is none.
    #[inline(always)]
    pub(crate) fn place(self, position: u64) -> u32 {
        let Some(word) = self.words.get(position as usize) else { return NOWHERE };
        // Pairs with the release of the writer: the record that the word leads to is seen whole.
        word.load(Ordering::Acquire).wrapping_sub(1)
    }
}

const _: () = assert!(NOWHERE == 0_u32.wrapping_sub(1));

/// What the control side knows of the array.
#[derive(Debug, Default)]
pub(super) struct Filling {
    /// How ports of all addresses in it are divided, and the address that it begins with, while it is looked up in.
    shape: Option<(PortSets, u32)>,
    /// Words that were written since it was empty.
    written: Range<usize>,
    /// Changes of the table since it was filled: it is filled anew when there were as many as it takes look-ups, so that filling costs each change no
    /// more than one.
    changes: usize,
}

impl Filling {
    /// A softwire has this place now; `None`: it is gone.
    pub(super) fn change(&mut self, dense: &Dense, key: Key, place: Option<u32>) {
        self.changes += 1;
        self.write(dense, key, place);
    }

    /// The same, of what there was before.
    pub(super) fn write(&mut self, dense: &Dense, key: Key, place: Option<u32>) {
        let Some((sets, first)) = self.shape else { return };
        let view = DenseView { words: &dense.words, first, length: sets.length().into() };
        let at = view.position(key.ipv4.to_bits(), key.psid) as usize;
        if let Some(word) = dense.words.get(at) {
            word.store(place.map_or(0, |place| place + 1), Ordering::Release);
            self.written = if self.written.is_empty() {
                at..at + 1
            } else {
                self.written.start.min(at)..self.written.end.max(at + 1)
            };
        }
    }

    /// The table has addresses from `range.0` to `range.1`, all divided like `sets`, or in several ways, or none. Answers whether the array has to be
    /// filled with all that there is, which takes `cost` look-ups: it is empty then, and looked up in when that has been [done](Self::filled).
    pub(super) fn fit(&mut self, dense: &Dense, sets: Option<PortSets>, range: (u32, u32), cost: usize) -> bool {
        let fits = |sets: PortSets, first: u32| {
            let room = (dense.words.len() >> sets.length()) as u64;
            first <= range.0 && u64::from(range.1 - first) < room
        };
        if let Some((old, first)) = self.shape {
            if sets == Some(old) && range.0 <= range.1 && fits(old, first) {
                return false;
            }
            dense.first.store(0, Ordering::Release);
            self.shape = None;
        }
        let Some(sets) = sets.filter(|_| range.0 <= range.1 && self.changes >= cost) else { return false };
        // As much room on both sides: there may be more addresses on either.
        let room = u32::try_from(dense.words.len() >> sets.length()).unwrap_or(u32::MAX);
        let first = range.0.saturating_sub(room.saturating_sub(range.1 - range.0) / 2);
        if !fits(sets, first) {
            return false;
        }
        let written = dense.words.get(std::mem::take(&mut self.written)).unwrap_or_default();
        written.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        (self.shape, self.changes) = (Some((sets, first)), 0);
        true
    }

    /// The array has all that there is.
    pub(super) fn filled(&self, dense: &Dense) {
        if let Some((_, first)) = self.shape {
            dense.first.store(IN_USE | u64::from(first), Ordering::Release);
        }
    }
}
