//! Doubly linked lists over the numbers below a bound, without memory of their own per entry: each number has one link.

use crate::indexed::{Indexed, NONE};

/// Both ends of a list; [`NONE`] where it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    head: u32,
    tail: u32,
}

impl List {
    /// A list without entries.
    pub const EMPTY: List = List { head: NONE, tail: NONE };

    /// The first entry, [`NONE`] where there is none.
    #[inline(always)]
    pub fn first(&self) -> u32 {
        self.head
    }

    /// The last entry, [`NONE`] where there is none.
    #[inline(always)]
    pub fn last(&self) -> u32 {
        self.tail
    }

    /// Whether it has no entries.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

/// What stands beside a number in its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    next: u32,
    prev: u32,
}

impl Link {
    /// Of a number that is in no list.
    pub const LOOSE: Link = Link { next: NONE, prev: NONE };

    /// The entry behind, [`NONE`] for the last.
    #[inline(always)]
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Puts another entry behind, [`NONE`] for none: for lists that are only gone through from their beginning.
    #[inline(always)]
    pub fn set_next(&mut self, next: u32) {
        self.next = next;
    }
}

/// Where the links of numbers are: on their own ([`Links`]), or beside what else there is of each number.
pub trait Linked {
    /// The link of a number; of [`NONE`], one that is never looked at.
    fn link(&mut self, id: u32) -> &mut Link;

    /// Adds `id`, which is in no list, at the end.
    #[inline(always)]
    fn push_back(&mut self, list: &mut List, id: u32) {
        *self.link(id) = Link { next: NONE, prev: list.tail };
        self.link(list.tail).next = id;
        list.tail = id;
        if list.head == NONE {
            list.head = id;
        }
    }

    /// Takes `id` out of the list that it is in.
    #[inline(always)]
    fn remove(&mut self, list: &mut List, id: u32) {
        let Link { next, prev } = *self.link(id);
        self.link(prev).next = next;
        self.link(next).prev = prev;
        if list.head == id {
            list.head = next;
        }
        if list.tail == id {
            list.tail = prev;
        }
    }

    /// Takes the first entry out.
    #[inline(always)]
    fn pop_front(&mut self, list: &mut List) -> Option<u32> {
        let id = list.head;
        if id == NONE {
            return None;
        }
        list.head = self.link(id).next;
        self.link(list.head).prev = NONE;
        if list.head == NONE {
            list.tail = NONE;
        }
        Some(id)
    }
}

/// The links of the numbers below a bound. Any number of lists share them; a number is in at most one, and the caller knows
/// in which.
#[derive(Clone, Debug)]
pub struct Links(Indexed<Link>);

impl Links {
    /// Bytes per number.
    pub const BYTES: usize = size_of::<Link>();

    /// Links for the numbers below `bound`.
    pub fn new(bound: usize) -> Links {
        Links(Indexed::new(bound, Link::LOOSE))
    }

    /// The entry behind `id`, [`NONE`] for the last.
    #[inline(always)]
    pub fn next(&self, id: u32) -> u32 {
        self.0.at(id).next
    }
}

impl Linked for Links {
    #[inline(always)]
    fn link(&mut self, id: u32) -> &mut Link {
        self.0.at_mut(id)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn entries(links: &Links, list: &List) -> Vec<u32> {
        let mut all = Vec::new();
        let mut at = list.first();
        while at != NONE {
            all.push(at);
            at = links.next(at);
        }
        all
    }

    proptest! {
        #[test]
        fn lists_are_queues_from_which_any_entry_can_go(steps in prop::collection::vec((0..3_usize, 0..8_u32), 0..200)) {
            let mut links = Links::new(8);
            let mut lists = [List::EMPTY; 2];
            let mut twins = [VecDeque::new(), VecDeque::new()];
            for (what, id) in steps {
                let inside = twins.iter().position(|twin| twin.contains(&id));
                match (inside, what) {
                    (None, 0 | 1) => {
                        links.push_back(&mut lists[what], id);
                        twins[what].push_back(id);
                    }
                    (Some(n), 2) => {
                        links.remove(&mut lists[n], id);
                        twins[n].retain(|&other| other != id);
                    }
                    (_, n) => prop_assert_eq!(links.pop_front(&mut lists[n % 2]), twins[n % 2].pop_front()),
                }
                for (list, twin) in lists.iter().zip(&twins) {
                    prop_assert_eq!(entries(&links, list), Vec::from(twin.clone()));
                    prop_assert_eq!(list.last(), twin.back().copied().unwrap_or(NONE));
                }
            }
        }
    }
}
