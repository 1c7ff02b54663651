//! Queues with two lines as they are defined, in the words of RFC 9332: which packet goes next, and what becomes of it.

use weir_sched::l4s::{Going, Line};
use weir_sched::manage::Verdict;

use super::Model;
use super::parts::{Id, User, Waiting, class_of, mark};

/// A queue with two lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Dual {
    /// Of the classic line.
    credit: i64,
}

impl User {
    fn of_line(&self, queue: usize, low: bool) -> usize {
        self.queues[queue].iter().filter(|waiting| waiting.low == low).count()
    }

    /// The line whose packet goes next: the low-latency one, unless there is nothing in it, or something in the other, which has credit.
    fn next_is_low(&self, queue: usize) -> bool {
        let credit = self.dual[queue].as_ref().unwrap().credit;
        self.of_line(queue, true) > 0 && (self.of_line(queue, false) == 0 || credit <= 0)
    }

    fn choose_line(&mut self, queue: usize) {
        let low = self.next_is_low(queue);
        let all = &mut self.queues[queue];
        let place = all.iter().position(|waiting| waiting.low == low).unwrap();
        let chosen = all.remove(place).unwrap();
        all.push_front(chosen);
    }

    /// Takes the last packet of the longer line, of the classic one where both are as long; none if that is the first.
    pub(super) fn lose_from_line(&mut self, queue: usize) -> Option<Waiting> {
        let low = self.of_line(queue, true) > self.of_line(queue, false);
        let place = self.queues[queue].iter().rposition(|waiting| waiting.low == low).unwrap();
        if place == 0 { None } else { self.queues[queue].remove(place) }
    }

    /// All that waits is in the classic line.
    pub(super) fn two_lines(&mut self, queue: usize) {
        self.queues[queue].iter_mut().for_each(|waiting| waiting.low = false);
        self.dual[queue] = Some(Dual::default());
    }

    /// The line of the chosen packet comes before the other.
    pub(super) fn one_line(&mut self, queue: usize) {
        self.dual[queue] = None;
        let low = self.queues[queue][0].low;
        self.queues[queue].make_contiguous().sort_by_key(|waiting| waiting.low != low);
    }
}

impl Model {
    /// A packet comes to a queue with two lines, or one that has them with it. Whether it takes the place of the one that was chosen.
    pub(super) fn join_line(&mut self, at: usize, queue: usize, waiting: Waiting) -> bool {
        let waits = self.users[at].held() > 0 && !self.line.iter().any(|(id, ..)| *id == Id::User(at));
        let user = &mut self.users[at];
        user.dual[queue].get_or_insert_default();
        let low = waiting.low;
        user.queues[queue].push_back(waiting);
        let turns = waits && low && !user.queues[queue][0].low && user.next_is_low(queue);
        if turns {
            user.choose_line(queue);
        }
        turns
    }

    /// Whether the first packet of a queue goes, where that has two lines: marked, perhaps.
    pub(super) fn line_goes(&mut self, at: usize, queue: usize, now: u64) -> bool {
        let user = &mut self.users[at];
        let class = class_of(queue);
        let rules = self.profiles[user.profile].classes[class].dual;
        let (Some(_), Some(coupling)) = (&user.dual[queue], rules) else { return true };
        let Waiting { since, low, .. } = user.queues[queue][0];
        let first = |low: bool| user.queues[queue].iter().find(|waiting| waiting.low == low);
        let oldest = [false, true].into_iter().filter_map(first).map(|waiting| waiting.since).min().unwrap();
        let behind = user.of_line(queue, low) as u32 - 1;
        let line = if low { Line::Low } else { Line::Classic };
        let going = Going { now, sojourn: now - since, oldest, behind, line };
        match coupling.go(user.state(queue), &going) {
            Verdict::Pass => true,
            Verdict::Drop => false,
            Verdict::Mark => {
                let is_marked = mark(&mut user.queues[queue][0].item);
                *user.marks.entry(class as u8).or_default() += u64::from(is_marked);
                user.marks.retain(|_, count| *count > 0);
                is_marked
            }
        }
    }

    /// Takes the first packet of a queue with two lines, which is sent or dropped.
    pub(super) fn take_from_line(&mut self, at: usize, queue: usize, is_sent: bool) -> Waiting {
        let user = &mut self.users[at];
        let share = self.profiles[user.profile].classes[class_of(queue)].dual.map_or(10, |dual| dual.classic());
        let taken = user.queues[queue].pop_front().unwrap();
        let (bytes, share) = (i64::from(taken.length), i64::from(share));
        if is_sent && user.of_line(queue, !taken.low) > 0 {
            let credit = &mut user.dual[queue].as_mut().unwrap().credit;
            *credit += if taken.low { bytes * share } else { -bytes * (100 - share) };
        }
        if user.queues[queue].is_empty() {
            user.dual[queue] = None;
        } else {
            user.choose_line(queue);
        }
        taken
    }
}
