//! What shaping promises, and whether it is kept.
//!
//! A check measures something and holds it to its criteria. What is in simulated time is [`simulated`]; what needs an engine is
//! measured elsewhere and judged here.

pub mod engine;
pub mod simulated;
pub mod users;

use serde::{Deserialize, Serialize};

use crate::record::{Better, Figure, Point, Value};

/// Whether a criterion is met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The check, and what it was done with.
    pub check: String,
    /// What is to be true.
    pub criterion: String,
    /// What is true.
    pub found: String,
    /// Whether that is as it is to be.
    pub kept: bool,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finding {
    /// The figures.
    pub point: Point,
    /// The criteria.
    pub verdicts: Vec<Verdict>,
}

/// The names of the parameters of all checks.
pub const PARAMETERS: [&str; 3] = ["check", "others", "times"];

impl Finding {
    /// A check with nothing found yet.
    pub fn new(check: &str, help: &str) -> Finding {
        let mut point = Point { help: help.to_owned(), ..Point::default() };
        point.parameters.insert("check".to_owned(), check.into());
        Finding { point, verdicts: Vec::new() }
    }

    /// With a parameter more.
    pub fn with(mut self, name: &str, value: Value) -> Finding {
        self.point.parameters.insert(name.to_owned(), value);
        self
    }

    /// Adds a figure.
    pub fn figure(&mut self, name: &str, unit: &str, better: Better, value: f64) {
        self.point.add(Figure::new(name, unit, better, vec![value]));
    }

    /// Adds a figure that belongs to the details.
    pub fn detail(&mut self, name: &str, unit: &str, better: Better, value: f64) {
        self.point.add(Figure::new(name, unit, better, vec![value]).as_detail());
    }

    /// Holds what was found to a criterion.
    pub fn judge(&mut self, criterion: &str, found: String, kept: bool) {
        let check = self.point.label(&PARAMETERS.map(str::to_owned)).trim_start_matches("check ").to_owned();
        self.verdicts.push(Verdict { check, criterion: criterion.to_owned(), found, kept });
    }
}

/// All verdicts: what most readers of the JSON look for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdicts {
    /// Whether every criterion is met.
    pub kept: bool,
    /// Each of them.
    pub verdicts: Vec<Verdict>,
}

impl Verdicts {
    /// From those of all findings.
    pub fn of(findings: &[Finding]) -> Verdicts {
        let verdicts: Vec<Verdict> = findings.iter().flat_map(|finding| finding.verdicts.clone()).collect();
        Verdicts { kept: verdicts.iter().all(|verdict| verdict.kept), verdicts }
    }

    /// A line for each, for people.
    pub fn lines(&self) -> Vec<String> {
        let line = |verdict: &Verdict| {
            let word = if verdict.kept { "kept" } else { "MISSED" };
            format!("{word}: {}: {}: {}", verdict.check, verdict.criterion, verdict.found)
        };
        self.verdicts.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_missed_shows() {
        let mut good = Finding::new("a", "").with("times", Value::Number(2.0));
        good.judge("more than 1", "2".to_owned(), true);
        let mut bad = Finding::new("b", "");
        bad.judge("more than 1", "0".to_owned(), false);
        assert!(Verdicts::of(std::slice::from_ref(&good)).kept);
        let all = Verdicts::of(&[good, bad]);
        assert!(!all.kept);
        assert_eq!(all.lines(), ["kept: a, times 2: more than 1: 2", "MISSED: b: more than 1: 0"]);
    }
}
