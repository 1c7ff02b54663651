//! What happened to every packet, from a capture of what was sent to a device and one of what came out of it.
//!
//! [`analyse`] reads both captures once. Of each packet the [`Model`] says what identifies it, whatever the device does to the rest;
//! a hash of that is looked up in a table of what was sent. What becomes of each packet goes to the statistics of its stream
//! (`weir_measure::StreamStats`, which the generator's receiver has as well), and these into a [`Report`].
//!
//! Packets that do not fit into memory go to files, in parts by their hashes: equal packets meet in the same part.

#![forbid(unsafe_code)]

mod analysis;
mod bindings;
mod clock;
mod fields;
mod gather;
mod hash;
mod kept;
mod matching;
mod model;
pub mod models;
mod notes;
mod options;
pub mod output;
mod packet;
mod records;
mod report;
mod routes;
mod softwires;
mod spool;
mod streams;
mod subscribers;
mod summary;
pub mod synthetic;
mod table;
mod ways;

pub use analysis::analyse;
pub use fields::{Fields, manual};
pub use gather::Progress;
pub use hash::{Hasher, Key};
pub use model::{Identity, Model};
pub use options::{Clock, Options, Order};
pub use packet::{Next, Packet, Side, Source};
pub use report::{CaptureReport, ClockReport, FORM, Piece, Report, SeriesReport, Stream, Total};
pub use routes::Routes;
pub use softwires::Softwires;
pub use streams::Profile;
pub use subscribers::Subscribers;
