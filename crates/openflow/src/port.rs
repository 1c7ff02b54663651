//! Ports: OpenFlow 1.3.5 sections 7.2.1, 7.3.4.3 and 7.4.3.

use crate::Error;
use crate::bytes::{Reader, Writer};

/// Port numbers with a meaning of their own.
pub mod number {
    /// The largest number of a port that exists.
    pub const MAX: u32 = 0xffff_ff00;
    /// Back by the port that the packet came in by.
    pub const IN_PORT: u32 = 0xffff_fff8;
    /// Through the tables, from the first one; only for packets that a controller sends.
    pub const TABLE: u32 = 0xffff_fff9;
    /// As a bridge or router would.
    pub const NORMAL: u32 = 0xffff_fffa;
    /// By all ports of the VLAN, as a bridge floods.
    pub const FLOOD: u32 = 0xffff_fffb;
    /// By all ports but the one it came in by.
    pub const ALL: u32 = 0xffff_fffc;
    /// To the controllers.
    pub const CONTROLLER: u32 = 0xffff_fffd;
    /// The switch's own host.
    pub const LOCAL: u32 = 0xffff_fffe;
    /// No port in particular.
    pub const ANY: u32 = 0xffff_ffff;
}

/// Bits of [`Port::config`].
pub mod config {
    /// The port is switched off.
    pub const PORT_DOWN: u32 = 1;
    /// What comes in is dropped.
    pub const NO_RECV: u32 = 1 << 2;
    /// What should go out is dropped.
    pub const NO_FWD: u32 = 1 << 5;
    /// What comes in goes to no controller.
    pub const NO_PACKET_IN: u32 = 1 << 6;
    /// All of them.
    pub const ALL: u32 = PORT_DOWN | NO_RECV | NO_FWD | NO_PACKET_IN;
}

/// Bits of [`Port::state`].
pub mod state {
    /// There is no link.
    pub const LINK_DOWN: u32 = 1;
    /// A protocol outside OpenFlow blocks the port.
    pub const BLOCKED: u32 = 1 << 1;
    /// Fast failover groups may use it.
    pub const LIVE: u32 = 1 << 2;
}

/// Bits of [`Port::current`] and the three behind it: section 7.2.1.
pub mod feature {
    /// 10 Mbit/s, half duplex.
    pub const MB_10_HD: u32 = 1;
    /// 10 Mbit/s.
    pub const MB_10_FD: u32 = 1 << 1;
    /// 100 Mbit/s, half duplex.
    pub const MB_100_HD: u32 = 1 << 2;
    /// 100 Mbit/s.
    pub const MB_100_FD: u32 = 1 << 3;
    /// 1 Gbit/s, half duplex.
    pub const GB_1_HD: u32 = 1 << 4;
    /// 1 Gbit/s.
    pub const GB_1_FD: u32 = 1 << 5;
    /// 10 Gbit/s.
    pub const GB_10_FD: u32 = 1 << 6;
    /// 40 Gbit/s.
    pub const GB_40_FD: u32 = 1 << 7;
    /// 100 Gbit/s.
    pub const GB_100_FD: u32 = 1 << 8;
    /// 1 Tbit/s.
    pub const TB_1_FD: u32 = 1 << 9;
    /// A speed that has no bit here.
    pub const OTHER: u32 = 1 << 10;
    /// Copper.
    pub const COPPER: u32 = 1 << 11;
    /// Fiber.
    pub const FIBER: u32 = 1 << 12;
    /// The ends found the speed out between them.
    pub const AUTONEG: u32 = 1 << 13;
}

/// A port, as controllers are told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Its number, from 1 to [`number::MAX`], or [`number::LOCAL`].
    pub number: u32,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its name; at most 15 bytes are told.
    pub name: String,
    /// What controllers want: [`config`].
    pub config: u32,
    /// What is the case: [`state`].
    pub state: u32,
    /// Speeds and media in use: [`feature`].
    pub current: u32,
    /// Those that it advertises.
    pub advertised: u32,
    /// Those that it can do.
    pub supported: u32,
    /// Those that its peer advertises.
    pub peer: u32,
    /// Its speed now, in kbit/s.
    pub current_speed: u32,
    /// The most it can do, in kbit/s.
    pub max_speed: u32,
}

impl Port {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Port, Error> {
        let number = reader.u32()?;
        reader.skip(4)?;
        let mac = reader.mac()?;
        reader.skip(2)?;
        Ok(Port {
            number,
            mac,
            name: reader.text(16)?,
            config: reader.u32()?,
            state: reader.u32()?,
            current: reader.u32()?,
            advertised: reader.u32()?,
            supported: reader.u32()?,
            peer: reader.u32()?,
            current_speed: reader.u32()?,
            max_speed: reader.u32()?,
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u32(self.number);
        writer.pad(4);
        writer.bytes(&self.mac);
        writer.pad(2);
        writer.text(&self.name, 16);
        for number in [
            self.config,
            self.state,
            self.current,
            self.advertised,
            self.supported,
            self.peer,
            self.current_speed,
            self.max_speed,
        ] {
            writer.u32(number);
        }
    }
}

/// A wish about a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMod {
    /// The port.
    pub port: u32,
    /// Its Ethernet address, which must be right.
    pub mac: [u8; 6],
    /// Bits of [`config`].
    pub config: u32,
    /// Which of them are to be set.
    pub mask: u32,
    /// What it should advertise, or 0 for what it does now.
    pub advertise: u32,
}

impl PortMod {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<PortMod, Error> {
        let port = reader.u32()?;
        reader.skip(4)?;
        let mac = reader.mac()?;
        reader.skip(2)?;
        let read = PortMod { port, mac, config: reader.u32()?, mask: reader.u32()?, advertise: reader.u32()? };
        reader.skip(4)?;
        Ok(read)
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u32(self.port);
        writer.pad(4);
        writer.bytes(&self.mac);
        writer.pad(2);
        writer.u32(self.config);
        writer.u32(self.mask);
        writer.u32(self.advertise);
        writer.pad(4);
    }
}

/// What happened to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortReason {
    /// It is new.
    Add,
    /// It is gone.
    Delete,
    /// Something about it changed.
    Modify,
}

/// News of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// What happened.
    pub reason: PortReason,
    /// The port, as it is now.
    pub port: Port,
}

impl PortStatus {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<PortStatus, Error> {
        let reason = match reader.u8()? {
            0 => PortReason::Add,
            1 => PortReason::Delete,
            2 => PortReason::Modify,
            _ => return Err(crate::error::BadRequest::BadLen.into()),
        };
        reader.skip(7)?;
        Ok(PortStatus { reason, port: Port::read(reader)? })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u8(self.reason as u8);
        writer.pad(7);
        self.port.write(writer);
    }
}

/// How long something exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Duration {
    /// Whole seconds.
    pub seconds: u32,
    /// Nanoseconds beyond them, below 1,000,000,000.
    pub nanoseconds: u32,
}

impl Duration {
    /// From nanoseconds; as long as can be told if it is longer.
    pub fn from_nanoseconds(nanoseconds: u64) -> Duration {
        match u32::try_from(nanoseconds / 1_000_000_000) {
            Ok(seconds) => Duration { seconds, nanoseconds: (nanoseconds % 1_000_000_000) as u32 },
            Err(_) => Duration { seconds: u32::MAX, nanoseconds: 999_999_999 },
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Duration, Error> {
        Ok(Duration { seconds: reader.u32()?, nanoseconds: reader.u32()? })
    }

    pub(crate) fn write(self, writer: &mut Writer) {
        writer.u32(self.seconds);
        writer.u32(self.nanoseconds);
    }
}

/// What went through a port. What is not counted is `u64::MAX` (section 5.8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// The port.
    pub port: u32,
    /// Received packets, transmitted packets, received bytes, transmitted bytes, received and dropped, dropped when they
    /// should be transmitted, receive errors, transmit errors, misaligned frames, overruns, checksum errors, collisions.
    pub counters: [u64; 12],
    /// How long it exists.
    pub duration: Duration,
}

impl PortStats {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<PortStats, Error> {
        let port = reader.u32()?;
        reader.skip(4)?;
        let mut counters = [0; 12];
        for counter in &mut counters {
            *counter = reader.u64()?;
        }
        Ok(PortStats { port, counters, duration: Duration::read(reader)? })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u32(self.port);
        writer.pad(4);
        for counter in self.counters {
            writer.u64(counter);
        }
        self.duration.write(writer);
    }
}
