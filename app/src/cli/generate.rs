//! The words of `weir gen`.

use std::path::PathBuf;

use clap::Args;

use super::packets::{Neighbors, Packets};

/// `weir gen`.
#[derive(Clone, Debug, Default, Args)]
#[command(
    after_help = "Sizes are those of frames with their check sequence, so that 64 is the smallest; in a capture file they are 4 \
                  bytes shorter. Rates in bit/s are those on the wire, with preamble and gap. Fields take a value, a range \
                  (1-9, 192.0.2.1-192.0.2.9), a prefix, or several of these with commas; \"random\" behind them draws at \
                  random. Into capture files time is virtual: the same command writes the same bytes. Tunnels, tables of values and \
                  port sets are for streams in a configuration.\n\nExamples:\n  weir \
                  gen --port pcap:,out.pcap --dst 198.19.0.0/24 --size imix --rate '1 Mpps' --count 1000\n  weir gen --port \
                  mem:loop --size 64 --rate '5 Mpps' --duration '1 s' --signature\n  weir gen --port af_xdp:veth-a --rx \
                  af_xdp:veth-b --address 192.0.2.2/24 --via 192.0.2.1 --dst 198.51.100.0/24 --rate '10 kpps' --duration \
                  '10 s' --signature --json\n  weir gen streams.lua"
)]
pub(crate) struct Generate {
    /// A configuration that holds streams, in place of the options that describe one
    #[arg(value_name = "FILE.lua", conflicts_with_all = ["port", "rx", "dst", "src"])]
    pub(crate) file: Option<PathBuf>,
    /// The device to send by; what comes back there is measured too. Several: a stream for each
    #[arg(long, value_name = "DEVICE", help_heading = "Ports", required_unless_present = "file")]
    pub(crate) port: Vec<String>,
    /// A device that only receives
    #[arg(long, value_name = "DEVICE", help_heading = "Ports")]
    pub(crate) rx: Vec<String>,
    /// Addresses of the sending ports, one for each, with the length of its network
    #[arg(long, value_name = "ADDRESS/LENGTH", help_heading = "Ports")]
    pub(crate) address: Vec<String>,
    #[command(flatten)]
    pub(crate) neighbors: Neighbors,
    /// The largest IP packet of the ports, bytes; that of the devices when absent
    #[arg(long, value_name = "BYTES", help_heading = "Ports")]
    pub(crate) mtu: Option<u16>,
    /// The speed of the links, for rates in percent
    #[arg(long, value_name = "RATE", help_heading = "Ports")]
    pub(crate) link_speed: Option<String>,
    #[command(flatten)]
    pub(crate) packets: Packets,
    /// Source Ethernet address; the port's own when absent
    #[arg(long, value_name = "MAC", help_heading = "Packets")]
    pub(crate) src_mac: Option<String>,
    /// Frame size in bytes with check sequence: 64, 64-1518, imix, or a genome of RFC 6985
    #[arg(long, value_name = "BYTES", help_heading = "Packets")]
    pub(crate) size: Option<String>,
    /// Send the packets of a capture file instead
    #[arg(long, value_name = "FILE", help_heading = "Packets", conflicts_with_all = ["dst", "src", "size", "signature"])]
    pub(crate) replay: Option<PathBuf>,
    /// Put stream, sequence number, time and checksum into each packet, and measure what comes back
    #[arg(long, help_heading = "Packets")]
    pub(crate) signature: bool,
    /// How fast: "1 Mpps", "10 Gbit/s", "50 %", max
    #[arg(long, value_name = "RATE", help_heading = "Time")]
    pub(crate) rate: Option<String>,
    /// How packets lie in time: constant, poisson or burst
    #[arg(long, value_name = "SHAPE", help_heading = "Time")]
    pub(crate) gaps: Option<String>,
    /// Packets in a burst
    #[arg(long, value_name = "N", help_heading = "Time")]
    pub(crate) burst: Option<u32>,
    /// When packets of a capture file are sent: rate or recorded
    #[arg(long, value_name = "TIMING", help_heading = "Time", requires = "replay")]
    pub(crate) timing: Option<String>,
    /// Packets in all, of each stream
    #[arg(long, value_name = "N", help_heading = "Time")]
    pub(crate) count: Option<u64>,
    /// How long: "10 s"
    #[arg(long, value_name = "TIME", help_heading = "Time")]
    pub(crate) duration: Option<String>,
    /// How long to wait for late packets at the end
    #[arg(long, value_name = "TIME", default_value = "200 ms", help_heading = "Time")]
    pub(crate) linger: String,
    /// Core of the worker; the last one when absent
    #[arg(long, value_name = "N")]
    pub(crate) core: Option<u16>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
