//! Whether instructions and actions can be carried out: OpenFlow 1.3.5 sections 5.9, 5.12, 6.4 and 7.4.4.

use weir_openflow::error::{BadAction, BadInstruction, BadMatch, MeterModFailed};
use weir_openflow::field::Needs;
use weir_openflow::oxm::VLAN_PRESENT;
use weir_openflow::port::number;
use weir_openflow::{Action, Error, Field, Instruction, Match};

use crate::action_set::ActionSet;
use crate::groups::Groups;
use crate::meters::Meters;
use crate::parse::{MPLS_TYPES, VLAN_TYPES};
use crate::ports::Ports;

/// What instructions may refer to.
#[derive(Clone, Copy)]
pub(crate) struct Checker<'a> {
    pub(crate) ports: &'a Ports,
    pub(crate) groups: &'a Groups,
    pub(crate) meters: &'a Meters,
    pub(crate) tables: u8,
}

impl Checker<'_> {
    /// Whether a match asks for fields that the pipeline knows.
    pub(crate) fn matches(matches: &Match) -> Result<(), Error> {
        // Provider backbone bridges are not looked into; nothing with such a field could ever match.
        if matches.get(Field::PbbIsid).is_some() {
            return Err(BadMatch::BadField.into());
        }
        Ok(())
    }

    /// Whether the instructions of a flow in `table` can be carried out on what `matches` lets through.
    pub(crate) fn instructions(&self, table: u8, matches: &Match, instructions: &[Instruction]) -> Result<(), Error> {
        for (at, instruction) in instructions.iter().enumerate() {
            // At most one of each type (section 5.9); version 1.3 has no code for that alone.
            let before = instructions.get(..at).unwrap_or_default();
            if before.iter().any(|other| other.kind() == instruction.kind()) {
                return Err(BadInstruction::UnsupInst.into());
            }
            match instruction {
                Instruction::GotoTable(next) if *next <= table || *next >= self.tables => {
                    return Err(BadInstruction::BadTableId.into());
                }
                Instruction::Meter(meter) if self.meters.get(*meter).is_none() => {
                    return Err(MeterModFailed::UnknownMeter.into());
                }
                Instruction::Experimenter { .. } => return Err(BadInstruction::BadExperimenter.into()),
                _ => {}
            }
        }
        // Actions that are applied come first in the order of instructions (section 5.9), whatever order they are sent in.
        let mut known = Known::of(matches);
        for instruction in instructions {
            if let Instruction::ApplyActions(actions) = instruction {
                self.actions(actions, false)?;
                known.follow(actions)?;
            }
        }
        for instruction in instructions {
            if let Instruction::WriteActions(actions) = instruction {
                self.actions(actions, false)?;
                known.follow(&ActionSet::of(actions).in_order())?;
            }
        }
        Ok(())
    }

    /// Whether a list of actions can be carried out; in a packet that a controller sends, the tables are a port too.
    pub(crate) fn actions(&self, actions: &[Action], packet_out: bool) -> Result<(), Error> {
        actions.iter().try_for_each(|action| self.action(action, packet_out))
    }

    fn action(&self, action: &Action, packet_out: bool) -> Result<(), Error> {
        match action {
            Action::Output { port, .. } if !self.is_output(*port, packet_out) => Err(BadAction::BadOutPort.into()),
            Action::Group(group) if self.groups.get(*group).is_none() => Err(BadAction::BadOutGroup.into()),
            Action::PushVlan(kind) if !VLAN_TYPES.contains(kind) => Err(BadAction::BadArgument.into()),
            Action::PushMpls(kind) if !MPLS_TYPES.contains(kind) => Err(BadAction::BadArgument.into()),
            Action::PushPbb(_) | Action::PopPbb => Err(BadAction::BadType.into()),
            Action::SetField(oxm) if oxm.field == Field::PbbIsid => Err(BadAction::BadSetType.into()),
            Action::Experimenter { .. } => Err(BadAction::BadExperimenter.into()),
            _ => Ok(()),
        }
    }

    fn is_output(&self, port: u32, packet_out: bool) -> bool {
        match port {
            number::IN_PORT | number::NORMAL | number::FLOOD | number::ALL | number::CONTROLLER => true,
            number::TABLE => packet_out,
            other => self.ports.may_exist(other),
        }
    }
}

/// What is known of a packet that a match let through, as actions go on.
struct Known {
    ether_type: Option<u128>,
    protocol: Option<u128>,
    icmp: Option<u128>,
    tagged: bool,
}

impl Known {
    fn of(matches: &Match) -> Known {
        let value = |field| matches.get(field).filter(|oxm| oxm.bits() == field.ones()).map(|oxm| oxm.value);
        Known {
            ether_type: value(Field::EthType),
            protocol: value(Field::IpProto),
            icmp: value(Field::Icmpv6Type),
            tagged: matches.get(Field::VlanVid).is_some_and(|oxm| oxm.value & VLAN_PRESENT != 0),
        }
    }

    /// Goes through actions in the order in which they are carried out. A field can be set only if what it needs is
    /// known to be there: by the match, or by what was pushed (section 7.2.5).
    fn follow(&mut self, actions: &[Action]) -> Result<(), Error> {
        for action in actions {
            match action {
                Action::PushVlan(_) => self.tagged = true,
                Action::PopVlan => self.tagged = false,
                Action::PushMpls(kind) | Action::PopMpls(kind) => {
                    *self = Known { ether_type: Some((*kind).into()), protocol: None, icmp: None, tagged: self.tagged };
                }
                Action::SetField(oxm) => {
                    if !self.allows(oxm.field.needs()) {
                        return Err(BadAction::MatchInconsistent.into());
                    }
                    match oxm.field {
                        Field::EthType => self.ether_type = Some(oxm.value),
                        Field::IpProto => self.protocol = Some(oxm.value),
                        Field::Icmpv6Type => self.icmp = Some(oxm.value),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn allows(&self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing | Needs::Any(_) => true,
            Needs::Tag => self.tagged,
            Needs::OneOf(field, values) => {
                let known = match field {
                    Field::EthType => self.ether_type,
                    Field::IpProto => self.protocol,
                    Field::Icmpv6Type => self.icmp,
                    _ => None,
                };
                known.is_some_and(|known| values.contains(&known))
            }
        }
    }
}
