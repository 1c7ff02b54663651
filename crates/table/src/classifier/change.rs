//! Changes of single rules.

use super::block::bytes_of;
use super::build::{COPIES, MAX_TREES};
use super::tree::Classifier;
use super::{MAX_RULES, Match, NONE};

/// All is built anew where there are more than twice as many rules as when it was built, and these more.
const GROWN: usize = 64;

/// Where a place has so many rules, or a multiple of that, it is looked whether they can be parted.
const PARTED_AT: usize = 16;

impl<const W: usize> Classifier<W> {
    /// Adds a rule in front of the one at a position, or as the last one. Answers its number; `None` if there is no room.
    pub fn insert(&mut self, position: usize, rule: Match<W>) -> Option<u32> {
        if self.order.len() >= MAX_RULES {
            return None;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.rules.push(rule);
                self.ranks.push(NONE);
                self.homes.push(0);
                self.rules.len() as u32 - 1
            }
        };
        if let Some(known) = self.rules.get_mut(slot as usize) {
            *known = rule;
        }
        self.order.insert(position.min(self.order.len()), slot);
        self.renumber();
        if self.order.len() > 2 * self.built + GROWN {
            self.rebuild();
        } else if rule.is_any() {
            self.settle_any();
        } else if self.is_in_trees(slot) {
            self.enter(slot);
        }
        Some(slot)
    }

    /// Removes the rule at a position. Answers its number, which the next one gets; `None` if there is none.
    pub fn remove(&mut self, position: usize) -> Option<u32> {
        let slot = (position < self.order.len()).then(|| self.order.remove(position))?;
        if self.is_in_trees(slot) {
            self.leave(slot);
        }
        if let Some(rank) = self.ranks.get_mut(slot as usize) {
            *rank = NONE;
        }
        self.free.push(slot);
        self.renumber();
        self.settle_any();
        Some(slot)
    }

    fn renumber(&mut self) {
        for (slot, rank) in self.order.iter().zip(0..) {
            if let Some(known) = self.ranks.get_mut(*slot as usize) {
                *known = rank;
            }
        }
    }

    /// The tree that a rule may be added to: one in whose first window it has few copies.
    fn tree_for(&self, slot: u32) -> Option<usize> {
        let takes = |root: usize| {
            let window = self.place(root).window();
            window.width == 0 || self.copies(window, slot) <= COPIES
        };
        let found = self.trees.iter().position(|tree| takes(tree.root));
        found.or_else(|| (self.trees.len() == MAX_TREES).then_some(MAX_TREES - 1))
    }

    /// Puts a rule into a tree.
    fn enter(&mut self, slot: u32) {
        let Some(n) = self.tree_for(slot) else { return self.add_tree(None, &[slot]) };
        let places = self.trees.get(n).map_or(0, |tree| self.places_of(tree.root, slot));
        if !self.has_room(places * 2 * bytes_of::<W>(1)) {
            return self.rebuild();
        }
        self.settle_in(slot, n);
        self.change(n, slot, true);
    }

    /// Takes a rule out of its tree.
    fn leave(&mut self, slot: u32) {
        let home = self.homes.get(slot as usize).copied().unwrap_or(0);
        self.change(home.into(), slot, false);
    }

    /// How many last places a rule belongs to below one.
    fn places_of(&self, at: usize, slot: u32) -> usize {
        let place = self.place(at);
        if place.window().width == 0 {
            return 1;
        }
        let mut places = 0;
        self.each_value(place.window(), slot, |value| places += self.places_of(place.first() + value, slot));
        places
    }

    fn change(&mut self, n: usize, slot: u32, is_there: bool) {
        let Some(tree) = self.trees.get(n).copied() else { return };
        let depth = self.change_at(tree.root, slot, is_there, 0);
        if let Some(tree) = self.trees.get_mut(n) {
            tree.depth = tree.depth.max(depth);
        }
    }

    /// Changes the places below one to which a rule belongs; answers the steps down to the lowest of them.
    fn change_at(&mut self, at: usize, slot: u32, is_there: bool, depth: u32) -> u32 {
        let place = self.place(at);
        let window = place.window();
        if window.width == 0 {
            return depth + self.change_leaf(at, place.block(), (slot, is_there), depth);
        }
        let mut values = Vec::new();
        self.each_value(window, slot, |value| values.push(value));
        let below = values.into_iter().map(|value| self.change_at(place.first() + value, slot, is_there, depth + 1));
        below.max().unwrap_or(depth)
    }

    fn change_leaf(&mut self, at: usize, block: u32, (slot, is_there): (u32, bool), depth: u32) -> u32 {
        let mut slots = self.blocks.take(block);
        slots.retain(|known| *known != slot);
        if is_there {
            let rank = self.rank(slot);
            slots.insert(slots.partition_point(|known| self.rank(*known) < rank), slot);
        }
        // Blocks are parted anew only now and then, so that a rule that is in many places is entered fast.
        if is_there && slots.len().is_multiple_of(PARTED_AT) {
            self.build(at, &slots, depth)
        } else {
            self.build_leaf(at, &slots)
        }
    }
}
