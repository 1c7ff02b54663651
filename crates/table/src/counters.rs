//! Packets and bytes by place, kept by each worker for itself: of rules and next hops, for example.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_mem::prefetch::prefetch_slice;
use weir_mem::{HugeSlice, arena};

/// Packets, then bytes.
type Pair = [AtomicU64; 2];

/// What one worker has counted: it alone writes, so that counting takes no locked instruction.
#[derive(Debug)]
pub struct WorkerCounters(HugeSlice<Pair>);

impl WorkerCounters {
    /// Places that it has counters for.
    #[inline(always)]
    pub fn places(&self) -> usize {
        self.0.len()
    }

    /// For counting packet after packet, at the first so many places.
    #[inline(always)]
    pub fn view(&self, places: usize) -> Tally<'_> {
        Tally(self.0.get(..places).unwrap_or_default())
    }
}

/// One worker's counters, as its fast path sees them.
#[derive(Clone, Copy)]
pub struct Tally<'c>(&'c [Pair]);

impl Tally<'_> {
    /// Asks for the line that [`count`](Tally::count) writes.
    #[inline(always)]
    pub fn prefetch(self, place: u32) {
        prefetch_slice(self.0, place as usize);
    }

    /// Counts packets to a place, and their bytes.
    #[inline(always)]
    pub fn count(self, place: u32, packets: u64, bytes: u64) {
        let Some([all_packets, all_bytes]) = self.0.get(place as usize) else { return };
        all_packets.store(all_packets.load(Ordering::Relaxed).wrapping_add(packets), Ordering::Relaxed);
        all_bytes.store(all_bytes.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
    }
}

/// The counters of all workers.
#[derive(Debug)]
pub struct Counters {
    places: usize,
    workers: Mutex<Vec<Arc<WorkerCounters>>>,
}

impl Counters {
    /// For so many places.
    pub fn new(places: usize) -> Arc<Counters> {
        Arc::new(Counters { places, workers: Mutex::new(Vec::new()) })
    }

    /// Counters that nobody writes: those of a stage that is gone, which go on from what it counted, so that nothing is lost; else new
    /// ones. They are the caller's until it, and whoever it gave them to, lets them go.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn acquire(&self) -> Result<Arc<WorkerCounters>, arena::Error> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody but this list has them, and who had them last is done writing.
        let free = |worker: &mut Arc<WorkerCounters>| Arc::get_mut(worker).is_some().then(|| Arc::clone(worker));
        if let Some(free) = workers.iter_mut().find_map(free) {
            return Ok(free);
        }
        let counters = Arc::new(WorkerCounters(HugeSlice::new(self.places)?));
        workers.push(Arc::clone(&counters));
        Ok(counters)
    }

    /// How many there are, acquired or not.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.workers.lock().unwrap().len()
    }

    /// Packets and bytes to a place, of all workers.
    pub fn sum(&self, place: u32) -> (u64, u64) {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let pairs = workers.iter().filter_map(|worker| worker.0.get(place as usize));
        pairs.fold((0, 0), |(packets, bytes), [more_packets, more_bytes]| {
            let more = (more_packets.load(Ordering::Relaxed), more_bytes.load(Ordering::Relaxed));
            (packets.wrapping_add(more.0), bytes.wrapping_add(more.1))
        })
    }
}

/// Which places nobody has: whoever gets one begins to count where others have stopped.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Those that were given back, the first one in front; all from `fresh` on have never been used.
    idle: VecDeque<u32>,
    fresh: u32,
}

impl Places {
    /// A place of these counters, and what was counted there before; `None` if all are taken.
    pub fn acquire(&mut self, counters: &Counters) -> Option<(u32, (u64, u64))> {
        let place = if (self.fresh as usize) < counters.places {
            self.fresh += 1;
            self.fresh - 1
        } else {
            self.idle.pop_front()?
        };
        Some((place, counters.sum(place)))
    }

    /// Nobody counts there any more.
    pub fn give_back(&mut self, place: u32) {
        self.idle.push_back(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_what_all_workers_counted() {
        let counters = Counters::new(3);
        let (one, other) = (counters.acquire().unwrap(), counters.acquire().unwrap());
        one.view(3).count(1, 1, 60);
        one.view(3).count(1, 1, 40);
        other.view(3).count(1, 2, 1);
        other.view(3).count(3, 1, 1);
        assert_eq!(other.places(), 3);
        assert_eq!(counters.sum(1), (4, 101));
        assert_eq!((counters.sum(0), counters.sum(3)), ((0, 0), (0, 0)));
    }

    #[test]
    fn what_is_given_back_is_lent_again_and_goes_on() {
        let counters = Counters::new(3);
        let kept = counters.acquire().unwrap();
        for _ in 0..1_000 {
            let acquired = counters.acquire().unwrap();
            assert!(!Arc::ptr_eq(&acquired, &kept));
            acquired.view(3).count(1, 1, 60);
        }
        kept.view(3).count(1, 1, 60);
        assert_eq!(counters.count(), 2);
        assert_eq!(counters.sum(1), (1_001, 60_060));
    }

    #[test]
    fn places_are_lent_until_all_are_and_then_those_that_came_back() {
        let (counters, mut places) = (Counters::new(2), Places::default());
        let worker = counters.acquire().unwrap();
        assert_eq!(places.acquire(&counters), Some((0, (0, 0))));
        worker.view(2).count(0, 3, 180);
        places.give_back(0);
        // Who looks at old numbers sees them as long as there are others.
        assert_eq!(places.acquire(&counters), Some((1, (0, 0))));
        assert_eq!(places.acquire(&counters), Some((0, (3, 180))));
        assert_eq!(places.acquire(&counters), None);
    }
}
