//! Which load is worth measuring next for one goal: [`Selector`].

use super::goal::Target;
use super::limits::{Limits, middle};
use super::stat::{Bounds, Database};

/// A load that a goal wants to be measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Nomination {
    /// In whole steps.
    pub(super) load: i64,
    /// Seconds.
    pub(super) duration: f64,
    /// The width that this nomination searches with.
    pub(super) width: i64,
}

/// Pursues one goal, target by target.
#[derive(Clone, Debug)]
pub(super) struct Selector {
    /// The target being pursued, and its number in the database.
    target: Target,
    number: usize,
    /// Those to come.
    next: Vec<(usize, Target)>,
    limits: Limits,
    /// Two loads to begin with: the bounds of the target before, or what the first trials suggest. They stay what they are, whatever
    /// other goals find out in the meantime, so that there is progress.
    start: Bounds,
    /// How far outside an interval to look.
    reach: i64,
    /// What the last nomination does to `reach` if its load becomes a bound.
    grows: Grows,
}

/// When to look further the next time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Grows {
    Never,
    /// If the load turns out to be a lower bound, after going up.
    OnLower,
    /// If it turns out to be an upper bound, after going down.
    OnUpper,
}

impl Selector {
    /// For the targets of one goal, the coarsest first, each with its number in the database.
    pub(super) fn new(targets: Vec<(usize, Target)>, limits: Limits, start: Bounds) -> Option<Selector> {
        let mut next = targets.into_iter();
        let (number, target) = next.next()?;
        let next = next.collect();
        let mut selector = Selector { target, number, next, limits, start, reach: 0, grows: Grows::Never };
        selector.restart();
        Some(selector)
    }

    /// Begins with a target: reaches as wide as the interval that is there.
    fn restart(&mut self) {
        let interval = self.start.lower.zip(self.start.upper).map_or(0, |(lower, upper)| upper - lower);
        self.limit(interval);
        self.grows = Grows::Never;
    }

    /// Makes the reach a step wider than `width`.
    fn limit(&mut self, width: i64) {
        self.reach = width.max(self.target.width).saturating_mul(self.target.expansion);
    }

    /// What to measure next; `None` when the goal is reached. `common` is the width that the search as a whole is at.
    pub(super) fn nominate(&mut self, database: &Database, common: i64) -> Option<Nomination> {
        loop {
            let bounds = database.bounds(self.number);
            if let Some((load, width)) = self.choose(bounds, common) {
                return Some(Nomination { load, duration: self.target.trial_duration, width });
            }
            if self.next.is_empty() {
                return None;
            }
            (self.number, self.target) = self.next.remove(0);
            self.start = bounds;
            self.restart();
        }
    }

    /// The last nomination, `load`, was measured. Returns the new common width if it is to change.
    pub(super) fn measured(&mut self, database: &Database, load: i64) -> Option<i64> {
        let bounds = database.bounds(self.number);
        let grows = match self.grows {
            Grows::Never => false,
            Grows::OnLower => bounds.lower == Some(load),
            Grows::OnUpper => bounds.upper == Some(load),
        };
        grows.then(|| {
            self.reach = self.reach.saturating_mul(self.target.expansion);
            self.reach
        })
    }

    /// A load and the width that goes with it, by the first rule that has one.
    fn choose(&mut self, bounds: Bounds, common: i64) -> Option<(i64, i64)> {
        if let Some(load) = self.halve(bounds).or_else(|| self.refine(bounds)) {
            self.limit(self.target.width);
            self.grows = Grows::Never;
            return Some((load, self.target.width));
        }
        match bounds {
            Bounds { lower: None, upper: Some(upper) } if upper > 0 => self.extend_down(bounds, upper, common),
            Bounds { lower: Some(lower), upper: None } if lower < self.limits.max => {
                self.extend_up(bounds, lower, common)
            }
            Bounds { lower: Some(lower), upper: Some(upper) } => self.bisect(bounds, lower, upper, common),
            _ => None,
        }
    }

    /// Whether a trial at `load` could tell something.
    fn is_worth(&self, bounds: Bounds, load: i64) -> bool {
        let outside =
            bounds.lower.is_some_and(|lower| lower >= load) || bounds.upper.is_some_and(|upper| upper <= load);
        let narrow = bounds.lower.zip(bounds.upper).is_some_and(|(lower, upper)| upper - lower <= self.target.width);
        !outside && !narrow
    }

    /// The middle of the interval to begin with, if one halving makes it narrow enough: the target before stopped just there.
    fn halve(&self, bounds: Bounds) -> Option<i64> {
        let (lower, upper) = self.start.lower.zip(self.start.upper)?;
        let width = upper - lower;
        if width > 2 * self.target.width || width <= self.target.width {
            return None;
        }
        Some(middle(lower, upper, self.target.width)).filter(|&load| self.is_worth(bounds, load))
    }

    /// The ends of the interval to begin with, which were bounds for a coarser target only.
    fn refine(&self, bounds: Bounds) -> Option<i64> {
        let ends = [self.start.lower, self.start.upper];
        ends.into_iter().flatten().find(|&load| self.is_worth(bounds, load))
    }

    /// There is no lower bound yet: below the upper one, in growing steps.
    fn extend_down(&mut self, bounds: Bounds, upper: i64, common: i64) -> Option<(i64, i64)> {
        let width = self.reach.max(common);
        let load = self.limits.place(upper.saturating_sub(width), self.target.width, bounds)?;
        self.is_worth(bounds, load).then(|| {
            self.grows = Grows::OnUpper;
            (load, width)
        })
    }

    /// There is no upper bound yet: above the lower one, in growing steps.
    fn extend_up(&mut self, bounds: Bounds, lower: i64, common: i64) -> Option<(i64, i64)> {
        let width = self.reach.max(common);
        let load = self.limits.place(lower.saturating_add(width), self.target.width, bounds)?;
        self.is_worth(bounds, load).then(|| {
            self.grows = Grows::OnLower;
            (load, width)
        })
    }

    /// Between the bounds. One of them may be another goal's and far off: then a step from the other one, as if it were alone, gets closer
    /// than the middle does.
    fn bisect(&mut self, bounds: Bounds, lower: i64, upper: i64, common: i64) -> Option<(i64, i64)> {
        if lower >= self.limits.max || upper <= 0 || upper - lower <= self.target.width {
            return None;
        }
        let half = middle(lower, upper, self.target.width);
        let width = self.reach.max(common);
        let place = |load| self.limits.place(load, self.target.width, bounds);
        if let Some(end) = self.start.upper.filter(|&end| half < end)
            && let Some(load) = place(upper.saturating_sub(width)).filter(|&load| half < load && load < end)
        {
            self.grows = Grows::OnUpper;
            return Some((load, width));
        }
        if let Some(end) = self.start.lower.filter(|&end| half > end)
            && let Some(load) = place(lower.saturating_add(width)).filter(|&load| half > load && load > end)
        {
            self.grows = Grows::OnLower;
            return Some((load, width));
        }
        self.grows = Grows::Never;
        let smaller = (half - lower).min(upper - half);
        self.limit(smaller);
        Some((half, smaller))
    }
}
