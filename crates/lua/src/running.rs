//! A configured `lua`: its graph, its table of failures, and the exchange of its script.
#![forbid(unsafe_code)]

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use weir_config::{ConfigError, Element};
use weir_stage::{Env, Graph, GraphError, Instance, RequestError, To};

use crate::function::script;
use crate::machine::Machine;
use crate::paths::Paths;
use crate::stage::{Access, LuaStage, Seat};

/// The table that a running `lua` shows.
pub(crate) const TABLE: &str = "lua";

/// The columns of [`TABLE`].
pub(crate) const COLUMNS: &[&str] = &["replica", "failures", "disabled", "last"];

/// A script that can be loaded any number of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) access: Access,
    pub(crate) indexed: u8,
}

impl Script {
    /// A virtual machine that has loaded it.
    pub(crate) fn load(&self) -> Result<Machine, Vec<ConfigError>> {
        Machine::load(&self.file, &self.text, self.access, self.indexed)
    }

    /// Looks for mistakes, as far as that takes no more than a sandbox.
    pub(crate) fn check(&self) -> Result<(), Vec<ConfigError>> {
        match self.access {
            Access::Checked => self.load().map(drop),
            Access::Raw => Machine::compile(&self.file, &self.text),
        }
    }
}

/// What the replicas of the graph share with the control side.
struct Replicas {
    script: Script,
    seats: BTreeMap<usize, Arc<Seat>>,
}

/// A configured `lua`.
pub(crate) struct Running {
    name: String,
    /// Indexes of ports: from, to.
    paths: Vec<(u16, u16)>,
    /// Indexes of the ports behind the indexed ways.
    ways: Vec<u16>,
    replicas: Arc<Mutex<Replicas>>,
}

fn lock(replicas: &Mutex<Replicas>) -> MutexGuard<'_, Replicas> {
    replicas.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    pub(crate) fn new(name: &str, paths: Vec<(u16, u16)>, ways: Vec<u16>, script: Script) -> Self {
        let replicas = Replicas { script, seats: BTreeMap::new() };
        Self { name: name.to_owned(), paths, ways, replicas: Arc::new(Mutex::new(replicas)) }
    }

    /// A stage for a replica. It shares the seat with the one that the replica may have already, which may be kept.
    fn stage(&self, replica: usize) -> Result<LuaStage, GraphError> {
        let mut replicas = lock(&self.replicas);
        let said = |errors: Vec<ConfigError>| GraphError(errors.iter().map(ToString::to_string).collect());
        let machine = replicas.script.load().map_err(said)?;
        Ok(LuaStage::seated(machine, Arc::clone(replicas.seats.entry(replica).or_default())))
    }

    /// Where paths lead, each port once.
    fn targets(&self) -> Vec<u16> {
        let mut targets: Vec<u16> = Vec::new();
        for (_, to) in &self.paths {
            if !targets.contains(to) {
                targets.push(*to);
            }
        }
        targets
    }

    /// The stage that tells paths apart, which lead to `targets`.
    fn paths_to(&self, targets: &[u16]) -> Paths {
        let way_to = |to: &u16| targets.iter().skip(1).zip(0..).find(|(target, _)| *target == to).map(|(_, way)| way);
        let ways = self.paths.iter().map(|(from, to)| (*from, way_to(to))).collect();
        Paths::new(ways, u8::try_from(targets.len().saturating_sub(1)).unwrap_or(u8::MAX))
    }
}

impl Instance for Running {
    fn graph(&self, replica: usize) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let stage = graph.add(format!("{}.run", self.name), self.stage(replica)?);
        for (n, port) in self.ways.iter().enumerate() {
            graph.wire(stage, &format!("way[{n}]"), To::Port(*port));
        }
        let targets = self.targets();
        let (first, last) = if targets.len() < 2 {
            (stage, stage)
        } else {
            let paths = graph.add(format!("{}.paths", self.name), self.paths_to(&targets));
            graph.wire(stage, "out", To::Stage(paths));
            (stage, paths)
        };
        for (n, port) in targets.iter().enumerate() {
            let way = n.checked_sub(1).map_or("out".to_owned(), |n| format!("path[{n}]"));
            graph.wire(last, &way, To::Port(*port));
        }
        for (from, _) in &self.paths {
            graph.receive(*from, first);
        }
        Ok(graph)
    }

    fn prepare(&self, element: &Element, env: &Env<'_>) -> Result<Box<dyn FnOnce(u64) + Send>, Vec<ConfigError>> {
        let new = script(&element.read()?, element, env)?;
        let known = lock(&self.replicas);
        if known.script == new {
            return Ok(Box::new(|_| {}));
        }
        let hand = |seat: &Arc<Seat>| Ok((Arc::clone(seat), new.load()?));
        let handed = known.seats.values().map(hand).collect::<Result<Vec<_>, Vec<ConfigError>>>()?;
        let replicas = Arc::clone(&self.replicas);
        Ok(Box::new(move |_| {
            for (seat, machine) in handed {
                seat.hand(machine);
            }
            lock(&replicas).script = new;
        }))
    }

    fn request(&self, verb: &str, _arguments: &Value, _now: u64) -> Result<Value, RequestError> {
        Err(RequestError(format!("{} knows no request '{verb}'", self.name)))
    }

    fn show(&self, what: &str, filter: Option<&str>, _now: u64) -> Result<Vec<Value>, RequestError> {
        if what != TABLE {
            return Err(RequestError(format!("{} has no table '{what}'; it has '{TABLE}'", self.name)));
        }
        let replicas = lock(&self.replicas);
        let rows: Vec<Value> = replicas
            .seats
            .iter()
            .filter(|(replica, _)| filter.is_none_or(|word| word == replica.to_string()))
            .map(|(replica, seat)| {
                let failures = &seat.failures;
                let last = failures.last().map(|error| error.to_string());
                json!({
                    "replica": replica, "failures": failures.count(), "disabled": failures.disabled(), "last": last,
                })
            })
            .collect();
        match filter {
            Some(word) if rows.is_empty() => {
                let problem = format!("there is no replica '{word}'; expected a number below {}", replicas.seats.len());
                Err(RequestError(problem))
            }
            _ => Ok(rows),
        }
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        let replicas = lock(&self.replicas);
        let failures = || replicas.seats.values().map(|seat| &seat.failures);
        let failed: u64 = failures().map(|failures| failures.count()).sum();
        let disabled = failures().filter(|failures| failures.disabled()).count();
        vec![
            ("lua_failed_batches", "Batches that a script failed on", failed as f64),
            (
                "lua_disabled",
                "Replicas whose script is not called any more, because it failed too often",
                disabled as f64,
            ),
        ]
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
