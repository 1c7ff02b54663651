//! What can be asked of a running function: changes, tables, what is to be saved. The command line is made from it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A change that can be asked of a running function: `weir route add PREFIX via ADDRESS...`.
#[derive(Clone, Copy, Debug)]
pub struct Verb {
    /// What it is about: `route`.
    pub noun: &'static str,
    /// What is done: `add`.
    pub action: &'static str,
    /// Its arguments, in order.
    pub arguments: &'static [Argument],
    /// A sentence of help.
    pub help: &'static str,
    /// Whether many can be given at once: one per line of a file or of the standard input.
    pub batch: bool,
}

impl Verb {
    /// Its name in requests: `route add`.
    pub fn name(&self) -> String {
        format!("{} {}", self.noun, self.action)
    }
}

/// An argument of a [`Verb`].
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// Its name in requests, and, in capitals, in help.
    pub name: &'static str,
    /// The word that stands before each value; `None` for a positional argument.
    pub keyword: Option<&'static str>,
    /// Whether it must be given.
    pub required: bool,
    /// Whether it may be given several times; the request then has a list.
    pub many: bool,
    /// A sentence of help.
    pub help: &'static str,
}

/// A table that a running function shows: `weir show routes`.
#[derive(Clone, Copy, Debug)]
pub struct Show {
    /// Its name.
    pub what: &'static str,
    /// The keys of its rows, in the order of display. `packets`, or what ends in `_packets`, counts from the start, and so do `bytes`
    /// of the same beginning, and `dropped` or `drops`: they are shown as rates when somebody watches.
    pub columns: &'static [&'static str],
    /// A sentence of help.
    pub help: &'static str,
}

/// Rows that one piece of a table holds at most.
pub const PIECE: usize = 1024;

/// The rows of a table, or the entries that are [`Saved`], on their way to whoever asked. They are handed out in pieces by a thread
/// that keeps nobody waiting, while the function goes on: each piece is as the table is then, and holds up others for no longer than
/// it takes.
pub trait ShowRows<T = Value>: Send {
    /// The next rows, at most [`PIECE`]; none when all were handed out.
    fn piece(&mut self) -> Vec<T>;
}

impl<T: Send> ShowRows<T> for std::vec::IntoIter<T> {
    fn piece(&mut self) -> Vec<T> {
        self.take(PIECE).collect()
    }
}

/// The rows of a small table, all of the same moment.
pub fn whole<T: Send + 'static>(rows: Vec<T>) -> Box<dyn ShowRows<T>> {
    Box::new(rows.into_iter())
}

/// Several tables, one behind the other.
pub struct InTurn<R, const N: usize>([Box<dyn ShowRows<R>>; N]);

impl<R, const N: usize> InTurn<R, N> {
    /// These tables.
    pub fn new(tables: [Box<dyn ShowRows<R>>; N]) -> InTurn<R, N> {
        InTurn(tables)
    }
}

impl<R, const N: usize> ShowRows<R> for InTurn<R, N> {
    fn piece(&mut self) -> Vec<R> {
        self.0.iter_mut().map(|table| table.piece()).find(|piece| !piece.is_empty()).unwrap_or_default()
    }
}

/// A change to be written to a configuration: a verb and the words of its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Saved {
    /// The verb's name: `route add`.
    pub verb: String,
    /// The request's arguments.
    pub arguments: Value,
    /// The key of the function's configuration that holds such entries: `routes`; one in a table behind the key of that and a point:
    /// `scheduler.subports`.
    pub key: String,
    /// The entry there, where that is a list, or a table of tables; `None` where it is a table of other values, whose key is the verb's first
    /// argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<Value>,
    /// The key of the entry, where it is in a table of tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under: Option<String>,
    /// Where that key stands, if it is in a table of tables: the other key, and the argument that says which of its tables. A route of a VRF is in
    /// `vrfs`, in the table that its argument `vrf` names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Within>,
}

/// A table of tables in which entries of a key stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Within {
    /// The key of the function's configuration: `vrfs`.
    pub key: &'static str,
    /// The argument whose value is the key of one of its tables: `vrf`.
    pub argument: &'static str,
}

/// Why a request is refused: a sentence that says what, where, what is allowed, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestError(pub String);

impl RequestError {
    /// That of one entry of a list, counted from 1: of the list nothing is carried out.
    pub fn of_entry(entry: usize, problem: impl fmt::Display) -> RequestError {
        RequestError(format!("entry {entry}: {problem}"))
    }

    /// The entry of a list that it is about, counted from 1, and what is wrong with that.
    pub fn entry(&self) -> Option<(usize, &str)> {
        let (entry, problem) = self.0.strip_prefix("entry ")?.split_once(": ")?;
        Some((entry.parse().ok()?, problem))
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RequestError {}
