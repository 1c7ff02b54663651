//! What stands outside a port in memory: it feeds the port, watches what comes out, and breaks it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_stage::Traffic;

use crate::fault::{FaultCounts, FaultFigures};
use crate::flow::flow_of;

/// Failures of the check that are kept in words.
const KEPT: usize = 16;

/// Looks at a packet that was transmitted; an error says what is wrong with it.
pub type Check = Box<dyn FnMut(&[u8]) -> Result<(), String> + Send>;

/// How a transmit queue treats what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxMode {
    /// Accepts everything.
    Normal,
    /// Accepts at most so many packets per call.
    Slow(usize),
    /// Accepts nothing, though the link is up.
    Stuck,
}

/// What a sink has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkReport {
    /// Packets accepted.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Packets that were checked.
    pub checked: u64,
    /// Packets that the check found wrong.
    pub failed: u64,
    /// What was wrong with the first of them.
    pub failures: Vec<String>,
    /// Packets that were not kept, since as many as allowed were already.
    pub not_kept: u64,
}

/// The outside of a [`crate::MemPort`], usable from any thread; clones are the same outside.
#[derive(Clone)]
pub struct MemHandle(pub(crate) Arc<Shared>);

impl MemHandle {
    /// Sends a frame towards the port. It waits until the port's owner receives it, however long.
    pub fn send(&self, frame: Vec<u8>) {
        self.send_all([frame]);
    }

    /// Sends frames towards the port, in order.
    pub fn send_all(&self, frames: impl IntoIterator<Item = Vec<u8>>) {
        let mut inbox = self.0.inbox();
        for frame in frames {
            inbox.put(frame);
            self.0.waiting.fetch_add(1, Ordering::Release);
        }
    }

    /// Frames sent towards the port that it has not received yet.
    pub fn waiting(&self) -> usize {
        self.0.waiting.load(Ordering::Acquire)
    }

    /// Takes what the port transmitted since the last call, in the order of each transmit queue.
    pub fn received(&self) -> Vec<Vec<u8>> {
        self.0.outbox().frames.drain(..).collect()
    }

    /// Waits until the port has transmitted `count` frames that were not taken yet, or `patience` is over; takes what is
    /// there.
    pub fn wait_received(&self, count: usize, patience: Duration) -> Vec<Vec<u8>> {
        let few = |outbox: &mut Outbox| outbox.frames.len() < count;
        let outbox = self.0.arrived.wait_timeout_while(self.0.outbox(), patience, few);
        let (mut outbox, _) = outbox.unwrap_or_else(PoisonError::into_inner);
        outbox.frames.drain(..).collect()
    }

    /// What the port's sinks have seen together.
    pub fn report(&self) -> SinkReport {
        let checks = self.0.checks();
        SinkReport {
            packets: self.0.sum(|counts| &counts.packets),
            bytes: self.0.sum(|counts| &counts.bytes),
            checked: checks.checked,
            failed: checks.failed,
            failures: checks.failures.clone(),
            not_kept: self.0.outbox().not_kept,
        }
    }

    /// Faults that have struck so far, on all queues.
    pub fn faults(&self) -> FaultCounts {
        self.0.faults.counts()
    }

    /// Takes the link down or up. While it is down nothing is received; what is transmitted is accepted and lost outside, as
    /// behind a cable that was pulled, unless the sender looks at the link.
    pub fn set_link(&self, up: bool) {
        self.0.link_up.store(up, Ordering::Relaxed);
    }

    /// Makes the port vanish, as an interface that is deleted does: no link, nothing received, nothing accepted, for good.
    pub fn disappear(&self) {
        self.0.gone.store(true, Ordering::Relaxed);
    }

    /// Changes how transmit queues treat packets.
    pub fn set_tx(&self, mode: TxMode) {
        let most = match mode {
            TxMode::Normal => usize::MAX,
            TxMode::Slow(most) => most,
            TxMode::Stuck => 0,
        };
        self.0.accept.store(most, Ordering::Relaxed);
    }

    /// Says that nothing more will be sent: the receive queues are exhausted once they are empty.
    pub fn end(&self) {
        self.0.ended.store(true, Ordering::Release);
    }
}

impl std::fmt::Debug for MemHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemHandle({} frames waiting)", self.waiting())
    }
}

/// What the queues of a port and its outside share.
pub(crate) struct Shared {
    pub(crate) link_up: AtomicBool,
    pub(crate) gone: AtomicBool,
    pub(crate) ended: AtomicBool,
    /// Packets that a transmit queue accepts per call.
    pub(crate) accept: AtomicUsize,
    /// Frames in the inbox.
    pub(crate) waiting: AtomicUsize,
    /// Packets lost at receive since the frame was empty or longer than a buffer.
    pub(crate) rx_unfit: AtomicU64,
    /// What the fault injectors do.
    pub(crate) faults: Arc<FaultFigures>,
    inbox: Mutex<Inbox>,
    outbox: Mutex<Outbox>,
    arrived: Condvar,
    checks: Mutex<Checks>,
    sinks: Mutex<Vec<Arc<SinkCounts>>>,
}

/// What one transmit queue has accepted: written by its owner alone, so that counting costs no locked instruction.
#[derive(Default)]
pub(crate) struct SinkCounts {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl SinkCounts {
    #[inline(always)]
    pub(crate) fn add(&self, traffic: Traffic) {
        self.packets.store(self.packets.load(Ordering::Relaxed) + traffic.packets, Ordering::Relaxed);
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + traffic.bytes, Ordering::Relaxed);
    }
}

/// Frames on their way to the receive queues.
pub(crate) struct Inbox {
    pub(crate) queues: Vec<VecDeque<Vec<u8>>>,
}

impl Inbox {
    fn put(&mut self, frame: Vec<u8>) {
        let queue = flow_of(&frame) as usize % self.queues.len().max(1);
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.push_back(frame);
        }
    }

    /// Spreads what waits over another number of queues.
    pub(crate) fn respread(&mut self, queues: usize) {
        let waiting = std::mem::replace(&mut self.queues, vec![VecDeque::new(); queues.max(1)]);
        waiting.into_iter().flatten().for_each(|frame| self.put(frame));
    }
}

/// Frames that came out.
pub(crate) struct Outbox {
    frames: VecDeque<Vec<u8>>,
    /// Frames that are kept at most.
    keep: usize,
    not_kept: u64,
}

impl Outbox {
    pub(crate) fn put(&mut self, frame: &[u8]) {
        if self.frames.len() < self.keep {
            self.frames.push_back(frame.to_vec());
        } else {
            self.not_kept += 1;
        }
    }
}

/// Checks of what came out.
pub(crate) struct Checks {
    pub(crate) check: Option<Check>,
    checked: u64,
    failed: u64,
    failures: Vec<String>,
}

impl Checks {
    pub(crate) fn look_at(&mut self, frame: &[u8]) {
        let Some(check) = &mut self.check else { return };
        self.checked += 1;
        if let Err(wrong) = check(frame) {
            self.failed += 1;
            if self.failures.len() < KEPT {
                self.failures.push(wrong);
            }
        }
    }
}

impl Shared {
    pub(crate) fn new(keep: usize) -> Arc<Shared> {
        Arc::new(Shared {
            link_up: AtomicBool::new(true),
            gone: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            accept: AtomicUsize::new(usize::MAX),
            waiting: AtomicUsize::new(0),
            rx_unfit: AtomicU64::new(0),
            faults: Arc::default(),
            inbox: Mutex::new(Inbox { queues: vec![VecDeque::new()] }),
            outbox: Mutex::new(Outbox { frames: VecDeque::new(), keep, not_kept: 0 }),
            arrived: Condvar::new(),
            checks: Mutex::new(Checks { check: None, checked: 0, failed: 0, failures: Vec::new() }),
            sinks: Mutex::new(Vec::new()),
        })
    }

    /// Whether packets can come in now.
    #[inline(always)]
    pub(crate) fn up(&self) -> bool {
        self.link_up.load(Ordering::Relaxed) && !self.gone.load(Ordering::Relaxed)
    }

    /// Packets that a transmit call may accept now.
    #[inline(always)]
    pub(crate) fn accepts(&self) -> usize {
        if self.gone.load(Ordering::Relaxed) { 0 } else { self.accept.load(Ordering::Relaxed) }
    }

    /// Counters for another transmit queue.
    pub(crate) fn add_sink(&self) -> Arc<SinkCounts> {
        let counts = Arc::new(SinkCounts::default());
        self.sinks.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&counts));
        counts
    }

    fn sum(&self, figure: impl Fn(&SinkCounts) -> &AtomicU64) -> u64 {
        let sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        sinks.iter().map(|counts| figure(counts).load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn set_keep(&self, keep: usize) {
        self.outbox().keep = keep;
    }

    pub(crate) fn set_check(&self, check: Check) {
        self.checks().check = Some(check);
    }

    // Every value behind these locks is whole between any two operations on it, so that a panic elsewhere spoils none.

    pub(crate) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn checks(&self) -> MutexGuard<'_, Checks> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tell_arrival(&self) {
        self.arrived.notify_all();
    }
}
