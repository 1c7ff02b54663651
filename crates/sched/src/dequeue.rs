//! Sending: those who may, one packet each in turn.

use crate::manage::{Departure, Verdict};
use crate::pipe::{Pipe, Place};
use crate::rate::{Fine, fine, nanos};
use crate::scheduler::{Leaving, Scheduler};

/// Numbers that are taken out of the wheel at once.
const WAKE: usize = 64;

/// What became of the turn of the first user.
enum Turn {
    Sent,
    /// Nothing was sent; somebody else may be first now.
    Passed,
    /// The port may not send before this time.
    PortWaits(Fine),
}

/// Who is first.
#[derive(Clone, Copy)]
struct First {
    class: u8,
    subport: u32,
    user: u32,
}

impl<T, const C: usize, const Q: usize> Scheduler<T, C, Q> {
    /// Sends what may go at `now`, at most `room` packets, to `out`. Returns when to call again, unless packets come before:
    /// `u64::MAX` when nothing waits.
    ///
    /// The work of a call is bounded by `room`; what is left of it then is done by a call at the time returned, which is `now`.
    #[inline]
    pub fn dequeue(&mut self, now: u64, room: usize, mut out: impl FnMut(Leaving<T>)) -> u64 {
        let mut steps = 2 * room + WAKE;
        self.wake(now, steps);
        let mut sent = 0;
        while sent < room && steps > 0 {
            let Some(first) = self.first() else { break };
            steps -= 1;
            match self.serve(first, now, &mut out) {
                Turn::Sent => sent += 1,
                Turn::Passed => {}
                Turn::PortWaits(until) => return nanos(until),
            }
        }
        match self.wheel.next() {
            _ if self.held() == 0 => u64::MAX,
            Some(due) if self.port.ranks == 0 => due,
            _ => now,
        }
    }

    /// Takes those out of the wheel whose time has come.
    #[inline]
    fn wake(&mut self, now: u64, most: usize) {
        for _ in 0..most.div_ceil(WAKE) {
            let mut due = [0; WAKE];
            let mut count = 0;
            let (wheel, pipes) = (&mut self.wheel, &self.pipes);
            let left = wheel.advance(now, WAKE, |id| {
                pipes.prefetch(id);
                if let Some(place) = due.get_mut(count) {
                    *place = id;
                    count += 1;
                }
            });
            let due = due.iter().take(count);
            for id in due.clone() {
                let pipe = self.pipes.at(*id);
                self.slab.prefetch(pipe.first(pipe.backlog.trailing_zeros() as usize));
            }
            for id in due {
                self.awake(*id, now);
            }
            if left > 0 {
                break;
            }
        }
    }

    #[inline(always)]
    fn first(&self) -> Option<First> {
        let subport = self.port.lists.get(self.port.ranks.trailing_zeros() as usize)?.first();
        let (class, user) = self.subports.at(subport).first()?;
        Some(First { class, subport, user })
    }

    #[inline(always)]
    fn serve(&mut self, first: First, now: u64, out: &mut impl FnMut(Leaving<T>)) -> Turn {
        let First { class, subport, user } = first;
        let moment = fine(now);
        let pipe = self.pipes.at_mut(user);
        let profile = self.profiles.user(pipe.profile);
        let queue = pipe.next_queue(usize::from(class), profile, &self.slab);
        let length = self.slab.length(pipe.first(queue));
        let due = self.profiles.port.eligible_at(self.port_full_at, length);
        if due > moment {
            return Turn::PortWaits(due);
        }
        let bucket = self.profiles.subport(subport as u16);
        let set = self.subports.at_mut(subport);
        let due = bucket.eligible_at(set.full_at, length);
        if due > moment {
            self.suspend(subport, due, now);
            return Turn::Passed;
        }
        if profile.managed >> class & 1 != 0 && self.departs(first, queue, now) == Verdict::Drop {
            self.drop_first(user, queue, now, out);
            return Turn::Passed;
        }
        let pipe = self.pipes.at_mut(user);
        let profile = self.profiles.user(pipe.profile);
        let set = self.subports.at_mut(subport);
        self.port_full_at = self.profiles.port.after(self.port_full_at, length, moment);
        set.full_at = bucket.after(set.full_at, length, moment);
        if let Place::Active(rank) = pipe.place {
            set.count_turn(rank);
        }
        pipe.full_at = profile.bucket.after(pipe.full_at, length, moment);
        if profile.capped >> class & 1 != 0
            && let Some(full_at) = pipe.class_full_at.get_mut(usize::from(class))
            && let Some(class) = profile.classes.get(usize::from(class))
        {
            *full_at = class.cap.after(*full_at, length, moment);
        }
        pipe.pay(queue, length);
        let Some(gone) = self.pop(user, queue, now) else { return Turn::Passed };
        self.counters.sent(user, u64::from(gone.length.saturating_sub(self.overhead())));
        out(Leaving::Sent(gone.item));
        self.settle(user, now);
        self.turn_subport(subport);
        Turn::Sent
    }

    /// What the management says of the first packet of a queue.
    #[cold]
    fn departs(&mut self, first: First, queue: usize, now: u64) -> Verdict {
        let pipe = self.pipes.at(first.user);
        let profile = self.profiles.user(pipe.profile);
        let class = Pipe::<C, Q>::class_of(queue);
        let manage = profile.classes.get(class).and_then(|class| class.manage.as_deref());
        let state = self.states.at_mut(first.user).get_mut(queue);
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
        if let Some(gone) = self.pop(user, queue, now) {
            self.counters.dropped(user);
            out(Leaving::Managed(gone.item));
        }
        self.settle(user, now);
    }
}
