//! What `weir bench cpp` found.

use std::fmt;

use serde::Serialize;

use crate::machine::Machine;
use crate::summary::Summary;

/// Cycles per packet of a function, case by case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Version of this format.
    pub version: u32,
    /// The function.
    pub function: String,
    /// Where it was measured.
    pub machine: Machine,
    /// Weir's version.
    pub weir: String,
    /// Interleaved runs of each case.
    pub runs: usize,
    /// The cases.
    pub cases: Vec<CaseReport>,
}

/// One case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseReport {
    /// Its name.
    pub name: String,
    /// What it is.
    pub help: String,
    /// Packets measured, in all runs together.
    pub packets: u64,
    /// TSC cycles per packet of the graph's own work: `whole` less `bare` of the same run.
    pub cycles_per_packet: Summary,
    /// TSC cycles per packet of the worker's whole loop, source and sink included.
    pub whole: Summary,
    /// TSC cycles per packet of the same source and sink with nothing between them.
    pub bare: Summary,
    /// Millions of packets per second of the whole loop, in the median.
    pub mpps: f64,
    /// Packets per batch at the first stage, on average.
    pub batch_fill: f64,
    /// The stages.
    pub stages: Vec<StageReport>,
    /// Packets that were checked at the sink; all of them were right.
    pub verified: u64,
}

/// One stage of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageReport {
    /// Its name.
    pub name: String,
    /// TSC cycles per packet in the sampled batches, in the median of the runs.
    pub cycles_per_packet: f64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "weir {} bench cpp {}: TSC cycles per packet, {} interleaved runs",
            self.weir, self.function, self.runs
        )?;
        writeln!(f, "{}\n", self.machine)?;
        let width = self.cases.iter().map(|case| case.name.len()).max().unwrap_or(0).max(4);
        writeln!(
            f,
            "{:<width$}  {:>6} {:>15}  {:>6}  {:>6}  {:>7}  {:>5}  stages",
            "case", "own", "(min - max)", "whole", "bare", "Mpps", "fill"
        )?;
        for case in &self.cases {
            let own = case.cycles_per_packet;
            let stages = case.stages.iter().map(|stage| format!("{} {:.1}", stage.name, stage.cycles_per_packet));
            let stages: Vec<String> = stages.collect();
            writeln!(
                f,
                "{:<width$}  {:>6.1} {:>15}  {:>6.1}  {:>6.1}  {:>7.1}  {:>5.1}  {}",
                case.name,
                own.median,
                format!("({:.1} - {:.1})", own.min, own.max),
                case.whole.median,
                case.bare.median,
                case.mpps,
                case.batch_fill,
                stages.join(", ")
            )?;
        }
        writeln!(
            f,
            "\nown = whole - bare: the graph, the engine around it, and the account; bare is the same source and sink"
        )?;
        write!(f, "with nothing between them. Every 1,024th packet was verified at the sink.")
    }
}
