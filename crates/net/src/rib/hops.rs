//! The hops in use, each once.

use super::hop::{Bound, Discard, Hop};
use super::slab::Slab;
use crate::interface::InterfaceId;
use crate::nexthop::NextHopId;
use crate::vrf::VrfId;
use ipnet::IpNet;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};

/// What a hop depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// The link of this interface.
    Interface(InterfaceId),
    /// The networks that are connected around this gateway.
    Gateway(VrfId, IpAddr),
}

impl Key {
    /// The least and the greatest.
    pub(super) const ALL: (Key, Key) =
        (Key::Interface(0), Key::Gateway(VrfId::MAX, IpAddr::V6(Ipv6Addr::from_bits(u128::MAX))));

    /// Those of the gateways in a network: the least and the greatest.
    pub(super) fn gateways_in(vrf: VrfId, network: IpNet) -> (Key, Key) {
        (Key::Gateway(vrf, network.network()), Key::Gateway(vrf, network.broadcast()))
    }

    /// What a hop depends on; nothing, if it leads into a function or nowhere.
    const fn of(bound: Bound) -> Option<Key> {
        match bound.hop {
            Hop::On(interface) | Hop::ViaOn(_, interface) => Some(Key::Interface(interface)),
            Hop::Via(gateway) => Some(Key::Gateway(bound.vrf, gateway)),
            Hop::Into(_) | Hop::Discard(_) => None,
        }
    }
}

/// A hop and what it leads to at present.
#[derive(Debug)]
pub(super) struct HopState {
    pub(super) bound: Bound,
    /// The next hop that it is, or last was.
    pub(super) id: Option<NextHopId>,
    /// Whether it can be used now.
    pub(super) usable: bool,
    /// The sets that it is in.
    pub(super) sets: Vec<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Hops {
    by_hop: HashMap<Bound, u32>,
    by_key: BTreeSet<(Key, u32)>,
    slab: Slab<HopState>,
}

impl Hops {
    pub(super) fn find(&self, bound: Bound) -> Option<u32> {
        self.by_hop.get(&bound).copied()
    }

    pub(super) fn insert(&mut self, bound: Bound, id: Option<NextHopId>, usable: bool) -> u32 {
        let index = self.slab.insert(HopState { bound, id, usable, sets: Vec::new() });
        self.by_hop.insert(bound, index);
        self.by_key.extend(Key::of(bound).map(|key| (key, index)));
        index
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut HopState> {
        self.slab.get_mut(index)
    }

    pub(super) fn bound(&self, index: u32) -> Option<Bound> {
        self.slab.get(index).map(|state| state.bound)
    }

    /// The next hop, if it can be used now.
    pub(super) fn usable(&self, index: u32) -> Option<NextHopId> {
        self.slab.get(index).filter(|state| state.usable)?.id
    }

    /// How packets are refused that take this hop, if it leads nowhere.
    pub(super) fn discard(&self, index: u32) -> Option<Discard> {
        if let Hop::Discard(discard) = self.bound(index)?.hop { Some(discard) } else { None }
    }

    /// The first hop at or behind `from` whose key is not beyond `last`.
    pub(super) fn next_in(&self, from: (Key, u32), last: Key) -> Option<(Key, u32)> {
        self.by_key.range(from..).next().copied().filter(|(key, _)| *key <= last)
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
        self.by_hop.remove(&state.bound);
        if let Some(key) = Key::of(state.bound) {
            self.by_key.remove(&(key, index));
        }
        state.id
    }
}
