//! The flows that the packets of a batch meet, as far as they were found at the same time.

use super::Parsed;
use crate::compiled::{Found, Met};
use crate::counts::Worker;
use crate::index::{BATCH, NO_SLOT, Slot};
use crate::table::FlowTable;

/// In so many tables packets are looked up at the same time; in further ones, one by one.
const MOST_TABLES: usize = 8;

/// Those of all tables that can find many at the same time.
#[derive(Clone, Debug)]
pub(super) struct AllMet {
    /// Of so many tables flows were found.
    count: usize,
    tables: [MetInTable; MOST_TABLES],
}

/// Those of one table, by the numbers of packets.
#[derive(Clone, Debug)]
pub(super) struct MetInTable {
    pub(super) table: u8,
    /// They go before all others of the table.
    is_first: bool,
    /// The flows, or [`NO_SLOT`].
    pub(super) slots: Vec<Slot>,
}

impl AllMet {
    /// Room for so many packets.
    pub(super) fn new(most: usize) -> AllMet {
        let room = || MetInTable { table: 0, is_first: false, slots: vec![NO_SLOT; most] };
        AllMet { count: 0, tables: std::array::from_fn(|_| room()) }
    }

    /// Forgets all.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    /// Room for what is found in the next table; nothing if there is none.
    #[inline]
    pub(super) fn next(&mut self, table: u8, is_first: bool) -> Option<&mut MetInTable> {
        let met = self.tables.get_mut(self.count)?;
        self.count += 1;
        (met.table, met.is_first) = (table, is_first);
        Some(met)
    }

    /// What was found in a table, if that goes before all others there.
    #[inline]
    pub(super) fn in_table(&self, table: u8) -> Option<&MetInTable> {
        let mut all = self.tables.iter().take(self.count);
        all.find(|met| met.table == table && met.is_first)
    }

    /// A flow that a packet meets of which code found this. Where there are several tables, the first is as good as any, unless code says which.
    pub(super) fn find(&self, packet: usize, found: Option<Found>) -> Option<Met> {
        let is_wanted = |met: &&MetInTable| met.is_first && found.is_none_or(|found| found.search() == met.table);
        self.tables.iter().take(self.count).filter(is_wanted).find_map(|met| met.flow(packet))
    }
}

impl MetInTable {
    /// The flow that a packet meets.
    fn flow(&self, packet: usize) -> Option<Met> {
        let slot = *self.slots.get(packet)?;
        (slot != NO_SLOT).then_some((self.table, slot))
    }

    /// Finds the flows that these packets meet in the table.
    #[inline]
    pub(super) fn find(&mut self, table: &FlowTable, worker: Worker, packets: &[Parsed]) {
        for (slots, packets) in self.slots.chunks_mut(BATCH).zip(packets.chunks(BATCH)) {
            // Where code does not say where a packet is searched for, the first table is as likely as any.
            let is_wanted = |packet: &Parsed| packet.found.map_or(0, Found::search) == self.table;
            let found = table.approach(worker, packets.iter().map(|packet| (&packet.fields, is_wanted(packet))));
            slots.iter_mut().zip(found).for_each(|(slot, found)| *slot = found);
        }
    }
}
