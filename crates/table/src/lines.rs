//! Lists of numbers below a bound, each number in one of them at most, in lines of the cache that hold some numbers each.

use crate::indexed::{Indexed, NONE};

/// Numbers that a line holds.
const MANY: usize = 12;

/// Some numbers of a list, one after the other: a line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line {
    ids: [u32; MANY],
    /// So many of these are in.
    count: u32,
    list: u32,
    /// The line behind it, [`NONE`] for the last one.
    next: u32,
    /// The line before it, [`NONE`] for the first one.
    prev: u32,
}

impl Line {
    const EMPTY: Line = Line { ids: [NONE; MANY], count: 0, list: NONE, next: NONE, prev: NONE };

    #[inline(always)]
    fn ids(&self) -> &[u32] {
        self.ids.get(..self.count as usize).unwrap_or(&self.ids)
    }

    /// Takes so many numbers out, from one on.
    fn cut(&mut self, at: usize, many: usize) {
        let behind = (at + many).min(MANY);
        self.ids.copy_within(behind.., at.min(behind));
        self.count = self.count.saturating_sub(many as u32);
    }
}

/// The first and the last line of a list; [`NONE`] while it is empty.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

/// Lists whose numbers lie beside each other.
///
/// Two lines of a list, one behind the other, hold more numbers together than one can: so there are two lines for every thirteen numbers at most, and one for
/// each list.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    lists: Indexed<Ends>,
    /// The line that a number is in; [`NONE`] while it is in none.
    places: Indexed<u32>,
    lines: Indexed<Line>,
    /// Lines in no list, by their links to the next: the one that was given back last is taken first, as it is near.
    free: u32,
}

impl Lines {
    /// Bytes per number, beside a line for each list.
    pub(crate) const BYTES: usize = size_of::<u32>() + (2 * size_of::<Line>()).div_ceil(MANY + 1);

    /// So many empty lists of numbers below `bound`.
    pub(crate) fn new(bound: usize, lists: usize) -> Lines {
        let lines = bound.min(lists + 2 * bound.div_ceil(MANY + 1)) as u32;
        let line = |n| Line { next: if n + 1 < lines { n + 1 } else { NONE }, ..Line::EMPTY };
        Lines {
            lists: Indexed::new(lists, Ends { first: NONE, last: NONE }),
            places: Indexed::new(bound, NONE),
            lines: Indexed::from_fn(lines as usize, line, Line::EMPTY),
            free: if lines > 0 { 0 } else { NONE },
        }
    }

    /// Whether a number is in any list.
    #[inline(always)]
    pub(crate) fn contains(&self, id: u32) -> bool {
        *self.places.at(id) != NONE
    }

    /// Whether a list has no entries.
    #[inline(always)]
    pub(crate) fn is_empty(&self, list: u32) -> bool {
        self.lists.at(list).first == NONE
    }

    /// Hints that a number is put in or taken out soon.
    #[inline(always)]
    pub(crate) fn prefetch(&self, id: u32) {
        self.places.prefetch(id);
    }

    /// The first numbers of a list.
    #[inline(always)]
    pub(crate) fn first(&self, list: u32) -> &[u32] {
        self.lines.at(self.lists.at(list).first).ids()
    }

    /// Adds a number that is in no list at the end of one.
    #[inline(always)]
    pub(crate) fn push(&mut self, list: u32, id: u32) {
        let last = self.lists.at(list).last;
        let line = self.lines.at_mut(last);
        // There are no lines without number but the spare one, which is not looked at.
        let at = if last == NONE { MANY } else { line.count as usize };
        let Some(place) = line.ids.get_mut(at) else { return self.push_line(list, id) };
        *place = id;
        line.count += 1;
        *self.places.at_mut(id) = last;
    }

    /// The same in a line of its own.
    #[inline(never)]
    fn push_line(&mut self, list: u32, id: u32) {
        let at = self.free;
        self.free = self.lines.at(at).next;
        let ends = self.lists.at_mut(list);
        let prev = std::mem::replace(&mut ends.last, at);
        match prev {
            NONE => ends.first = at,
            _ => self.lines.at_mut(prev).next = at,
        }
        let line = self.lines.at_mut(at);
        (line.count, line.list, line.next, line.prev) = (1, list, NONE, prev);
        if let Some(place) = line.ids.first_mut() {
            *place = id;
        }
        *self.places.at_mut(id) = at;
    }

    /// Takes up to so many numbers out at the beginning of a list, and gives them to `take`; returns how many it lacks of so many.
    #[inline(always)]
    pub(crate) fn take(&mut self, list: u32, most: usize, take: &mut impl FnMut(u32)) -> usize {
        let mut left = most;
        while left > 0 {
            let at = self.lists.at(list).first;
            if at == NONE {
                break;
            }
            let line = self.lines.at(at);
            self.lines.prefetch(line.next);
            let many = line.ids().len().min(left);
            for id in line.ids().iter().take(many) {
                *self.places.at_mut(*id) = NONE;
                take(*id);
            }
            left -= many;
            if many == line.count as usize {
                self.give_back(at);
            } else {
                let next = line.next;
                self.lines.at_mut(at).cut(0, many);
                self.merge(at, next);
            }
        }
        left
    }

    /// Takes a number out of the list that it is in, which is returned.
    pub(crate) fn remove(&mut self, id: u32) -> Option<u32> {
        let at = std::mem::replace(self.places.at_mut(id), NONE);
        if at == NONE {
            return None;
        }
        let line = self.lines.at_mut(at);
        let (list, next, prev) = (line.list, line.next, line.prev);
        if let Some(place) = line.ids().iter().position(|other| *other == id) {
            line.cut(place, 1);
        }
        if line.count == 0 {
            self.give_back(at);
        } else {
            self.merge(at, next);
            self.merge(prev, at);
        }
        Some(list)
    }

    /// Moves the numbers of a line to the one before it, where there is room for all of them.
    fn merge(&mut self, at: u32, next: u32) {
        if at == NONE || next == NONE {
            return;
        }
        let behind = *self.lines.at(next);
        let line = self.lines.at_mut(at);
        if line.count + behind.count > MANY as u32 || behind.prev != at {
            return;
        }
        let free = line.ids.iter_mut().skip(line.count as usize);
        free.zip(behind.ids()).for_each(|(place, id)| *place = *id);
        line.count += behind.count;
        behind.ids().iter().for_each(|id| *self.places.at_mut(*id) = at);
        self.give_back(next);
    }

    /// Takes a line out of its list.
    #[inline(always)]
    fn give_back(&mut self, at: u32) {
        let Line { list, next, prev, .. } = *self.lines.at(at);
        let ends = self.lists.at_mut(list);
        match prev {
            NONE => ends.first = next,
            _ => self.lines.at_mut(prev).next = next,
        }
        match next {
            NONE => ends.last = prev,
            _ => self.lines.at_mut(next).prev = prev,
        }
        let line = self.lines.at_mut(at);
        (line.count, line.next) = (0, self.free);
        self.free = at;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUND: u32 = 60;

    proptest! {
        /// There are as few lines as can be needed: were there too few, a number would be lost.
        #[test]
        fn lists_are_queues_from_which_any_number_can_go(
            lists in 1..5_u32, steps in prop::collection::vec((0..7_u32, 0..BOUND, 0..5_u32, 1..30_usize), 0..400),
        ) {
            let mut lines = Lines::new(BOUND as usize, lists as usize);
            let mut twins = vec![Vec::new(); lists as usize];
            for (what, id, list, most) in steps {
                let list = list % lists;
                let inside = twins.iter().position(|twin| twin.contains(&id));
                match what {
                    0..4 if inside.is_none() => {
                        lines.push(list, id);
                        twins[list as usize].push(id);
                    }
                    4 => {
                        let mut taken = Vec::new();
                        let left = lines.take(list, most, &mut |id| taken.push(id));
                        let twin = &mut twins[list as usize];
                        let expected: Vec<u32> = twin.drain(..most.min(twin.len())).collect();
                        prop_assert_eq!((taken, left), (expected.clone(), most - expected.len()));
                    }
                    _ => {
                        prop_assert_eq!(lines.remove(id), inside.map(|list| list as u32));
                        twins.iter_mut().for_each(|twin| twin.retain(|other| *other != id));
                    }
                }
                for (list, twin) in (0..).zip(&twins) {
                    prop_assert_eq!(lines.is_empty(list), twin.is_empty());
                    prop_assert!(twin.starts_with(lines.first(list)));
                    prop_assert!(twin.iter().all(|id| lines.contains(*id)));
                }
            }
        }
    }
}
