//! Packets, bytes and drops of each subscriber, kept by each worker for itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_mem::prefetch::prefetch_slice;
use weir_mem::{HugeSlice, arena};

/// Packets and bytes.
type Pair = [AtomicU64; 2];

/// What one worker has counted: it alone writes, so that counting takes no locked instruction.
pub(crate) struct WorkerCounters {
    /// By subscriber, what comes from it. Each direction lies densely by itself, as packets go one way in a batch.
    up: HugeSlice<Pair>,
    /// By subscriber, what goes to it.
    down: HugeSlice<Pair>,
    /// By subscriber, then by reason.
    drops: HugeSlice<AtomicU32>,
    reasons: usize,
    /// How many subscribers there are counters for; ports follow, for what nobody in particular sent.
    subscribers: u32,
    /// Reasons that are marked, a bit each.
    watched: u128,
    /// By subscriber, the watched reasons for which packets were dropped since somebody looked.
    marks: HugeSlice<[AtomicU64; 2]>,
    /// A bit for each subscriber that has marks.
    marked: HugeSlice<AtomicU64>,
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
    #[inline(always)]
    fn of(&self, direction: Direction) -> &[Pair] {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Asks for the line that [`count`](Self::count) writes.
    #[inline(always)]
    pub(crate) fn prefetch(&self, subscriber: u32, direction: Direction) {
        prefetch_slice(self.of(direction), subscriber as usize);
    }

    /// Counts a packet of so many bytes.
    #[inline(always)]
    pub(crate) fn count(&self, subscriber: u32, direction: Direction, bytes: u64) {
        if let Some([all_packets, all_bytes]) = self.of(direction).get(subscriber as usize) {
            add(all_packets, 1);
            add(all_bytes, bytes);
        }
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
        if self.watched >> reason & 1 == 1 {
            self.mark(subscriber, reason);
        }
    }

    /// What no subscriber is known to have sent is counted under this number, for the access port at a position.
    pub(crate) fn nobody_at(&self, position: u8) -> u32 {
        self.subscribers + u32::from(position)
    }

    /// Marks a reason of a subscriber for whoever looks. Others clear marks, so that setting one takes a locked instruction; but once
    /// only, until they do.
    fn mark(&self, subscriber: u32, reason: usize) {
        let Some(word) = self.marks.get(subscriber as usize).and_then(|words| words.get(reason / 64)) else { return };
        let bit = 1 << (reason % 64);
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
            if let Some(word) = self.marked.get(subscriber as usize / 64) {
                // After the mark, so that whoever finds this finds that.
                word.fetch_or(1 << (subscriber % 64), Ordering::Release);
            }
        }
    }

    /// Takes the marks of the subscribers `64 * word` to `64 * word + 63`, each with its reasons.
    fn take_marks(&self, word: usize, to: &mut BTreeMap<u32, u128>) {
        let mut left = self.marked.get(word).map_or(0, |word| word.swap(0, Ordering::Acquire));
        while left != 0 {
            let subscriber = word as u32 * 64 + left.trailing_zeros();
            left &= left - 1;
            if let Some([low, high]) = self.marks.get(subscriber as usize) {
                let [low, high] = [low, high].map(|word| u128::from(word.swap(0, Ordering::Relaxed)));
                *to.entry(subscriber).or_default() |= low | high << 64;
            }
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
    subscribers: u32,
    /// Those of subscribers, then those of ports.
    rows: usize,
    reasons: &'static [&'static str],
    watched: u128,
    workers: Mutex<Vec<Arc<WorkerCounters>>>,
}

impl Counters {
    /// Counters for subscribers with numbers below `subscribers`, and so many ports, which may lose packets for these reasons. Those
    /// whose bits `watched` has are [marked](Counters::take_marks).
    pub(crate) fn new(
        subscribers: u32,
        ports: usize,
        reasons: &'static [&'static str],
        watched: u128,
    ) -> Arc<Counters> {
        let rows = subscribers as usize + ports;
        Arc::new(Counters { subscribers, rows, reasons, watched, workers: Mutex::new(Vec::new()) })
    }

    /// Subscribers, and ports behind their numbers, that lost packets for watched reasons since the last call, with the bits of these
    /// reasons.
    pub(crate) fn take_marks(&self) -> BTreeMap<u32, u128> {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = BTreeMap::new();
        for worker in workers.iter() {
            (0..self.rows.div_ceil(64)).for_each(|word| worker.take_marks(word, &mut found));
        }
        found
    }

    /// The position of the port behind a number that is no subscriber's.
    pub(crate) fn port_of(&self, number: u32) -> Option<usize> {
        number.checked_sub(self.subscribers).map(|position| position as usize)
    }

    /// The name of a reason.
    pub(crate) fn reason(&self, place: usize) -> &'static str {
        self.reasons.get(place).copied().unwrap_or_default()
    }

    /// Counters that nobody writes: those of a stage that is gone, which go on from what it counted, so that nothing is lost; else new
    /// ones. They are the caller's until it, and whoever it gave them to, lets them go.
    ///
    /// # Errors
    ///
    /// No memory.
    pub(crate) fn acquire(&self) -> Result<Arc<WorkerCounters>, arena::Error> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody but this list has them, and who had them last is done writing.
        let free = |worker: &mut Arc<WorkerCounters>| Arc::get_mut(worker).is_some().then(|| Arc::clone(worker));
        if let Some(free) = workers.iter_mut().find_map(free) {
            return Ok(free);
        }
        let reasons = self.reasons.len();
        let counters = Arc::new(WorkerCounters {
            up: HugeSlice::new(self.rows)?,
            down: HugeSlice::new(self.rows)?,
            drops: HugeSlice::new(self.rows * reasons)?,
            reasons,
            subscribers: self.subscribers,
            watched: self.watched,
            marks: HugeSlice::new(self.rows)?,
            marked: HugeSlice::new(self.rows.div_ceil(64))?,
        });
        workers.push(Arc::clone(&counters));
        Ok(counters)
    }

    /// How many there are, acquired or not.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.workers.lock().unwrap().len()
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
            let pairs = [&worker.up, &worker.down].map(|pairs| pairs.get(subscriber as usize));
            let traffic = pairs.into_iter().flatten().flatten();
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
        let counters = Counters::new(3, 0, &["a", "b"], 0);
        let (one, other) = (counters.acquire().unwrap(), counters.acquire().unwrap());
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

    #[test]
    fn what_is_given_back_is_lent_again_and_goes_on() {
        let counters = Counters::new(3, 0, &["a", "b"], 0);
        let kept = counters.acquire().unwrap();
        for _ in 0..1_000 {
            let acquired = counters.acquire().unwrap();
            assert!(!Arc::ptr_eq(&acquired, &kept));
            acquired.count(1, Direction::Up, 60);
            acquired.count_drop(1, 1);
        }
        kept.count(1, Direction::Up, 60);
        assert_eq!(counters.len(), 2);
        let sums = Sums { up_packets: 1_001, up_bytes: 60_060, drops: vec![("b", 1_000)], ..Sums::default() };
        assert_eq!(counters.sum(1), sums);
    }

    #[test]
    fn marks_tell_who_lost_packets_for_watched_reasons() {
        let counters = Counters::new(100, 2, &["a", "b", "c"], 0b101);
        let (one, other) = (counters.acquire().unwrap(), counters.acquire().unwrap());
        for _ in 0..3 {
            one.count_drop(1, 0);
            one.count_drop(1, 1);
            other.count_drop(1, 2);
            other.count_drop(99, 2);
            other.count_drop(2, 1);
        }
        one.count_drop(one.nobody_at(1), 0);
        one.count_drop(one.nobody_at(2), 0);
        assert_eq!(counters.take_marks(), [(1, 0b101), (99, 0b100), (101, 0b001)].into());
        assert_eq!(counters.take_marks(), BTreeMap::new());
        assert_eq!([99, 100, 101].map(|number| counters.port_of(number)), [None, Some(0), Some(1)]);
        one.count_drop(1, 0);
        assert_eq!(counters.take_marks(), [(1, 1)].into());
    }
}
