//! The two promises about every window of time, held to each packet that leaves, in constant time and memory.

use super::Tokens;

/// A byte in bits at 1 bit/s for a nanosecond.
const BYTE: u64 = 8_000_000_000;

/// Holds the packets of a user to the promises: in any window T it sends at most `size + rate * T`, and, while it always has packets
/// waiting, at least `rate * T - size - one frame`.
///
/// The first is that a token bucket has the tokens for every packet. The second is one of the same kind the other way round: what
/// it might have sent since any moment, less what it sent, is never above the allowance; the greatest over all moments is that over the
/// moments right after packets, kept as a running sum that is never below 0.
#[derive(Clone, Debug)]
pub struct Windows {
    bucket: Tokens,
    rate: u64,
    allowance: u64,
    /// What it is behind at the most, over all windows that end at `at`.
    behind: u64,
    at: u64,
    /// Packets that left too early.
    pub early: u64,
    /// Packets that left too late.
    pub late: u64,
}

impl Windows {
    /// Of a user with a bucket of `size` bytes that fills at `rate` bit/s, who sends frames of at most `frame` bytes.
    pub fn new(rate: u64, size: u64, frame: u16) -> Windows {
        let allowance = (size + u64::from(frame)).saturating_mul(BYTE);
        Windows { bucket: Tokens::new(rate, size), rate, allowance, behind: 0, at: 0, early: 0, late: 0 }
    }

    /// From `now` on it has packets waiting.
    pub fn begins(&mut self, now: u64) {
        (self.behind, self.at) = (0, now);
    }

    /// A packet of so many bytes leaves. Times do not go back.
    #[inline]
    pub fn sent(&mut self, now: u64, bytes: u16) {
        self.early += u64::from(!self.bucket.take(now, bytes));
        let grown = u128::from(now.saturating_sub(self.at)) * u128::from(self.rate);
        let behind = self.behind.saturating_add(u64::try_from(grown).unwrap_or(u64::MAX));
        self.late += u64::from(behind > self.allowance);
        (self.behind, self.at) = (behind.saturating_sub(u64::from(bytes) * BYTE), now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Random;
    use super::*;

    const RATE: u64 = 8_000_000; // a byte each microsecond
    const SIZE: u64 = 300;
    const FRAME: u16 = 100;

    /// All windows from one packet to another, as the promises have them.
    fn slowly(times: &[u64]) -> (bool, bool) {
        let (mut early, mut late) = (false, false);
        for (n, from) in times.iter().enumerate() {
            for (m, to) in times.iter().enumerate().skip(n) {
                let bytes = (m - n + 1) as u64 * u64::from(FRAME);
                early |= bytes > SIZE + (to - from) / 1000;
                // From right after the first to right before the last.
                late |= m > n && bytes + SIZE + u64::from(FRAME) < (to - from) / 1000 + 2 * u64::from(FRAME);
            }
        }
        (early, late)
    }

    #[test]
    fn it_agrees_with_a_look_at_every_window() {
        let (mut random, mut seen) = (Random(5), [[0; 2]; 2]);
        for _ in 0..2_000 {
            let mut now = 0;
            let times: Vec<u64> = (0..20)
                .map(|_| {
                    now += 1000 * [0, 100, 100, 100, 100, 130, 180][random.below(7) as usize];
                    now
                })
                .collect();
            let mut windows = Windows::new(RATE, SIZE, FRAME);
            windows.begins(times[0]);
            times.iter().for_each(|time| windows.sent(*time, FRAME));
            let said = (windows.early > 0, windows.late > 0);
            assert_eq!(said, slowly(&times), "{times:?}");
            seen[usize::from(said.0)][usize::from(said.1)] += 1;
        }
        assert!(seen.iter().flatten().all(|times| *times > 20), "{seen:?}");
    }
}
