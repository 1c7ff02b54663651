//! The graph of the network layer: which stages it has, and where their ways lead.

use weir_packet::Key;
use weir_stage::{Graph, GraphError, NodeId, Place, To};

use crate::config::{Limits, Settings, TableKind};
use crate::fast::check::Keys;
use crate::fast::punt::{PuntPolicer, PuntReason};
use crate::fast::untag::{self, Untagged};
use crate::fast::{check, forward, hairpin, send};
use crate::layer::Running;
use crate::slow;

/// Where the stages are.
const FIRST: Place = Place::Worker { section: 0 };

/// What the stages of a layer are drawn from, and its tables made by.
#[derive(Clone, Debug)]
pub struct Stages {
    pub(crate) name: String,
    pub(crate) redirects: bool,
    pub(crate) punt_rate: u64,
    pub(crate) seed: u64,
    pub(crate) table: TableKind,
    pub(crate) limits: Limits,
    /// Indices of its ports, by position.
    pub(crate) ports: Vec<u16>,
    /// Whether packets are checked by one worker and forwarded by another.
    pub(crate) is_parted: bool,
}

/// Stages of a layer to which the function before it hands packets.
#[derive(Clone, Copy, Debug)]
pub struct Doors {
    /// For those whose tags were taken off, if they had any.
    pub tag: NodeId,
    /// For those that are as they came.
    pub layer: NodeId,
}

/// Where a function hands packets on that looks at them first.
#[derive(Clone, Copy, Debug)]
pub struct Below {
    /// What it does not take.
    pub forward: NodeId,
    /// What it made and does not know how to send: any 14 bytes, and an IP packet behind them. The slow path asks for the neighbour.
    pub send: NodeId,
}

impl Stages {
    /// Of these `settings`, with ports of these indices.
    pub(crate) fn new(name: &str, settings: Settings<'_>, ports: Vec<u16>, is_parted: bool) -> Stages {
        Stages {
            name: name.to_owned(),
            redirects: settings.redirects,
            punt_rate: settings.punt_rate.packets_per_second(),
            seed: u64::from(settings.hash_seed),
            table: settings.table,
            limits: settings.limits.clone(),
            ports,
            is_parted,
        }
    }

    /// The graph of a layer that runs, or one to be looked at.
    pub(crate) fn draw(&self, running: Option<&Running>) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let place = Place::Worker { section: u8::from(self.is_parted) };
        let first = self.add(&mut graph, (place, false), running)?;
        self.ports.iter().for_each(|&port| graph.receive(port, first));
        Ok(graph)
    }

    /// What is known of packets whose tags were taken off.
    ///
    /// # Errors
    ///
    /// What a builder of graphs may run out of.
    pub fn tags(graph: &mut Graph) -> Result<Key<Untagged>, GraphError> {
        graph.claim("interface whose tags were taken off")
    }

    /// Adds the stages to the graph of a function that has packets first, by [`Inward`](crate::Inward), and sends most itself. Those of the layer are
    /// on the control side then. Answers to which of them packets go that the function leaves to the layer: those whose tags were taken off,
    /// and [others](crate::Came::of_the_layer).
    ///
    /// # Errors
    ///
    /// What a builder of graphs may run out of.
    pub fn add_behind(&self, graph: &mut Graph, running: Option<&Running>) -> Result<Doors, GraphError> {
        let key = Stages::tags(graph)?;
        let layer = self.add(graph, (Place::Control, true), running)?;
        let declared = untag::retag_declaration(key);
        let tag =
            graph.add_of(self.stage(".tag"), declared, Place::Control, running, |running| Ok(running.retag(key)))?;
        graph.wire(tag, "out", To::Stage(layer));
        Ok(Doors { tag, layer })
    }

    /// Adds a stage at a `place` that takes tags off before a stage `next` of the function.
    ///
    /// # Errors
    ///
    /// What a builder of graphs may run out of.
    pub fn add_untag(
        &self,
        graph: &mut Graph,
        place: Place,
        running: Option<&Running>,
        (next, doors): (NodeId, Doors),
    ) -> Result<NodeId, GraphError> {
        let key = Stages::tags(graph)?;
        let declared = untag::untag_declaration(key);
        let untag = graph.add_of(self.stage(".untag"), declared, place, running, |running| running.untag(key))?;
        graph.wire(untag, "out", To::Stage(next));
        graph.wire(untag, "layer", To::Stage(doors.layer));
        Ok(untag)
    }

    /// Adds the stages to the graph of a function that looks at packets on workers, first, counts them ([`Arrivals`](crate::Arrivals)), and
    /// leaves others to the layer.
    ///
    /// # Errors
    ///
    /// What a builder of graphs may run out of.
    pub fn add_below(&self, graph: &mut Graph, running: Option<&Running>) -> Result<Below, GraphError> {
        let (forward, control) = self.add_both(graph, (FIRST, true), running)?;
        let kind = self.kind(graph)?;
        let make = |running: &Running| Ok(running.sender(kind));
        let send = graph.add_of(self.stage(".send"), send::declaration(kind), FIRST, running, make)?;
        graph.wire(send, "out", To::Stage(control));
        Ok(Below { forward, send })
    }

    /// Adds the stages to a graph, the one that forwards at a `place`; answers to which packets come first that came in by the ports, and that
    /// `is_counted` by then or not.
    fn add(&self, graph: &mut Graph, at: (Place, bool), running: Option<&Running>) -> Result<NodeId, GraphError> {
        self.add_both(graph, at, running).map(|(first, _)| first)
    }

    fn kind(&self, graph: &mut Graph) -> Result<Key<PuntReason>, GraphError> {
        graph.claim("why it goes to the slow path")
    }

    /// Answers the first stage and that of the slow path.
    fn add_both(
        &self,
        graph: &mut Graph,
        (place, is_counted): (Place, bool),
        running: Option<&Running>,
    ) -> Result<(NodeId, NodeId), GraphError> {
        let kind = self.kind(graph)?;
        let known = if self.is_parted { Some(graph.claim("its VRF and family")?) } else { None };
        let keys = Keys { kind, known };
        let count = self.ports.len();
        let declared = forward::declaration(self.is_parted, count, (keys, is_counted));
        let forward = graph
            .add_of(self.stage(".forward"), declared, place, running, |running| running.forward(keys, is_counted))?;
        let declared = slow::declaration(count, kind);
        let control = graph
            .add_of(self.stage(".control"), declared, Place::Control, running, |running| Ok(running.slow_path(kind)))?;
        forward::TO_THE_SLOW_PATH.iter().for_each(|way| graph.wire(forward, way, To::Stage(control)));
        graph.wire(control, "again", To::Stage(control));
        graph.leave_open(control, "undecided"); // never taken
        for (position, &port) in self.ports.iter().enumerate() {
            graph.wire(forward, &format!("port[{position}]"), To::Port(port));
            graph.wire(control, &format!("port[{position}]"), To::Port(port));
        }
        let mut first = forward;
        if self.is_parted {
            let declared = check::declaration(keys);
            let check = graph.add_of(self.stage(".check"), declared, FIRST, running, |running| running.check(keys))?;
            graph.wire(check, "out", To::Stage(forward));
            check::TO_THE_SLOW_PATH.iter().for_each(|way| graph.wire(check, way, To::Stage(control)));
            first = check;
        }
        if self.redirects {
            first = self.look_for_redirects(graph, running, kind, [first, control])?;
        }
        Ok((first, control))
    }

    /// Puts a stage before `first` that looks for packets which turn round.
    fn look_for_redirects(
        &self,
        graph: &mut Graph,
        running: Option<&Running>,
        kind: Key<PuntReason>,
        [first, control]: [NodeId; 2],
    ) -> Result<NodeId, GraphError> {
        let declared = hairpin::declaration();
        let hairpin =
            graph.add_of(self.stage(".hairpin"), declared, FIRST, running, |running| Ok(running.hairpin(kind)))?;
        graph.wire(hairpin, "out", To::Stage(first));
        graph.wire(hairpin, "redirect", To::Stage(control));
        Ok(hairpin)
    }

    fn stage(&self, stage: &str) -> String {
        format!("{}{stage}", self.name)
    }

    pub(crate) fn policer(&self) -> PuntPolicer {
        let ports = self.ports.iter().map(|port| usize::from(*port) + 1).max().unwrap_or(0);
        PuntPolicer::new(self.punt_rate, ports)
    }
}
