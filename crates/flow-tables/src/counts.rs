//! What workers count. Each has its own counters and writes no others, so that none waits for a line of the cache that another one writes; who asks
//! what was counted adds up those of all.

use std::alloc::{Layout, handle_alloc_error};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_mem::HugeSlice;
use weir_mem::prefetch::prefetch_slice;
use weir_openflow::group::Counted;

use crate::fast::programs::ProgramNumber;
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
        get(&self.0)
    }

    /// Adds to it.
    #[inline(always)]
    pub(crate) fn add(&self, more: u64) {
        add(&self.0, more);
    }
}

#[inline(always)]
fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// Adds to a number. No instruction locks the line: nobody else writes.
#[inline(always)]
fn add(count: &AtomicU64, more: u64) {
    count.store(get(count).wrapping_add(more), Ordering::Relaxed);
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

/// Packets of a batch and their bytes in one number, so that a packet is one addition: bytes stand below packets, and are less than a TiB in all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Several(u64);

impl Several {
    const PACKET: u64 = 1 << 40;

    /// One packet more, of so many bytes.
    #[inline(always)]
    pub(crate) fn add(&mut self, bytes: usize) {
        self.0 = self.0.wrapping_add(Several::PACKET).wrapping_add(bytes as u64);
    }

    /// Those of another number more.
    #[inline]
    pub(crate) fn add_all(&mut self, more: Several) {
        self.0 = self.0.wrapping_add(more.0);
    }

    pub(crate) fn counted(self) -> Counted {
        Counted { packets: self.0 / Several::PACKET, bytes: self.0 % Several::PACKET }
    }
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

/// What a worker counts of a flow, and what it reads of one that it meets: packets, bytes, when it was used last, and the number of its program with 1 added, or 0.
/// So a packet takes one line of the cache for its flow, in which two lie.
type Row = [AtomicU64; 4];

/// What a worker counts of a flow, and reads of it.
#[derive(Clone, Copy)]
pub(crate) struct OfFlow<'t>(&'t Row);

impl OfFlow<'_> {
    /// Counts packets.
    #[inline(always)]
    pub(crate) fn count(self, more: Counted, now: u64) {
        let [packets, bytes, last_used, _] = self.0;
        add(packets, more.packets);
        add(bytes, more.bytes);
        // Without a branch: whether the flow was met in this batch before is anybody's guess.
        last_used.store(get(last_used).max(now), Ordering::Relaxed);
    }

    /// The number of its program, if it has one.
    #[inline(always)]
    pub(crate) fn program(self) -> Option<ProgramNumber> {
        let [.., program] = self.0;
        (get(program) as ProgramNumber).checked_sub(1)
    }

    /// The place of its program in a list that begins with one for no program.
    #[inline(always)]
    pub(crate) fn program_place(self) -> usize {
        let [.., program] = self.0;
        get(program) as usize
    }

    fn counted(self) -> Counted {
        let [packets, bytes, ..] = self.0;
        Counted { packets: get(packets), bytes: get(bytes) }
    }

    fn last_used(self) -> u64 {
        let [_, _, last_used, _] = self.0;
        get(last_used)
    }
}

/// Rows of flows by their slots, in pieces, so that none of them moves when there are more, but for those of the first piece, which begins short: a table of few flows
/// takes no huge page. All others are one: rows are met at random, and in base pages nearly each would take a walk through the page tables, too.
#[derive(Debug, Default)]
struct Rows(Vec<HugeSlice<Row>>);

/// Rows of a piece: those of a huge page.
const PIECE: usize = 1 << PIECE_BITS;
const PIECE_BITS: u32 = 16;

/// As many as the first piece has at first: those of a base page.
const FIRST: usize = 128;

/// As many take a third of a cache of 48 KiB.
const NEAR: usize = 512;

/// The piece of a slot, and its place there.
#[inline(always)]
const fn place(slot: Slot) -> (usize, usize) {
    ((slot >> PIECE_BITS) as usize, slot as usize % PIECE)
}

impl Rows {
    #[inline(always)]
    fn row(&self, slot: Slot) -> Option<&Row> {
        let (piece, at) = place(slot);
        self.0.get(piece)?.get(at)
    }

    fn row_mut(&mut self, slot: Slot) -> Option<&mut Row> {
        let (piece, at) = place(slot);
        self.0.get_mut(piece)?.get_mut(at)
    }

    /// Makes room for a slot.
    fn reach(&mut self, slot: Slot) {
        let (number, at) = place(slot);
        while self.0.len() <= number {
            self.0.push(piece(if self.0.is_empty() { FIRST } else { PIECE }));
        }
        if let Some(short) = self.0.get_mut(number)
            && short.len() <= at
        {
            *short = copied(short, (at + 1).next_power_of_two());
        }
    }
}

impl Clone for Rows {
    fn clone(&self) -> Rows {
        Rows(self.0.iter().map(|piece| copied(piece, piece.len())).collect())
    }
}

/// So many rows, which begin with these.
fn copied(from: &[Row], rows: usize) -> HugeSlice<Row> {
    let mut to = piece(rows);
    for (to, from) in to.iter_mut().zip(from) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to.get_mut() = get(from));
    }
    to
}

/// So many rows, of zeroes. Where there is no memory for them, the process ends, as it does for want of any other.
fn piece(rows: usize) -> HugeSlice<Row> {
    HugeSlice::sparse(rows)
        .unwrap_or_else(|_| handle_alloc_error(Layout::array::<Row>(rows).unwrap_or(Layout::new::<Row>())))
}

/// The rows of a table whose rows are one piece.
#[derive(Clone, Copy, Default)]
pub(crate) struct OnePiece<'t>(&'t [Row]);

impl<'t> OnePiece<'t> {
    /// What is counted of the flow in a slot, and read of it.
    #[inline(always)]
    pub(crate) fn of_flow(self, slot: Slot) -> Option<OfFlow<'t>> {
        self.0.get(slot as usize).map(OfFlow)
    }
}

/// What a worker has counted of a table and its flows.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(crate) struct OfTable {
    lookups: Count,
    matched: Count,
    flows: Rows,
}

impl OfTable {
    /// Whether flows are so few that their lines stay in the first cache: they need not be asked for.
    pub(crate) fn is_near(&self) -> bool {
        matches!(self.flows.0.as_slice(), [piece] if piece.len() <= NEAR)
    }

    /// All rows, if they are one piece; none if they are more.
    pub(crate) fn one_piece(&self) -> OnePiece<'_> {
        match self.flows.0.as_slice() {
            [piece] => OnePiece(piece),
            _ => OnePiece::default(),
        }
    }

    /// Asks for the line of the flow in a slot, if there is one.
    #[inline(always)]
    pub(crate) fn prefetch(&self, slot: Slot) {
        let (piece, at) = place(slot);
        if let Some(piece) = self.flows.0.get(piece) {
            prefetch_slice(piece, at);
        }
    }

    /// Fetches the lines of flows, all at the same time. They are read and not asked for: hints are left out where too much was asked for already.
    #[inline(always)]
    pub(crate) fn fetch(&self, slots: &[Slot]) {
        let read = |slot: &Slot| self.flows.row(*slot).map_or(0, |[.., program]| get(program));
        black_box(slots.iter().fold(0, |all, slot| all | read(slot)));
    }

    /// What it counts of the flow in a slot, and reads of it.
    #[inline(always)]
    pub(crate) fn of_flow(&self, slot: Slot) -> Option<OfFlow<'_>> {
        self.flows.row(slot).map(OfFlow)
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
        let mut flows = self.0.iter().next().map_or_else(Rows::default, |first| first.flows.clone());
        for row in flows.0.iter_mut().flat_map(|piece| piece.iter_mut()) {
            let [counted @ .., _] = row;
            counted.iter_mut().for_each(|count| *count.get_mut() = 0);
        }
        self.0.add_worker(OfTable { flows, ..OfTable::default() });
    }

    /// A flow with this program begins in a slot: nothing was counted of it.
    pub(crate) fn begin(&mut self, slot: Slot, program: Option<ProgramNumber>) {
        for table in self.0.iter_mut() {
            table.flows.reach(slot);
            if let Some(row) = table.flows.row_mut(slot) {
                *row = Row::default();
            }
        }
        self.set_program(slot, program);
    }

    /// The flow in a slot has this program from now on.
    pub(crate) fn set_program(&mut self, slot: Slot, program: Option<ProgramNumber>) {
        let number = program.map_or(0, |number| number as u64 + 1);
        for [.., place] in self.0.iter_mut().filter_map(|table| table.flows.row_mut(slot)) {
            *place.get_mut() = number;
        }
    }

    /// What a flow has counted is forgotten, but not when it was used.
    pub(crate) fn reset(&mut self, slot: Slot) {
        for [packets, bytes, ..] in self.0.iter_mut().filter_map(|table| table.flows.row_mut(slot)) {
            (*packets.get_mut(), *bytes.get_mut()) = (0, 0);
        }
    }

    /// What a worker counts.
    #[inline(always)]
    pub(crate) fn of(&self, worker: Worker) -> Option<&OfTable> {
        self.0.of(worker)
    }

    /// What a worker counts of the flow in a slot, and reads of it.
    #[inline(always)]
    pub(crate) fn of_flow(&self, worker: Worker, slot: Slot) -> Option<OfFlow<'_>> {
        self.of(worker)?.of_flow(slot)
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
        if let Some(flow) = self.of_flow(worker, slot) {
            flow.count(packets, now);
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
        let flows = self.0.iter().filter_map(|table| table.flows.row(slot)).map(OfFlow);
        flows.fold(Used { counted: Counted::default(), last_used: added }, |mut used, flow| {
            used.counted.add_all(flow.counted());
            used.last_used = used.last_used.max(flow.last_used());
            used
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_workers_count_apart_is_added_up_and_a_flow_that_begins_has_counted_nothing() {
        let (mut counts, last) = (TableCounts::default(), FIRST as Slot);
        counts.begin(0, Some(3));
        counts.begin(last, Some(5));
        counts.add_worker();
        counts.meet(Worker(0), last, Counted { packets: 2, bytes: 100 }, 7);
        counts.meet(Worker(1), last, Counted { packets: 3, bytes: 400 }, 5);
        counts.look_up(Worker(1), 4);
        let used = Used { counted: Counted { packets: 5, bytes: 500 }, last_used: 7 };
        assert_eq!((counts.used(last, 1), counts.used(last, 9).last_used, counts.passed()), (used, 9, (9, 5)));
        assert_eq!(counts.used(0, 1), Used { last_used: 1, ..Used::default() });
        counts.reset(last);
        assert_eq!(counts.used(last, 1), Used { last_used: 7, ..Used::default() });
        let program = |counts: &TableCounts, slot| counts.of_flow(Worker(1), slot).and_then(OfFlow::program);
        assert_eq!((program(&counts, 0), program(&counts, last)), (Some(3), Some(5)));
        counts.begin(last, None);
        assert_eq!((counts.used(last, 1).last_used, counts.passed()), (1, (9, 5)));
        assert_eq!((program(&counts, 0), program(&counts, last)), (Some(3), None));
        assert!(counts.of_flow(Worker(0), 3 * FIRST as Slot).is_none() && counts.of_flow(Worker(2), 0).is_none());
    }

    #[test]
    fn several_packets_are_their_number_and_their_bytes() {
        let (mut several, mut counted) = (Several::default(), Counted::default());
        for bytes in (0..1 << 16).step_by(9) {
            several.add(bytes);
            counted.add(bytes);
            assert_eq!(several.counted(), counted);
        }
    }

    #[test]
    fn each_slot_has_a_row_of_its_own() {
        let mut rows = Rows::default();
        let slots = || (0..5 * FIRST as Slot).chain([PIECE as Slot - 1, PIECE as Slot, 3 * PIECE as Slot + 7]);
        for slot in slots() {
            rows.reach(slot);
            let [.., place] = rows.row_mut(slot).unwrap();
            *place.get_mut() = u64::from(slot) + 1;
        }
        assert!(slots().all(|slot| OfFlow(rows.row(slot).unwrap()).program() == Some(slot as usize)));
        let copy = rows.clone();
        assert!(slots().all(|slot| OfFlow(copy.row(slot).unwrap()).program() == Some(slot as usize)));
        assert!(rows.row(4 * PIECE as Slot).is_none());
    }
}
