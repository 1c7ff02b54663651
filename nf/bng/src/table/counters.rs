//! Packets, bytes and drops of each subscriber, kept by each worker for itself.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_mem::prefetch::prefetch_slice;
use weir_mem::{HugeSlice, arena};

/// Packets and bytes from the subscriber, packets and bytes to it.
type Four = [AtomicU64; 4];

/// What one worker has counted: it alone writes, so that counting takes no locked instruction.
pub(crate) struct WorkerCounters {
    traffic: HugeSlice<Four>,
    /// By subscriber, then by reason.
    drops: HugeSlice<AtomicU32>,
    reasons: usize,
}

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the subscriber.
    Up,
    /// To it.
    Down,
}

impl WorkerCounters {
    /// Asks for the line that [`count`](Self::count) writes.
    #[inline(always)]
    pub(crate) fn prefetch(&self, subscriber: u32) {
        prefetch_slice(&self.traffic, subscriber as usize);
    }

    /// Counts a packet of so many bytes.
    #[inline(always)]
    pub(crate) fn count(&self, subscriber: u32, direction: Direction, bytes: u64) {
        let Some([up_packets, up_bytes, down_packets, down_bytes]) = self.traffic.get(subscriber as usize) else {
            return;
        };
        let (all_packets, all_bytes) = match direction {
            Direction::Up => (up_packets, up_bytes),
            Direction::Down => (down_packets, down_bytes),
        };
        add(all_packets, 1);
        add(all_bytes, bytes);
    }

    /// Counts a packet that was dropped for the reason at this position of the list that the counters were made with.
    #[inline(never)]
    pub(crate) fn count_drop(&self, subscriber: u32, reason: u8) {
        let reason = reason as usize;
        if reason >= self.reasons {
            return;
        }
        if let Some(word) = self.drops.get(subscriber as usize * self.reasons + reason) {
            word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
    }
}

#[inline(always)]
fn add(word: &AtomicU64, n: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

/// What was counted of a subscriber.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) up_packets: u64,
    pub(crate) up_bytes: u64,
    pub(crate) down_packets: u64,
    pub(crate) down_bytes: u64,
    /// By reason; those of which there are any.
    pub(crate) drops: Vec<(&'static str, u64)>,
}

impl Sums {
    fn minus(mut self, zero: &Sums) -> Sums {
        self.up_packets = self.up_packets.wrapping_sub(zero.up_packets);
        self.up_bytes = self.up_bytes.wrapping_sub(zero.up_bytes);
        self.down_packets = self.down_packets.wrapping_sub(zero.down_packets);
        self.down_bytes = self.down_bytes.wrapping_sub(zero.down_bytes);
        for (reason, count) in &mut self.drops {
            let before = zero.drops.iter().find(|(other, _)| other == reason).map_or(0, |(_, count)| *count);
            *count = count.wrapping_sub(before);
        }
        self.drops.retain(|(_, count)| *count > 0);
        self
    }
}

/// The counters of all workers.
pub(crate) struct Counters {
    subscribers: usize,
    reasons: &'static [&'static str],
    workers: Mutex<Vec<Arc<WorkerCounters>>>,
}

impl Counters {
    /// Counters for subscribers with numbers below `subscribers`, who may lose packets for these reasons.
    pub(crate) fn new(subscribers: u32, reasons: &'static [&'static str]) -> Arc<Counters> {
        Arc::new(Counters { subscribers: subscribers as usize, reasons, workers: Mutex::new(Vec::new()) })
    }

    /// Counters for one more worker.
    ///
    /// # Errors
    ///
    /// No memory.
    pub(crate) fn add_worker(&self) -> Result<Arc<WorkerCounters>, arena::Error> {
        let reasons = self.reasons.len();
        let traffic = HugeSlice::new(self.subscribers)?;
        let drops = HugeSlice::new(self.subscribers * reasons)?;
        let counters = Arc::new(WorkerCounters { traffic, drops, reasons });
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&counters));
        Ok(counters)
    }

    /// What all workers counted of the numbers of subscribers since `zero`.
    pub(crate) fn since(&self, subscriber: u32, zero: &Sums) -> Sums {
        self.sum(subscriber).minus(zero)
    }

    /// What all workers ever counted of a number, whoever had it.
    pub(crate) fn sum(&self, subscriber: u32) -> Sums {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut four = [0u64; 4];
        let mut drops = vec![0u64; self.reasons.len()];
        for worker in workers.iter() {
            let traffic = worker.traffic.get(subscriber as usize).into_iter().flatten();
            four.iter_mut().zip(traffic).for_each(|(sum, word)| *sum = sum.wrapping_add(word.load(Ordering::Relaxed)));
            let first = subscriber as usize * self.reasons.len();
            let counted = worker.drops.get(first..).unwrap_or_default();
            drops.iter_mut().zip(counted).for_each(|(sum, word)| *sum += u64::from(word.load(Ordering::Relaxed)));
        }
        let [up_packets, up_bytes, down_packets, down_bytes] = four;
        let drops = self.reasons.iter().copied().zip(drops).filter(|(_, count)| *count > 0).collect();
        Sums { up_packets, up_bytes, down_packets, down_bytes, drops }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_what_all_workers_counted_since() {
        let counters = Counters::new(3, &["a", "b"]);
        let (one, other) = (counters.add_worker().unwrap(), counters.add_worker().unwrap());
        one.count(1, Direction::Up, 60);
        let zero = counters.sum(1);
        other.count(1, Direction::Up, 40);
        other.count(1, Direction::Down, 7);
        one.count_drop(1, 1);
        other.count_drop(1, 1);
        other.count_drop(1, 9);
        one.count(3, Direction::Up, 1);
        let sums = Sums { up_packets: 2, up_bytes: 100, down_packets: 1, down_bytes: 7, drops: vec![("b", 2)] };
        assert_eq!(counters.sum(1), sums);
        assert_eq!(counters.since(1, &zero), Sums { up_packets: 1, up_bytes: 40, ..sums });
        assert_eq!(counters.since(1, &counters.sum(1)), Sums::default());
        assert_eq!((counters.sum(0), counters.sum(3)), (Sums::default(), Sums::default()));
    }
}
