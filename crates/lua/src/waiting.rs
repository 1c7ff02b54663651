//! Packets that a script holds, each until its time has come.
#![forbid(unsafe_code)]

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use weir_packet::Held;

/// The most packets that a stage can be allowed to hold.
pub(crate) const MOST: u32 = 65_536;

/// Packets in the order in which they are due, and, of the same time, in which they were given.
#[derive(Debug)]
pub(crate) struct Waiting {
    heap: BinaryHeap<Reverse<One>>,
    most: usize,
    given: u64,
}

/// A packet, and since when and until when it waits, in nanoseconds.
#[derive(Debug)]
pub(crate) struct One {
    due: u64,
    /// Its number among all that were given.
    number: u64,
    pub(crate) since: u64,
    pub(crate) held: Held,
}

impl Waiting {
    /// None yet, and at most so many.
    pub(crate) fn new(most: u32) -> Waiting {
        let most = most.min(MOST) as usize;
        Waiting { heap: BinaryHeap::with_capacity(most), most, given: 0 }
    }

    /// How many more it takes.
    pub(crate) fn room(&self) -> usize {
        self.most.saturating_sub(self.heap.len())
    }

    /// Takes a packet for so many nanoseconds from now on.
    ///
    /// # Errors
    /// The packet, where there is no room.
    pub(crate) fn push(&mut self, held: Held, now: u64, nanos: u64) -> Result<(), Held> {
        if self.room() == 0 {
            return Err(held);
        }
        self.given = self.given.wrapping_add(1);
        self.heap.push(Reverse(One { due: now.saturating_add(nanos), number: self.given, since: now, held }));
        Ok(())
    }

    /// The next packet that is due by now.
    pub(crate) fn pop(&mut self, now: u64) -> Option<One> {
        if self.next_at() > now {
            return None;
        }
        self.heap.pop().map(|Reverse(one)| one)
    }

    /// When the next one is due; [`u64::MAX`] for none.
    pub(crate) fn next_at(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse(one)| one.due)
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Gives up all of them, in the order in which they were given.
    pub(crate) fn clear(&mut self, give: &mut dyn FnMut(Held)) {
        let mut all: Vec<One> = self.heap.drain().map(|Reverse(one)| one).collect();
        all.sort_unstable_by_key(|one| one.number);
        all.into_iter().for_each(|one| give(one.held));
    }
}

impl One {
    fn order(&self) -> (u64, u64) {
        (self.due, self.number)
    }
}

impl Ord for One {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for One {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for One {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for One {}
