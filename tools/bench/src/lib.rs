//! Measurements as reports: what was measured where, how often, and how far the runs lie apart; and the [`search`] for throughput.

#![forbid(unsafe_code)]

mod machine;
mod report;
pub mod search;
mod summary;

pub use machine::Machine;
pub use report::{CaseReport, Report, StageReport};
pub use summary::Summary;
