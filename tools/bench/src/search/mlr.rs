//! Multiple loss ratio search: [`mlrsearch`].
//!
//! The procedure is that of draft-ietf-bmwg-mlrsearch as FD.io's CSIT carries it out; its library `MLRsearch` (Apache License 2.0) is the reference
//! that the tests compare with, trial by trial. There is one difference: the time that a search may take is counted in what its trials took, and not
//! on a clock, so that the same answers always lead to the same search.

use super::goal::targets;
use super::limits::Limits;
use super::rounding::Rounding;
use super::selector::{Nomination, Selector};
use super::stat::{Bounds, Database};
use super::trial::{Stop, Trial, Trials};
use super::{Goal, SearchResult};

/// What to search, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct MlrConfig {
    /// One to 16 goals.
    pub goals: Vec<Goal>,
    /// The least load to try, packets per second, above 0.
    pub min_load: f64,
    /// The greatest load to try, packets per second.
    pub max_load: f64,
    /// Seconds of a first trial that does not count, at the greatest load; none if 0.
    pub warmup: f64,
    /// Seconds of trials after which the search ends with what it has.
    pub budget: f64,
}

impl MlrConfig {
    /// What is wrong with it, one sentence each.
    pub fn mistakes(&self) -> Vec<String> {
        let mut mistakes: Vec<String> = self.goals.iter().flat_map(Goal::mistakes).collect();
        if !(1..=16).contains(&self.goals.len()) {
            mistakes.push(format!("{} goals: 1 to 16", self.goals.len()));
        }
        if !(self.min_load > 0.0 && self.min_load < self.max_load && self.max_load.is_finite()) {
            let (min, max) = (self.min_load, self.max_load);
            mistakes
                .push(format!("loads from {min} to {max} packets per second: the first above 0 and below the second"));
        }
        for (name, value) in [("warm-up", self.warmup), ("budget", self.budget)] {
            if value.is_nan() || value < 0.0 {
                mistakes.push(format!("{name} of {value} s: 0 or more"));
            }
        }
        mistakes
    }
}

/// Finds the throughput for several goals at once. What is measured for one goal tells something about the others too; short trials come first, and
/// a load is measured for as long as it is in doubt.
///
/// A search that `device` stops, or that runs out of its budget, returns what is known by then, and why it ended. The error is a list of what is
/// wrong with the configuration.
pub fn mlrsearch(config: &MlrConfig, device: &mut dyn Trials) -> Result<SearchResult, Vec<String>> {
    let mistakes = config.mistakes();
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let mut search = Search::new(config, device);
    let ended = search.run().err();
    let goals = search.last_targets().map(|target| search.database.result(target, &search.rounding)).collect();
    Ok(SearchResult { goals, trials: search.trials, ended })
}

struct Search<'a> {
    config: &'a MlrConfig,
    device: &'a mut dyn Trials,
    rounding: Rounding,
    limits: Limits,
    database: Database,
    /// For each goal its targets, with their numbers in the database.
    targets: Vec<Vec<(usize, super::goal::Target)>>,
    trials: Vec<Trial>,
    seconds: f64,
}

impl<'a> Search<'a> {
    fn new(config: &'a MlrConfig, device: &'a mut dyn Trials) -> Search<'a> {
        let widths: Vec<f64> = config.goals.iter().map(|goal| goal.relative_width).collect();
        let rounding = Rounding::new(config.min_load, config.max_load, &widths);
        let mut number = 0..;
        let chain =
            |goal| targets(goal, &rounding).into_iter().map(|target| (number.next().unwrap_or(0), target)).collect();
        let targets: Vec<Vec<_>> = config.goals.iter().map(chain).collect();
        let database = Database::new(targets.iter().flatten().map(|(_, target)| *target).collect());
        let limits = Limits { max: rounding.steps() };
        Search { config, device, rounding, limits, database, targets, trials: Vec::new(), seconds: 0.0 }
    }

    fn last_targets(&self) -> impl Iterator<Item = usize> {
        self.targets.iter().filter_map(|chain| chain.last()).map(|(number, _)| *number)
    }

    fn run(&mut self) -> Result<(), String> {
        if self.config.warmup > 0.0 {
            self.trial(self.limits.max, self.config.warmup)?;
        }
        let start = self.first_trials()?;
        self.main_loop(start)
    }

    fn trial(&mut self, number: i64, duration: f64) -> Result<Trial, String> {
        if self.seconds >= self.config.budget {
            return Err(format!("the search took longer than {} s", self.config.budget));
        }
        let trial = self.device.measure(self.rounding.load(number), duration).map_err(|stop: Stop| stop.to_string())?;
        self.seconds += trial.elapsed.max(0.0);
        Ok(trial)
    }

    fn measure(&mut self, number: i64, duration: f64) -> Result<Trial, String> {
        let trial = self.trial(number, duration)?;
        self.database.add(number, &trial);
        self.trials.push(trial.clone());
        Ok(trial)
    }

    /// The greatest load, then what came through of it, then what came through of that, or a little more: two loads between which throughput
    /// is probably to be found, in whole steps.
    fn first_trials(&mut self) -> Result<Bounds, String> {
        let first = self.targets.iter().filter_map(|chain| chain.first()).map(|(_, target)| *target);
        let ratio = first.clone().map(|target| target.loss_ratio).fold(1.0, f64::min);
        let duration = first.clone().map(|target| target.trial_duration).fold(0.0, f64::max);
        let width = first.map(|target| target.width).fold(1, i64::max);
        let max = self.limits.max;
        // The load that would lose just the ratio, if all that is sent beyond it is lost.
        let through = |trial: &Trial| trial.forwarding_rate() * (1.0 / (1.0 - ratio));
        let at_max = self.measure(max, duration)?;
        let whole = self.rounding.number(through(&at_max));
        if whole >= max {
            return Ok(Bounds { lower: Some(max), upper: Some(max) });
        }
        let below = |upper| Bounds { lower: None, upper: Some(upper) };
        let second = self.limits.place(whole, width, below(max)).unwrap_or(0);
        let at_second = self.measure(second, duration)?;
        let third = if at_second.loss_ratio() > ratio {
            self.limits.place(self.rounding.number(through(&at_second)), width, below(second))
        } else {
            self.limits.place(second + width, width, Bounds { lower: Some(second), upper: Some(max) })
        };
        if let Some(third) = third {
            self.measure(third, duration)?;
        }
        let third = third.unwrap_or(second);
        Ok(Bounds { lower: Some(second.min(third)), upper: Some(second.max(third)) })
    }

    /// Measures what the goals nominate, the lowest load first, until none of them has anything left to ask.
    fn main_loop(&mut self, start: Bounds) -> Result<(), String> {
        let mut common = start.lower.zip(start.upper).map_or(0, |(lower, upper)| upper - lower);
        let chains = self.targets.iter().zip(&self.config.goals);
        let selector =
            |(chain, goal): (&Vec<_>, &Goal)| Some((Selector::new(chain.clone(), self.limits, start)?, goal.fail_fast));
        let mut selectors: Vec<(Selector, bool)> = chains.filter_map(selector).collect();
        let last: Vec<usize> = self.last_targets().collect();
        loop {
            let mut winner: Option<(usize, Nomination)> = None;
            for (n, (selector, fail_fast)) in selectors.iter_mut().enumerate() {
                let Some(nomination) = selector.nominate(&self.database, common) else {
                    let bounds = last.get(n).map(|&target| self.database.bounds(target)).unwrap_or_default();
                    if *fail_fast && bounds.lower.is_none() {
                        return Err("even the least load is too much".to_owned());
                    }
                    continue;
                };
                if winner.is_none_or(|(_, winner)| self.goes_before(nomination, winner)) {
                    winner = Some((n, nomination));
                }
            }
            let Some((n, nomination)) = winner else { return Ok(()) };
            self.measure(nomination.load, nomination.duration)?;
            common = nomination.width;
            if let Some((selector, _)) = selectors.get_mut(n) {
                common = selector.measured(&self.database, nomination.load).unwrap_or(common);
            }
        }
    }

    /// Low loads go first, then long trials, then wide intervals; of equals, the goal that was named first.
    fn goes_before(&self, new: Nomination, old: Nomination) -> bool {
        // Beyond the limits, all widths are alike.
        let width = |nomination: Nomination| nomination.width.min(self.limits.max);
        let order = old.load.cmp(&new.load).then(new.duration.total_cmp(&old.duration));
        order.then(width(new).cmp(&width(old))).is_gt()
    }
}
