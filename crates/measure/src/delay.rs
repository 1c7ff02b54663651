//! Delay and its variation.

use crate::distribution::Distribution;
use crate::window::Window;

/// Delays for which there is room when the first packet comes.
const ROOM: u64 = 16;

/// No delay is known.
const NONE: i64 = i64::MIN;

/// One-way delays, and their differences between packets sent one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Delay {
    /// RFC 7679, ns.
    pub(crate) latency: Distribution,
    /// RFC 5481 section 4.1: the delay of a packet less that of the packet sent just before it, ns.
    pub(crate) ipdv: Distribution,
    /// Packets whose delays are remembered, so that pairs are found though one of them was overtaken: a power of two.
    remembered: u64,
    /// Delays of the latest packets by number, modulo its length. Empty until the first; as long as it is shorter than what is
    /// remembered, all numbers are below its length.
    recent: Vec<i64>,
    /// The delay of the packet with the greatest number.
    last: i64,
}

impl Delay {
    /// Remembers so many packets, rounded up to a power of two, at least 16 and at most 2^20; `empty` is what a distribution starts as.
    pub(crate) fn new(remembered: usize, empty: &Distribution) -> Delay {
        let remembered = remembered.clamp(ROOM as usize, 1 << 20).next_power_of_two() as u64;
        Delay { latency: empty.clone(), ipdv: empty.clone(), remembered, recent: Vec::new(), last: NONE }
    }

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
        let reach = self.remembered;
        let remembered = |number: u64| window.next() - number <= reach && window.has(number);
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
        if number >= self.recent.len() as u64 && (self.recent.len() as u64) < self.remembered {
            self.widen(number);
        }
        let slot = self.slot(number);
        if let Some(slot) = self.recent.get_mut(slot) {
            *slot = delay;
        }
        if delay != NONE {
            self.latency.record(delay);
        }
    }

    #[cold]
    fn widen(&mut self, number: u64) {
        let room = (number + 1).clamp(ROOM, self.remembered).next_power_of_two();
        self.recent.resize(room as usize, NONE);
    }

    #[inline]
    fn slot(&self, number: u64) -> usize {
        number as usize & self.recent.len().wrapping_sub(1)
    }

    fn recall(&self, number: u64) -> i64 {
        self.recent.get(self.slot(number)).copied().unwrap_or(NONE)
    }

    #[inline]
    fn pair(&mut self, before: i64, delay: i64) {
        if before != NONE && delay != NONE {
            self.ipdv.record(delay.wrapping_sub(before));
        }
    }
}
