//! Ports in memory: replay as fast as possible or at a rate, a sink that counts and verifies, a fault injector, and a
//! conformance suite for ports of any kind.
//!
//! - [`MemPort`] is the port; [`MemHandle`] is its outside, through which a test feeds, watches and breaks it.
//! - [`Pattern`] is what a replay puts into packets; [`Loop`] is where its buffers go round.

#![forbid(unsafe_code)]

mod bare;
mod cable;
pub mod conformance;
mod device;
pub mod fault;
mod flow;
mod handle;
mod loopback;
mod pattern;
mod port;
mod recycle;
mod sink;
mod source;

pub use bare::bare;
pub use fault::{FaultCounts, FaultPort, Faults};
pub use handle::{Check, MemHandle, SinkReport, TxMode};
pub use pattern::{Frames, Generated, HEADER, Pattern};
pub use port::{Load, MAX_QUEUES, MemPort};
pub use recycle::Loop;
pub use source::Pace;
