//! The TTLs of a packet: OpenFlow 1.3.5 section 5.12.

use crate::packet::Packet;
use crate::parse::number;
use crate::rewrite::set_byte;

/// Where a TTL stands, and the IPv4 header whose checksum covers it.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    header: Option<usize>,
}

/// The TTL of an IP header at `start`, which is IPv4 or IPv6 by its first four bits.
fn ip(packet: &Packet, start: usize) -> Option<Place> {
    let place = match packet.bytes.get(start)? >> 4 {
        4 => Place { at: start + 8, header: Some(start) },
        6 => Place { at: start + 7, header: None },
        _ => return None,
    };
    let header = if place.header.is_some() { 20 } else { 40 };
    (packet.bytes.len() >= start + header).then_some(place)
}

fn network(packet: &Packet) -> Option<Place> {
    ip(packet, packet.parse().1.ip?.start)
}

fn mpls(packet: &Packet) -> Option<Place> {
    Some(Place { at: packet.parse().1.mpls? + 3, header: None })
}

/// The outermost TTL, and the next one behind it.
fn pair(packet: &Packet) -> Option<(Place, Place)> {
    let outer = packet.parse().1.mpls?;
    let is_last = number(&packet.bytes, outer, 4)? & 0x100 != 0;
    let inner = if is_last {
        ip(packet, outer + 4)?
    } else {
        number(&packet.bytes, outer + 4, 4)?;
        Place { at: outer + 7, header: None }
    };
    Some((Place { at: outer + 3, header: None }, inner))
}

fn get(packet: &Packet, place: Place) -> u8 {
    packet.bytes.get(place.at).copied().unwrap_or(0)
}

fn set(packet: &mut Packet, place: Place, value: u8) {
    set_byte(packet, place.at, value, place.header);
}

/// The TTL, or hop limit, of IP.
pub(crate) fn of_ip(packet: &Packet) -> Option<u8> {
    network(packet).map(|place| get(packet, place))
}

/// Sets the TTL of IP, if the packet is of IP.
pub(crate) fn set_ip(packet: &mut Packet, value: u8) {
    if let Some(place) = network(packet) {
        set(packet, place, value);
    }
}

/// Sets the TTL of the outer MPLS entry, if there is one.
pub(crate) fn set_mpls(packet: &mut Packet, value: u8) {
    if let Some(place) = mpls(packet) {
        set(packet, place, value);
    }
}

/// A TTL that nothing can be taken off: the packet ends here.
pub(crate) struct Ended;

fn decrement(packet: &mut Packet, place: Option<Place>) -> Result<(), Ended> {
    let Some(place) = place else { return Ok(()) };
    match get(packet, place) {
        0 | 1 => Err(Ended),
        more => {
            set(packet, place, more - 1);
            Ok(())
        }
    }
}

/// Takes one off the TTL of IP.
pub(crate) fn decrement_ip(packet: &mut Packet) -> Result<(), Ended> {
    decrement(packet, network(packet))
}

/// Takes one off the TTL of the outer MPLS entry.
pub(crate) fn decrement_mpls(packet: &mut Packet) -> Result<(), Ended> {
    decrement(packet, mpls(packet))
}

/// Copies the next TTL to the outermost one.
pub(crate) fn copy_out(packet: &mut Packet) {
    if let Some((outer, inner)) = pair(packet) {
        set(packet, outer, get(packet, inner));
    }
}

/// Copies the outermost TTL to the next one.
pub(crate) fn copy_in(packet: &mut Packet) {
    if let Some((outer, inner)) = pair(packet) {
        set(packet, inner, get(packet, outer));
    }
}
