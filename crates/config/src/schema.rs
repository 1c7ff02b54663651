//! The schema of a table of keys: one description that drives checking, help, the manual and the tests of errors.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::Type;
use crate::value::{Table, Value};

/// What must happen in a running data plane for a changed key to take effect, from the mildest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// It takes effect in place; nothing is lost.
    Live,
    /// The element is built anew and workers switch to it; what it held is dropped as `reload`.
    Rebuild,
    /// The port is stopped and started.
    RestartPort,
    /// Only a new process can do it; a reload refuses it unless asked for.
    RestartProcess,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Live => "live",
            Self::Rebuild => "rebuild",
            Self::RestartPort => "restart-port",
            Self::RestartProcess => "restart-process",
        })
    }
}

/// Whether a key must be given, and what holds if it is not.
#[derive(Debug, Clone)]
pub enum Presence {
    /// It must be given.
    Required,
    /// It may be left out, which means something of its own.
    Optional,
    /// If it is left out, this value holds.
    Default(Value),
}

/// One key of a table.
#[derive(Debug, Clone)]
pub struct KeySchema {
    /// Its name.
    pub name: &'static str,
    /// What it may hold.
    pub holds: Type,
    /// Whether it must be given.
    pub presence: Presence,
    /// What a change of it takes.
    pub change: Change,
    /// What it means, in one paragraph.
    pub doc: String,
}

/// The keys of a table.
#[derive(Debug, Clone)]
pub struct Schema {
    /// What the table is for.
    pub doc: String,
    /// Its keys, in the order in which they are told.
    pub keys: Vec<KeySchema>,
}

impl Schema {
    /// A schema; doc texts are taken as doc comments have them, with a leading space on every line.
    pub fn new(doc: &str, keys: Vec<KeySchema>) -> Self {
        Self { doc: trim_doc(doc), keys }
    }

    /// The key of this name.
    pub fn key(&self, name: &str) -> Option<&KeySchema> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// The names of all keys.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.keys.iter().map(|key| key.name)
    }

    /// A table that is right and has every key.
    pub fn example(&self) -> Value {
        let entries = self.keys.iter().map(|key| (key.name.into(), key.holds.example()));
        Value::Table(Table::from_iter(entries))
    }
}

impl KeySchema {
    /// A key; see [`Schema::new`] for the doc text.
    pub fn new(name: &'static str, holds: Type, presence: Presence, change: Change, doc: &str) -> Self {
        Self { name: name.strip_prefix("r#").unwrap_or(name), holds, presence, change, doc: trim_doc(doc) }
    }
}

/// Doc comments as plain text: the space after the slashes goes.
fn trim_doc(doc: &str) -> String {
    let lines: Vec<&str> = doc.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end()).collect();
    lines.join("\n").trim().to_owned()
}
