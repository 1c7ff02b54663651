//! The graph of a gateway: its stages on each worker, and the wires between them.
//!
//! ```text
//!  access -> [sample] -> [condition] -> [balance-up] -> up, six-up ----------------------------> core
//!  core -> [core.sample] -> [core.untag -> balance-down] -> down, six-down -> [condition] -> access
//!
//!  condition: [limit] -> identify -> [police] -> [remark] -> [shape]
//! ```
//!
//! Where one scheduler shapes both directions, both conditions have the same `shape`, behind which `fork` tells them apart.
//!
//! With plain IP, `up` and `six-up` lead to access ports, too, for what customers send each other, by the same way as `down`; and what routes of the
//! network layer lead to customers comes by the stage `led` to `down`.
//!
//! What comes from the core for the gateway itself goes to the network layer's stages `core.tag`, `core.forward` and `core.control`, and to `core.forward` what
//! comes by interfaces beside customers' lines. What stands in brackets is there where somebody balances, samples, limits, polices, remarks, or shapes. Workers that share the subscribers have a copy each of the stages between
//! balancers and ports, in a section of its own.

use std::collections::HashMap;
use std::sync::Arc;

use weir_ip::{Doors, Punt, PuntReason, Stages};
use weir_packet::Key;
use weir_sched::fork::{self, Fork};
use weir_sched::{limit, police, remark, shaper};
use weir_stage::ownership::balance::{MakeBalancer, Spec};
use weir_stage::ownership::{Arrangement, Own};
use weir_stage::{Declaration, Graph, GraphError, NodeId, Place, Stage, To, Ways};

use crate::config::{BngConfig, CoreEncapsulation};
use crate::led::Led;
use crate::ports::{BngPort, Ports, Side};
use crate::qos::{self, Direction};
use crate::round::Round;
use crate::running::Running;
use crate::{balance, control, downstream, identify, led, lines, round, six, upstream};

/// What the graph of a gateway is drawn from.
#[derive(Clone)]
pub(crate) struct Shape {
    pub(crate) name: String,
    pub(crate) config: Arc<BngConfig>,
    pub(crate) ports: Arc<Ports>,
    /// What runs on which worker.
    pub(crate) arrangement: Arrangement,
    /// The stages of the network layer.
    pub(crate) layer: weir_ip::Stages,
}

/// The stages of one owner.
struct Copy {
    owner: u8,
    place: Place,
    up: NodeId,
    six_up: NodeId,
    down: NodeId,
    six_down: NodeId,
}

impl Copy {
    /// All of them.
    fn every(&self) -> [NodeId; 4] {
        [self.up, self.six_up, self.down, self.six_down]
    }
}

/// A graph while it is drawn, of a gateway that runs or to be looked at.
struct Drawing<'a> {
    shape: &'a Shape,
    running: Option<&'a Running>,
    graph: Graph,
    /// Why packets go to the slow path, as workers write it, and as the slow path reads it.
    kind: Key<PuntReason>,
    punt: Key<Punt>,
    /// The lane of users, where something is shaped, policed or remarked.
    user: Option<Key<u32>>,
    /// Schedulers of both directions, by position of the access port and their numbers, and what stands behind them.
    both: HashMap<(u8, u8), [NodeId; 2]>,
}

/// Where packets are shaped, policed or remarked.
#[derive(Clone, Copy)]
struct Site<'a> {
    direction: Direction,
    /// Name of the access port.
    port: &'a str,
    /// Its position.
    position: u8,
    /// The lane of users.
    user: Key<u32>,
}

/// Whose subscribers' packets come to a stage.
#[derive(Clone, Copy)]
struct Owner {
    /// Its number.
    number: u8,
    /// The words of its users.
    own: Own,
    /// How many owners there are.
    of: usize,
}

/// Makes a balancer of a gateway that runs.
type Make = fn(&Running, MakeBalancer) -> Box<dyn Stage>;

impl Shape {
    /// Whether packets go in tunnels towards the core.
    pub(crate) fn is_tunnel(&self) -> bool {
        self.config.core_encapsulation == CoreEncapsulation::GreMpls
    }

    /// The graph of a gateway that runs, or one to be looked at.
    pub(crate) fn draw(&self, running: Option<&Running>) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let (kind, punt) = (Stages::kind(&mut graph)?, Stages::kind(&mut graph)?);
        let user = qos::conditions_any(&self.config.qos).then(|| graph.claim("user")).transpose()?;
        let mut drawing = Drawing { shape: self, running, graph, kind, punt, user, both: HashMap::new() };
        let copies: Result<Vec<Copy>, GraphError> =
            self.arrangement.sections().map(|(owner, place)| drawing.copy(owner, place)).collect();
        let control = drawing.control()?;
        let doors = self.layer.add_behind(&mut drawing.graph, running.map(|running| &running.layer))?;
        let lines = drawing.lines(control, doors)?;
        drawing.wire(&copies?, [control, lines], doors)?;
        Ok(drawing.graph)
    }

    fn stage(&self, stage: &str) -> String {
        format!("{}.{stage}", self.name)
    }
}

impl<'a> Drawing<'a> {
    fn copy(&mut self, owner: u8, place: Place) -> Result<Copy, GraphError> {
        let (shape, kind, ports) = (self.shape, self.kind, self.shape.ports.list().len());
        let owned = self.running.map(|running| running.owned(owner)).transpose()?;
        let (graph, owned) = (&mut self.graph, owned.as_ref());
        // Where somebody balances, tags are taken off before.
        let untagged = if shape.arrangement.is_balanced() { None } else { Some(Stages::tags(graph)?) };
        let declared = upstream::declaration(ports, kind);
        let up = graph.add_of(shape.stage("up"), declared, place, owned, |owned| owned.up(kind))?;
        let declared = downstream::declaration(ports, kind, untagged);
        let down = graph.add_of(shape.stage("down"), declared, place, owned, |owned| owned.down(kind, untagged))?;
        let mut six = |name| {
            let declared = six::declaration(ports, kind);
            graph.add_of(shape.stage(name), declared, place, owned, |owned| owned.six(kind))
        };
        let (six_up, six_down) = (six("six-up")?, six("six-down")?);
        Ok(Copy { owner, place, up, six_up, down, six_down })
    }

    fn control(&mut self) -> Result<NodeId, GraphError> {
        let kind = self.punt;
        let declared = control::declaration(self.shape.ports.list().len(), kind);
        let name = self.shape.stage("control");
        self.graph.add_of(name, declared, Place::Control, self.running, |running| running.slow_path(kind))
    }

    /// The end of the slow path, behind `control` and the network layer's.
    fn lines(&mut self, control: NodeId, doors: Doors) -> Result<NodeId, GraphError> {
        let kind = self.punt;
        let declared = lines::declaration(self.shape.ports.list().len(), kind);
        let name = self.shape.stage("lines");
        let lines = self.graph.add_of(name, declared, Place::Control, self.running, |running| running.lines(kind))?;
        self.graph.wire(control, "layer", To::Stage(doors.slow));
        self.graph.wire(control, "lines", To::Stage(lines));
        self.graph.wire(doors.slow, "line", To::Stage(lines));
        Ok(lines)
    }

    fn wire(&mut self, copies: &[Copy], [control, lines]: [NodeId; 2], doors: Doors) -> Result<(), GraphError> {
        for copy in copies {
            let graph = &mut self.graph;
            punts::<upstream::Exit>(graph, copy.up, |way| if way == "interface" { doors.layer } else { control });
            // What is for the gateway itself on the core side is the network layer's.
            let whose = |way: &str| match way {
                "arp" | "local" => doors.tag,
                "layer" => doors.layer,
                _ => control,
            };
            punts::<downstream::Exit>(graph, copy.down, whose);
            punts::<six::Exit>(graph, copy.six_up, |_| control);
            // In a tunnel nothing of it listens.
            let is_tunnel = self.shape.is_tunnel();
            punts::<six::Exit>(graph, copy.six_down, |way| if is_tunnel { control } else { whose(way) });
            for (from, six) in [(copy.up, copy.six_up), (copy.down, copy.six_down)] {
                self.graph.wire(from, "ipv6", To::Stage(six));
            }
        }
        let up = self.before_up("balance-up", copies.iter().map(|copy| copy.up))?;
        let owners = copies.iter().map(|copy| copy.down);
        let down = self.balanced("balance-down", Running::balance_down, owners)?;
        self.led(down, doors)?;
        let from_core = self.before_down(down, doors)?;
        let (entrance, layer) = (self.shape.arrangement.entrance(), self.running.map(|running| &running.layer));
        let from_core = self.shape.layer.add_sampler(&mut self.graph, entrance, layer, from_core)?;
        let mut sampled = None;
        self.graph.wire(control, "up", To::Stage(up));
        self.graph.wire(control, "down", To::Stage(down));
        self.graph.wire(lines, "down", To::Stage(down));
        let ports = &self.shape.ports;
        for (position, port) in (0_u8..).zip(ports.list()) {
            let way = format!("port[{position}]");
            let out = To::Port(port.index);
            [control, lines].into_iter().for_each(|stage| self.graph.wire(stage, &way, out));
            if port.side == Side::Core {
                copies.iter().flat_map(|copy| copy.every()).for_each(|stage| self.graph.wire(stage, &way, out));
            }
            let first = match port.side {
                Side::Access => {
                    self.wire_to_customers(position, port, copies)?;
                    let first = self.first_up(position, port, copies, up)?;
                    self.sampled(port, (first, up), &mut sampled)?
                }
                Side::Core => from_core,
            };
            self.graph.receive(port.index, first);
        }
        Ok(())
    }

    /// A balancer of packets from customers before these stages of the owners, in their order; the stage itself if there is one owner only.
    fn before_up(&mut self, name: &str, owners: impl Iterator<Item = NodeId>) -> Result<NodeId, GraphError> {
        self.balanced(name, Running::balance_up, owners)
    }

    /// Where packets go that routes lead to customers, on to the `down` stages.
    fn led(&mut self, down: NodeId, doors: Doors) -> Result<(), GraphError> {
        if self.shape.is_tunnel() {
            return Ok(());
        }
        let make = |_: &Running| Ok(Box::new(Led) as Box<dyn Stage>);
        let led = self.graph.add_of(self.shape.stage("led"), led::declaration(), Place::Control, self.running, make)?;
        self.graph.wire(led, "down", To::Stage(down));
        [doors.forward, doors.slow].into_iter().for_each(|from| self.graph.wire(from, "function", To::Stage(led)));
        Ok(())
    }

    /// Where packets from the core come in: a balancer tells them apart by what is behind tags.
    fn before_down(&mut self, down: NodeId, doors: Doors) -> Result<NodeId, GraphError> {
        let arrangement = self.shape.arrangement;
        if !arrangement.is_balanced() {
            return Ok(down);
        }
        let layer = self.running.map(|running| &running.layer);
        self.shape.layer.add_untag(&mut self.graph, arrangement.entrance(), layer, (down, doors))
    }

    fn balanced(&mut self, name: &str, make: Make, owners: impl Iterator<Item = NodeId>) -> Result<NodeId, GraphError> {
        let spec = Spec { name: self.shape.stage(name), reads: balance::READS, tables: self.running };
        let owners: Vec<NodeId> = owners.collect();
        let make = |running: &Running, maker| Ok(make(running, maker));
        self.shape.arrangement.balance(&mut self.graph, spec, &owners, make)
    }

    fn site(&self, direction: Direction, position: u8, port: &'a BngPort) -> Option<Site<'a>> {
        let is_conditioned = port.side == Side::Access && qos::conditions(&self.shape.config.qos, direction);
        let user = self.user.filter(|_| is_conditioned)?;
        Some(Site { direction, port: &port.name, position, user })
    }

    /// Adds a stage of a site.
    fn add_at(
        &mut self,
        what: &str,
        site: Site<'_>,
        declared: Declaration,
        place: Place,
        make: impl FnOnce(&Running) -> Result<Box<dyn Stage>, GraphError>,
    ) -> Result<NodeId, GraphError> {
        let name = self.shape.stage(&format!("{what}-{}.{}", site.direction.name(), site.port));
        self.graph.add_of(name, declared, place, self.running, make)
    }

    /// Adds a scheduler of a port, by its number among those that the port's users are divided among; answers what comes next where nothing is shaped.
    fn add_shaper(&mut self, site: Site<'_>, scheduler: u8, place: Place, next: To) -> Result<To, GraphError> {
        let Site { direction, position, user, .. } = site;
        if !qos::shapes(&self.shape.config.qos, direction) {
            return Ok(next);
        }
        if self.shape.config.qos.both.is_some() {
            let [shape, fork] = self.add_both(site, scheduler, place)?;
            let way = match direction {
                Direction::Up => "back",
                Direction::Down => "forth",
            };
            self.graph.wire(fork, way, next);
            return Ok(To::Stage(shape));
        }
        let declared = shaper::declaration(user);
        let make = |running: &Running| running.shaper(direction, position, scheduler, user);
        let shape = self.add_at("shape", site, declared, place, make)?;
        self.graph.wire(shape, "out", next);
        Ok(To::Stage(shape))
    }

    /// Adds a scheduler of a port for both directions, and what tells them apart behind it, unless they are there already.
    fn add_both(&mut self, site: Site<'_>, scheduler: u8, place: Place) -> Result<[NodeId; 2], GraphError> {
        let Site { direction, position, user, port } = site;
        if let Some(added) = self.both.get(&(position, scheduler)) {
            return Ok(*added);
        }
        let name = self.shape.stage(&format!("shape-both.{port}"));
        let make = |running: &Running| running.shaper(direction, position, scheduler, user);
        let shape = self.graph.add_of(name, shaper::declaration(user), place, self.running, make)?;
        let far = self.shape.ports.egress(position).index;
        let make = |_: &Running| Ok(Box::new(Fork { far }) as Box<dyn Stage>);
        let name = self.shape.stage(&format!("fork.{port}"));
        let fork = self.graph.add_of(name, fork::declaration(), place, self.running, make)?;
        self.graph.wire(shape, "out", To::Stage(fork));
        self.both.insert((position, scheduler), [shape, fork]);
        Ok([shape, fork])
    }

    /// Where what customers send each other goes on to a stage that one scheduler for both directions is behind: it would go round in a circle.
    fn round(&mut self, port: &BngPort, place: Place, next: NodeId) -> Result<To, GraphError> {
        if self.shape.is_tunnel() {
            // Nothing does: they reach each other by their gateways.
            return Ok(To::Port(port.index));
        }
        let make = |_: &Running| Ok(Box::new(Round) as Box<dyn Stage>);
        let name = self.shape.stage(&format!("round.{}", port.name));
        let round = self.graph.add_of(name, round::declaration(), place, self.running, make)?;
        self.graph.wire(round, "again", To::Stage(next));
        self.graph.leave_open(round, "out"); // never taken
        Ok(To::Stage(round))
    }

    /// Adds what comes before a scheduler, if there is one, for the packets of an owner's subscribers; those of nobody go `past` all of it.
    fn add_conditioner(
        &mut self,
        site: Site<'_>,
        owner: Owner,
        place: Place,
        [shape, past]: [To; 2],
    ) -> Result<NodeId, GraphError> {
        let (Site { direction, position, user, .. }, Owner { number, own, of }) = (site, owner);
        let config = Arc::clone(&self.shape.config);
        let qos = &config.qos;
        let mut next = shape;
        if !qos.remark.of(direction).is_empty() {
            let make = |running: &Running| running.remark(direction);
            let remark = self.add_at("remark", site, remark::declaration(), place, make)?;
            self.graph.wire(remark, "out", next);
            next = To::Stage(remark);
        }
        if !qos.police.of(direction).is_empty() {
            let make = |running: &Running| running.police(direction, number, user);
            let police = self.add_at("police", site, police::declaration(user), place, make)?;
            self.graph.wire(police, "out", next);
            next = To::Stage(police);
        }
        let declared = identify::declaration(user);
        let identify =
            self.add_at("identify", site, declared, place, |running| running.identify(position, own, user))?;
        self.graph.wire(identify, "out", next);
        self.graph.wire(identify, "past", past);
        let Some(rate) = qos.limit else { return Ok(identify) };
        let make = |running: &Running| running.limit(rate, of);
        let limit = self.add_at("limit", site, limit::declaration(), place, make)?;
        self.graph.wire(limit, "out", To::Stage(identify));
        Ok(limit)
    }

    /// Wires what goes to customers by a port, through what is done with their packets.
    fn wire_to_customers(&mut self, position: u8, port: &'a BngPort, copies: &[Copy]) -> Result<(), GraphError> {
        let (way, out) = (format!("port[{position}]"), To::Port(port.index));
        let (conditioned, arrangement) = (self.site(Direction::Down, position, port), self.shape.arrangement);
        let mut shared = None;
        for copy in copies {
            let (mut next, mut across) = (out, out);
            if let Some(site) = conditioned {
                let shape = match shared {
                    _ if arrangement.has_own_parts() => self.add_shaper(site, copy.owner, copy.place, out)?,
                    Some(shape) => shape,
                    None => *shared.insert(self.add_shaper(site, 0, arrangement.exit(), out)?),
                };
                let owner = Owner { number: copy.owner, own: Own::of(copy.owner), of: copies.len() };
                let conditioner = self.add_conditioner(site, owner, copy.place, [shape, out])?;
                next = To::Stage(conditioner);
                across = if self.shape.config.qos.both.is_some() {
                    self.round(port, copy.place, conditioner)?
                } else {
                    next
                };
            }
            [copy.down, copy.six_down].into_iter().for_each(|stage| self.graph.wire(stage, &way, next));
            [copy.up, copy.six_up].into_iter().for_each(|stage| self.graph.wire(stage, &way, across));
        }
        Ok(())
    }

    /// Where packets from customers come in by a port: at what is done with them, and at a balancer if somebody balances.
    fn first_up(&mut self, position: u8, port: &'a BngPort, copies: &[Copy], up: NodeId) -> Result<NodeId, GraphError> {
        let Some(site) = self.site(Direction::Up, position, port) else { return Ok(up) };
        let arrangement = self.shape.arrangement;
        if !arrangement.has_own_parts() {
            // The port's rate is one: shaped first, then balanced.
            let all = Owner { number: 0, own: Own::ALL, of: 1 };
            return self.conditioned_before(site, all, arrangement.entrance(), up);
        }
        let mut owners = Vec::new();
        for copy in copies {
            let owner = Owner { number: copy.owner, own: Own::of(copy.owner), of: copies.len() };
            owners.push(self.conditioned_before(site, owner, copy.place, copy.up)?);
        }
        self.before_up(&format!("balance-up.{}", port.name), owners.into_iter())
    }

    /// Puts a stage that takes samples before the `first` one for what comes in by an access port; those where `up` is the first have one together.
    fn sampled(
        &mut self,
        port: &BngPort,
        (first, up): (NodeId, NodeId),
        common: &mut Option<NodeId>,
    ) -> Result<NodeId, GraphError> {
        let is_common = first == up;
        if let Some(sampled) = common.filter(|_| is_common) {
            return Ok(sampled);
        }
        let name = if is_common { "sample".to_owned() } else { format!("sample.{}", port.name) };
        let (at, layer) =
            ((self.shape.arrangement.entrance(), self.shape.stage(&name)), self.running.map(|one| &one.layer));
        let sampled = self.shape.layer.add_line_sampler(&mut self.graph, at, layer, first)?;
        if is_common {
            *common = Some(sampled);
        }
        Ok(sampled)
    }

    /// All that is done with an owner's packets before a stage.
    fn conditioned_before(
        &mut self,
        site: Site<'_>,
        owner: Owner,
        place: Place,
        next: NodeId,
    ) -> Result<NodeId, GraphError> {
        let next = To::Stage(next);
        let shape = self.add_shaper(site, owner.number, place, next)?;
        self.add_conditioner(site, owner, place, [shape, next])
    }
}

/// Wires all ways of a stage to the stage of a slow path `whose` they are, but that of IPv6.
fn punts<W: Ways>(graph: &mut Graph, from: NodeId, whose: impl Fn(&str) -> NodeId) {
    for way in W::LIST.iter().filter(|way| way.fate == weir_stage::Fate::Way && way.name != "ipv6") {
        graph.wire(from, way.name, To::Stage(whose(way.name)));
    }
}
