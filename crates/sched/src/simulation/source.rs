//! Chance, token buckets, and what users send.

use super::{BUCKET, SMALL};

/// Random numbers: splitmix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.any().checked_rem(bound).unwrap_or(0)
    }

    /// The time to the next of events that come at random, on average `mean` apart.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        let uniform = (self.any() >> 11) as f64 / (1_u64 << 53) as f64;
        -mean * (1.0 - uniform).ln()
    }
}

/// A byte in tokens, which are bits at 1 bit/s for a nanosecond: so that nothing is rounded.
const BYTE: u64 = 8_000_000_000;

/// A token bucket as it is defined.
#[derive(Clone, Debug)]
pub struct Tokens {
    rate: u64,
    full: u64,
    tokens: u64,
    at: u64,
}

impl Tokens {
    /// A bucket of `size` bytes, of at most 2 GB, that fills at `rate` bit/s. It is full.
    pub fn new(rate: u64, size: u64) -> Tokens {
        let full = size.saturating_mul(BYTE);
        Tokens { rate: rate.max(1), full, tokens: full, at: 0 }
    }

    /// Takes the tokens for so many bytes at `now`, which is not before any time said to it, if it has them.
    #[inline]
    pub fn take(&mut self, now: u64, bytes: u16) -> bool {
        let grown = u128::from(now.saturating_sub(self.at)) * u128::from(self.rate);
        let grown = u64::try_from(grown).unwrap_or(u64::MAX);
        (self.tokens, self.at) = (self.tokens.saturating_add(grown).min(self.full), now);
        let left = self.tokens.checked_sub(u64::from(bytes) * BYTE);
        self.tokens = left.unwrap_or(self.tokens);
        left.is_some()
    }

    /// When it has the tokens for so many bytes, from `now` on.
    #[inline]
    pub fn has_at(&self, now: u64, bytes: u16) -> u64 {
        let need = (u64::from(bytes) * BYTE).saturating_sub(self.tokens);
        now.max(self.at + need.div_ceil(self.rate))
    }
}

/// What a user does.
#[derive(Clone, Debug)]
pub struct Source(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Constant(f64),
    Conforming { gap: f64, wished: f64, tokens: Tokens },
}

impl Source {
    /// Packets that are `gap` nanoseconds apart, 1 % more or less, so that they are not in step for ever.
    pub fn constant(gap: f64) -> Source {
        Source(Kind::Constant(gap))
    }

    /// Packets at random times, `gap` nanoseconds apart on average, each put off until it conforms to a bucket of `rate` bit/s and
    /// [`BUCKET`] frames.
    pub fn conforming(gap: f64, rate: u64) -> Source {
        Source(Kind::Conforming { gap, wished: 0.0, tokens: Tokens::new(rate, BUCKET * u64::from(SMALL)) })
    }

    /// The time between two packets, on average.
    pub(super) fn gap(&self) -> f64 {
        let (Kind::Constant(gap) | Kind::Conforming { gap, .. }) = self.0;
        gap
    }

    /// When the packet comes that follows one at `now`.
    #[inline]
    pub(super) fn next(&mut self, now: u64, random: &mut Random) -> u64 {
        match &mut self.0 {
            Kind::Constant(gap) => now + (*gap * 0.99) as u64 + random.below((*gap * 0.02) as u64 + 1),
            Kind::Conforming { gap, wished, tokens } => {
                tokens.take(now, SMALL);
                *wished += random.exponential(*gap);
                tokens.has_at(now.max(*wished as u64), SMALL)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What conforms to a bucket passes another one of the same kind; so does nothing that comes a nanosecond earlier than it might.
    #[test]
    fn conforming_packets_conform() {
        let rate = 1_000_000;
        let mut source = Source::conforming(672_000.0 * 0.5, rate);
        let (mut check, mut random, mut now, mut put_off) = (Tokens::new(rate, 4 * 84), Random(3), 0, 0);
        for _ in 0..10_000 {
            assert!(check.take(now, SMALL));
            let next = source.next(now, &mut random);
            let mut early = check.clone();
            put_off += u64::from(next > now && !early.take(next - 1, SMALL));
            now = next;
        }
        // It wishes for twice the rate, so that nearly all have to wait for it.
        assert!(put_off > 9_000, "{put_off}");
        assert!((now as f64 / (10_000.0 * 672_000.0) - 1.0).abs() < 0.01, "{now}");
    }
}
