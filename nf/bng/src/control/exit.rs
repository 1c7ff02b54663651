//! Ways out of the slow path, and reasons.

weir_stage::ways! {
    /// Ways out of the slow path, before those to the ports.
    pub enum Exit {
        /// A customer's packet that can go on: its source was learned.
        Up => way "up",
        /// A packet to a customer that can go on: the Ethernet address was found.
        Down => way "down",
        /// Of a line, and the network layer's to answer, or to let go on.
        Layer => way "layer",
        /// A frame of the gateway's own to a line, which gets its tags there.
        Lines => way "lines",

        /// An ARP request of a customer for the gateway, or for a neighbour by proxy (RFC 1027), which was answered.
        ArpAnswered => consume "arp-answered",
        /// ARP that told, or confirmed, where an address is.
        ArpLearned => consume "arp-learned",
        /// ARP of a customer that asks whether an address is free (RFC 5227); what is not the gateway's is left alone.
        ArpProbed => consume "arp-probed",
        /// Neighbour discovery of a customer that asked for the gateway, and was answered.
        NdAnswered => consume "nd-answered",
        /// Neighbour discovery that told, or confirmed, where a subscriber's networks are.
        NdLearned => consume "nd-learned",
        /// Did not fit: its outer packet goes on in pieces.
        Fragmented => consume "fragmented",
        /// A fragment of an outer packet that became whole.
        Reassembled => consume "reassembled",

        /// Nobody subscribes with these tags on this port any more.
        UnknownSubscriber => drop "unknown-subscriber",
        /// ARP that is not for Ethernet and IPv4, is cut short, or comes from an address that no host has.
        ArpMalformed => drop "arp-malformed",
        /// ARP whose sender is not who the frame comes from.
        ArpSpoofed => drop "arp-spoofed",
        /// ARP of a customer's station that uses one of the gateway's own addresses.
        GatewayAddress => drop "gateway-address",
        /// From an address that the subscriber has no right to.
        SpoofedSource => drop "spoofed-source",
        /// From an address that another subscriber has just now.
        SourceTaken => drop "source-taken",
        /// From another MAC address than the only one that the subscriber may use.
        WrongMac => drop "wrong-mac",
        /// An address moves from one MAC address to another more often than once in a second.
        MovesTooOften => drop "moves-too-often",
        /// From one address more than the subscriber may have learned.
        TooManyAddresses => drop "too-many-addresses",
        /// There is no room for more addresses.
        TableFull => drop "address-table-full",
        /// Workers do not know the address yet.
        NotYetKnown => drop "not-yet-known",
        /// Longer than what fits, and not to be sent in pieces: no link carries so little.
        TooBig => drop "fragmentation-needed",
        /// To an address that no subscriber has.
        UnknownDestination => drop "unknown-destination",
        /// To an address of a subscriber that does not answer.
        HostUnresolved => drop "host-unresolved",
        /// Newer packets took its place while it waited for an Ethernet address, or there was no place to wait.
        QueueFull => drop "queue-full",
        /// To the gateway itself, inside a tunnel.
        NoProtocol => drop "local-protocol",
        /// Neighbour discovery that is not valid (RFC 4861 section 7.1), or of no use here.
        NdIgnored => drop "nd-ignored",
        /// Neighbour discovery whose sender is not who the frame comes from.
        NdSpoofed => drop "nd-spoofed",
        /// More outer packets were to be fragmented for a gateway than there are identifications, of which none may come twice within
        /// two minutes (RFC 6864 section 4.3).
        NoIdentification => drop "no-identification",
        /// A fragment of an outer packet that can not be one: empty, of no whole units of 8 bytes, or beyond the longest packet.
        FragmentMalformed => drop "outer-fragment-malformed",
        /// A fragment of an outer packet that was there before.
        FragmentDuplicate => drop "outer-fragment-duplicate",
        /// Of an outer packet whose fragments overlap or contradict each other: all of it is given up (as RFC 5722 section 4).
        FragmentOverlap => drop "outer-fragment-overlap",
        /// As many fragments of outer packets wait as may (`limits.fragments`).
        FragmentsFull => drop "outer-fragment-queue-full",
        /// The rest of its outer packet did not come within a minute.
        FragmentTimeout => drop "outer-fragment-timeout",
        /// There was no buffer for an answer.
        NoBuffer => drop "no-buffer",

        /// Asks a customer's line who has an address.
        ArpRequest => create "arp-request",
        /// Asks a silent host whether it is still there.
        ArpRevalidation => create "arp-revalidation",
        /// Answers an ARP request.
        ArpReply => create "arp-reply",
        /// Tells a link of the core of one of the gateway's own addresses (RFC 5227).
        ArpAnnouncement => create "arp-announcement",
        /// Asks a customer's line who has an IPv6 address, or a silent host whether it is still there (RFC 4861).
        NeighborSolicitation => create "nd-neighbor-solicitation",
        /// Tells of the gateway (RFC 4861).
        NeighborAdvertisement => create "nd-neighbor-advertisement",
        /// Tells of the gateway as a router, and of the subscriber's networks (RFC 4861).
        RouterAdvertisement => create "nd-router-advertisement",
        /// A piece of an outer packet that did not fit.
        Piece => create "fragment",
        /// An outer packet put together from its fragments.
        Whole => create "whole",
    }
}
