//! The packets of a batch as a script's accessors see them: in place, by address.
//!
//! Compiled Lua reads and writes all of this while the script runs, so every field may change behind a shared reference: they are atomics,
//! of which loads and stores cost what those of plain numbers do.
#![forbid(unsafe_code)]

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

use mlua::{LightUserData, Lua, Table};
use weir_packet::{BATCH, Batch, Held, MAX_FRAME, Slot};
use weir_stage::Out;

use crate::stage::Ways;

/// Packets are counted from 1.
const PLACES: usize = BATCH + 1;

/// What accessors write for a packet: by default it goes straight on.
mod answer {
    pub(super) const OUT: u32 = 0;
    pub(super) const DROP: u32 = 1;
    pub(super) const TOO_LONG: u32 = 2;
    pub(super) const HOLD: u32 = 3;
    pub(super) const FIRST_WAY: u32 = 4;
}

/// New packets that a script may make of a batch.
const MADE: usize = 64;

/// Words of eight bytes that they may have together.
const SPACE: usize = (128 << 10) / 8;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Out,
    Dropped,
    Error,
    Way(u8),
    /// It waits.
    Hold,
}

/// One batch.
#[derive(Debug)]
pub(crate) struct View {
    seen: Arc<Seen>,
    /// Which slot each packet is in, and how long it was.
    slots: [(Slot, u32); PLACES],
}

/// What accessors see.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) count: AtomicU32,
    /// Of a double.
    pub(crate) now: AtomicU64,
    /// Where each packet begins.
    bytes: [AtomicPtr<u8>; PLACES],
    pub(crate) lengths: [AtomicU32; PLACES],
    /// How long it may become.
    rooms: [AtomicU32; PLACES],
    ports: [AtomicU32; PLACES],
    /// Of doubles.
    times: [AtomicU64; PLACES],
    answers: [AtomicU32; PLACES],
    /// Of doubles: what packets are looked up by. No number where they are not.
    pub(crate) keys: [AtomicU64; PLACES],
    /// Of doubles: what was found.
    pub(crate) found: [AtomicU64; PLACES],
    /// IPv6 addresses that packets are looked up by, as they lie in the packet; of those that `wide` says have one.
    addresses: [[AtomicU64; 2]; PLACES],
    wide: [AtomicU32; PLACES],
    /// New packets: how many, how many words of `space` they take, and of each which packet it is like, its length, and its answer. They stand one
    /// behind the other, each from the beginning of a word on.
    made: AtomicU32,
    used: AtomicU32,
    likes: [AtomicU32; MADE],
    sizes: [AtomicU32; MADE],
    leads: [AtomicU32; MADE],
    space: Box<[AtomicU64]>,
    /// How many more packets may be held.
    places: AtomicU32,
    /// Of doubles: for how long packets are to be held.
    spans: [AtomicU64; PLACES],
    /// Of doubles: for how long they were held, below 0 if they were not.
    waited: [AtomicU64; PLACES],
    /// Something else than tables was asked, or was looked up by an address.
    pub(crate) asked: AtomicU32,
}

/// Exact up to 2^53 ns, which is 104 days of the engine's clock.
fn double(time: u64) -> u64 {
    (time as f64).to_bits()
}

impl Seen {
    /// In place of a value where nothing was found.
    pub(crate) const NOTHING: f64 = -1.0;

    fn new() -> Seen {
        Seen {
            count: AtomicU32::new(0),
            now: AtomicU64::new(0),
            bytes: std::array::from_fn(|_| AtomicPtr::new(null_mut())),
            lengths: std::array::from_fn(|_| AtomicU32::new(0)),
            rooms: std::array::from_fn(|_| AtomicU32::new(0)),
            ports: std::array::from_fn(|_| AtomicU32::new(0)),
            times: std::array::from_fn(|_| AtomicU64::new(0)),
            answers: std::array::from_fn(|_| AtomicU32::new(0)),
            keys: std::array::from_fn(|_| AtomicU64::new(f64::NAN.to_bits())),
            found: std::array::from_fn(|_| AtomicU64::new(Seen::NOTHING.to_bits())),
            addresses: std::array::from_fn(|_| [AtomicU64::new(0), AtomicU64::new(0)]),
            wide: std::array::from_fn(|_| AtomicU32::new(0)),
            asked: AtomicU32::new(0),
            made: AtomicU32::new(0),
            used: AtomicU32::new(0),
            likes: std::array::from_fn(|_| AtomicU32::new(0)),
            sizes: std::array::from_fn(|_| AtomicU32::new(0)),
            leads: std::array::from_fn(|_| AtomicU32::new(0)),
            space: (0..SPACE).map(|_| AtomicU64::new(0)).collect(),
            places: AtomicU32::new(0),
            spans: std::array::from_fn(|_| AtomicU64::new(0)),
            waited: std::array::from_fn(|_| AtomicU64::new(Seen::NOTHING.to_bits())),
        }
    }

    /// How many packets there are.
    pub(crate) fn count(&self) -> usize {
        (self.count.load(Relaxed) as usize).min(BATCH)
    }

    /// Where the n-th packet begins, counted from 1, and how long it is.
    pub(crate) fn packet(&self, n: usize) -> Option<(*const u8, usize)> {
        let (bytes, length) = self.bytes.get(n).zip(self.lengths.get(n))?;
        Some((bytes.load(Relaxed).cast_const(), length.load(Relaxed) as usize))
    }

    /// Notes what was found for the n-th packet, counted from 1.
    pub(crate) fn note(&self, n: usize, value: Option<u32>) {
        if let Some(found) = self.found.get(n) {
            found.store(value.map_or(Seen::NOTHING, f64::from).to_bits(), Relaxed);
        }
    }

    /// The IPv6 address that the n-th packet is looked up by, counted from 1.
    pub(crate) fn address(&self, n: usize) -> Option<u128> {
        self.wide.get(n).filter(|wide| wide.load(Relaxed) != 0)?;
        let [high, low] = self.addresses.get(n)?.each_ref().map(|half| u64::from_be(half.load(Relaxed)));
        Some(u128::from(high) << 64 | u128::from(low))
    }

    /// Where its fields lie, by name, and what answers are written.
    fn described(&self, lua: &Lua) -> mlua::Result<Table> {
        let described = lua.create_table()?;
        let fields: [(&str, *mut c_void); 22] = [
            ("count", self.count.as_ptr().cast()),
            ("now", self.now.as_ptr().cast()),
            ("bytes", (&raw const self.bytes).cast_mut().cast()),
            ("lengths", (&raw const self.lengths).cast_mut().cast()),
            ("rooms", (&raw const self.rooms).cast_mut().cast()),
            ("ports", (&raw const self.ports).cast_mut().cast()),
            ("times", (&raw const self.times).cast_mut().cast()),
            ("answers", (&raw const self.answers).cast_mut().cast()),
            ("keys", (&raw const self.keys).cast_mut().cast()),
            ("found", (&raw const self.found).cast_mut().cast()),
            ("addresses", (&raw const self.addresses).cast_mut().cast()),
            ("wide", (&raw const self.wide).cast_mut().cast()),
            ("asked", self.asked.as_ptr().cast()),
            ("made", self.made.as_ptr().cast()),
            ("used", self.used.as_ptr().cast()),
            ("likes", (&raw const self.likes).cast_mut().cast()),
            ("sizes", (&raw const self.sizes).cast_mut().cast()),
            ("leads", (&raw const self.leads).cast_mut().cast()),
            ("space", self.space.as_ptr().cast_mut().cast()),
            ("places", self.places.as_ptr().cast()),
            ("spans", (&raw const self.spans).cast_mut().cast()),
            ("waited", (&raw const self.waited).cast_mut().cast()),
        ];
        for (name, address) in fields {
            described.raw_set(name, LightUserData(address))?;
        }
        let numbers = [
            ("out", answer::OUT),
            ("drop", answer::DROP),
            ("too_long", answer::TOO_LONG),
            ("hold", answer::HOLD),
            ("first_way", answer::FIRST_WAY),
            ("most_made", MADE as u32),
            ("most_space", SPACE as u32),
        ];
        for (name, number) in numbers {
            described.raw_set(name, number)?;
        }
        Ok(described)
    }
}

impl View {
    /// Of no packets.
    pub(crate) fn new() -> View {
        View { seen: Arc::new(Seen::new()), slots: [(Slot::new(0), 0); PLACES] }
    }

    /// What accessors see, to look it up.
    pub(crate) fn seen(&self) -> Arc<Seen> {
        Arc::clone(&self.seen)
    }

    /// Where what accessors see lies, by name, and what answers are written.
    pub(crate) fn described(&self, lua: &Lua) -> mlua::Result<Table> {
        self.seen.described(lua)
    }

    /// Whether there may be keys or something found that tables have nothing to do with.
    pub(crate) fn was_asked(&self) -> bool {
        self.seen.asked.load(Relaxed) != 0
    }

    /// Forgets which keys its packets had, and what was found.
    pub(crate) fn forget(&self) {
        let mut places = 1 + self.seen.count.load(Relaxed) as usize;
        if self.was_asked() {
            self.seen.asked.store(0, Relaxed);
            self.seen.wide.iter().for_each(|wide| wide.store(0, Relaxed));
            // The batch that asked may have been larger.
            places = PLACES;
        }
        self.seen.keys.iter().take(places).for_each(|key| key.store(f64::NAN.to_bits(), Relaxed));
        self.seen.found.iter().take(places).for_each(|found| found.store(Seen::NOTHING.to_bits(), Relaxed));
    }

    /// Looks at a batch. The addresses are those of its packets as long as nobody else touches them.
    pub(crate) fn load(&mut self, batch: &mut Batch, now: u64) {
        let View { seen, slots } = self;
        let mut count = 0;
        batch.each(|slot, packet, lanes| {
            count += 1;
            let Some(place) = slots.get_mut(count) else { return };
            let length = u32::try_from(packet.len()).unwrap_or(0);
            *place = (slot, length);
            let set = |all: &[AtomicU32; PLACES], value: u32| {
                if let Some(one) = all.get(count) {
                    one.store(value, Relaxed);
                }
            };
            set(&seen.lengths, length);
            set(&seen.rooms, u32::try_from(packet.room()).unwrap_or(length));
            set(&seen.ports, lanes.port[slot].into());
            set(&seen.answers, answer::OUT);
            if let Some((bytes, time)) = seen.bytes.get(count).zip(seen.times.get(count)) {
                bytes.store(packet.start(), Relaxed);
                time.store(double(lanes.time[slot]), Relaxed);
            }
        });
        seen.count.store(count.min(BATCH) as u32, Relaxed);
        seen.now.store(double(now), Relaxed);
    }

    /// Says how many packets may be held by the batch.
    pub(crate) fn has_places(&self, places: usize) {
        self.seen.places.store(u32::try_from(places).unwrap_or(u32::MAX), Relaxed);
    }

    /// Says for how long the n-th packet was held, counted from 1; `None`: it was not.
    pub(crate) fn has_waited(&self, n: usize, nanos: Option<u64>) {
        if let Some(waited) = self.seen.waited.get(n) {
            waited.store(nanos.map_or(Seen::NOTHING, |nanos| nanos as f64).to_bits(), Relaxed);
        }
    }

    /// Gives packets the lengths that the script wanted, and answers for every one. The mask of those that are to be held
    /// instead; see [`span_in`](Self::span_in).
    pub(crate) fn store(&self, batch: &mut Batch, out: &mut Out<'_>) -> u64 {
        let mut held = 0;
        // Slices, whose lengths are known before the loop: adaptors that skip and take keep their state in memory.
        let places = 1..self.seen.count() + 1;
        let slots = self.slots.get(places.clone()).unwrap_or_default();
        let lengths = self.seen.lengths.get(places.clone()).unwrap_or_default();
        let answers = self.seen.answers.get(places).unwrap_or_default();
        for ((&(slot, before), length), answer) in slots.iter().zip(lengths).zip(answers) {
            let (length, answer) = (length.load(Relaxed), answer.load(Relaxed));
            match verdict(batch, (slot, before), length, answer) {
                Verdict::Out => {}
                Verdict::Dropped => out.answer(slot, Ways::Dropped),
                Verdict::Error => out.answer(slot, Ways::Error),
                Verdict::Hold => held |= slot.bit(),
                Verdict::Way(n) => out.answer_indexed(slot, n),
            }
        }
        held
    }

    /// For how many nanoseconds the packet in a slot is to be held, where these are the slots of all packets that the script saw.
    pub(crate) fn span_in(&self, slot: Slot, live: u64) -> u64 {
        self.span((live & (slot.bit() - 1)).count_ones() as usize + 1)
    }

    /// As [`store`](Self::store), of packets that were held before: takes all of them, and hands each to `send`, with the nanoseconds that it is to wait
    /// for if it is to.
    pub(crate) fn store_back(&self, batch: &mut Batch, mut send: impl FnMut(Held, Verdict, u64)) {
        for (n, &(slot, before)) in self.slots.iter().enumerate().take(self.seen.count() + 1).skip(1) {
            let [length, answer] =
                [&self.seen.lengths, &self.seen.answers].map(|all| all.get(n).map_or(0, |one| one.load(Relaxed)));
            let verdict = verdict(batch, (slot, before), length, answer);
            if let Some(held) = batch.hold(slot) {
                send(held, verdict, self.span(n));
            }
        }
    }

    /// For how many nanoseconds the n-th packet is to be held.
    fn span(&self, n: usize) -> u64 {
        self.seen.spans.get(n).map_or(0, |span| f64::from_bits(span.load(Relaxed)) as u64)
    }

    /// Whether the script made packets.
    #[inline(always)]
    pub(crate) fn has_made(&self) -> bool {
        self.seen.made.load(Relaxed) != 0
    }

    /// Forgets the packets that it made.
    pub(crate) fn unmake(&self) {
        self.seen.made.store(0, Relaxed);
        self.seen.used.store(0, Relaxed);
    }

    /// Sends the packets that the script made, each with what is known of the one that it is like. How many were not made, for there were no buffers.
    #[cold]
    pub(crate) fn send_made(&self, batch: &Batch, out: &mut Out<'_>) -> u64 {
        let seen = &*self.seen;
        let (mut words, mut bytes, mut unmade) = (seen.space.iter(), [0; MAX_FRAME], 0);
        let made = (seen.made.load(Relaxed) as usize).min(MADE);
        for ((like, size), lead) in seen.likes.iter().zip(&seen.sizes).zip(&seen.leads).take(made) {
            let size = (size.load(Relaxed) as usize).min(MAX_FRAME);
            let (whole, _) = bytes.as_chunks_mut::<8>();
            for (to, word) in whole.iter_mut().zip(words.by_ref().take(size.div_ceil(8))) {
                *to = word.load(Relaxed).to_ne_bytes();
            }
            let (slot, _) = self.slots.get(like.load(Relaxed) as usize).copied().unwrap_or((Slot::new(0), 0));
            let Some(mut packet) = out.alloc() else {
                unmade += 1;
                continue;
            };
            if !packet.fill(bytes.get(..size).unwrap_or_default()) {
                out.unalloc(packet);
                unmade += 1;
                continue;
            }
            let held = Held::like(packet, &batch.lanes, slot);
            match lead.load(Relaxed) {
                answer::OUT => out.emit(held, Ways::Out, Ways::Made),
                way => out.emit_indexed(held, indexed(way), Ways::Made),
            }
        }
        self.unmake();
        unmade
    }
}

/// What an answer says of the packet in a slot, which is given the length that the script wanted in place of the one `before`.
#[inline(always)]
fn verdict(batch: &mut Batch, (slot, before): (Slot, u32), length: u32, answer: u32) -> Verdict {
    let fits = length == before || batch.get_mut(slot).is_some_and(|packet| packet.set_written_len(length as usize));
    match answer {
        _ if !fits => Verdict::Error,
        answer::OUT => Verdict::Out,
        answer::DROP => Verdict::Dropped,
        answer::TOO_LONG => Verdict::Error,
        answer::HOLD => Verdict::Hold,
        way => Verdict::Way(indexed(way)),
    }
}

/// The indexed way that an answer means.
#[inline(always)]
fn indexed(answer: u32) -> u8 {
    answer.saturating_sub(answer::FIRST_WAY).min(u32::from(u8::MAX)) as u8
}
