//! Groups: OpenFlow 1.3.5 sections 7.3.4.2 and 7.3.5.8 to 7.3.5.10.

use crate::Error;
use crate::action::Action;
use crate::bytes::{Reader, Writer};
use crate::error::{BadAction, GroupModFailed};
use crate::port::Duration;

/// The largest number of a group.
pub const MAX: u32 = 0xffff_ff00;
/// All groups, when they are deleted or asked for.
pub const ALL: u32 = 0xffff_fffc;
/// No group in particular.
pub const ANY: u32 = 0xffff_ffff;

/// How a group chooses among its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupKind {
    /// All buckets get a copy.
    All,
    /// One bucket, chosen by flow and weight.
    Select,
    /// The only bucket.
    Indirect,
    /// The first bucket that is live.
    FastFailover,
}

impl GroupKind {
    const EACH: [GroupKind; 4] = [GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover];

    fn of_number(number: u8) -> Result<GroupKind, Error> {
        GroupKind::EACH.into_iter().find(|kind| *kind as u8 == number).ok_or(GroupModFailed::BadType.into())
    }
}

/// One of the things that a group may do with a packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// Its share of a select group; 0 in others.
    pub weight: u16,
    /// It is live while this port is, in fast failover groups; `ANY` for none.
    pub watch_port: u32,
    /// It is live while this group is; [`ANY`] for none.
    pub watch_group: u32,
    /// What it does, as an action set.
    pub actions: Vec<Action>,
}

impl Bucket {
    fn read(reader: &mut Reader<'_>) -> Result<Bucket, Error> {
        let mut body = reader.sized()?;
        let (weight, watch_port, watch_group) = (body.u16()?, body.u32()?, body.u32()?);
        body.skip(4)?;
        Ok(Bucket { weight, watch_port, watch_group, actions: Action::read_all(&mut body)? })
    }

    fn write(&self, writer: &mut Writer) {
        writer.sized(|writer| {
            writer.u16(self.weight);
            writer.u32(self.watch_port);
            writer.u32(self.watch_group);
            writer.pad(4);
            Action::write_all(&self.actions, writer);
        });
    }

    fn read_all(reader: &mut Reader<'_>, short: impl Into<Error>) -> Result<Vec<Bucket>, Error> {
        Reader::new(reader.rest(), short).all(Bucket::read)
    }
}

/// What is to be done to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupCommand {
    /// Add it.
    Add,
    /// Replace its type and buckets.
    Modify,
    /// Delete it, or all.
    Delete,
}

/// A change of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMod {
    /// What is to be done.
    pub command: GroupCommand,
    /// How it chooses.
    pub kind: GroupKind,
    /// Its number.
    pub group: u32,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
}

impl GroupMod {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<GroupMod, Error> {
        let command = match reader.u16()? {
            0 => GroupCommand::Add,
            1 => GroupCommand::Modify,
            2 => GroupCommand::Delete,
            _ => return Err(GroupModFailed::BadCommand.into()),
        };
        let kind = GroupKind::of_number(reader.u8()?)?;
        reader.skip(1)?;
        Ok(GroupMod {
            command,
            kind,
            group: reader.u32()?,
            buckets: Bucket::read_all(reader, GroupModFailed::BadBucket)?,
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u16(self.command as u16);
        writer.u8(self.kind as u8);
        writer.pad(1);
        writer.u32(self.group);
        for bucket in &self.buckets {
            bucket.write(writer);
        }
    }
}

/// A group, as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDesc {
    /// How it chooses.
    pub kind: GroupKind,
    /// Its number.
    pub group: u32,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
}

impl GroupDesc {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<GroupDesc, Error> {
        let mut body = reader.sized()?;
        let kind = GroupKind::of_number(body.u8()?)?;
        body.skip(1)?;
        Ok(GroupDesc { kind, group: body.u32()?, buckets: Bucket::read_all(&mut body, BadAction::BadLen)? })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.sized(|writer| {
            writer.u8(self.kind as u8);
            writer.pad(1);
            writer.u32(self.group);
            for bucket in &self.buckets {
                bucket.write(writer);
            }
        });
    }
}

/// Packets, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Counted {
    /// One packet of so many bytes.
    #[inline]
    pub fn one(bytes: usize) -> Counted {
        Counted { packets: 1, bytes: bytes as u64 }
    }

    /// One packet more.
    #[inline]
    pub fn add(&mut self, bytes: usize) {
        self.add_all(Counted::one(bytes));
    }

    /// So many more.
    #[inline]
    pub fn add_all(&mut self, more: Counted) {
        self.packets = self.packets.wrapping_add(more.packets);
        self.bytes = self.bytes.wrapping_add(more.bytes);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Counted, Error> {
        Ok(Counted { packets: reader.u64()?, bytes: reader.u64()? })
    }

    pub(crate) fn write(self, writer: &mut Writer) {
        writer.u64(self.packets);
        writer.u64(self.bytes);
    }
}

/// What went through a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStats {
    /// Its number.
    pub group: u32,
    /// How many flows and groups lead to it.
    pub references: u32,
    /// What it got.
    pub counted: Counted,
    /// How long it exists.
    pub duration: Duration,
    /// What its buckets got.
    pub buckets: Vec<Counted>,
}

impl GroupStats {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<GroupStats, Error> {
        let mut body = reader.sized()?;
        body.skip(2)?;
        let (group, references) = (body.u32()?, body.u32()?);
        body.skip(4)?;
        Ok(GroupStats {
            group,
            references,
            counted: Counted::read(&mut body)?,
            duration: Duration::read(&mut body)?,
            buckets: body.all(Counted::read)?,
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.sized(|writer| {
            writer.pad(2);
            writer.u32(self.group);
            writer.u32(self.references);
            writer.pad(4);
            self.counted.write(writer);
            self.duration.write(writer);
            for bucket in &self.buckets {
                bucket.write(writer);
            }
        });
    }
}

/// What groups can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFeatures {
    /// The kinds that there are: bit `kind`.
    pub kinds: u32,
    /// Bits of [`GroupFeatures::WEIGHTS`] and those beside it.
    pub capabilities: u32,
    /// How many groups of each kind there may be.
    pub max_groups: [u32; 4],
    /// The actions of each kind: bit `action type`.
    pub actions: [u32; 4],
}

impl GroupFeatures {
    /// Weights are heeded.
    pub const WEIGHTS: u32 = 1;
    /// Select groups leave out buckets that are not live.
    pub const LIVENESS: u32 = 1 << 1;
    /// Groups may lead to groups.
    pub const CHAINING: u32 = 1 << 2;
    /// Loops are found and refused.
    pub const CHAINING_CHECKS: u32 = 1 << 3;

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<GroupFeatures, Error> {
        let mut features =
            GroupFeatures { kinds: reader.u32()?, capabilities: reader.u32()?, ..GroupFeatures::default() };
        for number in features.max_groups.iter_mut().chain(&mut features.actions) {
            *number = reader.u32()?;
        }
        Ok(features)
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u32(self.kinds);
        writer.u32(self.capabilities);
        for number in self.max_groups.into_iter().chain(self.actions) {
            writer.u32(number);
        }
    }
}
