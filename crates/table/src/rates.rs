//! Rates that single meters have in place of the one that most have: one thread writes them while others meter packets.
//!
//! Each change is one store of one word: a reader sees the old rate and burst of a meter or the new ones. The room of a rate that no meter has any
//! more is used again when every reader of the grace period [domain](weir_mem::Domain) has passed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weir_mem::{Domain, HugeSlice, arena};

use crate::free_list::FreeList;
use crate::meter::Bucket;

/// Records that may wait for readers beside those in use.
const SPARE: u32 = 64;

/// Why a rate was refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such meter.
    NoMeter {
        /// How many there are.
        meters: u32,
    },
    /// As many meters have rates of their own as the table was made for.
    Full {
        /// How many that is.
        capacity: u32,
    },
    /// The last ones given up wait for readers to pass.
    Waiting,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NoMeter { meters } => write!(f, "there are {meters} meters, of which the first is 0"),
            Refused::Full { capacity } => {
                write!(f, "the table is full: {capacity} meters at most have rates of their own")
            }
            Refused::Waiting => f.write_str("the table has no room until readers have passed earlier changes"),
        }
    }
}

impl std::error::Error for Refused {}

/// What workers ask.
#[derive(Debug)]
pub struct Reader {
    /// The record of each meter, plus one; 0 for none.
    places: HugeSlice<AtomicU32>,
    /// Rate and burst.
    records: HugeSlice<[AtomicU64; 2]>,
}

impl Reader {
    /// The rate that a meter has of its own.
    #[inline]
    pub fn of(&self, meter: u32) -> Option<Bucket> {
        // Pairs with the release in `Rates::set`: the record is seen whole.
        let place = self.places.get(meter as usize)?.load(Ordering::Acquire).checked_sub(1)?;
        let [rate, burst] = self.records.get(place as usize)?;
        Some(Bucket { rate: rate.load(Ordering::Relaxed), burst: burst.load(Ordering::Relaxed) })
    }
}

/// The writer: the control thread has it.
#[derive(Debug)]
pub struct Rates {
    reader: Arc<Reader>,
    meters: u32,
    capacity: u32,
    len: u32,
    free: FreeList,
}

impl Rates {
    /// For so many meters, of which up to `capacity` have rates of their own.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(meters: u32, capacity: u32, domain: &Domain) -> Result<Rates, arena::Error> {
        let records = capacity.saturating_add(capacity / 4 + SPARE);
        let places = HugeSlice::new(meters.max(1) as usize)?;
        let reader = Arc::new(Reader { places, records: HugeSlice::new(records as usize)? });
        Ok(Rates { reader, meters, capacity, len: 0, free: FreeList::new(records, domain) })
    }

    /// Gives a meter a rate of its own; answers the one that it had.
    ///
    /// # Errors
    ///
    /// [`Refused`] when there is no such meter, or no room.
    pub fn set(&mut self, meter: u32, bucket: Bucket) -> Result<Option<Bucket>, Refused> {
        if meter >= self.meters {
            return Err(Refused::NoMeter { meters: self.meters });
        }
        let before = self.reader.of(meter);
        if before.is_none() && self.len >= self.capacity {
            return Err(Refused::Full { capacity: self.capacity });
        }
        let at = self.free.take().ok_or(Refused::Waiting)?;
        if let Some([rate, burst]) = self.reader.records.get(at as usize) {
            rate.store(bucket.rate, Ordering::Relaxed);
            burst.store(bucket.burst, Ordering::Relaxed);
        }
        self.len += u32::from(before.is_none());
        self.place(meter, at + 1);
        Ok(before)
    }

    /// Takes the rate of its own from a meter; answers it.
    pub fn clear(&mut self, meter: u32) -> Option<Bucket> {
        let before = self.reader.of(meter)?;
        self.len -= 1;
        self.place(meter, 0);
        Some(before)
    }

    /// How many meters have rates of their own.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What workers ask; it follows every change.
    pub fn reader(&self) -> &Arc<Reader> {
        &self.reader
    }

    fn place(&mut self, meter: u32, place: u32) {
        let before = self.reader.places.get(meter as usize).map(|word| word.swap(place, Ordering::Release));
        if let Some(at) = before.and_then(|before| before.checked_sub(1)) {
            self.free.give_back(at);
        }
    }
}
