//! What the model is made of: rules, and what is known of users and subports.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::dual::Dual;
use super::fair::Fair;
use super::hold::History;
use super::split::Split;
use weir_sched::class::ClassQueue;
use weir_sched::l4s::L4s;
use weir_sched::manage::{Manage, State, Verdict};
use weir_sched::rate::{Bucket, Fine};

pub(crate) const CLASSES: usize = 4;
pub(crate) const QUEUES: usize = 11;
pub(super) const LOWEST: usize = CLASSES - 1;
/// Queues of a class at most.
pub(super) const PARTS: usize = 8;

#[derive(Clone, Debug)]
pub(crate) struct ModelClass {
    pub(crate) cap: Bucket,
    /// What it is guaranteed of what its user sends.
    pub(crate) guarantee: Option<Bucket>,
    pub(crate) queue_size: usize,
    pub(crate) manage: Option<Arc<dyn Manage>>,
    pub(crate) fair: bool,
    pub(crate) dual: Option<L4s>,
    /// Of its queues, if it has several.
    pub(crate) weights: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(crate) struct ModelProfile {
    pub(crate) bucket: Bucket,
    pub(crate) classes: Vec<ModelClass>,
    pub(crate) weights: [u8; 8],
    /// Ceiling and weight of who shares.
    pub(crate) sharing: Option<(Bucket, u8)>,
}

/// A subport: what it may send, what it is guaranteed, and its weight.
#[derive(Clone, Debug)]
pub(crate) struct ModelSubport {
    pub(crate) bucket: Bucket,
    pub(crate) guarantee: Option<Bucket>,
    pub(crate) weight: u8,
    /// The one above it; the port when absent.
    pub(crate) parent: Option<usize>,
    /// What its users may send of each class.
    pub(crate) classes: Vec<Bucket>,
    /// What each class is guaranteed of what its users send.
    pub(crate) promises: Vec<Option<Bucket>>,
    pub(super) guarantee_full_at: Fine,
    pub(super) deficit: u32,
}

impl ModelSubport {
    pub(crate) fn new(bucket: Bucket, guarantee: Option<Bucket>, weight: u8) -> ModelSubport {
        let (classes, promises) = (vec![Bucket::UNLIMITED; CLASSES], vec![None; CLASSES]);
        ModelSubport { bucket, guarantee, weight, parent: None, classes, promises, guarantee_full_at: 0, deficit: 0 }
    }

    /// The same with rates of classes, and with what they are guaranteed.
    pub(crate) fn with_classes(self, classes: Vec<Bucket>, promises: Vec<Option<Bucket>>) -> ModelSubport {
        ModelSubport { classes, promises, ..self }
    }

    /// The same below another one, or below the port.
    pub(crate) fn below(self, parent: Option<usize>) -> ModelSubport {
        ModelSubport { parent, ..self }
    }
}

/// All queues that a class may have.
pub(super) fn queues_of(class: usize) -> std::ops::Range<usize> {
    PARTS * class..PARTS * (class + 1)
}

pub(super) fn class_of(queue: usize) -> usize {
    queue / PARTS
}

/// What marks a packet, unless its number is a multiple of three.
const MARK: u32 = 1 << 31;

/// Marks a packet, if it can be.
pub(crate) fn mark(item: &mut u32) -> bool {
    let number = *item & !MARK;
    *item |= if number.is_multiple_of(3) { 0 } else { MARK };
    !number.is_multiple_of(3)
}

/// The field of explicit congestion notification of a packet: nothing at all for one that cannot be marked.
pub(crate) fn ecn(item: u32) -> u8 {
    (item % 3) as u8
}

/// The byte of a class and a queue in it.
pub(crate) fn lane(class: u8, queue: u8) -> ClassQueue {
    ClassQueue::new(class, queue)
}

#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) item: u32,
    pub(super) length: u16,
    pub(super) since: u64,
    /// Its flow, in a fair queue.
    pub(super) flow: u32,
    /// Whether it stands in the low-latency line, of two.
    pub(super) low: bool,
}

#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) open: bool,
    pub(super) profile: usize,
    pub(super) subport: usize,
    /// Those of each class side by side: a class above the lowest with one queue has the first of them alone.
    pub(super) queues: Vec<VecDeque<Waiting>>,
    pub(super) states: Vec<State>,
    /// Of each queue, whether what is remembered is of a coupling of two lines.
    pub(super) coupled_states: Vec<bool>,
    /// Of each queue that is fair now: what is known of its flows. Such a queue is in the order of coming, but that the packet that is chosen stands first.
    pub(super) fair: Vec<Option<Fair>>,
    /// Of each queue that has two lines now: what is known of them. Such a queue is in the order of coming, but that the packet that is chosen stands first.
    pub(super) dual: Vec<Option<Dual>>,
    /// Of each class above the lowest that has several queues now: what is known of them.
    pub(super) split: Vec<Option<Split>>,
    /// What managements remember of each queue of a class with several.
    pub(super) part_states: Vec<State>,
    /// Of each of those, whether it is of a coupling of two lines.
    pub(super) coupled_parts: Vec<bool>,
    pub(super) full_at: Fine,
    pub(super) class_full_at: [Fine; CLASSES],
    /// When the bucket is full of what each class is guaranteed.
    pub(super) floor_full_at: [Fine; CLASSES],
    /// It has come back with a class, and has not had its turn.
    pub(super) came_back: [bool; CLASSES],
    /// For which subport it stood aside last with a class.
    pub(super) stood: [Option<usize>; CLASSES],
    pub(super) ceil_full_at: Fine,
    pub(super) deficit: u32,
    pub(super) turn: usize,
    pub(super) deficits: [u32; 8],
    /// What was decided of it.
    pub(super) history: History,
    /// When it came to hold so many packets.
    pub(super) since: u64,
    pub(super) sent: u64,
    /// Packets that the coupling of two lines dropped.
    pub(super) coupled: u64,
    /// Packets marked, by class.
    pub(super) marks: BTreeMap<u8, u64>,
}

impl User {
    /// Whether a verdict lets a packet of a class go. Counts what is marked, and tells the management of its queue.
    pub(super) fn lets(
        &mut self,
        verdict: Verdict,
        (manage, queue): (&dyn Manage, usize),
        item: &mut u32,
        now: u64,
    ) -> bool {
        if verdict == Verdict::Mark && mark(item) {
            manage.marked(self.state(queue), now);
            *self.marks.entry(class_of(queue) as u8).or_default() += 1;
            return true;
        }
        verdict == Verdict::Pass
    }

    /// What the management remembers of a queue, or of the flow whose packet is chosen from it.
    pub(super) fn state(&mut self, queue: usize) -> &mut State {
        match &mut self.fair[queue] {
            Some(fair) => &mut fair.flow(self.queues[queue][0].flow).state,
            None if self.split[class_of(queue)].is_some() => &mut self.part_states[queue],
            None => &mut self.states[queue],
        }
    }

    pub(super) fn held(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Id {
    User(usize),
    Subport(usize),
    /// A subport that may send, until it may lend.
    Lender(usize),
    /// A class of a subport, until somebody comes back to it.
    Class(usize, usize),
}
