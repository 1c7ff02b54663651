//! What the experiments found, with units.

use serde::{Deserialize, Serialize};

use super::Config;
use crate::search::{SearchResult, Trial};

/// Bytes that a frame takes on an Ethernet beyond its own: preamble, start of frame, and gap (IEEE 802.3 clause 4.4.2).
const OVERHEAD: u32 = 20;

/// Frames of `bytes` bytes (with the frame check sequence) per second that an Ethernet of `bits` bits per second carries.
pub fn frame_rate(bits: f64, bytes: u32) -> f64 {
    bits / (f64::from(bytes + OVERHEAD) * 8.0)
}

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of this format.
    pub version: u32,
    /// What was to be done.
    pub config: Config,
    /// Where that is less than the RFC wants, one sentence each.
    pub deviations: Vec<String>,
    /// For each frame size, as far as it went.
    pub frames: Vec<FrameReport>,
    /// Why not all of it was done; none if it was.
    pub ended: Option<String>,
}

/// What was found with frames of one size. What was not measured is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FrameReport {
    /// Bytes with the frame check sequence.
    pub frame_size: u32,
    /// The greatest load that was tried, packets per second.
    pub max_load: f64,
    /// Section 26.1.
    pub throughput: Option<ThroughputReport>,
    /// Section 26.2.
    pub latency: Option<LatencyReport>,
    /// Section 26.3: the loss curve, from the greatest load down.
    pub frame_loss: Vec<LossPoint>,
    /// Section 26.4.
    pub back_to_back: Option<BackToBack>,
    /// Section 26.6.
    pub reset: Option<ResetReport>,
    /// What makes these figures doubtful, one sentence each.
    pub doubts: Vec<String>,
}

/// Section 26.1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThroughputReport {
    /// Packets per second without loss (NDR); none if even the least load was too much.
    pub ndr: Option<f64>,
    /// Packets per second that came through with at most 0.5 % lost (PDR), if that was searched.
    pub pdr: Option<f64>,
    /// `ndr` in bits per second on the wire, with preamble and gap.
    pub ndr_bits: Option<f64>,
    /// The search.
    pub search: SearchResult,
}

impl ThroughputReport {
    pub(super) fn of(search: SearchResult, frame_size: u32) -> ThroughputReport {
        let of = |goal: usize| search.goals.get(goal).and_then(|goal| goal.throughput);
        let (ndr, pdr) = (search.goals.first().and_then(|goal| goal.lower).map(|bound| bound.load), of(1));
        let ndr_bits = ndr.map(|rate| rate * f64::from(frame_size + OVERHEAD) * 8.0);
        ThroughputReport { ndr, pdr, ndr_bits, search }
    }
}

/// Section 26.2. Times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// Packets per second.
    pub load: f64,
    /// The mean of the trials' medians.
    pub mean_of_medians: f64,
    /// The share of packets that were under way while the generator was disturbed, from 0 to 1.
    pub set_aside: f64,
    /// Each trial.
    pub trials: Vec<Trial>,
}

/// Section 26.3.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LossPoint {
    /// The load as a share of the greatest one.
    pub share: f64,
    /// Of the packets that were sent, the share that was lost, from 0 to 1.
    pub loss_ratio: f64,
    /// The trial.
    pub trial: Trial,
}

/// Section 26.4, with the correction of RFC 9004.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackToBack {
    /// The longest burst without loss, frames, in the mean of all runs.
    pub frames: f64,
    /// Whether no longer burst was tried, so that this is only a lower bound.
    pub at_least: bool,
    /// Frames of it that stayed in the device until its end, as it forwarded at its throughput in the meantime; none if that is not known.
    pub buffered: Option<f64>,
    /// Each run's longest burst.
    pub runs: Vec<u64>,
}

/// One restart of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outage {
    /// The trial in the course of which the device was restarted.
    pub trial: Trial,
    /// Seconds between the last packet before the outage and the first one after it, if stamps tell.
    pub gap: Option<f64>,
    /// Whether packets came at the end again.
    pub recovered: bool,
}

/// Section 26.6, RFC 6201. Times in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResetReport {
    /// Packets per second.
    pub load: f64,
    /// Packets lost divided by the load, in the mean of all restarts after which the device forwarded again.
    pub by_loss: Option<f64>,
    /// The time without packets, in the mean likewise.
    pub by_time: Option<f64>,
    /// Each restart.
    pub outages: Vec<Outage>,
}
