//! The commands of `weir bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{FlowstatBench, Peers, Rfc2544, Shaping};

/// `weir bench`.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// What to measure.
    #[command(subcommand)]
    pub(crate) what: BenchCommands,
}

/// What can be measured.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommands {
    /// Cycles per packet of a function
    Cpp(Cpp),
    /// Throughput, latency, frame loss, back-to-back and reset of a device (RFC 2544)
    Rfc2544(Box<Rfc2544>),
    /// An experiment: parameters, their values, and figures for every combination
    Run(BenchRun),
    /// Other programs at the same work, in turns with Weir
    Peers(Peers),
    /// What shaping promises, held to it: rates, waits, buffers
    Shaping(Shaping),
    /// How fast two captures are matched, and in how much memory
    Flowstat(FlowstatBench),
    /// What changed between two reports, and whether it is more than noise
    Compare(Compare),
    /// A part of `run`: takes one sample
    #[command(hide = true)]
    Sample {
        /// What to do, as JSON.
        job: String,
    },
    /// A part of `cpp --instructions`: runs under an emulator
    #[command(hide = true)]
    Count {
        /// What to do, as JSON.
        job: String,
    },
}

/// `weir bench cpp`.
#[derive(Debug, Args)]
#[command(
    after_help = "Runs the function's real graph on one pinned worker over ports in memory, with 64-byte packets. The \
                        figures are TSC cycles: medians, with the least and the most.\n\nExamples:\n  weir bench cpp \
                        FUNCTION\n  weir bench cpp FUNCTION --case one-destination --runs 9 --core 1\n  weir bench cpp FUNCTION \
                        --report results"
)]
pub(crate) struct Cpp {
    /// The function
    #[arg(value_name = "FUNCTION")]
    pub(crate) function: String,
    /// A case to measure; all when absent
    #[arg(long = "case", value_name = "NAME")]
    pub(crate) cases: Vec<String>,
    /// Runs of each case
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: u32,
    /// Folder of the files that some cases need
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Core of the worker; the last one when absent
    #[arg(long, value_name = "N")]
    pub(crate) core: Option<usize>,
    /// Packets in a batch
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) fill: u32,
    /// Do not time stages; the difference is what the timing itself costs
    #[arg(long)]
    pub(crate) no_sampling: bool,
    /// Count instructions per packet too, under valgrind's callgrind: slow, and the same every time
    #[arg(long)]
    pub(crate) instructions: bool,
    /// Choose a number that the case leaves open: the length of frames, the size of a table
    #[arg(long, value_name = "NAME=NUMBER", value_parser = number_of)]
    pub(crate) set: Vec<(String, u64)>,
    /// Write cpp.html (a page with plots), cpp.json and cpp.csv into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `weir bench run`.
#[derive(Debug, Args)]
#[command(
    after_help = "The file declares an experiment: what is measured, which parameters vary, how often. Each sample is taken in a \
                        process of its own, and all combinations once before any again. Finished samples are kept in \
                        DIR/NAME.journal: after Ctrl-C, the same command goes on where it stopped. The report is \
                        DIR/NAME.html, .json and .csv.\n\nExamples:\n  weir bench run tools/bench/experiments/batch.lua\n  \
                        weir bench run tools/bench/experiments/table.lua --runs 9 --report results"
)]
pub(crate) struct BenchRun {
    /// The experiment
    #[arg(value_name = "EXPERIMENT.lua")]
    pub(crate) file: PathBuf,
    /// Folder of the journal and the report; `results` when absent
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Folder of the files that some cases need
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Say whether it can be run here, and measure nothing
    #[arg(long)]
    pub(crate) check: bool,
    /// Runs of each combination, in place of what the file says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `weir bench compare`.
#[derive(Debug, Args)]
#[command(
    after_help = "Both are reports of `weir bench` as --json and --report write them. Each figure that both have is compared by \
                        the Mann-Whitney U test, which asks nothing of how samples are distributed. Five samples on each \
                        side are the fewest that can show a change at the usual level.\n\nExample:\n  weir bench cpp \
                        FUNCTION --runs 9 --report before    then change something, and again with --report after\n  weir \
                        bench compare before/cpp.json after/cpp.json"
)]
pub(crate) struct Compare {
    /// The first report
    #[arg(value_name = "A.json")]
    pub(crate) before: PathBuf,
    /// The second report
    #[arg(value_name = "B.json")]
    pub(crate) after: PathBuf,
    /// Up to this probability of chance a difference counts as a change
    #[arg(long, value_name = "P", default_value_t = 0.01, value_parser = probability)]
    pub(crate) level: f64,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A name and its number.
fn number_of(text: &str) -> Result<(String, u64), String> {
    let (name, number) = text.split_once('=').ok_or("write a name, = and a number, as in frame=512")?;
    let number = number.parse().map_err(|_| format!("\"{number}\" is no whole number"))?;
    Ok((name.to_owned(), number))
}

/// A probability between 0 and 1.
fn probability(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if value > 0.0 && value < 1.0 { Ok(value) } else { Err("a probability lies between 0 and 1".to_owned()) }
}
