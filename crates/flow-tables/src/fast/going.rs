//! A packet that goes its way: the frame, which leaves first, and the copies that leave behind it.

use weir_codegen::WINDOW;

use super::frame::{At, Frame, TAG};
use super::program::{Leg, Op};
use crate::compiled::Found;
use crate::parse;
use crate::pipeline::{Report, Why};
use crate::words::{WORDS, Words};

/// The packet, and copies of copies that are changed apart from it: what a bucket changes, of a group that a bucket of another one leads to, and so on.
pub(super) const LEVELS: usize = 4;

/// Longer frames are changed by the interpreter where several of them leave.
const LONGEST: usize = 16 << 10;

/// Room for tags in front of them.
const FRONT: usize = 64 * TAG;

/// Where the copies of a frame go.
pub trait Copies {
    /// A copy with these bytes is to be sent by this port, which is up, and was counted there.
    fn send(&mut self, port: u32, bytes: &[u8]);

    /// The controllers that want it are to be told of a packet with these bytes.
    fn tell(&mut self, report: Report, bytes: &[u8]);
}

/// Memory in which copies are changed.
#[derive(Clone, Debug)]
pub(super) struct Desk {
    levels: [Sheet; LEVELS],
    /// Words that code may write beside.
    words: Words,
}

/// A frame that is changed apart from others.
#[derive(Clone, Debug)]
struct Sheet {
    memory: Box<[u8]>,
    start: usize,
    end: usize,
    /// Where things were in what it is a copy of, when it was copied, and what code knew of it.
    at: At,
    found: Option<Found>,
}

impl Desk {
    pub(super) fn new() -> Desk {
        Desk { levels: std::array::from_fn(|_| Sheet::new()), words: [0; WORDS] }
    }

    /// Whether a frame of so many bytes fits, with so many tags more.
    pub(super) fn has_room(bytes: usize, tags: usize) -> bool {
        bytes <= LONGEST && tags * TAG <= FRONT
    }

    /// Makes the copy of one level one of another level.
    fn copy(&mut self, from: usize, to: usize) {
        let levels = self.levels.get_disjoint_mut([from, to]);
        if let Ok([from, to]) = levels {
            to.replace(from.bytes());
        }
    }

    fn get(&self, level: usize) -> &[u8] {
        self.levels.get(level).map_or(&[], Sheet::bytes)
    }
}

impl Sheet {
    fn new() -> Sheet {
        Sheet {
            memory: vec![0; FRONT + LONGEST].into_boxed_slice(),
            start: FRONT,
            end: FRONT,
            at: At::default(),
            found: None,
        }
    }
}

impl Frame for Sheet {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.memory.get(self.start..self.end).unwrap_or_default()
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.get_mut(self.start..self.end).unwrap_or_default()
    }

    fn window(&mut self) -> Option<&mut [u8; WINDOW]> {
        self.memory.get_mut(self.start..)?.first_chunk_mut()
    }

    fn has_room(&self, back: usize, _: usize) -> bool {
        back <= self.start
    }

    fn prepend(&mut self, bytes: usize) {
        self.start = self.start.saturating_sub(bytes);
    }

    fn trim_front(&mut self, bytes: usize) {
        self.start = self.end.min(self.start + bytes);
    }

    fn lengthen(&mut self, length: usize) {
        let before = self.bytes().len();
        self.end = self.memory.len().min(self.start + length);
        if let Some(new) = self.bytes_mut().get_mut(before..) {
            new.fill(0);
        }
    }

    fn replace(&mut self, bytes: &[u8]) {
        (self.start, self.end) = (FRONT, FRONT + bytes.len());
        let place = self.bytes_mut();
        if place.len() == bytes.len() {
            place.copy_from_slice(bytes);
        }
    }
}

/// A packet that goes its way.
///
/// Actions change the frame where it lies until it leaves. From then on the packet is on the first level of the desk, if something changes it; what
/// only leaves by further ports is copied from the frame.
pub(super) struct Going<'a, F, C> {
    frame: &'a mut F,
    copies: &'a mut C,
    desk: &'a mut Desk,
    at: At,
    /// What code found of it, as long as that is so.
    found: Option<Found>,
    /// In which copy of a copy it is.
    level: usize,
    /// The packet is on the desk: the frame is what left.
    is_on_desk: bool,
    /// The port by which the frame leaves.
    first: Option<u32>,
    /// Controllers are told of it.
    pub(super) is_told: bool,
    /// What ended it last.
    pub(super) why: Why,
}

impl<'a, F: Frame, C: Copies> Going<'a, F, C> {
    #[inline]
    pub(super) fn new(
        frame: &'a mut F,
        copies: &'a mut C,
        desk: &'a mut Desk,
        (at, found): (At, Option<Found>),
    ) -> Going<'a, F, C> {
        Going {
            frame,
            copies,
            desk,
            at,
            found,
            level: 0,
            is_on_desk: false,
            first: None,
            is_told: false,
            why: Why::NoAction,
        }
    }

    /// The port by which the frame leaves, if it does.
    #[inline]
    pub(super) fn left_by(&self) -> Option<u32> {
        self.first
    }

    /// What the frame is, is what is going now.
    #[inline]
    fn is_frame(&self) -> bool {
        self.level == 0 && !self.is_on_desk
    }

    /// How long it is now.
    #[inline]
    pub(super) fn len(&self) -> usize {
        if self.is_frame() { self.frame.bytes().len() } else { self.desk.get(self.level).len() }
    }

    /// Carries changes out.
    #[inline]
    pub(super) fn change(&mut self, ops: &[Op]) {
        if ops.is_empty() {
            return;
        }
        if self.first.is_none() && self.level == 0 {
            self.at.change(self.frame, ops);
        } else {
            self.change_copy(ops);
        }
        if ops.iter().any(|op| op.moves()) {
            self.found = None;
        }
    }

    /// Carries changes out, of which it meets `only` so many if that says so, this time.
    #[inline]
    pub(super) fn change_some(&mut self, ops: &[Op], only: &mut Option<u16>) {
        let some = only.take().and_then(|some| ops.get(..usize::from(some)));
        self.change(some.unwrap_or(ops));
    }

    /// Carries out what a bucket changes, by code if that goes.
    #[inline]
    pub(super) fn change_leg(&mut self, leg: &Leg) {
        let by_code = !leg.ops.is_empty() && self.found.is_some_and(|found| self.change_by_code(leg, found));
        if !by_code {
            self.change(&leg.ops);
        }
    }

    #[inline(never)]
    fn change_by_code(&mut self, leg: &Leg, found: Found) -> bool {
        let is_in_frame = self.first.is_none() && self.level == 0;
        if !is_in_frame && self.level == 0 {
            self.move_to_desk();
        }
        let (level, Desk { levels, words }) = (self.level, &mut *self.desk);
        let sheet = levels.get_mut(level);
        let by_code = match sheet {
            Some(sheet) if !is_in_frame => leg.act.changes.carry_out(sheet, found, words),
            _ => leg.act.changes.carry_out(self.frame, found, words),
        };
        if by_code && leg.act.changes.moves {
            let bytes = if is_in_frame { self.frame.bytes() } else { self.desk.get(level) };
            (self.at, self.found) = (At::of(&parse::parse(bytes).1), None);
        }
        by_code
    }

    #[inline(never)]
    fn change_copy(&mut self, ops: &[Op]) {
        if self.level == 0 {
            self.move_to_desk();
        }
        if let Some(sheet) = self.desk.levels.get_mut(self.level) {
            self.at.change(sheet, ops);
        }
    }

    /// Makes the frame free for what leaves by it.
    fn move_to_desk(&mut self) {
        if !self.is_on_desk {
            self.is_on_desk = true;
            let [packet, ..] = &mut self.desk.levels;
            packet.replace(self.frame.bytes());
        }
    }

    /// It leaves by this port.
    #[inline]
    pub(super) fn leave(&mut self, port: u32) {
        if self.first.is_some() {
            let bytes = if self.is_frame() { self.frame.bytes() } else { self.desk.get(self.level) };
            return self.copies.send(port, bytes);
        }
        self.first = Some(port);
        if self.level > 0 {
            self.leave_as_copy();
        }
    }

    /// Controllers are told of it as it is now.
    #[inline(never)]
    pub(super) fn tell(&mut self, report: Report) {
        let bytes = if self.is_frame() { self.frame.bytes() } else { self.desk.get(self.level) };
        self.copies.tell(report, bytes);
        self.is_told = true;
    }

    /// The first that leaves is no more what the packet is.
    #[inline(never)]
    fn leave_as_copy(&mut self) {
        self.move_to_desk();
        self.frame.replace(self.desk.get(self.level));
    }

    /// What follows happens to a copy.
    #[inline(never)]
    pub(super) fn part(&mut self) {
        let copy = self.level + 1;
        if self.is_frame() {
            if let Some(sheet) = self.desk.levels.get_mut(copy) {
                sheet.replace(self.frame.bytes());
            }
        } else {
            self.desk.copy(self.level, copy);
        }
        if let Some(sheet) = self.desk.levels.get_mut(copy) {
            (sheet.at, sheet.found) = (self.at.clone(), self.found);
        }
        self.level = copy;
    }

    /// And now to what it was a copy of.
    #[inline(never)]
    pub(super) fn go_back(&mut self) {
        if let Some(sheet) = self.desk.levels.get_mut(self.level) {
            (self.at, self.found) = (sheet.at.clone(), sheet.found);
        }
        self.level = self.level.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_to_a_copy_are_zeroes() {
        let mut sheet = Sheet::new();
        sheet.replace(&[9; 80]);
        sheet.replace(&[7; 60]);
        sheet.trim_front(4);
        sheet.lengthen(60);
        assert_eq!(sheet.bytes(), [&[7; 56][..], &[0; 4]].concat());
        sheet.prepend(8);
        assert_eq!(sheet.bytes().len(), 68);
    }
}
