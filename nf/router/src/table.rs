//! The prefix table of either kind.

use std::sync::Arc;

use weir_mem::Domain;
use weir_table::lpm4::{Config, Dir24, Error, Lookup4, Lpm4, Memory, Packed, Prefix4, Refused, Table};

use crate::config::TableKind;
use crate::fib::Leads;

/// The writer of a prefix table.
#[derive(Debug)]
pub(crate) enum PrefixTable {
    Dir24(Box<Dir24>),
    Packed(Box<Packed>),
}

/// The reader of a prefix table of type `Table<F>`.
pub(crate) type ReaderOf<T> = <T as Lpm4>::Reader;

/// Either kind of reader.
#[derive(Clone, Debug)]
pub(crate) enum PrefixReader {
    Dir24(Arc<ReaderOf<Dir24>>),
    Packed(Arc<ReaderOf<Packed>>),
}

impl PrefixTable {
    pub(crate) fn new(kind: TableKind, config: &Config, domain: &Domain) -> Result<PrefixTable, Error> {
        Ok(match kind {
            TableKind::Dir24 => PrefixTable::Dir24(Box::new(Table::new(config, domain)?)),
            TableKind::Packed => PrefixTable::Packed(Box::new(Table::new(config, domain)?)),
        })
    }

    pub(crate) fn insert(&mut self, prefix: Prefix4, leads: Leads) -> Result<(), Refused> {
        match self {
            PrefixTable::Dir24(table) => table.insert(prefix, leads.value()),
            PrefixTable::Packed(table) => table.insert(prefix, leads.value()),
        }
        .map(drop)
    }

    pub(crate) fn remove(&mut self, prefix: Prefix4) -> Result<(), Refused> {
        match self {
            PrefixTable::Dir24(table) => table.remove(prefix),
            PrefixTable::Packed(table) => table.remove(prefix),
        }
        .map(drop)
    }

    /// Whether it holds exactly this prefix.
    pub(crate) fn has(&self, prefix: Prefix4) -> bool {
        match self {
            PrefixTable::Dir24(table) => table.get(prefix).is_some(),
            PrefixTable::Packed(table) => table.get(prefix).is_some(),
        }
    }

    pub(crate) fn lookup(&self, address: u32) -> u32 {
        match self {
            PrefixTable::Dir24(table) => table.reader().lookup(address),
            PrefixTable::Packed(table) => table.reader().lookup(address),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            PrefixTable::Dir24(table) => table.len(),
            PrefixTable::Packed(table) => table.len(),
        }
    }

    pub(crate) fn memory(&self) -> Memory {
        match self {
            PrefixTable::Dir24(table) => table.memory(),
            PrefixTable::Packed(table) => table.memory(),
        }
    }

    pub(crate) fn reader(&self) -> PrefixReader {
        match self {
            PrefixTable::Dir24(table) => PrefixReader::Dir24(Arc::clone(table.reader())),
            PrefixTable::Packed(table) => PrefixReader::Packed(Arc::clone(table.reader())),
        }
    }
}
