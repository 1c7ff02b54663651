//! Grace periods (quiescent-state based reclamation).
//!
//! Readers use shared data without locks or counts; once per loop each says that it holds no reference ([quiescent]).
//! What the control side takes out of reach is freed when every reader has said so since, or is [offline].
//!
//! Memory orders. Taking out of reach: the control side unlinks the old value, then *advances* the epoch (A1: acquire
//! and release), then fences (A2), then looks at the readers' slots with acquire (A3). A reader that is quiescent loads
//! the epoch with acquire (R1, pairs with A1: it sees everything unlinked before) and stores it to its slot with
//! release (R2, pairs with A3: its earlier reads happened before a free). A reader that comes online stores its slot,
//! then fences (R3): of A2 and R3 one is first, so that either the control side sees the reader, or the reader sees the
//! unlinked state.
//!
//! [quiescent]: Reader::quiescent
//! [offline]: Reader::offline

use std::collections::VecDeque;
use std::fmt;

use crate::CacheAligned;
use crate::sync::{Arc, AtomicPtr, AtomicU64, Mutex, MutexGuard, Ordering, fence};

/// How many readers a domain can have at the same time.
pub const READERS: usize = if cfg!(loom) { 2 } else { 64 };
/// The slot of a reader that holds no reference: it is offline, or there is none.
const OFFLINE: u64 = 0;

/// A point in time, in the count of a domain: when all readers have [passed](Domain::passed) it, nothing that was out of
/// reach before it is referred to any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(u64);

/// A set of readers and what waits for them to pass. Clones are the same domain.
#[derive(Clone)]
pub struct Domain(Arc<Inner>);

struct Inner {
    epoch: CacheAligned<AtomicU64>,
    /// The epoch each reader saw last, or [`OFFLINE`].
    slots: [CacheAligned<AtomicU64>; READERS],
    control: Mutex<Control>,
}

/// What only the control side touches.
#[derive(Default)]
struct Control {
    /// Bit i: slot i has a reader.
    claimed: u64,
    /// Oldest first.
    garbage: VecDeque<(Epoch, Box<dyn Garbage>)>,
}

/// Anything that waits to be dropped.
trait Garbage: Send {}
impl<T: Send> Garbage for T {}

/// Every slot of a domain has a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyReaders;

impl fmt::Display for TooManyReaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a grace period domain has at most {READERS} readers")
    }
}

impl std::error::Error for TooManyReaders {}

impl Default for Domain {
    fn default() -> Self {
        Self::new()
    }
}

impl Domain {
    /// A domain without readers.
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            epoch: CacheAligned::new(AtomicU64::new(1)),
            slots: std::array::from_fn(|_| CacheAligned::new(AtomicU64::new(OFFLINE))),
            control: Mutex::new(Control::default()),
        }))
    }

    /// Adds a reader, online.
    ///
    /// # Errors
    ///
    /// [`TooManyReaders`] when there are [`READERS`] already.
    pub fn reader(&self) -> Result<Reader, TooManyReaders> {
        let mut control = self.control();
        let slot = control.claimed.trailing_ones() as usize;
        if slot >= READERS {
            return Err(TooManyReaders);
        }
        control.claimed |= 1 << slot;
        let reader = Reader { domain: self.clone(), slot };
        reader.online();
        Ok(reader)
    }

    /// Begins a grace period for everything that was taken out of reach before.
    pub fn advance(&self) -> Epoch {
        // A1: what was unlinked before is visible to readers that see the new epoch.
        Epoch(self.0.epoch.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Whether every reader has been quiescent or offline since `epoch` began. Does not wait.
    pub fn passed(&self, epoch: Epoch) -> bool {
        self.frontier() >= epoch
    }

    /// The latest epoch that every reader has passed. Does not wait; looks at each reader's line once, so ask once for
    /// many epochs.
    pub fn frontier(&self) -> Epoch {
        let now = self.0.epoch.load(Ordering::Acquire);
        // A2.
        fence(Ordering::SeqCst);
        // A3: the reads of a reader that has passed happened before what the caller does next.
        let seen = self.0.slots.iter().map(|slot| slot.load(Ordering::Acquire));
        Epoch(seen.filter(|&seen| seen != OFFLINE).fold(now, u64::min))
    }

    /// Drops `value` when all readers have passed; the caller has taken it out of their reach already. Never waits:
    /// the drop happens in a later [`collect`](Self::collect).
    pub fn retire<T: Send + 'static>(&self, value: Box<T>) {
        let mut control = self.control();
        // Within the lock, so that the queue is in the order of epochs.
        let epoch = self.advance();
        control.garbage.push_back((epoch, value));
    }

    /// Drops what all readers have passed, and answers how many values still wait. Never waits.
    pub fn collect(&self) -> usize {
        // Dropped after the lock is released: a value's drop may itself retire.
        let mut free = Vec::new();
        let mut control = self.control();
        let frontier = self.frontier();
        while control.garbage.front().is_some_and(|(epoch, _)| *epoch <= frontier) {
            free.extend(control.garbage.pop_front());
        }
        let waiting = control.garbage.len();
        drop(control);
        drop(free);
        waiting
    }

    /// How many values wait to be dropped.
    pub fn waiting(&self) -> usize {
        self.control().garbage.len()
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        // Nothing panics while it is held, and the state is valid at each step.
        self.0.control.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Domain({:p})", &*self.0)
    }
}

/// A thread's right to read what the domain protects. References that it gave end before it is next quiescent: the
/// compiler sees to it.
#[derive(Debug)]
pub struct Reader {
    domain: Domain,
    slot: usize,
}

impl Reader {
    /// Says that this thread holds no reference. Once per loop; costs a load of a shared line and a store to an own
    /// one.
    #[inline]
    pub fn quiescent(&mut self) {
        // R1: sees what was unlinked before the epoch that it reports.
        let epoch = self.domain.0.epoch.load(Ordering::Acquire);
        // R2: earlier reads are over.
        self.slot().store(epoch, Ordering::Release);
    }

    /// Calls `wait` while nobody waits for this thread: for when it sleeps or blocks.
    ///
    /// A closure, not a guard: a guard that is leaked would leave an offline reader that can still load.
    pub fn offline<R>(&mut self, wait: impl FnOnce() -> R) -> R {
        // R2.
        self.slot().store(OFFLINE, Ordering::Release);
        let _back = BackOnline(self);
        wait()
    }

    /// The domain it reads in.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    fn online(&self) {
        let epoch = self.domain.0.epoch.load(Ordering::Acquire);
        self.slot().store(epoch, Ordering::Relaxed);
        // R3.
        fence(Ordering::SeqCst);
    }

    #[inline(always)]
    fn slot(&self) -> &AtomicU64 {
        // SAFETY: `Domain::reader` gave a slot below `READERS`, and it never changes.
        unsafe { self.domain.0.slots.get_unchecked(self.slot) }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // R2.
        self.slot().store(OFFLINE, Ordering::Release);
        self.domain.control().claimed &= !(1 << self.slot);
    }
}

/// Brings its reader back online when it goes, also when the wait panics.
struct BackOnline<'r>(&'r Reader);

impl Drop for BackOnline<'_> {
    fn drop(&mut self) {
        self.0.online();
    }
}

/// A value that the control side replaces while readers use it.
pub struct Published<T: Send + Sync + 'static> {
    /// From `Box::into_raw`; owned.
    current: AtomicPtr<T>,
    domain: Domain,
}

impl<T: Send + Sync + 'static> Published<T> {
    /// Publishes the first version, to readers of `domain`.
    pub fn new(domain: &Domain, first: Box<T>) -> Self {
        Self { current: AtomicPtr::new(Box::into_raw(first)), domain: domain.clone() }
    }

    /// The version of now. The reference ends before the reader is next quiescent.
    ///
    /// # Panics
    ///
    /// When `reader` is of another domain, which would protect nothing.
    #[inline]
    pub fn load<'r>(&'r self, reader: &'r Reader) -> &'r T {
        if !std::ptr::eq(&raw const *self.domain.0, &raw const *reader.domain.0) {
            another_domain();
        }
        // Pairs with the release in `publish`: the value is seen whole.
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: the pointer came from a Box and is freed only after all readers of the domain have been quiescent
        // or offline since it was replaced (`retire`), or with `self`. `reader` is one of them, is online (`offline`
        // borrows it mutably), and cannot be quiescent while the result borrows it.
        unsafe { &*current }
    }

    /// Replaces the version; readers get the new one from their next load. The old one is dropped after a grace period,
    /// by [`Domain::collect`].
    pub fn publish(&self, next: Box<T>) {
        // Release: readers that load the pointer see the value whole. Acquire: so does the drop of the old one.
        let old = self.current.swap(Box::into_raw(next), Ordering::AcqRel);
        // SAFETY: the pointer came from `Box::into_raw`, and the swap made this the only owner.
        self.domain.retire(unsafe { Box::from_raw(old) });
    }
}

/// Apart from who calls it, so that the check for panics can tell it from others.
#[cold]
#[inline(never)]
#[allow(clippy::panic, reason = "anything else would be unsound")]
fn another_domain() -> ! {
    panic!("a reader of another domain")
}

impl<T: Send + Sync + 'static> Drop for Published<T> {
    fn drop(&mut self) {
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: the pointer came from `Box::into_raw` and is owned by `self`, which nobody borrows any more, hence
        // no reference that `load` gave is left.
        drop(unsafe { Box::from_raw(current) });
    }
}
