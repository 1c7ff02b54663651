//! Users whom the rate of a class of their subport holds back, as docs/functions/qos.md has it.

use weir_sched::rate::{Bucket, Fine, fine, nanos};

use super::parts::{CLASSES, Id, queues_of};
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
        let crowds = || self.crowds.iter().map(|crowds| &crowds[class]);
        (crowds().any(|crowd| crowd.line.contains(&at)), crowds().any(|crowd| crowd.ring.contains(&at)))
    }

    /// Whether the rates of a class of a subport, and of those above, let a packet go straight through: nobody stands aside for them.
    pub(super) fn class_lets_pass(&self, subport: usize, class: usize, length: u16, now: u64) -> bool {
        self.path(subport).into_iter().all(|level| {
            let (bucket, crowd) = (self.subports[level].classes[class], &self.crowds[level][class]);
            bucket.is_unlimited() || crowd.is_empty() && bucket.eligible_at(crowd.full_at, length) <= fine(now)
        })
    }

    /// The same of a user whose turn it is, of what it is guaranteed or of what others leave. Where one does not, the user steps aside there.
    pub(super) fn class_lets_go(&mut self, at: usize, class: usize, length: u16, shares: bool, now: u64) -> bool {
        let path = self.path(self.users[at].subport);
        // It has its turn before those who stand aside, for the levels up to that from which it has come back.
        let came_back = self.users[at].stood[class].filter(|_| self.users[at].came_back[class]);
        let passed: Vec<usize> = match path.iter().position(|level| Some(*level) == came_back) {
            Some(place) => path[..=place].to_vec(),
            None => Vec::new(),
        };
        let stops = path.into_iter().find_map(|level| {
            let (bucket, crowd) = (self.subports[level].classes[class], &self.crowds[level][class]);
            let due = bucket.eligible_at(crowd.full_at, length);
            let others_first = !crowd.line.is_empty() || shares && !crowd.ring.is_empty();
            let has_turn = passed.contains(&level) || !others_first;
            (!bucket.is_unlimited() && (due > fine(now) || !has_turn)).then_some((level, due))
        });
        let Some((level, due)) = stops else { return true };
        if self.crowds[level][class].is_empty() {
            self.waiting.push((nanos(due).div_ceil(TICK), Id::Class(level, class)));
        }
        self.users[at].came_back[class] = false;
        // Whoever stood somewhere for what others leave stands here for what it is guaranteed.
        self.leave(at, class);
        self.users[at].stood[class] = Some(level);
        let crowd = &mut self.crowds[level][class];
        if shares {
            crowd.ring.push(at);
        } else {
            crowd.line.push(at);
        }
        self.settle(at, now);
        false
    }

    pub(super) fn pay_class(&mut self, at: usize, class: usize, length: u16, now: u64) {
        for level in self.path(self.users[at].subport) {
            let (bucket, crowd) = (self.subports[level].classes[class], &mut self.crowds[level][class]);
            crowd.full_at = bucket.after(crowd.full_at, length, fine(now));
        }
        self.users[at].came_back[class] = false;
    }

    /// The first come back for whose packets there are tokens, as if each sent at once: sixteen at most, and those who stood in line first.
    pub(super) fn come_back(&mut self, subport: usize, class: usize, now: u64) {
        let (id, bucket) = (Id::Class(subport, class), self.subports[subport].classes[class]);
        let mut full_at = self.crowds[subport][class].full_at;
        for _ in 0..16 {
            let crowd = &self.crowds[subport][class];
            let Some(at) = crowd.line.first().or(crowd.ring.first()).copied() else { return };
            let waits = self.users[at].queues[queues_of(class)].iter().any(|queue| !queue.is_empty());
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
        for crowds in &mut self.crowds {
            crowds[class].line.retain(|other| *other != at);
            crowds[class].ring.retain(|other| *other != at);
        }
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
        for class in 0..CLASSES {
            self.leave(at, class);
            for (subport, crowds) in self.crowds.iter().enumerate() {
                if crowds[class].is_empty() {
                    self.waiting.retain(|(_, id)| *id != Id::Class(subport, class));
                }
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
