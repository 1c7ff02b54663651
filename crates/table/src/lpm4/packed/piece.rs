//! The word of a piece, and the way from there to the word of a network.

/// /24 networks in a piece.
pub(super) const PIECE: usize = 32;

/// The word of a piece.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece(pub(super) u64);

impl Piece {
    /// All networks have this value.
    pub(super) fn whole(value: u32) -> Self {
        Self(u64::from(value) << 32)
    }

    /// Networks have the values in a block, a new one for each bit.
    pub(super) fn runs(bits: u32, start: u32) -> Self {
        Self(u64::from(start | LEADS_ON) << 32 | u64::from(bits))
    }

    #[inline(always)]
    pub(super) fn bits(self) -> u32 {
        self.0 as u32
    }

    /// Where the block starts, if there is one.
    pub(super) fn start(self) -> u32 {
        (self.0 >> 32) as u32 & !LEADS_ON
    }

    /// The way to the word of a network of the piece.
    #[inline(always)]
    pub(super) fn way(self, slot: usize) -> Way {
        // Bits above the network's own are shifted out.
        let runs = (self.bits() << (PIECE - 1 - slot % PIECE)).count_ones();
        Way(((self.0 >> 32) as u32).wrapping_add(runs))
    }
}

/// Tells a place in the blocks from a word. A word for a whole piece never has this bit: it would point to a group, which is of a
/// single network.
const LEADS_ON: u32 = 1 << 31;

/// What a piece says of one of its networks: its word, or where in the blocks that is.
#[derive(Clone, Copy)]
pub(super) struct Way(pub(super) u32);

impl Way {
    /// The place in the blocks, for a way that leads there.
    #[inline(always)]
    pub(super) fn place(self) -> usize {
        (self.0 & !LEADS_ON) as usize
    }

    /// Two words whose sum is the network's: one to add, and one at a place in the blocks.
    #[inline(always)]
    pub(super) fn parts(self) -> (u32, usize) {
        // Without a branch: which kind a piece is, is as good as random.
        let leads_on = (self.0 as i32 >> 31) as u32;
        (self.0 & !leads_on, (self.0 & leads_on & !LEADS_ON) as usize)
    }
}
