//! The words of `weir bench shaping`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};

use crate::bench;

/// `weir bench shaping`.
#[derive(Debug, Args)]
#[command(
    after_help = "Each check measures something and holds it to its criteria: kept or MISSED stands before each, with what was found. The exit \
                  status is 1 if any criterion is missed.\n\nChecks in simulated time give the same figures on every machine; with 32,768 \
                  users they take minutes, and --users makes them smaller. Those in real time need a core that is left alone.\n\nExamples:\n  \
                  weir bench shaping\n  weir bench shaping --check conforming --users 1024\n  weir bench shaping --check real-time --check \
                  lone-packet --seconds 30 --report results"
)]
pub(crate) struct Shaping {
    /// A check; all when absent
    #[arg(long = "check", value_name = "NAME",
          value_parser = PossibleValuesParser::new(bench::SHAPING_CHECKS.map(|(name, help)| PossibleValue::new(name).help(help))))]
    pub(crate) checks: Vec<String>,
    /// Users; the port's rate goes with them
    #[arg(long, value_name = "N", default_value_t = 32_768, value_parser = clap::value_parser!(u32).range(100..=32_768))]
    pub(crate) users: u32,
    /// How long the checks in real time take, in seconds
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Core of the worker; the last one when absent
    #[arg(long, value_name = "N")]
    pub(crate) core: Option<usize>,
    /// Write shaping.html (a page with plots), shaping.json and shaping.csv into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (1.0..=60.0).contains(&value) { Ok(value) } else { Err("it may be 1 to 60".to_owned()) }
}
