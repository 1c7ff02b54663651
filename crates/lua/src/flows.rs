//! The flow hash of a batch's packets, for scripts.

use std::sync::atomic::Ordering::Relaxed;

use weir_wire::spread::{self, Key, WINDOW};

use crate::view::Seen;

/// Finds the flow hash of every packet; nothing for what is no packet of IPv4 or IPv6. `seed` is as in [`weir_wire::flow::hash`].
///
/// Only a script calls it, and so only while its batch is there.
pub(crate) fn hash(seen: &Seen, seed: u64) {
    seen.asked.store(1, Relaxed);
    for n in 1..=seen.count() {
        let Some((packet, length)) = seen.packet(n) else { continue };
        // SAFETY: a script runs only in `Machine::call`, which has the batch to itself and has just written where its packets begin. Behind each
        // beginning there are `WINDOW` bytes that may be read, whatever the length: that is what `Packet::window` goes by.
        let window = unsafe { packet.cast::<[u8; WINDOW]>().read() };
        seen.note(n, spread::hash(Key::Flow, &window, length, seed));
    }
}
