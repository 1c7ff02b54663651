//! A timing wheel: numbers, each with a time at which it comes out again.
//!
//! Time is cut into ticks. The *near* level has a list for each of the next ticks; the *far* level has one for each of the
//! next *spans*, as many ticks as the near level has lists, and is dealt out to it span by span. What is due later still goes
//! round the far level again. So putting in, taking out and moving on cost the same however many numbers there are (Varghese
//! and Lauck 1987, schemes 6 and 7), and a number costs a step more per turn of the far level that it waits.

use crate::bits::Bits;
use crate::indexed::{Indexed, NONE};

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
    /// Rings through the numbers; behind those, a link for each list, which is its beginning and its end. That of a number that is not in is [`LOOSE`].
    links: Indexed<Link>,
    /// The tick at which a number of the far level is due. What is in the near level, as most is whose time is near, is due when its list is: so one line of
    /// the cache is touched of it, and not two.
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

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    prev: u32,
}

/// Of a number that is not in.
const LOOSE: Link = Link { next: NONE, prev: NONE };

/// A tick that never comes.
const NEVER: u64 = u64::MAX;

impl Wheel {
    /// Bytes per number.
    pub const BYTES: usize = size_of::<Link>() + size_of::<u64>();

    /// An empty wheel for the numbers below `bound`. Exponents that are out of range are taken as the nearest.
    pub fn new(bound: u32, shape: Shape) -> Wheel {
        let shape = Shape {
            tick_bits: shape.tick_bits.min(32),
            near_bits: shape.near_bits.min(16),
            far_bits: shape.far_bits.clamp(1, 16),
        };
        let (near, far) = (1_u32 << shape.near_bits, 1_u32 << shape.far_bits);
        let bound = bound.min(NONE - near - far);
        let links = (bound + near + far) as usize;
        Wheel {
            links: Indexed::from_fn(links, |n| if n < bound { LOOSE } else { Link { next: n, prev: n } }, LOOSE),
            due: Indexed::new(bound as usize, 0),
            near: Bits::new(near as usize),
            far: Bits::new(far as usize),
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
        id < self.bound() && self.links.at(id).next != NONE
    }

    /// Numbers are below this.
    #[inline(always)]
    fn bound(&self) -> u32 {
        self.due.len() as u32
    }

    /// Hints that a number is put in or comes out soon.
    #[inline(always)]
    pub fn prefetch(&self, id: u32) {
        self.links.prefetch(id);
    }

    /// The numbers that come out first in each of the next ticks, 64 at most, as far as they are in the near level: for whoever wants to prepare
    /// for that.
    #[inline(always)]
    pub fn next_ones(&self, ticks: u32, mut each: impl FnMut(u32)) {
        let mask = (1_u32 << self.shape.near_bits) - 1;
        let at = self.tick as u32 & mask;
        let mut ticks = self.near.window(at) & u64::MAX >> (64 - ticks.clamp(1, 64));
        while ticks != 0 {
            let list = self.bound() + ((at + ticks.trailing_zeros()) & mask);
            ticks &= ticks - 1;
            each(self.links.at(list).next);
        }
    }

    /// The number that comes out behind one that is in, if it is of the same tick.
    #[inline(always)]
    pub fn behind(&self, id: u32) -> Option<u32> {
        let next = self.links.at(id).next;
        (next < self.bound()).then_some(next)
    }

    /// Puts a number in, or moves it: it comes out at the first tick that begins at `due` (nanoseconds) or later, and not
    /// before one that has begun. A number that is not below the bound is ignored. A wheel that was empty for long is
    /// [moved on](Wheel::advance) first, which costs nothing.
    #[inline]
    pub fn insert(&mut self, id: u32, due: u64) {
        if id >= self.bound() {
            return;
        }
        if self.contains(id) {
            self.remove(id);
        }
        // The greatest time is kept apart from `NEVER`.
        let mask = (1 << self.shape.tick_bits) - 1;
        let tick = (due.saturating_add(mask) >> self.shape.tick_bits).max(self.tick).min(NEVER - 1);
        self.len += 1;
        self.place(id, tick);
    }

    /// Takes a number out; whether it was in.
    #[inline(never)]
    pub fn remove(&mut self, id: u32) -> bool {
        if !self.contains(id) {
            return false;
        }
        self.len -= 1;
        self.unlink(id);
        *self.links.at_mut(id) = LOOSE;
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
    #[inline]
    fn hand_out(&mut self, tick: u64, steps: usize, take: &mut impl FnMut(u32)) -> usize {
        let list = self.near_list(tick);
        let (mut id, mut left) = (self.links.at(list).next, steps);
        while id != list && left > 0 {
            let next = std::mem::replace(&mut self.links.at_mut(id).next, NONE);
            left -= 1;
            take(id);
            id = next;
        }
        self.len -= (steps - left) as u32;
        // What was not handed out is the list.
        self.links.at_mut(list).next = id;
        self.links.at_mut(id).prev = list;
        if id == list {
            self.near.remove(list - self.bound());
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
            let id = self.links.at(list).next;
            self.unlink(id);
            self.place(id, *self.due.at(id));
            if self.links.at(list).next == list {
                return left;
            }
        }
        0
    }

    #[inline]
    fn place(&mut self, id: u32, due: u64) {
        if due - self.tick < 1 << self.shape.near_bits {
            let list = self.near_list(due);
            self.near.insert(list - self.bound());
            return self.link(list, id);
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
        self.far.insert(list - self.bound() - (1 << near_bits));
        self.link(list, id);
    }

    #[inline(always)]
    fn near_list(&self, tick: u64) -> u32 {
        self.bound() + (tick & ((1 << self.shape.near_bits) - 1)) as u32
    }

    #[inline(always)]
    fn far_list(&self, span: u64) -> u32 {
        self.bound() + (1 << self.shape.near_bits) + (span & ((1 << self.shape.far_bits) - 1)) as u32
    }

    #[inline(always)]
    fn link(&mut self, list: u32, id: u32) {
        let links = self.links.items_mut();
        let Some(end) = links.get_mut(list as usize) else { return };
        let prev = std::mem::replace(&mut end.prev, id);
        if let Some(link) = links.get_mut(id as usize) {
            *link = Link { next: list, prev };
        }
        if let Some(last) = links.get_mut(prev as usize) {
            last.next = id;
        }
    }

    #[inline(always)]
    fn unlink(&mut self, id: u32) {
        let Link { next, prev } = *self.links.at(id);
        self.links.at_mut(prev).next = next;
        self.links.at_mut(next).prev = prev;
        if next == prev {
            // Nothing but the list itself is left.
            let (list, near) = (next - self.bound(), 1 << self.shape.near_bits);
            if list < near {
                self.near.remove(list);
            } else {
                self.far.remove(list - near);
            }
        }
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
