//! What changes while packets wait: who users are, and what subports may send.

use weir_sched::rate::fine;

use super::Model;
use super::hold::Reason;
use super::parts::{CLASSES, Id, LOWEST, ModelSubport, queues_of};

impl Model {
    /// What waits in a class does so by other rules.
    fn reorder_class(&mut self, at: usize, class: usize) {
        let rules = self.profiles[self.users[at].profile].classes[class].clone();
        let (lines, parts) = (rules.dual.is_some(), rules.weights.len() > 1);
        let remembers = parts && !rules.fair && (lines || rules.manage.is_some());
        let user = &mut self.users[at];
        for queue in queues_of(class) {
            if (lines && !parts) != user.coupled_states[queue] {
                (user.coupled_states[queue], user.states[queue]) = (lines && !parts, [0; 4]);
            }
            if lines != user.coupled_parts[queue] || !remembers {
                (user.coupled_parts[queue], user.part_states[queue]) = (lines, [0; 4]);
            }
        }
        if queues_of(class).all(|queue| user.queues[queue].is_empty()) {
            return;
        }
        if class < LOWEST && user.split[class].is_some() != parts {
            self.reorder_queues(at, class, (false, false));
            let user = &mut self.users[at];
            if parts { user.several_parts(class) } else { user.one_part(class) }
        }
        self.reorder_queues(at, class, (rules.fair, lines));
    }

    /// What waits in the queues of a class does so by other rules: in flows, in two lines, or one behind the other.
    fn reorder_queues(&mut self, at: usize, class: usize, (fair, lines): (bool, bool)) {
        for queue in queues_of(class).filter(|queue| !self.users[at].queues[*queue].is_empty()).collect::<Vec<_>>() {
            if self.users[at].dual[queue].is_some() && !lines {
                self.users[at].one_line(queue);
            }
            if fair != self.users[at].fair[queue].is_some() {
                if fair {
                    self.forget_one();
                }
                self.users[at].reorder(queue, fair, &mut self.steps);
            }
            if lines && self.users[at].dual[queue].is_none() {
                self.users[at].two_lines(queue);
            }
        }
    }

    pub(crate) fn assign(&mut self, at: usize, to: Option<(usize, usize)>, now: u64) {
        let Some((profile, subport)) = to else {
            self.users[at].open = false;
            return;
        };
        self.stay_nowhere_aside(at);
        self.claim_nothing(at);
        self.line.retain(|(id, ..)| *id != Id::User(at));
        self.waiting.retain(|(_, id)| *id != Id::User(at));
        self.refresh_subports();
        self.set_wants(at, false, now);
        let user = &mut self.users[at];
        // What its buckets hold stays, in bytes, as far as it fits; who is new has all that its profile allows.
        let old = &self.profiles[if user.open { user.profile } else { profile }];
        (user.open, user.profile, user.subport) = (true, profile, subport);
        let profile = &self.profiles[profile];
        if let Some((ceil, _)) = profile.sharing {
            let before = old.sharing.map_or(ceil, |(ceil, _)| ceil);
            user.ceil_full_at = ceil.carry(&before, user.ceil_full_at, fine(now));
        }
        user.full_at = profile.bucket.carry(&old.bucket, user.full_at, fine(now));
        for (full_at, (class, old)) in user.class_full_at.iter_mut().zip(profile.classes.iter().zip(&old.classes)) {
            *full_at = class.cap.carry(&old.cap, *full_at, fine(now));
        }
        for (full_at, (class, old)) in user.floor_full_at.iter_mut().zip(profile.classes.iter().zip(&old.classes)) {
            if let Some(guarantee) = class.guarantee {
                *full_at = guarantee.carry(&old.guarantee.unwrap_or(guarantee), *full_at, fine(now));
            }
        }
        (0..CLASSES).for_each(|class| self.reorder_class(at, class));
        self.settle(at, now);
    }

    /// A subport has other rates and another weight. What its buckets hold stays, in bytes, as far as it fits; and if it waited for tokens, it is
    /// looked at anew.
    pub(crate) fn set_subport(&mut self, at: usize, new: &ModelSubport, now: u64) {
        let rules = |subport: &ModelSubport| {
            let (classes, promises) = (subport.classes.clone(), subport.promises.clone());
            (subport.bucket, subport.guarantee, subport.weight, subport.parent, classes, promises)
        };
        if rules(&self.subports[at]) == rules(new) {
            return;
        }
        if self.subports[at].parent != new.parent {
            self.set_parent(at, new.parent, now);
        }
        let subport = &mut self.subports[at];
        self.subport_full_at[at] = new.bucket.carry(&subport.bucket, self.subport_full_at[at], fine(now));
        if let Some(guarantee) = new.guarantee {
            let before = subport.guarantee.unwrap_or(guarantee);
            subport.guarantee_full_at = guarantee.carry(&before, subport.guarantee_full_at, fine(now));
        }
        (subport.bucket, subport.guarantee, subport.weight) = (new.bucket, new.guarantee, new.weight);
        if self.subport_waits(at) {
            self.histories[at].note(Some(Reason::Line), now);
        }
        self.waiting.retain(|(_, id)| *id != Id::Subport(at));
        self.refresh_subports();
        self.refresh_claims(at, now);
        self.set_classes(at, &new.classes, now);
        self.set_promises(at, &new.promises, now);
        self.refresh_all_promises();
    }

    /// A subport moves below another one, with all that waits in it: first it leaves what it was below and is below the port, unless it is that already.
    fn set_parent(&mut self, at: usize, parent: Option<usize>, now: u64) {
        let before = self.subports[at].parent;
        self.leave_promises(at);
        for to in before.map(|_| None).into_iter().chain(parent.map(Some)) {
            let from = self.subports[at].parent;
            self.line.retain(|(id, ..)| *id != Id::Subport(at));
            self.wanting.retain(|other| *other != Id::Subport(at));
            self.leading.retain(|other| *other != at);
            // Those above it are settled without it; then others with it.
            self.moving = Some(at);
            self.refresh_subports();
            if let Some(from) = from {
                self.refresh_claims(from, now);
            }
            self.moving = None;
            self.subports[at].parent = to;
            self.refresh_subports();
            self.refresh_claims(at, now);
        }
    }
}
