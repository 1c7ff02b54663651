//! Clocks that are not the same: [`Hull`] finds how one differs from the other.
//!
//! No packet takes less than no time, so that differences between times of arrival and of sending lie on or above a line: the
//! difference of the clocks, plus the least delay. Of all lines below all points the one is taken that lies nearest to them in
//! sum, as Moon, Skelly and Towsley do (Estimation and removal of clock skew from network delay measurements, INFOCOM 1999): it is the
//! edge of the lower convex hull above which the mean time of sending lies. Queues make delays greater, never less, so that
//! they do not disturb it.

/// Points that are gathered before they are taken into the hull.
const GATHERED: usize = 1 << 16;

/// How a clock differs from another, up to a least delay that nobody knows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Line {
    /// The time on the sender's clock that `offset` is of, ns.
    pub(crate) origin: i64,
    /// How far the receiver's clock is ahead then, plus the least delay, ns.
    pub(crate) offset: i64,
    /// How much faster it runs, from 0 up or down.
    pub(crate) drift: f64,
}

impl Line {
    /// Clocks that are the same.
    pub(crate) const SAME: Line = Line { origin: 0, offset: 0, drift: 0.0 };

    /// A time of the receiver's clock on the sender's.
    #[inline]
    pub(crate) fn corrected(&self, received: i64) -> i64 {
        let level = received.wrapping_sub(self.offset);
        if self.drift == 0.0 {
            return level;
        }
        let elapsed = level.wrapping_sub(self.origin) as f64;
        level.wrapping_sub((elapsed * self.drift / (1.0 + self.drift)).round() as i64)
    }
}

/// The lower convex hull of the differences of clocks over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hull {
    /// In order of time; the hull of all points but those in `fresh`.
    hull: Vec<Point>,
    fresh: Vec<Point>,
    count: i128,
    /// The sum of the times of sending.
    sum: i128,
}

/// When a packet was sent, and how much later it arrived by another clock, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    at: i64,
    difference: i64,
}

impl Hull {
    /// Takes the times of a packet.
    pub(crate) fn add(&mut self, sent: i64, received: i64) {
        self.count += 1;
        self.sum += i128::from(sent);
        self.fresh.push(Point { at: sent, difference: received.wrapping_sub(sent) });
        if self.fresh.len() >= GATHERED {
            self.settle();
        }
    }

    fn settle(&mut self) {
        let mut points = std::mem::take(&mut self.hull);
        points.append(&mut self.fresh);
        points.sort_unstable();
        for point in points {
            // Of one time, the least difference comes first.
            if self.hull.last().is_some_and(|last| last.at == point.at) {
                continue;
            }
            while let [.., a, b] = self.hull.as_slice()
                && !turns_up(*a, *b, point)
            {
                self.hull.pop();
            }
            self.hull.push(point);
        }
    }

    /// How many packets it rests on.
    pub(crate) fn count(&self) -> u64 {
        u64::try_from(self.count).unwrap_or(0)
    }

    /// The line without drift: the least difference. `None` if there were no packets.
    pub(crate) fn offset(mut self) -> Option<Line> {
        self.settle();
        let least = self.hull.iter().min_by_key(|point| point.difference)?;
        Some(Line { origin: least.at, offset: least.difference, drift: 0.0 })
    }

    /// The line with drift. `None` if there were no packets.
    pub(crate) fn line(mut self) -> Option<Line> {
        self.settle();
        // The edge above whose ends the mean lies; at the mean both clocks of an edge give the same.
        let before_mean = |point: &Point| i128::from(point.at) * self.count <= self.sum;
        let right = self.hull.partition_point(before_mean).clamp(1, self.hull.len().saturating_sub(1).max(1));
        let left = self.hull.get(right - 1)?;
        let Some(right) = self.hull.get(right) else {
            return Some(Line { origin: left.at, offset: left.difference, drift: 0.0 });
        };
        let rise = right.difference.wrapping_sub(left.difference) as f64;
        let run = right.at.wrapping_sub(left.at) as f64;
        Some(Line { origin: left.at, offset: left.difference, drift: rise / run })
    }
}

/// Whether the way from `a` over `b` to `c` turns upwards at `b`.
fn turns_up(a: Point, b: Point, c: Point) -> bool {
    let run = |from: Point, to: Point| i128::from(to.at) - i128::from(from.at);
    let rise = |from: Point, to: Point| i128::from(to.difference) - i128::from(from.difference);
    rise(a, b).saturating_mul(run(b, c)) < rise(b, c).saturating_mul(run(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hull(points: &[(i64, i64)]) -> Hull {
        let mut hull = Hull::default();
        points.iter().for_each(|&(sent, delay)| hull.add(sent, sent + delay));
        hull
    }

    proptest! {
        /// Against all lines through two points, tried one by one.
        #[test]
        fn no_line_below_all_points_lies_nearer(points in proptest::collection::vec((0..1000i64, 0..1000i64), 2..30)) {
            let line = hull(&points).line().unwrap();
            let value = |line: &Line, at: i64| line.offset as f64 + line.drift * (at - line.origin) as f64;
            let gap = |line: &Line| points.iter().map(|&(at, delay)| delay as f64 - value(line, at)).sum::<f64>();
            let below = |line: &Line| points.iter().all(|&(at, delay)| value(line, at) <= delay as f64 + 1e-6);
            prop_assert!(below(&line));
            for &(a, x) in &points {
                for &(b, y) in points.iter().filter(|&&(b, _)| b > a) {
                    let other = Line { origin: a, offset: x, drift: (y - x) as f64 / (b - a) as f64 };
                    prop_assert!(!below(&other) || gap(&line) <= gap(&other) + 1e-6);
                }
            }
            let least = points.iter().map(|&(_, delay)| delay).min().unwrap();
            prop_assert_eq!(hull(&points).offset().unwrap().offset, least);
        }

        #[test]
        fn times_of_a_clock_that_drifts_come_back(
            offset in -1_000_000_000_000i64..1_000_000_000_000, drift in -500..500i64, base in 0..(1i64 << 60),
            sent in proptest::collection::vec((0..100_000_000_000i64, 0..1_000_000i64), 1..200),
        ) {
            let drift = drift as f64 * 1e-6;
            let mut hull = Hull::default();
            let by_other = |time: i64| time + offset + ((time - base) as f64 * drift).round() as i64;
            // Enough packets without delay for the line to be known.
            for time in (0..200).map(|n| base + n * 500_000_000) {
                hull.add(time, by_other(time));
            }
            sent.iter().for_each(|&(time, delay)| hull.add(base + time, by_other(base + time + delay)));
            let line = hull.line().unwrap();
            for &(time, delay) in &sent {
                let back = line.corrected(by_other(base + time + delay));
                prop_assert!((back - (base + time + delay)).abs() <= 3, "{} {}", back, base + time + delay);
            }
        }
    }

    #[test]
    fn few_points_give_what_they_can() {
        assert_eq!(Hull::default().line(), None);
        assert_eq!(hull(&[(5, 7)]).line(), Some(Line { origin: 5, offset: 7, drift: 0.0 }));
        assert_eq!(hull(&[(5, 7), (5, 6)]).line(), Some(Line { origin: 5, offset: 6, drift: 0.0 }));
        assert_eq!(hull(&[(0, 10), (10, 20)]).line(), Some(Line { origin: 0, offset: 10, drift: 1.0 }));
    }

    #[test]
    fn wild_times_do_not_overflow() {
        let mut hull = Hull::default();
        for (sent, received) in [(i64::MIN, i64::MAX), (i64::MAX, i64::MIN), (0, 0)] {
            hull.add(sent, received);
        }
        assert!(hull.clone().offset().is_some() && hull.line().is_some());
    }
}
