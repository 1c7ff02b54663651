//! The sequence of values that a field takes from packet to packet.

use crate::layers::Part;
use crate::random::Random;
use crate::values::{Span, Values};

/// A sequence of values on its way, below 2^64 each; of longer ones a half.
#[derive(Debug, Clone)]
pub(crate) enum Sequence {
    /// One range in turn.
    Range { first: u64, step: u64, len: u64, next: u64 },
    /// One range at random.
    Random { first: u64, step: u64, len: u128, random: Random },
    /// Several ranges in turn.
    Ranges { spans: Vec<(u64, u64, u64)>, at: usize, next: u64 },
    /// Several ranges at random.
    RandomRanges { spans: Vec<(u64, u64, u64)>, len: u128, random: Random },
    /// Half of values of 128 bits.
    Half { wide: Wide, part: Part },
}

/// A sequence of values of 128 bits on its way. Two that are made alike give the same values, of which each takes a half.
#[derive(Debug, Clone)]
pub(crate) struct Wide {
    spans: Vec<Span>,
    len: u128,
    random: Option<Random>,
    /// The next one in turn.
    next: u128,
}

impl Wide {
    fn new(values: &Values, random: Random) -> Wide {
        let random = values.random.then_some(random);
        Wide { spans: values.spans.clone(), len: values.len().max(1), random, next: 0 }
    }

    fn next(&mut self) -> u128 {
        let mut rest = match &mut self.random {
            Some(random) => random.below_wide(self.len),
            None => {
                let at = self.next;
                self.next = if at + 1 >= self.len { 0 } else { at + 1 };
                at
            }
        };
        for span in &self.spans {
            if rest < span.len() {
                return span.first + rest * span.step;
            }
            rest -= span.len();
        }
        0
    }
}

impl Sequence {
    /// The sequence of the low 64 bits of `values`.
    pub(crate) fn new(values: &Values, random: Random) -> Sequence {
        let len_of = |span: &Span| u64::try_from(span.len()).unwrap_or(u64::MAX);
        let parts: Vec<(u64, u64, u64)> =
            values.spans.iter().map(|span| (span.first as u64, span.step as u64, len_of(span))).collect();
        match (parts.as_slice(), values.random) {
            (&[(first, step, len)], false) => Sequence::Range { first, step, len, next: 0 },
            (&[(first, step, _)], true) => Sequence::Random { first, step, len: values.len().min(1 << 64), random },
            (_, true) => Sequence::RandomRanges { spans: parts, len: values.len().min(1 << 64), random },
            (_, false) => Sequence::Ranges { spans: parts, at: 0, next: 0 },
        }
    }

    /// The sequence of a part of `values`.
    pub(crate) fn of(values: &Values, part: Part, random: Random) -> Sequence {
        match part {
            Part::Whole => Sequence::new(values, random),
            Part::Upper | Part::Lower => Sequence::Half { wide: Wide::new(values, random), part },
        }
    }

    /// The next values.
    #[inline]
    pub(crate) fn fill(&mut self, values: &mut [u64]) {
        match self {
            Sequence::Range { first, step, len, next } => values.iter_mut().for_each(|value| {
                *value = first.wrapping_add(next.wrapping_mul(*step));
                *next = if *next + 1 >= *len { 0 } else { *next + 1 };
            }),
            Sequence::Random { first, step, len, random } => {
                let (first, step, len) = (*first, *step, *len);
                let mut own = *random;
                values.iter_mut().for_each(|value| {
                    *value = first.wrapping_add(own.below(len).wrapping_mul(step));
                });
                *random = own;
            }
            Sequence::Ranges { spans, at, next } => values.iter_mut().for_each(|value| {
                let Some(&(first, step, len)) = spans.get(*at) else { return };
                *value = first.wrapping_add(next.wrapping_mul(step));
                *next += 1;
                if *next >= len {
                    (*at, *next) = ((*at + 1) % spans.len(), 0);
                }
            }),
            Sequence::RandomRanges { spans, len, random } => values.iter_mut().for_each(|value| {
                let mut rest = random.below(*len);
                for &(first, step, len) in spans.iter() {
                    if rest < len {
                        *value = first.wrapping_add(rest.wrapping_mul(step));
                        return;
                    }
                    rest -= len;
                }
            }),
            Sequence::Half { wide, part } => values.iter_mut().for_each(|value| *value = part.of(wide.next())),
        }
    }
}
