//! What will be needed of memory, asked for ahead: side by side, and not one after the other when each is needed.

use weir_table::indexed::NONE;

use crate::class::ClassQueue;
use crate::rate::fine;
use crate::scheduler::{Offer, Scheduler};
use crate::state::UserState;

/// Packets that are offered together at most.
pub const TOGETHER: usize = 64;

/// Ticks of the wheel after a call in which users come out before the next call, as long as calls are not far apart.
const TICKS: u32 = 24;

/// The places of the bits of a mask.
fn places(mask: u64) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let first = (rest != 0).then(|| rest.trailing_zeros() as usize);
        rest &= rest.wrapping_sub(1);
        first
    })
}

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Looks at users to whom packets will be offered, 64 of them by their number, and says which users there are, and which of them have
    /// something waiting: a bit for each.
    ///
    /// Asked for all packets of a batch before anything is done for one, it brings what is in memory near side by side.
    #[inline]
    pub fn look(&self, user: impl Fn(usize) -> u32) -> (u64, u64) {
        let (mut known, mut waiting) = (0, 0);
        for n in 0..TOGETHER {
            let standing = self.users.gates.at(user(n)).standing();
            known |= u64::from(standing.is_open()) << n;
            waiting |= u64::from(!standing.is_idle()) << n;
        }
        (known, waiting)
    }

    /// Says which of the packets in `mask`, whose users [there are](Scheduler::look), have to wait: none of them would
    /// [pass](Scheduler::pass), whatever is offered before it. What the scheduler needs to [take](Scheduler::enqueue) them is asked for.
    #[inline]
    pub fn prepare(&self, mask: u64, offers: &[Offer; TOGETHER], now: u64) -> u64 {
        let (moment, line) = (fine(now), self.has_line());
        let (mut waits, mut rests) = (0_u64, 0_u64);
        for n in places(mask) {
            let Some(offer) = offers.get(n) else { break };
            let gate = self.users.gates.at(offer.user);
            let standing = gate.standing();
            let bucket = &self.profiles.user(standing.profile()).bucket;
            let late = bucket.eligible_at(gate.full_at(), offer.length) > moment;
            rests |= u64::from(standing.is_idle()) << n;
            waits |= u64::from(late | line | !standing.is_idle()) << n;
        }
        // Where buffers are scarce, most are refused: by what their users hold.
        if self.slab.left() < TOGETHER as u32 {
            for Offer { user, .. } in places(waits).filter_map(|n| offers.get(n)) {
                self.users.states.prefetch(*user);
                self.users.gates.prefetch_tally(*user);
            }
        } else {
            self.prepare_queues(waits, rests, offers);
        }
        waits
    }

    /// Asks for what packets need that come to queues: those of users in `rests` to empty ones.
    #[inline]
    fn prepare_queues(&self, mask: u64, rests: u64, offers: &[Offer; TOGETHER]) {
        self.slab.prefetch_free(mask.count_ones());
        for Offer { user, .. } in places(mask & rests).filter_map(|n| offers.get(n)) {
            self.users.states.prefetch(*user);
            self.users.gates.prefetch_tally(*user);
            self.lines.wheel.prefetch(*user);
        }
        let joins = mask & !rests;
        for Offer { user, .. } in places(joins).filter_map(|n| offers.get(n)) {
            self.users.states.prefetch(*user);
            self.heavy.prefetch(*user);
        }
        let mut firsts = [NONE; TOGETHER];
        for (n, first) in places(joins).zip(&mut firsts) {
            let Some(Offer { user, class, .. }) = offers.get(n) else { break };
            *first = self.users.states.at(*user).first(queue::<C, Q>(*class));
            self.slab.prefetch(*first);
        }
        let waiting = firsts.iter().take(joins.count_ones() as usize).filter(|first| **first != NONE);
        if self.flows.is_empty() {
            return waiting.for_each(|first| self.slab.prefetch_last(*first));
        }
        for first in waiting {
            match self.slab.fair(*first) {
                NONE => self.slab.prefetch_last(*first),
                fair => self.flows.prefetch(fair),
            }
        }
    }

    /// After [`Scheduler::prepare`]: the flows of those of the packets in `mask` that come to fair queues with many, as `number` has them, which is
    /// what [`Offered::flow`](crate::offer::Offered::flow) says of them. What is needed of these flows is asked for.
    #[inline]
    pub fn prepare_flows(
        &self,
        mask: u64,
        offers: &[Offer; TOGETHER],
        number: impl Fn(usize) -> u32,
    ) -> [Option<u32>; TOGETHER] {
        let mut numbers = [None; TOGETHER];
        if !self.flows.any_many() {
            return numbers;
        }
        let mut fairs = [NONE; TOGETHER];
        let mut many = 0;
        for n in places(mask) {
            let (Some(offer), Some(place)) = (offers.get(n), fairs.get_mut(n)) else { break };
            let fair = self.slab.fair(self.users.states.at(offer.user).first(queue::<C, Q>(offer.class)));
            if self.flows.has_many(fair) {
                *place = fair;
                many |= 1 << n;
            }
        }
        for n in places(many) {
            let (Some(fair), Some(to)) = (fairs.get(n), numbers.get_mut(n)) else { break };
            let number = number(n);
            *to = Some(number);
            self.flows.prefetch_chain(*fair, number);
        }
        let known = fairs.iter().zip(&numbers).filter_map(|(fair, number)| Some((*fair, (*number)?)));
        known.for_each(|(fair, number)| self.flows.prefetch_flow(fair, number));
        numbers
    }

    /// Asks for what is needed of users whose time has come, [`TOGETHER`] at most: their state, then the first packet of each, then what is in its buffer, and the packet
    /// behind it, or its flow.
    #[inline]
    pub(crate) fn bring_near(&self, users: &[u32]) {
        // Their links in the wheel are near since they came out.
        users.iter().for_each(|user| self.ask_for_state(*user));
        let mut firsts = [NONE; TOGETHER];
        for (first, user) in firsts.iter_mut().zip(users) {
            *first = self.next_of(*user);
            self.slab.prefetch(*first);
        }
        let firsts = firsts.get_mut(..users.len()).unwrap_or_default();
        firsts.iter().for_each(|first| self.ask_for_item(*first));
        if !self.flows.is_empty() {
            self.bring_flows_near(firsts);
        }
    }

    /// Of fair queues, whose lines are asked for: the packets that may be the first then.
    #[inline]
    fn bring_flows_near(&self, firsts: &[u32]) {
        let mut many = 0_u64;
        for (n, first) in firsts.iter().enumerate() {
            let fair = self.slab.fair(*first);
            match self.flows.next_first(fair) {
                Some(next) => self.slab.prefetch(next),
                None => many |= 1 << n,
            }
        }
        let fairs = || places(many).filter_map(|n| firsts.get(n)).map(|first| self.slab.fair(*first));
        fairs().for_each(|fair| self.flows.prefetch_many(fair));
        fairs().for_each(|fair| self.flows.prefetch_chosen(fair));
        fairs().for_each(|fair| self.flows.prefetch_behind(fair));
        fairs().for_each(|fair| self.slab.prefetch(self.flows.first_behind(fair)));
    }

    /// Asks for what is in the buffer of the first packet of a queue, and for the one behind; of a fair queue, for what is known of that.
    #[inline(always)]
    fn ask_for_item(&self, first: u32) {
        if let Some(item) = self.slab.first(first) {
            (self.hint)(item);
        }
        self.ask_for_second(first);
    }

    /// Asks for the packet behind the first one of a queue; of a fair queue, for what is known of that.
    #[inline(always)]
    fn ask_for_second(&self, first: u32) {
        match self.slab.fair(first) {
            NONE => self.slab.prefetch_second(first),
            // Nothing, where it has two lines.
            fair => self.flows.prefetch(fair),
        }
    }

    /// Asks for the state of users who come out of the wheel next.
    #[inline]
    pub(crate) fn look_ahead(&self) {
        self.lines.wheel.next_ones(TICKS, |user| self.ask_for_user(user));
    }

    /// Some time after [`Scheduler::look_ahead`]: asks for their first packets.
    #[inline]
    pub fn look_further(&self) {
        self.lines.wheel.next_ones(TICKS, |user| self.slab.prefetch(self.next_of(user)));
    }

    /// Some time after [`Scheduler::look_further`]: asks for the packets behind those.
    #[inline]
    pub fn look_furthest(&self) {
        self.lines.wheel.next_ones(TICKS, |user| self.ask_for_second(self.next_of(user)));
    }

    #[inline(always)]
    pub(crate) fn ask_for_user(&self, user: u32) {
        self.lines.wheel.prefetch(user);
        self.ask_for_state(user);
    }

    #[inline(always)]
    fn ask_for_state(&self, user: u32) {
        self.users.gates.prefetch(user);
        self.users.gates.prefetch_tally(user);
        self.users.states.prefetch(user);
        self.heavy.prefetch(user);
    }

    /// The first packet of the highest queue of a user.
    #[inline(always)]
    fn next_of(&self, user: u32) -> u32 {
        let state = self.users.states.at(user);
        state.first(u32::from(state.backlog).trailing_zeros() as usize)
    }
}

#[inline(always)]
fn queue<const C: usize, const Q: usize>(class: ClassQueue) -> usize {
    UserState::<C, Q>::queue_of(class.class(), class.queue())
}
