//! Rules in blocks of eight, which are compared at once.

use weir_mem::prefetch::prefetch_lines;
use weir_simd::Kernel;
use weir_simd::eight::{self, Block, GOES_ON, KEYS, LANES, Word, going_on};

use super::{Keys, Match, NONE};

/// What is asked of lanes without a rule.
const NOTHING: Word = Word { value: [0; LANES], mask: [0; LANES] };

/// The same of the last word: one key of all would match, and finds what is found where no rule matches.
const NOTHING_LAST: Word = Word { value: [u32::MAX; LANES], mask: [0; LANES] };

/// All blocks. The first one is empty and stays so.
#[derive(Clone)]
pub(super) struct Blocks<const W: usize> {
    all: Vec<Block<W>>,
    /// Those that nothing leads to.
    spare: Vec<u32>,
}

/// Bytes of the blocks of so many rules.
pub(super) const fn bytes_of<const W: usize>(rules: usize) -> usize {
    rules.div_ceil(LANES) * size_of::<Block<W>>()
}

impl<const W: usize> Blocks<W> {
    /// The empty one alone.
    pub(super) fn new() -> Blocks<W> {
        let mut blocks = Blocks { all: Vec::new(), spare: Vec::new() };
        blocks.put(std::iter::empty(), NONE);
        blocks
    }

    /// Puts rules, in their order, into blocks of which one leads to the next; answers the first.
    pub(super) fn add(&mut self, rules: &[(u32, Match<W>)]) -> u32 {
        let first = rules.chunks(LANES).rev().fold(NONE, |next, some| self.put(some.iter(), next));
        if first == NONE { 0 } else { first & !GOES_ON }
    }

    /// Puts at most [`LANES`] rules into a block, where `none` is found if none of them matches; answers how another one leads to it.
    fn put<'r>(&mut self, rules: impl Iterator<Item = &'r (u32, Match<W>)>, none: u32) -> u32 {
        let mut block = Block { words: [NOTHING; W], numbers: [none; 2 * LANES] };
        if let Some(last) = block.words.last_mut() {
            *last = NOTHING_LAST;
        }
        for (lane, (slot, rule)) in rules.take(LANES).enumerate() {
            block.numbers[lane] = *slot;
            for (word, to) in block.words.iter_mut().enumerate() {
                (to.value[lane], to.mask[lane]) = match word + 1 == W {
                    true => bounds(rule.bounds),
                    false => (rule.value[word], rule.mask[word]),
                };
            }
        }
        if let Some(at) = self.spare.pop() {
            if let Some(known) = self.all.get_mut(at as usize) {
                *known = block;
            }
            return at | GOES_ON;
        }
        self.all.push(block);
        (self.all.len() as u32 - 1) | GOES_ON
    }

    /// Takes a block, and those it leads to, back; answers the numbers of their rules.
    pub(super) fn take(&mut self, at: u32) -> Vec<u32> {
        let (mut slots, mut next) = (Vec::new(), at);
        while let Some(block) = self.all.get(next as usize).filter(|_| next != 0) {
            slots.extend(block.numbers.iter().take(LANES).filter(|number| **number & GOES_ON == 0));
            self.spare.push(next);
            next = going_on(block.numbers[LANES]).unwrap_or(0);
        }
        slots
    }

    /// The number of the first rule that matches one key, in a block and those it leads to; [`NONE`].
    pub(super) fn first(&self, at: u32, key: &[u32; W]) -> u32 {
        eight::first_from(&self.all, at, key)
    }

    /// The same for the first `count` keys, each in its block.
    #[inline(always)]
    pub(super) fn first_each(
        &self,
        kernel: Kernel,
        at: &[u32; KEYS],
        (keys, count): (&Keys<W>, usize),
        numbers: &mut [u32; KEYS],
    ) {
        eight::first(kernel, &self.all, at, (&keys.0, count), numbers);
    }

    /// Asks for the lines of a block.
    #[inline(always)]
    pub(super) fn prefetch(&self, at: u32) {
        prefetch_lines(&self.all, at as usize);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.all.as_slice())
    }
}

/// Both lower bounds in one word, and how far the upper ones are from them in another.
fn bounds([high, low]: [(u16, u16); 2]) -> (u32, u32) {
    let word = |high: u16, low: u16| u32::from(high) << 16 | u32::from(low);
    // Rules of which one is the wrong way round are in no block.
    (word(high.0, low.0), word(high.1.saturating_sub(high.0), low.1.saturating_sub(low.0)))
}
