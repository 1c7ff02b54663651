//! How much of a kind may come, when several workers take it in: a bucket that is one word, which they share.

use std::sync::atomic::{AtomicU64, Ordering};

/// Fractions of a nanosecond that times are counted in here: a rate is met to a thousandth up to 60 million events a second, and a word lasts for
/// nine years.
const FRACTIONS: u64 = 64;

/// A rate of events, or of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    per_second: u64,
    /// How far it may be ahead, in fractions.
    ahead: u64,
}

impl Pace {
    /// So many per second, of which those of a tenth of a second can be saved up, and at least so many.
    pub(crate) fn saving_a_tenth(per_second: u64, least: u64) -> Pace {
        let per_second = per_second.max(1);
        Pace { per_second, ahead: span(per_second, (per_second / 10).max(least)) }
    }
}

/// The time that `count` take, in fractions.
fn span(per_second: u64, count: u64) -> u64 {
    let fractions = u128::from(count) * u128::from(1_000_000_000 * FRACTIONS) / u128::from(per_second.max(1));
    u64::try_from(fractions).unwrap_or(u64::MAX / 4)
}

/// A bucket (the generic cell rate algorithm, ITU-T I.371): when it would be full again.
#[derive(Debug, Default)]
pub(crate) struct Bucket(AtomicU64);

impl Bucket {
    /// Takes `count` at time `now` (nanoseconds), if the pace allows.
    pub(crate) fn take(&self, pace: Pace, now: u64, count: u64) -> bool {
        let now = now.saturating_mul(FRACTIONS);
        let cost = span(pace.per_second, count);
        let next = |full: u64| {
            let full = full.max(now).saturating_add(cost);
            (full - now <= pace.ahead).then_some(full)
        };
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    proptest! {
        /// The definition: in any time from the start on, no more than the rate and the reserve; and whatever is refused would exceed that.
        #[test]
        fn no_more_passes_than_the_rate_and_the_reserve(
            rate in 1_u64..2_000_000,
            gaps in proptest::collection::vec((0_u64..SECOND / 100, 1_u64..20), 1..400),
        ) {
            let (pace, bucket) = (Pace::saving_a_tenth(rate, 20), Bucket::default());
            let burst = (rate / 10).max(20);
            // Tokens in fractions of one, as in a bucket that fills.
            let (mut now, mut tokens, mut filled) = (SECOND, u128::from(burst) << 32, SECOND);
            for (gap, count) in gaps {
                now += gap;
                let more = ((u128::from(now - filled) * u128::from(rate)) << 32) / u128::from(SECOND);
                tokens = (tokens + more).min(u128::from(burst) << 32);
                filled = now;
                let enough = tokens >= u128::from(count) << 32;
                let taken = bucket.take(pace, now, count);
                // Rounding may decide where it is a matter of a thousandth.
                let close = tokens.abs_diff(u128::from(count) << 32) < 1 << 29;
                prop_assert!(taken == enough || close, "{taken} {enough}");
                if taken {
                    tokens = tokens.saturating_sub(u128::from(count) << 32);
                }
            }
        }
    }

    #[test]
    fn workers_share_a_bucket() {
        let (pace, bucket) = (Pace::saving_a_tenth(1_000, 1), Bucket::default());
        let taken: usize = std::thread::scope(|scope| {
            let take = || (0..10_000_u64).filter(|n| bucket.take(pace, SECOND + n * 100_000, 1)).count();
            let workers: Vec<_> = (0..2).map(|_| scope.spawn(take)).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        // A second's worth and the reserve; a worker that is behind takes its time from the other's future, never more.
        assert!((900..=1_100).contains(&taken), "{taken}");
    }
}
