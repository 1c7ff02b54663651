//! IPv6 on the fast path: packets that surely may be forwarded are told by a few words of their headers, and their destinations looked up
//! all at once.

use weir_packet::{Batch, Packet, Slot, Slots};
use weir_simd::frame_check::BATCH;
use weir_table::lpm6::{Lookup6, Trie, Walk};
use weir_wire::{Ethernet, Ipv6, View, ethernet, ipv6};

use crate::lookups::l3_of;

/// Bytes of an Ethernet header and an IPv6 header.
const HEADERS: usize = Ethernet::LEN + Ipv6::LEN;

/// Where fields stand behind the start of an Ethernet header without tags.
const ETHERTYPE: usize = 12;
const SOURCE: usize = Ethernet::LEN + 8;
const DESTINATION: usize = SOURCE + 16;

/// What was found out about some packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// The mask of those that carry IPv6, whatever is wrong with it.
    pub(crate) of: u64,
    /// The mask of those that may be forwarded without a second look.
    pub(crate) good: u64,
    /// Bytes of all that carry IPv6.
    pub(crate) bytes: u64,
}

/// What is known of the IPv6 packets of a batch that are looked up.
pub(crate) struct Six {
    /// Destinations of those that are good, in the order of their slots.
    destinations: [u128; BATCH],
    walk: Walk,
}

impl Default for Six {
    fn default() -> Six {
        Six { destinations: [0; BATCH], walk: Walk::default() }
    }
}

impl Six {
    /// Finds out which of the packets in `of` carry IPv6, and which of them may be forwarded without a second look. `is_ours` is asked with
    /// the first 48 bits of each, whether it is for the interface that it came in by. Packets of a `TAGGED` batch may have tags.
    #[inline(always)]
    pub(crate) fn check<const TAGGED: bool>(
        &mut self,
        batch: &Batch,
        of: u64,
        is_ours: impl Fn(Slot, u64) -> bool,
    ) -> Seen {
        let mut seen = Seen::default();
        let mut count = 0;
        batch.each_ref_in(
            of,
            #[inline(always)]
            |slot, packet| {
                let (window, received) = window_of::<TAGGED>(batch, slot, packet);
                let is_six = u16::from_ne_bytes(*bytes::<ETHERTYPE, 2>(window)) == ethernet::IPV6.to_be();
                let station = u64::from_le_bytes(*bytes::<0, 8>(packet.window::<8>(0))) & STATION;
                let is_good = is_six & is_ours(slot, station) & is_plain(window, received);
                self.destinations[count % BATCH] = u128::from_be_bytes(*bytes::<DESTINATION, 16>(window));
                count += usize::from(is_good);
                seen.of |= u64::from(is_six) << slot.index();
                seen.good |= u64::from(is_good) << slot.index();
                seen.bytes += u64::from(is_six) * packet.len() as u64;
            },
        );
        seen
    }

    /// Finds out the destinations of packets that were checked before.
    #[inline(always)]
    pub(crate) fn gather<const TAGGED: bool>(&mut self, batch: &Batch, good: u64) {
        let mut count = 0;
        batch.each_ref_in(
            good,
            #[inline(always)]
            |slot, packet| {
                let (window, _) = window_of::<TAGGED>(batch, slot, packet);
                self.destinations[count % BATCH] = u128::from_be_bytes(*bytes::<DESTINATION, 16>(window));
                count += 1;
            },
        );
    }

    /// Looks up the packets in `good`, which are all whose destinations were found out last; what the table answers stands at their slots
    /// then.
    #[inline(always)]
    pub(crate) fn look_up(&mut self, table: &Trie, good: u64, values: &mut [u32; BATCH]) {
        let count = good.count_ones() as usize;
        let (Some(destinations), Some(found)) = (self.destinations.get(..count), values.get_mut(..count)) else {
            return;
        };
        table.approach(destinations, &mut self.walk);
        table.advance(destinations, &mut self.walk);
        table.finish(destinations, &mut self.walk, found);
        if good & good.wrapping_add(1) != 0 {
            spread(good, values);
        }
    }
}

impl Six {
    /// The same for `some` of them: the others' values stay as they are.
    pub(crate) fn look_up_some(&mut self, table: &Trie, good: u64, some: u64, values: &mut [u32; BATCH]) {
        let (mut destinations, mut found, mut count) = ([0; BATCH], [0; BATCH], 0);
        for slot in Slots(some) {
            // Of those that are good, so many stand before it.
            let rank = (good & (slot.bit() - 1)).count_ones() as usize;
            destinations[count % BATCH] = self.destinations[rank % BATCH];
            count += 1;
        }
        if let (Some(from), Some(to)) = (destinations.get(..count), found.get_mut(..count)) {
            table.lookup_batch(from, to);
        }
        for (slot, found) in Slots(some).zip(found) {
            values[slot.index()] = found;
        }
    }
}

/// Moves values that stand one behind the other to the slots in a mask, in their order.
#[inline(always)]
fn spread(to: u64, values: &mut [u32; BATCH]) {
    // From the last one on: none stands behind its slot.
    let (mut left, mut from) = (to, to.count_ones() as usize);
    while left != 0 {
        let slot = 63 - left.leading_zeros() as usize;
        from = from.wrapping_sub(1);
        values[slot % BATCH] = values[from % BATCH];
        left &= !(1 << slot);
    }
}

/// The first 48 bits of a word.
const STATION: u64 = (1 << 48) - 1;

/// The headers of a packet as if it began 14 bytes before its network header, and how many bytes there are from there on.
#[inline(always)]
fn window_of<'b, const TAGGED: bool>(batch: &Batch, slot: Slot, packet: &'b Packet) -> (&'b [u8; HEADERS], usize) {
    let skipped = l3_of::<TAGGED>(&batch.lanes, slot).saturating_sub(Ethernet::LEN);
    (packet.window(skipped), packet.len().saturating_sub(skipped))
}

/// So many bytes at `AT`: one load, which it is not where bytes are named one by one.
#[inline(always)]
fn bytes<const AT: usize, const N: usize>(window: &[u8]) -> &[u8; N] {
    window.get(AT..).and_then(<[u8]>::first_chunk).unwrap_or(&[0; N])
}

/// Whether nothing but its route can speak against forwarding a packet that carries IPv6, of which so many bytes arrived: it is whole, has a hop
/// to go and no hop-by-hop options, and its addresses are surely forwarded from and to, being neither below 0:0:0:1:: nor from fe80:: on, where
/// those of no single host, of links and of groups are (RFC 4291 section 2.4).
#[inline(always)]
fn is_plain(window: &[u8; HEADERS], received: usize) -> bool {
    const FIRST_SPECIAL: u64 = 0xfe80 << 48;
    let is_usual = |half: &[u8; 8]| u64::from_be_bytes(*half).wrapping_sub(1) < FIRST_SPECIAL - 1;
    // Version, traffic class, flow label; payload length; next header; hop limit.
    let head = u64::from_be_bytes(*bytes::<{ Ethernet::LEN }, 8>(window));
    let payload = usize::from((head >> 16) as u16);
    (head >> 60 == 6)
        & (head as u8 >= 2)
        & ((head >> 8) as u8 != ipv6::HOP_BY_HOP)
        & (HEADERS + payload <= received)
        & is_usual(bytes::<SOURCE, 8>(window))
        & is_usual(bytes::<DESTINATION, 8>(window))
}

#[cfg(test)]
mod tests;
