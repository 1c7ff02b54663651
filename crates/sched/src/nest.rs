//! What classes of subports are [guaranteed](crate::promises) where these are below others.
//!
//! 1. A subport in which somebody claims for a class claims of the one right above it, where any above guarantees the class something, unless it waits for tokens.
//! 2. Who is the first to claim for a class of a subport: of those right below it that claim and guarantee the class something themselves, one whose guarantee covers the packet of its first. [`ASKED`] of them
//!    are asked at most, each of which goes behind the others of these if its does not. Otherwise it is whose turn it is among all who claim, users and subports.
//! 3. Who goes, goes behind the others who claim, and so do the subports from its own up to the one that guarantees.
//!
//! So what is guaranteed within a guarantee has its part of that, as long as it is no more.

use weir_table::links::List;

use crate::aside::Stood;
use crate::class::MAX_CLASSES;
use crate::gates::Place;
use crate::judge::Next;
use crate::promises::{Promises, place};
use crate::rate::fine;
use crate::scheduler::Scheduler;
use crate::sharing::{change, move_back, turn_round};

/// So many of those that guarantee a class something themselves are asked at most.
const ASKED: usize = 4;

/// Of a class of a subport.
#[derive(Clone, Debug)]
pub(crate) struct Nest {
    /// Those right below it that claim, and guarantee the class something themselves, by [`Stood`].
    inner: [List; 2],
    /// Bit s: it claims of the one above, having stood so.
    claims: u8,
    /// Bit s: it stands there among those of `inner`.
    is_inner: u8,
}

impl Nest {
    pub(crate) const NONE: Nest = Nest { inner: [List::EMPTY; 2], claims: 0, is_inner: 0 };
}

/// The link of a subport for a class; among others than users.
pub(crate) fn link(number: u32, class: u8, stood: Stood) -> u32 {
    2 * place(number, class) + stood as u32
}

/// Sets a bit, and says whether it was otherwise.
fn set(bits: &mut u8, bit: usize, to: bool) -> bool {
    let before = std::mem::replace(bits, *bits & !(1 << bit) | u8::from(to) << bit);
    before != *bits
}

impl Promises {
    /// The first of those below that guarantee a class something themselves.
    fn first_inner(&self, place: u32, stood: Stood) -> Option<u32> {
        let [line, ring] = &self.nests.at(place).inner;
        let list = if stood == Stood::Line { line } else { ring };
        (!list.is_empty()).then(|| list.first() / (2 * MAX_CLASSES as u32))
    }

    fn pass_inner(&mut self, place: u32, stood: Stood) {
        if let Some(list) = self.nests.at_mut(place).inner.get_mut(stood as usize) {
            turn_round(&mut self.inner, list);
        }
    }

    /// A subport below another one goes behind the others that guarantee the class something themselves, if it does.
    pub(crate) fn turn_inner(&mut self, above: u32, number: u32, class: u8, stood: Stood) {
        if self.nests.at(place(number, class)).is_inner >> stood as usize & 1 != 0
            && let Some(list) = self.nests.at_mut(place(above, class)).inner.get_mut(stood as usize)
        {
            move_back(&mut self.inner, list, link(number, class, stood));
        }
    }

    /// A subport claims for a class of the one above it if somebody claims in it and it `may`, and stands among those who guarantee it something themselves if it does.
    fn nest(&mut self, number: u32, above: u32, class: u8, (may, guarantees): (bool, bool)) {
        let (own, to) = (place(number, class), place(above, class));
        for stood in [Stood::Line, Stood::Ring] {
            let claims = may && self.first(own, stood).is_some();
            let (bit, link) = (stood as usize, link(number, class, stood));
            let nest = self.nests.at_mut(own);
            let changes_inner = set(&mut nest.is_inner, bit, claims && guarantees);
            if set(&mut nest.claims, bit, claims) {
                self.change(to, stood, self.first + link, claims);
            }
            if changes_inner && let Some(list) = self.nests.at_mut(to).inner.get_mut(bit) {
                change(&mut self.inner, list, link, claims && guarantees);
            }
        }
    }
}

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Classes that any subport above one guarantees something.
    pub(crate) fn promised_above(&self, number: u32) -> u8 {
        self.lines.path(number).skip(1).fold(0, |bits, at| bits | self.profiles.promised_classes(at))
    }

    /// Has a subport claim of the one above it for those of these classes for which it is to claim, and for no others; then the same of those above it.
    #[cold]
    pub(crate) fn claim_above(&mut self, number: u32, classes: u8) {
        if !TREE || self.promises.nests.is_empty() {
            return;
        }
        for at in self.lines.path(number) {
            let Some(above) = self.lines.above(at) else { return };
            let waits = self.lines.subports.at(at).place == Place::Waiting;
            let promised = if waits { 0 } else { self.promised_above(at) };
            let own = self.profiles.promised_classes(at);
            for class in (0..C as u8).filter(|class| classes >> class & 1 != 0) {
                self.promises.nest(at, above, class, (promised >> class & 1 != 0, own >> class & 1 != 0));
            }
        }
    }

    /// All subports claim as they are to.
    pub(crate) fn claim_anew(&mut self) {
        if TREE {
            (0..self.lines.subports.len() as u32).for_each(|number| self.claim_above(number, u8::MAX));
        }
    }

    /// A subport that is to be below another one claims nothing of the one that it is below.
    pub(crate) fn leave_claims(&mut self, number: u32) {
        if let Some(above) = self.lines.above(number).filter(|_| !self.promises.nests.is_empty()) {
            (0..C as u8).for_each(|class| self.promises.nest(number, above, class, (false, false)));
        }
    }

    /// The first who claims for a class of a subport, and its packet.
    pub(crate) fn first_who_claims(&mut self, number: u32, class: u8, stood: Stood, now: u64) -> Option<(u32, Next)> {
        let at = place(number, class);
        if TREE {
            for _ in 0..ASKED {
                let Some(inner) = self.promises.first_inner(at, stood) else { break };
                let (user, next) = self.first_who_claims(inner, class, stood, now)?;
                let bucket = self.profiles.promise(inner as u16, class);
                if self.promises.covers(bucket, place(inner, class), next.length, fine(now)) {
                    return Some((user, next));
                }
                self.promises.pass_inner(at, stood);
            }
        }
        let first = self.promises.first(at, stood)?;
        match first.checked_sub(self.promises.first).filter(|_| TREE) {
            Some(link) => self.first_who_claims(link / (2 * MAX_CLASSES as u32), class, stood, now),
            None => {
                let user = first / C as u32;
                Some((user, self.next_of_class(user, class)))
            }
        }
    }
}
