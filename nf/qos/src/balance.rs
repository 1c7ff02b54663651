//! Stage `qos.balance`: to the worker that has the user, where several share them.
//!
//! It looks users up in the table that their workers look in, and goes by what stands there of the owner. Frames of nobody go to the first worker.

use weir_packet::{BATCH, Batch};
use weir_sched::classify::Frame;
use weir_sched::owner::Owners;
use weir_stage::{Declaration, Out, Stage};

use crate::find::Find;

weir_stage::ways! {
    /// Ways out of [`Balance`], before those to the workers.
    pub(crate) enum Exit {
        /// To the first worker.
        First => way "first",
    }
}

/// Balances frames before so many workers.
pub(crate) struct Balance<F> {
    find: F,
    workers: u8,
    frames: [Frame; BATCH],
}

impl<F: Find> Balance<F> {
    pub(crate) fn new(find: F, workers: u8) -> Balance<F> {
        Balance { find, workers, frames: [Frame::default(); BATCH] }
    }
}

/// What [`Balance`] declares.
pub(crate) fn declaration(workers: u8) -> Declaration {
    Declaration::of::<Exit>().indexed("worker", usize::from(workers))
}

impl<F: Find> Stage for Balance<F> {
    fn declare(&self) -> Declaration {
        declaration(self.workers)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let Balance { find, frames, .. } = self;
        batch.each_ref(|slot, packet| {
            let frame = Frame::of(packet.bytes());
            find.prefetch(packet, &frame);
            frames[slot.index()] = frame;
        });
        let mut owners = [0; BATCH];
        batch.each_ref(|slot, packet| {
            owners[slot.index()] = Owners::owner_in(find.user(packet, &frames[slot.index()]));
        });
        out.answer_indexed_each(batch.live(), &owners);
    }
}
