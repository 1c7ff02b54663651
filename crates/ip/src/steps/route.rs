//! The kinds of stage `ipv4-route` and `ipv6-route`.
//!
//! Each has the control side of a router's forwarding, [`Routing`], to itself: its next hops stand at "interfaces" of that, each numbered as
//! the way that leads there.

mod keys;
mod look;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::{IpNet, Ipv4Net};
use weir_config::{ConfigError, ErrorKind, Errors, Schema};
use weir_net::rib::{Hop, Limits};
use weir_net::{DEFAULT_VRF, RouteSource};
use weir_simd::Kernel;
use weir_stage::{
    Declaration, DescribeStage, Env, GraphError, Ground, MakeStage, Notice, Prepared, Settings, Stage, StageKind,
};
use weir_table::lpm4::Lookup4;
use weir_table::lpm6::Compiled;
use weir_wire::MacAddr;

use super::check_first;
use crate::Ingress;
use crate::fast::checker::Checker;
use crate::fast::classify::Family;
use crate::fast::lookups::Lookups;
use crate::fast::six;
use crate::state::missing::Missing;
use crate::state::routing::{Network, Refusal, Routing, Tables};
use crate::state::shared::CHANGES;
use crate::state::static_routes::{SCRIPT, Sources, StaticRoute, different_sets, long_prefix_networks};
use crate::state::via::Via;
use crate::tables::fib::Fib;
use crate::tables::prefixes::{PrefixReader, PrefixTable, Readers, VrfTables};
use keys::Keys;
pub use keys::{Route6Config, RouteConfig};
use look::{Find, Four, RoutingStage, Six, declaration};
use weir_table::counters::Counters;

/// Different sets of next hops that share traffic, at most.
const SETS: usize = 4096;

/// Times that there is room for what routes lead to: a reload adds what is new before readers have left what was there.
const GENERATIONS: u32 = 2;

/// /24 networks that hold prefixes of IPv4 longer than /24, at most: 1 KiB of lookup memory each.
const LONG_PREFIX_NETWORKS: u32 = 16_384;

/// Room for the routes of [`hold`].
const HOLDS: usize = NEXT_HOPS;

/// Next hops at most.
const NEXT_HOPS: usize = 64;

/// A route that no packet takes, as class E is never forwarded: it holds on to the next hop of a way, whose number must not be given up where
/// a reload takes away all its routes and then adds others. What routes lead to has no family, so it does so for routes of IPv6, too.
fn hold(way: u16) -> Network {
    (DEFAULT_VRF, Ipv4Net::from(Ipv4Addr::from_bits(0xf000_0000 | u32::from(way))).into())
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
        check_first(Family::Four)
    }

    fn describe(&self, settings: &Settings<'_>, env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>> {
        describe::<RouteConfig>(settings, env)
    }
}

/// The kind of stage `ipv6-route`.
#[derive(Debug)]
pub struct Ipv6Route;

impl StageKind for Ipv6Route {
    fn kind(&self) -> &'static str {
        "ipv6-route"
    }

    fn schema(&self) -> Schema {
        Route6Config::schema()
    }

    fn upstream(&self) -> &'static str {
        check_first(Family::Six)
    }

    fn describe(&self, settings: &Settings<'_>, env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>> {
        describe::<Route6Config>(settings, env)
    }
}

fn describe<K: Keys>(settings: &Settings<'_>, env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>> {
    let config: K = settings.read()?;
    let routes = read(&config, settings, env)?;
    Ok(Box::new(Described { config, routes }))
}

/// Routes that are going to be looked up.
struct Described<K> {
    config: K,
    routes: Vec<StaticRoute>,
}

impl<K: Keys> DescribeStage for Described<K> {
    fn declares(&self) -> Declaration {
        declaration(K::FAMILY, self.config.next_hops().len())
    }

    fn instantiate(
        self: Box<Self>,
        settings: &Settings<'_>,
        ground: &Ground<'_>,
        _old: Option<&dyn MakeStage>,
    ) -> Result<Box<dyn MakeStage>, Vec<ConfigError>> {
        let Described { config, routes } = *self;
        let no_memory = |error: String| vec![settings.error(ErrorKind::Limit, K::ROOM, error)];
        let (kind, four, six) = config.tables();
        let four = PrefixTable::new(kind, &four, ground.domain).map_err(|error| no_memory(error.to_string()))?;
        let six = Compiled::new(&six, ground.domain).map_err(|error| no_memory(error.to_string()))?;
        let next_hops = config.next_hops().len() as u32;
        let groups = GENERATIONS * SETS as u32;
        // Nothing enters or leaves here: ways stand for interfaces.
        let fib = Fib::new(next_hops, groups, &[].into(), &Arc::new(Ingress::untagged(0)))
            .map_err(|error| no_memory(error.to_string()))?;
        let tables = VrfTables { four, six };
        let readers = tables.readers();
        let (tables, domain) = (vec![tables], ground.domain.clone());
        let [counters, line_counters] = [(); 2].map(|()| Counters::new(0));
        let tables = Tables { tables, fib: Arc::clone(&fib), counters, line_counters, domain };
        let limits = Limits { routes: config.max_routes() + HOLDS as u32, next_hops, groups };
        let mut routing = Routing::new(limits, tables);
        let mut refused = Vec::new();
        for (gateway, way) in config.next_hops().iter().zip(0..) {
            let gateway: IpAddr = (*gateway).into();
            routing.set_link(way, true);
            // Which address it is means nothing here: that it is known is enough to be a way.
            routing.set_mac(way, gateway, Some(MacAddr::ZERO));
            if let Err(refusal) = routing.replace(hold(way), RouteSource::Learned, &[Hop::ViaOn(gateway, way)]) {
                refused.push((hold(way), refusal));
            }
        }
        routing.catch_up(usize::MAX);
        let mut writer = Writer { routing, missing: Missing::default() };
        writer.set_routes(&routes, &config);
        refused.extend(writer.missing.refusals());
        let errors = without_room::<K>(&refused, routes.len(), settings);
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Box::new(Make { config, readers, fib, routing: Arc::new(Mutex::new(writer)) }))
    }
}

/// What is said of routes that were refused: once for all that the prefix table has no room for.
fn without_room<K: Keys>(refused: &[(Network, Refusal)], all: usize, settings: &Settings<'_>) -> Vec<ConfigError> {
    let (full, others): (Vec<_>, Vec<_>) =
        refused.iter().partition(|(_, refusal)| matches!(refusal, Refusal::Table(_)));
    let full = full.first().map(|((_, prefix), refusal)| {
        let problem = format!("is too little for {} of {all} routes, {prefix} among them: {refusal}", full.len());
        settings.error(ErrorKind::Limit, K::ROOM, problem).remedy("raise it")
    });
    let others = others.iter().take(Errors::KEPT).map(|((_, prefix), refusal)| {
        let (key, text) = (settings.path.field(SCRIPT), prefix.to_string());
        settings.element.error(ErrorKind::Limit, &key.entry(&text), refusal.to_string())
    });
    full.into_iter().chain(others).collect()
}

/// The number of the way to a next hop.
fn way<K: Keys>(config: &K, via: &Via) -> Option<usize> {
    config.next_hops().iter().position(|hop| *via == (*hop).into())
}

fn hop<K: Keys>(config: &K, via: &Via) -> Option<Hop> {
    let (Via::Gateway(gateway), way) = (via, way(config, via)?) else { return None };
    Some(Hop::ViaOn(*gateway, way as u16))
}

/// Whether a route may lead there.
fn check<K: Keys>(config: &K, via: &Via) -> Result<(), String> {
    match way(config, via) {
        Some(_) => Ok(()),
        None => Err(format!("{via} is none of the next hops")),
    }
}

/// The routes of checked settings.
fn read<K: Keys>(config: &K, settings: &Settings<'_>, env: &Env<'_>) -> Result<Vec<StaticRoute>, Vec<ConfigError>> {
    let mut errors = Errors::new();
    for (gateway, n) in config.next_hops().iter().zip(0..) {
        if config.next_hops().iter().take(n).any(|other| other == gateway) {
            let error = settings.error(ErrorKind::Duplicate, "next_hops", format!("{gateway} stands here twice"));
            errors.push(error.remedy("leave one out"));
        }
    }
    let sources = Sources {
        element: settings.element,
        path: settings.path,
        script: config.routes(),
        csv: config.routes_csv(),
        folder: env.folder,
    };
    let names: BTreeSet<K::Address> = config.next_hops().iter().copied().collect();
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let remedy = format!("write one of {}, or add it to next_hops", names.join(", "));
    let routes = sources.read(&|_, via: &Via| check(config, via), &remedy, &mut errors);
    if routes.len() > config.max_routes() as usize {
        let problem = format!("{} is too few: there are {} routes", config.max_routes(), routes.len());
        errors.push(settings.error(ErrorKind::Limit, "max_routes", problem));
    }
    let key = if config.routes_csv().is_some() { "routes_csv" } else { SCRIPT };
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

struct Make<K> {
    config: K,
    readers: Readers,
    fib: Arc<Fib>,
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
    fn set_routes<K: Keys>(&mut self, wanted: &[StaticRoute], config: &K) {
        let Writer { routing, missing } = self;
        let is_wanted = |prefix: IpNet| wanted.binary_search_by_key(&prefix, |route| route.prefix).is_ok();
        missing.retain(RouteSource::Config, |(_, prefix)| is_wanted(prefix));
        let ours = K::configured(routing);
        let gone = ours.into_iter().filter(|prefix| !is_wanted(*prefix));
        let gone: Vec<Network> = gone.map(|prefix| (DEFAULT_VRF, prefix)).collect();
        routing.remove_config(&gone);
        let mut hops = Vec::new();
        for route in wanted {
            hops.clear();
            route.via.each(|via| hops.extend(hop(config, via)));
            missing.replace(routing, (DEFAULT_VRF, route.prefix), RouteSource::Config, &hops);
        }
    }
}

impl<K: Keys> Make<K> {
    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.routing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn four<T: Lookup4 + 'static>(&self, table: &Arc<T>) -> Box<dyn Stage> {
        let seed = u64::from(self.config.hash_seed());
        let (readers, hosts, fib) = ([].into(), [].into(), Arc::clone(&self.fib));
        let lookups = Lookups { table: Arc::clone(table), readers, fib, seed, hosts };
        self.stage_of(Four { lookups, checker: Checker::new(Kernel::detect()) })
    }

    fn six(&self) -> Box<dyn Stage> {
        let (table, fib) = (Arc::clone(&self.readers.six), Arc::clone(&self.fib));
        self.stage_of(Six {
            table,
            fib,
            seed: u64::from(self.config.hash_seed()),
            six: six::Six::new(Kernel::detect()),
        })
    }

    fn stage_of<F: Find + 'static>(&self, find: F) -> Box<dyn Stage> {
        let (fib, ways) = (Arc::clone(&self.fib), self.config.next_hops().len());
        Box::new(RoutingStage { find, fib, kernel: Kernel::detect(), ways })
    }
}

impl<K: Keys> MakeStage for Make<K> {
    fn declare(&self) -> Declaration {
        declaration(K::FAMILY, self.config.next_hops().len())
    }

    fn stage(&self, _replica: usize) -> Result<Box<dyn Stage>, GraphError> {
        Ok(match (K::FAMILY, &self.readers.four) {
            (Family::Six, _) => self.six(),
            (Family::Four, PrefixReader::Dir24(table)) => self.four(table),
            (Family::Four, PrefixReader::Packed(table)) => self.four(table),
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
        let config: K = settings.read()?;
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
