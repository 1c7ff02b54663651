//! Delay and its variation.

use crate::distribution::Distribution;
use crate::window::Window;

/// Packets whose delays are remembered, so that pairs are found though one of them was overtaken.
const REMEMBERED: u64 = 1024;

/// No delay is known.
const NONE: i64 = i64::MIN;

/// One-way delays, and their differences between packets sent one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Delay {
    /// RFC 7679, ns.
    pub(crate) latency: Distribution,
    /// RFC 5481 section 4.1: the delay of a packet less that of the packet sent just before it, ns.
    pub(crate) ipdv: Distribution,
    /// Delays of the latest packets by number. Empty until the first.
    recent: Vec<i64>,
    /// The delay of the packet with the greatest number.
    last: i64,
}

impl Default for Delay {
    fn default() -> Self {
        Delay { latency: Distribution::default(), ipdv: Distribution::default(), recent: Vec::new(), last: NONE }
    }
}

impl Delay {
    /// The packet after the greatest number so far came.
    #[inline]
    pub(crate) fn next(&mut self, number: u64, delay: Option<i64>) {
        let delay = delay.unwrap_or(NONE);
        self.pair(self.last, delay);
        self.note(number, delay);
        self.last = delay;
    }

    /// A packet came that skipped others.
    pub(crate) fn leap(&mut self, number: u64, delay: Option<i64>) {
        let delay = delay.unwrap_or(NONE);
        self.note(number, delay);
        self.last = delay;
    }

    /// A packet came that others had overtaken; `window` knows of it.
    pub(crate) fn overtaken(&mut self, number: u64, delay: Option<i64>, window: &Window) {
        let delay = delay.unwrap_or(NONE);
        let remembered = |number: u64| window.next() - number <= REMEMBERED && window.has(number);
        if let Some(before) = number.checked_sub(1).filter(|&before| remembered(before)) {
            self.pair(self.recall(before), delay);
        }
        if remembered(number + 1) {
            self.pair(delay, self.recall(number + 1));
        }
        if remembered(number) {
            self.note(number, delay);
        } else if delay != NONE {
            self.latency.record(delay);
        }
    }

    #[inline]
    fn note(&mut self, number: u64, delay: i64) {
        if self.recent.is_empty() {
            self.recent = vec![NONE; REMEMBERED as usize];
        }
        if let Some(slot) = self.recent.get_mut((number % REMEMBERED) as usize) {
            *slot = delay;
        }
        if delay != NONE {
            self.latency.record(delay);
        }
    }

    fn recall(&self, number: u64) -> i64 {
        self.recent.get((number % REMEMBERED) as usize).copied().unwrap_or(NONE)
    }

    #[inline]
    fn pair(&mut self, before: i64, delay: i64) {
        if before != NONE && delay != NONE {
            self.ipdv.record(delay.wrapping_sub(before));
        }
    }
}
