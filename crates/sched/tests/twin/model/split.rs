//! Several queues of a class, in the lowest and above it, as they are defined: which packet goes next, by deficit round robin.

use weir_sched::manage::{Manage, State, Verdict};

use super::Model;
use super::parts::{LOWEST, ModelClass, User, Waiting, class_of, mark};

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

impl User {
    pub(super) fn in_part(&self, queue: usize, part: usize) -> usize {
        self.queues[queue].iter().filter(|waiting| self.split[queue].is_none() || waiting.part == part).count()
    }

    /// Packets of the queue whose packet is first.
    pub(super) fn of_part(&self, queue: usize) -> usize {
        self.in_part(queue, self.queues[queue][0].part)
    }

    /// What the management of a packet that comes remembers of its queue.
    pub(super) fn coming(&mut self, weights: &[u8], queue: usize, part: usize) -> &mut State {
        if weights.len() > 1 { &mut self.part_states[queue][part] } else { &mut self.states[queue] }
    }

    /// Whether a verdict lets a packet come. Counts what is marked, and tells the management.
    pub(super) fn lets_in(
        &mut self,
        verdict: Verdict,
        (manage, queue): (&dyn Manage, usize),
        (weights, part): (&[u8], usize),
        item: &mut u32,
        now: u64,
    ) -> bool {
        if verdict == Verdict::Mark && mark(item) {
            manage.marked(self.coming(weights, queue, part), now);
            *self.marks.entry(class_of(queue) as u8).or_default() += 1;
            return true;
        }
        verdict == Verdict::Pass
    }

    /// The packet that goes next stands first.
    fn choose_part(&mut self, queue: usize, weights: &[u8]) {
        let waiting: Vec<usize> = (0..8).filter(|part| self.in_part(queue, *part) > 0).collect();
        let first = |part: usize| self.queues[queue].iter().position(|waiting| waiting.part == part).unwrap();
        let split = self.split[queue].as_mut().unwrap();
        if let [only] = waiting[..] {
            split.turn = only;
            split.credits[only] = u32::from(self.queues[queue][first(only)].length);
        }
        while !waiting.contains(&split.turn)
            || split.credits[split.turn] < u32::from(self.queues[queue][first(split.turn)].length)
        {
            split.turn = (split.turn + 1) % 8;
            if waiting.contains(&split.turn) {
                split.credits[split.turn] += 1600 * u32::from(weights.get(split.turn).copied().unwrap_or(1));
            }
        }
        let place = first(split.turn);
        let chosen = self.queues[queue].remove(place).unwrap();
        self.queues[queue].push_front(chosen);
    }

    /// All that waits is in the first queue.
    pub(super) fn several_parts(&mut self, queue: usize) {
        self.queues[queue].iter_mut().for_each(|waiting| waiting.part = 0);
        let mut split = Split::default();
        split.credits[0] = self.queues[queue][0].length.into();
        self.split[queue] = Some(split);
    }

    /// Queues come one behind the other, that of the chosen packet first, as their turns would be.
    pub(super) fn one_part(&mut self, queue: usize) {
        self.split[queue] = None;
        let first = self.queues[queue][0].part;
        self.queues[queue].make_contiguous().sort_by_key(|waiting| (waiting.part + 8 - first) % 8);
    }
}

impl Model {
    /// The queue of a class that goes next: deficit round robin among those of the lowest.
    pub(super) fn next_queue(&mut self, at: usize, class: usize) -> usize {
        let user = &mut self.users[at];
        if class < LOWEST {
            return class;
        }
        let mut waiting = (0..8).filter(|turn| !user.queues[LOWEST + turn].is_empty());
        if let (Some(only), None) = (waiting.next(), waiting.next()) {
            user.turn = only;
            user.deficits[only] = u32::from(user.queues[LOWEST + only][0].length);
            return LOWEST + only;
        }
        let weights = self.profiles[user.profile].weights;
        loop {
            let waiting = &user.queues[LOWEST + user.turn];
            if let Some(first) = waiting.front() {
                if user.deficits[user.turn] >= u32::from(first.length) {
                    return LOWEST + user.turn;
                }
            } else {
                user.deficits[user.turn] = 0;
            }
            loop {
                user.turn = (user.turn + 1) % 8;
                if !user.queues[LOWEST + user.turn].is_empty() {
                    break;
                }
            }
            user.deficits[user.turn] += u32::from(weights[user.turn]) * 1600;
        }
    }

    pub(super) fn join_part(&mut self, at: usize, queue: usize, waiting: Waiting) {
        let weights = self.profiles[self.users[at].profile].classes[class_of(queue)].weights.clone();
        let user = &mut self.users[at];
        let is_first = user.queues[queue].is_empty();
        user.queues[queue].push_back(waiting);
        if is_first {
            user.split[queue] = Some(Split::default());
            user.choose_part(queue, &weights);
        }
    }

    /// A queue of a class may have none left.
    fn part_changed(&mut self, at: usize, queue: usize, part: usize, now: u64) {
        let rules = self.profiles[self.users[at].profile].classes[class_of(queue)].clone();
        let user = &mut self.users[at];
        if user.in_part(queue, part) > 0 {
            return;
        }
        user.split[queue].as_mut().unwrap().credits[part] = 0;
        if let Some(manage) = rules.manage.filter(|_| rules.weights.len() > 1) {
            manage.emptied(&mut user.part_states[queue][part], now);
        }
    }

    /// Takes the first packet of a class with several queues, which is sent or dropped.
    pub(super) fn take_from_part(&mut self, at: usize, queue: usize, is_sent: bool, now: u64) -> Waiting {
        let weights = self.profiles[self.users[at].profile].classes[class_of(queue)].weights.clone();
        let user = &mut self.users[at];
        let taken = user.queues[queue].pop_front().unwrap();
        let credit = &mut user.split[queue].as_mut().unwrap().credits[taken.part];
        *credit -= if is_sent { u32::from(taken.length) } else { 0 };
        self.part_changed(at, queue, taken.part, now);
        let user = &mut self.users[at];
        if user.queues[queue].is_empty() {
            user.split[queue] = None;
        } else {
            user.choose_part(queue, &weights);
        }
        taken
    }

    /// Takes the last packet of the longest queue, of the last of those that are as long; none if that is the first of all.
    pub(super) fn lose_from_part(&mut self, at: usize, queue: usize, now: u64) -> Option<Waiting> {
        let user = &mut self.users[at];
        let longest = (0..8).max_by_key(|part| user.in_part(queue, *part)).unwrap();
        let place = user.queues[queue].iter().rposition(|waiting| waiting.part == longest).unwrap();
        if place == 0 {
            return None;
        }
        let lost = user.queues[queue].remove(place).unwrap();
        self.part_changed(at, queue, longest, now);
        Some(lost)
    }
}
