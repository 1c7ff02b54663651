//! What subports guarantee classes of what their own users send, as docs/functions/qos.md has it.

use weir_sched::rate::{Bucket, Fine, fine};

use super::Model;
use super::parts::{CLASSES, Id, queues_of};

/// What is known of a class of a subport.
#[derive(Clone, Debug, Default)]
pub(super) struct Promise {
    full_at: Fine,
    /// Users in line who claim for it, in the order of their turns.
    line: Vec<usize>,
    /// Those who do not stand in line, and want of what others leave.
    ring: Vec<usize>,
}

impl Promise {
    fn claims(&mut self, shares: bool) -> &mut Vec<usize> {
        if shares { &mut self.ring } else { &mut self.line }
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
            let may = self.subports[subport].promises[class].is_some() && has_packets && !aside;
            let stands = [(false, may && in_line), (true, may && !in_line && wants && !aside_in_ring)];
            for (shares, claims) in stands {
                let list = self.promises[subport][class].claims(shares);
                if !claims {
                    list.retain(|other| *other != at);
                } else if !list.contains(&at) {
                    list.push(at);
                }
            }
        }
    }

    pub(super) fn claim_nothing(&mut self, at: usize) {
        for promise in self.promises.iter_mut().flatten() {
            promise.line.retain(|other| *other != at);
            promise.ring.retain(|other| *other != at);
        }
    }

    /// Who goes before a user whose turn it is with a packet of a class: the first, of sixteen, who may send what covers the highest class for which that is so.
    pub(super) fn claimant(&mut self, at: usize, turn: usize, shares: bool, now: u64) -> Option<(usize, usize)> {
        let subport = self.users[at].subport;
        let promised = |class: &usize| self.subports[subport].promises[*class].is_some();
        for class in (0..CLASSES).filter(promised).collect::<Vec<_>>() {
            for _ in 0..16 {
                let Some(first) = self.promises[subport][class].claims(shares).first().copied() else { break };
                let queue = self.next_queue(first, class);
                let length = self.users[first].queues[queue][0].length;
                if !self.promise_covers(subport, class, length, now) {
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
                    return Some((first, class));
                }
                self.promises[subport][class].claims(shares).rotate_left(1);
            }
        }
        None
    }

    /// Who goes for what a class is guaranteed goes behind the others who claim.
    pub(super) fn turn_claims(&mut self, at: usize, class: usize, shares: bool) {
        self.promises[self.users[at].subport][class].claims(shares).rotate_left(1);
    }

    /// A packet goes: on account of what its class is guaranteed, if that covers it.
    pub(super) fn pay_promise(&mut self, at: usize, class: usize, length: u16, now: u64) {
        let subport = self.users[at].subport;
        if self.promise_covers(subport, class, length, now) {
            let bucket = self.subports[subport].promises[class].unwrap();
            let promise = &mut self.promises[subport][class];
            promise.full_at = bucket.after(promise.full_at, length, fine(now));
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
