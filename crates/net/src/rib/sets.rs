//! The sets of hops in use: each once, or, of hops that share traffic, once for each way in which flows are spread over them.

use super::Target;
use super::hop::Bound;
use super::slab::{NONE, Slab};
use crate::group::GroupId;
use std::collections::HashMap;

/// Hops that share traffic.
#[derive(Debug)]
pub(super) struct Set {
    /// Numbers of its hops, in the order of the hops themselves.
    pub(super) hops: Vec<u32>,
    /// The group of a set of two hops or more.
    pub(super) group: Option<GroupId>,
    /// Where it leads at present.
    pub(super) target: Option<Target>,
    /// The first of the entries that use it, or [`NONE`].
    pub(super) first: u32,
    /// The first of those entries whose routes still lead to where the set led before, or [`NONE`]; all that follow do, too.
    first_late: u32,
    /// Whether its hops have changed since it was looked at.
    is_marked: bool,
}

impl Set {
    pub(super) const fn new(hops: Vec<u32>, group: Option<GroupId>) -> Self {
        Set { hops, group, target: None, first: NONE, first_late: NONE, is_marked: false }
    }
}

#[derive(Debug, Default)]
pub(super) struct Sets {
    by_hops: HashMap<Box<[Bound]>, Vec<u32>>,
    slab: Slab<Set>,
}

impl Sets {
    /// The sets of just these hops.
    pub(super) fn find(&self, hops: &[Bound]) -> &[u32] {
        self.by_hops.get(hops).map_or(&[], Vec::as_slice)
    }

    pub(super) fn insert(&mut self, hops: &[Bound], set: Set) -> u32 {
        let index = self.slab.insert(set);
        self.by_hops.entry(hops.into()).or_default().push(index);
        index
    }

    pub(super) fn remove(&mut self, index: u32, hops: &[Bound]) -> Option<Set> {
        if let Some(alike) = self.by_hops.get_mut(hops) {
            alike.retain(|&other| other != index);
            if alike.is_empty() {
                self.by_hops.remove(hops);
            }
        }
        self.slab.remove(index)
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Set> {
        self.slab.get_mut(index)
    }

    /// Numbers of a set's hops.
    pub(super) fn members(&self, index: u32) -> &[u32] {
        self.slab.get(index).map_or(&[], |set| &set.hops)
    }

    pub(super) fn target(&self, index: u32) -> Option<Target> {
        self.slab.get(index)?.target
    }

    pub(super) fn group(&self, index: u32) -> Option<GroupId> {
        self.slab.get(index)?.group
    }

    pub(super) fn first_entry(&self, index: u32) -> u32 {
        self.slab.get(index).map_or(NONE, |set| set.first)
    }

    pub(super) fn set_first_entry(&mut self, index: u32, entry: u32) {
        if let Some(set) = self.slab.get_mut(index) {
            set.first = entry;
        }
    }

    pub(super) fn first_late(&self, index: u32) -> u32 {
        self.slab.get(index).map_or(NONE, |set| set.first_late)
    }

    pub(super) fn set_first_late(&mut self, index: u32, entry: u32) {
        if let Some(set) = self.slab.get_mut(index) {
            set.first_late = entry;
        }
    }

    /// Notes that hops of a set have changed; false if that was noted before.
    pub(super) fn mark(&mut self, index: u32) -> bool {
        self.slab.get_mut(index).is_some_and(|set| !std::mem::replace(&mut set.is_marked, true))
    }

    pub(super) fn unmark(&mut self, index: u32) {
        if let Some(set) = self.slab.get_mut(index) {
            set.is_marked = false;
        }
    }

    pub(super) fn is_unused(&self, index: u32) -> bool {
        self.first_entry(index) == NONE
    }
}
