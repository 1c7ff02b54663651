//! How much a script may still do: its instructions, and what the functions that it calls do without running any.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Bytes that a library function may copy for the price of one instruction.
const BYTES: u64 = 16;

/// What is left to a script. Clones share it, on one thread at a time.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    shared: Arc<Shared>,
    /// The longest text that a function may make outside of the virtual machine's memory, in bytes.
    pub(crate) longest: usize,
}

#[derive(Debug, Default)]
struct Shared {
    left: AtomicU64,
    /// The thread's time when the script was first looked at, in nanoseconds; 0 before.
    began: AtomicU64,
}

impl Work {
    /// So many instructions or what costs as much, and texts of so many bytes.
    pub(crate) fn new(units: u64, longest: usize) -> Self {
        let work = Self { shared: Arc::default(), longest };
        work.renew(units);
        work
    }

    /// Starts again with so much.
    pub(crate) fn renew(&self, units: u64) {
        self.shared.left.store(units, Ordering::Relaxed);
        self.shared.began.store(0, Ordering::Relaxed);
    }

    /// How much is left.
    pub(crate) fn left(&self) -> u64 {
        self.shared.left.load(Ordering::Relaxed)
    }

    /// Takes some of what is left; false if that was not enough, and nothing is left then.
    pub(crate) fn take(&self, units: u64) -> bool {
        let left = self.left();
        self.shared.left.store(left.saturating_sub(units), Ordering::Relaxed);
        units <= left
    }

    /// Takes what copying so many bytes costs.
    pub(crate) fn take_bytes(&self, bytes: u64) -> bool {
        self.take(bytes.div_ceil(BYTES))
    }

    /// Whether the script has been running for less than `most` of this thread's time since the first time that this was asked.
    ///
    /// A few instructions take as long as the memory that they touch is large, like `..`, and nothing counts that. It is the
    /// processor's time, so that a busy machine does not end what is not at fault.
    pub(crate) fn is_in_time(&self, most: Duration) -> bool {
        let now = Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX).max(1);
        match self.shared.began.load(Ordering::Relaxed) {
            0 => {
                self.shared.began.store(now, Ordering::Relaxed);
                true
            }
            began => u128::from(now.saturating_sub(began)) < most.as_nanos(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_used_up_once() {
        let work = Work::new(10, 0);
        let same = work.clone();
        assert!(work.take(4) && same.take(6));
        assert!(!work.take(1));
        work.renew(2);
        assert!(same.take_bytes(17) && work.left() == 0);
        assert!(!same.take_bytes(1) && same.take_bytes(0));
    }

    #[test]
    fn time_begins_with_the_first_look() {
        let work = Work::new(1, 0);
        assert!(work.is_in_time(Duration::ZERO));
        assert!(!work.is_in_time(Duration::ZERO));
        work.renew(1);
        assert!(work.is_in_time(Duration::ZERO) && work.is_in_time(Duration::MAX));
    }
}
