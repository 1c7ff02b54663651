//! What workers count. Each has its own counters and writes no others, so that none waits for a line of the cache that another one writes; who asks
//! what was counted adds up those of all.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_mem::prefetch::prefetch_slice_write;
use weir_mem::{HugeSlice, arena};
use weir_openflow::group::Counted;

use crate::index::Slot;

/// The number of a worker among those of a switch, from 0 on: who takes packets by the [fast path](crate::fast) has one, and nobody else has it meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worker(pub(crate) usize);

/// A number that one worker adds to, and that anybody may read.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        load(&self.0)
    }

    #[inline(always)]
    pub(crate) fn add(&self, more: u64) {
        add(&self.0, more);
    }
}

impl Clone for Count {
    fn clone(&self) -> Count {
        Count(self.get().into())
    }
}

#[inline(always)]
fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

/// Adds to a word. No instruction locks the line: nobody else writes.
#[inline(always)]
fn add(word: &AtomicU64, more: u64) {
    word.store(load(word).wrapping_add(more), Ordering::Relaxed);
}

/// Packets and bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic {
    packets: Count,
    bytes: Count,
}

impl Traffic {
    #[inline(always)]
    pub(crate) fn add(&self, packets: Counted) {
        self.packets.add(packets.packets);
        self.bytes.add(packets.bytes);
    }

    pub(crate) fn get(&self) -> Counted {
        Counted { packets: self.packets.get(), bytes: self.bytes.get() }
    }
}

/// The sum of what several workers counted.
pub(crate) fn sum<'t>(all: impl Iterator<Item = &'t Traffic>) -> Counted {
    all.fold(Counted::default(), |mut sum, traffic| {
        sum.add_all(traffic.get());
        sum
    })
}

/// Counters of each worker, apart from those of others.
#[derive(Clone, Debug)]
pub(crate) struct PerWorker<T>(Vec<T>);

impl<T: Clone> PerWorker<T> {
    /// The same for so many workers.
    pub(crate) fn new(workers: usize, counters: &T) -> PerWorker<T> {
        PerWorker(vec![counters.clone(); workers])
    }

    /// Counters for one worker more.
    pub(crate) fn add_worker(&mut self, counters: T) {
        self.0.push(counters);
    }

    #[inline(always)]
    pub(crate) fn of(&self, worker: Worker) -> Option<&T> {
        self.0.get(worker.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }
}

/// What a flow has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// The packets that it matched.
    pub counted: Counted,
    /// When it matched one last, or was added; nanoseconds of the given clock.
    pub last_used: u64,
}

/// What a worker has counted of a flow: packets, bytes, and when it was used last; one word more, so that two lie in a line.
type OfFlow = [AtomicU64; 4];

/// What a worker has counted of a table and its flows.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct OfTable {
    lookups: Count,
    matched: Count,
    /// Of flows by their slots, in pieces, each as large as all before it, so that none of them moves when there are more, and that most lie in few pages.
    flows: Vec<HugeSlice<OfFlow>>,
}

/// Flows in the first piece.
const FIRST: u32 = 1 << FIRST_BITS;
const FIRST_BITS: u32 = 8;

/// In which piece a flow is, and where there.
#[inline(always)]
fn place(slot: Slot) -> (usize, usize) {
    let piece = u32::BITS - (slot >> FIRST_BITS).leading_zeros();
    let before = if piece == 0 { 0 } else { FIRST << (piece - 1) };
    (piece as usize, (slot - before) as usize)
}

/// How many flows a piece has room for.
fn length(piece: usize) -> usize {
    (FIRST as usize) << piece.saturating_sub(1)
}

impl OfTable {
    /// With room for the flows of so many pieces.
    fn new(pieces: usize) -> Result<OfTable, arena::Error> {
        let flows = (0..pieces).map(|piece| HugeSlice::sparse(length(piece))).collect::<Result<_, _>>()?;
        Ok(OfTable { flows, ..OfTable::default() })
    }

    #[inline(always)]
    fn flow(&self, slot: Slot) -> Option<&OfFlow> {
        let (piece, at) = place(slot);
        self.flows.get(piece)?.get(at)
    }

    fn flow_mut(&mut self, slot: Slot) -> Option<&mut OfFlow> {
        let (piece, at) = place(slot);
        self.flows.get_mut(piece)?.get_mut(at)
    }

    /// Room for the flow of a slot.
    fn make_room(&mut self, slot: Slot) -> Result<(), arena::Error> {
        while self.flows.len() <= place(slot).0 {
            self.flows.push(HugeSlice::sparse(length(self.flows.len()))?);
        }
        Ok(())
    }
}

impl Clone for OfTable {
    /// Where there is no memory for it, the copy has counted nothing of some flows.
    fn clone(&self) -> OfTable {
        let word = |from: &[OfFlow], at: usize| {
            from.get(at).map_or_else(OfFlow::default, |flow| flow.each_ref().map(|word| load(word).into()))
        };
        let copy = |from: &HugeSlice<OfFlow>| HugeSlice::from_fn(from.len(), |at| word(from, at)).ok();
        let OfTable { lookups, matched, flows } = self;
        OfTable { lookups: lookups.clone(), matched: matched.clone(), flows: flows.iter().map_while(copy).collect() }
    }
}

/// What workers have counted of a table and its flows.
#[derive(Clone, Debug)]
pub(crate) struct TableCounts(PerWorker<OfTable>);

impl Default for TableCounts {
    /// For one worker.
    fn default() -> TableCounts {
        TableCounts(PerWorker::new(1, &OfTable::default()))
    }
}

impl TableCounts {
    /// Counters for one worker more, to be [added](Self::add_worker).
    ///
    /// # Errors
    ///
    /// No memory.
    pub(crate) fn for_another(&self) -> Result<OfTable, arena::Error> {
        OfTable::new(self.0.iter().next().map_or(0, |first| first.flows.len()))
    }

    pub(crate) fn add_worker(&mut self, counters: OfTable) {
        self.0.add_worker(counters);
    }

    /// Room for the flow of a slot.
    ///
    /// # Errors
    ///
    /// No memory.
    pub(crate) fn make_room(&mut self, slot: Slot) -> Result<(), arena::Error> {
        self.0.iter_mut().try_for_each(|table| table.make_room(slot))
    }

    /// A flow begins in a slot for which there is room: nothing was counted of it.
    pub(crate) fn begin(&mut self, slot: Slot) {
        self.0.iter_mut().filter_map(|table| table.flow_mut(slot)).for_each(|flow| *flow = OfFlow::default());
    }

    /// What a flow has counted is forgotten, but not when it was used.
    pub(crate) fn reset(&mut self, slot: Slot) {
        let flows = self.0.iter_mut().filter_map(|table| table.flow_mut(slot));
        flows.for_each(|[packets, bytes, ..]| (*packets, *bytes) = Default::default());
    }

    /// Asks for the line that [`TableCounts::meet`] writes.
    #[inline(always)]
    pub(crate) fn prefetch(&self, worker: Worker, slot: Slot) {
        let (piece, at) = place(slot);
        if let Some(piece) = self.0.of(worker).and_then(|table| table.flows.get(piece)) {
            prefetch_slice_write(piece, at);
        }
    }

    /// Packets were looked up.
    #[inline(always)]
    pub(crate) fn look_up(&self, worker: Worker, packets: u64) {
        if let Some(table) = self.0.of(worker) {
            table.lookups.add(packets);
        }
    }

    /// Packets were looked up, and met the flow in a slot.
    #[inline(always)]
    pub(crate) fn meet(&self, worker: Worker, slot: Slot, packets: Counted, now: u64) {
        self.pass(worker, packets.packets);
        self.count(worker, slot, packets, now);
    }

    /// Packets were looked up, and met a flow that counts them by itself.
    #[inline(always)]
    pub(crate) fn pass(&self, worker: Worker, packets: u64) {
        if let Some(table) = self.0.of(worker) {
            table.lookups.add(packets);
            table.matched.add(packets);
        }
    }

    /// The flow in a slot counts packets.
    #[inline(always)]
    pub(crate) fn count(&self, worker: Worker, slot: Slot, packets: Counted, now: u64) {
        if let Some(flow) = self.0.of(worker).and_then(|table| table.flow(slot)) {
            let [all, bytes, last_used, _] = flow;
            add(all, packets.packets);
            add(bytes, packets.bytes);
            last_used.store(load(last_used).max(now), Ordering::Relaxed);
        }
    }

    /// Packets that were looked up, and those of them that met a flow.
    pub(crate) fn passed(&self) -> (u64, u64) {
        self.0.iter().fold((0, 0), |(lookups, matched), table| {
            (lookups.wrapping_add(table.lookups.get()), matched.wrapping_add(table.matched.get()))
        })
    }

    /// What the flow in a slot has done that was added at `added`.
    pub(crate) fn used(&self, slot: Slot, added: u64) -> Used {
        let flows = || self.0.iter().filter_map(|table| table.flow(slot));
        Used {
            counted: flows().fold(Counted::default(), |mut sum, [packets, bytes, ..]| {
                sum.add_all(Counted { packets: load(packets), bytes: load(bytes) });
                sum
            }),
            last_used: flows().fold(added, |last, [_, _, last_used, _]| last.max(load(last_used))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_workers_count_apart_is_added_up_and_a_flow_that_begins_has_counted_nothing() {
        let (mut counts, last) = (TableCounts::default(), 5 * FIRST);
        counts.make_room(last).unwrap();
        counts.begin(0);
        counts.begin(last);
        let another = counts.for_another().unwrap();
        counts.add_worker(another);
        counts.meet(Worker(0), last, Counted { packets: 2, bytes: 100 }, 7);
        counts.meet(Worker(1), last, Counted { packets: 3, bytes: 400 }, 5);
        counts.look_up(Worker(1), 4);
        let used = Used { counted: Counted { packets: 5, bytes: 500 }, last_used: 7 };
        assert_eq!((counts.used(last, 1), counts.used(last, 9).last_used, counts.passed()), (used, 9, (9, 5)));
        assert_eq!(counts.used(0, 1), Used { last_used: 1, ..Used::default() });
        counts.reset(last);
        assert_eq!(counts.used(last, 1), Used { last_used: 7, ..Used::default() });
        counts.begin(last);
        assert_eq!((counts.used(last, 1).last_used, counts.passed()), (1, (9, 5)));
    }

    #[test]
    fn each_slot_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for slot in 0..20 * FIRST {
            assert_eq!(place(slot), expected);
            expected.1 += 1;
            if expected.1 == length(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
        let (piece, at) = place(Slot::MAX);
        assert_eq!(at + 1, length(piece));
    }
}
