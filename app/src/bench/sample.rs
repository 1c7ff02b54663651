//! One sample of an experiment, taken in a process of its own: so nothing is left over from the sample before.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_bench::{Combination, Figure, Value};
use weir_stage::Case;

use super::rig::{Setup, check};
use super::{cpp, echo};
use crate::catalogue;

/// What `measures` says of an experiment that asks about the kernel.
const SOCKETS: &str = "sockets";

/// What to measure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    /// A function, or [`SOCKETS`].
    pub(super) measures: String,
    /// The parameters.
    pub(super) parameters: Combination,
    /// How long, nanoseconds.
    pub(super) window: u64,
    /// The folder of the files that cases need.
    pub(super) data: Option<PathBuf>,
}

/// What was measured.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Taken {
    pub(super) figures: Vec<Figure>,
    pub(super) configuration: String,
}

/// What a job comes to, once it is known to be possible.
enum Plan {
    Function { case: Box<Case>, setup: Setup, base_pages: bool },
    Sockets { poll: bool, size: usize },
}

impl Job {
    /// Whether it can be done here; why not, if it cannot.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.plan()? {
            Plan::Function { case, setup, .. } => check(&case, &setup),
            Plan::Sockets { .. } => Ok(()),
        }
    }

    /// Threads that never wait while it is measured.
    pub(super) fn busy_threads(&self) -> Result<usize, String> {
        Ok(match self.plan()? {
            Plan::Function { setup, .. } => setup.cores.len(),
            Plan::Sockets { poll, .. } => {
                if poll {
                    2
                } else {
                    1
                }
            }
        })
    }

    /// Measures.
    pub(super) fn take(&self) -> Result<Taken, String> {
        let window = Duration::from_nanos(self.window);
        match self.plan()? {
            Plan::Sockets { poll, size } => {
                let figures = echo::figures(poll, size, window)?;
                Ok(Taken { figures, configuration: String::new() })
            }
            Plan::Function { case, setup, base_pages } => {
                if base_pages {
                    weir_mem::arena::use_base_pages();
                    let disabled = rustix::thread::disable_transparent_huge_pages(true);
                    disabled.map_err(|error| format!("cannot do without transparent huge pages: {error}"))?;
                }
                let measured = cpp::measure(&case, &setup, 1, window)?;
                Ok(Taken { figures: measured.point.figures, configuration: measured.configuration })
            }
        }
    }

    fn plan(&self) -> Result<Plan, String> {
        let mut left: BTreeMap<&str, &Value> =
            self.parameters.iter().map(|(name, value)| (name.as_str(), value)).collect();
        if self.measures == SOCKETS {
            let poll = match left.remove("wait").map(ToString::to_string).as_deref() {
                None | Some("interrupt") => false,
                Some("poll") => true,
                Some(other) => return Err(format!("wait is \"{other}\"; it may be \"interrupt\" or \"poll\"")),
            };
            let size = number(&mut left, "size", 1..=65_507)?.unwrap_or(18);
            return match left.keys().next() {
                Some(name) => Err(format!("{SOCKETS} have no parameter {name}; they have wait and size")),
                None => Ok(Plan::Sockets { poll, size }),
            };
        }
        let function = cpp::function(&self.measures).map_err(|error| format!("{error}, {SOCKETS}"))?;
        let wanted = left.remove("case").map(ToString::to_string);
        let first = || function.cases().first().map(|case| case.name.to_owned()).unwrap_or_default();
        let case = cpp::case(function, &wanted.unwrap_or_else(first), self.data.as_ref())?;
        let workers = number(&mut left, "workers", 1..=64)?.unwrap_or(1);
        let cores = cores(workers)?;
        let mut setup = Setup { cores, data: self.data.clone(), ..Setup::on(0) };
        setup.fill = number(&mut left, "fill", 1..=64)?.unwrap_or(setup.fill);
        setup.transmit = number(&mut left, "transmit", 1..=64)?.unwrap_or(setup.transmit);
        let base_pages = match left.remove("pages").map(ToString::to_string).as_deref() {
            None | Some("huge") => false,
            Some("base") => true,
            Some(other) => return Err(format!("pages is \"{other}\"; it may be \"huge\" or \"base\"")),
        };
        for (name, value) in left {
            match name.split_once('.') {
                Some((kind, key)) => setup.keys.push(configuration_key(kind, key, value)?),
                None => drop(setup.numbers.insert(name.to_owned(), whole(name, value)?)),
            }
        }
        Ok(Plan::Function { case: Box::new(case), setup, base_pages })
    }
}

/// The last cores, so many of them.
fn cores(workers: usize) -> Result<Vec<usize>, String> {
    let mut usable = weir_engine::usable_cores();
    let there = usable.len();
    match there.checked_sub(workers) {
        Some(first) => Ok(usable.split_off(first)),
        None => Err(format!(
            "{workers} workers never wait, and there are {there} cores: they would measure how the kernel shares a core; ask for at \
             most {there}"
        )),
    }
}

fn number(
    left: &mut BTreeMap<&str, &Value>,
    name: &str,
    allowed: std::ops::RangeInclusive<u64>,
) -> Result<Option<usize>, String> {
    let Some(value) = left.remove(name) else { return Ok(None) };
    let number = whole(name, value)?;
    match allowed.contains(&number) {
        true => Ok(Some(number as usize)),
        false => Err(format!("{name} is {number}; it may be {} to {}", allowed.start(), allowed.end())),
    }
}

fn whole(name: &str, value: &Value) -> Result<u64, String> {
    match value {
        Value::Number(number) if *number >= 0.0 && *number <= 9e15 && number.fract() == 0.0 => Ok(*number as u64),
        other => Err(format!("{name} is {other}; it must be a whole number")),
    }
}

/// A key of the configuration and its value, as Lua writes them.
fn configuration_key(kind: &str, key: &str, value: &Value) -> Result<(String, String, String), String> {
    let word = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !text.is_empty();
    let kinds = catalogue::kinds();
    if kinds.kind(kind).is_none() || !word(key) {
        return Err(format!(
            "{kind}.{key} is no key of a configuration; before the dot stands one of {}",
            kinds.names().join(", ")
        ));
    }
    let value = match value {
        Value::Flag(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        // Rust's escapes of printable text are Lua's.
        Value::Text(text) if text.chars().all(|c| !c.is_control()) => format!("{text:?}"),
        Value::Text(_) => return Err(format!("{kind}.{key} has characters that cannot be printed")),
    };
    Ok((kind.to_owned(), key.to_owned(), value))
}

/// What runs in the process of a sample. Prints what was measured.
pub(crate) fn job(text: &str) -> Result<String, String> {
    let job: Job = serde_json::from_str(text).map_err(|error| format!("not a job: {error}"))?;
    serde_json::to_string(&job.take()?).map_err(|error| error.to_string())
}
