//! The basic match fields: OpenFlow 1.3.5 section 7.2.3.7 and its table of required lengths, masks and prerequisites.

macro_rules! fields {
    ($($(#[$about:meta])* $name:ident = $number:literal, $text:literal, $bits:literal, $mask:literal, $needs:expr;)*) => {
        /// A field of a packet, or of what is known about it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Field {
            $($(#[$about])* $name = $number,)*
        }

        impl Field {
            /// All fields, in the order of their numbers.
            pub const ALL: &[Field] = &[$(Field::$name,)*];

            /// The field of a number in the class of basic fields.
            pub const fn of_number(number: u8) -> Option<Field> {
                match number {
                    $($number => Some(Field::$name),)*
                    _ => None,
                }
            }

            const fn row(self) -> (&'static str, u32, bool, Needs) {
                match self {
                    $(Field::$name => ($text, $bits, $mask, $needs),)*
                }
            }
        }
    };
}

/// What must stand before a field in a match: one of these values of another field, without a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// A field, with any value.
    Any(Field),
    /// A VLAN identifier other than "no tag", with or without a mask.
    Tag,
    /// A field with one of these values.
    OneOf(Field, &'static [u128]),
}

const IPV4: &[u128] = &[0x0800];
const IPV6: &[u128] = &[0x86dd];
const IP: &[u128] = &[0x0800, 0x86dd];
const ARP: &[u128] = &[0x0806];
const MPLS: &[u128] = &[0x8847, 0x8848];
const PBB: &[u128] = &[0x88e7];
const ICMP: &[u128] = &[1];
const TCP: &[u128] = &[6];
const UDP: &[u128] = &[17];
const ICMPV6: &[u128] = &[58];
const SCTP: &[u128] = &[132];

use Needs::{Any, Nothing, OneOf, Tag};

fields! {
    /// The port that a packet came in by.
    InPort = 0, "in_port", 32, false, Nothing;
    /// The physical port below that.
    InPhyPort = 1, "in_phy_port", 32, false, Any(Field::InPort);
    /// What tables hand on to later ones.
    Metadata = 2, "metadata", 64, true, Nothing;
    /// Ethernet destination.
    EthDst = 3, "eth_dst", 48, true, Nothing;
    /// Ethernet source.
    EthSrc = 4, "eth_src", 48, true, Nothing;
    /// The EtherType after VLAN tags.
    EthType = 5, "eth_type", 16, false, Nothing;
    /// The VLAN identifier of the outer tag, with [`crate::oxm::VLAN_PRESENT`] where there is one.
    VlanVid = 6, "vlan_vid", 13, true, Nothing;
    /// The priority in the outer tag.
    VlanPcp = 7, "vlan_pcp", 3, false, Tag;
    /// The upper six bits of the type of service, or traffic class.
    IpDscp = 8, "ip_dscp", 6, false, OneOf(Field::EthType, IP);
    /// The lower two bits of it.
    IpEcn = 9, "ip_ecn", 2, false, OneOf(Field::EthType, IP);
    /// The protocol above IPv4 or IPv6.
    IpProto = 10, "ip_proto", 8, false, OneOf(Field::EthType, IP);
    /// IPv4 source.
    Ipv4Src = 11, "ipv4_src", 32, true, OneOf(Field::EthType, IPV4);
    /// IPv4 destination.
    Ipv4Dst = 12, "ipv4_dst", 32, true, OneOf(Field::EthType, IPV4);
    /// TCP source port.
    TcpSrc = 13, "tcp_src", 16, false, OneOf(Field::IpProto, TCP);
    /// TCP destination port.
    TcpDst = 14, "tcp_dst", 16, false, OneOf(Field::IpProto, TCP);
    /// UDP source port.
    UdpSrc = 15, "udp_src", 16, false, OneOf(Field::IpProto, UDP);
    /// UDP destination port.
    UdpDst = 16, "udp_dst", 16, false, OneOf(Field::IpProto, UDP);
    /// SCTP source port.
    SctpSrc = 17, "sctp_src", 16, false, OneOf(Field::IpProto, SCTP);
    /// SCTP destination port.
    SctpDst = 18, "sctp_dst", 16, false, OneOf(Field::IpProto, SCTP);
    /// ICMP type.
    Icmpv4Type = 19, "icmpv4_type", 8, false, OneOf(Field::IpProto, ICMP);
    /// ICMP code.
    Icmpv4Code = 20, "icmpv4_code", 8, false, OneOf(Field::IpProto, ICMP);
    /// ARP operation.
    ArpOp = 21, "arp_op", 16, false, OneOf(Field::EthType, ARP);
    /// The IPv4 address of an ARP message's sender.
    ArpSpa = 22, "arp_spa", 32, true, OneOf(Field::EthType, ARP);
    /// The IPv4 address that an ARP message is about.
    ArpTpa = 23, "arp_tpa", 32, true, OneOf(Field::EthType, ARP);
    /// The Ethernet address of an ARP message's sender.
    ArpSha = 24, "arp_sha", 48, true, OneOf(Field::EthType, ARP);
    /// The Ethernet address that an ARP message is about.
    ArpTha = 25, "arp_tha", 48, true, OneOf(Field::EthType, ARP);
    /// IPv6 source.
    Ipv6Src = 26, "ipv6_src", 128, true, OneOf(Field::EthType, IPV6);
    /// IPv6 destination.
    Ipv6Dst = 27, "ipv6_dst", 128, true, OneOf(Field::EthType, IPV6);
    /// IPv6 flow label.
    Ipv6Flabel = 28, "ipv6_flabel", 20, true, OneOf(Field::EthType, IPV6);
    /// ICMPv6 type.
    Icmpv6Type = 29, "icmpv6_type", 8, false, OneOf(Field::IpProto, ICMPV6);
    /// ICMPv6 code.
    Icmpv6Code = 30, "icmpv6_code", 8, false, OneOf(Field::IpProto, ICMPV6);
    /// The address that a neighbour solicitation or advertisement is about.
    Ipv6NdTarget = 31, "ipv6_nd_target", 128, false, OneOf(Field::Icmpv6Type, &[135, 136]);
    /// The source link-layer address of a neighbour solicitation.
    Ipv6NdSll = 32, "ipv6_nd_sll", 48, false, OneOf(Field::Icmpv6Type, &[135]);
    /// The target link-layer address of a neighbour advertisement.
    Ipv6NdTll = 33, "ipv6_nd_tll", 48, false, OneOf(Field::Icmpv6Type, &[136]);
    /// The label of the outer MPLS entry.
    MplsLabel = 34, "mpls_label", 20, false, OneOf(Field::EthType, MPLS);
    /// Its traffic class.
    MplsTc = 35, "mpls_tc", 3, false, OneOf(Field::EthType, MPLS);
    /// Its bottom-of-stack bit.
    MplsBos = 36, "mpls_bos", 1, false, OneOf(Field::EthType, MPLS);
    /// The service instance of a provider backbone bridge's tag.
    PbbIsid = 37, "pbb_isid", 24, true, OneOf(Field::EthType, PBB);
    /// What a logical port says of the tunnel: a VXLAN network identifier, a GRE key.
    TunnelId = 38, "tunnel_id", 64, true, Nothing;
    /// Which IPv6 extension headers there are, and whether in order.
    Ipv6Exthdr = 39, "ipv6_exthdr", 9, true, OneOf(Field::EthType, IPV6);
}

impl Field {
    /// How many fields there are; their numbers are below this.
    pub const COUNT: usize = Field::ALL.len();

    /// Its number in the class of basic fields.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Its name, as controllers write it.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// How many bits a value has.
    pub const fn bits(self) -> u32 {
        self.row().1
    }

    /// How many bytes a value takes on the wire.
    pub const fn bytes(self) -> usize {
        match self.bits() {
            // Labels of 20 bits come in four bytes.
            20 => 4,
            bits => bits.div_ceil(8) as usize,
        }
    }

    /// All bits of a value.
    pub const fn ones(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }

    /// Whether a match may leave out bits of it.
    pub const fn has_mask(self) -> bool {
        self.row().2
    }

    /// What a match must say before it.
    pub const fn needs(self) -> Needs {
        self.row().3
    }

    /// Whether an action may set it: everything that stands in a header, and the tunnel's identifier
    /// (section 7.2.5: not the port, nor the metadata).
    pub const fn is_settable(self) -> bool {
        !matches!(self, Field::InPort | Field::InPhyPort | Field::Metadata | Field::Ipv6Exthdr)
    }
}
