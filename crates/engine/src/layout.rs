//! From graphs and the workers they are placed on to a plan for each worker: wires that cross workers become links.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use weir_mem::ring;
use weir_packet::{Held, LaneSet};
use weir_stage::{Declaration, Fate, Graph, GraphError, Place, Rx, Stage, To, Tx};

use crate::demultiplex::Demultiplexer;
use crate::hop::{Beyond, JointHop};
use crate::joints::{JointEnd, Joints};
use crate::link::LINK_ROOM;
use crate::moving::TxQueue;
use crate::node::Exit;
use crate::plan::{Entry, PlanLink, PlanSink, PlanSource, PlanStage, WorkerPlan};

/// One port of a [`Blueprint`]: its queues, each with the worker that owns it.
pub struct PortPart {
    /// Its name.
    pub name: String,
    /// Its index, by which graphs refer to it.
    pub index: u16,
    /// Receive queues: owner, and the queue itself unless the owner has it already.
    pub rx: Vec<(usize, Option<Box<dyn Rx>>)>,
    /// Transmit queues: owner, and the queue itself unless the owner has it already. At least one; workers without a queue
    /// of their own send over a link to the owner of the first.
    pub tx: Vec<(usize, Option<Box<dyn Tx>>)>,
}

/// One graph of a [`Blueprint`], once per replica.
pub struct GraphPart {
    /// The stages.
    pub graph: Graph,
    /// Which of the replicas of its function it is, from 0.
    pub replica: usize,
    /// The worker of each section; stages of later sections run on the last.
    pub workers: Vec<usize>,
    /// Whether this replica's entries are fed by the receive queues of the worker that has its first section.
    pub receives: bool,
    /// Names of stages that stay as they are if they run already; all others are replaced.
    pub keep: HashSet<String>,
}

/// What spreads what receive queues give over the replicas of a graph: a stage for each way into the graph.
pub struct Distributor {
    /// The name of the stage; where there are several, that of a port that it serves is added.
    pub name: String,
    /// Makes the stage: indexed ways, one per replica.
    pub stage: Box<dyn Fn() -> Box<dyn Stage>>,
    /// The worker it runs on, which owns the receive queues.
    pub worker: usize,
    /// The graphs, as positions in [`Blueprint::graphs`], in the order of the ways.
    pub replicas: Vec<usize>,
    /// Whether a stage of this name that runs already stays.
    pub keep: bool,
}

/// Everything that is to run.
#[derive(Default)]
pub struct Blueprint {
    /// Data-path workers; the control side comes after them.
    pub workers: usize,
    /// Ports.
    pub ports: Vec<PortPart>,
    /// Joints: two ports each that lead to each other inside the process.
    pub joints: Vec<(JointEnd, JointEnd)>,
    /// Graphs.
    pub graphs: Vec<GraphPart>,
    /// The thread of the control side that the stages of a graph stand on there, from 0 on, by the position of the graph; those that are not named
    /// have the first one, as those have that name one that there is not. Replicas of a graph have the same.
    pub controls: HashMap<usize, usize>,
    /// Distributors.
    pub distributors: Vec<Distributor>,
    /// What parts the packets of ports among functions that share them.
    pub demultiplexers: Vec<Demultiplexer>,
    /// Whether links between data-path workers drop what finds them full; else their producers stop receiving.
    pub links_drop: bool,
}

/// Where a target lies once all graphs are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Goal {
    Stage(usize),
    Port(u16),
    /// Over a joint, from the port `out` to the port `into`, whose packets enter at the stage `at`.
    JointHop {
        out: u16,
        into: u16,
        at: Option<usize>,
    },
}

pub(crate) struct Placed {
    name: String,
    stage: Box<dyn Stage>,
    pub(crate) declaration: Declaration,
    pub(crate) worker: usize,
    pub(crate) replica: usize,
    keep: bool,
    pub(crate) goals: Vec<Option<Goal>>,
}

/// What crosses from one worker to another: a link for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Crossing {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) goal: Goal,
}

/// Where packets of a port enter a graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inlet {
    /// The index of the port.
    pub(crate) port: u16,
    /// The worker that receives.
    pub(crate) worker: usize,
    /// The stage.
    pub(crate) at: usize,
    /// The graph, one of several where they are distributed.
    pub(crate) graph: usize,
}

pub(crate) struct Layout<'a> {
    pub(crate) placed: Vec<Placed>,
    pub(crate) inlets: Vec<Inlet>,
    pub(crate) joints: Joints,
    /// Hops, from stage to stage, that are taken in the next loop.
    pub(crate) waiting: HashSet<(usize, usize)>,
    /// Hops to other workers whose links drop what finds them full.
    pub(crate) dropping: HashSet<Crossing>,
    ports: HashMap<u16, (String, Vec<usize>)>,
    pub(crate) workers: usize,
    /// Threads of the control side, which come after the workers.
    controls: usize,
    /// The workers' names: each keeps its own, whatever others come, and so do links.
    names: &'a [String],
    links_drop: bool,
    /// Links that exist already, with what goes over them.
    known_links: &'a HashMap<String, LaneSet>,
}

/// What a layout made: plans for the workers, the control side's last, and all links with what goes over them.
pub(crate) struct LayoutPlan {
    pub(crate) plans: Vec<WorkerPlan>,
    /// Receive queues of ports whose packets no graph wants, with the names of the ports; `None` where somebody has it already.
    pub(crate) idle: Vec<(String, Option<Box<dyn Rx>>)>,
    pub(crate) links: HashMap<String, LaneSet>,
}

/// Makes the plans of all workers, which are called `names`.
pub(crate) fn lay_out(
    blueprint: Blueprint,
    names: &[String],
    known_links: &HashMap<String, LaneSet>,
) -> Result<LayoutPlan, GraphError> {
    let ports = blueprint.ports.iter();
    let ports = ports
        .map(|port| (port.index, (port.name.clone(), port.tx.iter().map(|(owner, _)| *owner).collect())))
        .collect();
    let (workers, links_drop) = (blueprint.workers, blueprint.links_drop);
    let mut layout = Layout {
        placed: Vec::new(),
        inlets: Vec::new(),
        joints: Joints::new(&blueprint.joints),
        waiting: HashSet::new(),
        dropping: HashSet::new(),
        ports,
        workers,
        controls: names.len().saturating_sub(workers).max(1),
        names,
        links_drop,
        known_links,
    };
    let distributed: HashSet<usize> = blueprint.distributors.iter().flat_map(|d| d.replicas.clone()).collect();
    let mut graph_entries = Vec::new();
    for (at, part) in blueprint.graphs.into_iter().enumerate() {
        let thread = blueprint.controls.get(&at).copied().filter(|thread| *thread < layout.controls).unwrap_or(0);
        graph_entries.push(layout.place(part, (at, workers + thread), distributed.contains(&at))?);
    }
    for distributor in blueprint.distributors {
        layout.distribute(distributor, &graph_entries);
    }
    blueprint.demultiplexers.iter().for_each(|demultiplexer| layout.demultiplex(demultiplexer));
    layout.join();
    layout.check_rings()?;
    Ok(layout.into_plans(blueprint.ports))
}

impl Layout<'_> {
    /// Adds the stages of one replica, of the control side to its thread `control`. Stages of the control side exist once, however many replicas lead to
    /// them.
    fn place(
        &mut self,
        part: GraphPart,
        (graph, control): (usize, usize),
        distributed: bool,
    ) -> Result<Vec<(u16, usize)>, GraphError> {
        let order = part.graph.check()?;
        let replica = part.replica;
        let (nodes, entries) = part.graph.into_parts();
        let mut position = vec![0; nodes.len()];
        let mut at_control: HashMap<String, usize> = HashMap::new();
        for (at, placed) in self.placed.iter().enumerate().filter(|(_, placed)| placed.worker == control) {
            at_control.insert(placed.name.clone(), at);
        }
        let mut slots: Vec<Option<weir_stage::graph::Node>> = nodes.into_iter().map(Some).collect();
        let mut fresh = Vec::new();
        for id in order {
            let Some(node) = slots.get_mut(id.0).and_then(Option::take) else { continue };
            let worker = match node.place {
                Place::Control => control,
                Place::Worker { section } => {
                    part.workers.get(section as usize).or(part.workers.last()).copied().unwrap_or(0)
                }
            };
            let existing = at_control.get(&node.name).copied().filter(|_| node.place == Place::Control);
            let place = existing.unwrap_or(self.placed.len());
            if let Some(slot) = position.get_mut(id.0) {
                *slot = place;
            }
            if existing.is_none() {
                fresh.push((place, node.targets));
                let keep = part.keep.contains(&node.name);
                let goals = Vec::new();
                let (name, stage, declaration) = (node.name, node.stage, node.declaration);
                self.placed.push(Placed { name, stage, declaration, worker, replica, keep, goals });
            }
        }
        let goal = |to: &Option<To>| match to {
            Some(To::Stage(id)) => position.get(id.0).copied().map(Goal::Stage),
            Some(To::Port(port)) => Some(Goal::Port(*port)),
            None => None,
        };
        for (place, targets) in fresh {
            if let Some(placed) = self.placed.get_mut(place) {
                placed.goals = targets.iter().map(goal).collect();
            }
        }
        let entries: Vec<(u16, usize)> =
            entries.into_iter().filter_map(|(port, id)| Some((port, *position.get(id.0)?))).collect();
        if part.receives && !distributed {
            let worker = part.workers.first().copied().unwrap_or(0);
            self.inlets.extend(entries.iter().map(|&(port, at)| Inlet { port, worker, at, graph }));
        }
        Ok(entries)
    }

    /// Puts distributors in front of replicas, one for all ports whose packets enter by the same stages.
    fn distribute(&mut self, distributor: Distributor, graph_entries: &[Vec<(u16, usize)>]) {
        let replicas: Vec<&[(u16, usize)]> =
            distributor.replicas.iter().filter_map(|replica| graph_entries.get(*replica)).map(Vec::as_slice).collect();
        let entry =
            |replica: &[(u16, usize)], port| replica.iter().find(|&&(other, _)| other == port).map(|&(_, at)| at);
        let mut ways_in: BTreeMap<Vec<Option<usize>>, Vec<u16>> = BTreeMap::new();
        for port in replicas.iter().copied().flatten().map(|&(port, _)| port).collect::<BTreeSet<u16>>() {
            ways_in.entry(replicas.iter().map(|replica| entry(replica, port)).collect()).or_default().push(port);
        }
        let is_alone = ways_in.len() == 1;
        for (entries, ports) in ways_in {
            let port = ports.first().and_then(|port| self.ports.get(port)).map_or("", |(name, _)| name);
            let name = if is_alone { distributor.name.clone() } else { format!("{}.{port}", distributor.name) };
            self.spread(name, &distributor, &entries, &ports);
        }
    }

    /// Puts a stage before what packets of these ports enter replicas by: way `n` leads to replica `n`.
    fn spread(&mut self, name: String, distributor: &Distributor, entries: &[Option<usize>], ports: &[u16]) {
        let goals = entries.iter().map(|entry| entry.map(Goal::Stage)).collect();
        let (worker, graph) = (distributor.worker, distributor.replicas.first().copied().unwrap_or(0));
        let at = self.put_before(name, (distributor.stage)(), goals, (worker, 0), distributor.keep);
        self.inlets.extend(ports.iter().map(|&port| Inlet { port, worker, at, graph }));
    }

    /// Places a stage on a worker, as that of a replica, whose indexed ways lead to these goals, and its first way to the first.
    pub(crate) fn put_before(
        &mut self,
        name: String,
        stage: Box<dyn Stage>,
        to: Vec<Option<Goal>>,
        (worker, replica): (usize, usize),
        keep: bool,
    ) -> usize {
        let declaration = stage.declare();
        let fixed = declaration.ways.len();
        let mut goals = vec![None; declaration.codes()];
        if let (Some(straight), Some(first)) = (goals.first_mut(), to.first()) {
            *straight = *first;
        }
        goals.iter_mut().skip(fixed).zip(to).for_each(|(goal, to)| *goal = to);
        self.placed.push(Placed { name, stage, declaration, worker, replica, keep, goals });
        self.placed.len() - 1
    }

    /// Where a stage's goal is reached from its worker: there, or over a crossing.
    fn crossing(&self, from: usize, goal: Goal) -> Option<Crossing> {
        let to = match goal {
            Goal::Stage(at) | Goal::JointHop { at: Some(at), .. } => self.placed.get(at).map(|placed| placed.worker),
            Goal::JointHop { at: None, .. } => None,
            Goal::Port(port) => {
                let owners = &self.ports.get(&port)?.1;
                if owners.contains(&from) { Some(from) } else { owners.first().copied() }
            }
        }?;
        (to != from).then_some(Crossing { from, to, goal })
    }

    pub(crate) fn crossings(&self) -> Vec<Crossing> {
        let mut found = Vec::new();
        for placed in &self.placed {
            for goal in placed.goals.iter().flatten() {
                if let Some(crossing) = self.crossing(placed.worker, *goal)
                    && !found.contains(&crossing)
                {
                    found.push(crossing);
                }
            }
        }
        // Packets received by one worker for a graph whose first stage is another's.
        for inlet in &self.inlets {
            if let Some(crossing) = self.crossing(inlet.worker, Goal::Stage(inlet.at))
                && !found.contains(&crossing)
            {
                found.push(crossing);
            }
        }
        found
    }

    /// Links to and from the control side drop when they are full: it must neither stop the data path nor be stopped by it.
    pub(crate) fn may_drop(&self, crossing: &Crossing) -> bool {
        let with_control = crossing.from >= self.workers || crossing.to >= self.workers;
        self.links_drop || with_control || self.dropping.contains(crossing)
    }

    pub(crate) fn worker_name(&self, worker: usize) -> &str {
        self.names.get(worker).map_or("control", String::as_str)
    }

    fn link_name(&self, crossing: &Crossing) -> String {
        let goal = match crossing.goal {
            Goal::Stage(at) => self.placed.get(at).map_or("", |placed| placed.name.as_str()).to_owned(),
            Goal::Port(port) => format!("port {}", self.ports.get(&port).map_or("", |(name, _)| name.as_str())),
            Goal::JointHop { out, into, .. } => format!("joint {} {}", self.joints.name(out), self.joints.name(into)),
        };
        format!("{} -> {}: {goal}", self.worker_name(crossing.from), self.worker_name(crossing.to))
    }

    fn into_plans(self, ports: Vec<PortPart>) -> LayoutPlan {
        let crossings = self.crossings();
        let mut plans: Vec<WorkerPlan> = (0..self.workers + self.controls).map(|_| WorkerPlan::default()).collect();
        let local = self.local_positions();
        let position = |at: usize| local.get(at).copied().unwrap_or(0);
        let mut idle = Vec::new();
        let names = ports.iter().map(|port| (port.name.clone(), port.index));
        let names: HashMap<String, u16> = names.chain(self.joints.names()).collect();
        plans.iter_mut().for_each(|plan| plan.ports.clone_from(&names));
        let mut transmit_queues: HashMap<(usize, u16), u16> = HashMap::new();
        let mut entries: HashMap<u16, Vec<(usize, usize)>> = HashMap::new();
        for inlet in &self.inlets {
            entries.entry(inlet.port).or_default().push((inlet.worker, inlet.at));
        }
        for port in ports {
            for (owner, tx) in port.tx {
                let Some(plan) = plans.get_mut(owner) else { continue };
                transmit_queues.insert((owner, port.index), plan.transmit_queues.len() as u16);
                let queue = tx.map(TxQueue::fresh);
                plan.transmit_queues.push(PlanSink { name: port.name.clone(), port: port.index, queue });
            }
            for (owner, rx) in port.rx {
                let entry =
                    entries.get(&port.index).and_then(|list| list.iter().find(|(receiver, _)| *receiver == owner));
                let (Some(&(_, at)), Some(plan)) = (entry, plans.get_mut(owner)) else {
                    idle.push((port.name.clone(), rx));
                    continue;
                };
                let entry = position(at);
                plan.sources.push(PlanSource::Port { name: port.name.clone(), port: port.index, rx, entry });
            }
        }
        let mut link_positions: HashMap<Crossing, u16> = HashMap::new();
        let mut links = HashMap::new();
        let read = self.lanes_read();
        for crossing in &crossings {
            let name = self.link_name(crossing);
            let wanted = crossing.lanes(&read);
            // What is in a link has the lanes that went over it so far: one over which more are to go is another link.
            let known = self.known_links.get(&name).filter(|lanes| wanted.without(**lanes).is_empty());
            let lanes = known.copied().unwrap_or(wanted);
            let (producer, consumer) = if known.is_some() {
                (None, None)
            } else {
                let (producer, consumer) = ring::<Held>(LINK_ROOM);
                (Some(producer), Some(consumer))
            };
            let entry = match crossing.goal {
                Goal::Stage(at) => Entry::Stage(position(at)),
                Goal::JointHop { at, .. } => Entry::Stage(at.map_or(0, position)),
                Goal::Port(port) => {
                    Entry::TransmitQueue(transmit_queues.get(&(crossing.to, port)).copied().unwrap_or(0))
                }
            };
            if let Some(plan) = plans.get_mut(crossing.from) {
                link_positions.insert(*crossing, plan.links.len() as u16);
                let may_drop = self.may_drop(crossing);
                plan.links.push(PlanLink { name: name.clone(), to: crossing.to, producer, may_drop, lanes });
            }
            if let Some(plan) = plans.get_mut(crossing.to) {
                plan.sources.push(PlanSource::Link { name: name.clone(), consumer, entry, lanes });
            }
            links.insert(name, lanes);
        }
        let mut exits = Vec::with_capacity(self.placed.len());
        for (from, placed) in self.placed.iter().enumerate() {
            let mut exit = |(code, goal): (usize, &Option<Goal>)| {
                let Some(goal) = *goal else { return Exit::End };
                let link = self.crossing(placed.worker, goal).map(|crossing| link_positions.get(&crossing).copied());
                match goal {
                    Goal::JointHop { out, into, at } => {
                        let beyond = match (link, at) {
                            (Some(link), _) => link.map_or(Beyond::Nowhere, Beyond::Link),
                            (None, None) => Beyond::Nowhere,
                            (None, Some(at)) if self.waiting.contains(&(from, at)) => Beyond::Again(position(at)),
                            (None, Some(at)) => Beyond::Stage(position(at)),
                        };
                        plans.get_mut(placed.worker).map_or(Exit::End, |plan| self.hop(out, into, beyond, plan))
                    }
                    _ if link.is_some() => link.flatten().map_or(Exit::End, Exit::Link),
                    Goal::Port(port) => {
                        transmit_queues.get(&(placed.worker, port)).map_or(Exit::End, |&at| Exit::TransmitQueue(at))
                    }
                    Goal::Stage(at) if placed.declaration.fate_of(code) == Fate::Again => Exit::Again(position(at)),
                    Goal::Stage(at) => Exit::Stage(position(at)),
                }
            };
            exits.push(placed.goals.iter().enumerate().map(&mut exit).collect());
        }
        let behind: Vec<LaneSet> =
            self.placed.iter().enumerate().map(|(at, placed)| self.lanes_read_behind(at, placed, &read)).collect();
        for (at, (placed, exits)) in self.in_order(exits) {
            debug_assert!(local.get(at).is_some());
            let behind = behind.get(at).copied().unwrap_or(LaneSet::ALL);
            if let Some(plan) = plans.get_mut(placed.worker) {
                let Placed { name, stage, declaration, keep, .. } = placed;
                plan.stages.push(PlanStage { name, stage, declaration, exits, behind, keep });
            }
        }
        LayoutPlan { plans, idle, links }
    }

    /// The exit of a hop on a worker, made there unless it is there already.
    fn hop(&self, out: u16, into: u16, beyond: Beyond, plan: &mut WorkerPlan) -> Exit {
        let known = plan.hops.iter().position(|hop| (hop.out.1, hop.beyond) == (out, beyond));
        let at = known.unwrap_or_else(|| {
            let end = |port| (self.joints.name(port), port);
            plan.hops.push(JointHop::new(end(out), end(into), beyond));
            plan.hops.len() - 1
        });
        Exit::JointHop(at as u16)
    }

    /// Each stage's position on its worker.
    fn local_positions(&self) -> Vec<u16> {
        let mut next = vec![0_u16; self.workers + self.controls];
        let mut local = vec![0; self.placed.len()];
        for at in self.order() {
            let Some(placed) = self.placed.get(at) else { continue };
            if let (Some(next), Some(slot)) = (next.get_mut(placed.worker), local.get_mut(at)) {
                *slot = *next;
                *next += 1;
            }
        }
        local
    }

    fn in_order(self, exits: Vec<Vec<Exit>>) -> Vec<(usize, (Placed, Vec<Exit>))> {
        let order = self.order();
        let mut parts: Vec<Option<(Placed, Vec<Exit>)>> = self.placed.into_iter().zip(exits).map(Some).collect();
        order.into_iter().filter_map(|at| Some((at, parts.get_mut(at)?.take()?))).collect()
    }
}
