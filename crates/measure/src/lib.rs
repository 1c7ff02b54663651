//! Per-stream statistics: what a packet carries to be measured, and what its receiver makes of it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`signature`] | stream, sequence number and time stamp at the end of a packet's payload, in 18, 14 or 10 bytes |

#![forbid(unsafe_code)]

pub mod signature;
