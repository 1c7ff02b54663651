//! What a configuration says about streams.

use std::collections::BTreeMap;

use weir_config::{FilePath, Nanos, OneOrMany, PortName, Rate, choice, config, scalar};

use crate::load::Load;
use crate::size::Sizes;
use crate::values::{Field, Mac, Number, Port, V4, V6};

scalar!(Load, Sizes);

choice! {
    /// How packets lie in time.
    pub(crate) enum Gaps {
        /// Evenly.
        Constant = "constant",
        /// At random: the number in any time has a Poisson distribution, as in the sum of many independent senders.
        Poisson = "poisson",
        /// As many at once as `burst` says, then a pause.
        Burst = "burst",
    }
}

choice! {
    /// When the packets of a capture file are sent.
    pub(crate) enum Timing {
        /// As `rate` says.
        Rate = "rate",
        /// At the distances that their stamps have.
        Recorded = "recorded",
    }
}

config! {
    /// An Ethernet header. A field that is absent is what the layer needs, or has a usual value.
    pub(crate) struct EthernetLayer {
        /// Where from; the port's own address when absent.
        pub(crate) source: Option<Field<Mac>> = optional, rebuild;
        /// Where to; that of `via` when absent, or else 02:00:00:00:00:02.
        pub(crate) destination: Option<Field<Mac>> = optional, rebuild;
        /// What follows; that of the next layer when absent.
        pub(crate) ethertype: Option<Field<Number<16>>> = optional, rebuild;
    }
}

config! {
    /// A VLAN tag (IEEE 802.1Q); one before another is the service tag of QinQ.
    pub(crate) struct VlanLayer {
        /// The VLAN.
        pub(crate) id: Option<Field<Number<12>>> = optional, rebuild;
        /// The priority code point.
        pub(crate) priority: Option<Field<Number<3>>> = optional, rebuild;
        /// The drop eligible indicator.
        pub(crate) drop_eligible: Option<Field<Number<1>>> = optional, rebuild;
    }
}

config! {
    /// An MPLS label (RFC 3032).
    pub(crate) struct MplsLayer {
        /// The label.
        pub(crate) label: Option<Field<Number<20>>> = optional, rebuild;
        /// The traffic class.
        pub(crate) class: Option<Field<Number<3>>> = optional, rebuild;
        /// The time to live.
        pub(crate) ttl: Option<Field<Number<8>>> = optional, rebuild;
    }
}

config! {
    /// An ARP message (RFC 826).
    pub(crate) struct ArpLayer {
        /// 1 asks, 2 answers.
        pub(crate) operation: Option<Field<Number<16>>> = optional, rebuild;
        /// The Ethernet address of who sends it; the port's own when absent.
        pub(crate) sender_mac: Option<Field<Mac>> = optional, rebuild;
        /// The address of who sends it.
        pub(crate) sender: Option<Field<V4>> = optional, rebuild;
        /// The Ethernet address of who is meant.
        pub(crate) target_mac: Option<Field<Mac>> = optional, rebuild;
        /// The address of who is meant.
        pub(crate) target: Option<Field<V4>> = optional, rebuild;
    }
}

config! {
    /// An IPv4 header without options (RFC 791). Length and checksum are made.
    pub(crate) struct Ipv4Layer {
        /// Where from.
        pub(crate) source: Option<Field<V4>> = optional, rebuild;
        /// Where to.
        pub(crate) destination: Option<Field<V4>> = optional, rebuild;
        /// The time to live.
        pub(crate) ttl: Option<Field<Number<8>>> = optional, rebuild;
        /// The differentiated services code point.
        pub(crate) dscp: Option<Field<Number<6>>> = optional, rebuild;
        /// Explicit congestion notification.
        pub(crate) ecn: Option<Field<Number<2>>> = optional, rebuild;
        /// The identification.
        pub(crate) identification: Option<Field<Number<16>>> = optional, rebuild;
        /// Whether it must not be fragmented.
        pub(crate) dont_fragment: Option<Field<Number<1>>> = optional, rebuild;
        /// What follows; that of the next layer when absent.
        pub(crate) protocol: Option<Field<Number<8>>> = optional, rebuild;
    }
}

config! {
    /// An IPv6 header (RFC 8200). The length is made.
    pub(crate) struct Ipv6Layer {
        /// Where from.
        pub(crate) source: Option<Field<V6>> = optional, rebuild;
        /// Where to.
        pub(crate) destination: Option<Field<V6>> = optional, rebuild;
        /// The hop limit.
        pub(crate) hop_limit: Option<Field<Number<8>>> = optional, rebuild;
        /// The traffic class.
        pub(crate) traffic_class: Option<Field<Number<8>>> = optional, rebuild;
        /// The flow label.
        pub(crate) flow_label: Option<Field<Number<20>>> = optional, rebuild;
        /// What follows; that of the next layer when absent.
        pub(crate) next_header: Option<Field<Number<8>>> = optional, rebuild;
    }
}

config! {
    /// A GRE header (RFC 2784), with a key (RFC 2890) if it is given.
    pub(crate) struct GreLayer {
        /// The key.
        pub(crate) key: Option<Field<Number<32>>> = optional, rebuild;
        /// What follows; that of the next layer when absent.
        pub(crate) protocol: Option<Field<Number<16>>> = optional, rebuild;
    }
}

config! {
    /// A UDP header (RFC 768). Length and checksum are made; before VXLAN over IPv4 there is no checksum (RFC 7348).
    pub(crate) struct UdpLayer {
        /// The port that it comes from.
        pub(crate) source: Option<Field<Port>> = optional, rebuild;
        /// The port that it goes to.
        pub(crate) destination: Option<Field<Port>> = optional, rebuild;
    }
}

config! {
    /// A TCP header without options (RFC 9293). The checksum is made.
    pub(crate) struct TcpLayer {
        /// The port that it comes from.
        pub(crate) source: Option<Field<Port>> = optional, rebuild;
        /// The port that it goes to.
        pub(crate) destination: Option<Field<Port>> = optional, rebuild;
        /// The sequence number.
        pub(crate) sequence: Option<Field<Number<32>>> = optional, rebuild;
        /// The acknowledgement number.
        pub(crate) acknowledgement: Option<Field<Number<32>>> = optional, rebuild;
        /// The flags: 2 is SYN, 16 is ACK.
        pub(crate) flags: Option<Field<Number<8>>> = optional, rebuild;
        /// The window.
        pub(crate) window: Option<Field<Number<16>>> = optional, rebuild;
    }
}

config! {
    /// An ICMP message (RFC 792), or one of ICMPv6 (RFC 4443) behind an IPv6 header. The checksum is made.
    pub(crate) struct IcmpLayer {
        /// The type; that of an echo request when absent.
        pub(crate) kind: Option<Field<Number<8>>> = optional, rebuild;
        /// The code.
        pub(crate) code: Option<Field<Number<8>>> = optional, rebuild;
        /// The identifier of an echo.
        pub(crate) identifier: Option<Field<Port>> = optional, rebuild;
        /// The sequence number of an echo.
        pub(crate) sequence: Option<Field<Number<16>>> = optional, rebuild;
    }
}

config! {
    /// A VXLAN header (RFC 7348); an Ethernet header follows it.
    pub(crate) struct VxlanLayer {
        /// The network identifier.
        pub(crate) vni: Option<Field<Number<24>>> = optional, rebuild;
    }
}

config! {
    /// Bytes as they are, or the last layer's data.
    pub(crate) struct RawLayer {
        /// The bytes, in hexadecimal: `"dead beef"`.
        pub(crate) bytes: String = required, rebuild;
    }
}

config! {
    /// One layer of a packet: exactly one key.
    pub(crate) struct Layer {
        /// Ethernet: the first layer, or one behind VXLAN.
        pub(crate) ethernet: Option<EthernetLayer> = optional, rebuild;
        /// A VLAN tag.
        pub(crate) vlan: Option<VlanLayer> = optional, rebuild;
        /// An MPLS label.
        pub(crate) mpls: Option<MplsLayer> = optional, rebuild;
        /// ARP.
        pub(crate) arp: Option<ArpLayer> = optional, rebuild;
        /// IPv4; behind IPv6 or IPv4 it is a tunnel's packet.
        pub(crate) ipv4: Option<Ipv4Layer> = optional, rebuild;
        /// IPv6.
        pub(crate) ipv6: Option<Ipv6Layer> = optional, rebuild;
        /// GRE.
        pub(crate) gre: Option<GreLayer> = optional, rebuild;
        /// UDP.
        pub(crate) udp: Option<UdpLayer> = optional, rebuild;
        /// TCP.
        pub(crate) tcp: Option<TcpLayer> = optional, rebuild;
        /// ICMP or ICMPv6.
        pub(crate) icmp: Option<IcmpLayer> = optional, rebuild;
        /// VXLAN.
        pub(crate) vxlan: Option<VxlanLayer> = optional, rebuild;
        /// Bytes.
        pub(crate) raw: Option<RawLayer> = optional, rebuild;
    }
}

choice! {
    /// Which row of a table a packet takes.
    pub(crate) enum RowOrder {
        /// One after the other; after the last comes the first.
        Turn = "in turn",
        /// Any, at random.
        Random = "random",
    }
}

config! {
    /// How ports are divided among those who share an address (RFC 7597 section 5.1). The column `psid` says which of the port sets is the
    /// row's; the columns `psid_length` and `psid_offset` go before these keys, where they are there and not empty.
    pub(crate) struct PortSetsConfig {
        /// Bits of a PSID (k).
        pub(crate) psid_length: u8 = default(0), rebuild, range(0..=16);
        /// Bits of ports in front of the PSID (a); where there are some, ports in which all of them are 0 are nobody's.
        pub(crate) psid_offset: u8 = default(0), rebuild, range(0..=16);
    }
}

config! {
    /// A stream: packets of one template, at one rate, out of one port.
    pub(crate) struct StreamConfig {
        /// Its name in reports; its number when absent.
        pub(crate) name: Option<String> = optional, rebuild, length(1..=64);
        /// The port that it leaves by.
        pub(crate) port: PortName = required, rebuild;
        /// The layers of its packets, from the outside in; Ethernet, IPv4 and UDP when absent.
        pub(crate) layers: Vec<Layer> = empty, rebuild, length(0..=16);
        /// A table of values for the fields that say `"column"`, a CSV file: the column is called as the field is, `ipv4.source`, or as the
        /// field says, `"column b4"`. Each packet takes a row.
        pub(crate) table: Option<FilePath> = optional, rebuild;
        /// Which row each packet takes.
        pub(crate) rows: RowOrder = default(RowOrder::Turn), rebuild;
        /// The port sets of fields that say `"port set"`, as far as the table does not say it.
        pub(crate) port_sets: PortSetsConfig = empty, rebuild;
        /// A capture file whose packets are sent instead.
        pub(crate) replay: Option<FilePath> = optional, rebuild;
        /// When the packets of a capture file are sent.
        pub(crate) timing: Timing = default(Timing::Rate), rebuild;
        /// How long its frames are, in bytes, their check sequence (4 bytes) included: `"64"`, `"64-1518"` in turn,
        /// `"64-1518 random"`, `"imix"`, or a genome of RFC 6985, `"imix:aaaaaaabbbbg"`.
        pub(crate) size: Sizes = default(Sizes::usual()), rebuild;
        /// How fast it is sent: `"1 Mpps"`, `"10 Gbit/s"` on the wire, with preamble and gap, `"50 %"` of the link's speed, or
        /// `"max"`.
        pub(crate) rate: Load = default(Load::Max), rebuild;
        /// How its packets lie in time.
        pub(crate) gaps: Gaps = default(Gaps::Constant), rebuild;
        /// Packets in a burst.
        pub(crate) burst: u32 = default(32), rebuild, range(1..=1_000_000);
        /// Packets in all; without end when absent.
        pub(crate) count: Option<u64> = optional, rebuild, range(1..=1_000_000_000_000_000);
        /// How long it is sent; without end when absent.
        pub(crate) duration: Option<Nanos> = optional, rebuild, range(Nanos::new(1)..=Nanos::new(u64::MAX / 4));
        /// How long after the start of all it begins.
        pub(crate) after: Nanos = default(Nanos::new(0)), rebuild, range(Nanos::new(0)..=Nanos::new(u64::MAX / 4));
        /// Whether each packet carries a signature at the end of its data: stream, sequence number, time and checksum.
        pub(crate) signature: bool = default(false), rebuild;
        /// The next hop: its Ethernet address is asked for by ARP or ND before anything is sent, and is where the packets go.
        pub(crate) via: Option<std::net::IpAddr> = optional, rebuild;
    }
}

config! {
    /// Generates traffic, and measures what comes back. The streams are dealt out to the workers in turn.
    pub struct GenConfig {
        /// The streams.
        pub(crate) streams: Vec<StreamConfig> = empty, rebuild, length(0..=4096);
        /// Ports that only receive.
        pub(crate) receive: OneOrMany<PortName> = empty, rebuild;
        /// What all random numbers start from: the same seed gives the same packets.
        pub(crate) seed: u64 = default(1), rebuild;
        /// The speed of the links, for rates in percent.
        pub(crate) link_speed: Option<Rate> = optional, rebuild, range(Rate::new(1)..=Rate::new(u64::MAX));
        /// Addresses by port for which ARP and ND are answered there, besides the port's own.
        pub(crate) answer: BTreeMap<PortName, OneOrMany<ipnet::IpNet>> = empty, rebuild;
    }
}
