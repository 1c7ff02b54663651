//! How a worker takes a new plan: between two loops, keeping what is to stay.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;

use weir_packet::Held;

use crate::bell::Bell;
use crate::engine::is_control;
use crate::hop::JointHop;
use crate::link::LinkOut;
use crate::node::RunNode;
use crate::plan::{Leftover, PlanSource, PlanStage, WorkerPlan};
use crate::reason::Reason;
use crate::worker::{Source, Worker};

impl Worker {
    /// Runs the plan from here on. What it does not keep gives its packets up as dropped for `reload`, and its counters to
    /// the worker; the parts themselves go back to be dropped elsewhere.
    pub(crate) fn install(&mut self, plan: WorkerPlan) -> Leftover {
        let mut left = Leftover::default();
        self.waits = false;
        self.retired.keep_ports(&plan.ports);
        self.ports = plan.ports.clone();
        let again = self.again_by_name();
        self.install_sinks(&plan_sinks(&plan), &mut left);
        self.install_stages(plan.stages, &mut left);
        self.adopt_sinks(plan.transmit_queues);
        self.install_links(plan.links, &plan.bells);
        self.install_hops(plan.hops);
        self.install_sources(plan.sources, &mut left);
        self.fabric.set_stages(self.nodes.len());
        self.polled = positions(&self.nodes, |node| node.declaration.polled);
        self.must_have_room = self.fabric.links.iter().any(|link| !link.may_drop);
        self.restore_again(again);
        left
    }

    /// Packets that wait for the next loop, with the names of the stages they wait for.
    fn again_by_name(&mut self) -> Vec<(String, Held)> {
        let waiting = std::mem::take(&mut self.fabric.again);
        let name = |stage: u16| self.nodes.get(stage as usize).map_or_else(String::new, |node| node.name.clone());
        waiting.into_iter().map(|(stage, held)| (name(stage), held)).collect()
    }

    fn restore_again(&mut self, waiting: Vec<(String, Held)>) {
        for (name, held) in waiting {
            match self.nodes.iter().position(|node| node.name == name) {
                Some(stage) => self.fabric.again.push((stage as u16, held)),
                None => {
                    let packet = held.into_packet();
                    let bytes = packet.len() as u64;
                    self.fabric.pool.free(packet);
                    self.retired.dropped(&name, Reason::Reload, bytes);
                }
            }
        }
    }

    fn install_stages(&mut self, plan: Vec<PlanStage>, left: &mut Leftover) {
        let mut old: HashMap<String, RunNode> =
            std::mem::take(&mut self.nodes).into_iter().map(|node| (node.name.clone(), node)).collect();
        for part in plan {
            let mut node = match old.remove(&part.name) {
                Some(mut node) if part.keep && node.fits(&part.declaration) => {
                    if node.lacks(part.behind) {
                        node.clear(Reason::Reload, &mut self.fabric);
                    }
                    node.rewire(part.declaration, part.exits, part.behind);
                    left.stages.push(part.stage);
                    node
                }
                replaced => {
                    if let Some(node) = replaced {
                        self.retire(node, left);
                    }
                    let mut node = RunNode::new(part.name, part.stage, part.declaration, part.exits, part.behind);
                    node.stage.woken_by(&Waker::from(Arc::clone(&self.bell)));
                    node
                }
            };
            node.is_guarded = is_control(&self.id);
            self.nodes.push(node);
        }
        old.into_values().for_each(|node| self.retire(node, left));
    }

    fn retire(&mut self, mut node: RunNode, left: &mut Leftover) {
        node.clear(Reason::Reload, &mut self.fabric);
        self.retired.stage(&node);
        left.stages.push(node.stage);
    }

    /// Removes the transmit queues that do not stay, once they have handed over what they can.
    fn install_sinks(&mut self, staying: &[String], left: &mut Leftover) {
        for mut transmit_queue in std::mem::take(&mut self.fabric.transmit_queues) {
            if staying.contains(&transmit_queue.name) {
                self.fabric.transmit_queues.push(transmit_queue);
                continue;
            }
            let mut around = crate::transmit::Around {
                pool: &mut *self.fabric.pool,
                now: self.fabric.now,
                observers: &self.fabric.observers,
            };
            transmit_queue.finish(Reason::Reload, &mut around);
            self.retired.transmit_queue(&transmit_queue);
            left.tx.push(transmit_queue.tx);
        }
    }

    /// Puts the transmit queues into the order of the plan, which the exits refer to.
    fn adopt_sinks(&mut self, plan: Vec<crate::plan::PlanSink>) {
        let mut old = std::mem::take(&mut self.fabric.transmit_queues);
        for part in plan {
            if let Some(queue) = part.queue {
                let transmit_queue = self.moved_in(part.name, part.port, queue);
                self.fabric.transmit_queues.push(transmit_queue);
            } else if let Some(at) = old.iter().position(|transmit_queue| transmit_queue.name == part.name) {
                let mut transmit_queue = old.swap_remove(at);
                transmit_queue.port = part.port;
                self.fabric.transmit_queues.push(transmit_queue);
            }
        }
    }

    fn install_links(&mut self, plan: Vec<crate::plan::PlanLink>, bells: &[Arc<Bell>]) {
        let mut old = std::mem::take(&mut self.fabric.links);
        for part in plan {
            if let Some(producer) = part.producer {
                let bell = bells.get(part.to).map_or_else(|| Arc::clone(&self.bell), Arc::clone);
                self.fabric.links.push(LinkOut::new(part.name, (producer, bell), part.may_drop, part.lanes));
            } else if let Some(at) = old.iter().position(|link| link.name == part.name) {
                let mut link = old.swap_remove(at);
                link.may_drop = part.may_drop;
                self.fabric.links.push(link);
            }
        }
        for mut link in old {
            let mut around = crate::transmit::Around {
                pool: &mut *self.fabric.pool,
                now: self.fabric.now,
                observers: &self.fabric.observers,
            };
            link.drop_all(Reason::Reload, &mut around);
            self.retired.link_out(&link.name, link.packets, &link.drops);
        }
    }

    /// A hop has nothing but its figures, which the worker keeps.
    fn install_hops(&mut self, plan: Vec<JointHop>) {
        for hop in std::mem::replace(&mut self.fabric.hops, plan) {
            self.retired.hop(&hop);
        }
    }

    fn install_sources(&mut self, plan: Vec<PlanSource>, left: &mut Leftover) {
        let mut old = std::mem::take(&mut self.sources);
        for part in plan {
            let named = |name: &str| old.iter().position(|source| source.name() == name);
            match part {
                PlanSource::Port { name, port, rx: Some(rx), entry } => {
                    self.sources.push(Source::Port { name, port, rx, entry, received: Default::default() });
                }
                PlanSource::Link { name, consumer: Some(consumer), entry, lanes } => {
                    self.sources.push(Source::Link { name, consumer, entry, lanes, packets: 0 });
                }
                PlanSource::Port { name, port, rx: None, entry } => {
                    if let Some(at) = named(&name) {
                        let mut source = old.swap_remove(at);
                        if let Source::Port { port: old_port, entry: old_entry, .. } = &mut source {
                            (*old_port, *old_entry) = (port, entry);
                        }
                        self.sources.push(source);
                    }
                }
                PlanSource::Link { name, consumer: None, entry, .. } => {
                    if let Some(at) = named(&name) {
                        let mut source = old.swap_remove(at);
                        if let Source::Link { entry: old_entry, .. } = &mut source {
                            *old_entry = entry;
                        }
                        self.sources.push(source);
                    }
                }
            }
        }
        for source in old {
            match source {
                Source::Port { name, rx, received, .. } => {
                    self.retired.received(&name, received, &*rx);
                    left.rx.push(rx);
                }
                Source::Link { name, consumer, packets, .. } => {
                    self.retired.link_in(packets);
                    left.consumers.push((name, consumer));
                }
            }
        }
    }
}

impl Source {
    fn name(&self) -> &str {
        match self {
            Source::Port { name, .. } | Source::Link { name, .. } => name,
        }
    }
}

/// The transmit queues that stay: named by the plan without a new one.
fn plan_sinks(plan: &WorkerPlan) -> Vec<String> {
    plan.transmit_queues
        .iter()
        .filter(|transmit_queue| transmit_queue.queue.is_none())
        .map(|transmit_queue| transmit_queue.name.clone())
        .collect()
}

fn positions(nodes: &[RunNode], wanted: impl Fn(&RunNode) -> bool) -> Vec<usize> {
    nodes.iter().enumerate().filter(|(_, node)| wanted(node)).map(|(at, _)| at).collect()
}
