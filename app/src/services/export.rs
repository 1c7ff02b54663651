//! The service that writes the rows of a function's table to a file, a JSON object a line, from time to time.
//!
//! A round ends with a line that says how many rows it had. One that does not come to its end (no room is left on the disk, Weir stops) is
//! taken out of the file again, and after a failure tried again.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
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

/// How soon it is looked again whether the round before is over.
const MOMENT: u64 = 5_000_000;

/// A round that wrote nothing for so long hangs: another one begins.
const HANGS: u64 = 5_000_000_000;

/// The rounds of a function. A service that a reload begins shares them with the one that comes to its end meanwhile: one round at a time is under way, or what
/// the next one has written would be taken out of the file with the one before.
#[derive(Default)]
pub(super) struct Rounds {
    /// The last one's number.
    last: AtomicU64,
    /// The one that is under way, or 0.
    current: AtomicU64,
    /// When that wrote last.
    wrote: AtomicU64,
}

impl Rounds {
    /// Begins a round: its number, unless another one is under way.
    fn begin(&self, now: u64) -> Option<u64> {
        let current = self.current.load(SeqCst);
        if current != 0 && now < self.wrote.load(SeqCst).saturating_add(HANGS) {
            return None;
        }
        let number = self.last.fetch_add(1, SeqCst) + 1;
        self.wrote.store(now, SeqCst);
        self.current.compare_exchange(current, number, SeqCst, SeqCst).is_ok().then_some(number)
    }

    /// Whether this round is still the one that is under way.
    fn is_current(&self, number: u64) -> bool {
        self.current.load(SeqCst) == number
    }

    fn end(&self, number: u64) {
        let _ = self.current.compare_exchange(number, 0, SeqCst, SeqCst);
    }
}

/// What is exported.
struct What {
    function: String,
    table: &'static str,
    file: PathBuf,
    every: u64,
    /// When the next round is due; 0 before the first.
    due: Arc<AtomicU64>,
    rounds: Arc<Rounds>,
}

/// Makes the service.
pub(super) struct Maker {
    name: String,
    what: Arc<What>,
    jobs: SyncSender<Job>,
}

impl Maker {
    /// That of a function's need. `due` says when its next round is, 0 for one that is new.
    pub(super) fn new(wanted: &Wanted, jobs: SyncSender<Job>, due: Arc<AtomicU64>, rounds: Arc<Rounds>) -> Maker {
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
        Maker { name, what: Arc::new(What { function, table, file, every, due, rounds }), jobs }
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
        let _ = self.what.due.compare_exchange(0, first, SeqCst, SeqCst);
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
                let due = self.what.due.load(SeqCst);
                Waits { until: Some(until.unwrap_or(due)), ..Waits::default() }
            }
            State::Asked(_) => Waits { readable: vec![self.asker.as_fd()], ..Waits::default() },
            State::Writes(_) => Waits { until: Some(0), ..Waits::default() },
        }
    }

    fn step(&mut self, now: u64) -> Result<(), String> {
        self.state = match std::mem::replace(&mut self.state, State::Rests { until: None }) {
            State::Rests { until } if now < until.unwrap_or(self.what.due.load(SeqCst)) => State::Rests { until },
            State::Rests { .. } => self.ask(now),
            State::Asked(pending) => self.hear(pending, now)?,
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

    fn hear(&self, pending: Pending, now: u64) -> Result<State, String> {
        self.asker.hush();
        match pending.look() {
            Progress::Waits => Ok(State::Asked(pending)),
            Progress::Nobody => Ok(State::Rests { until: None }),
            Progress::Answered(Answer::Table { rows, .. }) => Ok(match Round::begin(&self.what, rows, now)? {
                Some(round) => State::Writes(round),
                None => State::Rests { until: Some(now.saturating_add(MOMENT)) },
            }),
            Progress::Answered(Answer::Whole(Response::Error { message, .. })) => Err(message),
            Progress::Answered(_) => Err(format!("{} is no table", self.what.table)),
        }
    }

    fn write(&mut self, mut round: Round, now: u64) -> Result<State, String> {
        let wrong = |error: std::io::Error| format!("cannot write to {}: {error}", self.what.file.display());
        if !self.what.rounds.is_current(round.number) {
            return Err("a round hung, and another one was begun".to_owned());
        }
        self.what.rounds.wrote.store(now, SeqCst);
        let rows = round.rows.piece();
        self.written = rows.len();
        if !rows.is_empty() {
            round.write(rows).map_err(wrong)?;
            return Ok(State::Writes(round));
        }
        round.finish().map_err(wrong)?;
        // Rounds that were missed meanwhile are not made up for.
        let (due, every) = (self.what.due.load(SeqCst), self.what.every.max(1));
        let missed = now.saturating_sub(due) / every;
        self.what.due.store(due.saturating_add(every.saturating_mul(missed + 1)), SeqCst);
        Ok(State::Rests { until: None })
    }
}

/// A round. Dropped before its end, it is taken out of the file again.
struct Round {
    rounds: Arc<Rounds>,
    number: u64,
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
    fn begin(what: &What, rows: Box<dyn ShowRows>, now: u64) -> Result<Option<Round>, String> {
        let wrong = |error: std::io::Error| format!("cannot write to {}: {error}", what.file.display());
        let file = weir_host::files::append(&what.file).map_err(wrong)?;
        let rounds = Arc::clone(&what.rounds);
        let Some(number) = rounds.begin(now) else { return Ok(None) };
        let before = file.metadata().inspect_err(|_| rounds.end(number)).map_err(wrong)?.len();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let head =
            [("time", log::timestamp(now)), ("function", what.function.clone()), ("table", what.table.to_owned())];
        let head = head.into_iter().map(|(key, value)| (key.to_owned(), Value::String(value))).collect();
        Ok(Some(Round { rounds, number, rows, file, before: Some(before), head, count: 0 }))
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
        if let Some(before) = self.before
            && self.rounds.is_current(self.number)
        {
            // What cannot be taken out either has no last line.
            let _ = self.file.set_len(before);
        }
        self.rounds.end(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_round_at_a_time_is_under_way() {
        let rounds = Rounds::default();
        let first = rounds.begin(1000).unwrap();
        assert_eq!(rounds.begin(1000 + HANGS - 1), None, "the first writes still");
        rounds.end(first);
        let second = rounds.begin(2000).unwrap();
        assert!(rounds.is_current(second) && !rounds.is_current(first));
        // It hangs. What it does when it comes back is of no account.
        let third = rounds.begin(2000 + HANGS).unwrap();
        rounds.end(second);
        assert!(rounds.is_current(third) && !rounds.is_current(second));
    }
}
