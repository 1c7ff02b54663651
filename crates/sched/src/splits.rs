//! Several queues in a class above the lowest, which share by weight.
//!
//! 1. A packet joins the queue that its offer says; the first, where the class has fewer.
//! 2. Which packet goes next is chosen as soon as the one before it has left, and stays chosen: deficit round robin (Shreedhar and Varghese 1995). The queue
//!    whose turn it is goes while it has credit for its first packet; then the next one in which something waits has its turn, and gets [`QUANTUM`] bytes for each unit
//!    of its weight on top of what it has left over. One in which nothing waits has none. While only one has anything, it has what its first packet costs.
//! 3. What is sent costs its queue credit; what is dropped does not.
//! 4. Where a packet has to make room, it is the last one of the longest queue, of the last of several; if that is the packet that is chosen, it goes, and
//!    another one is chosen.
//!
//! The first packet of such a class, the chosen one, says which of them it is, as that of a [fair](crate::flows) queue does. What is known of it is apart from its user,
//! while something waits in it; what a management remembers of its queues is kept for those users alone who have a profile with such a class.

use weir_table::indexed::{Indexed, NONE};

use crate::class::{ClassQueue, MAX_QUEUES};
use crate::dequeue::mark_first;
use crate::dual::DUAL;
use crate::flows::Gone;
use crate::gates::Loss;
use crate::manage::{Departure, State, lets_go};
use crate::offer::{Displaced, Offer, Offered};
use crate::profile::{ClassProfile, Profile, Profiles, QUANTUM};
use crate::scheduler::Scheduler;
use crate::slab::{Head, Slab};

/// In what a first packet says of its class: that it has several queues.
const SPLIT: u32 = 1 << 30;

/// Whether what a first packet says, where it says anything, is neither nothing nor that flows take turns.
#[inline(always)]
pub(crate) fn is_apart_from_flows(fair: u32) -> bool {
    fair >= SPLIT && fair != NONE
}

/// Whether it is that its class has several queues.
#[inline(always)]
pub(crate) fn is_split(fair: u32) -> bool {
    fair & (SPLIT | DUAL) == SPLIT
}

/// A class with several queues in which something waits.
#[derive(Clone, Debug)]
struct Split {
    /// The first packets.
    firsts: [u32; MAX_QUEUES],
    /// Bytes that each may still send.
    credits: [u32; MAX_QUEUES],
    /// The queue whose packet is chosen.
    turn: u32,
    /// Packets in all of them; of one in which nothing waits, the next of those.
    packets: u32,
}

const _: () = assert!(size_of::<Split>() == 72);

impl Split {
    const FREE: Split = Split { firsts: [NONE; MAX_QUEUES], credits: [0; MAX_QUEUES], turn: 0, packets: NONE };

    fn first(&self, queue: usize) -> u32 {
        self.firsts.get(queue).copied().unwrap_or(NONE)
    }

    fn set_credit(&mut self, queue: usize, to: u32) {
        self.credits.iter_mut().skip(queue).take(1).for_each(|credit| *credit = to);
    }

    fn credit(&self, queue: usize) -> u32 {
        self.credits.get(queue).copied().unwrap_or(0)
    }

    /// The queue whose packet is chosen.
    fn chosen(&self) -> usize {
        self.turn as usize
    }

    /// Has the queue whose turn it is be the one that goes next, where anything waits.
    fn turn<T>(&mut self, slab: &Slab<T>, class: &ClassProfile) {
        // A frame takes at most so many rounds to be paid for; each goes by every queue.
        const ROUNDS: usize = u16::MAX as usize / QUANTUM as usize + 1;
        let mut waiting = (0..MAX_QUEUES).filter(|queue| self.first(*queue) != NONE);
        if let (Some(only), None) = (waiting.next(), waiting.next()) {
            self.turn = only as u32;
            return self.set_credit(only, slab.length(self.first(only)).into());
        }
        for _ in 0..ROUNDS * MAX_QUEUES {
            let first = self.first(self.chosen());
            if first != NONE && self.credit(self.chosen()) >= u32::from(slab.length(first)) {
                return;
            }
            self.turn = (self.turn + 1) % MAX_QUEUES as u32;
            let next = self.chosen();
            if self.first(next) != NONE {
                self.set_credit(next, self.credit(next) + class.quantum(next));
            }
        }
    }
}

/// All classes with several queues of a scheduler, but for the lowest.
#[derive(Debug)]
pub(crate) struct Splits {
    splits: Indexed<Split>,
    /// The first in which nothing waits.
    free: u32,
    /// Where what managements remember of a user's class is among `states`; none where no profile has such classes with managements.
    places: Indexed<u32>,
    states: Vec<[State; MAX_QUEUES]>,
    /// Places in `states` that are nobody's.
    spare: Vec<u32>,
    classes: u32,
}

impl Splits {
    /// Bytes for each packet that may wait.
    pub(crate) const BYTES: usize = size_of::<Split>();

    /// For so many classes that hold no more than so many packets together.
    pub(crate) fn new(packets: u32, classes: u32) -> Splits {
        let count = classes.min(packets);
        let split = |n: u32| Split { packets: if n + 1 < count { n + 1 } else { NONE }, ..Split::FREE };
        Splits {
            splits: Indexed::from_fn(count as usize, split, Split::FREE),
            free: if count == 0 { NONE } else { 0 },
            places: Indexed::new(0, NONE),
            states: Vec::new(),
            spare: Vec::new(),
            classes: 0,
        }
    }

    /// Whether there is room for any.
    pub(crate) fn is_empty(&self) -> bool {
        self.splits.is_empty()
    }

    /// Packets in a queue.
    pub(crate) fn packets<T>(&self, slab: &Slab<T>, number: u32, queue: usize) -> u16 {
        slab.count(self.splits.at(number & !SPLIT).first(queue))
    }

    /// The queue whose packet is chosen.
    pub(crate) fn chosen(&self, number: u32) -> usize {
        self.splits.at(number & !SPLIT).chosen()
    }

    fn open(&mut self) -> u32 {
        let number = self.free;
        let split = self.splits.at_mut(number);
        self.free = split.packets;
        *split = Split { packets: 0, ..Split::FREE };
        number
    }

    fn close(&mut self, number: u32) {
        *self.splits.at_mut(number) = Split { packets: self.free, ..Split::FREE };
        self.free = number;
    }

    /// Chooses which packet goes next, of a class in which something waits.
    fn choose<T>(&mut self, slab: &mut Slab<T>, number: u32, class: &ClassProfile) -> u32 {
        let split = self.splits.at_mut(number);
        split.turn(slab, class);
        let first = split.first(split.chosen());
        slab.set_fair(first, number | SPLIT);
        first
    }

    /// Puts a packet in a queue of a class; it is given back where there is no room.
    fn join<T>(
        &mut self,
        slab: &mut Slab<T>,
        chosen: &mut u32,
        packet: (T, u16, u64),
        (queue, class): (usize, &ClassProfile),
    ) -> Result<(), T> {
        let (item, length, now) = packet;
        if slab.left() == 0 {
            return Err(item);
        }
        let number = if *chosen == NONE { self.open() } else { slab.fair(*chosen) & !SPLIT };
        let split = self.splits.at_mut(number);
        let Some(first) = split.firsts.get_mut(queue) else { return Err(item) };
        if let Some(item) = slab.push(first, item, length, now) {
            return Err(item);
        }
        split.packets += 1;
        if *chosen == NONE {
            *chosen = self.choose(slab, number, class);
        }
        Ok(())
    }

    /// The chosen packet of a user has left its queue, which has `first` now: it is sent, or dropped. The packet that goes next.
    pub(crate) fn left<T>(&mut self, slab: &mut Slab<T>, first: u32, gone: &Gone<'_>, user: u32, is_sent: bool) -> u32 {
        let number = gone.fair & !SPLIT;
        let split = self.splits.at_mut(number);
        let turn = split.chosen();
        split.firsts.iter_mut().skip(turn).take(1).for_each(|place| *place = first);
        let paid = if is_sent { gone.length.into() } else { 0 };
        split.set_credit(turn, if first == NONE { 0 } else { split.credit(turn).saturating_sub(paid) });
        split.packets -= u32::from(split.packets > 0);
        let is_last = split.packets == 0;
        if first == NONE {
            self.emptied(user, (gone.class, turn), gone.profile, gone.now);
        }
        if is_last {
            self.close(number);
            return NONE;
        }
        match gone.profile.classes.get(gone.class) {
            Some(class) => self.choose(slab, number, class),
            None => NONE,
        }
    }

    /// The last packet of a queue of a user's class has left it, the only one perhaps.
    pub(crate) fn emptied(&mut self, user: u32, (class, queue): (usize, usize), profile: &Profile, now: u64) {
        if let (Some(manage), Some(state)) = (profile.manage(class), self.state_mut(user, class, queue)) {
            manage.emptied(state, now);
        }
    }

    /// Takes the last packet of the longest queue of a class, if that is not the one that is chosen; and says which queue has none left, if it has.
    fn lose<T>(&mut self, slab: &mut Slab<T>, chosen: u32) -> Option<(T, Option<usize>)> {
        let split = self.splits.at_mut(slab.fair(chosen) & !SPLIT);
        let longest = (0..MAX_QUEUES).max_by_key(|queue| slab.count(split.first(*queue)))?;
        if longest == split.chosen() && slab.count(split.first(longest)) == 1 {
            return None;
        }
        let item = slab.pop_back(split.firsts.get_mut(longest)?)?;
        split.packets -= 1;
        let is_empty = split.first(longest) == NONE;
        if is_empty {
            split.set_credit(longest, 0);
        }
        Some((item, is_empty.then_some(longest)))
    }

    /// Gives a class in which packets wait several queues: all of them are in the first.
    pub(crate) fn adopt<T>(&mut self, slab: &mut Slab<T>, queue: u32, class: &ClassProfile) {
        let number = self.open();
        let split = self.splits.at_mut(number);
        (split.firsts, split.packets) = ([NONE; MAX_QUEUES], slab.count(queue).into());
        split.firsts.iter_mut().take(1).for_each(|first| *first = queue);
        self.choose(slab, number, class);
    }

    /// Makes one queue of those of a class: that of the chosen packet comes first, then the others as their turns would.
    pub(crate) fn dissolve<T>(&mut self, slab: &mut Slab<T>, chosen: u32) {
        let number = slab.fair(chosen) & !SPLIT;
        slab.set_fair(chosen, NONE);
        let split = self.splits.at(number);
        for n in 1..MAX_QUEUES {
            let other = split.first((split.chosen() + n) % MAX_QUEUES);
            if other != NONE {
                slab.append(chosen, other);
            }
        }
        self.close(number);
    }

    /// What the management of a user's class remembers of one of its queues.
    pub(crate) fn state_mut(&mut self, user: u32, class: usize, queue: usize) -> Option<&mut State> {
        let place = *self.places.at(self.place(user, class)?);
        self.states.get_mut(place as usize)?.get_mut(queue)
    }

    fn place(&self, user: u32, class: usize) -> Option<u32> {
        ((class as u32) < self.classes).then(|| user * self.classes + class as u32)
    }

    /// A user has a profile from now on: whatever managements remember of queues that it does not have is forgotten.
    fn settle(&mut self, user: u32, profile: &Profile) {
        for class in 0..self.classes as usize {
            let wants = profile.split >> class & 1 != 0 && profile.manage(class).is_some();
            let Some(at) = self.place(user, class) else { return };
            let place = *self.places.at(at);
            if wants == (place != NONE) {
                continue;
            }
            *self.places.at_mut(at) = match wants {
                true => self.take_place(),
                false => {
                    self.spare.push(place);
                    NONE
                }
            };
        }
    }

    fn take_place(&mut self) -> u32 {
        let place = self.spare.pop().unwrap_or(self.states.len() as u32);
        match self.states.get_mut(place as usize) {
            Some(states) => *states = [State::default(); MAX_QUEUES],
            None => self.states.push([State::default(); MAX_QUEUES]),
        }
        place
    }
}

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Makes room for classes with several queues, once any may have them.
    pub(crate) fn make_splits(&mut self) {
        if !self.profiles.splits() {
            return;
        }
        if self.splits.is_empty() {
            self.splits = Splits::new(self.slab.room(), self.setup.users.saturating_mul(C as u32 - 1));
        }
        if self.splits.places.is_empty() && self.profiles.users.iter().any(|user| user.split & user.managed != 0) {
            self.splits.classes = C as u32 - 1;
            self.splits.places = Indexed::new(self.setup.users as usize * (C - 1), NONE);
        }
    }

    /// The queue of a class with several that a packet joins.
    fn queue_in(&self, offer: &Offer, class: usize) -> usize {
        let profile = self.profiles.user(self.users.gates.at(offer.user).standing().profile());
        profile.classes.get(class).map_or(0, |rules| rules.queue_in(offer.class))
    }

    /// Packets that wait in the queue of a class that a packet would join, where something waits in that class; and which queue that is.
    pub(crate) fn queued_in(&self, offer: &Offer, class: usize) -> (u16, usize) {
        let (first, queue) = (self.users.states.at(offer.user).first(class), self.queue_in(offer, class));
        let fair = if first == NONE { NONE } else { self.slab.fair(first) };
        (if is_split(fair) { self.splits.packets(&self.slab, fair, queue) } else { self.slab.count(first) }, queue)
    }

    /// Takes a packet of a class with several queues, in which there is room for it. Given back where there is none.
    #[cold]
    pub(crate) fn join_split(
        &mut self,
        offer: &Offer,
        class: usize,
        packet: impl Offered<T>,
        now: u64,
    ) -> Option<Displaced<T>> {
        let item = packet.take()?;
        let queue = self.queue_in(offer, class);
        let profile = self.profiles.user(self.users.gates.at(offer.user).standing().profile());
        let first = self.users.states.at_mut(offer.user).queues.get_mut(class)?;
        let joins = *first == NONE;
        let rules = profile.classes.get(class)?;
        match self.splits.join(&mut self.slab, first, (item, offer.length, now), (queue, rules)) {
            Ok(()) => self.joined(offer.user, class, joins, now),
            // A node was free or has been freed before.
            Err(item) => return Some(Displaced { item, loss: Loss::PushedOut }),
        }
        None
    }

    /// Takes a packet of a class with several queues that has to make room, if it is not the one that is chosen.
    pub(crate) fn lose_of_split(&mut self, user: u32, class: usize, now: u64) -> Option<T> {
        let (item, emptied) = self.splits.lose(&mut self.slab, self.users.states.at(user).first(class))?;
        if let Some(queue) = emptied {
            let profile = self.profiles.user(self.users.gates.at(user).standing().profile());
            self.splits.emptied(user, (class, queue), profile, now);
        }
        Some(item)
    }

    /// Whether the management lets the chosen packet of a class with several queues go, with a mark perhaps; else it is to be dropped.
    #[cold]
    pub(crate) fn goes_of_split(&mut self, user: u32, class: usize, head: &Head, now: u64) -> bool {
        let profile = self.profiles.user(self.users.gates.at(user).standing().profile());
        let (node, queue) = (self.users.states.at(user).first(class), self.splits.chosen(head.fair));
        let (Some(manage), Some(state)) = (profile.manage(class), self.splits.state_mut(user, class, queue)) else {
            return true;
        };
        let (sojourn, behind) = (now.saturating_sub(head.since), head.count.saturating_sub(1).into());
        let departure = Departure { now, sojourn, behind, bytes: head.length.into() };
        let mark = || mark_first(&mut self.slab, self.marker, &self.users.gates, (user, class, node), now);
        lets_go(manage, state, &departure, mark)
    }

    /// A packet has gone straight through a queue of a class with several.
    pub(crate) fn tell_part_emptied(&mut self, offer: &Offer, class: usize, now: u64) {
        let queue = self.queue_in(offer, class);
        let profile = self.profiles.user(self.users.gates.at(offer.user).standing().profile());
        self.splits.emptied(offer.user, (class, queue), profile, now);
    }

    /// What managements remember of the queues of a user who is somebody else.
    pub(crate) fn settle_parts(&mut self, user: u32) {
        let profile = self.profiles.user(self.users.gates.at(user).standing().profile());
        self.splits.settle(user, profile);
    }
}

impl ClassProfile {
    /// The queue that a packet joins, of several.
    fn queue_in(&self, class: ClassQueue) -> usize {
        let queue = usize::from(class.queue());
        if queue < self.weights.len() { queue } else { 0 }
    }

    /// Bytes per round of one of several queues.
    fn quantum(&self, queue: usize) -> u32 {
        u32::from(self.weights.get(queue).copied().unwrap_or(1).max(1)) * QUANTUM
    }
}

impl Profiles {
    /// Whether any class above the lowest has several queues.
    pub(crate) fn splits(&self) -> bool {
        self.users.iter().any(|user| user.split != 0)
    }
}
