//! Rules in blocks of eight, which are compared at once.

use weir_mem::prefetch::prefetch_slice;
use weir_simd::Kernel;
use weir_simd::eight::{self, KEYS, LANES, NO_LANE, Row, Word};

use super::{Keys, Match, NONE};

/// The last word of lanes without a rule: one key of all would match, and finds no rule's number there.
const VACANT: Word = Word { value: [u32::MAX; LANES], mask: [0; LANES] };

/// The numbers of a block's rules, in their order, [`NONE`] behind the last; and the block that goes on with further ones.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Tail {
    slots: [u32; LANES],
    /// 0: no block does.
    next: u32,
}

/// All blocks. The first one is empty and stays so.
#[derive(Clone)]
pub(super) struct Blocks<const W: usize> {
    rows: Vec<Row<W>>,
    tails: Vec<Tail>,
    /// Those that nothing leads to.
    spare: Vec<u32>,
}

/// Bytes of the blocks of so many rules.
pub(super) const fn bytes_of<const W: usize>(rules: usize) -> usize {
    rules.div_ceil(LANES) * (size_of::<Row<W>>() + size_of::<Tail>())
}

impl<const W: usize> Blocks<W> {
    /// The empty one alone.
    pub(super) fn new() -> Blocks<W> {
        let mut blocks = Blocks { rows: Vec::new(), tails: Vec::new(), spare: Vec::new() };
        blocks.put(std::iter::empty(), 0);
        blocks
    }

    /// Puts rules, in their order, into blocks of which one leads to the next; answers the first.
    pub(super) fn add(&mut self, rules: &[(u32, Match<W>)]) -> u32 {
        rules.chunks(LANES).rev().fold(0, |next, some| self.put(some.iter(), next))
    }

    /// Puts at most [`LANES`] rules into a block.
    fn put<'r>(&mut self, rules: impl Iterator<Item = &'r (u32, Match<W>)>, next: u32) -> u32 {
        let mut row = [Word { value: [0; LANES], mask: [0; LANES] }; W];
        if let Some(last) = row.last_mut() {
            *last = VACANT;
        }
        let mut tail = Tail { slots: [NONE; LANES], next };
        for (lane, (slot, rule)) in rules.take(LANES).enumerate() {
            tail.slots[lane] = *slot;
            for (word, to) in row.iter_mut().enumerate() {
                (to.value[lane], to.mask[lane]) = match word + 1 == W {
                    true => bounds(rule.bounds),
                    false => (rule.value[word], rule.mask[word]),
                };
            }
        }
        if let Some(at) = self.spare.pop() {
            if let (Some(known), Some(behind)) = (self.rows.get_mut(at as usize), self.tails.get_mut(at as usize)) {
                (*known, *behind) = (row, tail);
            }
            return at;
        }
        self.rows.push(row);
        self.tails.push(tail);
        self.rows.len() as u32 - 1
    }

    /// Takes a block, and those it leads to, back; answers the numbers of their rules.
    pub(super) fn take(&mut self, at: u32) -> Vec<u32> {
        let (mut slots, mut next) = (Vec::new(), at);
        while let Some(tail) = self.tails.get(next as usize).filter(|_| next != 0) {
            slots.extend(tail.slots.iter().filter(|slot| **slot != NONE));
            self.spare.push(next);
            next = tail.next;
        }
        slots
    }

    /// The number of the first rule that matches one key, in a block and those it leads to; [`NONE`].
    pub(super) fn first(&self, at: u32, key: &[u32; W]) -> u32 {
        let mut at = at as usize;
        while let (Some(row), Some(tail)) = (self.rows.get(at), self.tails.get(at)) {
            let lane = eight::first_of(row, key);
            if lane != NO_LANE
                && let Some(slot) = tail.slots.get(usize::from(lane))
            {
                return *slot;
            }
            if tail.next == 0 {
                break;
            }
            at = tail.next as usize;
        }
        NONE
    }

    /// The same for the first `count` keys, each in its block.
    #[inline(always)]
    pub(super) fn first_each(
        &self,
        kernel: Kernel,
        at: &[u32; KEYS],
        (keys, count): (&Keys<W>, usize),
        slots: &mut [u32; KEYS],
    ) {
        let mut lanes = [0; KEYS];
        eight::first(kernel, &self.rows, at, (&keys.0, count), &mut lanes);
        for (i, slot) in slots.iter_mut().enumerate().take(count) {
            *slot = NONE;
            let Some(tail) = self.tails.get(at[i] as usize) else { continue };
            match tail.slots.get(usize::from(lanes[i])) {
                Some(found) => *slot = *found,
                None if tail.next != 0 => *slot = self.first(tail.next, &keys.get(i)),
                None => {}
            }
        }
    }

    /// Asks for the lines of a block.
    #[inline(always)]
    pub(super) fn prefetch(&self, at: u32) {
        if let Some(row) = self.rows.get(at as usize) {
            (0..W).for_each(|word| prefetch_slice(row, word));
        }
        prefetch_slice(&self.tails, at as usize);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.rows.as_slice()) + size_of_val(self.tails.as_slice())
    }
}

/// Both lower bounds in one word, and how far the upper ones are from them in another.
fn bounds([high, low]: [(u16, u16); 2]) -> (u32, u32) {
    let word = |high: u16, low: u16| u32::from(high) << 16 | u32::from(low);
    // Rules of which one is the wrong way round are in no block.
    (word(high.0, low.0), word(high.1.saturating_sub(high.0), low.1.saturating_sub(low.0)))
}
