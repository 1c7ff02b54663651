//! `weir check`.

use serde_json::json;

use super::{print, print_json};
use crate::cli;
use crate::failure::Failed;
use crate::supervisor::{self, Next};

/// Checks a configuration; all mistakes are told at once.
pub(crate) fn check(options: &cli::Check) -> Result<(), Failed> {
    let switches = options.allowed.switches();
    // Without any the configuration is only looked at, which needs none.
    let loaded = supervisor::load(&options.file, (!switches.is_empty()).then_some(&switches), Next::Nothing);
    if options.json {
        let errors = loaded.as_ref().err().cloned().unwrap_or_default();
        print_json(json!({ "file": options.file, "ok": loaded.is_ok(), "errors": errors }))?;
        return loaded.map(|_| ()).map_err(|_| Failed::Silent);
    }
    loaded?;
    print(&format!("{}: nothing is wrong\n", options.file.display()))
}
