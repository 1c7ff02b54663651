//! Where in the user's files something was written.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A place in a configuration: a line of a script, or a line and column of a CSV file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Place {
    /// The file, as the user named it.
    pub file: String,
    /// The line, counted from 1; 0 when the whole file is meant.
    pub line: u64,
    /// The column in characters, counted from 1, where it is known (CSV files).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
}

impl Place {
    /// A line of a file; line 0 means the file as a whole.
    pub fn line(file: impl Into<String>, line: u64) -> Self {
        Self { file: file.into(), line, column: None }
    }

    /// A line and column of a file.
    pub fn column(file: impl Into<String>, line: u64, column: u64) -> Self {
        Self { file: file.into(), line, column: Some(column) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        match self.column {
            Some(column) => write!(f, ":{column}"),
            None => Ok(()),
        }
    }
}
