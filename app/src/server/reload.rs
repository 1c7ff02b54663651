//! Reloads: whoever asks for one reads the configuration, where nobody else waits for it, and lets it take over.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use weir_protocol::{Request, Response, Rights};

use super::audit::{refusal, tell_reload};
use super::{Answer, Job};

/// Held by who reads a configuration: one at a time, so that the one that was asked for last takes over last.
static READING: Mutex<()> = Mutex::new(());

/// What a client is told when nobody carries out its request any more.
pub(super) const STOPPING: &str = "Weir is stopping";

/// Hands a job over, and waits for what comes of it; `None` when nobody takes it any more.
pub(crate) fn hand<T>(jobs: &SyncSender<Job>, job: impl FnOnce(SyncSender<T>) -> Job) -> Option<T> {
    let (reply, answer) = sync_channel(1);
    jobs.send(job(reply)).ok()?;
    answer.recv().ok()
}

fn stopping() -> Answer {
    Answer::Whole(Response::refused(STOPPING))
}

fn ask(jobs: &SyncSender<Job>, request: Request, rights: Rights) -> Answer {
    hand(jobs, |reply| Job::Ask { request, rights, reply: reply.into() }).unwrap_or_else(stopping)
}

/// Carries out a reload.
pub(super) fn reload(jobs: &SyncSender<Job>, request: Request, rights: Rights) -> Answer {
    let _reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
    match ask(jobs, request, rights) {
        Answer::Reload(reload) => reload.carry_out(jobs).unwrap_or_else(stopping),
        other => other,
    }
}

/// Carries out a change of a function's; where it needs what the running configuration has not, that comes first.
pub(super) fn change(jobs: &SyncSender<Job>, request: Request, rights: Rights) -> Answer {
    let request = match ask(jobs, request, rights) {
        Answer::First(_, request) => request,
        other => return other,
    };
    let _reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
    // Whoever read before may have brought it about.
    match ask(jobs, request, rights) {
        Answer::First(reload, request) => match reload.carry_out(jobs) {
            Some(Answer::Whole(Response::Ok(_))) => ask(jobs, request, rights),
            other => other.unwrap_or_else(stopping),
        },
        other => other,
    }
}

/// Reads the running configuration's file again because of a signal, and tells the log what came of it.
pub(crate) fn reload_for_signal(jobs: &SyncSender<Job>, by: crate::log::Facts<'_>) {
    let request = Request::Reload { script: None, dry_run: false, allow_restart: false };
    let answer = reload(jobs, request, Rights::ALL);
    let refusal = refusal(&answer);
    tell_reload(by, &answer, refusal);
}
