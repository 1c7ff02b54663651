//! The experiments of RFC 2544 (section 26) and RFC 6201 on a [`Device`]: [`run`].

mod config;
mod procedures;
mod record;
mod report;
mod verdict;

pub use config::{Config, Search, Test};
pub use procedures::run;
pub use report::{
    BackToBack, FrameReport, LatencyReport, LossPoint, Outage, Report, ResetReport, ThroughputReport, frame_rate,
};

use crate::search::{Stop, Trial, Trials};

/// The frame sizes for Ethernet of section 9.1, bytes with the frame check sequence.
pub const FRAME_SIZES: [u32; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// A device under test with the generator around it.
pub trait Device: Trials {
    /// From now on, frames are of `bytes` bytes, with the frame check sequence. Returns the greatest load to try, packets per second: what the link
    /// carries, or what the generator can do.
    fn frame_size(&mut self, bytes: u32) -> Result<f64, Stop>;

    /// Sends `frames` frames as close together as the greatest load has them, and waits for the last one.
    fn burst(&mut self, frames: u64) -> Result<Trial, Stop>;

    /// Restarts the device under `load` packets per second, and waits until it has forwarded again for a while.
    fn restart(&mut self, load: f64) -> Result<Outage, Stop>;
}
