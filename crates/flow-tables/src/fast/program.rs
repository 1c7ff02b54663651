//! What a flow does, prepared: the actions that change a frame where it lies, and its ways out.

use std::hash::{Hash, Hasher};

use weir_openflow::group::Bucket;
use weir_openflow::port::number;
use weir_openflow::{Action, Field, Instruction};

use super::frame::{At, Frame};
use super::programs::ProgramNumber;
use crate::action_set::ActionSet;
use crate::compiled::{Filled, Found, Templates};
use crate::depth::Depth;
use crate::needs::Needs;
use crate::words::Words;

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
    /// The TTL or hop limit of IP.
    SetTtl(u8),
    /// An MPLS entry before all others, of this EtherType.
    PushMpls(u16),
    /// The outer MPLS entry comes off; what is behind it is of this EtherType.
    PopMpls(u16),
    SetMplsTtl(u8),
    /// One off the TTL of the outer MPLS entry.
    DecrementMplsTtl,
    /// The next TTL becomes the one of the outer MPLS entry.
    CopyTtlOut,
    /// And the other way round.
    CopyTtlIn,
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
    /// Controllers are told of it, by a copy of which so many bytes are wanted.
    Controllers(u16),
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
    /// The same all at once, and the way out.
    pub(crate) act: Act,
}

/// Changes that are carried out at once, and then a way out: all in one line of the cache, for most packets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[repr(align(64))]
pub(crate) struct Act {
    pub(crate) changes: Changes,
    pub(crate) end: End,
}

const _: () = assert!(size_of::<Act>() == 64, "it takes one line");

/// Changes that are carried out at once, one way or another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Changes {
    /// Nothing if they are not such.
    pub(crate) edit: Option<Edit>,
    /// There are none.
    pub(crate) is_nothing: bool,
    /// Tags or labels come or go.
    pub(crate) moves: bool,
    /// The changes for machine code, if there may be any.
    filled: Derived<Option<Filled>>,
}

/// What follows from everything else, or is chosen for it: two are the same if the rest is.
#[derive(Clone, Debug, Default)]
struct Derived<T>(T);

impl<T> PartialEq for Derived<T> {
    fn eq(&self, _: &Derived<T>) -> bool {
        true
    }
}

impl<T> Eq for Derived<T> {}

impl<T> Hash for Derived<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Changes {
    fn of(ops: &[Op]) -> Changes {
        let moves = ops.iter().any(|op| op.moves());
        Changes { edit: Edit::of(ops), is_nothing: ops.is_empty(), moves, filled: Derived::default() }
    }

    fn prepare(&mut self, ops: &[Op], templates: &mut Templates) {
        self.filled = Derived(templates.fill(ops));
    }

    /// The changes for machine code, if there may be any.
    pub(super) fn filled(&self) -> Option<&Filled> {
        self.filled.0.as_ref()
    }

    /// Changes a frame of which code found this, if that goes; if not, nothing has happened. Code may write words beside that nobody needs.
    #[inline(always)]
    pub(crate) fn carry_out(&self, frame: &mut impl Frame, found: Found, results: &mut Words) -> bool {
        self.is_nothing
            || self.filled.0.as_ref().is_some_and(|filled| filled.change(frame, found, results))
            || self.edit.as_ref().is_some_and(|edit| At::found(found).try_edit(frame, edit))
    }
}

/// What most changes are, in place of their list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Edit {
    pub(crate) destination: Option<[u8; 6]>,
    pub(crate) source: Option<[u8; 6]>,
    pub(crate) decrements_ttl: bool,
    pub(crate) pops_vlan: bool,
}

impl Edit {
    /// What these changes do; nothing if something else is among them, or the TTL or a tag is taken off twice. In which order they are makes no
    /// difference.
    fn of(ops: &[Op]) -> Option<Edit> {
        let mut edit = Edit::default();
        for op in ops {
            let is_new = match *op {
                // The last one counts.
                Op::EthDst(address) => {
                    edit.destination = Some(address);
                    true
                }
                Op::EthSrc(address) => {
                    edit.source = Some(address);
                    true
                }
                Op::DecrementTtl => !std::mem::replace(&mut edit.decrements_ttl, true),
                Op::PopVlan => !std::mem::replace(&mut edit.pops_vlan, true),
                _ => false,
            };
            if !is_new {
                return None;
            }
        }
        Some(edit)
    }
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
    /// All of it, if that is no more than changes and then one way out, where no flow before has written actions.
    pub(crate) plain: Option<Act>,
    number: Derived<ProgramNumber>,
}

impl Program {
    /// Its number.
    pub(crate) fn number(&self) -> ProgramNumber {
        self.number.0
    }

    pub(super) fn set_number(&mut self, number: ProgramNumber) {
        self.number = Derived(number);
    }

    /// What these instructions do; nothing if that takes the interpreter.
    pub(super) fn of(instructions: &[Instruction]) -> Option<Program> {
        let nothing = ActionList { first: Leg::new(Vec::new(), End::Nowhere), more: Box::default() };
        let mut program = Program {
            meter: None,
            applied: nothing,
            clears: false,
            written: None,
            metadata: None,
            next: None,
            plain: None,
            number: Derived::default(),
        };
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
        program.plain = program.plain_ops().map(|(ops, end)| Act { changes: Changes::of(&ops), end });
        Some(program)
    }

    /// Those changes one after the other, and the way out.
    fn plain_ops(&self) -> Option<(Vec<Op>, End)> {
        if self.meter.is_some() || !self.applied.more.is_empty() || self.next.is_some() {
            return None;
        }
        let first = &self.applied.first;
        match &self.written {
            None => Some((first.ops.to_vec(), first.act.end)),
            // What is written is carried out behind what is applied, which has not left yet.
            Some(leg) if first.act.end == End::Nowhere => Some(([&first.ops[..], &leg.ops[..]].concat(), leg.act.end)),
            Some(_) => None,
        }
    }

    /// Lets code be made for it.
    pub(super) fn prepare(&mut self, templates: &mut Templates) {
        let ops = self.plain_ops();
        if let Some((act, (ops, _))) = self.plain.as_mut().zip(ops) {
            act.changes.prepare(&ops, templates);
        }
    }

    /// What has to be known of packets to carry it out.
    pub(crate) fn needs(&self) -> Needs {
        let legs = self.applied.more.iter().chain([&self.applied.first]).chain(&self.written);
        Needs::all(legs.map(Leg::needs))
    }

    /// Whether it only leads to another table; what it writes into metadata goes along.
    pub(crate) fn only_leads(&self) -> bool {
        let ActionList { first, more } = &self.applied;
        let does_nothing = first.ops.is_empty() && first.act.end == End::Nowhere && more.is_empty();
        self.next.is_some() && does_nothing && self.meter.is_none() && self.written.is_none()
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
                    legs.push(Leg::new(std::mem::take(&mut ops), End::of(action)?));
                }
                other => ops.push(Op::of(other)?),
            }
        }
        if !ops.is_empty() || legs.is_empty() {
            legs.push(Leg::new(ops, End::Nowhere));
        }
        let more: Box<[Leg]> = legs.drain(1..).collect();
        (more.len() <= MOST_LEGS).then_some(ActionList { first: legs.pop()?, more })
    }
}

impl Leg {
    fn new(ops: Vec<Op>, end: End) -> Leg {
        Leg { act: Act { changes: Changes::of(&ops), end }, ops: ops.into_boxed_slice() }
    }

    /// Lets code be made for it.
    pub(crate) fn prepare(&mut self, templates: &mut Templates) {
        self.act.changes.prepare(&self.ops, templates);
    }

    /// What has to be known of packets to carry it out.
    pub(crate) fn needs(&self) -> Needs {
        let needs = Needs::all(self.ops.iter().map(|op| op.needs()));
        // Controllers are told of it, there or where its TTL ends.
        let is_told = matches!(self.act.end, End::Controllers(_)) || self.ops.contains(&Op::DecrementTtl);
        let told = is_told.then(|| Needs::of(Field::Metadata));
        needs.and(told.unwrap_or_default())
    }

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
    /// Where an action leads to; nothing if that takes the interpreter: the tables anew, and bridging.
    fn of(action: &Action) -> Option<End> {
        Some(match action {
            Action::Output { port: number::IN_PORT, .. } => End::InPort,
            Action::Output { port: number::ALL, .. } => End::Others(Others::All),
            Action::Output { port: number::FLOOD, .. } => End::Others(Others::Flood),
            Action::Output { port: number::CONTROLLER, max_len } => End::Controllers(*max_len),
            Action::Output { port, .. } if *port <= number::MAX => End::Port(*port),
            Action::Group(group) => End::Group(*group),
            _ => return None,
        })
    }
}

impl Op {
    /// Whether tags or labels come or go by it.
    pub(crate) const fn moves(self) -> bool {
        matches!(self, Op::PushVlan(_) | Op::PopVlan | Op::PushMpls(_) | Op::PopMpls(_))
    }

    /// How far into a frame it has to be looked to know what becomes of it.
    const fn depth(self) -> Depth {
        match self {
            // They are there in every frame.
            Op::EthDst(_) | Op::EthSrc(_) => Depth::Port,
            Op::PushVlan(_) | Op::PopVlan => Depth::Ethernet,
            Op::Set(field, _) => Depth::of(field),
            _ => Depth::Network,
        }
    }

    fn needs(self) -> Needs {
        match self {
            Op::Set(field, _) => Needs::of(field),
            // What is behind a new tag is asked when it is pushed.
            Op::PushVlan(_) => Needs::of(Field::EthType),
            // What a new entry says is what the outer one says, and whether one is there has to be known of each.
            Op::PushMpls(_)
            | Op::PopMpls(_)
            | Op::SetMplsTtl(_)
            | Op::DecrementMplsTtl
            | Op::CopyTtlOut
            | Op::CopyTtlIn => {
                let fields = [Field::EthType, Field::MplsLabel, Field::MplsTc, Field::MplsBos];
                Needs::all(fields.into_iter().map(Needs::of))
            }
            other => Needs::of_depth(other.depth()),
        }
    }

    fn of(action: &Action) -> Option<Op> {
        Some(match action {
            Action::PushVlan(kind) => Op::PushVlan(*kind),
            Action::PopVlan => Op::PopVlan,
            Action::DecNwTtl => Op::DecrementTtl,
            Action::SetNwTtl(ttl) => Op::SetTtl(*ttl),
            Action::PushMpls(kind) => Op::PushMpls(*kind),
            Action::PopMpls(kind) => Op::PopMpls(*kind),
            Action::SetMplsTtl(ttl) => Op::SetMplsTtl(*ttl),
            Action::DecMplsTtl => Op::DecrementMplsTtl,
            Action::CopyTtlOut => Op::CopyTtlOut,
            Action::CopyTtlIn => Op::CopyTtlIn,
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
    !matches!(field, Field::EthType | Field::IpProto | Field::Icmpv6Type | Field::PbbIsid | Field::TunnelId)
        && field.is_settable()
}

fn address(value: u128) -> [u8; 6] {
    let [_, _, address @ ..] = (value as u64).to_be_bytes();
    address
}
