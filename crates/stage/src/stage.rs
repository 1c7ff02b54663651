//! What a stage is, and what it may do with packets.

use std::task::Waker;

use weir_mem::{Clock, Reader, tsc};
use weir_packet::{BATCH, Batch, Burst, Held, LaneId, LaneSet, Lanes, Packet, Pool, Slot};

use crate::ways::{Fate, WayInfo, Ways};

/// One step on a batch of packets.
///
/// A stage answers for each packet by which way it leaves; the engine moves, counts, traces and captures. A stage touches
/// nothing that is shared for writing, reads no clock, allocates nothing, and cannot lose a packet: one it takes out of a
/// batch it either holds and reports, or sends.
pub trait Stage: Send {
    /// What the engine must know before it can wire the stage. Constant for the life of the stage.
    fn declare(&self) -> Declaration;

    /// Handles a batch. Packets not answered for go straight on.
    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>);

    /// Called when its time has come, for stages that produce without input: sends what is due within [`Out::room`] and
    /// returns the time (nanoseconds of [`Out::now`]) of the next call, `u64::MAX` for none. Called again after each
    /// [`Stage::run`] in any case. Only for stages that declare [`Declaration::polled`].
    fn poll(&mut self, _out: &mut Out<'_>) -> u64 {
        u64::MAX
    }

    /// In place of [`Stage::poll`], for stages that declare [`Declaration::makes`]: puts new packets into `batch`, which is
    /// empty and has room for [`BATCH`], answers for them like [`Stage::run`] does, and returns when it wants to be called next.
    /// Packets of [`Out::alloc_burst`] come in by [`Batch::fill_from_burst`].
    fn make(&mut self, _batch: &mut Batch, _out: &mut Out<'_>) -> u64 {
        u64::MAX
    }

    /// Gives a stage that is polled what has it polled soon, for other threads that leave something for it. Called before it is polled for the first
    /// time. Under the virtual clock it does nothing: all stages are polled there before time goes on.
    fn woken_by(&mut self, _waker: &Waker) {}

    /// The name of its type, as Rust writes it: by that its instructions are told from others'. Provided.
    fn type_name(&self) -> &'static str {
        std::any::type_name::<Self>()
    }

    /// Packets that the stage has taken and not sent yet.
    fn held(&self) -> u64 {
        0
    }

    /// Hands over every packet it holds, in the order they came, and forgets them: the stage is removed, or the engine stops.
    fn clear(&mut self, _give: &mut dyn FnMut(Held)) {}
}

/// What the engine must know about a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Its ways out; packets of which nothing is said take the first.
    pub ways: &'static [WayInfo],
    /// Number and common name of the indexed ways (`port[0]`, `port[1]`, ...), which follow those in `ways`.
    pub indexed: Option<(&'static str, usize)>,
    /// Lanes it reads, which somebody upstream must write.
    pub reads: Vec<LaneId>,
    /// Lanes it writes, which nobody upstream may write.
    pub writes: Vec<LaneId>,
    /// Lanes it writes anew, whatever somebody upstream may have written.
    pub renews: Vec<LaneId>,
    /// Lanes it reads and changes.
    pub updates: Vec<LaneId>,
    /// Whether [`Stage::poll`] is to be called.
    pub polled: bool,
    /// Why the packets of [`Stage::make`] come into being: a way declared as `create`. [`Stage::make`] is called in place of
    /// [`Stage::poll`] then.
    pub makes: Option<u8>,
    /// Whether it takes packets by [`Out::hold`]. Where more lanes are to be read behind it after a reload, it gives up what it holds.
    pub lean: bool,
}

impl Declaration {
    /// The declaration of a stage with these ways, that is not polled and uses no lanes but those written at receive.
    pub fn of<W: Ways>() -> Declaration {
        Declaration {
            ways: W::LIST,
            indexed: None,
            reads: vec![],
            writes: vec![],
            renews: vec![],
            updates: vec![],
            polled: false,
            makes: None,
            lean: false,
        }
    }

    /// With `count` indexed ways called `name[0]`, `name[1]`, and so on.
    pub fn indexed(mut self, name: &'static str, count: usize) -> Declaration {
        self.indexed = Some((name, count));
        self
    }

    /// Reading these lanes.
    pub fn reads(mut self, lanes: &[LaneId]) -> Declaration {
        self.reads.extend_from_slice(lanes);
        self
    }

    /// Writing these lanes.
    pub fn writes(mut self, lanes: &[LaneId]) -> Declaration {
        self.writes.extend_from_slice(lanes);
        self
    }

    /// Writing these lanes anew.
    pub fn renews(mut self, lanes: &[LaneId]) -> Declaration {
        self.renews.extend_from_slice(lanes);
        self
    }

    /// Lanes whose content behind the stage does not depend on what it was before.
    pub fn written(&self) -> LaneSet {
        LaneSet::of(&self.writes).and(LaneSet::of(&self.renews))
    }

    /// Reading and changing these lanes.
    pub fn updates(mut self, lanes: &[LaneId]) -> Declaration {
        self.updates.extend_from_slice(lanes);
        self
    }

    /// To be polled.
    pub fn polled(mut self) -> Declaration {
        self.polled = true;
        self
    }

    /// To be called for whole batches of new packets, made for `reason`.
    pub fn makes<W: Ways>(mut self, reason: W) -> Declaration {
        self.makes = Some(reason.code());
        self.polled()
    }

    /// Taking packets by [`Out::hold`].
    pub fn lean(mut self) -> Declaration {
        self.lean = true;
        self
    }

    /// Number of all codes: ways, reasons and indexed ways.
    pub fn codes(&self) -> usize {
        self.ways.len() + self.indexed.map_or(0, |(_, count)| count)
    }

    /// The name behind a code: `expired`, `port[3]`.
    pub fn name_of(&self, code: usize) -> String {
        match (self.ways.get(code), self.indexed) {
            (Some(way), _) => way.name.to_owned(),
            (None, Some((name, _))) => format!("{name}[{}]", code - self.ways.len()),
            (None, None) => format!("way {code}"),
        }
    }

    /// What becomes of packets that leave with this code.
    pub fn fate_of(&self, code: usize) -> Fate {
        self.ways.get(code).map_or(Fate::Way, |way| way.fate)
    }

    /// Whether packets that leave with this code go on somewhere: it is a way and no reason.
    pub fn leads(&self, code: usize) -> bool {
        matches!(self.fate_of(code), Fate::Way | Fate::Again)
    }

    /// Codes and names of the ways that can be wired.
    pub fn ways_out(&self) -> impl Iterator<Item = (usize, String)> {
        (0..self.codes()).filter(|&code| self.leads(code)).map(|code| (code, self.name_of(code)))
    }

    /// The code of a way by its name.
    pub fn code_of(&self, name: &str) -> Option<usize> {
        (0..self.codes()).find(|&code| self.name_of(code) == name)
    }
}

/// A packet that a stage sends beside its batch.
#[derive(Debug)]
pub struct Sent {
    /// The packet, its lanes saved.
    pub packet: Held,
    /// The code of the way it takes.
    pub code: u8,
    /// Why it came into being, as a code of the stage; `None` for one that the stage had taken.
    pub created: Option<u8>,
}

/// Packets that one call of a stage may send beside its batch: a flood of a full batch to 64 ports.
pub const SEND_LIMIT: usize = BATCH * 64;

/// What the engine keeps for [`Out`] from call to call.
#[derive(Debug)]
pub struct OutStore {
    codes: [u8; BATCH],
    sent: Vec<Sent>,
}

impl OutStore {
    /// An empty store.
    pub fn new() -> OutStore {
        OutStore { codes: [0; BATCH], sent: Vec::new() }
    }

    /// The codes of the packets that left their batch.
    #[inline(always)]
    pub fn codes(&self) -> &[u8; BATCH] {
        &self.codes
    }

    /// Packets sent beside the batch, in order.
    #[inline(always)]
    pub fn sent(&mut self) -> &mut Vec<Sent> {
        &mut self.sent
    }
}

impl Default for OutStore {
    fn default() -> OutStore {
        OutStore::new()
    }
}

/// The clock of an engine that runs in the world's time.
#[derive(Clone, Copy, Debug)]
pub struct EngineClock {
    /// Turns cycles into nanoseconds.
    pub clock: Clock,
    /// Reading of the time stamp counter that is time 0.
    pub epoch: u64,
}

impl EngineClock {
    /// The time, read now.
    #[inline(always)]
    pub fn read(&self) -> u64 {
        self.clock.span_nanos(tsc::now().wrapping_sub(self.epoch))
    }
}

/// The ways out of a stage, as it sees them during one call.
pub struct Out<'a> {
    now: u64,
    clock: Option<EngineClock>,
    leaving: u64,
    indexed_from: u8,
    store: &'a mut OutStore,
    pool: &'a mut dyn Pool,
    reader: &'a Reader,
    room: &'a [u32],
    behind: LaneSet,
}

impl<'a> Out<'a> {
    /// For one call of a stage at `now`. `ways` is how many ways and reasons are in its list, `room` how many packets each
    /// code can take (empty: no bound is known but [`SEND_LIMIT`]).
    #[inline(always)]
    pub fn new(
        now: u64,
        ways: usize,
        store: &'a mut OutStore,
        pool: &'a mut dyn Pool,
        reader: &'a Reader,
        room: &'a [u32],
    ) -> Out<'a> {
        let indexed_from = ways as u8;
        Out { now, clock: None, leaving: 0, indexed_from, store, pool, reader, room, behind: LaneSet::ALL }
    }

    /// Where only these lanes are read behind the stage.
    #[inline(always)]
    pub fn with_lanes_behind(mut self, lanes: LaneSet) -> Out<'a> {
        self.behind = lanes;
        self
    }

    /// Takes a packet out of the batch with the lanes that somebody reads behind the stage. What it says of the others means nothing, to the stage
    /// itself, too.
    #[inline(always)]
    pub fn hold(&self, batch: &mut Batch, slot: Slot) -> Option<Held> {
        batch.hold_with(slot, self.behind)
    }

    /// With a clock that can be read.
    #[inline(always)]
    pub fn with_clock(mut self, clock: Option<EngineClock>) -> Out<'a> {
        self.clock = clock;
        self
    }

    /// Whether time is virtual.
    #[inline(always)]
    pub fn is_virtual(&self) -> bool {
        self.clock.is_none()
    }

    /// The time, read now and not at the loop's beginning; [`Out::now`] where time is virtual. Costs as much as a packet or
    /// two: only for a generator's stamps and its receiver, once per batch.
    #[inline(always)]
    pub fn read_clock(&self) -> u64 {
        self.clock.map_or(self.now, |clock| clock.read())
    }

    /// When a stage that waits for nothing but what others may leave for it is to look again: `nanos` from now. Where time is
    /// virtual, nothing else moves meanwhile, and the engine polls every stage before time leaps and after every request: then never.
    #[inline(always)]
    pub fn look_again(&self, nanos: u64) -> u64 {
        if self.is_virtual() { u64::MAX } else { self.now.saturating_add(nanos) }
    }

    /// This worker's right to read published tables, until it answers.
    #[inline(always)]
    pub fn reader(&self) -> &'a Reader {
        self.reader
    }

    /// The time, in nanoseconds of the engine's clock: one reading per loop.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The mask of packets that were answered for with anything but the first way.
    #[inline(always)]
    pub fn leaving(&self) -> u64 {
        self.leaving
    }

    /// Answers for one packet of the batch; the last answer counts.
    #[inline(always)]
    pub fn answer<W: Ways>(&mut self, slot: Slot, way: W) {
        self.answer_code(slot, way.code());
    }

    /// Answers for one packet of the batch: it leaves by indexed way `n`, which is below the declared count.
    #[inline(always)]
    pub fn answer_indexed(&mut self, slot: Slot, n: u8) {
        // Indexed ways follow at least one other, so that this is never the first way.
        self.store.codes[slot.index()] = self.indexed_from.saturating_add(n);
        self.leaving |= slot.bit();
    }

    /// Answers for the packets in `mask`, each of which leaves by the indexed way that stands at its slot in `ways`.
    ///
    /// As the first answer of a call this is much cheaper than one answer after the other.
    #[inline(always)]
    pub fn answer_indexed_each(&mut self, mask: u64, ways: &[u8; BATCH]) {
        if self.leaving & !mask == 0 {
            // Codes of packets that go straight on mean nothing, so that all may be written, by vectors.
            for (code, way) in self.store.codes.iter_mut().zip(ways) {
                *code = self.indexed_from.saturating_add(*way);
            }
            self.leaving = mask;
        } else {
            weir_packet::Slots(mask).for_each(|slot| self.answer_indexed(slot, ways[slot.index()]));
        }
    }

    #[inline(always)]
    fn answer_code(&mut self, slot: Slot, code: u8) {
        self.store.codes[slot.index()] = code;
        self.leaving = self.leaving & !slot.bit() | u64::from(code != 0) << slot.index();
    }

    /// Answers for the packets in `mask` alike.
    #[inline]
    pub fn answer_all<W: Ways>(&mut self, mask: u64, way: W) {
        weir_packet::Slots(mask).for_each(|slot| self.answer(slot, way));
    }

    /// Answers for the packets in `mask` alike: they leave by indexed way `n`.
    #[inline]
    pub fn answer_all_indexed(&mut self, mask: u64, n: u8) {
        weir_packet::Slots(mask).for_each(|slot| self.answer_indexed(slot, n));
    }

    /// The loop that most stages are: asks `step` about each live packet in order.
    #[inline(always)]
    pub fn each<W: Ways>(&mut self, batch: &mut Batch, mut step: impl FnMut(Slot, &mut Packet, &mut Lanes) -> W) {
        batch.each(|slot, packet, lanes| {
            let way = step(slot, packet, lanes);
            self.answer(slot, way);
        });
    }

    /// Sends a packet that the stage had taken, by a way or to a reason (drop, consume).
    #[inline]
    pub fn send<W: Ways>(&mut self, packet: Held, way: W) {
        self.store.sent.push(Sent { packet, code: way.code(), created: None });
    }

    /// Sends a packet that the stage had taken by indexed way `n`.
    #[inline]
    pub fn send_indexed(&mut self, packet: Held, n: u8) {
        self.store.sent.push(Sent { packet, code: self.indexed_from.saturating_add(n), created: None });
    }

    /// An empty buffer for a new packet; `None` when the pool is exhausted or the stage has sent all it may in this call.
    #[inline]
    pub fn alloc(&mut self) -> Option<Packet> {
        if self.store.sent.len() >= SEND_LIMIT {
            return None;
        }
        self.pool.alloc()
    }

    /// Adds `n` empty buffers for [`Stage::make`] to `burst`; all or none. Returns whether it did.
    #[inline]
    pub fn alloc_burst(&mut self, n: usize, burst: &mut Burst) -> bool {
        self.pool.alloc_burst(n, burst)
    }

    /// Gives an unused buffer of [`Out::alloc`] back.
    pub fn unalloc(&mut self, packet: Packet) {
        self.pool.free(packet);
    }

    /// Sends a new packet, made for `reason` (a way declared as `create`), by a way.
    #[inline]
    pub fn emit<W: Ways>(&mut self, packet: Held, way: W, reason: W) {
        self.store.sent.push(Sent { packet, code: way.code(), created: Some(reason.code()) });
    }

    /// Sends a new packet, made for `reason` (a way declared as `create`), by indexed way `n`.
    #[inline]
    pub fn emit_indexed<W: Ways>(&mut self, packet: Held, n: u8, reason: W) {
        let code = self.indexed_from.saturating_add(n);
        self.store.sent.push(Sent { packet, code, created: Some(reason.code()) });
    }

    /// A deep copy of a packet, in a buffer of its own; `None` when there is none or the copy does not fit.
    pub fn copy(&mut self, packet: &Packet) -> Option<Packet> {
        let mut copy = self.alloc()?;
        if copy.fill(packet.bytes()) {
            return Some(copy);
        }
        self.pool.free(copy);
        None
    }

    /// Packets that may still be sent in this call.
    pub fn room(&self) -> usize {
        SEND_LIMIT.saturating_sub(self.store.sent.len())
    }

    /// Packets that the port or link behind a way takes now without dropping or holding; [`Out::room`] where it is unknown: to
    /// stages that are not [polled](Declaration::polled).
    pub fn room_at<W: Ways>(&self, way: W) -> usize {
        self.room_of_code(way.code())
    }

    /// Packets that the port or link behind indexed way `n` takes now.
    pub fn room_at_indexed(&self, n: u8) -> usize {
        self.room_of_code(self.indexed_from.saturating_add(n))
    }

    fn room_of_code(&self, code: u8) -> usize {
        self.room.get(code as usize).map_or(self.room(), |&room| self.room().min(room as usize))
    }
}
