//! Streams as CSV (RFC 4180).

use std::io::Write;
use std::path::{Path, PathBuf};

use weir_page::{csv_line, write_whole_by};

use super::columns::{self, Cell};
use crate::report::Report;

/// Writes a row for each stream, below the names of the columns; what is not known is empty. Answers the path. The file is there
/// whole or not at all.
///
/// # Errors
///
/// A sentence that names the file, what the system says, and what to do.
pub fn write_csv(report: &Report, path: &Path) -> Result<PathBuf, String> {
    let columns = columns::all(report);
    write_whole_by(path, |file| {
        let mut line = String::new();
        csv_line(&mut line, columns.iter().map(|column| column.name.clone()));
        file.write_all(line.as_bytes())?;
        for stream in &report.streams {
            line.clear();
            csv_line(&mut line, columns.iter().map(|column| (column.read)(stream).map_or_else(String::new, text)));
            file.write_all(line.as_bytes())?;
        }
        Ok(())
    })
}

fn text(cell: Cell) -> String {
    match cell {
        Cell::Text(text) => text,
        Cell::Whole(number) => number.to_string(),
        Cell::Real(number) => number.to_string(),
    }
}
