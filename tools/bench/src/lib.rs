//! Measurements as reports: what was measured where, how often, and how far the runs lie apart; and the
//! [`search`] for throughput, with the experiments of [`rfc2544`] around it.

#![forbid(unsafe_code)]

mod machine;
mod report;
pub mod rfc2544;
pub mod search;
mod summary;

pub use machine::Machine;
pub use report::{CaseReport, Report, StageReport};
pub use summary::Summary;
