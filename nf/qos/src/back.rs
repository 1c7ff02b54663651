//! Stage `qos.back`: packets in the direction that is not shaped.

use weir_packet::Batch;
use weir_stage::{Declaration, Out, Stage};

weir_stage::ways! {
    /// Ways out of [`Back`].
    pub(crate) enum Exit {
        /// Passed on as it came.
        Out => way "out",
    }
}

/// Passes packets on.
#[derive(Debug)]
pub(crate) struct Back;

impl Stage for Back {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>()
    }

    fn run(&mut self, _batch: &mut Batch, _out: &mut Out<'_>) {}
}
