//! The steps of a packet's way.

use super::program::Others;
use super::way::NeedsInterpreter;
use crate::groups::GroupSlot;
use crate::index::Slot;

/// Through more tables, groups and ports a packet goes by the interpreter.
pub(super) const MOST_STEPS: usize = 512;

/// Of which controllers are told more often than this goes by the interpreter.
const MOST_TOLD: usize = 4;

/// Part of the way of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// It met the flow of this slot in this table.
    Flow {
        table: u8,
        slot: Slot,
    },
    /// No flow of this table matched.
    Miss {
        table: u8,
    },
    /// It goes on in the list that this flow applies, with the changes behind a way out.
    More {
        table: u8,
        leg: u8,
        slot: Slot,
    },
    /// The list that this flow wrote is carried out.
    Written {
        table: u8,
        slot: Slot,
    },
    /// It goes to this bucket of the group in this slot.
    Group {
        bucket: u16,
        slot: GroupSlot,
    },
    /// And to this one of the same group.
    Bucket {
        bucket: u16,
        slot: GroupSlot,
    },
    /// What follows happens to a copy...
    Apart,
    /// ...and what follows now to what it is a copy of.
    Back,
    Port(u32),
    Others(Others),
    /// The port that it came in by: back goes only what is told so by the name (section 7.2.5).
    SamePort,
    /// Controllers are told of it, as the [`Telling`] of this number says.
    Tell(u8),
    /// Of the changes of the next step, it meets only so many.
    Only(u16),
    /// Its TTL has ended.
    TtlEnded,
}

/// Why controllers are told of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Cause {
    /// The flow itself says so, by what it applies.
    Applied,
    /// A group does, or a set of actions.
    #[default]
    Otherwise,
    /// Its TTL has ended.
    TtlEnded,
}

/// What controllers are told of a packet: by which flow, and what was known of it then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Telling {
    pub(super) table: u8,
    pub(super) slot: Slot,
    pub(super) cause: Cause,
    pub(super) max_len: u16,
    pub(super) metadata: u64,
}

/// The steps of a packet.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    all: Box<[Step; MOST_STEPS]>,
    count: usize,
    told: [Telling; MOST_TOLD],
    told_count: u8,
}

impl Steps {
    pub(super) fn new() -> Steps {
        Steps {
            all: Box::new([Step::SamePort; MOST_STEPS]),
            count: 0,
            told: [Telling::default(); MOST_TOLD],
            told_count: 0,
        }
    }

    /// There are none yet.
    #[inline]
    pub(super) fn clear(&mut self) {
        (self.count, self.told_count) = (0, 0);
    }

    /// Controllers are told of the packet as it is then.
    pub(super) fn tell(&mut self, telling: Telling) -> Result<(), NeedsInterpreter> {
        let nth = self.told_count;
        *self.told.get_mut(usize::from(nth)).ok_or(NeedsInterpreter)? = telling;
        self.told_count += 1;
        self.push(Step::Tell(nth))
    }

    /// What controllers are told by a [`Step::Tell`].
    pub(super) fn telling(&self, nth: u8) -> Option<&Telling> {
        self.told.get(usize::from(nth))
    }

    #[inline]
    pub(super) fn push(&mut self, step: Step) -> Result<(), NeedsInterpreter> {
        let place = self.all.get_mut(self.count).ok_or(NeedsInterpreter)?;
        *place = step;
        self.count += 1;
        Ok(())
    }

    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = Step> {
        self.all.iter().take(self.count).copied()
    }
}
