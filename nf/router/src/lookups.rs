//! Looks up where packets go: the prefix table, then the next hop, or one of an equal-cost group.

use std::sync::Arc;

use weir_packet::{Batch, Lanes, Packet, Slot};
use weir_simd::frame_check::{BATCH, Destinations};
use weir_table::lpm4::Lookup4;
use weir_wire::{Ethernet, Ipv4, View, flow};

use crate::fib::{self, Action, Fib};

/// What packets are looked up in.
pub(crate) struct Lookups<T> {
    pub(crate) table: Arc<T>,
    pub(crate) fib: Arc<Fib>,
    /// What flows are hashed with.
    pub(crate) seed: u64,
}

impl<T: Lookup4> Lookups<T> {
    /// Writes the places that the packets of a batch lead to, by slot, `count` being one more than the last slot. What stands at
    /// slots without packets means nothing.
    pub(crate) fn places(&self, batch: &Batch, destinations: &Destinations, count: usize, places: &mut [u32; BATCH]) {
        if let (Some(from), Some(to)) = (destinations.0.get(..count), places.get_mut(..count)) {
            self.table.lookup_batch(from, to);
        }
        self.choose::<false>(batch, u64::MAX, places);
    }

    /// Lets the groups among the values in `mask`, if there are any, choose next hops by the packets' flows; others are as they were, for
    /// they may be no values yet. Packets of a `TAGGED` batch may have tags.
    #[inline(always)]
    pub(crate) fn choose<const TAGGED: bool>(&self, batch: &Batch, mask: u64, values: &mut [u32; BATCH]) {
        if values.iter().fold(0, |any, value| any | value) & fib::GROUP != 0 {
            self.choose_each::<TAGGED>(batch, mask, values);
        }
    }

    #[inline(never)]
    fn choose_each<const TAGGED: bool>(&self, batch: &Batch, mask: u64, values: &mut [u32; BATCH]) {
        batch.each_ref(|slot, packet| {
            if mask & slot.bit() != 0 {
                let value = &mut values[slot.index()];
                *value = self.place(packet, l3_of::<TAGGED>(&batch.lanes, slot), *value);
            }
        });
    }

    /// The place that an answer of the prefix table stands for, to a packet whose network header begins at `l3`.
    #[inline(always)]
    pub(crate) fn place(&self, packet: &Packet, l3: usize, value: u32) -> u32 {
        let length = packet.len().saturating_sub(l3);
        self.fib.place(value, || flow::hash(packet.window::<64>(l3), length, self.seed))
    }

    /// Whether a packet is for one of the router's own addresses.
    pub(crate) fn has_arrived(&self, packet: &Packet, l3: usize) -> bool {
        let place = self.fib.place(self.table.lookup(destination(packet, l3)), || 0);
        self.fib.entry(place).action() == Action::Local
    }
}

/// Where the network header of a packet begins: in a batch that is not `TAGGED`, right behind an Ethernet header.
#[inline(always)]
pub(crate) fn l3_of<const TAGGED: bool>(lanes: &Lanes, slot: Slot) -> usize {
    if TAGGED { usize::from(lanes.l3[slot]) } else { Ethernet::LEN }
}

/// The destination address of an IPv4 packet.
pub(crate) fn destination(packet: &Packet, l3: usize) -> u32 {
    Ipv4::view(packet.window::<20>(l3)).map_or(0, |ip| ip.destination.get())
}
