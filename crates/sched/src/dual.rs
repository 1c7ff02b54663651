//! Queues with two lines (L4S, RFC 9332): one for packets that are to wait as little as can be, a classic one for the others.
//!
//! 1. A packet joins the line that its field of explicit congestion notification says.
//! 2. Which packet goes next is chosen as soon as the one before it has left, and stays chosen, but that a packet of the low-latency line that
//!    comes while its user waits in the wheel takes the place of a classic one, if it would be chosen now.
//! 3. The low-latency line goes first, unless the classic one has credit. A byte that is sent of the former while something waits in the latter gives it credit for its
//!    share, in hundredths; one that is sent of the latter while something waits in the former takes credit for the rest.
//! 4. Where a packet has to make room, it is the last one of the longer line, of the classic one where both are as long; if that is the packet that is
//!    chosen, it goes, and another one is chosen.
//!
//! The first packet of such a queue, the chosen one, says which of them it is, as that of a [fair](crate::flows) one does. What is known of it is apart from its user,
//! while something waits in it.

use weir_table::indexed::{Indexed, NONE};

use crate::admit::Order;
use crate::class::MAX_QUEUES;
use crate::dequeue::mark_first;
use crate::flows::Joining;
use crate::gates::{Loss, Place};
use crate::l4s::{Going, L4s, Line};
use crate::manage::{State, Verdict};
use crate::offer::{Displaced, Offer, Offered};
use crate::profile::Profiles;
use crate::scheduler::Scheduler;
use crate::slab::{Head, Slab};
use crate::state::UserState;

/// In what a first packet says of its queue: that it has two lines, and takes no turns of flows.
pub(crate) const DUAL: u32 = 1 << 31;

/// Whether what a first packet says is that its queue has two lines.
#[inline(always)]
pub(crate) fn is_dual(fair: u32) -> bool {
    fair & DUAL != 0 && fair != NONE
}

/// Hundredths.
const ALL: i64 = 100;

/// The share of the classic line where nothing is known of it any more.
const SHARE: u8 = 10;

/// A queue with two lines in which something waits.
#[derive(Clone, Debug)]
struct Dual {
    /// The first packets of both.
    classic: u32,
    low: u32,
    /// Bytes times hundredths that the classic line has in advance.
    credit: i64,
    /// Packets in both; of one in which nothing waits, the next of those.
    packets: u32,
    /// The line whose packet is chosen.
    chosen: Line,
}

const _: () = assert!(size_of::<Dual>() == 24);

impl Dual {
    const FREE: Dual = Dual { classic: NONE, low: NONE, credit: 0, packets: NONE, chosen: Line::Classic };

    fn first(&self, line: Line) -> u32 {
        match line {
            Line::Classic => self.classic,
            Line::Low => self.low,
        }
    }

    fn first_mut(&mut self, line: Line) -> &mut u32 {
        match line {
            Line::Classic => &mut self.classic,
            Line::Low => &mut self.low,
        }
    }

    /// The line that goes next, where anything waits.
    fn next(&self) -> Line {
        match (self.classic, self.low) {
            (NONE, _) => Line::Low,
            (_, NONE) => Line::Classic,
            _ if self.credit > 0 => Line::Classic,
            _ => Line::Low,
        }
    }
}

/// A packet that joins a line.
pub(crate) struct Entering<T> {
    pub(crate) joining: Joining<T>,
    pub(crate) line: Line,
    /// It may be chosen in place of another one.
    pub(crate) may_turn: bool,
}

/// All queues with two lines of a scheduler.
#[derive(Debug)]
pub(crate) struct Duals {
    duals: Indexed<Dual>,
    /// The first in which nothing waits.
    free: u32,
}

impl Duals {
    /// Bytes for each packet that may wait.
    pub(crate) const BYTES: usize = size_of::<Dual>();

    /// For so many queues that hold no more than so many packets together.
    pub(crate) fn new(packets: u32, queues: u32) -> Duals {
        let count = queues.min(packets);
        let dual = |n: u32| Dual { packets: if n + 1 < count { n + 1 } else { NONE }, ..Dual::FREE };
        Duals { duals: Indexed::from_fn(count as usize, dual, Dual::FREE), free: if count == 0 { NONE } else { 0 } }
    }

    /// Whether there is room for any.
    pub(crate) fn is_empty(&self) -> bool {
        self.duals.is_empty()
    }

    /// Packets in a queue.
    pub(crate) fn packets(&self, number: u32) -> u32 {
        self.duals.at(number & !DUAL).packets
    }

    fn open(&mut self) -> u32 {
        let number = self.free;
        let dual = self.duals.at_mut(number);
        self.free = dual.packets;
        *dual = Dual { packets: 0, ..Dual::FREE };
        number
    }

    fn close(&mut self, number: u32) {
        *self.duals.at_mut(number) = Dual { packets: self.free, ..Dual::FREE };
        self.free = number;
    }

    /// Chooses which packet goes next, of a queue in which something waits.
    fn choose<T>(&mut self, slab: &mut Slab<T>, number: u32) -> u32 {
        let dual = self.duals.at_mut(number);
        dual.chosen = dual.next();
        let first = dual.first(dual.chosen);
        slab.set_fair(first, number | DUAL);
        first
    }

    /// The chosen line, and when the packet came that has waited for longest of the first ones of both lines.
    fn chosen<T>(&self, slab: &Slab<T>, number: u32) -> (Line, u64) {
        let dual = self.duals.at(number & !DUAL);
        let firsts = [dual.classic, dual.low].into_iter().filter(|first| *first != NONE);
        (dual.chosen, firsts.map(|first| slab.since(first)).min().unwrap_or(u64::MAX))
    }

    /// Puts a packet in its line; it is given back where there is no room. Whether it is the first of its queue then.
    pub(crate) fn join<T>(&mut self, slab: &mut Slab<T>, queue: &mut u32, packet: Entering<T>) -> Result<bool, T> {
        let Entering { joining: Joining { item, length, now, .. }, line, may_turn } = packet;
        if slab.left() == 0 {
            return Err(item);
        }
        let is_first = *queue == NONE;
        let number = if is_first { self.open() } else { slab.fair(*queue) & !DUAL };
        let dual = self.duals.at_mut(number);
        if let Some(item) = slab.push(dual.first_mut(line), item, length, now) {
            return Err(item);
        }
        dual.packets += 1;
        let turns = may_turn && line == Line::Low && dual.chosen == Line::Classic && dual.next() == Line::Low;
        if turns && !is_first {
            slab.set_fair(*queue, NONE);
        }
        if turns || is_first {
            *queue = self.choose(slab, number);
        }
        Ok(turns || is_first)
    }

    /// The chosen packet of so many bytes is sent; its line has `first` now. The packet that goes next.
    pub(crate) fn sent<T>(
        &mut self,
        slab: &mut Slab<T>,
        (fair, first): (u32, u32),
        length: u16,
        coupling: Option<&L4s>,
    ) -> u32 {
        let dual = self.duals.at_mut(fair & !DUAL);
        if dual.first(dual.chosen.other()) != NONE {
            let (bytes, share) = (i64::from(length), i64::from(coupling.map_or(SHARE, L4s::classic)));
            dual.credit += match dual.chosen {
                Line::Low => bytes * share,
                Line::Classic => -bytes * (ALL - share),
            };
        }
        self.dropped(slab, (fair, first))
    }

    /// The same of one that is dropped.
    pub(crate) fn dropped<T>(&mut self, slab: &mut Slab<T>, (fair, first): (u32, u32)) -> u32 {
        let number = fair & !DUAL;
        let dual = self.duals.at_mut(number);
        *dual.first_mut(dual.chosen) = first;
        dual.packets -= u32::from(dual.packets > 0);
        if dual.packets == 0 {
            self.close(number);
            return NONE;
        }
        self.choose(slab, number)
    }

    /// Takes the last packet of the longer line of a queue, if that is not the one that is chosen.
    pub(crate) fn lose<T>(&mut self, slab: &mut Slab<T>, queue: u32) -> Option<T> {
        let dual = self.duals.at_mut(slab.fair(queue) & !DUAL);
        let line = if slab.count(dual.low) > slab.count(dual.classic) { Line::Low } else { Line::Classic };
        if dual.chosen == line && slab.count(dual.first(line)) == 1 {
            return None;
        }
        let item = slab.pop_back(dual.first_mut(line))?;
        dual.packets -= 1;
        Some(item)
    }

    /// Gives a queue two lines in which packets wait: all of them are in the classic one.
    pub(crate) fn adopt<T>(&mut self, slab: &mut Slab<T>, queue: u32) {
        let number = self.open();
        let dual = self.duals.at_mut(number);
        (dual.classic, dual.packets) = (queue, slab.count(queue).into());
        self.choose(slab, number);
    }

    /// Makes one line of the two of a queue: that of the chosen packet comes first.
    pub(crate) fn dissolve<T>(&mut self, slab: &mut Slab<T>, queue: u32) {
        let number = slab.fair(queue) & !DUAL;
        slab.set_fair(queue, NONE);
        let dual = self.duals.at(number);
        let other = dual.first(dual.chosen.other());
        if other != NONE {
            slab.append(queue, other);
        }
        self.close(number);
    }
}

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Makes room for queues with two lines, once any may have them.
    pub(crate) fn make_duals(&mut self) {
        if self.profiles.duals() && self.duals.is_empty() {
            self.duals = Duals::new(self.slab.room(), self.setup.users.saturating_mul((C * MAX_QUEUES) as u32));
            self.users.gates.make_coupled(self.setup.users);
        }
    }

    /// Takes a packet of a queue with two lines, in which there is room for it. Given back where there is none.
    pub(crate) fn join_line(
        &mut self,
        offer: &Offer,
        queue: usize,
        packet: impl Offered<T>,
        now: u64,
    ) -> Option<Displaced<T>> {
        let line = Line::of(packet.ecn());
        let joining = Joining { item: packet.take()?, length: offer.length, now, hash: 0 };
        let may_turn = self.users.gates.at(offer.user).standing().place() == Place::Waiting;
        let first = self.users.states.at_mut(offer.user).queues.get_mut(queue)?;
        match self.duals.join(&mut self.slab, first, Entering { joining, line, may_turn }) {
            Ok(joins) => self.joined(offer.user, queue, joins, now),
            // A node was free or has been freed before.
            Err(item) => return Some(Displaced { item, loss: Loss::PushedOut }),
        }
        None
    }

    /// Whether the first packet of a queue with two lines, or of one of several of its class (`part`), goes, with a mark perhaps; else it is to be dropped.
    #[cold]
    pub(crate) fn goes(
        &mut self,
        user: u32,
        (class, queue): (usize, usize),
        head: &Head,
        part: Option<usize>,
        now: u64,
    ) -> bool {
        let profile = self.profiles.user(self.users.gates.at(user).standing().profile());
        let node = self.users.states.at(user).first(queue);
        let state = match part {
            Some(part) => self.splits.state_mut(user, class, part),
            None => self.states.at_mut(user).get_mut(queue),
        };
        let (Some(coupling), Some(state)) = (profile.coupling(class), state) else {
            // It comes to be a usual one when its user is looked at.
            return true;
        };
        let (line, oldest) = self.duals.chosen(&self.slab, head.fair);
        let (sojourn, behind) = (now.saturating_sub(head.since), head.count.saturating_sub(1).into());
        match coupling.go(state, &Going { now, sojourn, oldest, behind, line }) {
            Verdict::Pass => true,
            Verdict::Mark => mark_first(&mut self.slab, self.marker, &self.users.gates, (user, class, node), now),
            Verdict::Drop => false,
        }
    }

    /// Whether a packet that comes to a queue with two lines, or to one of several of its class (`part`), in which nothing waits goes straight through, whatever it is.
    #[cold]
    pub(crate) fn line_rests(
        &mut self,
        user: u32,
        (class, queue): (usize, usize),
        part: Option<usize>,
        now: u64,
    ) -> bool {
        let profile = self.profiles.user(self.users.gates.at(user).standing().profile());
        let state = match part {
            Some(part) => self.splits.state_mut(user, class, part),
            None => self.states.at_mut(user).get_mut(queue),
        };
        match (profile.coupling(class), state) {
            (Some(coupling), Some(state)) => coupling.rests(state, now),
            _ => true,
        }
    }

    /// A queue is coupled from now on, or is no longer: what another management remembers is none of its business.
    pub(crate) fn forget_coupling(&mut self, user: u32) {
        let profile = self.profiles.user(self.users.gates.at(user).standing().profile());
        for (queue, state) in self.states.at_mut(user).iter_mut().enumerate() {
            if L4s::knows(state) != (profile.dual >> UserState::<C, Q>::class_of(queue) & 1 != 0) {
                *state = State::default();
            }
        }
    }
}

impl Profiles {
    /// Whether any queue has two lines.
    pub(crate) fn duals(&self) -> bool {
        self.any_class(|class| class.order() == Order::Lines)
    }
}
