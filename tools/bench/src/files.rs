//! Reports on disk.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use weir_page::write_whole;

use crate::record::{FORM, Record};
use crate::{csv, html};

/// Writes `NAME.json` into `folder`, which is made if need be; answers its path. The file is there whole or not at all.
///
/// # Errors
///
/// A sentence that names the file, what the system says, and what to do.
pub fn write_json(value: &impl Serialize, folder: &Path, name: &str) -> Result<PathBuf, String> {
    weir_host::files::output_folder(folder)
        .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
    let json = serde_json::to_string_pretty(value).map_err(|error| format!("cannot write as JSON: {error}"))?;
    write_whole(&folder.join(format!("{name}.json")), json.as_bytes())
}

/// Writes `NAME.json`, `NAME.csv` and `NAME.html` into `folder`, which is made if need be; answers their paths. Each file is
/// there whole or not at all: it is written beside and renamed.
///
/// # Errors
///
/// A sentence that names the file, what the system says, and what to do.
pub fn write_report(record: &Record, folder: &Path, name: &str) -> Result<Vec<PathBuf>, String> {
    weir_host::files::output_folder(folder)
        .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
    let json = serde_json::to_string_pretty(record).map_err(|error| format!("cannot write as JSON: {error}"))?;
    let page = html::page(record)?;
    let files = [("json", json), ("csv", csv::samples(record)), ("html", page)];
    files.into_iter().map(|(kind, text)| write_whole(&folder.join(format!("{name}.{kind}")), text.as_bytes())).collect()
}

/// Largest file that is read as a record, bytes.
const LARGEST: u64 = 256 << 20;

/// Reads a record that [`write_report`] wrote, or that `--json` printed.
///
/// # Errors
///
/// A sentence that names the file and what is wrong with it.
pub fn read_record(path: &Path) -> Result<Record, String> {
    let cannot = |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", path.display());
    let size = fs::metadata(path).map_err(|error| cannot(&error))?;
    if !size.is_file() || size.len() > LARGEST {
        return Err(cannot(&format!("not a file of at most {LARGEST} bytes")));
    }
    let text = fs::read_to_string(path).map_err(|error| cannot(&error))?;
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| cannot(&format!("no JSON: {error}")))?;
    match value.get("version").and_then(serde_json::Value::as_u64) {
        Some(version) if version == u64::from(FORM) => {}
        Some(version) => {
            return Err(cannot(&format!(
                "its form has version {version}, and this program reads {FORM}; measure again"
            )));
        }
        None => return Err(cannot(&"not a report of `weir bench`")),
    }
    serde_json::from_value(value).map_err(|error| cannot(&format!("not a report of `weir bench`: {error}")))
}
