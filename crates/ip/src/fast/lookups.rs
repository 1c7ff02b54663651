//! Looks up where packets go: the prefix table of their VRF and family, then the next hop, or one of an equal-cost group.

use std::sync::Arc;

use weir_packet::{Batch, Lanes, Packet, Slot};
use weir_simd::frame_check::{BATCH, Destinations};
use weir_table::lpm4::Lookup4;
use weir_table::lpm6::{Lookup6, Trie};
use weir_wire::{Ethernet, Ipv4, Ipv6, View, flow};

use crate::fast::classify::{Family, Finding, Frame, Verdict, is_discovery};
use crate::fast::host::is_for_host;
use crate::tables::fib::{self, Action, Fib, Leads};
use crate::tables::prefixes::{PrefixReader, Readers};

/// What packets are looked up in.
pub(crate) struct Lookups<T> {
    /// IPv4 of the default VRF.
    pub(crate) table: Arc<T>,
    /// All tables, by number of the VRF.
    pub(crate) readers: Arc<[Readers]>,
    pub(crate) fib: Arc<Fib>,
    /// What flows are hashed with.
    pub(crate) seed: u64,
    /// Whether Linux speaks for a VRF, by its number.
    pub(crate) hosts: Arc<[bool]>,
}

impl<T: Lookup4> Lookups<T> {
    /// The table of IPv6 of a VRF.
    #[inline(always)]
    pub(crate) fn six(&self, vrf: u16) -> Option<&Trie> {
        self.readers.get(usize::from(vrf)).map(|readers| &*readers.six)
    }

    /// The table of IPv4 of a VRF, as it stands among all.
    pub(crate) fn four(&self, vrf: u16) -> Option<&PrefixReader> {
        self.readers.get(usize::from(vrf)).map(|readers| &readers.four)
    }

    /// Writes the places that the IPv4 packets of a batch lead to in the default VRF, by slot, `count` being one more than the last slot.
    /// What stands at slots without packets means nothing.
    pub(crate) fn places(&self, batch: &Batch, destinations: &Destinations, count: usize, places: &mut [u32; BATCH]) {
        if let (Some(from), Some(to)) = (destinations.0.get(..count), places.get_mut(..count)) {
            self.table.lookup_batch(from, to);
        }
        self.choose::<false>(Family::Four, batch, u64::MAX, places);
    }

    /// Lets the groups among the values in `mask`, if there are any, choose next hops by the packets' flows; others are as they were, for
    /// they may be no values yet. Packets of a `TAGGED` batch may have tags.
    #[inline(always)]
    pub(crate) fn choose<const TAGGED: bool>(
        &self,
        family: Family,
        batch: &Batch,
        mask: u64,
        values: &mut [u32; BATCH],
    ) {
        if values.iter().fold(0, |any, value| any | value) & fib::GROUP != 0 {
            self.choose_each::<TAGGED>(family, batch, mask, values);
        }
    }

    #[inline(never)]
    fn choose_each<const TAGGED: bool>(&self, family: Family, batch: &Batch, mask: u64, values: &mut [u32; BATCH]) {
        batch.each_ref_in(mask, |slot, packet| {
            let value = &mut values[slot.index()];
            *value = self.place(packet, l3_of::<TAGGED>(&batch.lanes, slot), family, *value);
        });
    }

    /// The same as [`Lookups::place`] where groups are rare: who looks for one is not in the way of others.
    #[inline(always)]
    pub(crate) fn place_of_most(&self, packet: &Packet, l3: usize, family: Family, value: u32) -> u32 {
        if value & fib::GROUP == 0 { value } else { self.member(packet, l3, family, value) }
    }

    #[inline(never)]
    fn member(&self, packet: &Packet, l3: usize, family: Family, value: u32) -> u32 {
        self.place(packet, l3, family, value)
    }

    /// The place that an answer of the prefix table stands for, to a packet whose network header begins at `l3`.
    #[inline(always)]
    pub(crate) fn place(&self, packet: &Packet, l3: usize, family: Family, value: u32) -> u32 {
        place(&self.fib, self.seed, packet, l3, family, value)
    }

    /// What the table of a VRF answers for the destination of a packet.
    pub(crate) fn lookup(&self, vrf: u16, packet: &Packet, l3: usize, family: Family) -> u32 {
        match family {
            Family::Four if vrf == 0 => self.table.lookup(destination(packet, l3)),
            _ => lookup(&self.readers, vrf, packet, l3, family),
        }
    }

    /// What becomes of a packet of a VRF of which this was found.
    pub(crate) fn settle(&self, finding: Finding, vrf: u16, packet: &Packet, frame: Frame) -> Verdict {
        let has_host = self.hosts.get(usize::from(vrf)).is_some_and(|has| *has);
        if has_host && is_for_host(finding, packet, frame) {
            return Verdict::Host;
        }
        let l3 = frame.l3;
        finding.settle(|family| {
            let place = self.fib.place(self.lookup(vrf, packet, l3, family), || 0);
            (self.fib.adjacency(place).action() == Action::Receive).then(|| arrived(packet, l3, family))
        })
    }
}

/// What a packet is that is for one of the router's own addresses.
pub(crate) fn arrived(packet: &Packet, l3: usize, family: Family) -> Verdict {
    if family == Family::Six && is_discovery(packet.window(l3)) { Verdict::Nd } else { Verdict::Local }
}

/// What the table of a VRF answers for the destination of a packet.
pub(crate) fn lookup(readers: &[Readers], vrf: u16, packet: &Packet, l3: usize, family: Family) -> u32 {
    let Some(readers) = readers.get(usize::from(vrf)) else { return Leads::NO_ROUTE.value() };
    match (family, &readers.four) {
        (Family::Six, _) => readers.six.lookup(destination6(packet, l3)),
        (Family::Four, PrefixReader::Dir24(table)) => table.lookup(destination(packet, l3)),
        (Family::Four, PrefixReader::Packed(table)) => table.lookup(destination(packet, l3)),
    }
}

/// The place that an answer of a prefix table stands for, to a packet whose network header begins at `l3`.
#[inline(always)]
pub(crate) fn place(fib: &Fib, seed: u64, packet: &Packet, l3: usize, family: Family, value: u32) -> u32 {
    let (window, length) = (packet.window::<64>(l3), packet.len().saturating_sub(l3));
    fib.place(value, || match family {
        Family::Four => flow::hash(window, length, seed),
        Family::Six => flow::hash6(window, length, seed),
    })
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

/// The destination address of an IPv6 packet.
fn destination6(packet: &Packet, l3: usize) -> u128 {
    Ipv6::view(packet.window::<{ Ipv6::LEN }>(l3)).map_or(0, |ip| u128::from_be_bytes(ip.destination))
}
