//! How long workers had to wait for their cores: what others on the machine took from a measurement.

use weir_mem::Clock;

/// Threads, and how long each had waited when this was made.
pub(super) struct Waiting(Vec<(String, u64)>);

impl Waiting {
    /// Looks at the threads of the workers on these cores.
    pub(super) fn of_workers(cores: &[usize]) -> Waiting {
        let threads = cores.iter().filter_map(|core| thread_of(*core));
        Waiting::of(threads.map(|thread| format!("/proc/self/task/{thread}/schedstat")))
    }

    /// Looks at the thread that asks.
    pub(super) fn of_this_thread() -> Waiting {
        Waiting::of(["/proc/thread-self/schedstat".to_owned()].into_iter())
    }

    /// Looks at the first thread of a process.
    pub(super) fn of_process(process: u32) -> Waiting {
        Waiting::of([format!("/proc/{process}/schedstat")].into_iter())
    }

    fn of(files: impl Iterator<Item = String>) -> Waiting {
        Waiting(files.filter_map(|file| waited(&file).map(|then| (file, then))).collect())
    }

    /// TSC cycles that they waited since, all together; 0 where the kernel does not tell.
    pub(super) fn cycles(&self, clock: &Clock) -> u64 {
        let since = |(file, then): &(String, u64)| waited(file).map_or(0, |now| now.saturating_sub(*then));
        clock.cycles(self.0.iter().map(since).sum())
    }
}

/// How often a measurement is made anew that [others disturbed](worked).
pub(super) const TRIES: usize = 20;

/// What is said where that did not help.
pub(super) const DISTURBED: &str =
    "others had the core for more than half of the time, again and again; measure when the machine is quieter";

/// Of so many cycles those for which workers had their cores. `None` where they had to wait for more than half of them: then figures would be of what
/// others did, and a wait that began before is told when it ends, so that it may even be longer than the measurement.
pub(super) fn worked(elapsed: u64, waited: u64) -> Option<u64> {
    elapsed.checked_sub(waited).filter(|worked| *worked >= elapsed / 2)
}

/// The number of the thread of the worker on a core.
pub(super) fn thread_of(core: usize) -> Option<u32> {
    let wanted = weir_engine::thread_name(&core.to_string());
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    let mut numbers = threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    numbers.find(|number| {
        let name = std::fs::read_to_string(format!("/proc/self/task/{number}/comm"));
        name.is_ok_and(|name| name.trim_end() == wanted)
    })
}

/// Nanoseconds that a thread was ready to run and did not: the second figure of its `schedstat`.
fn waited(file: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_disturbed_has_no_figures() {
        assert_eq!(worked(1000, 0), Some(1000));
        assert_eq!(worked(1000, 400), Some(600));
        assert_eq!(worked(1000, 500), Some(500));
        assert_eq!((worked(1000, 501), worked(1000, 1000), worked(1000, 7000)), (None, None, None));
    }
}
