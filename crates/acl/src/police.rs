//! Polices what a rule permits: one bucket for all workers.

use std::sync::atomic::{AtomicU64, Ordering};

/// Parts of a nanosecond in which time is counted, so that what a byte takes is exact enough at any rate.
const PARTS: u64 = 256;

/// How much may come at once: what the rate lets through in this time, nanoseconds.
const BURST: u64 = 50_000_000;

/// The virtual scheduling algorithm (ITU-T I.371): a rate and the time at which the next packet would be due, as one word.
///
/// The meters of `weir-table` are one worker's each; this one is shared, and what all workers let through together keeps to the rate.
#[derive(Debug)]
pub struct Police {
    /// Bit/s, at least 1.
    rate: u64,
    due: AtomicU64,
}

impl Police {
    /// A rate in bit/s.
    pub fn new(rate: u64) -> Police {
        Police { rate: rate.max(1), due: AtomicU64::new(0) }
    }

    /// Whether a packet of so many bytes may go on at `now`.
    pub fn admits(&self, now: u64, bytes: usize) -> bool {
        let takes =
            (bytes as u128 * 8 * 1_000_000_000 * u128::from(PARTS)).checked_div(self.rate.into()).unwrap_or(0) as u64;
        let (now, burst) = (now.wrapping_mul(PARTS), BURST * PARTS);
        let step = |due: u64| {
            // Times are compared by their distance, so that they may wrap.
            let ahead = due.wrapping_sub(now) as i64;
            let start = if ahead < 0 { now } else { due };
            (ahead <= burst as i64).then(|| start.wrapping_add(takes))
        };
        self.due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_keeps_to_the_rate() {
        let police = Police::new(8_000_000);
        // Twice the rate for 10 s: 1000 bytes in each half millisecond.
        let passed = (0..20_000_u64).filter(|n| police.admits(n * 500_000, 1000)).count();
        assert!((10_000..=10_060).contains(&passed), "{passed}");
        // After a second without packets, no more than a burst passes at once.
        let at_once = (0..1000).filter(|_| police.admits(11_000_000_000, 1000)).count();
        assert!((50..=52).contains(&at_once), "{at_once}");
    }
}
