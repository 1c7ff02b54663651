//! The network layer of a function: what its configuration comes to, and what runs.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use serde_json::Value;
use weir_config::{ConfigError, Element, ErrorKind};
use weir_mem::Domain;
use weir_net::neighbor::{self, Resolution};
use weir_net::nexthop::NextHop;
use weir_net::{DEFAULT_VRF, rib};
use weir_packet::Key;
use weir_simd::Kernel;
use weir_stage::{
    Description, Env, Graph, GraphError, Ground, Instance, InterfaceSet, Notice, Others, Prepared, Redrawn,
    RequestError, Saved, ShowRows, Stage,
};
use weir_table::lpm4::{self, Lookup4};
use weir_table::lpm6::{self, Compiled};

use crate::config::{Limits, Settings, TableKind};
use crate::explain;
use crate::fast::check::{Check, Keys};
use crate::fast::forward::{Forward, Shared};
use crate::fast::hairpin::Hairpin;
use crate::fast::lookups::Lookups;
use crate::fast::punt::PuntReason;
use crate::fast::received::{Arrivals, Received};
use crate::fast::send::Send;
use crate::fast::untag::{Inward, Retag, Untag, Untagged};
use crate::graph::Stages;
use crate::load::{Wanted, load, vrf_names};
use crate::onward::Onward;
use crate::slow::{Room, SlowPath};
use crate::state::routing::{Decision, Routing, Tables};
use crate::state::shared::{self, CHANGES, lock};
use crate::state::{Control, Heard};
use crate::tables::counters::Counters;
use crate::tables::fib::{Fib, Leads};
use crate::tables::prefixes::{PrefixReader, PrefixTable, Readers, VrfTables};
use crate::{Ingress, InterfaceId, Interfaces};
use crate::{request, save, show};

/// Indexes of ports that there is room for at least: those of ports that are added later are among them.
const INDICES: usize = 4096;

/// What the layer of a configuration comes to.
pub struct Described {
    element: Arc<Element>,
    shape: Stages,
    /// Names of the VRFs, by number.
    vrfs: Vec<String>,
    wanted: Wanted,
    /// The index of a port, of whatever function, is below.
    indices: usize,
}

impl Described {
    /// What `settings` come to, which stand in `element`, for stages whose names begin with `name`; with a layer that runs `before` it, whose ports come first. Where it `is_parted`,
    /// packets are checked by one worker and forwarded by another.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with them beyond their schema.
    pub fn new(
        (element, name): (&Arc<Element>, &str),
        settings: Settings<'_>,
        env: &Env<'_>,
        before: Option<&Running>,
        is_parted: bool,
    ) -> Result<Described, Vec<ConfigError>> {
        let before = before.map_or_else(Vec::new, Running::port_names);
        let wanted = load(element, settings, env, &before)?;
        let ports = wanted.general.ports.iter().map(|port| port.index).collect();
        let shape = Stages::new(name, settings, ports, is_parted);
        let indices = env.ports.iter().map(|port| usize::from(port.index) + 1).max().unwrap_or(0).max(INDICES);
        Ok(Described { element: Arc::clone(element), shape, vrfs: vrf_names(settings), wanted, indices })
    }
}

impl Described {
    /// The stages, to be drawn.
    pub fn stages(&self) -> &Stages {
        &self.shape
    }
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
        let Described { element, shape, vrfs, wanted, indices } = self;
        let no_memory = |error: String| vec![element.error(ErrorKind::Limit, &element.path(), error)];
        let kernel = Kernel::detect();
        let limits = &shape.limits;
        let tables = tables(&shape, vrfs.len(), kernel, ground.domain).map_err(no_memory)?;
        let interfaces =
            Interfaces::new(limits.interfaces, indices, ground.domain).map_err(|error| no_memory(error.to_string()))?;
        let fib = Fib::new(limits.next_hops, limits.groups, interfaces.egress(), interfaces.ingress())
            .map_err(|error| no_memory(error.to_string()))?;
        let (counters, received) = (Counters::new(fib.places()), Counters::new(interfaces.limit()));
        let readers = tables.iter().map(VrfTables::readers).collect();
        let tables =
            Tables { tables, fib: Arc::clone(&fib), counters: Arc::clone(&counters), domain: ground.domain.clone() };
        let rib = rib::Limits { routes: limits.routes, next_hops: limits.next_hops, groups: limits.groups };
        let routing = Routing::new(rib, tables);
        let neighbors = limits.neighbors as usize;
        let neighbors = neighbor::Limits { per_port: neighbors, total: neighbors, ..neighbor::Limits::default() };
        let mut control =
            Control::new(interfaces, Arc::clone(&received), vrfs, routing, neighbors, shape.seed ^ ground.now);
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
fn tables(shape: &Stages, vrfs: usize, kernel: Kernel, domain: &Domain) -> Result<Vec<VrfTables>, String> {
    let (four, six) = table_configs(&shape.limits, kernel);
    let make = |vrf: usize| {
        // The others are usually small, and there may be many.
        let kind = if vrf == 0 { shape.table } else { TableKind::Packed };
        let four = PrefixTable::new(kind, &four, domain).map_err(|error| error.to_string())?;
        Ok(VrfTables { four, six: Compiled::new(&six, domain).map_err(|error| error.to_string())? })
    };
    (0..vrfs).map(make).collect()
}

fn table_configs(limits: &Limits, kernel: Kernel) -> (lpm4::Config, lpm6::Config) {
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

/// A network layer that runs.
#[derive(Clone)]
pub struct Running {
    shape: Stages,
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

/// Where packets of the function go that it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Nowhere.
    NoRoute,
    /// To one of the own addresses, or to where nothing is sent on.
    Here,
    /// To the function, by this inlet.
    Inlet(InterfaceId),
    /// By this interface to this neighbour, whose Ethernet address is known or not.
    Neighbor(InterfaceId, IpAddr, Resolution),
}

/// What a function that stands on the layer does with it beside.
impl Running {
    /// The routes of the default VRF, for one stage of the function.
    ///
    /// # Errors
    ///
    /// No memory, or routes of IPv4 are not [`TableKind::Dir24`].
    pub fn onward(&self) -> Result<Onward, GraphError> {
        let no_table = || GraphError(vec!["there is no prefix table of the kind dir24".to_owned()]);
        let Readers { four: PrefixReader::Dir24(four), six } = self.readers.first().ok_or_else(no_table)? else {
            return Err(no_table());
        };
        let counters = self.counters.acquire().map_err(|error| GraphError(vec![error.to_string()]))?;
        Ok(Onward { four: Arc::clone(four), six: Arc::clone(six), fib: Arc::clone(&self.fib), counters })
    }

    /// By which interfaces packets come in, for one stage of the function that has them first; `key` is that of [`Stages::tags`](Stages::tags).
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn inward(&self, key: Key<Untagged>) -> Result<Inward, GraphError> {
        Ok(Inward::new(Arc::clone(&self.fib), self.acquire_received()?, key))
    }

    /// Where packets to an address go; its neighbour is asked for if it is not known. `hash` is that of their flow.
    pub fn reach(&self, now: u64, destination: IpAddr, hash: u32) -> Reach {
        let mut control = lock(&self.shared);
        match control.routing.decide(DEFAULT_VRF, destination, || hash) {
            Decision::Via(hop) if control.routing.is_inlet(hop.interface) => Reach::Inlet(hop.interface),
            Decision::Via(hop) => {
                let resolution = control.resolve(now, hop, destination);
                Reach::Neighbor(hop.interface, hop.neighbor(destination), resolution)
            }
            Decision::NoRoute | Decision::Discard(_) => Reach::NoRoute,
            Decision::Local | Decision::Broadcast | Decision::LinkLocal | Decision::Flood(_) => Reach::Here,
        }
    }

    /// Whether the Ethernet address of a neighbour is known; it is asked for if not, and kept fresh if it is.
    pub fn ask(&self, now: u64, interface: InterfaceId, neighbor: IpAddr) -> Resolution {
        let hop = NextHop { interface, gateway: Some(neighbor) };
        lock(&self.shared).resolve(now, hop, neighbor)
    }

    /// Lets routes lead to an inlet, or not while nothing that goes there can go on.
    pub fn set_inlet(&self, inlet: InterfaceId, is_up: bool) {
        let mut control = lock(&self.shared);
        if control.interfaces.get(inlet).is_some_and(|found| found.up != is_up) {
            control.alter(inlet, None, is_up);
            control.catch_up(CHANGES);
        }
    }

    /// What counts packets by interfaces, for one stage of the function that has them first.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn arrivals(&self) -> Result<Arrivals, GraphError> {
        Ok(Arrivals::new(Arc::clone(&self.fib), self.acquire_received()?))
    }

    /// To which interface frames belong that come in.
    pub fn ingress(&self) -> Arc<Ingress> {
        Arc::clone(lock(&self.shared).interfaces.ingress())
    }

    /// What became of neighbours since the last call.
    pub fn take_heard(&self) -> Vec<Heard> {
        lock(&self.shared).take_heard()
    }

    /// The number of an interface, by its name.
    pub fn interface(&self, name: &str) -> Option<InterfaceId> {
        lock(&self.shared).interfaces.find(name).map(|found| found.id)
    }

    /// Whether an address is the broadcast or network address of a connected network.
    pub fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        lock(&self.shared).routing.decide(DEFAULT_VRF, address.into(), || 0) == Decision::Broadcast
    }
}

impl Running {
    /// The names of its ports, by position.
    pub(crate) fn port_names(&self) -> Vec<String> {
        lock(&self.shared).interfaces.ports().iter().map(|port| port.name.clone()).collect()
    }

    /// The stage that forwards: all of the fast path, or the part of it behind [`Check`]. What comes in `is_counted` where a stage before it did.
    pub(crate) fn forward(&self, keys: Keys, is_counted: bool) -> Result<Box<dyn Stage>, GraphError> {
        let acquire = || self.counters.acquire().map_err(|error| GraphError(vec![error.to_string()]));
        let (ports, policer) = (self.shape.ports.len(), self.shape.policer());
        Ok(by_table!(self, table => {
            let received = match is_counted {
                _ if self.shape.is_parted => None,
                true => Some(Received::counted_before(acquire()?)),
                false => Some(self.acquire_received()?),
            };
            let shared = Shared { lookups: self.lookups(table), counters: acquire()?, received };
            if self.shape.is_parted {
                return Ok(Box::new(Forward::<_, true>::new(shared, self.kernel, ports, policer, (keys, is_counted))));
            }
            Forward::<_, false>::new(shared, self.kernel, ports, policer, (keys, is_counted))
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

    /// The stage that takes tags off what the function is to have.
    pub(crate) fn untag(&self, key: Key<Untagged>) -> Result<Box<dyn Stage>, GraphError> {
        Ok(Box::new(Untag::new(self.inward(key)?)))
    }

    /// The stage that puts them back on what the function leaves to the layer.
    pub(crate) fn retag(&self, key: Key<Untagged>) -> Box<dyn Stage> {
        Box::new(Retag::new(Arc::clone(&self.fib), key))
    }

    /// The stage that looks for packets which turn round.
    pub(crate) fn hairpin(&self, kind: Key<PuntReason>) -> Box<dyn Stage> {
        let (readers, fib) = (Arc::clone(&self.readers), Arc::clone(&self.fib));
        Box::new(Hairpin::new(readers, fib, self.shape.seed, kind))
    }

    /// The stage that hands to the slow path what the function made.
    pub(crate) fn sender(&self, kind: Key<PuntReason>) -> Box<dyn Stage> {
        Box::new(Send::new(kind, self.shape.policer()))
    }

    fn lookups<T: Lookup4>(&self, table: &Arc<T>) -> Lookups<T> {
        let (readers, fib) = (Arc::clone(&self.readers), Arc::clone(&self.fib));
        Lookups { table: Arc::clone(table), readers, fib, seed: self.shape.seed }
    }

    /// The stage of the control side.
    pub(crate) fn slow_path(&self, kind: Key<PuntReason>) -> Box<dyn Stage> {
        let limits = &self.shape.limits;
        let room = Room {
            per_neighbor: limits.queue_per_neighbor as usize,
            waiting: limits.queue as usize,
            fragments: limits.fragments as usize,
        };
        let (shared, ports) = (Arc::clone(&self.shared), self.shape.ports.len());
        Box::new(SlowPath::new(shared, &room, kind, ports, self.shape.seed))
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
        let stage = stage.strip_prefix(&self.shape.name)?;
        explain::route(&lock(&self.shared), stage, way, packet, then)
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        show::gauges(&self.shared)
    }
}
