//! A script for stages, and the seats of the stages that run it: one for each replica of the graph.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_config::{ConfigError, ErrorKind, FilePath, Folder, Place};
use weir_stage::{Env, GraphError, Notice, Prepared};

use crate::limits::Limits;
use crate::machine::{Machine, Terms};
use crate::parent::{read_script, try_load};
use crate::stage::{Access, Failures, LuaStage, Seat};
use crate::table_config::{self, TableConfig};
use crate::tables::{Contents, Tables};

/// A script that can be loaded any number of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) terms: Terms,
    pub(crate) tables: Arc<BTreeMap<String, Contents>>,
}

/// Where a configuration has its script: in a file, or in place of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) file: Option<&'a FilePath>,
    pub(crate) script: Option<&'a str>,
    pub(crate) tables: &'a BTreeMap<String, TableConfig>,
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
    fn load(&self, tables: &Arc<Tables>) -> Result<Machine, Vec<ConfigError>> {
        Machine::load(&self.file, &self.text, self.terms, tables)
    }

    /// Its tables, to look up in.
    fn compile(&self) -> Result<Arc<Tables>, Vec<ConfigError>> {
        let tables = Tables::new(&self.tables);
        let place = Place::line(self.file.clone(), 0);
        tables.map(Arc::new).map_err(|full| vec![ConfigError::new(ErrorKind::Limit, &place, "", full.to_string())])
    }
}

/// What the replicas of the graph share with the control side.
struct Replicas {
    script: Script,
    /// Those of the script, once there is a replica.
    tables: Option<Arc<Tables>>,
    seats: BTreeMap<usize, Arc<Seat>>,
}

/// The seats of all replicas of a stage, and the script that they run.
#[derive(Clone)]
pub(crate) struct Seats(Arc<Mutex<Replicas>>);

impl Seats {
    pub(crate) fn new(script: Script) -> Self {
        Self(Arc::new(Mutex::new(Replicas { script, tables: None, seats: BTreeMap::new() })))
    }

    fn lock(&self) -> MutexGuard<'_, Replicas> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stage for a replica. It shares the seat with the one that the replica may have already, which may be kept.
    pub(crate) fn stage(&self, replica: usize) -> Result<LuaStage, GraphError> {
        let mut replicas = self.lock();
        let said = |errors: Vec<ConfigError>| GraphError(errors.iter().map(ToString::to_string).collect());
        let tables = match &replicas.tables {
            Some(tables) => Arc::clone(tables),
            None => replicas.script.compile().map_err(said)?,
        };
        replicas.tables = Some(Arc::clone(&tables));
        let machine = replicas.script.load(&tables).map_err(said)?;
        Ok(LuaStage::seated(machine, Arc::clone(replicas.seats.entry(replica).or_default())))
    }

    /// What the stages have for the script.
    pub(crate) fn terms(&self) -> Terms {
        self.lock().script.terms
    }

    /// Prepares to run another script, on the same terms.
    pub(crate) fn prepare(&self, new: Script) -> Result<Prepared, Vec<ConfigError>> {
        let known = self.lock();
        if known.script == new {
            return Ok(Box::new(|_| {}));
        }
        let tables = match &known.tables {
            Some(tables) if known.script.tables == new.tables => Arc::clone(tables),
            _ => new.compile()?,
        };
        let hand = |seat: &Arc<Seat>| Ok((Arc::clone(seat), new.load(&tables)?));
        let handed = known.seats.values().map(hand).collect::<Result<Vec<_>, Vec<ConfigError>>>()?;
        let seats = self.clone();
        Ok(Box::new(move |_| {
            for (seat, machine) in handed {
                seat.hand(machine);
            }
            let mut known = seats.lock();
            (known.script, known.tables) = (new, Some(tables));
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
