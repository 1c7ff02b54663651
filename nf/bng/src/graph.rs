//! The graph of a gateway: its stages on each worker, and the wires between them.
//!
//! ```text
//!  access -> [shape] -> [balance-up] -> up, six-up ----------------------------> core
//!  core --------------> [balance-down] -> down, six-down -> [identify] -> [shape] -> access
//! ```
//!
//! What stands in brackets is there where somebody balances, or shapes. Workers that share the subscribers have a copy each of the stages between
//! balancers and ports, in a section of its own.

use std::sync::Arc;

use weir_packet::Key;
use weir_sched::arrangement::Arrangement;
use weir_sched::owner::Own;
use weir_stage::{Graph, GraphError, NodeId, Place, Stage, To, Ways};

use crate::balance::{BalanceDown, BalanceUp};
use crate::config::CoreEncapsulation;
use crate::down::{self, Down};
use crate::function::{Running, no_memory};
use crate::identification::Identifications;
use crate::ports::{BngPort, Side};
use crate::punt::{Kind, Policing};
use crate::qos::{Direction, Schedulers, Site};
use crate::six::{self, Six};
use crate::up::{self, Up};

/// The stages of one owner.
struct Copy {
    owner: u8,
    place: Place,
    up: NodeId,
    six_up: NodeId,
    down: NodeId,
    six_down: NodeId,
}

/// A graph while it is put together.
struct Builder<'a> {
    running: &'a Running,
    graph: Graph,
    arrangement: Arrangement,
    kind: Key<Kind>,
    /// The lane of users, where something is shaped.
    shaped: Option<(&'a Schedulers, Key<u32>)>,
}

impl Running {
    /// The graph of a gateway whose packets are, or are not, in tunnels.
    pub(crate) fn graph_of<const TUNNEL: bool>(&self) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let kind = graph.claim("why it goes to the slow path")?;
        let user = self.schedulers.as_ref().map(|_| graph.claim("user")).transpose()?;
        let shaped = self.schedulers.as_deref().zip(user);
        let mut builder = Builder { running: self, graph, arrangement: self.arrangement, kind, shaped };
        let copies: Result<Vec<Copy>, GraphError> =
            self.arrangement.sections().map(|(owner, place)| builder.copy::<TUNNEL>(owner, place)).collect();
        let control = builder.control()?;
        builder.wire(&copies?, control);
        Ok(builder.graph)
    }
}

impl<'a> Builder<'a> {
    fn add(&mut self, stage: &str, what: impl Stage + 'static, place: Place) -> NodeId {
        self.graph.add_at(self.running.stage(stage), Box::new(what), place)
    }

    fn copy<const TUNNEL: bool>(&mut self, owner: u8, place: Place) -> Result<Copy, GraphError> {
        let (running, kind) = (self.running, self.kind);
        let counters = running.counters.lend().map_err(no_memory)?;
        let policing = || Policing::new(running.rates()).map_err(no_memory);
        let identifications = || Identifications::new(&running.sequence, !running.config.tunnel.df);
        let shared = running.up_shared(&counters);
        let up = Up::<TUNNEL>::new(shared, running.kernel, policing()?, kind, identifications());
        let up = self.add("up", up, place);
        let down = Down::<TUNNEL>::new(running.down_shared(Arc::clone(&counters)), running.kernel, policing()?, kind);
        let down = self.add("down", down, place);
        let six = || Ok(Six::new(running.six(&counters, TUNNEL), policing()?, kind, identifications()));
        let six_up = self.add("six-up", six()?, place);
        let six_down = self.add("six-down", six()?, place);
        Ok(Copy { owner, place, up, six_up, down, six_down })
    }

    fn control(&mut self) -> Result<NodeId, GraphError> {
        let stage = self.running.slow_path(self.kind)?;
        Ok(self.graph.add_at(self.running.stage("control"), stage, Place::Control))
    }

    fn wire(&mut self, copies: &[Copy], control: NodeId) {
        for copy in copies {
            punts::<up::Exit>(&mut self.graph, copy.up, control);
            punts::<down::Exit>(&mut self.graph, copy.down, control);
            for (from, six) in [(copy.up, copy.six_up), (copy.down, copy.six_down)] {
                self.graph.wire(from, "ipv6", To::Stage(six));
                punts::<six::Exit>(&mut self.graph, six, control);
            }
        }
        let up = self.before_up("balance-up", copies.iter().map(|copy| copy.up));
        let down = self.before_down(copies);
        self.graph.wire(control, "up", To::Stage(up));
        self.graph.wire(control, "down", To::Stage(down));
        for (position, port) in (0_u8..).zip(self.running.ports.list()) {
            let way = format!("port[{position}]");
            for stage in copies.iter().flat_map(|copy| [copy.up, copy.six_up]).chain([control]) {
                self.graph.wire(stage, &way, To::Port(port.index));
            }
            self.wire_to_customers(position, port, copies);
            let first = match port.side {
                Side::Access => self.first_up(position, port, copies, up),
                Side::Core => down,
            };
            self.graph.receive(port.index, first);
        }
    }

    /// A balancer of packets from customers before these stages of the owners, in their order; the stage itself if there is one owner only.
    fn before_up(&mut self, name: &str, owners: impl ExactSizeIterator<Item = NodeId>) -> NodeId {
        let Running { subscribers, ports, config, .. } = self.running;
        let workers = owners.len() as u8;
        let stage = BalanceUp::new(Arc::clone(subscribers), Arc::clone(ports), config.tpid.ethertype(), workers);
        self.balanced(name, stage, owners)
    }

    fn before_down(&mut self, copies: &[Copy]) -> NodeId {
        let Running { subscribers, config, .. } = self.running;
        let has_keys = config.core_encapsulation == CoreEncapsulation::GreMpls;
        let stage = BalanceDown::new(Arc::clone(subscribers), has_keys, copies.len() as u8);
        self.balanced("balance-down", stage, copies.iter().map(|copy| copy.down))
    }

    fn balanced(
        &mut self,
        name: &str,
        stage: impl Stage + 'static,
        mut owners: impl ExactSizeIterator<Item = NodeId>,
    ) -> NodeId {
        if !self.arrangement.is_balanced()
            && let Some(only) = owners.next()
        {
            return only;
        }
        let balance = self.add(name, stage, self.arrangement.entrance());
        for (n, owner) in owners.enumerate() {
            if n == 0 {
                self.graph.wire(balance, "first", To::Stage(owner));
            }
            self.graph.wire(balance, &format!("worker[{n}]"), To::Stage(owner));
        }
        balance
    }

    fn site(&self, direction: Direction, position: u8, port: &'a BngPort) -> Option<(&'a Schedulers, Site<'a>)> {
        let (all, user) = self.shaped.filter(|(all, _)| port.side == Side::Access && all.shape(direction))?;
        let Running { name, subscribers, .. } = self.running;
        Some((all, Site { direction, function: name, port: &port.name, position, subscribers, user }))
    }

    /// Wires what goes to customers by a port, through a scheduler if it is shaped.
    fn wire_to_customers(&mut self, position: u8, port: &'a BngPort, copies: &[Copy]) {
        let (way, out) = (format!("port[{position}]"), To::Port(port.index));
        let shaped = self.site(Direction::Down, position, port);
        let mut shared = None;
        for copy in copies {
            let mut next = out;
            if let Some((all, site)) = &shaped {
                let shape = if self.arrangement.has_own_schedulers() {
                    all.add_shaper(&mut self.graph, site, copy.owner, copy.place, out)
                } else {
                    shared = shared.or_else(|| all.add_shaper(&mut self.graph, site, 0, self.arrangement.exit(), out));
                    shared
                };
                let ways = [shape.map_or(out, To::Stage), out];
                let own = Own::of(copy.owner);
                next = To::Stage(all.add_identify(&mut self.graph, site, own, copy.place, ways));
            }
            for stage in [copy.down, copy.six_down] {
                self.graph.wire(stage, &way, next);
            }
        }
    }

    /// Where packets from customers come in by a port: at a scheduler if they are shaped, and at a balancer if somebody balances.
    fn first_up(&mut self, position: u8, port: &'a BngPort, copies: &[Copy], up: NodeId) -> NodeId {
        let Some((all, site)) = self.site(Direction::Up, position, port) else { return up };
        let mut before = |scheduler: u8, own: Own, place: Place, next: To| {
            let shape = all.add_shaper(&mut self.graph, &site, scheduler, place, next).map_or(next, To::Stage);
            all.add_identify(&mut self.graph, &site, own, place, [shape, next])
        };
        if !self.arrangement.has_own_schedulers() {
            // The port's rate is one: shaped first, then balanced.
            return before(0, Own::ALL, self.arrangement.entrance(), To::Stage(up));
        }
        let own = |copy: &Copy| before(copy.owner, Own::of(copy.owner), copy.place, To::Stage(copy.up));
        let owners: Vec<NodeId> = copies.iter().map(own).collect();
        self.before_up(&format!("balance-up.{}", port.name), owners.into_iter())
    }
}

/// Wires all ways of a stage to the slow path, but that of IPv6.
fn punts<W: Ways>(graph: &mut Graph, from: NodeId, control: NodeId) {
    for way in W::LIST.iter().filter(|way| way.fate == weir_stage::Fate::Way && way.name != "ipv6") {
        graph.wire(from, way.name, To::Stage(control));
    }
}
