//! Several queues of a class, in the lowest and above it, as they are defined: which packet goes next, by deficit round robin.

use std::collections::VecDeque;

use weir_sched::manage::{Manage, State, Verdict};

use super::Model;
use super::parts::{CLASSES, LOWEST, ModelClass, PARTS, User, class_of, mark, queues_of};

/// A class with several queues.
#[derive(Clone, Debug, Default)]
pub(super) struct Split {
    turn: usize,
    /// Bytes that each may still send.
    credits: [u32; 8],
}

impl ModelClass {
    /// The queue of its class that a packet joins: the first, where there is none of its number.
    pub(super) fn part_of(&self, queue: usize) -> usize {
        if queue < self.weights.len() { queue } else { 0 }
    }
}

impl Split {
    /// Whether it is the turn of a queue.
    pub(super) fn is_turn_of(&self, queue: usize) -> bool {
        self.turn == queue % PARTS
    }
}

impl User {
    /// What the management of a packet that comes remembers of its queue.
    pub(super) fn coming(&mut self, weights: &[u8], queue: usize) -> &mut State {
        if weights.len() > 1 { &mut self.part_states[queue] } else { &mut self.states[queue] }
    }

    /// The queue that makes room for others: the longest of those of the lowest class with packets, or the lowest of the lowest class.
    pub(super) fn loser(&self) -> usize {
        let lowest = (0..CLASSES * PARTS).rfind(|queue| !self.queues[*queue].is_empty()).unwrap();
        match &self.split[class_of(lowest)] {
            Some(_) => queues_of(class_of(lowest)).max_by_key(|queue| self.queues[*queue].len()).unwrap(),
            None => lowest,
        }
    }

    /// Whether a verdict lets a packet come. Counts what is marked, and tells the management.
    pub(super) fn lets_in(
        &mut self,
        verdict: Verdict,
        (manage, queue): (&dyn Manage, usize),
        weights: &[u8],
        item: &mut u32,
        now: u64,
    ) -> bool {
        if verdict == Verdict::Mark && mark(item) {
            manage.marked(self.coming(weights, queue), now);
            *self.marks.entry(class_of(queue) as u8).or_default() += 1;
            return true;
        }
        verdict == Verdict::Pass
    }

    /// Whose turn it is, of the queues of a class.
    fn choose_part(&mut self, class: usize, weights: &[u8]) {
        let first = |part: usize| self.queues[PARTS * class + part].front().map(|waiting| u32::from(waiting.length));
        let split = self.split[class].as_mut().unwrap();
        let waiting: Vec<usize> = (0..PARTS).filter(|part| first(*part).is_some()).collect();
        if let [only] = waiting[..] {
            split.turn = only;
            split.credits[only] = first(only).unwrap();
        }
        while first(split.turn).is_none_or(|length| split.credits[split.turn] < length) {
            split.turn = (split.turn + 1) % PARTS;
            if waiting.contains(&split.turn) {
                split.credits[split.turn] += 1600 * u32::from(weights.get(split.turn).copied().unwrap_or(1));
            }
        }
    }

    /// All that waits is in the first queue.
    pub(super) fn several_parts(&mut self, class: usize) {
        let mut split = Split::default();
        split.credits[0] = self.queues[PARTS * class][0].length.into();
        self.split[class] = Some(split);
    }

    /// Queues come one behind the other, that of the chosen packet first, as their turns would be.
    pub(super) fn one_part(&mut self, class: usize) {
        let turn = self.split[class].take().unwrap().turn;
        let queues = (0..PARTS).map(|n| PARTS * class + (turn + n) % PARTS);
        let all = queues.flat_map(|queue| std::mem::take(&mut self.queues[queue])).collect();
        self.queues[PARTS * class] = all;
    }
}

impl Model {
    /// The queue of a class that goes next: deficit round robin among those of the lowest.
    pub(super) fn next_queue(&mut self, at: usize, class: usize) -> usize {
        let user = &mut self.users[at];
        if class < LOWEST {
            return PARTS * class + user.split[class].as_ref().map_or(0, |split| split.turn);
        }
        let lowest = PARTS * LOWEST;
        let mut waiting = (0..PARTS).filter(|turn| !user.queues[lowest + turn].is_empty());
        if let (Some(only), None) = (waiting.next(), waiting.next()) {
            user.turn = only;
            user.deficits[only] = u32::from(user.queues[lowest + only][0].length);
            return lowest + only;
        }
        let weights = self.profiles[user.profile].weights;
        loop {
            let waiting = &user.queues[lowest + user.turn];
            if let Some(first) = waiting.front() {
                if user.deficits[user.turn] >= u32::from(first.length) {
                    return lowest + user.turn;
                }
            } else {
                user.deficits[user.turn] = 0;
            }
            loop {
                user.turn = (user.turn + 1) % 8;
                if !user.queues[lowest + user.turn].is_empty() {
                    break;
                }
            }
            user.deficits[user.turn] += u32::from(weights[user.turn]) * 1600;
        }
    }

    /// A packet has come to a queue of a class with several, and is its first one perhaps; or another one is.
    pub(super) fn joined_part(&mut self, at: usize, queue: usize, first_changed: bool) {
        let class = class_of(queue);
        let weights = self.profiles[self.users[at].profile].classes[class].weights.clone();
        let user = &mut self.users[at];
        let was_empty = user.split[class].is_none();
        let is_turn = user.split[class].get_or_insert_default().is_turn_of(queue);
        if was_empty || is_turn && first_changed {
            user.choose_part(class, &weights);
        }
    }

    /// A queue of a class may have none left.
    pub(super) fn part_changed(&mut self, at: usize, queue: usize, now: u64) {
        let rules = self.profiles[self.users[at].profile].classes[class_of(queue)].clone();
        let user = &mut self.users[at];
        if !user.queues[queue].is_empty() {
            return;
        }
        user.split[class_of(queue)].as_mut().unwrap().credits[queue % PARTS] = 0;
        if let Some(manage) = rules.manage.filter(|_| rules.weights.len() > 1 && !rules.fair) {
            manage.emptied(&mut user.part_states[queue], now);
        }
    }

    /// The first packet of the queue whose turn it is has gone, for which its queue pays so many bytes.
    pub(super) fn taken_from_part(&mut self, at: usize, queue: usize, paid: u32, now: u64) {
        let class = class_of(queue);
        self.users[at].split[class].as_mut().unwrap().credits[queue % PARTS] -= paid;
        self.part_changed(at, queue, now);
        let weights = self.profiles[self.users[at].profile].classes[class].weights.clone();
        let user = &mut self.users[at];
        if user.queues[queues_of(class)].iter().all(VecDeque::is_empty) {
            user.split[class] = None;
        } else {
            user.choose_part(class, &weights);
        }
    }
}
