//! Stage `forward.PORT`: passes packets on as they are.

use weir_packet::Batch;
use weir_stage::{Declaration, Out, Stage};

weir_stage::ways! {
    /// Ways out of [`Untouched`].
    pub enum Exit {
        /// Passed on.
        Out => way "out",
    }
}

/// Passes packets on as they are.
#[derive(Debug, Default)]
pub struct Untouched;

impl Stage for Untouched {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>()
    }

    fn run(&mut self, _batch: &mut Batch, _out: &mut Out<'_>) {
        // Packets that are not answered for go straight on.
    }
}
