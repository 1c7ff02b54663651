//! A relay that is built: its graph, its tables, what it is asked.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use weir_ip::FunctionRoutes;
use weir_stage::{
    FlowSource, FollowedNeighbor, Graph, GraphError, HostSide, InTurn, Instance, InterfaceSet, Notice, Others, Place,
    RequestError, Saved, ShowRows, Stage, To,
};

use crate::config::LwaftrConfig;
use crate::flows::Told;
use crate::gateways::{self, Gateways};
use crate::owned;
use crate::registry::Registry;
use crate::relay::{self, Parts, Relay, Stand};
use crate::rules::Rules;
use crate::spread::{Spreader, Whose};
use crate::state::lock;
use crate::table::{Counters, Softwires, WorkerCounters};
use crate::tally::{Tallies, Tally};
use crate::{request, show};

/// What the graph of a relay is drawn from.
pub(crate) struct Shape {
    pub(crate) name: String,
    /// Indices of its ports, by position.
    pub(crate) ports: Vec<u16>,
    /// The stages of the network layer.
    pub(crate) layer: weir_ip::Stages,
    /// Whether there is no fast path.
    pub(crate) by_the_letter: bool,
}

impl Shape {
    /// The graph of a relay that runs, or one to be looked at.
    pub(crate) fn draw(&self, running: Option<&Running>) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let below = self.layer.add_below(&mut graph, running.map(|running| &running.layer))?;
        let (worker, ports) = (Place::Worker { section: 0 }, self.ports.len());
        // Both stand on one worker, and count together.
        let counting = running.map(Running::counting).transpose()?;
        let made = |stand: Stand, counting: Option<Counting>, running: &Running| running.relay(stand, counting);
        let first = |running: &Running| made(running.first()?, counting.clone(), running);
        let declared = relay::declaration(ports, None);
        let relay = graph.add_of(format!("{}.relay", self.name), declared, worker, running, first)?;
        let mut stages = vec![(relay, "send", To::Stage(below.send))];
        if let Some(inlets) = below.inlets {
            let led = |running: &Running| made(Stand::Inlet(inlets.workers), counting.clone(), running);
            let declared = relay::declaration(ports, Some(inlets.workers));
            let inlet = graph.add_of(format!("{}.inlet", self.name), declared, worker, running, led)?;
            graph.wire(below.forward, "function", To::Stage(inlet));
            let slow = |running: &Running| made(Stand::Inlet(inlets.control), None, running);
            let declared = relay::declaration(ports, Some(inlets.control));
            let name = format!("{}.inlet-slow", self.name);
            let inlet_slow = graph.add_of(name, declared, Place::Control, running, slow)?;
            graph.wire(below.control, "function", To::Stage(inlet_slow));
            // All that is led there is the relay's.
            [inlet, inlet_slow].into_iter().for_each(|inlet| graph.leave_open(inlet, "out"));
            let back = self.layer.add_back(&mut graph, running.map(|running| &running.layer), below)?;
            stages.extend([(inlet, "send", To::Stage(below.send_led)), (inlet_slow, "send", To::Stage(back))]);
        }
        let make = |running: &Running| Ok(running.gateways());
        let name = format!("{}.gateways", self.name);
        let gateways = graph.add_of(name, gateways::declaration(), Place::Control, running, make)?;
        graph.leave_open(gateways, "out"); // it has no packets
        graph.wire(relay, "out", To::Stage(below.first));
        for (stage, way, to) in stages {
            graph.wire(stage, way, to);
            for (position, &port) in self.ports.iter().enumerate() {
                graph.wire(stage, &format!("port[{position}]"), To::Port(port));
            }
        }
        let first = self.layer.add_sampler(&mut graph, worker, running.map(|running| &running.layer), relay)?;
        self.ports.iter().for_each(|&port| graph.receive(port, first));
        Ok(graph)
    }
}

/// A configured relay.
pub struct Running {
    pub(crate) shape: Shape,
    /// The configuration that it was built of.
    pub(crate) config: Arc<LwaftrConfig>,
    pub(crate) layer: weir_ip::Running,
    pub(crate) table: Arc<Softwires>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) tallies: Arc<Tallies>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) shared: Arc<Mutex<Registry>>,
    /// What of it routes lead to.
    pub(crate) owned: Arc<Mutex<FunctionRoutes>>,
}

impl Running {
    fn gateways(&self) -> Box<dyn Stage> {
        Box::new(Gateways::new(&self.layer, &self.config))
    }

    /// What one more worker counts by.
    fn counting(&self) -> Result<Counting, GraphError> {
        let counters = self.counters.acquire().map_err(|error| GraphError(vec![error.to_string()]))?;
        Ok(Counting { counters, tally: self.tallies.acquire() })
    }

    /// Where the first stage stands.
    pub(crate) fn first(&self) -> Result<Stand, GraphError> {
        Ok(Stand::First(self.layer.ingress(), self.layer.arrivals()?))
    }

    fn relay(&self, stand: Stand, counting: Option<Counting>) -> Result<Box<dyn Stage>, GraphError> {
        Ok(Box::new(Relay::new(self.parts(stand, counting)?)))
    }

    /// What one more stage is made of, which counts together with others of its worker or by itself.
    pub(crate) fn parts(&self, stand: Stand, counting: Option<Counting>) -> Result<Parts, GraphError> {
        let Counting { counters, tally } = counting.map_or_else(|| self.counting(), Ok)?;
        Ok(Parts {
            softwires: Arc::clone(&self.table),
            counters,
            tally,
            rules: Arc::clone(&self.rules),
            onward: self.layer.onward()?,
            stand,
            ports: self.shape.ports.len(),
            by_the_letter: self.shape.by_the_letter,
        })
    }

    /// Lets routes follow the binding table.
    pub(crate) fn settle_routes(&self) {
        owned::settle(&mut lock(&self.shared), &self.owned, &self.layer);
    }
}

/// What a worker counts by.
#[derive(Clone)]
pub(crate) struct Counting {
    counters: Arc<WorkerCounters>,
    tally: Arc<Tally>,
}

impl Instance for Running {
    fn graph(&self, _replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(Some(self))
    }

    fn sketch(&self, _replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(None)
    }

    fn spreader(&self, replicas: u8) -> Option<Box<dyn Stage>> {
        let (softwires, rules) = (Arc::clone(&self.table), Arc::clone(&self.rules));
        let whose = Whose::new(softwires, rules, self.layer.ingress(), replicas);
        Some(Box::new(Spreader::new(whose, self.tallies.acquire())))
    }

    fn request(&self, verb: &str, arguments: &Value, now: u64) -> Result<Value, RequestError> {
        match request::VERBS.iter().any(|own| own.name() == verb) {
            true => {
                let done = request::carry_out(&self.shared, verb, arguments, now);
                self.settle_routes();
                done
            }
            false => self.layer.request(verb, arguments, now),
        }
    }

    fn save(&self) -> Box<dyn ShowRows<Saved>> {
        Box::new(InTurn::new([self.layer.save(), request::saved(&self.shared)]))
    }

    fn show(&self, what: &str, filter: Option<&str>, now: u64) -> Result<Box<dyn ShowRows>, RequestError> {
        match show::SHOWS.iter().any(|own| own.what == what) {
            true => show::rows(&self.shared, &self.tallies, (what, filter), now),
            false => self.layer.show(what, filter, now),
        }
    }

    fn notices(&self, now: u64) -> Vec<Notice> {
        self.layer.notices(now)
    }

    fn lacks(&self) -> Vec<String> {
        self.layer.lacks()
    }

    fn link_changed(&self, port: u16, up: bool, now: u64) {
        self.layer.link_changed(port, up, now);
    }

    fn interfaces(&self) -> Option<Arc<dyn InterfaceSet>> {
        self.layer.interfaces()
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
        let (softwires, rules) = (Arc::clone(&self.table), Arc::clone(&self.rules));
        Some(self.layer.flow_source_of(Some(Arc::new(Told { softwires, rules, layer: self.layer.clone() }))))
    }

    fn explain(&self, stage: &str, way: &str, packet: &[u8], then: u64) -> Option<String> {
        self.layer.explain(stage, way, packet, then)
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        let own = show::gauges(&lock(&self.shared));
        own.into_iter().chain(self.layer.gauges()).collect()
    }
}
