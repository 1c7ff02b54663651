//! Where a panic of a stage on the control side ends: at the stage. Slow paths read what anybody sends, and a defect in one must not take them all away.
//! What it had in hand is dropped by name, and it goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_packet::Batch;

use crate::fabric::Fabric;
use crate::node::RunNode;
use crate::reason::Reason;

/// How long a stage that panicked when it was polled is not polled again, nanoseconds: what is wrong may be there still.
pub(crate) const PAUSE: u64 = 1_000_000_000;

/// Does something that may panic; nothing comes of it then. Only where it `is_guarded`: elsewhere a panic goes on.
#[inline(always)]
pub(crate) fn guarded<R>(is_guarded: bool, act: impl FnOnce() -> R) -> Option<R> {
    if is_guarded { caught(act) } else { Some(act()) }
}

/// What is behind is told of by the process' panic hook.
#[cold]
fn caught<R>(act: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(act)).ok()
}

/// Panics if somebody asked for it, once; in builds for tests only.
#[inline(always)]
#[allow(clippy::panic, reason = "that is what is asked for")]
pub(crate) fn suffer(tormented: &mut bool) {
    if cfg!(debug_assertions) && std::mem::take(tormented) {
        panic!("a test asked for it");
    }
}

impl RunNode {
    /// Packets that the stage has before it is called, with those of a batch that it is handed.
    #[inline]
    pub(crate) fn in_hand(&self, handed: usize) -> u64 {
        if self.is_guarded { handed as u64 + self.stage.held() } else { 0 }
    }

    /// Drops what is left of the batch of a stage that panicked; `before` is what it had in hand. No packet goes on in the batch.
    #[cold]
    pub(crate) fn lose_batch(&mut self, batch: &mut Batch, before: u64, fabric: &mut Fabric) {
        let left = batch.len() as u64;
        for packet in batch.slots().collect::<Vec<_>>().into_iter().filter_map(|slot| batch.take(slot)) {
            self.drops.count(Reason::Panicked, 1, packet.len() as u64);
            fabric.observers.dropped(&self.name, Reason::Panicked, &packet, fabric.now);
            fabric.pool.free(packet);
        }
        self.lose(before.saturating_sub(left));
    }

    /// Counts the packets that went with a panic, out of those that the stage had `before`: they are home, and nobody can say how long they were.
    #[cold]
    pub(crate) fn lose(&mut self, before: u64) {
        let sent = self.store.sent().iter().filter(|sent| sent.created.is_none()).count() as u64;
        let lost = before.saturating_sub(sent).saturating_sub(self.stage.held());
        if lost > 0 {
            self.drops.count(Reason::Panicked, lost, 0);
        }
    }
}
