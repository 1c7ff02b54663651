//! The network layer of a function, running; `described` is what its configuration comes to.

mod described;

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;
use weir_net::neighbor::Resolution;
use weir_net::nexthop::{Inlet, NextHop};
use weir_net::{RouteSource, VrfId};
use weir_packet::Key;
use weir_simd::Kernel;
use weir_stage::{
    FlowSource, FollowedNeighbor, Graph, GraphError, HostSide, InTurn, Instance, InterfaceSet, Notice, Others,
    RequestError, Saved, ShowRows, Stage,
};
use weir_table::lpm4::Lookup4;

use crate::acl::{self, Acls};
use crate::explain;
use crate::fast::check::{Check, Keys};
use crate::fast::forward::{Forward, Shared};
use crate::fast::hairpin::Hairpin;
use crate::fast::inlet::InletKeys;
use crate::fast::lookups::Lookups;
use crate::fast::punt::PuntReason;
use crate::fast::received::{Arrivals, Received};
use crate::fast::scope::Chosen;
use crate::fast::send::{Back, Send};
use crate::fast::untag::{Inward, Retag, Untag, Untagged};
use crate::flows::{self, Discern, Flows};
use crate::function_routes::RouteChange;
use crate::graph::Stages;
use crate::host::Side;
use crate::lines::{LineTally, Lost, Punt};
use crate::onward::Onward;
use crate::slow::{Room, SlowPath};
use crate::state::routing::Decision;
use crate::state::shared::{self, CHANGES, lock};
use crate::tables::fib::Fib;
use crate::tables::prefixes::{PrefixReader, Readers};
use crate::urpf::ReversePaths;
use crate::{Ingress, Interface, InterfaceId, Tags};
use crate::{request, save, show};
use weir_table::counters::Counters;

pub use described::Described;

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
    /// Of what leaves by interfaces on lines.
    line_counters: Arc<Counters>,
    kernel: Kernel,
    /// Whether Linux speaks for each VRF.
    hosts: Arc<[bool]>,
    pub(crate) shared: Arc<shared::Shared>,
    acls: Arc<Acls>,
    urpf: Arc<ReversePaths>,
    flows: Arc<Flows>,
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
    /// To the function, by this inlet, which is an interface.
    Inlet(InterfaceId),
    /// Into the function, as a route of its own says.
    Function(Inlet),
    /// By this interface to this neighbour, whose Ethernet address is known or not.
    Neighbor(InterfaceId, IpAddr, Resolution),
}

/// What a function that stands on the layer does with it beside.
impl Running {
    /// The routes of the VRFs in which the function sends, for one stage of it.
    ///
    /// # Errors
    ///
    /// No memory, or routes of IPv4 are not [`TableKind::Dir24`].
    pub fn onward(&self) -> Result<Onward, GraphError> {
        let no_table = || GraphError(vec!["there is no prefix table of the kind dir24".to_owned()]);
        let [four, six] = self.shape.vrfs.map(|vrf| self.readers.get(usize::from(vrf)));
        let (Some(Readers { four: PrefixReader::Dir24(four), .. }), Some(Readers { six, .. })) = (four, six) else {
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

    /// What counts packets of lines, for one stage of the function.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn line_tally(&self) -> Result<LineTally, GraphError> {
        let acquire = |all: &Counters| all.acquire().map_err(|error| GraphError(vec![error.to_string()]));
        Ok(LineTally {
            ingress: self.ingress(),
            received: acquire(&self.received)?,
            sent: acquire(&self.line_counters)?,
        })
    }

    /// Where packets of the function to an address go; its neighbour is asked for if it is not known. `hash` is that of their flow.
    pub fn reach(&self, now: u64, destination: IpAddr, hash: u32) -> Reach {
        self.reach_in(self.shape.vrfs[usize::from(destination.is_ipv6())], now, destination, hash)
    }

    /// As [`Running::reach`], in a VRF.
    pub fn reach_in(&self, vrf: VrfId, now: u64, destination: IpAddr, hash: u32) -> Reach {
        let mut control = lock(&self.shared);
        match control.routing.decide(vrf, destination, || hash) {
            Decision::Via(hop) if control.routing.is_inlet(hop.interface) => Reach::Inlet(hop.interface),
            Decision::Via(hop) => {
                let resolution = control.resolve(now, hop, destination);
                Reach::Neighbor(hop.interface, hop.neighbor(destination), resolution)
            }
            Decision::Into(inlet) => Reach::Function(inlet),
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

    /// Makes routes of the function lead into it, or takes them back: by number of the VRF, prefix, and where they lead. Others have their turn in
    /// between. Those that the tables have no room for follow as soon as there is some, and are told of in the meantime ([`Instance::lacks`]).
    pub fn set_routes(&self, changes: &[RouteChange]) {
        for piece in changes.chunks(CHANGES) {
            lock(&self.shared).set_function_routes(piece);
        }
    }

    /// What is told of sampled packets, of which the function knows more than the layer where it has them first ([`Instance::flow_source`]).
    pub fn flow_source_of(&self, function: Option<Arc<dyn Discern>>) -> Arc<dyn FlowSource> {
        Arc::new(flows::Source::new((&self.shared, &self.flows), function, self.shape.seed))
    }

    /// Whether routes of a VRF lead to an address by one that leads into the function.
    pub fn leads_into_function(&self, vrf: VrfId, address: IpAddr) -> bool {
        matches!(lock(&self.shared).routing.decide(vrf, address, || 0), Decision::Into(_))
    }

    /// The VRFs in which the function sends IPv4 and IPv6.
    pub fn vrfs(&self) -> [VrfId; 2] {
        self.shape.vrfs
    }

    /// The number of a VRF.
    pub fn vrf(&self, name: &str) -> Option<VrfId> {
        lock(&self.shared).vrf(name)
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

    /// Packets of lines that were dropped on the slow path since the last call.
    pub fn take_lost(&self) -> Vec<Lost> {
        lock(&self.shared).lines.take_lost()
    }

    /// The name of the interface with these tags on the port of this index.
    pub fn interface_with(&self, port: u16, tags: Tags) -> Option<String> {
        let control = lock(&self.shared);
        let found = control.interfaces.get(control.interfaces.ingress().lookup(port, tags));
        found.map(|found| found.name().to_owned())
    }

    /// The interfaces on ports that were added at run time: names, indices of their ports, and tags.
    pub fn added_interfaces(&self) -> Vec<(String, u16, Tags)> {
        let control = lock(&self.shared);
        let added = |one: &&Interface| control.ledger.source(one.id) == RouteSource::Cli;
        let index = |one: &Interface| Some(control.interfaces.ports().get(usize::from(one.wanted.port?))?.index);
        let all = control.interfaces.iter().filter(added);
        all.filter_map(|one| Some((one.name().to_owned(), index(one)?, one.tags()))).collect()
    }

    /// The number of an interface, by its name.
    pub fn interface(&self, name: &str) -> Option<InterfaceId> {
        lock(&self.shared).interfaces.find(name).map(|found| found.id)
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
    pub(crate) fn hairpin(&self, kind: Key<PuntReason>, chosen: Option<Key<Chosen>>) -> Box<dyn Stage> {
        let tables = (Arc::clone(&self.readers), Arc::clone(&self.fib));
        Box::new(Hairpin::new(tables, self.shape.seed, (kind, chosen)))
    }

    /// A stage that judges packets by access lists.
    pub(crate) fn judge(&self, side: acl::Side, chosen: Option<Key<Chosen>>) -> Result<Box<dyn Stage>, GraphError> {
        let stage = self.acls.stage((side, chosen), &self.readers, &self.fib);
        Ok(Box::new(stage.map_err(|error| GraphError(vec![error.to_string()]))?))
    }

    /// The stage that looks up sources.
    pub(crate) fn urpf(&self) -> Box<dyn Stage> {
        Box::new(self.urpf.stage(Arc::clone(&self.readers), Arc::clone(&self.fib)))
    }

    /// A stage that takes samples of what comes in, by ports that `have_lines` or not.
    pub(crate) fn sampler(&self, have_lines: bool) -> Result<Box<dyn Stage>, GraphError> {
        let stage = self.flows.stage(&self.fib, have_lines);
        Ok(Box::new(stage.map_err(|error| GraphError(vec![error.to_string()]))?))
    }

    /// Lets workers see the access lists of the interfaces that there are, what is asked of sources there, and what is sampled.
    fn publish_guards(&self) {
        let control = lock(&self.shared);
        self.acls.publish(&control.interfaces, &control.vrfs);
        self.urpf.publish(&control.interfaces, &control.vrfs);
        self.flows.publish(&control.interfaces);
    }

    /// The stage that hands to the slow path what the function made.
    pub(crate) fn sender(&self, kind: Key<PuntReason>, is_behind: bool) -> Box<dyn Stage> {
        Box::new(Send::new(kind, self.shape.policer(), (self.shape.vrfs, is_behind)))
    }

    /// The stage that gives back to the slow path what the function made of what came from there.
    pub(crate) fn back(&self, kind: Key<PuntReason>) -> Box<dyn Stage> {
        Box::new(Back::new(kind, self.shape.vrfs))
    }

    fn lookups<T: Lookup4>(&self, table: &Arc<T>) -> Lookups<T> {
        let (readers, fib) = (Arc::clone(&self.readers), Arc::clone(&self.fib));
        let hosts = Arc::clone(&self.hosts);
        Lookups { table: Arc::clone(table), readers, fib, seed: self.shape.seed, hosts }
    }

    /// The stage of the control side.
    pub(crate) fn slow_path(&self, kind: Key<Punt>, inlet: Option<InletKeys>) -> Box<dyn Stage> {
        let limits = &self.shape.limits;
        let room = Room {
            per_neighbor: limits.queue_per_neighbor as usize,
            waiting: limits.queue as usize,
            fragments: limits.fragments as usize,
        };
        let (shared, ports) = (Arc::clone(&self.shared), self.shape.ports.len());
        Box::new(SlowPath::new(shared, &room, (kind, inlet), ports, self.shape.seed))
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
        let done = match verb {
            "acl add" | "acl del" | "prefix-set add" | "prefix-set del" => {
                acl::carry_out(&self.acls, verb, arguments, now)
            }
            _ => request::carry_out(&self.shared, verb, arguments, now),
        };
        if verb.starts_with("interface ") {
            // Who is told that an interface is there may send by it at once.
            lock(&self.shared).catch_up(CHANGES);
        }
        if ["acl ", "prefix-set ", "interface "].iter().any(|noun| verb.starts_with(noun)) {
            self.publish_guards();
        }
        done
    }

    fn show(&self, what: &str, filter: Option<&str>, now: u64) -> Result<Box<dyn ShowRows>, RequestError> {
        match what {
            "acls" | "acl-log" | "prefix-sets" => acl::rows(&self.acls, what, filter),
            "collectors" => flows::rows(&self.flows, what, filter),
            _ => show::rows(&self.shared, what, filter, now),
        }
    }

    fn save(&self) -> Box<dyn ShowRows<Saved>> {
        Box::new(InTurn::new([save::save(&self.shared), acl::save(&self.acls)]))
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

    fn has_added_on(&self, port: u16) -> bool {
        lock(&self.shared).has_added_on(port)
    }

    fn share_with(&self, others: Others, now: u64) {
        lock(&self.shared).share_with(others, now);
    }

    fn publish_neighbors(&self, followed: Vec<Arc<FollowedNeighbor>>) {
        lock(&self.shared).set_followed(followed);
    }

    fn host_side(&self, vrf: &str) -> Option<Arc<dyn HostSide>> {
        Some(Arc::new(Side::of(&self.shared, vrf)?))
    }

    fn flow_source(&self) -> Option<Arc<dyn FlowSource>> {
        Some(self.flow_source_of(None))
    }

    fn explain(&self, stage: &str, way: &str, packet: &[u8], then: u64) -> Option<String> {
        let stage = stage.strip_prefix(&self.shape.name)?;
        explain::route(&lock(&self.shared), stage, way, packet, then)
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        let mut all = show::gauges(&self.shared);
        if self.shape.guards.samples {
            all.extend(flows::gauges(&self.flows));
        }
        all
    }
}
