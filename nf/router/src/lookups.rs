//! Looks up where packets go: the prefix table, then the next hop, or one of an equal-cost group.

use std::sync::Arc;

use weir_packet::{Batch, Packet};
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
        self.choose(batch, places);
    }

    /// Lets the groups among the values, if there are any, choose next hops by the packets' flows.
    #[inline(always)]
    pub(crate) fn choose(&self, batch: &Batch, values: &mut [u32; BATCH]) {
        if values.iter().fold(0, |any, value| any | value) & fib::GROUP != 0 {
            self.choose_each(batch, values);
        }
    }

    #[inline(never)]
    fn choose_each(&self, batch: &Batch, values: &mut [u32; BATCH]) {
        batch.each_ref(|slot, packet| {
            let value = &mut values[slot.index()];
            *value = self.place(packet, *value);
        });
    }

    /// The place that an answer of the prefix table stands for.
    #[inline(always)]
    pub(crate) fn place(&self, packet: &Packet, value: u32) -> u32 {
        let length = packet.len().saturating_sub(Ethernet::LEN);
        self.fib.place(value, || flow::hash(packet.window::<64>(Ethernet::LEN), length, self.seed))
    }

    /// Whether a packet is for one of the router's own addresses.
    pub(crate) fn has_arrived(&self, packet: &Packet) -> bool {
        let place = self.fib.place(self.table.lookup(destination(packet)), || 0);
        self.fib.entry(place).action() == Action::Local
    }
}

/// The destination address of an IPv4 packet.
pub(crate) fn destination(packet: &Packet) -> u32 {
    Ipv4::view(packet.window::<20>(Ethernet::LEN)).map_or(0, |ip| ip.destination.get())
}
