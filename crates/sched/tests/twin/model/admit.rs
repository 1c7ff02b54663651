//! Whether a packet may wait, and whether it goes at once.

use std::collections::VecDeque;

use weir_sched::gates::Loss;
use weir_sched::manage::Arrival;
use weir_sched::rate::fine;
use weir_sched::scheduler::{Displaced, Offer, Refused};

use super::Model;
use super::parts::{Id, LOWEST, PARTS, Waiting, class_of, ecn, queues_of};

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
        let (at, class) = (offer.user as usize, offer.class.class() as usize);
        let user = self.users.get(at).filter(|user| user.open).ok_or(Refused::NoSuchUser)?;
        let rules = self.profiles[user.profile].classes[class].clone();
        let queue = self.queue_of(offer);
        let queued = user.queues[queue].len();
        let is_fair = if queued == 0 { rules.fair } else { user.fair[queue].is_some() };
        let low = ecn(item) == 1;
        let waiting =
            Waiting { item, length: offer.length, since: now, flow: if is_fair { flow % 1024 } else { 0 }, low };
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
            let verdict = manage.arrive(self.users[at].coming(&rules.weights, queue), &arrival);
            if !self.users[at].lets_in(verdict, (&**manage, queue), &rules.weights, &mut item, now) {
                return Err(Refused::Managed);
            }
        }
        let mut pushed_out = None;
        if makes_room {
            let heaviest = self.heaviest().unwrap();
            let loser = self.users[heaviest].loser();
            pushed_out = Some(Displaced { item: self.push_out(heaviest, loser, now), loss: Loss::PushedOut });
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

    /// The queue that a packet joins.
    fn queue_of(&self, offer: Offer) -> usize {
        let (class, part) = (offer.class.class() as usize, offer.class.queue() as usize);
        let user = &self.users[offer.user as usize];
        let rules = &self.profiles[user.profile].classes[class];
        let is_empty = queues_of(class).all(|queue| user.queues[queue].is_empty());
        let is_split = if is_empty { rules.weights.len() > 1 } else { user.split[class].is_some() };
        PARTS * class
            + match class {
                LOWEST => part,
                _ if is_split => rules.part_of(part),
                _ => 0,
            }
    }

    /// The first packet of a queue of the lowest class, or of a class above it.
    fn first_beside(&mut self, at: usize, queue: usize) -> Option<u32> {
        let queue = if class_of(queue) < LOWEST { self.next_queue(at, class_of(queue)) } else { queue };
        self.users[at].queues[queue].front().map(|waiting| waiting.item)
    }

    /// The last packet of a queue makes room, or one of a fat flow, or that which is chosen.
    fn push_out(&mut self, at: usize, queue: usize, now: u64) -> u32 {
        let first = self.first_beside(at, queue);
        let user = &mut self.users[at];
        let is_chosen = user.split[class_of(queue)].as_ref().is_some_and(|split| split.is_turn_of(queue));
        let lost = match (&user.fair[queue], &user.dual[queue]) {
            (Some(_), _) => user.lose(queue, &mut self.steps),
            (None, Some(_)) => user.lose_from_line(queue),
            (None, None) if is_chosen && user.queues[queue].len() == 1 => None,
            (None, None) => user.queues[queue].pop_back(),
        };
        let lost = match lost {
            Some(lost) => {
                if self.users[at].split[class_of(queue)].is_some() {
                    self.part_changed(at, queue, now);
                }
                lost
            }
            None if is_chosen || self.users[at].split[class_of(queue)].is_none() => self.take(at, queue, false, now),
            // Its turn has not come.
            None => {
                let split = self.users[at].split[class_of(queue)].take();
                let lost = self.take(at, queue, false, now);
                self.users[at].split[class_of(queue)] = split;
                self.part_changed(at, queue, now);
                lost
            }
        };
        self.changed(at, queue, now);
        if self.first_beside(at, queue) != first {
            self.settle(at, now);
        }
        lost.item
    }

    /// A packet comes to wait.
    fn join(&mut self, at: usize, queue: usize, waiting: Waiting, now: u64) {
        let class = class_of(queue);
        let rules = self.profiles[self.users[at].profile].classes[class].clone();
        let first = self.first_beside(at, queue);
        let (joins, part_first) =
            (self.users[at].queues[queue].is_empty(), self.users[at].queues[queue].front().cloned());
        if if joins { rules.dual.is_some() } else { self.users[at].dual[queue].is_some() } {
            self.join_line(at, queue, waiting);
        } else if if joins { rules.fair } else { self.users[at].fair[queue].is_some() } {
            self.join_flow(at, queue, waiting);
        } else {
            self.users[at].queues[queue].push_back(waiting);
        }
        let others = self.users[at].queues[queues_of(class)].iter().map(VecDeque::len).sum::<usize>() - 1;
        if class < LOWEST && if others == 0 { rules.weights.len() > 1 } else { self.users[at].split[class].is_some() } {
            let is = self.users[at].queues[queue].front().map(|waiting| waiting.item);
            self.joined_part(at, queue, part_first.map(|waiting| waiting.item) != is);
        }
        self.steps += 1;
        self.users[at].since = self.steps;
        let may = self.line.iter().find(|(id, ..)| *id == Id::User(at)).map(|(_, class, _)| *class);
        match self.first_beside(at, queue) != first {
            true if may.is_none_or(|may| class < may) => self.settle(at, now),
            true => self.claim(at),
            false => {}
        }
    }

    /// Whether a packet goes at once: it would be sent first if it were taken.
    pub(crate) fn pass(&mut self, offer: Offer, now: u64, mut item: u32) -> Result<bool, Refused> {
        let (at, class, length) = (offer.user as usize, (offer.class.class() as usize).min(LOWEST), offer.length);
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
        let queue = self.queue_of(offer);
        let user = &mut self.users[at];
        let weights = &profile.classes[class].weights;
        if let Some(dual) = &profile.classes[class].dual
            && !dual.rests(user.coming(weights, queue), now)
        {
            return Ok(false);
        }
        if let Some(manage) = profile.classes[class].manage.as_ref().filter(|_| !profile.classes[class].fair) {
            let arrival = Arrival { now, queued: 0, bytes: length.into(), colour: 0, random: 0 };
            let verdict = manage.arrive(user.coming(weights, queue), &arrival);
            if !user.lets_in(verdict, (&**manage, queue), weights, &mut item, now) {
                return Err(Refused::Managed);
            }
            manage.emptied(user.coming(weights, queue), now);
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
        self.pay_promise(at, class, length, now);
        self.pay_levels(subport, length, Some(subport), now);
        self.port_full_at = self.port.after(self.port_full_at, length, fine(now));
        Ok(true)
    }
}
