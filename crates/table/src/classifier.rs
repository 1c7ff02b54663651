//! Which of an ordered list of rules is the first that a key matches: rules over many fields, each exact, masked or a range.
//!
//! A *key* is a few words of 32 bits, in which whoever asks has put the fields that he knows: [`Match`] compares each word below a mask, but the
//! last one, whose two halves are numbers with bounds ([`Match::range`]: ports). So an access list of IPv4 takes four words, one of IPv6 ten, and
//! a flow table of OpenFlow as many as its fields fill.
//!
//! **How it works.** Rules stand in *blocks* of eight, of which one comparison of vectors tells the first that matches. Few *trees* lead to
//! blocks: each node takes a window of bits of one word of the key for the index of the next node. The windows are chosen by the rules: those
//! bits part them best that most rules fix and that differ. A rule that leaves many bits of a tree's first window open would stand in too many
//! places; such rules have a tree of their own, which is cut elsewhere. (The idea of parting rules by what they leave open is that of `CutSplit`,
//! Li et al., INFOCOM 2018; that windows may lie anywhere is ours, and makes no difference between prefixes and masks.) Where fewer steps for
//! all keys are worth more, two or three blocks follow each other behind some ways.
//!
//! **Cost.** A lookup goes through all trees, at most [`MAX_TREES`]; 64 keys go level by level, so that what they wait for is fetched at the same
//! time. **Memory** is bounded: beside what the control side keeps (a [`Match`] for each rule), [`Classifier::bytes`] is at most
//! [`most_bytes`] of the number of rules: where copies of rules would take more, blocks follow each other instead. **Changes**: one rule is
//! added or removed in the places that it belongs to ([`Classifier::insert`]), in a copy that is published then.
//!
//! [`Linear`] is the slow twin.

mod block;
mod build;
mod change;
mod linear;
mod tree;

pub use build::{MAX_TREES, most_bytes};
pub use linear::Linear;
pub use tree::Classifier;

/// Rules at most.
pub const MAX_RULES: usize = 1 << 17;

/// Keys that are looked up together at most.
pub const BATCH: usize = weir_simd::eight::KEYS;

/// No rule.
pub const NONE: u32 = u32::MAX;

/// Keys to be looked up.
#[derive(Clone, Debug)]
pub struct Keys<const W: usize>(pub [[u32; W]; BATCH]);

impl<const W: usize> Default for Keys<W> {
    fn default() -> Keys<W> {
        Keys([[0; W]; BATCH])
    }
}

impl<const W: usize> Keys<W> {
    /// Writes the key at a position, which is taken modulo [`BATCH`].
    #[inline(always)]
    pub fn set(&mut self, at: usize, key: [u32; W]) {
        self.0[at % BATCH] = key;
    }

    /// The key at a position.
    #[inline(always)]
    pub fn get(&self, at: usize) -> [u32; W] {
        self.0[at % BATCH]
    }
}

/// Half of the last word of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The upper 16 bits.
    High,
    /// The lower 16 bits.
    Low,
}

/// What a rule matches, in keys of `W` words: all keys, unless more is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Match<const W: usize> {
    /// The bits that count, already below their mask. Of the last word: as far as all numbers within the bounds have them in common.
    pub(crate) value: [u32; W],
    pub(crate) mask: [u32; W],
    /// Bounds of the upper and of the lower half of the last word, both within.
    pub(crate) bounds: [(u16, u16); 2],
}

impl<const W: usize> Default for Match<W> {
    fn default() -> Match<W> {
        Match { value: [0; W], mask: [0; W], bounds: [(0, u16::MAX); 2] }
    }
}

impl<const W: usize> Match<W> {
    /// The same, but that in a word, which is not the last, only keys match that have `value` in the bits of `mask`. What was said before of
    /// other bits stays.
    #[must_use]
    pub fn word(mut self, word: usize, value: u32, mask: u32) -> Match<W> {
        if word + 1 < W {
            self.value[word] = self.value[word] & !mask | value & mask;
            self.mask[word] |= mask;
        }
        self
    }

    /// The same, but that a half of the last word must be within bounds. None is where the first is larger than the second.
    #[must_use]
    pub fn range(mut self, half: Half, low: u16, high: u16) -> Match<W> {
        let (at, shift) = match half {
            Half::High => (0, 16),
            Half::Low => (1, 0),
        };
        self.bounds[at] = (low, high);
        // The bits in front of the first in which the bounds differ.
        let same = (low ^ high).leading_zeros();
        let mask = u32::from(!u16::MAX.checked_shr(same).unwrap_or(0)) << shift;
        let half = 0xffff_u32 << shift;
        if let (Some(values), Some(masks)) = (self.value.last_mut(), self.mask.last_mut()) {
            *values = *values & !half | u32::from(low) << shift & mask;
            *masks = *masks & !half | mask;
        }
        self
    }

    /// Whether it matches a key.
    pub fn matches(&self, key: &[u32; W]) -> bool {
        let (last, front) = key.split_last().unwrap_or((&0, &[]));
        let words = front.iter().zip(&self.value).zip(&self.mask);
        let halves = [(last >> 16) as u16, *last as u16];
        words.fold(0, |differ, ((key, value), mask)| differ | (key ^ value) & mask) == 0
            && halves.iter().zip(self.bounds).all(|(half, (low, high))| (low..=high).contains(half))
    }

    /// Whether it matches no key: bounds are the wrong way round.
    pub fn is_never(&self) -> bool {
        self.bounds.iter().any(|(low, high)| low > high)
    }

    /// Whether it matches every key.
    pub fn is_any(&self) -> bool {
        self.mask == [0; W] && self.bounds == [(0, u16::MAX); 2]
    }
}
