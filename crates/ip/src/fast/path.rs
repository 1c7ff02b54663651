//! Sends packets on to the next hops that they were looked up to.

use weir_packet::{Batch, Packet, Slots};
use weir_simd::frame_check::BATCH;
use weir_stage::Out;
use weir_wire::{Ethernet, View};

use crate::Egress;
use crate::fast::classify::Family;
use crate::fast::lookups::l3_of;
use crate::fast::rewrite::{Four, Header, Six, rewrite, rewrite_tagged, rewrite_to_tags, source_word};
use crate::tables::fib::{Adjacency, FibView};
use weir_table::counters::Tally;

/// What forwarding needs for every packet, at hand.
#[derive(Clone, Copy)]
pub(crate) struct Path<'p> {
    pub(crate) fib: FibView<'p>,
    pub(crate) counters: Tally<'p>,
}

impl Path<'_> {
    /// Forwards the packets in `good` whose place is a next hop; returns their mask.
    #[inline(always)]
    pub(crate) fn forward_batch<const TAGGED: bool, H: Header>(
        self,
        batch: &mut Batch,
        good: u64,
        places: &[u32; BATCH],
        out: &mut Out<'_>,
    ) -> u64 {
        let first = places[good.trailing_zeros() as usize % BATCH];
        if are_alike(places, good, first) {
            return self.forward_alike::<TAGGED, H>(batch, good, first, out);
        }
        if TAGGED {
            // Where there are tags, there may be thousands of interfaces.
            for slot in Slots(good) {
                self.fib.prefetch_egress(places[slot.index()]);
                self.counters.prefetch(places[slot.index()]);
            }
        }
        let mut ports = [0; BATCH];
        let mut left = 0;
        batch.each_in(
            good,
            #[inline(always)]
            |slot, packet, lanes| match self.forward::<TAGGED, H>(
                packet,
                l3_of::<TAGGED>(lanes, slot),
                places[slot.index()],
            ) {
                Some(port) => ports[slot.index()] = port,
                None => left |= slot.bit(),
            },
        );
        out.answer_indexed_each(good & !left, &ports);
        good & !left
    }

    /// Forwards one packet of either family, whose network header begins at `l3`; `None` if something else is to be done with it.
    pub(crate) fn forward_of(self, family: Family, packet: &mut Packet, l3: usize, place: u32) -> Option<u8> {
        match family {
            Family::Four => self.forward::<true, Four>(packet, l3, place),
            Family::Six => self.forward::<true, Six>(packet, l3, place),
        }
    }

    /// The same as [`Path::forward_batch`] for packets that all go to one place: it is looked at once, and counted once. Counting packet after packet to
    /// one place would wait for each store to come back.
    #[inline(always)]
    fn forward_alike<const TAGGED: bool, H: Header>(
        self,
        batch: &mut Batch,
        good: u64,
        place: u32,
        out: &mut Out<'_>,
    ) -> u64 {
        let Some(adjacency) = self.fib.adjacency(place) else { return 0 };
        let Some(egress) = self.fib.egress(adjacency) else { return 0 };
        let shape = egress.shape();
        if TAGGED || shape.header_len() != Ethernet::LEN {
            return self.forward_alike_tagged::<TAGGED, H>(batch, good, place, (adjacency, egress), out);
        }
        // One that is as long as the header alone would fit even where nothing may leave; there is none.
        let (longest, source) = (Ethernet::LEN + shape.longest(), source_word::<H>(egress));
        let (mut left, mut bytes) = (0, 0);
        batch.each_in(good, |slot, packet, _| {
            let len = packet.len();
            if len > longest {
                left |= slot.bit();
            } else {
                rewrite::<H>(packet, adjacency, source);
                bytes += len as u64;
            }
        });
        let gone = good & !left;
        self.counters.count(place, u64::from(gone.count_ones()), bytes);
        out.answer_indexed_each(gone, &[shape.way(); BATCH]);
        gone
    }

    /// The same where tags come off or on. Apart, as most batches have none.
    #[inline(never)]
    fn forward_alike_tagged<const TAGGED: bool, H: Header>(
        self,
        batch: &mut Batch,
        good: u64,
        place: u32,
        (adjacency, egress): (Adjacency, &Egress),
        out: &mut Out<'_>,
    ) -> u64 {
        let shape = egress.shape();
        let (mut left, mut bytes) = (0, 0);
        batch.each_in(good, |slot, packet, lanes| {
            let l3 = l3_of::<TAGGED>(lanes, slot);
            let fits = packet.len() <= l3 + shape.longest();
            if fits && rewrite_tagged::<H>(packet, l3, adjacency, egress, shape) {
                bytes += packet.len() as u64;
            } else {
                left |= slot.bit();
            }
        });
        let gone = good & !left;
        self.counters.count(place, u64::from(gone.count_ones()), bytes);
        out.answer_indexed_each(gone, &[shape.way(); BATCH]);
        gone
    }

    /// Forwards one packet, whose network header begins at `l3`, out of a port; `None` if something else is to be done with it.
    #[inline(always)]
    pub(crate) fn forward<const TAGGED: bool, H: Header>(
        self,
        packet: &mut Packet,
        l3: usize,
        place: u32,
    ) -> Option<u8> {
        let adjacency = self.fib.adjacency(place)?;
        let egress = self.fib.egress(adjacency)?;
        let shape = egress.shape();
        // The packet on the wire is at least as long as its total length says, so that this settles the MTU for both.
        if packet.len() > l3 + shape.longest() {
            return None;
        }
        if !TAGGED && shape.header_len() == Ethernet::LEN {
            rewrite::<H>(packet, adjacency, source_word::<H>(egress));
        } else if TAGGED {
            if !rewrite_tagged::<H>(packet, l3, adjacency, egress, shape) {
                return None;
            }
        } else if !rewrite_to_tags::<H>(packet, adjacency, egress) {
            return None;
        }
        self.counters.count(place, 1, packet.len() as u64);
        Some(shape.way())
    }

    /// Whether nothing leaves by the interface that a place leads to.
    pub(crate) fn is_closed(self, place: u32) -> bool {
        self.fib.adjacency(place).and_then(|adjacency| self.fib.egress(adjacency)).is_some_and(Egress::is_closed)
    }
}

/// Whether all packets in `mask` have the same place.
#[inline(always)]
fn are_alike(places: &[u32; BATCH], mask: u64, place: u32) -> bool {
    // By vectors where nobody is left out, or who is was to go there, too. A few at a time: where they differ, the first ones do.
    let (some, _) = places.as_chunks::<16>();
    some.iter().all(|some| some.iter().fold(0, |differ, other| differ | (other ^ place)) == 0)
        || mask != u64::MAX && Slots(mask).all(|slot| places[slot.index()] == place)
}
