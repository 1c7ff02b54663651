//! Who may send when: users in lists of those who may, and in a wheel until they may.

use std::fmt;
use std::sync::Arc;

use weir_table::indexed::{Indexed, NONE};
use weir_table::links::{Links, List};
use weir_table::wheel::{Shape, Wheel};

use crate::class::{ClassQueue, MAX_CLASSES};
use crate::counters::UserCounters;
use crate::heavy::Heavy;
use crate::manage::{Arrival, State, Verdict};
use crate::pipe::{Pipe, Place};
use crate::profile::{Profile, Profiles};
use crate::rate::{Fine, fine, nanos};
use crate::slab::{Gone, Slab};

/// How large a scheduler is.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Users, numbered from 0.
    pub users: u32,
    /// Packets that it holds at most.
    pub buffers: u32,
    /// Packets that each user may hold whatever the others do.
    pub minimum: u32,
    /// Bytes that every packet counts more than it has.
    pub overhead: u16,
    /// How time is cut for those who wait.
    pub wheel: Shape,
}

impl Setup {
    /// Ticks of 256 ns, 2.1 ms of them near and 17 s far.
    pub const WHEEL: Shape = Shape { tick_bits: 8, near_bits: 13, far_bits: 13 };
}

/// A packet that is offered to the scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Its user.
    pub user: u32,
    /// Its traffic class and queue. What its user does not have is taken as the lowest class, or as its first queue.
    pub class: ClassQueue,
    /// Its bytes, with overhead.
    pub length: u16,
    /// Its colour, for the management of its queue: 0 green, 1 yellow, 2 red.
    pub colour: u8,
}

/// Why a packet is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its queue is full.
    QueueFull,
    /// Its user holds its minimum and its share of the buffers.
    OverShare,
    /// The management of its queue says so.
    Managed,
    /// There is no such user.
    NoSuchUser,
}

/// A packet that leaves the scheduler.
#[derive(Debug, PartialEq, Eq)]
pub enum Leaving<T> {
    /// It is sent.
    Sent(T),
    /// The management of its queue drops it.
    Managed(T),
}

/// Numbers in lists by rank, the best first.
#[derive(Clone, Debug)]
pub(crate) struct Active<const RANKS: usize> {
    pub(crate) lists: [List; RANKS],
    /// Bit r: list r has entries.
    pub(crate) ranks: u16,
}

impl<const RANKS: usize> Active<RANKS> {
    const NONE: Active<RANKS> = Active { lists: [List::EMPTY; RANKS], ranks: 0 };

    #[inline(always)]
    fn push(&mut self, links: &mut Links, rank: u8, id: u32) {
        if let Some(list) = self.lists.get_mut(usize::from(rank)) {
            links.push_back(list, id);
            self.ranks |= 1 << rank;
        }
    }

    #[inline(always)]
    fn remove(&mut self, links: &mut Links, rank: u8, id: u32) {
        if let Some(list) = self.lists.get_mut(usize::from(rank)) {
            links.remove(list, id);
            if list.is_empty() {
                self.ranks &= !(1 << rank);
            }
        }
    }

    /// The best rank that has entries; [`u16::BITS`] for none.
    #[inline(always)]
    fn best(&self) -> u8 {
        self.ranks.trailing_zeros() as u8
    }

    /// The first entry of a rank.
    #[inline(always)]
    fn first(&self, rank: u8) -> Option<u32> {
        self.lists.get(usize::from(rank)).map(List::first)
    }
}

/// A set of users with a rate of their own.
///
/// Its users that may send have a rank each: twice their best class, for those whose buckets hold enough for another packet
/// like the first (they have sent little of late, or less than they might), and one more for the others. So whoever
/// keeps to its rate does not stand in line behind all who always have packets waiting. Those get one turn in
/// [`STREAK`] all the same.
#[derive(Clone, Debug)]
pub(crate) struct Subport {
    pub(crate) full_at: Fine,
    pub(crate) place: Place,
    pub(crate) active: Active<{ 2 * MAX_CLASSES }>,
    /// Turns in a row of users of the better rank of a class, while others of that class stood in line.
    streak: u8,
}

/// So many turns in a row at most are for users of the better rank of a class while others of that class stand in line.
const STREAK: u8 = 8;

impl Subport {
    /// The user whose turn it is, and its class.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<(u8, u32)> {
        let best = self.active.best();
        let others = self.active.ranks & 2 << best != 0 && best.is_multiple_of(2);
        let rank = if others && self.streak >= STREAK { best + 1 } else { best };
        self.active.first(rank).map(|user| (rank / 2, user))
    }

    /// A user of a rank has had its turn.
    #[inline(always)]
    pub(crate) fn count_turn(&mut self, rank: u8) {
        let others = self.active.ranks & 2 << rank != 0 && rank.is_multiple_of(2);
        self.streak = if others { self.streak + 1 } else { 0 };
    }
}

/// What becomes of a user.
enum Judgement {
    Nothing,
    May(u8),
    From(Fine),
}

/// A hierarchical scheduler of items for users with `C` classes and `Q` queues each, the lowest class having `Q - C + 1`.
///
/// A user with packets has one time from which on its next packet may go. At or after it, the user stands in a list of its
/// subport; before it, in a timing wheel. A subport without tokens is in the wheel itself, and its lists stay as they are. So
/// taking a packet and sending one cost the same however many users and packets there are, and nothing is searched.
pub struct Scheduler<T, const C: usize, const Q: usize> {
    pub(crate) pipes: Indexed<Pipe<C, Q>>,
    links: Links,
    pub(crate) subports: Indexed<Subport>,
    subport_links: Links,
    pub(crate) port: Active<MAX_CLASSES>,
    pub(crate) port_full_at: Fine,
    /// Users, and behind them subports.
    pub(crate) wheel: Wheel,
    pub(crate) slab: Slab<T>,
    heavy: Heavy,
    pub(crate) profiles: Arc<Profiles>,
    /// What managements remember of each user's queues; none where no profile has one.
    pub(crate) states: Indexed<[State; Q]>,
    pub(crate) counters: Arc<UserCounters>,
    random: u64,
    setup: Setup,
}

/// Subports of a scheduler at most.
pub const MAX_SUBPORTS: usize = 4096;

impl<T, const C: usize, const Q: usize> Scheduler<T, C, Q> {
    /// A scheduler without users: see [`Scheduler::assign`].
    pub fn new(setup: Setup, profiles: Arc<Profiles>) -> Scheduler<T, C, Q> {
        const { assert!(C >= 1 && C <= 8 && Q >= C && Q <= C + 7) };
        let subports = profiles.subports.len().clamp(1, MAX_SUBPORTS);
        let subport = Subport { full_at: 0, place: Place::Idle, active: Active::NONE, streak: 0 };
        let managed = if profiles.managed() { setup.users } else { 0 };
        Scheduler {
            pipes: Indexed::new(setup.users as usize, Pipe::NEW),
            links: Links::new(setup.users as usize),
            subports: Indexed::new(subports, subport),
            subport_links: Links::new(subports),
            port: Active::NONE,
            port_full_at: 0,
            wheel: Wheel::new(setup.users.saturating_add(subports as u32), setup.wheel),
            slab: Slab::new(setup.buffers),
            heavy: Heavy::new(setup.users, setup.minimum),
            profiles,
            states: Indexed::new(managed as usize, [State::default(); Q]),
            counters: Arc::new(UserCounters::new(setup.users)),
            random: 0x9e37_79b9_7f4a_7c15,
            setup,
        }
    }

    /// Packets that it holds.
    #[inline(always)]
    pub fn held(&self) -> u32 {
        self.slab.room() - self.slab.left()
    }

    /// Packets that a user holds.
    pub fn held_by(&self, user: u32) -> u32 {
        self.pipes.at(user).held
    }

    /// The counts of its users.
    pub fn counters(&self) -> &Arc<UserCounters> {
        &self.counters
    }

    /// Bytes of state per user, whether anything waits or not, and bytes per packet that may wait beside the packet's own.
    pub const fn bytes() -> (usize, usize) {
        (crate::pipe::idle_bytes::<C, Q>(), Slab::<T>::BYTES)
    }

    /// Hints that a packet of a user will be offered or sent soon.
    #[inline(always)]
    pub fn prefetch(&self, user: u32) {
        self.pipes.prefetch(user);
        self.counters.prefetch(user);
    }

    /// Offers a packet. `item` is called for it once it is taken; what it then does not give is not there.
    ///
    /// Returns the packet that another user, who holds more, has lost for it: where no buffer is left, or too few for what
    /// this user holds already.
    ///
    /// # Errors
    ///
    /// Why it is not taken.
    #[inline]
    pub fn enqueue(&mut self, offer: Offer, now: u64, item: impl FnOnce() -> Option<T>) -> Result<Option<T>, Refused> {
        let queue = Pipe::<C, Q>::queue_of(offer.class.class(), offer.class.queue());
        let pushed_out = match self.admit(&offer, queue, now) {
            Ok(false) => None,
            Ok(true) => self.push_out(now),
            Err(refused) => {
                self.counters.dropped(offer.user);
                return Err(refused);
            }
        };
        let Some(item) = item() else { return Ok(pushed_out) };
        let pipe = self.pipes.at_mut(offer.user);
        let Some(first) = pipe.queues.get_mut(queue) else { return Ok(pushed_out) };
        let joins = *first == NONE;
        if let Some(back) = self.slab.push(first, item, offer.length, now) {
            return Ok(Some(back)); // a node was free or has been freed above
        }
        pipe.backlog |= 1 << queue;
        pipe.held += 1;
        self.heavy.change(offer.user, pipe.held - 1, pipe.held);
        let settled = match pipe.place {
            Place::Active(rank) => Pipe::<C, Q>::class_of(queue) >= usize::from(rank / 2),
            Place::Idle | Place::Waiting => false,
        };
        if joins && !settled {
            self.settle(offer.user, now);
        }
        Ok(pushed_out)
    }

    /// Whether a packet is taken, and whether another one must make room for it.
    #[inline(always)]
    fn admit(&mut self, offer: &Offer, queue: usize, now: u64) -> Result<bool, Refused> {
        let pipe = self.pipes.at(offer.user);
        if !pipe.open {
            return Err(Refused::NoSuchUser);
        }
        let class = Pipe::<C, Q>::class_of(queue);
        let profile = self.profiles.user(pipe.profile);
        let queued = self.slab.count(pipe.first(queue));
        if profile.classes.get(class).is_none_or(|class| queued >= class.queue_size) {
            return Err(Refused::QueueFull);
        }
        let (held, left) = (pipe.held, self.slab.left());
        // The dynamic threshold of Choudhury and Hahne (1998), with a factor of 1: what all hold in excess of their minimum
        // shrinks the share of each, so that some buffers are always left for others.
        let over = held >= self.setup.minimum && held - self.setup.minimum >= left;
        let makes_room = over || left == 0;
        if makes_room && !self.somebody_holds_more(held) {
            return Err(Refused::OverShare);
        }
        if profile.managed >> class & 1 != 0 {
            self.ask_management(offer, queue, now)?;
        }
        Ok(makes_room)
    }

    /// Whether somebody holds so much more than `held` packets that giving one up for another user makes them more equal.
    #[cold]
    fn somebody_holds_more(&self, held: u32) -> bool {
        self.heavy.heaviest().is_some_and(|user| self.pipes.at(user).held > held + 1)
    }

    #[cold]
    fn ask_management(&mut self, offer: &Offer, queue: usize, now: u64) -> Result<(), Refused> {
        // Marsaglia's xorshift64.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let pipe = self.pipes.at(offer.user);
        let profile = self.profiles.user(pipe.profile);
        let manage = profile.classes.get(Pipe::<C, Q>::class_of(queue)).and_then(|class| class.manage.as_deref());
        let state = self.states.at_mut(offer.user).get_mut(queue);
        let (Some(manage), Some(state)) = (manage, state) else { return Ok(()) };
        let arrival = Arrival {
            now,
            queued: u32::from(self.slab.count(pipe.first(queue))),
            bytes: u32::from(offer.length),
            colour: offer.colour,
            random: (self.random >> 32) as u32,
        };
        match manage.arrive(state, &arrival) {
            Verdict::Pass => Ok(()),
            Verdict::Drop => Err(Refused::Managed),
        }
    }

    /// Takes the last packet of the lowest queue of who holds most.
    #[cold]
    fn push_out(&mut self, now: u64) -> Option<T> {
        let user = self.heavy.heaviest()?;
        let queue = self.pipes.at(user).backlog.checked_ilog2()? as usize;
        let first = self.pipes.at_mut(user).queues.get_mut(queue)?;
        let gone = self.slab.pop_back(first)?;
        let emptied = *first == NONE;
        self.counters.dropped(user);
        self.account_gone(user, queue, emptied, now);
        if emptied {
            self.settle(user, now);
        }
        Some(gone.item)
    }

    /// Takes the first packet of a queue.
    #[inline(always)]
    pub(crate) fn pop(&mut self, user: u32, queue: usize, now: u64) -> Option<Gone<T>> {
        let first = self.pipes.at_mut(user).queues.get_mut(queue)?;
        let gone = self.slab.pop_front(first)?;
        let emptied = *first == NONE;
        self.account_gone(user, queue, emptied, now);
        Some(gone)
    }

    #[inline(always)]
    fn account_gone(&mut self, user: u32, queue: usize, emptied: bool, now: u64) {
        let pipe = self.pipes.at_mut(user);
        pipe.held -= 1;
        self.heavy.change(user, pipe.held + 1, pipe.held);
        if emptied {
            pipe.emptied(queue);
            let class = Pipe::<C, Q>::class_of(queue);
            let profile = self.profiles.user(pipe.profile);
            if profile.managed >> class & 1 != 0
                && let Some(manage) = profile.classes.get(class).and_then(|class| class.manage.as_deref())
                && let Some(state) = self.states.at_mut(user).get_mut(queue)
            {
                manage.emptied(state, now);
            }
        }
    }

    /// Puts a user where it belongs, behind those who stand there.
    #[inline(always)]
    pub(crate) fn settle(&mut self, user: u32, now: u64) {
        let pipe = self.pipes.at_mut(user);
        let profile = self.profiles.user(pipe.profile);
        match judge(pipe, profile, &self.slab, fine(now)) {
            Judgement::Nothing => self.leave(user),
            Judgement::May(rank) => {
                self.leave(user);
                let pipe = self.pipes.at_mut(user);
                pipe.place = Place::Active(rank);
                let number = u32::from(pipe.subport);
                self.subports.at_mut(number).active.push(&mut self.links, rank, user);
                self.settle_subport(number);
            }
            Judgement::From(at) => {
                self.leave(user);
                self.pipes.at_mut(user).place = Place::Waiting;
                self.wait(user, nanos(at), now);
            }
        }
    }

    /// Takes a user out of the list or the wheel that it is in.
    #[inline(always)]
    fn leave(&mut self, user: u32) {
        let pipe = self.pipes.at_mut(user);
        let number = u32::from(pipe.subport);
        match std::mem::replace(&mut pipe.place, Place::Idle) {
            Place::Idle => {}
            Place::Waiting => _ = self.wheel.remove(user),
            Place::Active(rank) => {
                self.subports.at_mut(number).active.remove(&mut self.links, rank, user);
                self.settle_subport(number);
            }
        }
    }

    fn wait(&mut self, id: u32, until: u64, now: u64) {
        if self.wheel.is_empty() {
            self.wheel.advance(now, 1, |_| {});
        }
        self.wheel.insert(id, until);
    }

    /// Puts a subport where it belongs, unless it waits for tokens.
    #[inline(always)]
    fn settle_subport(&mut self, number: u32) {
        let subport = self.subports.at_mut(number);
        let place = match subport.active.ranks {
            0 => Place::Idle,
            _ => Place::Active(subport.active.best() / 2),
        };
        if subport.place != place && subport.place != Place::Waiting {
            self.move_subport(number, place);
        }
    }

    fn move_subport(&mut self, number: u32, to: Place) {
        let from = std::mem::replace(&mut self.subports.at_mut(number).place, to);
        if let Place::Active(class) = from {
            self.port.remove(&mut self.subport_links, class, number);
        }
        if let Place::Active(class) = to {
            self.port.push(&mut self.subport_links, class, number);
        }
    }

    /// A subport waits for tokens.
    #[cold]
    pub(crate) fn suspend(&mut self, number: u32, until: Fine, now: u64) {
        self.move_subport(number, Place::Waiting);
        self.wait(self.setup.users + number, nanos(until), now);
    }

    /// What has waited in the wheel may have its turn.
    #[inline(always)]
    pub(crate) fn awake(&mut self, id: u32, now: u64) {
        if id < self.setup.users {
            return self.settle(id, now);
        }
        let number = id - self.setup.users;
        self.subports.at_mut(number).place = Place::Idle;
        self.settle_subport(number);
    }

    /// A subport of several has had its turn.
    #[inline(always)]
    pub(crate) fn turn_subport(&mut self, number: u32) {
        let place = self.subports.at(number).place;
        if let Place::Active(class) = place
            && let Some(list) = self.port.lists.get(usize::from(class))
            && list.first() != list.last()
        {
            self.move_subport(number, place);
        }
    }

    /// Bytes that every packet counts more than it has.
    #[inline(always)]
    pub(crate) fn overhead(&self) -> u16 {
        self.setup.overhead
    }

    /// Gives a user a profile and a subport, by their numbers; whoever has none is no user, and its packets are refused. What
    /// waits stays, and goes by the new profile. Numbers beyond [`Setup::users`] are ignored.
    pub fn assign(&mut self, user: u32, to: Option<(u16, u16)>, now: u64) {
        if user >= self.setup.users {
            return;
        }
        let Some((profile, subport)) = to else {
            self.pipes.at_mut(user).open = false;
            return;
        };
        self.leave(user);
        let last = (self.subports.len() - 1) as u16;
        let pipe = self.pipes.at_mut(user);
        (pipe.open, pipe.profile, pipe.subport) = (true, profile, subport.min(last));
        inherit(pipe, self.profiles.user(profile), fine(now));
        self.settle(user, now);
    }

    /// Replaces the profiles. The number of subports stays; users are to be [assigned](Scheduler::assign) again, so that each
    /// goes by its new profile at once and not when it is looked at next.
    pub fn set_profiles(&mut self, profiles: Arc<Profiles>, now: u64) {
        if profiles.managed() && self.states.is_empty() {
            self.states = Indexed::new(self.setup.users as usize, [State::default(); Q]);
        }
        self.port_full_at = profiles.port.inherit(self.port_full_at, fine(now));
        for number in 0..self.subports.len() as u32 {
            let subport = self.subports.at_mut(number);
            subport.full_at = profiles.subport(number as u16).inherit(subport.full_at, fine(now));
            if subport.place == Place::Waiting {
                self.wheel.remove(self.setup.users + number);
                self.awake(self.setup.users + number, now);
            }
        }
        self.profiles = profiles;
    }

    /// Hands over every packet in the order they came. For the end: users stay.
    pub fn clear(&mut self, now: u64, give: &mut dyn FnMut(T)) {
        let mut all = Vec::new();
        for user in 0..self.setup.users {
            while let Some(queue) = self.pipes.at(user).backlog.checked_ilog2() {
                let since = self.slab.since(self.pipes.at(user).first(queue as usize));
                let Some(gone) = self.pop(user, queue as usize, now) else { break };
                all.push((since, gone.item));
            }
            self.leave(user);
        }
        all.sort_by_key(|(since, _)| *since);
        all.into_iter().for_each(|(_, item)| give(item));
    }
}

/// What a user may do at `now`: send a packet of a class, or from when on. The highest class whose cap allows it goes first; while
/// it waits for the user's own rate, no lower one takes the tokens away that it saves.
#[inline(always)]
fn judge<T, const C: usize, const Q: usize>(
    pipe: &mut Pipe<C, Q>,
    profile: &Profile,
    slab: &Slab<T>,
    now: Fine,
) -> Judgement {
    if pipe.backlog == 0 {
        return Judgement::Nothing;
    }
    let mut from = Fine::MAX;
    let mut classes = pipe.classes();
    while classes != 0 {
        let class = classes.trailing_zeros() as usize;
        classes &= classes - 1;
        let queue = pipe.next_queue(class, profile, slab);
        let length = slab.length(pipe.first(queue));
        let own = profile.bucket.eligible_at(pipe.full_at, length);
        let cap = cap_at(pipe, profile, class, length);
        if cap > now {
            from = from.min(cap.max(own));
        } else if own > now {
            return Judgement::From(from.min(own));
        } else {
            let spare = profile.bucket.spare_at(pipe.full_at, length) <= now;
            return Judgement::May(2 * class as u8 + u8::from(!spare));
        }
    }
    Judgement::From(from)
}

/// From when on the cap of a class lets so many bytes go.
#[inline(always)]
fn cap_at<const C: usize, const Q: usize>(pipe: &Pipe<C, Q>, profile: &Profile, class: usize, length: u16) -> Fine {
    if profile.capped >> class & 1 == 0 {
        return 0;
    }
    match (profile.classes.get(class), pipe.class_full_at.get(class)) {
        (Some(class), Some(full_at)) => class.cap.eligible_at(*full_at, length),
        _ => 0,
    }
}

/// The buckets of a user who has a new profile are not emptier than that allows.
fn inherit<const C: usize, const Q: usize>(pipe: &mut Pipe<C, Q>, profile: &Profile, now: Fine) {
    pipe.full_at = profile.bucket.inherit(pipe.full_at, now);
    for (full_at, class) in pipe.class_full_at.iter_mut().zip(&profile.classes) {
        *full_at = class.cap.inherit(*full_at, now);
    }
}

impl<T, const C: usize, const Q: usize> fmt::Debug for Scheduler<T, C, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scheduler({} packets)", self.held())
    }
}
