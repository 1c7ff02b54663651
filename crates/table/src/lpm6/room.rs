//! Which lines nodes have: pieces of 1, 2, 4 ... lines, each at a multiple of its size (a buddy system).

use std::collections::BTreeSet;

use weir_mem::Domain;

use crate::quarantine::Quarantine;

/// A piece has at most 2^(ORDERS - 1) lines.
const ORDERS: usize = 27;

/// Lines of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) line: u32,
    /// It has 2^`order` lines.
    pub(super) order: u8,
}

/// Lines that are free, and those that readers may still look at.
#[derive(Debug)]
pub(super) struct Room {
    /// By order, the first lines of free pieces.
    free: [BTreeSet<u32>; ORDERS],
    freed: Quarantine<Vec<Piece>>,
    unused: u32,
    /// Lines that wait for readers.
    waiting: u32,
    max: u32,
}

impl Room {
    /// All lines but the first one are free.
    pub(super) fn new(max: u32, domain: &Domain) -> Room {
        let mut room = Room { free: Default::default(), freed: Quarantine::new(domain), unused: 0, waiting: 0, max };
        let mut line = 1;
        while line < max {
            let order = line.trailing_zeros().min((max - line).ilog2());
            room.free(Piece { line, order: order as u8 });
            line += 1 << order;
        }
        room
    }

    pub(super) fn max(&self) -> u32 {
        self.max
    }

    /// Lines that are free.
    pub(super) fn unused(&self) -> u32 {
        self.unused
    }

    /// Lines of nodes that readers find.
    pub(super) fn used(&self) -> u32 {
        self.max - 1 - self.unused - self.waiting
    }

    /// Times that pieces were freed and readers have still to pass.
    pub(super) fn waiting(&self) -> usize {
        self.freed.len()
    }

    /// A piece of 2^`order` lines, if there is one: of those that fit best, the first.
    pub(super) fn take(&mut self, order: u8) -> Option<Piece> {
        let from =
            (usize::from(order)..ORDERS).find(|from| self.free.get(*from).is_some_and(|free| !free.is_empty()))?;
        let line = self.free.get_mut(from)?.pop_first()?;
        // The rest of a larger one is a piece of each size between.
        for (size, free) in self.free.iter_mut().enumerate().take(from).skip(usize::from(order)) {
            free.insert(line + (1 << size));
        }
        self.unused -= 1 << order;
        Some(Piece { line, order })
    }

    /// Gives back a piece that no reader has seen.
    pub(super) fn free(&mut self, Piece { mut line, order }: Piece) {
        self.unused += 1 << order;
        let mut order = usize::from(order);
        while let Some(free) = self.free.get_mut(order) {
            let other = line ^ 1 << order;
            if !free.remove(&other) {
                free.insert(line);
                return;
            }
            line &= other;
            order += 1;
        }
    }

    /// Gives back pieces to which nothing leads any more.
    pub(super) fn retire(&mut self, pieces: Vec<Piece>) {
        if !pieces.is_empty() {
            self.waiting += lines(&pieces);
            self.freed.put(pieces);
        }
    }

    /// Frees what all readers have passed.
    pub(super) fn release(&mut self) {
        let mut passed = Vec::new();
        self.freed.release(|pieces| passed.extend(pieces));
        self.waiting -= lines(&passed);
        passed.into_iter().for_each(|piece| self.free(piece));
    }
}

fn lines(pieces: &[Piece]) -> u32 {
    pieces.iter().map(|piece| 1 << piece.order).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of random sizes: none overlaps another, and given back they are one again.
    #[test]
    fn pieces_are_apart_and_grow_together() {
        for max in [2, 3, 64, 1000, 4097] {
            let mut room = Room::new(max, &Domain::new());
            let all = (room.free.clone(), room.unused());
            assert_eq!(all.1, max - 1);
            let mut owner = vec![false; max as usize];
            let (mut taken, mut seed) = (Vec::new(), 1_u32);
            loop {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let Some(piece) = room.take((seed >> 16) as u8 % 4) else { break };
                assert!(piece.line > 0 && piece.line % (1 << piece.order) == 0);
                for line in piece.line..piece.line + (1 << piece.order) {
                    assert!(!std::mem::replace(&mut owner[line as usize], true));
                }
                taken.push(piece);
            }
            let used: u32 = taken.iter().map(|piece| 1 << piece.order).sum();
            assert_eq!(room.unused(), max - 1 - used);
            let (odd, even): (Vec<_>, Vec<_>) = taken.into_iter().partition(|piece| piece.line % 3 == 1);
            odd.into_iter().chain(even).for_each(|piece| room.free(piece));
            assert_eq!((room.free, room.unused), all);
        }
    }

    #[test]
    fn what_readers_may_see_waits_for_them() {
        let domain = Domain::new();
        let mut reader = domain.reader().unwrap();
        let mut room = Room::new(3, &domain);
        assert_eq!((room.used(), room.unused()), (0, 2));
        let piece = room.take(0).unwrap();
        assert_eq!(room.used(), 1);
        room.retire(vec![piece]);
        room.retire(Vec::new());
        room.release();
        assert_eq!((room.used(), room.unused(), room.waiting()), (0, 1, 1));
        reader.quiescent();
        room.release();
        assert_eq!((room.unused(), room.waiting()), (2, 0));
    }
}
