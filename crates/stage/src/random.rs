//! Numbers that look random and are the same everywhere for the same seed: for cases to measure, faults and tests.

/// SplitMix64 (Steele, Lea and Flood 2014): full period, and good enough for all but secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Numbers of a seed.
    pub const fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "there is always a next one")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `bound`; 0 if that is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A position in a list of so many; 0 if it is empty.
    #[inline]
    pub fn position(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    /// True once in so many times.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// True with probability `odds`. Draws nothing where the answer is certain.
    pub fn chance(&mut self, odds: f64) -> bool {
        if odds <= 0.0 {
            return false;
        }
        // 53 bits fill a double's fraction: evenly spread over [0, 1).
        odds >= 1.0 || ((self.next() >> 11) as f64) < odds * (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_sequence() {
        // The reference implementation's first outputs for seed 1234567.
        let mut random = Random::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423_u64];
        assert_eq!(expected, [random.next(), random.next(), random.next()]);
    }

    #[test]
    fn numbers_are_below_their_bound() {
        let mut random = Random::new(3);
        assert!((0..1000).all(|bound| random.below(bound) < bound.max(1)));
    }

    #[test]
    fn chance_keeps_its_odds() {
        let mut random = Random::new(1);
        let hits = (0..100_000).filter(|_| random.chance(0.25)).count();
        assert!((24_000..26_000).contains(&hits), "{hits} of 100000");
        assert!((0..1000).all(|_| random.chance(1.0)));
        assert!((0..1000).all(|_| !random.chance(0.0)));
    }
}
