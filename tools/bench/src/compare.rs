//! Two records of the same benchmark: what changed, and whether it is more than noise.

use std::fmt;

use serde::Serialize;

use crate::rank::{least_possible, mann_whitney};
use crate::record::{Better, Figure, Point, Record};
use crate::text::number;

/// What two records have to say about each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Up to this probability of chance a difference counts as one.
    pub level: f64,
    /// What differs in the circumstances: machine, versions, settings.
    pub circumstances: Vec<String>,
    /// The figures that both have, in the order of the first record.
    pub changes: Vec<Change>,
    /// Points that only one of them has, and partial results.
    pub incomplete: Vec<String>,
}

/// A figure before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The point's parameters.
    pub point: String,
    /// The figure's name.
    pub figure: String,
    /// Its unit.
    pub unit: String,
    /// Which way it is better.
    pub better: Better,
    /// Medians, before and after.
    pub medians: (f64, f64),
    /// Samples, before and after.
    pub samples: (usize, usize),
    /// The probability that chance alone sets them so far apart: Mann-Whitney U, two-sided.
    pub chance: f64,
    /// What it means.
    pub verdict: Verdict,
}

/// What a difference means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is no more than noise.
    Same,
    /// More than noise, the good way.
    Better,
    /// More than noise, the bad way.
    Worse,
    /// More than noise, of a figure that is neither good nor bad.
    Different,
    /// There are too few samples for any difference to be told from noise.
    TooFew,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Same => "same",
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Different => "different",
            Verdict::TooFew => "too few samples",
        }
    }
}

/// Compares two records. `level` is the probability of chance up to which a difference counts, 0 to 1.
pub fn compare(before: &Record, after: &Record, level: f64) -> Comparison {
    let mut changes = Vec::new();
    let mut incomplete = Vec::new();
    for (name, record) in [("first", before), ("second", after)] {
        incomplete.extend(record.partial.iter().map(|reason| format!("the {name} is a partial result: {reason}")));
    }
    for point in &before.points {
        let label = point.label(&before.parameters);
        match after.points.iter().find(|other| other.parameters == point.parameters) {
            Some(other) => changes.extend(compare_points(&label, point, other, level)),
            None => incomplete.push(format!("only the first has {label}")),
        }
    }
    let only_after =
        after.points.iter().filter(|point| before.points.iter().all(|one| one.parameters != point.parameters));
    incomplete.extend(only_after.map(|point| format!("only the second has {}", point.label(&after.parameters))));
    Comparison { level, circumstances: circumstances(before, after), changes, incomplete }
}

fn compare_points(label: &str, before: &Point, after: &Point, level: f64) -> Vec<Change> {
    let both = before.figures.iter().filter_map(|figure| Some((figure, after.figure(&figure.name)?)));
    let changes = both.map(|(one, other)| change(label, one, other, level));
    // A circumstance that was noted once tells nothing.
    let telling = |change: &Change| change.better != Better::Neither || change.verdict != Verdict::TooFew;
    changes.filter(telling).collect()
}

fn change(label: &str, before: &Figure, after: &Figure, level: f64) -> Change {
    let chance = mann_whitney(&before.samples, &after.samples);
    let medians = (before.summary.median, after.summary.median);
    let verdict = match before.better {
        _ if least_possible(before.samples.len(), after.samples.len()) > level => Verdict::TooFew,
        _ if chance > level => Verdict::Same,
        Better::Neither => Verdict::Different,
        Better::Less if medians.1 < medians.0 => Verdict::Better,
        Better::More if medians.1 > medians.0 => Verdict::Better,
        Better::Less | Better::More => Verdict::Worse,
    };
    Change {
        point: label.to_owned(),
        figure: before.name.clone(),
        unit: before.unit.clone(),
        better: before.better,
        medians,
        samples: (before.samples.len(), after.samples.len()),
        chance,
        verdict,
    }
}

fn circumstances(before: &Record, after: &Record) -> Vec<String> {
    let mut differences = Vec::new();
    let pairs = |record: &Record| {
        let mut facts = record.machine.facts();
        facts.extend(record.versions.iter().map(|(name, version)| (format!("version of {name}"), version.clone())));
        facts.extend(record.settings.iter().map(|(name, value)| (name.clone(), value.to_string())));
        facts
    };
    let (one, other) = (pairs(before), pairs(after));
    for (name, text) in &one {
        match other.iter().find(|(known, _)| known == name) {
            Some((_, same)) if same == text => {}
            Some((_, changed)) => differences.push(format!("{name}: {text} -> {changed}")),
            None => differences.push(format!("{name}: {text} -> not there")),
        }
    }
    let only_there = other.iter().filter(|(name, _)| one.iter().all(|(known, _)| known != name));
    differences.extend(only_there.map(|(name, text)| format!("{name}: not there -> {text}")));
    for (name, text) in &before.configurations {
        if after.configurations.get(name).is_some_and(|other| other != text) {
            differences.push(format!("the configuration {name} differs"));
        }
    }
    if before.title != after.title {
        differences.insert(0, format!("they measure different things: {} -> {}", before.title, after.title));
    }
    differences
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in self.circumstances.iter().chain(&self.incomplete) {
            writeln!(f, "note: {difference}")?;
        }
        let width = self.changes.iter().map(|c| c.point.len()).max().unwrap_or(0);
        let figures = self.changes.iter().map(|c| c.figure.len() + c.unit.len() + 2).max().unwrap_or(0);
        for c in &self.changes {
            let figure = format!("{}, {}", c.figure, c.unit);
            let (from, to) = c.medians;
            let share = if from == 0.0 { String::new() } else { format!("{:+.1} %", (to / from - 1.0) * 100.0) };
            writeln!(
                f,
                "{:width$}  {figure:figures$}  {:>9} -> {:>9}  {share:>9}  chance {:.4}  {}",
                c.point,
                number(from),
                number(to),
                c.chance,
                c.verdict.word()
            )?;
        }
        write!(
            f,
            "\nMedians. chance: the probability (Mann-Whitney U, two-sided) that two sets of samples of the same thing lie this \
             far\napart; up to {} counts as a change, so of {} figures about {:.1} are called changed though nothing is. The test \
             does not\nknow that a machine drifts from one minute to the next: to be sure, measure both again, in turns.",
            self.level,
            self.changes.len(),
            self.level * self.changes.len() as f64
        )
    }
}
