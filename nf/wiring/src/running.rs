//! A configured `wiring`: its graph, its table, and the exchange of what its stages refer to.

use std::sync::Arc;

use serde_json::{Value, json};
use weir_config::{ConfigError, Element, Errors};
use weir_stage::{
    DescribeStage, Description, Env, FollowedNeighbor, Graph, GraphError, Ground, Instance, MakeStage, NodeId, Notice,
    Place, PortInfo, Prepared, RequestError, Saved, Settings, ShowRows, StageKind, To, whole,
};

use crate::discard::{Discarding, NEVER};
use crate::function::STAGES;
use crate::request;
use crate::target::Target;

/// The table that a running `wiring` shows.
pub(crate) const TABLE: &str = "wiring";

/// The columns of [`TABLE`].
pub(crate) const COLUMNS: &[&str] = &["stage", "kind", "section", "troubles"];

/// A stage with its wires. `M` is what it is made from, or what describes that.
pub(crate) struct Part<M: ?Sized> {
    pub(crate) name: String,
    pub(crate) kind: &'static dyn StageKind,
    pub(crate) make: Box<M>,
    pub(crate) section: u8,
    /// The names of its ways, and what each leads to.
    pub(crate) wires: Vec<(String, Target)>,
}

/// Stages and their wires.
pub(crate) struct Wires<M: ?Sized> {
    pub(crate) name: String,
    pub(crate) parts: Vec<Part<M>>,
    /// Where packets enter: (index of the port, place of the stage).
    pub(crate) entries: Vec<(u16, usize)>,
    /// Ports that ways lead to and whose packets enter nowhere: (index, name).
    pub(crate) unreceived: Vec<(u16, String)>,
}

impl<M: ?Sized> Wires<M> {
    /// Finds the ports whose packets enter nowhere: a port that nobody received from would hide what arrives there.
    pub(crate) fn find_unreceived(&mut self, ports: &[PortInfo]) {
        let leads_to = |index| self.parts.iter().flat_map(|part| &part.wires).any(|(_, to)| *to == Target::Port(index));
        let enters = |index| self.entries.iter().any(|(port, _)| *port == index);
        let lost = ports.iter().filter(|info| leads_to(info.index) && !enters(info.index));
        self.unreceived = lost.map(|info| (info.index, info.name.clone())).collect();
    }

    /// The graph, to which `add` adds the stage of a part, given its name and place.
    fn draw(
        &self,
        add: impl Fn(&mut Graph, &Part<M>, String, Place) -> Result<NodeId, GraphError>,
    ) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let mut nodes: Vec<NodeId> = Vec::new();
        for part in &self.parts {
            let place = Place::Worker { section: part.section };
            nodes.push(add(&mut graph, part, format!("{}.{}", self.name, part.name), place)?);
        }
        for (part, node) in self.parts.iter().zip(&nodes) {
            for (way, target) in &part.wires {
                match target {
                    Target::Drop => graph.leave_open(*node, way),
                    Target::Port(port) => graph.wire(*node, way, To::Port(*port)),
                    // A place beyond the list is told by the graph's own check.
                    Target::Stage(at) => {
                        graph.wire(*node, way, To::Stage(nodes.get(*at).copied().unwrap_or(NodeId(*at))));
                    }
                }
            }
        }
        for (port, at) in &self.entries {
            graph.receive(*port, nodes.get(*at).copied().unwrap_or(NodeId(*at)));
        }
        for (port, name) in &self.unreceived {
            let node = graph.add(format!("{}.from-{name}", self.name), Discarding);
            graph.leave_open(node, NEVER);
            graph.receive(*port, node);
        }
        Ok(graph)
    }
}

/// What a `wiring` comes to.
pub struct Described {
    pub(crate) element: Arc<Element>,
    pub(crate) wires: Wires<dyn DescribeStage>,
}

impl Described {
    /// The graph of stand-ins that only declare what its stages would.
    pub(crate) fn declared(&self) -> Result<Graph, GraphError> {
        self.wires.draw(|graph, part, name, place| Ok(graph.add_declared(name, part.make.declares(), place)))
    }
}

impl Description for Described {
    type Running = Running;

    fn sketch(&self, _replica: usize) -> Result<Graph, GraphError> {
        self.declared()
    }

    fn instantiate(self, ground: &Ground<'_>, old: Option<&Running>) -> Result<Running, Vec<ConfigError>> {
        let Wires { name, parts, entries, unreceived } = self.wires;
        let mut errors = Errors::new();
        let mut made = Vec::new();
        for Part { name, kind, make, section, wires } in parts {
            let same = |part: &&Part<dyn MakeStage>| part.name == name && part.kind.kind() == kind.kind();
            let before = old.and_then(|old| old.0.parts.iter().find(same)).map(|part| &*part.make);
            match with_settings(&self.element, &name, |settings| make.instantiate(settings, ground, before)) {
                Some(Ok(make)) => made.push(Part { name, kind, make, section, wires }),
                Some(Err(more)) => errors.extend(more),
                None => {}
            }
        }
        errors.into_result(Running(Wires { name, parts: made, entries, unreceived }))
    }

    fn change(self, running: &Running, env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        let mut errors = Errors::new();
        let mut prepared = Vec::new();
        for part in &running.0.parts {
            match with_settings(&self.element, &part.name, |settings| part.make.prepare(settings, env)) {
                Some(Ok(change)) => prepared.push(change),
                Some(Err(more)) => errors.extend(more),
                None => {}
            }
        }
        errors.into_result(())?;
        Ok(Box::new(move |now| prepared.into_iter().for_each(|change| change(now))))
    }
}

/// Does something with the settings of a stage, in a configuration that has it.
fn with_settings<T>(element: &Element, stage: &str, act: impl FnOnce(&Settings<'_>) -> T) -> Option<T> {
    let root = element.path();
    let path = root.field(STAGES);
    let value = element.value().as_table()?.get(STAGES)?.as_table()?.get(stage)?;
    Some(act(&Settings { element, path: path.field(stage), value }))
}

/// A configured `wiring`.
pub struct Running(Wires<dyn MakeStage>);

impl Instance for Running {
    fn graph(&self, replica: usize) -> Result<Graph, GraphError> {
        self.0.draw(|graph, part, name, place| {
            graph.add_of(name, part.make.declare(), place, Some(&*part.make), |make| make.stage(replica))
        })
    }

    fn sketch(&self, _replica: usize) -> Result<Graph, GraphError> {
        self.0.draw(|graph, part, name, place| Ok(graph.add_declared(name, part.make.declare(), place)))
    }

    fn followed(&self) -> Vec<Arc<FollowedNeighbor>> {
        self.0.parts.iter().flat_map(|part| part.make.followed()).collect()
    }

    fn lacks(&self) -> Vec<String> {
        let of = |part: &Part<dyn MakeStage>| {
            part.make.lacks().into_iter().map(|lack| format!("{}: {lack}", part.name)).collect()
        };
        self.0.parts.iter().flat_map(|part| -> Vec<String> { of(part) }).collect()
    }

    fn notices(&self, _now: u64) -> Vec<Notice> {
        let of = |part: &Part<dyn MakeStage>| {
            let mut notices = part.make.notices();
            notices.iter_mut().for_each(|notice| notice.facts.insert(0, ("stage", part.name.clone())));
            notices
        };
        self.0.parts.iter().flat_map(of).collect()
    }

    fn request(&self, verb: &str, arguments: &Value, now: u64) -> Result<Value, RequestError> {
        request::carry_out(&self.0.parts, verb, arguments, now)
    }

    fn save(&self) -> Box<dyn ShowRows<Saved>> {
        request::save(&self.0.parts)
    }

    fn show(&self, what: &str, filter: Option<&str>, _now: u64) -> Result<Box<dyn ShowRows>, RequestError> {
        if request::is_shown(&self.0.parts, what) {
            return request::show(&self.0.parts, what, filter);
        }
        if what != TABLE {
            return Err(RequestError(format!("{} has no table '{what}'; it has '{TABLE}'", self.0.name)));
        }
        let chosen: Vec<&Part<dyn MakeStage>> =
            self.0.parts.iter().filter(|part| filter.is_none_or(|word| word == part.name)).collect();
        if let (Some(word), []) = (filter, chosen.as_slice()) {
            let names: Vec<&str> = self.0.parts.iter().map(|part| part.name.as_str()).collect();
            return Err(RequestError(format!("there is no stage '{word}'; expected one of {}", names.join(", "))));
        }
        let row = |part: &&Part<dyn MakeStage>| {
            let troubles = part.make.troubles().join("; ");
            json!({ "stage": part.name, "kind": part.kind.kind(), "section": part.section, "troubles": troubles })
        };
        Ok(whole(chosen.iter().map(row).collect()))
    }
}
