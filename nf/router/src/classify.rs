//! Why a packet is not one of those that are simply forwarded: clause by clause, in an order that a reader can follow.

use weir_ip::{Ingress, NO_INTERFACE};
use weir_packet::Packet;
use weir_wire::validity::{self, Defect};
use weir_wire::{Ethernet, Ipv4, View, ethernet, martian};

use crate::bad::Bad;

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

/// What a frame is before its network header is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Where the network header begins; the frame is at least as long.
    pub(crate) l3: usize,
    ethertype: u16,
    /// Whether it is for a group of stations.
    to_all: bool,
}

impl Frame {
    /// A frame for whichever station; it has no tags, or they are an EtherType that is not known.
    pub(crate) fn for_anybody(packet: &Packet) -> Result<Frame, Bad> {
        let ethernet = Ethernet::view(packet.bytes()).ok_or(Bad::TooShort)?;
        Ok(Frame { l3: Ethernet::LEN, ethertype: ethernet.ethertype.get(), to_all: ethernet.destination.is_group() })
    }

    /// A frame that came in by the port of this index, which has to be for the interface there that has its tags.
    pub(crate) fn of(packet: &Packet, port: u16, ingress: &Ingress) -> Result<Frame, Bad> {
        let destination = Ethernet::view(packet.bytes()).ok_or(Bad::TooShort)?.destination;
        let window = packet.window(0);
        let (entered, front) = (ingress.enter(port, window), ingress.front(window));
        let l3 = usize::from(entered.l3);
        if packet.len() < l3 {
            return Err(Bad::TooShort);
        }
        if entered.interface == NO_INTERFACE && l3 > Ethernet::LEN {
            ingress.note_unknown(port, window);
            return Err(Bad::UnknownTag);
        }
        if ingress.is_shut(port, entered.interface) {
            return Err(Bad::InterfaceDown);
        }
        let to_all = destination.is_group();
        if !to_all && !entered.is_ours {
            return Err(Bad::NotForUs);
        }
        Ok(Frame { l3, ethertype: front.ethertype, to_all })
    }
}

/// What is wrong with a frame, or who takes care of it; `None` if nothing but its route can speak against forwarding it.
pub(crate) fn classify(packet: &Packet, frame: Frame) -> Option<Finding> {
    match frame.ethertype {
        ethernet::IPV4 => classify_ipv4(packet, frame),
        ethernet::ARP => Some(Finding::Arp),
        _ => Some(Finding::Bad(Bad::UnknownEthertype)),
    }
}

fn classify_ipv4(packet: &Packet, frame: Frame) -> Option<Finding> {
    let window = packet.window::<64>(frame.l3);
    if let Err(defect) = validity::check(window, packet.len().saturating_sub(frame.l3)) {
        return Some(Finding::Bad(of_defect(defect)));
    }
    let Some(ip) = Ipv4::view(window) else { return Some(Finding::Bad(Bad::IpTooShort)) };
    if let Some(bad) = wrong_addresses(ip, frame.to_all) {
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
