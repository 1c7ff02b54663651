//! The kind of stage `ipv4-route`.
//!
//! It has the control side of a router's forwarding, [`Routing`], to itself: its next hops stand at "interfaces" of that, each numbered as
//! the way that leads there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::{IpNet, Ipv4Net};
use weir_config::{Change, ConfigError, ErrorKind, Errors, FilePath, OneOrMany, Schema, config};
use weir_net::rib::{Hop, Limits};
use weir_net::{DEFAULT_VRF, RouteSource};
use weir_packet::{Batch, LaneId};
use weir_simd::Kernel;
use weir_simd::frame_check::BATCH;
use weir_stage::{
    Declaration, DescribeStage, Env, GraphError, Ground, MakeStage, Notice, Out, Prepared, Settings, Stage, StageKind,
};
use weir_table::lpm4::{self, Lookup4};
use weir_table::lpm6::{self, Compiled};
use weir_wire::MacAddr;

use super::CHECK_FIRST;
use crate::Ingress;
use crate::config::TableKind;
use crate::fast::checker::{Checker, reach};
use crate::fast::lookups::Lookups;
use crate::state::missing::Missing;
use crate::state::routing::{Network, Routing, Tables};
use crate::state::shared::CHANGES;
use crate::state::static_routes::{SCRIPT, Sources, StaticRoute, different_sets, long_prefix_networks};
use crate::state::via::Via;
use crate::tables::fib::{Adjacency, Fib, Leads};
use crate::tables::prefixes::{PrefixReader, PrefixTable, VrfTables};
use weir_table::counters::Counters;

weir_stage::ways! {
    /// Ways out of [`RoutingStage`], before those to the next hops.
    pub(crate) enum Exit {
        /// No route leads there.
        NoRoute => way "no-route",
    }
}

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

/// Different sets of next hops that share traffic, at most.
const SETS: usize = 4096;

/// Times that there is room for what routes lead to: a reload adds what is new before readers have left what was there.
const GENERATIONS: u32 = 2;

/// /24 networks that hold prefixes longer than /24, at most: 1 KiB of lookup memory each.
const LONG_PREFIX_NETWORKS: u32 = 16_384;

/// Room for the routes of [`hold`].
const HOLDS: usize = NEXT_HOPS;

/// Next hops at most.
const NEXT_HOPS: usize = 64;

/// A route that no packet takes, as class E is never forwarded: it holds on to the next hop of a way, whose number must not be given up where
/// a reload takes away all its routes and then adds others.
fn hold(way: u16) -> Network {
    (DEFAULT_VRF, Ipv4Net::from(Ipv4Addr::from_bits(0xf000_0000 | u32::from(way))).into())
}

/// Sends packets by the ways of their next hops.
struct RoutingStage<T> {
    lookups: Lookups<T>,
    checker: Checker,
    ways: usize,
}

impl<T: Lookup4> RoutingStage<T> {
    #[inline(always)]
    fn pass(&mut self, batch: &Batch, out: &mut Out<'_>) {
        let (table, count): (&T, _) = (&self.lookups.table, reach(batch));
        self.checker.gather::<false>(batch, (batch.live(), count), |destination| table.prefetch(destination), |_| {});
        let mut places = [0; BATCH];
        self.lookups.places(batch, &self.checker.destinations, count, &mut places);
        let fib = self.lookups.fib.view(self.lookups.fib.places());
        let (mut ways, mut gone) = ([0; BATCH], 0);
        batch.each_ref(|slot, _| {
            if let Some(way) = fib.adjacency(places[slot.index()]).and_then(Adjacency::interface) {
                ways[slot.index()] = way as u8;
                gone |= slot.bit();
            }
        });
        out.answer_indexed_each(gone, &ways);
    }
}

impl<T: Lookup4> Stage for RoutingStage<T> {
    fn declare(&self) -> Declaration {
        declaration(self.ways)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        self.checker.kernel.run(
            #[inline(always)]
            || self.pass(batch, out),
        );
    }
}

fn declaration(ways: usize) -> Declaration {
    Declaration::of::<Exit>().indexed("way", ways).reads(&[LaneId::L3])
}

/// The kind of stage `ipv4-route`.
#[derive(Debug)]
pub struct Ipv4Route;

impl StageKind for Ipv4Route {
    fn kind(&self) -> &'static str {
        "ipv4-route"
    }

    fn schema(&self) -> Schema {
        RouteConfig::schema()
    }

    fn upstream(&self) -> &'static str {
        CHECK_FIRST
    }

    fn describe(&self, settings: &Settings<'_>, env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>> {
        let config: RouteConfig = settings.read()?;
        let routes = read(&config, settings, env)?;
        Ok(Box::new(Described { config, routes }))
    }
}

/// Routes that are going to be looked up.
struct Described {
    config: RouteConfig,
    routes: Vec<StaticRoute>,
}

impl DescribeStage for Described {
    fn declares(&self) -> Declaration {
        declaration(self.config.next_hops.len())
    }

    fn instantiate(
        self: Box<Self>,
        settings: &Settings<'_>,
        ground: &Ground<'_>,
        _old: Option<&dyn MakeStage>,
    ) -> Result<Box<dyn MakeStage>, Vec<ConfigError>> {
        let Described { config, routes } = *self;
        let no_memory = |error: String| vec![settings.error(ErrorKind::Limit, "max_routes", error)];
        let kernel = Kernel::detect();
        let sizes = lpm4::Config {
            miss: Leads::NO_ROUTE.value(),
            max_routes: config.max_routes as usize + HOLDS,
            max_groups: GENERATIONS * LONG_PREFIX_NETWORKS + 1,
            kernel,
        };
        let four =
            PrefixTable::new(config.table, &sizes, ground.domain).map_err(|error| no_memory(error.to_string()))?;
        // IPv6 does not come this way.
        let six = lpm6::Config { miss: Leads::NO_ROUTE.value(), max_routes: 0, max_lines: 1 };
        let six = Compiled::new(&six, ground.domain).map_err(|error| no_memory(error.to_string()))?;
        let next_hops = config.next_hops.len() as u32;
        let groups = GENERATIONS * SETS as u32;
        // Nothing enters or leaves here: ways stand for interfaces.
        let fib = Fib::new(next_hops, groups, &[].into(), &Arc::new(Ingress::untagged(0)))
            .map_err(|error| no_memory(error.to_string()))?;
        let reader = four.reader();
        let (tables, domain) = (vec![VrfTables { four, six }], ground.domain.clone());
        let tables = Tables { tables, fib: Arc::clone(&fib), counters: Counters::new(0), domain };
        let limits = Limits { routes: config.max_routes + HOLDS as u32, next_hops, groups };
        let mut routing = Routing::new(limits, tables);
        let mut refused = Vec::new();
        for (gateway, way) in config.next_hops.iter().zip(0..) {
            routing.set_link(way, true);
            // Which address it is means nothing here: that it is known is enough to be a way.
            routing.set_mac(way, (*gateway).into(), Some(MacAddr::ZERO));
            if let Err(refusal) =
                routing.replace(hold(way), RouteSource::Learned, &[Hop::ViaOn((*gateway).into(), way)])
            {
                refused.push((hold(way), refusal));
            }
        }
        routing.catch_up(usize::MAX);
        let mut writer = Writer { routing, missing: Missing::default() };
        writer.set_routes(&routes, &config);
        refused.extend(writer.missing.refusals());
        let errors = refused.iter().take(Errors::KEPT).map(|((_, prefix), refusal)| {
            let (key, text) = (settings.path.field(SCRIPT), prefix.to_string());
            settings.element.error(ErrorKind::Limit, &key.entry(&text), refusal.to_string())
        });
        let errors: Vec<ConfigError> = errors.collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Box::new(Make { config, reader, fib, kernel, routing: Arc::new(Mutex::new(writer)) }))
    }
}

impl RouteConfig {
    /// The number of the way to a next hop.
    fn way(&self, via: &Via) -> Option<usize> {
        self.next_hops.iter().position(|hop| *via == Via::from(*hop))
    }

    fn hop(&self, via: &Via) -> Option<Hop> {
        let (Via::Gateway(gateway), way) = (via, self.way(via)?) else { return None };
        Some(Hop::ViaOn(*gateway, way as u16))
    }

    /// Whether a route may lead there.
    fn check(&self, via: &Via) -> Result<(), String> {
        match self.way(via) {
            Some(_) => Ok(()),
            None => Err(format!("{via} is none of the next hops")),
        }
    }
}

/// The routes of checked settings.
fn read(config: &RouteConfig, settings: &Settings<'_>, env: &Env<'_>) -> Result<Vec<StaticRoute>, Vec<ConfigError>> {
    let mut errors = Errors::new();
    for (gateway, n) in config.next_hops.iter().zip(0..) {
        if config.next_hops.iter().take(n).any(|other| other == gateway) {
            let error = settings.error(ErrorKind::Duplicate, "next_hops", format!("{gateway} stands here twice"));
            errors.push(error.remedy("leave one out"));
        }
    }
    let sources = Sources {
        element: settings.element,
        path: settings.path,
        script: &config.routes,
        csv: config.routes_csv.as_ref(),
        folder: env.folder,
    };
    let names: BTreeSet<Ipv4Addr> = config.next_hops.iter().copied().collect();
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let remedy = format!("write one of {}, or add it to next_hops", names.join(", "));
    let routes = sources.read(&|_, via: &Via| config.check(via), &remedy, &mut errors);
    if routes.len() > config.max_routes as usize {
        let problem = format!("{} is too few: there are {} routes", config.max_routes, routes.len());
        errors.push(settings.error(ErrorKind::Limit, "max_routes", problem));
    }
    let key = if config.routes_csv.is_some() { "routes_csv" } else { SCRIPT };
    let sets = different_sets(&routes);
    if sets > SETS {
        let problem = format!("{sets} different sets of next hops share traffic; {SETS} may");
        errors.push(settings.error(ErrorKind::Limit, key, problem));
    }
    let long = long_prefix_networks(&routes);
    if long > LONG_PREFIX_NETWORKS as usize {
        let problem = format!("prefixes longer than /24 lie in {long} networks of /24; {LONG_PREFIX_NETWORKS} may");
        errors.push(settings.error(ErrorKind::Limit, key, problem));
    }
    errors.into_result(routes)
}

struct Make {
    config: RouteConfig,
    reader: PrefixReader,
    fib: Arc<Fib>,
    kernel: Kernel,
    /// The writer of the tables.
    routing: Arc<Mutex<Writer>>,
}

/// The writer of the tables, and what it had no room for.
struct Writer {
    routing: Routing,
    missing: Missing,
}

impl Writer {
    /// Makes the routes those of the configuration, changing no more than differs.
    fn set_routes(&mut self, wanted: &[StaticRoute], config: &RouteConfig) {
        let Writer { routing, missing } = self;
        let is_wanted = |prefix: IpNet| wanted.binary_search_by_key(&prefix, |route| route.prefix).is_ok();
        missing.retain(RouteSource::Config, |(_, prefix)| is_wanted(prefix));
        let ours = routing.rib().routes::<Ipv4Net>().filter(|route| route.source() == RouteSource::Config);
        let gone = ours.map(|route| route.prefix().into()).filter(|prefix| !is_wanted(*prefix));
        let gone: Vec<Network> = gone.map(|prefix| (DEFAULT_VRF, prefix)).collect();
        routing.remove_config(&gone);
        let mut hops = Vec::new();
        for route in wanted {
            hops.clear();
            route.via.each(|via| hops.extend(config.hop(via)));
            missing.replace(routing, (DEFAULT_VRF, route.prefix), RouteSource::Config, &hops);
        }
    }
}

impl Make {
    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.routing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stage_of<T: Lookup4 + 'static>(&self, table: &Arc<T>) -> Box<dyn Stage> {
        let seed = u64::from(self.config.hash_seed);
        let (readers, hosts, fib) = ([].into(), [].into(), Arc::clone(&self.fib));
        let lookups = Lookups { table: Arc::clone(table), readers, fib, seed, hosts };
        Box::new(RoutingStage { lookups, checker: Checker::new(self.kernel), ways: self.config.next_hops.len() })
    }
}

impl MakeStage for Make {
    fn declare(&self) -> Declaration {
        declaration(self.config.next_hops.len())
    }

    fn stage(&self, _replica: usize) -> Result<Box<dyn Stage>, GraphError> {
        Ok(match &self.reader {
            PrefixReader::Dir24(table) => self.stage_of(table),
            PrefixReader::Packed(table) => self.stage_of(table),
        })
    }

    fn lacks(&self) -> Vec<String> {
        self.writer().missing.told().into_iter().collect()
    }

    /// It is asked for often, so that what had no room is tried again here.
    fn notices(&self) -> Vec<Notice> {
        let Writer { routing, missing } = &mut *self.writer();
        routing.tidy(CHANGES);
        routing.catch_up(CHANGES);
        // This writer knows no time.
        missing.try_again(routing, CHANGES, u64::MAX);
        missing.notice().into_iter().collect()
    }

    /// The file may have other routes now.
    fn prepare(&self, settings: &Settings<'_>, env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        let config: RouteConfig = settings.read()?;
        let routes = read(&config, settings, env)?;
        let routing = Arc::clone(&self.routing);
        Ok(Box::new(move |_| {
            let writer = &mut *routing.lock().unwrap_or_else(PoisonError::into_inner);
            // Lets numbers be used again that the last change set free.
            writer.routing.tidy(usize::MAX);
            writer.routing.catch_up(usize::MAX);
            writer.set_routes(&routes, &config);
        }))
    }
}
