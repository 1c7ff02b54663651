//! Ports that read and write capture files: `pcap:IN,OUT`.
//!
//! - [`PcapPort`] is the port.
//! - [`read_frames`] and [`read_timed_frames`] give all frames of a file at once, and [`Writer`] writes classic pcap with
//!   nanoseconds. What reads files is `weir_capture`.

#![forbid(unsafe_code)]

mod frames;
mod port;
mod rx;
mod tx;
mod writer;

pub use frames::{read_frames, read_timed_frames};
pub use port::PcapPort;
pub use writer::{WriteError, Writer};
