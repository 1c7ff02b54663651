//! Why a packet is not one of those that are simply forwarded: clause by clause, in an order that a reader can follow.

use weir_packet::Packet;
use weir_wire::validity::{self, Defect};
use weir_wire::{Ethernet, Ipv4, View, ethernet, martian};

use crate::bad::Bad;
use crate::fib::mac_word;

/// What a packet is, if it is not one of those that are simply forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// It must not be forwarded.
    Bad(Bad),
    /// ARP.
    Arp,
    /// Valid, with IP options.
    Options,
    /// Valid, but it cannot go another hop: it has arrived, or its TTL ends here.
    LastHop,
}

/// What a packet is that should be for `station` (its MAC address as [`mac_word`] has it; `None`: for whomever); `None` if nothing but
/// its route can speak against forwarding it.
pub(crate) fn classify(packet: &Packet, station: Option<u64>) -> Option<Finding> {
    let Some(ethernet) = Ethernet::view(packet.bytes()) else { return Some(Finding::Bad(Bad::TooShort)) };
    let to_all = ethernet.destination.is_group();
    if !to_all && station.is_some_and(|station| station != mac_word(ethernet.destination)) {
        return Some(Finding::Bad(Bad::NotForUs));
    }
    match ethernet.ethertype.get() {
        ethernet::IPV4 => classify_ipv4(packet, to_all),
        ethernet::ARP => Some(Finding::Arp),
        _ => Some(Finding::Bad(Bad::UnknownEthertype)),
    }
}

fn classify_ipv4(packet: &Packet, to_all: bool) -> Option<Finding> {
    let window = packet.window::<64>(Ethernet::LEN);
    if let Err(defect) = validity::check(window, packet.len() - Ethernet::LEN) {
        return Some(Finding::Bad(of_defect(defect)));
    }
    let Some(ip) = Ipv4::view(window) else { return Some(Finding::Bad(Bad::IpTooShort)) };
    if let Some(bad) = wrong_addresses(ip, to_all) {
        return Some(Finding::Bad(bad));
    }
    if ip.has_options() {
        return Some(Finding::Options);
    }
    if ip.ttl > 1 { None } else { Some(Finding::LastHop) }
}

/// What is wrong with the addresses of a packet.
fn wrong_addresses(ip: &Ipv4, to_all: bool) -> Option<Bad> {
    let (source, destination) = (ip.source.get(), ip.destination.get());
    if martian::is_martian_source(source) {
        return Some(Bad::MartianSource);
    }
    if martian::is_limited_broadcast(destination) {
        return Some(Bad::Broadcast);
    }
    if martian::is_multicast(destination) {
        return Some(Bad::Multicast);
    }
    if martian::is_martian_destination(destination) {
        return Some(Bad::MartianDestination);
    }
    // RFC 1812 section 5.3.4: "A router MUST NOT forward any packet that the router received as a Link Layer
    // broadcast, unless it is directed to an IP Multicast address."
    if to_all {
        return Some(Bad::LinkBroadcast);
    }
    let is_link_local = martian::is_link_local(source) || martian::is_link_local(destination);
    is_link_local.then_some(Bad::LinkLocal)
}

fn of_defect(defect: Defect) -> Bad {
    match defect {
        Defect::TooShort => Bad::IpTooShort,
        Defect::Version => Bad::IpVersion,
        Defect::HeaderLength => Bad::IpHeaderLength,
        Defect::Checksum => Bad::IpChecksum,
        Defect::TotalLength => Bad::IpTotalLength,
        Defect::Truncated => Bad::IpTruncated,
    }
}
