//! Where packets from customers leave the stage to, and which of them the slow path takes.

use weir_ip::{PuntReason, Punts};

use crate::core::Stop;

weir_stage::ways! {
    /// Ways out of [`Up`], before those to the ports.
    pub enum Exit {
        /// ARP, for the slow path.
        Arp => way "arp",
        /// Neighbour discovery, for the slow path.
        Nd => way "nd",
        /// For one of the gateway's own addresses.
        Local => way "local",
        /// From an address that the subscriber is not known to have: the slow path learns it, or drops.
        UnknownSource => way "unknown-source",
        /// The MAC address of the next router, or of the customer that it is for, is not known: the slow path asks for it.
        Unresolved => way "unresolved",
        /// Its TTL ends here: the slow path answers with Time Exceeded.
        TtlExpired => way "ttl-expired",
        /// No route leads there: the slow path answers with Network Unreachable.
        NoRoute => way "no-route",
        /// Longer than what fits towards the core, or the customer that it is for: the slow path answers with Fragmentation Needed.
        TooBig => way "too-big",
        /// By an interface beside customers' lines: for the network layer.
        Interface => way "interface",
        /// Shorter than an Ethernet header with two tags.
        TooShort => drop "too-short",
        /// Its destination MAC address is another station's.
        NotForUs => drop "not-for-us",
        /// The interface of its port is set down, or that of the port to the customer that it is for.
        InterfaceDown => drop "interface-down",
        /// Its outer tag is missing or has another EtherType than the configured one.
        NoSvlan => drop "no-svlan",
        /// It has one tag only.
        NoCvlan => drop "no-cvlan",
        /// Nobody subscribes with these tags on this port.
        UnknownSubscriber => drop "unknown-subscriber",
        /// Its source MAC address is not the one that its subscriber is to use.
        WrongMac => drop "wrong-mac",
        /// Its EtherType is neither IPv4, IPv6 nor ARP.
        UnknownEthertype => drop "unknown-ethertype",
        /// IPv6, for the stage that carries it.
        Ipv6 => way "ipv6",
        /// Fewer than the 20 bytes of an IPv4 header arrived.
        IpTooShort => drop "ip-too-short",
        /// The version field is not 4.
        IpVersion => drop "ip-version",
        /// The header length field is below 5 words.
        IpHeaderLength => drop "ip-header-length",
        /// The IPv4 header checksum is wrong.
        IpChecksum => drop "ip-checksum",
        /// The total length is less than the header length.
        IpTotalLength => drop "ip-total-length",
        /// The total length is more than what arrived.
        IpTruncated => drop "ip-truncated",
        /// Its source address is one that no host has (RFC 1812 section 5.3.7).
        MartianSource => drop "martian-source",
        /// Its destination address is one that no packet may carry (RFC 1812 section 5.3.7).
        MartianDestination => drop "martian-destination",
        /// From or to a link-local address, which must not be forwarded (RFC 3927 section 7).
        LinkLocal => drop "link-local",
        /// To a multicast address; multicast is not supported.
        Multicast => drop "multicast",
        /// To 255.255.255.255, where nothing in this gateway listens, or to the broadcast address of a network of the core side.
        Broadcast => drop "broadcast",
        /// Sent to all stations of the link though its IPv4 destination is a single host (RFC 1812 section 5.3.4).
        LinkBroadcast => drop "link-broadcast",
        /// To an address of customers' that no subscriber has.
        UnknownDestination => drop "unknown-destination",
        /// A route says that packets there are dropped.
        Blackhole => drop "blackhole",
        /// Its buffer has no room in front for the headers of the core.
        NoHeadroom => drop "no-headroom",
        /// Its subscriber causes more work for the slow path than one may.
        PolicedSubscriber => drop "punt-policed-subscriber",
        /// More ARP than the slow path takes from a worker.
        PolicedArp => drop "punt-policed-arp",
        /// More neighbour discovery than the slow path takes from a worker.
        PolicedNd => drop "punt-policed-nd",
        /// More for the gateway's own addresses than the slow path takes from a worker.
        PolicedLocal => drop "punt-policed-local",
        /// More from unknown addresses than the slow path takes from a worker.
        PolicedUnknownSource => drop "punt-policed-unknown-source",
        /// More to routers whose MAC address is not known than the slow path takes from a worker.
        PolicedUnresolved => drop "punt-policed-unresolved",
        /// More at the end of their TTL than the slow path takes from a worker.
        PolicedTtlExpired => drop "punt-policed-ttl-expired",
        /// More without a route than the slow path takes from a worker.
        PolicedNoRoute => drop "punt-policed-no-route",
        /// More that does not fit than the slow path takes from a worker.
        PolicedTooBig => drop "punt-policed-too-big",
        /// More by interfaces beside customers' lines than the network layer takes from a worker.
        PolicedInterface => drop "punt-policed-interface",
    }
}

impl From<Stop> for Exit {
    fn from(stop: Stop) -> Exit {
        match stop {
            // Nobody goes to customers who has not looked for who it is.
            Stop::NoRoute | Stop::Customer => Exit::NoRoute,
            Stop::Blackhole => Exit::Blackhole,
            Stop::Local => Exit::Local,
            Stop::Broadcast => Exit::Broadcast,
            Stop::Unresolved => Exit::Unresolved,
        }
    }
}

/// What the stage punts.
pub(crate) const PUNTED: &[PuntReason] = &[
    PuntReason::Arp,
    PuntReason::Nd,
    PuntReason::Local,
    PuntReason::UnknownSource,
    PuntReason::Unresolved,
    PuntReason::TtlExpired,
    PuntReason::NoRoute,
    PuntReason::TooBig,
    PuntReason::Interface,
];

impl Punts for Exit {
    fn punted(self) -> Option<(PuntReason, Exit)> {
        Some(match self {
            Exit::Arp => (PuntReason::Arp, Exit::PolicedArp),
            Exit::Nd => (PuntReason::Nd, Exit::PolicedNd),
            Exit::Local => (PuntReason::Local, Exit::PolicedLocal),
            Exit::UnknownSource => (PuntReason::UnknownSource, Exit::PolicedUnknownSource),
            Exit::Unresolved => (PuntReason::Unresolved, Exit::PolicedUnresolved),
            Exit::TtlExpired => (PuntReason::TtlExpired, Exit::PolicedTtlExpired),
            Exit::NoRoute => (PuntReason::NoRoute, Exit::PolicedNoRoute),
            Exit::TooBig => (PuntReason::TooBig, Exit::PolicedTooBig),
            Exit::Interface => (PuntReason::Interface, Exit::PolicedInterface),
            _ => return None,
        })
    }
}
