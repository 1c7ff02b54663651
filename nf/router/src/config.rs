//! The keys of `router`, and what must hold of them together.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use weir_config::{FilePath, MacAddress, Nanos, OneOrMany, PacketRate, PortName, choice, config};
use weir_net::neighbor::Timing;

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
        /// Routes of all authors, connected networks and known neighbours included.
        pub routes: u32 = default(2_000_000), rebuild, range(16..=8_000_000);
        /// Next hops: pairs of interface and gateway, and one for each known neighbour.
        pub next_hops: u32 = default(131_072), rebuild, range(16..=1_000_000);
        /// Different sets of equal-cost next hops.
        pub groups: u32 = default(4096), rebuild, range(1..=65_536);
        /// /24 networks that hold prefixes longer than /24; each takes 1 KiB of lookup memory.
        pub long_prefix_networks: u32 = default(16_384), rebuild, range(16..=1_048_576);
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
const fn seconds(count: u64) -> Nanos {
    Nanos::new(count * 1_000_000_000)
}

config! {
    /// How neighbours are found and believed in: ARP with the states of RFC 4861.
    pub struct NeighborTimers {
        /// How long an answer counts; then a neighbour that is in use is asked again.
        pub reachable: Nanos = default(seconds(30)), live, range(seconds(1)..=seconds(3600));
        /// How long a neighbour that is not used is remembered after that.
        pub stale: Nanos = default(seconds(300)), live, range(seconds(1)..=seconds(86_400));
        /// Time between two requests for the same address.
        pub retransmit: Nanos = default(seconds(1)), live, range(Nanos::new(100_000_000)..=seconds(60));
        /// Broadcast requests without an answer after which a neighbour is given up.
        pub broadcast_requests: u32 = default(3), live, range(1..=20);
        /// Unicast requests without an answer after which a known neighbour is asked for by broadcast again.
        pub unicast_requests: u32 = default(2), live, range(0..=20);
        /// How long a neighbour that did not answer is not asked for again.
        pub failed: Nanos = default(seconds(1)), live, range(Nanos::new(0)..=seconds(60));
        /// Probes for one of the router's own addresses before it is announced (RFC 5227); 0 announces at once.
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
    /// Routes IPv4 between the interfaces of its ports: untagged ones, and those declared with VLAN tags.
    pub struct RouterConfig {
        /// The ports that belong to the router, with all interfaces that are declared on them; each has one or more IPv4 addresses, its own or
        /// those of its interfaces. One that is added takes nothing else along; one that is taken away has the router built anew.
        pub ports: Vec<PortName> = required, live, length(1..=64);
        /// Static routes: the address of the next router for each prefix, or a list of such that share the traffic.
        pub routes: BTreeMap<Ipv4Net, OneOrMany<Ipv4Addr>> = empty, live;
        /// Static routes from a file with the columns `prefix` and `via`; several addresses in `via` are parted by `;`.
        pub routes_csv: Option<FilePath> = optional, live;
        /// Ethernet addresses of neighbours that are not asked for by ARP.
        pub neighbors: BTreeMap<Ipv4Addr, MacAddress> = empty, live;
        /// Ports on which the router answers ARP requests for every address that it has a route to by another port
        /// (RFC 1027).
        pub proxy_arp: Vec<PortName> = empty, live;
        /// Whether packets to the broadcast address of a connected network are sent to all stations there (RFC 2644 says
        /// no).
        pub directed_broadcast: bool = default(false), live;
        /// ICMP errors that the router sends, of each kind.
        pub icmp_rate: PacketRate = default(PacketRate::new(1000)), live;
        /// Whether sources are told of a nearer router on their own network (ICMP redirects, RFC 1812 section 5.2.7.2). A sample of
        /// packets is looked at, one in 10 ms for each worker; the messages count as errors for `icmp_rate`.
        pub redirects: bool = default(false), rebuild;
        /// Packets that each worker hands to the slow path at most. A quarter is kept for ARP and a quarter for the
        /// router's own addresses.
        pub punt_rate: PacketRate = default(PacketRate::new(20_000)), rebuild;
        /// How neighbours are found and believed in (ARP).
        pub neighbor_timers: NeighborTimers = empty, live;
        /// How the prefix table is compiled for lookups.
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
