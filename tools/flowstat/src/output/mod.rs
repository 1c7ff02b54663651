//! A report for other programs and for people: CSV, Parquet, JSON, and a page with plots.
//!
//! CSV and Parquet have a row for each stream and the same columns ([`columns`]), which depend on nothing but what the streams are
//! told apart by, so that those of many captures can be put together.

mod columns;
mod csv;
mod pages;
mod parquet;
mod plots;

use std::io;
use std::path::{Path, PathBuf};

use weir_page::{write_whole, write_whole_by};

use crate::report::Report;

pub use columns::columns;
pub use csv::write_csv;
pub use pages::page;
pub use parquet::write_parquet;

/// Writes `flowstat.html`, `flowstat.json`, `flowstat.csv` and `flowstat.parquet` into `folder`, which is made if need be; answers
/// their paths. `command` is what the report was made with, a word each; the page's table has the worst `worst` streams, the other
/// files have all. Each file is there whole or not at all.
///
/// # Errors
///
/// A sentence that names the file, what the system says, and what to do.
pub fn write_report(report: &Report, folder: &Path, command: &[String], worst: usize) -> Result<Vec<PathBuf>, String> {
    weir_host::files::output_folder(folder)
        .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
    let page = page(report, command, worst)?;
    let at = |kind: &str| folder.join(format!("flowstat.{kind}"));
    Ok(vec![
        write_whole(&at("html"), page.as_bytes())?,
        write_whole_by(&at("json"), |file| serde_json::to_writer(file, report).map_err(io::Error::other))?,
        write_csv(report, &at("csv"))?,
        write_parquet(report, &at("parquet"))?,
    ])
}
