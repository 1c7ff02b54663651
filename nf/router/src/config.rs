//! The keys of `router`, and what must hold of them together.

use std::collections::BTreeMap;

use ipnet::IpNet;
use weir_config::{FilePath, MacAddress, Nanos, OneOrMany, PacketRate, PortName, choice, config};
use weir_net::neighbor::Timing;

use crate::advertise::Advertise;
use crate::via::{NamedNeighbor, Via};

choice! {
    /// How the prefix table is compiled for lookups.
    pub enum TableKind {
        /// A halfword for each /24 (DIR-24-8): 32 MiB, one access to memory; a second one for next hops beyond the first 16,000.
        Dir24 = "dir24",
        /// The same, run-length coded: a few MiB, two accesses to memory.
        Packed = "packed",
    }
}

config! {
    /// Bounds of the router's tables. What does not fit is refused by name; nothing grows beyond.
    pub struct RouterLimits {
        /// Routes of all sources, connected networks and known neighbours included.
        pub routes: u32 = default(2_000_000), rebuild, range(16..=8_000_000);
        /// Next hops: pairs of interface and gateway, and one for each known neighbour.
        pub next_hops: u32 = default(131_072), rebuild, range(16..=1_000_000);
        /// Different sets of equal-cost next hops.
        pub groups: u32 = default(4096), rebuild, range(1..=65_536);
        /// /24 networks that hold prefixes longer than /24; each takes 1 KiB of lookup memory.
        pub long_prefix_networks: u32 = default(16_384), rebuild, range(16..=1_048_576);
        /// Lines of 64 bytes for looking up IPv6 routes, in each VRF: a real table takes two for each route, and as many again while it grows.
        pub ipv6_lines: u32 = default(2_097_152), rebuild, range(1024..=134_217_728);
        /// Interfaces: one for each port, and those with tags and loopbacks.
        pub interfaces: u16 = default(20_000), rebuild, range(64..=65_280);
        /// Neighbours that are kept in mind, on all interfaces together.
        pub neighbors: u32 = default(16_384), rebuild, range(16..=65_536);
        /// Packets that wait for one neighbour's Ethernet address; the oldest gives way to the newest.
        pub queue_per_neighbor: u32 = default(32), rebuild, range(1..=1024);
        /// Packets that wait for Ethernet addresses in all.
        pub queue: u32 = default(1024), rebuild, range(1..=16_384);
        /// Fragments to the router's own addresses that wait, for 60 s, for the rest of their packets; 0 refuses them.
        pub fragments: u32 = default(256), rebuild, range(0..=16_384);
    }
}

/// A time in seconds.
pub(crate) const fn seconds(count: u64) -> Nanos {
    Nanos::new(count * 1_000_000_000)
}

config! {
    /// How neighbours are found and believed in: ARP with the states of RFC 4861, and neighbour discovery.
    pub struct NeighborTimers {
        /// How long an answer counts; then a neighbour that is in use is asked again.
        pub reachable: Nanos = default(seconds(30)), live, range(seconds(1)..=seconds(3600));
        /// How long a neighbour that is not used is remembered after that.
        pub stale: Nanos = default(seconds(300)), live, range(seconds(1)..=seconds(86_400));
        /// Time between two requests for the same address.
        pub retransmit: Nanos = default(seconds(1)), live, range(Nanos::new(100_000_000)..=seconds(60));
        /// Broadcast requests without an answer after which a neighbour is given up.
        pub broadcast_requests: u32 = default(3), live, range(1..=20);
        /// Unicast requests without an answer after which a known neighbour is asked for by broadcast again; of IPv6 always 3.
        pub unicast_requests: u32 = default(2), live, range(0..=20);
        /// How long a neighbour that did not answer is not asked for again.
        pub failed: Nanos = default(seconds(1)), live, range(Nanos::new(0)..=seconds(60));
        /// Probes for one of the router's own addresses before it is announced (RFC 5227); 0 announces at once. For one of IPv6 it is one probe
        /// at most (RFC 4862).
        pub own_probes: u32 = default(3), live, range(0..=20);
    }
}

impl NeighborTimers {
    /// As the neighbour table takes them.
    pub(crate) fn timing(&self) -> Timing {
        Timing {
            reachable: self.reachable.nanos(),
            stale: self.stale.nanos(),
            retransmit: self.retransmit.nanos(),
            broadcast_requests: self.broadcast_requests,
            unicast_requests: self.unicast_requests,
            delay: 0,
            failed: self.failed.nanos(),
            own_probes: self.own_probes,
        }
    }
}

config! {
    /// A VRF: routes and neighbours that are apart from those of others. Interfaces are in it that name it.
    pub struct VrfConfig {
        /// Static routes, as those of the router.
        pub routes: BTreeMap<IpNet, OneOrMany<Via>> = empty, live;
        /// Static routes from a file with the columns `prefix` and `via`; several next hops in `via` are parted by `;`.
        pub routes_csv: Option<FilePath> = optional, live;
        /// Ethernet addresses of neighbours that are not asked for.
        pub neighbors: BTreeMap<NamedNeighbor, MacAddress> = empty, live;
    }
}

config! {
    /// Routes IPv4 and IPv6 between the interfaces of its ports: untagged ones, and those declared with VLAN tags.
    pub struct RouterConfig {
        /// The ports that belong to the router, with all interfaces that are declared on them; each has one or more addresses, its own or
        /// those of its interfaces. One that is added takes nothing else along; one that is taken away has the router built anew.
        pub ports: Vec<PortName> = required, live, length(1..=64);
        /// Static routes: for each prefix the next hop, or a list of such that share the traffic. A next hop is the address of a router on a
        /// connected network (`192.0.2.9`), an address with its interface (`fe80::9%lan`), an interface on whose link the destinations
        /// themselves are (`%lan`); or it is `blackhole`, `unreachable` or `prohibit`.
        pub routes: BTreeMap<IpNet, OneOrMany<Via>> = empty, live;
        /// Static routes from a file with the columns `prefix` and `via`; several next hops in `via` are parted by `;`.
        pub routes_csv: Option<FilePath> = optional, live;
        /// Ethernet addresses of neighbours that are not asked for by ARP or neighbour discovery.
        pub neighbors: BTreeMap<NamedNeighbor, MacAddress> = empty, live;
        /// VRFs by name, beside the default one, which has the routes and neighbours above. A route leads from one VRF to another where its
        /// next hop names an interface there.
        pub vrfs: BTreeMap<String, VrfConfig> = empty, rebuild;
        /// What hosts are told of the router by router advertisements, by the name of the interface.
        pub advertise: BTreeMap<String, Advertise> = empty, live;
        /// Ports on which the router answers ARP requests, and neighbour solicitations, for every address that it has a route to by another
        /// port (RFC 1027, RFC 4861 section 7.2.8).
        pub proxy_arp: Vec<PortName> = empty, live;
        /// Whether packets to the broadcast address of a connected network are sent to all stations there (RFC 2644 says
        /// no).
        pub directed_broadcast: bool = default(false), live;
        /// ICMP errors that the router sends, of each kind.
        pub icmp_rate: PacketRate = default(PacketRate::new(1000)), live;
        /// Whether sources are told of a nearer router on their own network (ICMP redirects, RFC 1812 section 5.2.7.2, RFC 4861 section 8). A
        /// sample of packets is looked at, one in 10 ms for each worker; the messages count as errors for `icmp_rate`.
        pub redirects: bool = default(false), rebuild;
        /// Packets that each worker hands to the slow path at most. A quarter is kept for ARP, a quarter for neighbour discovery, and a quarter
        /// for the router's own addresses; of the first two, at most half comes by one port.
        pub punt_rate: PacketRate = default(PacketRate::new(32_000)), rebuild;
        /// How neighbours are found and believed in (ARP, neighbour discovery).
        pub neighbor_timers: NeighborTimers = empty, live;
        /// How the prefix table of IPv4 in the default VRF is compiled for lookups; those of other VRFs are packed.
        pub table: TableKind = default(TableKind::Dir24), rebuild;
        /// Bounds of the router's tables.
        pub limits: RouterLimits = empty, rebuild;
        /// Number that flows are hashed with; let it differ between routers that follow each other, so that each spreads
        /// its flows anew.
        pub hash_seed: u32 = default(0), rebuild;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_sound() {
        assert_eq!(RouterConfig::schema().defects(), Vec::<String>::new());
    }
}
