//! From named layers to bytes: where each field lies, which checksums cover it, and which lengths follow from the frame's.

mod builder;

use weir_wire::{ethernet, ipv4};

use crate::config::{
    ArpLayer, EthernetLayer, GreLayer, IcmpLayer, Ipv4Layer, Ipv6Layer, Layer, MplsLayer, RawLayer, TcpLayer, UdpLayer,
    VlanLayer, VxlanLayer,
};
use crate::values::Values;

/// A field that takes more than one value.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// What it is called, and its column in a table if nothing else is said: `ipv4.source`.
    pub(crate) name: String,
    /// Position of the word that it is in, an even number.
    pub(crate) at: usize,
    /// Bytes of that word: 2, 4 or 8.
    pub(crate) width: usize,
    /// Bits of the word to the right of it.
    pub(crate) shift: u32,
    /// Bits that it has.
    pub(crate) bits: u32,
    /// Whether it holds a port.
    pub(crate) is_port: bool,
    /// Which part of the values stands here.
    pub(crate) part: Part,
    pub(crate) values: Values,
}

/// Which part of a field's values a word holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// The upper 64 bits of 128.
    Upper,
    /// The lower ones. The place of the upper ones comes right before it.
    Lower,
}

impl Part {
    /// This part of a value.
    pub(crate) const fn of(self, value: u128) -> u64 {
        match self {
            Part::Upper => (value >> 64) as u64,
            Part::Whole | Part::Lower => value as u64,
        }
    }
}

impl Place {
    /// Bits of the whole field.
    pub(crate) fn field_bits(&self) -> u32 {
        if self.part == Part::Whole { self.bits } else { 128 }
    }
}

/// A 16-bit length that follows from the frame's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LengthPlace {
    pub(crate) at: usize,
    /// Where what it counts begins; it ends with the frame.
    pub(crate) from: usize,
}

/// A checksum.
#[derive(Debug, Clone)]
pub(crate) struct SumPlace {
    pub(crate) at: usize,
    /// Where what it covers begins.
    pub(crate) from: usize,
    /// Where that ends; at the end of the frame when absent.
    pub(crate) to: Option<usize>,
    /// The addresses that it covers too: from, to.
    pub(crate) pseudo: Option<(usize, usize)>,
    /// What the pseudo header adds beside addresses and length.
    pub(crate) protocol: u8,
    /// Whether a sum of 0 is written as all ones (UDP).
    pub(crate) never_zero: bool,
}

impl SumPlace {
    /// Whether it covers the word at a position.
    pub(crate) fn covers(&self, at: usize) -> bool {
        let own = at >= self.from && self.to.is_none_or(|to| at < to);
        own || self.pseudo.is_some_and(|(from, to)| (from..to).contains(&at))
    }
}

/// The headers of a packet, before its data.
#[derive(Debug, Clone, Default)]
pub(crate) struct Built {
    /// The bytes, varying fields, lengths and checksums zero.
    pub(crate) bytes: Vec<u8>,
    pub(crate) places: Vec<Place>,
    pub(crate) lengths: Vec<LengthPlace>,
    pub(crate) sums: Vec<SumPlace>,
}

/// What is wrong with layers: which, counted from 0, and a sentence.
pub(crate) type Wrong = (usize, String);

/// What the layers need to know about the port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Around {
    /// The port's Ethernet address.
    pub(crate) mac: [u8; 6],
}

/// EtherType of Ethernet inside GRE (RFC 7637) and the protocol number of MPLS (RFC 4023).
const TRANSPARENT_ETHERNET: u16 = 0x6558;
const MPLS_IN_IP: u8 = 137;
const ICMPV6: u8 = 58;

/// One layer, of whatever kind.
#[derive(Debug, Clone, Copy)]
enum One<'a> {
    Ethernet(&'a EthernetLayer),
    Vlan(&'a VlanLayer),
    Mpls(&'a MplsLayer),
    Arp(&'a ArpLayer),
    Ipv4(&'a Ipv4Layer),
    Ipv6(&'a Ipv6Layer),
    Gre(&'a GreLayer),
    Udp(&'a UdpLayer),
    Tcp(&'a TcpLayer),
    Icmp(&'a IcmpLayer),
    Vxlan(&'a VxlanLayer),
    Raw(&'a RawLayer),
}

impl One<'_> {
    fn of(layer: &Layer) -> Vec<One<'_>> {
        let Layer { ethernet, vlan, mpls, arp, ipv4, ipv6, gre, udp, tcp, icmp, vxlan, raw } = layer;
        let all = [
            ethernet.as_ref().map(One::Ethernet),
            vlan.as_ref().map(One::Vlan),
            mpls.as_ref().map(One::Mpls),
            arp.as_ref().map(One::Arp),
            ipv4.as_ref().map(One::Ipv4),
            ipv6.as_ref().map(One::Ipv6),
            gre.as_ref().map(One::Gre),
            udp.as_ref().map(One::Udp),
            tcp.as_ref().map(One::Tcp),
            icmp.as_ref().map(One::Icmp),
            vxlan.as_ref().map(One::Vxlan),
            raw.as_ref().map(One::Raw),
        ];
        all.into_iter().flatten().collect()
    }

    fn name(self) -> &'static str {
        match self {
            One::Ethernet(_) => "ethernet",
            One::Vlan(_) => "vlan",
            One::Mpls(_) => "mpls",
            One::Arp(_) => "arp",
            One::Ipv4(_) => "ipv4",
            One::Ipv6(_) => "ipv6",
            One::Gre(_) => "gre",
            One::Udp(_) => "udp",
            One::Tcp(_) => "tcp",
            One::Icmp(_) => "icmp",
            One::Vxlan(_) => "vxlan",
            One::Raw(_) => "raw",
        }
    }

    /// The layers that may stand before it; none: it comes first.
    fn behind(self) -> &'static [&'static str] {
        match self {
            One::Ethernet(_) => &["", "vxlan", "gre"],
            One::Vlan(_) | One::Arp(_) => &["ethernet", "vlan"],
            One::Mpls(_) => &["ethernet", "vlan", "mpls", "gre", "ipv4", "ipv6"],
            One::Ipv4(_) | One::Ipv6(_) => &["ethernet", "vlan", "mpls", "gre", "ipv4", "ipv6"],
            One::Gre(_) | One::Udp(_) | One::Tcp(_) | One::Icmp(_) => &["ipv4", "ipv6"],
            One::Vxlan(_) => &["udp"],
            One::Raw(_) => &["ethernet", "vlan", "mpls", "arp", "ipv4", "ipv6", "gre", "udp", "tcp", "icmp", "vxlan"],
        }
    }

    /// Its EtherType, knowing what follows it.
    fn ethertype(self, next: Option<One<'_>>) -> Option<u16> {
        Some(match self {
            One::Vlan(_) if matches!(next, Some(One::Vlan(_))) => ethernet::SVLAN,
            One::Vlan(_) => ethernet::CVLAN,
            One::Mpls(_) => ethernet::MPLS,
            One::Arp(_) => ethernet::ARP,
            One::Ipv4(_) => ethernet::IPV4,
            One::Ipv6(_) => ethernet::IPV6,
            One::Ethernet(_) => TRANSPARENT_ETHERNET,
            _ => return None,
        })
    }

    /// Its protocol number behind an IP header.
    fn protocol(self, version: u8) -> Option<u8> {
        Some(match self {
            One::Ipv4(_) => ipv4::IPIP,
            One::Ipv6(_) => ipv4::IPV6,
            One::Gre(_) => ipv4::GRE,
            One::Udp(_) => ipv4::UDP,
            One::Tcp(_) => ipv4::TCP,
            One::Icmp(_) if version == 6 => ICMPV6,
            One::Icmp(_) => ipv4::ICMP,
            One::Mpls(_) => MPLS_IN_IP,
            _ => return None,
        })
    }
}

/// The usual packet: UDP in IPv4 in Ethernet.
pub(crate) fn usual() -> Vec<Layer> {
    let none = Layer {
        ethernet: None,
        vlan: None,
        mpls: None,
        arp: None,
        ipv4: None,
        ipv6: None,
        gre: None,
        udp: None,
        tcp: None,
        icmp: None,
        vxlan: None,
        raw: None,
    };
    let ethernet = EthernetLayer { source: None, destination: None, ethertype: None };
    let ip = Ipv4Layer {
        source: None,
        destination: None,
        ttl: None,
        dscp: None,
        ecn: None,
        identification: None,
        dont_fragment: None,
        protocol: None,
    };
    vec![
        Layer { ethernet: Some(ethernet), ..none.clone() },
        Layer { ipv4: Some(ip), ..none.clone() },
        Layer { udp: Some(UdpLayer { source: None, destination: None }), ..none },
    ]
}

/// Puts layers together.
///
/// # Errors
///
/// Everything that is wrong with them.
pub(crate) fn build(layers: &[Layer], around: Around) -> Result<Built, Vec<Wrong>> {
    let mut wrong = Vec::new();
    let mut chain = Vec::new();
    for (n, layer) in layers.iter().enumerate() {
        match One::of(layer).as_slice() {
            [one] => chain.push(*one),
            several => {
                let names: Vec<&str> = several.iter().map(|one| one.name()).collect();
                let found = if names.is_empty() { "none".to_owned() } else { names.join(" and ") };
                wrong.push((n, format!("has {found} of the layers; write each layer as a table of its own")));
            }
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    for (n, one) in chain.iter().enumerate() {
        let before = n.checked_sub(1).and_then(|n| chain.get(n)).map_or("", |one| one.name());
        if !one.behind().contains(&before) {
            let (name, places) = (one.name(), one.behind());
            let places: Vec<&str> =
                places.iter().map(|place| if place.is_empty() { "nothing" } else { place }).collect();
            let before = if before.is_empty() { "nothing" } else { before };
            wrong.push((n, format!("puts {name} behind {before}; it may stand behind {}", places.join(", "))));
        }
    }
    builder::put_down(&chain, wrong, around)
}
