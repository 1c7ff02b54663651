//! What reports are written with: pages that need nothing else, plots, CSV, and files that are there whole or not at all.
//!
//! - [`Page`] puts together an HTML page without scripts, fonts or network.
//! - [`Chart`] draws lines, steps, bars and dots as SVG; [`paint`] is what all plots look like.
//! - [`csv_line`] writes CSV; [`write_whole`] and [`write_whole_by`] write files.

#![forbid(unsafe_code)]

mod chart;
mod csv;
mod files;
mod page;
pub mod paint;

pub use chart::{Axis, Chart, Curve, Shape};
pub use csv::csv_line;
pub use files::{cannot_write, write_whole, write_whole_by};
pub use page::{Page, command_line, escaped};
