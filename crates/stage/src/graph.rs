//! Stages wired by their ways, and what must hold of the wiring.

use std::collections::HashSet;
use std::fmt;

use weir_packet::{Batch, Key, LaneId, USER_LANES};

use crate::stage::{Declaration, Out, Stage};
use crate::ways::Fate;

/// A stage's place in a [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub usize);

/// Where the engine runs a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// On a data-path worker. In a pipeline layout stages of different sections run on different workers; sections only rise
    /// along the graph.
    Worker {
        /// The section, from 0.
        section: u8,
    },
    /// On the control side: the slow path.
    Control,
}

/// What a way leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum To {
    /// Another stage.
    Stage(NodeId),
    /// Transmission on a port.
    Port(u16),
}

/// One stage in a graph.
pub struct Node {
    /// Its name in statistics, traces and manuals: `router.lookup`.
    pub name: String,
    /// The stage itself.
    pub stage: Box<dyn Stage>,
    /// What it declared.
    pub declaration: Declaration,
    /// Where it runs.
    pub place: Place,
    /// What each code leads to; `None`: a reason, or a way that is not wired.
    pub targets: Vec<Option<To>>,
    /// Codes of ways that are left open on purpose: their packets are dropped under the ways' names.
    pub open: Vec<usize>,
}

/// Stages wired by their ways: what a function makes of its configuration, for one replica of the data path.
#[derive(Default)]
pub struct Graph {
    nodes: Vec<Node>,
    entries: Vec<(u16, NodeId)>,
    claims: Vec<&'static str>,
    complaints: Vec<String>,
}

impl Graph {
    /// A graph without stages.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// Adds a stage that runs on the data path, in section 0.
    pub fn add(&mut self, name: impl Into<String>, stage: impl Stage + 'static) -> NodeId {
        self.add_at(name, Box::new(stage), Place::Worker { section: 0 })
    }

    /// Adds a stage that runs at `place`.
    pub fn add_at(&mut self, name: impl Into<String>, stage: Box<dyn Stage>, place: Place) -> NodeId {
        let declaration = stage.declare();
        let targets = vec![None; declaration.codes()];
        self.nodes.push(Node { name: name.into(), stage, declaration, place, targets, open: Vec::new() });
        NodeId(self.nodes.len() - 1)
    }

    /// Adds a stand-in that declares this and does nothing: for graphs that are only looked at.
    pub fn add_declared(&mut self, name: impl Into<String>, declaration: Declaration, place: Place) -> NodeId {
        self.add_at(name, Box::new(Declared(declaration)), place)
    }

    /// Adds a stage that runs at `place` and declares this. It is made of `tables`; where there are none, because the graph is only to be
    /// looked at, a stand-in that declares the same takes its place. So one drawing serves both.
    ///
    /// # Errors
    ///
    /// What `make` may lack.
    pub fn add_of<T: ?Sized>(
        &mut self,
        name: impl Into<String>,
        declaration: Declaration,
        place: Place,
        tables: Option<&T>,
        make: impl FnOnce(&T) -> Result<Box<dyn Stage>, GraphError>,
    ) -> Result<NodeId, GraphError> {
        let name = name.into();
        let Some(tables) = tables else { return Ok(self.add_declared(name, declaration, place)) };
        let stage = make(tables)?;
        if stage.declare() != declaration {
            self.complaints.push(format!("{name}: declares other ways or lanes than its description"));
        }
        Ok(self.add_at(name, stage, place))
    }

    /// Wires a way, by its name, to what it leads to.
    pub fn wire(&mut self, from: NodeId, way: &str, to: To) {
        self.settle(from, way, Some(to));
    }

    /// Leaves a way open on purpose, by its name: its packets, if it ever has any, are dropped under its name.
    pub fn leave_open(&mut self, from: NodeId, way: &str) {
        self.settle(from, way, None);
    }

    fn settle(&mut self, from: NodeId, way: &str, to: Option<To>) {
        let Some(node) = self.nodes.get_mut(from.0) else {
            return self.complaints.push(format!("a wire starts at stage {}, which is not in the graph", from.0));
        };
        let Some(code) = node.declaration.code_of(way).filter(|code| node.declaration.leads(*code)) else {
            let known: Vec<String> = node.declaration.ways_out().map(|(_, name)| name).collect();
            let complaint = format!("{}: no way is called '{way}'; its ways are {}", node.name, known.join(", "));
            return self.complaints.push(complaint);
        };
        let settled = node.open.contains(&code) || node.targets.get(code).is_some_and(Option::is_some);
        match to {
            Some(to) => node.targets.iter_mut().skip(code).take(1).for_each(|target| *target = Some(to)),
            None => node.open.push(code),
        }
        if settled {
            let complaint = format!("{}: way '{way}' is wired twice", node.name);
            self.complaints.push(complaint);
        }
    }

    /// The ways that lead nowhere though nobody said so: a stage and the name of its way each.
    pub fn loose_ends(&self) -> impl Iterator<Item = (&Node, String)> {
        self.nodes.iter().flat_map(|node| {
            let loose = |code: usize| !node.open.contains(&code) && node.targets.get(code).is_some_and(Option::is_none);
            node.declaration.ways_out().filter(move |(code, _)| loose(*code)).map(move |(_, name)| (node, name))
        })
    }

    /// Packets received on a port enter the graph at a stage.
    pub fn receive(&mut self, port: u16, at: NodeId) {
        if self.entries.iter().any(|&(other, _)| other == port) {
            self.complaints.push(format!("port {port}: its packets enter the graph at two stages"));
        }
        self.entries.push((port, at));
    }

    /// Claims one of the lanes that are free for functions. `purpose` names it in messages. Claiming a purpose again gives
    /// the same lane.
    ///
    /// # Errors
    ///
    /// All [`USER_LANES`] are claimed; the message names what for.
    pub fn claim<T: From<u32> + Into<u32>>(&mut self, purpose: &'static str) -> Result<Key<T>, GraphError> {
        let lane = self.claims.iter().position(|&claimed| claimed == purpose).unwrap_or_else(|| {
            self.claims.push(purpose);
            self.claims.len() - 1
        });
        Key::new(lane).ok_or_else(|| {
            let claimed = self.claims.get(..USER_LANES).unwrap_or_default().join(", ");
            GraphError(vec![format!("no lane is left for '{purpose}'; all {USER_LANES} are claimed: {claimed}")])
        })
    }

    /// Takes over the stages, wires and entries of another graph.
    pub fn merge(&mut self, other: Graph) {
        let shift = self.nodes.len();
        let moved = |node: NodeId| NodeId(node.0 + shift);
        for mut node in other.nodes {
            for to in node.targets.iter_mut().flatten() {
                if let To::Stage(id) = to {
                    *id = moved(*id);
                }
            }
            self.nodes.push(node);
        }
        for (port, at) in other.entries {
            self.receive(port, moved(at));
        }
        self.complaints.extend(other.complaints);
    }

    /// The stages, in the order they were added.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Where the packets of each port enter.
    pub fn entries(&self) -> &[(u16, NodeId)] {
        &self.entries
    }

    /// Gives the stages and entries up to the engine.
    pub fn into_parts(self) -> (Vec<Node>, Vec<(u16, NodeId)>) {
        (self.nodes, self.entries)
    }

    /// Stages in an order in which each comes after all that lead to it by ways that are not `again`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the graph, at once: cycles, wires to nowhere, more than 255 ways, lanes that are read
    /// and never written or written twice, sections that fall, names that occur twice.
    pub fn check(&self) -> Result<Vec<NodeId>, GraphError> {
        let mut wrong = self.complaints.clone();
        self.check_names(&mut wrong);
        self.check_wires(&mut wrong);
        let order = self.order(&mut wrong);
        if wrong.is_empty() {
            self.check_lanes(&order, &mut wrong);
        }
        if wrong.is_empty() { Ok(order) } else { Err(GraphError(wrong)) }
    }

    fn check_names(&self, wrong: &mut Vec<String>) {
        let mut seen = HashSet::new();
        for node in &self.nodes {
            if !seen.insert((node.name.as_str(), node.place)) {
                wrong.push(format!("{}: two stages of one section have this name", node.name));
            }
            if node.declaration.codes() > 255 {
                wrong.push(format!("{}: {} ways; a stage has at most 255", node.name, node.declaration.codes()));
            }
            if node.declaration.fate_of(0) != Fate::Way {
                wrong.push(format!("{}: the first way must be one that packets go on by", node.name));
            }
        }
    }

    fn check_wires(&self, wrong: &mut Vec<String>) {
        for (node, code, to) in self.wires() {
            let name = node.declaration.name_of(code);
            match to {
                To::Stage(id) => match self.nodes.get(id.0) {
                    None => {
                        wrong.push(format!("{}.{name}: leads to stage {}, which is not in the graph", node.name, id.0))
                    }
                    Some(next) => check_places(node, code, next, wrong),
                },
                To::Port(_) if node.declaration.fate_of(code) == Fate::Again => {
                    wrong.push(format!("{}.{name}: an 'again' way cannot lead to a port", node.name));
                }
                To::Port(_) => {}
            }
        }
        for &(port, at) in &self.entries {
            if self.nodes.get(at.0).is_none_or(|node| node.place == Place::Control) {
                wrong.push(format!("port {port}: its packets must enter at a stage of the data path"));
            }
        }
    }

    fn wires(&self) -> impl Iterator<Item = (&Node, usize, To)> {
        self.nodes.iter().flat_map(|node| {
            node.targets.iter().enumerate().filter_map(move |(code, to)| to.map(|to| (node, code, to)))
        })
    }

    /// Successors of a stage on the same side (data path or control) by ways that are not `again`.
    fn successors(&self, at: usize) -> impl Iterator<Item = usize> {
        let node = self.nodes.get(at);
        node.into_iter().flat_map(move |node| {
            node.targets.iter().enumerate().filter_map(move |(code, to)| match to {
                Some(To::Stage(id)) if node.declaration.fate_of(code) != Fate::Again => {
                    let next = self.nodes.get(id.0)?;
                    let same = (next.place == Place::Control) == (node.place == Place::Control);
                    same.then_some(id.0)
                }
                _ => None,
            })
        })
    }

    /// Kahn's algorithm; stages that are ready keep the order they were added in.
    fn order(&self, wrong: &mut Vec<String>) -> Vec<NodeId> {
        let mut waiting = vec![0_usize; self.nodes.len()];
        for at in 0..self.nodes.len() {
            for next in self.successors(at) {
                if let Some(count) = waiting.get_mut(next) {
                    *count += 1;
                }
            }
        }
        let mut order = Vec::new();
        let mut ready: Vec<usize> = (0..self.nodes.len()).filter(|&at| waiting.get(at) == Some(&0)).rev().collect();
        while let Some(at) = ready.pop() {
            order.push(NodeId(at));
            for next in self.successors(at).collect::<Vec<_>>().into_iter().rev() {
                if let Some(count) = waiting.get_mut(next) {
                    *count -= 1;
                    if *count == 0 {
                        ready.push(next);
                    }
                }
            }
        }
        if order.len() < self.nodes.len() {
            let stuck =
                self.nodes.iter().zip(&waiting).filter(|(_, count)| **count > 0).map(|(node, _)| node.name.as_str());
            let stuck: Vec<&str> = stuck.collect();
            wrong.push(format!(
                "the graph has a cycle through or before {}; only an 'again' way may go round",
                stuck.join(", ")
            ));
        }
        order
    }

    /// Follows the lanes along the order: certain are those written on every path to a stage, possible those on any.
    fn check_lanes(&self, order: &[NodeId], wrong: &mut Vec<String>) {
        let at_receive = [LaneId::Time, LaneId::Port];
        let mut certain: Vec<Option<Vec<LaneId>>> = vec![None; self.nodes.len()];
        let mut possible: Vec<Vec<LaneId>> = vec![at_receive.to_vec(); self.nodes.len()];
        for &(_, at) in &self.entries {
            meet(certain.get_mut(at.0), &at_receive);
        }
        for &NodeId(at) in order {
            let Some(node) = self.nodes.get(at) else { continue };
            let have = certain.get(at).cloned().flatten().unwrap_or(at_receive.to_vec());
            let maybe = possible.get(at).cloned().unwrap_or_default();
            self.check_node_lanes(node, &have, &maybe, wrong);
            let written = || node.declaration.writes.iter().chain(&node.declaration.renews);
            let then: Vec<LaneId> = have.iter().chain(written()).copied().collect();
            let then_maybe: Vec<LaneId> = maybe.iter().chain(written()).copied().collect();
            for next in self.successors(at) {
                meet(certain.get_mut(next), &then);
                if let Some(possible) = possible.get_mut(next) {
                    possible.extend(&then_maybe);
                }
            }
        }
    }

    fn check_node_lanes(&self, node: &Node, have: &[LaneId], maybe: &[LaneId], wrong: &mut Vec<String>) {
        if node.place == Place::Control {
            return; // what comes over a link brings its lanes along, whichever stage punted it
        }
        for lane in node.declaration.reads.iter().chain(&node.declaration.updates) {
            if !have.contains(lane) {
                wrong.push(format!(
                    "{}: reads lane {}, which nobody upstream writes on every path",
                    node.name,
                    self.lane(*lane)
                ));
            }
        }
        for lane in &node.declaration.writes {
            if maybe.contains(lane) {
                wrong.push(format!(
                    "{}: writes lane {}, which somebody upstream has written",
                    node.name,
                    self.lane(*lane)
                ));
            }
        }
    }

    fn lane(&self, lane: LaneId) -> String {
        match lane {
            LaneId::User(n) => format!("'{}'", self.claims.get(n as usize).unwrap_or(&"unclaimed")),
            other => format!("{other:?}").to_lowercase(),
        }
    }
}

/// A wire between data-path stages must not lead to a lower section, and an `again` way must stay on its side.
fn check_places(node: &Node, code: usize, next: &Node, wrong: &mut Vec<String>) {
    let name = node.declaration.name_of(code);
    match (node.place, next.place) {
        (Place::Worker { section: from }, Place::Worker { section: to }) if from > to => {
            wrong.push(format!("{}.{name}: leads from section {from} back to section {to}", node.name));
        }
        (from, to) if node.declaration.fate_of(code) == Fate::Again && from != to => {
            wrong.push(format!("{}.{name}: an 'again' way must stay on one worker", node.name));
        }
        _ => {}
    }
}

fn meet(have: Option<&mut Option<Vec<LaneId>>>, with: &[LaneId]) {
    let Some(have) = have else { return };
    match have {
        None => *have = Some(with.to_vec()),
        Some(lanes) => lanes.retain(|lane| with.contains(lane)),
    }
}

/// Declares what a stage does that is not there.
struct Declared(Declaration);

impl Stage for Declared {
    fn declare(&self) -> Declaration {
        self.0.clone()
    }

    fn run(&mut self, _batch: &mut Batch, _out: &mut Out<'_>) {}
}

/// What is wrong with a graph, a sentence each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphError(pub Vec<String>);

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for GraphError {}
