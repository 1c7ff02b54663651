//! IPv6 on the fast path: packets that surely may be forwarded are told by a vector kernel, and their destinations looked up all at once.

use weir_packet::{Batch, Packet, Slot, Slots};
use weir_simd::Kernel;
use weir_simd::frame_check::BATCH;
use weir_simd::plain6::{self, Frame, NO_FRAME};
use weir_table::lpm6::{Lookup6, Trie, Walk};
use weir_wire::{Ethernet, View};

use crate::fast::lookups::l3_of;

/// Where the destination stands behind the start of an Ethernet header without tags.
const DESTINATION: usize = Ethernet::LEN + 24;

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
    /// Destinations of those that are good, in the order of their slots; one that follows itself stands here once, as packets of a flow often
    /// come one behind the other.
    destinations: [u128; BATCH],
    /// How many there are.
    count: usize,
    /// Which of them is each packet's, by slot.
    ranks: [u8; BATCH],
    walk: Walk,
}

impl Six {
    /// For code that is compiled for this kernel.
    pub(crate) fn new(kernel: Kernel) -> Six {
        Six { destinations: [0; BATCH], count: 0, ranks: [0; BATCH], walk: Walk::of(kernel) }
    }

    /// Finds out which of the packets in `of` carry IPv6, and which of them may be forwarded without a second look: those for the `station`,
    /// if there is one, and in `ours`. Packets of a `TAGGED` batch may have tags.
    #[inline(always)]
    pub(crate) fn check<const TAGGED: bool>(
        &mut self,
        kernel: Kernel,
        batch: &Batch,
        of: u64,
        (station, ours): (Option<[u8; 6]>, u64),
    ) -> Seen {
        let mut sixes = Sixes::default();
        batch.each_ref_in(
            of,
            #[inline(always)]
            |slot, packet| sixes.note(slot, packet, skipped::<TAGGED>(batch, slot)),
        );
        let Sixes { frames, lengths, count, of } = &sixes;
        let found = plain6::check(kernel, station, frames, lengths, *count);
        let (mut row, mut good) = (Row::default(), 0);
        for (slot, (at, frame)) in Slots(*of).zip(frames.iter().enumerate()) {
            if found >> at & ours >> slot.index() & 1 != 0 {
                good |= slot.bit();
                self.note(&mut row, slot, destination(frame));
            }
        }
        self.count = row.count;
        // By vectors: what places without packets have is 0, but for the one behind the last.
        let bytes =
            lengths.iter().zip(0..).fold(0, |sum, (length, at)| sum + if at < *count { u32::from(*length) } else { 0 });
        Seen { of: *of, good, bytes: bytes.into() }
    }

    /// Finds out the destinations of packets that were checked before, and may have been changed since.
    #[inline(always)]
    pub(crate) fn gather<const TAGGED: bool>(&mut self, batch: &Batch, good: u64) {
        let mut row = Row::default();
        // Another than the first one's, whatever that is.
        batch.each_ref_in(good & good.wrapping_neg(), |slot, packet| {
            row.last = !destination(packet.window(skipped::<TAGGED>(batch, slot)));
        });
        batch.each_ref_in(
            good,
            #[inline(always)]
            |slot, packet| {
                self.note(&mut row, slot, destination(packet.window(skipped::<TAGGED>(batch, slot))));
            },
        );
        self.count = row.count;
    }

    /// Notes where a packet goes.
    #[inline(always)]
    fn note(&mut self, row: &mut Row, slot: Slot, destination: u128) {
        // Written in any case, and counted if it is another: there is no branch to be guessed.
        self.destinations[row.count % BATCH] = destination;
        row.count += usize::from(destination != row.last);
        row.last = destination;
        self.ranks[slot.index()] = row.count.wrapping_sub(1) as u8;
    }

    /// Looks up all packets whose destinations were found out last; what the table answers stands at their slots then.
    #[inline(always)]
    pub(crate) fn look_up(&mut self, table: &Trie, values: &mut [u32; BATCH]) {
        let mut found = [0; BATCH];
        let (Some(destinations), Some(to)) = (self.destinations.get(..self.count), found.get_mut(..self.count)) else {
            return;
        };
        table.approach(destinations, &mut self.walk);
        table.advance(destinations, &mut self.walk);
        table.finish(destinations, &mut self.walk, to);
        match self.count {
            1 => values.fill(found[0]),
            // Each packet of a whole batch has its own.
            BATCH => *values = found,
            _ => values.iter_mut().zip(&self.ranks).for_each(|(to, rank)| *to = found[usize::from(*rank) % BATCH]),
        }
    }

    /// The same for the packets in `some`: the others' values stay as they are.
    pub(crate) fn look_up_some(&mut self, table: &Trie, some: u64, values: &mut [u32; BATCH]) {
        let (mut destinations, mut found, mut count) = ([0; BATCH], [0; BATCH], 0);
        for slot in Slots(some) {
            destinations[count % BATCH] = self.destinations[usize::from(self.ranks[slot.index()]) % BATCH];
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

/// The packets of a batch that carry IPv6, side by side in the order of their slots: those of another family in between cost the kernel nothing.
struct Sixes<'b> {
    frames: [&'b Frame; BATCH],
    lengths: [u16; BATCH],
    /// How many there are.
    count: usize,
    /// The mask of their slots.
    of: u64,
}

impl Default for Sixes<'_> {
    fn default() -> Self {
        Sixes { frames: [&NO_FRAME; BATCH], lengths: [0; BATCH], count: 0, of: 0 }
    }
}

impl<'b> Sixes<'b> {
    /// Notes a packet, if it carries IPv6, as if it began so many bytes behind its start.
    #[inline(always)]
    fn note(&mut self, slot: Slot, packet: &'b Packet, skipped: usize) {
        let (frame, at) = (packet.window(skipped), self.count % BATCH);
        // Written in any case, and counted if it is one: there is no branch to be guessed.
        self.frames[at] = frame;
        // Buffers are far shorter than 64 KiB.
        self.lengths[at] = packet.len().saturating_sub(skipped) as u16;
        let is_six = plain6::is_six(frame);
        self.count += usize::from(is_six);
        self.of |= u64::from(is_six) << slot.index();
    }
}

/// How far destinations were noted. No packet that was just found good goes to ::, which is the first one's predecessor.
#[derive(Default)]
struct Row {
    count: usize,
    last: u128,
}

/// How far in front of its first byte a packet would begin if there were 14 bytes before its network header.
#[inline(always)]
fn skipped<const TAGGED: bool>(batch: &Batch, slot: Slot) -> usize {
    l3_of::<TAGGED>(&batch.lanes, slot).saturating_sub(Ethernet::LEN)
}

/// The destination of a packet.
#[inline(always)]
fn destination(frame: &Frame) -> u128 {
    let address = frame.split_at(DESTINATION).1.first_chunk();
    address.map_or(0, |address| u128::from_be_bytes(*address))
}

#[cfg(test)]
mod tests;
