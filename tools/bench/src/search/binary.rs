//! The plain way to find throughput: [`binary_search`].

use super::stat::Bound;
use super::trial::{Trial, Trials};
use super::{GoalResult, SearchResult};

/// What to search, and where.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BinaryConfig {
    /// A load is low enough if its trial loses no greater share. From 0 to below 1.
    pub loss_ratio: f64,
    /// How far apart the bounds may lie at the end, as a share of the upper one. Above 0, below 1.
    pub relative_width: f64,
    /// Seconds of each trial, above 0.
    pub duration: f64,
    /// The least load to try, packets per second, above 0.
    pub min_load: f64,
    /// The greatest load to try, packets per second.
    pub max_load: f64,
}

impl BinaryConfig {
    /// What is wrong with it, one sentence each.
    pub fn mistakes(&self) -> Vec<String> {
        let goal = super::Goal {
            loss_ratio: self.loss_ratio,
            relative_width: self.relative_width,
            ..super::Goal::rfc2544(self.duration)
        };
        let (min_load, max_load) = (self.min_load, self.max_load);
        super::MlrConfig { goals: vec![goal], min_load, max_load, warmup: 0.0, budget: 0.0 }.mistakes()
    }
}

/// Finds the throughput for one loss ratio by halving: the greatest load first, and, if that is too much, always the middle of what is left. The error is a
/// list of what is wrong with the configuration.
pub fn binary_search(config: &BinaryConfig, device: &mut dyn Trials) -> Result<SearchResult, Vec<String>> {
    let mistakes = config.mistakes();
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let mut result = SearchResult { goals: vec![GoalResult::default()], ..SearchResult::default() };
    let mut load = config.max_load;
    loop {
        let trial = match device.measure(load, config.duration) {
            Ok(trial) => trial,
            Err(stop) => {
                result.ended = Some(stop.to_string());
                return Ok(result);
            }
        };
        result.trials.push(trial.clone());
        let Some(goal) = result.goals.first_mut() else { return Ok(result) };
        note(goal, &trial, config.loss_ratio);
        match next(goal, config) {
            Some(next) => load = next,
            None => return Ok(result),
        }
    }
}

fn note(goal: &mut GoalResult, trial: &Trial, loss_ratio: f64) {
    let bound = Bound {
        load: trial.load,
        loss_ratio: trial.loss_ratio(),
        generator_limited: trial.generator_limited(),
        disturbed: trial.disturbed.is_some().into(),
    };
    if bound.loss_ratio <= loss_ratio {
        goal.lower = Some(bound);
        goal.throughput = Some(trial.forwarding_rate());
    } else {
        goal.upper = Some(bound);
    }
}

fn next(goal: &GoalResult, config: &BinaryConfig) -> Option<f64> {
    let upper = goal.upper?.load;
    let Some(lower) = goal.lower.map(|bound| bound.load) else {
        // Nothing was low enough yet: so many halvings as lead to the least load.
        return match (config.min_load + upper) / 2.0 {
            _ if upper <= config.min_load => None,
            _ if upper <= config.min_load / (1.0 - config.relative_width) => Some(config.min_load),
            middle => Some(middle),
        };
    };
    (upper - lower > upper * config.relative_width).then_some((lower + upper) / 2.0)
}
