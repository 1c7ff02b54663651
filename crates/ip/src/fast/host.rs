//! Which frames are for Linux, where it speaks for the VRF, though nothing in Weir listens to them: the control protocols of links.

use weir_packet::Packet;
use weir_wire::{Ethernet, View};

use crate::fast::bad::{Bad, Bad4};
use crate::fast::classify::{Finding, Frame};
use crate::fast::lookups::destination;

/// EtherTypes below are lengths: what follows is LLC (IEEE 802.3 clause 3.2.6), as IS-IS and spanning trees have it.
const LEAST_ETHERTYPE: u16 = 0x600;

/// EtherTypes of slow protocols (LACP), EAPOL, and LLDP.
const SLOW_PROTOCOLS: u16 = 0x8809;
const EAPOL: u16 = 0x888e;
const LLDP: u16 = 0x88cc;

/// Beginnings of the groups that control protocols send to: those of IEEE 802.1Q table 8-1 and of IS-IS (01-80-c2-00-00), and those of ISO 9542
/// (09-00-2b-00-00).
const GROUPS: [[u8; 5]; 2] = [[0x01, 0x80, 0xc2, 0, 0], [0x09, 0, 0x2b, 0, 0]];

/// Whether a frame of which this was found is for Linux.
pub(crate) fn is_for_host(finding: Finding, packet: &Packet, frame: Frame) -> bool {
    match finding {
        // 224.0.0.0/24 stays on its link (RFC 5771 section 4): OSPF, RIP, VRRP, PIM, IGMP.
        Finding::Bad4(Bad4::Multicast) => destination(packet, frame.l3) >> 8 == 0xe0_0000,
        Finding::Bad4(Bad4::Broadcast) => true,
        Finding::Bad(Bad::UnknownEthertype) => is_of_link(packet, frame.ethertype()),
        _ => false,
    }
}

/// Whether a frame that carries no IP is of a control protocol.
fn is_of_link(packet: &Packet, ethertype: u16) -> bool {
    let Some(header) = Ethernet::view(packet.bytes()) else { return false };
    let [a, b, c, d, e, _] = header.destination.0;
    let is_known = ethertype < LEAST_ETHERTYPE || [SLOW_PROTOCOLS, EAPOL, LLDP].contains(&ethertype);
    is_known && GROUPS.contains(&[a, b, c, d, e])
}
