//! The ways out of the relay.

weir_stage::ways! {
    /// Ways out of the stage `relay`.
    pub enum Exit {
        /// None of the relay's: it is routed as all else.
        Out => way "out",
        /// The neighbour on its way is not known yet: the slow path asks for it.
        Send => way "send",

        /// No softwire has the IPv4 address and port that it is for.
        NoDestination => drop "no-softwire-ipv4",
        /// From a tunnel, and no softwire with these ends has the IPv4 address and port that it is from (RFC 7596 section 6.2).
        NoSource => drop "no-softwire-ipv6",
        /// Its TTL ends here.
        TtlExpired => drop "ttl-expired",
        /// Longer than what fits, and not to be fragmented.
        MustNotFragment => drop "fragmentation-needed",
        /// No route leads to where it goes on.
        NoRoute => drop "no-route",
        /// A route says that it is dropped silently.
        Blackhole => drop "blackhole",
        /// From an interface that is not on the side of IPv4.
        MisplacedFour => drop "misplaced-ipv4",
        /// From an interface that is not on the side of IPv6.
        MisplacedSix => drop "misplaced-ipv6",
        /// The ingress filter of the side of IPv4 does not match it.
        FilteredInFour => drop "filtered-in-ipv4",
        /// The egress filter of the side of IPv4 does not match what would leave.
        FilteredOutFour => drop "filtered-out-ipv4",
        /// The ingress filter of the side of IPv6 does not match it.
        FilteredInSix => drop "filtered-in-ipv6",
        /// The egress filter of the side of IPv6 does not match what would leave.
        FilteredOutSix => drop "filtered-out-ipv6",
        /// ICMP, which is not let in from this side.
        IcmpRefused => drop "icmp-refused",
        /// ICMP that is cut short or has a wrong checksum.
        IcmpMalformed => drop "icmp-malformed",
        /// ICMPv6 that tells nothing which somebody behind the relay could use, or about a tunnel that is not there.
        IcmpIgnored => drop "icmp-ignored",
        /// From a tunnel, and what is in it is no valid IPv4 packet.
        BadInner => drop "bad-inner",
        /// Too short for the ports that its protocol has.
        PortsMissing => drop "ports-missing",
        /// For one of the relay's IPv6 prefixes, and from no tunnel.
        UnknownProtocol => drop "unknown-protocol",
        /// Met congestion in the tunnel, and its ends do not know of such marks (RFC 6040 section 4.2).
        Congestion => drop "congestion",
        /// A fragment that can be no part of a packet: empty, of odd length, or beyond the longest packet.
        FragmentMalformed => drop "fragment-malformed",
        /// A fragment that came before.
        FragmentDuplicate => drop "fragment-duplicate",
        /// Of a packet whose fragments overlap, or of one that was given up: all of it is dropped (RFC 5722).
        FragmentOverlap => drop "fragment-overlap",
        /// Of a packet in more fragments than one may have.
        FragmentsTooMany => drop "fragments-too-many",
        /// A fragment; the others did not come within 60 seconds.
        FragmentTimeout => drop "fragment-timeout",
        /// A fragment that had waited longest when there was no room for others.
        FragmentQueueFull => drop "fragment-queue-full",
        /// There was no buffer for it, or none long enough.
        NoBuffer => drop "no-buffer",

        /// A fragment whose packet was put together.
        Reassembled => consume "reassembled",
        /// Went on in fragments.
        Fragmented => consume "fragmented",
        /// ICMPv6 about a tunnel, which was told to the source of what was in it.
        Translated => consume "icmp-translated",

        /// A piece of a packet that was longer than the MTU.
        Piece => create "fragment",
        /// ICMP: no softwire has that address and port.
        HostUnreachable => create "icmp-host-unreachable",
        /// ICMP: the TTL ended here.
        TimeExceeded => create "icmp-time-exceeded",
        /// ICMP: longer than what fits, and not to be fragmented.
        FragmentationNeeded => create "icmp-fragmentation-needed",
        /// ICMP: what a router on the way of a tunnel had to tell.
        FromTunnel => create "icmp-from-tunnel",
        /// ICMPv6: no softwire has these ends, and that address and port.
        SourcePolicy => create "icmp6-source-policy",
    }
}
