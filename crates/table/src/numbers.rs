//! Values of numbers: an exact-match table of whole numbers, each with a value, which one thread writes while others look up.
//!
//! Each change is one store of one word: a reader sees a number with its old value or its new one, or not there at all. The room of a number that
//! was removed is used again when every reader of the grace period [domain](weir_mem::Domain) has passed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_mem::{Domain, HugeSlice, arena};

use crate::exact::{self, Exact, Index};
use crate::free_list::FreeList;

/// Lookups are worked through this many at a time.
pub const BATCH: usize = 64;

/// The most numbers that a table can be made for.
pub const MAX_CAPACITY: u32 = exact::MAX_CAPACITY;

/// Why a number was refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// As many numbers as the table was made for, or too many with a hash like it.
    Index(exact::Refused),
    /// The last ones removed wait for readers to pass.
    Waiting,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Index(refused) => refused.fmt(f),
            Refused::Waiting => f.write_str("the table has no room until readers have passed earlier changes"),
        }
    }
}

impl std::error::Error for Refused {}

/// A number and its value; the number is the same as long as the index leads here.
type Record = [AtomicU64; 2];

/// What workers look up in.
#[derive(Debug)]
pub struct Reader {
    index: Arc<Index>,
    records: HugeSlice<Record>,
}

impl Reader {
    /// The value of a number.
    #[inline]
    pub fn lookup(&self, number: u64) -> Option<u32> {
        self.found(number, self.index.hash(0, number)).map(|(_, value)| value)
    }

    /// Looks `numbers[i]` up to `values[i]`, as far as both go. The cache misses of [`BATCH`] of them overlap.
    pub fn lookup_batch(&self, numbers: &[u64], values: &mut [Option<u32>]) {
        for (numbers, values) in numbers.chunks(BATCH).zip(values.chunks_mut(BATCH)) {
            let mut hashes = [exact::Hash::from_bits(0); BATCH];
            for (hash, number) in hashes.iter_mut().zip(numbers) {
                *hash = self.index.hash(0, *number);
                self.index.prefetch(*hash);
            }
            for ((value, number), hash) in values.iter_mut().zip(numbers).zip(hashes) {
                *value = self.found(*number, hash).map(|(_, value)| value);
            }
        }
    }

    /// Where the record of a number is, and its value.
    #[inline(always)]
    fn found(&self, number: u64, hash: exact::Hash) -> Option<(u64, u32)> {
        let record = |at: u64| self.records.get(usize::try_from(at).ok()?);
        let is = |at: u64| record(at).is_some_and(|[is, _]| is.load(Ordering::Relaxed) == number);
        let at = self.index.candidate(hash).filter(|at| is(*at)).or_else(|| self.index.find(hash, is))?;
        let [_, value] = record(at)?;
        Some((at, value.load(Ordering::Relaxed) as u32))
    }
}

/// The writer of a table: the control thread has it.
#[derive(Debug)]
pub struct Numbers {
    exact: Exact,
    reader: Arc<Reader>,
    free: FreeList,
}

impl Numbers {
    /// An empty table for up to `capacity` numbers (at most [`MAX_CAPACITY`]), whose readers pass in `domain`; `seed` decides where each stands.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(capacity: u32, seed: u64, domain: &Domain) -> Result<Numbers, arena::Error> {
        let exact = Exact::new(capacity, seed)?;
        // A quarter more may wait for readers.
        let records = exact.capacity() + exact.capacity() / 4 + BATCH as u32;
        let reader = Reader { index: Arc::clone(exact.index()), records: HugeSlice::new(records as usize)? };
        Ok(Numbers { exact, reader: Arc::new(reader), free: FreeList::new(records, domain) })
    }

    /// Gives a number a value; answers the value that it had.
    ///
    /// # Errors
    ///
    /// [`Refused`] when there is no room for another number.
    pub fn insert(&mut self, number: u64, value: u32) -> Result<Option<u32>, Refused> {
        let hash = self.exact.index().hash(0, number);
        if let Some((at, before)) = self.reader.found(number, hash) {
            if let Some([_, now]) = self.reader.records.get(at as usize) {
                now.store(value.into(), Ordering::Relaxed);
            }
            return Ok(Some(before));
        }
        if self.exact.len() >= self.exact.capacity() {
            return Err(Refused::Index(exact::Refused::Full { capacity: self.exact.capacity() }));
        }
        let at = self.free.take().ok_or(Refused::Waiting)?;
        if let Some([is, now]) = self.reader.records.get(at as usize) {
            // Before the word that leads here, which is stored with release.
            is.store(number, Ordering::Relaxed);
            now.store(value.into(), Ordering::Relaxed);
        }
        self.exact.insert(hash, at.into()).map_err(|refused| {
            self.free.give_back_unseen(at);
            Refused::Index(refused)
        })?;
        Ok(None)
    }

    /// Removes a number; answers the value that it had.
    pub fn remove(&mut self, number: u64) -> Option<u32> {
        let hash = self.exact.index().hash(0, number);
        let (at, value) = self.reader.found(number, hash)?;
        if self.exact.remove(hash, at) {
            self.free.give_back(at as u32);
        }
        Some(value)
    }

    /// The value of a number.
    pub fn get(&self, number: u64) -> Option<u32> {
        self.reader.lookup(number)
    }

    /// How many numbers it holds.
    pub fn len(&self) -> u32 {
        self.exact.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty()
    }

    /// What workers look up in; it follows every change.
    pub fn reader(&self) -> &Arc<Reader> {
        &self.reader
    }
}
