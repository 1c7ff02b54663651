//! Capture files, read record by record, in bounded memory.
//!
//! - [`Reader`] reads one file: pcap in all its forms and pcapng, plain or compressed with gzip or zstd, which is told from
//!   the bytes and not from the name.
//! - [`Merged`] reads several files as one, by time.
//! - [`Schedule`] says when the packets of a file are due, whatever their stamps are.
//! - [`decode::Layers`] says what lies where in a packet.
//! - [`Damage`] says where a file cannot be read any further; everything before it has been read.
//!
//! The framing of the formats is a few fixed fields, read here by hand for four reasons: every error has the byte offset of
//! the record it is in, a damaged length never costs memory, no record costs an allocation, and what the parsers on crates.io
//! get wrong in pcapng (resolutions that are powers of two, time offsets in big-endian sections) is right.
//!
//! Files are read and not mapped: a mapped file that shrinks would end the process.
//!
//! Sources: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng, and libpcap's `savefile.h` for the modified form of pcap.

#![forbid(unsafe_code)]

mod classic;
pub mod decode;
mod fields;
mod input;
mod link;
mod merged;
mod ng;
mod problem;
mod reader;
mod schedule;
mod source;

pub use link::LinkType;
pub use merged::{FileDamage, Merged};
pub use problem::{Damage, Problem};
pub use reader::{Reader, Record};
pub use schedule::Schedule;
