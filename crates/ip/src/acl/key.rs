//! What of a packet rules look at.
//!
//! A fragment that is not the first has addresses, a protocol and a DSCP, but neither ports nor flags nor an ICMP type: no rule that asks for
//! one of these matches it. The same holds where a packet ends before them.

use weir_packet::Packet;
use weir_wire::tcp::Tcp;
use weir_wire::{Ipv4, Ipv6, View, ethernet, ipv4, ipv6};

use super::rule::words;

/// Words of a key of IPv4: source, destination, facts, ports.
pub(crate) const FOUR: usize = 4;

/// Words of a key of IPv6: source and destination, four each, facts, ports.
pub(crate) const SIX: usize = 10;

/// Facts: the protocol behind all extension headers.
pub(crate) const PROTOCOL: u32 = 0xff;
/// Where the flags of TCP are among the facts.
pub(crate) const FLAGS_AT: u32 = 8;
/// Where the DSCP is.
pub(crate) const DSCP_AT: u32 = 16;
/// It is a fragment.
pub(crate) const FRAGMENT: u32 = 1 << 22;
/// It is not the first one.
pub(crate) const LATER: u32 = 1 << 23;
/// It has ports, or a type and a code of ICMP.
pub(crate) const HAS_PORTS: u32 = 1 << 24;
/// It has flags.
pub(crate) const HAS_FLAGS: u32 = 1 << 25;

/// What the key of a packet is made of.
pub(crate) enum Key {
    Four([u32; FOUR]),
    Six([u32; SIX]),
    /// Not IP, or cut short: no rule is for it.
    Other,
}

impl Key {
    /// The key of a packet whose network header begins at `l3`.
    #[inline(always)]
    pub(crate) fn of(packet: &Packet, l3: usize) -> Key {
        let length = packet.len().saturating_sub(l3);
        match u16::from_be_bytes(*packet.window(l3.wrapping_sub(2))) {
            ethernet::IPV4 if length >= Ipv4::LEN => four(packet, l3, length),
            ethernet::IPV6 if length >= Ipv6::LEN => six(packet, l3, length),
            _ => Key::Other,
        }
    }
}

/// Whether a protocol has ports in its first four bytes.
pub(crate) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, ipv4::TCP | ipv4::UDP | ipv4::UDP_LITE | ipv4::SCTP | ipv4::DCCP)
}

#[inline(always)]
fn four(packet: &Packet, l3: usize, length: usize) -> Key {
    let Some(ip) = Ipv4::view(packet.window::<{ Ipv4::LEN }>(l3)) else { return Key::Other };
    let header = ip.header_len();
    let later = ip.fragment_offset() > 0;
    let mut facts = u32::from(ip.protocol) | u32::from(ip.tos >> 2) << DSCP_AT;
    if ip.is_fragment() {
        facts |= if later { FRAGMENT | LATER } else { FRAGMENT };
    }
    // What follows the IP packet in its frame is none of it.
    let left = if later { 0 } else { length.min(ip.total_len()).saturating_sub(header) };
    // A header and what rules look at behind it fit: at most 22, 60 and 14 bytes.
    let (more, ports) = behind(packet.window(l3 + header), ip.protocol, left);
    Key::Four([ip.source.get(), ip.destination.get(), facts | more, ports])
}

fn six(packet: &Packet, l3: usize, length: usize) -> Key {
    let Some(ip) = Ipv6::view(packet.window::<{ Ipv6::LEN }>(l3)) else { return Key::Other };
    let dscp = u32::from(ip.traffic_class() >> 2) << DSCP_AT;
    let end = length.min(Ipv6::LEN + usize::from(ip.payload_length.get()));
    let (facts, (more, ports)) = if ipv6::is_extension(ip.next_header) {
        let whole = packet.bytes().get(l3..l3 + end).unwrap_or_default();
        let Some(upper) = ipv6::upper(whole) else { return Key::Other };
        let fragment = if upper.fragment.is_some() { FRAGMENT } else { 0 } | if upper.later { LATER } else { 0 };
        let rest = whole.get(upper.at..).filter(|_| !upper.later && upper.whole).unwrap_or_default();
        let mut bytes = [0; Tcp::LEN];
        bytes.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        (u32::from(upper.protocol) | fragment, behind(&bytes, upper.protocol, rest.len()))
    } else {
        let left = end.saturating_sub(Ipv6::LEN);
        (u32::from(ip.next_header), behind(packet.window(l3 + Ipv6::LEN), ip.next_header, left))
    };
    let facts = facts | dscp | more;
    let [a, b, c, d] = words(u128::from_be_bytes(ip.source));
    let [e, f, g, h] = words(u128::from_be_bytes(ip.destination));
    Key::Six([a, b, c, d, e, f, g, h, facts, ports])
}

/// What rules look at behind the network header, where so many bytes are left: more facts, and ports.
#[inline(always)]
fn behind(bytes: &[u8; Tcp::LEN], protocol: u8, left: usize) -> (u32, u32) {
    let [a, b, c, d, ..] = *bytes;
    if left < 4 {
        return (0, 0);
    }
    match protocol {
        ipv4::TCP if left > 13 => {
            (HAS_PORTS | HAS_FLAGS | u32::from(bytes[13]) << FLAGS_AT, u32::from_be_bytes([a, b, c, d]))
        }
        ipv4::ICMP | ipv6::ICMPV6 => (HAS_PORTS, u32::from(a) << 16 | u32::from(b)),
        protocol if has_ports(protocol) => (HAS_PORTS, u32::from_be_bytes([a, b, c, d])),
        _ => (0, 0),
    }
}
