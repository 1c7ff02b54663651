//! Runs the targets of bounded fuzzing.
//!
//! ```text
//! weir-fuzz run [TARGET...] [--inputs N] [--seed N]    puts inputs to targets; without names, to all
//! weir-fuzz try TARGET FILE...                         puts files to a target
//! weir-fuzz list                                       names the targets
//! ```
//!
//! `run` gives each target a process of its own, so that one that dies or hangs takes nothing along. It ends with a line
//! `N passed, N failed, N skipped`. The same seed makes the same inputs; an input that breaks a target is kept in
//! `target/fuzz`, for `try`.

#![forbid(unsafe_code)]

mod runner;
mod worker;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use weir_fuzz::targets::{TARGETS, Target, target};

const USAGE: &str = "usage: weir-fuzz run [TARGET...] [--inputs N] [--seed N] | try TARGET FILE... | list";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        [weir_lua::CHILD_ARGUMENT, ..] => return weir_lua::child_main(),
        ["run", rest @ ..] => Options::read(rest).and_then(|options| runner::run(&options)),
        ["work", name, seed, from, to] => worker::work(name, seed, from, to),
        ["try", name, files @ ..] => try_files(name, files),
        ["list"] => {
            TARGETS.iter().for_each(|target| println!("{:10} {}", target.name, target.help));
            Ok(true)
        }
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

/// What to run.
struct Options {
    targets: Vec<&'static Target>,
    inputs: Option<u64>,
    seed: u64,
}

impl Options {
    fn read(arguments: &[&str]) -> Result<Options, String> {
        let mut options = Options { targets: Vec::new(), inputs: None, seed: 1 };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut number = || {
                let text = rest.next().copied().unwrap_or_default();
                text.parse().map_err(|_| format!("{argument} {text}: expected a number; {USAGE}"))
            };
            match *argument {
                "--inputs" => options.inputs = Some(number()?),
                "--seed" => options.seed = number()?,
                name => options.targets.push(known(name)?),
            }
        }
        if options.targets.is_empty() {
            options.targets = TARGETS.iter().collect();
        }
        Ok(options)
    }
}

fn known(name: &str) -> Result<&'static Target, String> {
    target(name).ok_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        format!("there is no target {name}; expected one of {}", names.join(", "))
    })
}

fn try_files(name: &str, files: &[&str]) -> Result<bool, String> {
    let target = known(name)?;
    for file in files {
        let input = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
        let deep = (target.run)(&input);
        println!("{file}: {}", if deep { "passed" } else { "passed, at the first check" });
    }
    Ok(true)
}

/// The inputs that are kept for a target, in the order of their names.
fn corpus(target: &Target) -> Result<Vec<Vec<u8>>, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(target.name);
    let unreadable = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = std::fs::read_dir(&folder).map_err(unreadable)?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let inputs: Vec<Vec<u8>> = files.iter().map(std::fs::read).collect::<Result<_, _>>().map_err(unreadable)?;
    if inputs.is_empty() { Err(format!("{}: there is no input", folder.display())) } else { Ok(inputs) }
}

/// Where what breaks a target is kept.
fn kept(target: &Target, suffix: &str) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/fuzz");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder.join(format!("{}.{suffix}", target.name)))
}
