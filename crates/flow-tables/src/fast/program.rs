//! What a flow does, prepared: the actions that change a frame where it lies, and its ways out.

use std::collections::HashSet;
use std::sync::Arc;

use weir_openflow::group::Bucket;
use weir_openflow::port::number;
use weir_openflow::{Action, Field, Instruction};

use crate::action_set::ActionSet;
use crate::depth::Depth;

/// The programs of flows. Flows that do the same have the same one: it is in the cache then, however many flows there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    all: HashSet<Arc<Program>>,
    /// With so many, those that no flow has any more are let go.
    tidy_at: usize,
}

impl Programs {
    /// What these instructions do; nothing if that takes the interpreter.
    pub(crate) fn of(&mut self, instructions: &[Instruction]) -> Option<Arc<Program>> {
        let program = Program::of(instructions)?;
        if let Some(known) = self.all.get(&program) {
            return Some(Arc::clone(known));
        }
        if self.all.len() >= self.tidy_at {
            self.all.retain(|program| Arc::strong_count(program) > 1);
            self.tidy_at = (2 * self.all.len()).max(LEAST_TIDY);
        }
        let program = Arc::new(program);
        self.all.insert(Arc::clone(&program));
        Some(program)
    }
}

/// Fewer programs are not looked through.
const LEAST_TIDY: usize = 256;

/// A change of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    EthDst([u8; 6]),
    EthSrc([u8; 6]),
    /// Any other field, with the checksums that cover it.
    Set(Field, u128),
    /// A tag of this EtherType.
    PushVlan(u16),
    PopVlan,
    /// One off the TTL or hop limit of IP.
    DecrementTtl,
}

/// Where changes of a frame lead to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum End {
    #[default]
    Nowhere,
    Port(u32),
    /// Back to where it came from.
    InPort,
    /// All ports but the one that it came in by.
    Others(Others),
    Group(u32),
}

/// All ports but the one that a packet came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Others {
    All,
    /// And those that are blocked (section 4.5).
    Flood,
}

/// Changes, and then a way out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leg {
    pub(crate) ops: Box<[Op]>,
    pub(crate) end: End,
}

/// A list of actions: what leaves by one way out is a copy of what goes on to the next one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ActionList {
    pub(crate) first: Leg,
    /// Most lists have none.
    pub(crate) more: Box<[Leg]>,
}

/// Lists with more legs behind the first one take the interpreter.
const MOST_LEGS: usize = 256;

/// The instructions of a flow (section 5.9).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Program {
    pub(crate) meter: Option<u32>,
    pub(crate) applied: ActionList,
    pub(crate) clears: bool,
    /// A set of actions has one way out at most.
    pub(crate) written: Option<Leg>,
    /// Value and mask.
    pub(crate) metadata: Option<(u64, u64)>,
    pub(crate) next: Option<u8>,
}

impl Program {
    /// What these instructions do; nothing if that takes the interpreter.
    fn of(instructions: &[Instruction]) -> Option<Program> {
        let nothing = ActionList { first: Leg { ops: Box::default(), end: End::Nowhere }, more: Box::default() };
        let mut program =
            Program { meter: None, applied: nothing, clears: false, written: None, metadata: None, next: None };
        for instruction in instructions {
            match instruction {
                Instruction::Meter(meter) => program.meter = Some(*meter),
                Instruction::ApplyActions(actions) => program.applied = ActionList::of(actions)?,
                Instruction::ClearActions => program.clears = true,
                Instruction::WriteActions(actions) => {
                    program.written = Some(Leg::of_set(actions)?);
                }
                Instruction::WriteMetadata { metadata, mask } => program.metadata = Some((*metadata, *mask)),
                Instruction::GotoTable(next) => program.next = Some(*next),
                Instruction::Experimenter { .. } => return None,
            }
        }
        Some(program)
    }

    /// How far it looks into frames.
    pub(crate) fn depth(&self) -> Depth {
        let written = self.written.as_ref().map_or(Depth::Port, Leg::depth);
        self.applied.depth().max(written)
    }
}

impl ActionList {
    /// How far it looks into frames.
    fn depth(&self) -> Depth {
        Depth::deepest(self.more.iter().map(Leg::depth)).max(self.first.depth())
    }

    /// What these actions do one after the other; nothing if that takes the interpreter: what has no [`Op`] and no [`End`].
    fn of(actions: &[Action]) -> Option<ActionList> {
        let (mut legs, mut ops) = (Vec::new(), Vec::new());
        for action in actions {
            match action {
                // Ports have no queues.
                Action::SetQueue(_) => {}
                Action::Output { .. } | Action::Group(_) => {
                    legs.push(Leg { ops: std::mem::take(&mut ops).into_boxed_slice(), end: End::of(action)? });
                }
                other => ops.push(Op::of(other)?),
            }
        }
        if !ops.is_empty() || legs.is_empty() {
            legs.push(Leg { ops: ops.into_boxed_slice(), end: End::Nowhere });
        }
        let more: Box<[Leg]> = legs.drain(1..).collect();
        (more.len() <= MOST_LEGS).then_some(ActionList { first: legs.pop()?, more })
    }
}

impl Leg {
    /// How far it looks into frames.
    pub(crate) fn depth(&self) -> Depth {
        Depth::deepest(self.ops.iter().map(|op| op.depth()))
    }

    /// What the set of these actions does; nothing if that takes the interpreter. Its way out comes last (section 5.10).
    fn of_set(actions: &[Action]) -> Option<Leg> {
        let ActionList { first, more } = ActionList::of(&ActionSet::of(actions).in_order())?;
        more.is_empty().then_some(first)
    }

    /// What a bucket does, whatever becomes of ports; nothing if that takes the interpreter.
    pub(crate) fn of_bucket(bucket: &Bucket) -> Option<Leg> {
        Leg::of_set(&bucket.actions)
    }
}

impl End {
    /// Where an action leads to; nothing if that takes the interpreter: controllers, the tables anew, and bridging.
    fn of(action: &Action) -> Option<End> {
        Some(match action {
            Action::Output { port: number::IN_PORT, .. } => End::InPort,
            Action::Output { port: number::ALL, .. } => End::Others(Others::All),
            Action::Output { port: number::FLOOD, .. } => End::Others(Others::Flood),
            Action::Output { port, .. } if *port <= number::MAX => End::Port(*port),
            Action::Group(group) => End::Group(*group),
            _ => return None,
        })
    }
}

impl Op {
    /// How far into a frame it has to be looked to know what becomes of it.
    const fn depth(self) -> Depth {
        match self {
            // They are there in every frame.
            Op::EthDst(_) | Op::EthSrc(_) => Depth::Port,
            Op::PushVlan(_) | Op::PopVlan => Depth::Ethernet,
            Op::DecrementTtl => Depth::Network,
            Op::Set(field, _) => Depth::of(field),
        }
    }

    fn of(action: &Action) -> Option<Op> {
        Some(match action {
            Action::PushVlan(kind) => Op::PushVlan(*kind),
            Action::PopVlan => Op::PopVlan,
            Action::DecNwTtl => Op::DecrementTtl,
            Action::SetField(oxm) => match oxm.field {
                Field::EthDst => Op::EthDst(address(oxm.value)),
                Field::EthSrc => Op::EthSrc(address(oxm.value)),
                field if may_set(field) => Op::Set(field, oxm.value),
                _ => return None,
            },
            _ => return None,
        })
    }
}

/// Whether the field can be set, and no other field becomes another one by it. So not the types of what follows.
const fn may_set(field: Field) -> bool {
    !matches!(
        field,
        Field::EthType
            | Field::IpProto
            | Field::Icmpv6Type
            | Field::MplsBos
            | Field::PbbIsid
            | Field::TunnelId
            | Field::Ipv6NdTarget
            | Field::Ipv6NdSll
            | Field::Ipv6NdTll
    ) && field.is_settable()
}

fn address(value: u128) -> [u8; 6] {
    let [_, _, address @ ..] = (value as u64).to_be_bytes();
    address
}
