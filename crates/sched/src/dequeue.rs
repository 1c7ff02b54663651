//! Sending: those who may, one packet each in turn.

use weir_table::indexed::NONE;

use crate::gates::Place;
use crate::manage::{Departure, Verdict};
use crate::profile::Profile;
use crate::rate::{Fine, fine, nanos};
use crate::scheduler::{Leaving, Scheduler, judge};
use crate::state::{Rest, UserState};
use crate::users::User;

/// Users that are handled together, so that what is in memory of each comes side by side.
const BLOCK: usize = 64;

/// What became of the turn of the first user.
enum Served {
    /// A packet was sent.
    Sent,
    /// Nothing was sent; somebody else may be first now.
    Passed,
    /// The port may not send before this time.
    PortWaits(Fine),
}

impl<T, const C: usize, const Q: usize> Scheduler<T, C, Q> {
    /// Sends what may go at `now`, at most `room` packets, to `out`. Returns when to call again, unless packets come before:
    /// `u64::MAX` when nothing waits.
    ///
    /// The work of a call is bounded by `room`; what is left of it then is done by a call at the time returned, which is `now`.
    #[inline]
    pub fn dequeue(&mut self, now: u64, room: usize, mut out: impl FnMut(Leaving<T>)) -> u64 {
        if self.held() == 0 && self.lines.wheel.is_empty() {
            return u64::MAX;
        }
        let mut steps = 2 * room + BLOCK;
        self.wake(now, steps);
        let mut sent = 0;
        while sent < room && steps > 0 {
            let Some((subport, class, user)) = self.lines.first() else { break };
            steps -= 1;
            match self.serve(subport, class, user, now, &mut out) {
                Served::Sent => sent += 1,
                Served::Passed => {}
                Served::PortWaits(until) => return nanos(until),
            }
        }
        match self.lines.wheel.next() {
            _ if self.held() == 0 => u64::MAX,
            Some(due) if self.lines.is_empty() => due,
            _ => now,
        }
    }

    /// Takes those out of the wheel whose time has come.
    #[inline]
    fn wake(&mut self, now: u64, most: usize) {
        for _ in 0..most.div_ceil(BLOCK) {
            if self.lines.wheel.is_empty() {
                break;
            }
            let mut due = [0; BLOCK];
            let mut count = 0;
            let left = self.lines.wheel.advance(now, BLOCK, |id| {
                if let Some(place) = due.get_mut(count) {
                    *place = id;
                    count += 1;
                }
            });
            let due = due.get(..count).unwrap_or_default();
            self.bring_near(due);
            for id in due {
                self.awake(*id, now);
            }
            if left > 0 {
                break;
            }
        }
    }

    /// Looks at what will be needed of users: the state of all, then the first packet of each, then the one behind it.
    #[inline]
    fn bring_near(&self, users: &[u32]) {
        let mut nodes = [NONE; BLOCK];
        let mut times: Fine = 0;
        for (node, user) in nodes.iter_mut().zip(users) {
            let state = self.users.states.at(*user);
            *node = state.first(state.backlog.trailing_zeros() as usize);
            times = times.wrapping_add(self.users.gates.at(*user).full_at());
        }
        std::hint::black_box(times);
        let nodes = nodes.get_mut(..users.len()).unwrap_or_default();
        nodes.iter_mut().for_each(|node| *node = self.slab.second(*node));
        self.slab.look(nodes);
    }

    #[inline(always)]
    fn serve(&mut self, subport: u32, class: u8, user: u32, now: u64, out: &mut impl FnMut(Leaving<T>)) -> Served {
        let moment = fine(now);
        let User { gate, state, rest } = self.users.at_mut(user);
        let standing = gate.standing();
        let profile = self.profiles.user(standing.profile());
        let queue = state.next_queue(rest, usize::from(class), profile, &self.slab);
        let length = self.slab.length(state.first(queue));
        let (port, bucket) = (self.profiles.port, self.profiles.subport(subport as u16));
        let set = self.lines.subports.at_mut(subport);
        let (port_cost, set_cost) = (port.cost(length), bucket.cost(length));
        let due = port.due(self.port_full_at, port_cost);
        if due > moment {
            return Served::PortWaits(due);
        }
        let due = bucket.due(set.full_at, set_cost);
        if due > moment {
            self.lines.suspend(subport, due, now);
            return Served::Passed;
        }
        let managed = profile.managed >> class & 1 != 0;
        if managed && self.departs(user, queue, now) == Verdict::Drop {
            self.drop_first(user, queue, now, out);
            return Served::Passed;
        }
        let User { gate, state, rest } = self.users.at_mut(user);
        let profile = self.profiles.user(standing.profile());
        let Some(first) = state.queues.get_mut(queue) else { return Served::Passed };
        let Some(item) = self.slab.pop_front(first) else { return Served::Passed };
        let emptied = *first == NONE;
        self.port_full_at = self.port_full_at.max(moment) + port_cost;
        let set = self.lines.subports.at_mut(subport);
        set.full_at = set.full_at.max(moment) + set_cost;
        if let Place::Active(rank) = standing.place() {
            set.count_turn(rank);
        }
        gate.set_full_at(profile.bucket.after(gate.full_at(), length, moment));
        gate.sent(length.saturating_sub(self.setup.overhead));
        if profile.capped >> class & 1 != 0 {
            pay_cap(rest, profile, class, length, moment);
        }
        state.pay(queue, length);
        state.held -= 1;
        self.heavy.change(user, state.held + 1, state.held);
        out(Leaving::Sent(item));
        if emptied {
            state.emptied(queue);
        }
        let judgement = judge(gate, state, rest, profile, &self.slab, moment);
        self.lines.settle(user, gate, judgement, now);
        self.lines.turn_subport(subport);
        if emptied && managed {
            self.tell_emptied(user, queue, now);
        }
        Served::Sent
    }

    /// What the management says of the first packet of a queue.
    #[cold]
    fn departs(&mut self, user: u32, queue: usize, now: u64) -> Verdict {
        let user_state = self.users.states.at(user);
        let profile = self.profiles.user(self.users.gates.at(user).standing().profile());
        let class = UserState::<C, Q>::class_of(queue);
        let manage = profile.classes.get(class).and_then(|class| class.manage.as_deref());
        let state = self.states.at_mut(user).get_mut(queue);
        let (Some(manage), Some(state)) = (manage, state) else { return Verdict::Pass };
        let node = user_state.first(queue);
        let departure = Departure {
            now,
            sojourn: now.saturating_sub(self.slab.since(node)),
            behind: u32::from(self.slab.count(node).saturating_sub(1)),
            bytes: u32::from(self.slab.length(node)),
        };
        manage.depart(state, &departure)
    }

    #[cold]
    fn drop_first(&mut self, user: u32, queue: usize, now: u64, out: &mut impl FnMut(Leaving<T>)) {
        if let Some(item) = self.pop(user, queue, now) {
            self.users.gates.dropped(user);
            out(Leaving::Managed(item));
        }
        self.settle(user, now);
    }
}

/// A packet goes on account of the cap of its class.
#[cold]
pub(crate) fn pay_cap<const C: usize>(rest: &mut Rest<C>, profile: &Profile, class: u8, length: u16, now: Fine) {
    let class = usize::from(class);
    if let (Some(full_at), Some(class)) = (rest.class_full_at.get_mut(class), profile.classes.get(class)) {
        *full_at = class.cap.after(*full_at, length, now);
    }
}
