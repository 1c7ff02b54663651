//! Stage `NAME.round.PORT`, where one scheduler shapes both directions: what customers send each other goes through it twice, and comes to it the second
//! time as from no port, so that it goes on to a customer.

use weir_ip::INSIDE;
use weir_packet::{Batch, LaneId};
use weir_stage::{Declaration, Out, Stage};

weir_stage::ways! {
    /// Ways out of [`Round`].
    pub(crate) enum Exit {
        /// Every packet goes round: this is never taken.
        Out => way "out",
        /// To the customer that it is for, as from no port.
        Again => again "again",
    }
}

/// Sends round what a customer sent to another.
pub(crate) struct Round;

/// What [`Round`] declares.
pub(crate) fn declaration() -> Declaration {
    Declaration::of::<Exit>().updates(&[LaneId::Port])
}

impl Stage for Round {
    fn declare(&self) -> Declaration {
        declaration()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        batch.lanes.port.all_mut().fill(INSIDE);
        out.answer_all(batch.live(), Exit::Again);
    }
}
