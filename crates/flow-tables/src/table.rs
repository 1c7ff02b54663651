//! One flow table.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use crate::fields::{Fields, Key};
use crate::flow::Flow;

/// The place of a flow in its table: its priority, and when it came. No two flows of a switch have the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    priority: Reverse<u16>,
    came: u64,
}

/// Flows, in the order in which they are tried: by priority, the largest first. The specification leaves open which of
/// two flows of one priority goes first; here it is the one that came first.
#[derive(Clone, Debug, Default)]
pub struct FlowTable {
    flows: BTreeMap<Place, Flow>,
    /// What is found by an exact match and priority.
    strict: HashMap<(u16, Key), Place>,
    /// Packets that were looked up.
    pub lookups: u64,
    /// Packets that met a flow.
    pub matched: u64,
}

impl FlowTable {
    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// All flows, in the order in which they are tried.
    pub fn iter(&self) -> impl Iterator<Item = (Place, &Flow)> {
        self.flows.iter().map(|(place, flow)| (*place, flow))
    }

    /// The flows that are tried after the one of a place, or all; that one may be gone.
    pub fn after(&self, place: Option<Place>) -> impl Iterator<Item = (Place, &Flow)> {
        let from = place.map_or(Bound::Unbounded, Bound::Excluded);
        self.flows.range((from, Bound::Unbounded)).map(|(place, flow)| (*place, flow))
    }

    /// The flow of a place.
    pub fn get(&self, place: Place) -> Option<&Flow> {
        self.flows.get(&place)
    }

    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut Flow> {
        self.flows.get_mut(&place)
    }

    /// The flow with just this priority and match.
    pub fn strict(&self, priority: u16, key: &Key) -> Option<Place> {
        // A tuple of owned values is what the map has; one copy per modification.
        self.strict.get(&(priority, key.clone())).copied()
    }

    /// The first flow that a packet meets.
    pub fn lookup(&self, fields: &Fields) -> Option<(Place, &Flow)> {
        self.iter().find(|(_, flow)| fields.meet(&flow.matches))
    }

    /// Whether some packet may meet a flow of this priority and also `key`.
    pub fn overlaps(&self, priority: u16, key: &Key) -> bool {
        let first = Place { priority: Reverse(priority), came: 0 };
        let last = Place { priority: Reverse(priority), came: u64::MAX };
        self.flows.range(first..=last).any(|(_, flow)| flow.key.overlaps(key))
    }

    /// Adds a flow that came as number `came`.
    pub(crate) fn insert(&mut self, flow: Flow, came: u64) -> Place {
        let place = Place { priority: Reverse(flow.priority), came };
        self.strict.insert((flow.priority, flow.key.clone()), place);
        self.flows.insert(place, flow);
        place
    }

    pub(crate) fn remove(&mut self, place: Place) -> Option<Flow> {
        let flow = self.flows.remove(&place)?;
        self.strict.remove(&(flow.priority, flow.key.clone()));
        Some(flow)
    }
}
