//! The settings of `ipv4-route` and `ipv6-route`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_config::{Change, FilePath, OneOrMany, Scalar, Setting, config};
use weir_net::RouteSource;
use weir_simd::Kernel;
use weir_table::{lpm4, lpm6};

use super::{GENERATIONS, HOLDS, LONG_PREFIX_NETWORKS};
use crate::config::TableKind;
use crate::fast::classify::Family;
use crate::state::routing::Routing;
use crate::state::via::Via;
use crate::tables::fib::Leads;

config! {
    /// Looks up where IPv4 packets go, by longest prefix match in a table of its own: to the first of the next hops by `way[0]`, to the
    /// second by `way[1]`, and so on; without a route by `no-route`.
    pub struct RouteConfig {
        /// Addresses of the next hops. They only name them: `ipv4-rewrite` knows their MAC addresses.
        pub next_hops: Vec<Ipv4Addr> = required, rebuild, length(1..=64);
        /// Routes: one of the next hops for each prefix, or a list of such that share the traffic, flow by flow.
        pub routes: BTreeMap<Ipv4Net, OneOrMany<Ipv4Addr>> = empty, rebuild;
        /// Routes from a file with the columns `prefix` and `via`; several addresses in `via` are parted by `;`. A reload reads it
        /// anew.
        pub routes_csv: Option<FilePath> = optional, rebuild, contents(Change::Live);
        /// How the prefix table is compiled for lookups.
        pub table: TableKind = default(TableKind::Packed), rebuild;
        /// Routes that there is room for.
        pub max_routes: u32 = default(65_536), rebuild, range(16..=8_000_000);
        /// Number that flows are hashed with, where next hops share the traffic.
        pub hash_seed: u32 = default(0), rebuild;
    }
}

config! {
    /// Looks up where IPv6 packets go, by longest prefix match in a table of its own: to the first of the next hops by `way[0]`, to the
    /// second by `way[1]`, and so on; without a route by `no-route`.
    pub struct Route6Config {
        /// Addresses of the next hops. They only name them: `ipv6-rewrite` knows their MAC addresses.
        pub next_hops: Vec<Ipv6Addr> = required, rebuild, length(1..=64);
        /// Routes: one of the next hops for each prefix, or a list of such that share the traffic, flow by flow.
        pub routes: BTreeMap<Ipv6Net, OneOrMany<Ipv6Addr>> = empty, rebuild;
        /// Routes from a file with the columns `prefix` and `via`; several addresses in `via` are parted by `;`. A reload reads it
        /// anew.
        pub routes_csv: Option<FilePath> = optional, rebuild, contents(Change::Live);
        /// Routes that there is room for.
        pub max_routes: u32 = default(65_536), rebuild, range(16..=8_000_000);
        /// Lines of 64 bytes for looking up routes: a real table takes two for each route, and as many again while it changes.
        pub max_lines: u32 = default(262_144), rebuild, range(1024..=134_217_728);
        /// Number that flows are hashed with, where next hops share the traffic.
        pub hash_seed: u32 = default(0), rebuild;
    }
}

/// The settings of one family.
pub(super) trait Keys: Setting + Send + Sync + 'static {
    /// Whose packets are looked up.
    const FAMILY: Family;
    /// What says how much there is room for in the prefix table.
    const ROOM: &'static str;

    type Prefix: Scalar + Copy + Into<IpNet>;
    type Address: Scalar + Copy + Ord + Display + Into<IpAddr> + Into<Via>;

    fn next_hops(&self) -> &[Self::Address];
    fn routes(&self) -> &BTreeMap<Self::Prefix, OneOrMany<Self::Address>>;
    fn routes_csv(&self) -> Option<&FilePath>;
    fn max_routes(&self) -> u32;
    fn hash_seed(&self) -> u32;
    /// The prefixes of its routes that are there now.
    fn configured(routing: &Routing) -> Vec<IpNet>;
    /// How the table of IPv4 is made, and that of IPv6; that of the other family has room for what the house itself puts there.
    fn tables(&self) -> (TableKind, lpm4::Config, lpm6::Config);
}

/// The keys that both families have.
macro_rules! common_keys {
    () => {
        fn next_hops(&self) -> &[Self::Address] {
            &self.next_hops
        }

        fn routes(&self) -> &BTreeMap<Self::Prefix, OneOrMany<Self::Address>> {
            &self.routes
        }

        fn routes_csv(&self) -> Option<&FilePath> {
            self.routes_csv.as_ref()
        }

        fn max_routes(&self) -> u32 {
            self.max_routes
        }

        fn hash_seed(&self) -> u32 {
            self.hash_seed
        }

        fn configured(routing: &Routing) -> Vec<IpNet> {
            let ours = routing.rib().routes::<Self::Prefix>().filter(|route| route.source() == RouteSource::Config);
            ours.map(|route| route.prefix().into()).collect()
        }
    };
}

/// The value of a miss.
const MISS: u32 = Leads::NO_ROUTE.value();

impl Keys for RouteConfig {
    const FAMILY: Family = Family::Four;
    const ROOM: &'static str = "max_routes";

    type Prefix = Ipv4Net;
    type Address = Ipv4Addr;

    common_keys!();

    fn tables(&self) -> (TableKind, lpm4::Config, lpm6::Config) {
        let four = lpm4::Config {
            miss: MISS,
            max_routes: self.max_routes as usize + HOLDS,
            max_groups: GENERATIONS * LONG_PREFIX_NETWORKS + 1,
            kernel: Kernel::detect(),
        };
        (self.table, four, lpm6::Config { miss: MISS, max_routes: 0, max_lines: 1 })
    }
}

impl Keys for Route6Config {
    const FAMILY: Family = Family::Six;
    const ROOM: &'static str = "max_lines";

    type Prefix = Ipv6Net;
    type Address = Ipv6Addr;

    common_keys!();

    fn tables(&self) -> (TableKind, lpm4::Config, lpm6::Config) {
        let four = lpm4::Config { miss: MISS, max_routes: HOLDS, max_groups: 1, kernel: Kernel::detect() };
        let max_routes = self.max_routes as usize;
        (TableKind::Packed, four, lpm6::Config { miss: MISS, max_routes, max_lines: self.max_lines })
    }
}
