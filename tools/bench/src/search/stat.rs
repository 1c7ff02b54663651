//! What the trials so far say about a load: [`Database`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::goal::Target;
use super::rounding::Rounding;
use super::trial::Trial;

/// A load that was judged for a goal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Packets per second.
    pub load: f64,
    /// Its loss ratio, from 0 to 1: of the trial that decides, if trials that were spared count as lost altogether.
    pub loss_ratio: f64,
    /// Whether the generator could not send this load, so that it, and not the device, was the limit.
    pub generator_limited: bool,
    /// Trials at this load during which the generator was disturbed.
    pub disturbed: u64,
}

/// What was found for a goal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GoalResult {
    /// The greatest load, below the upper bound, that is low enough; none if even the least load is too much.
    pub lower: Option<Bound>,
    /// The least load that is too much; none if the greatest load is not.
    pub upper: Option<Bound>,
    /// Packets per second that came through at the lower bound: the conditional throughput.
    pub throughput: Option<f64>,
}

/// Seconds of trials at one load, as one target sees them.
#[derive(Clone, Debug, Default)]
struct Tally {
    /// Trials as long as the target wants, with no more loss than it allows.
    good_long: f64,
    bad_long: f64,
    good_short: f64,
    bad_short: f64,
    /// Of long trials: their loss ratios, rising, each with its seconds.
    losses: Vec<(f64, f64)>,
}

impl Tally {
    fn add(&mut self, target: &Target, trial: &Trial) {
        let (ratio, seconds) = (trial.loss_ratio(), trial.elapsed);
        let good = ratio <= target.loss_ratio;
        let long = trial.duration >= target.trial_duration;
        *match (good, long) {
            (true, true) => &mut self.good_long,
            (false, true) => &mut self.bad_long,
            (true, false) => &mut self.good_short,
            (false, false) => &mut self.bad_short,
        } += seconds;
        if long {
            let at = self.losses.partition_point(|(other, _)| *other < ratio);
            match self.losses.get_mut(at) {
                Some((other, sum)) if *other == ratio => *sum += seconds,
                _ => self.losses.insert(at, (ratio, seconds)),
            }
        }
    }

    /// Whether the load is low enough (`Some(true)`), or too much, whatever further trials may bring; `None` if that is open.
    fn verdict(&self, target: &Target) -> Option<bool> {
        // Bad short trials count only as far as good short ones do not balance them.
        let balance = self.good_short * target.exceed_ratio / (1.0 - target.exceed_ratio);
        let excess = self.bad_long + (self.bad_short - balance).max(0.0);
        let all = (self.good_long + excess).max(target.duration_sum);
        let allowed = all * target.exceed_ratio;
        let best = excess <= allowed;
        let worst = all - self.good_long <= allowed;
        (best == worst).then_some(best)
    }

    /// The loss ratio that at most the target's share of the time exceeds, if all time that is missing were lost altogether.
    fn loss_ratio(&self, target: &Target) -> f64 {
        let all = target.duration_sum.max(self.good_long + self.bad_long);
        let mut left = all * (1.0 - target.exceed_ratio);
        let mut decisive = None;
        for (ratio, seconds) in &self.losses {
            if decisive.is_some() && left <= 0.0 {
                return decisive.unwrap_or(1.0);
            }
            decisive = Some(*ratio);
            left -= seconds;
        }
        if left > 0.0 { 1.0 } else { decisive.unwrap_or(1.0) }
    }
}

#[derive(Clone, Debug, Default)]
struct Load {
    tallies: Vec<Tally>,
    generator_limited: bool,
    disturbed: u64,
}

/// All trials so far, by load.
#[derive(Clone, Debug)]
pub(super) struct Database {
    targets: Vec<Target>,
    loads: BTreeMap<i64, Load>,
}

/// The greatest load that is low enough and the least that is too much, as far as they are known, in whole steps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Bounds {
    pub(super) lower: Option<i64>,
    pub(super) upper: Option<i64>,
}

impl Database {
    pub(super) fn new(targets: Vec<Target>) -> Database {
        Database { targets, loads: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, number: i64, trial: &Trial) {
        let targets = &self.targets;
        let load = self
            .loads
            .entry(number)
            .or_insert_with(|| Load { tallies: vec![Tally::default(); targets.len()], ..Load::default() });
        load.tallies.iter_mut().zip(targets).for_each(|(tally, target)| tally.add(target, trial));
        load.generator_limited |= trial.generator_limited();
        load.disturbed += u64::from(trial.disturbed.is_some());
    }

    /// The bounds of target number `target`. Of loads that are low enough, those above one that is not do not count: a device may lose
    /// less at a higher load, but nobody should rely on it.
    pub(super) fn bounds(&self, target: usize) -> Bounds {
        let mut bounds = Bounds::default();
        let Some(of) = self.targets.get(target) else { return bounds };
        for (number, load) in &self.loads {
            match load.tallies.get(target).and_then(|tally| tally.verdict(of)) {
                Some(true) => bounds.lower = Some(*number),
                Some(false) => {
                    bounds.upper = Some(*number);
                    break;
                }
                None => {}
            }
        }
        bounds
    }

    /// The bounds of target number `target` as a result.
    pub(super) fn result(&self, target: usize, rounding: &Rounding) -> GoalResult {
        let bounds = self.bounds(target);
        let describe = |number: i64| {
            let (load, of) = (self.loads.get(&number)?, self.targets.get(target)?);
            Some(Bound {
                load: rounding.load(number),
                loss_ratio: load.tallies.get(target)?.loss_ratio(of),
                generator_limited: load.generator_limited,
                disturbed: load.disturbed,
            })
        };
        let lower = bounds.lower.and_then(describe);
        let throughput = lower.map(|bound| bound.load * (1.0 - bound.loss_ratio));
        GoalResult { lower, upper: bounds.upper.and_then(describe), throughput }
    }
}
