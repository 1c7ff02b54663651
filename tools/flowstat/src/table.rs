//! The packets that were sent, by their keys: [`Table`].
//!
//! A slot is 32 bytes, two to a cache line, so that a packet is found with one access to memory; those that come next are asked
//! for beforehand. Keys that were sent more than once have their packets in lists.

use weir_mem::HugeSlice;
use weir_mem::prefetch::prefetch_slice;

use crate::hash::Key;

/// Streams that can be told apart.
pub(crate) const MAX_STREAMS: u32 = 1 << 30;

const MATCHED: u32 = 1 << 31;
const REPEATED: u32 = 1 << 30;

/// No entry of a list.
const NIL: u32 = u32::MAX;

/// A packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// When, ns.
    pub(crate) time: i64,
    /// Its stream, below [`MAX_STREAMS`].
    pub(crate) stream: u32,
    /// Its number within the stream, from 0.
    pub(crate) number: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: Key,
    time: i64,
    /// The stream, and two flags. Of a repeated key only the flag counts.
    stream: u32,
    /// The number within the stream, or that of the list.
    number: u32,
}

/// A slot as it lies in memory; all zeroes stand for an empty one.
type Raw = [u64; 4];

impl Slot {
    #[inline]
    fn read([low, high, time, rest]: Raw) -> Slot {
        Slot { key: Key::from_words([low, high]), time: time as i64, stream: (rest >> 32) as u32, number: rest as u32 }
    }

    #[inline]
    fn raw(self) -> Raw {
        let [low, high] = self.key.words();
        [low, high, self.time as u64, u64::from(self.stream) << 32 | u64::from(self.number)]
    }
}

/// An entry of a list.
#[derive(Clone, Copy, Debug)]
struct Entry {
    sent: Sent,
    /// The entry after it, which has a greater number.
    next: u32,
}

/// The packets of one key, in the order they were sent.
#[derive(Clone, Copy, Debug)]
struct List {
    tail: u32,
    /// The first that was not sent too long ago.
    low: u32,
    /// The first that is neither matched nor sent too long ago: first in, first out.
    next: u32,
    /// The last that was matched.
    last: u32,
}

/// What was sent, and what of it was found again.
#[derive(Debug)]
pub(crate) struct Table {
    /// In huge pages where there are any.
    slots: HugeSlice<Raw>,
    mask: usize,
    entries: Vec<Entry>,
    lists: Vec<List>,
}

/// Within what time of a packet that arrives the one must have been sent that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// So long before, ns.
    pub(crate) before: i64,
    /// So long after, by clocks that are not quite equal, ns.
    pub(crate) after: i64,
}

/// What a packet that arrived is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The first copy of a packet. `ambiguous` if several had been sent that look like it.
    Matched { sent: Sent, ambiguous: bool },
    /// A further copy.
    Duplicate { sent: Sent, ambiguous: bool },
    /// A packet that looks like it was sent, but too long before.
    TooOld,
    /// A packet that looks like it was sent, but after it arrived.
    TooEarly,
    /// Nothing that looks like it was sent.
    Unknown,
}

impl Table {
    /// An empty one for so many packets.
    ///
    /// # Errors
    ///
    /// There is not so much memory.
    pub(crate) fn new(packets: usize) -> Result<Table, String> {
        let size = Table::slots_for(packets);
        let slots = HugeSlice::new(size).map_err(|error| format!("{error}; allow less with --memory"))?;
        Ok(Table { slots, mask: size - 1, entries: Vec::new(), lists: Vec::new() })
    }

    fn slots_for(packets: usize) -> usize {
        (packets.saturating_add(packets / 5).saturating_add(16)).checked_next_power_of_two().unwrap_or(usize::MAX)
    }

    /// Bytes of memory that a table for so many packets takes at most: when they all have one key.
    pub(crate) fn bytes_for(packets: usize) -> u64 {
        let slots = Table::slots_for(packets).saturating_mul(size_of::<Raw>());
        slots.saturating_add(packets.saturating_mul(size_of::<Entry>())) as u64
    }

    /// Says that a key will be looked at soon.
    #[inline]
    pub(crate) fn prefetch(&self, key: Key) {
        prefetch_slice(&self.slots, key.low() as usize & self.mask);
    }

    /// Where the slot of a key is, or the empty one where it would be, and what is there.
    #[inline]
    fn slot(&self, key: Key) -> (usize, Slot) {
        let mut at = key.low() as usize & self.mask;
        loop {
            // There is always an empty slot, and every place is inside.
            let slot = self.slots.get(at).map_or(Slot::read([0; 4]), |raw| Slot::read(*raw));
            if slot.key == key || slot.key == Key::NONE {
                return (at, slot);
            }
            at = (at + 1) & self.mask;
        }
    }

    #[inline]
    fn put(&mut self, at: usize, slot: Slot) {
        if let Some(raw) = self.slots.get_mut(at) {
            *raw = slot.raw();
        }
    }

    /// Adds a packet that was sent. Packets of one key are to come in the order they were sent, and no more packets in all than the
    /// table was made for.
    #[inline]
    pub(crate) fn insert(&mut self, key: Key, sent: Sent) {
        let (at, slot) = self.slot(key);
        if slot.key == Key::NONE {
            self.put(at, Slot { key, time: sent.time, stream: sent.stream, number: sent.number });
        } else {
            self.repeat(at, slot, sent);
        }
    }

    #[cold]
    fn repeat(&mut self, at: usize, mut slot: Slot, sent: Sent) {
        if slot.stream & REPEATED == 0 {
            let first = Sent { time: slot.time, stream: slot.stream & !MATCHED, number: slot.number };
            let index = self.entries.len() as u32;
            self.entries.push(Entry { sent: first, next: NIL });
            slot.stream |= REPEATED;
            slot.number = self.lists.len() as u32;
            self.lists.push(List { tail: index, low: index, next: index, last: NIL });
            self.put(at, slot);
        }
        let index = self.entries.len() as u32;
        self.entries.push(Entry { sent, next: NIL });
        let Some(list) = self.lists.get_mut(slot.number as usize) else { return };
        if let Some(tail) = self.entries.get_mut(list.tail as usize) {
            tail.next = index;
        }
        list.tail = index;
    }

    /// The packet of a key of which only one was sent.
    #[inline]
    pub(crate) fn only(&self, key: Key) -> Option<Sent> {
        let (_, slot) = self.slot(key);
        let one = slot.key == key && slot.stream & REPEATED == 0;
        one.then_some(Sent { time: slot.time, stream: slot.stream & !MATCHED, number: slot.number })
    }

    /// What the packet of this key is that arrived at `now`; packets are to come in the order they arrived.
    #[inline]
    pub(crate) fn find(&mut self, key: Key, now: i64, window: Window) -> Found {
        let (at, slot) = self.slot(key);
        if slot.key != key {
            return Found::Unknown;
        }
        if slot.stream & REPEATED != 0 {
            let list = slot.number;
            return self.find_in_list(list, now, window);
        }
        let sent = Sent { time: slot.time, stream: slot.stream & !MATCHED, number: slot.number };
        if now.saturating_sub(sent.time) > window.before {
            Found::TooOld
        } else if sent.time.saturating_sub(now) > window.after {
            Found::TooEarly
        } else if slot.stream & MATCHED != 0 {
            Found::Duplicate { sent, ambiguous: false }
        } else {
            self.put(at, Slot { stream: slot.stream | MATCHED, ..slot });
            Found::Matched { sent, ambiguous: false }
        }
    }

    #[cold]
    fn find_in_list(&mut self, list: u32, now: i64, window: Window) -> Found {
        let entries = &self.entries;
        let Some(list) = self.lists.get_mut(list as usize) else { return Found::Unknown };
        let entry = |at: u32| entries.get(at as usize);
        while let Some(low) = entry(list.low).filter(|low| now.saturating_sub(low.sent.time) > window.before) {
            if list.next == list.low {
                list.next = low.next;
            }
            list.low = low.next;
        }
        let in_time = |at: u32| entry(at).filter(|entry| entry.sent.time.saturating_sub(now) <= window.after);
        let Some(low) = in_time(list.low) else {
            return if list.low == NIL { Found::TooOld } else { Found::TooEarly };
        };
        let ambiguous = in_time(low.next).is_some();
        if let Some(next) = in_time(list.next) {
            list.last = list.next;
            list.next = next.next;
            return Found::Matched { sent: next.sent, ambiguous };
        }
        // All that were sent in time are matched, the last of them last.
        match entry(list.last) {
            Some(last) => Found::Duplicate { sent: last.sent, ambiguous },
            None => Found::Unknown,
        }
    }
}
