//! The graph of `qos`: for each direction that is shaped, its stages on each worker.
//!
//! ```text
//!  from -> [limit] -> [balance] -> identify -> [police] -> [remark] -> shape -> to
//! ```
//!
//! Where both directions are shaped together, both lead to the same schedulers, behind each of which stands `fork`.
//!
//! What stands in brackets is there where it is configured, or where somebody balances. Workers that share the users have a copy each of the
//! stages behind the balancer.

use std::sync::Arc;

use weir_packet::Key;
use weir_sched::fork::{self, Fork};
use weir_sched::{limit, police, remark, shaper};
use weir_stage::ownership::balance::Spec;
use weir_stage::ownership::{Arrangement, Own};
use weir_stage::{Graph, GraphError, NodeId, Place, To};

use crate::back::Back;
use crate::config::{QosConfig, Reverse};
use crate::function::Running;
use crate::identify;
use crate::state::Direction;

/// What the graph of `qos` is drawn from.
#[derive(Clone)]
pub(crate) struct Shape {
    pub(crate) name: String,
    pub(crate) config: Arc<QosConfig>,
    /// Indices of the ports `from` and `to`.
    pub(crate) ports: [u16; 2],
    /// What runs on which worker.
    pub(crate) arrangement: Arrangement,
}

/// A graph while it is drawn.
struct Drawing<'a> {
    shape: &'a Shape,
    running: Option<&'a Running>,
    graph: Graph,
    /// The lane of users.
    user: Key<u32>,
}

impl Shape {
    /// The graph of one that runs, or one to be looked at.
    pub(crate) fn draw(&self, running: Option<&Running>) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let user: Key<u32> = graph.claim("user")?;
        let mut drawing = Drawing { shape: self, running, graph, user };
        let [from, to] = self.ports;
        let (forth, back) = match self.config.reverse {
            Reverse::Pass => (drawing.shapers(Direction::Forth)?, None),
            Reverse::Shape => (drawing.shapers(Direction::Forth)?, Some(drawing.shapers(Direction::Back)?)),
            Reverse::Together => {
                let both = drawing.shapers(Direction::Both)?;
                (both.clone(), Some(both))
            }
        };
        let first = drawing.direction(Direction::Forth, &forth)?;
        drawing.graph.receive(from, first);
        let back = match back {
            Some(shapers) => drawing.direction(Direction::Back, &shapers)?,
            None => {
                let back = drawing.graph.add(format!("{}.back", self.name), Back);
                drawing.graph.wire(back, "out", To::Port(from));
                back
            }
        };
        drawing.graph.receive(to, back);
        Ok(drawing.graph)
    }

    /// The name of a stage of one direction.
    fn stage(&self, stage: &str, direction: Direction) -> String {
        match direction {
            Direction::Forth | Direction::Both => format!("{}.{stage}", self.name),
            Direction::Back => format!("{}.{stage}-back", self.name),
        }
    }
}

impl Drawing<'_> {
    /// The scheduler of each owner, which owners that share one have in common.
    fn shapers(&mut self, direction: Direction) -> Result<Vec<NodeId>, GraphError> {
        let arrangement = self.shape.arrangement;
        if arrangement.has_own_parts() {
            return arrangement.sections().map(|(owner, place)| self.shaper(direction, owner, place)).collect();
        }
        let shared = self.shaper(direction, 0, arrangement.exit())?;
        Ok(arrangement.sections().map(|_| shared).collect())
    }

    fn shaper(&mut self, direction: Direction, scheduler: u8, place: Place) -> Result<NodeId, GraphError> {
        let (name, user, [from, to]) = (self.shape.stage("shape", direction), self.user, self.shape.ports);
        let declared = shaper::declaration(user);
        let shaper = self
            .graph
            .add_of(name, declared, place, self.running, |running| running.shaper(direction, scheduler, user))?;
        let next = match direction {
            Direction::Forth => To::Port(to),
            Direction::Back => To::Port(from),
            Direction::Both => {
                let (name, make) =
                    (self.shape.stage("fork", direction), |_: &Running| Ok(Box::new(Fork { far: to }) as _));
                let fork = self.graph.add_of(name, fork::declaration(), place, self.running, make)?;
                self.graph.wire(fork, "forth", To::Port(to));
                self.graph.wire(fork, "back", To::Port(from));
                To::Stage(fork)
            }
        };
        self.graph.wire(shaper, "out", next);
        Ok(shaper)
    }

    /// What is done in one direction before packets are shaped, by the scheduler of each owner; they come in at the first of it.
    fn direction(&mut self, direction: Direction, shapers: &[NodeId]) -> Result<NodeId, GraphError> {
        let arrangement = self.shape.arrangement;
        let mut owners = Vec::new();
        for ((owner, place), shaper) in arrangement.sections().zip(shapers) {
            owners.push(self.before_shaper(direction, owner, place, *shaper)?);
        }
        let spec = Spec { name: self.shape.stage("balance", direction), reads: &[], tables: self.running };
        let make = |running: &Running, make| Ok(running.balance(direction, make));
        let first = arrangement.balance(&mut self.graph, spec, &owners, make)?;
        self.limited(direction, first)
    }

    /// What an owner does before its packets are shaped.
    fn before_shaper(
        &mut self,
        direction: Direction,
        owner: u8,
        place: Place,
        shaper: NodeId,
    ) -> Result<NodeId, GraphError> {
        let (shape, user) = (self.shape, self.user);
        let (name, declared) = (shape.stage("identify", direction), identify::declaration(user));
        let identify = self.graph.add_of(name, declared, place, self.running, |running| {
            Ok(running.identify(direction, Own::of(owner), user))
        })?;
        let mut next = shaper;
        if !shape.config.remark.is_empty() {
            let (name, declared) = (shape.stage("remark", direction), remark::declaration());
            next = self.graph.add_of(name, declared, place, self.running, |running| Ok(running.remark()))?;
            self.graph.wire(next, "out", To::Stage(shaper));
        }
        if !shape.config.police.is_empty() {
            let (name, declared) = (shape.stage("police", direction), police::declaration(user));
            let police =
                self.graph.add_of(name, declared, place, self.running, |running| running.police(owner, user))?;
            self.graph.wire(police, "out", To::Stage(next));
            next = police;
        }
        self.graph.wire(identify, "out", To::Stage(next));
        Ok(identify)
    }

    /// A limiter before all others, if there is one.
    fn limited(&mut self, direction: Direction, next: NodeId) -> Result<NodeId, GraphError> {
        let Some(rate) = self.shape.config.limit else { return Ok(next) };
        let (name, place) = (self.shape.stage("limit", direction), Place::Worker { section: 0 });
        let limit =
            self.graph.add_of(name, limit::declaration(), place, self.running, |running| running.limit(rate))?;
        self.graph.wire(limit, "out", To::Stage(next));
        Ok(limit)
    }
}
