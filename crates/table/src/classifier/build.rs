//! Chooses the windows of trees by the rules, and builds them.

use weir_simd::eight::LANES;

use super::block::{self, Blocks};
use super::tree::{Classifier, MAX_PLACES, MAX_WIDTH, Place, Tree, Window};
use super::{MAX_RULES, Match, NONE};

/// Trees at most: each costs all lookups.
pub const MAX_TREES: usize = 4;

/// A rule stands in a tree of its own choice where its first window would have more copies of it.
pub(super) const COPIES: u32 = 4;

/// Bytes of places and blocks for each rule, and for all together, at most. Where they do not do, blocks follow each other.
const BYTES_OF_EACH: usize = 2048;
const BYTES_OF_ALL: usize = 256 << 10;

/// Steps of a tree at most.
pub(super) const MAX_DEPTH: u32 = 12;

/// Blocks that are tried out behind each way.
const BLOCKS: usize = 3;

/// Windows that are tried out among those that seem good.
const TRIED: usize = 6;

/// Bytes that a classifier of so many rules takes at most beside the rules themselves.
pub const fn most_bytes(rules: usize) -> usize {
    BYTES_OF_ALL + rules * BYTES_OF_EACH
}

impl<const W: usize> Classifier<W> {
    /// These rules, of which the first that matches counts, numbered from 0 on; no more than [`MAX_RULES`].
    pub fn new(rules: &[Match<W>]) -> Classifier<W> {
        const { assert!(W > 0 && W <= 32, "a word of a key has a number of 5 bits") };
        let rules: Vec<Match<W>> = rules.iter().copied().take(MAX_RULES).collect();
        let order: Vec<u32> = (0..rules.len() as u32).collect();
        let mut classifier = Classifier {
            trees: Vec::new(),
            places: Vec::new(),
            blocks: Blocks::new(),
            ranks: order.clone(),
            rules,
            order,
            free: Vec::new(),
            homes: Vec::new(),
            together: LANES,
            entries: 0,
            behind: 0,
            promised: 0,
            any: NONE,
            built: 0,
        };
        classifier.rebuild();
        classifier
    }

    /// Builds all anew of the rules that are there: with one block behind each way, or, if that is faster because ways are shorter, with up to two or
    /// three.
    pub(super) fn rebuild(&mut self) {
        self.rebuild_with(LANES);
        for blocks in 2..=BLOCKS {
            let mut other = self.clone();
            other.rebuild_with(blocks * LANES);
            if other.cost() < self.cost() {
                *self = other;
            }
        }
    }

    /// About how many cycles a lookup takes beyond what all take.
    fn cost(&self) -> f64 {
        let steps: u32 = self.trees.iter().map(|tree| tree.depth).sum();
        f64::from(steps) * STEP + self.behind as f64 / self.entries.max(1) as f64 * GOING_ON
    }

    /// The same with at most so many rules behind a way that can be parted.
    fn rebuild_with(&mut self, together: usize) {
        (self.together, self.entries, self.behind) = (together, 0, 0);
        self.places = vec![Place::leaf(0, 0)];
        self.blocks = Blocks::new();
        (self.trees, self.built) = (Vec::new(), self.order.len());
        self.homes = vec![0; self.rules.len()];
        self.settle_any();
        let mut left = self.order.clone();
        left.retain(|slot| self.is_in_trees(*slot));
        while !left.is_empty() {
            let is_last = self.trees.len() + 1 == MAX_TREES;
            let window = self.first_window(&left);
            let (mut mine, mut others) = (left, Vec::new());
            if let Some(window) = window.filter(|_| !is_last) {
                (mine, others) = mine.into_iter().partition(|slot| self.copies(window, *slot) <= COPIES);
            }
            self.add_tree(window, &mine);
            left = others;
        }
    }

    /// Whether a rule is among those of trees: neither one that matches all keys nor one that matches none.
    pub(super) fn is_in_trees(&self, slot: u32) -> bool {
        self.rules.get(slot as usize).is_some_and(|rule| !rule.is_any() && !rule.is_never())
    }

    /// Finds the first rule that matches all keys.
    pub(super) fn settle_any(&mut self) {
        let is_any = |slot: &&u32| self.rules.get(**slot as usize).is_some_and(Match::is_any);
        self.any = self.order.iter().find(is_any).copied().unwrap_or(NONE);
    }

    /// Adds a tree whose first window this is.
    pub(super) fn add_tree(&mut self, window: Option<Window>, slots: &[u32]) {
        let root = self.places.len();
        self.places.push(Place::leaf(root, 0));
        for slot in slots {
            self.settle_in(*slot, self.trees.len());
        }
        let depth = match window {
            Some(window) => self.build_node(root, window, slots, 0),
            None => self.build_leaf(root, slots),
        };
        self.trees.push(Tree { root, depth });
    }

    /// Notes that a rule is in a tree.
    pub(super) fn settle_in(&mut self, slot: u32, tree: usize) {
        if let Some(home) = self.homes.get_mut(slot as usize) {
            *home = tree as u8;
        }
    }

    /// Makes a place lead to these rules, in their order; answers the steps from there.
    pub(super) fn build(&mut self, at: usize, slots: &[u32], depth: u32) -> u32 {
        if slots.len() <= self.together || depth >= MAX_DEPTH {
            return self.build_leaf(at, slots);
        }
        match self.best_window(slots) {
            Some(window) => self.build_node(at, window, slots, depth),
            None => self.build_leaf(at, slots),
        }
    }

    fn build_node(&mut self, at: usize, window: Window, slots: &[u32], depth: u32) -> u32 {
        let parts = self.parts(window, slots);
        let first = self.places.len();
        let blocks = parts.iter().map(|part| block::bytes_of::<W>(part.len())).sum::<usize>();
        if !self.has_room(blocks + parts.len() * size_of::<Place>()) || first + parts.len() > MAX_PLACES {
            return self.build_leaf(at, slots);
        }
        self.promised += blocks;
        self.places.extend((0..parts.len()).map(|part| Place::leaf(first + part, 0)));
        if let Some(place) = self.places.get_mut(at) {
            *place = Place::node(first, window);
        }
        let below = parts.iter().enumerate().map(|(part, slots)| {
            self.promised -= block::bytes_of::<W>(slots.len());
            self.build(first + part, slots, depth + 1)
        });
        1 + below.max().unwrap_or(0)
    }

    /// Makes a place the end of a way.
    pub(super) fn build_leaf(&mut self, at: usize, slots: &[u32]) -> u32 {
        let rule = |slot: &u32| Some((*slot, *self.rules.get(*slot as usize)?));
        let rules: Vec<(u32, Match<W>)> = slots.iter().filter_map(rule).collect();
        self.entries += rules.len();
        self.behind += rules.len().saturating_sub(LANES);
        let block = self.blocks.add(&rules);
        if let Some(place) = self.places.get_mut(at) {
            *place = Place::leaf(at, block);
        }
        0
    }

    /// Whether so many bytes may come on top of what there is and what is promised.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.bytes() + self.promised + bytes <= most_bytes(self.order.len())
    }

    /// The rules behind each value of a window.
    fn parts(&self, window: Window, slots: &[u32]) -> Vec<Vec<u32>> {
        let mut parts = vec![Vec::new(); 1 << window.width];
        for slot in slots {
            self.each_value(window, *slot, |value| {
                if let Some(part) = parts.get_mut(value) {
                    part.push(*slot);
                }
            });
        }
        parts
    }

    /// Calls `each` with the values of a window that a rule may have.
    pub(super) fn each_value(&self, window: Window, slot: u32, mut each: impl FnMut(usize)) {
        let Some(rule) = self.rules.get(slot as usize) else { return };
        let word = usize::from(window.word);
        let (value, mask) = (window.of(rule.value[word]), window.of(rule.mask[word]));
        let open = !mask & ((1 << window.width) - 1);
        // All subsets of the open bits, the largest first.
        let mut subset = open;
        loop {
            each(value | subset);
            if subset == 0 {
                return;
            }
            subset = (subset - 1) & open;
        }
    }

    /// In how many places of a window a rule would stand.
    #[inline]
    pub(super) fn copies(&self, window: Window, slot: u32) -> u32 {
        let fixed = self.rules.get(slot as usize).map_or(0, |rule| window.of(rule.mask[usize::from(window.word)]));
        1 << (u32::from(window.width) - (fixed as u32).count_ones())
    }

    /// All windows of about so many bits.
    fn windows(width: u8) -> impl Iterator<Item = Window> {
        let widths = [width, width.div_ceil(2)].into_iter().filter(move |some| *some == width || width > 2);
        widths.flat_map(|width| {
            (0..W as u8).flat_map(move |word| (0..=32 - width).map(move |shift| Window { word, shift, width }))
        })
    }

    /// The first window of a tree: one that most rules fix; none where a block or two do.
    pub(super) fn first_window(&self, slots: &[u32]) -> Option<Window> {
        if slots.len() <= LANES {
            return None;
        }
        let mut seen: Vec<(usize, u64, Window)> = Vec::new();
        for window in Self::windows(width_for(slots.len())) {
            let fixed = slots.iter().filter(|slot| self.copies(window, **slot) <= COPIES);
            let (count, copies) =
                fixed.fold((0, 0), |(n, sum), slot| (n + 1, sum + u64::from(self.copies(window, *slot))));
            seen.push((count, copies, window));
        }
        let most = seen.iter().map(|(count, ..)| *count).max().unwrap_or(0);
        // Among those that keep nearly as many, the one that parts them best.
        seen.retain(|(count, ..)| *count > LANES && *count >= most - most / 16);
        let fixed = |window: Window| slots.iter().copied().filter(move |slot| self.copies(window, *slot) <= COPIES);
        let scored = seen.iter().map(|&(_, _, window)| (self.score(window, fixed(window)), window));
        scored.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, window)| window)
    }

    /// The window that parts some rules best; none where that is hardly better than to look at all of them.
    fn best_window(&self, slots: &[u32]) -> Option<Window> {
        let mut seen: Vec<(u64, Window)> = Vec::new();
        for window in Self::windows(width_for(slots.len())) {
            let copies = slots.iter().map(|slot| u64::from(self.copies(window, *slot))).sum::<u64>();
            // What a window of bits that differ evenly would come to.
            seen.push(((copies * copies) >> window.width, window));
        }
        seen.sort_unstable_by_key(|(cost, window)| (*cost, window.word, window.shift));
        let scored = seen
            .iter()
            .filter_map(|&(cost, window)| (cost < slots.len() as u64 * slots.len() as u64).then_some(window));
        let mut best: Option<(f64, Window)> = None;
        for window in scored.take(TRIED * W) {
            let score = self.score(window, slots.iter().copied());
            if best.is_none_or(|(least, _)| score < least) {
                best = Some((score, window));
            }
        }
        best.filter(|(score, _)| *score < slots.len() as f64 * WORTH_IT).map(|(_, window)| window)
    }

    /// How many rules a key that matches one of them is compared with behind a window on average, and, as a fine, how many copies it makes.
    fn score(&self, window: Window, slots: impl Iterator<Item = u32>) -> f64 {
        let mut sizes = [0_u32; 1 << MAX_WIDTH];
        let mut count = 0_u32;
        for slot in slots {
            count += 1;
            self.each_value(window, slot, |value| sizes[value % (1 << MAX_WIDTH)] += 1);
        }
        let squares: f64 = sizes.iter().take(1 << window.width).map(|size| f64::from(*size).powi(2)).sum();
        squares / f64::from(count.max(1))
    }
}

/// Cycles that a step costs each key, and going on to a further block those that do.
const STEP: f64 = 4.0;
const GOING_ON: f64 = 8.0;

/// A node is worth its step where fewer than this share of the rules are left behind it.
const WORTH_IT: f64 = 0.7;

/// Bits of a window for so many rules: as many values as would leave half a block behind each.
fn width_for(rules: usize) -> u8 {
    (8 * rules / LANES).next_power_of_two().trailing_zeros().clamp(1, MAX_WIDTH) as u8
}
