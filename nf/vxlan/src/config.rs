//! The keys of `vxlan`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use weir_config::{MacAddress, OneOrMany, PacketRate, PortName, config};
use weir_ip::{Limits, LinuxConfig, NamedNeighbor, NeighborTimers, Via};
use weir_wire::vxlan::PORT;

config! {
    /// A tunnel: a segment, and the end point at another place that it leads to.
    pub struct TunnelConfig {
        /// The number of the segment (VNI).
        pub vni: u32 = required, rebuild, range(1..=16_777_215);
        /// The address that packets of the tunnel come from, and are received at. If none of the function's interfaces has it, the function has it
        /// by itself.
        pub source: IpAddr = required, rebuild;
        /// The address of the end point at the other place, of the same family. What others send to the segment is dropped.
        pub remote: IpAddr = required, rebuild;
        /// TTL, or hop limit, of packets in the tunnel.
        pub ttl: u8 = default(64), rebuild, range(1..=255);
        /// DSCP of packets in the tunnel.
        pub dscp: u8 = default(0), rebuild, range(0..=63);
        /// Whether frames may have VLAN tags in the tunnel; they are dropped otherwise, both ways (RFC 7348 section 6.1).
        pub tagged: bool = default(false), rebuild;
    }
}

config! {
    /// Carries Ethernet frames in VXLAN tunnels (RFC 7348): what comes by a port with a tunnel goes to the tunnel's other end, and back.
    pub struct VxlanConfig {
        /// The ports that lead to the IP network between the ends of tunnels, with all interfaces that are declared on them.
        pub ports: Vec<PortName> = required, rebuild, length(1..=64);
        /// The tunnels, by the port whose frames they carry: in most cases the end of a joint, of which a bridge or a switch has the other.
        pub tunnels: BTreeMap<PortName, TunnelConfig> = required, rebuild, length(1..=128);
        /// The UDP port that is sent to and received at.
        pub udp_port: u16 = default(PORT), rebuild, range(1..=65_535);
        /// Static routes, by which tunnels go: for each prefix the next hop, or a list of such that share the traffic.
        pub routes: BTreeMap<IpNet, OneOrMany<Via>> = empty, live;
        /// Ethernet addresses of neighbours that are not asked for by ARP or neighbour discovery.
        pub neighbors: BTreeMap<NamedNeighbor, MacAddress> = empty, live;
        /// The Linux network namespace that speaks for the function: routing daemons there see the interfaces, and their routes are the function's.
        pub linux: Option<LinuxConfig> = optional, rebuild;
        /// ICMP errors of each kind about what is routed and in no tunnel.
        pub icmp_rate: PacketRate = default(PacketRate::new(1000)), live;
        /// Packets that each worker hands to the slow path at most.
        pub punt_rate: PacketRate = default(PacketRate::new(32_000)), rebuild;
        /// How neighbours are found and believed in (ARP, neighbour discovery).
        pub neighbor_timers: NeighborTimers = empty, live;
        /// Bounds of the tables of routes and neighbours.
        pub limits: Limits = empty, rebuild;
        /// Number that flows are hashed with, for the source ports of tunnels and for routes that share traffic.
        pub hash_seed: u32 = default(0), rebuild;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_sound() {
        assert_eq!(VxlanConfig::schema().defects(), Vec::<String>::new());
    }
}
