//! Queues of ports on their way from one worker to another: a queue stays open, and packets in it are not lost.
//!
//! Those who give queues up wait from then on until they have their new plan, so that nobody sends to a queue that is gone. What a
//! transmit queue had not handed over yet goes with it, and is counted as what crosses a link is.

use std::collections::{HashMap, HashSet};

use weir_packet::Burst;
use weir_stage::{Rx, Tx};

use crate::asked::Asked;
use crate::counters::Count;
use crate::engine::{ANSWER, Engine, EngineError, INSTALLED};
use crate::layout::LayoutPlan;
use crate::plan::{PlanSource, WorkerPlan};
use crate::transmit::TransmitQueue;
use crate::worker::{Source, Worker};
use crate::worker_thread::Command;

/// The ports whose queues a worker has, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) rx: HashSet<String>,
    pub(crate) tx: HashSet<String>,
}

impl Ports {
    pub(crate) fn is_empty(&self) -> bool {
        self.rx.is_empty() && self.tx.is_empty()
    }

    /// Those that a plan names, whether it brings their queues or not.
    pub(crate) fn of(plan: &WorkerPlan) -> Ports {
        let rx = plan.sources.iter().filter_map(|source| match source {
            PlanSource::Port { name, .. } => Some(name.clone()),
            PlanSource::Link { .. } => None,
        });
        Ports {
            rx: rx.collect(),
            tx: plan.transmit_queues.iter().map(|transmit_queue| transmit_queue.name.clone()).collect(),
        }
    }
}

/// A transmit queue with the packets that wait for it.
pub(crate) struct TxQueue {
    pub(crate) tx: Box<dyn Tx>,
    pub(crate) burst: Burst,
}

impl TxQueue {
    /// A queue that was just opened.
    pub(crate) fn fresh(tx: Box<dyn Tx>) -> TxQueue {
        TxQueue { tx, burst: Burst::new() }
    }
}

/// A receive queue that a worker gave up, and where it was there.
pub(crate) struct LiftedRx {
    at: usize,
    name: String,
    port: u16,
    entry: u16,
    rx: Box<dyn Rx>,
}

/// A transmit queue that a worker gave up, and where it was there.
pub(crate) struct LiftedTx {
    at: usize,
    name: String,
    port: u16,
    queue: TxQueue,
}

/// What a worker gave up.
#[derive(Default)]
pub(crate) struct Lifted {
    rx: Vec<LiftedRx>,
    tx: Vec<LiftedTx>,
}

/// What each worker has to give up so that the plans can be carried out: queues that it has, that its plan does not name, and
/// that another's plan wants without bringing them.
pub(crate) fn to_lift(plans: &[WorkerPlan], idle: &[String], have: &[Ports]) -> Vec<Ports> {
    let mut wanted = Ports { rx: idle.iter().cloned().collect(), tx: HashSet::new() };
    for plan in plans {
        wanted.rx.extend(plan.sources.iter().filter_map(|source| match source {
            PlanSource::Port { name, rx: None, .. } => Some(name.clone()),
            _ => None,
        }));
        wanted.tx.extend(
            plan.transmit_queues
                .iter()
                .filter(|transmit_queue| transmit_queue.queue.is_none())
                .map(|transmit_queue| transmit_queue.name.clone()),
        );
    }
    let lift = |(plan, have): (&WorkerPlan, &Ports)| {
        let stay = Ports::of(plan);
        let given_up = |have: &HashSet<String>, stay: &HashSet<String>, wanted: &HashSet<String>| {
            have.iter().filter(|name| !stay.contains(*name) && wanted.contains(*name)).cloned().collect()
        };
        Ports { rx: given_up(&have.rx, &stay.rx, &wanted.rx), tx: given_up(&have.tx, &stay.tx, &wanted.tx) }
    };
    plans.iter().zip(have).map(lift).collect()
}

/// Queues that no worker has: of ports whose packets no graph wants.
#[derive(Default)]
pub(crate) struct IdleQueues(HashMap<String, Vec<Box<dyn Rx>>>);

impl IdleQueues {
    /// Keeps a queue of a port.
    pub(crate) fn keep(&mut self, port: String, rx: Box<dyn Rx>) {
        self.0.entry(port).or_default().push(rx);
    }

    /// Gives the queues back of all ports but these, to be dropped.
    pub(crate) fn retain(&mut self, ports: &HashSet<String>) {
        self.0.retain(|port, _| ports.contains(port));
    }

    /// Puts queues into the plans that want them: those that were given up, and those that lay idle. What nobody wants any more
    /// lies idle from here on.
    pub(crate) fn hand_over(&mut self, lifted: Vec<Lifted>, plans: &mut [WorkerPlan], have: &[Ports]) {
        let mut tx: HashMap<String, Vec<TxQueue>> = HashMap::new();
        for lifted in lifted {
            lifted.rx.into_iter().for_each(|rx| self.keep(rx.name, rx.rx));
            lifted.tx.into_iter().for_each(|lifted| tx.entry(lifted.name).or_default().push(lifted.queue));
        }
        for (plan, have) in plans.iter_mut().zip(have) {
            for source in &mut plan.sources {
                if let PlanSource::Port { name, rx: rx @ None, .. } = source
                    && !have.rx.contains(name)
                {
                    *rx = self.0.get_mut(name).and_then(Vec::pop);
                }
            }
            for transmit_queue in plan
                .transmit_queues
                .iter_mut()
                .filter(|transmit_queue| transmit_queue.queue.is_none() && !have.tx.contains(&transmit_queue.name))
            {
                transmit_queue.queue = tx.get_mut(&transmit_queue.name).and_then(Vec::pop);
            }
        }
    }
}

impl Worker {
    /// Gives up queues, and does nothing until it has a new plan or has got them back.
    pub(crate) fn lift(&mut self, ports: &Ports) -> Lifted {
        self.waits = true;
        let mut lifted = Lifted::default();
        for (at, source) in std::mem::take(&mut self.sources).into_iter().enumerate() {
            match source {
                Source::Port { name, port, rx, entry, received } if ports.rx.contains(&name) => {
                    self.retired.received(&name, received, &*rx);
                    lifted.rx.push(LiftedRx { at, name, port, entry, rx });
                }
                stays => self.sources.push(stays),
            }
        }
        for (at, transmit_queue) in std::mem::take(&mut self.fabric.transmit_queues).into_iter().enumerate() {
            if ports.tx.contains(&transmit_queue.name) {
                self.retired.transmit_queue(&transmit_queue);
                self.retired.moved_out(transmit_queue.held());
                let (name, port) = (transmit_queue.name.clone(), transmit_queue.port);
                lifted.tx.push(LiftedTx { at, name, port, queue: transmit_queue.into_queue() });
            } else {
                self.fabric.transmit_queues.push(transmit_queue);
            }
        }
        lifted
    }

    /// Takes queues back that it gave up, each to its old place, and goes on.
    pub(crate) fn put_back(&mut self, lifted: Lifted) {
        for LiftedRx { at, name, port, entry, rx } in lifted.rx {
            let source = Source::Port { name, port, rx, entry, received: Count::default() };
            self.sources.insert(at.min(self.sources.len()), source);
        }
        for LiftedTx { at, name, port, queue } in lifted.tx {
            let transmit_queue = self.moved_in(name, port, queue);
            self.fabric.transmit_queues.insert(at.min(self.fabric.transmit_queues.len()), transmit_queue);
        }
        self.waits = false;
    }

    /// A transmit queue that comes from another worker, with its packets.
    pub(crate) fn moved_in(&mut self, name: String, port: u16, queue: TxQueue) -> TransmitQueue {
        self.retired.link_in(queue.burst.len() as u64);
        TransmitQueue::new(name, port, queue, self.fabric.now)
    }
}

impl Engine {
    /// Takes the queues from the workers that are to have them no more, and puts them into the plans of those that are to have
    /// them.
    pub(crate) fn hand_over_queues(&mut self, layout_plan: &mut LayoutPlan) -> Result<(), EngineError> {
        let have: Vec<Ports> =
            self.threads.iter().map(|(id, _)| self.queues.get(id).cloned().unwrap_or_default()).collect();
        let wanted: Vec<String> =
            layout_plan.idle.iter().filter(|(_, rx)| rx.is_none()).map(|(port, _)| port.clone()).collect();
        let lifted = self.lift(to_lift(&layout_plan.plans, &wanted, &have))?;
        self.idle_queues.retain(&layout_plan.plans.iter().flat_map(|plan| plan.ports.keys()).cloned().collect());
        for (port, rx) in std::mem::take(&mut layout_plan.idle) {
            if let Some(rx) = rx {
                self.idle_queues.keep(port, rx);
            }
        }
        self.idle_queues.hand_over(lifted, &mut layout_plan.plans, &have);
        Ok(())
    }

    /// Has workers give up queues. If one does not answer, the others get theirs back.
    fn lift(&mut self, ports: Vec<Ports>) -> Result<Vec<Lifted>, EngineError> {
        let mut asked = Vec::new();
        for (at, ((_, worker_thread), ports)) in self.threads.iter_mut().zip(ports).enumerate() {
            if !ports.is_empty() {
                asked.push((at, worker_thread.post(|to| Command::Lift(ports, to))));
            }
        }
        let (mut lifted, mut silent) = (Vec::new(), None);
        for (at, answer) in asked {
            match answer.wait(INSTALLED).ok_or(()).or_else(|()| self.withdraw(at, &answer)) {
                Ok(parts) => lifted.push((at, parts)),
                Err(id) => silent = silent.or(Some(id)),
            }
        }
        let Some(id) = silent else { return Ok(lifted.into_iter().map(|(_, parts)| parts).collect()) };
        for (at, parts) in lifted {
            if let Some((_, worker_thread)) = self.threads.get_mut(at) {
                worker_thread.post(|to| Command::PutBack(parts, to));
            }
        }
        Err(EngineError::Stalled(id))
    }

    /// Takes back the command to give up queues from a worker that did not answer: its name; or its answer, if it was about to
    /// answer.
    fn withdraw(&mut self, at: usize, answer: &Asked<Lifted>) -> Result<Lifted, String> {
        let Some((id, worker_thread)) = self.threads.get_mut(at) else { return Err(String::new()) };
        worker_thread.do_not_lift();
        answer.wait(ANSWER).ok_or_else(|| id.clone())
    }
}
