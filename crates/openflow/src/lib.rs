//! The OpenFlow 1.3 protocol (wire version 0x04): messages from bytes and back, without I/O.
//!
//! Behaviour is that of the OpenFlow Switch Specification 1.3.5, whose sections are quoted. Nothing here can panic, and
//! memory is bounded by the length of a message: what is read is refused with the type and code of section 7.4.4, and what
//! is written is read as the same again.
//!
//! | module | what it holds |
//! |---|---|
//! | [`message`] | [`Message`]: a header and one of 30 bodies |
//! | [`framing`] | [`Framing`]: messages in a stream |
//! | [`multipart`] | requests and replies that may take several messages |
//! | [`reassembly`] | [`Reassembly`]: their parts put together, with a bound |
//! | [`field`], [`oxm`] | fields, matches |
//! | [`action`], [`instruction`] | what is done with packets |
//! | [`flow`], [`table`], [`group`], [`meter`], [`port`], [`queue`] | what a switch has |
//! | [`error`] | why a request is refused |
//!
//! Not known, and refused as the specification asks: fields, actions and messages of experimenters, and other classes of
//! fields than the basic one.

#![forbid(unsafe_code)]

mod bytes;
mod handshake;

pub mod action;
pub mod error;
pub mod field;
pub mod flow;
pub mod framing;
pub mod group;
pub mod instruction;
pub mod message;
pub mod meter;
pub mod multipart;
pub mod oxm;
pub mod port;
pub mod queue;
pub mod reassembly;
pub mod table;
mod text;

pub use action::Action;
pub use error::Error;
pub use field::Field;
pub use framing::Framing;
pub use instruction::Instruction;
pub use message::{Body, Message};
pub use multipart::{Reply, Request};
pub use oxm::{Match, Oxm};
pub use reassembly::Reassembly;
