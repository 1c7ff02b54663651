//! What subports guarantee their traffic classes of what they send.
//!
//! 1. A user claims for a class while its subport, or one above that, guarantees it something, it has packets of that, does not stand aside for it, and stands in line for what it is
//!    guaranteed, or else wants of what others leave. Whether it does is looked at when it comes to stand somewhere, and when a packet comes to a class of which it had none.
//! 2. When a subport has its turn, the highest of its classes that is guaranteed something goes, if that covers the packet of the first who claims for it, where the others
//!    who have the turn in the same way stand. Then that one goes behind the others who claim. If it is the class of the user in line whose turn it is anyway, that user goes. Whoever may not send, as far as its
//!    own rates go, is passed over, [`TRIES`] of them at most.
//! 3. Of a subport and those below it, the highest is asked first. Who claims in one that is below another claims in that, too: see [`nest`](crate::nest).
//! 4. A guarantee is a token bucket: it covers a packet while it has enough for it, and then what is sent counts against it, whoever sends it; and against those of the same class above, whether these cover
//!    it or not, unless they lack more than their size.
//! 5. What goes of what others leave in this way costs its user, and the subports below the one that guarantees, nothing of their shares; what that one has of it costs as ever.
//!
//! Nothing of this is looked at where no subport guarantees a class anything: all classes are counted and asked about where one does.

use weir_table::indexed::{Indexed, NONE};
use weir_table::links::{Links, List};

use crate::aside::Stood;
use crate::class::MAX_CLASSES;
use crate::gates::Place;
use crate::judge::{Next, cap_at, ceil_at};
use crate::nest::Nest;
use crate::profile::LEVELS;
use crate::rate::{Bucket, Fine, fine};
use crate::scheduler::Scheduler;
use crate::sharing::{Wants, change, move_back};
use crate::users::User;

/// So many who claim for a class are passed over at most.
const TRIES: usize = 16;

/// What a class of a subport is guaranteed, and who claims it.
#[derive(Clone, Debug)]
pub(crate) struct Promise {
    /// When its bucket is full.
    full_at: Fine,
    /// Users, and subports right below it, by [`Stood`].
    pub(crate) lists: [List; 2],
}

impl Promise {
    const NONE: Promise = Promise { full_at: 0, lists: [List::EMPTY; 2] };
}

/// All of a scheduler; none where no class of a subport is guaranteed anything.
#[derive(Debug)]
pub(crate) struct Promises {
    /// By subport and class.
    pub(crate) promises: Indexed<Promise>,
    /// The same where subports may be below others.
    pub(crate) nests: Indexed<Nest>,
    /// Of users and their classes, and behind them of subports.
    pub(crate) links: Links,
    /// Of subports among those that guarantee a class something themselves.
    pub(crate) inner: Links,
    /// The number of the first link of a subport.
    pub(crate) first: u32,
    /// Classes for which each user claims, by [`Stood`].
    claims: Indexed<[u8; 2]>,
}

/// Who goes before others for what a class is guaranteed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimant {
    /// The subport that guarantees it.
    pub(crate) level: u32,
    pub(crate) user: u32,
    pub(crate) next: Next,
}

impl Promises {
    pub(crate) fn none() -> Promises {
        let links = || Links::new(0);
        Promises {
            promises: Indexed::new(0, Promise::NONE),
            nests: Indexed::new(0, Nest::NONE),
            links: links(),
            inner: links(),
            first: NONE,
            claims: Indexed::new(0, [0; 2]),
        }
    }

    /// The link of the first who claims, where the others stand.
    pub(crate) fn first(&self, place: u32, stood: Stood) -> Option<u32> {
        let [line, ring] = &self.promises.at(place).lists;
        Some(if stood == Stood::Line { line } else { ring }).filter(|list| !list.is_empty()).map(List::first)
    }

    /// Whether a guarantee covers so many bytes.
    pub(crate) fn covers(&self, bucket: Option<Bucket>, place: u32, length: u16, now: Fine) -> bool {
        bucket.is_some_and(|bucket| bucket.eligible_at(self.promises.at(place).full_at, length) <= now)
    }

    /// So many bytes of a class of a subport go, on account of what that is guaranteed if that covers them, or `is_within` it, being covered by what is guaranteed below. Whether they are covered
    /// by either.
    pub(crate) fn pay(
        &mut self,
        bucket: Option<Bucket>,
        (number, class): (u32, u8),
        length: u16,
        is_within: bool,
        now: Fine,
    ) -> bool {
        let Some(bucket) = bucket else { return is_within };
        let promise = self.promises.at_mut(place(number, class));
        let covers = bucket.eligible_at(promise.full_at, length) <= now;
        if covers || is_within && bucket.lacks_little(promise.full_at, now) {
            promise.full_at = bucket.after(promise.full_at, length, now);
        }
        covers || is_within
    }

    /// Who claims, by its link, goes behind the others.
    fn turn(&mut self, place: u32, stood: Stood, link: u32) {
        if let Some(list) = self.promises.at_mut(place).lists.get_mut(stood as usize) {
            move_back(&mut self.links, list, link);
        }
    }

    /// A user or a subport, by its link, claims for a class, or does no longer.
    pub(crate) fn change(&mut self, place: u32, stood: Stood, link: u32, is_in: bool) {
        if let Some(list) = self.promises.at_mut(place).lists.get_mut(stood as usize) {
            change(&mut self.links, list, link, is_in);
        }
    }
}

/// The place of a class of a subport.
pub(crate) fn place(number: u32, class: u8) -> u32 {
    number * MAX_CLASSES as u32 + u32::from(class)
}

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Makes room for what classes of subports are guaranteed, once any is.
    pub(crate) fn make_promises(&mut self) {
        if self.profiles.promised && self.promises.promises.is_empty() {
            let (users, places) = (self.setup.users as usize, self.lines.subports.len() * MAX_CLASSES);
            let nests = if TREE { places } else { 0 };
            self.promises = Promises {
                promises: Indexed::new(places, Promise::NONE),
                nests: Indexed::new(nests, Nest::NONE),
                links: Links::new(users * C + 2 * nests),
                inner: Links::new(2 * nests),
                first: self.setup.users * C as u32,
                claims: Indexed::new(users, [0; 2]),
            };
        }
    }

    /// Has a user claim for the classes that it is to claim for where it stands, and for no others.
    #[cold]
    pub(crate) fn claim(&mut self, user: u32) {
        let number = u32::from(self.users.gates.at(user).standing().subport());
        let above = if TREE { self.promised_above(number) } else { 0 };
        let promised = self.profiles.promised_classes(number) | above;
        let User { gate, state, share, .. } = self.users.at_mut(user);
        let [line, ring] = state.aside;
        let wanted = match gate.standing().place() {
            Place::Active(_) => [state.classes() & promised & !line, 0],
            _ if share.wants.is_more() => [0, state.classes() & promised & !line & !ring],
            _ => [0, 0],
        };
        let is = std::mem::replace(self.promises.claims.at_mut(user), wanted);
        share.wants = match wanted {
            [0, 0] => share.wants.without(Wants::CLAIMS),
            _ => share.wants.and(Wants::CLAIMS),
        };
        if is == wanted {
            return;
        }
        // It has one link for a class: first it leaves where it stood.
        let mut changed = 0;
        for is_in in [false, true] {
            for (stood, (is, wanted)) in [Stood::Line, Stood::Ring].into_iter().zip(is.into_iter().zip(wanted)) {
                let changes = if is_in { wanted & !is } else { is & !wanted };
                changed |= changes;
                for class in (0..C as u8).filter(|class| changes >> class & 1 != 0) {
                    self.promises.change(place(number, class), stood, user * C as u32 + u32::from(class), is_in);
                }
            }
        }
        if above != 0 {
            self.claim_above(number, changed);
        }
    }

    /// Who goes for what a class of a subport, or of one above it, is guaranteed, where somebody does so before the others, who have a turn of that subport with a packet of `class`: of what
    /// `lender` lends, if that is a subport.
    #[cold]
    pub(crate) fn claimant(&mut self, number: u32, lender: u32, class: u8, stood: Stood, now: u64) -> Option<Claimant> {
        if !TREE {
            return self.claimant_of(number, class, stood, now).flatten();
        }
        // The highest first.
        let mut levels = [NONE; LEVELS];
        for (level, at) in levels.iter_mut().rev().zip(self.lines.path(number)) {
            *level = at;
            if at == lender {
                break;
            }
        }
        let mut levels = levels.into_iter().filter(|level| *level != NONE);
        levels.find_map(|level| self.claimant_of(level, class, stood, now)).flatten()
    }

    /// The same of one subport: nobody, where that is settled there, as it is the class of the user whose turn it is that is guaranteed something.
    fn claimant_of(&mut self, level: u32, class: u8, stood: Stood, now: u64) -> Option<Option<Claimant>> {
        let classes = self.profiles.promised_classes(level);
        for promised in (0..C as u8).filter(|class| classes >> class & 1 != 0) {
            let (place, bucket) = (place(level, promised), self.profiles.promise(level as u16, promised));
            for _ in 0..TRIES {
                let Some((user, next)) = self.first_who_claims(level, promised, stood, now) else { break };
                if !self.promises.covers(bucket, place, next.length, fine(now)) {
                    break;
                }
                if stood == Stood::Line && promised == class {
                    return Some(None);
                }
                if self.lets_claim(user, next, stood, fine(now)) {
                    return Some(Some(Claimant { level, user, next }));
                }
                self.turn_claims(level, user, promised, stood);
            }
        }
        None
    }

    /// The packet of a class that a user sends next.
    pub(crate) fn next_of_class(&mut self, user: u32, class: u8) -> Next {
        let User { gate, state, rest, .. } = self.users.at_mut(user);
        let profile = self.profiles.user(gate.standing().profile());
        let queue = state.next_queue(rest, class.into(), profile, &self.slab);
        Next { class, queue, length: self.slab.length(state.first(queue)) }
    }

    /// Whether the rates of a user itself let a packet go.
    fn lets_claim(&mut self, user: u32, next: Next, stood: Stood, now: Fine) -> bool {
        let User { gate, rest, share, .. } = self.users.at_mut(user);
        let profile = self.profiles.user(gate.standing().profile());
        let is_due = stood == Stood::Ring || profile.bucket.eligible_at(gate.full_at(), next.length) <= now;
        is_due
            && cap_at(rest, profile, next.class.into(), next.length) <= now
            && ceil_at(share, profile, next.length) <= now
    }

    /// A user who claims for what a class of a subport is guaranteed goes behind the others, and so do the subports between.
    pub(crate) fn turn_claims(&mut self, level: u32, user: u32, class: u8, stood: Stood) {
        let number = u32::from(self.users.gates.at(user).standing().subport());
        self.promises.turn(place(number, class), stood, user * C as u32 + u32::from(class));
        if !TREE || number == level {
            return;
        }
        for at in self.lines.path(number) {
            let Some(above) = self.lines.above(at) else { break };
            self.promises.turn(place(above, class), stood, self.promises.first + crate::nest::link(at, class, stood));
            self.promises.turn_inner(above, at, class, stood);
            if above == level {
                break;
            }
        }
    }

    /// A subport guaranteed classes something else before. What the buckets hold stays, in bytes, as far as it fits.
    pub(crate) fn set_promises(&mut self, number: u16, before: &[Option<Bucket>; MAX_CLASSES], now: u64) {
        for (class, before) in (0..C as u8).zip(before) {
            if let Some(bucket) = self.profiles.promise(number, class) {
                let promise = self.promises.promises.at_mut(place(number.into(), class));
                promise.full_at = bucket.carry(&before.unwrap_or(bucket), promise.full_at, fine(now));
            }
        }
    }
}
