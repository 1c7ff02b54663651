//! Sending: those who may, one packet each in turn.

use weir_table::indexed::NONE;

use crate::aside::Stood;
use crate::dual::is_dual;
use crate::flows::Gone;
use crate::gates::{Gates, Loss, Place};
use crate::inside::Inside;
use crate::judge::{Next, ceil_at, judge, next_packet, pay_ceil, pay_floor};
use crate::lines::Judgement;
use crate::manage::lets_go;
use crate::profile::Profile;
use crate::rate::{Fine, fine, nanos};
use crate::scheduler::{Leaving, Scheduler};
use crate::sharing::{Turn, Wants};
use crate::slab::Slab;
use crate::splits::{is_apart_from_flows, is_split};
use crate::state::{Rest, UserState};
use crate::users::User;
use crate::watch::Fate;

/// Users that are handled together, so that what is in memory of each comes side by side.
const BLOCK: usize = 64;

/// What became of the turn of the first user.
pub(crate) enum Served {
    /// A packet was sent.
    Sent,
    /// Nothing was sent; somebody else may be first now.
    Passed,
    /// The port may not send before this time.
    PortWaits(Fine),
}

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Sends what may go at `now`, at most `room` packets, to `out`. Returns when to call again, unless packets come before:
    /// `u64::MAX` when nothing waits.
    ///
    /// The work of a call is bounded by `room`; what is left of it then is done by a call at the time returned, which is `now`.
    #[inline]
    pub fn dequeue(&mut self, now: u64, room: usize, mut out: impl FnMut(Leaving<T>)) -> u64 {
        if self.held() == 0 && self.lines.wheel.is_empty() {
            return u64::MAX;
        }
        let mut sent = match self.apart {
            false => self.wake::<false>(now, room, &mut out),
            true => self.wake::<true>(now, room, &mut out),
        };
        // Turns of a round in which nobody sends are steps, too.
        let mut steps = 8 * (room + BLOCK);
        while sent < room && steps > 0 {
            steps -= 1;
            let served = match (self.lines.first(), self.lines.wanting.first()) {
                (Some((subport, class, user)), _) => self.serve(subport, class, user, now, &mut out),
                (None, Some(turn)) => self.share(turn, now, &mut out),
                (None, None) => break,
            };
            match served {
                Served::Sent => sent += 1,
                Served::Passed => {}
                Served::PortWaits(until) => return nanos(until),
            }
        }
        self.look_ahead();
        match self.lines.wheel.next() {
            _ if self.held() == 0 => u64::MAX,
            Some(due) if self.lines.is_empty() => due,
            _ => now,
        }
    }

    /// Takes those out of the wheel whose time has come. As long as nobody stands in line and there is room, who comes out goes at once; others
    /// get in line. Returns how many packets were sent. `APART`: any queue may be fair, have two lines, or be several.
    #[inline(never)]
    fn wake<const APART: bool>(&mut self, now: u64, room: usize, out: &mut impl FnMut(Leaving<T>)) -> usize {
        let mut sent = 0;
        for _ in 0..(2 * room + BLOCK).div_ceil(BLOCK) {
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
                let may = sent < room && self.lines.is_empty();
                if may && self.goes_plainly::<APART>(*id, now, out) {
                    sent += 1;
                    continue;
                }
                match if may { self.goes_at_once(*id, now, out) } else { None } {
                    Some(goes) => sent += usize::from(goes),
                    None => self.awake(*id, now),
                }
            }
            if left > 0 {
                break;
            }
        }
        sent
    }

    /// Sends the packet of a user who has come out of the wheel, if it may go and the user does not share; or drops it, if its management wants that.
    /// Whether it is sent; `None` where nothing is done.
    #[inline(never)]
    fn goes_at_once(&mut self, user: u32, now: u64, out: &mut impl FnMut(Leaving<T>)) -> Option<bool> {
        let moment = fine(now);
        let User { gate, state, rest, share, floors, .. } = self.users.at_mut(user);
        let standing = gate.standing();
        let profile = self.profiles.user(standing.profile());
        let judgement = judge(gate, state, rest, (share, floors), profile, &self.slab, moment);
        let Judgement::May(rank, Wants::NO) = judgement else { return None };
        let class = rank / 2;
        let asked = profile.asked >> class & 1 != 0;
        let queue = state.next_queue(rest, usize::from(class), profile, &self.slab);
        let length = self.slab.length(state.first(queue));
        let (port_cost, number) = (self.profiles.port.cost(length), standing.subport());
        if self.profiles.port.due(self.port_full_at, port_cost) > moment {
            return None;
        }
        let bucket = self.profiles.subport(number);
        let bounded = TREE || !bucket.is_unlimited();
        if bounded && self.subport_waits(number, length, moment) {
            return None;
        }
        if asked && !self.may_go(user, Next { class, queue, length }, Stood::Line, now, out) {
            return Some(false);
        }
        if TREE {
            self.pay_levels(number.into(), length, moment);
            self.lines.pay_guarantees(number.into(), length, now);
        } else if bounded {
            let set = self.lines.subports.at_mut(number.into());
            set.full_at = bucket.after(set.full_at, length, moment);
            self.lines.pay_guarantee(number.into(), length, now);
        }
        self.port_full_at = self.port_full_at.max(moment) + port_cost;
        let (judgement, emptied) = self.send_first(user, Next { class, queue, length }, true, now, out)?;
        if let Judgement::From(at, Wants::NO, _) = judgement {
            // It stands as one who waits already, whatever for.
            self.users.gates.at(user).move_to(Place::Waiting);
            self.users.gates.tally(user).held.judged(&judgement, now);
            self.lines.wait(user, at, now);
        } else {
            self.place(user, judgement, now);
        }
        if emptied && asked {
            self.tell_emptied(user, queue, now);
        }
        Some(true)
    }

    /// A subport has to wait for what it may send.
    #[cold]
    pub(crate) fn suspend(&mut self, subport: u32, until: Fine, now: u64) {
        self.users.gates.subport(subport).suspended(true, now);
        self.lines.suspend(subport, until, now);
        self.claim_above(subport, u8::MAX);
    }

    #[inline(always)]
    pub(crate) fn place(&mut self, user: u32, judgement: Judgement, now: u64) {
        let User { gate, tally, share, .. } = self.users.at_mut(user);
        tally.held.judged(&judgement, now);
        if self.lines.settle(user, gate, share, judgement, now) {
            self.claim(user);
        }
    }

    /// Gives a user whose turn it is a packet's worth of what is left, if it has saved up enough for it.
    fn share(&mut self, turn: Turn, now: u64, out: &mut impl FnMut(Leaving<T>)) -> Served {
        let (moment, Turn { subport, user, .. }) = (fine(now), turn);
        let lender = if TREE { self.lines.wanting.lender() } else { NONE };
        self.ask_for_user(self.lines.wanting.behind(user));
        let User { gate, state, rest, share, floors, .. } = self.users.at_mut(user);
        let profile = self.profiles.user(gate.standing().profile());
        let next = next_packet(state, rest, floors, profile, &self.slab, moment)
            .filter(|next| ceil_at(share, profile, next.length) <= moment);
        let (Some(Next { class, queue, length }), Some(sharing)) = (next, profile.sharing) else {
            // It has another profile since it came to stand here.
            self.settle(user, now);
            return Served::Passed;
        };
        let asked = profile.asked >> class & 1 != 0;
        if !self.lines.wanting.affords(turn, lender, share, sharing.quantum, length) {
            return Served::Passed;
        }
        let (port_cost, bucket) = (self.profiles.port.cost(length), self.profiles.subport(subport as u16));
        let due = self.profiles.port.due(self.port_full_at, port_cost);
        if due > moment {
            return Served::PortWaits(due);
        }
        let set = self.lines.subports.at_mut(subport);
        let due = bucket.eligible_at(set.full_at, length);
        if TREE {
            if let Some((full, due)) = self.full_level(subport, length, moment) {
                self.suspend(full, due, now);
                return Served::Passed;
            }
        } else if due > moment {
            self.suspend(subport, due, now);
            return Served::Passed;
        }
        if asked {
            if self.profiles.promised
                && let Some(claimant) = self.claimant(subport, lender, class, Stood::Ring, now)
            {
                return self.share_claimed(claimant, turn.lent, lender, now, out);
            }
            if !self.may_go(user, Next { class, queue, length }, Stood::Ring, now, out) {
                return Served::Passed;
            }
        }
        self.port_full_at = self.port_full_at.max(moment) + port_cost;
        if TREE {
            self.pay_levels(subport, length, moment);
        } else {
            let set = self.lines.subports.at_mut(subport);
            set.full_at = bucket.after(set.full_at, length, moment);
        }
        self.lines.wanting.sent(turn, lender, self.users.at_mut(user).share, length);
        self.give(turn, lender, Next { class, queue, length }, asked, now, out)
    }

    /// A user sends of what is left, for which all levels have paid.
    #[inline(always)]
    pub(crate) fn give(
        &mut self,
        turn: Turn,
        lender: u32,
        next: Next,
        asked: bool,
        now: u64,
        out: &mut impl FnMut(Leaving<T>),
    ) -> Served {
        let (Turn { subport, user, lent }, Next { queue, length, .. }) = (turn, next);
        let Some((judgement, emptied)) = self.send_first(user, next, false, now, out) else {
            return Served::Passed;
        };
        self.place(user, judgement, now);
        if lent && TREE {
            self.lines.pay_guarantees(lender, length, now);
        } else if lent {
            self.lines.pay_guarantee(subport, length, now);
        }
        if emptied && asked {
            self.tell_emptied(user, queue, now);
        }
        Served::Sent
    }

    /// Sends the first packet of a queue, of what its user is guaranteed or of what is left. Says what its user may do then, and whether the queue is empty.
    #[inline(always)]
    pub(crate) fn send_first(
        &mut self,
        user: u32,
        next: Next,
        guaranteed: bool,
        now: u64,
        out: &mut impl FnMut(Leaving<T>),
    ) -> Option<(Judgement, bool)> {
        let (moment, Next { class, queue, length }) = (fine(now), next);
        let User { gate, state, rest, share, floors, .. } = self.users.at_mut(user);
        let profile = self.profiles.user(gate.standing().profile());
        let watched = gate.standing().is_watched();
        let first = state.queues.get_mut(queue)?;
        let since = if watched { self.slab.since(*first) } else { now };
        let fair = self.slab.fair(*first);
        let item = self.slab.pop_front(first)?;
        if fair != NONE {
            let gone = Gone { fair, length, class: usize::from(class), profile, now };
            *first = match is_apart_from_flows(fair) {
                false => self.flows.sent(&mut self.slab, *first, &gone),
                true if is_split(fair) => {
                    let mut inside = Inside { flows: &mut self.flows, duals: &mut self.duals };
                    self.splits.left(&mut self.slab, &mut inside, *first, &gone, (user, true))
                }
                true => self.duals.sent(&mut self.slab, (fair, *first), length, profile.coupling(class.into())),
            };
        }
        let emptied = *first == NONE;
        if guaranteed {
            gate.set_full_at(profile.bucket.after(gate.full_at(), length, moment));
        }
        pay_ceil(share, profile, length, moment);
        let bytes = length.saturating_sub(self.setup.overhead);
        gate.sent(bytes);
        if profile.counted >> class & 1 != 0 {
            pay_floor(floors, profile, class.into(), length, moment);
            pay_cap(rest, profile, class, length, moment);
            let mut covered = false;
            for at in self.lines.path(gate.standing().subport().into()) {
                self.crowds.pay(self.profiles.class(at as u16, class), at as u16, class, length, moment);
                let promise = self.profiles.promise(at as u16, class);
                covered = self.promises.pay(promise, (at, class), length, covered, moment);
            }
            state.used(class);
        }
        state.pay(queue, length);
        state.held -= 1;
        self.heavy.change(user, state.held + 1, state.held);
        out(Leaving::Sent(item));
        if emptied {
            state.emptied(queue);
        }
        let judgement = judge(gate, state, rest, (share, floors), profile, &self.slab, moment);
        if watched {
            self.users.gates.note(user, Fate::Sent(bytes, now.saturating_sub(since)), now);
        }
        Some((judgement, emptied))
    }

    #[inline(always)]
    fn serve(&mut self, subport: u32, class: u8, user: u32, now: u64, out: &mut impl FnMut(Leaving<T>)) -> Served {
        let moment = fine(now);
        let User { gate, state, rest, .. } = self.users.at_mut(user);
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
        if TREE {
            if let Some((full, due)) = self.full_level(subport, length, moment) {
                self.suspend(full, due, now);
                return Served::Passed;
            }
        } else if due > moment {
            self.suspend(subport, due, now);
            return Served::Passed;
        }
        let asked = profile.asked >> class & 1 != 0;
        if asked {
            if self.profiles.promised
                && let Some(claimant) = self.claimant(subport, NONE, class, Stood::Line, now)
            {
                return self.serve_claimed(claimant, now, out);
            }
            if !self.may_go(user, Next { class, queue, length }, Stood::Line, now, out) {
                return Served::Passed;
            }
        }
        self.port_full_at = self.port_full_at.max(moment) + port_cost;
        if TREE {
            self.pay_levels(subport, length, moment);
            self.lines.count_turns(subport, standing.place());
            self.lines.pay_guarantees(subport, length, now);
        } else {
            let set = self.lines.subports.at_mut(subport);
            set.full_at = set.full_at.max(moment) + set_cost;
            if let Place::Active(rank) = standing.place() {
                set.count_turn(rank);
            }
            self.lines.pay_guarantee(subport, length, now);
        }
        let Some((judgement, emptied)) = self.send_first(user, Next { class, queue, length }, true, now, out) else {
            return Served::Passed;
        };
        self.place(user, judgement, now);
        self.lines.turn_subport(subport);
        if emptied && asked {
            self.tell_emptied(user, queue, now);
        }
        Served::Sent
    }

    /// Whether the packet of a user whose turn it is goes, as far as the rate of its class of the subport and its management say. Where not, the user
    /// stands elsewhere.
    #[inline(always)]
    pub(crate) fn may_go(
        &mut self,
        user: u32,
        next: Next,
        stood: Stood,
        now: u64,
        out: &mut impl FnMut(Leaving<T>),
    ) -> bool {
        if self.profiles.limited >> next.class & 1 != 0 && !self.class_lets_go(user, next, stood, now) {
            return false;
        }
        let goes = self.departs(user, next.queue, now);
        if !goes {
            self.drop_first(user, next.queue, now, out);
        }
        goes
    }

    /// Whether the management lets the first packet of a queue go, with a mark perhaps; else it is to be dropped.
    #[inline]
    fn departs(&mut self, user: u32, queue: usize, now: u64) -> bool {
        let user_state = self.users.states.at(user);
        let profile = self.profiles.user(self.users.gates.at(user).standing().profile());
        let class = UserState::<C, Q>::class_of(queue);
        let (manage, node) = (profile.manage(class), user_state.first(queue));
        let head = self.slab.head(node);
        if is_apart_from_flows(head.fair) {
            return match is_split(head.fair) {
                true => self.goes_of_split(user, class, &head, now),
                false => self.goes(user, (class, queue), &head, None, now),
            };
        }
        let Some(manage) = manage else { return true };
        let departure = head.departure(now);
        let state = if head.fair != NONE {
            self.flows.heeded(head.fair, manage, &departure)
        } else if (profile.fair | profile.split) >> class & 1 != 0 {
            // It becomes so when its user is looked at.
            return true;
        } else {
            self.states.at_mut(user).get_mut(queue)
        };
        let Some(state) = state else { return true };
        let mark = || mark_first(&mut self.slab, self.marker, &self.users.gates, (user, class, node), now);
        lets_go(manage, state, &departure, mark)
    }

    #[cold]
    fn drop_first(&mut self, user: u32, queue: usize, now: u64, out: &mut impl FnMut(Leaving<T>)) {
        let fair = self.slab.fair(self.users.states.at(user).first(queue));
        let is_coupled = is_dual(if is_split(fair) { self.splits.chosen(fair).1 } else { fair });
        if let Some(item) = self.pop(user, queue, now) {
            self.users.gates.dropped(user, if is_coupled { Loss::L4s } else { Loss::Codel }, now);
            out(if is_coupled { Leaving::Coupled(item) } else { Leaving::Managed(item) });
        }
        self.settle(user, now);
    }
}

/// A packet goes on account of the cap of its class.
#[cold]
pub(crate) fn pay_cap<const C: usize>(rest: &mut Rest<C>, profile: &Profile, class: u8, length: u16, now: Fine) {
    let class = usize::from(class);
    if let (Some(full_at), Some(class)) = (rest.class_full_at.get_mut(class), profile.classes.get(class)) {
        // It may be the subport's alone. Since when a bucket is full matters to frames that are larger.
        if !class.cap.is_unlimited() {
            *full_at = class.cap.after(*full_at, length, now);
        }
    }
}

/// Marks a user's packet that is the first of its queue, if it can be marked, and counts that.
#[inline]
pub(crate) fn mark_first<T>(
    slab: &mut Slab<T>,
    marker: fn(&mut T) -> bool,
    gates: &Gates,
    (user, class, node): (u32, usize, u32),
    now: u64,
) -> bool {
    let is_marked = slab.first_mut(node).is_some_and(marker);
    if is_marked {
        gates.marked(user, class, now);
    }
    is_marked
}
