//! Whose a frame is, for the stage `qos.balance`, where several workers share the users.
//!
//! It looks users up in the table that their workers look in, and goes by what stands there of the owner. Frames of nobody go to the first worker.

use weir_packet::{BATCH, Batch};
use weir_sched::classify::Frame;
use weir_stage::ownership::{Owners, Whose};

use crate::find::Find;

/// Finds owners of frames.
pub(crate) struct ByUser<F>(F);

impl<F: Find> ByUser<F> {
    pub(crate) fn new(find: F) -> ByUser<F> {
        ByUser(find)
    }
}

impl<F: Find> Whose for ByUser<F> {
    fn owners(&mut self, batch: &Batch, owners: &mut [u8; BATCH]) {
        let ByUser(find) = self;
        let mut places = [F::Place::default(); BATCH];
        batch.each_ref(|slot, packet| places[slot.index()] = find.seek(packet, &Frame::of(packet.bytes())));
        for slot in batch.slots() {
            owners[slot.index()] = Owners::owner_in(find.user(places[slot.index()]));
        }
    }
}
