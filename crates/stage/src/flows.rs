//! What a function that routes tells collectors of flows: packets of which it takes samples, and counters of its interfaces. The function is
//! the source of them ([`FlowSource`]); a service, which opens sockets and knows the protocols, sends what it says.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use weir_config::{Malformed, Scalar, choice, scalar};

/// Bytes that are kept from the beginning of a sampled frame: what sFlow asks for by default.
pub const HEAD: usize = 128;

/// Samples that are taken from a source at once.
pub const SAMPLES: usize = 256;

choice! {
    /// What collectors are spoken to by.
    pub enum FlowProtocol {
        /// sFlow version 5: each sample by itself, with the front of its frame, and the counters of interfaces.
        Sflow = "sflow",
        /// IPFIX (RFC 7011): samples of one flow are counted together.
        Ipfix = "ipfix",
    }
}

/// Where a collector listens for datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collector(pub SocketAddr);

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Scalar for Collector {
    const WHAT: &'static str = "the address and UDP port of a collector";
    const EXAMPLE: &'static str = "192.0.2.9:6343";

    fn parse(text: &str) -> Result<Collector, Malformed> {
        let Ok(address) = text.parse::<SocketAddr>() else {
            return Err(match text.parse::<IpAddr>() {
                Ok(IpAddr::V4(address)) => Malformed::because("has no port").remedy(format!("write {address}:6343")),
                Ok(IpAddr::V6(address)) => Malformed::because("has no port").remedy(format!("write [{address}]:6343")),
                Err(_) => Malformed::not::<Collector>(),
            });
        };
        match (address.port(), address.ip()) {
            (0, _) => Err(Malformed::because("has the port 0, at which nobody listens")),
            (_, ip) if ip.is_unspecified() => Err(Malformed::because("is not the address of a host")),
            _ => Ok(Collector(address)),
        }
    }
}

scalar!(Collector);

/// What is sent, where to and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowExport {
    /// By what.
    pub protocol: FlowProtocol,
    /// To whom; all get the same.
    pub collectors: Vec<SocketAddr>,
    /// The network namespace from which datagrams leave, as `ip netns` has it; `None`: that of the program.
    pub netns: Option<String>,
    /// The address that they come from; `None`: as Linux chooses.
    pub source: Option<IpAddr>,
    /// The address by which collectors of sFlow know who speaks; `None`: the one that datagrams to the first come from.
    pub agent: Option<IpAddr>,
    /// What collectors tell several speakers at one address apart by.
    pub domain: u32,
    /// Of how many packets of an interface one is sampled.
    pub sample: u32,
    /// How long a flow goes on at most until it is told of, nanoseconds.
    pub active: u64,
    /// How long no sample of a flow came when it has ended, nanoseconds.
    pub inactive: u64,
    /// From one round of templates and names to the next, nanoseconds.
    pub templates_every: u64,
    /// From one round of counters of interfaces to the next, nanoseconds.
    pub counters_every: u64,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Out of this interface.
    Interface(u16),
    /// To one of the own addresses.
    Here,
    /// Nowhere: no route leads there, or one that says so.
    Nowhere,
    /// It is not known: no IP packet, or its route leads to a function.
    Unknown,
}

/// The way of a packet on from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowHop {
    /// Where it goes.
    pub output: Output,
    /// The number of the VRF that it leaves by.
    pub vrf: u16,
    /// The router that it goes to, or the other end of a tunnel; `None` if its destination is on the link, or nothing is known.
    pub next_hop: Option<IpAddr>,
    /// The identifiers of its tags on the way out, the outer one first; 0 where there is none, or they are not known.
    pub vlans: [u16; 2],
    /// The length of the prefix of its source's route, 0 if there is none.
    pub source_len: u8,
    /// The length of the prefix that it is routed by, 0 if there is none.
    pub destination_len: u8,
}

impl FlowHop {
    /// Nothing is known.
    pub const UNKNOWN: FlowHop =
        FlowHop { output: Output::Unknown, vrf: 0, next_hop: None, vlans: [0; 2], source_len: 0, destination_len: 0 };
}

/// A packet that was sampled.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Bytes of the frame, without its check sequence.
    pub len: u32,
    /// Bytes in front of it that are not told: 0, or all headers of the tunnel that it came in. Then `head` begins with the packet that was inside.
    pub stripped: u16,
    /// The first bytes of the frame, or of the packet inside; what is not theirs is zero.
    pub head: [u8; HEAD],
    /// Where the network header begins in it.
    pub l3: u8,
    /// The number of the interface that it came in by.
    pub input: u16,
    /// The identifiers of its VLAN tags, the outer one first; 0 where there is none.
    pub vlans: [u16; 2],
    /// The number of the VRF that it came in.
    pub vrf: u16,
    /// Where it goes.
    pub hop: FlowHop,
    /// Packets that had come in by its interface until now, among which samples are taken.
    pub pool: u64,
    /// Samples of its interface that found no room until now.
    pub lost: u64,
}

impl Sample {
    /// Bytes of the frame behind what was stripped.
    pub fn rest(&self) -> u32 {
        self.len.saturating_sub(self.stripped.into())
    }

    /// The bytes that were kept.
    pub fn head(&self) -> &[u8] {
        let len = usize::try_from(self.rest()).unwrap_or(HEAD).min(HEAD);
        self.head.get(..len).unwrap_or_default()
    }

    /// What of it begins with the network header.
    pub fn packet(&self) -> &[u8] {
        self.head().get(usize::from(self.l3)..).unwrap_or_default()
    }

    /// The EtherType of its packet; `None` where it was cut off.
    pub fn ethertype(&self) -> Option<u16> {
        const IPV4: u16 = 0x0800;
        const IPV6: u16 = 0x86dd;
        if self.stripped > 0 {
            // In tunnels there is only IP.
            return self.packet().first().map(|first| if first >> 4 == 6 { IPV6 } else { IPV4 });
        }
        let behind = self.head().get(usize::from(self.l3).checked_sub(2)?..)?;
        behind.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
    }
}

/// What an interface is to the tables of SNMP (IANAifType).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceKind {
    /// All untagged frames of a port: ethernetCsmacd.
    Ethernet = 6,
    /// A loopback: softwareLoopback.
    Loopback = 24,
    /// Frames with tags: l2vlan.
    Vlan = 135,
}

/// An interface and its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Its number.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: InterfaceKind,
    /// Whether it was not set down.
    pub enabled: bool,
    /// Whether packets may come and go by it.
    pub up: bool,
    /// Packets and bytes that came in.
    pub received: [u64; 2],
    /// Packets and bytes that left.
    pub sent: [u64; 2],
}

/// What became of the datagrams to a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The collector.
    pub collector: SocketAddr,
    /// Datagrams that Linux took.
    pub datagrams: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Datagrams that it did not take.
    pub unsent: u64,
    /// Why it did not take the last of those.
    pub why: Option<String>,
}

/// Who has samples and counters. All of it takes no longer than a piece of the function's work; it may be asked by several threads.
pub trait FlowSource: Send + Sync {
    /// Takes the oldest samples, at most [`SAMPLES`] of them.
    fn take(&self) -> Vec<Sample>;

    /// Some interfaces from the one of number `from` on, with their counters; empty behind the last.
    fn interfaces(&self, from: u16) -> Vec<InterfaceCounters>;

    /// The names of VRFs, by number.
    fn vrfs(&self) -> Vec<String>;

    /// What became of datagrams, and how many flows have not ended.
    fn set_exported(&self, exported: &[Exported], flows: usize);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_sample_is_what_was_not_stripped() {
        let mut head = [0; HEAD];
        head[..3].copy_from_slice(&[0x86, 0xdd, 0x60]);
        let sample = |len, stripped, l3| Sample {
            len,
            stripped,
            head,
            l3,
            input: 0,
            vlans: [0; 2],
            vrf: 0,
            hop: FlowHop::UNKNOWN,
            pool: 0,
            lost: 0,
        };
        let whole = sample(60, 0, 2);
        assert_eq!((whole.rest(), whole.head().len(), whole.packet().len()), (60, 60, 58));
        assert_eq!((whole.ethertype(), sample(60, 0, 1).ethertype()), (Some(0x86dd), None));
        assert_eq!(sample(1, 0, 2).ethertype(), None, "it was cut off");
        let inside = sample(260, 54, 2);
        assert_eq!((inside.rest(), inside.head().len(), inside.ethertype()), (206, HEAD, Some(0x86dd)));
        assert_eq!((sample(260, 54, 3).ethertype(), sample(54, 54, 0).ethertype()), (Some(0x0800), None));
    }

    #[test]
    fn a_collector_has_an_address_and_a_port() {
        for text in ["192.0.2.9:6343", "[2001:db8::9]:4739", "[fe80::9%3]:1"] {
            assert_eq!(Collector::parse(text).map(|collector| collector.to_string()).as_deref(), Ok(text));
        }
        let remedy = |text| Collector::parse(text).unwrap_err().remedy;
        assert_eq!(remedy("192.0.2.9"), "write 192.0.2.9:6343");
        assert_eq!(remedy("2001:db8::9"), "write [2001:db8::9]:6343");
        for text in ["", "192.0.2.9:0", "0.0.0.0:6343", "[::]:6343", "host:6343", "192.0.2.9:65536"] {
            assert!(Collector::parse(text).is_err(), "{text}");
        }
    }
}
