//! What became of the packets of a batch, and how they are counted.

use weir_packet::{BATCH, Slot};
use weir_stage::Out;
use weir_wire::{Ipv6, View};

use crate::border::Border;
use crate::exit::Exit;
use crate::tally::{Count, Tally};

/// Bytes of packets that are counted together: as they came in the lower half, as they leave in the upper one. Those of a batch are less than 2^23.
#[derive(Clone, Copy, Default)]
struct Sum(u64);

impl Sum {
    #[inline(always)]
    fn add(&mut self, before: usize, after: usize) {
        self.0 += (after as u64) << 32 | before as u64;
    }

    /// As they came, and as they leave.
    fn halves(self) -> [u64; 2] {
        [self.0 as u32, (self.0 >> 32) as u32].map(u64::from)
    }
}

const _: () = assert!(BATCH as u64 * u16::MAX as u64 <= u32::MAX as u64);

/// The positions of the ports that packets leave by.
pub(super) type Positions = [u8; BATCH];

/// What became of the packets of a way.
#[derive(Clone, Copy, Default)]
pub(super) struct Outcome {
    /// Those that leave, a bit each, and how much they are.
    gone: u64,
    sent: Sum,
    /// Those that egress filters kept back.
    kept: u64,
    stopped: Sum,
}

impl Outcome {
    /// A packet leaves by the port at a position. Its frame had so many bytes, and has; tags are not counted.
    #[inline(always)]
    pub(super) fn leaves(&mut self, slot: Slot, (before, after): (usize, usize), (port, ports): (u8, &mut Positions)) {
        ports[slot.index()] = port;
        self.gone |= slot.bit();
        self.sent.add(before, after);
    }

    /// An egress filter keeps a packet back.
    #[inline(always)]
    pub(super) fn is_kept(&mut self, slot: Slot, (before, after): (usize, usize)) {
        self.kept |= slot.bit();
        self.stopped.add(before, after);
    }

    /// Counts its packets: all as they came in, and then those that left, and those that egress filters kept back.
    fn count(&self, tally: &Tally, [came, whole]: [Count; 2], out: [[Count; 2]; 2]) {
        let [[left, whole_out], [filtered, dropped]] = out;
        let [before, after] = self.sent.halves();
        add_all(tally, self.gone, [(came, before), (whole, 0), (left, after), (whole_out, 0)]);
        let [before, after] = self.stopped.halves();
        add_all(tally, self.kept, [(came, before), (whole, 0), (filtered, after), (dropped, before)]);
    }
}

/// Counts the packets in a mask, each time with so many bytes.
fn add_all<const N: usize>(tally: &Tally, of: u64, counts: [(Count, u64); N]) {
    if of != 0 {
        let packets = of.count_ones().into();
        counts.into_iter().for_each(|(count, bytes)| tally.add(count, packets, bytes));
    }
}

/// What became of the packets of a batch.
pub(super) struct Done {
    pub(super) into: Outcome,
    pub(super) from: Outcome,
    pub(super) hairpin: Outcome,
    pub(super) ports: Positions,
}

impl Default for Done {
    fn default() -> Done {
        let [into, from, hairpin] = [Outcome::default(); 3];
        Done { into, from, hairpin, ports: [0; BATCH] }
    }
}

impl Done {
    /// All that nothing is left to be done of.
    pub(super) fn all(&self) -> u64 {
        [self.into, self.from, self.hairpin].iter().fold(0, |all, outcome| all | outcome.gone | outcome.kept)
    }

    /// Counts packets, and lets them go; answers which they are.
    #[inline(always)]
    pub(super) fn finish(self, border: &Border, out: &mut Out<'_>) -> u64 {
        let Done { into, from, hairpin, ref ports } = self;
        out.answer_indexed_each(into.gone | hairpin.gone | from.gone, ports);
        let tally = &border.tally;
        let (from_four, from_six) = ([Count::InFour, Count::WholeFour], [Count::InSix, Count::WholeSix]);
        let (to_four, to_six) = ([Count::OutFour, Count::OutWholeFour], [Count::OutSix, Count::OutWholeSix]);
        into.count(tally, from_four, [to_six, [Count::FilteredOutSix, Count::DropFour]]);
        from.count(tally, from_six, [to_four, [Count::FilteredOutFour, Count::DropSix]]);
        hairpin.count(tally, from_six, [to_six, [Count::FilteredOutSix, Count::DropSix]]);
        let hairpins = hairpin.gone | hairpin.kept;
        // As they are between the two tunnels.
        let [[_, sent], [_, kept]] = [hairpin.sent, hairpin.stopped].map(Sum::halves);
        let headers = u64::from(hairpins.count_ones()) * Ipv6::LEN as u64;
        add_all(tally, hairpins, [(Count::Hairpin, (sent + kept).wrapping_sub(headers))]);
        let [kept_six, kept_four] = [into.kept | hairpin.kept, from.kept];
        if kept_six | kept_four != 0 {
            out.answer_all(kept_six, Exit::FilteredOutSix);
            out.answer_all(kept_four, Exit::FilteredOutFour);
        }
        self.all()
    }
}
