//! Packets that wait for a neighbour's Ethernet address.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

use weir_net::PortId;
use weir_packet::Held;

/// A neighbour: a port and an address on its link.
pub(crate) type Station = (PortId, Ipv4Addr);

/// Packets by the neighbour that they wait for, each queue in the order of arrival.
///
/// Nothing that a packet's route led to is kept with it: when its neighbour answers, its route is looked up anew.
#[derive(Debug)]
pub(crate) struct Waiting {
    queues: HashMap<Station, VecDeque<Held>>,
    per_neighbor: usize,
    most: usize,
    held: usize,
}

impl Waiting {
    /// Room for so many packets per neighbour and in all.
    pub(crate) fn new(per_neighbor: usize, most: usize) -> Waiting {
        Waiting { queues: HashMap::new(), per_neighbor, most, held: 0 }
    }

    /// Adds a packet; answers the one that has to go if there is no room: the oldest that waits for the same neighbour (RFC
    /// 1122 section 2.3.2.2 wants the latest kept), or the new one when others have taken all the room.
    pub(crate) fn push(&mut self, station: Station, packet: Held) -> Option<Held> {
        let queue = self.queues.entry(station).or_default();
        let is_full = self.held >= self.most;
        if is_full && queue.is_empty() {
            self.queues.remove(&station);
            return Some(packet);
        }
        let oldest = if is_full || queue.len() >= self.per_neighbor { queue.pop_front() } else { None };
        queue.push_back(packet);
        self.held += usize::from(oldest.is_none());
        oldest
    }

    /// Takes all packets that wait for a neighbour, in order.
    pub(crate) fn take(&mut self, station: Station) -> VecDeque<Held> {
        let queue = self.queues.remove(&station).unwrap_or_default();
        self.held -= queue.len();
        queue
    }

    /// Packets that wait.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Hands over all packets, those of each neighbour in order.
    pub(crate) fn clear(&mut self, give: &mut dyn FnMut(Held)) {
        self.held = 0;
        self.queues.drain().flat_map(|(_, queue)| queue).for_each(give);
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::{HeapPool, Pool};

    use super::*;

    const A: Station = (0, Ipv4Addr::new(10, 0, 0, 1));
    const B: Station = (1, Ipv4Addr::new(10, 0, 0, 1));

    fn packet(pool: &mut HeapPool, tag: u8) -> Held {
        let mut packet = pool.alloc().unwrap();
        packet.fill(&[tag]);
        Held::fresh(packet, 0, 0)
    }

    fn tag(pool: &mut HeapPool, held: Held) -> u8 {
        let packet = held.into_packet();
        let tag = packet.bytes()[0];
        pool.free(packet);
        tag
    }

    #[test]
    fn the_oldest_gives_way_and_order_is_kept() {
        let mut pool = HeapPool::new(32, 256);
        let mut waiting = Waiting::new(3, 100);
        for n in 0..3 {
            let held = packet(&mut pool, n);
            assert!(waiting.push(A, held).is_none());
        }
        let held = packet(&mut pool, 3);
        let oldest = waiting.push(A, held).unwrap();
        assert_eq!((tag(&mut pool, oldest), waiting.held()), (0, 3));
        let tags: Vec<u8> = waiting.take(A).into_iter().map(|held| tag(&mut pool, held)).collect();
        assert_eq!((tags, waiting.held()), (vec![1, 2, 3], 0));
        assert!(waiting.take(A).is_empty());
    }

    #[test]
    fn when_all_room_is_taken_only_who_has_some_may_trade() {
        let mut pool = HeapPool::new(32, 256);
        let mut waiting = Waiting::new(3, 2);
        for n in 0..2 {
            let held = packet(&mut pool, n);
            assert!(waiting.push(A, held).is_none());
        }
        let held = packet(&mut pool, 7);
        let refused = waiting.push(B, held).unwrap();
        assert_eq!(tag(&mut pool, refused), 7);
        let held = packet(&mut pool, 8);
        let oldest = waiting.push(A, held).unwrap();
        assert_eq!((tag(&mut pool, oldest), waiting.held()), (0, 2));
        let mut tags = Vec::new();
        waiting.clear(&mut |held| tags.push(tag(&mut pool, held)));
        assert_eq!((tags, waiting.held()), (vec![1, 8], 0));
    }
}
