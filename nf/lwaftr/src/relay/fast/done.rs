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

    /// Counts the packets in the mask, whose bytes these are.
    fn count(self, of: u64, tally: &Tally, [came, whole_in, left, whole_out]: [Count; 4]) {
        let packets = of.count_ones().into();
        if packets > 0 {
            tally.add(came, packets, self.before);
            tally.add(whole_in, packets, 0);
            tally.add(left, packets, self.after);
            tally.add(whole_out, packets, 0);
        }
    }

    /// The same of packets that an egress filter kept back.
    fn stop(self, of: u64, tally: &Tally, [came, whole_in, filtered, dropped]: [Count; 4]) {
        let packets = of.count_ones().into();
        if packets > 0 {
            tally.add(came, packets, self.before);
            tally.add(whole_in, packets, 0);
            tally.add(filtered, packets, self.after);
            tally.add(dropped, packets, self.before);
        }
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
        into.sent.count(into.gone, tally, [Count::InFour, Count::WholeFour, Count::OutSix, Count::OutWholeSix]);
        from.sent.count(from.gone, tally, [Count::InSix, Count::WholeSix, Count::OutFour, Count::OutWholeFour]);
        hairpin.sent.count(hairpin.gone, tally, [Count::InSix, Count::WholeSix, Count::OutSix, Count::OutWholeSix]);
        let hairpins = hairpin.gone | hairpin.kept;
        if hairpins != 0 {
            tally.add(Count::Hairpin, hairpins.count_ones().into(), inside);
        }
        let [kept_six, kept_four] = [into.kept | hairpin.kept, from.kept];
        if kept_six | kept_four != 0 {
            out.answer_all(kept_six, Exit::FilteredOutSix);
            out.answer_all(kept_four, Exit::FilteredOutFour);
            into.stopped.stop(
                into.kept,
                tally,
                [Count::InFour, Count::WholeFour, Count::FilteredOutSix, Count::DropFour],
            );
            from.stopped.stop(
                from.kept,
                tally,
                [Count::InSix, Count::WholeSix, Count::FilteredOutFour, Count::DropSix],
            );
            hairpin.stopped.stop(
                hairpin.kept,
                tally,
                [Count::InSix, Count::WholeSix, Count::FilteredOutSix, Count::DropSix],
            );
        }
        self.all()
    }
}
