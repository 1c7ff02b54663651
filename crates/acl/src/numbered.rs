//! The rules of a list as workers look them up. A rule comes to several matches; all of them have the number that its owner gave it, or whatever else
//! the owner knows a rule by.

use std::sync::Arc;

use weir_table::classifier::{Classifier, Match};

/// Matches to be changed at once above which a list is better built anew.
pub const MANY: usize = 32;

/// The matches of rules in their order, and whose each is. A copy shares all with its original until one of them changes.
#[derive(Clone, Debug)]
pub struct Numbered<const W: usize, N = u32> {
    /// What is looked up.
    pub classifier: Arc<Classifier<W>>,
    /// The number of the rule of each match, by its slot.
    rules: Arc<Vec<N>>,
}

impl<const W: usize, N: Copy> Default for Numbered<W, N> {
    fn default() -> Numbered<W, N> {
        Numbered::new([])
    }
}

impl<const W: usize, N: Copy> Numbered<W, N> {
    /// Rules in their order, each with its number and the matches that it comes to.
    pub fn new(rules: impl IntoIterator<Item = (N, Vec<Match<W>>)>) -> Numbered<W, N> {
        let (mut all, mut numbers) = (Vec::new(), Vec::new());
        for (number, matches) in rules {
            numbers.extend(matches.iter().map(|_| number));
            all.extend(matches);
        }
        Numbered { classifier: Arc::new(Classifier::new(&all)), rules: Arc::new(numbers) }
    }

    /// Adds a rule, in front of the match at a position among all. What there is no room for is left out.
    pub fn insert(&mut self, position: usize, number: N, matches: Vec<Match<W>>) {
        if matches.is_empty() {
            return;
        }
        let (classifier, rules) = (Arc::make_mut(&mut self.classifier), Arc::make_mut(&mut self.rules));
        for (one, at) in matches.into_iter().zip(position..) {
            let Some(slot) = classifier.insert(at, one).map(|slot| slot as usize) else { continue };
            if rules.len() <= slot {
                rules.resize(slot + 1, number);
            }
            if let Some(known) = rules.get_mut(slot) {
                *known = number;
            }
        }
    }

    /// Removes so many matches from a position on: those of a rule.
    pub fn remove(&mut self, position: usize, count: usize) {
        if count > 0 {
            let classifier = Arc::make_mut(&mut self.classifier);
            (0..count).for_each(|_| _ = classifier.remove(position));
        }
    }

    /// The numbers of the rules of all matches, by what is found: for who asks packet after packet, so that where they lie is found once.
    #[inline(always)]
    pub fn rules(&self) -> &[N] {
        &self.rules
    }

    /// The number of the rule of a match that was found; `None` where none was.
    #[inline(always)]
    pub fn rule(&self, found: u32) -> Option<N> {
        self.rules.get(found as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_simd::Kernel;
    use weir_table::classifier::{BATCH, Half, Keys};

    /// A change: whether a rule comes, where, and the values of a byte that it is for.
    fn changes() -> impl Strategy<Value = Vec<(bool, usize, Vec<u8>)>> {
        prop::collection::vec((prop::bool::weighted(0.6), any::<usize>(), prop::collection::vec(0u8..16, 0..5)), 1..60)
    }

    fn matches(values: &[u8]) -> Vec<Match<1>> {
        values.iter().map(|value| Match::default().range(Half::Low, u16::from(*value), u16::from(*value))).collect()
    }

    proptest! {
        /// The first rule that lists a value is found, however the list came to be what it is.
        #[test]
        fn the_first_rule_is_found(changes in changes()) {
            let mut twin: Vec<(u32, Vec<u8>)> = Vec::new();
            let mut rules = Numbered::<1>::default();
            for (number, (comes, at, values)) in (0u32..).zip(changes) {
                let before = rules.clone();
                let front = |twin: &[(u32, Vec<u8>)], at: usize| twin[..at].iter().map(|(_, all)| all.len()).sum::<usize>();
                if comes || twin.is_empty() {
                    let at = at % (twin.len() + 1);
                    rules.insert(front(&twin, at), number, matches(&values));
                    twin.insert(at, (number, values));
                } else {
                    let at = at % twin.len();
                    rules.remove(front(&twin, at), twin[at].1.len());
                    twin.remove(at);
                }
                let anew = Numbered::new(twin.iter().map(|(number, values)| (*number, matches(values))));
                let (mut keys, mut found) = (Keys::<1>::default(), [0; BATCH]);
                (0..16).for_each(|value| keys.set(value, [value as u32]));
                for version in [&rules, &anew] {
                    version.classifier.lookup_batch(Kernel::detect(), &keys, 16, &mut found);
                    for (value, found) in (0u8..16).zip(found) {
                        let due = twin.iter().find(|(_, all)| all.contains(&value)).map(|(number, _)| *number);
                        prop_assert_eq!(version.rule(found), due);
                    }
                }
                // Who looks at the version before sees no part of the change.
                prop_assert!(Arc::ptr_eq(&before.classifier, &rules.classifier) || before.classifier.len() != rules.classifier.len());
            }
        }
    }
}
