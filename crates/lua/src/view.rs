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
use weir_packet::{BATCH, Batch, Slot};
use weir_stage::Out;

use crate::stage::Ways;

/// Packets are counted from 1.
const PLACES: usize = BATCH + 1;

/// What accessors write for a packet: by default it goes straight on.
mod answer {
    pub(super) const OUT: u32 = 0;
    pub(super) const DROP: u32 = 1;
    pub(super) const TOO_LONG: u32 = 2;
    pub(super) const FIRST_WAY: u32 = 3;
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
        }
    }

    /// Where its fields lie, by name, and what answers are written.
    fn described(&self, lua: &Lua) -> mlua::Result<Table> {
        let described = lua.create_table()?;
        let fields: [(&str, *mut c_void); 10] = [
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
        ];
        for (name, address) in fields {
            described.raw_set(name, LightUserData(address))?;
        }
        for (name, answer) in [("drop", answer::DROP), ("too_long", answer::TOO_LONG), ("first_way", answer::FIRST_WAY)]
        {
            described.raw_set(name, answer)?;
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

    /// Forgets which keys its packets had, and what was found.
    pub(crate) fn forget(&self) {
        let places = 1 + self.seen.count.load(Relaxed) as usize;
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

    /// Gives packets the lengths that the script wanted, and answers for every one.
    pub(crate) fn store(&self, batch: &mut Batch, out: &mut Out<'_>) {
        let count = self.seen.count.load(Relaxed) as usize;
        let all = self.slots.iter().zip(&self.seen.lengths).zip(&self.seen.answers).take(count + 1).skip(1);
        for ((&(slot, before), length), answer) in all {
            let (length, answer) = (length.load(Relaxed), answer.load(Relaxed));
            let fits =
                length == before || batch.get_mut(slot).is_some_and(|packet| packet.set_written_len(length as usize));
            match answer {
                _ if !fits => out.answer(slot, Ways::Error),
                answer::OUT => {}
                answer::DROP => out.answer(slot, Ways::Dropped),
                answer::TOO_LONG => out.answer(slot, Ways::Error),
                way => out.answer_indexed(slot, (way - answer::FIRST_WAY).min(u32::from(u8::MAX)) as u8),
            }
        }
    }
}
