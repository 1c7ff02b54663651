//! What the stages of a generator tell each other and the control side.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_measure::{Distribution, Receiver};

use crate::stream::Sent;

/// A worker's loop that takes longer than this was disturbed, nanoseconds: a spinning thread that nobody disturbs goes round
/// within a microsecond or two.
const STALL: u64 = 5_000;

/// How often, and how long each time, the control side looks whether numbers of the moment are there.
const LOOKS: u32 = 100;
const LOOK: Duration = Duration::from_micros(200);

/// Not known yet, in place of an Ethernet address, which has 48 bits.
const UNKNOWN: u64 = u64::MAX;

/// A next hop whose Ethernet address is asked for.
#[derive(Debug)]
pub(crate) struct NextHop {
    pub(crate) port: u16,
    pub(crate) port_name: String,
    pub(crate) address: IpAddr,
    /// The address that asks.
    pub(crate) own: IpAddr,
    mac: AtomicU64,
}

impl NextHop {
    pub(crate) fn new(port: u16, port_name: String, address: IpAddr, own: IpAddr) -> NextHop {
        NextHop { port, port_name, address, own, mac: AtomicU64::new(UNKNOWN) }
    }

    pub(crate) fn mac(&self) -> Option<[u8; 6]> {
        let mac = self.mac.load(Ordering::Relaxed);
        let [_, _, rest @ ..] = mac.to_be_bytes();
        (mac != UNKNOWN).then_some(rest)
    }

    pub(crate) fn learn(&self, mac: [u8; 6]) {
        let [a, b, c, d, e, f] = mac;
        self.mac.store(u64::from_be_bytes([0, 0, a, b, c, d, e, f]), Ordering::Relaxed);
    }
}

/// What all stages of a generator share. Written by workers a few times in a run.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) hops: Vec<NextHop>,
    /// When the schedules start, nanoseconds of the engine's clock; `u64::MAX` as long as next hops are not known.
    start: AtomicU64,
    /// Raised by the control side when it wants numbers.
    wanted: AtomicU64,
    is_virtual: AtomicBool,
    /// Streams that are not at their end.
    unfinished: AtomicU64,
    boards: Mutex<Vec<Arc<Board>>>,
}

/// Where one stage puts its numbers when they are wanted.
#[derive(Debug, Default)]
pub(crate) struct Board {
    /// The request that was answered last.
    answered: AtomicU64,
    content: Mutex<Content>,
}

/// The numbers of one stage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    /// Of each stream that it sends: number and what was sent.
    pub(crate) sent: Vec<(usize, Sent)>,
    pub(crate) stalls: Stalls,
    pub(crate) received: Option<Received>,
}

/// What one receiving stage found.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) receiver: Receiver,
    /// Per stream: delays of packets on whose way no stall was seen.
    pub(crate) calm: Vec<Distribution>,
    /// Per stream: packets on whose way one was.
    pub(crate) set_aside: Vec<u64>,
}

impl Received {
    pub(crate) fn new(streams: usize) -> Received {
        Received {
            receiver: Receiver::new(streams),
            calm: vec![Distribution::default(); streams],
            set_aside: vec![0; streams],
        }
    }

    pub(crate) fn merge(&mut self, other: &Received) {
        self.receiver.merge(&other.receiver);
        self.calm.iter_mut().zip(&other.calm).for_each(|(mine, other)| mine.merge(other));
        self.set_aside.iter_mut().zip(&other.set_aside).for_each(|(mine, other)| *mine += other);
    }
}

/// Loops of a worker that took too long: it got no time, or was busy with something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// How many.
    pub count: u64,
    /// What they took in all, nanoseconds.
    pub total_ns: u64,
    /// The longest, nanoseconds.
    pub longest_ns: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is only ever replaced as a whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(hops: Vec<NextHop>, streams: usize) -> Arc<Shared> {
        Arc::new(Shared {
            hops,
            start: AtomicU64::new(u64::MAX),
            wanted: AtomicU64::new(0),
            is_virtual: AtomicBool::new(false),
            unfinished: AtomicU64::new(streams as u64),
            boards: Mutex::new(Vec::new()),
        })
    }

    /// Whether every next hop is known.
    pub(crate) fn is_resolved(&self) -> bool {
        self.hops.iter().all(|hop| hop.mac().is_some())
    }

    /// When the schedules start: the first stage that asks once all next hops are known decides.
    pub(crate) fn start_at(&self, now: u64, is_virtual: bool) -> Option<u64> {
        let start = self.start.load(Ordering::Relaxed);
        if start != u64::MAX || !self.is_resolved() {
            return (start != u64::MAX).then_some(start);
        }
        self.is_virtual.store(is_virtual, Ordering::Relaxed);
        let decided = self.start.compare_exchange(u64::MAX, now, Ordering::Relaxed, Ordering::Relaxed);
        Some(decided.map_or_else(|start| start, |_| now))
    }

    /// When the schedules started.
    pub(crate) fn started(&self) -> Option<u64> {
        Some(self.start.load(Ordering::Relaxed)).filter(|&start| start != u64::MAX)
    }

    /// So many streams have come to their end.
    pub(crate) fn finish(&self, streams: u64) {
        self.unfinished.fetch_sub(streams, Ordering::Relaxed);
    }

    /// Streams that have not.
    pub(crate) fn unfinished(&self) -> u64 {
        self.unfinished.load(Ordering::Relaxed)
    }

    pub(crate) fn add_board(&self) -> Arc<Board> {
        let board = Arc::new(Board::default());
        lock(&self.boards).push(Arc::clone(&board));
        board
    }

    /// Whether a stage is asked for numbers that it did not give yet.
    #[inline(always)]
    pub(crate) fn wants(&self, board: &Board) -> bool {
        self.wanted.load(Ordering::Relaxed) > board.answered.load(Ordering::Relaxed)
    }

    pub(crate) fn answer(&self, board: &Board, content: Content) {
        let wanted = self.wanted.load(Ordering::Relaxed);
        *lock(&board.content) = content;
        // S1: who sees the answer sees the content, by the lock.
        board.answered.store(wanted, Ordering::Release);
    }

    /// The numbers of a stage that will not change any more: an answer to whatever will be asked.
    pub(crate) fn answer_for_good(&self, board: &Board, content: Content) {
        *lock(&board.content) = content;
        board.answered.store(u64::MAX, Ordering::Release); // S1
    }

    /// The numbers of all stages, and whether they are of this moment: the workers run and answered in time. Else they are the last ones
    /// that they gave.
    pub(crate) fn ask(&self) -> (Vec<Content>, bool) {
        let wanted = self.wanted.fetch_add(1, Ordering::Relaxed) + 1;
        let boards = lock(&self.boards).clone();
        let all_answered = || boards.iter().all(|board| board.answered.load(Ordering::Acquire) >= wanted); // S1
        // Under the virtual clock the workers stand still while this runs.
        if !self.is_virtual.load(Ordering::Relaxed) {
            for _ in 0..LOOKS {
                if all_answered() {
                    break;
                }
                std::thread::park_timeout(LOOK);
            }
        }
        let current = all_answered();
        (boards.iter().map(|board| lock(&board.content).clone()).collect(), current)
    }
}

/// Sees the stalls of one worker: its stages tell it the time of each loop.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    last: AtomicU64,
    /// When the last stall ended.
    ended: AtomicU64,
    count: AtomicU64,
    total: AtomicU64,
    longest: AtomicU64,
}

impl Watch {
    /// A loop began at `now`.
    #[inline]
    pub(crate) fn see(&self, now: u64) {
        let last = self.last.load(Ordering::Relaxed);
        if now == last {
            return;
        }
        self.last.store(now, Ordering::Relaxed);
        let took = now.saturating_sub(last);
        if took > STALL && last > 0 {
            self.note(now, took);
        }
    }

    /// From here on no loop is expected at once.
    pub(crate) fn rest(&self) {
        self.last.store(0, Ordering::Relaxed);
    }

    /// A packet was seen at `read` in the loop that began at `now`.
    #[inline]
    pub(crate) fn is_calm(&self, sent: u64, now: u64, read: u64) -> bool {
        sent > self.ended.load(Ordering::Relaxed) && read.saturating_sub(now) <= STALL
    }

    #[cold]
    fn note(&self, now: u64, took: u64) {
        // Only this worker's stages write.
        self.ended.store(now, Ordering::Relaxed);
        self.count.store(self.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.total.store(self.total.load(Ordering::Relaxed) + took, Ordering::Relaxed);
        self.longest.store(self.longest.load(Ordering::Relaxed).max(took), Ordering::Relaxed);
    }

    pub(crate) fn stalls(&self) -> Stalls {
        let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
        Stalls { count: read(&self.count), total_ns: read(&self.total), longest_ns: read(&self.longest) }
    }
}
