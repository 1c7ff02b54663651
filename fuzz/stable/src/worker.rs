//! The process that puts inputs to one target.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{corpus, kept, known};

/// How long one input may take: thousands of times what the slowest takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// The exit status of a worker whose target panicked or hung, which has said so.
pub(crate) const BROKEN: i32 = 3;

/// Puts inputs `from` to `to` of a seed to a target. The last line it prints says how many got past the first check.
pub(crate) fn work(name: &str, seed: &str, from: &str, to: &str) -> Result<bool, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
    let (seed, from, to) = (number(seed)?, number(from)?, number(to)?);
    let target = known(name)?;
    let corpus = corpus(target)?;
    let material = target.material(&corpus);
    let at = Arc::new(AtomicU64::new(from));
    watch(name, seed, &at)?;
    let mut deep: u64 = 0;
    for number in from..to {
        at.store(number, Ordering::Relaxed);
        if number.is_multiple_of(crate::runner::STRIDE) {
            // Should the process die, its parent learns from this line how far it came.
            println!("{number}");
        }
        let input = material.input(seed, number);
        match catch_unwind(AssertUnwindSafe(|| (target.run)(&input))) {
            Ok(past) => deep += u64::from(past),
            Err(_) => {
                let file = kept(target, "broken")?;
                std::fs::write(&file, &input).map_err(|error| format!("{}: {error}", file.display()))?;
                println!("broken {number}");
                std::process::exit(BROKEN);
            }
        }
    }
    println!("deep {deep}");
    Ok(true)
}

/// Ends the process when one input takes too long.
#[allow(clippy::disallowed_methods, reason = "a watchdog waits")]
fn watch(name: &str, seed: u64, at: &Arc<AtomicU64>) -> Result<(), String> {
    let (name, at) = (name.to_owned(), Arc::clone(at));
    let watchdog = move || {
        loop {
            let before = at.load(Ordering::Relaxed);
            std::thread::sleep(PATIENCE);
            if at.load(Ordering::Relaxed) == before {
                println!("broken {before}");
                eprintln!("{name}: input {before} of seed {seed} takes more than {} s", PATIENCE.as_secs());
                // The line is out before the process ends, which runs no destructors.
                drop(std::io::stdout().flush());
                std::process::exit(BROKEN);
            }
        }
    };
    let started = std::thread::Builder::new().name("watchdog".to_owned()).spawn(watchdog);
    started.map(drop).map_err(|error| format!("cannot start a thread: {error}"))
}
