//! Ports that read and write capture files: `pcap:IN,OUT`.
//!
//! - [`PcapPort`] is the port.
//! - [`read_frames`] and [`read_recording`] give all frames of a file at once, if they are not too many, and [`Writer`] writes classic pcap with
//!   nanoseconds. What reads files is `weir_capture`.

#![forbid(unsafe_code)]

mod frames;
mod port;
mod rx;
mod tx;
mod writer;

pub use frames::{Bound, Recording, read_frames, read_recording};
pub use port::PcapPort;
pub use writer::{WriteError, Writer};
