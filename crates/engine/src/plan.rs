//! What a worker is told to run: the difference to what it runs is made by keeping what the plan says to keep.

use std::collections::HashMap;
use std::sync::Arc;

use weir_mem::Consumer;
use weir_mem::Producer;
use weir_packet::{Held, LaneSet};
use weir_stage::{Declaration, Rx, Stage, Tx};

use crate::bell::Bell;
use crate::hop::JointHop;
use crate::moving::TxQueue;
use crate::node::Exit;

/// All that one worker runs.
#[derive(Default)]
pub(crate) struct WorkerPlan {
    /// What wakes each worker there is.
    pub(crate) bells: Vec<Arc<Bell>>,
    /// In topological order.
    pub(crate) stages: Vec<PlanStage>,
    pub(crate) sources: Vec<PlanSource>,
    pub(crate) transmit_queues: Vec<PlanSink>,
    pub(crate) links: Vec<PlanLink>,
    pub(crate) hops: Vec<JointHop>,
    /// Names and indexes of all ports there are, of other workers too.
    pub(crate) ports: HashMap<String, u16>,
}

pub(crate) struct PlanStage {
    pub(crate) name: String,
    pub(crate) stage: Box<dyn Stage>,
    pub(crate) declaration: Declaration,
    pub(crate) exits: Vec<Exit>,
    /// Lanes that are read behind it.
    pub(crate) behind: LaneSet,
    /// Whether a stage of this name that runs already stays, with its state, instead of this one.
    pub(crate) keep: bool,
}

pub(crate) enum PlanSource {
    Port {
        name: String,
        port: u16,
        /// `None`: the queue that is there stays.
        rx: Option<Box<dyn Rx>>,
        entry: u16,
    },
    Link {
        name: String,
        /// `None`: the end that is there stays.
        consumer: Option<Consumer<Held>>,
        entry: Entry,
        /// What its packets bring along.
        lanes: LaneSet,
    },
}

/// Where packets from a link go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    Stage(u16),
    TransmitQueue(u16),
}

pub(crate) struct PlanSink {
    pub(crate) name: String,
    pub(crate) port: u16,
    /// `None`: the queue that is there stays.
    pub(crate) queue: Option<TxQueue>,
}

pub(crate) struct PlanLink {
    pub(crate) name: String,
    /// The worker at the other end.
    pub(crate) to: usize,
    /// `None`: the end that is there stays.
    pub(crate) producer: Option<Producer<Held>>,
    pub(crate) may_drop: bool,
    /// What its packets take along.
    pub(crate) lanes: LaneSet,
}

/// What a worker gave up when it took a new plan. The control side drops it, but for the links, which may have packets.
#[derive(Default)]
pub(crate) struct Leftover {
    pub(crate) stages: Vec<Box<dyn Stage>>,
    pub(crate) rx: Vec<Box<dyn Rx>>,
    pub(crate) tx: Vec<Box<dyn Tx>>,
    pub(crate) consumers: Vec<(String, Consumer<Held>)>,
}
