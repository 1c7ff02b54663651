//! Users whom the rate of a class of their subport holds back, as docs/functions/qos.md has it.

use weir_sched::rate::{Bucket, Fine, fine, nanos};

use super::parts::{CLASSES, Id, LOWEST, QUEUES};
use super::{Model, TICK};

/// Who stands aside for a class of a subport, in the order of coming.
#[derive(Clone, Debug, Default)]
pub(super) struct Crowd {
    full_at: Fine,
    /// Those who stood in line for what they are guaranteed.
    line: Vec<usize>,
    /// Those who wanted of what others leave.
    ring: Vec<usize>,
}

impl Crowd {
    fn is_empty(&self) -> bool {
        self.line.is_empty() && self.ring.is_empty()
    }
}

impl Model {
    /// Whether a user stands aside with a class: having stood in line, and having wanted more.
    pub(super) fn stands_aside(&self, at: usize, class: usize) -> (bool, bool) {
        let crowd = &self.crowds[self.users[at].subport][class];
        (crowd.line.contains(&at), crowd.ring.contains(&at))
    }

    /// Whether the rate of a class lets a packet go straight through: nobody stands aside for it.
    pub(super) fn class_lets_pass(&self, subport: usize, class: usize, length: u16, now: u64) -> bool {
        let (bucket, crowd) = (self.subports[subport].classes[class], &self.crowds[subport][class]);
        bucket.is_unlimited() || crowd.is_empty() && bucket.eligible_at(crowd.full_at, length) <= fine(now)
    }

    /// The same of a user whose turn it is, of what it is guaranteed or of what others leave. Where it does not, the user steps aside.
    pub(super) fn class_lets_go(&mut self, at: usize, class: usize, length: u16, shares: bool, now: u64) -> bool {
        let subport = self.users[at].subport;
        let (bucket, crowd) = (self.subports[subport].classes[class], &mut self.crowds[subport][class]);
        let due = bucket.eligible_at(crowd.full_at, length);
        let others_first = !crowd.line.is_empty() || shares && !crowd.ring.is_empty();
        let has_turn = self.users[at].came_back[class] || !others_first;
        if bucket.is_unlimited() || due <= fine(now) && has_turn {
            return true;
        }
        if crowd.is_empty() {
            self.waiting.push((nanos(due).div_ceil(TICK), Id::Class(subport, class)));
        }
        self.users[at].came_back[class] = false;
        // Whoever stood there for what others leave stands there for what it is guaranteed.
        crowd.ring.retain(|other| *other != at);
        if shares {
            crowd.ring.push(at);
        } else {
            crowd.line.push(at);
        }
        self.settle(at, now);
        false
    }

    pub(super) fn pay_class(&mut self, at: usize, class: usize, length: u16, now: u64) {
        let subport = self.users[at].subport;
        let (bucket, crowd) = (self.subports[subport].classes[class], &mut self.crowds[subport][class]);
        crowd.full_at = bucket.after(crowd.full_at, length, fine(now));
        self.users[at].came_back[class] = false;
    }

    /// The first come back for whose packets there are tokens, as if each sent at once: sixteen at most, and those who stood in line first.
    pub(super) fn come_back(&mut self, subport: usize, class: usize, now: u64) {
        let (id, bucket) = (Id::Class(subport, class), self.subports[subport].classes[class]);
        let mut full_at = self.crowds[subport][class].full_at;
        for _ in 0..16 {
            let crowd = &self.crowds[subport][class];
            let Some(at) = crowd.line.first().or(crowd.ring.first()).copied() else { return };
            let queues = if class < LOWEST { class..class + 1 } else { LOWEST..QUEUES };
            let waits = self.users[at].queues[queues].iter().any(|queue| !queue.is_empty());
            let length = if waits {
                let queue = self.next_queue(at, class);
                self.users[at].queues[queue][0].length
            } else {
                0
            };
            let due = bucket.eligible_at(full_at, length);
            if due > fine(now) {
                return self.waiting.push((nanos(due).div_ceil(TICK), id));
            }
            full_at = bucket.after(full_at, length, fine(now));
            self.leave(at, class);
            self.users[at].came_back[class] = true;
            self.settle(at, now);
        }
        self.look_soon(subport, class, now);
    }

    fn leave(&mut self, at: usize, class: usize) {
        let crowd = &mut self.crowds[self.users[at].subport][class];
        crowd.line.retain(|other| *other != at);
        crowd.ring.retain(|other| *other != at);
    }

    /// In the next tick.
    fn look_soon(&mut self, subport: usize, class: usize, now: u64) {
        let id = Id::Class(subport, class);
        self.waiting.retain(|(_, other)| *other != id);
        if !self.crowds[subport][class].is_empty() {
            self.waiting.push((nanos(fine(now) + 1).div_ceil(TICK), id));
        }
    }

    /// A user is somebody else from now on.
    pub(super) fn stay_nowhere_aside(&mut self, at: usize) {
        self.users[at].came_back = [false; CLASSES];
        let subport = self.users[at].subport;
        for class in 0..CLASSES {
            self.leave(at, class);
            if self.crowds[subport][class].is_empty() {
                self.waiting.retain(|(_, id)| *id != Id::Class(subport, class));
            }
        }
    }

    /// A subport has other rates of classes. What the buckets hold stays, in bytes, as far as it fits; those who stand aside are looked at soon.
    pub(super) fn set_classes(&mut self, subport: usize, new: &[Bucket], now: u64) {
        for (class, new) in new.iter().enumerate() {
            let old = std::mem::replace(&mut self.subports[subport].classes[class], *new);
            if old != *new {
                let crowd = &mut self.crowds[subport][class];
                crowd.full_at = new.carry(&old, crowd.full_at, fine(now));
                self.look_soon(subport, class, now);
            }
        }
    }
}
