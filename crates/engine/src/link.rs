//! Links: single-producer, single-consumer rings between workers.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_mem::Producer;
use weir_packet::{Batch, Held, LaneSet, Slots};

use crate::bell::Bell;
use crate::counters::Drops;
use crate::reason::Reason;
use crate::transmit::Around;

/// Packets that a link has room for.
pub(crate) const LINK_ROOM: usize = 1024;

/// The end of a link where packets go in.
pub(crate) struct LinkOut {
    pub(crate) name: String,
    pub(crate) drops: Drops,
    pub(crate) packets: u64,
    pub(crate) may_drop: bool,
    /// What packets take along: those that somebody reads behind it.
    pub(crate) lanes: LaneSet,
    producer: Producer<Held>,
    /// That of the worker at the other end.
    bell: Arc<Bell>,
    /// What found the ring full although it must not be dropped: goes in before anything new is received. Bounded by what
    /// one loop can send, because a worker with anything here does not receive.
    staged: VecDeque<Held>,
}

impl LinkOut {
    pub(crate) fn new(
        name: String,
        (producer, bell): (Producer<Held>, Arc<Bell>),
        may_drop: bool,
        lanes: LaneSet,
    ) -> LinkOut {
        LinkOut { name, drops: Drops::new(), packets: 0, may_drop, lanes, producer, bell, staged: VecDeque::new() }
    }

    /// Packets that wait at this end.
    pub(crate) fn held(&self) -> u64 {
        self.staged.len() as u64
    }

    pub(crate) fn occupancy(&self) -> u64 {
        self.producer.len() as u64
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.producer.capacity() as u64
    }

    /// Packets that find room in the ring for certain.
    pub(crate) fn room(&mut self) -> usize {
        if self.staged.is_empty() { self.producer.room() } else { 0 }
    }

    pub(crate) fn push(&mut self, held: Held, around: &mut Around<'_>) {
        let refused = if self.staged.is_empty() { self.producer.push(held) } else { Err(held) };
        match refused {
            Ok(()) => {
                self.packets += 1;
                self.bell.ring();
            }
            Err(held) if self.may_drop => self.refuse(held, Reason::LinkFull, around),
            Err(held) => self.staged.push_back(held),
        }
    }

    /// Takes the packets in `mask` out of `batch`: the other worker sees all of them at once.
    pub(crate) fn push_batch(&mut self, batch: &mut Batch, mask: u64, around: &mut Around<'_>) {
        let lanes = self.lanes;
        let mut held = Slots(mask).filter_map(|slot| batch.hold_with(slot, lanes));
        if self.staged.is_empty() {
            self.packets += self.producer.push_from(&mut held) as u64;
            self.bell.ring();
        }
        for held in held {
            match self.may_drop {
                true => self.refuse(held, Reason::LinkFull, around),
                false => self.staged.push_back(held),
            }
        }
    }

    /// Moves what waits into the ring, as far as there is room.
    #[inline]
    pub(crate) fn unstage(&mut self) {
        if !self.staged.is_empty() {
            let staged = &mut self.staged;
            self.packets += self.producer.push_from(&mut std::iter::from_fn(|| staged.pop_front())) as u64;
            self.bell.ring();
        }
    }

    /// Drops what waits at this end.
    pub(crate) fn drop_all(&mut self, reason: Reason, around: &mut Around<'_>) {
        while let Some(held) = self.staged.pop_front() {
            self.refuse(held, reason, around);
        }
    }

    fn refuse(&mut self, held: Held, reason: Reason, around: &mut Around<'_>) {
        let packet = held.into_packet();
        self.drops.count(reason, 1, packet.len() as u64);
        around.observers.dropped(&self.name, reason, &packet, around.now);
        around.pool.free(packet);
    }
}
