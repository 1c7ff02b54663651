//! Starts a worker for each target, and finds the input that broke one.

use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use weir_fuzz::targets::Target;

use crate::worker::BROKEN;
use crate::{Options, corpus, kept};

/// A worker says after so many inputs how far it came.
pub(crate) const STRIDE: u64 = 256;

/// Runs targets and sums up. False if one is broken.
#[allow(clippy::disallowed_methods, reason = "a tool that tells how long it took")]
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    let (mut passed, mut failed) = (0, 0);
    for target in &options.targets {
        let started = Instant::now();
        match put(target, options)? {
            Ok(said) => {
                passed += 1;
                println!("{:10} {said}, {:.1} s", target.name, started.elapsed().as_secs_f64());
            }
            Err(said) => {
                failed += 1;
                println!("{:10} FAILED: {said}", target.name);
            }
        }
    }
    println!("{passed} passed, {failed} failed, 0 skipped");
    Ok(failed == 0)
}

/// What a worker did.
struct Worked {
    status: ExitStatus,
    /// The number of the last input that it told.
    last: u64,
    /// How many inputs got past the first check, if it came to its end.
    deep: Option<u64>,
}

/// Puts inputs to a target in a process of its own. The inner error says what is broken.
fn put(target: &'static Target, options: &Options) -> Result<Result<String, String>, String> {
    let inputs = options.inputs.unwrap_or(target.inputs);
    let worked = work(target, options.seed, 0, inputs)?;
    if let (true, Some(deep)) = (worked.status.success(), worked.deep) {
        return Ok(enough(target, inputs, deep));
    }
    let number = match worked.status.code() {
        Some(BROKEN) => worked.last,
        _ => culprit(target, options.seed, worked.last, inputs)?,
    };
    let input = target.material(&corpus(target)?).input(options.seed, number);
    let file = kept(target, "broken")?;
    std::fs::write(&file, input).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(Err(format!(
        "input {number} of seed {} ended its process ({}); see it again with: weir-fuzz try {} {}",
        options.seed,
        worked.status,
        target.name,
        file.display()
    )))
}

/// Whether enough inputs got past the first check for the run to mean something.
fn enough(target: &Target, inputs: u64, deep: u64) -> Result<String, String> {
    let percent = deep.saturating_mul(100) / inputs.max(1);
    let said = format!("{inputs} inputs, {percent} % past the first check");
    if percent < target.deep { Err(format!("{said}: at least {} % must", target.deep)) } else { Ok(said) }
}

/// The first input from `from` on that ends a process which gets no other.
fn culprit(target: &'static Target, seed: u64, from: u64, to: u64) -> Result<u64, String> {
    for number in from..to.min(from.saturating_add(STRIDE)) {
        if !work(target, seed, number, number + 1)?.status.success() {
            return Ok(number);
        }
    }
    // It takes more than one input: the range is all that can be told.
    Ok(from)
}

fn work(target: &Target, seed: u64, from: u64, to: u64) -> Result<Worked, String> {
    let failed = |error: std::io::Error| format!("cannot start a worker: {error}");
    let program = std::env::current_exe().map_err(failed)?;
    let output = Command::new(program)
        .args(["work", target.name])
        .args([seed, from, to].map(|number| number.to_string()))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(failed)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let (mut last, mut deep) = (from, None);
    for line in said.lines() {
        match line.split_once(' ') {
            Some(("deep", count)) => deep = count.parse().ok(),
            Some(("broken", number)) => last = number.parse().unwrap_or(last),
            _ => last = line.parse().unwrap_or(last),
        }
    }
    Ok(Worked { status: output.status, last, deep })
}
