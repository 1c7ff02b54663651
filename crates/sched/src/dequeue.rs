//! Sending: those who may, one packet each in turn.

use weir_table::indexed::NONE;

use crate::counters::UserCounters;
use crate::manage::{Departure, Verdict};
use crate::pipe::{Pipe, Place};
use crate::profile::Profile;
use crate::rate::{Fine, fine, nanos};
use crate::scheduler::{Leaving, Scheduler, judge};

/// Users that are handled together, so that what is in memory of each comes side by side.
const BLOCK: usize = 64;

/// What became of the turn of the first user.
enum Turn {
    /// A packet of so many bytes, with overhead, was sent.
    Sent(u16),
    /// Nothing was sent; somebody else may be first now.
    Passed,
    /// The port may not send before this time.
    PortWaits(Fine),
}

/// What was sent and is not counted yet: counted together, each does not wait for the other's counters to come from memory.
struct Sent {
    all: usize,
    pending: usize,
    each: [(u32, u16); BLOCK],
}

impl Sent {
    const NONE: Sent = Sent { all: 0, pending: 0, each: [(0, 0); BLOCK] };

    #[inline(always)]
    fn add(&mut self, user: u32, bytes: u16, counters: &UserCounters) {
        self.all += 1;
        if let Some(place) = self.each.get_mut(self.pending) {
            *place = (user, bytes);
        }
        self.pending += 1;
        if self.pending == BLOCK {
            self.count(counters);
        }
    }

    fn count(&mut self, counters: &UserCounters) {
        for (user, bytes) in self.each.iter().take(self.pending) {
            counters.sent(*user, u64::from(*bytes));
        }
        self.pending = 0;
    }
}

impl<T, const C: usize, const Q: usize> Scheduler<T, C, Q> {
    /// Sends what may go at `now`, at most `room` packets, to `out`. Returns when to call again, unless packets come before:
    /// `u64::MAX` when nothing waits.
    ///
    /// The work of a call is bounded by `room`; what is left of it then is done by a call at the time returned, which is `now`.
    #[inline]
    pub fn dequeue(&mut self, now: u64, room: usize, mut out: impl FnMut(Leaving<T>)) -> u64 {
        let mut steps = 2 * room + BLOCK;
        self.wake(now, steps);
        let (mut sent, mut port_waits) = (Sent::NONE, None);
        while sent.all < room && steps > 0 && port_waits.is_none() {
            let Some((subport, class, user)) = self.lines.first() else { break };
            steps -= 1;
            match self.serve(subport, class, user, now, &mut out) {
                Turn::Sent(length) => sent.add(user, length.saturating_sub(self.overhead()), &self.counters),
                Turn::Passed => {}
                Turn::PortWaits(until) => port_waits = Some(nanos(until)),
            }
        }
        sent.count(&self.counters);
        if let Some(until) = port_waits {
            return until;
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
        for (node, user) in nodes.iter_mut().zip(users) {
            let pipe = self.pipes.at(*user);
            *node = pipe.first(pipe.backlog.trailing_zeros() as usize);
        }
        let nodes = nodes.get_mut(..users.len()).unwrap_or_default();
        nodes.iter_mut().for_each(|node| *node = self.slab.second(*node));
        self.slab.look(nodes);
    }

    #[inline(always)]
    fn serve(&mut self, subport: u32, class: u8, user: u32, now: u64, out: &mut impl FnMut(Leaving<T>)) -> Turn {
        let moment = fine(now);
        let pipe = self.pipes.at_mut(user);
        let profile = self.profiles.user(pipe.profile);
        let queue = pipe.next_queue(usize::from(class), profile, &self.slab);
        let length = self.slab.length(pipe.first(queue));
        let (port, bucket) = (self.profiles.port, self.profiles.subport(subport as u16));
        let set = self.lines.subports.at_mut(subport);
        let (port_cost, set_cost) = (port.cost(length), bucket.cost(length));
        let due = port.due(self.port_full_at, port_cost);
        if due > moment {
            return Turn::PortWaits(due);
        }
        let due = bucket.due(set.full_at, set_cost);
        if due > moment {
            self.lines.suspend(subport, due, now);
            return Turn::Passed;
        }
        let managed = profile.managed >> class & 1 != 0;
        if managed && self.departs(user, queue, now) == Verdict::Drop {
            self.drop_first(user, queue, now, out);
            return Turn::Passed;
        }
        let pipe = self.pipes.at_mut(user);
        let profile = self.profiles.user(pipe.profile);
        let Some(first) = pipe.queues.get_mut(queue) else { return Turn::Passed };
        let Some(item) = self.slab.pop_front(first) else { return Turn::Passed };
        let emptied = *first == NONE;
        self.port_full_at = self.port_full_at.max(moment) + port_cost;
        let set = self.lines.subports.at_mut(subport);
        set.full_at = set.full_at.max(moment) + set_cost;
        if let Place::Active(rank) = pipe.place {
            set.count_turn(rank);
        }
        pipe.full_at = profile.bucket.after(pipe.full_at, length, moment);
        if profile.capped >> class & 1 != 0 {
            pay_cap(pipe, profile, class, length, moment);
        }
        pipe.pay(queue, length);
        pipe.held -= 1;
        self.heavy.change(user, pipe.held + 1, pipe.held);
        out(Leaving::Sent(item));
        if emptied {
            pipe.emptied(queue);
        }
        let judgement = judge(pipe, profile, &self.slab, moment);
        self.lines.settle(user, pipe, judgement, now);
        self.lines.turn_subport(subport);
        if emptied && managed {
            self.tell_emptied(user, queue, now);
        }
        Turn::Sent(length)
    }

    /// What the management says of the first packet of a queue.
    #[cold]
    fn departs(&mut self, user: u32, queue: usize, now: u64) -> Verdict {
        let pipe = self.pipes.at(user);
        let profile = self.profiles.user(pipe.profile);
        let class = Pipe::<C, Q>::class_of(queue);
        let manage = profile.classes.get(class).and_then(|class| class.manage.as_deref());
        let state = self.states.at_mut(user).get_mut(queue);
        let (Some(manage), Some(state)) = (manage, state) else { return Verdict::Pass };
        let node = pipe.first(queue);
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
            self.counters.dropped(user);
            out(Leaving::Managed(item));
        }
        self.settle(user, now);
    }
}

/// A packet goes on account of the cap of its class.
#[cold]
fn pay_cap<const C: usize, const Q: usize>(
    pipe: &mut Pipe<C, Q>,
    profile: &Profile,
    class: u8,
    length: u16,
    now: Fine,
) {
    let class = usize::from(class);
    if let (Some(full_at), Some(class)) = (pipe.class_full_at.get_mut(class), profile.classes.get(class)) {
        *full_at = class.cap.after(*full_at, length, now);
    }
}
