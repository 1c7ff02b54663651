//! A fair queue that knows few flows: all of them are within it.
//!
//! Most queues are such. A packet touches two of their lines of memory, and a third where two packets of its flow wait or more, or the management remembers something of
//! that. When nothing waits any more, all flows are forgotten by a few words.

use weir_table::indexed::NONE;

use super::notes::Notes;
use super::row::{Numbers, Row};
use super::{Flow, NO_BAND, band};
use crate::profile::QUANTUM;
use crate::slab::Slab;

/// Flows that a queue has within itself at most.
pub(super) const FEW: usize = 16;

/// What is known of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// Its packets, by the first; [`NONE`] while it rests.
    pub(super) first: u32,
    pub(super) credit: i32,
}

/// What is known of a flow beside that, which few flows need.
#[derive(Clone, Copy, Debug)]
struct Rest {
    /// Its bytes, where two packets of it wait or more.
    bytes: u32,
    /// What a management remembers of it, by its place, where it does.
    note: u32,
}

/// A fair queue; its flows, as long as they are few.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Few {
    /// The known flows: the new ones, then the old ones, each in the order of their turns.
    turns: Row,
    /// Those of which nothing waits, the one that has rested for longest first; then those of which two packets wait or more, the one that has been as fat as it is
    /// for longest first.
    others: Row,
    /// The numbers of flows; no number of those that are not used.
    buckets: Numbers,
    /// Bit n: there is a flow n.
    used: u16,
    news: u8,
    pub(super) known: u8,
    resting: u8,
    fat: u8,
    /// The flow whose packet is chosen.
    chosen: u8,
    /// Bit n: the management remembers something of flow n.
    noted: u16,
    /// It has come to know more flows: they are [elsewhere](super::known), and here is nothing of them.
    pub(super) is_over: bool,
    /// Packets of all flows; of a queue in which nothing waits, the next of those.
    pub(super) packets: u32,
    members: [Member; FEW],
    rests: [Rest; FEW],
}

/// A line that says which flows there are, two for what all packets need of theirs, and two for the others.
const _: () = assert!(size_of::<Few>() == 320 && std::mem::offset_of!(Few, members) == 64);

impl Few {
    pub(super) const FREE: Few = Few {
        turns: Row::EMPTY,
        others: Row::EMPTY,
        buckets: Numbers::NONE,
        used: 0,
        news: 0,
        known: 0,
        resting: 0,
        fat: 0,
        chosen: 0,
        noted: 0,
        is_over: false,
        packets: NONE,
        members: [Member { first: NONE, credit: 0 }; FEW],
        rests: [Rest { bytes: 0, note: NONE }; FEW],
    };

    /// Lines of memory that a packet touches, of whose flow no other one waits.
    pub(super) const LINES: usize = 3;

    /// All of them.
    pub(super) const ALL_LINES: usize = 5;

    /// One in which nothing waits; `next` is the next of such.
    pub(super) fn free(next: u32) -> Few {
        Few { packets: next, ..Few::FREE }
    }

    /// Nothing waits in it, and nothing is known; `next` is the next of such.
    #[inline(always)]
    pub(super) fn clear(&mut self, notes: &mut Notes, next: u32) {
        if self.noted != 0 {
            self.forget_notes(notes, self.noted);
        }
        self.buckets = Numbers::NONE;
        (self.used, self.news, self.known, self.resting, self.fat) = (0, 0, 0, 0, 0);
        (self.is_over, self.packets) = (false, next);
    }

    /// Whether more than [`Few::LINES`] are needed of it.
    #[inline(always)]
    pub(super) fn has_more(&self) -> bool {
        self.fat > 0 || self.noted != 0
    }

    /// Whether there are flows of which nothing waits.
    #[inline(always)]
    pub(super) fn rests(&self) -> bool {
        self.resting > 0
    }

    /// Its flows, and what is remembered of them, are elsewhere from now on.
    pub(super) fn go_over(&mut self, notes: &mut Notes) {
        self.noted = 0;
        self.clear(notes, self.packets);
        self.is_over = true;
    }

    /// The management comes to remember something of the flow whose packet is chosen, at this place.
    pub(super) fn note(&mut self, note: u32) {
        self.rest(self.chosen).note = note;
        self.noted |= 1 << self.chosen;
    }

    /// Where that is; [`NONE`] where it remembers nothing.
    #[inline(always)]
    pub(super) fn chosen_note(&self) -> u32 {
        self.note_of(self.chosen)
    }

    #[inline(always)]
    fn note_of(&self, at: u8) -> u32 {
        if self.noted >> at & 1 == 0 { NONE } else { self.rests[usize::from(at) % FEW].note }
    }

    #[cold]
    fn forget_notes(&mut self, notes: &mut Notes, which: u16) {
        (0..FEW as u8).filter(|at| which >> at & 1 != 0).for_each(|at| notes.give_back(self.note_of(at)));
        self.noted &= !which;
    }

    #[inline(always)]
    fn member(&mut self, at: u8) -> &mut Member {
        // There is no larger number in a row.
        &mut self.members[usize::from(at) % FEW]
    }

    #[inline(always)]
    fn rest(&mut self, at: u8) -> &mut Rest {
        &mut self.rests[usize::from(at) % FEW]
    }

    /// The flow of a number.
    #[inline(always)]
    pub(super) fn find(&self, bucket: u16) -> Option<u8> {
        self.buckets.find(bucket)
    }

    /// A packet of a flow that is not known, for which there is room: the first of the queue, or not.
    #[inline(always)]
    pub(super) fn begin(&mut self, bucket: u16, first: u32) {
        let at = self.used.trailing_ones() as u8 % FEW as u8;
        self.used |= 1 << at;
        self.buckets.set(at, bucket);
        *self.member(at) = Member { first, credit: QUANTUM as i32 };
        self.turns.insert(self.news, at);
        self.news += 1;
        self.known += 1;
        if self.packets == 0 {
            self.chosen = at;
        }
        self.packets += 1;
    }

    /// A packet of a flow that is known. It is given back where there is no room.
    #[inline(always)]
    pub(super) fn push<T>(&mut self, slab: &mut Slab<T>, at: u8, item: T, length: u16, now: u64) -> Option<T> {
        let first = self.member(at).first;
        self.packets += 1;
        if first == NONE {
            self.others.remove(self.others.place(at));
            self.resting -= 1;
            return slab.push(&mut self.member(at).first, item, length, now);
        }
        let (count, before) = (slab.count(first), self.weight(slab, at, first));
        self.rest(at).bytes = before + u32::from(length);
        let back = slab.push(&mut self.member(at).first, item, length, now);
        self.fatten(at, fatness(count, before), fatness(count + 1, before + u32::from(length)));
        back
    }

    /// Bytes of a flow, which has a first packet.
    #[inline(always)]
    fn weight<T>(&mut self, slab: &Slab<T>, at: u8, first: u32) -> u32 {
        if slab.count(first) == 1 { slab.length(first).into() } else { self.rest(at).bytes }
    }

    /// A flow is as fat as others are than before.
    #[inline(always)]
    fn fatten(&mut self, at: u8, from: u8, to: u8) {
        if from == to {
            return;
        }
        if from != NO_BAND {
            self.others.remove(self.others.place(at));
            self.fat -= 1;
        }
        if to != NO_BAND {
            self.others.insert(self.resting + self.fat, at);
            self.fat += 1;
        }
    }

    /// The packet that is chosen is sent, of so many bytes.
    #[inline(always)]
    pub(super) fn pay(&mut self, length: u16) {
        self.member(self.chosen).credit -= i32::from(length);
    }

    /// The packet that is chosen, of so many bytes, has left its flow, which has `first` now, and something waits in the queue.
    #[inline(always)]
    pub(super) fn leave<T>(&mut self, slab: &Slab<T>, first: u32, length: u16) {
        let at = self.chosen;
        self.member(at).first = first;
        if first == NONE {
            self.others.insert(self.resting, at);
            self.resting += 1;
            return;
        }
        let (count, before) = (slab.count(first), self.rest(at).bytes);
        let after = before.saturating_sub(length.into());
        self.rest(at).bytes = after;
        self.fatten(at, fatness(count + 1, before), fatness(count, after));
    }

    /// The first packet of the flow whose turn it is, in a queue in which something waits: see [`flows`](super).
    #[inline(always)]
    pub(super) fn choose(&mut self, notes: &mut Notes) -> u32 {
        while self.known > 0 {
            let (at, is_new) = (self.turns.first(), self.news > 0);
            let member = self.member(at);
            match (member.credit > 0, member.first) {
                (false, _) => member.credit += QUANTUM as i32,
                (true, NONE) if !is_new => {
                    self.forget(notes, at);
                    continue;
                }
                (true, NONE) => {}
                (true, first) => {
                    self.chosen = at;
                    return first;
                }
            }
            self.news -= u8::from(is_new);
            self.turns.turn(self.known);
        }
        NONE
    }

    /// Forgets a flow that rests.
    #[inline]
    fn forget(&mut self, notes: &mut Notes, at: u8) {
        if self.noted >> at & 1 != 0 {
            self.forget_notes(notes, 1 << at);
        }
        let place = self.turns.place(at);
        self.turns.remove(place);
        self.news -= u8::from(place < self.news);
        self.others.remove(self.others.place(at));
        self.resting -= 1;
        self.known -= 1;
        self.used &= !(1 << at);
        self.buckets.set(at, u16::MAX);
    }

    /// Forgets the flow that has rested for longest.
    pub(super) fn forget_one(&mut self, notes: &mut Notes) {
        if self.resting > 0 {
            self.forget(notes, self.others.first());
        }
    }

    /// What is known of the flows: as they are kept elsewhere, in the order of their turns, but without links.
    pub(super) fn members<T>(&self, slab: &Slab<T>) -> impl Iterator<Item = (u8, Flow)> {
        (0..self.known).map(|place| {
            let at = self.turns.at(place);
            let n = usize::from(at) % FEW;
            let Member { first, credit } = self.members[n];
            let packets = slab.count(first);
            let bytes = match packets {
                0 => 0,
                1 => slab.length(first).into(),
                _ => self.rests[n].bytes,
            };
            let (bucket, is_new) = (self.buckets.at(at), place < self.news);
            (at, Flow { first, credit, bytes, packets, bucket, is_new, note: self.note_of(at), ..Flow::FREE })
        })
    }

    /// The flows of which nothing waits, then the fat ones, both in their order.
    pub(super) fn others(&self) -> impl Iterator<Item = u8> {
        (0..self.resting + self.fat).map(|place| self.others.at(place))
    }

    /// The flow whose packet is chosen.
    pub(super) fn chosen(&self) -> u8 {
        self.chosen
    }

    /// The first packet of the flow that stands behind the first one.
    #[inline(always)]
    pub(super) fn next_first(&self) -> u32 {
        self.members[usize::from(self.turns.at(1)) % FEW].first
    }
}

/// Where a flow of so many packets and bytes belongs.
#[inline(always)]
fn fatness(packets: u16, bytes: u32) -> u8 {
    if packets > 1 { band(bytes) } else { NO_BAND }
}
