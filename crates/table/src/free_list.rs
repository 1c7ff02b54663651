//! Numbers of records of which some are given out, and none again before its grace period has passed.

use weir_mem::Domain;

use crate::quarantine::Quarantine;

/// Numbers of records, from 0 on: those that nobody has. One control thread has it.
#[derive(Debug)]
pub struct FreeList {
    count: u32,
    /// Numbers from here on were never given out.
    fresh: u32,
    /// Those that no reader looks at any more.
    free: Vec<u32>,
    freed: Quarantine<u32>,
}

impl FreeList {
    /// Of so many records.
    pub fn new(count: u32, domain: &Domain) -> FreeList {
        FreeList { count, fresh: 0, free: Vec::new(), freed: Quarantine::new(domain) }
    }

    /// Whether [`take`](Self::take) finds one. Those that readers have passed are looked at only when there are no others.
    pub fn has_any(&mut self) -> bool {
        if self.free.is_empty() && self.fresh == self.count {
            self.freed.release(|number| self.free.push(number));
        }
        !self.free.is_empty() || self.fresh < self.count
    }

    /// A record that no reader looks at; `None` when all are given out, or readers have not passed those given back last.
    pub fn take(&mut self) -> Option<u32> {
        if !self.has_any() {
            return None;
        }
        self.free.pop().or_else(|| {
            self.fresh += 1;
            Some(self.fresh - 1)
        })
    }

    /// Takes back a record to which nothing leads any more.
    pub fn give_back(&mut self, number: u32) {
        self.freed.put(number);
    }

    /// Takes back a record to which nothing ever led.
    pub fn give_back_unseen(&mut self, number: u32) {
        self.free.push(number);
    }

    /// How many are given out.
    pub fn used(&self) -> u32 {
        self.fresh - self.free.len() as u32 - self.freed.len() as u32
    }

    /// How many wait for readers to pass.
    pub fn waiting(&self) -> usize {
        self.freed.len()
    }

    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
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
}
