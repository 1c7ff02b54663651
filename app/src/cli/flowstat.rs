//! The words of `weir flowstat`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use weir_config::{Nanos, Quantity, Rate, Size};
use weir_flowstat::{Order, models};

/// `weir flowstat`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Captures are pcap or pcapng, plain or compressed. The model says what the device does to packets, and so by which bytes \
                  they are known on both sides; streams are what has the fields of --by in common. A damaged file is read up to the \
                  damage; the report then says that it is partial, and the exit status is 1.\n\nExamples:\n  weir flowstat sent.pcap \
                  received.pcap\n  weir flowstat sent.pcap received.pcap --model signature --by signature --json\n  weir flowstat cpe.pcapng \
                  core.pcapng --by src --order p99 --worst 5 --clock offset"
)]
pub(crate) struct Flowstat {
    /// The capture of what was sent to the device
    #[arg(value_name = "SENT")]
    pub(crate) sent: PathBuf,
    /// The capture of what came out of it
    #[arg(value_name = "RECEIVED")]
    pub(crate) received: PathBuf,
    /// A further capture of what was sent, at another interface
    #[arg(long, value_name = "FILE", help_heading = "Captures")]
    pub(crate) also_sent: Vec<PathBuf>,
    /// A further capture of what came out, at another interface
    #[arg(long, value_name = "FILE", help_heading = "Captures")]
    pub(crate) also_received: Vec<PathBuf>,
    /// Which packets sent count: a filter expression as tcpdump has them
    #[arg(long, value_name = "FILTER", help_heading = "Captures")]
    pub(crate) filter_sent: Option<String>,
    /// Which packets received count
    #[arg(long, value_name = "FILTER", help_heading = "Captures")]
    pub(crate) filter_received: Option<String>,
    /// Leave out what was captured while the other capture did not run
    #[arg(long, help_heading = "Captures")]
    pub(crate) trim: bool,
    /// What the device does to packets
    #[arg(long, value_name = "MODEL", default_value = models::DEFAULT, help_heading = "Matching",
          value_parser = PossibleValuesParser::new(models::MODELS.map(|(name, help)| PossibleValue::new(name).help(help))))]
    pub(crate) model: String,
    /// Which packets leave where something was captured: a CSV file with the columns prefix and port
    #[arg(long, value_name = "FILE.csv", help_heading = "Matching")]
    pub(crate) routes: Option<PathBuf>,
    /// A port of the routes at which something was captured
    #[arg(long, value_name = "PORT", value_delimiter = ',', help_heading = "Matching")]
    pub(crate) captured: Vec<String>,
    /// Who is who on the two sides of a gateway: a CSV file with the columns svlan, cvlan, gre and subscriber
    #[arg(long, value_name = "FILE.csv", help_heading = "Matching")]
    pub(crate) subscribers: Option<PathBuf>,
    /// The softwires of a lwAFTR: a CSV file with the columns ipv4, b4, psid, psid_length, psid_offset and aftr
    #[arg(long, value_name = "FILE.csv", help_heading = "Matching")]
    pub(crate) softwires: Option<PathBuf>,
    /// What identifies packets on the two sides: a script that declares match { sent = { ... }, received = { ... } }
    #[arg(long, value_name = "FILE.lua", help_heading = "Matching")]
    pub(crate) keys: Option<PathBuf>,
    /// Bytes of each packet that its model looks at, at most; all when absent
    #[arg(long, value_name = "N", help_heading = "Matching", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub(crate) bytes: Option<u32>,
    /// A packet that takes longer is not taken for the one that was sent
    #[arg(long, value_name = "TIME", default_value = "1 s", value_parser = time, help_heading = "Matching")]
    pub(crate) window: u64,
    /// How the clocks of the captures differ
    #[arg(long, value_name = "HOW", default_value = "same", value_parser = ["same", "offset", "drift"],
          help_heading = "Matching")]
    pub(crate) clock: String,
    /// Fields that make a stream, with commas between them; all packets are one stream when absent
    #[arg(long, value_name = "FIELDS", default_value = "", hide_default_value = true, help_heading = "Streams")]
    pub(crate) by: String,
    /// Hold streams to this rate
    #[arg(long, value_name = "RATE", value_parser = bits, requires = "burst", help_heading = "Streams")]
    pub(crate) rate: Option<u64>,
    /// How much may come at once beyond the rate
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "rate", help_heading = "Streams")]
    pub(crate) burst: Option<u64>,
    /// What the worst streams are the worst in
    #[arg(long, value_name = "WHAT", default_value = "loss", help_heading = "Streams",
          value_parser = PossibleValuesParser::new(Order::NAMES.map(|(name, _)| name)))]
    pub(crate) order: String,
    /// Streams to show; 20, or all with --json, when absent
    #[arg(long, value_name = "N", help_heading = "Streams")]
    pub(crate) worst: Option<usize>,
    /// Write flowstat.html (a page with plots), flowstat.json, flowstat.csv and flowstat.parquet into this folder
    #[arg(long, value_name = "DIR", help_heading = "Streams")]
    pub(crate) report: Option<PathBuf>,
    /// Memory that packets may take; beyond, they go to files
    #[arg(long, value_name = "SIZE", default_value = "1 GiB", value_parser = size, help_heading = "Means")]
    pub(crate) memory: u64,
    /// Folder of these files; that of the system when absent
    #[arg(long, value_name = "DIR", help_heading = "Means")]
    pub(crate) temp: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `weir bench flowstat`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Writes two captures of a router that never was, and matches them: 150 bytes on disk for each packet. What is found is \
                        compared with what is known of them.\n\nExamples:\n  weir bench flowstat\n  weir bench flowstat --packets \
                        1000000,6000000 --by '' --by dst --runs 5 --report results"
)]
pub(crate) struct FlowstatBench {
    /// Packets in each capture; several with commas between them
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "6000000",
          value_parser = clap::value_parser!(u64).range(1..=4_000_000_000))]
    pub(crate) packets: Vec<u64>,
    /// Fields that make a stream, with commas between them; none when empty
    #[arg(long, value_name = "FIELDS", default_values = [""], hide_default_value = true)]
    pub(crate) by: Vec<String>,
    /// Runs of each
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: u32,
    /// Memory that packets may take; beyond, they go to files
    #[arg(long, value_name = "SIZE", default_value = "1 GiB", value_parser = size)]
    pub(crate) memory: u64,
    /// Folder of the captures and the temporary files; that of the system when absent
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Keep the captures, for other programs to do the same work
    #[arg(long)]
    pub(crate) keep: bool,
    /// Write flowstat.html (a page with plots), flowstat.json and flowstat.csv into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn time(text: &str) -> Result<u64, String> {
    quantity(Nanos::UNITS.parse(text).map_err(|wrong| wrong.problem), "5 ms")
}

fn bits(text: &str) -> Result<u64, String> {
    quantity(Rate::UNITS.parse(text).map_err(|wrong| wrong.problem), "10 Mbit/s")
}

fn size(text: &str) -> Result<u64, String> {
    quantity(Size::UNITS.parse(text).map_err(|wrong| wrong.problem), "64 KiB")
}

fn quantity(parsed: Result<u64, String>, example: &str) -> Result<u64, String> {
    parsed.map_err(|problem| format!("it {problem}; write it as in \"{example}\""))
}
