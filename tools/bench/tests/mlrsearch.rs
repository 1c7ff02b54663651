//! The search against the reference implementation: what it did with simulated devices is recorded in `golden/mlrsearch.txt`, and how in
//! `golden/record.py`. The same answers must lead to the same trials, one by one, and to the same results.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use weir_bench::search::{Goal, MlrConfig, SearchResult, Stop, Trial, Trials, mlrsearch};

const GOLDEN: &str = include_str!("golden/mlrsearch.txt");

/// What the reference did in one case.
#[derive(Default)]
struct Case {
    name: String,
    config: Option<MlrConfig>,
    trials: Vec<Trial>,
    /// Lower bound, upper bound and conditional throughput of each goal.
    results: Vec<[Option<f64>; 3]>,
    failed: bool,
}

fn numbers(words: &[&str]) -> Vec<f64> {
    words.iter().map(|word| word.parse().unwrap()).collect()
}

fn goal(words: &[&str]) -> Goal {
    let n = numbers(words);
    Goal {
        loss_ratio: n[0],
        exceed_ratio: n[1],
        relative_width: n[2],
        initial_trial_duration: n[3],
        final_trial_duration: n[4],
        duration_sum: n[5],
        preceding_targets: n[6] as u32,
        expansion_coefficient: n[7] as u32,
        fail_fast: n[8] != 0.0,
    }
}

fn trial(words: &[&str]) -> Trial {
    let n = numbers(words);
    let (intended, offered, lost) = (n[2] as u64, n[3] as u64, n[4] as u64);
    Trial { duration: n[0], load: n[1], intended, offered, lost, elapsed: n[5], ..Trial::default() }
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in GOLDEN.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (what, rest) = words.split_first().unwrap();
        if *what == "case" {
            let n = numbers(&rest[1..]);
            let (min_load, max_load, warmup) = (n[0], n[1], n[2]);
            let config = MlrConfig { goals: Vec::new(), min_load, max_load, warmup, budget: f64::INFINITY };
            cases.push(Case { name: rest[0].to_owned(), config: Some(config), ..Case::default() });
        }
        let case = cases.last_mut().unwrap();
        match *what {
            "goal" => case.config.as_mut().unwrap().goals.push(goal(rest)),
            "trial" => case.trials.push(trial(rest)),
            "result" => {
                let values: Vec<Option<f64>> = rest.iter().map(|word| word.parse().ok()).collect();
                case.results.push(values.try_into().unwrap());
            }
            "failed" => case.failed = true,
            _ => assert_eq!(*what, "case"),
        }
    }
    cases
}

/// Answers as the reference was answered, as long as it is asked what that was asked.
struct Replay<'a> {
    case: &'a Case,
    at: usize,
}

impl Trials for Replay<'_> {
    fn measure(&mut self, load: f64, duration: f64) -> Result<Trial, Stop> {
        let name = &self.case.name;
        let trial = self.case.trials.get(self.at).unwrap_or_else(|| panic!("{name}: more trials than the reference"));
        assert!(near(load, trial.load), "{name}, trial {}: {load} instead of {}", self.at, trial.load);
        assert!(near(duration, trial.duration), "{name}, trial {}: {duration} s, not {}", self.at, trial.duration);
        self.at += 1;
        // The logarithms of another C library may differ in the last bit.
        Ok(Trial { load, duration, ..trial.clone() })
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs()
}

fn same(ours: Option<f64>, reference: Option<f64>) -> bool {
    match (ours, reference) {
        (Some(ours), Some(reference)) => near(ours, reference),
        (ours, reference) => ours.is_none() && reference.is_none(),
    }
}

#[test]
fn every_trial_is_that_of_the_reference() {
    let cases = cases();
    assert!(cases.len() >= 20);
    for case in &cases {
        let mut replay = Replay { case, at: 0 };
        let found = mlrsearch(case.config.as_ref().unwrap(), &mut replay).unwrap();
        assert_eq!(replay.at, case.trials.len(), "{}: trials are left over", case.name);
        assert_eq!(found.ended.is_some(), case.failed, "{}", case.name);
        for (goal, [lower, upper, throughput]) in found.goals.iter().zip(&case.results) {
            assert!(same(goal.lower.map(|bound| bound.load), *lower), "{}: {goal:?}", case.name);
            assert!(same(goal.upper.map(|bound| bound.load), *upper), "{}: {goal:?}", case.name);
            assert!(same(goal.throughput, *throughput), "{}: {goal:?} {throughput:?}", case.name);
        }
    }
}

/// Forwards so many packets per second.
struct Hard {
    limit: f64,
    /// The most that the generator can send per second.
    most: f64,
    trials: usize,
    interrupt_after: usize,
}

impl Hard {
    fn new(limit: f64) -> Hard {
        Hard { limit, most: f64::INFINITY, trials: 0, interrupt_after: usize::MAX }
    }
}

impl Trials for Hard {
    fn measure(&mut self, load: f64, duration: f64) -> Result<Trial, Stop> {
        if self.trials == self.interrupt_after {
            return Err(Stop::Interrupted);
        }
        self.trials += 1;
        let intended = (load * duration) as u64;
        let offered = intended.min((self.most * duration) as u64);
        let lost = offered.saturating_sub((self.limit * duration) as u64);
        Ok(Trial { load, duration, intended, offered, lost, elapsed: duration, ..Trial::default() })
    }
}

fn config() -> MlrConfig {
    let goals = vec![Goal::NDR, Goal::PDR];
    MlrConfig { goals, min_load: 10_000.0, max_load: 30e6, warmup: 0.0, budget: 1200.0 }
}

fn search(config: &MlrConfig, device: &mut Hard) -> SearchResult {
    mlrsearch(config, device).unwrap()
}

#[test]
fn a_hard_limit_is_found_within_the_width_of_each_goal() {
    for limit in [12_345.6, 99_999.0, 1e6, 14.88e6, 29e6] {
        let found = search(&config(), &mut Hard::new(limit));
        assert_eq!(found.ended, None);
        for (result, goal) in found.goals.iter().zip([Goal::NDR, Goal::PDR]) {
            let (lower, upper) = (result.lower.unwrap(), result.upper.unwrap());
            // What may be lost may be sent on top.
            let true_limit = limit / (1.0 - goal.loss_ratio);
            assert!(lower.load <= true_limit * 1.0001 && true_limit <= upper.load * 1.0001, "{limit}: {result:?}");
            assert!(upper.load - lower.load <= upper.load * goal.relative_width, "{limit}: {result:?}");
            assert!(!lower.generator_limited && !upper.generator_limited);
        }
    }
}

#[test]
fn a_limit_of_the_generator_is_said_to_be_one() {
    let found = search(&config(), &mut Hard { most: 5e6, ..Hard::new(1e9) });
    for result in &found.goals {
        assert!(result.upper.unwrap().generator_limited, "{result:?}");
    }
}

#[test]
fn an_interrupted_search_returns_what_it_knows() {
    let whole = search(&config(), &mut Hard::new(1e6));
    for after in 0..whole.trials.len() {
        let found = search(&config(), &mut Hard { interrupt_after: after, ..Hard::new(1e6) });
        assert_eq!(found.ended.as_deref(), Some("interrupted"));
        assert_eq!(found.trials[..], whole.trials[..after]);
    }
}

#[test]
fn the_budget_is_kept() {
    let found = search(&MlrConfig { budget: 10.0, ..config() }, &mut Hard::new(1e6));
    assert_eq!(found.trials.iter().map(|trial| trial.elapsed).sum::<f64>(), 10.0);
    assert!(found.ended.unwrap().contains("10 s"));
}

#[test]
fn all_mistakes_are_told_at_once() {
    let wrong =
        Goal { loss_ratio: 1.0, exceed_ratio: -0.1, relative_width: 0.0, expansion_coefficient: 1, ..Goal::NDR };
    let config = MlrConfig { goals: vec![wrong], min_load: 0.0, max_load: f64::NAN, warmup: -1.0, budget: 1.0 };
    let mut device = Hard::new(1e6);
    let mistakes = mlrsearch(&config, &mut device).unwrap_err();
    assert_eq!(mistakes.len(), 6, "{mistakes:#?}");
    assert_eq!(device.trials, 0);
    for (field, goal) in [
        ("initial", Goal { initial_trial_duration: 0.0, ..Goal::NDR }),
        ("final", Goal { final_trial_duration: 0.5, ..Goal::NDR }),
        ("sum", Goal { duration_sum: 0.5, ..Goal::NDR }),
        ("preceding", Goal { preceding_targets: 0, ..Goal::NDR }),
    ] {
        let mistakes = goal.mistakes();
        assert!(mistakes.len() == 1 && mistakes[0].contains(field), "{mistakes:?}");
    }
}
