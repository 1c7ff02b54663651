//! A timing wheel: numbers, each with a time at which it comes out again.
//!
//! Time is cut into ticks. The *near* level has a list for each of the next ticks; the *far* level has one for each of the
//! next *spans*, as many ticks as the near level has lists, and is dealt out to it span by span. What is due later still goes
//! round the far level again. So putting in, taking out and moving on cost the same however many numbers there are (Varghese
//! and Lauck 1987, schemes 6 and 7), and a number costs a step more per turn of the far level that it waits.
//!
//! Lists are unrolled: made of chunks of a line of the cache, each with some numbers one beside the other, so that no number has to be waited for until the next one is
//! known, as in a chain with a link for each, which would cost a miss of the cache for each.

use std::hint::cold_path;

use crate::bits::Bits;
use crate::indexed::{Indexed, NONE};
use crate::unrolled::Unrolled;

/// How a wheel cuts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// A tick is 2 to the power of this nanoseconds, at most 32.
    pub tick_bits: u32,
    /// The near level has 2 to the power of this lists, at most 16.
    pub near_bits: u32,
    /// The far level has 2 to the power of this lists, 1 to 16.
    pub far_bits: u32,
}

/// Numbers below a bound, each in at most once, with the ticks at which they are due.
#[derive(Clone, Debug)]
pub struct Wheel {
    /// The lists of the near level, and behind them those of the far level.
    lists: Unrolled,
    /// The tick at which a number of the far level is due: one of the near level is so when its list is.
    due: Indexed<u64>,
    /// Lists of the near level with entries.
    near: Bits,
    /// Lists of the far level with entries.
    far: Bits,
    shape: Shape,
    /// No number is due before this tick, and every span that began before or with it has been dealt out, but for what
    /// is left of the last one.
    tick: u64,
    len: u32,
}

/// A tick that never comes.
const NEVER: u64 = u64::MAX;

impl Wheel {
    /// Bytes per number.
    pub const BYTES: usize = Unrolled::BYTES + size_of::<u64>();

    /// An empty wheel for the numbers below `bound`. Exponents that are out of range are taken as the nearest.
    pub fn new(bound: u32, shape: Shape) -> Wheel {
        let shape = Shape {
            tick_bits: shape.tick_bits.min(32),
            near_bits: shape.near_bits.min(16),
            far_bits: shape.far_bits.clamp(1, 16),
        };
        let (near, far) = (1_usize << shape.near_bits, 1_usize << shape.far_bits);
        let bound = bound.min(NONE - 1) as usize;
        Wheel {
            lists: Unrolled::new(bound, near + far),
            due: Indexed::new(bound, 0),
            near: Bits::new(near),
            far: Bits::new(far),
            shape,
            tick: 0,
            len: 0,
        }
    }

    /// Numbers in the wheel.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a number is in.
    #[inline(always)]
    pub fn contains(&self, id: u32) -> bool {
        self.lists.contains(id)
    }

    /// Hints that a number is put in or comes out soon.
    #[inline(always)]
    pub fn prefetch(&self, id: u32) {
        self.lists.prefetch(id);
    }

    /// The first numbers, up to twelve, that come out in each of the next ticks, 64 at most, as far as they are in the near level: for whoever wants to
    /// prepare for that.
    #[inline(always)]
    pub fn next_ones(&self, ticks: u32, mut each: impl FnMut(u32)) {
        let mask = (1_u32 << self.shape.near_bits) - 1;
        let at = self.tick as u32 & mask;
        let mut ticks = self.near.window(at) & u64::MAX >> (64 - ticks.clamp(1, 64));
        while ticks != 0 {
            let list = (at + ticks.trailing_zeros()) & mask;
            ticks &= ticks - 1;
            self.lists.first(list).iter().for_each(|id| each(*id));
        }
    }

    /// Puts a number in, or moves it: it comes out at the first tick that begins at `due` (nanoseconds) or later, and not
    /// before one that has begun. A number that is not below the bound is ignored. A wheel that was empty for long is
    /// [moved on](Wheel::advance) first, which costs nothing.
    #[inline]
    pub fn insert(&mut self, id: u32, due: u64) {
        if self.contains(id) {
            cold_path();
            self.remove(id);
        }
        if id as usize >= self.due.len() {
            cold_path();
            return;
        }
        let mask = (1 << self.shape.tick_bits) - 1;
        // The greatest time is kept apart from `NEVER`.
        let tick = (due.saturating_add(mask) >> self.shape.tick_bits).max(self.tick).min(NEVER - 1);
        self.len += 1;
        self.place(id, tick);
    }

    /// Takes a number out; whether it was in.
    #[inline(never)]
    pub fn remove(&mut self, id: u32) -> bool {
        let Some(list) = self.lists.remove(id) else { return false };
        self.len -= 1;
        if self.lists.is_empty(list) {
            match list.checked_sub(1 << self.shape.near_bits) {
                Some(far) => self.far.remove(far),
                None => self.near.remove(list),
            }
        }
        true
    }

    /// Moves on to `now` (nanoseconds) and hands out what is due by then, tick by tick, to `take`. Stops after `steps` numbers,
    /// each handed out or moved nearer; returns the steps that are left: 0 means that there may be more to do at once.
    #[inline]
    pub fn advance(&mut self, now: u64, steps: usize, mut take: impl FnMut(u32)) -> usize {
        let goal = (now >> self.shape.tick_bits).max(self.tick);
        let (mut left, mut far) = (steps, self.next_far());
        while left > 0 {
            let near = self.next_near();
            let event = near.min(far);
            if event > goal {
                self.tick = goal;
                break;
            }
            self.tick = event;
            // A span is dealt out before its first tick is handed out.
            if far <= near {
                left = self.deal(far, left);
                far = self.next_far();
            } else {
                left = self.hand_out(near, left, &mut take);
            }
        }
        left
    }

    /// Hands out the numbers of a tick of the near level, in so many steps at most; returns those that are left.
    #[inline(always)]
    fn hand_out(&mut self, tick: u64, steps: usize, take: &mut impl FnMut(u32)) -> usize {
        let list = self.near_list(tick);
        let left = self.lists.take(list, steps, take);
        self.len -= (steps - left) as u32;
        if self.lists.is_empty(list) {
            self.near.remove(list);
        }
        left
    }

    /// When to call [`Wheel::advance`] next, nanoseconds: nothing is due before. `None` while it is empty.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        let event = self.next_near().min(self.next_far());
        (event != NEVER).then(|| event.saturating_mul(1 << self.shape.tick_bits))
    }

    /// The first tick from now on with entries in the near level; [`NEVER`] for none.
    #[inline]
    fn next_near(&self) -> u64 {
        next_unit(&self.near, self.shape.near_bits, self.tick)
    }

    /// The tick at which the first span with entries in the far level begins, or began; [`NEVER`] for none.
    #[inline]
    fn next_far(&self) -> u64 {
        match next_unit(&self.far, self.shape.far_bits, self.tick >> self.shape.near_bits) {
            NEVER => NEVER,
            span => (span << self.shape.near_bits).max(self.tick),
        }
    }

    /// Moves the numbers of the span that begins at `tick` to where they belong now, in so many steps at most; returns those that are left.
    #[inline]
    fn deal(&mut self, tick: u64, steps: usize) -> usize {
        let list = self.far_list(tick >> self.shape.near_bits);
        for left in (0..steps).rev() {
            let mut first = NONE;
            self.lists.take(list, 1, &mut |id| first = id);
            self.place(first, *self.due.at(first));
            if self.lists.is_empty(list) {
                self.far.remove(list - (1 << self.shape.near_bits));
                return left;
            }
        }
        0
    }

    #[inline]
    fn place(&mut self, id: u32, due: u64) {
        if due - self.tick < 1 << self.shape.near_bits {
            let list = self.near_list(due);
            self.near.insert(list);
            return self.lists.push(list, id);
        }
        self.place_far(id, due);
    }

    #[inline(never)]
    fn place_far(&mut self, id: u32, due: u64) {
        let near_bits = self.shape.near_bits;
        let (span, now) = (due >> near_bits, self.tick >> near_bits);
        *self.due.at_mut(id) = due;
        // One turn ahead at most: the list of the present span is the one that is being dealt out.
        let list = self.far_list(span.min(now + (1 << self.shape.far_bits) - 1));
        self.far.insert(list - (1 << near_bits));
        self.lists.push(list, id);
    }

    #[inline(always)]
    fn near_list(&self, tick: u64) -> u32 {
        (tick & ((1 << self.shape.near_bits) - 1)) as u32
    }

    #[inline(always)]
    fn far_list(&self, span: u64) -> u32 {
        (1 << self.shape.near_bits) + (span & ((1 << self.shape.far_bits) - 1)) as u32
    }
}

/// The first unit from `from` on, round a level of 2 to the power of `bits` lists, whose list has entries; [`NEVER`] for none.
#[inline]
fn next_unit(used: &Bits, bits: u32, from: u64) -> u64 {
    let mask = (1_u64 << bits) - 1;
    let at = (from & mask) as u32;
    match used.next(at).or_else(|| used.next(0)) {
        Some(list) => from + (u64::from(list.wrapping_sub(at)) & mask),
        None => NEVER,
    }
}
