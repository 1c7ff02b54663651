//! The keys of `lwaftr`.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use weir_config::{FilePath, MacAddress, Nanos, OneOrMany, PacketRate, PortName, choice, config, either};
use weir_ip::{Advertise, FlowExportConfig, Limits, LinuxConfig, NamedNeighbor, NeighborTimers, Via, VrfConfig};
use weir_stage::entry;

use crate::words::{Addresses4, FilterText};

choice! {
    /// Whose the port of an ICMPv4 echo message is.
    pub enum EchoPort {
        /// The identifier stands for the port in requests and replies (RFC 7596 section 8.1).
        Identifier = "identifier",
        /// The identifier stands for the port of whoever asked alone; whoever is asked has port 0, as in Snabb's lwAFTR.
        Zero = "zero",
    }
}

config! {
    /// How the ports of an address are divided among softwires (RFC 7597 section 5.1).
    pub struct PortSetConfig {
        /// Bits of a PSID (k): so many customers share the address as there are such numbers.
        pub psid_length: u8 = default(0), live, range(0..=16);
        /// Bits of ports in front of the PSID (a); where there are some, ports in which all of them are 0 are nobody's.
        pub psid_offset: u8 = default(0), live, range(0..=16);
    }
}

entry! {
    /// A softwire: a customer's part of an IPv4 address, and the tunnel to it.
    pub struct SoftwireConfig by (ipv4: Ipv4Addr, psid: u16) {
        /// The shared IPv4 address.
        pub ipv4: Ipv4Addr = required, live;
        /// Which of its port sets is the customer's.
        pub psid: u16 = default(0), live, range(0..=65_535);
        /// The customer's end of the tunnel (B4).
        pub b4: Ipv6Addr = required, live;
        /// The relay's end, one of those in `aftr`; the first of them when absent.
        pub aftr: Option<Ipv6Addr> = optional, live;
        /// Bits of a PSID; what `port_sets` says of the address when absent.
        pub psid_length: Option<u8> = optional, live, range(0..=16);
        /// Bits of ports in front of the PSID, in the same way.
        pub psid_offset: Option<u8> = optional, live, range(0..=16);
    }
}

either! {
    /// The softwires.
    pub enum SoftwiresConfig {
        /// A CSV file with the columns `ipv4,b4,psid,aftr,psid_length,psid_offset`, of which all but the first two may be missing or empty.
        File(FilePath),
        /// The softwires themselves.
        List(Vec<SoftwireConfig>),
    }
}

config! {
    /// How many ICMP errors are sent, by each worker.
    pub struct ErrorRate {
        /// Errors in each period.
        pub packets: u32 = default(10_000), rebuild;
        /// The period.
        pub period: Nanos = default(Nanos::new(2_000_000_000)), rebuild, range(Nanos::new(1_000_000)..=Nanos::new(3_600_000_000_000));
    }
}

config! {
    /// What fragments may take, in each worker.
    pub struct ReassemblyConfig {
        /// Fragments that wait for others of their packets, for 60 s; where there are more, the oldest go.
        pub fragments: u32 = default(2048), rebuild, range(0..=262_144);
        /// Fragments of one packet.
        pub per_packet: u32 = default(40), rebuild, range(1..=8192);
    }
}

config! {
    /// What is different between the side of the Internet (IPv4) and that of the customers (IPv6).
    pub struct SideConfig {
        /// The VRF that the side is in, one of `vrfs`; the default one when absent.
        pub vrf: Option<String> = optional, rebuild;
        /// The interfaces of the side; all of the function when empty.
        pub interfaces: OneOrMany<String> = empty, rebuild;
        /// Bytes of the longest IP packet that leaves on this side; that of the interface when absent.
        pub mtu: Option<u16> = optional, rebuild, range(68..=9198);
        /// Whether ICMP is let in from this side: for IPv4, to softwires; for IPv6, errors about tunnels, which are translated.
        pub allow_icmp: bool = default(true), rebuild;
        /// Whether ICMP errors are sent about packets that can not go on: of ICMPv4 on the side of IPv4, of ICMPv6 on that of IPv6.
        pub icmp_errors: bool = default(true), rebuild;
        /// How many of them.
        pub error_rate: ErrorRate = empty, rebuild;
        /// What reassembly may take.
        pub reassembly: ReassemblyConfig = empty, rebuild;
        /// Capture expression that IP packets from this side must match; tags are off then.
        pub ingress_filter: Option<FilterText> = optional, rebuild;
        /// Capture expression that IP packets to this side must match.
        pub egress_filter: Option<FilterText> = optional, rebuild;
    }
}

config! {
    /// Bounds of the binding table. What does not fit is refused by name.
    pub struct TableLimits {
        /// Softwires.
        pub softwires: u32 = default(1_048_576), rebuild, range(1..=16_777_216);
        /// IPv4 addresses that they share.
        pub addresses: u32 = default(1_048_576), rebuild, range(1..=16_777_216);
    }
}

config! {
    /// The border relay of Lightweight 4over6 (RFC 7596): carries IPv4 between the Internet and customers who share addresses by port sets,
    /// in IPv6 tunnels.
    pub struct LwaftrConfig {
        /// The ports that belong to the relay, with all interfaces that are declared on them.
        pub ports: Vec<PortName> = required, rebuild, length(1..=64);
        /// The relay's ends of tunnels (AFTR addresses), the one of softwires that name none first. They are the relay's own, and answer pings.
        pub aftr: OneOrMany<Ipv6Addr> = required, rebuild, length(1..=4096);
        /// The softwires: a CSV file, or a list of tables.
        pub softwires: SoftwiresConfig = default(SoftwiresConfig::List(Vec::new())), live;
        /// How the ports of addresses are divided where softwires do not say it, by address (`192.0.2.1`), prefix (`192.0.2.0/24`) or range
        /// (`192.0.2.1-192.0.2.9`); the narrowest counts.
        pub port_sets: BTreeMap<Addresses4, PortSetConfig> = empty, live;
        /// Prefixes that are the relay's beside the addresses that softwires share, and routes of its own, but for those of length 0: what is for
        /// them and no softwire's is told so by ICMP, and not routed. Of IPv6 that counts for what could come from a tunnel.
        pub prefixes: OneOrMany<IpNet> = empty, rebuild;
        /// Whether customers reach each other through the relay (hairpinning, RFC 7596 section 6.2). Otherwise what they send to shared addresses is
        /// routed as all else.
        pub hairpinning: bool = default(true), rebuild;
        /// Whose the port of ICMPv4 echo messages is.
        pub echo_port: EchoPort = default(EchoPort::Identifier), rebuild;
        /// The IPv4 address that ICMPv4 errors come from; the first one of the ports when absent.
        pub icmp_source: Option<Ipv4Addr> = optional, rebuild;
        /// The side of the Internet.
        pub ipv4: SideConfig = empty, rebuild;
        /// The side of the customers.
        pub ipv6: SideConfig = empty, rebuild;
        /// Flow label of packets in tunnels.
        pub flow_label: u32 = default(0), rebuild, range(0..=1_048_575);
        /// Largest TCP segment that SYN packets may ask for, either way; they are left as they are when absent.
        pub mss: Option<u16> = optional, rebuild, range(88..=9158);
        /// Bounds of the binding table.
        pub table_limits: TableLimits = empty, rebuild;
        /// Static routes, by which both what comes out of tunnels and tunnels themselves go on: for each prefix the next hop, or a list of such
        /// that share the traffic.
        pub routes: BTreeMap<IpNet, OneOrMany<Via>> = empty, live;
        /// Static routes from a file with the columns `prefix` and `via`; several next hops in `via` are parted by `;`.
        pub routes_csv: Option<FilePath> = optional, live;
        /// Ethernet addresses of neighbours that are not asked for by ARP or neighbour discovery.
        pub neighbors: BTreeMap<NamedNeighbor, MacAddress> = empty, live;
        /// The Linux network namespace that speaks for the default VRF: routing daemons there see the interfaces, and their routes are the relay's.
        pub linux: Option<LinuxConfig> = optional, rebuild;
        /// VRFs by name, beside the default one. Each side may be in one of them; from others, routes lead to softwires that say so (`@lwaftr`).
        pub vrfs: BTreeMap<String, VrfConfig> = empty, rebuild;
        /// Collectors that are told of packets which come in, one in so many, by sFlow or IPFIX; none when absent. Of tunnels they are told the IPv4 packet inside.
        pub flow_export: Option<FlowExportConfig> = optional, live;
        /// What hosts are told of the router by router advertisements, by the name of the interface.
        pub advertise: BTreeMap<String, Advertise> = empty, live;
        /// Ports on which requests for all that is routed are answered (RFC 1027, RFC 4861 section 7.2.8).
        pub proxy_arp: Vec<PortName> = empty, live;
        /// ICMP errors of each kind about what is routed and not the relay's.
        pub icmp_rate: PacketRate = default(PacketRate::new(1000)), live;
        /// Packets that each worker hands to the slow path at most.
        pub punt_rate: PacketRate = default(PacketRate::new(32_000)), rebuild;
        /// How neighbours are found and believed in (ARP, neighbour discovery).
        pub neighbor_timers: NeighborTimers = empty, live;
        /// Bounds of the tables of routes and neighbours.
        pub limits: Limits = empty, rebuild;
        /// Number that flows are hashed with.
        pub hash_seed: u32 = default(0), rebuild;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_sound() {
        assert_eq!(LwaftrConfig::schema().defects(), Vec::<String>::new());
    }
}
