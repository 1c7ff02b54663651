//! A gateway that is built: its tables, its stages, what it is asked.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use weir_config::PacketRate;
use weir_ip::{LineTally, Punt, PuntReason, Untagged};
use weir_packet::Key;
use weir_sched::limit::Limit;
use weir_simd::Kernel;
use weir_stage::ownership::Own;
use weir_stage::ownership::balance::MakeBalancer;
use weir_stage::{
    FlowSource, FollowedNeighbor, Graph, GraphError, HostSide, InTurn, Instance, InterfaceSet, Notice, Others,
    RequestError, Saved, ShowRows, Stage,
};

use crate::across::{Across, ReachOf};
use crate::balance::{BalanceDown, BalanceUp};
use crate::config::{BngConfig, CoreEncapsulation};
use crate::control::{Room, SlowPath};
use crate::core::{Core, Tunnels};
use crate::downstream::{self, Down};
use crate::flows::Told;
use crate::graph::Shape;
use crate::identification::{Identifications, Sequence};
use crate::identify::Identify;
use crate::lines::Lines;
use crate::marking::Marking;
use crate::notice::Notices;
use crate::punt::{Policer, Rates};
use crate::qos::{self, Direction, Schedulers};
use crate::save::Added;
use crate::shared_ports::Tagged;
use crate::six::{self, Six};
use crate::state::{Control, lock};
use crate::table::Subscribers;
use crate::table::counters::{Counters, WorkerCounters};
use crate::upstream::{self, Up};
use crate::{request, show};

/// A configured gateway.
#[derive(Clone)]
pub struct Running {
    pub(crate) shape: Shape,
    /// The network layer, of both sides.
    pub(crate) layer: weir_ip::Running,
    pub(crate) tunnels: Arc<Tunnels>,
    pub(crate) subscribers: Arc<Subscribers>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) kernel: Kernel,
    /// Own addresses of IPv6 towards customers, sorted.
    pub(crate) own6: Vec<u128>,
    pub(crate) local: u32,
    /// Identifications of all workers' outer packets.
    pub(crate) sequence: Sequence,
    /// What shapes, polices and remarks subscribers, if anything does.
    pub(crate) schedulers: Option<Arc<Schedulers>>,
    pub(crate) shared: Arc<Mutex<Control>>,
    pub(crate) notices: Arc<Mutex<Notices>>,
    /// When it was built, in nanoseconds since the engine started.
    pub(crate) now: u64,
}

/// What the stages of one owner are made of.
pub(crate) struct Owned<'a> {
    pub(crate) running: &'a Running,
    /// What they count by; no other worker writes it.
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) tally: Arc<LineTally>,
    pub(crate) core: Core,
    pub(crate) reach: ReachOf,
}

impl Owned<'_> {
    fn policer(&self, punted: &[PuntReason]) -> Result<Policer, GraphError> {
        Policer::new(punted, self.running.rates()).map_err(no_memory)
    }

    fn identifications(&self) -> Identifications {
        Identifications::new(&self.running.sequence, !self.running.shape.config.tunnel.df)
    }

    /// The stage for packets from customers.
    pub(crate) fn up(&self, kind: Key<PuntReason>) -> Result<Box<dyn Stage>, GraphError> {
        let (shared, kernel) = (self.running.up_shared(self), self.running.kernel);
        let (policer, identifications) = (self.policer(upstream::PUNTED)?, self.identifications());
        Ok(match self.running.shape.is_tunnel() {
            true => Box::new(Up::<true>::new(shared, kernel, policer, kind, identifications)),
            false => Box::new(Up::<false>::new(shared, kernel, policer, kind, identifications)),
        })
    }

    /// The stage for packets to customers.
    pub(crate) fn down(
        &self,
        kind: Key<PuntReason>,
        untagged: Option<Key<Untagged>>,
    ) -> Result<Box<dyn Stage>, GraphError> {
        let (shared, kernel) = (self.running.down_shared(self), self.running.kernel);
        let inward = untagged.map(|key| self.running.layer.inward(key)).transpose()?;
        let policer = self.policer(downstream::PUNTED)?;
        Ok(match self.running.shape.is_tunnel() {
            true => Box::new(Down::<true>::new(shared, kernel, policer, kind, inward)),
            false => Box::new(Down::<false>::new(shared, kernel, policer, kind, inward)),
        })
    }

    /// A stage for IPv6.
    pub(crate) fn six(&self, kind: Key<PuntReason>) -> Result<Box<dyn Stage>, GraphError> {
        let shared = self.running.six(self);
        Ok(Box::new(Six::new(shared, self.policer(six::PUNTED)?, kind, self.identifications())))
    }
}

impl Running {
    /// What the stages of one more owner are made of.
    pub(crate) fn owned(&self, owner: u8) -> Result<Owned<'_>, GraphError> {
        let counters = self.counters.acquire().map_err(no_memory)?;
        let is_divided = self.shape.arrangement.is_balanced() && qos::meters(&self.shape.config.qos, Direction::Down);
        let reach = if is_divided { ReachOf::Own(owner) } else { ReachOf::All };
        let tally = Arc::new(self.layer.line_tally()?);
        Ok(Owned { running: self, counters, tally, core: self.core()?, reach })
    }

    /// Where packets to the core go, for the stages of one owner or the slow path.
    pub(crate) fn core(&self) -> Result<Core, GraphError> {
        core_of(&self.layer, &self.tunnels, &self.shape)
    }

    /// A balancer of packets from customers.
    pub(crate) fn balance_up(&self, make: MakeBalancer) -> Box<dyn Stage> {
        let (subscribers, Shape { ports, config, .. }) = (Arc::clone(&self.subscribers), &self.shape);
        make.of(BalanceUp::new(subscribers, Arc::clone(ports), config.tpid.ethertype()))
    }

    /// A balancer of packets to customers.
    pub(crate) fn balance_down(&self, make: MakeBalancer) -> Box<dyn Stage> {
        let has_keys = self.shape.config.core_encapsulation == CoreEncapsulation::GreMpls;
        make.of(BalanceDown::new(Arc::clone(&self.subscribers), has_keys))
    }

    fn schedulers(&self) -> Result<&Schedulers, GraphError> {
        self.schedulers.as_deref().ok_or_else(|| GraphError(vec!["nothing is shaped, policed or remarked".to_owned()]))
    }

    /// Lets as many packets pass as a rate allows one of so many owners.
    pub(crate) fn limit(&self, rate: PacketRate, owners: usize) -> Result<Box<dyn Stage>, GraphError> {
        let limit = Limit::new(rate.packets_per_second().div_ceil(owners.max(1) as u64), self.now);
        Ok(Box::new(limit.ok_or_else(|| GraphError(vec!["qos.limit: a rate of 0 lets nothing pass".to_owned()]))?))
    }

    /// Polices the subscribers of an owner.
    pub(crate) fn police(&self, direction: Direction, owner: u8, user: Key<u32>) -> Result<Box<dyn Stage>, GraphError> {
        let stage = self.schedulers()?.police(direction, owner, user);
        stage.ok_or_else(|| GraphError(vec![format!("worker {owner} has no subscribers")]))
    }

    /// Remarks packets.
    pub(crate) fn remark(&self, direction: Direction) -> Result<Box<dyn Stage>, GraphError> {
        Ok(self.schedulers()?.remark(direction))
    }

    /// A scheduler of an access port.
    pub(crate) fn shaper(
        &self,
        direction: Direction,
        position: u8,
        scheduler: u8,
        user: Key<u32>,
    ) -> Result<Box<dyn Stage>, GraphError> {
        let stage = self.schedulers()?.stage(direction, position, scheduler, user);
        stage.ok_or_else(|| GraphError(vec![format!("nothing is shaped that goes {}", direction.name())]))
    }

    /// Finds users and classes.
    pub(crate) fn identify(&self, position: u8, own: Own, user: Key<u32>) -> Result<Box<dyn Stage>, GraphError> {
        let classifier = Arc::clone(self.schedulers()?.classifier());
        Ok(Box::new(Identify::new(Arc::clone(&self.subscribers), classifier, user, own, position)))
    }

    fn six(&self, owned: &Owned<'_>) -> six::Shared {
        six::Shared {
            subscribers: Arc::clone(&self.subscribers),
            core: owned.core.clone(),
            ports: Arc::clone(&self.shape.ports),
            counters: Arc::clone(&owned.counters),
            tally: Arc::clone(&owned.tally),
            marking: self.marking(),
            reach: owned.reach,
        }
    }

    fn up_shared(&self, owned: &Owned<'_>) -> upstream::Shared {
        upstream::Shared {
            subscribers: Arc::clone(&self.subscribers),
            core: owned.core.clone(),
            ports: Arc::clone(&self.shape.ports),
            counters: Arc::clone(&owned.counters),
            tally: Arc::clone(&owned.tally),
            across: Across { down: self.down_shared(owned), reach: owned.reach },
            tpid: self.shape.config.tpid.ethertype(),
        }
    }

    fn down_shared(&self, owned: &Owned<'_>) -> downstream::Shared {
        downstream::Shared {
            subscribers: Arc::clone(&self.subscribers),
            ports: Arc::clone(&self.shape.ports),
            counters: Arc::clone(&owned.counters),
            tally: Arc::clone(&owned.tally),
            marking: self.marking(),
            local: self.local,
            core: owned.core.clone(),
            own6: self.own6.clone(),
        }
    }

    fn marking(&self) -> Marking {
        let BngConfig { pcp, dscp, .. } = &*self.shape.config;
        Marking::new(|old| dscp.get(&old).copied().unwrap_or(old), |dscp| pcp.get(&dscp).copied().unwrap_or(0))
    }

    /// The stage of the control side.
    pub(crate) fn slow_path(&self, kind: Key<Punt>) -> Result<Box<dyn Stage>, GraphError> {
        let counters = self.counters.acquire().map_err(no_memory)?;
        let limits = &self.shape.config.limits;
        let room = Room { queue: limits.queue as usize, fragments: limits.fragments as usize };
        let counters = (counters, self.layer.line_tally()?);
        Ok(Box::new(SlowPath::new(Arc::clone(&self.shared), counters, kind, self.shape.ports.list().len(), room)))
    }

    /// The stage at the end of the slow path.
    pub(crate) fn lines(&self, kind: Key<Punt>) -> Result<Box<dyn Stage>, GraphError> {
        let counters = self.counters.acquire().map_err(no_memory)?;
        let local = if self.shape.is_tunnel() { Some(self.local) } else { None };
        let counters = (counters, self.layer.line_tally()?);
        Ok(Box::new(Lines::new(Arc::clone(&self.shared), counters, kind, self.shape.ports.list().len(), local)))
    }

    fn rates(&self) -> Rates {
        Rates {
            all: self.shape.config.punt_rate.packets_per_second(),
            each: self.shape.config.subscriber_punt_rate.packets_per_second(),
            subscribers: self.shape.config.limits.subscribers,
        }
    }
}

/// Where packets to the core go by the routes of a layer, for one stage.
pub(crate) fn core_of(layer: &weir_ip::Running, tunnels: &Arc<Tunnels>, shape: &Shape) -> Result<Core, GraphError> {
    Ok(Core { onward: layer.onward()?, tunnels: Arc::clone(tunnels), is_tunnel: shape.is_tunnel() })
}

fn no_memory(error: weir_mem::arena::Error) -> GraphError {
    GraphError(vec![error.to_string()])
}

impl Instance for Running {
    fn graph(&self, _replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(Some(self))
    }

    fn sketch(&self, _replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(None)
    }

    fn request(&self, verb: &str, arguments: &Value, now: u64) -> Result<Value, RequestError> {
        match request::VERBS.iter().any(|own| own.name() == verb) {
            true => {
                let done = request::carry_out(&self.shared, verb, arguments, now);
                lock(&self.shared).settle_routes();
                done
            }
            false => {
                if verb == "interface add" {
                    lock(&self.shared).object_to(arguments)?;
                }
                self.layer.request(verb, arguments, now)
            }
        }
    }

    fn save(&self) -> Box<dyn ShowRows<Saved>> {
        Box::new(InTurn::new([self.layer.save(), Box::new(Added::new(&self.shared))]))
    }

    fn show(&self, what: &str, filter: Option<&str>, now: u64) -> Result<Box<dyn ShowRows>, RequestError> {
        match show::SHOWS.iter().any(|own| own.what == what) {
            true => show::rows(&self.shared, what, filter, now),
            false => self.layer.show(what, filter, now),
        }
    }

    fn notices(&self, now: u64) -> Vec<Notice> {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        // The slow path is not held up to find that it is not time yet.
        let own = if notices.is_due(now) { notices.look(now, &lock(&self.shared)) } else { Vec::new() };
        own.into_iter().chain(self.layer.notices(now)).collect()
    }

    fn lacks(&self) -> Vec<String> {
        self.layer.lacks()
    }

    fn link_changed(&self, port: u16, up: bool, now: u64) {
        self.layer.link_changed(port, up, now);
        // At once: nothing is told that the link is up before packets may go there.
        let mut control = lock(&self.shared);
        control.follow_links();
        control.next_look = 0;
    }

    fn interfaces(&self) -> Option<Arc<dyn InterfaceSet>> {
        let (layer, subscribers, ports) =
            (self.layer.ingress(), Arc::clone(&self.subscribers), Arc::clone(&self.shape.ports));
        Some(Arc::new(Tagged { layer, subscribers, ports, tpid: self.shape.config.tpid.ethertype() }))
    }

    fn share_with(&self, others: Others, now: u64) {
        self.layer.share_with(others, now);
    }

    fn publish_neighbors(&self, followed: Vec<Arc<FollowedNeighbor>>) {
        self.layer.publish_neighbors(followed);
    }

    fn host_side(&self, vrf: &str) -> Option<Arc<dyn HostSide>> {
        self.layer.host_side(vrf)
    }

    fn flow_source(&self) -> Option<Arc<dyn FlowSource>> {
        let told = Told { shared: Arc::clone(&self.shared), local: self.local };
        Some(self.layer.flow_source_of(Some(Arc::new(told))))
    }

    fn explain(&self, stage: &str, way: &str, packet: &[u8], then: u64) -> Option<String> {
        self.layer.explain(stage, way, packet, then)
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        let own = show::gauges(&lock(&self.shared));
        own.into_iter().chain(self.layer.gauges()).collect()
    }
}
