//! Classes above the lowest with several queues: where a scheduler treats them otherwise than those with one.

use weir_table::indexed::NONE;

use crate::admit::Order;
use crate::dequeue::mark_first;
use crate::dual::{Entering, is_dual};
use crate::flows::{Gone, Joining};
use crate::gates::{Loss, Place};
use crate::inside::{Inside, order};
use crate::l4s::Line;
use crate::manage::lets_go;
use crate::offer::{Displaced, Offer, Offered, Refused};
use crate::profile::{ClassProfile, Profile};
use crate::scheduler::Scheduler;
use crate::slab::Head;
use crate::splits::{Splits, is_split};

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Makes room for classes with several queues, once any may have them.
    pub(crate) fn make_splits(&mut self) {
        if !self.profiles.splits() {
            return;
        }
        if self.splits.is_empty() {
            self.splits = Splits::new(self.slab.room(), self.setup.users.saturating_mul(C as u32 - 1));
        }
        let remember = |user: &Profile| (0..C).any(|class| user.parts_remember(class));
        if self.profiles.users.iter().any(remember) {
            self.splits.remember(self.setup.users, C as u32 - 1);
        }
    }

    fn profile_of(&self, user: u32) -> &Profile {
        self.profiles.user(self.users.gates.at(user).standing().profile())
    }

    /// The queue of a class with several that a packet joins.
    fn queue_in(&self, offer: &Offer, class: usize) -> usize {
        self.profile_of(offer.user).classes.get(class).map_or(0, |rules| rules.queue_in(offer.class))
    }

    /// Packets that wait in the queue of a class that a packet would join, where something waits in that class; which queue that is, and how they do.
    pub(crate) fn queued_in(&self, offer: &Offer, class: usize) -> (u16, usize, Order) {
        let (first, queue) = (self.users.states.at(offer.user).first(class), self.queue_in(offer, class));
        let fair = if first == NONE { NONE } else { self.slab.fair(first) };
        if !is_split(fair) {
            let wanted = self.profile_of(offer.user).classes.get(class).map_or(Order::One, ClassProfile::order);
            return (self.slab.count(first), queue, wanted);
        }
        let packets = self.splits.packets(&self.slab, (&self.flows, &self.duals), fair, queue);
        let is = match packets {
            0 => self.profile_of(offer.user).classes.get(class).map_or(Order::One, ClassProfile::order),
            _ => order(self.splits.inner(&self.slab, fair, queue)),
        };
        (packets.min(u16::MAX.into()) as u16, queue, is)
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
        let queue = self.queue_in(offer, class);
        let standing = self.users.gates.at(offer.user).standing();
        let rules = self.profiles.user(standing.profile()).classes.get(class)?;
        // Nobody asks for the others.
        let hash = if rules.fair { packet.flow() } else { 0 };
        let line = if rules.dual.is_some() { Line::of(packet.ecn()) } else { Line::Classic };
        let joining = Joining { item: packet.take()?, length: offer.length, now, hash };
        let may_turn = standing.place() == Place::Waiting;
        let first = self.users.states.at_mut(offer.user).queues.get_mut(class)?;
        let mut inside = Inside { flows: &mut self.flows, duals: &mut self.duals };
        let packet = Entering { joining, line, may_turn };
        match self.splits.join(&mut self.slab, &mut inside, first, packet, (queue, rules)) {
            Ok(joins) => self.joined(offer.user, class, joins, now),
            // A node was free or has been freed before.
            Err(item) => return Some(Displaced { item, loss: Loss::PushedOut }),
        }
        None
    }

    /// Takes a packet of a class with several queues that has to make room, if it is not the one that is chosen.
    pub(crate) fn lose_of_split(&mut self, user: u32, class: usize, now: u64) -> Option<T> {
        let profile = self.profiles.user(self.users.gates.at(user).standing().profile());
        let fair = self.slab.fair(self.users.states.at(user).first(class));
        let mut inside = Inside { flows: &mut self.flows, duals: &mut self.duals };
        let gone = Gone { fair, length: 0, class, profile, now };
        let (item, emptied) = self.splits.lose(&mut self.slab, &mut inside, &gone)?;
        if let Some(queue) = emptied {
            self.splits.emptied(user, (class, queue), profile, now);
        }
        Some(item)
    }

    /// The same where a packet comes to one of its queues that is fair, and full.
    pub(crate) fn lose_of_part(&mut self, offer: &Offer, class: usize, fair: u32) -> Option<T> {
        let queue = self.queue_in(offer, class);
        let mut inside = Inside { flows: &mut self.flows, duals: &mut self.duals };
        self.splits.lose_of_flow(&mut self.slab, &mut inside, fair, queue)
    }

    /// Whether the management lets the chosen packet of a class with several queues go, with a mark perhaps; else it is to be dropped.
    #[cold]
    pub(crate) fn goes_of_split(&mut self, user: u32, class: usize, head: &Head, now: u64) -> bool {
        let (queue, inner) = self.splits.chosen(head.fair);
        if is_dual(inner) {
            return self.goes(user, (class, class), &Head { fair: inner, ..*head }, Some(queue), now);
        }
        let profile = self.profiles.user(self.users.gates.at(user).standing().profile());
        let node = self.users.states.at(user).first(class);
        let Some(manage) = profile.manage(class) else { return true };
        let departure = head.departure(now);
        let state = match inner {
            NONE => self.splits.state_mut(user, class, queue),
            fair => self.flows.heeded(fair, manage, &departure),
        };
        let Some(state) = state else { return true };
        let mark = || mark_first(&mut self.slab, self.marker, &self.users.gates, (user, class, node), now);
        lets_go(manage, state, &departure, mark)
    }

    /// Whether a packet that comes to a class with several queues, in which nothing waits, goes straight through one of them.
    ///
    /// # Errors
    ///
    /// The management of that queue says no.
    #[cold]
    pub(crate) fn part_rests(
        &mut self,
        offer: &Offer,
        class: usize,
        mark: &mut dyn FnMut() -> bool,
        now: u64,
    ) -> Result<bool, Refused> {
        let queue = self.queue_in(offer, class);
        match self.profile_of(offer.user).classes.get(class).map_or(Order::One, ClassProfile::order) {
            Order::Fair | Order::Split => Ok(true),
            Order::Lines => Ok(self.line_rests(offer.user, (class, class), Some(queue), now)),
            Order::One => {
                self.ask_management(offer, class, mark, now)?;
                // It has come to an empty queue, and leaves it empty.
                let profile = self.profiles.user(self.users.gates.at(offer.user).standing().profile());
                self.splits.emptied(offer.user, (class, queue), profile, now);
                Ok(true)
            }
        }
    }

    /// What managements remember of the queues of a user who is somebody else.
    pub(crate) fn settle_parts(&mut self, user: u32) {
        let profile = self.profiles.user(self.users.gates.at(user).standing().profile());
        self.splits.settle(user, profile);
    }
}

impl Profile {
    /// Whether something is remembered of each queue of a class with several.
    pub(crate) fn parts_remember(&self, class: usize) -> bool {
        let rules = self.classes.get(class).filter(|_| self.split >> class & 1 != 0);
        rules.is_some_and(|rules| !rules.fair && (rules.manage.is_some() || rules.dual.is_some()))
    }
}
