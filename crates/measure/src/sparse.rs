//! Counts of values that are few, or few enough when they are known less well.

use crate::distribution::{BITS, LIMIT};

/// Values in rising order, each with how often it came.
///
/// A value is kept as the greatest magnitude that its leading bits allow, so that what is said of it is what a dense
/// histogram of as many bits says.
#[derive(Clone, Debug)]
pub(crate) struct Sparse {
    values: Vec<i64>,
    counts: Vec<u32>,
    /// Values that are kept apart at most.
    limit: u32,
    /// Leading bits by which values are told apart.
    bits: u32,
}

impl Sparse {
    pub(crate) fn new(limit: usize) -> Sparse {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX).max(128);
        Sparse { values: Vec::new(), counts: Vec::new(), limit, bits: BITS }
    }

    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    pub(crate) fn counts(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        self.values.iter().zip(&self.counts).map(|(&value, &count)| (value, u64::from(count)))
    }

    pub(crate) fn add(&mut self, value: i64, count: u64) {
        let mut left = count;
        while left > 0 {
            let part = u32::try_from(left).unwrap_or(u32::MAX);
            self.count(value, part);
            left -= u64::from(part);
        }
    }

    /// A count that does not fit beside what is there gets a place of its own beside it.
    fn count(&mut self, value: i64, count: u32) {
        let value = rounded(value, self.bits);
        let at = self.values.partition_point(|&other| other < value);
        if self.values.get(at) == Some(&value)
            && let Some(sum) = self.counts.get_mut(at)
            && let Some(all) = sum.checked_add(count)
        {
            *sum = all;
            return;
        }
        self.values.insert(at, value);
        self.counts.insert(at, count);
        while self.values.len() > self.limit as usize && self.bits > 1 {
            self.coarsen();
        }
    }

    /// Knows all values by one bit less.
    fn coarsen(&mut self) {
        self.bits -= 1;
        let (values, counts) = (std::mem::take(&mut self.values), std::mem::take(&mut self.counts));
        for (value, count) in values.into_iter().zip(counts) {
            let value = rounded(value, self.bits);
            let last = self.values.last().is_some_and(|&last| last == value);
            match self.counts.last_mut().filter(|_| last).and_then(|sum| Some((sum.checked_add(count)?, sum))) {
                Some((all, sum)) => *sum = all,
                None => {
                    self.values.push(value);
                    self.counts.push(count);
                }
            }
        }
    }
}

/// The value of greatest magnitude that has the same leading `bits`.
fn rounded(value: i64, bits: u32) -> i64 {
    let magnitude = value.unsigned_abs().min(LIMIT);
    let unknown = (u64::BITS - magnitude.leading_zeros()).saturating_sub(bits);
    let greatest = (magnitude | ((1 << unknown) - 1)) as i64;
    if value < 0 { -greatest } else { greatest }
}
