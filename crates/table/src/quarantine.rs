//! Room that readers may still look at, and that is given out again after a grace period: anything, or numbers of records.

use std::collections::VecDeque;

use weir_mem::Domain;
use weir_mem::qsbr::Epoch;

/// Freed room, oldest first.
#[derive(Debug)]
pub(crate) struct Quarantine<T> {
    domain: Domain,
    waiting: VecDeque<(Epoch, T)>,
}

impl<T> Quarantine<T> {
    pub(crate) fn new(domain: &Domain) -> Self {
        Self { domain: domain.clone(), waiting: VecDeque::new() }
    }

    /// Takes room that no reader can reach any more, except those that have already.
    pub(crate) fn put(&mut self, room: T) {
        self.waiting.push_back((self.domain.advance(), room));
    }

    /// Gives back what all readers have passed.
    pub(crate) fn release(&mut self, mut free: impl FnMut(T)) {
        if self.waiting.is_empty() {
            return;
        }
        let frontier = self.domain.frontier();
        while self.waiting.front().is_some_and(|(epoch, _)| *epoch <= frontier) {
            if let Some((_, room)) = self.waiting.pop_front() {
                free(room);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// Numbers of records, from 0 on: those that nobody has.
#[derive(Debug)]
pub(crate) struct FreeList {
    count: u32,
    /// Numbers from here on were never given out.
    fresh: u32,
    /// Those that no reader looks at any more.
    free: Vec<u32>,
    freed: Quarantine<u32>,
}

impl FreeList {
    /// Of so many records.
    pub(crate) fn new(count: u32, domain: &Domain) -> FreeList {
        FreeList { count, fresh: 0, free: Vec::new(), freed: Quarantine::new(domain) }
    }

    /// Whether [`take`](Self::take) finds one. Those that readers have passed are looked at only when there are no others.
    pub(crate) fn has_any(&mut self) -> bool {
        if self.free.is_empty() && self.fresh == self.count {
            self.freed.release(|number| self.free.push(number));
        }
        !self.free.is_empty() || self.fresh < self.count
    }

    /// A record that no reader looks at.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if !self.has_any() {
            return None;
        }
        self.free.pop().or_else(|| {
            self.fresh += 1;
            Some(self.fresh - 1)
        })
    }

    /// Takes back a record to which nothing leads any more.
    pub(crate) fn give_back(&mut self, number: u32) {
        self.freed.put(number);
    }

    /// Takes back a record to which nothing ever led.
    pub(crate) fn give_back_unseen(&mut self, number: u32) {
        self.free.push(number);
    }

    /// How many are given out.
    pub(crate) fn used(&self) -> u32 {
        self.fresh - self.free.len() as u32 - self.freed.len() as u32
    }

    /// How many wait for readers to pass.
    pub(crate) fn waiting(&self) -> usize {
        self.freed.len()
    }

    /// Bytes that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<u32>() * self.free.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_given_out_again_when_readers_have_passed() {
        let domain = Domain::new();
        let mut reader = domain.reader().unwrap();
        let mut list = FreeList::new(2, &domain);
        assert_eq!([list.take(), list.take(), list.take()], [Some(0), Some(1), None]);
        list.give_back(1);
        assert_eq!((list.take(), list.used(), list.waiting()), (None, 1, 1));
        list.give_back_unseen(0);
        assert_eq!((list.take(), list.take()), (Some(0), None));
        reader.quiescent();
        assert!(list.has_any());
        assert_eq!((list.take(), list.take(), list.used(), list.waiting()), (Some(1), None, 2, 0));
    }

    #[test]
    fn room_waits_for_readers() {
        let domain = Domain::new();
        let mut reader = domain.reader().unwrap();
        let mut quarantine = Quarantine::new(&domain);
        let mut free = Vec::new();
        quarantine.put(1);
        quarantine.put(2);
        quarantine.release(|room| free.push(room));
        assert_eq!((free.len(), quarantine.len()), (0, 2));
        reader.quiescent();
        quarantine.put(3);
        quarantine.release(|room| free.push(room));
        assert_eq!((free, quarantine.len()), (vec![1, 2], 1));
    }
}
