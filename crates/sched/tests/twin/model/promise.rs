//! What subports guarantee classes of what they send, as docs/functions/qos.md has it.

use weir_sched::rate::{Bucket, Fine, fine};

use super::Model;
use super::parts::{CLASSES, Id, queues_of};

/// Who claims, in the order of their turns.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    /// Users of the subport, and subports right below it.
    all: Vec<Id>,
    /// Those of the subports that guarantee the class something themselves.
    inner: Vec<usize>,
}

/// What is known of a class of a subport.
#[derive(Clone, Debug, Default)]
pub(super) struct Promise {
    full_at: Fine,
    /// Of users in line.
    line: Claims,
    /// Of those who do not stand in line, and want of what others leave.
    ring: Claims,
}

impl Promise {
    fn claims(&mut self, shares: bool) -> &mut Claims {
        if shares { &mut self.ring } else { &mut self.line }
    }
}

/// Puts something at the end of a list, or takes it out, unless that is so.
fn set<T: PartialEq>(list: &mut Vec<T>, what: T, is_in: bool) {
    if !is_in {
        list.retain(|other| *other != what);
    } else if !list.contains(&what) {
        list.push(what);
    }
}

/// Puts something at the end of a list that it is in.
fn turn<T: PartialEq>(list: &mut Vec<T>, what: T) {
    if let Some(place) = list.iter().position(|other| *other == what) {
        let turned = list.remove(place);
        list.push(turned);
    }
}

impl Model {
    fn promise_covers(&self, subport: usize, class: usize, length: u16, now: u64) -> bool {
        let full_at = self.promises[subport][class].full_at;
        self.subports[subport].promises[class].is_some_and(|bucket| bucket.eligible_at(full_at, length) <= fine(now))
    }

    /// A user claims for the classes of which it has packets, where it stands; behind the others if it did not before.
    pub(super) fn claim(&mut self, at: usize) {
        let in_line = self.line.iter().any(|(id, ..)| *id == Id::User(at));
        let wants = self.wanting.contains(&Id::User(at));
        let subport = self.users[at].subport;
        for class in 0..CLASSES {
            let (aside, aside_in_ring) = self.stands_aside(at, class);
            let has_packets = queues_of(class).any(|queue| !self.users[at].queues[queue].is_empty());
            let promised = self.path(subport).into_iter().any(|level| self.subports[level].promises[class].is_some());
            let may = promised && has_packets && !aside;
            let stands = [(false, may && in_line), (true, may && !in_line && wants && !aside_in_ring)];
            for (shares, claims) in stands {
                set(&mut self.promises[subport][class].claims(shares).all, Id::User(at), claims);
            }
        }
        self.refresh_promises(subport);
    }

    pub(super) fn claim_nothing(&mut self, at: usize) {
        for promise in self.promises.iter_mut().flatten() {
            promise.line.all.retain(|other| *other != Id::User(at));
            promise.ring.all.retain(|other| *other != Id::User(at));
        }
        self.refresh_promises(self.users[at].subport);
    }

    /// A subport claims, where somebody does in it, of the one above it, for what any above guarantees; unless it waits for tokens. Then the same of those above it.
    pub(super) fn refresh_promises(&mut self, at: usize) {
        let path = self.path(at);
        for (level, above) in path.iter().copied().zip(path.iter().copied().skip(1)) {
            let waits = self.subport_waits(level);
            for class in 0..CLASSES {
                let promised = path.iter().skip_while(|other| **other != level).skip(1);
                let promised = promised.copied().any(|other| self.subports[other].promises[class].is_some());
                let promises_itself = self.subports[level].promises[class].is_some();
                for shares in [false, true] {
                    let somebody = !self.promises[level][class].claims(shares).all.is_empty();
                    let claims = somebody && promised && !waits;
                    let list = self.promises[above][class].claims(shares);
                    set(&mut list.all, Id::Subport(level), claims);
                    set(&mut list.inner, level, claims && promises_itself);
                }
            }
        }
    }

    /// All subports claim as they are to.
    pub(super) fn refresh_all_promises(&mut self) {
        (0..self.subports.len()).for_each(|at| self.refresh_promises(at));
    }

    /// A subport is below nothing for a moment.
    pub(super) fn leave_promises(&mut self, at: usize) {
        for promise in self.promises.iter_mut().flatten() {
            for shares in [false, true] {
                set(&mut promise.claims(shares).all, Id::Subport(at), false);
                set(&mut promise.claims(shares).inner, at, false);
            }
        }
    }

    /// The first who claims for a class of a subport: of the subports right below it that guarantee the class something, four are asked, each of which goes behind the others if its guarantee
    /// does not cover the packet of its first. Where none does, whose turn it is among all.
    fn first_who_claims(&mut self, at: usize, class: usize, shares: bool, now: u64) -> Option<usize> {
        for _ in 0..4 {
            let Some(inner) = self.promises[at][class].claims(shares).inner.first().copied() else { break };
            let first = self.first_who_claims(inner, class, shares, now)?;
            let queue = self.next_queue(first, class);
            if self.promise_covers(inner, class, self.users[first].queues[queue][0].length, now) {
                return Some(first);
            }
            turn(&mut self.promises[at][class].claims(shares).inner, inner);
        }
        match *self.promises[at][class].claims(shares).all.first()? {
            Id::User(user) => Some(user),
            Id::Subport(below) => self.first_who_claims(below, class, shares, now),
            Id::Lender(_) | Id::Class(..) => None,
        }
    }

    /// Who goes before a user whose turn it is with a packet of a class, and for what subport: of those above it, below and with who lends where that is a subport, the
    /// highest first; of each the first, of sixteen, who may send what covers the highest class for which that is so.
    pub(super) fn claimant(
        &mut self,
        at: usize,
        turn: usize,
        shared: Option<Option<usize>>,
        now: u64,
    ) -> Option<(usize, usize, usize)> {
        let (shares, mut levels) = (shared.is_some(), self.path(self.users[at].subport));
        if let Some(place) = shared.flatten().and_then(|lender| levels.iter().position(|level| *level == lender)) {
            levels.truncate(place + 1);
        }
        for level in levels.into_iter().rev() {
            let promised = |class: &usize| self.subports[level].promises[*class].is_some();
            for class in (0..CLASSES).filter(promised).collect::<Vec<_>>() {
                for _ in 0..16 {
                    let Some(first) = self.first_who_claims(level, class, shares, now) else { break };
                    let queue = self.next_queue(first, class);
                    let length = self.users[first].queues[queue][0].length;
                    if !self.promise_covers(level, class, length, now) {
                        break;
                    }
                    if !shares && class == turn {
                        return None;
                    }
                    let user = &self.users[first];
                    let profile = &self.profiles[user.profile];
                    let mut due = vec![profile.classes[class].cap.eligible_at(user.class_full_at[class], length)];
                    due.extend(profile.sharing.map(|(ceil, _)| ceil.eligible_at(user.ceil_full_at, length)));
                    due.extend((!shares).then(|| profile.bucket.eligible_at(user.full_at, length)));
                    if due.into_iter().all(|due| due <= fine(now)) {
                        return Some((level, first, class));
                    }
                    self.turn_claims(level, first, class, shares);
                }
            }
        }
        None
    }

    /// Who goes for what a class of a subport is guaranteed goes behind the others who claim, and so do the subports between.
    pub(super) fn turn_claims(&mut self, level: usize, at: usize, class: usize, shares: bool) {
        let mut id = Id::User(at);
        for above in self.path(self.users[at].subport) {
            let claims = self.promises[above][class].claims(shares);
            turn(&mut claims.all, id);
            if let Id::Subport(below) = id {
                turn(&mut claims.inner, below);
            }
            if above == level {
                break;
            }
            id = Id::Subport(above);
        }
    }

    /// A packet goes: on account of what its class is guaranteed, of each subport that it goes through where that covers it, or where one below does and it lacks no more than its size.
    pub(super) fn pay_promise(&mut self, at: usize, class: usize, length: u16, now: u64) {
        let path = self.path(self.users[at].subport);
        let Some(lowest) = path.iter().position(|level| self.promise_covers(*level, class, length, now)) else {
            return;
        };
        for level in path.into_iter().skip(lowest) {
            let Some(bucket) = self.subports[level].promises[class] else { continue };
            let covers = self.promise_covers(level, class, length, now);
            let promise = &mut self.promises[level][class];
            if covers || bucket.lacks_little(promise.full_at, fine(now)) {
                promise.full_at = bucket.after(promise.full_at, length, fine(now));
            }
        }
    }

    /// A subport guarantees other things. What the buckets hold stays, in bytes, as far as it fits.
    pub(super) fn set_promises(&mut self, subport: usize, new: &[Option<Bucket>], now: u64) {
        self.promised |= new.iter().any(Option::is_some);
        let old = std::mem::replace(&mut self.subports[subport].promises, new.to_vec());
        for (class, (old, new)) in old.into_iter().zip(new).enumerate() {
            if let Some(new) = new {
                let promise = &mut self.promises[subport][class];
                promise.full_at = new.carry(&old.unwrap_or(*new), promise.full_at, fine(now));
            }
        }
    }
}
