//! What a configuration script may use.

use serde::{Deserialize, Serialize};

/// Bounds of a script. The defaults leave room for what `weir save` writes of a million routes; bigger tables come as
/// CSV.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// How long it may take altogether, in milliseconds; then it is killed.
    pub milliseconds: u64,
    /// How many virtual-machine instructions it may run, in millions; then it is told where it was.
    pub million_instructions: u32,
    /// How much memory its process may use beyond that of the program itself, in bytes.
    pub memory: u64,
    /// How much it may send back, in bytes.
    pub output: u64,
    /// How many values its declarations may hold.
    pub values: u64,
    /// How deep tables may lie in tables, at most 32.
    pub depth: u32,
    /// How many times it may include a file.
    pub includes: u32,
    /// How deep inclusions may lie in inclusions.
    pub include_depth: u32,
    /// How large a script file may be, in bytes.
    pub file: u64,
    /// How many lines it may print; further ones are lost.
    pub messages: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            milliseconds: 30_000,
            million_instructions: 1_000,
            memory: 1 << 30,
            output: 256 << 20,
            values: 4_000_000,
            depth: 32,
            includes: 256,
            include_depth: 16,
            file: 256 << 20,
            messages: 1_000,
        }
    }
}
