//! Room that readers may still look at, and that is given out again after a grace period.

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

#[cfg(test)]
mod tests {
    use super::*;

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
