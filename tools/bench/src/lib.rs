//! Measurements: what was measured where, how often, and how far the runs lie apart; as tables, JSON, CSV and pages with
//! plots; whether two of them differ by more than noise; the [`search`] for throughput, with the experiments of
//! [`rfc2544`] around it; what [`shaping`] promises; and other programs as [`peers`].

#![forbid(unsafe_code)]

mod compare;
mod counters;
mod cpp;
mod csv;
mod experiment;
mod files;
mod html;
mod journal;
mod machine;
pub mod peers;
mod plot;
mod rank;
mod record;
pub mod rfc2544;
pub mod search;
pub mod shaping;
mod summary;
mod text;

pub use compare::{Change, Comparison, Verdict, compare};
pub use counters::Counters;
pub use cpp::{CaseFigures, CyclesPerPacket, StageFigures};
pub use csv::samples as csv_samples;
pub use experiment::{Combination, ExperimentConfig, Parameter, PlotConfig, PlotForm, experiment_kind};
pub use files::{read_record, write_json, write_report};
pub use html::page;
pub use journal::{Journal, Sample};
pub use machine::Machine;
pub use plot::svg;
pub use rank::{least_possible, mann_whitney};
pub use record::{Better, FORM, Figure, Form, Plot, Point, Record, Value};
pub use summary::Summary;
pub use text::table;
