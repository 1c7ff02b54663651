//! A packet on the slow path: where it came from, and what its header says, whichever family it is of.

use std::net::IpAddr;

use weir_net::{Family, VrfId};
use weir_packet::{Held, Packet};
use weir_wire::{Ipv4, Ipv6, MacAddr, View, flow};

use super::HEADER;

use crate::InterfaceId;
use crate::lines::Line;

/// Where a packet came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// The interface that it came in by; of one that was made here, the one that it goes out by if its destination does not tell that.
    pub(super) interface: InterfaceId,
    /// The VRF in which is decided where it goes, unless one was chosen, and where answers to it go.
    pub(super) vrf: VrfId,
    /// The VRF that an access list chose for it.
    pub(super) chosen: Option<VrfId>,
    /// It was made here: it loses no hop, and nobody is told when it cannot be sent.
    pub(super) is_own: bool,
    /// The line that it is of.
    pub(super) line: Option<Line>,
    /// Who sent the frame, of packets from lines.
    pub(super) station: MacAddr,
}

impl Origin {
    /// That of a packet that came in by an interface of a VRF.
    pub(super) const fn of(interface: InterfaceId, vrf: VrfId) -> Origin {
        Origin { interface, vrf, chosen: None, is_own: false, line: None, station: MacAddr::ZERO }
    }

    /// That of a packet that is made here because of one that came from there: it goes back there, whatever was chosen for the other.
    pub(super) fn own(self) -> Origin {
        Origin { is_own: true, chosen: None, ..self }
    }

    /// The VRF in which is decided where a packet goes.
    pub(super) fn looked_up_in(self) -> VrfId {
        self.chosen.unwrap_or(self.vrf)
    }

    /// What a packet that was made here and comes back to be held has for a destination MAC address: it has no header yet, and says
    /// there where it is from. No group, for it did not come as a broadcast.
    pub(super) fn to_mac(self) -> MacAddr {
        let ([a, b], [c, d]) = (self.vrf.to_be_bytes(), self.interface.to_be_bytes());
        MacAddr([2, 0, a, b, c, d])
    }

    /// The origin of a packet that was made here and came back.
    pub(super) fn from_mac(MacAddr([_, _, a, b, c, d]): MacAddr) -> Origin {
        Origin::of(u16::from_be_bytes([c, d]), u16::from_be_bytes([a, b])).own()
    }
}

/// A packet and its origin. Its frame has no tags.
pub(super) struct Parcel {
    pub(super) packet: Held,
    pub(super) origin: Origin,
}

impl Parcel {
    /// The packet without its Ethernet header.
    pub(super) fn ip(&self) -> &[u8] {
        ip_bytes(self.packet.packet())
    }

    /// What its header says; `None` if there is no whole one.
    pub(super) fn header(&self) -> Option<Header> {
        Header::of(self.ip())
    }

    /// Whether it is of IPv6.
    pub(super) fn is_six(&self) -> bool {
        is_six(self.ip())
    }

    /// The hash of its flow.
    pub(super) fn hash(&self, seed: u64) -> u32 {
        let frame = self.packet.packet();
        let (window, received) = (frame.window::<64>(HEADER), frame.len().saturating_sub(HEADER));
        match self.is_six() {
            true => flow::hash6(window, received, seed),
            false => flow::hash(window, received, seed),
        }
    }
}

/// What the slow path needs to know of a header, of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    /// Hops that are left.
    pub(super) hops: u8,
    /// Bytes of the packet.
    pub(super) total: usize,
    /// Whether a router may take it apart; never in IPv6.
    pub(super) may_be_fragmented: bool,
}

impl Header {
    pub(super) fn of(packet: &[u8]) -> Option<Header> {
        if is_six(packet) {
            let ip = Ipv6::view(packet)?;
            return Some(Header {
                source: ip.source_addr().into(),
                destination: ip.destination_addr().into(),
                hops: ip.hop_limit,
                total: Ipv6::LEN + usize::from(ip.payload_length.get()),
                may_be_fragmented: false,
            });
        }
        let ip = Ipv4::view(packet)?;
        Some(Header {
            source: ip.source_addr().into(),
            destination: ip.destination_addr().into(),
            hops: ip.ttl,
            total: ip.total_len(),
            may_be_fragmented: !ip.dont_fragment(),
        })
    }
}

/// Whether a packet is one of IPv6; what comes here is of one family or the other.
fn is_six(packet: &[u8]) -> bool {
    packet.first().is_some_and(|byte| byte >> 4 == 6)
}

/// Takes a hop off a packet.
pub(super) fn take_hop(packet: &mut [u8]) {
    if is_six(packet) {
        if let Some(ip) = Ipv6::view_mut(packet) {
            ip.hop_limit = ip.hop_limit.saturating_sub(1);
        }
    } else if let Some(ip) = Ipv4::view_mut(packet) {
        ip.decrement_ttl();
    }
}

/// Whether an address counts on its link only, so that routes say nothing of it.
pub(super) fn is_of_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_link_local() || address.is_multicast(),
    }
}

/// The packet in a frame.
pub(super) fn ip_bytes(packet: &Packet) -> &[u8] {
    packet.bytes().get(HEADER..).unwrap_or_default()
}

/// The packet in a frame, to change.
pub(super) fn ip_bytes_mut(packet: &mut Packet) -> &mut [u8] {
    packet.bytes_mut().get_mut(HEADER..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_still_knows_its_origin() {
        for (vrf, interface) in [(0, 0), (1, 0xfeff), (0xffff, 1), (0x1234, 0x5678)] {
            let origin = Origin::of(interface, vrf).own();
            assert_eq!(Origin::from_mac(origin.to_mac()), origin);
            assert!(!origin.to_mac().is_group());
        }
    }

    #[test]
    fn headers_of_both_families_are_read_alike() {
        let mut four = [0; 20];
        (four[0], four[3], four[6], four[8], four[15], four[19]) = (0x45, 77, 0x40, 9, 1, 2);
        let mut six = [0; 40];
        (six[0], six[5], six[7], six[23], six[39]) = (0x60, 37, 9, 1, 2);
        let [four_header, six_header] = [&four[..], &six[..]].map(|bytes| Header::of(bytes).unwrap());
        let said = |header: Header| (header.hops, header.total, header.may_be_fragmented);
        assert_eq!((said(four_header), said(six_header)), ((9, 77, false), (9, 77, false)));
        let ends = |header: Header| [header.source.to_string(), header.destination.to_string()];
        assert_eq!(
            (ends(four_header), ends(six_header)),
            (["0.0.0.1", "0.0.0.2"].map(str::to_owned), ["::1", "::2"].map(str::to_owned))
        );
        four[6] = 0;
        assert!(Header::of(&four).unwrap().may_be_fragmented);
        for bytes in [&mut four[..], &mut six[..]] {
            take_hop(bytes);
            assert_eq!(Header::of(bytes).unwrap().hops, 8);
            assert_eq!(Header::of(&bytes[..19]), None);
        }
        assert!(["fe80::1", "ff02::1", "ff0e::1"].iter().all(|text| is_of_link(text.parse().unwrap())));
        assert!(["2001:db8::1", "169.254.0.1", "224.0.0.1"].iter().all(|text| !is_of_link(text.parse().unwrap())));
    }
}
