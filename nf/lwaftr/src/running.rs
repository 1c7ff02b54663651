//! A relay that is built: its graph, its tables, what it is asked.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use weir_ip::InTurn;
use weir_stage::{
    Graph, GraphError, Instance, InterfaceSet, Notice, Others, Place, RequestError, Saved, ShowRows, Stage, To,
};

use crate::config::LwaftrConfig;
use crate::gateways::{self, Gateways};
use crate::registry::Registry;
use crate::relay::{self, Parts, Relay};
use crate::rules::Rules;
use crate::save::Added;
use crate::state::lock;
use crate::table::{Counters, Softwires};
use crate::tally::Tallies;
use crate::{request, show};

/// What the graph of a relay is drawn from.
pub(crate) struct Shape {
    pub(crate) name: String,
    /// Indices of its ports, by position.
    pub(crate) ports: Vec<u16>,
    /// The stages of the network layer.
    pub(crate) layer: weir_ip::Stages,
}

impl Shape {
    /// The graph of a relay that runs, or one to be looked at.
    pub(crate) fn draw(&self, running: Option<&Running>) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let below = self.layer.add_below(&mut graph, running.map(|running| &running.layer))?;
        let (declared, place) = (relay::declaration(self.ports.len()), Place::Worker { section: 0 });
        let name = format!("{}.relay", self.name);
        let relay = graph.add_of(name, declared, place, running, Running::relay)?;
        let make = |running: &Running| Ok(running.gateways());
        let name = format!("{}.gateways", self.name);
        let gateways = graph.add_of(name, gateways::declaration(), Place::Control, running, make)?;
        graph.leave_open(gateways, "out"); // it has no packets
        graph.wire(relay, "out", To::Stage(below.forward));
        graph.wire(relay, "send", To::Stage(below.send));
        for (position, &port) in self.ports.iter().enumerate() {
            graph.wire(relay, &format!("port[{position}]"), To::Port(port));
            graph.receive(port, relay);
        }
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
}

impl Running {
    fn gateways(&self) -> Box<dyn Stage> {
        Box::new(Gateways::new(&self.layer, &self.config))
    }

    fn relay(&self) -> Result<Box<dyn Stage>, GraphError> {
        Ok(Box::new(Relay::new(self.parts()?)))
    }

    /// What one more stage is made of.
    pub(crate) fn parts(&self) -> Result<Parts, GraphError> {
        let counters = self.counters.acquire().map_err(|error| GraphError(vec![error.to_string()]))?;
        Ok(Parts {
            softwires: Arc::clone(&self.table),
            counters,
            tally: self.tallies.acquire(),
            rules: Arc::clone(&self.rules),
            onward: self.layer.onward()?,
            ingress: self.layer.ingress(),
            arrivals: self.layer.arrivals()?,
            ports: self.shape.ports.len(),
        })
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
        match request::VERBS.iter().any(|own| own.name() == verb) {
            true => request::carry_out(&self.shared, verb, arguments, now),
            false => self.layer.request(verb, arguments, now),
        }
    }

    fn save(&self) -> Box<dyn ShowRows<Saved>> {
        Box::new(InTurn::new([self.layer.save(), Box::new(Added::new(&self.shared))]))
    }

    fn show(&self, what: &str, filter: Option<&str>, now: u64) -> Result<Box<dyn ShowRows>, RequestError> {
        match show::SHOWS.iter().any(|own| own.what == what) {
            true => show::rows(&self.shared, &self.tallies, what, filter),
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

    fn explain(&self, stage: &str, way: &str, packet: &[u8], then: u64) -> Option<String> {
        self.layer.explain(stage, way, packet, then)
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        let own = show::gauges(&lock(&self.shared));
        own.into_iter().chain(self.layer.gauges()).collect()
    }
}
