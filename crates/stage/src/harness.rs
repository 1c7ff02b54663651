//! Tests of single stages: packets in, packets per way out.

use std::collections::BTreeMap;

use weir_mem::{Domain, Reader};
use weir_packet::{BATCH, Batch, HeapPool, Held, Lanes, Pool, Slot};

use crate::stage::{Declaration, Out, OutStore, Stage};

/// Runs one stage on packets given as bytes, and tells what became of each.
pub struct Harness<S> {
    /// The stage under test.
    pub stage: S,
    pool: Box<dyn Pool>,
    store: OutStore,
    lanes: Lanes,
    reader: Reader,
    room: Vec<u32>,
}

/// What came out of a stage.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Packets that the stage was handed: fewer than were given where buffers ran out.
    pub entered: u64,
    /// Packets per way or reason, by name, in order of their slots and then of being sent.
    pub ways: BTreeMap<String, Vec<Vec<u8>>>,
    /// New packets per reason of their creation.
    pub created: BTreeMap<String, u64>,
    /// What the stage's poll returned.
    pub next_poll: Option<u64>,
    /// The lanes of the batch after the call.
    pub lanes: Lanes,
}

impl Outcome {
    /// Packets that took a way (or met a reason), none if the name did not occur.
    pub fn way(&self, name: &str) -> &[Vec<u8>] {
        self.ways.get(name).map_or(&[], Vec::as_slice)
    }

    /// Packets per way, as counts.
    pub fn counts(&self) -> BTreeMap<&str, usize> {
        self.ways.iter().map(|(name, packets)| (name.as_str(), packets.len())).collect()
    }
}

/// A stage in a box, as functions and kinds of stages make them.
pub struct Boxed(pub Box<dyn Stage>);

impl Stage for Boxed {
    fn declare(&self) -> Declaration {
        self.0.declare()
    }
    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        self.0.run(batch, out);
    }
    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        self.0.poll(out)
    }
    fn make(&mut self, batch: &mut Batch, out: &mut Out<'_>) -> u64 {
        self.0.make(batch, out)
    }
    fn held(&self) -> u64 {
        self.0.held()
    }
    fn clear(&mut self, give: &mut dyn FnMut(Held)) {
        self.0.clear(give);
    }
}

impl<S: Stage> Harness<S> {
    /// A harness with plenty of heap buffers, each with a data room of 9,216 bytes.
    ///
    /// # Panics
    ///
    /// When `domain`, in which the stage's tables are published, has no room for a reader.
    pub fn reading(stage: S, domain: &Domain) -> Harness<S> {
        Harness::with(stage, domain, 2 * crate::SEND_LIMIT)
    }

    /// A harness for a stage that reads no published tables.
    pub fn new(stage: S) -> Harness<S> {
        Harness::reading(stage, &Domain::new())
    }

    /// A harness with only so many buffers: for what happens when there are no more, and for tests that need many harnesses.
    pub fn small(stage: S, buffers: usize) -> Harness<S> {
        Harness::with(stage, &Domain::new(), buffers)
    }

    #[allow(clippy::expect_used, reason = "only tests use a harness")]
    fn with(stage: S, domain: &Domain, buffers: usize) -> Harness<S> {
        let pool = Box::new(HeapPool::new(buffers, weir_packet::MAX_FRAME));
        let reader = domain.reader().expect("a free reader");
        Harness { stage, pool, store: OutStore::new(), lanes: Lanes::new(), reader, room: Vec::new() }
    }

    /// From now on the port or link behind a way takes so many packets per call; any number otherwise.
    pub fn set_room(&mut self, way: &str, packets: u32) {
        let declaration = self.stage.declare();
        self.room.resize(declaration.codes(), u32::MAX);
        if let Some(room) = declaration.code_of(way).and_then(|code| self.room.get_mut(code)) {
            *room = packets;
        }
    }

    /// The lanes that every batch starts with: set what an upstream stage would have written.
    pub fn lanes(&mut self) -> &mut Lanes {
        &mut self.lanes
    }

    /// Hands the stage at most [`BATCH`] packets at time `now` and collects what it answers.
    pub fn run(&mut self, now: u64, packets: &[impl AsRef<[u8]>]) -> Outcome {
        let mut batch = Batch::new();
        batch.lanes = self.lanes.clone();
        for (n, bytes) in packets.iter().take(BATCH).enumerate() {
            let Some(mut packet) = self.pool.alloc() else { break };
            packet.fill(bytes.as_ref());
            batch.lanes.time[Slot::new(n)] = now;
            if let Err(packet) = batch.push(packet) {
                self.pool.free(packet);
            }
        }
        let entered = batch.len() as u64;
        let ways = self.stage.declare().ways.len();
        let mut out = Out::new(now, ways, &mut self.store, &mut *self.pool, &self.reader, &self.room);
        self.stage.run(&mut batch, &mut out);
        let leaving = out.leaving();
        Outcome { entered, ..self.collect(batch, leaving, None) }
    }

    /// Polls the stage at time `now`.
    pub fn poll(&mut self, now: u64) -> Outcome {
        let ways = self.stage.declare().ways.len();
        let mut out = Out::new(now, ways, &mut self.store, &mut *self.pool, &self.reader, &self.room);
        let next = self.stage.poll(&mut out);
        self.collect(Batch::new(), 0, Some(next))
    }

    /// Lets the stage make a batch at time `now`.
    pub fn make(&mut self, now: u64) -> Outcome {
        let declaration = self.stage.declare();
        let mut batch = Batch::new();
        let mut out = Out::new(now, declaration.ways.len(), &mut self.store, &mut *self.pool, &self.reader, &self.room);
        let next = self.stage.make(&mut batch, &mut out);
        let leaving = out.leaving();
        let made = batch.len() as u64;
        let mut outcome = self.collect(batch, leaving, Some(next));
        if let Some(reason) = declaration.makes.filter(|_| made > 0) {
            outcome.created.insert(declaration.name_of(reason as usize), made);
        }
        outcome
    }

    /// Takes what the stage holds.
    pub fn clear(&mut self) -> Vec<Vec<u8>> {
        let mut held = Vec::new();
        self.stage.clear(&mut |packet: Held| held.push(packet));
        held.into_iter().map(|packet| self.bytes_of(packet)).collect()
    }

    fn bytes_of(&mut self, packet: Held) -> Vec<u8> {
        let packet = packet.into_packet();
        let bytes = packet.bytes().to_vec();
        self.pool.free(packet);
        bytes
    }

    fn collect(&mut self, mut batch: Box<Batch>, leaving: u64, next_poll: Option<u64>) -> Outcome {
        let declaration = self.stage.declare();
        let mut outcome = Outcome { next_poll, lanes: batch.lanes.clone(), ..Outcome::default() };
        for slot in batch.slots() {
            let straight = leaving & slot.bit() == 0;
            let code = if straight { 0 } else { self.store.codes().get(slot.index()).copied().unwrap_or(0) };
            let Some(packet) = batch.take(slot) else { continue };
            let name = declaration.name_of(code as usize);
            outcome.ways.entry(name).or_default().push(packet.bytes().to_vec());
            self.pool.free(packet);
        }
        for sent in std::mem::take(self.store.sent()) {
            if let Some(reason) = sent.created {
                *outcome.created.entry(declaration.name_of(reason as usize)).or_default() += 1;
            }
            let bytes = self.bytes_of(sent.packet);
            outcome.ways.entry(declaration.name_of(sent.code as usize)).or_default().push(bytes);
        }
        outcome
    }
}

impl<S> Drop for Harness<S> {
    fn drop(&mut self) {
        let lost = self.pool.taken() - self.pool.at_hand();
        // A stage that is dropped with packets in hand loses them too: tests clear it first.
        assert!(
            std::thread::panicking() || lost == 0,
            "{lost} packets are neither held nor sent; did the test clear the stage?"
        );
    }
}
