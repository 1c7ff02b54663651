//! A script for stages, and the seats of the stages that run it: one for each replica of the graph.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde_json::Value;
use weir_config::{ConfigError, ErrorKind, FilePath, Folder, Place};
use weir_mem::Domain;
use weir_stage::{Env, GraphError, Notice, Prepared, TakeBack};

use crate::book::{Book, Given, Shared, lock};
use crate::limits::Limits;
use crate::machine::{Machine, Terms};
use crate::parent::{read_script, try_load};
use crate::request::Asked;
use crate::stage::{Access, Failures, LuaStage, Seat};
use crate::table_config::{self, TableConfig, TableName};
use crate::tables::{Tables, Wanted};

/// A script that can be loaded any number of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) terms: Terms,
    pub(crate) tables: Arc<BTreeMap<String, Wanted>>,
}

/// Where a configuration has its script: in a file, or in place of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) file: Option<&'a FilePath>,
    pub(crate) script: Option<&'a str>,
    pub(crate) tables: &'a BTreeMap<TableName, TableConfig>,
}

/// Makes an error of a key of the configuration.
type Wrong<'a> = dyn Fn(ErrorKind, &str, String) -> ConfigError + 'a;

impl Source<'_> {
    /// Reads a script, and sees that it can be loaded: in a process of its own that may do nothing else, for it is code of
    /// somebody's who may have no permission here.
    pub(crate) fn read(self, terms: Terms, env: &Env<'_>, wrong: &Wrong<'_>) -> Result<Script, Vec<ConfigError>> {
        let (file, text) = match (self.file, self.script) {
            (Some(file), None) => read_file(file, env)
                .map_err(|problem| vec![wrong(ErrorKind::File, "file", format!("\"{file}\" {problem}"))])?,
            (None, Some(text)) => (String::from("script"), text.to_owned()),
            (None, None) => {
                let problem = "is missing, and so is \"script\"".to_owned();
                let error = wrong(ErrorKind::Missing, "file", problem);
                return Err(vec![error.remedy("name the file of the script, or write it as script = [[ ... ]]")]);
            }
            (Some(_), Some(_)) => {
                let problem = "stands beside \"file\"".to_owned();
                return Err(vec![wrong(ErrorKind::Conflict, "script", problem).remedy("leave one of the two away")]);
            }
        };
        let tables = Arc::new(table_config::read(self.tables, env, wrong)?);
        let script = Script { file, text, terms, tables };
        try_load(&script.file, &script.text, terms.access == Access::Raw)?;
        Ok(script)
    }
}

/// The name of a script's file, for messages, and its text.
fn read_file(file: &FilePath, env: &Env<'_>) -> Result<(String, String), String> {
    let folder: &Folder = env.folder.ok_or_else(|| "cannot be opened: the configuration has no folder".to_owned())?;
    let text = folder.open_file(file).and_then(|opened| read_script(Ok(opened), &Limits::default()))?;
    Ok((folder.path().join(file.path()).display().to_string(), text))
}

impl Script {
    /// A virtual machine that has loaded it, here.
    fn load(&self, tables: &Tables) -> Result<Machine, Vec<ConfigError>> {
        Machine::load(&self.file, &self.text, self.terms, tables)
    }

    /// Its tables, with what commands said of those of `before`.
    fn book(&self, domain: &Domain, before: Option<&Seats>) -> Result<Shared, Vec<ConfigError>> {
        let place = Place::line(self.file.clone(), 0);
        let full = |problem: String| vec![ConfigError::new(ErrorKind::Limit, &place, "", problem)];
        let book = Book::new(Arc::clone(&self.tables), domain).map_err(|problem| full(problem.to_string()))?;
        let book = Arc::new(Mutex::new(book));
        if let Some(seats) = before {
            let mut known = seats.lock();
            lock(&book).take_over(&lock(&known.book)).map_err(full)?;
            // From here on commands are told to both.
            known.next = Arc::downgrade(&book);
        }
        Ok(book)
    }
}

/// What the replicas of the graph share with the control side.
struct Replicas {
    script: Script,
    book: Shared,
    /// The book of the configuration that is being loaded, if one is.
    next: Weak<Mutex<Book>>,
    /// Where readers of tables pass.
    domain: Domain,
    seats: BTreeMap<usize, Arc<Seat>>,
}

/// The seats of all replicas of a stage, and the script that they run.
#[derive(Clone)]
pub(crate) struct Seats(Arc<Mutex<Replicas>>);

impl Seats {
    /// Seats for a script, with tables that workers look up in while `domain` tells when they have passed; what commands said of the tables of `before`
    /// is said of these.
    ///
    /// # Errors
    /// What there is no room for.
    pub(crate) fn new(script: Script, domain: &Domain, before: Option<&Seats>) -> Result<Self, Vec<ConfigError>> {
        let book = script.book(domain, before)?;
        let domain = domain.clone();
        let replicas = Replicas { script, book, next: Weak::new(), domain, seats: BTreeMap::new() };
        Ok(Self(Arc::new(Mutex::new(replicas))))
    }

    fn lock(&self) -> MutexGuard<'_, Replicas> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stage for a replica. It shares the seat with the one that the replica may have already, which may be kept.
    pub(crate) fn stage(&self, replica: usize) -> Result<LuaStage, GraphError> {
        let mut replicas = self.lock();
        let said = |errors: Vec<ConfigError>| GraphError(errors.iter().map(ToString::to_string).collect());
        let tables = lock(&replicas.book).tables();
        let machine = replicas.script.load(&tables).map_err(said)?;
        Ok(LuaStage::seated(machine, Arc::clone(replicas.seats.entry(replica).or_default())))
    }

    /// What the stages have for the script.
    pub(crate) fn terms(&self) -> Terms {
        self.lock().script.terms
    }

    /// The tables.
    pub(crate) fn book(&self) -> Shared {
        Arc::clone(&self.lock().book)
    }

    /// Prepares to run another script, on the same terms.
    pub(crate) fn prepare(&self, new: Script) -> Result<Prepared, Vec<ConfigError>> {
        let (old, domain) = {
            let known = self.lock();
            (known.script.clone(), known.domain.clone())
        };
        if old == new {
            return Ok(Box::new(|_| {}));
        }
        let book = if old.tables == new.tables { self.book() } else { new.book(&domain, Some(self))? };
        let tables = lock(&book).tables();
        let seated: Vec<Arc<Seat>> = self.lock().seats.values().cloned().collect();
        let hand = |seat: Arc<Seat>| Ok((seat, new.load(&tables)?));
        let handed = seated.into_iter().map(hand).collect::<Result<Vec<_>, Vec<ConfigError>>>()?;
        let seats = self.clone();
        Ok(Box::new(move |_| {
            for (seat, machine) in handed {
                seat.hand(machine);
            }
            let mut known = seats.lock();
            (known.script, known.book, known.next) = (new, book, Weak::new());
        }))
    }

    /// Carries out one change of a table. Answers what takes it back.
    ///
    /// # Errors
    ///
    /// Why it is refused; nothing has changed then.
    pub(crate) fn change(&self, verb: &str, arguments: &Value) -> Result<TakeBack, String> {
        let known = self.lock();
        let (asked, before) = {
            let mut book = lock(&known.book);
            let asked = Asked::read(&book, verb, arguments)?;
            let before = book.say(&asked.table, asked.key, asked.given)?;
            (asked, before)
        };
        if let Err(problem) = known.say_next(&asked, asked.given) {
            known.say(&asked, before);
            return Err(format!("the configuration that is being loaded refuses it: {problem}"));
        }
        let seats = self.clone();
        Ok(Box::new(move |_| {
            let known = seats.lock();
            known.say(&asked, before);
            // It was there a moment ago.
            _ = known.say_next(&asked, before);
        }))
    }

    /// One line for each replica that was disabled since the last call.
    pub(crate) fn notices(&self) -> Vec<Notice> {
        let told = |(replica, failures): (usize, Arc<Failures>)| {
            let last = failures.last().map_or_else(String::new, |error| error.to_string());
            failures.is_news().then(|| Notice {
                message: "a stage in Lua is disabled, because its script failed too often: all its packets are dropped",
                facts: vec![("replica", replica.to_string()), ("last", last)],
            })
        };
        self.failures().into_iter().filter_map(told).collect()
    }

    /// What has gone wrong in each replica.
    pub(crate) fn failures(&self) -> Vec<(usize, Arc<Failures>)> {
        self.lock().seats.iter().map(|(replica, seat)| (*replica, Arc::clone(&seat.failures))).collect()
    }
}

impl Replicas {
    /// Has something said of a key that was said of it before.
    fn say(&self, asked: &Asked, given: Option<Given>) {
        // Each step back meets what it met on the way.
        _ = lock(&self.book).say(&asked.table, asked.key, given);
    }

    /// Has it said to the tables of the configuration that is being loaded, too, if they have such an entry.
    fn say_next(&self, asked: &Asked, given: Option<Given>) -> Result<(), String> {
        let Some(next) = self.next.upgrade() else { return Ok(()) };
        let mut next = lock(&next);
        if next.takes(&asked.table, asked.key) { next.say(&asked.table, asked.key, given).map(drop) } else { Ok(()) }
    }
}
