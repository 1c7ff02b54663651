//! Meters: OpenFlow 1.3.5 sections 7.3.4.4 and 7.3.5.11 to 7.3.5.13.

use crate::Error;
use crate::bytes::{Reader, Writer};
use crate::error::MeterModFailed;
use crate::group::Counted;
use crate::port::Duration;

/// The largest number of a meter that flows may use.
pub const MAX: u32 = 0xffff_0000;
/// The meter of what goes over a slow path.
pub const SLOWPATH: u32 = 0xffff_fffd;
/// The meter of what goes to controllers.
pub const CONTROLLER: u32 = 0xffff_fffe;
/// All meters, when they are deleted or asked for.
pub const ALL: u32 = 0xffff_ffff;

/// Bits of [`MeterMod::flags`].
pub mod flags {
    /// Rates are in kbit/s.
    pub const KBPS: u16 = 1;
    /// Rates are in packets per second.
    pub const PKTPS: u16 = 1 << 1;
    /// Bands say how large a burst may be.
    pub const BURST: u16 = 1 << 2;
    /// Bands are counted.
    pub const STATS: u16 = 1 << 3;
    /// All of them.
    pub const ALL: u16 = 0xf;
}

/// What happens to packets beyond a band's rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BandKind {
    /// They are dropped.
    Drop,
    /// Their drop precedence becomes higher by this much.
    DscpRemark(u8),
    /// What an experimenter defines: who, and the rest.
    Experimenter(u32, Vec<u8>),
}

/// The number of the type of bands that drop.
pub const DROP: u16 = 1;
/// The number of the type of bands that mark.
pub const DSCP_REMARK: u16 = 2;
const EXPERIMENTER: u16 = 0xffff;

/// A rate, and what happens beyond it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Band {
    /// In kbit/s, or in packets per second.
    pub rate: u32,
    /// In kbit, or in packets.
    pub burst: u32,
    /// What happens.
    pub kind: BandKind,
}

impl Band {
    fn read(reader: &mut Reader<'_>) -> Result<Band, Error> {
        let (kind, mut body) = reader.structure(8)?;
        let (rate, burst) = (body.u32()?, body.u32()?);
        let kind = match kind {
            DROP => {
                body.skip(4)?;
                BandKind::Drop
            }
            DSCP_REMARK => {
                let level = body.u8()?;
                body.skip(3)?;
                BandKind::DscpRemark(level)
            }
            EXPERIMENTER => BandKind::Experimenter(body.u32()?, body.rest().to_vec()),
            _ => return Err(MeterModFailed::BadBand.into()),
        };
        body.end()?;
        Ok(Band { rate, burst, kind })
    }

    fn write(&self, writer: &mut Writer) {
        let kind = match self.kind {
            BandKind::Drop => DROP,
            BandKind::DscpRemark(_) => DSCP_REMARK,
            BandKind::Experimenter(..) => EXPERIMENTER,
        };
        writer.structure(kind, |writer| {
            writer.u32(self.rate);
            writer.u32(self.burst);
            match &self.kind {
                BandKind::Drop => writer.pad(4),
                BandKind::DscpRemark(level) => writer.u8(*level),
                BandKind::Experimenter(experimenter, data) => {
                    writer.u32(*experimenter);
                    writer.bytes(data);
                }
            }
        });
    }
}

/// What is to be done to a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterCommand {
    /// Add it.
    Add,
    /// Replace its flags and bands.
    Modify,
    /// Delete it, or all.
    Delete,
}

/// A change of a meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterMod {
    /// What is to be done.
    pub command: MeterCommand,
    /// [`flags`].
    pub flags: u16,
    /// Its number.
    pub meter: u32,
    /// Its bands.
    pub bands: Vec<Band>,
}

impl MeterMod {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<MeterMod, Error> {
        let command = match reader.u16()? {
            0 => MeterCommand::Add,
            1 => MeterCommand::Modify,
            2 => MeterCommand::Delete,
            _ => return Err(MeterModFailed::BadCommand.into()),
        };
        let flags = reader.u16()?;
        if flags & !flags::ALL != 0 {
            return Err(MeterModFailed::BadFlags.into());
        }
        Ok(MeterMod { command, flags, meter: reader.u32()?, bands: reader.all(Band::read)? })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u16(self.command as u16);
        writer.u16(self.flags);
        writer.u32(self.meter);
        for band in &self.bands {
            band.write(writer);
        }
    }
}

/// A meter, as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterConfig {
    /// [`flags`].
    pub flags: u16,
    /// Its number.
    pub meter: u32,
    /// Its bands.
    pub bands: Vec<Band>,
}

impl MeterConfig {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<MeterConfig, Error> {
        let mut body = reader.sized()?;
        Ok(MeterConfig { flags: body.u16()?, meter: body.u32()?, bands: body.all(Band::read)? })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.sized(|writer| {
            writer.u16(self.flags);
            writer.u32(self.meter);
            for band in &self.bands {
                band.write(writer);
            }
        });
    }
}

/// What went through a meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterStats {
    /// Its number.
    pub meter: u32,
    /// How many flows use it.
    pub flows: u32,
    /// What came in.
    pub counted: Counted,
    /// How long it exists.
    pub duration: Duration,
    /// What each band dropped or marked.
    pub bands: Vec<Counted>,
}

impl MeterStats {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<MeterStats, Error> {
        // The length stands behind the number here.
        let mut ahead = *reader;
        ahead.skip(4)?;
        let length = usize::from(ahead.u16()?);
        let mut body = reader.part(length, MeterModFailed::Unknown)?;
        let meter = body.u32()?;
        body.skip(8)?;
        Ok(MeterStats {
            meter,
            flows: body.u32()?,
            counted: Counted::read(&mut body)?,
            duration: Duration::read(&mut body)?,
            bands: body.all(Counted::read)?,
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        let start = writer.here();
        writer.u32(self.meter);
        writer.u16(0);
        writer.pad(6);
        writer.u32(self.flows);
        self.counted.write(writer);
        self.duration.write(writer);
        for band in &self.bands {
            band.write(writer);
        }
        writer.length(start, 4);
    }
}

/// What meters can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterFeatures {
    /// How many meters there may be.
    pub max_meters: u32,
    /// The kinds of bands: bit `kind`.
    pub band_kinds: u32,
    /// The [`flags`] that are heeded.
    pub capabilities: u32,
    /// How many bands a meter may have.
    pub max_bands: u8,
    /// How many colours there are.
    pub max_color: u8,
}

impl MeterFeatures {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<MeterFeatures, Error> {
        let features = MeterFeatures {
            max_meters: reader.u32()?,
            band_kinds: reader.u32()?,
            capabilities: reader.u32()?,
            max_bands: reader.u8()?,
            max_color: reader.u8()?,
        };
        reader.skip(2)?;
        Ok(features)
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u32(self.max_meters);
        writer.u32(self.band_kinds);
        writer.u32(self.capabilities);
        writer.u8(self.max_bands);
        writer.u8(self.max_color);
        writer.pad(2);
    }
}
