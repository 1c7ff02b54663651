//! Several runs of the same measurement as three numbers.

use serde::{Deserialize, Serialize};

/// The median of several runs, and how far they lie apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The middle value; of an even number of runs the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Summary {
    /// Of any number of values; of none all are 0. Values that are no numbers are left out.
    pub fn of(values: &[f64]) -> Summary {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |n: usize| sorted.get(n).copied().unwrap_or(0.0);
        let half = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => (at(half.saturating_sub(1)) + at(half)) / 2.0,
            _ => at(half),
        };
        Summary { median, min: at(0), max: at(sorted.len().saturating_sub(1)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(Summary::of(&[3.0, 1.0, 2.0]), Summary { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Summary::of(&[7.0]), Summary { median: 7.0, min: 7.0, max: 7.0 });
        assert_eq!(Summary::of(&[]), Summary::default());
        assert_eq!(Summary::of(&[f64::NAN, 5.0]).median, 5.0);
    }
}
