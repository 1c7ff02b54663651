//! Searching for the throughput of a device: how much load it takes without losing more than a given share.
//!
//! [`mlrsearch`] finds the loads for several loss ratios in one search (NDR and PDR, most of the time), with many short trials, as
//! draft-ietf-bmwg-mlrsearch describes it. [`binary_search`] is the plain procedure with trials of one length.
//!
//! What is searched is a [`Trials`]: whatever can measure one load for one time.

mod binary;
mod goal;
mod limits;
mod mlr;
mod rounding;
mod selector;
mod stat;
mod trial;

pub use binary::{BinaryConfig, binary_search};
pub use goal::Goal;
pub use mlr::{MlrConfig, mlrsearch};
pub use stat::{Bound, GoalResult};
pub use trial::{Latency, Stop, Trial, Trials};

use serde::{Deserialize, Serialize};

/// What a search found, and every trial that it took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchResult {
    /// For each goal, in the order given.
    pub goals: Vec<GoalResult>,
    /// All trials, in the order in which they were made; the warm-up is not among them.
    pub trials: Vec<Trial>,
    /// Why the search ended early, so that its bounds are wider than asked for or absent; none if it went through.
    pub ended: Option<String>,
}
