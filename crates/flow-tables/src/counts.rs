//! What workers count. Each has its own counters and writes no others, so that none waits for a line of the cache that another one writes; who asks
//! what was counted adds up those of all.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_mem::prefetch::prefetch_slice;
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
        self.0.load(Ordering::Relaxed)
    }

    /// Adds to it. No instruction locks the line: nobody else writes.
    #[inline(always)]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    /// Lets it be no less than this.
    #[inline(always)]
    fn raise(&self, to: u64) {
        self.0.store(self.get().max(to), Ordering::Relaxed);
    }
}

impl Clone for Count {
    fn clone(&self) -> Count {
        Count(self.get().into())
    }
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

/// What a worker has counted of a flow: two lie in a line.
#[derive(Clone, Debug, Default)]
#[repr(align(32))]
struct OfFlow {
    traffic: Traffic,
    last_used: Count,
}

/// What a worker has counted of a table and its flows.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct OfTable {
    lookups: Count,
    matched: Count,
    /// Of flows by their slots, in pieces, so that none of them moves when there are more.
    flows: Vec<Box<[OfFlow; PIECE]>>,
}

/// Flows whose counters lie together.
const PIECE: usize = 1 << PIECE_BITS;
const PIECE_BITS: u32 = 8;

impl OfTable {
    #[inline(always)]
    fn flow(&self, slot: Slot) -> Option<&OfFlow> {
        Some(&self.flows.get((slot >> PIECE_BITS) as usize)?[slot as usize % PIECE])
    }

    fn flow_mut(&mut self, slot: Slot) -> Option<&mut OfFlow> {
        Some(&mut self.flows.get_mut((slot >> PIECE_BITS) as usize)?[slot as usize % PIECE])
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
    /// Counters for one worker more.
    pub(crate) fn add_worker(&mut self) {
        let pieces = self.0.iter().next().map_or(0, |first| first.flows.len());
        let flows = (0..pieces).map(|_| piece()).collect();
        self.0.add_worker(OfTable { flows, ..OfTable::default() });
    }

    /// A flow begins in a slot: nothing was counted of it.
    pub(crate) fn begin(&mut self, slot: Slot) {
        for table in self.0.iter_mut() {
            while table.flows.len() <= (slot >> PIECE_BITS) as usize {
                table.flows.push(piece());
            }
            if let Some(flow) = table.flow_mut(slot) {
                *flow = OfFlow::default();
            }
        }
    }

    /// What a flow has counted is forgotten, but not when it was used.
    pub(crate) fn reset(&mut self, slot: Slot) {
        self.0.iter_mut().filter_map(|table| table.flow_mut(slot)).for_each(|flow| flow.traffic = Traffic::default());
    }

    /// Asks for the line that [`TableCounts::meet`] writes.
    #[inline(always)]
    pub(crate) fn prefetch(&self, worker: Worker, slot: Slot) {
        if let Some(piece) = self.0.of(worker).and_then(|table| table.flows.get((slot >> PIECE_BITS) as usize)) {
            prefetch_slice(&piece[..], slot as usize % PIECE);
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
            flow.traffic.add(packets);
            flow.last_used.raise(now);
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
            counted: sum(flows().map(|flow| &flow.traffic)),
            last_used: flows().fold(added, |last, flow| last.max(flow.last_used.get())),
        }
    }
}

fn piece() -> Box<[OfFlow; PIECE]> {
    Box::new(std::array::from_fn(|_| OfFlow::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_workers_count_apart_is_added_up_and_a_flow_that_begins_has_counted_nothing() {
        let (mut counts, last) = (TableCounts::default(), PIECE as Slot);
        counts.begin(0);
        counts.begin(last);
        counts.add_worker();
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
}
