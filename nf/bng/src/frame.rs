//! What a frame from the core is at a glance: its labels, and the headers of a tunnel where those of a plain frame stand.

use weir_packet::Packet;
use weir_simd::frame_check::{Frame, LinkPattern};
use weir_wire::mpls::Label;
use weir_wire::{Ethernet, Ipv4, View, ethernet, ipv4};

use crate::encap::{GRE_IPV4, TUNNEL};
use crate::marking::CONGESTED;

/// Bytes from an Ethernet header, or what stands in its place behind labels, to the end of an inner IPv4 header.
const WRAPPED: usize = Ethernet::LEN + TUNNEL + Ipv4::LEN;

/// Labels that are walked.
pub(crate) const MOST_LABELS: usize = 8;

/// Bytes of labels of a frame that is not plain: of none that is.
pub(crate) const NOT_PLAIN: usize = 1;

/// Bytes of the labels of a plain frame, between its Ethernet header and an IPv4 header.
#[inline(always)]
pub(crate) fn labels_of(packet: &Packet) -> usize {
    /// EtherType of MPLS, and the bit of the first label that says that it is the only one.
    const ONE_LABEL: u64 = ethernet::MPLS.swap_bytes() as u64 | 1 << 32;
    const COUNTS: u64 = 0xffff | 1 << 32;
    let start = u64::from_le_bytes(*packet.window(Ethernet::LEN - 2));
    if start & COUNTS == ONE_LABEL { Label::LEN } else { other_labels(packet, (start as u16).swap_bytes()) }
}

/// The same, where it is not one label.
#[inline(never)]
fn other_labels(packet: &Packet, ethertype: u16) -> usize {
    match ethertype {
        ethernet::IPV4 => 0,
        ethernet::MPLS => {
            let labels = packet.window::<{ MOST_LABELS * Label::LEN }>(Ethernet::LEN);
            let (labels, _) = labels.as_chunks::<{ Label::LEN }>();
            let bottom = labels.iter().position(|[_, _, bottom, _]| bottom & 1 == 1);
            bottom.map_or(NOT_PLAIN, |at| Label::LEN * (at + 1))
        }
        _ => NOT_PLAIN,
    }
}

/// Whether an outer header is of GRE, no fragment's, and without congestion marks.
#[inline(always)]
pub(crate) fn is_tunnel(outer: &Ipv4Bytes) -> bool {
    /// More fragments, the offset, and the protocol.
    const MASK: u64 = u64::from_be_bytes([0, 0, 0, 0, 0x3f, 0xff, 0, 0xff]);
    let [_, tos, word @ .., _, _, _, _, _, _, _, _, _, _] = *outer;
    (u64::from_be_bytes(word) & MASK == ipv4::GRE as u64) & (tos & CONGESTED != CONGESTED)
}

/// An IPv4 header without options, as it lies in a packet.
pub(crate) type Ipv4Bytes = [u8; Ipv4::LEN];

/// The two frames that a wrapped packet is checked as: Ethernet header and outer IPv4 header, and the inner IPv4 header with the 14
/// bytes in front of it.
#[inline(always)]
pub(crate) fn wrapped(bytes: &[u8; WRAPPED]) -> Option<(&Frame, &Frame)> {
    bytes.first_chunk().zip(bytes.last_chunk())
}

/// The total length in an IPv4 header.
#[inline(always)]
pub(crate) fn total_of(header: &Ipv4Bytes) -> u16 {
    let [_, _, t0, t1, ..] = *header;
    u16::from_be_bytes([t0, t1])
}

/// The GRE key in front of an inner IPv4 header.
#[inline(always)]
pub(crate) fn key_of(inner: &Frame) -> u32 {
    let [_, _, _, _, _, _, _, _, _, _, k0, k1, k2, k3, ..] = *inner;
    u32::from_be_bytes([k0, k1, k2, k3])
}

/// The GRE protocol in front of an inner header, as it lies in the packet.
#[inline(always)]
pub(crate) fn protocol_of(inner: &Frame) -> u16 {
    let [_, _, _, _, _, _, _, _, p0, p1, ..] = *inner;
    u16::from_ne_bytes([p0, p1])
}

/// What stands in the 14 bytes before an inner IPv4 header: the end of the outer source, the outer destination, a GRE header with a
/// key of IPv4.
pub(crate) fn pattern(local: u32) -> LinkPattern {
    let [l0, l1, l2, l3] = local.to_be_bytes();
    let [g0, g1, g2, g3] = GRE_IPV4;
    let value = [0, 0, l0, l1, l2, l3, g0, g1, g2, g3, 0, 0, 0, 0];
    let mask = [0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    // Lengths are those of outer packets.
    LinkPattern::pattern(value, mask).with_front(TUNNEL as u16)
}
