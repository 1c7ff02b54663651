//! `weir import`.

use std::fs;

use super::print;
use crate::catalogue;
use crate::cli;
use crate::failure::Failed;

/// Prints the configuration that a file of another program comes to.
pub(crate) fn import(options: &cli::Import) -> Result<(), Failed> {
    let name = options.file.display();
    let told = |problem: String| Failed::Sentences(vec![format!("{name}: {problem}")]);
    let format = catalogue::imports().find(|format| format.name == options.format);
    let format = format.ok_or_else(|| told(format!("there is no format {}", options.format)))?;
    let text = fs::read_to_string(&options.file).map_err(|error| told(error.to_string()))?;
    let all = |problems: Vec<String>| problems.into_iter().map(|problem| format!("{name}: {problem}")).collect();
    let script = (format.read)(&text).map_err(|problems| Failed::Sentences(all(problems)))?;
    print(&script)
}
