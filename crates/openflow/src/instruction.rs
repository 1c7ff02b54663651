//! Instructions: OpenFlow 1.3.5 section 7.2.4.

use crate::Error;
use crate::action::Action;
use crate::bytes::{Reader, Writer};
use crate::error::BadInstruction;

/// What a flow does with a packet that matches it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// Go on in this later table.
    GotoTable(u8),
    /// Set the bits of `mask` of the metadata to those of `metadata`.
    WriteMetadata {
        /// The bits.
        metadata: u64,
        /// Which bits.
        mask: u64,
    },
    /// Merge these into the action set.
    WriteActions(Vec<Action>),
    /// Carry these out now, in this order.
    ApplyActions(Vec<Action>),
    /// Empty the action set.
    ClearActions,
    /// Hand the packet to a meter first.
    Meter(u32),
    /// Something that an experimenter defines.
    Experimenter {
        /// Who.
        experimenter: u32,
        /// What; padded to a multiple of eight bytes with what stands before it.
        data: Vec<u8>,
    },
}

/// The numbers of instruction types.
pub mod kind {
    #![allow(missing_docs, reason = "each is the instruction of that name")]

    pub const GOTO_TABLE: u16 = 1;
    pub const WRITE_METADATA: u16 = 2;
    pub const WRITE_ACTIONS: u16 = 3;
    pub const APPLY_ACTIONS: u16 = 4;
    pub const CLEAR_ACTIONS: u16 = 5;
    pub const METER: u16 = 6;
    pub const EXPERIMENTER: u16 = 0xffff;
}

impl Instruction {
    /// The number of its type.
    pub const fn kind(&self) -> u16 {
        match self {
            Instruction::GotoTable(_) => kind::GOTO_TABLE,
            Instruction::WriteMetadata { .. } => kind::WRITE_METADATA,
            Instruction::WriteActions(_) => kind::WRITE_ACTIONS,
            Instruction::ApplyActions(_) => kind::APPLY_ACTIONS,
            Instruction::ClearActions => kind::CLEAR_ACTIONS,
            Instruction::Meter(_) => kind::METER,
            Instruction::Experimenter { .. } => kind::EXPERIMENTER,
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Instruction, Error> {
        let (kind, mut body) = reader.structure(8)?;
        let instruction = match kind {
            kind::GOTO_TABLE => {
                let table = body.u8()?;
                body.skip(3)?;
                Instruction::GotoTable(table)
            }
            kind::WRITE_METADATA => {
                body.skip(4)?;
                Instruction::WriteMetadata { metadata: body.u64()?, mask: body.u64()? }
            }
            kind::WRITE_ACTIONS => {
                body.skip(4)?;
                Instruction::WriteActions(Action::read_all(&mut body)?)
            }
            kind::APPLY_ACTIONS => {
                body.skip(4)?;
                Instruction::ApplyActions(Action::read_all(&mut body)?)
            }
            kind::CLEAR_ACTIONS => {
                body.skip(4)?;
                Instruction::ClearActions
            }
            kind::METER => Instruction::Meter(body.u32()?),
            kind::EXPERIMENTER => Instruction::Experimenter { experimenter: body.u32()?, data: body.rest().to_vec() },
            _ => return Err(BadInstruction::UnknownInst.into()),
        };
        body.end()?;
        Ok(instruction)
    }

    fn write(&self, writer: &mut Writer) {
        writer.structure(self.kind(), |writer| match self {
            Instruction::GotoTable(table) => writer.u8(*table),
            Instruction::WriteMetadata { metadata, mask } => {
                writer.pad(4);
                writer.u64(*metadata);
                writer.u64(*mask);
            }
            Instruction::WriteActions(actions) | Instruction::ApplyActions(actions) => {
                writer.pad(4);
                Action::write_all(actions, writer);
            }
            Instruction::ClearActions => writer.pad(4),
            Instruction::Meter(meter) => writer.u32(*meter),
            Instruction::Experimenter { experimenter, data } => {
                writer.u32(*experimenter);
                writer.bytes(data);
            }
        });
    }

    /// The instructions that fill `reader`.
    pub(crate) fn read_all(reader: &mut Reader<'_>) -> Result<Vec<Instruction>, Error> {
        Reader::new(reader.rest(), BadInstruction::BadLen).all(Instruction::read)
    }

    pub(crate) fn write_all(instructions: &[Instruction], writer: &mut Writer) {
        for instruction in instructions {
            instruction.write(writer);
        }
    }
}
