//! What classes of a user are guaranteed, as docs/functions/qos.md has it.

use std::collections::VecDeque;

use weir_sched::rate::fine;

use super::Model;
use super::parts::{CLASSES, queues_of};

impl Model {
    /// Whether what a class is guaranteed covers so many bytes.
    fn covers(&self, at: usize, class: usize, length: u16, now: u64) -> bool {
        let user = &self.users[at];
        let guarantee = self.profiles[user.profile].classes[class].guarantee;
        guarantee.is_some_and(|bucket| bucket.eligible_at(user.floor_full_at[class], length) <= fine(now))
    }

    /// The classes that have packets: those whose guarantees cover their next ones, then the others; of both, the higher ones first.
    pub(super) fn classes_in_turn(&mut self, at: usize, now: u64) -> Vec<usize> {
        let has_packets = |class: &usize| !self.users[at].queues[queues_of(*class)].iter().all(VecDeque::is_empty);
        let mut classes: Vec<usize> = (0..CLASSES).filter(has_packets).collect();
        classes.sort_by_cached_key(|class| {
            if self.profiles[self.users[at].profile].classes[*class].guarantee.is_none() {
                return true;
            }
            let queue = self.next_queue(at, *class);
            !self.covers(at, *class, self.users[at].queues[queue][0].length, now)
        });
        classes
    }

    /// A packet goes: on account of what its class is guaranteed, if that covers it.
    pub(super) fn pay_floor(&mut self, at: usize, class: usize, length: u16, now: u64) {
        if self.covers(at, class, length, now) {
            let user = &mut self.users[at];
            let guarantee = self.profiles[user.profile].classes[class].guarantee.unwrap();
            user.floor_full_at[class] = guarantee.after(user.floor_full_at[class], length, fine(now));
        }
    }
}
