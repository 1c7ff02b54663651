//! A configured `wiring`: its graph, its table, and the exchange of what its stages refer to.

use std::any::Any;

use serde_json::{Value, json};
use weir_config::{ConfigError, Element, Errors};
use weir_packet::Batch;
use weir_stage::{
    Declaration, Env, Graph, GraphError, Instance, MakeStage, NodeId, Notice, Out, Place, PortInfo, Prepared,
    RequestError, Settings, ShowRows, Stage, To, whole,
};

use crate::discard::{Discarding, NEVER};
use crate::target::Target;

/// The table that a running `wiring` shows.
pub(crate) const TABLE: &str = "wiring";

/// The columns of [`TABLE`].
pub(crate) const COLUMNS: &[&str] = &["stage", "kind", "section", "troubles"];

/// A stage with its wires.
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    /// What to do where it lacks what a stage before it should have found out.
    pub(crate) upstream: &'static str,
    pub(crate) make: Box<dyn MakeStage>,
    pub(crate) section: u8,
    /// The names of its ways, and what each leads to.
    pub(crate) wires: Vec<(String, Target)>,
}

/// A configured `wiring`.
pub(crate) struct Running {
    pub(crate) name: String,
    pub(crate) parts: Vec<Part>,
    /// Where packets enter: (index of the port, place of the stage).
    pub(crate) entries: Vec<(u16, usize)>,
    /// Ports that ways lead to and whose packets enter nowhere: (index, name).
    pub(crate) unreceived: Vec<(u16, String)>,
}

impl Running {
    /// Finds the ports whose packets enter nowhere: a port that nobody received from would hide what arrives there.
    pub(crate) fn find_unreceived(&mut self, ports: &[PortInfo]) {
        let leads_to = |index| self.parts.iter().flat_map(|part| &part.wires).any(|(_, to)| *to == Target::Port(index));
        let enters = |index| self.entries.iter().any(|(port, _)| *port == index);
        let lost = ports.iter().filter(|info| leads_to(info.index) && !enters(info.index));
        self.unreceived = lost.map(|info| (info.index, info.name.clone())).collect();
    }

    /// The graph with stand-ins that only declare what its stages would.
    pub(crate) fn declared(&self) -> Result<Graph, GraphError> {
        self.graph_of(|part| Ok(Box::new(Declared(part.make.declare()))))
    }

    fn graph_of(&self, stage: impl Fn(&Part) -> Result<Box<dyn Stage>, GraphError>) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let mut nodes: Vec<NodeId> = Vec::new();
        for part in &self.parts {
            let place = Place::Worker { section: part.section };
            nodes.push(graph.add_at(format!("{}.{}", self.name, part.name), stage(part)?, place));
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

impl Running {
    /// Each stage with its settings in a configuration that has it.
    fn each_setting(&self, element: &Element, mut act: impl FnMut(&Part, &Settings<'_>)) {
        let root = element.path();
        let path = root.field("stages");
        let table = element.value().as_table().and_then(|table| table.get("stages")).and_then(|value| value.as_table());
        for part in &self.parts {
            if let Some(value) = table.and_then(|table| table.get(&part.name)) {
                act(part, &Settings { element, path: path.field(&part.name), value });
            }
        }
    }
}

/// Declares what another stage does.
struct Declared(Declaration);

impl Stage for Declared {
    fn declare(&self) -> Declaration {
        self.0.clone()
    }

    fn run(&mut self, _batch: &mut Batch, _out: &mut Out<'_>) {}
}

impl Instance for Running {
    fn graph(&self, replica: usize) -> Result<Graph, GraphError> {
        self.graph_of(|part| part.make.stage(replica))
    }

    fn prepare(&self, element: &Element, env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        let mut errors = Errors::new();
        let mut prepared = Vec::new();
        self.each_setting(element, |part, settings| match part.make.prepare(settings, env) {
            Ok(change) => prepared.push(change),
            Err(more) => errors.extend(more),
        });
        errors.into_result(())?;
        Ok(Box::new(move |now| prepared.into_iter().for_each(|change| change(now))))
    }

    fn lacks(&self) -> Vec<String> {
        let of = |part: &Part| part.make.lacks().into_iter().map(|lack| format!("{}: {lack}", part.name)).collect();
        self.parts.iter().flat_map(|part| -> Vec<String> { of(part) }).collect()
    }

    fn notices(&self, _now: u64) -> Vec<Notice> {
        let of = |part: &Part| {
            let mut notices = part.make.notices();
            notices.iter_mut().for_each(|notice| notice.facts.insert(0, ("stage", part.name.clone())));
            notices
        };
        self.parts.iter().flat_map(of).collect()
    }

    fn request(&self, verb: &str, _arguments: &Value, _now: u64) -> Result<Value, RequestError> {
        Err(RequestError(format!("{} knows no request '{verb}'", self.name)))
    }

    fn show(&self, what: &str, filter: Option<&str>, _now: u64) -> Result<Box<dyn ShowRows>, RequestError> {
        if what != TABLE {
            return Err(RequestError(format!("{} has no table '{what}'; it has '{TABLE}'", self.name)));
        }
        let chosen: Vec<&Part> = self.parts.iter().filter(|part| filter.is_none_or(|word| word == part.name)).collect();
        if let (Some(word), []) = (filter, chosen.as_slice()) {
            let names: Vec<&str> = self.parts.iter().map(|part| part.name.as_str()).collect();
            return Err(RequestError(format!("there is no stage '{word}'; expected one of {}", names.join(", "))));
        }
        let row = |part: &&Part| {
            let troubles = part.make.troubles().join("; ");
            json!({ "stage": part.name, "kind": part.kind, "section": part.section, "troubles": troubles })
        };
        Ok(whole(chosen.iter().map(row).collect()))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
