//! The same for IPv6: RFC 8200, RFC 4291, RFC 4443.

use weir_packet::Packet;
use weir_wire::validity6::{self, Defect};
use weir_wire::{Ipv6, View, ipv6, martian6};

use super::{Family, Finding, Frame};
use crate::fast::bad::Bad6;

/// Types of ICMPv6 messages by which neighbours discover each other (RFC 4861).
const DISCOVERY: std::ops::RangeInclusive<u8> = 133..=137;

/// What is wrong with a packet, or who takes care of it; `None` if nothing but its route can speak against forwarding it.
pub(super) fn classify(packet: &Packet, frame: Frame) -> Option<Finding> {
    let window = packet.window::<64>(frame.l3);
    if let Err(defect) = validity6::check(window, packet.len().saturating_sub(frame.l3)) {
        return Some(Finding::Bad6(of_defect(defect)));
    }
    let Some(ip) = Ipv6::view(window) else { return Some(Finding::Bad6(Bad6::Ip6TooShort)) };
    let (source, destination) = (u128::from_be_bytes(ip.source), u128::from_be_bytes(ip.destination));
    let is_for_link = is_for_link(destination);
    if let Some(bad) = wrong_addresses(source, destination, is_for_link, frame.to_all) {
        return Some(Finding::Bad6(bad));
    }
    if is_for_link {
        return Some(if is_discovery(window) { Finding::Nd } else { Finding::Link });
    }
    // RFC 4007 section 9: beyond the zone of its source it must not go.
    if martian6::is_link_local(source) {
        return Some(Finding::FromLink);
    }
    // RFC 8200 section 4.3: the only options that concern a router on the way; they follow the header at once, or are none.
    if ip.next_header == ipv6::HOP_BY_HOP {
        return Some(Finding::Options);
    }
    if ip.hop_limit > 1 { None } else { Some(Finding::LastHop(Family::Six)) }
}

/// Whether packets to an address go no further than the link that they came from.
fn is_for_link(destination: u128) -> bool {
    let is_group = martian6::is_multicast(destination) && martian6::multicast_scope(destination) == LINK;
    is_group || martian6::is_link_local(destination)
}

/// The scope of a link (RFC 7346).
const LINK: u8 = 2;

/// Whether a valid packet is a message of neighbour discovery, be it to whom it may.
pub(crate) fn is_discovery(window: &[u8; 64]) -> bool {
    let Some((ip, [kind, ..])) = Ipv6::split(window) else { return false };
    ip.next_header == ipv6::ICMPV6 && ip.payload_length.get() > 0 && DISCOVERY.contains(kind)
}

/// What is wrong with the addresses of a packet.
fn wrong_addresses(source: u128, destination: u128, is_for_link: bool, to_all: bool) -> Option<Bad6> {
    // RFC 4291 section 2.5.2: the unspecified address "must never be [...] forwarded"; who has no address yet asks his link by it.
    let is_nobody = source == 0 && is_for_link;
    if martian6::is_martian_source(source) && !is_nobody {
        return Some(Bad6::Ip6MartianSource);
    }
    if martian6::is_martian_destination(destination) {
        return Some(Bad6::Ip6MartianDestination);
    }
    if martian6::is_multicast(destination) {
        return (!is_for_link).then_some(Bad6::Ip6Multicast);
    }
    // What all stations of a link were sent would be passed on by each of its routers.
    to_all.then_some(Bad6::Ip6LinkBroadcast)
}

fn of_defect(defect: Defect) -> Bad6 {
    match defect {
        Defect::TooShort => Bad6::Ip6TooShort,
        Defect::Version => Bad6::Ip6Version,
        Defect::Truncated => Bad6::Ip6Truncated,
    }
}
