//! What parent and child say to each other: one JSON text per line.

use std::io::{self, BufRead, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_config::{ConfigError, Document};

use crate::limits::Limits;

/// What the child is there for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Run a configuration.
    Run(Run),
    /// Load the script of a stage, to see whether it loads.
    Load(Load),
}

impl Task {
    /// The name of the script, for messages.
    pub(crate) fn file(&self) -> &str {
        match self {
            Task::Run(run) => &run.file,
            Task::Load(load) => &load.file,
        }
    }

    /// The bounds.
    pub(crate) fn limits(&self) -> &Limits {
        match self {
            Task::Run(run) => &run.limits,
            Task::Load(load) => &load.limits,
        }
    }
}

/// The script of a stage.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Load {
    /// Its name, for messages.
    pub(crate) file: String,
    /// Its text.
    pub(crate) text: String,
    /// Whether it is only read, since it may do more than a sandbox allows.
    pub(crate) only_read: bool,
    /// The bounds.
    pub(crate) limits: Limits,
}

/// A configuration that the child is to run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    /// The script's name, for messages.
    pub(crate) file: String,
    /// Its text.
    pub(crate) text: String,
    /// The kinds that can be declared.
    pub(crate) kinds: Vec<String>,
    /// The bounds.
    pub(crate) limits: Limits,
}

/// The answer to a request to include a file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Included {
    /// The file's name, for messages, and its text.
    Text {
        /// The name.
        file: String,
        /// The text.
        text: String,
    },
    /// Why it is not included, as a phrase that follows its path.
    Refused(String),
}

/// What the child says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromChild {
    /// It asks for a file below the script's folder.
    Include(String),
    /// The script has run.
    Done(Document),
    /// The script could not be run to its end.
    Failed(Vec<ConfigError>),
}

/// Sends a message.
pub(crate) fn send(output: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut buffered = io::BufWriter::with_capacity(1 << 16, output);
    serde_json::to_writer(&mut buffered, message)?;
    buffered.write_all(b"\n")?;
    buffered.flush()
}

/// Receives a message of at most `limit` bytes, of which is subtracted what was read; `None` at the end.
pub(crate) fn receive<T: DeserializeOwned>(input: &mut impl BufRead, limit: &mut u64) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    let read = input.by_ref().take(*limit).read_until(b'\n', &mut line)?;
    *limit = limit.saturating_sub(u64::try_from(read).unwrap_or(u64::MAX));
    if read == 0 && *limit > 0 {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        let kind = if *limit == 0 { io::ErrorKind::FileTooLarge } else { io::ErrorKind::UnexpectedEof };
        return Err(kind.into());
    }
    Ok(Some(serde_json::from_slice(&line)?))
}
