//! Tunnels that are built: their graph, and what they are asked.

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use weir_config::PortName;
use weir_stage::{
    FollowedNeighbor, Graph, GraphError, HostSide, Instance, InterfaceSet, Notice, Others, Place, RequestError, Saved,
    Show, ShowRows, Stage, To, whole,
};

use crate::config::{TunnelConfig, VxlanConfig};
use crate::decap::{self, Decap};
use crate::encap::{self, Encap};
use crate::tunnels::Tunnels;

/// What can be shown.
pub(crate) static SHOWS: &[Show] = &[Show {
    what: "vxlans",
    columns: &["port", "vni", "source", "remote"],
    help: "VXLAN tunnels, by the ports whose frames they carry (`weir show ports` counts those). Filter: a port, a VNI, or the address of an end",
}];

/// What the graph is drawn from.
pub(crate) struct Shape {
    pub(crate) name: String,
    /// Indices of the ports that lead to the other ends, by position.
    pub(crate) ports: Vec<u16>,
    /// Indices of the ports whose frames tunnels carry, by position.
    pub(crate) ends: Vec<u16>,
    /// The stages of the network layer.
    pub(crate) layer: weir_ip::Stages,
}

impl Shape {
    /// The graph of tunnels that run, or one to be looked at.
    pub(crate) fn draw(&self, running: Option<&Running>) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let worker = Place::Worker { section: 0 };
        let below = self.layer.add_below(&mut graph, running.map(|running| &running.layer))?;
        let declared = decap::declaration(self.ends.len());
        let decap = graph.add_of(format!("{}.decap", self.name), declared, worker, running, Running::decap)?;
        let declared = encap::declaration(self.ports.len());
        let encap = graph.add_of(format!("{}.encap", self.name), declared, worker, running, Running::encap)?;
        graph.wire(decap, "out", To::Stage(below.first));
        graph.wire(encap, "send", To::Stage(below.send));
        for (stage, out, receives) in [(decap, &self.ends, &self.ports), (encap, &self.ports, &self.ends)] {
            for (position, &port) in out.iter().enumerate() {
                graph.wire(stage, &format!("port[{position}]"), To::Port(port));
            }
            receives.iter().for_each(|&port| graph.receive(port, stage));
        }
        Ok(graph)
    }
}

/// Configured tunnels.
pub struct Running {
    pub(crate) shape: Shape,
    pub(crate) config: Arc<VxlanConfig>,
    pub(crate) layer: weir_ip::Running,
    pub(crate) tunnels: Arc<Tunnels>,
}

impl Running {
    fn decap(&self) -> Result<Box<dyn Stage>, GraphError> {
        let (tunnels, count) = (Arc::clone(&self.tunnels), self.shape.ends.len());
        Ok(Box::new(Decap { tunnels, ingress: self.layer.ingress(), arrivals: self.layer.arrivals()?, count }))
    }

    fn encap(&self) -> Result<Box<dyn Stage>, GraphError> {
        let (tunnels, ports) = (Arc::clone(&self.tunnels), self.shape.ports.len());
        Ok(Box::new(Encap { tunnels, onward: self.layer.onward()?, seed: self.config.hash_seed.into(), ports }))
    }

    fn rows(&self, filter: Option<&str>) -> Result<Box<dyn ShowRows>, RequestError> {
        let selects = |port: &PortName, tunnel: &TunnelConfig| {
            filter.is_none_or(|word| {
                let ends = [tunnel.source, tunnel.remote];
                let is_end = word.parse::<IpAddr>().is_ok_and(|end| ends.contains(&end));
                is_end || port.as_str() == word || word.parse() == Ok(tunnel.vni)
            })
        };
        let chosen = self.config.tunnels.iter().filter(|(port, tunnel)| selects(port, tunnel));
        let row = |(port, one): (&PortName, &TunnelConfig)| json!({ "port": port.as_str(), "vni": one.vni, "source": one.source, "remote": one.remote });
        let rows: Vec<Value> = chosen.map(row).collect();
        // Nothing has such a number or address at present; a name is that of a port or a mistake.
        let may_be = |word: &str| word.parse::<IpAddr>().is_ok() || word.parse().is_ok_and(|vni: u32| vni >> 24 == 0);
        match filter.filter(|word| rows.is_empty() && !may_be(word)) {
            Some(word) => {
                let ports: Vec<&str> = self.config.tunnels.keys().map(PortName::as_str).collect();
                let remedy = format!("write one of {}, a VNI, or the address of an end", ports.join(", "));
                Err(RequestError(format!("\"{word}\" selects no tunnels; {remedy}")))
            }
            None => Ok(whole(rows)),
        }
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
        self.layer.request(verb, arguments, now)
    }

    fn save(&self) -> Box<dyn ShowRows<Saved>> {
        self.layer.save()
    }

    fn show(&self, what: &str, filter: Option<&str>, now: u64) -> Result<Box<dyn ShowRows>, RequestError> {
        if SHOWS.iter().any(|own| own.what == what) { self.rows(filter) } else { self.layer.show(what, filter, now) }
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

    fn explain(&self, stage: &str, way: &str, packet: &[u8], then: u64) -> Option<String> {
        self.layer.explain(stage, way, packet, then)
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        self.layer.gauges()
    }
}
