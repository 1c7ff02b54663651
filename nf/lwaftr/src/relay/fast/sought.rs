//! The softwires of the packets of a batch: asked for, followed and found in passes, so that no look-up waits for memory.

use weir_packet::BATCH;
use weir_table::exact::Hash;
use weir_wire::port_sets::PortSets;

use crate::table::{DenseView, Direction, Entry, Softwires, WorkerCounters, tell};

/// Softwires of the packets of a batch, as far as they are found.
pub(super) struct Sought {
    /// The address and the port that they are found by.
    addresses: [u32; BATCH],
    ports: [u16; BATCH],
    /// Where to look: a hash of the address, then one of address and PSID, or a position in the [array](DenseView).
    keys: [u64; BATCH],
    /// What their records say that they were made for.
    pub(super) told: [u64; BATCH],
    places: [u32; BATCH],
}

impl Default for Sought {
    fn default() -> Sought {
        Sought { addresses: [0; BATCH], ports: [0; BATCH], keys: [0; BATCH], told: [0; BATCH], places: [0; BATCH] }
    }
}

/// How softwires are looked up during a batch.
#[derive(Clone, Copy)]
pub(super) struct Lookup<'t> {
    pub(super) softwires: &'t Softwires,
    pub(super) dense: Option<DenseView<'t>>,
}

impl Lookup<'_> {
    /// Asks for what leads to an address, and answers where that is.
    #[inline(always)]
    fn seek_address(self, address: u32) -> u64 {
        let hash = self.softwires.hash_of_address(address);
        self.softwires.prefetch_address(hash);
        hash.to_bits()
    }

    /// How the ports of an address are divided, most probably.
    #[inline(always)]
    fn sets(self, key: u64) -> Option<PortSets> {
        self.softwires.candidate_sets(Hash::from_bits(key))
    }

    /// The place of the record that a key leads to, most probably.
    #[inline(always)]
    fn place(self, key: u64) -> u32 {
        match self.dense {
            Some(dense) => dense.place(key),
            None => self.softwires.candidate_place(Hash::from_bits(key)),
        }
    }
}

impl Sought {
    /// Asks for what leads to the softwire that has a port of an address, divided so. False if none has it.
    #[inline(always)]
    pub(super) fn seek(&mut self, lookup: Lookup<'_>, at: usize, (address, port): (u32, u16), sets: PortSets) -> bool {
        let Some(psid) = sets.psid(port) else { return false };
        let at = at % BATCH;
        self.keys[at] = match lookup.dense {
            Some(dense) => {
                let position = dense.position(address, psid);
                dense.prefetch(position);
                position
            }
            None => {
                let hash = lookup.softwires.hash_of_part(address, psid);
                lookup.softwires.prefetch_part(hash);
                hash.to_bits()
            }
        };
        self.told[at] = tell(address, psid, sets);
        true
    }

    /// The same where it is not known yet how the ports of the address are divided: it is asked for.
    #[inline(always)]
    pub(super) fn seek_address(&mut self, lookup: Lookup<'_>, at: usize, (address, port): (u32, u16)) {
        let at = at % BATCH;
        (self.addresses[at], self.ports[at]) = (address, port);
        self.keys[at] = lookup.seek_address(address);
    }

    /// What an address leads to that was [asked for](Self::seek_address): asks for the softwire. `None` if nobody seems to share the address, false if
    /// nobody has the port.
    #[inline(always)]
    pub(super) fn follow(&mut self, lookup: Lookup<'_>, at: usize) -> Option<bool> {
        let at = at % BATCH;
        let sets = lookup.sets(self.keys[at])?;
        Some(self.seek(lookup, at, (self.addresses[at], self.ports[at]), sets))
    }

    /// Goes on to the record and the counters of a softwire.
    #[inline(always)]
    pub(super) fn approach(&mut self, lookup: Lookup<'_>, counters: &WorkerCounters, at: usize, direction: Direction) {
        let at = at % BATCH;
        let place = lookup.place(self.keys[at]);
        lookup.softwires.prefetch_record(place);
        counters.prefetch(place, direction);
        self.places[at] = place;
    }

    /// The softwire of a packet, and its place.
    #[inline(always)]
    pub(super) fn found<'t>(&self, softwires: &'t Softwires, at: usize) -> Option<(Entry<'t>, u32)> {
        let at = at % BATCH;
        Some((softwires.entry(self.places[at], self.told[at])?, self.places[at]))
    }
}
