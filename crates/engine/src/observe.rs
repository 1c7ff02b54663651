//! What those are told who watch packets: traces and captures. While nobody watches, a worker tests one flag per batch.

use std::sync::Arc;

use weir_packet::Packet;
use weir_stage::{Fate, Ways};

use crate::reason::Reason;

/// Something that happened to a packet.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// When, nanoseconds of the engine's clock.
    pub now: u64,
    /// A number that names the packet's buffer as long as it lives.
    pub packet: usize,
    /// The packet's bytes just then.
    pub bytes: &'a [u8],
    /// What happened.
    pub what: What<'a>,
}

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// A port handed it over.
    Received {
        /// The port's index.
        port: u16,
    },
    /// It left a stage.
    Left {
        /// The stage.
        stage: &'a str,
        /// The way or reason.
        way: &'a str,
        /// What becomes of it.
        fate: Fate,
    },
    /// A stage took it and holds it.
    Taken {
        /// The stage.
        stage: &'a str,
    },
    /// A stage made it.
    Created {
        /// The stage.
        stage: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// A port accepted it.
    Transmitted {
        /// The port's index.
        port: u16,
    },
    /// It went from one end of a joint to the other.
    Crossed {
        /// The index of the port that it left by.
        out: u16,
        /// The index of the port that it came in by.
        into: u16,
    },
    /// The engine dropped it.
    Dropped {
        /// The port, link or stage.
        place: &'a str,
        /// The reason.
        reason: &'a str,
    },
}

/// Somebody who watches packets. Called on workers' threads, for every event while it is installed: it must not wait.
pub trait Observer: Send + Sync {
    /// Looks at an event.
    fn event(&self, event: &Event<'_>);

    /// Called once, when every worker tells. Workers begin one after another: a packet that is followed before then may go on
    /// to a worker that does not tell yet.
    fn all_tell(&self) {}
}

/// Those who watch a worker's packets.
#[derive(Clone, Default)]
pub(crate) struct Observers(Vec<Arc<dyn Observer>>);

impl Observers {
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    pub(crate) fn add(&mut self, observer: Arc<dyn Observer>) {
        self.0.push(observer);
    }

    pub(crate) fn remove(&mut self, observer: &Arc<dyn Observer>) {
        self.0.retain(|other| !Arc::ptr_eq(other, observer));
    }

    #[cold]
    pub(crate) fn tell(&self, event: &Event<'_>) {
        self.0.iter().for_each(|observer| observer.event(event));
    }

    #[inline]
    pub(crate) fn packet(&self, what: What<'_>, packet: &Packet, now: u64) {
        if self.any() {
            self.tell(&Event { now, packet: packet.id(), bytes: packet.bytes(), what });
        }
    }

    #[inline]
    pub(crate) fn dropped(&self, place: &str, reason: Reason, packet: &Packet, now: u64) {
        let reason = Reason::LIST.get(reason.code() as usize).map_or("", |info| info.name);
        self.packet(What::Dropped { place, reason }, packet, now);
    }
}
