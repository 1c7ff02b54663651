//! The state of a user: what of the literature is called a pipe.

use weir_table::indexed::NONE;

use crate::class::MAX_QUEUES;
use crate::gates::Gates;
use crate::heavy::Heavy;
use crate::profile::Profile;
use crate::rate::Fine;
use crate::slab::Slab;

/// What waits of a user with `C` classes and `Q` queues: one for each class but the lowest, then those of the lowest.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct UserState<const C: usize, const Q: usize> {
    /// Packets in all of its queues.
    pub(crate) held: u32,
    /// Bytes that the queue whose turn it is may still send in this round.
    credit: u32,
    /// Bit q: queue q has packets.
    pub(crate) backlog: u16,
    /// The queue of the lowest class whose turn it is.
    turn: u8,
    /// Bit n: queue n of the lowest class has something in [`Rest::unused`].
    saved: u8,
    /// Bit c: it stands aside with class c, by where it [stood](crate::aside::Stood).
    pub(crate) aside: [u8; 2],
    /// Bit c: it has come back with class c, and has not had its turn.
    pub(crate) came_back: u8,
    /// The queues, by their first nodes.
    pub(crate) queues: [u32; Q],
}

/// What is needed of a user whose classes have caps, or who has packets in several queues of the lowest class.
#[derive(Clone, Debug)]
pub(crate) struct Rest<const C: usize> {
    /// When the bucket of each class is full.
    pub(crate) class_full_at: [Fine; C],
    /// Bytes that a queue of the lowest class could not use in its last round.
    unused: [u16; MAX_QUEUES],
}

impl<const C: usize> Rest<C> {
    pub(crate) const NEW: Rest<C> = Rest { class_full_at: [0; C], unused: [0; MAX_QUEUES] };
}

/// What a user costs while nothing waits: its state, its links in lists and wheel, the counters of what it sends.
const IDLE_BYTES: usize = size_of::<UserState<4, 11>>()
    + size_of::<Rest<4>>()
    + weir_table::links::Links::BYTES
    + weir_table::wheel::Wheel::BYTES
    + Heavy::BYTES
    + Gates::BYTES;
const _: () = assert!(IDLE_BYTES <= 192 && size_of::<UserState<4, 11>>() == 64);

/// What a user costs on top of that: a line that says what holds it back, and why packets of it were dropped.
const _: () = assert!(Gates::TALLY_BYTES == 64);

/// What a user costs more where anybody shares.
const SHARING_BYTES: usize = size_of::<crate::sharing::Share>() + weir_table::links::Links::BYTES;
const _: () = assert!(IDLE_BYTES + SHARING_BYTES <= 256);

/// See [`IDLE_BYTES`], and with it [`Gates::TALLY_BYTES`]; for any number of classes.
pub(crate) const fn user_bytes<const C: usize, const Q: usize>() -> usize {
    let (four, all) =
        (size_of::<UserState<4, 11>>() + size_of::<Rest<4>>(), size_of::<UserState<C, Q>>() + size_of::<Rest<C>>());
    IDLE_BYTES + Gates::TALLY_BYTES - four + all
}

impl<const C: usize, const Q: usize> UserState<C, Q> {
    pub(crate) const NEW: UserState<C, Q> =
        UserState { held: 0, credit: 0, backlog: 0, turn: 0, saved: 0, aside: [0; 2], came_back: 0, queues: [NONE; Q] };

    /// The lowest class.
    pub(crate) const LOWEST: usize = C - 1;

    /// The queue for a class and a queue in it; what does not exist is taken as the lowest class, and as its first queue.
    #[inline(always)]
    pub(crate) fn queue_of(class: u8, queue: u8) -> usize {
        let class = usize::from(class);
        if class < Self::LOWEST {
            return class;
        }
        let queue = Self::LOWEST + usize::from(queue);
        if queue < Q { queue } else { Self::LOWEST }
    }

    /// The class of a queue.
    #[inline(always)]
    pub(crate) fn class_of(queue: usize) -> usize {
        queue.min(Self::LOWEST)
    }

    /// The first node of a queue.
    #[inline(always)]
    pub(crate) fn first(&self, queue: usize) -> u32 {
        self.queues.get(queue).copied().unwrap_or(NONE)
    }

    /// Mask of the classes that have packets.
    #[inline(always)]
    pub(crate) fn classes(&self) -> u8 {
        let strict = self.backlog & ((1 << Self::LOWEST) - 1);
        let lowest = u16::from(self.backlog >> Self::LOWEST != 0) << Self::LOWEST;
        (strict | lowest) as u8
    }

    /// The queue of a class whose first packet goes next: of the lowest class, by deficit round robin (Shreedhar and Varghese
    /// 1995), which gives each queue `quanta` bytes per round and lets it keep what its next packet is too long for.
    #[inline(always)]
    pub(crate) fn next_queue<T>(
        &mut self,
        rest: &mut Rest<C>,
        class: usize,
        profile: &Profile,
        slab: &Slab<T>,
    ) -> usize {
        if class < Self::LOWEST {
            return class;
        }
        let waiting = self.backlog >> Self::LOWEST;
        if waiting.is_power_of_two() {
            return self.only_queue(waiting.trailing_zeros() as u8, slab);
        }
        self.next_in_lowest(rest, waiting, profile, slab)
    }

    fn next_in_lowest<T>(&mut self, rest: &mut Rest<C>, waiting: u16, profile: &Profile, slab: &Slab<T>) -> usize {
        // A frame takes at most so many rounds to be paid for; each goes by every queue.
        const ROUNDS: usize = u16::MAX as usize / crate::profile::QUANTUM as usize + 1;
        for _ in 0..ROUNDS * MAX_QUEUES {
            let turn = usize::from(self.turn) % MAX_QUEUES;
            let here = waiting >> turn & 1 != 0;
            let queue = Self::LOWEST + turn;
            if here && self.credit >= u32::from(slab.length(self.first(queue))) {
                return queue;
            }
            self.pass_turn(rest, turn, here, waiting, profile);
        }
        Self::LOWEST + usize::from(self.turn) % MAX_QUEUES
    }

    /// While a queue is alone it has what it needs, and saves up nothing.
    #[inline(always)]
    fn only_queue<T>(&mut self, turn: u8, slab: &Slab<T>) -> usize {
        let queue = Self::LOWEST + usize::from(turn);
        self.turn = turn;
        self.credit = u32::from(slab.length(self.first(queue)));
        queue
    }

    /// A queue, whose first packet is so long, is the only one that has any.
    #[inline(always)]
    pub(crate) fn alone(&mut self, queue: usize, length: u16) {
        if queue >= Self::LOWEST {
            self.turn = (queue - Self::LOWEST) as u8;
            self.credit = length.into();
        }
    }

    /// The last packet of a queue has gone, which was the only one that had any.
    #[inline(always)]
    pub(crate) fn alone_no_more(&mut self, queue: usize) {
        self.alone(queue, 0);
        self.emptied(queue);
    }

    fn pass_turn(&mut self, rest: &mut Rest<C>, turn: usize, here: bool, waiting: u16, profile: &Profile) {
        // Less than its next packet is long, which is 16 bits.
        let keeps = if here { self.credit.min(u32::from(u16::MAX)) as u16 } else { 0 };
        if let Some(unused) = rest.unused.get_mut(turn) {
            *unused = keeps;
            self.saved = self.saved & !(1 << turn) | u8::from(keeps > 0) << turn;
        }
        let behind = waiting & (u16::MAX << turn) << 1;
        let next = if behind != 0 { behind } else { waiting };
        self.turn = (next.trailing_zeros() % MAX_QUEUES as u32) as u8;
        let next = usize::from(self.turn);
        let quantum = profile.quanta.get(next).copied().unwrap_or(0);
        self.credit = quantum + self.unused(rest, next);
    }

    fn unused(&self, rest: &Rest<C>, queue: usize) -> u32 {
        if self.saved >> queue & 1 != 0 { u32::from(rest.unused.get(queue).copied().unwrap_or(0)) } else { 0 }
    }

    /// A packet of so many bytes goes from a queue.
    #[inline(always)]
    pub(crate) fn pay(&mut self, queue: usize, bytes: u16) {
        if queue >= Self::LOWEST {
            self.credit = self.credit.saturating_sub(u32::from(bytes));
        }
    }

    /// The last packet of a queue has gone: it keeps no claims.
    #[inline(always)]
    pub(crate) fn emptied(&mut self, queue: usize) {
        self.backlog &= !(1 << queue);
        let Some(lowest) = queue.checked_sub(Self::LOWEST) else { return };
        self.saved &= !(1 << lowest);
        if lowest == usize::from(self.turn) {
            self.credit = 0;
        }
    }
}
