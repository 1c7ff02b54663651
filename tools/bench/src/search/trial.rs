//! One measurement at one load.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_measure::Spread;

/// Packets sent at one rate for one time, and what became of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The rate that was asked for, packets per second.
    pub load: f64,
    /// For how long, seconds.
    pub duration: f64,
    /// Packets that were to be sent.
    pub intended: u64,
    /// Packets that were sent.
    pub offered: u64,
    /// Packets that were sent and did not come back.
    pub lost: u64,
    /// Seconds that the trial took in all.
    pub elapsed: f64,
    /// What disturbed the generator in the meantime (a stall of its loop), one sentence; none if nothing did.
    pub disturbed: Option<String>,
    /// How long packets were under way, if they were stamped.
    pub latency: Option<Latency>,
}

/// One-way delays of the packets of a trial, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Of all packets.
    pub all: Spread,
    /// Of those on whose way the generator and its receiver were seen to run undisturbed; none if there were none.
    pub calm: Option<Spread>,
    /// The share of packets that were set aside for the latter, from 0 to 1.
    pub set_aside: f64,
}

impl Trial {
    /// Packets that were to be sent and were not, or that were sent beyond those: the generator's fault.
    pub fn unsent(&self) -> u64 {
        self.intended.abs_diff(self.offered)
    }

    /// Of the packets that were sent, the share that was lost, from 0 to 1: the device's doing.
    pub fn lost_ratio(&self) -> f64 {
        if self.offered == 0 { 0.0 } else { self.lost as f64 / self.offered as f64 }
    }

    /// Of the packets that were to be sent, the share by which the generator missed them.
    pub fn unsent_ratio(&self) -> f64 {
        if self.intended == 0 { 0.0 } else { self.unsent() as f64 / self.intended as f64 }
    }

    /// What a search goes by: the share of packets that did not arrive, from 0 to 1. What the generator could not send counts as lost, which leads a search
    /// to loads where that does not happen; see [`Trial::generator_limited`].
    pub fn loss_ratio(&self) -> f64 {
        let all = self.offered.max(self.intended);
        if all == 0 { 0.0 } else { (self.lost + self.unsent()) as f64 / all as f64 }
    }

    /// Packets that came back per second, if load and duration were what was asked for.
    pub fn forwarding_rate(&self) -> f64 {
        self.load * (1.0 - self.loss_ratio())
    }

    /// Whether the generator missed the load by more than 0.1 %, so that the trial says nothing about the device at that load.
    pub fn generator_limited(&self) -> bool {
        self.unsent() as f64 > self.intended as f64 * 0.001
    }
}

/// Why no further trial was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Somebody asked for it.
    Interrupted,
    /// Something is broken: a sentence.
    Failed(String),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Interrupted => f.write_str("interrupted"),
            Stop::Failed(why) => f.write_str(why),
        }
    }
}

/// Whatever can measure how a device takes a load.
pub trait Trials {
    /// Sends packets at `load` packets per second for `duration` seconds and waits for the last of them.
    fn measure(&mut self, load: f64, duration: f64) -> Result<Trial, Stop>;
}
