//! Ways out of the slow path, and reasons.

weir_stage::ways! {
    /// Ways out of the slow path, before those to the ports.
    pub enum Exit {
        /// Not decided: a defect of the slow path, which never lets a packet go this way.
        Undecided => way "undecided",
        /// A packet that the slow path made has to wait for a neighbour: it comes back to be held.
        Again => again "again",
        /// Of a line, and can go on: for the function, which knows how.
        Line => way "line",
        /// A route leads into the function: options were carried out, or it was made here.
        Function => way "function",

        /// An ARP request for one of the router's addresses (or, by proxy, another's), which was answered.
        ArpAnswered => consume "arp-answered",
        /// ARP from a neighbour that the router talks to.
        ArpLearned => consume "arp-learned",
        /// ARP from a station that uses one of the router's own addresses.
        ArpConflict => consume "arp-conflict",
        /// A neighbour solicitation for one of the router's addresses (or, by proxy, another's), which was answered.
        NdAnswered => consume "nd-answered",
        /// Neighbour discovery from a neighbour that the router talks to.
        NdLearned => consume "nd-learned",
        /// Neighbour discovery from a station that uses one of the router's own addresses, or wants to.
        NdConflict => consume "nd-conflict",
        /// A host looks for routers: an advertisement to all follows soon.
        RouterSolicited => consume "router-solicited",
        /// A router asks for multicast listeners, and is answered soon.
        MldAnswered => consume "mld-answered",
        /// For the router itself, or for whoever listens on the link: Linux has it, which speaks for the VRF.
        Delivered => consume "delivered",
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
        /// Neighbour discovery between others, on an interface whose link is down, or for routers where this one does not advertise itself.
        NdIgnored => drop "nd-ignored",
        /// Neighbour discovery that is not valid (RFC 4861 sections 6.1, 7.1 and 8.1), or comes from an address that no host has.
        NdMalformed => drop "nd-malformed",
        /// The advertisement of another router, which is for hosts.
        OtherRouter => drop "other-router",
        /// A redirect, which is for hosts: a router takes none (RFC 4861 section 8.2).
        RedirectIgnored => drop "redirect-ignored",
        /// A question for multicast listeners to groups that the router does not listen to.
        MldIgnored => drop "mld-ignored",
        /// To a multicast group of the link that the router does not listen to.
        NotListening => drop "not-listening",
        /// The TTL, or hop limit, ended here.
        TtlExpired => drop "ttl-expired",
        /// No route leads to its destination.
        NoRoute => drop "no-route",
        /// A route says that it is dropped silently.
        Blackhole => drop "blackhole",
        /// A route says that nothing can be reached there.
        Rejected => drop "rejected",
        /// A route says that nobody may go there.
        Prohibited => drop "prohibited",
        /// From a link-local address to one beyond the link (RFC 4291 section 2.5.6).
        BeyondScope => drop "beyond-scope",
        /// To the broadcast or network address of a connected network (RFC 2644).
        DirectedBroadcast => drop "directed-broadcast",
        /// To a link-local address, which a router must not forward (RFC 3927 section 7, RFC 4291 section 2.5.6).
        LinkLocal => drop "link-local",
        /// Longer than the next hop's MTU, and not to be fragmented.
        MustNotFragment => drop "fragmentation-needed",
        /// An IPv6 packet longer than the next link's MTU: routers take none apart.
        TooBig => drop "packet-too-big",
        /// Its extension headers are cut short, too many or too long, or want what this router does not know (RFC 8200 section 4).
        BadExtension => drop "bad-extension-header",
        /// Its IP options have a wrong length or make no sense.
        BadOptions => drop "bad-options",
        /// A fragment that ends beyond 65,535 bytes, the longest packet, and would have to be taken apart again to go on.
        FragmentBeyond => drop "fragment-beyond-end",
        /// It dictates its route, which this router does not follow (RFC 7126 section 4.3).
        SourceRoute => drop "source-route",
        /// Its neighbour did not answer ARP or neighbour discovery.
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
        /// A fragment to the router itself that can be no part of a packet: empty, of odd length, beyond the longest
        /// packet, or without the headers that the first has to have (RFC 7112).
        FragmentMalformed => drop "fragment-malformed",
        /// A fragment to the router itself that came before.
        FragmentDuplicate => drop "fragment-duplicate",
        /// Of a packet to the router itself whose fragments overlap: all of it is dropped (RFC 5722).
        FragmentOverlap => drop "fragment-overlap",
        /// A fragment to the router itself; the others did not come within 60 seconds.
        FragmentTimeout => drop "fragment-timeout",
        /// A fragment to the router itself; too many of other packets wait for the rest of theirs.
        FragmentQueueFull => drop "fragment-queue-full",
        /// An ICMP echo request to the router itself whose reply has no way back: no route, no neighbour that answers, or a link
        /// that is down.
        EchoUnanswered => drop "echo-unanswered",
        /// An ICMP message to the router itself whose checksum is wrong, that is cut short, or not valid otherwise.
        IcmpMalformed => drop "local-icmp-malformed",
        /// For Linux, which is not there, or has not taken what was handed to it before.
        HostFull => drop "linux-full",
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
        /// Asks for a neighbour's Ethernet address by neighbour discovery.
        NdSolicitation => create "nd-solicitation",
        /// Asks a known neighbour by neighbour discovery whether it is still there.
        NdRevalidation => create "nd-revalidation",
        /// Answers a neighbour solicitation.
        NdAdvertisement => create "nd-advertisement",
        /// Asks whether somebody else has one of the router's own addresses (RFC 4862 section 5.4).
        NdProbe => create "nd-probe",
        /// Tells the link of one of the router's own addresses (RFC 4861 section 7.2.6).
        NdAnnouncement => create "nd-announcement",
        /// Tells hosts of the router (RFC 4861 section 6.2).
        RouterAdvertisement => create "router-advertisement",
        /// Tells routers which multicast groups this one listens to (RFC 3810).
        MldReport => create "mld-report",
        /// Sent by Linux, which speaks for the VRF.
        FromLinux => create "from-linux",
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
        /// ICMP: a route forbids it.
        AdministrativelyProhibited => create "icmp-prohibited",
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
        /// ICMPv6: the hop limit ended here.
        TimeExceeded6 => create "icmp6-time-exceeded",
        /// ICMPv6: the fragments of a packet to the router itself did not all come in time.
        ReassemblyExceeded6 => create "icmp6-reassembly-exceeded",
        /// ICMPv6: no route.
        NoRoute6 => create "icmp6-no-route",
        /// ICMPv6: a route forbids it.
        Prohibited6 => create "icmp6-prohibited",
        /// ICMPv6: a link-local source has to stay on its link.
        BeyondScope6 => create "icmp6-beyond-scope",
        /// ICMPv6: the neighbour does not answer.
        AddressUnreachable6 => create "icmp6-address-unreachable",
        /// ICMPv6: nothing listens there.
        PortUnreachable6 => create "icmp6-port-unreachable",
        /// ICMPv6: a route says that nothing can be reached there.
        RejectRoute6 => create "icmp6-reject-route",
        /// ICMPv6: too long for the next link.
        PacketTooBig6 => create "icmp6-packet-too-big",
        /// ICMPv6: a header makes no sense, or is not known.
        ParameterProblem6 => create "icmp6-parameter-problem",
        /// Neighbour discovery: the destination itself, or another router, is nearer to the source.
        Redirect6 => create "nd-redirect",
    }
}
