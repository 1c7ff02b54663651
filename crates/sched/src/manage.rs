//! What decides about the packets of one queue beside its size: when a packet comes (RED) and when it is to go (CoDel).

use std::fmt;

/// What a [`Manage`] remembers of one queue: its own business, all 0 for a queue that it has not seen yet.
pub type State = [u64; 4];

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is queued, or sent.
    Pass,
    /// It is marked as one that has met congestion (RFC 3168), and goes on; it is dropped if its ends do not know of such marks.
    Mark,
    /// It is dropped.
    Drop,
}

/// A packet that comes to a queue which has room for it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The time, nanoseconds.
    pub now: u64,
    /// Packets in the queue, without this one.
    pub queued: u32,
    /// The packet's length, bytes with overhead.
    pub bytes: u32,
    /// Colour that a meter gave it: 0 green, 1 yellow, 2 red.
    pub colour: u8,
    /// A number whose bits are random, new for every packet.
    pub random: u32,
}

/// The first packet of a queue, about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// The time, nanoseconds.
    pub now: u64,
    /// How long it has been in the queue, nanoseconds.
    pub sojourn: u64,
    /// Packets in the queue behind it.
    pub behind: u32,
    /// The packet's length, bytes with overhead.
    pub bytes: u32,
}

/// Decides about the packets of queues whose state it is handed; one value serves the queues of many users.
pub trait Manage: Send + Sync + fmt::Debug {
    /// Whether it may ever say that a packet is to be marked.
    fn marks(&self) -> bool {
        false
    }

    /// A packet comes.
    fn arrive(&self, _state: &mut State, _arrival: &Arrival) -> Verdict {
        Verdict::Pass
    }

    /// A packet that has waited is about to be sent; one that need not wait is not asked about. When it is dropped, the one behind it is asked about next, in the same call.
    fn depart(&self, _state: &mut State, _departure: &Departure) -> Verdict {
        Verdict::Pass
    }

    /// Whether a packet that is about to be sent may be anything to it while it remembers nothing of a queue (its state is all 0). Where it is not, it passes, and nothing is
    /// remembered: [`Manage::depart`] is not asked then, if the queue is a flow of a fair one.
    fn notes(&self, _departure: &Departure) -> bool {
        true
    }

    /// How long, nanoseconds, a packet must have waited at least to be so: what is asked before [`Manage::notes`], and without it. 0 where the time alone does not say.
    fn patience(&self) -> u64 {
        0
    }

    /// The last verdict was to mark the packet, at `now`, and it is marked. Where it is dropped instead, nothing is said.
    fn marked(&self, _state: &mut State, _now: u64) {}

    /// The last packet of the queue has left it, at `now`: the only one, perhaps, as soon as it came. Of a flow of a fair queue of which it remembers nothing
    /// it need not be said.
    fn emptied(&self, _state: &mut State, _now: u64) {}
}

/// Whether a packet that is about to be sent goes, with a mark perhaps, which `mark` makes if the packet can have one; else it is to be dropped.
#[inline]
pub(crate) fn lets_go(
    manage: &dyn Manage,
    state: &mut State,
    departure: &Departure,
    mark: impl FnOnce() -> bool,
) -> bool {
    match manage.depart(state, departure) {
        Verdict::Pass => true,
        Verdict::Mark if mark() => {
            manage.marked(state, departure.now);
            true
        }
        Verdict::Mark | Verdict::Drop => false,
    }
}
