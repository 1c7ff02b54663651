//! `weir check`.

use serde_json::json;

use super::{print, print_json};
use crate::cli;
use crate::failure::Failed;
use crate::supervisor::{self, Next};

/// Checks a configuration; all mistakes are told at once, or what is hardly meant.
pub(crate) fn check(options: &cli::Check) -> Result<(), Failed> {
    let switches = options.allowed.switches();
    // Without any the configuration is only looked at, which needs none.
    let loaded = supervisor::load(&options.file, (!switches.is_empty()).then_some(&switches), Next::Nothing);
    if options.json {
        let (errors, warnings) = match &loaded {
            Ok(loaded) => (&[][..], &loaded.warnings[..]),
            Err(errors) => (&errors[..], &[][..]),
        };
        print_json(json!({ "file": options.file, "ok": loaded.is_ok(), "errors": errors, "warnings": warnings }))?;
        return loaded.map(|_| ()).map_err(|_| Failed::Silent);
    }
    let warnings = loaded?.warnings;
    let lines: String = warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
    let verdict = match warnings.len() {
        0 => "nothing is wrong".to_owned(),
        1 => "no mistake, and one thing that is hardly meant".to_owned(),
        count => format!("no mistake, and {count} things that are hardly meant"),
    };
    print(&format!("{lines}{}: {verdict}\n", options.file.display()))
}
