//! Ports that read and write capture files: `pcap:IN,OUT`.
//!
//! - [`PcapPort`] is the port.
//! - [`Reader`] reads classic pcap and pcapng record by record, [`Writer`] writes classic pcap with nanoseconds, and
//!   [`read_frames`] and [`read_timed_frames`] give all frames of a file at once.

#![forbid(unsafe_code)]

mod port;
mod reader;
mod rx;
mod tx;
mod writer;

pub use port::PcapPort;
pub use reader::{Damage, Reader, Record, read_frames, read_timed_frames};
pub use writer::{WriteError, Writer};
