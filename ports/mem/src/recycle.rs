//! Buffers that go round: from a replaying source through the graph to a sink, and back.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_packet::{BATCH, Burst, Pool};

/// A queue of buffers that sources take from and sinks give back to, so that a source hands out the least recently used
/// one, as a device does whose descriptor ring is that long.
///
/// Cloning it gives another handle to the same queue. Ports on one worker may share one; between workers it would be
/// contended.
#[derive(Clone)]
pub struct Loop(Arc<Inner>);

struct Inner {
    depth: usize,
    state: Mutex<State>,
    /// The shortest queue from which a buffer was handed out.
    fewest: AtomicUsize,
    /// Whether a port already reports the queue's buffers among its own.
    reported: AtomicBool,
}

struct State {
    /// The buffers, the least recently used ones first; no burst is empty.
    queue: VecDeque<Box<Burst>>,
    /// Buffers in the queue.
    len: usize,
    /// Empty bursts for the queue.
    #[allow(clippy::vec_box, reason = "the boxes go from here into the queue and back; what is in them is a kilobyte")]
    spare: Vec<Box<Burst>>,
    home: Option<Box<dyn Pool>>,
}

impl Loop {
    /// The buffers that a source must have at least so that none is handed out while its lines are still in the first cache.
    pub const DEPTH: usize = 2048;

    /// A queue that is kept at `depth` buffers or more (at least 64).
    pub fn new(depth: usize) -> Loop {
        let depth = depth.max(BATCH);
        let state =
            State { queue: VecDeque::with_capacity(depth), len: 0, spare: Vec::with_capacity(depth), home: None };
        Loop(Arc::new(Inner {
            depth,
            state: Mutex::new(state),
            fewest: AtomicUsize::new(usize::MAX),
            reported: AtomicBool::new(false),
        }))
    }

    /// Buffers in the queue now.
    pub fn len(&self) -> usize {
        self.lock().len
    }

    /// Whether no buffer is in the queue.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of the shortest queue from which a buffer was handed out; `usize::MAX` before the first. Below the depth
    /// when the pool had too few buffers: then what was measured had its buffers in a nearer cache than it should.
    pub fn fewest(&self) -> usize {
        self.0.fewest.load(Ordering::Relaxed)
    }

    /// The pool that gets the buffers back when the last handle goes.
    pub(crate) fn set_home(&self, pool: &dyn Pool) {
        self.lock().home.get_or_insert_with(|| pool.another());
    }

    /// Whether the caller is the first to ask: it reports the queue's buffers as its own.
    pub(crate) fn claim_report(&self) -> bool {
        !self.0.reported.swap(true, Ordering::Relaxed)
    }

    /// Moves the `n` least recently used buffers into `burst`, as many as there are and fit.
    #[inline]
    pub(crate) fn take(&self, n: usize, burst: &mut Burst, pool: &mut dyn Pool) {
        let mut state = self.lock();
        if state.len < self.0.depth {
            state.top_up(self.0.depth, pool);
        }
        if state.len < self.fewest() {
            self.0.fewest.store(state.len, Ordering::Relaxed);
        }
        state.take(n, burst);
    }

    /// Puts all packets of `burst` at the end. As many of the least recently used ones as the queue does not need go home, so that
    /// who takes from the pool gets what was used long ago, too.
    #[inline]
    pub(crate) fn give(&self, burst: &mut Burst, pool: &mut dyn Pool) {
        let mut state = self.lock();
        let count = burst.len();
        state.give(burst);
        if state.len > 2 * self.0.depth {
            state.take(count, burst);
            drop(state);
            pool.free_burst(burst);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere does not spoil a queue: it is whole between any two operations.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    #[inline(always)]
    fn take(&mut self, n: usize, burst: &mut Burst) {
        let mut left = n;
        while left > 0
            && let Some(first) = self.queue.front_mut()
        {
            let moved = burst.append(first, left);
            if moved == 0 {
                break;
            }
            left -= moved;
            self.len -= moved;
            if first.is_empty() {
                self.spare.extend(self.queue.pop_front());
            }
        }
    }

    #[inline(always)]
    fn give(&mut self, burst: &mut Burst) {
        while !burst.is_empty() {
            // Bursts of the queue are filled to a batch, so that as much is taken by one copy.
            if self.queue.back().is_none_or(|last| last.len() >= BATCH) {
                self.queue.push_back(self.spare.pop().unwrap_or_default());
            }
            if let Some(last) = self.queue.back_mut() {
                self.len += last.append(burst, BATCH.saturating_sub(last.len()));
            }
        }
    }

    #[cold]
    fn top_up(&mut self, depth: usize, pool: &mut dyn Pool) {
        let mut burst = Burst::new();
        while self.len < depth && pool.alloc_burst((depth - self.len).min(BATCH), &mut burst) {
            self.give(&mut burst);
        }
        // What is left of a pool that has fewer.
        while self.len < depth
            && let Some(packet) = pool.alloc()
        {
            if let Err(packet) = burst.push(packet) {
                pool.free(packet);
            }
            self.give(&mut burst);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = &mut state.home {
            state.queue.drain(..).for_each(|mut burst| pool.free_burst(&mut burst));
        }
    }
}

impl std::fmt::Debug for Loop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Loop({} of {} buffers)", self.len(), self.0.depth)
    }
}
