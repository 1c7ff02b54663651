//! Token buckets: how often something may happen, exact to the nanosecond, with time as an argument.

/// Billionths in one token.
const SCALE: u64 = 1_000_000_000;

/// A rate and how much of it may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    per_second: u64,
    burst: u64,
}

impl Rate {
    /// Largest burst, in tokens.
    pub const MAX_BURST: u64 = u64::MAX / SCALE;

    /// `per_second` tokens in each second, of which `burst` can be saved up. `None` if `burst` exceeds
    /// [`Rate::MAX_BURST`]. A rate or burst of 0 lets nothing pass once what is saved is gone.
    pub const fn new(per_second: u64, burst: u64) -> Option<Self> {
        if burst > Self::MAX_BURST { None } else { Some(Rate { per_second, burst }) }
    }

    /// `per_second` tokens in each second, of which those of a tenth of a second can be saved up, and at least so many.
    pub const fn saving_a_tenth(per_second: u64, least: u64) -> Self {
        let tenth = per_second / 10;
        let burst = if tenth < least { least } else { tenth };
        Rate { per_second, burst: if burst > Self::MAX_BURST { Self::MAX_BURST } else { burst } }
    }

    /// Tokens in each second.
    pub const fn per_second(self) -> u64 {
        self.per_second
    }

    /// Tokens that can be saved up.
    pub const fn burst(self) -> u64 {
        self.burst
    }

    const fn capacity(self) -> u64 {
        self.burst * SCALE
    }
}

/// A token bucket. It starts full.
///
/// What is saved is counted in billionths of a token: one nanosecond at a rate of `n` per second is exactly `n` of them, so that
/// nothing is rounded and nothing drifts, however often it is asked.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    rate: Rate,
    saved: u64,
    filled_at: u64,
}

impl TokenBucket {
    /// A full bucket at time `now` (nanoseconds).
    pub const fn new(rate: Rate, now: u64) -> Self {
        TokenBucket { rate, saved: rate.capacity(), filled_at: now }
    }

    /// How fast it fills, and up to where.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Takes `tokens` if that many are there; otherwise takes none and answers `false`. A `now` before the last one
    /// counts as the last one.
    pub fn take(&mut self, now: u64, tokens: u64) -> bool {
        self.fill(now);
        let after = tokens.checked_mul(SCALE).and_then(|cost| self.saved.checked_sub(cost));
        if let Some(after) = after {
            self.saved = after;
        }
        after.is_some()
    }

    /// Whole tokens that could be taken at `now`.
    pub fn available(&mut self, now: u64) -> u64 {
        self.fill(now);
        self.saved / SCALE
    }

    /// Changes the rate from `now` on; what is saved stays as far as the new burst allows.
    pub fn set_rate(&mut self, now: u64, rate: Rate) {
        self.fill(now);
        self.rate = rate;
        self.saved = self.saved.min(rate.capacity());
    }

    fn fill(&mut self, now: u64) {
        let elapsed = now.saturating_sub(self.filled_at);
        let filled = u128::from(self.saved) + u128::from(elapsed) * u128::from(self.rate.per_second);
        self.saved = u64::try_from(filled).unwrap_or(u64::MAX).min(self.rate.capacity());
        self.filled_at = self.filled_at.max(now);
    }
}

/// A rate of which many are kept, each by the time at which its next one is due (GCRA, ITU-T I.371): a word for each, 0 at first. Coarser than a
/// [`TokenBucket`], by the rounding of an interval to nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    interval: u64,
    /// How far ahead of its rate one may be.
    ahead: u64,
}

impl Pace {
    /// `per_second` in each second, of which `burst` can come at once; at least one of each.
    pub const fn new(per_second: u64, burst: u64) -> Pace {
        let interval = SCALE / if per_second == 0 { 1 } else { per_second };
        Pace { interval, ahead: interval.saturating_mul(burst.saturating_sub(1)) }
    }

    /// Whether there may be another one at `now`, where the next one is `due`.
    #[inline(always)]
    pub const fn has(self, due: u64, now: u64) -> bool {
        due.saturating_sub(now) <= self.ahead
    }

    /// There is another one at `now`: when the next one is due then.
    #[inline(always)]
    pub const fn after(self, due: u64, now: u64) -> u64 {
        let from = if due > now { due } else { now };
        from.saturating_add(self.interval)
    }
}

/// One token bucket for each of `N` kinds: no kind can use up another's share.
#[derive(Clone, Copy, Debug)]
pub struct Policer<const N: usize> {
    buckets: [TokenBucket; N],
}

impl<const N: usize> Policer<N> {
    /// Full buckets at time `now` (nanoseconds), kind `i` at `rates[i]`.
    pub fn new(rates: [Rate; N], now: u64) -> Self {
        Policer { buckets: rates.map(|rate| TokenBucket::new(rate, now)) }
    }

    /// Takes one token of `kind`; `false` if there is none, or no such kind.
    pub fn take(&mut self, now: u64, kind: usize) -> bool {
        self.buckets.get_mut(kind).is_some_and(|bucket| bucket.take(now, 1))
    }

    /// Changes all rates from `now` on, keeping what is saved.
    pub fn set_rates(&mut self, now: u64, rates: [Rate; N]) {
        for (bucket, rate) in self.buckets.iter_mut().zip(rates) {
            bucket.set_rate(now, rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// After a pause a burst passes at once, and then one in each interval, however often it is asked.
    #[test]
    fn a_pace_lets_a_burst_pass_and_then_its_rate() {
        for (per_second, burst) in [(10, 10), (1, 1), (1000, 16), (3, 4)] {
            let (pace, interval, mut due) = (Pace::new(per_second, burst), 1_000_000_000 / per_second, 0);
            let mut passed_until = |now: u64| {
                let mut passed = 0;
                while pace.has(due, now) {
                    due = pace.after(due, now);
                    passed += 1;
                }
                passed
            };
            assert_eq!(passed_until(0), burst);
            for step in 1..=50 {
                assert_eq!(passed_until(step * interval - 1), 0, "{per_second} {burst}");
                assert_eq!(passed_until(step * interval), 1, "{per_second} {burst}");
            }
            assert_eq!(passed_until(1000 * interval), burst, "no more is saved up");
        }
        assert!(!Pace::new(0, 0).has(u64::MAX, 0) && Pace::new(0, 0).has(0, 0), "at least one a second, one at once");
    }

    fn rate(per_second: u64, burst: u64) -> Rate {
        Rate::new(per_second, burst).unwrap()
    }

    /// The definition: what came in since the start, less what was spent, capped at each step; in whole fractions.
    struct Twin {
        rate: Rate,
        saved: u128,
        last: u64,
    }

    impl Twin {
        fn take(&mut self, now: u64, tokens: u64) -> bool {
            let now = now.max(self.last);
            self.saved += u128::from(now - self.last) * u128::from(self.rate.per_second());
            self.saved = self.saved.min(u128::from(self.rate.burst()) * 1_000_000_000);
            self.last = now;
            let cost = u128::from(tokens) * 1_000_000_000;
            let enough = self.saved >= cost;
            if enough {
                self.saved -= cost;
            }
            enough
        }
    }

    proptest! {
        #[test]
        fn agrees_with_its_twin(
            per_second in prop_oneof![0u64..10, 0u64..10_000_000, any::<u64>()],
            burst in prop_oneof![0u64..10, 0..=Rate::MAX_BURST],
            steps in proptest::collection::vec((prop_oneof![Just(0), 0u64..3_000_000_000, any::<u64>()], prop_oneof![0u64..5, any::<u64>()]), 1..60),
            back: bool,
        ) {
            let rate = rate(per_second, burst);
            let mut bucket = TokenBucket::new(rate, 7);
            let mut twin = Twin { rate, saved: u128::from(burst) * 1_000_000_000, last: 7 };
            let mut now = 7u64;
            for (step, tokens) in steps {
                now = if back && step % 5 == 0 { now.saturating_sub(step) } else { now.saturating_add(step) };
                prop_assert_eq!(bucket.take(now, tokens), twin.take(now, tokens));
            }
        }
    }

    #[test]
    fn asking_often_does_not_lose_a_token() {
        // A rate of 7 per second, asked every 33,333,337 ns for 1,000 s: 7,000 come in besides the burst.
        let mut bucket = TokenBucket::new(rate(7, 2), 0);
        let mut taken = 0;
        let mut now = 0;
        while now <= 1_000 * SCALE {
            taken += u64::from(bucket.take(now, 1));
            now += 33_333_337;
        }
        assert!((7_001..=7_002).contains(&taken), "{taken}");
        assert_eq!(TokenBucket::new(rate(1, 5), 0).available(0), 5);
    }

    #[test]
    fn the_token_comes_at_its_nanosecond() {
        // The second place in the bucket keeps the fraction that is left over when a token is whole.
        let mut bucket = TokenBucket::new(rate(3, 2), 0);
        assert!(bucket.take(0, 2));
        assert!(!bucket.take(333_333_333, 1));
        assert!(bucket.take(333_333_334, 1));
        assert!(!bucket.take(666_666_666, 1));
        assert!(bucket.take(666_666_667, 1));
    }

    #[test]
    fn a_tenth_is_saved_within_bounds() {
        assert_eq!(Rate::saving_a_tenth(1000, 16), rate(1000, 100));
        assert_eq!(Rate::saving_a_tenth(100, 16), rate(100, 16));
        assert_eq!(Rate::saving_a_tenth(u64::MAX, 1), rate(u64::MAX, Rate::MAX_BURST));
    }

    #[test]
    fn a_new_rate_keeps_what_fits() {
        let mut bucket = TokenBucket::new(rate(1, 10), 0);
        bucket.set_rate(0, rate(1_000, 4));
        assert_eq!(bucket.available(0), 4);
        assert!(bucket.take(0, 4));
        assert_eq!(bucket.available(2_000_000), 2);
        assert_eq!(Rate::new(1, Rate::MAX_BURST + 1), None);
    }

    #[test]
    fn kinds_do_not_share() {
        let mut policer = Policer::new([rate(0, 1), rate(0, 2)], 0);
        assert!(policer.take(0, 0) && !policer.take(0, 0));
        assert!(policer.take(0, 1) && policer.take(0, 1) && !policer.take(0, 1));
        assert!(!policer.take(0, 2));
        policer.set_rates(0, [rate(1, 1); 2]);
        assert!(policer.take(SCALE, 0));
    }
}
