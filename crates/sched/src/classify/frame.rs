//! What classification looks at in a frame.

use std::hint::cold_path;
use std::net::IpAddr;

use weir_wire::vlan::{self, Vlan};
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet, ipv4, ipv6};

/// Tags that are looked past.
pub const MAX_TAGS: usize = 2;

/// Where things are in a frame, and what its tags say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// How many tags it has, of [`MAX_TAGS`] at most.
    pub tags: u8,
    /// The VLAN identifiers, the outer one first; 0 where there is none.
    pub vlans: [u16; MAX_TAGS],
    /// The priority code point of the outer tag.
    pub priority: u8,
    /// The EtherType behind the tags.
    pub ethertype: u16,
    /// Where what that announces begins.
    pub l3: usize,
}

impl Frame {
    /// Looks at a frame. One that ends too early has the EtherType 0.
    #[inline]
    pub fn of(bytes: &[u8]) -> Frame {
        let Some(header) = Ethernet::view(bytes) else {
            cold_path();
            return Frame::default();
        };
        let mut frame = Frame { ethertype: header.ethertype.get(), l3: Ethernet::LEN, ..Frame::default() };
        for n in 0..MAX_TAGS {
            if !vlan::is_tag(frame.ethertype) {
                break;
            }
            let Some(tag) = bytes.get(frame.l3..).and_then(Vlan::view) else {
                cold_path();
                return Frame { ethertype: 0, ..frame };
            };
            if n == 0 {
                frame.priority = tag.priority();
            }
            if let Some(vlan) = frame.vlans.get_mut(n) {
                *vlan = tag.id();
            }
            frame.tags += 1;
            frame.ethertype = tag.ethertype.get();
            frame.l3 += Vlan::LEN;
        }
        frame
    }

    /// The DSCP, if it is an IP packet.
    #[inline]
    pub fn dscp(&self, bytes: &[u8]) -> Option<u8> {
        match self.ethertype {
            ethernet::IPV4 => bytes.get(self.l3 + 1).map(|tos| tos >> 2),
            ethernet::IPV6 => {
                let ip = bytes.get(self.l3..)?;
                Some(Ipv6::view(ip)?.traffic_class() >> 2)
            }
            _ => None,
        }
    }

    /// Addresses, protocol, and ports where they can be seen: not in later fragments, nor behind headers that end too early.
    pub fn flow(&self, bytes: &[u8]) -> Option<Flow> {
        let packet = bytes.get(self.l3..)?;
        match self.ethertype {
            ethernet::IPV4 => {
                let ip = Ipv4::view(packet)?;
                let (source, destination) = (ip.source_addr().into(), ip.destination_addr().into());
                let rest = packet.get(ip.header_len().max(Ipv4::LEN)..).filter(|_| ip.fragment_offset() == 0);
                Some(Flow { source, destination, protocol: ip.protocol, ports: ports(ip.protocol, rest) })
            }
            ethernet::IPV6 => {
                let ip = Ipv6::view(packet)?;
                let (source, destination) = (ip.source_addr().into(), ip.destination_addr().into());
                let upper = ipv6::upper(packet)?;
                let rest = packet.get(upper.at..).filter(|_| upper.whole && !upper.later);
                Some(Flow { source, destination, protocol: upper.protocol, ports: ports(upper.protocol, rest) })
            }
            _ => None,
        }
    }
}

/// What rules look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The protocol; with IPv6, that behind extension headers.
    pub protocol: u8,
    /// Source and destination port.
    pub ports: Option<(u16, u16)>,
}

fn ports(protocol: u8, rest: Option<&[u8]>) -> Option<(u16, u16)> {
    let has = matches!(protocol, ipv4::TCP | ipv4::UDP | ipv4::SCTP | ipv4::DCCP | ipv4::UDP_LITE);
    match *rest.filter(|_| has)?.first_chunk()? {
        [a, b, c, d] => Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))),
    }
}
