//! The words of `weir bench rfc2544`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use weir_config::{Nanos, PacketRate, Quantity, Rate};

use super::packets::{Neighbors, Packets};

/// `weir bench rfc2544`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Sends by one port and receives by another what the device under test forwards: a device behind two ports of \
                  this machine, or a configuration that runs in the same process, joined by cables in memory. Throughput is \
                  searched as FD.io's CSIT does it (MLRsearch, NDR and PDR in one search). Without --quick, times are those \
                  of the RFC: hours for all sizes. An interrupted run reports what it has, marked as partial.\n\nExamples:\n  \
                  weir bench rfc2544 --tx af_xdp:veth-a --rx af_xdp:veth-b --dst-mac 02:00:00:00:00:09 --dst 198.51.100.0/24 \
                  --link-speed '10 Gbit/s' --report results\n  weir bench rfc2544 configs/forward.lua --tx west --rx east \
                  --quick --sizes 64"
)]
pub(crate) struct Rfc2544 {
    /// The device under test as a configuration, to run in this process
    #[arg(value_name = "FILE.lua")]
    pub(crate) device: Option<PathBuf>,
    /// The device to send by; of a configuration, its port that the packets enter by
    #[arg(long, value_name = "DEVICE", help_heading = "Ports")]
    pub(crate) tx: String,
    /// The device to receive by; of a configuration, its port that they leave by
    #[arg(long, value_name = "DEVICE", help_heading = "Ports")]
    pub(crate) rx: String,
    /// Address of the sending port, with the length of its network
    #[arg(long, value_name = "ADDRESS/LENGTH", help_heading = "Ports")]
    pub(crate) address: Option<String>,
    #[command(flatten)]
    pub(crate) neighbors: Neighbors,
    /// The speed of the link: what is sent at most
    #[arg(long, value_name = "RATE", default_value = "10 Gbit/s", value_parser = bits, help_heading = "Ports")]
    pub(crate) link_speed: u64,
    /// What is sent at most, where the link's speed is more than can be: "5 Mpps"
    #[arg(long, value_name = "RATE", value_parser = packets, help_heading = "Ports")]
    pub(crate) max_rate: Option<u64>,
    /// What a device is expected to forward in any case
    #[arg(long, value_name = "RATE", default_value = "1 kpps", value_parser = packets, help_heading = "Ports")]
    pub(crate) min_rate: u64,
    #[command(flatten)]
    pub(crate) packets: Packets,
    /// Frame sizes, bytes with the check sequence; those of RFC 2544 section 9.1 when absent
    #[arg(long, value_name = "BYTES", value_delimiter = ',', help_heading = "Packets")]
    pub(crate) sizes: Vec<u32>,
    /// What to measure; all but reset when absent
    #[arg(long = "test", value_name = "TEST", value_delimiter = ',', help_heading = "Experiment",
          value_parser = PossibleValuesParser::new(["throughput", "latency", "frame-loss", "back-to-back", "reset"]))]
    pub(crate) tests: Vec<String>,
    /// How throughput is searched: NDR and PDR by trials of a second; the same by trials of the full time; by halving
    #[arg(long, value_name = "HOW", default_value = "mlr", help_heading = "Experiment",
          value_parser = PossibleValuesParser::new(["mlr", "mlr-strict", "binary"]))]
    pub(crate) search: String,
    /// How far apart the bounds of throughput may lie at the end, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5, help_heading = "Experiment")]
    pub(crate) width: f64,
    /// Time of a trial: "60 s" when absent
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Experiment")]
    pub(crate) duration: Option<Duration>,
    /// Time of a trial for latency: "120 s" when absent
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Experiment")]
    pub(crate) latency_duration: Option<Duration>,
    /// Trials for latency: 20 when absent
    #[arg(long, value_name = "N", help_heading = "Experiment")]
    pub(crate) latency_runs: Option<u32>,
    /// Time of the longest burst: "2 s" when absent
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Experiment")]
    pub(crate) burst_duration: Option<Duration>,
    /// How often the longest burst is searched: 50 when absent
    #[arg(long, value_name = "N", help_heading = "Experiment")]
    pub(crate) burst_runs: Option<u32>,
    /// Trials of a second, and few of them: to see whether everything is as it should be
    #[arg(long, help_heading = "Experiment")]
    pub(crate) quick: bool,
    /// How long to wait for late packets after each trial: "2 s" when absent
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Experiment")]
    pub(crate) linger: Option<Duration>,
    /// The command that restarts the device, for the test reset
    #[arg(long, value_name = "COMMAND", help_heading = "Experiment")]
    pub(crate) restart: Option<String>,
    /// How long to send while the device restarts
    #[arg(long, value_name = "TIME", default_value = "30 s", value_parser = time, help_heading = "Experiment")]
    pub(crate) restart_duration: Duration,
    /// How often the device is restarted
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Experiment")]
    pub(crate) restart_runs: u32,
    /// Core of the generator; one that the device does not use when absent
    #[arg(long, value_name = "N")]
    pub(crate) core: Option<u16>,
    /// Write rfc2544.html (a page with plots), rfc2544.json, rfc2544.csv, and every trial as rfc2544-trials.json into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn time(text: &str) -> Result<Duration, String> {
    let nanos =
        Nanos::UNITS.parse(text).map_err(|malformed| format!("{}; write it as in \"2 s\"", malformed.problem))?;
    if nanos == 0 { Err("no time at all; write it as in \"2 s\"".to_owned()) } else { Ok(Duration::from_nanos(nanos)) }
}

fn bits(text: &str) -> Result<u64, String> {
    let rate = Rate::UNITS.parse(text).map_err(|malformed| malformed.problem);
    rate.and_then(some).map_err(|problem| format!("{problem}; write it as in \"10 Gbit/s\""))
}

fn packets(text: &str) -> Result<u64, String> {
    let rate = PacketRate::UNITS.parse(text).map_err(|malformed| malformed.problem);
    rate.and_then(some).map_err(|problem| format!("{problem}; write it as in \"1 Mpps\""))
}

fn some(rate: u64) -> Result<u64, String> {
    if rate == 0 { Err("is no rate at which anything would be sent".to_owned()) } else { Ok(rate) }
}
