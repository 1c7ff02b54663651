//! What is wrong with an expression, where, and what to write instead.

use std::fmt;

/// Why an expression was refused. Always the fault of whoever wrote the expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    column: usize,
    found: String,
    expected: String,
    remedy: String,
}

impl FilterError {
    pub(crate) fn new(
        column: usize,
        found: impl Into<String>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { column, found: found.into(), expected: expected.into(), remedy: remedy.into() }
    }

    /// The column of the first character that was not understood, counted in characters from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }

    /// What stands there.
    #[must_use]
    pub fn found(&self) -> &str {
        &self.found
    }

    /// What could have stood there.
    #[must_use]
    pub fn expected(&self) -> &str {
        &self.expected
    }

    /// What to write instead.
    #[must_use]
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: expected {}, found {}; {}", self.column, self.expected, self.found, self.remedy)
    }
}

impl std::error::Error for FilterError {}
