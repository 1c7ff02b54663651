//! A set of small numbers whose next and greatest members are found without a search.

use crate::indexed::Indexed;

/// Numbers below a bound, a bit each, with a bit for every 64 of them that says whether any is in.
#[derive(Clone, Debug)]
pub struct Bits {
    words: Indexed<u64>,
    summary: Indexed<u64>,
}

impl Bits {
    /// The empty set of numbers below `bound`.
    pub fn new(bound: usize) -> Bits {
        let words = bound.div_ceil(64);
        Bits { words: Indexed::new(words, 0), summary: Indexed::new(words.div_ceil(64), 0) }
    }

    /// Adds a number below the bound.
    #[inline(always)]
    pub fn insert(&mut self, n: u32) {
        let Some(word) = self.words.items_mut().get_mut(n as usize / 64) else { return };
        let before = std::mem::replace(word, *word | 1 << (n % 64));
        if before == 0 {
            *self.summary.at_mut(n / 4096) |= 1 << (n / 64 % 64);
        }
    }

    /// Takes a number out.
    #[inline(always)]
    pub fn remove(&mut self, n: u32) {
        let word = self.words.at_mut(n / 64);
        *word &= !(1 << (n % 64));
        if *word == 0 {
            *self.summary.at_mut(n / 4096) &= !(1 << (n / 64 % 64));
        }
    }

    /// The least member that is `from` or greater. Looks at one word of 4,096 numbers after the other.
    #[inline]
    pub fn next(&self, from: u32) -> Option<u32> {
        let rest = self.words.items().get(from as usize / 64)? & (u64::MAX << (from % 64));
        if rest != 0 {
            return Some(from / 64 * 64 + rest.trailing_zeros());
        }
        let word = from / 64 + 1;
        let mut mask = u64::MAX << (word % 64);
        for (n, summary) in self.summary.items().iter().enumerate().skip(word as usize / 64) {
            let left = summary & mask;
            if left != 0 {
                let found = n as u32 * 64 + left.trailing_zeros();
                return Some(found * 64 + self.words.at(found).trailing_zeros());
            }
            mask = u64::MAX;
        }
        None
    }

    /// Which of the 64 numbers from `from` on, which is below the bound, are in: the lowest bit is that of `from`. Behind the last one, where the
    /// bound is a multiple of 64, the first ones follow.
    #[inline(always)]
    pub fn window(&self, from: u32) -> u64 {
        let word = from / 64;
        let next = if word as usize + 1 < self.words.len() { word + 1 } else { 0 };
        let (low, shift) = (self.words.at(word) >> (from % 64), from % 64);
        // In two steps, since a shift by 64 is none.
        low | self.words.at(next) << 1 << (63 - shift)
    }

    /// The greatest member.
    #[inline]
    pub fn last(&self) -> Option<u32> {
        let (n, summary) = self.summary.items().iter().enumerate().rev().find(|(_, summary)| **summary != 0)?;
        let word = n as u32 * 64 + summary.ilog2();
        let last = self.words.at(word).checked_ilog2()?;
        Some(word * 64 + last)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(bound in 1..20_000_u32, steps in prop::collection::vec((any::<bool>(), any::<u32>(), any::<u32>()), 1..300)) {
            let mut bits = Bits::new(bound as usize);
            let mut twin = BTreeSet::new();
            for (add, n, from) in steps {
                let (n, from) = (n % bound, from % (bound + 70));
                if add {
                    bits.insert(n);
                    twin.insert(n);
                } else {
                    bits.remove(twin.range(n..).next().copied().unwrap_or(n));
                    let gone = twin.range(n..).next().copied().unwrap_or(n);
                    twin.remove(&gone);
                }
                prop_assert_eq!(bits.next(from), twin.range(from..).next().copied());
                prop_assert_eq!(bits.last(), twin.last().copied());
            }
        }
    }
}
