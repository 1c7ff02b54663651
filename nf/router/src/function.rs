//! The function `router` as the program sees it.

use std::sync::Arc;

use serde_json::Value;
use weir_config::{ConfigError, Element, ErrorKind, PortName};
use weir_ip::{Ingress, Interfaces};
use weir_mem::Domain;
use weir_net::neighbor;
use weir_net::rib::Limits;
use weir_packet::Key;
use weir_simd::Kernel;
use weir_stage::{
    Case, Description, Env, Function, Given, Graph, GraphError, Ground, Instance, InterfaceSet, Layout, Notice, Others,
    Prepared, Redrawn, RequestError, Saved, Show, ShowRows, Stage, Verb,
};
use weir_table::lpm4::{self, Lookup4};
use weir_table::lpm6::{self, Compiled};

use crate::check::{Check, Keys};
use crate::config::{RouterConfig, RouterLimits, TableKind};
use crate::control::{Room, SlowPath};
use crate::counters::Counters;
use crate::explain;
use crate::fib::{Fib, Leads};
use crate::forward::{Forward, Shared};
use crate::graph::Shape;
use crate::hairpin::Hairpin;
use crate::load::{Wanted, load, vrf_names};
use crate::lookups::Lookups;
use crate::punt::PuntReason;
use crate::received::Received;
use crate::routing::{Routing, Tables};
use crate::shared::{self, lock};
use crate::state::Control;
use crate::table::{PrefixReader, PrefixTable, Readers, VrfTables};
use crate::{cases, request, save, show};

/// The function `router`.
#[derive(Debug)]
pub struct Router;

impl Function for Router {
    type Config = RouterConfig;
    type Description = Described;

    fn kind(&self) -> &'static str {
        "router"
    }

    fn ports(&self, given: &Given<'_, RouterConfig>) -> Vec<String> {
        given.config.ports.iter().map(PortName::to_string).collect()
    }

    fn has_interfaces(&self) -> bool {
        true
    }

    /// Frames to other stations are dropped (RFC 1812 section 3.4).
    fn promiscuous(&self, _given: &Given<'_, RouterConfig>, _port: &str) -> bool {
        false
    }

    fn describe(&self, given: &Given<'_, RouterConfig>, env: &Env<'_>) -> Result<Described, Vec<ConfigError>> {
        let wanted = load(given, env)?;
        let shape = Shape {
            name: given.name().to_owned(),
            config: Arc::clone(given.config),
            ports: wanted.general.ports.iter().map(|port| port.index).collect(),
            is_parted: given.placement.layout == Layout::Pipeline,
        };
        let indices = env.ports.iter().map(|port| usize::from(port.index) + 1).max().unwrap_or(0).max(INDICES);
        Ok(Described { element: Arc::clone(given.element), shape, wanted, indices })
    }

    fn verbs(&self) -> &'static [Verb] {
        request::VERBS
    }

    fn examples(&self) -> &'static [&'static str] {
        request::EXAMPLES
    }

    fn shows(&self) -> &'static [Show] {
        show::SHOWS
    }

    fn cases(&self) -> Vec<Case> {
        cases::all()
    }
}

/// Indexes of ports that a router has room for at least: those of ports that it is given later are among them.
const INDICES: usize = 4096;

/// What a router comes to.
pub struct Described {
    element: Arc<Element>,
    shape: Shape,
    wanted: Wanted,
    /// The index of a port, of whatever function, is below.
    indices: usize,
}

impl Description for Described {
    type Running = Running;

    fn sketch(&self, _replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(None)
    }

    fn instantiate(self, ground: &Ground<'_>, old: Option<&Running>) -> Result<Running, Vec<ConfigError>> {
        let running = self.build(ground)?;
        if let Some(old) = old {
            shared::adopt(&running.shared, &old.shared, ground.now);
        }
        Ok(running)
    }

    fn redraw(&self, running: &Running) -> Redrawn<Running> {
        let (before, now) = (&running.shape.ports, &self.shape.ports);
        let known = lock(&running.shared).interfaces.ingress().indices();
        match now.strip_prefix(before.as_slice()) {
            Some([]) => Redrawn::Same,
            Some(more) if more.iter().all(|index| usize::from(*index) < known) => {
                Redrawn::As(Running { shape: self.shape.clone(), ..running.clone() })
            }
            _ => Redrawn::Anew,
        }
    }

    fn change(self, running: &Running, _env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        let (shared, wanted) = (Arc::clone(&running.shared), self.wanted);
        Ok(Box::new(move |now| shared::reconcile(&shared, wanted, now)))
    }
}

impl Described {
    fn build(self, ground: &Ground<'_>) -> Result<Running, Vec<ConfigError>> {
        let Described { element, shape, wanted, indices } = self;
        let no_memory = |error: String| vec![element.error(ErrorKind::Limit, &element.path(), error)];
        let kernel = Kernel::detect();
        let limits = &shape.config.limits;
        let vrfs = vrf_names(&shape.config);
        let tables = tables(&shape.config, vrfs.len(), kernel, ground.domain).map_err(no_memory)?;
        let interfaces =
            Interfaces::new(limits.interfaces, indices, ground.domain).map_err(|error| no_memory(error.to_string()))?;
        let fib = Fib::new(limits.next_hops, limits.groups, interfaces.egress(), interfaces.ingress())
            .map_err(|error| no_memory(error.to_string()))?;
        let (counters, received) = (Counters::new(fib.places()), Counters::new(interfaces.limit()));
        let readers = tables.iter().map(VrfTables::readers).collect();
        let tables =
            Tables { tables, fib: Arc::clone(&fib), counters: Arc::clone(&counters), domain: ground.domain.clone() };
        let rib = Limits { routes: limits.routes, next_hops: limits.next_hops, groups: limits.groups };
        let routing = Routing::new(rib, tables);
        let neighbors = limits.neighbors as usize;
        let neighbors = neighbor::Limits { per_port: neighbors, total: neighbors, ..neighbor::Limits::default() };
        let mut control =
            Control::new(interfaces, Arc::clone(&received), vrfs, routing, neighbors, shape.seed() ^ ground.now);
        let refused = control.reconcile(wanted, ground.now);
        let errors: Vec<ConfigError> = refused
            .iter()
            .take(weir_config::Errors::KEPT)
            .map(|((_, prefix), refusal)| {
                let (root, text) = (element.path(), prefix.to_string());
                let path = root.field("routes");
                element.error(ErrorKind::Limit, &path.entry(&text), refusal.to_string())
            })
            .collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let shared = Arc::new(shared::Shared::new(control));
        Ok(Running { shape, readers, fib, counters, received, kernel, shared })
    }
}

/// The prefix tables of so many VRFs.
fn tables(config: &RouterConfig, vrfs: usize, kernel: Kernel, domain: &Domain) -> Result<Vec<VrfTables>, String> {
    let (four, six) = table_configs(&config.limits, kernel);
    let make = |vrf: usize| {
        // The others are usually small, and there may be many.
        let kind = if vrf == 0 { config.table } else { TableKind::Packed };
        let four = PrefixTable::new(kind, &four, domain).map_err(|error| error.to_string())?;
        Ok(VrfTables { four, six: Compiled::new(&six, domain).map_err(|error| error.to_string())? })
    };
    (0..vrfs).map(make).collect()
}

fn table_configs(limits: &RouterLimits, kernel: Kernel) -> (lpm4::Config, lpm6::Config) {
    let max_routes = limits.routes as usize + SPECIALS;
    let six = lpm6::Config { miss: Leads::NO_ROUTE.value(), max_routes, max_lines: limits.ipv6_lines };
    let four = lpm4::Config {
        miss: Leads::NO_ROUTE.value(),
        // Own addresses and broadcasts come on top of the routes: three for each interface, of which there are few.
        max_routes,
        max_groups: limits.long_prefix_networks,
        kernel,
    };
    (four, six)
}

/// Room for prefixes that are no routes.
const SPECIALS: usize = 65_536;

/// A configured router.
#[derive(Clone)]
pub struct Running {
    shape: Shape,
    /// What workers look up in, by VRF.
    readers: Arc<[Readers]>,
    fib: Arc<Fib>,
    counters: Arc<Counters>,
    /// Of what comes in by interfaces.
    received: Arc<Counters>,
    kernel: Kernel,
    pub(crate) shared: Arc<shared::Shared>,
}

/// Makes a stage of whichever prefix table there is.
macro_rules! by_table {
    ($running:expr, $table:ident => $stage:expr) => {
        match $running.readers.first().map(|readers| &readers.four) {
            Some(PrefixReader::Dir24($table)) => Box::new($stage) as Box<dyn Stage>,
            Some(PrefixReader::Packed($table)) => Box::new($stage) as Box<dyn Stage>,
            None => return Err(GraphError(vec!["there is no prefix table".to_owned()])),
        }
    };
}

impl Running {
    /// The names of its ports, by position.
    pub(crate) fn port_names(&self) -> Vec<String> {
        lock(&self.shared).interfaces.ports().iter().map(|port| port.name.clone()).collect()
    }

    /// The stage that forwards: all of the fast path, or the part of it behind [`Check`].
    pub(crate) fn forward(&self, keys: Keys) -> Result<Box<dyn Stage>, GraphError> {
        let acquire = || self.counters.acquire().map_err(|error| GraphError(vec![error.to_string()]));
        let (ports, policer) = (self.shape.ports.len(), self.shape.policer());
        Ok(by_table!(self, table => {
            let received = if self.shape.is_parted { None } else { Some(self.acquire_received()?) };
            let shared = Shared { lookups: self.lookups(table), counters: acquire()?, received };
            if self.shape.is_parted {
                return Ok(Box::new(Forward::<_, true>::new(shared, self.kernel, ports, policer, keys)));
            }
            Forward::<_, false>::new(shared, self.kernel, ports, policer, keys)
        }))
    }

    /// The stage that checks, where another worker forwards.
    pub(crate) fn check(&self, keys: Keys) -> Result<Box<dyn Stage>, GraphError> {
        let (received, policer) = (self.acquire_received()?, self.shape.policer());
        Ok(by_table!(self, table => Check::new(self.lookups(table), received, self.kernel, policer, keys)))
    }

    fn acquire_received(&self) -> Result<Received, GraphError> {
        let counters = self.received.acquire().map_err(|error| GraphError(vec![error.to_string()]))?;
        Ok(Received::new(counters))
    }

    /// The stage that looks for packets which turn round.
    pub(crate) fn hairpin(&self, kind: Key<PuntReason>) -> Box<dyn Stage> {
        let (readers, fib) = (Arc::clone(&self.readers), Arc::clone(&self.fib));
        Box::new(Hairpin::new(readers, fib, self.shape.seed(), kind))
    }

    fn lookups<T: Lookup4>(&self, table: &Arc<T>) -> Lookups<T> {
        let (readers, fib) = (Arc::clone(&self.readers), Arc::clone(&self.fib));
        Lookups { table: Arc::clone(table), readers, fib, seed: self.shape.seed() }
    }

    /// The stage of the control side.
    pub(crate) fn slow_path(&self, kind: Key<PuntReason>) -> Box<dyn Stage> {
        let limits = &self.shape.config.limits;
        let room = Room {
            per_neighbor: limits.queue_per_neighbor as usize,
            waiting: limits.queue as usize,
            fragments: limits.fragments as usize,
        };
        let (shared, ports) = (Arc::clone(&self.shared), self.shape.ports.len());
        Box::new(SlowPath::new(shared, &room, kind, ports, self.shape.seed()))
    }
}

impl Instance for Running {
    fn graph(&self, _replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(Some(self))
    }

    fn sketch(&self, _replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(None)
    }

    fn request(&self, verb: &str, arguments: &Value, now: u64) -> Result<Value, RequestError> {
        request::carry_out(&self.shared, verb, arguments, now)
    }

    fn show(&self, what: &str, filter: Option<&str>, now: u64) -> Result<Box<dyn ShowRows>, RequestError> {
        show::rows(&self.shared, what, filter, now)
    }

    fn save(&self) -> Box<dyn ShowRows<Saved>> {
        save::save(&self.shared)
    }

    fn notices(&self, now: u64) -> Vec<Notice> {
        lock(&self.shared).notices(now)
    }

    fn lacks(&self) -> Vec<String> {
        lock(&self.shared).lacks()
    }

    fn link_changed(&self, port: u16, up: bool, now: u64) {
        lock(&self.shared).set_link(port, up, now);
    }

    fn interfaces(&self) -> Option<Arc<dyn InterfaceSet>> {
        let ingress: Arc<Ingress> = Arc::clone(lock(&self.shared).interfaces.ingress());
        Some(ingress)
    }

    fn share_with(&self, others: Others, now: u64) {
        lock(&self.shared).share_with(others, now);
    }

    fn explain(&self, stage: &str, way: &str, packet: &[u8], then: u64) -> Option<String> {
        let (name, stage) = stage.rsplit_once('.')?;
        if name == self.shape.name { explain::route(&lock(&self.shared), stage, way, packet, then) } else { None }
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        show::gauges(&self.shared)
    }
}
