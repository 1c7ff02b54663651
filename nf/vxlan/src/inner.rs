//! What is looked at of the frames in tunnels: their flows, their tags, and whether they have met congestion.

use weir_packet::Packet;
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet, flow, vlan};

/// The ECN field (RFC 3168), and what it says.
const ECN: u8 = 3;
const NOT_CAPABLE: u8 = 0;
const CAPABLE_1: u8 = 1;
const CAPABLE_0: u8 = 2;
const CONGESTED: u8 = 3;

/// Bytes of a tag.
const TAG: usize = 4;

/// What a frame begins with: its Ethernet header, two tags at most that are looked behind, and an EtherType.
type Front = [u8; Ethernet::LEN + 2 * TAG];

/// Whether a frame has a VLAN tag. One too short for an EtherType has none.
#[inline]
pub(crate) fn is_tagged(frame: &[u8]) -> bool {
    Ethernet::view(frame).is_some_and(|link| vlan::is_tag(link.ethertype.get()))
}

/// The EtherType behind tags, and where what follows it begins.
fn behind_tags(front: &Front) -> (u16, usize) {
    let [.., a, b, _, _, c, d, _, _, e, f] = *front;
    match [[a, b], [c, d], [e, f]].map(u16::from_be_bytes) {
        [first, second, third] if vlan::is_tag(first) && vlan::is_tag(second) => (third, Ethernet::LEN + 2 * TAG),
        [first, second, _] if vlan::is_tag(first) => (second, Ethernet::LEN + TAG),
        [first, ..] => (first, Ethernet::LEN),
    }
}

/// The hash of a frame's flow: of what is in it, if that is IP, else of its Ethernet header (RFC 7348 section 5: "a hash of fields from the inner
/// packet").
#[inline]
pub(crate) fn flow_of(packet: &Packet, seed: u64) -> u32 {
    let (ethertype, at) = behind_tags(packet.window(0));
    let received = packet.len().saturating_sub(at);
    match ethertype {
        ethernet::IPV4 => flow::hash(packet.window::<64>(at), received, seed),
        ethernet::IPV6 => flow::hash6(packet.window::<64>(at), received, seed),
        _ => {
            let [one, two] = [0, 6].map(|at| u64::from_ne_bytes(*packet.window(at)));
            flow::one(one, seed ^ two)
        }
    }
}

/// Marks a frame with the congestion that its tunnel met, as its outer header's traffic class says (RFC 6040 section 4.2, figure 4). False if it has
/// to be dropped: whoever sent it would not see the mark.
#[inline]
pub(crate) fn mark(packet: &mut Packet, outer: u8) -> bool {
    let outer = outer & ECN;
    outer & CAPABLE_1 == 0 || mark_inside(packet, outer)
}

#[inline(never)]
fn mark_inside(packet: &mut Packet, outer: u8) -> bool {
    let (ethertype, at) = behind_tags(packet.window(0));
    let inside = packet.bytes_mut().get_mut(at..).unwrap_or_default();
    match ethertype {
        ethernet::IPV4 => Ipv4::view_mut(inside).is_none_or(|ip| {
            let Some(ecn) = onward(ip.tos & ECN, outer) else { return false };
            ip.set_tos(ip.tos & !ECN | ecn);
            true
        }),
        ethernet::IPV6 => Ipv6::view_mut(inside).is_none_or(|ip| {
            let class = ip.traffic_class();
            let Some(ecn) = onward(class & ECN, outer) else { return false };
            ip.set_traffic_class(class & !ECN | ecn);
            true
        }),
        _ => true,
    }
}

/// What the inner header says then; `None` if the packet is dropped.
const fn onward(inner: u8, outer: u8) -> Option<u8> {
    match (inner, outer) {
        (NOT_CAPABLE, CONGESTED) => None,
        (CAPABLE_0 | CAPABLE_1, CONGESTED) => Some(CONGESTED),
        (CAPABLE_0, CAPABLE_1) => Some(CAPABLE_1),
        _ => Some(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6040 figure 4, by columns of the arriving outer header: Not-ECT, ECT(0), ECT(1), CE.
    #[test]
    fn congestion_goes_on_as_the_standard_says() {
        let figure = [
            (NOT_CAPABLE, [Some(NOT_CAPABLE), Some(NOT_CAPABLE), Some(NOT_CAPABLE), None]),
            (CAPABLE_0, [Some(CAPABLE_0), Some(CAPABLE_0), Some(CAPABLE_1), Some(CONGESTED)]),
            (CAPABLE_1, [Some(CAPABLE_1), Some(CAPABLE_1), Some(CAPABLE_1), Some(CONGESTED)]),
            (CONGESTED, [Some(CONGESTED); 4]),
        ];
        for (inner, row) in figure {
            for (outer, expected) in [NOT_CAPABLE, CAPABLE_0, CAPABLE_1, CONGESTED].into_iter().zip(row) {
                assert_eq!(onward(inner, outer), expected, "{inner} in {outer}");
            }
        }
    }
}
