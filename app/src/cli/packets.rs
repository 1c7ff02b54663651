//! The words that whoever sends packets has: `weir gen` and `weir bench rfc2544`.

use clap::Args;

/// Who is asked, and who is answered, before anything is sent.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Neighbors {
    /// Next hop: asked for by ARP or ND before anything is sent
    #[arg(long, value_name = "ADDRESS", help_heading = "Ports")]
    pub(crate) via: Option<String>,
    /// Answer ARP and ND for these addresses, on all ports
    #[arg(long, value_name = "PREFIX", value_delimiter = ',', help_heading = "Ports")]
    pub(crate) answer: Vec<String>,
}

/// What is in the packets.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Packets {
    /// Destination addresses, IPv4 or IPv6
    #[arg(long, value_name = "PREFIX", value_delimiter = ',', help_heading = "Packets")]
    pub(crate) dst: Vec<String>,
    /// Source addresses
    #[arg(long, value_name = "PREFIX", value_delimiter = ',', help_heading = "Packets")]
    pub(crate) src: Vec<String>,
    /// Destination ports of UDP
    #[arg(long, value_name = "PORTS", value_delimiter = ',', help_heading = "Packets")]
    pub(crate) dport: Vec<String>,
    /// Source ports of UDP
    #[arg(long, value_name = "PORTS", value_delimiter = ',', help_heading = "Packets")]
    pub(crate) sport: Vec<String>,
    /// Destination Ethernet address
    #[arg(long, value_name = "MAC", help_heading = "Packets")]
    pub(crate) dst_mac: Option<String>,
    /// VLAN; two with a comma for QinQ
    #[arg(long, value_name = "ID", value_delimiter = ',', help_heading = "Packets")]
    pub(crate) vlan: Vec<String>,
    /// What random numbers start from
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Packets")]
    pub(crate) seed: u64,
}
