//! The figures of `weir bench cpp` in short, beside the points of its record: what most readers of the JSON look for.

use serde::{Deserialize, Serialize};

use crate::record::{Point, Value};
use crate::summary::Summary;

/// Cycles per packet of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CyclesPerPacket {
    /// The function.
    pub function: String,
    /// Its cases.
    pub cases: Vec<CaseFigures>,
}

/// What a case cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseFigures {
    /// The case.
    pub name: String,
    /// Packets that the sink verified while it was measured.
    pub verified: u64,
    /// Packets that came in while it was measured.
    pub packets: u64,
    /// The graph's own work: whole less bare.
    pub cycles_per_packet: Summary,
    /// Source and sink included.
    pub whole: Summary,
    /// Source and sink with nothing between them.
    pub bare: Summary,
    /// Medians of the stages, as far as they were timed.
    pub stages: Vec<StageFigures>,
}

/// What a stage cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageFigures {
    /// The stage.
    pub name: String,
    /// Median of its runs.
    pub cycles_per_packet: f64,
}

impl CyclesPerPacket {
    /// The figures of a record's points, each of which is a case; those without figures are left out.
    pub fn of(function: &str, points: &[Point]) -> CyclesPerPacket {
        CyclesPerPacket { function: function.to_owned(), cases: points.iter().filter_map(CaseFigures::of).collect() }
    }
}

impl CaseFigures {
    fn of(point: &Point) -> Option<CaseFigures> {
        let Some(Value::Text(name)) = point.parameters.get("case") else { return None };
        let summary = |name| point.figure(name).map(|figure| figure.summary);
        let sum = |name| point.figure(name).map_or(0, |figure| figure.samples.iter().sum::<f64>() as u64);
        let stages = point.figures.iter().filter(|figure| figure.detail && figure.unit == "cycles/packet");
        Some(CaseFigures {
            name: name.clone(),
            verified: sum("verified"),
            packets: sum("packets"),
            cycles_per_packet: summary("own")?,
            whole: summary("whole")?,
            bare: summary("bare")?,
            stages: stages
                .map(|stage| StageFigures { name: stage.name.clone(), cycles_per_packet: stage.summary.median })
                .collect(),
        })
    }
}
