//! Tables: OpenFlow 1.3.5 sections 7.3.3, 7.3.5.4 and 7.3.5.5.

use crate::Error;
use crate::bytes::{Reader, Writer};
use crate::error::TableFeaturesFailed;

/// A change of a table's configuration, which version 1.3 keeps for later use: bits 0 and 1 are deprecated, others reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMod {
    /// The table, or [`crate::flow::ALL_TABLES`].
    pub table: u8,
    /// The configuration.
    pub config: u32,
}

impl TableMod {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<TableMod, Error> {
        let table = reader.u8()?;
        reader.skip(3)?;
        Ok(TableMod { table, config: reader.u32()? })
    }

    pub(crate) fn write(self, writer: &mut Writer) {
        writer.u8(self.table);
        writer.pad(3);
        writer.u32(self.config);
    }
}

/// What went through a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Its number.
    pub table: u8,
    /// How many flows it has.
    pub active: u32,
    /// How many packets were looked up.
    pub lookups: u64,
    /// How many of them matched a flow.
    pub matched: u64,
}

impl TableStats {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<TableStats, Error> {
        let table = reader.u8()?;
        reader.skip(3)?;
        Ok(TableStats { table, active: reader.u32()?, lookups: reader.u64()?, matched: reader.u64()? })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u8(self.table);
        writer.pad(3);
        writer.u32(self.active);
        writer.u64(self.lookups);
        writer.u64(self.matched);
    }
}

/// The numbers of the properties of tables. Those of a number with `_MISS` are about the table-miss flow.
pub mod property {
    #![allow(missing_docs, reason = "each is the property of that name in section 7.3.5.5.2")]

    pub const INSTRUCTIONS: u16 = 0;
    pub const INSTRUCTIONS_MISS: u16 = 1;
    pub const NEXT_TABLES: u16 = 2;
    pub const NEXT_TABLES_MISS: u16 = 3;
    pub const WRITE_ACTIONS: u16 = 4;
    pub const WRITE_ACTIONS_MISS: u16 = 5;
    pub const APPLY_ACTIONS: u16 = 6;
    pub const APPLY_ACTIONS_MISS: u16 = 7;
    pub const MATCH: u16 = 8;
    pub const WILDCARDS: u16 = 10;
    pub const WRITE_SET_FIELD: u16 = 12;
    pub const WRITE_SET_FIELD_MISS: u16 = 13;
    pub const APPLY_SET_FIELD: u16 = 14;
    pub const APPLY_SET_FIELD_MISS: u16 = 15;
    pub const EXPERIMENTER: u16 = 0xfffe;
    pub const EXPERIMENTER_MISS: u16 = 0xffff;
}

/// What a property lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// The types of instructions or actions.
    Kinds(Vec<u16>),
    /// Numbers of tables.
    Tables(Vec<u8>),
    /// Fields, as [`crate::oxm::Oxm::header`].
    Fields(Vec<u32>),
    /// What an experimenter defines: who, what, and the rest.
    Experimenter(u32, u32, Vec<u8>),
}

/// Something that a table can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableProperty {
    /// Which [`property`].
    pub kind: u16,
    /// What it lists; which of its forms follows from `kind`.
    pub listed: Listed,
}

impl TableProperty {
    fn read(reader: &mut Reader<'_>) -> Result<TableProperty, Error> {
        let mut header = *reader;
        let kind = header.u16()?;
        let length = usize::from(header.u16()?);
        let mut whole = reader.part(length.next_multiple_of(8), TableFeaturesFailed::BadLen)?;
        let mut body = whole.part(length, TableFeaturesFailed::BadLen)?;
        body.skip(4)?;
        use property as p;
        let listed = match kind {
            p::INSTRUCTIONS..=p::INSTRUCTIONS_MISS | p::WRITE_ACTIONS..=p::APPLY_ACTIONS_MISS => {
                Listed::Kinds(body.all(|reader| {
                    let kind = reader.u16()?;
                    // Longer ones are those of experimenters, of whom none is known.
                    if reader.u16()? == 4 { Ok(kind) } else { Err(TableFeaturesFailed::BadArgument.into()) }
                })?)
            }
            p::NEXT_TABLES..=p::NEXT_TABLES_MISS => Listed::Tables(body.rest().to_vec()),
            p::MATCH | p::WILDCARDS | p::WRITE_SET_FIELD..=p::APPLY_SET_FIELD_MISS => {
                Listed::Fields(body.all(Reader::u32)?)
            }
            p::EXPERIMENTER | p::EXPERIMENTER_MISS => {
                Listed::Experimenter(body.u32()?, body.u32()?, body.rest().to_vec())
            }
            _ => return Err(TableFeaturesFailed::BadType.into()),
        };
        Ok(TableProperty { kind, listed })
    }

    fn write(&self, writer: &mut Writer) {
        let start = writer.here();
        writer.u16(self.kind);
        writer.u16(0);
        match &self.listed {
            Listed::Kinds(kinds) => {
                for kind in kinds {
                    writer.u16(*kind);
                    writer.u16(4);
                }
            }
            Listed::Tables(tables) => writer.bytes(tables),
            Listed::Fields(headers) => {
                for header in headers {
                    writer.u32(*header);
                }
            }
            Listed::Experimenter(experimenter, kind, data) => {
                writer.u32(*experimenter);
                writer.u32(*kind);
                writer.bytes(data);
            }
        }
        // Here the length does not count the padding.
        writer.length(start, 2);
        writer.align(start);
    }
}

/// What a table can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFeatures {
    /// Its number.
    pub table: u8,
    /// Its name; at most 31 bytes are told.
    pub name: String,
    /// Which bits of the metadata flows can match.
    pub metadata_match: u64,
    /// Which bits of the metadata flows can write.
    pub metadata_write: u64,
    /// As in [`TableMod`].
    pub config: u32,
    /// How many flows there may be.
    pub max_entries: u32,
    /// What it can do.
    pub properties: Vec<TableProperty>,
}

impl TableFeatures {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<TableFeatures, Error> {
        let mut body = Reader::new(reader.sized()?.rest(), TableFeaturesFailed::BadLen);
        let table = body.u8()?;
        body.skip(5)?;
        Ok(TableFeatures {
            table,
            name: body.text(32)?,
            metadata_match: body.u64()?,
            metadata_write: body.u64()?,
            config: body.u32()?,
            max_entries: body.u32()?,
            properties: body.all(TableProperty::read)?,
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.sized(|writer| {
            writer.u8(self.table);
            writer.pad(5);
            writer.text(&self.name, 32);
            writer.u64(self.metadata_match);
            writer.u64(self.metadata_write);
            writer.u32(self.config);
            writer.u32(self.max_entries);
            for property in &self.properties {
                property.write(writer);
            }
        });
    }
}
