//! The scheduler as one would write it without a thought for speed: plain lists, searched from end to end, and every question
//! answered anew from what waits.

mod admit;
mod change;
mod fair;
mod parts;

use std::collections::{BTreeMap, VecDeque};

use weir_sched::manage::{Departure, State};
use weir_sched::rate::{Bucket, Fine, fine, nanos};
use weir_sched::scheduler::Leaving;

pub(crate) use parts::{CLASSES, ModelClass, ModelProfile, ModelSubport, QUEUES, lane, mark};
use parts::{Id, LOWEST, User, Waiting, class_of};

const TICK: u64 = 256;

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) profiles: Vec<ModelProfile>,
    pub(crate) port: Bucket,
    pub(crate) subports: Vec<ModelSubport>,
    users: Vec<User>,
    port_full_at: Fine,
    subport_full_at: Vec<Fine>,
    /// Users that may send, in the order in which they came to, with the class, and whether they lack tokens for another packet.
    active: Vec<(usize, usize, bool)>,
    /// Turns of users that did not, while others of their subport and class stood in line.
    streaks: Vec<usize>,
    /// Subports with such users that do not wait for tokens, in the order in which they came to be so, with their best class.
    ready: Vec<(usize, usize)>,
    /// Subports with users who want more, that may send, in the order of their turns.
    wanting: Vec<usize>,
    /// Those of them that lend, in the order of their turns.
    lenders: Vec<usize>,
    /// Who waits, until which tick, in the order of coming.
    waiting: Vec<(u64, Id)>,
    buffers: usize,
    minimum: usize,
    steps: u64,
}

impl Model {
    pub(crate) fn new(
        users: usize,
        buffers: usize,
        minimum: usize,
        port: Bucket,
        subports: Vec<ModelSubport>,
    ) -> Model {
        let user = User {
            open: false,
            profile: 0,
            subport: 0,
            queues: vec![VecDeque::new(); QUEUES],
            states: vec![State::default(); QUEUES],
            fair: vec![None; QUEUES],
            full_at: 0,
            class_full_at: [0; CLASSES],
            ceil_full_at: 0,
            deficit: 0,
            turn: 0,
            deficits: [0; 8],
            since: 0,
            sent: 0,
            marks: BTreeMap::new(),
        };
        Model {
            profiles: Vec::new(),
            port,
            users: vec![user; users],
            port_full_at: 0,
            subport_full_at: vec![0; subports.len()],
            active: Vec::new(),
            streaks: vec![0; subports.len()],
            ready: Vec::new(),
            wanting: Vec::new(),
            lenders: Vec::new(),
            waiting: Vec::new(),
            buffers,
            minimum,
            steps: 0,
            subports,
        }
    }

    pub(crate) fn held(&self) -> usize {
        self.users.iter().map(User::held).sum()
    }

    /// Packets that a user has sent, and those that were marked, by class.
    pub(crate) fn sent(&self, user: usize) -> (u64, BTreeMap<u8, u64>) {
        (self.users[user].sent, self.users[user].marks.clone())
    }

    fn somebody_in_line(&self) -> bool {
        !self.ready.is_empty() || !self.wanting.is_empty()
    }

    /// A packet goes on account of what its subport may send, and of what that is guaranteed unless the port gives it.
    fn pay_subport(&mut self, at: usize, length: u16, on_guarantee: bool, now: u64) {
        let subport = &mut self.subports[at];
        self.subport_full_at[at] = subport.bucket.after(self.subport_full_at[at], length, fine(now));
        if let (true, Some(guarantee)) = (on_guarantee, subport.guarantee) {
            subport.guarantee_full_at = guarantee.after(subport.guarantee_full_at, length, fine(now));
            self.refresh_claims(at, now);
        }
    }

    /// Whether a subport wants more, and whether it lends.
    fn refresh_claims(&mut self, at: usize, now: u64) {
        let waits = self.waiting.iter().any(|(_, id)| *id == Id::Subport(at));
        let wants = !waits && !self.subports[at].wanting.is_empty();
        if wants != self.wanting.contains(&at) {
            self.subports[at].deficit = u32::from(self.subports[at].weight) * 1600;
            self.wanting.retain(|other| *other != at);
            self.wanting.extend(wants.then_some(at));
        }
        let subport = &self.subports[at];
        let lends_at =
            subport.guarantee.filter(|_| wants).map(|bucket| bucket.eligible_at(subport.guarantee_full_at, 0));
        let lends = lends_at.is_some_and(|from| from <= fine(now));
        if lends != self.lenders.contains(&at) {
            self.lenders.retain(|other| *other != at);
            self.lenders.extend(lends.then_some(at));
        }
        self.waiting.retain(|(_, id)| *id != Id::Lender(at));
        if let (Some(from), false) = (lends_at, lends) {
            self.waiting.push((nanos(from).div_ceil(TICK), Id::Lender(at)));
        }
    }

    /// A user wants more, or does not.
    fn set_wants(&mut self, at: usize, wants: bool, now: u64) {
        let subport = self.users[at].subport;
        if wants != self.subports[subport].wanting.contains(&at) {
            self.users[at].deficit =
                self.profiles[self.users[at].profile].sharing.map_or(0, |(_, weight)| u32::from(weight) * 1600);
            self.subports[subport].wanting.retain(|other| *other != at);
            self.subports[subport].wanting.extend(wants.then_some(at));
            self.refresh_claims(subport, now);
        }
    }

    /// A packet of a queue has gone.
    fn changed(&mut self, at: usize, queue: usize, now: u64) {
        self.steps += 1;
        let user = &mut self.users[at];
        user.since = self.steps;
        if user.queues[queue].is_empty() {
            if queue >= LOWEST {
                user.deficits[queue - LOWEST] = 0;
            }
            let class = &self.profiles[user.profile].classes[class_of(queue)];
            if let Some(manage) = class.manage.as_ref().filter(|_| !class.fair) {
                manage.emptied(&mut user.states[queue], now);
            }
        }
    }

    /// The queue of a class that goes next: deficit round robin among those of the lowest.
    fn next_queue(&mut self, at: usize, class: usize) -> usize {
        let user = &mut self.users[at];
        if class < LOWEST {
            return class;
        }
        let mut waiting = (0..8).filter(|turn| !user.queues[LOWEST + turn].is_empty());
        if let (Some(only), None) = (waiting.next(), waiting.next()) {
            user.turn = only;
            user.deficits[only] = u32::from(user.queues[LOWEST + only][0].length);
            return LOWEST + only;
        }
        let weights = self.profiles[user.profile].weights;
        loop {
            let waiting = &user.queues[LOWEST + user.turn];
            if let Some(first) = waiting.front() {
                if user.deficits[user.turn] >= u32::from(first.length) {
                    return LOWEST + user.turn;
                }
            } else {
                user.deficits[user.turn] = 0;
            }
            loop {
                user.turn = (user.turn + 1) % 8;
                if !user.queues[LOWEST + user.turn].is_empty() {
                    break;
                }
            }
            user.deficits[user.turn] += u32::from(weights[user.turn]) * 1600;
        }
    }

    /// Puts a user where it belongs now, as the last of those there.
    fn settle(&mut self, at: usize, now: u64) {
        self.active.retain(|(user, ..)| *user != at);
        self.waiting.retain(|(_, id)| *id != Id::User(at));
        let (mut from, mut wants) = (Fine::MAX, false);
        for class in 0..CLASSES {
            let queues = if class < LOWEST { class..class + 1 } else { LOWEST..QUEUES };
            if self.users[at].queues[queues].iter().all(VecDeque::is_empty) {
                continue;
            }
            let queue = self.next_queue(at, class);
            let user = &self.users[at];
            let profile = &self.profiles[user.profile];
            let length = user.queues[queue][0].length;
            let own = profile.bucket.eligible_at(user.full_at, length);
            let cap = profile.classes[class].cap.eligible_at(user.class_full_at[class], length);
            let shares = profile.sharing.is_some();
            if cap > fine(now) {
                from = from.min(if shares { cap } else { cap.max(own) });
                continue;
            }
            let ceil = profile.sharing.map_or(0, |(ceil, _)| ceil.eligible_at(user.ceil_full_at, length));
            if ceil > fine(now) {
                from = from.min(ceil);
                break;
            }
            wants = shares;
            if own <= fine(now) {
                let spare = profile.bucket.eligible_at(user.full_at + profile.bucket.cost(length), length);
                self.active.push((at, class, spare > fine(now)));
                self.refresh_subports();
                return self.set_wants(at, wants, now);
            }
            from = from.min(own);
            break;
        }
        if from < Fine::MAX {
            self.waiting.push((nanos(from).div_ceil(TICK), Id::User(at)));
        }
        self.refresh_subports();
        self.set_wants(at, wants, now);
    }

    /// The best class of each subport, anew.
    fn refresh_subports(&mut self) {
        for subport in 0..self.subports.len() {
            let users = self.active.iter().filter(|(user, ..)| self.users[*user].subport == subport);
            let best = users.map(|(_, class, _)| *class).min();
            let waits = self.waiting.iter().any(|(_, id)| *id == Id::Subport(subport));
            let best = best.filter(|_| !waits);
            let is = self.ready.iter().find(|(other, _)| *other == subport).map(|(_, class)| *class);
            if is != best {
                self.ready.retain(|(other, _)| *other != subport);
                self.ready.extend(best.map(|class| (subport, class)));
            }
        }
    }

    pub(crate) fn dequeue(&mut self, now: u64, room: usize, out: &mut Vec<Leaving<u32>>) -> u64 {
        let mut due: Vec<(u64, Id)> = self.waiting.iter().filter(|(tick, _)| *tick <= now / TICK).copied().collect();
        due.sort_by_key(|(tick, _)| *tick);
        let mut sent = 0;
        for (_, id) in due {
            self.waiting.retain(|(_, other)| *other != id);
            match id {
                Id::User(user) => {
                    let nobody_in_line = !self.somebody_in_line();
                    self.settle(user, now);
                    if nobody_in_line && sent < room && self.goes_at_once(user, now, out) {
                        sent += 1;
                    }
                }
                Id::Subport(subport) => {
                    self.refresh_subports();
                    self.refresh_claims(subport, now);
                }
                Id::Lender(subport) => self.refresh_claims(subport, now),
            }
        }
        while sent < room {
            let Some((subport, class)) = self.ready.iter().min_by_key(|(_, class)| *class).copied() else {
                let (lent, subport) = match (self.lenders.first(), self.wanting.first()) {
                    (Some(lender), _) => (true, *lender),
                    (None, Some(subport)) => (false, *subport),
                    (None, None) => break,
                };
                match self.share(subport, lent, now, out) {
                    Ok(went) => sent += usize::from(went),
                    Err(until) => return until,
                }
                continue;
            };
            let in_line = |late: bool| {
                let mut users = self.active.iter();
                users.find(|(user, may, is)| (*may, *is) == (class, late) && self.users[*user].subport == subport)
            };
            let (spare, late) = (in_line(false), in_line(true));
            let patient = spare.filter(|_| late.is_none() || self.streaks[subport] < 8);
            let streak = if patient.is_some() && late.is_some() { self.streaks[subport] + 1 } else { 0 };
            let at = patient.or(late).unwrap().0;
            match self.serve(at, class, now, out) {
                Ok(true) => {
                    sent += 1;
                    self.streaks[subport] = streak;
                }
                Ok(false) => {}
                Err(until) => return until,
            }
        }
        match self.waiting.iter().map(|(tick, _)| tick * TICK).min() {
            _ if self.held() == 0 => u64::MAX,
            Some(due) if !self.somebody_in_line() => due,
            _ => now,
        }
    }

    /// Who comes out of the wheel while nobody stands in line goes at once, if it may go, does not share, and no management has a say.
    fn goes_at_once(&mut self, at: usize, now: u64, out: &mut Vec<Leaving<u32>>) -> bool {
        let Some((_, class, _)) = self.active.iter().find(|(user, ..)| *user == at).copied() else { return false };
        let queue = self.next_queue(at, class);
        let user = &self.users[at];
        let length = user.queues[queue][0].length;
        let port = self.port.eligible_at(self.port_full_at, length);
        let subport = self.subports[user.subport].bucket.eligible_at(self.subport_full_at[user.subport], length);
        let class_profile = &self.profiles[user.profile].classes[class];
        let managed = class_profile.manage.is_some() || class_profile.fair;
        let in_line = self.ready.iter().any(|(subport, _)| *subport == user.subport);
        let shares = self.profiles[user.profile].sharing.is_some();
        let may = in_line && !managed && !shares && port <= fine(now) && subport <= fine(now);
        may && self.serve(at, class, now, out).unwrap()
    }

    fn serve(&mut self, at: usize, class: usize, now: u64, out: &mut Vec<Leaving<u32>>) -> Result<bool, u64> {
        let queue = self.next_queue(at, class);
        if !self.send(at, class, queue, None, now, out)? {
            return Ok(false);
        }
        // The subport has had its turn.
        let subport = self.users[at].subport;
        if let Some(place) = self.ready.iter().position(|(other, _)| *other == subport) {
            let turned = self.ready.remove(place);
            self.ready.push(turned);
        }
        Ok(true)
    }

    /// The first user of a subport who wants more gets a packet's worth of what is left, of its subport's guarantee or else of what the port may send;
    /// or, where it has not saved up enough, what its weight is worth. Then it goes behind the others.
    fn share(&mut self, subport: usize, lent: bool, now: u64, out: &mut Vec<Leaving<u32>>) -> Result<bool, u64> {
        let at = self.subports[subport].wanting[0];
        let profile = self.profiles[self.users[at].profile].clone();
        let class = (0..CLASSES).find(|class| {
            let queues = if *class < LOWEST { *class..*class + 1 } else { LOWEST..QUEUES };
            if self.users[at].queues[queues].iter().all(VecDeque::is_empty) {
                return false;
            }
            let queue = self.next_queue(at, *class);
            let length = self.users[at].queues[queue][0].length;
            profile.classes[*class].cap.eligible_at(self.users[at].class_full_at[*class], length) <= fine(now)
        });
        let class = class.unwrap();
        let queue = self.next_queue(at, class);
        let length = self.users[at].queues[queue][0].length;
        let (ceil, weight) = profile.sharing.unwrap();
        if ceil.eligible_at(self.users[at].ceil_full_at, length) > fine(now) {
            // A higher class may go meanwhile, with a longer packet.
            self.settle(at, now);
            return Ok(false);
        }
        let length = u32::from(length);
        if self.users[at].deficit < length {
            self.users[at].deficit += 1600 * u32::from(weight);
            self.subports[subport].wanting.rotate_left(1);
            return Ok(false);
        }
        if !lent && self.subports[subport].deficit < length {
            self.subports[subport].deficit += 1600 * u32::from(self.subports[subport].weight);
            self.wanting.rotate_left(1);
            return Ok(false);
        }
        self.send(at, class, queue, Some(lent), now, out)
    }

    /// Sends the first packet of a queue, as far as subport and port may: of what its user is guaranteed, or of what is left, lent by its subport or
    /// not.
    fn send(
        &mut self,
        at: usize,
        class: usize,
        queue: usize,
        shared: Option<bool>,
        now: u64,
        out: &mut Vec<Leaving<u32>>,
    ) -> Result<bool, u64> {
        let (subport, length) = (self.users[at].subport, self.users[at].queues[queue][0].length);
        let due = self.port.eligible_at(self.port_full_at, length);
        if due > fine(now) {
            return Err(nanos(due));
        }
        let due = self.subports[subport].bucket.eligible_at(self.subport_full_at[subport], length);
        if due > fine(now) {
            self.waiting.retain(|(_, id)| *id != Id::Lender(subport));
            self.waiting.push((nanos(due).div_ceil(TICK), Id::Subport(subport)));
            self.refresh_subports();
            self.refresh_claims(subport, now);
            return Ok(false);
        }
        let user = &mut self.users[at];
        let profile = &self.profiles[user.profile];
        if let Some(manage) = profile.classes[class].manage.clone() {
            let first = &user.queues[queue][0];
            let behind = user.of_flow(queue) as u32 - 1;
            let departure = Departure { now, sojourn: now - first.since, behind, bytes: length.into() };
            let verdict = manage.depart(user.state(queue), &departure);
            let mut item = user.queues[queue][0].item;
            let goes = user.lets(verdict, (&*manage, queue), &mut item, now);
            user.queues[queue][0].item = item;
            if !goes {
                out.push(Leaving::Managed(user.take(queue, false, Some(&*manage), &mut self.steps, now).item));
                self.changed(at, queue, now);
                self.settle(at, now);
                return Ok(false);
            }
        }
        self.port_full_at = self.port.after(self.port_full_at, length, fine(now));
        match shared {
            None => user.full_at = profile.bucket.after(user.full_at, length, fine(now)),
            Some(lent) => {
                user.deficit -= u32::from(length);
                if lent {
                    self.lenders.rotate_left(1);
                } else {
                    self.subports[subport].deficit -= u32::from(length);
                }
            }
        }
        if let Some((ceil, _)) = profile.sharing {
            user.ceil_full_at = ceil.after(user.ceil_full_at, length, fine(now));
        }
        if !profile.classes[class].cap.is_unlimited() {
            user.class_full_at[class] = profile.classes[class].cap.after(user.class_full_at[class], length, fine(now));
        }
        if queue >= LOWEST {
            user.deficits[queue - LOWEST] -= u32::from(length);
        }
        user.sent += 1;
        let manage = profile.classes[class].manage.as_deref();
        out.push(Leaving::Sent(user.take(queue, true, manage, &mut self.steps, now).item));
        if shared.is_none() {
            self.pay_subport(subport, length, true, now);
        }
        self.changed(at, queue, now);
        self.settle(at, now);
        if let Some(lent) = shared {
            self.pay_subport(subport, length, lent, now);
        }
        Ok(true)
    }

    /// All packets in the order they came.
    pub(crate) fn clear(self) -> Vec<u32> {
        let mut all: Vec<Waiting> = self.users.into_iter().flat_map(|user| user.queues).flatten().collect();
        all.sort_by_key(|waiting| waiting.item);
        all.into_iter().map(|waiting| waiting.item).collect()
    }
}
