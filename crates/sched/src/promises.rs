//! What a subport guarantees its traffic classes of what its own users send.
//!
//! 1. A user claims for a class while it has packets of that, does not stand aside for it, and stands in line for what it is guaranteed, or else wants of what others leave.
//!    Whether it does is looked at when it comes to stand somewhere, and when a packet comes to a class of which it had none.
//! 2. When a subport has its turn, the highest of its classes that is guaranteed something goes, if that covers the packet of the first who claims for it, where the others
//!    who have the turn in the same way stand. Then that one goes behind the others who claim. If it is the class of the user in line whose turn it is anyway, that user goes. Whoever may not send, as far as its
//!    own rates go, is passed over, [`TRIES`] of them at most.
//! 3. A guarantee is a token bucket: it covers a packet while it has enough for it, and then what is sent counts against it, whoever sends it.
//! 4. What goes of what others leave in this way costs its user nothing of its share; what its subport has of that it costs as ever.
//!
//! Nothing of this is looked at where no subport guarantees a class anything: all classes are counted and asked about where one does.

use weir_table::indexed::Indexed;
use weir_table::links::{Links, List};

use crate::aside::Stood;
use crate::class::MAX_CLASSES;
use crate::gates::Place;
use crate::judge::{Next, cap_at, ceil_at};
use crate::rate::{Bucket, Fine, fine};
use crate::scheduler::Scheduler;
use crate::sharing::{Wants, change, turn_round};
use crate::users::User;

/// So many who claim for a class are passed over at most.
const TRIES: usize = 16;

/// What a class of a subport is guaranteed, and who claims it.
#[derive(Clone, Debug)]
struct Promise {
    /// When its bucket is full.
    full_at: Fine,
    /// By [`Stood`].
    lists: [List; 2],
}

impl Promise {
    const NONE: Promise = Promise { full_at: 0, lists: [List::EMPTY; 2] };
}

/// All of a scheduler; none where no class of a subport is guaranteed anything.
#[derive(Debug)]
pub(crate) struct Promises {
    /// By subport and class.
    promises: Indexed<Promise>,
    /// Of users and their classes.
    links: Links,
    /// Classes for which each user claims, by [`Stood`].
    claims: Indexed<[u8; 2]>,
}

impl Promises {
    pub(crate) fn none() -> Promises {
        let promises = Indexed::new(0, Promise::NONE);
        Promises { promises, links: Links::new(0), claims: Indexed::new(0, [0; 2]) }
    }

    fn first(&self, place: u32, stood: Stood) -> Option<u32> {
        let [line, ring] = &self.promises.at(place).lists;
        Some(if stood == Stood::Line { line } else { ring }).filter(|list| !list.is_empty()).map(List::first)
    }

    /// Whether a guarantee covers so many bytes.
    fn covers(&self, bucket: Option<Bucket>, place: u32, length: u16, now: Fine) -> bool {
        bucket.is_some_and(|bucket| bucket.eligible_at(self.promises.at(place).full_at, length) <= now)
    }

    /// So many bytes of a class of a subport go, on account of what that is guaranteed if that covers them.
    pub(crate) fn pay(&mut self, bucket: Option<Bucket>, number: u16, class: u8, length: u16, now: Fine) {
        let place = place(number, class);
        if let Some(bucket) = bucket.filter(|bucket| self.covers(Some(*bucket), place, length, now)) {
            let promise = self.promises.at_mut(place);
            promise.full_at = bucket.after(promise.full_at, length, now);
        }
    }

    /// The first of those who claim for a class of a subport, whose turn it is, goes behind the others.
    pub(crate) fn turn_of(&mut self, number: u32, class: u8, stood: Stood) {
        self.turn(place(number as u16, class), stood);
    }

    /// The first who claims goes behind the others.
    fn turn(&mut self, place: u32, stood: Stood) {
        if let Some(list) = self.promises.at_mut(place).lists.get_mut(stood as usize) {
            turn_round(&mut self.links, list);
        }
    }

    /// A user, by its link, claims for a class, or does no longer.
    fn change(&mut self, place: u32, stood: Stood, link: u32, is_in: bool) {
        if let Some(list) = self.promises.at_mut(place).lists.get_mut(stood as usize) {
            change(&mut self.links, list, link, is_in);
        }
    }
}

fn place(number: u16, class: u8) -> u32 {
    u32::from(number) * MAX_CLASSES as u32 + u32::from(class)
}

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Makes room for what classes of subports are guaranteed, once any is.
    pub(crate) fn make_promises(&mut self) {
        if self.profiles.promised && self.promises.promises.is_empty() {
            let users = self.setup.users as usize;
            self.promises = Promises {
                promises: Indexed::new(self.lines.subports.len() * MAX_CLASSES, Promise::NONE),
                links: Links::new(users * C),
                claims: Indexed::new(users, [0; 2]),
            };
        }
    }

    /// Has a user claim for the classes that it is to claim for where it stands, and for no others.
    #[cold]
    pub(crate) fn claim(&mut self, user: u32) {
        let User { gate, state, share, .. } = self.users.at_mut(user);
        let standing = gate.standing();
        let number = standing.subport();
        let promised = (0..C as u8).filter(|class| self.profiles.promise(number, *class).is_some());
        let promised = promised.fold(0, |bits, class| bits | 1 << class);
        let [line, ring] = state.aside;
        let wanted = match standing.place() {
            Place::Active(_) => [state.classes() & promised & !line, 0],
            _ if share.wants.is_more() => [0, state.classes() & promised & !line & !ring],
            _ => [0, 0],
        };
        let is = std::mem::replace(self.promises.claims.at_mut(user), wanted);
        share.wants = match wanted {
            [0, 0] => share.wants.without(Wants::CLAIMS),
            _ => share.wants.and(Wants::CLAIMS),
        };
        // It has one link for a class: first it leaves where it stood.
        for is_in in [false, true] {
            for (stood, (is, wanted)) in [Stood::Line, Stood::Ring].into_iter().zip(is.into_iter().zip(wanted)) {
                let changes = if is_in { wanted & !is } else { is & !wanted };
                for class in (0..C as u8).filter(|class| changes >> class & 1 != 0) {
                    self.promises.change(place(number, class), stood, user * C as u32 + u32::from(class), is_in);
                }
            }
        }
    }

    /// The user who goes for what a class of a subport is guaranteed, and its packet, where one does so before the others, who have a turn with a packet of `class`.
    #[cold]
    pub(crate) fn claimant(&mut self, number: u16, class: u8, stood: Stood, now: u64) -> Option<(u32, Next)> {
        for promised in 0..C as u8 {
            let (place, bucket) = (place(number, promised), self.profiles.promise(number, promised));
            if bucket.is_none() {
                continue;
            }
            for _ in 0..TRIES {
                let Some(first) = self.promises.first(place, stood) else { break };
                let user = first / C as u32;
                let next = self.next_of_class(user, promised);
                if !self.promises.covers(bucket, place, next.length, fine(now)) {
                    break;
                }
                if stood == Stood::Line && promised == class {
                    return None;
                }
                if self.lets_claim(user, next, stood, fine(now)) {
                    return Some((user, next));
                }
                self.promises.turn(place, stood);
            }
        }
        None
    }

    /// The packet of a class that a user sends next.
    fn next_of_class(&mut self, user: u32, class: u8) -> Next {
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

    /// A subport guaranteed classes something else before. What the buckets hold stays, in bytes, as far as it fits.
    pub(crate) fn set_promises(&mut self, number: u16, before: &[Option<Bucket>; MAX_CLASSES], now: u64) {
        for (class, before) in (0..C as u8).zip(before) {
            if let Some(bucket) = self.profiles.promise(number, class) {
                let promise = self.promises.promises.at_mut(place(number, class));
                promise.full_at = bucket.carry(&before.unwrap_or(bucket), promise.full_at, fine(now));
            }
        }
    }
}
