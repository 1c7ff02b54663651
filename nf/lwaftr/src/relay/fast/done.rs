//! What became of the packets of a batch, and how they are counted.

use weir_packet::{BATCH, Slot};
use weir_stage::Out;

use crate::border::Border;
use crate::exit::Exit;
use crate::tally::{Count, Tally};

/// Bytes of packets that are counted together, as they came and as they leave.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    before: u64,
    after: u64,
}

impl Sum {
    #[inline(always)]
    pub(super) fn add(&mut self, before: usize, after: usize) {
        self.before += before as u64;
        self.after += after as u64;
    }
}

/// What a packet has become.
#[derive(Clone, Copy)]
pub(super) struct Rewritten {
    /// The position of the port that it leaves by; `None` if an egress filter keeps it back.
    pub(super) port: Option<u8>,
    /// Bytes of its frame without tags.
    pub(super) bytes: usize,
}

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
    #[inline(always)]
    pub(super) fn add(&mut self, slot: Slot, before: usize, rewritten: Rewritten, ports: &mut [u8; BATCH]) {
        match rewritten.port {
            Some(port) => {
                ports[slot.index()] = port;
                self.gone |= slot.bit();
                self.sent.add(before, rewritten.bytes);
            }
            None => {
                self.kept |= slot.bit();
                self.stopped.add(before, rewritten.bytes);
            }
        }
    }

    /// Counts its packets: all as they came in, and then those that left, and those that egress filters kept back.
    fn count(&self, tally: &Tally, [came, whole]: [Count; 2], out: [[Count; 2]; 2]) {
        let [[left, whole_out], [filtered, dropped]] = out;
        let Sum { before, after } = self.sent;
        add_all(tally, self.gone, [(came, before), (whole, 0), (left, after), (whole_out, 0)]);
        let Sum { before, after } = self.stopped;
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
    /// Bytes of what went out of tunnels and into others, as it is between them.
    pub(super) inside: u64,
    /// The positions of the ports that packets leave by.
    pub(super) ports: [u8; BATCH],
}

impl Default for Done {
    fn default() -> Done {
        let [into, from, hairpin] = [Outcome::default(); 3];
        Done { into, from, hairpin, inside: 0, ports: [0; BATCH] }
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
        let Done { into, from, hairpin, inside, ref ports } = self;
        out.answer_indexed_each(into.gone | hairpin.gone | from.gone, ports);
        let tally = &border.tally;
        let (from_four, from_six) = ([Count::InFour, Count::WholeFour], [Count::InSix, Count::WholeSix]);
        let (to_four, to_six) = ([Count::OutFour, Count::OutWholeFour], [Count::OutSix, Count::OutWholeSix]);
        into.count(tally, from_four, [to_six, [Count::FilteredOutSix, Count::DropFour]]);
        from.count(tally, from_six, [to_four, [Count::FilteredOutFour, Count::DropSix]]);
        hairpin.count(tally, from_six, [to_six, [Count::FilteredOutSix, Count::DropSix]]);
        let hairpins = hairpin.gone | hairpin.kept;
        add_all(tally, hairpins, [(Count::Hairpin, inside)]);
        let [kept_six, kept_four] = [into.kept | hairpin.kept, from.kept];
        if kept_six | kept_four != 0 {
            out.answer_all(kept_six, Exit::FilteredOutSix);
            out.answer_all(kept_four, Exit::FilteredOutFour);
        }
        self.all()
    }
}
