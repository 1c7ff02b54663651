//! What is kept of each packet while captures are matched.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::hash::Key;

/// A packet that was sent.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct SentRecord {
    pub(crate) key: Key,
    /// When, ns.
    pub(crate) time: i64,
    pub(crate) stream: u32,
    /// Its number within the stream, from 0.
    pub(crate) number: u32,
    /// Bytes on the wire.
    pub(crate) length: u32,
    /// What its flow is called where it was sent.
    pub(crate) flow: u32,
}

/// A packet that arrived.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct ReceivedRecord {
    pub(crate) key: Key,
    /// When, ns by the clock that it was received by.
    pub(crate) time: i64,
    /// Its number among all that arrived, from 0.
    pub(crate) place: u32,
    /// Bytes on the wire.
    pub(crate) length: u32,
    /// What its flow is called where it arrived.
    pub(crate) flow: u32,
    pub(crate) unused: u32,
}

/// A flag beside the stream: several packets had been sent that look like it.
pub(crate) const AMBIGUOUS: u32 = 1 << 31;

/// A packet that arrived and is known to have been sent: the first copy or a further one.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Event {
    /// When it arrived, ns by the clock that it was received by.
    pub(crate) received: i64,
    /// How long it took, ns, by clocks that were made the same as far as was asked for.
    pub(crate) delay: i64,
    /// Its number among all that arrived.
    pub(crate) place: u32,
    /// Bytes on the wire, as it arrived.
    pub(crate) length: u32,
    /// Its stream, and [`AMBIGUOUS`].
    pub(crate) stream: u32,
    /// Its number within the stream.
    pub(crate) number: u32,
}
