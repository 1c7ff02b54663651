//! Queues in which flows take turns: where a scheduler treats them otherwise than those in which all wait behind each other.
//!
//! Whether a queue is fair shows in its first packet, which then says which of them it is: it stays as it was when a profile changes, until its user is
//! [assigned](Scheduler::assign) anew.

use weir_table::indexed::NONE;

use crate::admit::Order;
use crate::dual::is_dual;
use crate::flows::{Flows, Joining};
use crate::gates::Loss;
use crate::offer::{Displaced, Offer, Offered};
use crate::profile::{Profile, Profiles};
use crate::scheduler::Scheduler;
use crate::splits::is_split;
use crate::state::UserState;

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Makes room for flows, once any queue may be fair.
    pub(crate) fn make_flows(&mut self) {
        if self.profiles.fair() && self.flows.is_empty() {
            let queues = self.setup.users.saturating_mul(Q as u32);
            self.flows = Flows::new(self.slab.room(), queues);
        }
    }

    /// Takes a packet of a fair queue, in which there is room for it. Given back where there is none.
    #[inline]
    pub(crate) fn join(
        &mut self,
        offer: &Offer,
        queue: usize,
        packet: impl Offered<T>,
        now: u64,
    ) -> Option<Displaced<T>> {
        let hash = packet.flow();
        let item = packet.take()?;
        let first = self.users.states.at_mut(offer.user).queues.get_mut(queue)?;
        let joins = *first == NONE;
        let joining = Joining { item, length: offer.length, now, hash };
        if let Some(item) = self.flows.join(&mut self.slab, first, joining) {
            // A node was free or has been freed before.
            return Some(Displaced { item, loss: Loss::PushedOut });
        }
        self.joined(offer.user, queue, joins, now);
        None
    }

    /// The fattest flow of a full queue loses a packet, if there is a fat one.
    #[cold]
    pub(crate) fn lose(&mut self, user: u32, queue: usize, now: u64) -> Option<Displaced<T>> {
        let state = self.users.states.at_mut(user);
        let first = state.first(queue);
        if first == NONE {
            return None;
        }
        let item = self.flows.lose(&mut self.slab, first)?;
        state.held -= 1;
        self.heavy.change(user, state.held + 1, state.held);
        self.users.gates.dropped(user, Loss::QueueFull, now);
        Some(Displaced { item, loss: Loss::QueueFull })
    }

    /// Has the packets of each class of a user wait in the order that its profile wants, with what waits in them. Their first packets stay the first.
    pub(crate) fn reorder(&mut self, user: u32) {
        let profile = self.profiles.user(self.users.gates.at(user).standing().profile());
        let state = self.users.states.at(user);
        for queue in (0..Q).filter(|queue| state.backlog >> queue & 1 != 0) {
            let first = state.first(queue);
            let class = UserState::<C, Q>::class_of(queue);
            let wanted = profile.order(class);
            let is = match self.slab.fair(first) {
                NONE => Order::One,
                of if is_dual(of) => Order::Lines,
                of if is_split(of) => Order::Split,
                _ => Order::Fair,
            };
            if is == wanted {
                continue;
            }
            match is {
                Order::One => {}
                Order::Fair => self.flows.dissolve(&mut self.slab, first),
                Order::Lines => self.duals.dissolve(&mut self.slab, first),
                Order::Split => self.splits.dissolve(&mut self.slab, first),
            }
            match (wanted, profile.classes.get(class)) {
                (Order::Fair, _) => self.flows.adopt(&mut self.slab, first),
                (Order::Lines, _) => self.duals.adopt(&mut self.slab, first),
                (Order::Split, Some(rules)) => self.splits.adopt(&mut self.slab, first, rules),
                _ => {}
            }
        }
        self.forget_coupling(user);
        self.settle_parts(user);
    }
}

impl Profile {
    /// How packets wait in the queues of a class.
    fn order(&self, class: usize) -> Order {
        let is = |bits: u8| bits >> class & 1 != 0;
        match () {
            () if is(self.fair) => Order::Fair,
            () if is(self.dual) => Order::Lines,
            () if is(self.split) => Order::Split,
            () => Order::One,
        }
    }
}

impl Profiles {
    /// Whether any queue is fair.
    pub(crate) fn fair(&self) -> bool {
        self.users.iter().any(|user| user.fair != 0)
    }
}
