//! The queues of a class with several, each of which may be fair, or have two lines.

use weir_table::indexed::NONE;

use crate::admit::Order;
use crate::dual::{Duals, Entering, is_dual};
use crate::flows::{Flows, Gone};
use crate::profile::ClassProfile;
use crate::slab::Slab;
use crate::splits::is_split;

/// Where the queues of a class are kept in which packets do not wait one behind the other.
pub(crate) struct Inside<'a> {
    pub(crate) flows: &'a mut Flows,
    pub(crate) duals: &'a mut Duals,
}

impl Inside<'_> {
    /// Puts a packet in a queue; it is given back where there is no room.
    pub(crate) fn join<T>(
        &mut self,
        slab: &mut Slab<T>,
        first: &mut u32,
        packet: Entering<T>,
        class: &ClassProfile,
    ) -> Option<T> {
        let is = if *first == NONE { class.order() } else { order(slab.fair(*first)) };
        match is {
            Order::Fair => self.flows.join(slab, first, packet.joining),
            Order::Lines => self.duals.join(slab, first, packet).err(),
            Order::One | Order::Split => {
                slab.push(first, packet.joining.item, packet.joining.length, packet.joining.now)
            }
        }
    }

    /// A packet has left a queue, and `first` is behind it in its flow or line. The first packet of the queue.
    pub(crate) fn left<T>(&mut self, slab: &mut Slab<T>, first: u32, gone: &Gone<'_>, is_sent: bool) -> u32 {
        match (order(gone.fair), is_sent) {
            (Order::One | Order::Split, _) => first,
            (Order::Fair, true) => self.flows.sent(slab, first, gone),
            (Order::Fair, false) => self.flows.dropped(slab, first, gone),
            (Order::Lines, true) => {
                self.duals.sent(slab, (gone.fair, first), gone.length, gone.profile.coupling(gone.class))
            }
            (Order::Lines, false) => self.duals.dropped(slab, (gone.fair, first)),
        }
    }

    /// Takes the packet of a queue that has to make room: never the first where that is to be `kept`, nor where it is the one that is chosen of flows or lines.
    pub(crate) fn lose<T>(&mut self, slab: &mut Slab<T>, first: &mut u32, kept: bool) -> Option<T> {
        match order(slab.fair(*first)) {
            Order::One | Order::Split if kept && slab.count(*first) == 1 => None,
            Order::One | Order::Split => slab.pop_back(first),
            Order::Fair => self.flows.lose(slab, *first),
            Order::Lines => self.duals.lose(slab, *first),
        }
    }

    /// Takes the first packet of a queue, which is dropped.
    pub(crate) fn drop_first<T>(&mut self, slab: &mut Slab<T>, first: &mut u32, gone: &Gone<'_>) -> Option<T> {
        let (fair, length) = (slab.fair(*first), slab.length(*first));
        let item = slab.pop_front(first)?;
        *first = self.left(slab, *first, &Gone { fair, length, ..*gone }, false);
        Some(item)
    }

    /// Has the packets of a queue wait as they are to. The first stays the first.
    pub(crate) fn reorder<T>(&mut self, slab: &mut Slab<T>, first: u32, wanted: Order) {
        let is = order(slab.fair(first));
        if is == wanted {
            return;
        }
        match is {
            Order::One | Order::Split => {}
            Order::Fair => self.flows.dissolve(slab, first),
            Order::Lines => self.duals.dissolve(slab, first),
        }
        match wanted {
            Order::One | Order::Split => {}
            Order::Fair => self.flows.adopt(slab, first),
            Order::Lines => self.duals.adopt(slab, first),
        }
    }
}

/// How packets wait where a first packet says that of it.
pub(crate) fn order(fair: u32) -> Order {
    match fair {
        NONE => Order::One,
        of if is_dual(of) => Order::Lines,
        of if is_split(of) => Order::Split,
        _ => Order::Fair,
    }
}
