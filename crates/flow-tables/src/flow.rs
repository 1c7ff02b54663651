//! One flow.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use weir_openflow::flow::{FlowMod, FlowQuery, FlowRemoved, FlowStats, RemovedReason, flags};
use weir_openflow::group;
use weir_openflow::port::{Duration, number};
use weir_openflow::{Action, Instruction, Match};

use crate::counts::Used;
use crate::depth::Depth;
use crate::fast::program::Program;
use crate::fast::programs::{ProgramNumber, Programs};
use crate::fields::Key;
use crate::needs::Needs;

/// Nanoseconds in a second.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// What a table does with the packets that meet a match.
///
/// What packets need of it is small; the rest lies elsewhere, and so does what workers [count](Used) of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its instructions for the fast path; nothing if they take the interpreter. Flows that do the same share it.
    pub(crate) program: Option<Arc<Program>>,
    entry: Box<Entry>,
}

/// What controllers know of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which packets, as it was sent.
    pub matches: Match,
    /// The same, without what may be written in several ways.
    pub key: Key,
    /// Flows with a larger one go first.
    pub priority: u16,
    /// What its controller calls it.
    pub cookie: u64,
    /// Seconds without a packet after which it ends; 0 for never.
    pub idle_timeout: u16,
    /// Seconds after which it ends; 0 for never.
    pub hard_timeout: u16,
    /// [`weir_openflow::flow::flags`].
    pub flags: u16,
    /// What is done, as it was sent.
    pub instructions: Vec<Instruction>,
    /// When it was added; nanoseconds of the given clock.
    pub added: u64,
    /// When it is looked at next, to see whether it ended.
    pub(crate) scheduled: Option<u64>,
}

impl Deref for Flow {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.entry
    }
}

impl DerefMut for Flow {
    fn deref_mut(&mut self) -> &mut Entry {
        &mut self.entry
    }
}

impl Flow {
    /// The flow that a change adds; `key` is that of its match.
    pub(crate) fn new(change: &FlowMod, key: Key, programs: &mut Programs, now: u64) -> Flow {
        let entry = Entry {
            key,
            matches: change.matches.clone(),
            priority: change.priority,
            cookie: change.cookie,
            idle_timeout: change.idle_timeout,
            hard_timeout: change.hard_timeout,
            flags: change.flags,
            instructions: change.instructions.clone(),
            added: now,
            scheduled: None,
        };
        Flow { program: programs.of(&change.instructions), entry: Box::new(entry) }
    }

    pub(crate) fn set_instructions(&mut self, instructions: &[Instruction], programs: &mut Programs) {
        self.instructions = instructions.to_vec();
        self.program = programs.of(instructions);
    }

    /// Whether its instructions are such that the fast path carries them out; groups that they lead to may still take the interpreter.
    pub fn is_prepared(&self) -> bool {
        self.program.is_some()
    }

    /// The number of its program, if it has one.
    pub(crate) fn program_number(&self) -> Option<ProgramNumber> {
        self.program.as_ref().map(|program| program.number())
    }

    /// How far the fast path looks into frames for it.
    pub(crate) fn depth(&self) -> Depth {
        let asked = Depth::deepest(self.key.asked().iter().map(|(field, ..)| Depth::of(*field)));
        let done = self.program.as_ref().map_or(Depth::Port, |program| program.depth());
        asked.max(done)
    }

    /// What has to be known of packets to find it, and to carry it out.
    pub(crate) fn needs(&self) -> Needs {
        let asked = Needs::all(self.key.asked().iter().map(|(field, ..)| Needs::of(*field)));
        asked.and(self.program.as_ref().map_or_else(Needs::default, |program| program.needs()))
    }

    /// Whether it is the table-miss flow (section 5.4): it matches all, with the lowest priority.
    pub fn is_miss(&self) -> bool {
        self.priority == 0 && self.key.is_all()
    }

    /// Every action in its instructions.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.instructions.iter().flat_map(|instruction| match instruction {
            Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) => actions.as_slice(),
            _ => &[],
        })
    }

    /// The groups that it leads to itself.
    pub fn groups(&self) -> impl Iterator<Item = u32> {
        self.actions().filter_map(|action| if let Action::Group(group) = action { Some(*group) } else { None })
    }

    /// The meter that it uses.
    pub fn meter(&self) -> Option<u32> {
        let meter = |instruction: &Instruction| {
            if let Instruction::Meter(meter) = instruction { Some(*meter) } else { None }
        };
        self.instructions.iter().find_map(meter)
    }

    /// Whether it is one of those that a request names (section 6.4): by cookie, port and group. `ANY` names all.
    pub(crate) fn is_named(&self, cookie: u64, mask: u64, out_port: u32, out_group: u32) -> bool {
        let sends = |action: &Action| matches!(action, Action::Output { port, .. } if *port == out_port);
        (self.cookie ^ cookie) & mask == 0
            && (out_port == number::ANY || self.actions().any(sends))
            && (out_group == group::ANY || self.groups().any(|group| group == out_group))
    }

    /// Whether a query asks for it; `key` is that of the query's match.
    pub(crate) fn is_asked_for(&self, query: &FlowQuery, key: &Key) -> bool {
        self.is_named(query.cookie, query.cookie_mask, query.out_port, query.out_group) && key.covers(&self.key)
    }

    /// When it ends that was used last then, unless another packet comes, and why.
    pub(crate) fn end(&self, last_used: u64) -> Option<(u64, RemovedReason)> {
        let after = |from: u64, seconds: u16, reason| {
            (seconds > 0).then(|| (from.saturating_add(u64::from(seconds) * SECOND), reason))
        };
        let hard = after(self.added, self.hard_timeout, RemovedReason::HardTimeout);
        let idle = after(last_used, self.idle_timeout, RemovedReason::IdleTimeout);
        match (hard, idle) {
            (Some(hard), Some(idle)) => Some(if idle.0 < hard.0 { idle } else { hard }),
            (one, other) => one.or(other),
        }
    }

    fn duration(&self, now: u64) -> Duration {
        Duration::from_nanoseconds(now.saturating_sub(self.added))
    }

    /// The news that it ended which has done this, if its controller wants them.
    pub(crate) fn removed(&self, table: u8, used: Used, reason: RemovedReason, now: u64) -> Option<FlowRemoved> {
        (self.flags & flags::SEND_FLOW_REM != 0).then(|| FlowRemoved {
            cookie: self.cookie,
            priority: self.priority,
            reason,
            table,
            duration: self.duration(now),
            idle_timeout: self.idle_timeout,
            hard_timeout: self.hard_timeout,
            packets: used.counted.packets,
            bytes: used.counted.bytes,
            matches: self.matches.clone(),
        })
    }

    /// What controllers are told of it, which has done this.
    pub(crate) fn stats(&self, table: u8, used: Used, now: u64) -> FlowStats {
        FlowStats {
            table,
            duration: self.duration(now),
            priority: self.priority,
            idle_timeout: self.idle_timeout,
            hard_timeout: self.hard_timeout,
            flags: self.flags,
            cookie: self.cookie,
            packets: used.counted.packets,
            bytes: used.counted.bytes,
            matches: self.matches.clone(),
            instructions: self.instructions.clone(),
        }
    }
}
