//! The packets that wait: one slab of nodes, in which every queue is a list whose first node knows the last one.

use std::hint::cold_path;

use weir_table::indexed::{Indexed, NONE};

use crate::manage::Departure;

/// A packet that waits. While its packet is the first of its queue, a node also says how many there are.
#[derive(Debug)]
struct Node<T> {
    item: Option<T>,
    /// When it came, nanoseconds.
    since: u64,
    /// The packet behind it; of the last one, itself, so that it need not be told when the first one goes.
    next: u32,
    /// The packet before it; of the first one, the last.
    prev: u32,
    /// Bytes with overhead.
    length: u16,
    /// Packets in the queue, where this is the first.
    count: u16,
    /// The fair queue that the packet is chosen from; [`NONE`] in any other.
    fair: u32,
}

impl<T> Node<T> {
    const FREE: Node<T> = Node { item: None, since: 0, next: NONE, prev: NONE, length: 0, count: 0, fair: NONE };
}

/// What is known of the first packet of a queue.
pub(crate) struct Head {
    pub(crate) since: u64,
    pub(crate) length: u16,
    /// Packets in the queue; of a fair one, in the packet's flow.
    pub(crate) count: u16,
    /// The fair queue that it is chosen from; [`NONE`] in any other.
    pub(crate) fair: u32,
}

impl Head {
    /// What a management is told of the packet where it is about to be sent.
    #[inline(always)]
    pub(crate) fn departure(&self, now: u64) -> Departure {
        let behind = self.count.saturating_sub(1).into();
        Departure { now, sojourn: now.saturating_sub(self.since), behind, bytes: self.length.into() }
    }
}

/// A fixed number of nodes. A queue is the number of its first node, [`NONE`] while it is empty.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    nodes: Indexed<Node<T>>,
    /// Nodes that hold no packet are the first `left` of these; the last that was given back is taken first.
    free: Indexed<u32>,
    left: u32,
}

impl<T> Slab<T> {
    /// Bytes per node.
    pub(crate) const BYTES: usize = size_of::<Node<T>>() + size_of::<u32>();

    pub(crate) fn new(nodes: u32) -> Slab<T> {
        let nodes = nodes.min(NONE - 1);
        let free = Indexed::from_fn(nodes as usize, |n| nodes - 1 - n, NONE);
        Slab { nodes: Indexed::from_fn(nodes as usize, |_| Node::FREE, Node::FREE), free, left: nodes }
    }

    /// Nodes that hold no packet.
    #[inline(always)]
    pub(crate) fn left(&self) -> u32 {
        self.left
    }

    /// Nodes in all.
    pub(crate) fn room(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Packets in a queue.
    #[inline(always)]
    pub(crate) fn count(&self, queue: u32) -> u16 {
        if queue == NONE { 0 } else { self.nodes.at(queue).count }
    }

    /// Bytes of the first packet of a queue.
    #[inline(always)]
    pub(crate) fn length(&self, queue: u32) -> u16 {
        self.nodes.at(queue).length
    }

    /// The first packet of a queue, to change.
    pub(crate) fn first_mut(&mut self, queue: u32) -> Option<&mut T> {
        self.nodes.at_mut(queue).item.as_mut()
    }

    /// The first packet of a queue.
    #[inline(always)]
    pub(crate) fn first(&self, queue: u32) -> Option<&T> {
        self.nodes.at(queue).item.as_ref()
    }

    /// When the first packet of a queue came.
    #[inline(always)]
    pub(crate) fn since(&self, queue: u32) -> u64 {
        self.nodes.at(queue).since
    }

    /// What is known of the first packet of a queue.
    #[inline(always)]
    pub(crate) fn head(&self, queue: u32) -> Head {
        let Node { since, length, count, fair, .. } = self.nodes.at(queue);
        Head { since: *since, length: *length, count: *count, fair: *fair }
    }

    /// Which fair queue it is; [`NONE`] of any other, and of one in which nothing waits.
    #[inline(always)]
    pub(crate) fn fair(&self, queue: u32) -> u32 {
        self.nodes.at(queue).fair
    }

    /// Says which fair queue it is.
    #[inline(always)]
    pub(crate) fn set_fair(&mut self, queue: u32, fair: u32) {
        self.nodes.at_mut(queue).fair = fair;
    }

    /// Hints that the first packet of a queue is looked at soon.
    #[inline(always)]
    pub(crate) fn prefetch(&self, queue: u32) {
        self.nodes.prefetch(queue);
    }

    /// Hints that so many packets are put in soon.
    #[inline(always)]
    pub(crate) fn prefetch_free(&self, packets: u32) {
        (self.left.saturating_sub(packets)..self.left).for_each(|n| self.nodes.prefetch(*self.free.at(n)));
    }

    /// Hints that the first packet of a queue, which is near, leaves it soon: the one behind it becomes the first.
    #[inline(always)]
    pub(crate) fn prefetch_second(&self, queue: u32) {
        self.nodes.prefetch(self.nodes.at(queue).next);
    }

    /// Hints that a packet joins a queue soon, the first of which is near.
    #[inline(always)]
    pub(crate) fn prefetch_last(&self, queue: u32) {
        self.nodes.prefetch(self.nodes.at(queue).prev);
    }

    /// Adds a packet at the end of a queue; given back where no node is left.
    #[inline(always)]
    pub(crate) fn push(&mut self, queue: &mut u32, item: T, length: u16, since: u64) -> Option<T> {
        let Some(left) = self.left.checked_sub(1) else {
            cold_path();
            return Some(item);
        };
        let at = *self.free.at(left);
        self.left = left;
        let prev = if *queue == NONE {
            *queue = at;
            at
        } else {
            let first = self.nodes.at_mut(*queue);
            first.count += 1;
            let last = std::mem::replace(&mut first.prev, at);
            self.nodes.at_mut(last).next = at;
            last
        };
        *self.nodes.at_mut(at) = Node { item: Some(item), since, next: at, prev, length, count: 1, fair: NONE };
        None
    }

    /// Takes the first packet of a queue.
    #[inline(always)]
    pub(crate) fn pop_front(&mut self, queue: &mut u32) -> Option<T> {
        self.pop_first(queue).map(|(item, _)| item)
    }

    /// The same, with the bytes of the one behind it, if there is one.
    #[inline(always)]
    pub(crate) fn pop_first(&mut self, queue: &mut u32) -> Option<(T, u16)> {
        let at = *queue;
        let node = self.nodes.at_mut(at);
        let (next, last, count) = (node.next, node.prev, node.count);
        let item = node.item.take()?;
        let mut next_length = 0;
        if next == at {
            *queue = NONE;
        } else {
            let first = self.nodes.at_mut(next);
            first.prev = last;
            first.count = count - 1;
            next_length = first.length;
            *queue = next;
        }
        self.release(at);
        Some((item, next_length))
    }

    /// Takes the last packet of a queue.
    pub(crate) fn pop_back(&mut self, queue: &mut u32) -> Option<T> {
        let first = *queue;
        let at = self.nodes.at(first).prev;
        let node = self.nodes.at_mut(at);
        let before = node.prev;
        let item = node.item.take()?;
        if at == first {
            *queue = NONE;
        } else {
            self.nodes.at_mut(before).next = before;
            let node = self.nodes.at_mut(first);
            node.prev = before;
            node.count -= 1;
        }
        self.release(at);
        Some(item)
    }

    /// Takes the second packet of a queue, and its length.
    pub(crate) fn pop_second(&mut self, queue: u32) -> Option<(T, u16)> {
        let at = self.nodes.at(queue).next;
        if at == queue {
            return None;
        }
        let node = self.nodes.at_mut(at);
        let (next, length) = (node.next, node.length);
        let item = node.item.take()?;
        let is_last = next == at;
        let first = self.nodes.at_mut(queue);
        first.count -= 1;
        if is_last {
            (first.next, first.prev) = (queue, queue);
        } else {
            first.next = next;
            self.nodes.at_mut(next).prev = queue;
        }
        self.release(at);
        Some((item, length))
    }

    /// Puts the packets of another queue behind those of a queue; each has some.
    pub(crate) fn append(&mut self, queue: u32, other: u32) {
        let (count, other_last) = (self.nodes.at(other).count, self.nodes.at(other).prev);
        let first = self.nodes.at_mut(queue);
        first.count = first.count.saturating_add(count);
        let last = std::mem::replace(&mut first.prev, other_last);
        self.nodes.at_mut(last).next = other;
        self.nodes.at_mut(other).prev = last;
    }

    #[inline(always)]
    fn release(&mut self, at: u32) {
        *self.free.at_mut(self.left) = at;
        self.left += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn queues_are_queues(steps in prop::collection::vec((0..6_usize, 0..3_usize), 0..200)) {
            let mut slab = Slab::new(12);
            let mut queues = [NONE; 3];
            let mut twins = [const { VecDeque::new() }; 3];
            for (n, (what, q)) in steps.into_iter().enumerate() {
                let waiting: usize = twins.iter().map(VecDeque::len).sum();
                match what {
                    0 | 1 => {
                        let back = slab.push(&mut queues[q], n, n as u16 + 60, n as u64);
                        prop_assert_eq!(back.is_some(), waiting == 12);
                        if back.is_none() {
                            twins[q].push_back(n);
                        }
                    }
                    2 => prop_assert_eq!(slab.pop_front(&mut queues[q]), twins[q].pop_front()),
                    3 => prop_assert_eq!(slab.pop_back(&mut queues[q]), twins[q].pop_back()),
                    4 => {
                        let second = twins[q].remove(1).map(|n| (n, n as u16 + 60));
                        if queues[q] != NONE {
                            prop_assert_eq!(slab.pop_second(queues[q]), second);
                        }
                    }
                    _ if queues[q] != NONE && queues[(q + 1) % 3] != NONE => {
                        let other = std::mem::replace(&mut queues[(q + 1) % 3], NONE);
                        slab.append(queues[q], other);
                        let mut moved = std::mem::take(&mut twins[(q + 1) % 3]);
                        twins[q].append(&mut moved);
                    }
                    _ => {}
                }
                for (queue, twin) in queues.iter().zip(&twins) {
                    prop_assert_eq!(usize::from(slab.count(*queue)), twin.len());
                    if let Some(first) = twin.front() {
                        prop_assert_eq!((slab.length(*queue), slab.since(*queue)), (*first as u16 + 60, *first as u64));
                    }
                }
                let waiting: usize = twins.iter().map(VecDeque::len).sum();
                prop_assert_eq!(slab.left() as usize, 12 - waiting);
            }
        }
    }
}
