//! Lists of numbers below a bound, each number in one of them at most: unrolled linked lists, whose chunks are a line of the cache each and hold some numbers.

use std::hint::cold_path;

use crate::indexed::{Indexed, NONE};

/// Numbers that a chunk holds.
const MANY: usize = 12;

/// Some numbers of a list, one after the other: a line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Chunk {
    ids: [u32; MANY],
    /// So many of these are in.
    count: u32,
    list: u32,
    /// The chunk behind it, [`NONE`] for the last one.
    next: u32,
    /// The chunk before it, [`NONE`] for the first one.
    prev: u32,
}

impl Chunk {
    const EMPTY: Chunk = Chunk { ids: [NONE; MANY], count: 0, list: NONE, next: NONE, prev: NONE };

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

/// The first and the last chunk of a list; [`NONE`] while it is empty.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

/// Lists whose numbers lie beside each other.
///
/// Two chunks of a list, one behind the other, hold more numbers together than one can: so there are two chunks for every thirteen numbers at most, and one for
/// each list.
#[derive(Clone, Debug)]
pub(crate) struct Unrolled {
    lists: Indexed<Ends>,
    /// The chunk that a number is in; [`NONE`] while it is in none.
    places: Indexed<u32>,
    chunks: Indexed<Chunk>,
    /// Unrolled in no list, by their links to the next: the one that was given back last is taken first, as it is near.
    free: u32,
}

impl Unrolled {
    /// Bytes per number, beside a chunk for each list.
    pub(crate) const BYTES: usize = size_of::<u32>() + (2 * size_of::<Chunk>()).div_ceil(MANY + 1);

    /// So many empty lists of numbers below `bound`.
    pub(crate) fn new(bound: usize, lists: usize) -> Unrolled {
        let chunks = bound.min(lists + 2 * bound.div_ceil(MANY + 1)) as u32;
        let chunk = |n| Chunk { next: if n + 1 < chunks { n + 1 } else { NONE }, ..Chunk::EMPTY };
        Unrolled {
            lists: Indexed::new(lists, Ends { first: NONE, last: NONE }),
            places: Indexed::new(bound, NONE),
            chunks: Indexed::from_fn(chunks as usize, chunk, Chunk::EMPTY),
            free: if chunks > 0 { 0 } else { NONE },
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
        self.chunks.at(self.lists.at(list).first).ids()
    }

    /// Adds a number that is in no list at the end of one.
    #[inline(always)]
    pub(crate) fn push(&mut self, list: u32, id: u32) {
        let last = self.lists.at(list).last;
        let chunk = self.chunks.at_mut(last);
        // There are no chunks without number but the spare one, which is not looked at.
        let at = if last == NONE { MANY } else { chunk.count as usize };
        let Some(place) = chunk.ids.get_mut(at) else {
            cold_path();
            return self.push_chunk(list, id);
        };
        *place = id;
        chunk.count += 1;
        *self.places.at_mut(id) = last;
    }

    /// The same in a chunk of its own.
    #[inline(never)]
    fn push_chunk(&mut self, list: u32, id: u32) {
        let at = self.free;
        self.free = self.chunks.at(at).next;
        let ends = self.lists.at_mut(list);
        let prev = std::mem::replace(&mut ends.last, at);
        match prev {
            NONE => ends.first = at,
            _ => self.chunks.at_mut(prev).next = at,
        }
        let chunk = self.chunks.at_mut(at);
        (chunk.count, chunk.list, chunk.next, chunk.prev) = (1, list, NONE, prev);
        if let Some(place) = chunk.ids.first_mut() {
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
            let chunk = self.chunks.at(at);
            self.chunks.prefetch(chunk.next);
            let many = chunk.ids().len().min(left);
            for id in chunk.ids().iter().take(many) {
                *self.places.at_mut(*id) = NONE;
                take(*id);
            }
            left -= many;
            if many == chunk.count as usize {
                self.give_back(at);
            } else {
                let next = chunk.next;
                self.chunks.at_mut(at).cut(0, many);
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
        let chunk = self.chunks.at_mut(at);
        let (list, next, prev) = (chunk.list, chunk.next, chunk.prev);
        if let Some(place) = chunk.ids().iter().position(|other| *other == id) {
            chunk.cut(place, 1);
        }
        if chunk.count == 0 {
            self.give_back(at);
        } else {
            self.merge(at, next);
            self.merge(prev, at);
        }
        Some(list)
    }

    /// Moves the numbers of a chunk to the one before it, where there is room for all of them.
    fn merge(&mut self, at: u32, next: u32) {
        if at == NONE || next == NONE {
            return;
        }
        let behind = *self.chunks.at(next);
        let chunk = self.chunks.at_mut(at);
        if chunk.count + behind.count > MANY as u32 || behind.prev != at {
            return;
        }
        let free = chunk.ids.iter_mut().skip(chunk.count as usize);
        free.zip(behind.ids()).for_each(|(place, id)| *place = *id);
        chunk.count += behind.count;
        behind.ids().iter().for_each(|id| *self.places.at_mut(*id) = at);
        self.give_back(next);
    }

    /// Takes a chunk out of its list.
    #[inline(always)]
    fn give_back(&mut self, at: u32) {
        let Chunk { list, next, prev, .. } = *self.chunks.at(at);
        let ends = self.lists.at_mut(list);
        match prev {
            NONE => ends.first = next,
            _ => self.chunks.at_mut(prev).next = next,
        }
        match next {
            NONE => ends.last = prev,
            _ => self.chunks.at_mut(next).prev = prev,
        }
        let chunk = self.chunks.at_mut(at);
        (chunk.count, chunk.next) = (0, self.free);
        self.free = at;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUND: u32 = 60;

    proptest! {
        /// There are as few chunks as can be needed: were there too few, a number would be lost.
        #[test]
        fn lists_are_queues_from_which_any_number_can_go(
            lists in 1..5_u32, steps in prop::collection::vec((0..7_u32, 0..BOUND, 0..5_u32, 1..30_usize), 0..400),
        ) {
            let mut chunks = Unrolled::new(BOUND as usize, lists as usize);
            let mut twins = vec![Vec::new(); lists as usize];
            for (what, id, list, most) in steps {
                let list = list % lists;
                let inside = twins.iter().position(|twin| twin.contains(&id));
                match what {
                    0..4 if inside.is_none() => {
                        chunks.push(list, id);
                        twins[list as usize].push(id);
                    }
                    4 => {
                        let mut taken = Vec::new();
                        let left = chunks.take(list, most, &mut |id| taken.push(id));
                        let twin = &mut twins[list as usize];
                        let expected: Vec<u32> = twin.drain(..most.min(twin.len())).collect();
                        prop_assert_eq!((taken, left), (expected.clone(), most - expected.len()));
                    }
                    _ => {
                        prop_assert_eq!(chunks.remove(id), inside.map(|list| list as u32));
                        twins.iter_mut().for_each(|twin| twin.retain(|other| *other != id));
                    }
                }
                for (list, twin) in (0..).zip(&twins) {
                    prop_assert_eq!(chunks.is_empty(list), twin.is_empty());
                    prop_assert!(twin.starts_with(chunks.first(list)));
                    prop_assert!(twin.iter().all(|id| chunks.contains(*id)));
                }
            }
        }
    }
}
