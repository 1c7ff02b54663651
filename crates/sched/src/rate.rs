//! Rates as the time that bytes take: what a token bucket is when nothing is divided per packet.
//!
//! A token bucket of some size that fills at some rate is full at one moment, which sending puts off: by the time that the
//! packet's bytes take at that rate. A packet may go when, afterwards, the bucket would be full no later than the time its
//! whole size takes from now. So the state of a bucket is one time (the virtual scheduling of ITU-T I.371 annex A, which is
//! the same as a token bucket), and whether a packet may go, and else when it may, is one addition and one comparison.

/// Bits of a fine time below the nanosecond: 1/64 ns, which times up to nine years from the clock's zero leave room for.
const FINE_BITS: u32 = 6;

/// Bits of a cost per byte below the fine unit.
const COST_BITS: u32 = 20;

/// The lowest rate, bit/s: below it the cost of the longest frame would not fit.
pub const MIN_RATE: u64 = 8_000;

/// The highest rate, bit/s.
pub const MAX_RATE: u64 = 1_000_000_000_000;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A time in 1/64 ns.
pub type Fine = u64;

/// A time in nanoseconds as a fine one; times beyond nine years are all the same.
#[inline(always)]
pub fn fine(nanos: u64) -> Fine {
    nanos.min(u64::MAX >> (FINE_BITS + 1)) << FINE_BITS
}

/// The first whole nanosecond that is not before a fine time.
#[inline(always)]
pub fn nanos(fine: Fine) -> u64 {
    fine.div_ceil(1 << FINE_BITS)
}

/// What it takes to send bytes at a rate, and how much of it may be saved up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Fine time per byte, with [`COST_BITS`] more bits below.
    per_byte: u64,
    /// Fine time in which the bucket fills.
    depth: Fine,
}

impl Bucket {
    /// One that never holds anything back.
    pub const UNLIMITED: Bucket = Bucket { per_byte: 0, depth: Fine::MAX };

    /// A bucket of `size` bytes that fills at `rate` bit/s (from [`MIN_RATE`] to [`MAX_RATE`]; others are taken as the nearest).
    pub fn new(rate: u64, size: u64) -> Bucket {
        let per_byte = per_byte(rate);
        let depth = (u128::from(size) * u128::from(per_byte)) >> COST_BITS;
        Bucket { per_byte, depth: u64::try_from(depth).unwrap_or(Fine::MAX).min(Fine::MAX / 4) }
    }

    /// A bucket that fills at `rate` bit/s and holds what that is in `period` nanoseconds.
    pub fn of_period(rate: u64, period: u64) -> Bucket {
        Bucket { per_byte: per_byte(rate), depth: fine(period).min(Fine::MAX / 4) }
    }

    /// Whether it never holds anything back.
    pub fn is_unlimited(&self) -> bool {
        self.per_byte == 0
    }

    /// The fine time that so many bytes take, rounded up, so that nobody gets more than the rate.
    #[inline(always)]
    pub fn cost(&self, bytes: u16) -> Fine {
        (u64::from(bytes) * self.per_byte + (1 << COST_BITS) - 1) >> COST_BITS
    }

    /// From when on bytes of this cost may go, where the bucket is full at `full_at`. A frame that is larger than the bucket goes when a
    /// bucket of its size would be full.
    #[inline(always)]
    pub fn due(&self, full_at: Fine, cost: Fine) -> Fine {
        (full_at + cost).saturating_sub(self.depth)
    }

    /// [`Bucket::due`] of so many bytes.
    #[inline(always)]
    pub fn eligible_at(&self, full_at: Fine, bytes: u16) -> Fine {
        self.due(full_at, self.cost(bytes))
    }

    /// When the bucket is full again after so many bytes went at `now`.
    #[inline(always)]
    pub fn after(&self, full_at: Fine, bytes: u16, now: Fine) -> Fine {
        full_at.max(now) + self.cost(bytes)
    }

    /// Whether it lacks no more than it holds when it is full, counted from empty: one that has given more than it had.
    pub fn lacks_little(&self, full_at: Fine, now: Fine) -> bool {
        full_at.saturating_sub(now) / 2 <= self.depth
    }

    /// When the bucket is full that was `old` until `now`, and full at `full_at`: it holds the bytes that were left in that one, as far as they fit, so
    /// that nobody gains by changes, however many. Of the same bucket, [`Bucket::inherit`].
    pub fn carry(&self, old: &Bucket, full_at: Fine, now: Fine) -> Fine {
        if self == old {
            return self.inherit(full_at, now);
        }
        if self.is_unlimited() || old.is_unlimited() {
            // Full: since when must not matter to a frame that is larger than the bucket.
            return now;
        }
        // Times have 62 bits and costs 47.
        let left = i128::from(old.depth) - i128::from(full_at.saturating_sub(now));
        let left = (left * i128::from(self.per_byte)).div_euclid(i128::from(old.per_byte));
        let missing = i128::from(self.depth).saturating_sub(left).max(0);
        now.saturating_add(u64::try_from(missing).unwrap_or(Fine::MAX).min(Fine::MAX / 4))
    }

    /// When a bucket that was full at `full_at` is full at the latest, having been another one until `now`.
    pub fn inherit(&self, full_at: Fine, now: Fine) -> Fine {
        full_at.min(now.saturating_add(self.depth))
    }
}

fn per_byte(rate: u64) -> u64 {
    let rate = u128::from(rate.clamp(MIN_RATE, MAX_RATE));
    let scaled = (8 * NANOS_PER_SECOND) << (FINE_BITS + COST_BITS);
    u64::try_from(scaled.div_ceil(rate)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A token bucket as its definition has it: tokens in bytes, in exact fractions of 1 / (8 * 10^9).
    struct Tokens {
        size: u128,
        rate: u128,
        tokens: u128,
        at: u64,
    }

    const UNIT: u128 = 8 * NANOS_PER_SECOND;

    impl Tokens {
        fn at(&mut self, now: u64) -> u128 {
            self.tokens = (self.tokens + u128::from(now - self.at) * self.rate).min(self.size * UNIT);
            self.at = now;
            self.tokens
        }
    }

    proptest! {
        #[test]
        fn it_is_a_token_bucket(
            rate in MIN_RATE..MAX_RATE, size in 10_000..1_000_000_u64,
            packets in prop::collection::vec((0..2_000_000_u64, 60..9240_u16), 1..100),
        ) {
            let bucket = Bucket::new(rate, size);
            let mut tokens = Tokens { size: size.into(), rate: rate.into(), tokens: u128::from(size) * UNIT, at: 0 };
            let (mut full_at, mut now) = (0, 0);
            for (wait, bytes) in packets {
                now += wait * 1_000_000 / (rate / 1000 + 1);
                let have = tokens.at(now);
                let may = bucket.eligible_at(full_at, bytes) <= fine(now);
                // Rounding holds back by a fine unit per packet and byte at most, and never lets more go.
                let slack = u128::from(rate) * 8 + UNIT;
                prop_assert!(!may || have >= u128::from(bytes) * UNIT);
                prop_assert!(may || have < u128::from(bytes) * UNIT + slack, "{have} of {bytes}");
                if may {
                    full_at = bucket.after(full_at, bytes, fine(now));
                    tokens.tokens -= u128::from(bytes) * UNIT;
                }
            }
        }
    }

    proptest! {
        /// What is left of one bucket is in the next, in bytes: so there is no window in which more goes than the rates allow.
        #[test]
        fn changes_neither_give_nor_take(
            buckets in prop::collection::vec((MIN_RATE..1_000_000_000, 2_000..100_000_u64), 2..5),
            steps in prop::collection::vec((0..3_000_000_u64, 60..2_000_u16, any::<prop::sample::Index>()), 1..200),
        ) {
            let (mut rate, mut size) = buckets[0];
            let mut bucket = Bucket::new(rate, size);
            let mut tokens = Tokens { size: size.into(), rate: rate.into(), tokens: u128::from(size) * UNIT, at: 0 };
            let (mut full_at, mut now) = (0, 0);
            for (wait, bytes, next) in steps {
                now += wait;
                let have = tokens.at(now);
                (rate, size) = *next.get(&buckets);
                let old = std::mem::replace(&mut bucket, Bucket::new(rate, size));
                full_at = bucket.carry(&old, full_at, fine(now));
                tokens = Tokens { size: size.into(), rate: rate.into(), tokens: have.min(u128::from(size) * UNIT), at: now };
                let may = bucket.eligible_at(full_at, bytes) <= fine(now);
                // Roundings hold back by less than a byte each.
                prop_assert!(!may || tokens.tokens >= u128::from(bytes) * UNIT);
                prop_assert!(may || tokens.tokens < (u128::from(bytes) + 200) * UNIT, "{} of {bytes}", tokens.tokens / UNIT);
                if may {
                    full_at = bucket.after(full_at, bytes, fine(now));
                    tokens.tokens -= u128::from(bytes) * UNIT;
                }
            }
        }
    }

    #[test]
    fn a_frame_larger_than_the_bucket_goes_in_the_end() {
        let bucket = Bucket::new(8_000_000, 100); // a byte is 1 us
        assert_eq!(nanos(bucket.eligible_at(0, 1000)), 900_000);
        assert_eq!(bucket.after(0, 1000, fine(900_000)), fine(1_900_000));
    }

    #[test]
    fn extremes_do_not_overflow() {
        for rate in [0, MIN_RATE, MAX_RATE, u64::MAX] {
            for bucket in [
                Bucket::new(rate, u64::MAX),
                Bucket::new(rate, 0),
                Bucket::of_period(rate, u64::MAX),
                Bucket::UNLIMITED,
            ] {
                let late = fine(u64::MAX);
                let full_at = bucket.after(late, u16::MAX, late);
                assert!(bucket.eligible_at(full_at, u16::MAX) <= full_at + bucket.cost(u16::MAX));
            }
        }
        assert_eq!(Bucket::UNLIMITED.eligible_at(fine(u64::MAX), u16::MAX), 0);
    }
}
