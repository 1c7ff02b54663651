//! `weir log`.

use serde_json::Value;
use weir_protocol::Request;

use super::{connect, print, print_json};
use crate::cli;
use crate::failure::Failed;

/// Says what is logged, or changes it.
pub(crate) fn log(options: &cli::Log) -> Result<(), Failed> {
    let answer = connect(&options.target)?.data(Request::Log { level: options.level })?;
    if options.json {
        return print_json(answer);
    }
    let level = answer.get("level").and_then(Value::as_str).unwrap_or_default();
    if options.level.is_some() { Ok(()) } else { print(&format!("{level}\n")) }
}
