//! Queues in which flows take turns: where a scheduler treats them otherwise than those in which all wait behind each other.
//!
//! Whether a queue is fair shows in its first packet, which then says which of them it is: it stays as it was when a profile changes, until its user is
//! [assigned](Scheduler::assign) anew.

use weir_table::indexed::NONE;

use crate::admit::Order;
use crate::class::MAX_QUEUES;
use crate::flows::{Flows, Joining};
use crate::gates::Loss;
use crate::inside::Inside;
use crate::offer::{Displaced, Offer, Offered};
use crate::profile::Profiles;
use crate::scheduler::Scheduler;
use crate::splits::is_split;
use crate::state::UserState;

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Makes room for flows, once any queue may be fair.
    pub(crate) fn make_flows(&mut self) {
        if self.profiles.fair() && self.flows.is_empty() {
            let queues = self.setup.users.saturating_mul((C * MAX_QUEUES) as u32);
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
    pub(crate) fn lose(&mut self, offer: &Offer, queue: usize, now: u64) -> Option<Displaced<T>> {
        let user = offer.user;
        let first = self.users.states.at(user).first(queue);
        if first == NONE {
            return None;
        }
        let item = match self.slab.fair(first) {
            fair if is_split(fair) => self.lose_of_part(offer, queue, fair)?,
            _ => self.flows.lose(&mut self.slab, first)?,
        };
        let state = self.users.states.at_mut(user);
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
            let mut inside = Inside { flows: &mut self.flows, duals: &mut self.duals };
            let is_split = is_split(self.slab.fair(first));
            let Some(rules) = profile.classes.get(class) else { continue };
            if profile.split >> class & 1 == 0 {
                if is_split {
                    self.splits.dissolve(&mut self.slab, &mut inside, first);
                }
                inside.reorder(&mut self.slab, first, rules.order());
                continue;
            }
            if !is_split {
                inside.reorder(&mut self.slab, first, Order::One);
                self.splits.adopt(&mut self.slab, first, rules);
            }
            self.splits.reorder(&mut self.slab, &mut inside, first, rules.order());
        }
        self.forget_coupling(user);
        self.settle_parts(user);
    }
}

impl Profiles {
    /// Whether any queue is fair.
    pub(crate) fn fair(&self) -> bool {
        self.any_class(|class| class.order() == Order::Fair)
    }
}
