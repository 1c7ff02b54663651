//! The keys of a function that stands on the network layer.

use std::collections::BTreeMap;

use ipnet::IpNet;
use weir_config::{FilePath, MacAddress, Nanos, OneOrMany, PacketRate, PortName, choice, config};
use weir_net::neighbor::Timing;

use crate::state::advertise::Advertise;
use crate::state::via::{NamedNeighbor, Via};

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
    /// Bounds of the tables. What does not fit is refused by name; nothing grows beyond.
    pub struct Limits {
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
        /// Fragments to own addresses that wait, for 60 s, for the rest of their packets; 0 refuses them.
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
        /// Probes for one of the own addresses before it is announced (RFC 5227); 0 announces at once. For one of IPv6 it is one probe
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
        /// Static routes, as those of the default VRF.
        pub routes: BTreeMap<IpNet, OneOrMany<Via>> = empty, live;
        /// Static routes from a file with the columns `prefix` and `via`; several next hops in `via` are parted by `;`.
        pub routes_csv: Option<FilePath> = optional, live;
        /// Ethernet addresses of neighbours that are not asked for.
        pub neighbors: BTreeMap<NamedNeighbor, MacAddress> = empty, live;
    }
}

/// What a function's configuration says of its network layer, read once. Each field is the key of that name.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'c> {
    /// Its ports, with all interfaces that are declared on them.
    pub ports: &'c [PortName],
    /// Static routes of the default VRF.
    pub routes: &'c BTreeMap<IpNet, OneOrMany<Via>>,
    /// More of them, from a file.
    pub routes_csv: Option<&'c FilePath>,
    /// Ethernet addresses of neighbours in the default VRF.
    pub neighbors: &'c BTreeMap<NamedNeighbor, MacAddress>,
    /// VRFs beside the default one.
    pub vrfs: &'c BTreeMap<String, VrfConfig>,
    /// What hosts are told, by interface.
    pub advertise: &'c BTreeMap<String, Advertise>,
    /// Ports on which requests for all that is routed are answered.
    pub proxy_arp: &'c [PortName],
    /// Whether broadcasts to connected networks are sent on.
    pub directed_broadcast: bool,
    /// ICMP errors of each kind.
    pub icmp_rate: PacketRate,
    /// Whether sources are told of nearer routers.
    pub redirects: bool,
    /// Packets that each worker hands to the slow path at most.
    pub punt_rate: PacketRate,
    /// How neighbours are believed in.
    pub neighbor_timers: &'c NeighborTimers,
    /// How the prefix table of IPv4 in the default VRF is compiled.
    pub table: TableKind,
    /// Bounds of the tables.
    pub limits: &'c Limits,
    /// What flows are hashed with.
    pub hash_seed: u32,
    /// Interfaces without ports that the function has by itself, in the default VRF.
    pub own: &'c [Virtual],
    /// Whether each port needs an address.
    pub needs_addresses: bool,
}

/// An interface without a port, of the function's making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Virtual {
    /// Its name.
    pub name: String,
    /// Its addresses, each of which is only itself: `192.0.2.1/32`.
    pub addresses: Vec<IpNet>,
    /// Whether packets that routes lead to it are for the function, which sends them on itself.
    pub is_inlet: bool,
}
