//! Several queues in a class above the lowest, which share by weight.
//!
//! 1. A packet joins the queue that its offer says; the first, where the class has fewer.
//! 2. Which packet goes next is chosen as soon as the one before it has left, and stays chosen: deficit round robin (Shreedhar and Varghese 1995). The queue
//!    whose turn it is goes while it has credit for its first packet; then the next one in which something waits has its turn, and gets [`QUANTUM`] bytes for each unit
//!    of its weight on top of what it has left over. One in which nothing waits has none. While only one has anything, it has what its first packet costs.
//! 3. What is sent costs its queue credit; what is dropped does not.
//! 4. Where a packet has to make room, it is the last one of the longest queue, of the last of several; if that is the packet that is chosen, it goes, and
//!    another one is chosen.
//! 5. Each of the queues may be [fair](crate::flows), or have [two lines](crate::dual). Then it is that which says which of its packets goes next when its turn comes,
//!    and which makes room. Where another packet of the queue whose turn it is takes the place of the chosen one, the turn goes on if its credit is too little for that.
//!
//! The first packet of such a class, the chosen one, says which of them it is, as that of a [fair](crate::flows) queue does. What is known of it is apart from its user,
//! while something waits in it; what a management remembers of its queues is kept for those users alone who have a profile with such a class. What the first packet of
//! a queue would say of that is with the class while it is the chosen one.

use weir_table::indexed::{Indexed, NONE};

use crate::admit::Order;
use crate::class::{ClassQueue, MAX_QUEUES};
use crate::dual::{DUAL, Duals, Entering, is_dual};
use crate::flows::{Flows, Gone};
use crate::inside::Inside;
use crate::l4s::L4s;
use crate::manage::State;
use crate::profile::{ClassProfile, Profile, Profiles, QUANTUM};
use crate::slab::Slab;

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
    /// What the first packet of that queue would say of it, were it not the first of the class.
    inner: u32,
    /// Packets in all of them; of one in which nothing waits, the next of those.
    packets: u32,
}

const _: () = assert!(size_of::<Split>() == 76);

impl Split {
    const FREE: Split =
        Split { firsts: [NONE; MAX_QUEUES], credits: [0; MAX_QUEUES], turn: 0, inner: NONE, packets: NONE };

    fn first(&self, queue: usize) -> u32 {
        self.firsts.get(queue).copied().unwrap_or(NONE)
    }

    fn set_first(&mut self, queue: usize, to: u32) {
        self.firsts.iter_mut().skip(queue).take(1).for_each(|first| *first = to);
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

    /// Makes room for what managements remember of the queues of so many users with so many classes above the lowest.
    pub(crate) fn remember(&mut self, users: u32, classes: u32) {
        if self.places.is_empty() {
            self.classes = classes;
            self.places = Indexed::new(users as usize * classes as usize, NONE);
        }
    }

    /// Whether there is room for any.
    pub(crate) fn is_empty(&self) -> bool {
        self.splits.is_empty()
    }

    /// What the first packet of a queue says of that.
    pub(crate) fn inner<T>(&self, slab: &Slab<T>, number: u32, queue: usize) -> u32 {
        let split = self.splits.at(number & !SPLIT);
        if queue == split.chosen() { split.inner } else { slab.fair(split.first(queue)) }
    }

    /// Packets in a queue.
    pub(crate) fn packets<T>(
        &self,
        slab: &Slab<T>,
        (flows, duals): (&Flows, &Duals),
        number: u32,
        queue: usize,
    ) -> u32 {
        match self.inner(slab, number, queue) {
            NONE => slab.count(self.splits.at(number & !SPLIT).first(queue)).into(),
            inner if is_dual(inner) => duals.packets(inner),
            inner => flows.packets(inner),
        }
    }

    /// The queue whose packet is chosen, and what that would say of it.
    pub(crate) fn chosen(&self, number: u32) -> (usize, u32) {
        let split = self.splits.at(number & !SPLIT);
        (split.chosen(), split.inner)
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
        self.splits.at_mut(number).turn(slab, class);
        self.veil(slab, number)
    }

    /// The chosen packet says that it is that of its class.
    fn veil<T>(&mut self, slab: &mut Slab<T>, number: u32) -> u32 {
        let split = self.splits.at_mut(number);
        let first = split.first(split.chosen());
        split.inner = slab.fair(first);
        slab.set_fair(first, number | SPLIT);
        first
    }

    /// The chosen packet says what it does as the first of its queue.
    fn unveil<T>(&mut self, slab: &mut Slab<T>, number: u32) {
        let split = self.splits.at(number);
        slab.set_fair(split.first(split.chosen()), split.inner);
    }

    /// Puts a packet in a queue of a class; it is given back where there is no room. Whether another packet is the first of the class then.
    pub(crate) fn join<T>(
        &mut self,
        slab: &mut Slab<T>,
        inside: &mut Inside<'_>,
        chosen: &mut u32,
        packet: Entering<T>,
        (queue, class): (usize, &ClassProfile),
    ) -> Result<bool, T> {
        if slab.left() == 0 || queue >= MAX_QUEUES {
            return Err(packet.joining.item);
        }
        let is_first = *chosen == NONE;
        let number = if is_first { self.open() } else { slab.fair(*chosen) & !SPLIT };
        if !is_first {
            self.unveil(slab, number);
        }
        let split = self.splits.at_mut(number);
        let mut first = split.first(queue);
        let refused = inside.join(slab, &mut first, packet, class);
        let turns = is_first || queue == split.chosen() && first != split.first(queue);
        split.set_first(queue, first);
        split.packets += u32::from(refused.is_none());
        *chosen = if turns { self.choose(slab, number, class) } else { self.veil(slab, number) };
        refused.map_or(Ok(turns), Err)
    }

    /// The chosen packet of a user has left its queue, in which, or in its flow or line, it has `first` behind it: it is sent, or dropped. The packet that goes next.
    pub(crate) fn left<T>(
        &mut self,
        slab: &mut Slab<T>,
        inside: &mut Inside<'_>,
        first: u32,
        gone: &Gone<'_>,
        (user, is_sent): (u32, bool),
    ) -> u32 {
        let number = gone.fair & !SPLIT;
        let split = self.splits.at_mut(number);
        let turn = split.chosen();
        let first = inside.left(slab, first, &Gone { fair: split.inner, ..*gone }, is_sent);
        split.set_first(turn, first);
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

    /// Takes a packet of the longest queue of a class, if that is not the one that is chosen; and says which queue has none left, if it has.
    pub(crate) fn lose<T>(
        &mut self,
        slab: &mut Slab<T>,
        inside: &mut Inside<'_>,
        gone: &Gone<'_>,
    ) -> Option<(T, Option<usize>)> {
        let number = gone.fair & !SPLIT;
        let packets = |queue: &usize| self.packets(slab, (inside.flows, inside.duals), number, *queue);
        let longest = (0..MAX_QUEUES).max_by_key(packets)?;
        self.unveil(slab, number);
        let split = self.splits.at_mut(number);
        let is_chosen = longest == split.chosen();
        let first = split.firsts.get_mut(longest)?;
        let item = match inside.lose(slab, first, is_chosen) {
            None if !is_chosen => inside.drop_first(slab, first, gone),
            item => item,
        };
        let is_empty = *first == NONE;
        split.packets -= u32::from(item.is_some());
        if is_empty {
            split.set_credit(longest, 0);
        }
        self.veil(slab, number);
        Some((item?, is_empty.then_some(longest)))
    }

    /// The fattest flow of one of the queues, which is fair and full, loses a packet, if there is a fat one.
    pub(crate) fn lose_of_flow<T>(
        &mut self,
        slab: &mut Slab<T>,
        inside: &mut Inside<'_>,
        fair: u32,
        queue: usize,
    ) -> Option<T> {
        let number = fair & !SPLIT;
        self.unveil(slab, number);
        let split = self.splits.at_mut(number);
        let item = inside.flows.lose(slab, split.first(queue));
        split.packets -= u32::from(item.is_some());
        self.veil(slab, number);
        item
    }

    /// Gives a class in which packets wait one behind the other several queues: all of them are in the first.
    pub(crate) fn adopt<T>(&mut self, slab: &mut Slab<T>, queue: u32, class: &ClassProfile) {
        let number = self.open();
        let split = self.splits.at_mut(number);
        (split.firsts, split.packets) = ([NONE; MAX_QUEUES], slab.count(queue).into());
        split.set_first(0, queue);
        self.choose(slab, number, class);
    }

    /// Has packets wait in each queue of a class as they are to.
    pub(crate) fn reorder<T>(&mut self, slab: &mut Slab<T>, inside: &mut Inside<'_>, chosen: u32, wanted: Order) {
        let number = slab.fair(chosen) & !SPLIT;
        self.unveil(slab, number);
        let firsts = self.splits.at(number).firsts;
        firsts.into_iter().filter(|first| *first != NONE).for_each(|first| inside.reorder(slab, first, wanted));
        self.veil(slab, number);
    }

    /// Makes one queue of those of a class, in which packets wait one behind the other: that of the chosen packet comes first, then the others as their turns would.
    pub(crate) fn dissolve<T>(&mut self, slab: &mut Slab<T>, inside: &mut Inside<'_>, chosen: u32) {
        self.reorder(slab, inside, chosen, Order::One);
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
    pub(crate) fn settle(&mut self, user: u32, profile: &Profile) {
        for class in 0..self.classes as usize {
            let wants = profile.parts_remember(class);
            let Some(at) = self.place(user, class) else { return };
            let place = *self.places.at(at);
            if wants == (place != NONE) {
                self.forget_coupling(place, profile.coupling(class).is_some());
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

    /// What another management has left is none of a coupling's business, nor the other way round.
    fn forget_coupling(&mut self, place: u32, is_coupled: bool) {
        let states = self.states.get_mut(place as usize).into_iter().flatten();
        states.filter(|state| L4s::knows(state) != is_coupled).for_each(|state| *state = State::default());
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

impl ClassProfile {
    /// How packets wait in each queue of the class.
    pub(crate) fn order(&self) -> Order {
        match (self.fair, &self.dual) {
            (true, _) => Order::Fair,
            (false, Some(_)) => Order::Lines,
            (false, None) => Order::One,
        }
    }

    /// The queue that a packet joins, of several.
    pub(crate) fn queue_in(&self, class: ClassQueue) -> usize {
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
