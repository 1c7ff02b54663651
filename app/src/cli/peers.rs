//! The words of `weir bench peers`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Command};

use crate::bench;

/// `weir bench peers`.
#[derive(Debug, Args)]
#[command(
    after_help = "Starts each peer, measures it and Weir in turns on the same core at the same work, and stops it. Whoever is not \
                  installed, or cannot run here, is skipped with a sentence that says what to do. Nothing of the machine is changed: peers run with \
                  folders, sockets and network namespaces of their own. Ctrl-C stops everything.\n\nA ratio below 1 means that Weir \
                  is cheaper.\n\nExamples:\n  weir bench peers\n  weir bench peers --peer dpdk-testpmd --runs 9 --report results\n  weir bench \
                  peers --work io --seconds 0.3 --json"
)]
pub(crate) struct Peers {
    /// A peer to measure; all when absent
    #[arg(long = "peer", value_name = "NAME")]
    pub(crate) peers: Vec<String>,
    /// Work to measure; all when absent
    #[arg(long = "work", value_name = "NAME")]
    pub(crate) works: Vec<String>,
    /// Samples of each program at each work, in turns
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: u32,
    /// How long a sample is, in seconds
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Core to measure on; the last one when absent
    #[arg(long, value_name = "N")]
    pub(crate) core: Option<usize>,
    /// How long a program may take to start or to answer, in seconds
    #[arg(long, value_name = "S", default_value_t = 30.0, value_parser = seconds)]
    pub(crate) patience: f64,
    /// Folder of ipv4-2015-11-01.csv.gz, the prefixes to look up; made-up ones when absent
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Write peers.html (a page with plots), peers.json and peers.csv into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The same, knowing the names of peers and works.
pub(super) fn with_names(command: Command) -> Command {
    command
        .mut_arg("peers", |peer| peer.value_parser(PossibleValuesParser::new(bench::peer_names())))
        .mut_arg("works", |work| work.value_parser(PossibleValuesParser::new(bench::peer_works())))
}

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.01..=3600.0).contains(&value) { Ok(value) } else { Err("it may be 0.01 to 3600".to_owned()) }
}
