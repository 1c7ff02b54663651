//! What one run of `weir bench` found: the form of every report.
//!
//! A record holds *points*, one for each combination of parameters; a point holds *figures*, each with every sample that was
//! taken. Tables, JSON, CSV, pages and comparisons are all made from it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::summary::Summary;

/// Version of the form of [`Record`].
pub const FORM: u32 = 2;

/// A run of a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of this form: [`FORM`].
    pub version: u32,
    /// What it is, in a few words.
    pub title: String,
    /// The words of the command that made it.
    pub command: Vec<String>,
    /// When it began, UTC, as RFC 3339 writes it.
    pub started: String,
    /// How long it took, seconds.
    pub seconds: f64,
    /// Why it is not whole; `None` if it is.
    pub partial: Option<String>,
    /// What it comes to, a sentence each: what a reader needs first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdict: Vec<String>,
    /// Where it was measured.
    pub machine: Machine,
    /// Versions of the programs and libraries that took part, by name.
    pub versions: BTreeMap<String, String>,
    /// What did not vary, by name.
    pub settings: BTreeMap<String, Value>,
    /// Texts of the configurations that ran, by name.
    pub configurations: BTreeMap<String, String>,
    /// Names of the parameters, the slowest to change first.
    pub parameters: Vec<String>,
    /// What was measured.
    pub points: Vec<Point>,
    /// What to draw.
    pub plots: Vec<Plot>,
    /// What a reader must know to judge the figures, a sentence or two each.
    pub remarks: Vec<String>,
}

/// The figures for one combination of parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The parameters' values.
    pub parameters: BTreeMap<String, Value>,
    /// What it stands for, where the parameters do not say it.
    pub help: String,
    /// Why figures are missing or not to be trusted; `None` if all is well.
    pub trouble: Option<String>,
    /// What was measured.
    pub figures: Vec<Figure>,
}

/// Something that was measured, once or more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name: `own`.
    pub name: String,
    /// Its unit: `cycles/packet`.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// Whether it belongs to the finer details, which the table for people leaves to its last column.
    pub detail: bool,
    /// Every sample, in the order they were taken.
    pub samples: Vec<f64>,
    /// The samples in short.
    pub summary: Summary,
}

/// Which way a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better: a cost.
    Less,
    /// More is better: a yield.
    More,
    /// Neither: a circumstance, such as how full batches were.
    Neither,
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// A number.
    Number(f64),
    /// A word.
    Text(String),
}

/// A plot of a record's points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// Its form.
    pub form: Form,
    /// The parameter along the first axis.
    pub x: String,
    /// The figure along the second; of stacked bars, what the names of the figures that add up begin with.
    pub y: String,
    /// The parameter that tells series apart, if any does.
    pub by: Option<String>,
}

/// The form of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// A line with a mark for each median and a bar from the least to the most.
    Lines,
    /// A bar for each median, with a thin one from the least to the most.
    Bars,
    /// A bar of medians that add up.
    Stacked,
}

impl Figure {
    /// A figure and its samples; those that are no numbers are left out.
    pub fn new(name: &str, unit: &str, better: Better, samples: Vec<f64>) -> Figure {
        let samples: Vec<f64> = samples.into_iter().filter(|sample| sample.is_finite()).collect();
        let summary = Summary::of(&samples);
        Figure { name: name.to_owned(), unit: unit.to_owned(), better, detail: false, samples, summary }
    }

    /// The same as a detail.
    pub fn as_detail(self) -> Figure {
        Figure { detail: true, ..self }
    }

    /// Adds a sample.
    pub fn add(&mut self, sample: f64) {
        if sample.is_finite() {
            self.samples.push(sample);
            self.summary = Summary::of(&self.samples);
        }
    }
}

impl Point {
    /// The figure of a name.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Adds the samples of `figure` to the figure of the same name, or the figure if there is none yet.
    pub fn add(&mut self, figure: Figure) {
        match self.figures.iter_mut().find(|known| known.name == figure.name) {
            Some(known) => figure.samples.iter().for_each(|sample| known.add(*sample)),
            None => self.figures.push(figure),
        }
    }

    /// Its parameters as a text, in the order of `names`: `fill 16, layout pipeline`.
    pub fn label(&self, names: &[String]) -> String {
        let named = |name: &String| Some(format!("{name} {}", self.parameters.get(name)?));
        names.iter().filter_map(named).collect::<Vec<_>>().join(", ")
    }
}

impl Record {
    /// The different values of a parameter, in the order in which they come.
    pub fn values(&self, parameter: &str) -> Vec<&Value> {
        let mut values = Vec::new();
        for value in self.points.iter().filter_map(|point| point.parameters.get(parameter)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }

    /// The unit of a figure, from the first point that has it.
    pub fn unit(&self, figure: &str) -> &str {
        self.points.iter().find_map(|point| point.figure(figure)).map_or("", |figure| figure.unit.as_str())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Flag(flag) => f.write_str(if *flag { "yes" } else { "no" }),
            Value::Number(number) => write!(f, "{number}"),
            Value::Text(text) => f.write_str(text),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}
