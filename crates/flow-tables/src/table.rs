//! One flow table.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use weir_openflow::group::Counted;

use crate::counts::{OfFlow, OfTable, TableCounts, Used, Worker};
use crate::fields::{Fields, Key};
use crate::flow::Flow;
use crate::index::Prefixes;
use crate::index::{BATCH, Index, NO_SLOT, Search, Slot};
use crate::needs::Needs;

/// The place of a flow in its table: its priority, and when it came. No two flows of a switch have the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    priority: Reverse<u16>,
    came: u64,
}

impl Place {
    #[cfg(test)]
    pub(crate) fn of(priority: u16, came: u64) -> Place {
        Place { priority: Reverse(priority), came }
    }

    pub(crate) fn priority(self) -> u16 {
        self.priority.0
    }
}

/// Flows, in the order in which they are tried: by priority, the largest first. The specification leaves open which of
/// two flows of one priority goes first; here it is the one that came first.
#[derive(Clone, Debug, Default)]
pub struct FlowTable {
    order: BTreeMap<Place, Slot>,
    slots: Vec<Option<Flow>>,
    /// Slots without a flow.
    free: Vec<Slot>,
    /// What is found by an exact match and priority.
    strict: HashMap<(u16, Key), Place>,
    /// What packets are looked up in.
    index: Index,
    /// What has to be known of packets for its flows, and perhaps for some that are gone.
    needs: Needs,
    counts: TableCounts,
}

impl FlowTable {
    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// What has to be known of packets for its flows; for some that are gone, too, perhaps, unless none is left.
    pub(crate) fn needs(&self) -> Needs {
        self.needs
    }

    /// Sees what the flow of a place is now, which is new or was changed.
    pub(crate) fn note_change(&mut self, place: Place) {
        let Some((slot, flow)) = self.order.get(&place).and_then(|slot| Some((*slot, self.in_slot(*slot)?))) else {
            return;
        };
        let (needs, program) = (flow.needs(), flow.program_number());
        self.needs = self.needs.and(needs);
        self.counts.set_program(slot, program);
    }

    /// How flows are found now.
    pub fn search(&self) -> Search {
        self.index.search()
    }

    #[inline]
    pub(crate) fn in_slot(&self, slot: Slot) -> Option<&Flow> {
        self.slots.get(slot as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn in_slot_mut(&mut self, slot: Slot) -> Option<&mut Flow> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// Counters for one worker more.
    pub(crate) fn add_worker(&mut self) {
        self.counts.add_worker();
    }

    /// Packets meet the flow of a slot.
    #[inline]
    pub(crate) fn meet(&self, worker: Worker, slot: Slot, packets: Counted, now: u64) {
        self.counts.meet(worker, slot, packets, now);
    }

    /// What a worker reads of flows, and counts of them.
    #[inline(always)]
    pub(crate) fn of_worker(&self, worker: Worker) -> Option<&OfTable> {
        self.counts.of(worker)
    }

    /// What a worker reads of the flow of a slot, and counts of it.
    #[inline(always)]
    pub(crate) fn of_flow(&self, worker: Worker, slot: Slot) -> Option<OfFlow<'_>> {
        self.counts.of_flow(worker, slot)
    }

    /// Packets meet some flow, which [counts](FlowTable::count) them by itself.
    #[inline]
    pub(crate) fn pass(&self, worker: Worker, packets: u64) {
        self.counts.pass(worker, packets);
    }

    /// Packets are counted at the flow of a slot, and not at the table.
    #[inline]
    pub(crate) fn count(&self, worker: Worker, slot: Slot, packets: Counted, now: u64) {
        self.counts.count(worker, slot, packets, now);
    }

    /// A packet meets no flow.
    #[inline]
    pub(crate) fn miss(&self, worker: Worker) {
        self.counts.look_up(worker, 1);
    }

    /// Packets that were looked up, and those of them that met a flow.
    pub fn passed(&self) -> (u64, u64) {
        self.counts.passed()
    }

    /// What the flow of a place has done.
    pub fn used(&self, place: Place) -> Option<Used> {
        let slot = *self.order.get(&place)?;
        Some(self.counts.used(slot, self.in_slot(slot)?.added))
    }

    /// What the flow of a place has counted is forgotten.
    pub(crate) fn reset_counts(&mut self, place: Place) {
        if let Some(slot) = self.order.get(&place) {
            self.counts.reset(*slot);
        }
    }

    /// All flows, in the order in which they are tried.
    pub fn iter(&self) -> impl Iterator<Item = (Place, &Flow)> {
        self.after(None)
    }

    /// The same, with their slots.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (Slot, &Flow)> {
        self.order.values().filter_map(|slot| Some((*slot, self.in_slot(*slot)?)))
    }

    /// The flows that are tried after the one of a place, or all; that one may be gone.
    pub fn after(&self, place: Option<Place>) -> impl Iterator<Item = (Place, &Flow)> {
        let from = place.map_or(Bound::Unbounded, Bound::Excluded);
        self.order.range((from, Bound::Unbounded)).filter_map(|(place, slot)| Some((*place, self.in_slot(*slot)?)))
    }

    /// The flow of a place.
    pub fn get(&self, place: Place) -> Option<&Flow> {
        self.in_slot(*self.order.get(&place)?)
    }

    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut Flow> {
        self.in_slot_mut(*self.order.get(&place)?)
    }

    /// The flow with just this priority and match.
    pub fn strict(&self, priority: u16, key: &Key) -> Option<Place> {
        // A tuple of owned values is what the map has; one copy per modification.
        self.strict.get(&(priority, key.clone())).copied()
    }

    /// The first flow that a packet meets.
    pub fn lookup(&self, fields: &Fields) -> Option<&Flow> {
        self.find(fields, None).map(|(_, flow)| flow)
    }

    /// The same, with its slot, which may be known already.
    #[inline]
    pub(crate) fn find(&self, fields: &Fields, known: Option<Slot>) -> Option<(Slot, &Flow)> {
        let slot = known.or_else(|| self.index.find(&fields.0))?;
        Some((slot, self.in_slot(slot)?))
    }

    /// Its slot alone: nothing is read of the flow.
    #[inline]
    pub(crate) fn find_slot(&self, fields: &Fields) -> Option<Slot> {
        self.index.find(&fields.0)
    }

    /// Its flows that are prefixes, if there are many.
    pub(crate) fn prefixes(&self) -> Option<&Prefixes> {
        self.index.prefixes()
    }

    /// Whether many packets can be looked up at the same time.
    pub(crate) fn can_approach(&self) -> bool {
        self.index.can_approach()
    }

    /// The flows that packets are the first to meet among prefixes or rules, or in a table of one mask, where they are wanted, or [`NO_SLOT`]: all are found
    /// at the same time.
    #[inline]
    pub(crate) fn approach<'f>(
        &self,
        worker: Worker,
        packets: impl Iterator<Item = (&'f Fields, bool)> + Clone,
    ) -> [Slot; BATCH] {
        let flows = self.counts.of(worker).filter(|flows| !flows.is_near());
        // What a worker reads first of those that it takes first is asked for.
        let ask = |slots: &[Slot]| flows.iter().for_each(|flows| slots.iter().for_each(|slot| flows.prefetch(*slot)));
        self.index.approach(packets.map(|(fields, is_wanted)| (&fields.0, is_wanted)), ask)
    }

    /// Whether what [`FlowTable::approach`] finds is what packets meet: no other flow goes before.
    #[inline]
    pub(crate) fn is_first_found(&self) -> bool {
        self.index.is_first_found()
    }

    /// Finds the flows of packets as those of batches are found, one batch after the other; how many meet one.
    pub fn find_all(&self, packets: &[Fields]) -> usize {
        let batch = |packets: &[Fields]| {
            let (found, is_first) =
                (self.approach(Worker::default(), packets.iter().map(|packet| (packet, true))), self.is_first_found());
            let known = found.into_iter().map(|slot| (is_first && slot != NO_SLOT).then_some(slot));
            packets.iter().zip(known).filter(|(packet, known)| self.find(packet, *known).is_some()).count()
        };
        packets.chunks(BATCH).map(batch).sum()
    }

    /// Packets of which each has what a flow asks for, for up to so many flows from all over the table.
    pub fn samples(&self, most: usize) -> Vec<Fields> {
        let step = self.slots.len().div_ceil(most.max(1)).max(1);
        self.slots.iter().step_by(step).flatten().map(|flow| flow.key.sample()).collect()
    }

    /// The same by definition, one flow after the other: what [`FlowTable::lookup`] is held against.
    pub fn lookup_by_definition(&self, fields: &Fields) -> Option<&Flow> {
        self.iter().map(|(_, flow)| flow).find(|flow| fields.meet(&flow.matches))
    }

    /// Whether some packet may meet a flow of this priority and also `key`.
    pub fn overlaps(&self, priority: u16, key: &Key) -> bool {
        let first = Place { priority: Reverse(priority), came: 0 };
        let last = Place { priority: Reverse(priority), came: u64::MAX };
        let same = self.order.range(first..=last).filter_map(|(_, slot)| self.in_slot(*slot));
        same.into_iter().any(|flow| flow.key.overlaps(key))
    }

    /// Adds a flow that came as number `came`.
    pub(crate) fn insert(&mut self, flow: Flow, came: u64) -> Place {
        let place = Place { priority: Reverse(flow.priority), came };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as Slot
        });
        self.needs = self.needs.and(flow.needs());
        self.strict.insert((flow.priority, flow.key.clone()), place);
        self.index.insert(&flow.key, place, slot);
        self.counts.begin(slot, flow.program_number());
        self.order.insert(place, slot);
        if let Some(empty) = self.slots.get_mut(slot as usize) {
            *empty = Some(flow);
        }
        place
    }

    pub(crate) fn remove(&mut self, place: Place) -> Option<Flow> {
        let slot = self.order.remove(&place)?;
        let flow = self.slots.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        self.strict.remove(&(flow.priority, flow.key.clone()));
        let FlowTable { order, slots, index, .. } = self;
        let left = order.iter().filter_map(|(place, slot)| {
            let flow = slots.get(*slot as usize)?.as_ref()?;
            Some((*place, *slot, &flow.key))
        });
        index.remove(&flow.key, place, left);
        if self.order.is_empty() {
            self.needs = Needs::default();
        }
        Some(flow)
    }
}
