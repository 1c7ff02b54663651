//! How long workers had to wait for their cores: what others on the machine took from a measurement.

use weir_mem::Clock;

/// Threads, and how long each had run and waited when this was made.
pub(super) struct Waiting(Vec<(String, Times)>);

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
        Waiting(files.filter_map(|file| times(&file).map(|then| (file, then))).collect())
    }

    /// TSC cycles that they waited since, all together; 0 where the kernel does not tell.
    pub(super) fn cycles(&self, clock: &Clock) -> u64 {
        self.since(clock, |times| times.waited)
    }

    /// TSC cycles that they ran since, all together, to within a tick of the kernel's.
    pub(super) fn ran(&self, clock: &Clock) -> u64 {
        self.since(clock, |times| times.ran)
    }

    fn since(&self, clock: &Clock, of: impl Fn(&Times) -> u64) -> u64 {
        let since = |(file, then): &(String, Times)| times(file).map_or(0, |now| of(&now).saturating_sub(of(then)));
        clock.cycles(self.0.iter().map(since).sum())
    }
}

/// How often a measurement is made anew that [others disturbed](worked).
pub(super) const TRIES: usize = 5;

/// Of so many cycles those for which workers had their cores. `None` where they had to wait for more than half of them: a wait that began before
/// is told when it ends, so that it may even be longer than the measurement. What they [ran](Waiting::ran) is known then, but less exactly.
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

/// Nanoseconds of a thread.
#[derive(Clone, Copy)]
struct Times {
    ran: u64,
    /// Ready to run, and did not.
    waited: u64,
}

/// The first two figures of a thread's `schedstat`.
fn times(file: &str) -> Option<Times> {
    let text = std::fs::read_to_string(file).ok()?;
    let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
    Some(Times { ran: numbers.next()?, waited: numbers.next()? })
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
