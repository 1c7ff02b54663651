//! IP headers of either version.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_wire::ipv6::Fragment;
use weir_wire::{Ipv4, Ipv6, View, ipv4};

/// Whether a protocol's header begins with two ports.
pub(super) const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, ipv4::TCP | ipv4::UDP | ipv4::DCCP | ipv4::SCTP | ipv4::UDP_LITE)
}

/// Where an IP header is, and what lies behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// Where it begins.
    pub(super) at: u16,
    /// Where its payload begins, behind options and extension headers.
    pub(super) payload: u16,
    /// Where its payload ends, as far as it was captured.
    pub(super) end: u32,
    /// Bytes from the start of the header to that of a fragment extension header; 0 if there is none.
    pub(super) fragment: u16,
    /// 4 or 6.
    pub(super) version: u8,
    /// What the payload is.
    pub(super) protocol: u8,
}

impl Header {
    #[inline]
    pub(super) fn of(self, data: &[u8]) -> Ip<'_> {
        Ip { header: self, data }
    }
}

/// An IP header, whole, with what lies behind it.
#[derive(Clone, Copy, Debug)]
pub struct Ip<'a> {
    header: Header,
    data: &'a [u8],
}

/// One of the two headers.
enum Version<'a> {
    Four(&'a Ipv4),
    Six(&'a Ipv6),
}

impl<'a> Ip<'a> {
    /// 4 or 6.
    #[inline]
    pub fn version(&self) -> u8 {
        self.header.version
    }

    /// Where the header begins.
    #[inline]
    pub fn at(&self) -> usize {
        usize::from(self.header.at)
    }

    /// Where the payload begins, behind options and extension headers.
    #[inline]
    pub fn payload_at(&self) -> usize {
        usize::from(self.header.payload)
    }

    /// Where the payload ends, by the header's length field, as far as it was captured. What follows pads the frame.
    #[inline]
    pub fn end(&self) -> usize {
        self.header.end as usize
    }

    /// What the packet carries, as far as it was captured.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.data.get(self.payload_at()..self.end()).unwrap_or_default()
    }

    /// What the payload is, behind extension headers.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.header.protocol
    }

    /// The IPv4 header, if it is one.
    #[inline]
    pub fn v4(&self) -> Option<&'a Ipv4> {
        Ipv4::view(self.data.get(self.at()..)?).filter(|_| self.header.version == 4)
    }

    /// The IPv6 header, if it is one.
    #[inline]
    pub fn v6(&self) -> Option<&'a Ipv6> {
        Ipv6::view(self.data.get(self.at()..)?).filter(|_| self.header.version == 6)
    }

    #[inline]
    fn either(&self) -> Option<Version<'a>> {
        self.v4().map(Version::Four).or_else(|| self.v6().map(Version::Six))
    }

    /// The source address: 4 or 16 bytes.
    #[inline]
    pub fn source(&self) -> &'a [u8] {
        self.address(12, 8)
    }

    /// The destination address: 4 or 16 bytes.
    #[inline]
    pub fn destination(&self) -> &'a [u8] {
        self.address(16, 24)
    }

    #[inline]
    fn address(&self, four: usize, six: usize) -> &'a [u8] {
        let (at, len) = if self.header.version == 4 { (four, 4) } else { (six, 16) };
        self.data.get(self.at() + at..self.at() + at + len).unwrap_or_default()
    }

    /// The source address.
    pub fn source_addr(&self) -> IpAddr {
        match self.either() {
            Some(Version::Four(ip)) => ip.source_addr().into(),
            Some(Version::Six(ip)) => ip.source_addr().into(),
            None => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        }
    }

    /// The destination address.
    pub fn destination_addr(&self) -> IpAddr {
        match self.either() {
            Some(Version::Four(ip)) => ip.destination_addr().into(),
            Some(Version::Six(ip)) => ip.destination_addr().into(),
            None => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }

    /// Differentiated services code point, 0..=63.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.class() >> 2
    }

    /// Explicit congestion notification, 0..=3.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.class() & 3
    }

    #[inline]
    fn class(&self) -> u8 {
        match self.either() {
            Some(Version::Four(ip)) => ip.tos,
            Some(Version::Six(ip)) => ip.traffic_class(),
            None => 0,
        }
    }

    /// TTL or hop limit.
    #[inline]
    pub fn ttl(&self) -> u8 {
        match self.either() {
            Some(Version::Four(ip)) => ip.ttl,
            Some(Version::Six(ip)) => ip.hop_limit,
            None => 0,
        }
    }

    /// The flow label of IPv6.
    #[inline]
    pub fn flow_label(&self) -> Option<u32> {
        self.v6().map(Ipv6::flow_label)
    }

    /// Where the fragment extension header of an IPv6 packet begins.
    #[inline]
    pub fn fragment_header_at(&self) -> Option<usize> {
        (self.header.fragment > 0).then(|| self.at() + usize::from(self.header.fragment))
    }

    fn fragment_header(&self) -> Option<&'a Fragment> {
        Fragment::view(self.data.get(self.fragment_header_at()?..)?)
    }

    /// What the fragments of one packet share: in IPv4 always there, in IPv6 only with a fragment header.
    #[inline]
    pub fn identification(&self) -> Option<u32> {
        match self.v4() {
            Some(ip) => Some(u32::from(ip.identification.get())),
            None => self.fragment_header().map(|fragment| fragment.identification.get()),
        }
    }

    /// Where the payload belongs in the whole packet, bytes.
    #[inline]
    pub fn fragment_offset(&self) -> usize {
        match self.v4() {
            Some(ip) => ip.fragment_offset(),
            None => self.fragment_header().map_or(0, Fragment::offset),
        }
    }

    /// Whether fragments follow this one.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        match self.v4() {
            Some(ip) => ip.more_fragments(),
            None => self.fragment_header().is_some_and(Fragment::more),
        }
    }

    /// Whether it is a part of a packet.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.more_fragments() || self.fragment_offset() > 0
    }
}

/// What tells connections apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FiveTuple {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol, behind extension headers.
    pub protocol: u8,
    /// Source and destination port, of protocols that have some; a later fragment has none.
    pub ports: Option<(u16, u16)>,
}
