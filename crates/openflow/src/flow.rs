//! Flows: OpenFlow 1.3.5 sections 7.3.4.1, 7.3.5.2, 7.3.5.3 and 7.4.2.

use crate::Error;
use crate::action::Action;
use crate::bytes::{Reader, Writer};
use crate::error::{BadAction, BadRequest, FlowModFailed};
use crate::group;
use crate::instruction::Instruction;
use crate::oxm::Match;
use crate::port::{Duration, number};

/// A buffer number that says that there is no buffer.
pub const NO_BUFFER: u32 = 0xffff_ffff;
/// A table number that stands for all tables.
pub const ALL_TABLES: u8 = 0xff;
/// The largest number of a table.
pub const LAST_TABLE: u8 = 0xfe;

/// Bits of [`FlowMod::flags`].
pub mod flags {
    /// Say when the flow ends.
    pub const SEND_FLOW_REM: u16 = 1;
    /// Refuse it if it overlaps another of the same priority.
    pub const CHECK_OVERLAP: u16 = 1 << 1;
    /// Begin its counters at 0 again.
    pub const RESET_COUNTS: u16 = 1 << 2;
    /// Packets need not be counted.
    pub const NO_PKT_COUNTS: u16 = 1 << 3;
    /// Bytes need not be counted.
    pub const NO_BYT_COUNTS: u16 = 1 << 4;
    /// All of them.
    pub const ALL: u16 = 0x1f;
}

/// What is to be done to flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowCommand {
    /// Add one; one with the same match and priority is replaced.
    Add,
    /// Change the instructions of all that the match covers.
    Modify,
    /// Change the instructions of the one with this match and priority.
    ModifyStrict,
    /// Delete all that the match covers.
    Delete,
    /// Delete the one with this match and priority.
    DeleteStrict,
}

/// A change of flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMod {
    /// A number that means something to the controller.
    pub cookie: u64,
    /// Which bits of the cookies of flows must be those of `cookie` (not when one is added).
    pub cookie_mask: u64,
    /// The table; [`ALL_TABLES`] only when flows are deleted.
    pub table: u8,
    /// What is to be done.
    pub command: FlowCommand,
    /// After how many seconds without a packet the flow ends; 0 for never.
    pub idle_timeout: u16,
    /// After how many seconds the flow ends; 0 for never.
    pub hard_timeout: u16,
    /// Which flow goes first: the one with the largest.
    pub priority: u16,
    /// A packet that is to be sent through the changed tables, or [`NO_BUFFER`].
    pub buffer: u32,
    /// Only flows that send by this port are deleted, unless it is `ANY`.
    pub out_port: u32,
    /// Only flows that lead to this group are deleted, unless it is `ANY`.
    pub out_group: u32,
    /// [`flags`].
    pub flags: u16,
    /// Which packets, or which flows.
    pub matches: Match,
    /// What to do with the packets.
    pub instructions: Vec<Instruction>,
}

impl FlowMod {
    /// A flow that is to be added: without cookie, timeouts and flags.
    pub fn add(table: u8, priority: u16, matches: Match, instructions: Vec<Instruction>) -> FlowMod {
        FlowMod {
            cookie: 0,
            cookie_mask: 0,
            table,
            command: FlowCommand::Add,
            idle_timeout: 0,
            hard_timeout: 0,
            priority,
            buffer: NO_BUFFER,
            out_port: number::ANY,
            out_group: group::ANY,
            flags: 0,
            matches,
            instructions,
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<FlowMod, Error> {
        let (cookie, cookie_mask, table) = (reader.u64()?, reader.u64()?, reader.u8()?);
        let command = match reader.u8()? {
            0 => FlowCommand::Add,
            1 => FlowCommand::Modify,
            2 => FlowCommand::ModifyStrict,
            3 => FlowCommand::Delete,
            4 => FlowCommand::DeleteStrict,
            _ => return Err(FlowModFailed::BadCommand.into()),
        };
        let (idle_timeout, hard_timeout, priority) = (reader.u16()?, reader.u16()?, reader.u16()?);
        let (buffer, out_port, out_group, flags) = (reader.u32()?, reader.u32()?, reader.u32()?, reader.u16()?);
        if flags & !flags::ALL != 0 {
            return Err(FlowModFailed::BadFlags.into());
        }
        reader.skip(2)?;
        Ok(FlowMod {
            cookie,
            cookie_mask,
            table,
            command,
            idle_timeout,
            hard_timeout,
            priority,
            buffer,
            out_port,
            out_group,
            flags,
            matches: Match::read(reader)?,
            instructions: Instruction::read_all(reader)?,
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u64(self.cookie);
        writer.u64(self.cookie_mask);
        writer.u8(self.table);
        writer.u8(self.command as u8);
        writer.u16(self.idle_timeout);
        writer.u16(self.hard_timeout);
        writer.u16(self.priority);
        writer.u32(self.buffer);
        writer.u32(self.out_port);
        writer.u32(self.out_group);
        writer.u16(self.flags);
        writer.pad(2);
        self.matches.write(writer);
        Instruction::write_all(&self.instructions, writer);
    }
}

/// Why a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovedReason {
    /// Too long without a packet.
    IdleTimeout,
    /// Its time was up.
    HardTimeout,
    /// A controller deleted it.
    Delete,
    /// Its group, or its meter, was deleted.
    GroupDelete,
}

impl RemovedReason {
    fn of_number(number: u8) -> Option<RemovedReason> {
        use RemovedReason::{Delete, GroupDelete, HardTimeout, IdleTimeout};
        [IdleTimeout, HardTimeout, Delete, GroupDelete].into_iter().find(|reason| *reason as u8 == number)
    }
}

/// News of a flow that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRemoved {
    /// Its cookie.
    pub cookie: u64,
    /// Its priority.
    pub priority: u16,
    /// Why.
    pub reason: RemovedReason,
    /// Its table.
    pub table: u8,
    /// How long it was there.
    pub duration: Duration,
    /// Its idle timeout, in seconds.
    pub idle_timeout: u16,
    /// Its hard timeout, in seconds.
    pub hard_timeout: u16,
    /// The packets that it matched.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Its match.
    pub matches: Match,
}

impl FlowRemoved {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<FlowRemoved, Error> {
        Ok(FlowRemoved {
            cookie: reader.u64()?,
            priority: reader.u16()?,
            reason: RemovedReason::of_number(reader.u8()?).ok_or(BadRequest::BadLen)?,
            table: reader.u8()?,
            duration: Duration::read(reader)?,
            idle_timeout: reader.u16()?,
            hard_timeout: reader.u16()?,
            packets: reader.u64()?,
            bytes: reader.u64()?,
            matches: Match::read(reader)?,
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u64(self.cookie);
        writer.u16(self.priority);
        writer.u8(self.reason as u8);
        writer.u8(self.table);
        self.duration.write(writer);
        writer.u16(self.idle_timeout);
        writer.u16(self.hard_timeout);
        writer.u64(self.packets);
        writer.u64(self.bytes);
        self.matches.write(writer);
    }
}

/// Which flows a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowQuery {
    /// Their table, or [`ALL_TABLES`].
    pub table: u8,
    /// Only those that send by this port, unless it is `ANY`.
    pub out_port: u32,
    /// Only those that lead to this group, unless it is `ANY`.
    pub out_group: u32,
    /// A cookie.
    pub cookie: u64,
    /// Which of its bits must be the same.
    pub cookie_mask: u64,
    /// Only those that this covers.
    pub matches: Match,
}

impl FlowQuery {
    /// All flows of all tables.
    pub fn all() -> FlowQuery {
        FlowQuery {
            table: ALL_TABLES,
            out_port: number::ANY,
            out_group: group::ANY,
            cookie: 0,
            cookie_mask: 0,
            matches: Match::default(),
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<FlowQuery, Error> {
        let table = reader.u8()?;
        reader.skip(3)?;
        let (out_port, out_group) = (reader.u32()?, reader.u32()?);
        reader.skip(4)?;
        let (cookie, cookie_mask) = (reader.u64()?, reader.u64()?);
        Ok(FlowQuery { table, out_port, out_group, cookie, cookie_mask, matches: Match::read(reader)? })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u8(self.table);
        writer.pad(3);
        writer.u32(self.out_port);
        writer.u32(self.out_group);
        writer.pad(4);
        writer.u64(self.cookie);
        writer.u64(self.cookie_mask);
        self.matches.write(writer);
    }
}

/// A flow, as controllers are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStats {
    /// Its table.
    pub table: u8,
    /// How long it is there.
    pub duration: Duration,
    /// Its priority.
    pub priority: u16,
    /// Its idle timeout, in seconds.
    pub idle_timeout: u16,
    /// Its hard timeout, in seconds.
    pub hard_timeout: u16,
    /// Its [`flags`].
    pub flags: u16,
    /// Its cookie.
    pub cookie: u64,
    /// The packets that it matched.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Its match, as it was sent.
    pub matches: Match,
    /// Its instructions, as they were sent.
    pub instructions: Vec<Instruction>,
}

impl FlowStats {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<FlowStats, Error> {
        let mut body = reader.sized()?;
        let table = body.u8()?;
        body.skip(1)?;
        let duration = Duration::read(&mut body)?;
        let (priority, idle_timeout, hard_timeout, flags) = (body.u16()?, body.u16()?, body.u16()?, body.u16()?);
        body.skip(4)?;
        Ok(FlowStats {
            table,
            duration,
            priority,
            idle_timeout,
            hard_timeout,
            flags,
            cookie: body.u64()?,
            packets: body.u64()?,
            bytes: body.u64()?,
            matches: Match::read(&mut body)?,
            instructions: Instruction::read_all(&mut body)?,
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.sized(|writer| {
            writer.u8(self.table);
            writer.pad(1);
            self.duration.write(writer);
            for number in [self.priority, self.idle_timeout, self.hard_timeout, self.flags] {
                writer.u16(number);
            }
            writer.pad(4);
            writer.u64(self.cookie);
            writer.u64(self.packets);
            writer.u64(self.bytes);
            self.matches.write(writer);
            Instruction::write_all(&self.instructions, writer);
        });
    }
}

/// A packet that a controller sends: OpenFlow 1.3.5 section 7.3.7.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// A packet that the switch kept, or [`NO_BUFFER`].
    pub buffer: u32,
    /// The port that it counts as coming in by.
    pub in_port: u32,
    /// What to do with it.
    pub actions: Vec<Action>,
    /// The packet, if it is in no buffer.
    pub data: Vec<u8>,
}

impl PacketOut {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<PacketOut, Error> {
        let (buffer, in_port) = (reader.u32()?, reader.u32()?);
        let length = usize::from(reader.u16()?);
        reader.skip(6)?;
        let actions = Action::read_all(&mut reader.part(length, BadAction::BadLen)?)?;
        Ok(PacketOut { buffer, in_port, actions, data: reader.rest().to_vec() })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u32(self.buffer);
        writer.u32(self.in_port);
        let length = writer.here();
        writer.u16(0);
        writer.pad(6);
        let actions = writer.here();
        Action::write_all(&self.actions, writer);
        let size = (writer.here() - actions) as u16;
        if let Some(field) = writer.0.get_mut(length..length + 2) {
            field.copy_from_slice(&size.to_be_bytes());
        }
        writer.bytes(&self.data);
    }
}

/// Why a packet comes to a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketInReason {
    /// No flow matched it: the table-miss flow sent it.
    NoMatch,
    /// An action sent it.
    Action,
    /// Its TTL ended.
    InvalidTtl,
}

impl PacketInReason {
    fn of_number(number: u8) -> Option<PacketInReason> {
        use PacketInReason::{Action, InvalidTtl, NoMatch};
        [NoMatch, Action, InvalidTtl].into_iter().find(|reason| *reason as u8 == number)
    }
}

/// A packet that comes to a controller: OpenFlow 1.3.5 section 7.4.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketIn {
    /// Where the switch keeps it, or [`NO_BUFFER`].
    pub buffer: u32,
    /// Its whole length.
    pub total_len: u16,
    /// Why.
    pub reason: PacketInReason,
    /// The table whose flow sent it.
    pub table: u8,
    /// The cookie of that flow.
    pub cookie: u64,
    /// What is known about the packet and not in it: ports, metadata, tunnel.
    pub matches: Match,
    /// The packet, or its beginning.
    pub data: Vec<u8>,
}

impl PacketIn {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<PacketIn, Error> {
        let (buffer, total_len) = (reader.u32()?, reader.u16()?);
        let reason = PacketInReason::of_number(reader.u8()?).ok_or(BadRequest::BadLen)?;
        let (table, cookie) = (reader.u8()?, reader.u64()?);
        let matches = Match::read(reader)?;
        reader.skip(2)?;
        Ok(PacketIn { buffer, total_len, reason, table, cookie, matches, data: reader.rest().to_vec() })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u32(self.buffer);
        writer.u16(self.total_len);
        writer.u8(self.reason as u8);
        writer.u8(self.table);
        writer.u64(self.cookie);
        self.matches.write(writer);
        writer.pad(2);
        writer.bytes(&self.data);
    }
}
