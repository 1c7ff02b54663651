//! Packets that wait for an Ethernet address.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

use weir_net::PortId;
use weir_packet::Held;

use crate::table::BindingKey;

/// Packets that wait for one host or router at most: RFC 1122 section 2.3.2.2 wants one; a few keep the start of a connection
/// whole.
const EACH: usize = 8;

/// Whom a packet waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Awaited {
    /// A subscriber's host.
    Host(BindingKey),
    /// A router of the core, by port and address.
    Router(PortId, Ipv4Addr),
}

/// Packets by whom they wait for, each queue in the order of arrival.
///
/// Nothing that a packet's lookup led to is kept with it: when the answer comes it is looked up anew.
#[derive(Debug)]
pub(crate) struct Waiting {
    queues: HashMap<Awaited, VecDeque<Held>>,
    most: usize,
    held: usize,
}

impl Waiting {
    /// Room for so many packets in all.
    pub(crate) fn new(most: usize) -> Waiting {
        Waiting { queues: HashMap::new(), most, held: 0 }
    }

    /// Adds a packet; answers the one that has to go if there is no room: the oldest that waits for the same one (RFC 1122
    /// section 2.3.2.2 wants the latest kept), or the new one when others have taken all the room.
    pub(crate) fn push(&mut self, awaited: Awaited, packet: Held) -> Option<Held> {
        let queue = self.queues.entry(awaited).or_default();
        let is_full = self.held >= self.most;
        if is_full && queue.is_empty() {
            self.queues.remove(&awaited);
            return Some(packet);
        }
        let oldest = if is_full || queue.len() >= EACH { queue.pop_front() } else { None };
        queue.push_back(packet);
        self.held += usize::from(oldest.is_none());
        oldest
    }

    /// Takes all packets that wait for one, in order.
    pub(crate) fn take(&mut self, awaited: Awaited) -> VecDeque<Held> {
        let queue = self.queues.remove(&awaited).unwrap_or_default();
        self.held -= queue.len();
        queue
    }

    /// Packets that wait.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Hands over all packets, those of each queue in order.
    pub(crate) fn clear(&mut self, give: &mut dyn FnMut(Held)) {
        self.held = 0;
        self.queues.drain().flat_map(|(_, queue)| queue).for_each(give);
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::{HeapPool, Pool};

    use super::*;

    const A: Awaited = Awaited::Router(0, Ipv4Addr::new(10, 0, 0, 1));
    const B: Awaited = Awaited::Router(1, Ipv4Addr::new(10, 0, 0, 1));

    fn push(pool: &mut HeapPool, waiting: &mut Waiting, awaited: Awaited, tag: u8) -> Option<u8> {
        let mut packet = pool.alloc().unwrap();
        packet.fill(&[tag]);
        waiting.push(awaited, Held::fresh(packet, 0, 0)).map(|held| freed(pool, held))
    }

    fn freed(pool: &mut HeapPool, held: Held) -> u8 {
        let packet = held.into_packet();
        let tag = packet.bytes()[0];
        pool.free(packet);
        tag
    }

    #[test]
    fn the_latest_stay_and_no_one_takes_all_the_room() {
        let mut pool = HeapPool::new(32, 256);
        let mut waiting = Waiting::new(EACH + 1);
        for n in 0..EACH as u8 {
            assert_eq!(push(&mut pool, &mut waiting, A, n), None);
        }
        assert_eq!(push(&mut pool, &mut waiting, A, 8), Some(0));
        assert_eq!(push(&mut pool, &mut waiting, B, 20), None);
        assert_eq!(push(&mut pool, &mut waiting, Awaited::Router(2, Ipv4Addr::LOCALHOST), 30), Some(30));
        assert_eq!(push(&mut pool, &mut waiting, B, 21), Some(20));
        assert_eq!(waiting.held(), EACH + 1);
        let tags: Vec<u8> = waiting.take(A).into_iter().map(|held| freed(&mut pool, held)).collect();
        assert_eq!((tags, waiting.held()), ((1..9).collect(), 1));
        assert!(waiting.take(A).is_empty());
        let mut left = Vec::new();
        waiting.clear(&mut |held| left.push(freed(&mut pool, held)));
        assert_eq!((left, waiting.held()), (vec![21], 0));
    }
}
