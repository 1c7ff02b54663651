//! Whether a packet may wait, and whether it goes at once.

use weir_sched::gates::Loss;
use weir_sched::manage::Arrival;
use weir_sched::rate::fine;
use weir_sched::scheduler::{Displaced, Offer, Refused};

use super::Model;
use super::parts::{Id, LOWEST, QUEUES, Waiting, class_of, ecn};

impl Model {
    /// The user who holds most, more than its minimum; of several the one who has for longest.
    fn heaviest(&self) -> Option<usize> {
        let heavy = (0..self.users.len()).filter(|n| self.users[*n].held() > self.minimum);
        heavy.max_by_key(|n| (self.users[*n].held(), u64::MAX - self.users[*n].since))
    }

    pub(crate) fn enqueue(
        &mut self,
        offer: Offer,
        now: u64,
        mut item: u32,
        flow: u32,
    ) -> Result<Option<Displaced<u32>>, Refused> {
        let (class, queue) = (offer.class.class() as usize, offer.class.queue() as usize);
        let queue = match class < LOWEST {
            true => class,
            false => LOWEST + queue,
        };
        let at = offer.user as usize;
        let user = self.users.get(at).filter(|user| user.open).ok_or(Refused::NoSuchUser)?;
        let rules = self.profiles[user.profile].classes[class_of(queue)].clone();
        let part = rules.part_of(offer.class.queue().into());
        let is_split =
            if user.queues[queue].is_empty() { rules.weights.len() > 1 } else { user.split[queue].is_some() };
        let queued = if is_split { user.in_part(queue, part) } else { user.queues[queue].len() };
        let is_empty = user.queues[queue].is_empty();
        let is_fair = if is_empty { rules.fair } else { user.fair[queue].is_some() };
        let low = ecn(item) == 1;
        let waiting =
            Waiting { item, length: offer.length, since: now, flow: if is_fair { flow % 1024 } else { 0 }, low, part };
        let (left, held) = (self.buffers - self.held(), user.held());
        let makes_room = left == 0 || held >= self.minimum && held - self.minimum >= left;
        let over_share = makes_room && self.heaviest().is_none_or(|heaviest| self.users[heaviest].held() <= held + 1);
        if over_share && !is_fair {
            self.short(at, now);
            return Err(Refused::OverShare);
        }
        if queued >= rules.queue_size {
            // A fat flow makes room, in a fair queue.
            let lost = self.users[at].lose(queue, &mut self.steps).ok_or(Refused::QueueFull)?;
            self.changed(at, queue, now);
            self.join(at, queue, waiting, now);
            return Ok(Some(Displaced { item: lost.item, loss: Loss::QueueFull }));
        }
        if over_share {
            self.short(at, now);
            return Err(Refused::OverShare);
        }
        if let Some(manage) = rules.manage.as_ref().filter(|_| !is_fair) {
            let arrival = Arrival { now, queued: queued as u32, bytes: offer.length.into(), colour: 0, random: 0 };
            let verdict = manage.arrive(self.users[at].coming(&rules.weights, queue, part), &arrival);
            if !self.users[at].lets_in(verdict, (&**manage, queue), (&rules.weights, part), &mut item, now) {
                return Err(Refused::Managed);
            }
        }
        let mut pushed_out = None;
        if makes_room {
            let heaviest = self.heaviest().unwrap();
            let lowest = (0..QUEUES).rfind(|q| !self.users[heaviest].queues[*q].is_empty()).unwrap();
            pushed_out = Some(Displaced { item: self.push_out(heaviest, lowest, now), loss: Loss::PushedOut });
        }
        self.join(at, queue, Waiting { item, ..waiting }, now);
        Ok(pushed_out)
    }

    /// A packet of a user finds no buffer.
    fn short(&mut self, at: usize, now: u64) {
        if self.users[at].held() == 0 {
            self.users[at].history.short(now);
        }
    }

    /// The last packet of a queue makes room, or one of a fat flow, or that which is chosen.
    fn push_out(&mut self, at: usize, queue: usize, now: u64) -> u32 {
        let manage = self.profiles[self.users[at].profile].classes[class_of(queue)].manage.clone();
        let user = &mut self.users[at];
        let first = user.queues[queue][0].item;
        let lost = match &user.fair[queue] {
            None if user.dual[queue].is_some() => match user.lose_from_line(queue) {
                Some(lost) => lost,
                None => self.take_from_line(at, queue, false),
            },
            None if user.split[queue].is_some() => match self.lose_from_part(at, queue, now) {
                Some(lost) => lost,
                None => self.take_from_part(at, queue, false, now),
            },
            None => user.queues[queue].pop_back().unwrap(),
            Some(_) => match user.lose(queue, &mut self.steps) {
                Some(lost) => lost,
                None => user.take(queue, false, manage.as_deref(), &mut self.steps, now),
            },
        };
        self.changed(at, queue, now);
        if self.users[at].queues[queue].front().map(|waiting| waiting.item) != Some(first) {
            self.settle(at, now);
        }
        lost.item
    }

    /// A packet comes to wait.
    fn join(&mut self, at: usize, queue: usize, waiting: Waiting, now: u64) {
        let mut joins = self.users[at].queues[queue].is_empty();
        let class = class_of(queue);
        let rules = &self.profiles[self.users[at].profile].classes[class];
        if if joins { rules.dual.is_some() } else { self.users[at].dual[queue].is_some() } {
            joins |= self.join_line(at, queue, waiting);
        } else if if joins {
            self.profiles[self.users[at].profile].classes[class].fair
        } else {
            self.users[at].fair[queue].is_some()
        } {
            self.join_flow(at, queue, waiting);
        } else if if joins { rules.weights.len() > 1 } else { self.users[at].split[queue].is_some() } {
            self.join_part(at, queue, waiting);
        } else {
            self.users[at].queues[queue].push_back(waiting);
        }
        self.steps += 1;
        self.users[at].since = self.steps;
        let may = self.line.iter().find(|(id, ..)| *id == Id::User(at)).map(|(_, class, _)| *class);
        if joins && may.is_none_or(|may| class < may) {
            self.settle(at, now);
        }
    }

    /// Whether a packet goes at once: it would be sent first if it were taken.
    pub(crate) fn pass(&mut self, offer: Offer, now: u64, mut item: u32) -> Result<bool, Refused> {
        let (at, class, length) = (offer.user as usize, (offer.class.class() as usize).min(LOWEST), offer.length);
        let queue = if class < LOWEST { class } else { LOWEST + offer.class.queue() as usize };
        let Some(user) = self.users.get(at).filter(|user| user.open && user.held() == 0) else { return Ok(false) };
        let subport = user.subport;
        if self.somebody_in_line() || self.path(subport).into_iter().any(|at| self.subport_waits(at)) {
            return Ok(false);
        }
        let profile = self.profiles[user.profile].clone();
        let cap = profile.classes[class].cap;
        let mut due = self.levels_due(subport, length);
        due.extend([
            profile.bucket.eligible_at(user.full_at, length),
            profile.sharing.map_or(0, |(ceil, _)| ceil.eligible_at(user.ceil_full_at, length)),
            cap.eligible_at(user.class_full_at[class], length),
            self.port.eligible_at(self.port_full_at, length),
        ]);
        if due.into_iter().any(|due| due > fine(now)) || !self.class_lets_pass(subport, class, length, now) {
            return Ok(false);
        }
        let user = &mut self.users[at];
        if let Some(dual) = &profile.classes[class].dual
            && !dual.rests(&mut user.states[queue], now)
        {
            return Ok(false);
        }
        if let Some(manage) = profile.classes[class].manage.as_ref().filter(|_| !profile.classes[class].fair) {
            let arrival = Arrival { now, queued: 0, bytes: length.into(), colour: 0, random: 0 };
            let weights = &profile.classes[class].weights;
            let part = profile.classes[class].part_of(offer.class.queue().into());
            let verdict = manage.arrive(user.coming(weights, queue, part), &arrival);
            if !user.lets_in(verdict, (&**manage, queue), (weights, part), &mut item, now) {
                return Err(Refused::Managed);
            }
            manage.emptied(user.coming(weights, queue, part), now);
        }
        user.full_at = profile.bucket.after(user.full_at, length, fine(now));
        if let Some((ceil, _)) = profile.sharing {
            user.ceil_full_at = ceil.after(user.ceil_full_at, length, fine(now));
        }
        if !cap.is_unlimited() {
            user.class_full_at[class] = cap.after(user.class_full_at[class], length, fine(now));
        }
        user.sent += 1;
        self.pay_class(at, class, length, now);
        self.pay_floor(at, class, length, now);
        self.pay_levels(subport, length, Some(subport), now);
        self.port_full_at = self.port.after(self.port_full_at, length, fine(now));
        Ok(true)
    }
}
