//! Measurements as reports: what was measured where, how often, and how far the runs lie apart.

#![forbid(unsafe_code)]

mod machine;
mod report;
mod summary;

pub use machine::Machine;
pub use report::{CaseReport, Report, StageReport};
pub use summary::Summary;
