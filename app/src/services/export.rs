//! The service that writes the rows of a function's table to a file, a JSON object a line, from time to time.
//!
//! A round ends with a line that says how many rows it had. One that does not come to its end (no room is left on the disk, Weir stops) is
//! taken out of the file again, and after a failure tried again.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use std::os::fd::AsFd;
use weir_protocol::{Request, Response, Rights, VERSION};
use weir_stage::{Load, MakeService, Need, PIECE, Service, ShowRows, Waits};

use super::{Asker, Pending, Progress, Wanted};
use crate::log;
use crate::server::{Answer, Job};

/// How long a request waits that could not be made, nanoseconds.
const BREATH: u64 = 100_000_000;

/// What is exported.
struct What {
    function: String,
    table: &'static str,
    file: PathBuf,
    every: u64,
    /// When the next round is due; 0 before the first.
    due: Arc<AtomicU64>,
}

/// Makes the service.
pub(super) struct Maker {
    name: String,
    what: Arc<What>,
    jobs: SyncSender<Job>,
}

impl Maker {
    /// That of a function's need. `due` says when its next round is, 0 for one that is new.
    pub(super) fn new(wanted: &Wanted, jobs: SyncSender<Job>, due: Arc<AtomicU64>) -> Maker {
        let (table, file, every) = match &wanted.need {
            Need::Export { table, file, every } => (*table, file.clone(), *every),
            // Others' makers have those.
            Need::Taps { .. } | Need::Routes { .. } | Need::Channel(_) | Need::Flows(_) => {
                ("", PathBuf::new(), u64::MAX)
            }
        };
        let file = wanted.folder.as_ref().map_or(file.clone(), |folder| folder.join(&file));
        let function = wanted.function.clone();
        let name = format!("{function}.{table}");
        Maker { name, what: Arc::new(What { function, table, file, every, due }), jobs }
    }
}

impl MakeService for Maker {
    fn name(&self) -> &str {
        &self.name
    }

    fn owner(&self) -> &str {
        &self.what.function
    }

    fn make(&self, now: u64) -> Result<Box<dyn Service>, String> {
        let first = now.saturating_add(self.what.every);
        // After a failure the round that failed is due still.
        let _ = self.what.due.compare_exchange(0, first, Ordering::AcqRel, Ordering::Acquire);
        let asker = Asker::new(self.jobs.clone()).map_err(|error| format!("it cannot ask: {error}"))?;
        Ok(Box::new(Export { what: Arc::clone(&self.what), asker, state: State::Rests { until: None }, written: 0 }))
    }
}

/// Where an export is.
enum State {
    /// It waits for the next round, or a little while longer.
    Rests { until: Option<u64> },
    /// It has asked for the table.
    Asked(Pending),
    /// It writes.
    Writes(Round),
}

struct Export {
    what: Arc<What>,
    asker: Asker,
    state: State,
    /// Rows of the last piece.
    written: usize,
}

impl Service for Export {
    fn waits(&self) -> Waits<'_> {
        match &self.state {
            State::Rests { until } => {
                let due = self.what.due.load(Ordering::Acquire);
                Waits { until: Some(until.unwrap_or(due)), ..Waits::default() }
            }
            State::Asked(_) => Waits { readable: vec![self.asker.as_fd()], ..Waits::default() },
            State::Writes(_) => Waits { until: Some(0), ..Waits::default() },
        }
    }

    fn step(&mut self, now: u64) -> Result<(), String> {
        self.state = match std::mem::replace(&mut self.state, State::Rests { until: None }) {
            State::Rests { until } if now < until.unwrap_or(self.what.due.load(Ordering::Acquire)) => {
                State::Rests { until }
            }
            State::Rests { .. } => self.ask(now),
            State::Asked(pending) => self.hear(pending)?,
            State::Writes(round) => self.write(round, now)?,
        };
        Ok(())
    }

    fn load(&self) -> Load {
        Load { unit: "rows", now: self.written as u64, most: PIECE as u64 }
    }
}

impl Export {
    fn ask(&self, now: u64) -> State {
        let (what, function) = (self.what.table.to_owned(), Some(self.what.function.clone()));
        match self.asker.ask(Request::Show { what, function, filter: None }, Rights::READ) {
            Ok(Some(pending)) => State::Asked(pending),
            // Too many others ask, or nobody answers any more.
            Ok(None) | Err(()) => State::Rests { until: Some(now.saturating_add(BREATH)) },
        }
    }

    fn hear(&self, pending: Pending) -> Result<State, String> {
        self.asker.hush();
        match pending.look() {
            Progress::Waits => Ok(State::Asked(pending)),
            Progress::Nobody => Ok(State::Rests { until: None }),
            Progress::Answered(Answer::Table { rows, .. }) => Ok(State::Writes(Round::begin(&self.what, rows)?)),
            Progress::Answered(Answer::Whole(Response::Error { message, .. })) => Err(message),
            Progress::Answered(_) => Err(format!("{} is no table", self.what.table)),
        }
    }

    fn write(&mut self, mut round: Round, now: u64) -> Result<State, String> {
        let wrong = |error: std::io::Error| format!("cannot write to {}: {error}", self.what.file.display());
        let rows = round.rows.piece();
        self.written = rows.len();
        if !rows.is_empty() {
            round.write(rows).map_err(wrong)?;
            return Ok(State::Writes(round));
        }
        round.finish().map_err(wrong)?;
        // Rounds that were missed meanwhile are not made up for.
        let (due, every) = (self.what.due.load(Ordering::Acquire), self.what.every.max(1));
        let missed = now.saturating_sub(due) / every;
        self.what.due.store(due.saturating_add(every.saturating_mul(missed + 1)), Ordering::Release);
        Ok(State::Rests { until: None })
    }
}

/// A round. Dropped before its end, it is taken out of the file again.
struct Round {
    rows: Box<dyn ShowRows>,
    file: File,
    /// The file's length before, until all is written.
    before: Option<u64>,
    /// What is in every line.
    head: Map<String, Value>,
    count: u64,
}

impl Round {
    #[allow(clippy::disallowed_methods, reason = "a reader wants to know when in the time of the world")]
    fn begin(what: &What, rows: Box<dyn ShowRows>) -> Result<Round, String> {
        let wrong = |error: std::io::Error| format!("cannot write to {}: {error}", what.file.display());
        let file = weir_host::files::append(&what.file).map_err(wrong)?;
        let before = Some(file.metadata().map_err(wrong)?.len());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let head =
            [("time", log::timestamp(now)), ("function", what.function.clone()), ("table", what.table.to_owned())];
        let head = head.into_iter().map(|(key, value)| (key.to_owned(), Value::String(value))).collect();
        Ok(Round { rows, file, before, head, count: 0 })
    }

    fn write(&mut self, rows: Vec<Value>) -> std::io::Result<()> {
        self.count += rows.len() as u64;
        let mut text = String::new();
        for row in rows {
            let Value::Object(row) = row else { continue };
            text += &self.line(row);
        }
        self.file.write_all(text.as_bytes())
    }

    fn line(&self, row: Map<String, Value>) -> String {
        let mut all = self.head.clone();
        all.extend(row);
        format!("{}\n", Value::Object(all))
    }

    fn finish(&mut self) -> std::io::Result<()> {
        let last = Map::from_iter([("version".to_owned(), json!(VERSION)), ("rows".to_owned(), json!(self.count))]);
        self.file.write_all(self.line(last).as_bytes())?;
        self.before = None;
        Ok(())
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // What cannot be taken out either has no last line.
            let _ = self.file.set_len(before);
        }
    }
}
