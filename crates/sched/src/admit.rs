//! Which packets are taken: by what their users hold, how long queues are, and what managements say.

use weir_table::indexed::NONE;

use crate::dual::is_dual;
use crate::manage::{Arrival, Verdict};
use crate::offer::{Offer, Offered, Refused};
use crate::scheduler::Scheduler;
use crate::splits::is_apart_from_flows;
use crate::state::UserState;

/// How a packet is taken.
pub(crate) enum Room {
    /// As it is.
    Left,
    /// For another one, of who holds most.
    Made,
    /// For another one of its queue, which is fair and full.
    Lost,
}

impl Room {
    /// Whether there is room as it is, where so many buffers are left, for a user who holds so many packets and may hold `minimum` whatever others do.
    #[inline(always)]
    pub(crate) fn is_left(held: u32, left: u32, minimum: u32) -> bool {
        // The dynamic threshold of Choudhury and Hahne (1998), with a factor of 1: what all hold in excess of their minimum
        // shrinks the share of each, so that some buffers are always left for others.
        let over = held >= minimum && held - minimum >= left;
        !over && left > 0
    }
}

/// How packets wait in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// One behind the other.
    One,
    /// Flows take turns.
    Fair,
    /// In two lines.
    Lines,
    /// In several queues.
    Split,
}

/// What is known of a packet that may be taken.
pub(crate) struct Admitted {
    pub(crate) room: Room,
    pub(crate) order: Order,
}

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Whether a packet is taken, and whether another one must make room for it.
    #[inline(always)]
    pub(crate) fn admit(
        &mut self,
        offer: &Offer,
        queue: usize,
        packet: &mut impl Offered<T>,
        now: u64,
    ) -> Result<Admitted, Refused> {
        let standing = self.users.gates.at(offer.user).standing();
        if !standing.is_open() {
            return Err(Refused::NoSuchUser);
        }
        let state = self.users.states.at(offer.user);
        let class = UserState::<C, Q>::class_of(queue);
        let profile = self.profiles.user(standing.profile());
        let first = state.first(queue);
        // What waits stays as it is until its user is looked at. Where there are neither flows nor lines, packets that wait need not be looked at to see that.
        let fair = if self.apart { self.slab.fair(first) } else { NONE };
        let is_apart = if first == NONE { profile.apart >> class & 1 != 0 } else { fair != NONE };
        let most = profile.classes.get(class).map_or(0, |class| class.queue_size);
        if is_apart {
            let held = state.held;
            let (flows, dual) = match first {
                NONE => (profile.fair >> class & 1 != 0, profile.dual >> class & 1 != 0),
                _ => (!is_apart_from_flows(fair), is_dual(fair)),
            };
            return match (flows, dual) {
                (true, _) => self.room_for_flow(held, fair, most),
                (false, true) => self.room_in_lines(held, fair, most),
                (false, false) => self.room_in_split(offer, class, most, packet, now),
            };
        }
        let room = self.room(state.held)?;
        if self.slab.count(first) >= most {
            return Err(Refused::QueueFull);
        }
        if profile.managed >> class & 1 != 0 {
            self.ask_management(offer, queue, &mut || packet.mark(), now)?;
        }
        Ok(Admitted { room, order: Order::One })
    }

    /// Whether a packet of a user who holds so many is taken in a fair queue of at most so many; in which nothing waits, where it has no number.
    #[inline(always)]
    fn room_for_flow(&self, held: u32, fair: u32, most: u16) -> Result<Admitted, Refused> {
        let queued = if fair == NONE { 0 } else { self.flows.packets(fair) };
        let room = if queued >= most.into() { Room::Lost } else { self.room(held)? };
        Ok(Admitted { room, order: Order::Fair })
    }

    /// The same in a queue with two lines.
    #[cold]
    fn room_in_lines(&self, held: u32, dual: u32, most: u16) -> Result<Admitted, Refused> {
        let (room, queued) = (self.room(held)?, if dual == NONE { 0 } else { self.duals.packets(dual) });
        if queued >= most.into() { Err(Refused::QueueFull) } else { Ok(Admitted { room, order: Order::Lines }) }
    }

    /// The same in a class with several queues, each of which holds so many at most.
    #[cold]
    fn room_in_split(
        &mut self,
        offer: &Offer,
        class: usize,
        most: u16,
        packet: &mut impl Offered<T>,
        now: u64,
    ) -> Result<Admitted, Refused> {
        let (held, (queued, _, is)) = (self.users.states.at(offer.user).held, self.queued_in(offer, class));
        if is == Order::Fair {
            let room = if queued >= most { Room::Lost } else { self.room(held)? };
            return Ok(Admitted { room, order: Order::Split });
        }
        let room = self.room(held)?;
        if queued >= most {
            return Err(Refused::QueueFull);
        }
        let profile = self.profiles.user(self.users.gates.at(offer.user).standing().profile());
        if is == Order::One && profile.managed >> class & 1 != 0 {
            self.ask_management(offer, class, &mut || packet.mark(), now)?;
        }
        Ok(Admitted { room, order: Order::Split })
    }

    /// How there is room for a packet of a user who holds so many.
    #[inline(always)]
    fn room(&self, held: u32) -> Result<Room, Refused> {
        match Room::is_left(held, self.slab.left(), self.setup.minimum) {
            true => Ok(Room::Left),
            false if self.somebody_holds_more(held) => Ok(Room::Made),
            false => Err(Refused::OverShare),
        }
    }

    /// Whether somebody holds so much more than `held` packets that giving one up for another user makes them more equal.
    #[inline]
    pub(crate) fn somebody_holds_more(&self, held: u32) -> bool {
        self.heavy.heaviest().is_some_and(|user| self.users.states.at(user).held > held + 1)
    }

    #[cold]
    pub(crate) fn ask_management(
        &mut self,
        offer: &Offer,
        queue: usize,
        mark: &mut dyn FnMut() -> bool,
        now: u64,
    ) -> Result<(), Refused> {
        // Marsaglia's xorshift64.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let class = UserState::<C, Q>::class_of(queue);
        let profile = self.profiles.user(self.users.gates.at(offer.user).standing().profile());
        let is_split = profile.split >> class & 1 != 0;
        let (queued, part, _) = match is_split {
            true => self.queued_in(offer, class),
            false => (self.slab.count(self.users.states.at(offer.user).first(queue)), 0, Order::One),
        };
        let state = match is_split {
            true => self.splits.state_mut(offer.user, class, part),
            false => self.states.at_mut(offer.user).get_mut(queue),
        };
        let (Some(manage), Some(state)) = (profile.manage(class), state) else { return Ok(()) };
        let arrival = Arrival {
            now,
            queued: queued.into(),
            bytes: u32::from(offer.length),
            colour: offer.colour,
            random: (self.random >> 32) as u32,
        };
        match manage.arrive(state, &arrival) {
            Verdict::Pass => Ok(()),
            Verdict::Mark if mark() => {
                manage.marked(state, now);
                self.users.gates.marked(offer.user, class, now);
                Ok(())
            }
            Verdict::Mark | Verdict::Drop => Err(Refused::Managed),
        }
    }
}
