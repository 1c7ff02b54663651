//! Pushing and popping tags: OpenFlow 1.3.5 section 5.12 and its table of fields that are copied into new tags.

use crate::packet::Packet;
use crate::parse::{MPLS_TYPES, VLAN_TYPES, number};

/// The least that a frame has, without its checksum (IEEE 802.3 section 4.2.3.3).
pub(crate) const LEAST: usize = 60;

/// Where the EtherType stands that follows the addresses.
pub(crate) const FIRST_TYPE: usize = 12;

fn insert(packet: &mut Packet, at: usize, new: &[u8]) {
    packet.bytes.splice(at..at, new.iter().copied());
}

fn set_type(packet: &mut Packet, at: usize, kind: u16) {
    if let Some(field) = packet.bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&kind.to_be_bytes());
    }
}

fn type_at(bytes: &[u8], at: usize) -> Option<u16> {
    number(bytes, at, 2).map(|kind| kind as u16)
}

/// The tag of an EtherType that is put outside all others of a frame. Identifier and priority are those of the outer tag, or 0.
pub(crate) fn new_tag(bytes: &[u8], kind: u16) -> [u8; 4] {
    let is_tagged = type_at(bytes, FIRST_TYPE).is_some_and(|first| VLAN_TYPES.contains(&first));
    let tag = if is_tagged { type_at(bytes, FIRST_TYPE + 2) } else { None };
    // The bit between the two is not copied: it says something about addresses of Token Ring, or may be dropped first.
    let tag = tag.unwrap_or(0) & 0xefff;
    (u32::from(kind) << 16 | u32::from(tag)).to_be_bytes()
}

/// Puts a VLAN tag outside all others.
pub(crate) fn push_vlan(packet: &mut Packet, kind: u16) {
    if packet.bytes.len() >= FIRST_TYPE + 2 {
        let tag = new_tag(&packet.bytes, kind);
        insert(packet, FIRST_TYPE, &tag);
    }
}

/// Takes four bytes out. A frame that was long enough stays so: it is padded with zeroes.
fn take(packet: &mut Packet, at: usize) {
    let was_long = packet.bytes.len() >= LEAST;
    packet.bytes.drain(at..at + 4);
    if was_long && packet.bytes.len() < LEAST {
        packet.bytes.resize(LEAST, 0);
    }
}

/// Takes the outer VLAN tag off, if there is one.
pub(crate) fn pop_vlan(packet: &mut Packet) {
    if packet.parse().1.tags > 0 {
        take(packet, FIRST_TYPE);
    }
}

/// The MPLS entry that is put outside all others of a frame. Label, traffic class and TTL are those of the outer entry; without one, label and
/// class are 0, and the TTL is that of IP, or 0. Nothing if the frame has no type.
pub(crate) fn new_entry(bytes: &[u8]) -> Option<u32> {
    let first = type_at(bytes, FIRST_TYPE)?;
    let outer = if MPLS_TYPES.contains(&first) { number(bytes, FIRST_TYPE + 2, 4) } else { None };
    Some(match outer {
        Some(outer) => outer as u32 & !0x100,
        None => 0x100 | u32::from(crate::ttl::of_ip(bytes).unwrap_or(0)),
    })
}

/// Puts an MPLS entry outside all others, before VLAN tags too ("the outermost valid location", section 5.12; as Open
/// vSwitch reads it).
pub(crate) fn push_mpls(packet: &mut Packet, kind: u16) {
    let Some(entry) = new_entry(&packet.bytes) else { return };
    set_type(packet, FIRST_TYPE, kind);
    insert(packet, FIRST_TYPE + 2, &entry.to_be_bytes());
}

/// Takes the outer MPLS entry off, if there is one; what follows is of this EtherType.
pub(crate) fn pop_mpls(packet: &mut Packet, kind: u16) {
    let layout = packet.parse().1;
    if let Some(at) = layout.mpls {
        take(packet, at);
        set_type(packet, layout.ether_type, kind);
    }
}
