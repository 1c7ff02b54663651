//! Who did what over the control socket, for the log: a line for each change, and one when a client leaves that changed something.

use std::cell::Cell;
use std::fmt;
use std::os::unix::net::UnixStream;

use serde_json::Value;
use weir_protocol::{Request, Response};

use super::Answer;
use crate::catalogue;
use crate::log::{self, Level};
use crate::words;

/// The process at the other end of a connection, as the kernel vouches for it.
#[derive(Clone, Debug)]
struct Peer {
    user: String,
    process: String,
}

impl Peer {
    fn of(stream: &UnixStream) -> Peer {
        match rustix::net::sockopt::socket_peercred(stream) {
            Ok(peer) => Peer { user: peer.uid.as_raw().to_string(), process: peer.pid.as_raw_nonzero().to_string() },
            Err(_) => Peer { user: "unknown".to_owned(), process: "unknown".to_owned() },
        }
    }
}

/// What a client did.
pub(super) struct Audit {
    peer: Peer,
    /// Changes carried out, entries of batches each.
    changes: Cell<u64>,
    /// Requests for a change that were refused.
    refused: Cell<u64>,
}

/// What a client asks for, as it is told when it is known what came of it.
pub(super) struct Asked {
    deed: Deed,
    changes: u64,
}

/// What is told of a request.
enum Deed {
    /// A question.
    Question(&'static str),
    /// A change of a function's: the first of a batch, in words.
    Change(String),
    /// Another configuration: its file, if the client named one.
    Reload(String),
    /// Another level of the log.
    Log(Level),
    /// The end.
    Stop,
}

impl Asked {
    /// What a request is about.
    pub(super) fn of(request: &Request) -> Asked {
        let (deed, changes) = match request {
            Request::Change { verb, changes, .. } => {
                let first = changes.first().map_or_else(String::new, |change| sentence(verb, change));
                (Deed::Change(first), changes.len() as u64)
            }
            Request::Reload { dry_run: true, .. } => (Deed::Question("reload --dry-run"), 0),
            Request::Reload { script, .. } => {
                (Deed::Reload(script.as_ref().map_or_else(String::new, |script| script.file.clone())), 1)
            }
            Request::Log { level: Some(level) } => (Deed::Log(*level), 1),
            Request::Stop => (Deed::Stop, 1),
            Request::Log { level: None } => (Deed::Question("log"), 0),
            Request::Stats => (Deed::Question("stats"), 0),
            Request::Ports => (Deed::Question("ports"), 0),
            Request::Graph => (Deed::Question("graph"), 0),
            Request::Version => (Deed::Question("version"), 0),
            Request::Show { .. } => (Deed::Question("show"), 0),
            Request::Save => (Deed::Question("save"), 0),
            Request::Trace { .. } => (Deed::Question("trace"), 0),
            Request::Capture { .. } => (Deed::Question("capture"), 0),
            Request::Torment { .. } => (Deed::Question("torment"), 0),
        };
        Asked { deed, changes }
    }
}

/// A change as it is written on the command line.
fn sentence(verb: &str, change: &Value) -> String {
    let known = catalogue::FUNCTIONS.iter().flat_map(|function| function.verbs()).find(|known| known.name() == verb);
    known.map_or_else(|| format!("{verb} {change}"), |known| format!("{verb} {}", words::text(known, change)))
}

impl Audit {
    /// Of the client at the other end of `stream`.
    pub(super) fn of(stream: &UnixStream) -> Audit {
        Audit { peer: Peer::of(stream), changes: Cell::new(0), refused: Cell::new(0) }
    }

    /// Tells that the client may not ask for that.
    pub(super) fn forbidden(&self, asked: &Asked) {
        self.refused.set(self.refused.get() + 1);
        let what: &dyn fmt::Display = match &asked.deed {
            Deed::Question(what) => what,
            Deed::Change(words) => words,
            Deed::Reload(_) => &"reload",
            Deed::Log(_) => &"log",
            Deed::Stop => &"stop",
        };
        self.tell(Level::Warn, "a client asked for what it may not do", &[("request", what)]);
    }

    /// Tells what came of a request.
    pub(super) fn answered(&self, asked: &Asked, answer: &Answer) {
        let refusal = refusal(answer);
        if let Deed::Question(what) = asked.deed {
            return self.tell(Level::Debug, "a client asked", &[("request", &what)]);
        }
        match &refusal {
            Some(_) => self.refused.set(self.refused.get() + 1),
            None => self.changes.set(self.changes.get() + asked.changes),
        }
        match (&asked.deed, refusal) {
            (Deed::Question(_), _) => {}
            (Deed::Change(words), None) => {
                self.tell(Level::Info, "a change was carried out", &[("change", words), ("changes", &asked.changes)]);
            }
            (Deed::Change(words), Some(cause)) => {
                let facts: log::Facts<'_> = &[("change", words), ("changes", &asked.changes), ("cause", &cause)];
                self.tell(Level::Warn, "a change was refused", facts);
            }
            (Deed::Reload(file), refusal) => self.reload(file, answer, refusal),
            (Deed::Log(level), _) => self.tell(Level::Info, "the log has another level", &[("to", &level.word())]),
            (Deed::Stop, _) => self.tell(Level::Info, "a client asks Weir to stop", &[]),
        }
    }

    fn reload(&self, file: &str, answer: &Answer, refusal: Option<String>) {
        let file: &dyn fmt::Display = if file.is_empty() { &"the same" } else { &file };
        let by: log::Facts<'_> = &[("file", file), ("user", &self.peer.user), ("process", &self.peer.process)];
        tell_reload(by, answer, refusal);
    }

    fn tell(&self, level: Level, message: &str, facts: log::Facts<'_>) {
        let who: log::Facts<'_> = &[("user", &self.peer.user), ("process", &self.peer.process)];
        log::tell(level, "client", message, &[facts, who].concat());
    }
}

impl Drop for Audit {
    /// Takes leave of the client.
    fn drop(&mut self) {
        let facts: log::Facts<'_> = &[("changes", &self.changes.get()), ("refused", &self.refused.get())];
        let (level, message) = match self.changes.get() > 0 {
            true => (Level::Info, "a client that changed something has left"),
            false => (Level::Debug, "a client has left"),
        };
        self.tell(level, message, facts);
    }
}

/// Tells what became of a reload, and `by` whom it was asked for.
pub(super) fn tell_reload(by: log::Facts<'_>, answer: &Answer, refusal: Option<String>) {
    let restarts = matches!(answer, Answer::Whole(Response::Ok(done)) if is_true(done, "needs_restart"));
    match refusal {
        Some(cause) => {
            let facts = [&[("cause", &cause as &dyn fmt::Display)], by].concat();
            log::warn("reload", "a reload was refused: what ran goes on", &facts);
        }
        None if restarts => log::info("reload", "Weir starts again with another configuration", by),
        None => log::info("reload", "the configuration was replaced", by),
    }
}

fn is_true(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// Why something was refused, in one line; `None` if it was not.
pub(super) fn refusal(answer: &Answer) -> Option<String> {
    let Answer::Whole(Response::Error { message, errors }) = answer else { return None };
    let mistakes = errors.iter().map(|error| error.to_string().replace('\n', " "));
    Some(std::iter::once(message.clone()).chain(mistakes).collect::<Vec<_>>().join("; "))
}
