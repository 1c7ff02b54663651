//! The stages that look packets up and send them by the ways of their next hops.

use std::sync::Arc;

use weir_packet::Batch;
use weir_simd::Kernel;
use weir_simd::frame_check::BATCH;
use weir_stage::{Declaration, Out, Stage};
use weir_table::lpm4::Lookup4;
use weir_table::lpm6::Trie;
use weir_wire::{Ethernet, View};

use crate::fast::checker::{Checker, reach};
use crate::fast::classify::Family;
use crate::fast::lookups::{Lookups, place};
use crate::fast::six;
use crate::steps::checked;
use crate::tables::fib::{Adjacency, Fib};

weir_stage::ways! {
    /// Ways out of [`RoutingStage`], before those to the next hops.
    pub(crate) enum Exit {
        /// No route leads there.
        NoRoute => way "no-route",
    }
}

/// What a stage of a family with so many next hops declares.
pub(super) fn declaration(family: Family, ways: usize) -> Declaration {
    Declaration::of::<Exit>().indexed("way", ways).reads(&[checked(family)])
}

/// Finds out where packets of one family go.
pub(super) trait Find: Send {
    /// Which family.
    const FAMILY: Family;

    /// Writes the places that the packets of a batch lead to, by slot. What stands at slots without packets means nothing.
    fn places(&mut self, batch: &Batch, places: &mut [u32; BATCH]);
}

/// Where IPv4 packets go.
pub(super) struct Four<T> {
    pub(super) lookups: Lookups<T>,
    pub(super) checker: Checker,
}

/// Where IPv6 packets go.
pub(super) struct Six {
    pub(super) table: Arc<Trie>,
    pub(super) fib: Arc<Fib>,
    /// What flows are hashed with.
    pub(super) seed: u64,
    pub(super) six: six::Six,
}

impl<T: Lookup4> Find for Four<T> {
    const FAMILY: Family = Family::Four;

    #[inline(always)]
    fn places(&mut self, batch: &Batch, places: &mut [u32; BATCH]) {
        let (table, count): (&T, _) = (&self.lookups.table, reach(batch));
        self.checker.gather::<false>(batch, (batch.live(), count), |destination| table.prefetch(destination), |_| {});
        self.lookups.places(batch, &self.checker.destinations, count, places);
    }
}

impl Find for Six {
    const FAMILY: Family = Family::Six;

    #[inline(always)]
    fn places(&mut self, batch: &Batch, places: &mut [u32; BATCH]) {
        self.six.gather::<false>(batch, batch.live());
        self.six.look_up(&self.table, places);
        batch.each_ref(|slot, packet| {
            let value = &mut places[slot.index()];
            *value = place(&self.fib, self.seed, packet, Ethernet::LEN, Family::Six, *value);
        });
    }
}

/// Sends packets by the ways of their next hops.
pub(super) struct RoutingStage<F> {
    pub(super) find: F,
    pub(super) fib: Arc<Fib>,
    pub(super) kernel: Kernel,
    pub(super) ways: usize,
}

impl<F: Find> RoutingStage<F> {
    #[inline(always)]
    fn pass(&mut self, batch: &Batch, out: &mut Out<'_>) {
        let mut places = [0; BATCH];
        self.find.places(batch, &mut places);
        let fib = self.fib.view(self.fib.places());
        let (mut ways, mut gone) = ([0; BATCH], 0);
        batch.each_ref(|slot, _| {
            if let Some(way) = fib.adjacency(places[slot.index()]).and_then(Adjacency::interface) {
                ways[slot.index()] = way as u8;
                gone |= slot.bit();
            }
        });
        out.answer_indexed_each(gone, &ways);
    }
}

impl<F: Find> Stage for RoutingStage<F> {
    fn declare(&self) -> Declaration {
        declaration(F::FAMILY, self.ways)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        self.kernel.run(
            #[inline(always)]
            || self.pass(batch, out),
        );
    }
}
