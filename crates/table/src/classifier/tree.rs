//! The trees that lead to blocks, and how keys go through them.

use weir_simd::Kernel;

use super::block::Blocks;
use super::{BATCH, Keys, Match, NONE};

/// One place of a tree: which bits of a key choose the next place. The end of a way, a leaf, leads to itself, so that all keys go the same number of steps
/// and nothing branches on how long each one's way is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The first of the next places.
    link: u32,
    /// From the lowest bit on: the width of a window (4), its word (5), and how far it is from the right end (5). Of a leaf, whose window has no bits: the
    /// block that is looked at, behind a width and a word of 0.
    shape: u32,
}

/// Places, and blocks, at most.
pub(super) const MAX_PLACES: usize = 1 << 23;

/// Bytes of blocks that lie in the second cache, most probably: what waits for it is done beside other keys, and asking for it would take longer.
const NEAR: usize = 512 << 10;

/// The most bits of a window.
pub(super) const MAX_WIDTH: u32 = 12;

impl Place {
    /// The leaf at `at`, where a block of this number is looked at.
    pub(super) fn leaf(at: usize, block: u32) -> Place {
        Place { link: at as u32, shape: block << 9 }
    }

    /// A place from which a window leads to one of the places from `first` on.
    pub(super) fn node(first: usize, window: Window) -> Place {
        let Window { word, shift, width } = window;
        Place { link: first as u32, shape: u32::from(shift) << 9 | u32::from(word) << 4 | u32::from(width) }
    }

    /// The first of the next places.
    pub(super) fn first(self) -> usize {
        self.link as usize
    }

    /// The block that is looked at, if this is a leaf.
    #[inline(always)]
    pub(super) fn block(self) -> u32 {
        self.shape >> 9
    }

    /// The word of keys that the window is in.
    #[inline(always)]
    fn word(self) -> usize {
        (self.shape >> 4 & 31) as usize
    }

    /// The bits that choose; none at a leaf.
    pub(super) fn window(self) -> Window {
        let (word, width) = (self.word() as u8, (self.shape & 15) as u8);
        Window { word, shift: if width == 0 { 0 } else { (self.shape >> 9 & 31) as u8 }, width }
    }

    pub(super) fn is_leaf(self) -> bool {
        self.shape & 15 == 0
    }

    /// The next place of a key that has this word where the window is.
    #[inline(always)]
    fn next(self, word: u32) -> u32 {
        self.link.wrapping_add(word >> (self.shape >> 9 & 31) & ((1 << (self.shape & 15)) - 1))
    }
}

/// Some bits of one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) word: u8,
    pub(super) shift: u8,
    pub(super) width: u8,
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
    /// Rules that may stand behind a way, in blocks of which one leads to the next, before they are parted.
    pub(super) together: usize,
    /// Rules behind all ways, when all was built and since then, and how many of them are not in the first block of theirs.
    pub(super) entries: usize,
    pub(super) behind: usize,
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
            while !place.is_leaf() {
                let word = key.get(place.word()).copied().unwrap_or(0);
                place = self.place(place.next(word) as usize);
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
        let [first, others @ ..] = self.trees.as_slice() else {
            *found = [self.any; BATCH];
            return;
        };
        self.look_up_in(*first, kernel, (keys, count), found);
        if others.is_empty() && self.any == NONE {
            return;
        }
        let mut ranks = [NONE; BATCH];
        let any = self.rank(self.any);
        for (best, least) in found.iter_mut().zip(&mut ranks).take(count) {
            *least = self.rank(*best);
            (*best, *least) = if any < *least { (self.any, any) } else { (*best, *least) };
        }
        let mut numbers = [NONE; BATCH];
        for tree in others {
            self.look_up_in(*tree, kernel, (keys, count), &mut numbers);
            for ((best, least), number) in found.iter_mut().zip(&mut ranks).zip(numbers).take(count) {
                // What is no rule comes last.
                let rank = self.rank(number);
                (*best, *least) = if rank < *least { (number, rank) } else { (*best, *least) };
            }
        }
    }

    /// The first rules that keys match in one tree.
    #[inline(always)]
    fn look_up_in(&self, tree: Tree, kernel: Kernel, (keys, count): (&Keys<W>, usize), found: &mut [u32; BATCH]) {
        let mut blocks = [0; BATCH];
        self.descend(tree, keys, blocks.get_mut(..count).unwrap_or_default());
        self.blocks.first_each(kernel, &blocks, (keys, count), found);
    }

    /// Leads keys through a tree to their blocks.
    #[inline(always)]
    fn descend(&self, tree: Tree, keys: &Keys<W>, blocks: &mut [u32]) {
        // All begin at the same place: its window is the same for all.
        let root = self.place(tree.root);
        let window = root.window();
        let words = keys.0.as_flattened().get(root.word()..).unwrap_or_default().iter().step_by(W);
        let Some(next) = self.places.get(root.first()..).and_then(|next| next.get(..1 << window.width)) else { return };
        if tree.depth <= 1 {
            for (at, word) in blocks.iter_mut().zip(words) {
                *at = next.get(window.of(*word)).map_or(0, |leaf| leaf.shape);
            }
            blocks.iter_mut().for_each(|at| *at = Place { link: 0, shape: *at }.block());
        } else {
            for (at, word) in blocks.iter_mut().zip(words) {
                *at = root.next(*word);
            }
            for _ in 1..tree.depth {
                for (n, at) in blocks.iter_mut().enumerate() {
                    *at = self.step(*at, keys, n);
                }
            }
            for at in blocks.iter_mut() {
                *at = self.block_at(*at);
            }
        }
        // What is near need not be asked for.
        if self.blocks.bytes() > NEAR {
            blocks.iter().for_each(|at| self.blocks.prefetch(*at));
        }
    }

    /// The block of a leaf.
    #[inline(always)]
    fn block_at(&self, leaf: u32) -> u32 {
        self.place(leaf as usize).block()
    }

    /// Where a key comes to from a place in one step.
    #[inline(always)]
    fn step(&self, at: u32, keys: &Keys<W>, n: usize) -> u32 {
        let Some(place) = self.places.get(at as usize) else { return at };
        place.next(word_of(keys, n, place.word()))
    }

    #[inline(always)]
    pub(super) fn place(&self, at: usize) -> Place {
        self.places.get(at).copied().unwrap_or(Place { link: 0, shape: 0 })
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

/// A word of a key.
#[inline(always)]
fn word_of<const W: usize>(keys: &Keys<W>, n: usize, word: usize) -> u32 {
    keys.0[n % BATCH].get(word).copied().unwrap_or(0)
}

impl<const W: usize> std::fmt::Debug for Classifier<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Classifier({} rules, {} trees, {} bytes)", self.len(), self.trees.len(), self.bytes())
    }
}
