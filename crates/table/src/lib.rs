//! Generic lookup tables, each beside its slow twin.
//!
//! Tables know nothing of what their values mean. One control thread writes them; workers read them at the same time,
//! without locks. Looking up is by batch.
//!
//! | module | what |
//! |---|---|
//! | [`lpm4`] | longest prefix match for IPv4 |
#![forbid(unsafe_code)]

pub mod lpm4;
mod quarantine;
