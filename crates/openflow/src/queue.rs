//! Queues: OpenFlow 1.3.5 sections 7.2.2, 7.3.6 and 7.3.5.7.

use crate::Error;
use crate::bytes::{Reader, Writer};
use crate::port::Duration;

/// All queues.
pub const ALL: u32 = 0xffff_ffff;

/// Something that a queue has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueProperty {
    /// The rate that it gets at least, in tenths of a percent; above 1000 for none.
    MinRate(u16),
    /// The rate that it gets at most, in tenths of a percent; above 1000 for none.
    MaxRate(u16),
    /// What an experimenter defines: who, and the rest.
    Experimenter(u32, Vec<u8>),
    /// A property of another number, and what stands in it.
    Other(u16, Vec<u8>),
}

const MIN_RATE: u16 = 1;
const MAX_RATE: u16 = 2;
const EXPERIMENTER: u16 = 0xffff;

impl QueueProperty {
    fn read(reader: &mut Reader<'_>) -> Result<QueueProperty, Error> {
        let (kind, mut body) = reader.structure(8)?;
        body.skip(4)?;
        Ok(match kind {
            MIN_RATE => QueueProperty::MinRate(body.u16()?),
            MAX_RATE => QueueProperty::MaxRate(body.u16()?),
            EXPERIMENTER => {
                let experimenter = body.u32()?;
                body.skip(4)?;
                QueueProperty::Experimenter(experimenter, body.rest().to_vec())
            }
            other => QueueProperty::Other(other, body.rest().to_vec()),
        })
    }

    fn write(&self, writer: &mut Writer) {
        let kind = match self {
            QueueProperty::MinRate(_) => MIN_RATE,
            QueueProperty::MaxRate(_) => MAX_RATE,
            QueueProperty::Experimenter(..) => EXPERIMENTER,
            QueueProperty::Other(kind, _) => *kind,
        };
        writer.structure(kind, |writer| {
            writer.pad(4);
            match self {
                QueueProperty::MinRate(rate) | QueueProperty::MaxRate(rate) => writer.u16(*rate),
                QueueProperty::Experimenter(experimenter, data) => {
                    writer.u32(*experimenter);
                    writer.pad(4);
                    writer.bytes(data);
                }
                QueueProperty::Other(_, data) => writer.bytes(data),
            }
        });
    }
}

/// A queue of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Its number.
    pub queue: u32,
    /// Its port.
    pub port: u32,
    /// What it has.
    pub properties: Vec<QueueProperty>,
}

impl Queue {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Queue, Error> {
        // The length stands behind the two numbers here.
        let mut ahead = *reader;
        ahead.skip(8)?;
        let length = usize::from(ahead.u16()?);
        let mut body = reader.part(length, crate::error::BadRequest::BadLen)?;
        let (queue, port) = (body.u32()?, body.u32()?);
        body.skip(8)?;
        Ok(Queue { queue, port, properties: body.all(QueueProperty::read)? })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        let start = writer.here();
        writer.u32(self.queue);
        writer.u32(self.port);
        writer.pad(8);
        for property in &self.properties {
            property.write(writer);
        }
        writer.length(start, 8);
    }
}

/// What went through a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Its port.
    pub port: u32,
    /// Its number.
    pub queue: u32,
    /// Transmitted bytes.
    pub bytes: u64,
    /// Transmitted packets.
    pub packets: u64,
    /// Packets dropped because it was full.
    pub errors: u64,
    /// How long it exists.
    pub duration: Duration,
}

impl QueueStats {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<QueueStats, Error> {
        Ok(QueueStats {
            port: reader.u32()?,
            queue: reader.u32()?,
            bytes: reader.u64()?,
            packets: reader.u64()?,
            errors: reader.u64()?,
            duration: Duration::read(reader)?,
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u32(self.port);
        writer.u32(self.queue);
        writer.u64(self.bytes);
        writer.u64(self.packets);
        writer.u64(self.errors);
        self.duration.write(writer);
    }
}
