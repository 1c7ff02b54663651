//! Generic lookup tables, each beside its slow twin.
//!
//! Tables know nothing of what their values mean. One control thread writes them; workers read them at the same time,
//! without locks. Looking up is by batch.
//!
//! | module | what |
//! |---|---|
//! | [`exact`] | from the hash of a key to its record |
//! | [`lpm4`] | longest prefix match for IPv4 |
//! | [`meter`] | colours packets by rate (RFC 2697, 2698, 4115) |
#![forbid(unsafe_code)]

pub mod exact;
pub mod lpm4;
pub mod meter;
mod quarantine;
