//! The hops in use, each once.

use super::Hop;
use super::slab::Slab;
use crate::nexthop::NextHopId;
use std::collections::HashMap;

/// A hop and what it leads to at present.
#[derive(Debug)]
pub(super) struct HopState {
    pub(super) hop: Hop,
    /// The next hop that it is, or last was.
    pub(super) id: Option<NextHopId>,
    /// Whether it can be used now.
    pub(super) usable: bool,
    /// The sets that it is in.
    pub(super) sets: Vec<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Hops {
    by_hop: HashMap<Hop, u32>,
    slab: Slab<HopState>,
}

impl Hops {
    pub(super) fn find(&self, hop: Hop) -> Option<u32> {
        self.by_hop.get(&hop).copied()
    }

    pub(super) fn insert(&mut self, hop: Hop, id: Option<NextHopId>, usable: bool) -> u32 {
        let index = self.slab.insert(HopState { hop, id, usable, sets: Vec::new() });
        self.by_hop.insert(hop, index);
        index
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut HopState> {
        self.slab.get_mut(index)
    }

    pub(super) fn hop(&self, index: u32) -> Option<Hop> {
        self.slab.get(index).map(|state| state.hop)
    }

    /// The next hop, if it can be used now.
    pub(super) fn usable(&self, index: u32) -> Option<NextHopId> {
        self.slab.get(index).filter(|state| state.usable)?.id
    }

    pub(super) fn indices(&self) -> std::ops::Range<u32> {
        self.slab.indices()
    }

    /// Makes `members` remember that they are in `set`.
    pub(super) fn join(&mut self, members: &[u32], set: u32) {
        for &member in members {
            if let Some(state) = self.slab.get_mut(member) {
                state.sets.push(set);
            }
        }
    }

    /// Makes a hop forget that it is in `set`.
    pub(super) fn leave(&mut self, index: u32, set: u32) {
        if let Some(state) = self.slab.get_mut(index) {
            state.sets.retain(|&other| other != set);
        }
    }

    /// Forgets a hop that is in no set; answers the next hop that it held.
    pub(super) fn drop_if_unused(&mut self, index: u32) -> Option<NextHopId> {
        self.slab.get(index).filter(|state| state.sets.is_empty())?;
        let state = self.slab.remove(index)?;
        self.by_hop.remove(&state.hop);
        state.id
    }
}
