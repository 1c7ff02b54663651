//! What flows and groups come to: templates, instructions, and lists of actions.

use std::collections::HashMap;

use weir_flow_tables::action_set::ActionSet;
use weir_openflow::flow::FlowMod;
use weir_openflow::group::GroupMod;
use weir_openflow::{Action, Field, Instruction, Match};
use weir_table::lpm4::Prefix4;

use super::seen::Seen;

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Instruct {
    /// Go on in this table.
    Goto(u8),
    /// The list of this number is the set of actions.
    Write(u32),
}

/// An action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Act {
    Destination([u8; 6]),
    Source([u8; 6]),
    DecrementTtl,
    Group(u16),
    Output(u32),
}

/// Fields that all flows of a table ask for, each with a value.
#[derive(Clone, Debug, Default)]
pub(super) struct Template(Vec<(Field, u64)>);

impl Template {
    fn of(matches: &Match, but: Option<Field>) -> Template {
        let asked = matches.fields().iter().filter(|oxm| Some(oxm.field) != but);
        Template(asked.map(|oxm| (oxm.field, oxm.value as u64)).collect())
    }

    /// Whether a frame has these values.
    pub(super) fn is_met(&self, seen: &Seen) -> bool {
        self.0.iter().all(|(field, value)| seen.get(*field) == Some(*value))
    }
}

/// The flows of a table that ask for the same fields, by a hash of these.
#[derive(Debug, Default)]
pub(super) struct Hashed {
    fields: Vec<Field>,
    /// A flow's number with 1 added, or 0: so many places as a power of 2 is, at least twice as many as flows.
    places: Vec<u32>,
    flows: Vec<Template>,
    /// The list of each.
    pub(super) lists: Vec<u32>,
}

fn mix(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

impl Hashed {
    fn new(flows: Vec<(Template, u32)>) -> Hashed {
        let fields =
            flows.first().map_or_else(Vec::new, |(first, _)| first.0.iter().map(|(field, _)| *field).collect());
        let mut hashed = Hashed { fields, places: vec![0; (2 * flows.len()).next_power_of_two()], ..Hashed::default() };
        for ((template, list), number) in flows.into_iter().zip(1..) {
            let hash = template.0.iter().fold(0, |hash, (_, value)| mix(hash, *value));
            let mask = hashed.places.len() - 1;
            let mut at = hash as usize & mask;
            while hashed.places.get(at).is_some_and(|place| *place != 0) {
                at = (at + 1) & mask;
            }
            if let Some(place) = hashed.places.get_mut(at) {
                *place = number;
            }
            hashed.flows.push(template);
            hashed.lists.push(list);
        }
        hashed
    }

    /// The flow that a frame meets.
    pub(super) fn find(&self, seen: &Seen) -> Option<u32> {
        let hash = self.fields.iter().try_fold(0, |hash, field| Some(mix(hash, seen.get(*field)?)))?;
        let mask = self.places.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        loop {
            let flow = self.places.get(at)?.checked_sub(1)?;
            if self.flows.get(flow as usize)?.is_met(seen) {
                return Some(flow);
            }
            at = (at + 1) & mask;
        }
    }
}

/// Lists, each once.
#[derive(Debug)]
struct Once<T>(Vec<Box<[T]>>, HashMap<Box<[T]>, u32>);

impl<T: Clone + Eq + std::hash::Hash> Once<T> {
    fn number(&mut self, list: Vec<T>) -> u32 {
        let list = list.into_boxed_slice();
        *self.1.entry(list.clone()).or_insert_with(|| {
            self.0.push(list);
            self.0.len() as u32 - 1
        })
    }
}

/// What flows and groups come to.
#[derive(Debug)]
pub(super) struct Lists {
    instructions: Once<Instruct>,
    actions: Once<Act>,
    /// The list of the only bucket of each group.
    pub(super) groups: Vec<u32>,
    pub(super) first: Hashed,
    /// The list of each flow of the second table, its prefix, and what all of them ask for beside.
    pub(super) second: Vec<u32>,
    pub(super) prefixes: Vec<Prefix4>,
    pub(super) rest: Template,
}

impl Lists {
    /// Those of the groups, whose numbers go from 0 on, and of flows in two tables: the first asks for the same fields, the second for prefixes of destinations.
    pub(super) fn new(groups: &[GroupMod], flows: &[FlowMod]) -> Result<Lists, String> {
        let (mut instructions, mut actions) = (Once(Vec::new(), HashMap::new()), Once(Vec::new(), HashMap::new()));
        let mut buckets = Vec::new();
        for group in groups {
            let bucket = group.buckets.first().ok_or("a group has no bucket")?;
            let list = set(&bucket.actions)?;
            if list.iter().any(|act| matches!(act, Act::Group(_))) {
                return Err("the yardstick does not know groups that lead to groups".to_owned());
            }
            buckets.push(actions.number(list));
        }
        let (mut first, mut second, mut prefixes, mut rest) = (Vec::new(), Vec::new(), Vec::new(), Template::default());
        for flow in flows {
            let walked = flow.instructions.iter().map(|instruction| instruct(instruction, &mut actions));
            let list = instructions.number(walked.collect::<Result<_, _>>()?);
            if flow.table == 0 {
                first.push((Template::of(&flow.matches, None), list));
                continue;
            }
            let asked = flow.matches.fields().iter().find(|oxm| oxm.field == Field::Ipv4Dst);
            let asked = asked.ok_or("a flow asks for no destination")?;
            let length = (asked.bits() as u32).leading_ones() as u8;
            prefixes.push(Prefix4::new(asked.value as u32, length).ok_or("a flow asks for no prefix")?);
            rest = Template::of(&flow.matches, Some(Field::Ipv4Dst));
            second.push(list);
        }
        Ok(Lists { instructions, actions, groups: buckets, first: Hashed::new(first), second, prefixes, rest })
    }

    /// The instructions of a number.
    pub(super) fn instructions(&self, number: usize) -> &[Instruct] {
        self.instructions.0.get(number).map_or(&[], |list| list)
    }

    /// The actions of a number.
    pub(super) fn actions(&self, number: u32) -> &[Act] {
        self.actions.0.get(number as usize).map_or(&[], |list| list)
    }
}

fn instruct(instruction: &Instruction, actions: &mut Once<Act>) -> Result<Instruct, String> {
    match instruction {
        Instruction::GotoTable(table) => Ok(Instruct::Goto(*table)),
        Instruction::WriteActions(written) => Ok(Instruct::Write(actions.number(set(written)?))),
        other => Err(format!("the yardstick does not know {other:?}")),
    }
}

/// A set of actions, in the order in which they are carried out.
fn set(actions: &[Action]) -> Result<Vec<Act>, String> {
    ActionSet::of(actions).in_order().iter().map(act).collect()
}

fn act(action: &Action) -> Result<Act, String> {
    let address = |value: u128| {
        let [.., a, b, c, d, e, f] = value.to_be_bytes();
        [a, b, c, d, e, f]
    };
    match action {
        Action::DecNwTtl => Ok(Act::DecrementTtl),
        Action::SetField(oxm) if oxm.field == Field::EthDst => Ok(Act::Destination(address(oxm.value))),
        Action::SetField(oxm) if oxm.field == Field::EthSrc => Ok(Act::Source(address(oxm.value))),
        Action::Group(number) => u16::try_from(*number).map(Act::Group).map_err(|error| error.to_string()),
        Action::Output { port, .. } => Ok(Act::Output(*port)),
        other => Err(format!("the yardstick does not know {other:?}")),
    }
}
