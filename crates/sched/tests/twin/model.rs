//! The scheduler as one would write it without a thought for speed: plain lists, searched from end to end, and every question
//! answered anew from what waits.

mod admit;
mod aside;
mod change;
mod dual;
mod fair;
mod floor;
mod hold;
mod levels;
mod parts;
mod promise;
mod split;

use std::collections::{BTreeMap, VecDeque};

use weir_sched::hold::Level;
use weir_sched::manage::{Departure, State};
use weir_sched::rate::{Bucket, Fine, fine, nanos};
use weir_sched::scheduler::Leaving;

use aside::Crowd;
use hold::{History, Reason};
pub(crate) use parts::{CLASSES, ModelClass, ModelProfile, ModelSubport, QUEUES, ecn, lane, mark};
use parts::{Id, LOWEST, PARTS, User, Waiting, class_of};
use promise::Promise;

const TICK: u64 = 256;

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) profiles: Vec<ModelProfile>,
    pub(crate) port: Bucket,
    pub(crate) subports: Vec<ModelSubport>,
    users: Vec<User>,
    port_full_at: Fine,
    subport_full_at: Vec<Fine>,
    /// Who stands aside for each class of each subport.
    crowds: Vec<Vec<Crowd>>,
    /// What is known of what each class of each subport is guaranteed.
    promises: Vec<Vec<Promise>>,
    /// A class has been guaranteed something.
    promised: bool,
    /// The last packet went before others for what this subport guarantees its class.
    claimed: Option<usize>,
    /// What was decided of each subport.
    histories: Vec<History>,
    /// Users that may send, and subports with such users, in them or below, that do not wait for tokens, in the order in which they came to be so: with the class,
    /// and whether it is a user who lacks tokens for another packet.
    line: Vec<(Id, usize, bool)>,
    /// Turns of users who do not, and of subports, while others of the subport they are in or below, and of their class, stood in line.
    streaks: Vec<usize>,
    /// Users who want more, and subports with such users, in them or below, that may send: those in or below one subport in the order of their turns.
    wanting: Vec<Id>,
    /// Those of them that lend, or below which one does, in the same way.
    leading: Vec<usize>,
    /// One that is on its way from below one to below another.
    moving: Option<usize>,
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
            queues: vec![VecDeque::new(); CLASSES * PARTS],
            states: vec![State::default(); CLASSES * PARTS],
            coupled_states: vec![false; CLASSES * PARTS],
            fair: vec![None; CLASSES * PARTS],
            dual: vec![None; CLASSES * PARTS],
            split: vec![None; CLASSES],
            part_states: vec![State::default(); CLASSES * PARTS],
            coupled_parts: vec![false; CLASSES * PARTS],
            full_at: 0,
            class_full_at: [0; CLASSES],
            floor_full_at: [0; CLASSES],
            came_back: [false; CLASSES],
            stood: [None; CLASSES],
            ceil_full_at: 0,
            deficit: 0,
            turn: 0,
            deficits: [0; 8],
            history: History::default(),
            since: 0,
            sent: 0,
            coupled: 0,
            marks: BTreeMap::new(),
        };
        Model {
            profiles: Vec::new(),
            port,
            users: vec![user; users],
            port_full_at: 0,
            subport_full_at: vec![0; subports.len()],
            crowds: vec![vec![Crowd::default(); CLASSES]; subports.len()],
            promises: vec![vec![Promise::default(); CLASSES]; subports.len()],
            promised: subports.iter().flat_map(|subport| &subport.promises).any(Option::is_some),
            claimed: None,
            histories: vec![History::default(); subports.len()],
            line: Vec::new(),
            streaks: vec![0; subports.len()],
            wanting: Vec::new(),
            leading: Vec::new(),
            moving: None,
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

    /// Packets of a user that the coupling of two lines dropped.
    pub(crate) fn coupled(&self, user: usize) -> u64 {
        self.users[user].coupled
    }

    fn somebody_in_line(&self) -> bool {
        let below_port = |id: &Id| self.above(*id).is_none();
        self.line.iter().any(|(id, ..)| below_port(id)) || self.wanting.iter().any(below_port)
    }

    /// A packet of a queue has gone.
    fn changed(&mut self, at: usize, queue: usize, now: u64) {
        self.steps += 1;
        let user = &mut self.users[at];
        user.since = self.steps;
        if user.queues[queue].is_empty() {
            if class_of(queue) == LOWEST {
                user.deficits[queue % PARTS] = 0;
            }
            let class = &self.profiles[user.profile].classes[class_of(queue)];
            if let Some(manage) = class.manage.as_ref().filter(|_| !class.fair && class.weights.len() < 2) {
                manage.emptied(&mut user.states[queue], now);
            }
        }
    }

    /// Puts a user where it belongs now, as the last of those there, and notes what holds it back.
    fn settle(&mut self, at: usize, now: u64) {
        let reason = self.place(at, now);
        self.users[at].history.note(reason, now);
    }

    /// Puts a user where it belongs now, as the last of those there. What holds it back, where it has anything to send.
    fn place(&mut self, at: usize, now: u64) -> Option<Reason> {
        let reason = self.find_place(at, now);
        self.claim(at);
        reason
    }

    fn find_place(&mut self, at: usize, now: u64) -> Option<Reason> {
        self.line.retain(|(id, ..)| *id != Id::User(at));
        self.waiting.retain(|(_, id)| *id != Id::User(at));
        // The earliest time at which it may send, and what it waits for until then.
        let (mut until, mut aside, mut wants) = (None, None, false);
        let earlier = |until: Option<(Fine, Level)>, from, level| match until {
            Some((is, _)) if is < from => until,
            _ => Some((from, level)),
        };
        for class in self.classes_in_turn(at, now) {
            let of_subport = Level::SubportClass(class as u8);
            let (in_line, in_ring) = self.stands_aside(at, class);
            if in_line {
                aside = aside.or(Some(Reason::Own(of_subport)));
                continue;
            }
            let queue = self.next_queue(at, class);
            let user = &self.users[at];
            let profile = &self.profiles[user.profile];
            let length = user.queues[queue][0].length;
            let own = profile.bucket.eligible_at(user.full_at, length);
            let cap = profile.classes[class].cap.eligible_at(user.class_full_at[class], length);
            let shares = profile.sharing.is_some() && !in_ring;
            if cap > fine(now) {
                let (from, level) = match !shares && own > cap {
                    true => (own, Level::Rate),
                    false => (cap, Level::Class(class as u8)),
                };
                // Of two classes that may send at the same time, the higher one.
                if until.is_none_or(|(is, _)| from < is) {
                    until = Some((from, level));
                }
                continue;
            }
            let ceil = profile.sharing.map_or(0, |(ceil, _)| ceil.eligible_at(user.ceil_full_at, length));
            if ceil > fine(now) {
                until = earlier(until, ceil, Level::Ceil);
                break;
            }
            wants = shares;
            if own <= fine(now) {
                let spare = profile.bucket.eligible_at(user.full_at + profile.bucket.cost(length), length);
                self.line.push((Id::User(at), class, spare > fine(now)));
                self.refresh_subports();
                self.set_wants(at, wants, now);
                return Some(Reason::Line);
            }
            if in_ring {
                // Meanwhile it may send of lower classes.
                if until.is_none_or(|(is, _)| own < is) {
                    until = Some((own, of_subport));
                }
                continue;
            }
            until = earlier(until, own, Level::Rate);
            break;
        }
        if let Some((from, _)) = until {
            self.waiting.push((nanos(from).div_ceil(TICK), Id::User(at)));
        }
        self.refresh_subports();
        self.set_wants(at, wants, now);
        // Who wants more stands in line for that.
        until.map(|(_, level)| if wants { Reason::Line } else { Reason::Own(level) }).or(aside)
    }

    /// The best class of each subport, anew, those below others first.
    fn refresh_subports(&mut self) {
        let mut all: Vec<usize> = (0..self.subports.len()).collect();
        all.sort_by_key(|at| std::cmp::Reverse(self.path(*at).len()));
        for at in all {
            let members = self.line.iter().filter(|(id, ..)| self.above(*id) == Some(at));
            let best = members.map(|(_, class, _)| *class).min();
            let best = best.filter(|_| !self.subport_waits(at) && self.moving != Some(at));
            let id = Id::Subport(at);
            let is = self.line.iter().find(|(other, ..)| *other == id).map(|(_, class, _)| *class);
            if is != best {
                self.line.retain(|(other, ..)| *other != id);
                self.line.extend(best.map(|class| (id, class, false)));
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
                    let reason = self.place(user, now);
                    if nobody_in_line && sent < room && self.may_go_at_once(user, now) {
                        sent += usize::from(self.goes_at_once(user, now, out));
                    } else {
                        self.users[user].history.note(reason, now);
                    }
                }
                Id::Subport(subport) => {
                    self.histories[subport].note(Some(Reason::Line), now);
                    self.refresh_subports();
                    self.refresh_claims(subport, now);
                    self.refresh_promises(subport);
                }
                Id::Lender(subport) => self.refresh_claims(subport, now),
                Id::Class(subport, class) => self.come_back(subport, class, now),
            }
        }
        while sent < room {
            let went = match (self.first_in_line(), self.first_who_wants()) {
                (Some((user, class, streaks)), _) => self.serve(user, class, now, out).inspect(|went| {
                    let all = streaks.into_iter().filter(|_| *went && self.claimed.is_none());
                    all.for_each(|(subport, streak)| self.streaks[subport] = streak);
                }),
                (None, Some((user, lender))) => self.share(user, lender, now, out),
                (None, None) => break,
            };
            match went {
                Ok(went) => sent += usize::from(went),
                Err(until) => return until,
            }
        }
        match self.waiting.iter().map(|(tick, _)| tick * TICK).min() {
            _ if self.held() == 0 => u64::MAX,
            Some(due) if !self.somebody_in_line() => due,
            _ => now,
        }
    }

    /// Who comes out of the wheel while nobody stands in line goes at once, if it may go and does not want more.
    fn may_go_at_once(&mut self, at: usize, now: u64) -> bool {
        let Some((_, class, _)) = self.line.iter().find(|(id, ..)| *id == Id::User(at)).copied() else { return false };
        let queue = self.next_queue(at, class);
        let user = &self.users[at];
        let length = user.queues[queue][0].length;
        let port = self.port.eligible_at(self.port_full_at, length);
        let levels = self.levels_due(user.subport, length).into_iter().all(|due| due <= fine(now));
        let in_line = self.path(user.subport).into_iter().all(|at| !self.subport_waits(at));
        let wants = self.wanting.contains(&Id::User(at));
        !self.promised && in_line && !wants && port <= fine(now) && levels
    }

    /// It does so, unless its management drops the packet instead. Nothing has held it back meanwhile.
    fn goes_at_once(&mut self, at: usize, now: u64, out: &mut Vec<Leaving<u32>>) -> bool {
        let place = self.line.iter().find(|(id, ..)| *id == Id::User(at));
        let (_, class, _) = *place.unwrap();
        self.serve(at, class, now, out).unwrap()
    }

    fn serve(&mut self, at: usize, class: usize, now: u64, out: &mut Vec<Leaving<u32>>) -> Result<bool, u64> {
        let queue = self.next_queue(at, class);
        if !self.send(at, class, queue, None, None, now, out)? {
            return Ok(false);
        }
        // The subport has had its turn, and those above it; where another goes for what one of them guarantees, that one and those above.
        for at in self.path(self.claimed.unwrap_or(self.users[at].subport)) {
            if let Some(place) = self.line.iter().position(|(id, ..)| *id == Id::Subport(at)) {
                let turned = self.line.remove(place);
                self.line.push(turned);
            }
        }
        Ok(true)
    }

    /// A user who wants more gets a packet's worth of what is left, of what a subport lends or else of what the port may send; or, where it has
    /// not saved up enough, or a level between it and who gives has not, what the weight of that is worth. Then that goes behind the others.
    fn share(&mut self, at: usize, lender: Option<usize>, now: u64, out: &mut Vec<Leaving<u32>>) -> Result<bool, u64> {
        let profile = self.profiles[self.users[at].profile].clone();
        let class = self.classes_in_turn(at, now).into_iter().find(|class| {
            let queue = self.next_queue(at, *class);
            let length = self.users[at].queues[queue][0].length;
            let cap = profile.classes[*class].cap.eligible_at(self.users[at].class_full_at[*class], length);
            self.stands_aside(at, *class) == (false, false) && cap <= fine(now)
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
            self.turn(Id::User(at));
            return Ok(false);
        }
        if !self.levels_afford(self.users[at].subport, lender, length) {
            return Ok(false);
        }
        self.send(at, class, queue, Some(lender), None, now, out)
    }

    /// Whether the levels from a subport up to who gives have saved up so many bytes; who has not goes behind the others.
    fn levels_afford(&mut self, subport: usize, lender: Option<usize>, length: u32) -> bool {
        for level in self.below(subport, lender) {
            if self.subports[level].deficit < length {
                self.subports[level].deficit += 1600 * u32::from(self.subports[level].weight);
                self.turn(Id::Subport(level));
                return false;
            }
        }
        true
    }

    /// Sends the first packet of a queue, as far as subport and port may: of what its user is guaranteed, or of what is left, lent by a
    /// subport or not; or that of who claims to go before it, for what a subport guarantees another class.
    #[allow(clippy::too_many_arguments, reason = "all that is known of a turn")]
    fn send(
        &mut self,
        at: usize,
        class: usize,
        queue: usize,
        shared: Option<Option<usize>>,
        claimed: Option<usize>,
        now: u64,
        out: &mut Vec<Leaving<u32>>,
    ) -> Result<bool, u64> {
        let (subport, length) = (self.users[at].subport, self.users[at].queues[queue][0].length);
        let due = self.port.eligible_at(self.port_full_at, length);
        if due > fine(now) {
            return Err(nanos(due));
        }
        let full =
            self.path(subport).into_iter().zip(self.levels_due(subport, length)).find(|(_, due)| *due > fine(now));
        if let Some((full, due)) = full {
            self.histories[full].note(Some(Reason::Full), now);
            self.waiting.retain(|(_, id)| *id != Id::Lender(full));
            self.waiting.push((nanos(due).div_ceil(TICK), Id::Subport(full)));
            self.refresh_subports();
            self.refresh_claims(full, now);
            self.refresh_promises(full);
            return Ok(false);
        }
        if claimed.is_none()
            && let Some((level, other, promised)) = self.claimant(at, class, shared, now)
        {
            let queue = self.next_queue(other, promised);
            let length = self.users[other].queues[queue][0].length;
            if shared.is_some_and(|lender| !self.levels_afford(level, lender, length.into())) {
                return Ok(false);
            }
            return self.send(other, promised, queue, shared, Some(level), now, out);
        }
        if let Some(level) = claimed {
            self.turn_claims(level, at, class, shared.is_some());
        }
        if !self.class_lets_go(at, class, length, shared.is_some(), now) {
            return Ok(false);
        }
        if !self.line_goes(at, queue, now) {
            self.users[at].coupled += 1;
            out.push(Leaving::Coupled(self.take(at, queue, false, now).item));
            self.changed(at, queue, now);
            self.settle(at, now);
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
                out.push(Leaving::Managed(self.take(at, queue, false, now).item));
                self.changed(at, queue, now);
                self.settle(at, now);
                return Ok(false);
            }
        }
        self.port_full_at = self.port.after(self.port_full_at, length, fine(now));
        match shared {
            None => user.full_at = profile.bucket.after(user.full_at, length, fine(now)),
            Some(lender) => {
                user.deficit -= if claimed.is_some() { 0 } else { u32::from(length) };
                for level in self.below(claimed.unwrap_or(subport), lender) {
                    self.subports[level].deficit -= u32::from(length);
                }
                // Who has lent goes behind its neighbours, and so do those above it.
                for at in lender.map_or_else(Vec::new, |lender| self.path(lender)) {
                    self.leading.retain(|other| *other != at);
                    self.leading.push(at);
                }
            }
        }
        let user = &mut self.users[at];
        let profile = &self.profiles[user.profile];
        if let Some((ceil, _)) = profile.sharing {
            user.ceil_full_at = ceil.after(user.ceil_full_at, length, fine(now));
        }
        if !profile.classes[class].cap.is_unlimited() {
            user.class_full_at[class] = profile.classes[class].cap.after(user.class_full_at[class], length, fine(now));
        }
        if class == LOWEST {
            user.deficits[queue % PARTS] -= u32::from(length);
        }
        user.sent += 1;
        self.pay_class(at, class, length, now);
        self.pay_floor(at, class, length, now);
        self.pay_promise(at, class, length, now);
        self.claimed = claimed;
        out.push(Leaving::Sent(self.take(at, queue, true, now).item));
        if shared.is_none() {
            self.pay_levels(subport, length, Some(subport), now);
        }
        self.changed(at, queue, now);
        self.settle(at, now);
        if let Some(lender) = shared {
            self.pay_levels(subport, length, lender, now);
        }
        Ok(true)
    }

    /// Takes the first packet of a queue, which is sent or dropped.
    fn take(&mut self, at: usize, queue: usize, is_sent: bool, now: u64) -> Waiting {
        let manage = self.profiles[self.users[at].profile].classes[class_of(queue)].manage.clone();
        let taken = match &self.users[at].dual[queue] {
            Some(_) => self.take_from_line(at, queue, is_sent),
            None => self.users[at].take_from_flow(queue, is_sent, manage.as_deref(), &mut self.steps, now),
        };
        if self.users[at].split[class_of(queue)].is_some() {
            self.taken_from_part(at, queue, if is_sent { taken.length.into() } else { 0 }, now);
        }
        taken
    }

    /// All packets in the order they came.
    pub(crate) fn clear(self) -> Vec<u32> {
        let mut all: Vec<Waiting> = self.users.into_iter().flat_map(|user| user.queues).flatten().collect();
        all.sort_by_key(|waiting| waiting.item);
        all.into_iter().map(|waiting| waiting.item).collect()
    }
}
