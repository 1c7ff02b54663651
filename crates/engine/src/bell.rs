//! What wakes a worker that has nothing to do: a bell that others ring when they leave something for it, and the descriptors of its ports.
//!
//! A worker says that it is about to wait, looks once more, and waits if there was nothing. Whoever leaves something rings if it sees that. Between
//! workers there is no fence: to see it is nearly certain, for a look takes much longer than a store needs to show, and a wait has an end. Commands
//! are fenced (B1), and end a wait for certain.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::Wake;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use weir_mem::CacheAligned;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// The bell of a worker.
pub(crate) struct Bell {
    /// Whether the worker waits, or is about to.
    waits: CacheAligned<AtomicBool>,
    /// Whether stages are to be polled, whatever the time is: somebody left something for one of them.
    roused: CacheAligned<AtomicBool>,
    /// `None` where the system has no descriptor left: then nothing ends a wait but its time.
    event: Option<OwnedFd>,
}

impl Bell {
    pub(crate) fn new() -> Bell {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok();
        Bell { waits: CacheAligned::default(), roused: CacheAligned::default(), event }
    }

    /// Something was left for the worker: ends its wait, most probably.
    #[inline(always)]
    pub(crate) fn ring(&self) {
        if self.waits.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// The same, for certain.
    pub(crate) fn ring_for_certain(&self) {
        // B1: with the fence of `announce`. Either the worker sees what was left before it waits, or it is seen to wait here.
        fence(Ordering::SeqCst);
        self.ring();
    }

    #[cold]
    fn wake(&self) {
        if let (true, Some(event)) = (self.waits.swap(false, Ordering::AcqRel), &self.event) {
            // It is full of calls that nobody has answered yet, if it refuses one.
            _ = rustix::io::write(event, &1_u64.to_ne_bytes());
        }
    }

    /// Whether stages are to be polled since the last call.
    #[inline(always)]
    pub(crate) fn is_roused(&self) -> bool {
        // B2: what was left before it was said is seen after.
        self.roused.load(Ordering::Relaxed) && self.roused.swap(false, Ordering::Acquire)
    }

    /// Says that the worker waits if it finds nothing now.
    pub(crate) fn announce(&self) {
        self.waits.store(true, Ordering::Relaxed);
        // B1.
        fence(Ordering::SeqCst);
    }

    /// Says that the worker has something to do.
    pub(crate) fn withdraw(&self) {
        self.waits.store(false, Ordering::Relaxed);
    }

    /// Waits `nanos` at most, until somebody rings or one of these descriptors is readable; answers whether one is. What somebody rang for before
    /// counts, too. The worker has [announced](Bell::announce) it, and goes on to do so.
    pub(crate) fn wait(&self, ports: &[BorrowedFd<'_>], nanos: u64) -> bool {
        let event = self.event.as_ref().map(AsFd::as_fd);
        let mut watched: Vec<PollFd<'_>> =
            event.iter().chain(ports).map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: (nanos / SECOND) as i64, tv_nsec: (nanos % SECOND) as i64 };
        // One that fails, for a signal came, was short; whoever called looks again.
        _ = poll(&mut watched, Some(&timeout));
        let (own, ports) = watched.split_at(event.iter().len());
        let has_come = |one: &PollFd<'_>| !one.revents().is_empty();
        if own.iter().any(has_come) {
            let mut count = [0; 8];
            _ = event.map(|event| rustix::io::read(event, &mut count));
        }
        self.announce();
        ports.iter().any(has_come)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // B2.
        self.roused.store(true, Ordering::Release);
        self.ring_for_certain();
    }
}
