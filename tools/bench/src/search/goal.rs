//! What is searched for: goals, and the coarser targets on the way to them.

use serde::{Deserialize, Serialize};

use super::rounding::Rounding;

/// What counts as throughput: the greatest load at which no more than a given share of the packets is lost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// A trial is good if its loss ratio is no greater. From 0 to below 1.
    pub loss_ratio: f64,
    /// A load is still low enough if at most this share of its trials, by time, is bad. From 0 to below 1.
    pub exceed_ratio: f64,
    /// How far apart the greatest load that is low enough and the least one that is not may lie at the end, as a share of the latter.
    /// Above 0, below 1.
    pub relative_width: f64,
    /// Seconds of the shortest trial.
    pub initial_trial_duration: f64,
    /// Seconds of the longest trial, at least as long.
    pub final_trial_duration: f64,
    /// Seconds of trials, at least one of the longest, on which the judgement of a load rests; it may be clear before.
    pub duration_sum: f64,
    /// Coarser targets on the way to the goal: 0 only if all trials are as long as the sum; at most 32.
    pub preceding_targets: u32,
    /// How fast the step grows while a bound is looked for outside the interval: 2 to 1,000.
    pub expansion_coefficient: u32,
    /// Whether the search shall end if even the least load is too much.
    pub fail_fast: bool,
}

impl Goal {
    /// The non-drop rate as FD.io's CSIT defines it: no loss in trials of 1 s, 21 s in all, of which 0.5 % may be bad; to 0.5 %.
    pub const NDR: Goal = Goal {
        loss_ratio: 0.0,
        exceed_ratio: 0.005,
        relative_width: 0.005,
        initial_trial_duration: 1.0,
        final_trial_duration: 1.0,
        duration_sum: 21.0,
        preceding_targets: 2,
        expansion_coefficient: 2,
        fail_fast: false,
    };

    /// The partial drop rate as FD.io's CSIT defines it: at most 0.5 % lost, in half of the trials.
    pub const PDR: Goal = Goal { loss_ratio: 0.005, exceed_ratio: 0.5, ..Goal::NDR };

    /// Throughput as RFC 2544 section 26.1 defines it: no loss at all in a trial of `duration` seconds (60 by section 24).
    pub fn rfc2544(duration: f64) -> Goal {
        Goal {
            exceed_ratio: 0.0,
            initial_trial_duration: duration.min(1.0),
            final_trial_duration: duration,
            duration_sum: duration,
            ..Goal::NDR
        }
    }

    /// What is wrong with it, one sentence each.
    pub fn mistakes(&self) -> Vec<String> {
        let share = |value: f64| (0.0..1.0).contains(&value);
        let checks = [
            (share(self.loss_ratio), format!("loss ratio {}: from 0 to below 1", self.loss_ratio)),
            (share(self.exceed_ratio), format!("exceed ratio {}: from 0 to below 1", self.exceed_ratio)),
            (
                share(self.relative_width) && self.relative_width >= 1e-6,
                format!("relative width {}: from 0.000001 to below 1", self.relative_width),
            ),
            (
                self.initial_trial_duration > 0.0 && self.initial_trial_duration.is_finite(),
                format!("initial trial duration {} s: above 0", self.initial_trial_duration),
            ),
            (
                self.final_trial_duration >= self.initial_trial_duration && self.final_trial_duration.is_finite(),
                format!("final trial duration {} s: no shorter than the initial one", self.final_trial_duration),
            ),
            (
                self.duration_sum >= self.final_trial_duration && self.duration_sum.is_finite(),
                format!("duration sum {} s: no shorter than a trial", self.duration_sum),
            ),
            (
                (2..=1000).contains(&self.expansion_coefficient),
                format!("expansion coefficient {}: 2 to 1,000", self.expansion_coefficient),
            ),
            (
                self.preceding_targets <= 32
                    && (self.preceding_targets > 0 || self.initial_trial_duration >= self.duration_sum),
                format!(
                    "{} preceding targets: 1 to 32, or 0 if the initial trial is as long as the sum",
                    self.preceding_targets
                ),
            ),
        ];
        checks.into_iter().filter(|(right, _)| !right).map(|(_, sentence)| sentence).collect()
    }
}

/// A step towards a goal, the last of which is the goal itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) loss_ratio: f64,
    pub(super) exceed_ratio: f64,
    /// In steps of the rounding.
    pub(super) width: i64,
    pub(super) trial_duration: f64,
    pub(super) duration_sum: f64,
    pub(super) expansion: i64,
}

/// The targets of a goal, the coarsest first: each half as wide as the one before, with more time for each load.
pub(super) fn targets(goal: &Goal, rounding: &Rounding) -> Vec<Target> {
    let last = Target {
        loss_ratio: goal.loss_ratio,
        exceed_ratio: goal.exceed_ratio,
        width: rounding.width(goal.relative_width),
        trial_duration: goal.final_trial_duration,
        duration_sum: goal.duration_sum,
        expansion: goal.expansion_coefficient.into(),
    };
    let before = goal.preceding_targets;
    // Times fall geometrically from the whole sum to one initial trial.
    let factor = (goal.initial_trial_duration / goal.duration_sum).powf(1.0 / f64::from(before.max(1)));
    let mut all = vec![last];
    for step in 1..=before {
        let sum =
            if step == before { goal.initial_trial_duration } else { goal.duration_sum * factor.powf(f64::from(step)) };
        let width = all.last().map_or(1, |finer| finer.width).saturating_mul(2);
        let trial_duration = goal.final_trial_duration.min(sum);
        all.push(Target { width, trial_duration, duration_sum: sum, ..last });
    }
    all.reverse();
    all
}
