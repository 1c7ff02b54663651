//! Workers' threads.

use std::sync::Arc;

use crate::cores::{keep_off, pin};
use crate::engine::{EngineError, ThreadHook, is_control};
use crate::worker::Worker;
use crate::worker_thread::{Mailbox, ThreadSettings, WorkerThread, run};

/// The name of the thread of a worker, by the worker's name.
pub fn thread_name(worker: &str) -> String {
    format!("weir-{worker}")
}

/// Whether this is the name of a thread of the control side.
pub fn is_control_thread(name: &str) -> bool {
    name.strip_prefix("weir-").is_some_and(is_control)
}

/// Starts a worker's thread, and waits until it is pinned and its hook has been called.
pub(crate) fn start_thread(
    worker: Worker,
    settings: ThreadSettings,
    hook: Option<ThreadHook>,
    busy: Vec<usize>,
) -> Result<WorkerThread, EngineError> {
    let mailbox = Arc::new(Mailbox::new(Arc::clone(&worker.bell)));
    let (started, starts) = std::sync::mpsc::channel();
    let theirs = Arc::clone(&mailbox);
    let name = thread_name(&worker.id);
    let body = move || {
        let mut worker = worker;
        theirs.thread.note();
        let pinned = worker.core.map_or(Ok(()), pin);
        if is_control(&worker.id) {
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
        Ok(Ok(())) => Ok(WorkerThread::Thread { mailbox, thread: Some(thread) }),
        Ok(Err(error)) => Err(error),
        Err(error) => Err(EngineError::Thread(error.to_string())),
    }
}
