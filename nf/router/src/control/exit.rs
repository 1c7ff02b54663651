//! Ways out of the slow path, and reasons.

weir_stage::ways! {
    /// Ways out of the slow path, before those to the ports.
    pub enum Exit {
        /// Not decided: a defect of the slow path, which never lets a packet go this way.
        Undecided => way "undecided",
        /// A packet that the slow path made has to wait for a neighbour: it comes back to be held.
        Again => again "again",

        /// An ARP request for one of the router's addresses (or, by proxy, another's), which was answered.
        ArpAnswered => consume "arp-answered",
        /// ARP from a neighbour that the router talks to.
        ArpLearned => consume "arp-learned",
        /// ARP from a station that uses one of the router's own addresses.
        ArpConflict => consume "arp-conflict",
        /// An ICMP echo request to one of the router's own addresses, which was answered.
        EchoAnswered => consume "echo-answered",
        /// Taken apart into fragments.
        Fragmented => consume "fragmented",
        /// A fragment of a packet to the router itself, put together with the others: the first one stands for the packet.
        Reassembled => consume "reassembled",

        /// The copy of a packet that left by the port it came in by: its source was told of the shorter way.
        Redirected => consume "redirected",
        /// The same, but no redirect was due, or none could be sent: its source is on another network, or others were told just now.
        NoRedirect => consume "redirect-not-due",

        /// ARP between others, or on a port whose link is down.
        ArpIgnored => drop "arp-ignored",
        /// ARP that is not for Ethernet and IPv4, is cut short, or comes from an address that no host has.
        ArpMalformed => drop "arp-malformed",
        /// The TTL ended here.
        TtlExpired => drop "ttl-expired",
        /// No route leads to its destination.
        NoRoute => drop "no-route",
        /// To the broadcast or network address of a connected network (RFC 2644).
        DirectedBroadcast => drop "directed-broadcast",
        /// To a link-local address, which a router must not forward (RFC 3927 section 7).
        LinkLocal => drop "link-local",
        /// Longer than the next hop's MTU, and not to be fragmented.
        MustNotFragment => drop "fragmentation-needed",
        /// Its IP options have a wrong length or make no sense.
        BadOptions => drop "bad-options",
        /// A fragment that ends beyond 65,535 bytes, the longest packet, and would have to be taken apart again to go on.
        FragmentBeyond => drop "fragment-beyond-end",
        /// It dictates its route, which this router does not follow (RFC 7126 section 4.3).
        SourceRoute => drop "source-route",
        /// Its neighbour did not answer ARP.
        Unresolved => drop "neighbor-unresolved",
        /// Its neighbour was deleted, or the link went down, while it waited.
        NeighborGone => drop "neighbor-gone",
        /// Newer packets took its place while it waited for its neighbour, or there was no place to wait.
        QueueFull => drop "neighbor-queue-full",
        /// The table of neighbours is full of neighbours in use.
        TableFull => drop "neighbor-table-full",
        /// The interface that it came in by, or was to leave by, was deleted meanwhile.
        InterfaceGone => drop "interface-gone",
        /// The interface that its route leads to is down.
        PortDown => drop "port-down",
        /// To the router itself, in a protocol that it does not speak.
        NoProtocol => drop "local-protocol",
        /// UDP to the router itself, where nothing listens.
        NoPort => drop "local-port",
        /// ICMP to the router itself that asks for nothing.
        IcmpIgnored => drop "local-icmp",
        /// A fragment to the router itself that can be no part of a packet: empty, of odd length, or beyond the longest packet.
        FragmentMalformed => drop "fragment-malformed",
        /// A fragment to the router itself that came before.
        FragmentDuplicate => drop "fragment-duplicate",
        /// Of a packet to the router itself whose fragments overlap: all of it is dropped (as RFC 5722 says for IPv6).
        FragmentOverlap => drop "fragment-overlap",
        /// A fragment to the router itself; the others did not come within 60 seconds.
        FragmentTimeout => drop "fragment-timeout",
        /// A fragment to the router itself; too many of other packets wait for the rest of theirs.
        FragmentQueueFull => drop "fragment-queue-full",
        /// An ICMP echo request to the router itself whose reply has no way back: no route, no neighbour that answers, or a link
        /// that is down.
        EchoUnanswered => drop "echo-unanswered",
        /// An ICMP message to the router itself whose checksum is wrong, or that is cut short.
        IcmpMalformed => drop "local-icmp-malformed",
        /// There was no buffer for an answer or a fragment.
        NoBuffer => drop "no-buffer",

        /// Asks for a neighbour's Ethernet address.
        ArpRequest => create "arp-request",
        /// Asks a known neighbour whether it is still there.
        ArpRevalidation => create "arp-revalidation",
        /// Answers an ARP request.
        ArpReply => create "arp-reply",
        /// Asks whether somebody else has one of the router's own addresses (RFC 5227).
        ArpProbe => create "arp-probe",
        /// Tells the link of one of the router's own addresses (RFC 5227).
        ArpAnnouncement => create "arp-announcement",
        /// Answers an ICMP echo request.
        EchoReply => create "echo-reply",
        /// A piece of a packet that was longer than the MTU.
        Piece => create "fragment",
        /// ICMP: the TTL ended here.
        TimeExceeded => create "icmp-time-exceeded",
        /// ICMP: the fragments of a packet to the router itself did not all come in time.
        ReassemblyExceeded => create "icmp-reassembly-exceeded",
        /// ICMP: no route.
        NetUnreachable => create "icmp-net-unreachable",
        /// ICMP: the neighbour does not answer.
        HostUnreachable => create "icmp-host-unreachable",
        /// ICMP: the protocol is not spoken here.
        ProtocolUnreachable => create "icmp-protocol-unreachable",
        /// ICMP: nothing listens there.
        PortUnreachable => create "icmp-port-unreachable",
        /// ICMP: too long for the next hop, and not to be fragmented.
        FragmentationNeeded => create "icmp-fragmentation-needed",
        /// ICMP: source routes are not followed.
        SourceRouteFailed => create "icmp-source-route-failed",
        /// ICMP: another router on the source's own network is nearer.
        Redirect => create "icmp-redirect",
        /// ICMP: a field of the header makes no sense.
        ParameterProblem => create "icmp-parameter-problem",
    }
}
