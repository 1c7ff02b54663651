//! The TTLs of a packet: OpenFlow 1.3.5 section 5.12.

use crate::parse::{self, number};
use crate::rewrite::set_byte;

/// Where a TTL stands, and the IPv4 header whose checksum covers it.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    header: Option<usize>,
}

/// The TTL of an IP header at `start`, which is IPv4 or IPv6 by its first four bits.
fn ip(bytes: &[u8], start: usize) -> Option<Place> {
    let place = match bytes.get(start)? >> 4 {
        4 => Place { at: start + 8, header: Some(start) },
        6 => Place { at: start + 7, header: None },
        _ => return None,
    };
    let header = if place.header.is_some() { 20 } else { 40 };
    (bytes.len() >= start + header).then_some(place)
}

fn network(bytes: &[u8]) -> Option<Place> {
    ip(bytes, parse::parse(bytes).1.ip?.start)
}

fn mpls(bytes: &[u8]) -> Option<Place> {
    Some(Place { at: parse::parse(bytes).1.mpls? + 3, header: None })
}

/// The TTL of what is behind an MPLS entry, which begins there: of IP if the entry `is_last`, or else of the next entry.
fn behind(bytes: &[u8], at: usize, is_last: bool) -> Option<Place> {
    if is_last {
        return ip(bytes, at);
    }
    number(bytes, at, 4)?;
    Some(Place { at: at + 3, header: None })
}

/// The same as a number.
pub(crate) fn of_behind(bytes: &[u8], at: usize, is_last: bool) -> Option<u8> {
    behind(bytes, at, is_last).map(|place| get(bytes, place))
}

/// The outermost TTL, and the next one behind it.
fn pair(bytes: &[u8]) -> Option<(Place, Place)> {
    let outer = parse::parse(bytes).1.mpls?;
    let is_last = number(bytes, outer, 4)? & 0x100 != 0;
    Some((Place { at: outer + 3, header: None }, behind(bytes, outer + 4, is_last)?))
}

fn get(bytes: &[u8], place: Place) -> u8 {
    bytes.get(place.at).copied().unwrap_or(0)
}

fn set(bytes: &mut [u8], place: Place, value: u8) {
    set_byte(bytes, place.at, value, place.header);
}

/// The TTL, or hop limit, of IP.
pub(crate) fn of_ip(bytes: &[u8]) -> Option<u8> {
    network(bytes).map(|place| get(bytes, place))
}

/// Sets the TTL of IP, if the packet is of IP.
pub(crate) fn set_ip(bytes: &mut [u8], value: u8) {
    if let Some(place) = network(bytes) {
        set(bytes, place, value);
    }
}

/// Sets the TTL of the outer MPLS entry, if there is one.
pub(crate) fn set_mpls(bytes: &mut [u8], value: u8) {
    if let Some(place) = mpls(bytes) {
        set(bytes, place, value);
    }
}

/// A TTL that nothing can be taken off: the packet ends here.
pub(crate) struct Ended;

fn decrement(bytes: &mut [u8], place: Option<Place>) -> Result<(), Ended> {
    let Some(place) = place else { return Ok(()) };
    match get(bytes, place) {
        0 | 1 => Err(Ended),
        more => {
            set(bytes, place, more - 1);
            Ok(())
        }
    }
}

/// Takes one off the TTL of IP.
pub(crate) fn decrement_ip(bytes: &mut [u8]) -> Result<(), Ended> {
    decrement(bytes, network(bytes))
}

/// Takes one off the TTL of the outer MPLS entry.
pub(crate) fn decrement_mpls(bytes: &mut [u8]) -> Result<(), Ended> {
    decrement(bytes, mpls(bytes))
}

/// Copies the next TTL to the outermost one.
pub(crate) fn copy_out(bytes: &mut [u8]) {
    if let Some((outer, inner)) = pair(bytes) {
        let value = get(bytes, inner);
        set(bytes, outer, value);
    }
}

/// Copies the outermost TTL to the next one.
pub(crate) fn copy_in(bytes: &mut [u8]) {
    if let Some((outer, inner)) = pair(bytes) {
        let value = get(bytes, outer);
        set(bytes, inner, value);
    }
}
