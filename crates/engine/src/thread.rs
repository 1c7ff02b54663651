//! Workers' threads, and the cores they run on.

use std::sync::Arc;

use crate::engine::{CONTROL, EngineError, ThreadHook};
use crate::seat::{Mailbox, Seat, ThreadSettings, run};
use crate::worker::Worker;

/// The name of the thread of a worker, by the worker's name.
pub fn thread_name(worker: &str) -> String {
    format!("weir-{worker}")
}

/// Starts a worker's thread, and waits until it is pinned and its hook has been called.
pub(crate) fn start_thread(
    worker: Worker,
    settings: ThreadSettings,
    hook: Option<ThreadHook>,
    busy: Vec<usize>,
) -> Result<Seat, EngineError> {
    let mailbox = Arc::new(Mailbox::default());
    let (started, starts) = std::sync::mpsc::channel();
    let theirs = Arc::clone(&mailbox);
    let name = thread_name(&worker.id);
    let body = move || {
        let mut worker = worker;
        let pinned = worker.core.map_or(Ok(()), pin);
        if worker.id == CONTROL {
            keep_off(&busy);
        }
        if pinned.is_err() {
            drop(started.send(pinned));
            return;
        }
        let _registered = hook.map(|hook| hook(&worker.id));
        // Not earlier: whoever started it would take it for one that answers, and might end the process while the hook is at work.
        drop(started.send(pinned));
        run(&mut worker, &theirs, &settings);
    };
    let thread = std::thread::Builder::new().name(name).spawn(body);
    let thread = thread.map_err(|error| EngineError::Thread(error.to_string()))?;
    match starts.recv() {
        Ok(Ok(())) => Ok(Seat::Thread { mailbox, thread: Some(thread) }),
        Ok(Err(error)) => Err(error),
        Err(error) => Err(EngineError::Thread(error.to_string())),
    }
}

/// Lets the calling thread run on any core that it may use but those, if that leaves any: workers are not to be disturbed.
fn keep_off(busy: &[usize]) {
    let Ok(mut cores) = rustix::thread::sched_getaffinity(None) else { return };
    busy.iter().filter(|core| **core < rustix::thread::CpuSet::MAX_CPU).for_each(|core| cores.unset(*core));
    if cores.count() > 0 {
        // Where it is not allowed, the thread stays where it is, and the workers lose a little time to it.
        let _stays = rustix::thread::sched_setaffinity(None, &cores);
    }
}

/// The cores that the calling thread may run on, ascending; core 0 where that cannot be told. A container may have some of the
/// machine's cores only, and not the first ones.
pub fn usable_cores() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return vec![0] };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
}

/// The last of the [`usable_cores`]: where tools measure, since the first ones serve the machine's interrupts.
pub fn last_core() -> usize {
    usable_cores().last().copied().unwrap_or(0)
}

/// Pins the calling thread to a core.
///
/// # Errors
///
/// There is no such core, or it may not be used.
pub fn pin(core: usize) -> Result<(), EngineError> {
    let wrong = |cause: String| EngineError::Core { core, cause };
    if core >= rustix::thread::CpuSet::MAX_CPU {
        return Err(wrong("there is no such core".to_owned()));
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set).map_err(|error| wrong(error.to_string()))
}
