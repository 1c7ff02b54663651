//! The prefix tables of a VRF: of IPv4 in either kind, and of IPv6.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use weir_mem::Domain;
use weir_table::lpm4::{self, Config, Dir24, Error, Lookup4, Lpm4, Packed, Prefix4, Table};
use weir_table::lpm6::{self, Compiled, Lookup6, Lpm6, Prefix6, Trie};

use crate::config::TableKind;
use crate::tables::fib::Leads;

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

    fn insert(&mut self, prefix: Prefix4, leads: Leads) -> Result<(), lpm4::Refused> {
        match self {
            PrefixTable::Dir24(table) => table.insert(prefix, leads.value()),
            PrefixTable::Packed(table) => table.insert(prefix, leads.value()),
        }
        .map(drop)
    }

    fn remove(&mut self, prefix: Prefix4) -> Result<(), lpm4::Refused> {
        match self {
            PrefixTable::Dir24(table) => table.remove(prefix),
            PrefixTable::Packed(table) => table.remove(prefix),
        }
        .map(drop)
    }

    /// Whether it holds exactly this prefix.
    fn has(&self, prefix: Prefix4) -> bool {
        match self {
            PrefixTable::Dir24(table) => table.get(prefix).is_some(),
            PrefixTable::Packed(table) => table.get(prefix).is_some(),
        }
    }

    fn lookup(&self, address: u32) -> u32 {
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

    fn memory(&self) -> lpm4::Memory {
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

/// What workers look up in, of one VRF. The values of both are [`Leads`].
#[derive(Clone, Debug)]
pub(crate) struct Readers {
    pub(crate) four: PrefixReader,
    pub(crate) six: Arc<Trie>,
}

/// Why a change of a table was refused; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Four(lpm4::Refused),
    Six(lpm6::Refused),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Four(refused) => refused.fmt(f),
            Refused::Six(refused) => refused.fmt(f),
        }
    }
}

/// What tables occupy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Bytes mapped for lookups.
    pub(crate) lookup: usize,
    /// Of that, in use by the prefixes of now.
    pub(crate) used: usize,
    /// Bytes of the control side, about.
    pub(crate) control: usize,
    /// Freed pieces that wait for readers to pass.
    pub(crate) waiting: usize,
}

/// The prefix tables of one VRF, as their only writer has them.
#[derive(Debug)]
pub(crate) struct VrfTables {
    pub(crate) four: PrefixTable,
    pub(crate) six: Compiled,
}

/// A prefix as the table of its family has it; its length is within bounds, so that the fallback is never taken.
fn prefix4(net: ipnet::Ipv4Net) -> Prefix4 {
    Prefix4::covering(net.addr().to_bits(), net.prefix_len()).unwrap_or(Prefix4::DEFAULT)
}

/// The same of IPv6.
fn prefix6(net: ipnet::Ipv6Net) -> Prefix6 {
    Prefix6::covering(net.addr().to_bits(), net.prefix_len()).unwrap_or(Prefix6::DEFAULT)
}

impl VrfTables {
    /// Makes a prefix lead somewhere, or not be there any more.
    pub(crate) fn write(&mut self, prefix: IpNet, leads: Option<Leads>) -> Result<(), Refused> {
        match (prefix, leads) {
            (IpNet::V4(net), Some(leads)) => self.four.insert(prefix4(net), leads).map_err(Refused::Four),
            (IpNet::V4(net), None) => self.four.remove(prefix4(net)).map_err(Refused::Four),
            (IpNet::V6(net), Some(leads)) => {
                self.six.insert(prefix6(net), leads.value()).map(drop).map_err(Refused::Six)
            }
            (IpNet::V6(net), None) => self.six.remove(prefix6(net)).map(drop).map_err(Refused::Six),
        }
    }

    /// Whether exactly this prefix is there.
    pub(crate) fn has(&self, prefix: IpNet) -> bool {
        match prefix {
            IpNet::V4(net) => self.four.has(prefix4(net)),
            IpNet::V6(net) => self.six.get(prefix6(net)).is_some(),
        }
    }

    /// The value that workers find for an address.
    pub(crate) fn lookup(&self, address: IpAddr) -> u32 {
        match address {
            IpAddr::V4(address) => self.four.lookup(address.to_bits()),
            IpAddr::V6(address) => self.six.reader().lookup(address.to_bits()),
        }
    }

    /// Prefixes of both families.
    pub(crate) fn len(&self) -> usize {
        let (four, six) = self.lens();
        four + six
    }

    /// Prefixes of IPv4 and of IPv6.
    pub(crate) fn lens(&self) -> (usize, usize) {
        (self.four.len(), self.six.len())
    }

    /// What both occupy.
    pub(crate) fn memory(&self) -> Memory {
        let (four, six) = (self.four.memory(), self.six.memory());
        Memory {
            lookup: four.lookup + six.lookup,
            used: four.used + six.used,
            control: four.control + six.control,
            waiting: four.waiting + six.waiting,
        }
    }

    pub(crate) fn readers(&self) -> Readers {
        Readers { four: self.four.reader(), six: Arc::clone(self.six.reader()) }
    }
}
