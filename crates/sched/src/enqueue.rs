//! Taking packets: those that have to wait.

use weir_table::indexed::NONE;

use crate::admit::{Admitted, Order, Room};
use crate::gates::{Loss, Place};
use crate::judge::judge;
use crate::offer::{Displaced, Offer, Offered, Refused};
use crate::rate::fine;
use crate::scheduler::Scheduler;
use crate::state::UserState;
use crate::users::User;

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Offers a packet.
    ///
    /// Returns the packet that was dropped for it: one of another user, who holds more, where no buffer is left, or too few for what
    /// this user holds already; one of another flow, in a fair queue that is full.
    ///
    /// # Errors
    ///
    /// Why it is not taken.
    // Always: it is called in one loop of a stage, which takes most packets by it.
    #[inline(always)]
    pub fn enqueue(
        &mut self,
        offer: Offer,
        now: u64,
        packet: impl Offered<T>,
    ) -> Result<Option<Displaced<T>>, Refused> {
        let queue = UserState::<C, Q>::queue_of(offer.class.class(), offer.class.queue());
        match self.enter(&offer, queue, packet, now) {
            Ok(entered) => entered,
            Err(packet) => self.look_closer(offer, queue, now, packet),
        }
    }

    /// [`Scheduler::enqueue`] where there may be more to it than the [short way](crate::plain).
    #[inline(never)]
    fn look_closer(
        &mut self,
        offer: Offer,
        queue: usize,
        now: u64,
        mut packet: impl Offered<T>,
    ) -> Result<Option<Displaced<T>>, Refused> {
        let admitted = self.admit(&offer, queue, &mut packet, now).and_then(|Admitted { room, order }| {
            let displaced = match room {
                Room::Left => None,
                Room::Made => self.push_out(now),
                Room::Lost => Some(self.lose(&offer, queue, now).ok_or(Refused::QueueFull)?),
            };
            Ok((displaced, order))
        });
        let (displaced, order) = match admitted {
            Ok(admitted) => admitted,
            Err(refused) => {
                self.refused(offer.user, refused, now);
                return Err(refused);
            }
        };
        match order {
            Order::One => {}
            Order::Fair => return Ok(self.join(&offer, queue, packet, now).or(displaced)),
            Order::Lines => return Ok(self.join_line(&offer, queue, packet, now).or(displaced)),
            Order::Split => return Ok(self.join_split(&offer, queue, packet, now).or(displaced)),
        }
        let Some(item) = packet.take() else { return Ok(displaced) };
        let Some(first) = self.users.states.at_mut(offer.user).queues.get_mut(queue) else { return Ok(displaced) };
        let joins = *first == NONE;
        if let Some(item) = self.slab.push(first, item, offer.length, now) {
            // A node was free or has been freed above.
            return Ok(Some(Displaced { item, loss: Loss::PushedOut }));
        }
        self.joined(offer.user, queue, joins, now);
        Ok(displaced)
    }

    /// A packet has joined a queue of a user, which was empty or not.
    #[inline(always)]
    pub(crate) fn joined(&mut self, user: u32, queue: usize, joins: bool, now: u64) {
        let User { gate, tally, state, rest, share, floors } = self.users.at_mut(user);
        state.backlog |= 1 << queue;
        state.held += 1;
        self.heavy.change(user, state.held - 1, state.held);
        let standing = gate.standing();
        let settled = match standing.place() {
            Place::Active(rank) => UserState::<C, Q>::class_of(queue) >= usize::from(rank / 2),
            Place::Idle | Place::Waiting => false,
        };
        if joins && !settled {
            let profile = self.profiles.user(standing.profile());
            let judgement = judge(gate, state, rest, (share, floors), profile, &self.slab, fine(now));
            tally.held.judged(&judgement, now);
            if self.lines.settle(user, gate, share, judgement, now) {
                self.claim(user);
            }
        } else if joins && self.profiles.promised {
            self.claim(user);
        }
    }

    /// A packet of a user is not taken.
    #[cold]
    pub(crate) fn refused(&mut self, user: u32, refused: Refused, now: u64) {
        let Some(loss) = refused.loss() else { return };
        self.users.gates.dropped(user, loss, now);
        if refused == Refused::OverShare && self.users.states.at(user).held == 0 {
            self.users.gates.tally(user).held.short(now);
        }
    }
}
