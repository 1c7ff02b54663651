//! An OpenFlow 1.3 switch by definition: what controllers can change, what they are told, and what becomes of packets.
//!
//! Nothing here does I/O or reads a clock: time is an argument, in nanoseconds of any clock that does not go back, and
//! packets and messages are bytes in and bytes out. Behaviour is that of the OpenFlow Switch Specification 1.3.5, whose
//! sections are quoted.
//!
//! | module | what it holds |
//! |---|---|
//! | [`switch`] | [`Switch`]: everything below together; what requests change, and what they are answered |
//! | [`tables`], [`table`], [`flow`] | flow tables, and what flow modifications do |
//! | [`index`] | how the flow of a packet is found |
//! | [`groups`], [`meters`], [`ports`] | what flows refer to |
//! | [`packet`], [`fields`] | a packet, and what a match can ask of it |
//! | [`action_set`], [`pipeline`] | what becomes of a packet: the definition |
//! | [`fast`] | the same for most packets, changed where they lie |
//! | `counts` | what workers count, each for itself: [`Worker`] |
//! | `compiled` | machine code that looks into frames, tries the flows of small tables, and changes frames as these say: [`CodeState`] |
//! | [`agent`] | [`Agent`]: what controllers drive, bytes in and bytes out |
//!
//! Provider backbone bridging, and whatever experimenters define, is refused.

#![forbid(unsafe_code)]

mod check;
mod compiled;
mod counts;
mod depth;
mod extension;
mod features;
mod needs;
mod parse;
mod rewrite;
mod sctp;
mod tags;
mod ttl;
mod words;

pub mod action_set;
pub mod agent;
pub mod fast;
pub mod fields;
pub mod flow;
pub mod groups;
pub mod index;
pub mod meters;
pub mod packet;
pub mod pipeline;
pub mod ports;
pub mod switch;
pub mod table;
pub mod tables;

pub use agent::Agent;
pub use compiled::{CodeState, Made, Recipe, Role, SampleFrame};
pub use counts::{Used, Worker};
pub use fast::{Copies, Forwarded, Frame, Frames, Looking, ShortWay};
pub use packet::Packet;
pub use pipeline::{ForController, Outcome, Report, Verdict, Why};
pub use switch::{Identity, Switch};
