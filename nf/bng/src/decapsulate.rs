//! What a packet from the core is, looked at one by one and clause by clause: for those that the fast path refused.

use weir_wire::mpls::Label;
use weir_wire::validity::Defect;
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet, ipv4, martian};

use crate::core::Core;
use crate::downstream::Exit;
use crate::encap::{GRE, mac_word};
use crate::examine::{is_neighbor_discovery, sound};
use crate::frame::MOST_LABELS;
use crate::marking::CONGESTED;
use crate::ports::Ports;

/// Where frames from the core come.
#[derive(Clone, Copy)]
pub(crate) struct Here<'t> {
    pub(crate) ports: &'t Ports,
    pub(crate) core: &'t Core,
    /// The gateway's end of tunnels.
    pub(crate) local: u32,
}

/// A customer's packet as it was found inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inner {
    /// The GRE key; 0 without a tunnel.
    pub(crate) key: u32,
    pub(crate) destination: u32,
    /// Where it begins in the frame.
    pub(crate) offset: u8,
    /// Whether congestion was marked on the outer header.
    pub(crate) congested: bool,
}

/// Finds the customer's packet in a frame that came in by the port of this index.
///
/// # Errors
///
/// What else becomes of the frame.
pub(crate) fn decapsulate<const TUNNEL: bool>(here: Here<'_>, frame: &[u8], port: u16) -> Result<Inner, Exit> {
    let (link, rest) = Ethernet::split(frame).ok_or(Exit::TooShort)?;
    let ethertype = link.ethertype.get();
    let is_ours = mac_word(link.destination) == here.ports.ingress(port).mac;
    let is_question = ethertype == ethernet::ARP && link.destination.is_broadcast();
    let is_to_group = ethertype == ethernet::IPV6 && link.destination.is_group();
    if !is_ours && !is_question && !is_to_group {
        return Err(Exit::NotForUs);
    }
    let labels = match ethertype {
        ethernet::IPV4 => 0,
        ethernet::ARP => return Err(Exit::Arp),
        ethernet::MPLS => pop(rest)?,
        ethernet::IPV6 if TUNNEL || is_to_group || is_of_link(rest) => return Err(Exit::Local),
        ethernet::IPV6 => return Err(Exit::Ipv6),
        _ => return Err(Exit::UnknownEthertype),
    };
    let packet = rest.get(labels..).unwrap_or_default();
    let tunnel = if TUNNEL { tunnel(here, packet)? } else { Tunnel { key: 0, congested: false, len: 0 } };
    // What follows the outer packet is no part of it.
    let end = if TUNNEL { Ipv4::view(packet).map_or(0, Ipv4::total_len) } else { packet.len() };
    let ip = sound(packet.get(tunnel.len..end).unwrap_or_default()).map_err(Exit::from)?;
    addresses(ip)?;
    let destination = ip.destination.get();
    if !TUNNEL && here.core.is_own(destination) {
        return Err(Exit::Local);
    }
    // At most 14 + 32 + 60 + 8 bytes stand before it.
    let offset = (Ethernet::LEN + labels + tunnel.len) as u8;
    Ok(Inner { key: tunnel.key, destination, offset, congested: tunnel.congested })
}

/// Whether an IPv6 packet is of the link that it came by: from or to a link-local address, or for one of the gateway's neighbours to hear.
fn is_of_link(packet: &[u8]) -> bool {
    let of_link = |address: std::net::Ipv6Addr| address.is_unicast_link_local() || address.is_unspecified();
    is_neighbor_discovery(packet)
        || Ipv6::view(packet).is_some_and(|ip| of_link(ip.source_addr()) || of_link(ip.destination_addr()))
}

/// Bytes of the label stack at the start.
fn pop(mut rest: &[u8]) -> Result<usize, Exit> {
    for depth in 1..=MOST_LABELS {
        let (label, behind) = Label::split(rest).ok_or(Exit::MplsTruncated)?;
        if label.is_bottom() {
            return Ok(depth * Label::LEN);
        }
        rest = behind;
    }
    Err(Exit::MplsTooDeep)
}

/// What a tunnel's headers say.
struct Tunnel {
    key: u32,
    congested: bool,
    /// Bytes of outer IPv4 header and GRE header.
    len: usize,
}

/// Reads a tunnel's headers.
fn tunnel(here: Here<'_>, packet: &[u8]) -> Result<Tunnel, Exit> {
    let ip = sound(packet).map_err(|_| Exit::OuterInvalid)?;
    let (source, destination) = (ip.source.get(), ip.destination.get());
    if martian::is_martian_source(source) || martian::is_link_local(source) {
        return Err(Exit::OuterInvalid);
    }
    if destination != here.local {
        return Err(if here.core.is_own(destination) { Exit::Local } else { Exit::OuterDestination });
    }
    if ip.protocol != ipv4::GRE {
        return Err(Exit::Local);
    }
    if ip.is_fragment() {
        return Err(Exit::Fragment);
    }
    let payload = ipv4::payload(packet).ok_or(Exit::OuterInvalid)?;
    let header = payload.first_chunk::<GRE>().ok_or(Exit::GreTruncated)?;
    let [f0, f1, p0, p1, k0, k1, k2, k3] = *header;
    gre_flags(u16::from_be_bytes([f0, f1]))?;
    match u16::from_be_bytes([p0, p1]) {
        ethernet::IPV4 => {}
        ethernet::IPV6 => return Err(Exit::Ipv6),
        _ => return Err(Exit::GreProtocol),
    }
    Ok(Tunnel {
        key: u32::from_be_bytes([k0, k1, k2, k3]),
        congested: ip.tos & CONGESTED == CONGESTED,
        len: ip.header_len() + GRE,
    })
}

/// Whether a key and nothing else is present (RFC 2890 section 2).
fn gre_flags(flags: u16) -> Result<(), Exit> {
    const CHECKSUM: u16 = 0x8000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    if flags & CHECKSUM != 0 {
        Err(Exit::GreChecksum)
    } else if flags & SEQUENCE != 0 {
        Err(Exit::GreSequence)
    } else if flags & !KEY != 0 {
        Err(Exit::GreFlags)
    } else if flags & KEY == 0 {
        Err(Exit::GreNoKey)
    } else {
        Ok(())
    }
}

impl From<Defect> for Exit {
    fn from(defect: Defect) -> Exit {
        match defect {
            Defect::TooShort => Exit::IpTooShort,
            Defect::Version => Exit::IpVersion,
            Defect::HeaderLength => Exit::IpHeaderLength,
            Defect::Checksum => Exit::IpChecksum,
            Defect::TotalLength => Exit::IpTotalLength,
            Defect::Truncated => Exit::IpTruncated,
        }
    }
}

/// Whether a packet may be forwarded from and to its addresses.
fn addresses(ip: &Ipv4) -> Result<(), Exit> {
    let (source, destination) = (ip.source.get(), ip.destination.get());
    if martian::is_multicast(destination) {
        Err(Exit::Multicast)
    } else if martian::is_limited_broadcast(destination) {
        Err(Exit::Broadcast)
    } else if martian::is_martian_source(source) {
        Err(Exit::MartianSource)
    } else if martian::is_martian_destination(destination) {
        Err(Exit::MartianDestination)
    } else if martian::is_link_local(source) || martian::is_link_local(destination) {
        Err(Exit::LinkLocal)
    } else {
        Ok(())
    }
}
