//! Queues in which flows take turns: where a scheduler treats them otherwise than those in which all wait behind each other.
//!
//! Whether a queue is fair shows in its first packet, which then says of which flow it is: it stays as it was when a profile changes, until its user is
//! [assigned](Scheduler::assign) anew.

use weir_table::indexed::NONE;

use crate::flows::{Flows, Gone, Joining};
use crate::gates::Loss;
use crate::offer::{Displaced, Offer, Offered, Refused};
use crate::profile::{Profile, Profiles};
use crate::scheduler::Scheduler;
use crate::state::UserState;

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Makes room for flows, once any queue may be fair.
    pub(crate) fn make_flows(&mut self) {
        if self.profiles.fair() && self.flows.is_empty() {
            let queues = self.setup.users.saturating_mul(Q as u32);
            self.flows = Flows::new(self.slab.room(), queues, self.seed);
        }
    }

    /// Offers a packet to a fair queue: see [`Scheduler::enqueue`].
    #[inline(never)]
    pub(crate) fn enqueue_fair(
        &mut self,
        offer: &Offer,
        queue: usize,
        packet: impl Offered<T>,
        now: u64,
    ) -> Result<Option<Displaced<T>>, Refused> {
        let displaced = match self.admit_fair(offer, queue, now) {
            Ok(displaced) => displaced,
            Err(refused) => {
                self.refused(offer.user, refused, now);
                return Err(refused);
            }
        };
        let hash = packet.flow();
        let Some(item) = packet.take() else { return Ok(displaced) };
        let Some(first) = self.users.states.at_mut(offer.user).queues.get_mut(queue) else { return Ok(displaced) };
        let joins = *first == NONE;
        let joining = Joining { item, length: offer.length, now, hash };
        if let Some(item) = self.flows.join(&mut self.slab, first, place::<Q>(offer.user, queue), joining) {
            // A node was free or has been freed above.
            return Ok(Some(Displaced { item, loss: Loss::PushedOut }));
        }
        self.joined(offer.user, queue, joins, now);
        Ok(displaced)
    }

    /// Whether a packet is taken, and which other one has made room for it.
    fn admit_fair(&mut self, offer: &Offer, queue: usize, now: u64) -> Result<Option<Displaced<T>>, Refused> {
        let profile = self.profiles.user(self.users.gates.at(offer.user).standing().profile());
        let most = profile.classes.get(UserState::<C, Q>::class_of(queue)).map_or(0, |class| class.queue_size);
        let state = self.users.states.at(offer.user);
        let (held, first) = (state.held, state.first(queue));
        let queued = if first == NONE { 0 } else { self.flows.packets(self.slab.flow(first)) };
        if queued >= u32::from(most) {
            let lost = self.lose(offer.user, queue, now).ok_or(Refused::QueueFull)?;
            return Ok(Some(Displaced { item: lost, loss: Loss::QueueFull }));
        }
        if !self.makes_room(held)? {
            return Ok(None);
        }
        Ok(self.push_out(now))
    }

    /// The fattest flow of a full queue loses a packet, if there is a fat one.
    #[cold]
    fn lose(&mut self, user: u32, queue: usize, now: u64) -> Option<T> {
        let state = self.users.states.at_mut(user);
        let first = state.first(queue);
        if first == NONE {
            return None;
        }
        let item = self.flows.lose(&mut self.slab, first)?;
        state.held -= 1;
        self.heavy.change(user, state.held + 1, state.held);
        self.users.gates.dropped(user, Loss::QueueFull, now);
        Some(item)
    }

    /// Has the queues of a user be fair as its profile wants, with what waits in them. Their first packets stay the first.
    pub(crate) fn reorder(&mut self, user: u32) {
        let profile = self.profiles.user(self.users.gates.at(user).standing().profile());
        let state = self.users.states.at(user);
        for queue in (0..Q).filter(|queue| state.backlog >> queue & 1 != 0) {
            let first = state.first(queue);
            let wants = profile.fair >> UserState::<C, Q>::class_of(queue) & 1 != 0;
            match (self.slab.flow(first) != NONE, wants) {
                (false, true) => self.flows.adopt(&mut self.slab, first, place::<Q>(user, queue)),
                (true, false) => self.flows.dissolve(&mut self.slab, first),
                _ => {}
            }
        }
    }
}

/// The number of a queue among those of all users.
fn place<const Q: usize>(user: u32, queue: usize) -> u32 {
    user.wrapping_mul(Q as u32).wrapping_add(queue as u32)
}

/// What is told of a packet that leaves its flow.
pub(crate) fn gone(profile: &Profile, class: usize, flow: u32, length: u16, now: u64) -> Gone<'_> {
    let manage = profile.classes.get(class).and_then(|class| class.manage.as_deref());
    Gone { flow, length, manage, now }
}

impl Profiles {
    /// Whether any queue is fair.
    pub(crate) fn fair(&self) -> bool {
        self.users.iter().any(|user| user.fair != 0)
    }
}
