//! The keys of `router`.

use std::collections::BTreeMap;

use ipnet::IpNet;
use weir_config::{FilePath, MacAddress, OneOrMany, PacketRate, PortName, config};
use weir_ip::{
    AclConfig, AclSettings, Advertise, FlowExportConfig, Limits, LinuxConfig, NamedNeighbor, NeighborTimers,
    ReversePath, Settings, TableKind, Via, VrfConfig,
};

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
        /// The Linux network namespace that speaks for the default VRF: routing daemons there see the interfaces, and their routes are the router's.
        pub linux: Option<LinuxConfig> = optional, rebuild;
        /// VRFs by name, beside the default one, which has the routes and neighbours above. A route leads from one VRF to another where its
        /// next hop names an interface there.
        pub vrfs: BTreeMap<String, VrfConfig> = empty, rebuild;
        /// Sets of prefixes by name, which rules of access lists use: `deny from @bogons`.
        pub prefix_sets: BTreeMap<String, OneOrMany<IpNet>> = empty, live;
        /// Access lists by name: ordered rules, of which the first that a packet matches says what becomes of it.
        pub acls: BTreeMap<String, AclConfig> = empty, live;
        /// The access list that judges what comes in by an interface, by the name of the interface.
        pub acl_in: BTreeMap<String, String> = empty, live;
        /// The access list that judges what leaves by an interface.
        pub acl_out: BTreeMap<String, String> = empty, live;
        /// The access list that judges what comes in by interfaces of a VRF that have none of their own, by the name of the VRF.
        pub acl_vrf: BTreeMap<String, String> = empty, live;
        /// The access list that judges what comes in by interfaces of a VRF and is for the router itself: for its addresses, for groups of
        /// stations, or for the link; by the name of the VRF.
        pub acl_own: BTreeMap<String, String> = empty, live;
        /// Whether packets that come in by an interface are dropped where no route to their source leads out by it (`strict`), or anywhere
        /// (`loose`), by the name of the interface (uRPF, RFC 3704). The routes are those of the interface's VRF, or of another one: `loose vrf blue`.
        pub urpf: BTreeMap<String, ReversePath> = empty, live;
        /// Collectors that are told of packets which come in, one in so many, by sFlow or IPFIX; none when absent.
        pub flow_export: Option<FlowExportConfig> = optional, live;
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
        /// Packets that each worker hands to the slow path at most. A fifth each is kept for ARP, for neighbour discovery, for
        /// the router's own addresses, and for control protocols of links. Where a kind is scarce, no interface has more than half
        /// of it, and no prefix of sources (24 bits of IPv4, 48 of IPv6) more than an eighth.
        pub punt_rate: PacketRate = default(PacketRate::new(32_000)), rebuild;
        /// How neighbours are found and believed in (ARP, neighbour discovery).
        pub neighbor_timers: NeighborTimers = empty, live;
        /// How the prefix table of IPv4 in the default VRF is compiled for lookups; those of other VRFs are packed.
        pub table: TableKind = default(TableKind::Dir24), rebuild;
        /// Bounds of the router's tables.
        pub limits: Limits = empty, rebuild;
        /// Number that flows are hashed with; let it differ between routers that follow each other, so that each spreads
        /// its flows anew.
        pub hash_seed: u32 = default(0), rebuild;
    }
}

impl RouterConfig {
    /// What it says of access lists.
    pub(crate) fn acls(&self) -> AclSettings<'_> {
        AclSettings {
            prefix_sets: &self.prefix_sets,
            acls: &self.acls,
            acl_in: &self.acl_in,
            acl_out: &self.acl_out,
            acl_vrf: &self.acl_vrf,
            acl_own: &self.acl_own,
        }
    }

    /// What the network layer takes.
    pub(crate) fn settings(&self) -> Settings<'_> {
        Settings {
            ports: &self.ports,
            routes: &self.routes,
            routes_csv: self.routes_csv.as_ref(),
            neighbors: &self.neighbors,
            linux: self.linux.as_ref(),
            vrfs: &self.vrfs,
            advertise: &self.advertise,
            proxy_arp: &self.proxy_arp,
            directed_broadcast: self.directed_broadcast,
            icmp_rate: self.icmp_rate,
            redirects: self.redirects,
            punt_rate: self.punt_rate,
            neighbor_timers: &self.neighbor_timers,
            table: self.table,
            limits: &self.limits,
            hash_seed: self.hash_seed,
            own: &[],
            needs_addresses: true,
            lines: None,
            function: &weir_ip::NO_FUNCTION,
        }
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
