//! DIR-24-8 whose first level is run-length coded, so that the part in use of a full Internet table is a few MiB.
//!
//! The /24 networks are taken 32 at a time: a *piece* is a /19, described by one 64-bit word:
//!
//! ```text
//!  63                              32 31                               0
//! +----------------------------------+----------------------------------+
//! | value, or where its block starts | bit i: /24 i differs from i - 1  |
//! +----------------------------------+----------------------------------+
//! ```
//!
//! The highest bit of a word tells which of the two it is. Without a block, all 32 networks have the value. Otherwise the *block*
//! has a value for each run, the first one and one more for each bit. A network's place in the block is the number of bits up to
//! its own, a population count.
//! (Lulea, Poptrie and DXR compress alike; here a change is one store of the piece's word, with no tree above it.)

mod piece;

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weir_mem::prefetch::prefetch_slice;
use weir_mem::{Domain, HugeSlice, arena};
use weir_simd::Kernel;

use super::table::{First, SLOTS, Table};
use super::{Config, Memory, Refused};
use crate::quarantine::Quarantine;
use piece::{PIECE, Piece, Way};

/// A table whose lookups are two accesses to a few MiB (three below a /24 with longer prefixes).
pub type Packed = Table<Runs>;

const PIECES: usize = SLOTS / PIECE;
/// Words for blocks: enough for every piece to have the largest, and as much again as a sixteenth of that to wait for
/// readers. Mapped, but backed only as far as it is used.
const ROOM: usize = SLOTS + SLOTS / 16;

/// Pieces and their blocks.
#[derive(Debug)]
pub struct Runs {
    pieces: HugeSlice<AtomicU64>,
    /// The first word is 0 and in no block: what pieces without one add to their value.
    blocks: HugeSlice<AtomicU32>,
    kernel: Kernel,
}

impl Runs {
    #[inline(always)]
    fn piece(&self, slot: usize) -> Piece {
        // Acquire, with the release of `store`: a block and a group are seen filled.
        Piece(self.pieces.get(slot / PIECE).map_or(0, |piece| piece.load(Ordering::Acquire)))
    }

    #[inline(always)]
    fn block_word(&self, at: usize) -> u32 {
        // Acquire, with the release of `fill`: a group is seen filled.
        self.blocks.get(at).map_or(0, |word| word.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn follow(&self, way: Way) -> u32 {
        let (value, at) = way.parts();
        value + self.block_word(at)
    }

    fn unpack(&self, number: usize) -> [u32; PIECE] {
        let piece = self.piece(number * PIECE);
        std::array::from_fn(|i| self.follow(piece.way(i)))
    }

    /// Stores a piece's networks: in place when the runs stay, else in a new block.
    fn store(&self, writer: &mut Blocks, number: usize, networks: &[u32; PIECE]) {
        let old = self.piece(number * PIECE);
        let bits = changes(networks);
        let new = if bits == 0 {
            Piece::whole(networks[0])
        } else if bits == old.bits() {
            self.fill(old, networks)
        } else {
            // Always found after `reserve`.
            let Some(start) = writer.take(bits) else { return };
            self.fill(Piece::runs(bits, start), networks)
        };
        if let Some(piece) = self.pieces.get(number).filter(|_| new != old) {
            // Release: the block, and a group that a value points to, were filled before.
            piece.store(new.0, Ordering::Release);
            writer.give_back(old, new);
        }
    }

    /// Writes the block of a piece.
    fn fill(&self, piece: Piece, networks: &[u32; PIECE]) -> Piece {
        let starts = networks.iter().enumerate().filter(|(i, _)| *i == 0 || piece.bits() >> i & 1 == 1);
        let block = self.blocks.get(piece.start() as usize..).unwrap_or_default();
        for (place, (_, &value)) in block.iter().zip(starts) {
            // Release: readers may be in the block already, and a group that the value points to was filled before.
            place.store(value, Ordering::Release);
        }
        piece
    }
}

/// A bit for each network that differs from the one before.
fn changes(networks: &[u32; PIECE]) -> u32 {
    let pairs = networks.iter().zip(&networks[1..]);
    pairs.enumerate().fold(0, |bits, (i, (before, after))| bits | u32::from(before != after) << (i + 1))
}

impl First for Runs {
    type Writer = Blocks;

    fn new(config: &Config, domain: &Domain) -> Result<(Self, Blocks), arena::Error> {
        let mut pieces = HugeSlice::<AtomicU64>::new(PIECES)?;
        pieces.iter_mut().for_each(|piece| *piece.get_mut() = Piece::whole(config.miss).0);
        let blocks = HugeSlice::new(ROOM)?;
        Ok((Self { pieces, blocks, kernel: config.kernel }, Blocks::new(ROOM, domain)))
    }

    #[inline(always)]
    fn prefetch(&self, slot: usize) {
        prefetch_slice(&self.pieces, slot / PIECE);
    }

    #[inline(always)]
    fn word(&self, slot: usize) -> u32 {
        self.follow(self.piece(slot).way(slot))
    }

    #[inline(always)]
    fn approach(&self, addresses: &[u32], words: &mut [u32]) {
        self.kernel.run(
            #[inline(always)]
            || self.find_ways(addresses, words),
        );
    }

    #[inline(always)]
    fn words(&self, addresses: &[u32], words: &mut [u32]) {
        let blocks = &*self.blocks;
        for (word, _) in words.iter_mut().zip(addresses) {
            let (value, at) = Way(*word).parts();
            // Acquire: as in `block_word`.
            *word = value + blocks.get(at).map_or(0, |word| word.load(Ordering::Acquire));
        }
    }

    #[inline(always)]
    fn prefetch_elsewhere(&self, _: usize) {
        // No word of a block stands elsewhere.
    }

    fn reserve(
        &self,
        writer: &mut Blocks,
        slots: RangeInclusive<usize>,
        mut change: impl FnMut(usize, u32) -> u32,
    ) -> Result<(), Refused> {
        let pieces = slots.end() / PIECE - slots.start() / PIECE + 1;
        if writer.has_plenty(pieces) {
            return Ok(());
        }
        let mut needed = [0; SIZES.len()];
        self.each_change(slots, &mut change, |number, networks| {
            let bits = changes(networks);
            if bits != 0 && bits != self.piece(number * PIECE).bits() {
                needed[class_of(bits)] += 1;
            }
        });
        if writer.has_room(&needed) { Ok(()) } else { Err(Refused::NoRoom) }
    }

    fn change(&self, writer: &mut Blocks, slots: RangeInclusive<usize>, mut change: impl FnMut(usize, u32) -> u32) {
        self.each_change(slots, &mut change, |number, networks| self.store(writer, number, networks));
    }

    fn memory(&self, writer: &Blocks) -> Memory {
        Memory {
            lookup: self.pieces.bytes() + self.blocks.bytes(),
            used: self.pieces.bytes() + 4 * writer.used,
            control: writer.free.iter().map(|free| 4 * free.capacity()).sum(),
            groups: 0,
            waiting: writer.freed.len(),
        }
    }
}

impl Runs {
    /// Gives `then` the number and the new networks of each piece that `change` changes in these slots.
    fn each_change(
        &self,
        slots: RangeInclusive<usize>,
        change: &mut impl FnMut(usize, u32) -> u32,
        mut then: impl FnMut(usize, &[u32; PIECE]),
    ) {
        for number in slots.start() / PIECE..=slots.end() / PIECE {
            let mut networks = self.unpack(number);
            let before = networks;
            let numbered = (number * PIECE..).zip(&mut networks);
            for (slot, word) in numbered.filter(|(slot, _)| slots.contains(slot)) {
                *word = change(slot, *word);
            }
            if networks != before {
                then(number, &networks);
            }
        }
    }

    #[inline(always)]
    fn find_ways(&self, addresses: &[u32], ways: &mut [u32]) {
        // An array of every piece there can be needs no check of the index.
        let (Some(pieces), blocks) = (self.pieces.first_chunk::<PIECES>(), &*self.blocks) else { return };
        for (way, &address) in ways.iter_mut().zip(addresses) {
            let slot = address as usize >> 8;
            // Acquire: as in `piece`.
            let found = Piece(pieces[slot / PIECE].load(Ordering::Acquire)).way(slot);
            // Where it does not lead on, some other line is asked for, mostly one that is near.
            prefetch_slice(blocks, found.place());
            *way = found.0;
        }
    }
}

/// Which words of the blocks are free.
#[derive(Debug)]
pub struct Blocks {
    /// Words there are.
    room: usize,
    /// Words from here on were never used.
    fresh: usize,
    /// Starts of freed blocks, for each of [`SIZES`].
    free: [Vec<u32>; SIZES.len()],
    freed: Quarantine<Block>,
    /// Words in blocks that pieces refer to.
    used: usize,
}

/// A block that was freed.
#[derive(Clone, Copy, Debug)]
struct Block {
    start: u32,
    class: usize,
}

/// Sizes of blocks: few, so that freed ones are found again.
const SIZES: [usize; 9] = [2, 3, 4, 6, 8, 12, 16, 24, 32];
/// When that many wait, look whether readers have passed before using fresh words.
const MANY_WAIT: usize = 64;

impl Blocks {
    fn new(room: usize, domain: &Domain) -> Self {
        Self { room, fresh: 1, free: Default::default(), freed: Quarantine::new(domain), used: 0 }
    }

    /// Whether so many blocks can be taken whatever their sizes, from fresh words alone.
    fn has_plenty(&self, blocks: usize) -> bool {
        blocks * SIZES[SIZES.len() - 1] <= self.room - self.fresh
    }

    /// Whether so many blocks of each class can be taken.
    fn has_room(&mut self, needed: &[usize; SIZES.len()]) -> bool {
        self.release();
        let classes = needed.iter().zip(&self.free).zip(SIZES);
        let fresh: usize = classes.map(|((needed, free), size)| needed.saturating_sub(free.len()) * size).sum();
        fresh <= self.room - self.fresh
    }

    /// A block for a piece with these bits; 0 when it needs none.
    fn take(&mut self, bits: u32) -> Option<u32> {
        if bits == 0 {
            return Some(0);
        }
        let class = class_of(bits);
        if self.free[class].is_empty() && self.freed.len() >= MANY_WAIT {
            self.release();
        }
        let size = SIZES[class];
        let start = match self.free[class].pop() {
            Some(start) => start,
            None if self.fresh + size <= self.room => {
                self.fresh += size;
                (self.fresh - size) as u32
            }
            None => return None,
        };
        self.used += size;
        Some(start)
    }

    /// Takes back the block that a piece had, unless it has it still.
    fn give_back(&mut self, old: Piece, new: Piece) {
        if old.bits() == 0 || old == new {
            return;
        }
        let class = class_of(old.bits());
        self.used -= SIZES[class];
        self.freed.put(Block { start: old.start(), class });
    }

    fn release(&mut self) {
        let free = &mut self.free;
        self.freed.release(|Block { start, class }| free[class].push(start));
    }
}

/// The class of the smallest size that holds the values of a piece with these bits.
fn class_of(bits: u32) -> usize {
    let runs = bits.count_ones() as usize + 1;
    SIZES.partition_point(|&size| size < runs).min(SIZES.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lpm4::{Lookup4, Lpm4, Prefix4};

    fn small(room: usize, domain: &Domain) -> Packed {
        let config = Config { max_groups: 2, ..Config::new(0) };
        let (runs, _) = Runs::new(&config, domain).unwrap();
        Table::assemble(&config, domain, runs, Blocks::new(room, domain)).unwrap()
    }

    #[test]
    fn every_pattern_of_runs_reads_back() {
        let domain = Domain::new();
        let (runs, mut writer) = Runs::new(&Config::new(9), &domain).unwrap();
        for seed in 0..2000u32 {
            let pattern = seed.wrapping_mul(0x9e37_79b9) ^ seed << 7;
            let networks: [u32; PIECE] = std::array::from_fn(|i| (pattern >> i & 1) + (i as u32 / 8) * (seed & 2));
            runs.store(&mut writer, 5, &networks);
            assert_eq!(runs.unpack(5), networks);
            assert_eq!((runs.unpack(4), runs.unpack(6)), ([9; PIECE], [9; PIECE]));
        }
        runs.store(&mut writer, 5, &[9; PIECE]);
        assert_eq!(writer.used, 0);
    }

    #[test]
    fn classes_hold_what_they_must() {
        for runs in 2..=32 {
            let bits = u32::MAX << 1 & ((1u64 << runs) - 1) as u32;
            let size = SIZES[class_of(bits)];
            assert!(size >= runs && size < 2 * runs, "{runs} runs in {size}");
        }
    }

    #[test]
    fn without_room_nothing_changes_until_readers_pass() {
        let domain = Domain::new();
        let mut reader = domain.reader().unwrap();
        let mut table = small(40, &domain);
        let prefix = |third: u32| Prefix4::new(0x0a00_0000 | third << 8, 24).unwrap();
        let mut held = Vec::new();
        let refused = (0..32).step_by(2).find_map(|third| {
            let refused = table.insert(prefix(third), 7).err();
            if refused.is_none() {
                held.push(third);
            }
            refused
        });
        assert_eq!(refused, Some(Refused::NoRoom));
        let seen =
            |table: &Packed| (0..33).map(|third| table.reader().lookup(prefix(third).last())).collect::<Vec<_>>();
        let expected: Vec<u32> = (0..33).map(|third| if held.contains(&third) { 7 } else { 0 }).collect();
        assert_eq!(seen(&table), expected);
        assert_eq!(table.remove(prefix(held[1])), Err(Refused::NoRoom));
        assert_eq!(table.insert(Prefix4::new(0x0a00_1d80, 25).unwrap(), 1), Err(Refused::NoRoom));
        assert_eq!((seen(&table), table.len()), (expected, held.len()));
        assert_eq!(table.memory().groups, 0);
        reader.quiescent();
        assert_eq!(table.remove(prefix(held[1])), Ok(Some(7)));
        assert_eq!(table.get(prefix(held[1])), None);
    }

    #[test]
    fn a_short_prefix_needs_no_more_room_than_its_runs() {
        let domain = Domain::new();
        let mut table = small(64, &domain);
        table.insert(Prefix4::new(0x0a00_0000, 24).unwrap(), 7).unwrap();
        for value in 1..4 {
            table.insert(Prefix4::DEFAULT, value).unwrap();
            assert_eq!(table.reader().lookup(0), value);
            assert_eq!(table.reader().lookup(0x0a00_0001), 7);
        }
        assert_eq!(table.memory().used, PIECES * 8 + 4 * SIZES[class_of(2)]);
    }
}
