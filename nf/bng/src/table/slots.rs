//! Places for records, used again when no reader can look at what was there before.

use std::collections::VecDeque;

use weir_mem::Domain;
use weir_mem::qsbr::Epoch;

/// A fixed number of places.
#[derive(Debug)]
pub(super) struct Slots {
    domain: Domain,
    capacity: u32,
    /// Places from here on were never used.
    fresh: u32,
    free: Vec<u32>,
    /// Given back, oldest first; readers may still look there.
    retired: VecDeque<(Epoch, u32)>,
}

impl Slots {
    pub(super) fn new(capacity: u32, domain: &Domain) -> Slots {
        Slots { domain: domain.clone(), capacity, fresh: 0, free: Vec::new(), retired: VecDeque::new() }
    }

    /// A place that no reader looks at; `None` when all are in use, or readers have not passed those given back last.
    pub(super) fn take(&mut self) -> Option<u32> {
        if let Some(place) = self.free.pop() {
            return Some(place);
        }
        if self.fresh < self.capacity {
            self.fresh += 1;
            return Some(self.fresh - 1);
        }
        self.settle();
        self.free.pop()
    }

    /// Takes a place back that nothing leads to any more.
    pub(super) fn give_back(&mut self, place: u32) {
        self.retired.push_back((self.domain.advance(), place));
    }

    /// Takes back a place that nothing ever led to.
    pub(super) fn give_back_unused(&mut self, place: u32) {
        self.free.push(place);
    }

    /// Frees what all readers have passed.
    fn settle(&mut self) {
        let frontier = self.domain.frontier();
        let passed = self.retired.iter().take_while(|(epoch, _)| *epoch <= frontier).count();
        self.free.extend(self.retired.drain(..passed).map(|(_, place)| place));
    }

    /// Places that readers may still look at.
    pub(super) fn waiting(&self) -> usize {
        self.retired.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_used_again_when_readers_have_passed() {
        let domain = Domain::new();
        let mut reader = domain.reader().unwrap();
        let mut slots = Slots::new(2, &domain);
        assert_eq!([slots.take(), slots.take(), slots.take()], [Some(0), Some(1), None]);
        slots.give_back(1);
        assert_eq!((slots.take(), slots.waiting()), (None, 1));
        reader.quiescent();
        assert_eq!((slots.take(), slots.waiting()), (Some(1), 0));
        slots.give_back_unused(0);
        assert_eq!(slots.take(), Some(0));
    }
}
