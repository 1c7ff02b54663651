//! Packets and bytes of each softwire, kept by each worker for itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_mem::prefetch::prefetch_slice;
use weir_mem::{HugeSlice, arena};

/// Packets and bytes.
type Pair = [AtomicU64; 2];

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the customer.
    Up,
    /// To it.
    Down,
}

/// What one worker has counted, by the place of the softwire's record: it alone writes, so that counting takes no locked instruction.
pub(crate) struct WorkerCounters {
    /// Each direction lies densely by itself, as packets go one way in a batch.
    up: HugeSlice<Pair>,
    down: HugeSlice<Pair>,
}

impl WorkerCounters {
    /// Those of one direction, at hand.
    #[inline(always)]
    pub(crate) fn of(&self, direction: Direction) -> CountersView<'_> {
        CountersView(match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        })
    }
}

/// The counters of one direction, to be kept in registers during a batch.
#[derive(Clone, Copy)]
pub(crate) struct CountersView<'t>(&'t [Pair]);

impl CountersView<'_> {
    /// Asks for the line that [`count`](Self::count) writes.
    #[inline(always)]
    pub(crate) fn prefetch(self, place: u32) {
        prefetch_slice(self.0, place as usize);
    }

    /// Counts an IPv4 packet of so many bytes.
    #[inline(always)]
    pub(crate) fn count(self, place: u32, bytes: u64) {
        if let Some([packets, all]) = self.0.get(place as usize) {
            add(packets, 1);
            add(all, bytes);
        }
    }
}

#[inline(always)]
fn add(word: &AtomicU64, n: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

/// What was counted of a softwire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) up_packets: u64,
    pub(crate) up_bytes: u64,
    pub(crate) down_packets: u64,
    pub(crate) down_bytes: u64,
}

impl Sums {
    fn each(self, other: Sums, with: impl Fn(u64, u64) -> u64) -> Sums {
        Sums {
            up_packets: with(self.up_packets, other.up_packets),
            up_bytes: with(self.up_bytes, other.up_bytes),
            down_packets: with(self.down_packets, other.down_packets),
            down_bytes: with(self.down_bytes, other.down_bytes),
        }
    }

    pub(crate) fn plus(self, other: Sums) -> Sums {
        self.each(other, u64::wrapping_add)
    }

    pub(crate) fn minus(self, other: Sums) -> Sums {
        self.each(other, u64::wrapping_sub)
    }
}

/// The counters of all workers.
pub(crate) struct Counters {
    places: usize,
    workers: Mutex<Vec<Arc<WorkerCounters>>>,
}

impl Counters {
    pub(crate) fn new(places: usize) -> Arc<Counters> {
        Arc::new(Counters { places, workers: Mutex::default() })
    }

    /// Counters for one more stage: such that another has left, if there are any.
    ///
    /// # Errors
    ///
    /// No memory.
    pub(crate) fn acquire(&self) -> Result<Arc<WorkerCounters>, arena::Error> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = workers.iter().find(|worker| Arc::strong_count(worker) == 1) {
            return Ok(Arc::clone(left));
        }
        let fresh = WorkerCounters { up: HugeSlice::new(self.places)?, down: HugeSlice::new(self.places)? };
        let fresh = Arc::new(fresh);
        workers.push(Arc::clone(&fresh));
        Ok(fresh)
    }

    /// What all workers have counted at a place, since the beginning.
    pub(crate) fn at(&self, place: u32) -> Sums {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |pairs: &[Pair]| {
            pairs.get(place as usize).map_or([0; 2], |pair| [0, 1].map(|n| pair.get(n).map_or(0, load)))
        };
        workers.iter().fold(Sums::default(), |sums, worker| {
            let ([up_packets, up_bytes], [down_packets, down_bytes]) = (read(&worker.up), read(&worker.down));
            sums.plus(Sums { up_packets, up_bytes, down_packets, down_bytes })
        })
    }
}

fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}
