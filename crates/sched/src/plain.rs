//! The short way of a packet that waits: of a user with nothing but a rate, and fair queues perhaps, whose packets are all in one queue.
//!
//! Most users are such, and so most packets that wait go this way. It comes to the same as [admission](crate::admit), [judgement](crate::judge) and
//! [sending](crate::dequeue), which look at all that a user may have: here what is in memory of each packet is found once, and what such users
//! do not have is not asked about.

use std::hint::cold_path;

use weir_table::indexed::NONE;

use crate::admit::Room;
use crate::flows::{Gone, Joining};
use crate::gates::{Gate, Gates, Loss, Place, Standing};
use crate::lines::Judgement;
use crate::offer::{Displaced, Leaving, Offer, Offered, Refused};
use crate::profile::{Profile, Profiles};
use crate::rate::{Fine, fine};
use crate::scheduler::Scheduler;
use crate::sharing::Wants;
use crate::splits::is_apart_from_flows;
use crate::state::UserState;
use crate::users::Users;

/// A user with nothing but a rate, and fair queues perhaps.
struct Plain<'a, const C: usize, const Q: usize> {
    gate: &'a Gate,
    standing: Standing,
    gates: &'a Gates,
    user: u32,
    state: &'a mut UserState<C, Q>,
    profile: &'a Profile,
}

impl<'a, const C: usize, const Q: usize> Plain<'a, C, Q> {
    /// A user, if it is such a one.
    #[inline(always)]
    fn new(users: &'a mut Users<C, Q>, profiles: &'a Profiles, user: u32) -> Option<Plain<'a, C, Q>> {
        let Users { gates, states, shares, .. } = users;
        let gate = gates.at(user);
        let standing = gate.standing();
        let profile = profiles.user(standing.profile());
        // It may have shared until just now.
        let shares = !shares.is_empty() && shares.at(user).wants != Wants::NO;
        let is = profile.plain && !shares;
        is.then(|| Plain { gate, standing, gates, user, state: states.at_mut(user), profile })
    }

    /// From when on it may send a packet of a queue, which is so long and the only one with packets.
    #[inline(always)]
    fn next(&mut self, queue: usize, length: u16, now: u64) -> Next {
        let Plain { gate, standing, gates, user, state, profile: Profile { bucket, .. } } = self;
        state.alone(queue, length);
        let (full_at, cost, moment) = (gate.full_at(), bucket.cost(length), fine(now));
        let own = bucket.due(full_at, cost);
        if own > moment {
            if !standing.is_rated() {
                gates.tally(*user).held.rated(now);
                gate.set_standing(standing.rated());
            }
            return Next::From(own);
        }
        let is_spare = bucket.due(full_at + cost, cost) <= moment;
        Next::At(2 * UserState::<C, Q>::class_of(queue) as u8 + u8::from(!is_spare))
    }
}

/// When the next packet of a user may go.
enum Next {
    /// From this time on, and not before.
    From(Fine),
    /// At once, in line with those of this rank.
    At(u8),
    /// There is none.
    Nothing,
}

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Offers a packet, if it is clear what becomes of it; else gives it back, and nothing is done.
    #[inline(always)]
    pub(crate) fn enter<P: Offered<T>>(
        &mut self,
        offer: &Offer,
        queue: usize,
        packet: P,
        now: u64,
    ) -> Result<Result<Option<Displaced<T>>, Refused>, P> {
        match (TREE, self.apart) {
            (true, _) => Err(packet),
            (false, true) => self.enter_as::<P, true>(offer, queue, packet, now),
            (false, false) => self.enter_as::<P, false>(offer, queue, packet, now),
        }
    }

    /// The same where any queue may be fair, have two lines, or be several (`APART`), or none.
    #[inline(always)]
    fn enter_as<P: Offered<T>, const APART: bool>(
        &mut self,
        offer: &Offer,
        queue: usize,
        packet: P,
        now: u64,
    ) -> Result<Result<Option<Displaced<T>>, Refused>, P> {
        let (left, minimum) = (self.slab.left(), self.setup.minimum);
        let Scheduler { users, profiles, slab, heavy, flows, .. } = self;
        let Some(mut user) = Plain::new(users, profiles, offer.user) else {
            cold_path();
            return Err(packet);
        };
        if !user.standing.is_open() {
            cold_path();
            return Err(packet);
        }
        if left == 0 && user.standing.is_idle() {
            // It holds nothing, so that its state need not be looked at.
            return self.turn_away(offer.user, 0, now).map_err(|()| packet);
        }
        let class = UserState::<C, Q>::class_of(queue);
        let most = user.profile.classes.get(class).map_or(0, |class| class.queue_size);
        let held = user.state.held;
        let Some(first) = user.state.queues.get_mut(queue) else { return Err(packet) };
        let is_first = *first == NONE;
        if is_first && !user.standing.is_idle() {
            cold_path();
            // Which of its packets goes next may not be what it was.
            return Err(packet);
        }
        let is_fair = APART && user.profile.fair >> class & 1 != 0;
        let fair = if APART { slab.fair(*first) } else { NONE };
        // What waits stays as it is until its user is looked at; of a full fair queue, the fattest flow may make room.
        let is_other = is_fair != (fair != NONE) || is_apart_from_flows(fair);
        if APART && !is_first && (is_other || is_fair && flows.packets(fair) >= most.into()) {
            return Err(packet);
        }
        // By what its user holds first: where buffers are scarce, most are, and what is in memory of its queue is not looked at.
        if !Room::is_left(held, left, minimum) {
            return self.turn_away(offer.user, held, now).map_err(|()| packet);
        }
        if !is_fair && slab.count(*first) >= most {
            self.refused(offer.user, Refused::QueueFull, now);
            return Ok(Err(Refused::QueueFull));
        }
        let hash = if is_fair { packet.flow() } else { 0 };
        let Some(item) = packet.take() else {
            cold_path();
            return Ok(Ok(None));
        };
        let back = match is_fair {
            true => flows.enter(slab, first, fair, Joining { item, length: offer.length, now, hash }),
            false => slab.push(first, item, offer.length, now),
        };
        if let Some(item) = back {
            // A node was free.
            cold_path();
            return Ok(Ok(Some(Displaced { item, loss: Loss::PushedOut })));
        }
        user.state.held = held + 1;
        heavy.change(offer.user, held, held + 1);
        if is_first {
            user.state.backlog |= 1 << queue;
            let next = user.next(queue, offer.length, now);
            self.goes_on(offer.user, next, now);
        }
        Ok(Ok(None))
    }

    /// A packet of a user who holds so many finds no room. Nothing is done where another one may make room for it.
    #[inline(never)]
    fn turn_away(&mut self, user: u32, held: u32, now: u64) -> Result<Result<Option<Displaced<T>>, Refused>, ()> {
        if self.somebody_holds_more(held) {
            return Err(());
        }
        self.users.gates.dropped(user, Loss::OverShare, now);
        if held == 0 {
            self.users.gates.tally(user).held.short(now);
        }
        Ok(Err(Refused::OverShare))
    }

    /// Sends the packet of a user who has come out of the wheel, if it may go at once, and the short way. Whether it did: else nothing is done.
    #[inline(always)]
    pub(crate) fn goes_plainly<const APART: bool>(
        &mut self,
        user: u32,
        now: u64,
        out: &mut impl FnMut(Leaving<T>),
    ) -> bool {
        if TREE {
            return false;
        }
        let moment = fine(now);
        let Scheduler { users, profiles, slab, flows, heavy, lines, port_full_at, setup, .. } = self;
        let Some(mut plain) = Plain::new(users, profiles, user) else {
            cold_path();
            return false;
        };
        let Plain { gate, standing, ref mut state, profile, .. } = plain;
        if !standing.waits_unwatched() || !state.backlog.is_power_of_two() {
            cold_path();
            return false;
        }
        let queue = u32::from(state.backlog).trailing_zeros() as usize;
        let Some(first) = state.queues.get_mut(queue) else { return false };
        let length = slab.length(*first);
        let (cost, port_cost, full_at) = (profile.bucket.cost(length), profiles.port.cost(length), gate.full_at());
        let late = profile.bucket.due(full_at, cost) > moment;
        if late || profiles.port.due(*port_full_at, port_cost) > moment {
            cold_path();
            return false;
        }
        let class = UserState::<C, Q>::class_of(queue);
        let fair = if APART { slab.fair(*first) } else { NONE };
        let is_asked = APART && profile.fair >> class & 1 != 0;
        if is_apart_from_flows(fair) || is_asked && !flows.goes_unasked(&slab.head(*first), profile, class, now) {
            return false;
        }
        let (number, bucket) = (u32::from(standing.subport()), profiles.subport(standing.subport()));
        if !bucket.is_unlimited() {
            let set = lines.subports.at_mut(number);
            if set.place == Place::Waiting || bucket.eligible_at(set.full_at, length) > moment {
                return false;
            }
            set.full_at = bucket.after(set.full_at, length, moment);
            lines.pay_guarantee(number, length, now);
        }
        let Some((item, mut next_length)) = slab.pop_first(first) else { return false };
        if fair != NONE {
            *first = flows.send(slab, *first, &Gone { fair, length, class, profile, now });
            next_length = slab.length(*first);
        }
        let emptied = *first == NONE;
        state.held -= 1;
        heavy.change(user, state.held + 1, state.held);
        *port_full_at = moment.max(*port_full_at) + port_cost;
        gate.set_full_at(full_at.max(moment) + cost);
        gate.sent(length.saturating_sub(setup.overhead));
        out(Leaving::Sent(item));
        let next = if emptied {
            state.alone_no_more(queue);
            plain.gates.tally(user).held.freed();
            gate.move_to(Place::Idle);
            Next::Nothing
        } else {
            plain.next(queue, next_length, now)
        };
        self.goes_on(user, next, now);
        true
    }

    /// Puts a user where it belongs who is in no line and not in the wheel, but stands as one who waits if it has to.
    #[inline(always)]
    fn goes_on(&mut self, user: u32, next: Next, now: u64) {
        match next {
            Next::From(time) => self.lines.wait(user, time, now),
            Next::At(rank) => self.place(user, Judgement::May(rank, Wants::NO), now),
            Next::Nothing => {}
        }
    }
}
