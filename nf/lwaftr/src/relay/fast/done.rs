//! What became of the packets of a batch, and how they are counted.

use weir_packet::{BATCH, Slot};
use weir_stage::Out;

use crate::border::Border;
use crate::exit::Exit;
use crate::tally::{Count, Tally};

/// Packets and bytes that are counted together.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    packets: u64,
    before: u64,
    after: u64,
}

impl Sum {
    #[inline(always)]
    pub(super) fn add(&mut self, before: usize, after: usize) {
        self.packets += 1;
        self.before += before as u64;
        self.after += after as u64;
    }

    fn count(self, tally: &Tally, [came, whole_in, left, whole_out]: [Count; 4]) {
        if self.packets > 0 {
            tally.add(came, self.packets, self.before);
            tally.add(whole_in, self.packets, 0);
            tally.add(left, self.packets, self.after);
            tally.add(whole_out, self.packets, 0);
        }
    }

    /// The same of packets that an egress filter kept back.
    fn stop(self, tally: &Tally, [came, whole_in, filtered, dropped]: [Count; 4]) {
        if self.packets > 0 {
            tally.add(came, self.packets, self.before);
            tally.add(whole_in, self.packets, 0);
            tally.add(filtered, self.packets, self.after);
            tally.add(dropped, self.packets, self.before);
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
    /// What went out of tunnels and into others, as it is between them.
    pub(super) inside: Sum,
    /// The positions of the ports that packets leave by.
    pub(super) ports: [u8; BATCH],
}

impl Default for Done {
    fn default() -> Done {
        let [into, from, hairpin] = [Outcome::default(); 3];
        Done { into, from, hairpin, inside: Sum::default(), ports: [0; BATCH] }
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
        into.sent.count(tally, [Count::InFour, Count::WholeFour, Count::OutSix, Count::OutWholeSix]);
        from.sent.count(tally, [Count::InSix, Count::WholeSix, Count::OutFour, Count::OutWholeFour]);
        hairpin.sent.count(tally, [Count::InSix, Count::WholeSix, Count::OutSix, Count::OutWholeSix]);
        if inside.packets > 0 {
            tally.add(Count::Hairpin, inside.packets, inside.before);
        }
        let [kept_six, kept_four] = [into.kept | hairpin.kept, from.kept];
        if kept_six | kept_four != 0 {
            out.answer_all(kept_six, Exit::FilteredOutSix);
            out.answer_all(kept_four, Exit::FilteredOutFour);
            into.stopped.stop(tally, [Count::InFour, Count::WholeFour, Count::FilteredOutSix, Count::DropFour]);
            from.stopped.stop(tally, [Count::InSix, Count::WholeSix, Count::FilteredOutFour, Count::DropSix]);
            hairpin.stopped.stop(tally, [Count::InSix, Count::WholeSix, Count::FilteredOutSix, Count::DropSix]);
        }
        self.all()
    }
}
