//! Identifications of outer packets that may be fragmented on their way: those towards one gateway must not come twice while the first
//! may still be under way (RFC 6864 section 4.3). Workers take theirs from one sequence, by the block, so that none repeats another's and the
//! sequence is as long as it can be. The slow path has some for itself: it can promise that none comes again too soon, which workers cannot at
//! their rates.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Identifications that the slow path has where workers need some, too: those below.
pub(crate) const SLOW_PATH: u32 = 1 << 14;

/// Identifications that a worker takes at once.
const BLOCK: u32 = 64;

/// Blocks that workers take in turn.
const BLOCKS: u32 = ((1 << 16) - SLOW_PATH) / BLOCK;

/// The sequence of all workers of a gateway.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sequence(Arc<AtomicU32>);

/// Identifications for the packets of one stage.
#[derive(Debug)]
pub(crate) struct Identifications {
    /// `None` where packets must not be fragmented and so need none.
    sequence: Option<Sequence>,
    next: u16,
    left: u32,
}

impl Identifications {
    /// From a sequence, if packets `may_fragment`.
    pub(crate) fn new(sequence: &Sequence, may_fragment: bool) -> Identifications {
        Identifications { sequence: may_fragment.then(|| sequence.clone()), next: 0, left: 0 }
    }

    /// That of the next packet, if it needs one.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<u16> {
        match &self.sequence {
            None => None,
            Some(_) => Some(self.take()),
        }
    }

    #[inline(never)]
    fn take(&mut self) -> u16 {
        if self.left == 0
            && let Some(Sequence(block)) = &self.sequence
        {
            // Relaxed: blocks are apart in whatever order they are taken.
            let block = block.fetch_add(1, Ordering::Relaxed) % BLOCKS;
            (self.next, self.left) = ((SLOW_PATH + block * BLOCK) as u16, BLOCK);
        }
        let next = self.next;
        (self.next, self.left) = (next.wrapping_add(1), self.left.saturating_sub(1));
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_share_one_sequence_that_leaves_out_the_slow_paths() {
        let sequence = Sequence::default();
        let mut stages = [(); 3].map(|()| Identifications::new(&sequence, true));
        let all = (1 << 16) - SLOW_PATH;
        let mut seen = vec![false; 1 << 16];
        // Of three stages, one sends four times as much as another.
        for n in 0..all as usize - 3 * BLOCK as usize {
            let next = stages[[0, 0, 0, 0, 1, 1, 2][n % 7]].next().unwrap();
            assert!(!std::mem::replace(&mut seen[usize::from(next)], true), "{next} comes twice");
        }
        assert!(!seen[..SLOW_PATH as usize].contains(&true));
        // Around the end it goes on from the start.
        assert!((0..2 * all).all(|_| u32::from(stages[0].next().unwrap()) >= SLOW_PATH));
    }

    #[test]
    fn packets_that_must_not_be_fragmented_need_none() {
        assert_eq!(Identifications::new(&Sequence::default(), false).next(), None);
    }
}
