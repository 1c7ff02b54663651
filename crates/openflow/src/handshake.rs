//! The small messages between a switch and its controllers: OpenFlow 1.3.5 sections 7.3.1, 7.3.9, 7.3.10 and 7.5.1.

use crate::Error;
use crate::bytes::{Reader, Writer};
use crate::error::{BadRequest, RoleRequestFailed};
use crate::message::{AsyncConfig, Features, Hello, Role, RoleMessage};

/// The hello element that lists versions.
const VERSION_BITMAP: u16 = 1;

impl Hello {
    /// What somebody says who speaks one version.
    pub fn only(version: u8) -> Hello {
        Hello { version, versions: Some(vec![1u32.checked_shl(u32::from(version)).unwrap_or(0)]) }
    }

    /// The highest version that both speak, if we speak just `ours` (section 6.3.1).
    pub fn agree(&self, ours: u8) -> Option<u8> {
        let speaks = match &self.versions {
            Some(words) => words.get(usize::from(ours / 32)).is_some_and(|word| word >> (ours % 32) & 1 != 0),
            // Without a list it is taken to speak every version up to its own.
            None => self.version >= ours,
        };
        speaks.then_some(ours)
    }

    pub(crate) fn read(version: u8, reader: &mut Reader<'_>) -> Result<Hello, Error> {
        let mut versions = None;
        while !reader.is_empty() {
            let mut header = *reader;
            let kind = header.u16()?;
            let length = usize::from(header.u16()?);
            if length < 4 {
                return Err(BadRequest::BadLen.into());
            }
            // The last element may come without its padding.
            let mut whole = reader.part(length.next_multiple_of(8).min(reader.left()), BadRequest::BadLen)?;
            let mut body = whole.part(length, BadRequest::BadLen)?;
            body.skip(4)?;
            if kind == VERSION_BITMAP {
                versions = Some(body.all(Reader::u32)?);
            }
        }
        Ok(Hello { version, versions })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        let Some(words) = &self.versions else { return };
        let start = writer.here();
        writer.u16(VERSION_BITMAP);
        writer.u16(0);
        for word in words {
            writer.u32(*word);
        }
        writer.length(start, 2);
        writer.align(start);
    }
}

impl Features {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Features, Error> {
        let (datapath, buffers, tables, auxiliary) = (reader.u64()?, reader.u32()?, reader.u8()?, reader.u8()?);
        reader.skip(2)?;
        let capabilities = reader.u32()?;
        reader.skip(4)?;
        Ok(Features { datapath, buffers, tables, auxiliary, capabilities })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u64(self.datapath);
        writer.u32(self.buffers);
        writer.u8(self.tables);
        writer.u8(self.auxiliary);
        writer.pad(2);
        writer.u32(self.capabilities);
        writer.pad(4);
    }
}

impl RoleMessage {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<RoleMessage, Error> {
        let role = match reader.u32()? {
            0 => Role::NoChange,
            1 => Role::Equal,
            2 => Role::Master,
            3 => Role::Slave,
            _ => return Err(RoleRequestFailed::BadRole.into()),
        };
        reader.skip(4)?;
        Ok(RoleMessage { role, generation: reader.u64()? })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u32(self.role as u32);
        writer.pad(4);
        writer.u64(self.generation);
    }
}

impl AsyncConfig {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<AsyncConfig, Error> {
        let mut pair = || Ok::<_, Error>([reader.u32()?, reader.u32()?]);
        Ok(AsyncConfig { packet_in: pair()?, port_status: pair()?, flow_removed: pair()? })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        for mask in [self.packet_in, self.port_status, self.flow_removed].as_flattened() {
            writer.u32(*mask);
        }
    }
}

impl Default for AsyncConfig {
    /// What a controller gets unless it says otherwise (section 6.3.5, as Open vSwitch has it too): all as master or equal;
    /// as slave, only what happens to ports.
    fn default() -> AsyncConfig {
        AsyncConfig { packet_in: [0b11, 0], port_status: [0b111, 0b111], flow_removed: [0b1111, 0] }
    }
}
