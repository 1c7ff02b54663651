//! The keys of a function that stands on the network layer.

use std::collections::BTreeMap;

use ipnet::IpNet;
use weir_config::{FilePath, MacAddress, Nanos, OneOrMany, PacketRate, Pattern, PortName, choice, config};
use weir_net::neighbor::Timing;
use weir_stage::entry;

use crate::interfaces::Tunnel;
use crate::lines::Lines;
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
        pub routes: u32 = default(2_000_000), rebuild, range(16..=20_000_000);
        /// Next hops: pairs of interface and gateway, and one for each known neighbour.
        pub next_hops: u32 = default(131_072), rebuild, range(16..=1_000_000);
        /// Different sets of equal-cost next hops.
        pub groups: u32 = default(4096), rebuild, range(1..=65_536);
        /// /24 networks that hold prefixes longer than /24; each takes 1 KiB of lookup memory.
        pub long_prefix_networks: u32 = default(16_384), rebuild, range(16..=2_097_152);
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

entry! {
    /// A route that is stated: by the configuration, its file, or a request.
    pub struct Route by (prefix: IpNet) {
        /// The prefix, such as 10.1.0.0/16.
        pub prefix: IpNet = required, live;
        /// The next hop: a router's address, fe80::9%lan with its interface, %lan for the link itself, blackhole, unreachable or prohibit;
        /// several share the traffic.
        pub via: OneOrMany<Via> = required, live;
    }
}

entry! {
    /// A neighbour whose Ethernet address is stated, and not asked for.
    pub struct StatedNeighbor by (address: NamedNeighbor) {
        /// The neighbour's address; fe80::9%lan with its interface.
        pub address: NamedNeighbor = required, live;
        /// Its Ethernet address, such as 02:00:00:00:00:01.
        pub mac: MacAddress = required, live;
    }
}

/// The form of a network namespace's name, which is a file's below /run/netns.
pub(crate) static NETNS: Pattern = Pattern {
    what: "the name of a network namespace, as `ip netns` lists them",
    example: "dataplane",
    matches: |text| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        (1..=64).contains(&text.len()) && text.chars().all(is_plain) && !text.starts_with('.')
    },
};

config! {
    /// A Linux network namespace that speaks for a VRF: it has a TAP for each interface, through which it gets what comes for the router itself
    /// and sends by the port, and its routes, addresses and neighbours are the VRF's.
    pub struct LinuxConfig {
        /// The network namespace, as `ip netns add` made it; the one that Weir runs in when absent.
        pub netns: Option<String> = optional, rebuild, pattern(NETNS);
        /// The number of the kernel's routing table whose routes are taken: 254 is the main one, and a VRF device has its own.
        pub table: u32 = default(254), rebuild, range(1..=4_294_967_294);
        /// The TCP port, on loopback in the namespace, at which routes are taken from FRR's `dplane_fpm_nl`; none when absent.
        pub fpm: Option<u16> = optional, rebuild, range(1..=65_535);
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
        /// The Linux network namespace that speaks for it.
        pub linux: Option<LinuxConfig> = optional, rebuild;
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
    /// The Linux network namespace that speaks for the default VRF.
    pub linux: Option<&'c LinuxConfig>,
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
    /// Interfaces without ports that the function has by itself.
    pub own: &'c [Virtual],
    /// Whether each port needs an address.
    pub needs_addresses: bool,
    /// Lines of the function's own.
    pub lines: Option<&'c Lines>,
    /// What routes may lead into.
    pub function: &'c Function,
}

/// The function on the layer, as routes know it: its name is the source of its routes, and its inlets are what they may lead into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// What the source of its routes is called.
    pub name: String,
    /// The names of its inlets, by number; none where no route leads into it.
    pub inlets: Vec<String>,
    /// The VRFs in which it looks up where its packets go: those of IPv4, and those of IPv6. The default one if none is named.
    pub vrfs: [Option<String>; 2],
    /// Whether it is told by a lane which inlet packets came to, and the argument of their route.
    pub is_told: bool,
}

/// A function without routes of its own.
pub static NO_FUNCTION: Function =
    Function { name: String::new(), inlets: Vec::new(), vrfs: [None, None], is_told: false };

impl Function {
    /// One that has routes of its own, with one inlet of the same name, and sends packets in these VRFs.
    pub fn with_inlet(name: &str, vrfs: [Option<String>; 2]) -> Function {
        Function { name: name.to_owned(), inlets: vec![name.to_owned()], vrfs, is_told: true }
    }

    /// The same, which finds out from packets alone whose they are.
    pub fn with_silent_inlet(name: &str, vrfs: [Option<String>; 2]) -> Function {
        Function { is_told: false, ..Function::with_inlet(name, vrfs) }
    }

    /// The number of an inlet.
    pub(crate) fn number(&self, inlet: &str) -> Option<u16> {
        (0..).zip(&self.inlets).find(|(_, name)| *name == inlet).map(|(number, _)| number)
    }

    /// The name of an inlet.
    pub(crate) fn inlet(&self, number: u16) -> &str {
        self.inlets.get(usize::from(number)).map_or("", String::as_str)
    }

    /// Whether a route may lead into an inlet.
    pub(crate) fn check(&self, inlet: &str) -> Result<(), String> {
        match (self.number(inlet), self.inlets.as_slice()) {
            (Some(_), _) => Ok(()),
            (None, []) => Err(format!("no route leads into this function; @{inlet} means nothing here")),
            (None, all) => Err(format!("there is no inlet \"{inlet}\"; write one of @{}", all.join(", @"))),
        }
    }
}

/// An interface without a port, of the function's making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Virtual {
    /// Its name.
    pub name: String,
    /// Its VRF; the default one if none is named.
    pub vrf: Option<String>,
    /// Its addresses, each of which is only itself: `192.0.2.1/32`.
    pub addresses: Vec<IpNet>,
    /// The tunnel that it is the mouth of: packets that routes lead there are for the function, which sends them on itself.
    pub tunnel: Option<Tunnel>,
}
