//! The trees that lead to blocks, and how keys go through them.

use weir_simd::Kernel;

use super::block::Blocks;
use super::{BATCH, Keys, Match, NONE};

/// One place of a tree: which bits of a key choose the next place, and the block that is looked at where nothing chooses any more.
///
/// From the lowest bit on: the first of the next places (24), the block (24), how far the bits are from the right end of their word (5), how
/// many there are (4), the word (5). The last place on a way leads to itself, so that all keys go the same number of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u64);

/// Places, and blocks, at most.
pub(super) const MAX_PLACES: usize = 1 << 24;

/// Bytes of blocks that lie in the nearest cache, most probably.
const NEAR: usize = 16 << 10;

/// The most bits of a window.
pub(super) const MAX_WIDTH: u32 = 12;

const INDEX: u64 = (MAX_PLACES - 1) as u64;

impl Place {
    /// A place where a block of this number is looked at, itself of the number `at`.
    pub(super) fn leaf(at: usize, block: u32) -> Place {
        Place(at as u64 & INDEX | (u64::from(block) & INDEX) << 24)
    }

    /// A place from which a window leads to one of the places from `first` on.
    pub(super) fn node(first: usize, window: Window) -> Place {
        let Window { word, shift, width } = window;
        Place(first as u64 & INDEX | u64::from(shift) << 48 | u64::from(width) << 53 | (word as u64) << 57)
    }

    #[inline(always)]
    pub(super) fn first(self) -> usize {
        (self.0 & INDEX) as usize
    }

    #[inline(always)]
    pub(super) fn block(self) -> u32 {
        (self.0 >> 24 & INDEX) as u32
    }

    /// The bits that choose; none at a leaf.
    #[inline(always)]
    pub(super) fn window(self) -> Window {
        let at = self.0 >> 48;
        Window { shift: at as u32 & 31, width: (at >> 5) as u32 & 15, word: (at >> 9) as usize & 31 }
    }
}

/// Some bits of one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) word: usize,
    pub(super) shift: u32,
    pub(super) width: u32,
}

impl Window {
    /// What they are in a word.
    #[inline(always)]
    pub(super) fn of(self, word: u32) -> usize {
        (word >> (self.shift % 32) & ((1 << (self.width % 32)) - 1)) as usize
    }
}

/// Where a tree begins, and how many steps its longest way has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) root: usize,
    pub(super) depth: u32,
}

/// Rules, ready to be looked up. Each has a number, which does not change while it is there; those that it is built of are numbered from 0 on.
#[derive(Clone)]
pub struct Classifier<const W: usize> {
    pub(super) trees: Vec<Tree>,
    pub(super) places: Vec<Place>,
    pub(super) blocks: Blocks<W>,
    /// The position of each rule, by number; [`NONE`] for numbers that no rule has.
    pub(super) ranks: Vec<u32>,
    /// The rules by number.
    pub(super) rules: Vec<Match<W>>,
    /// Numbers of rules in their order.
    pub(super) order: Vec<u32>,
    pub(super) free: Vec<u32>,
    /// The tree that each rule is in, by number.
    pub(super) homes: Vec<u8>,
    /// Bytes of blocks that are still to be added for nodes that were begun.
    pub(super) promised: usize,
    /// The first rule that matches every key.
    pub(super) any: u32,
    /// Rules that there were when all was built.
    pub(super) built: usize,
}

impl<const W: usize> Classifier<W> {
    /// The number of the first rule that matches; [`NONE`].
    pub fn lookup(&self, key: &[u32; W]) -> u32 {
        let mut best = self.any;
        for tree in &self.trees {
            let mut place = self.place(tree.root);
            for _ in 0..tree.depth {
                place = self.next_of(place, key);
            }
            best = self.better(best, self.blocks.first(place.block(), key));
        }
        best
    }

    /// The same for the first `count` keys, at most [`BATCH`]; compiled for what the CPU has.
    pub fn lookup_batch(&self, kernel: Kernel, keys: &Keys<W>, count: usize, found: &mut [u32; BATCH]) {
        kernel.run(
            #[inline(always)]
            || self.look_up(kernel, keys, count.min(BATCH), found),
        );
    }

    #[inline(always)]
    fn look_up(&self, kernel: Kernel, keys: &Keys<W>, count: usize, found: &mut [u32; BATCH]) {
        let mut best = [self.any; BATCH];
        let mut ranks = [self.rank(self.any); BATCH];
        for tree in &self.trees {
            let (mut blocks, mut slots) = ([0; BATCH], [NONE; BATCH]);
            let Some(some) = blocks.get_mut(..count) else { return };
            self.descend(*tree, keys, some);
            // What the nearest cache has need not be asked for.
            if self.blocks.bytes() > NEAR {
                some.iter().for_each(|block| self.blocks.prefetch(*block));
            }
            self.blocks.first_each(kernel, &blocks, (keys, count), &mut slots);
            if self.trees.len() == 1 && self.any == NONE {
                *found = slots;
                return;
            }
            for ((best, least), slot) in best.iter_mut().zip(&mut ranks).zip(slots).take(count) {
                // What is no rule comes last.
                let rank = self.rank(slot);
                (*best, *least) = if rank < *least { (slot, rank) } else { (*best, *least) };
            }
        }
        *found = best;
    }

    /// Leads keys through a tree to their blocks.
    #[inline(always)]
    fn descend(&self, tree: Tree, keys: &Keys<W>, blocks: &mut [u32]) {
        let root = self.place(tree.root);
        // All begin at the same place: its window is the same for all.
        let (window, first) = (root.window(), root.first());
        let Some(words) = keys.0.get(window.word) else { return };
        match tree.depth {
            0 => blocks.fill(root.block()),
            1 => {
                for (block, word) in blocks.iter_mut().zip(words) {
                    *block = self.place(first + window.of(*word)).block();
                }
            }
            depth => {
                let mut places = [Place(0); BATCH];
                for (place, word) in places.iter_mut().zip(words).take(blocks.len()) {
                    *place = self.place(first + window.of(*word));
                }
                for _ in 2..depth {
                    for (at, place) in places.iter_mut().enumerate().take(blocks.len()) {
                        *place = self.next(*place, keys, at);
                    }
                }
                for (at, (block, place)) in blocks.iter_mut().zip(places).enumerate() {
                    *block = self.next(place, keys, at).block();
                }
            }
        }
    }

    /// Where the window of a place leads one of the keys.
    #[inline(always)]
    fn next(&self, place: Place, keys: &Keys<W>, at: usize) -> Place {
        let window = place.window();
        let word = keys.0.get(window.word).map_or(0, |words| words[at % BATCH]);
        self.place(place.first() + window.of(word))
    }

    #[inline(always)]
    pub(super) fn place(&self, at: usize) -> Place {
        self.places.get(at).copied().unwrap_or(Place(0))
    }

    /// The same of a key by itself.
    fn next_of(&self, place: Place, key: &[u32; W]) -> Place {
        let window = place.window();
        let word = key.get(window.word).copied().unwrap_or(0);
        self.place(place.first() + window.of(word))
    }

    /// That of two rules that comes first.
    #[inline(always)]
    fn better(&self, one: u32, other: u32) -> u32 {
        // What is no rule comes last.
        if self.rank(other) < self.rank(one) { other } else { one }
    }

    #[inline(always)]
    pub(super) fn rank(&self, slot: u32) -> u32 {
        self.ranks.get(slot as usize).copied().unwrap_or(NONE)
    }

    /// Rules that it has.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Bytes that lookups read in: trees and blocks.
    pub fn bytes(&self) -> usize {
        size_of_val(self.places.as_slice()) + self.blocks.bytes() + size_of_val(self.ranks.as_slice())
    }

    /// Trees, the steps of each, and blocks: what a lookup goes through.
    pub fn shape(&self) -> (Vec<u32>, usize) {
        (self.trees.iter().map(|tree| tree.depth).collect(), self.blocks.len())
    }
}

impl<const W: usize> std::fmt::Debug for Classifier<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Classifier({} rules, {} trees, {} bytes)", self.len(), self.trees.len(), self.bytes())
    }
}
