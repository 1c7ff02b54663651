//! The function `router` as the program sees it.

use std::any::Any;
use std::sync::Arc;

use serde_json::Value;
use weir_config::{ConfigError, Element, ErrorKind, PortName, Schema};
use weir_ip::Interfaces;
use weir_net::neighbor;
use weir_net::reassembly::Reassembly;
use weir_net::rib::Limits;
use weir_net::waiting::Waiting;
use weir_packet::Key;
use weir_simd::Kernel;
use weir_stage::{
    Case, Env, Function, Graph, GraphError, Instance, Layout, NodeId, Notice, Place, Placement, RequestError, Saved,
    Show, ShowRows, Stage, To, Verb,
};
use weir_table::lpm4::{self, Lookup4};

use crate::check::{self, Check};
use crate::config::{RouterConfig, RouterLimits};
use crate::control::SlowPath;
use crate::counters::Counters;
use crate::explain;
use crate::fib::{Fib, Leads};
use crate::forward::{Forward, Shared};
use crate::hairpin::Hairpin;
use crate::load::{Wanted, load};
use crate::lookups::Lookups;
use crate::punt::{Kind, Policing};
use crate::received::Received;
use crate::routing::{Routing, Tables};
use crate::shared::{self, lock};
use crate::state::Control;
use crate::table::{PrefixReader, PrefixTable};
use crate::{cases, request, save, show};

/// The function `router`.
#[derive(Debug)]
pub struct Router;

impl Function for Router {
    fn kind(&self) -> &'static str {
        "router"
    }

    fn schema(&self) -> Schema {
        RouterConfig::schema()
    }

    fn placement(&self, element: &Element) -> Placement {
        let workers = element.read_key("workers").unwrap_or(vec![0]);
        Placement { layout: element.read_key("layout").unwrap_or(Layout::RunToCompletion), workers }
    }

    fn ports(&self, element: &Element) -> Vec<String> {
        let ports: Vec<PortName> = element.read_key("ports").unwrap_or_default();
        ports.iter().map(PortName::to_string).collect()
    }

    fn has_interfaces(&self) -> bool {
        true
    }

    fn build(
        &self,
        element: &Element,
        env: &Env<'_>,
        old: Option<&dyn Instance>,
    ) -> Result<Box<dyn Instance>, Vec<ConfigError>> {
        let (config, wanted) = load(element, env)?;
        let running = Running::build(element, config, wanted, env)?;
        if let Some(old) = old.and_then(|old| old.as_any().downcast_ref::<Running>()) {
            shared::take_over(&running.shared, &old.shared, env.now);
        }
        Ok(Box::new(running))
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

/// A configured router.
pub(crate) struct Running {
    name: String,
    config: RouterConfig,
    /// Indices of its ports, by position.
    ports: Vec<u16>,
    reader: PrefixReader,
    fib: Arc<Fib>,
    counters: Arc<Counters>,
    /// Of what comes in by interfaces.
    received: Arc<Counters>,
    kernel: Kernel,
    pub(crate) shared: Arc<shared::Shared>,
}

impl Running {
    fn build(
        element: &Element,
        config: RouterConfig,
        wanted: Wanted,
        env: &Env<'_>,
    ) -> Result<Running, Vec<ConfigError>> {
        let no_memory = |error: String| vec![element.error(ErrorKind::Limit, &element.path(), error)];
        let kernel = Kernel::detect();
        let limits = &config.limits;
        let table = PrefixTable::new(config.table, &table_config(limits, kernel), env.domain)
            .map_err(|error| no_memory(error.to_string()))?;
        let indices = env.ports.iter().map(|port| port.index as usize + 1).max().unwrap_or(0);
        let interfaces =
            Interfaces::new(limits.interfaces, indices, env.domain).map_err(|error| no_memory(error.to_string()))?;
        let fib = Fib::new(limits.next_hops, limits.groups, interfaces.egress(), interfaces.ingress())
            .map_err(|error| no_memory(error.to_string()))?;
        let (counters, received) = (Counters::new(fib.places()), Counters::new(interfaces.limit()));
        let ports: Vec<u16> = wanted.general.ports.iter().map(|port| port.index).collect();
        let reader = table.reader();
        let tables =
            Tables { table, fib: Arc::clone(&fib), counters: Arc::clone(&counters), domain: env.domain.clone() };
        let rib = Limits { routes: limits.routes, next_hops: limits.next_hops, groups: limits.groups };
        let routing = Routing::new(rib, tables);
        let neighbors = limits.neighbors as usize;
        let neighbors = neighbor::Limits { per_port: neighbors, total: neighbors };
        let mut control = Control::new(interfaces, Arc::clone(&received), routing, neighbors, wanted.general.timing);
        let refused = control.become_wanted(wanted, env.now);
        let errors: Vec<ConfigError> = refused
            .iter()
            .take(weir_config::Errors::KEPT)
            .map(|(prefix, refusal)| {
                let (root, text) = (element.path(), prefix.to_string());
                let path = root.field("routes");
                element.error(ErrorKind::Limit, &path.entry(&text), refusal.to_string())
            })
            .collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let shared = Arc::new(shared::Shared::new(control));
        let name = element.name().to_owned();
        Ok(Running { name, config, ports, reader, fib, counters, received, kernel, shared })
    }

    fn graph_with<T: Lookup4 + 'static>(&self, table: &Arc<T>) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let kind: Key<Kind> = graph.claim("why it goes to the slow path")?;
        let forward = self.add_forward(&mut graph, table, kind)?;
        let control = graph.add_at(self.stage("control"), self.slow_path(kind), Place::Control);
        for way in ["unresolved", "arp", "local", "options", "ttl-expired", "no-route", "too-big"] {
            graph.wire(forward, way, To::Stage(control));
        }
        graph.wire(control, "again", To::Stage(control));
        graph.leave_open(control, "undecided"); // never taken
        for (position, &port) in self.ports.iter().enumerate() {
            graph.wire(forward, &format!("port[{position}]"), To::Port(port));
            graph.wire(control, &format!("port[{position}]"), To::Port(port));
        }
        let mut first = forward;
        if self.is_parted() {
            let check = Check::new(self.lookups(table), self.lend_received()?, self.kernel, self.policing(), kind);
            let check = graph.add(self.stage("check"), check);
            graph.wire(check, "out", To::Stage(forward));
            check::TO_THE_SLOW_PATH.iter().for_each(|way| graph.wire(check, way, To::Stage(control)));
            first = check;
        }
        if self.config.redirects {
            first = self.look_for_redirects(&mut graph, table, kind, first, control);
        }
        self.ports.iter().for_each(|&port| graph.receive(port, first));
        Ok(graph)
    }

    /// Whether packets are checked by one worker and forwarded by another.
    fn is_parted(&self) -> bool {
        self.config.layout == Layout::Pipeline
    }

    /// The stage that forwards: all of the fast path, or the part of it behind [`Check`].
    fn add_forward<T: Lookup4 + 'static>(
        &self,
        graph: &mut Graph,
        table: &Arc<T>,
        kind: Key<Kind>,
    ) -> Result<NodeId, GraphError> {
        let counters = self.counters.lend().map_err(|error| GraphError(vec![error.to_string()]))?;
        let received = if self.is_parted() { None } else { Some(self.lend_received()?) };
        let shared = Shared { lookups: self.lookups(table), counters, received };
        let (ports, policing) = (self.ports.len(), self.policing());
        let (stage, section): (Box<dyn Stage>, u8) = match self.is_parted() {
            false => (Box::new(Forward::<T>::new(shared, self.kernel, ports, policing, kind)), 0),
            true => (Box::new(Forward::<T, true>::new(shared, self.kernel, ports, policing, kind)), 1),
        };
        Ok(graph.add_at(self.stage("forward"), stage, Place::Worker { section }))
    }

    fn lend_received(&self) -> Result<Received, GraphError> {
        let counters = self.received.lend().map_err(|error| GraphError(vec![error.to_string()]))?;
        Ok(Received::new(counters))
    }

    fn lookups<T: Lookup4>(&self, table: &Arc<T>) -> Lookups<T> {
        Lookups { table: Arc::clone(table), fib: Arc::clone(&self.fib), seed: self.seed() }
    }

    fn policing(&self) -> Policing {
        Policing::new(self.config.punt_rate.packets_per_second())
    }

    /// Puts a stage before `first` that looks for packets which turn round.
    fn look_for_redirects<T: Lookup4 + 'static>(
        &self,
        graph: &mut Graph,
        table: &Arc<T>,
        kind: Key<Kind>,
        first: NodeId,
        control: NodeId,
    ) -> NodeId {
        let (table, fib) = (Arc::clone(table), Arc::clone(&self.fib));
        let hairpin = graph.add(self.stage("hairpin"), Hairpin::new(table, fib, self.seed(), kind));
        graph.wire(hairpin, "out", To::Stage(first));
        graph.wire(hairpin, "redirect", To::Stage(control));
        hairpin
    }

    fn stage(&self, stage: &str) -> String {
        format!("{}.{stage}", self.name)
    }

    fn slow_path(&self, kind: Key<Kind>) -> Box<dyn Stage> {
        let limits = &self.config.limits;
        let waiting = Waiting::new(limits.queue_per_neighbor as usize, limits.queue as usize);
        let fragments = Reassembly::new(limits.fragments as usize);
        Box::new(SlowPath::new(Arc::clone(&self.shared), waiting, fragments, kind, self.ports.len(), self.seed()))
    }

    fn seed(&self) -> u64 {
        u64::from(self.config.hash_seed)
    }
}

fn table_config(limits: &RouterLimits, kernel: Kernel) -> lpm4::Config {
    lpm4::Config {
        miss: Leads::NO_ROUTE.value(),
        // Own addresses and broadcasts come on top of the routes: three for each interface, of which there are few.
        max_routes: limits.routes as usize + FATES,
        max_groups: limits.long_prefix_networks,
        kernel,
    }
}

/// Room for prefixes that are no routes.
const FATES: usize = 65_536;

impl Instance for Running {
    fn graph(&self, _replica: usize) -> Result<Graph, GraphError> {
        match &self.reader {
            PrefixReader::Dir24(table) => self.graph_with(table),
            PrefixReader::Packed(table) => self.graph_with(table),
        }
    }

    fn prepare(&self, element: &Element, env: &Env<'_>) -> Result<Box<dyn FnOnce(u64) + Send>, Vec<ConfigError>> {
        let (_, wanted) = load(element, env)?;
        let shared = Arc::clone(&self.shared);
        Ok(Box::new(move |now| shared::become_wanted(&shared, wanted, now)))
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

    fn explain(&self, stage: &str, way: &str, packet: &[u8], then: u64) -> Option<String> {
        let (name, stage) = stage.rsplit_once('.')?;
        if name == self.name { explain::route(&lock(&self.shared), stage, way, packet, then) } else { None }
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        show::gauges(&self.shared)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
