//! A report for other programs and for people: CSV, Parquet, and a page with plots.
//!
//! CSV and Parquet have a row for each stream and the same columns ([`columns`]), which depend on nothing but what the streams are
//! told apart by, so that those of many captures can be put together.

mod columns;
mod csv;
mod pages;
mod parquet;
mod plots;

pub use columns::columns;
pub use csv::write_csv;
pub use pages::page;
pub use parquet::write_parquet;
