//! The slow twin: rule by rule.

use super::{MAX_RULES, Match, NONE};

/// Rules in their order, looked at one by one. It numbers them as [`Classifier`](super::Classifier) does.
#[derive(Clone, Debug)]
pub struct Linear<const W: usize> {
    /// In their order, with their numbers.
    rules: Vec<(u32, Match<W>)>,
    free: Vec<u32>,
}

impl<const W: usize> Linear<W> {
    /// These rules, numbered from 0 on; no more than [`MAX_RULES`].
    pub fn new(rules: &[Match<W>]) -> Linear<W> {
        Linear { rules: (0..).zip(rules.iter().copied()).take(MAX_RULES).collect(), free: Vec::new() }
    }

    /// The number of the first rule that matches; [`NONE`].
    pub fn lookup(&self, key: &[u32; W]) -> u32 {
        self.rules.iter().find(|(_, rule)| rule.matches(key)).map_or(NONE, |(number, _)| *number)
    }

    /// Adds a rule in front of the one at a position, or as the last one; answers its number, if there is room.
    pub fn insert(&mut self, position: usize, rule: Match<W>) -> Option<u32> {
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.rules.len() < MAX_RULES => self.rules.len() as u32,
            None => return None,
        };
        self.rules.insert(position.min(self.rules.len()), (number, rule));
        Some(number)
    }

    /// Removes the rule at a position; answers its number, which the next one gets.
    pub fn remove(&mut self, position: usize) -> Option<u32> {
        let (number, _) = (position < self.rules.len()).then(|| self.rules.remove(position))?;
        self.free.push(number);
        Some(number)
    }

    /// Rules that it has.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}
