//! The softwires of the packets of a batch: asked for, followed and found in passes, so that no look-up waits for memory.

use weir_packet::BATCH;
use weir_table::exact::Hash;
use weir_wire::port_sets::PortSets;

use crate::table::{CountersView, DenseView, Entry, Records, Softwires, tell};

/// Softwires of the packets of a batch, as far as they are found.
pub(super) struct Sought {
    /// The address and the port that they are found by.
    addresses: [u32; BATCH],
    ports: [u16; BATCH],
    /// Where to look: a hash of the address, then what [leads to](Lookup::seek) the part of it.
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
pub(super) trait Lookup: Copy {
    /// How the ports of all addresses are divided, if of all alike.
    fn common(self) -> Option<PortSets>;

    /// Asks for what leads to a part of an address, and answers where that is.
    fn seek(self, address: u32, psid: u16) -> u64;

    /// The place of the record that is led to from there, most probably.
    fn place(self, key: u64) -> u32;
}

/// By the array: all addresses are divided alike, and lie close to each other.
#[derive(Clone, Copy)]
pub(super) struct ByArray<'t> {
    pub(super) array: DenseView<'t>,
    pub(super) sets: PortSets,
}

impl Lookup for ByArray<'_> {
    #[inline(always)]
    fn common(self) -> Option<PortSets> {
        Some(self.sets)
    }

    #[inline(always)]
    fn seek(self, address: u32, psid: u16) -> u64 {
        let position = self.array.position(address, psid);
        self.array.prefetch(position);
        position
    }

    #[inline(always)]
    fn place(self, key: u64) -> u32 {
        self.array.place(key)
    }
}

/// By the index of all parts.
#[derive(Clone, Copy)]
pub(super) struct ByIndex<'t> {
    pub(super) softwires: &'t Softwires,
    pub(super) common: Option<PortSets>,
}

impl Lookup for ByIndex<'_> {
    #[inline(always)]
    fn common(self) -> Option<PortSets> {
        self.common
    }

    #[inline(always)]
    fn seek(self, address: u32, psid: u16) -> u64 {
        let hash = self.softwires.hash_of_part(address, psid);
        self.softwires.prefetch_part(hash);
        hash.to_bits()
    }

    #[inline(always)]
    fn place(self, key: u64) -> u32 {
        self.softwires.candidate_place(Hash::from_bits(key))
    }
}

impl Sought {
    /// Asks for what leads to the softwire that has a port of an address, divided so. False if none has it.
    #[inline(always)]
    pub(super) fn seek(&mut self, lookup: impl Lookup, at: usize, (address, port): (u32, u16), sets: PortSets) -> bool {
        let Some(psid) = sets.psid(port) else { return false };
        let at = at % BATCH;
        self.keys[at] = lookup.seek(address, psid);
        self.told[at] = tell(address, psid, sets);
        true
    }

    /// The same where it is not known yet how the ports of the address are divided: it is asked for.
    #[inline(always)]
    pub(super) fn seek_address(&mut self, softwires: &Softwires, at: usize, (address, port): (u32, u16)) {
        let at = at % BATCH;
        (self.addresses[at], self.ports[at]) = (address, port);
        let hash = softwires.hash_of_address(address);
        softwires.prefetch_address(hash);
        self.keys[at] = hash.to_bits();
    }

    /// What an address leads to that was [asked for](Self::seek_address): asks for the softwire. `None` if nobody seems to share the address, false if
    /// nobody has the port.
    #[inline(always)]
    pub(super) fn follow(&mut self, softwires: &Softwires, lookup: impl Lookup, at: usize) -> Option<bool> {
        let at = at % BATCH;
        let sets = softwires.candidate_sets(Hash::from_bits(self.keys[at]))?;
        Some(self.seek(lookup, at, (self.addresses[at], self.ports[at]), sets))
    }

    /// Goes on to the record and the counters of a softwire.
    #[inline(always)]
    pub(super) fn approach(
        &mut self,
        lookup: impl Lookup,
        (records, counters): (Records<'_>, CountersView<'_>),
        at: usize,
    ) {
        let at = at % BATCH;
        let place = lookup.place(self.keys[at]);
        records.prefetch(place);
        counters.prefetch(place);
        self.places[at] = place;
    }

    /// The softwire of a packet, and its place.
    #[inline(always)]
    pub(super) fn found<'t>(&self, records: Records<'t>, at: usize) -> Option<(Entry<'t>, u32)> {
        let at = at % BATCH;
        Some((records.entry(self.places[at], self.told[at])?, self.places[at]))
    }
}
