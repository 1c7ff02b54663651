//! Where packets to customers leave the stage to, and which of them the slow path takes.

use weir_ip::{PuntReason, Punts};

weir_stage::ways! {
    /// Ways out of [`Down`], before those to the ports.
    pub enum Exit {
        /// ARP, for the network layer.
        Arp => way "arp",
        /// For the gateway itself, and not in a tunnel: for the network layer, as is whatever IPv6 needs on a link.
        Local => way "local",
        /// Nobody is known to have the destination, or the MAC address of who has it is not known: the slow path asks for it, or drops.
        Unresolved => way "unresolved",
        /// Its TTL ends here: the slow path answers with Time Exceeded.
        TtlExpired => way "ttl-expired",
        /// Longer than what fits towards the customer: the slow path answers with Fragmentation Needed.
        TooBig => way "too-big",
        /// A fragment of an outer packet: the slow path puts them together.
        Fragment => way "fragment",
        /// IPv6, for the stage that carries it.
        Ipv6 => way "ipv6",
        /// By an interface that is not for customers, or with tags of none: for the network layer.
        Layer => way "layer",
        /// Shorter than an Ethernet header.
        TooShort => drop "too-short",
        /// Its destination MAC address is another station's.
        NotForUs => drop "not-for-us",
        /// The interface of the port to its customer is set down.
        InterfaceDown => drop "interface-down",
        /// Its EtherType is neither MPLS, IPv4, IPv6 nor ARP.
        UnknownEthertype => drop "unknown-ethertype",
        /// Its label stack ends with the frame, without a bottom.
        MplsTruncated => drop "mpls-truncated",
        /// More than eight labels.
        MplsTooDeep => drop "mpls-too-deep",
        /// The outer IPv4 header is not valid (RFC 1812 section 5.2.2), or its source is one that no host has.
        OuterInvalid => drop "outer-ip-invalid",
        /// The outer IPv4 destination is not the gateway's end of a tunnel.
        OuterDestination => drop "outer-destination",
        /// Fewer than the 8 bytes of a GRE header with a key arrived.
        GreTruncated => drop "gre-truncated",
        /// The GRE header has no key.
        GreNoKey => drop "gre-no-key",
        /// The GRE header has a checksum, which no tunnel here was agreed to have.
        GreChecksum => drop "gre-checksum",
        /// The GRE header has a sequence number, which no tunnel here was agreed to have.
        GreSequence => drop "gre-sequence",
        /// Other bits of the first word of the GRE header are set, such as another version's.
        GreFlags => drop "gre-flags",
        /// The GRE payload is neither IPv4 nor IPv6.
        GreProtocol => drop "gre-protocol",
        /// Congestion was marked on the way of a packet whose ends do not understand it (RFC 6040 section 4.2).
        Congestion => drop "congestion",
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
        /// To 255.255.255.255.
        Broadcast => drop "broadcast",
        /// Its buffer has no room for the headers of the access side.
        NoHeadroom => drop "no-headroom",
        /// Its subscriber causes more work for the slow path than one may.
        PolicedSubscriber => drop "punt-policed-subscriber",
        /// More ARP than the slow path takes from a worker.
        PolicedArp => drop "punt-policed-arp",
        /// More for the gateway's own addresses than the slow path takes from a worker.
        PolicedLocal => drop "punt-policed-local",
        /// More to addresses that are not known than the slow path takes from a worker.
        PolicedUnresolved => drop "punt-policed-unresolved",
        /// More at the end of their TTL than the slow path takes from a worker.
        PolicedTtlExpired => drop "punt-policed-ttl-expired",
        /// More that does not fit than the slow path takes from a worker.
        PolicedTooBig => drop "punt-policed-too-big",
        /// More fragments of outer packets than the slow path takes from a worker.
        PolicedFragment => drop "punt-policed-fragment",
    }
}

/// What the stage punts.
pub(crate) const PUNTED: &[PuntReason] = &[
    PuntReason::Arp,
    PuntReason::Local,
    PuntReason::Unresolved,
    PuntReason::TtlExpired,
    PuntReason::TooBig,
    PuntReason::Fragment,
];

impl Punts for Exit {
    fn punted(self) -> Option<(PuntReason, Exit)> {
        Some(match self {
            Exit::Arp => (PuntReason::Arp, Exit::PolicedArp),
            Exit::Local => (PuntReason::Local, Exit::PolicedLocal),
            Exit::Unresolved => (PuntReason::Unresolved, Exit::PolicedUnresolved),
            Exit::TtlExpired => (PuntReason::TtlExpired, Exit::PolicedTtlExpired),
            Exit::TooBig => (PuntReason::TooBig, Exit::PolicedTooBig),
            Exit::Fragment => (PuntReason::Fragment, Exit::PolicedFragment),
            _ => return None,
        })
    }
}
