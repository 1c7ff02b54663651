//! What waits for an answer: packets for the Ethernet address of a neighbour, a host, a router.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Items by whom they wait for, each queue in the order of arrival; bounded in all, and for each.
///
/// Nothing that the lookup of a packet led to should be kept with it: when the answer comes it is looked up anew.
#[derive(Debug)]
pub struct Pending<K, T> {
    queues: HashMap<K, VecDeque<T>>,
    each: usize,
    most: usize,
    held: usize,
}

impl<K: Copy + Eq + Hash, T> Pending<K, T> {
    /// Room for so many for each, at least one, and in all.
    pub fn new(each: usize, most: usize) -> Pending<K, T> {
        Pending { queues: HashMap::new(), each, most, held: 0 }
    }

    /// Adds one; answers the one that has to go if there is no room: the oldest that waits for the same answer (RFC 1122 section
    /// 2.3.2.2 wants the latest kept), or the new one when others have taken all the room.
    pub fn push(&mut self, awaited: K, item: T) -> Option<T> {
        let queue = self.queues.entry(awaited).or_default();
        let is_full = self.held >= self.most;
        if is_full && queue.is_empty() {
            self.queues.remove(&awaited);
            return Some(item);
        }
        let oldest = if is_full || queue.len() >= self.each { queue.pop_front() } else { None };
        queue.push_back(item);
        self.held += usize::from(oldest.is_none());
        oldest
    }

    /// Takes all that wait for an answer, in order.
    pub fn take(&mut self, awaited: K) -> VecDeque<T> {
        let queue = self.queues.remove(&awaited).unwrap_or_default();
        self.held -= queue.len();
        queue
    }

    /// How many wait.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Hands over all, those of each queue in order.
    pub fn clear(&mut self, give: &mut dyn FnMut(T)) {
        self.held = 0;
        self.queues.drain().flat_map(|(_, queue)| queue).for_each(give);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_oldest_gives_way_and_order_is_kept() {
        let mut waiting = Pending::new(3, 100);
        assert!((0..3).all(|n| waiting.push('a', n).is_none()));
        assert_eq!((waiting.push('a', 3), waiting.held()), (Some(0), 3));
        assert_eq!((waiting.take('a'), waiting.held()), ([1, 2, 3].into(), 0));
        assert!(waiting.take('a').is_empty());
    }

    #[test]
    fn when_all_room_is_taken_only_who_has_some_may_trade() {
        let mut waiting = Pending::new(3, 2);
        assert!((0..2).all(|n| waiting.push('a', n).is_none()));
        assert_eq!(waiting.push('b', 7), Some(7));
        assert_eq!((waiting.push('a', 8), waiting.held()), (Some(0), 2));
        let mut left = Vec::new();
        waiting.clear(&mut |item| left.push(item));
        assert_eq!((left, waiting.held()), (vec![1, 8], 0));
    }

    proptest! {
        /// The definition, over a plain list.
        #[test]
        fn agrees_with_a_list(steps in proptest::collection::vec((0_u8..4, 0_u8..5), 0..100), each in 1_usize..4, most in 0_usize..7) {
            let (mut waiting, mut list) = (Pending::new(each, most), Vec::<(u8, usize)>::new());
            for (n, (awaited, what)) in steps.into_iter().enumerate() {
                if what == 0 {
                    let (taken, left) = list.into_iter().partition(|(other, _)| *other == awaited);
                    list = left;
                    let taken: Vec<(u8, usize)> = taken;
                    prop_assert_eq!(Vec::from(waiting.take(awaited)), taken.into_iter().map(|(_, n)| n).collect::<Vec<_>>());
                } else {
                    let same = list.iter().filter(|(other, _)| *other == awaited).count();
                    let gone = match (list.len() >= most, same) {
                        (true, 0) => Some(n),
                        (is_full, _) => {
                            let first = list.iter().position(|(other, _)| *other == awaited);
                            let gone = first.filter(|_| is_full || same >= each).map(|at| list.remove(at).1);
                            list.push((awaited, n));
                            gone
                        }
                    };
                    prop_assert_eq!(waiting.push(awaited, n), gone);
                }
                prop_assert_eq!(waiting.held(), list.len());
            }
        }
    }
}
