//! Why a packet is not one of those that are simply forwarded: clause by clause, in an order that a reader can follow.

mod six;

use weir_packet::Packet;
use weir_wire::validity::{self, Defect};
use weir_wire::{Ethernet, Ipv4, View, ethernet, martian};

use crate::fast::bad::{Bad, Bad4, Bad6};
use crate::{Ingress, InterfaceId, NO_INTERFACE};

pub(crate) use six::is_discovery;

/// What is in a frame whose route is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// IPv4.
    Four,
    /// IPv6.
    Six,
}

/// What a packet is, if it is not one of those that are simply forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// It is no packet for this router.
    Bad(Bad),
    /// IPv4 that must not be forwarded.
    Bad4(Bad4),
    /// IPv6 that must not be forwarded.
    Bad6(Bad6),
    /// ARP.
    Arp,
    /// Neighbour discovery for this link.
    Nd,
    /// IPv6 that goes no further than this link, for whoever listens there.
    Link,
    /// Valid, with IP options, or hop-by-hop options.
    Options,
    /// Valid, but it cannot go another hop: it has arrived, or its TTL or hop limit ends here.
    LastHop(Family),
    /// IPv6 from a link-local address: it has arrived, or goes where it must not.
    FromLink,
}

/// What becomes of a packet that is not forwarded for what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is dropped.
    Bad(Bad),
    /// The same of IPv4.
    Bad4(Bad4),
    /// The same of IPv6.
    Bad6(Bad6),
    /// ARP.
    Arp,
    /// Neighbour discovery for this router or its link.
    Nd,
    /// For the router, or for whoever listens on the link.
    Local,
    /// For Linux: a control protocol of its link.
    Host,
    /// It has options to be carried out.
    Options,
    /// Its TTL or hop limit ends here.
    TtlExpired,
    /// From a link-local address to one beyond the link.
    BeyondScope,
}

impl Finding {
    /// What becomes of a packet; `arrived` tells of one of a family whether it is for the router itself, and then what it is.
    pub(crate) fn settle(self, arrived: impl FnOnce(Family) -> Option<Verdict>) -> Verdict {
        match self {
            Finding::Bad(bad) => Verdict::Bad(bad),
            Finding::Bad4(bad) => Verdict::Bad4(bad),
            Finding::Bad6(bad) => Verdict::Bad6(bad),
            Finding::Arp => Verdict::Arp,
            Finding::Nd => Verdict::Nd,
            Finding::Link => Verdict::Local,
            Finding::Options => Verdict::Options,
            Finding::LastHop(family) => arrived(family).unwrap_or(Verdict::TtlExpired),
            Finding::FromLink => arrived(Family::Six).unwrap_or(Verdict::BeyondScope),
        }
    }
}

/// Makes ways out of a stage that checks packets of verdicts.
macro_rules! answers_verdicts {
    ($exit:ident) => {
        impl From<$crate::fast::classify::Verdict> for $exit {
            fn from(verdict: $crate::fast::classify::Verdict) -> $exit {
                use $crate::fast::classify::Verdict;
                match verdict {
                    Verdict::Bad(bad) => bad.into(),
                    Verdict::Bad4(bad) => bad.into(),
                    Verdict::Bad6(bad) => bad.into(),
                    Verdict::Arp => $exit::Arp,
                    Verdict::Nd => $exit::Nd,
                    Verdict::Local => $exit::Local,
                    Verdict::Host => $exit::Host,
                    Verdict::Options => $exit::Options,
                    Verdict::TtlExpired => $exit::TtlExpired,
                    Verdict::BeyondScope => $exit::BeyondScope,
                }
            }
        }
    };
}

pub(crate) use answers_verdicts;

/// What a frame is before its network header is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Where the network header begins; the frame is at least as long.
    pub(crate) l3: usize,
    /// The interface that it came in by; none for a frame for anybody.
    pub(crate) interface: InterfaceId,
    ethertype: u16,
    /// Whether it is for a group of stations.
    to_all: bool,
}

impl Frame {
    /// A frame for whichever station; it has no tags, or they are an EtherType that is not known.
    pub(crate) fn for_anybody(packet: &Packet) -> Result<Frame, Bad> {
        let ethernet = Ethernet::view(packet.bytes()).ok_or(Bad::TooShort)?;
        Ok(Frame {
            l3: Ethernet::LEN,
            interface: NO_INTERFACE,
            ethertype: ethernet.ethertype.get(),
            to_all: ethernet.destination.is_group(),
        })
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
        Ok(Frame { l3, interface: entered.interface, ethertype: front.ethertype, to_all })
    }
}

impl Frame {
    /// What it says that it carries.
    pub(crate) fn ethertype(self) -> u16 {
        self.ethertype
    }

    /// Whether it says that it carries IPv4.
    pub(crate) fn is_four(self) -> bool {
        self.ethertype == ethernet::IPV4
    }
}

/// Of which family a packet is, if nothing but its route can speak against forwarding it.
///
/// # Errors
///
/// What is wrong with it, or who takes care of it.
pub(crate) fn classify(packet: &Packet, frame: Frame) -> Result<Family, Finding> {
    match frame.ethertype {
        ethernet::IPV4 => classify_ipv4(packet, frame).map_or(Ok(Family::Four), Err),
        ethernet::IPV6 => six::classify(packet, frame).map_or(Ok(Family::Six), Err),
        ethernet::ARP => Err(Finding::Arp),
        _ => Err(Finding::Bad(Bad::UnknownEthertype)),
    }
}

fn classify_ipv4(packet: &Packet, frame: Frame) -> Option<Finding> {
    let window = packet.window::<64>(frame.l3);
    if let Err(defect) = validity::check(window, packet.len().saturating_sub(frame.l3)) {
        return Some(Finding::Bad4(of_defect(defect)));
    }
    let Some(ip) = Ipv4::view(window) else { return Some(Finding::Bad4(Bad4::IpTooShort)) };
    if let Some(bad) = wrong_addresses(ip, frame.to_all) {
        return Some(Finding::Bad4(bad));
    }
    if ip.has_options() {
        return Some(Finding::Options);
    }
    if ip.ttl > 1 { None } else { Some(Finding::LastHop(Family::Four)) }
}

/// What is wrong with the addresses of a packet.
fn wrong_addresses(ip: &Ipv4, to_all: bool) -> Option<Bad4> {
    let (source, destination) = (ip.source.get(), ip.destination.get());
    if martian::is_martian_source(source) {
        return Some(Bad4::MartianSource);
    }
    if martian::is_limited_broadcast(destination) {
        return Some(Bad4::Broadcast);
    }
    if martian::is_multicast(destination) {
        return Some(Bad4::Multicast);
    }
    if martian::is_martian_destination(destination) {
        return Some(Bad4::MartianDestination);
    }
    // RFC 1812 section 5.3.4: "A router MUST NOT forward any packet that the router received as a Link Layer
    // broadcast, unless it is directed to an IP Multicast address."
    if to_all {
        return Some(Bad4::LinkBroadcast);
    }
    let is_link_local = martian::is_link_local(source) || martian::is_link_local(destination);
    is_link_local.then_some(Bad4::LinkLocal)
}

fn of_defect(defect: Defect) -> Bad4 {
    match defect {
        Defect::TooShort => Bad4::IpTooShort,
        Defect::Version => Bad4::IpVersion,
        Defect::HeaderLength => Bad4::IpHeaderLength,
        Defect::Checksum => Bad4::IpChecksum,
        Defect::TotalLength => Bad4::IpTotalLength,
        Defect::Truncated => Bad4::IpTruncated,
    }
}
