//! Why a packet is not one of those that are simply forwarded: clause by clause, in an order that a reader can follow.

use weir_packet::Packet;
use weir_table::lpm4::Lookup4;
use weir_wire::validity::{self, Defect};
use weir_wire::{Ethernet, Ipv4, View, ethernet, martian};

use crate::fib::{Action, Fib, mac_word};
use crate::forward::Exit;

/// What becomes of a packet that came in by `port`, before its route is looked at; `None` if nothing speaks against
/// forwarding it.
pub(crate) fn classify<T: Lookup4>(table: &T, fib: &Fib, packet: &Packet, port: u16) -> Option<Exit> {
    let Some(ethernet) = Ethernet::view(packet.bytes()) else { return Some(Exit::TooShort) };
    let to_all = ethernet.destination.is_group();
    if !to_all && mac_word(ethernet.destination) != fib.ingress().mac_word(port) {
        return Some(Exit::NotForUs);
    }
    match ethernet.ethertype.get() {
        ethernet::IPV4 => classify_ipv4(table, fib, packet, to_all),
        ethernet::ARP => Some(Exit::Arp),
        _ => Some(Exit::UnknownEthertype),
    }
}

fn classify_ipv4<T: Lookup4>(table: &T, fib: &Fib, packet: &Packet, to_all: bool) -> Option<Exit> {
    let window = packet.window::<64>(Ethernet::LEN);
    if let Err(defect) = validity::check(window, packet.len() - Ethernet::LEN) {
        return Some(of_defect(defect));
    }
    let Some(ip) = Ipv4::view(window) else { return Some(Exit::IpTooShort) };
    let (source, destination) = (ip.source.get(), ip.destination.get());
    if martian::is_martian_source(source) {
        return Some(Exit::MartianSource);
    }
    if martian::is_limited_broadcast(destination) {
        return Some(Exit::Broadcast);
    }
    if martian::is_multicast(destination) {
        return Some(Exit::Multicast);
    }
    if martian::is_martian_destination(destination) {
        return Some(Exit::MartianDestination);
    }
    // RFC 1812 section 5.3.4: "A router MUST NOT forward any packet that the router received as a Link Layer
    // broadcast, unless it is directed to an IP Multicast address."
    if to_all {
        return Some(Exit::LinkBroadcast);
    }
    if martian::is_link_local(source) || martian::is_link_local(destination) {
        return Some(Exit::LinkLocal);
    }
    if ip.has_options() {
        return Some(Exit::Options);
    }
    if ip.ttl > 1 { None } else { Some(at_last_hop(table, fib, destination)) }
}

/// What becomes of a packet that can not go another hop: it may have arrived.
fn at_last_hop<T: Lookup4>(table: &T, fib: &Fib, destination: u32) -> Exit {
    let place = fib.place(table.lookup(destination), || 0);
    if fib.entry(place).action() == Action::Local { Exit::Local } else { Exit::TtlExpired }
}

fn of_defect(defect: Defect) -> Exit {
    match defect {
        Defect::TooShort => Exit::IpTooShort,
        Defect::Version => Exit::IpVersion,
        Defect::HeaderLength => Exit::IpHeaderLength,
        Defect::Checksum => Exit::IpChecksum,
        Defect::TotalLength => Exit::IpTotalLength,
        Defect::Truncated => Exit::IpTruncated,
    }
}
