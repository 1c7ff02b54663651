//! What happens when: events in order of time, for a time that only goes on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_table::indexed::Indexed;

/// Bits of a user's number.
const USER: u32 = 20;

/// Nanoseconds of a day, as a power of two.
const DAY: u32 = 9;

/// Days that are kept apart, 17 ms of them; what is later waits in a heap.
const DAYS: u64 = 1 << 15;

/// Events, each a time and the number of a user, as one word: so sorting them is comparing numbers.
#[derive(Debug)]
pub(super) struct Calendar {
    days: Indexed<Vec<u64>>,
    /// The events of today, the first one last.
    today: Vec<u64>,
    day: u64,
    /// Events on all days but today.
    later: usize,
    far: BinaryHeap<Reverse<u64>>,
}

impl Calendar {
    pub(super) fn new() -> Calendar {
        let days = Indexed::new(DAYS as usize, Vec::new());
        Calendar { days, today: Vec::new(), day: 0, later: 0, far: BinaryHeap::new() }
    }

    /// An event. Times before that of the first one are taken as today.
    pub(super) fn insert(&mut self, at: u64, user: u32) {
        let event = at.min(u64::MAX >> USER) << USER | u64::from(user) & ((1 << USER) - 1);
        let day = event >> (USER + DAY);
        if day <= self.day {
            let place = self.today.partition_point(|other| *other > event);
            self.today.insert(place, event);
        } else if day < self.day + DAYS {
            self.days.at_mut((day % DAYS) as u32).push(event);
            self.later += 1;
        } else {
            self.far.push(Reverse(event));
        }
    }

    /// The first event.
    pub(super) fn first(&mut self) -> Option<(u64, u32)> {
        loop {
            if let Some(event) = self.today.last() {
                return Some((event >> USER, (event & ((1 << USER) - 1)) as u32));
            }
            self.next_day()?;
        }
    }

    /// The first event is over, and its user has another one.
    pub(super) fn replace_first(&mut self, at: u64, user: u32) {
        self.today.pop();
        self.insert(at, user);
    }

    fn next_day(&mut self) -> Option<()> {
        let far = |event: &Reverse<u64>| event.0 >> (USER + DAY);
        self.day = match (self.later, self.far.peek().map(far)) {
            (0, None) => return None,
            (0, Some(day)) => day,
            _ => self.day + 1,
        };
        let day = self.days.at_mut((self.day % DAYS) as u32);
        self.later -= day.len();
        self.today.append(day);
        while let Some(event) = self.far.peek().filter(|event| far(event) <= self.day) {
            self.today.push(event.0);
            self.far.pop();
        }
        self.today.sort_unstable_by(|a, b| b.cmp(a));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Random;
    use super::*;

    /// Against a heap, which knows nothing of days.
    #[test]
    fn events_come_in_order_of_time() {
        let (mut calendar, mut heap, mut random) = (Calendar::new(), BinaryHeap::new(), Random(1));
        for user in 0..100 {
            let at = random.below(1_000_000);
            calendar.insert(at, user);
            heap.push(Reverse((at, user)));
        }
        for _ in 0..100_000 {
            let first = calendar.first().unwrap();
            assert_eq!(Some(Reverse(first)), heap.pop());
            let farthest = [1, 1_000, 100_000, 100_000_000][random.below(4) as usize];
            let next = first.0 + random.below(farthest);
            calendar.replace_first(next, first.1);
            heap.push(Reverse((next, first.1)));
        }
    }

    #[test]
    fn nothing_is_no_event() {
        assert_eq!(Calendar::new().first(), None);
    }
}
