//! Arithmetic on intervals of loads in whole steps.

use super::stat::Bounds;

/// Where to split the interval from `low` to `high`, which is wider than `goal`: such that one part is the goal times a power of two and
/// the parts are as even as that allows, the lower one being the smaller.
///
/// The split leans to lower loads, which are the safer guess; and powers of two can be halved down to the goal without a rest.
pub(super) fn middle(low: i64, high: i64, goal: i64) -> i64 {
    let (width, mut goal) = (high - low, goal);
    // Too narrow for that: with half the goal then, as long as it can be halved.
    while width < 2 * goal && goal % 2 == 0 && goal > 1 {
        goal /= 2;
    }
    if width == 2 * goal {
        return low + goal;
    }
    if width < 2 * goal {
        return low + width / 2;
    }
    let mut upper = goal;
    while width - 2 * upper > 2 * upper {
        upper *= 2;
    }
    let (once, twice) = ((upper, width - upper), (2 * upper, width - 2 * upper));
    let more_even = once.0 * once.1 > twice.0 * twice.1;
    low + if more_even { once.0 } else { twice.1 }
}

/// The limits of all loads: from 0 to this.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) max: i64,
}

impl Limits {
    /// What to measure instead of `load`, so that it lies within the limits and no closer than `width` to a bound that is known, or to a
    /// limit unless it is the limit; `None` if there is no such load.
    pub(super) fn place(&self, load: i64, width: i64, bounds: Bounds) -> Option<i64> {
        let load = load.clamp(0, self.max);
        match (bounds.lower, bounds.upper) {
            (None, Some(upper)) if upper <= 0 || load >= upper => None,
            (Some(lower), None) if lower >= self.max || load <= lower => None,
            (Some(lower), Some(upper)) if load <= lower || load >= upper => None,
            (lower, upper) => self.between(load, width, lower, upper),
        }
    }

    fn between(&self, load: i64, width: i64, lower: Option<i64>, upper: Option<i64>) -> Option<i64> {
        let (min, max) = (lower.unwrap_or(0), upper.unwrap_or(self.max));
        if width >= max - min {
            return match (lower, upper) {
                (None, _) => Some(min),
                (_, None) => Some(max),
                _ => None,
            };
        }
        let (mut least, mut most) = (min + width, max - width);
        if least > most {
            least = middle(min, max, width);
            most = least;
        }
        Some(match (lower, upper) {
            (None, _) if load < least => min,
            (_, None) if load > most => max,
            _ => load.clamp(least, most),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_split_at_powers_of_two_from_above() {
        for goal in 1..9 {
            for width in goal + 1..200 {
                let at = middle(0, width, goal);
                assert!(0 < at && at < width, "{width} by {goal}");
                if width >= 2 * goal {
                    let powers = (0..8).map(|power| goal << power);
                    // Of all such splits with the smaller part below, none is more even.
                    let even = powers.filter(|upper| width - upper > 0).map(|upper| (upper, width - upper));
                    let best = even.map(|(a, b)| a.min(b)).max().unwrap_or_default();
                    assert_eq!(at.min(width - at), best, "{width} by {goal}");
                    assert!(at <= width - at, "{width} by {goal}");
                } else {
                    assert!(at <= width - at && width - 2 * at <= goal, "{width} by {goal}: {at}");
                }
            }
        }
    }

    #[test]
    fn loads_keep_away_from_bounds_and_jump_to_limits() {
        let limits = Limits { max: 100 };
        let place = |load, lower, upper| limits.place(load, 10, Bounds { lower, upper });
        assert_eq!(place(5, None, Some(100)), Some(0));
        assert_eq!(place(-5, None, Some(50)), Some(0));
        assert_eq!(place(95, None, Some(100)), Some(90));
        assert_eq!(place(100, None, Some(100)), None);
        assert_eq!(place(95, Some(20), None), Some(100));
        assert_eq!(place(21, Some(20), None), Some(30));
        assert_eq!(place(300, Some(20), None), Some(100));
        assert_eq!(place(50, Some(20), Some(80)), Some(50));
        assert_eq!(place(25, Some(20), Some(80)), Some(30));
        assert_eq!(place(25, Some(20), Some(30)), None);
        assert_eq!(place(22, Some(20), Some(36)), Some(26));
        assert_eq!(place(7, None, Some(8)), Some(0));
    }
}
