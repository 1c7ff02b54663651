//! Stage `NAME.control` as long as there is no slow path: it drops what needs one, by name.

use weir_packet::{Batch, LaneId, Slots};
use weir_stage::{Declaration, Out, Stage};

weir_stage::ways! {
    /// Ways out of [`Absent`].
    pub enum Exit {
        /// Never taken.
        Undecided => way "undecided",
        /// It needs the slow path, and there is none.
        NoSlowPath => drop "no-slow-path",
    }
}

/// Drops everything.
pub(crate) struct Absent;

impl Stage for Absent {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>().reads(&[LaneId::Port])
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        Slots(batch.live()).for_each(|slot| out.answer(slot, Exit::NoSlowPath));
    }
}
