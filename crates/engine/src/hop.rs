//! Hops over joints: what a function sends by one end of a joint enters another function by the other end.

use weir_packet::{Batch, Held, Slots};

use crate::counters::{Count, Drops};
use crate::observe::{Observers, What};

/// Where packets go on behind a joint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// To a stage on the same worker.
    Stage(u16),
    /// To a stage on the same worker, in the next loop: the hop would close a circle.
    Again(u16),
    /// Over a link to another worker.
    Link(u16),
    /// Nowhere: no function receives at the other end.
    Nowhere,
}

/// The way of packets from one end of a joint to the other, on one worker.
#[derive(Debug)]
pub(crate) struct JointHop {
    /// The end that packets leave by: a port's name and index.
    pub(crate) out: (String, u16),
    /// The end that they enter by.
    pub(crate) into: (String, u16),
    pub(crate) beyond: Beyond,
    /// What has crossed: neither received nor transmitted, since it never left Weir.
    pub(crate) crossed: Count,
    pub(crate) drops: Drops,
}

impl JointHop {
    pub(crate) fn new(out: (String, u16), into: (String, u16), beyond: Beyond) -> JointHop {
        JointHop { out, into, beyond, crossed: Count::default(), drops: Drops::new() }
    }

    /// Takes the packets in `mask` over, which stay in the batch: from here on they have come in by the other end.
    #[inline]
    pub(crate) fn cross(&mut self, batch: &mut Batch, mask: u64, observers: &Observers, now: u64) {
        if self.beyond == Beyond::Nowhere {
            return;
        }
        self.crossed.add(u64::from(mask.count_ones()), batch.bytes_in(mask));
        if mask == batch.live() {
            batch.lanes.port.all_mut().fill(self.into.1);
        } else {
            Slots(mask).for_each(|slot| batch.lanes.port[slot] = self.into.1);
        }
        if observers.any() {
            let what = What::Crossed { out: self.out.1, into: self.into.1 };
            let packets = Slots(mask).filter_map(|slot| batch.get(slot));
            packets.for_each(|packet| observers.packet(what, packet, now));
        }
    }

    /// Takes one packet over that was held.
    pub(crate) fn cross_held(&mut self, held: &mut Held, observers: &Observers, now: u64) {
        if self.beyond == Beyond::Nowhere {
            return;
        }
        self.crossed.add(1, held.packet().len() as u64);
        held.set_port(self.into.1);
        observers.packet(What::Crossed { out: self.out.1, into: self.into.1 }, held.packet(), now);
    }
}
