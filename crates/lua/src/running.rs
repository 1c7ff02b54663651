//! A configured `lua`: its graph, its table of failures, and the exchange of its script.
#![forbid(unsafe_code)]

use std::any::Any;

use serde_json::{Value, json};
use weir_config::{ConfigError, Element};
use weir_stage::{Env, Graph, GraphError, Instance, Notice, Prepared, RequestError, ShowRows, To, whole};

use crate::function::script;
use crate::paths::Paths;
use crate::script::{Script, Seats};

/// The table that a running `lua` shows.
pub(crate) const TABLE: &str = "lua";

/// The columns of [`TABLE`].
pub(crate) const COLUMNS: &[&str] = &["replica", "failures", "disabled", "last"];

/// A configured `lua`.
pub(crate) struct Running {
    name: String,
    /// Indexes of ports: from, to.
    paths: Vec<(u16, u16)>,
    /// Indexes of the ports behind the indexed ways.
    ways: Vec<u16>,
    seats: Seats,
}

impl Running {
    pub(crate) fn new(name: &str, paths: Vec<(u16, u16)>, ways: Vec<u16>, script: Script) -> Self {
        Self { name: name.to_owned(), paths, ways, seats: Seats::new(script) }
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
        let stage = graph.add(format!("{}.run", self.name), self.seats.stage(replica)?);
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

    fn prepare(&self, element: &Element, env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        self.seats.prepare(script(&element.read()?, element, env)?)
    }

    fn notices(&self, _now: u64) -> Vec<Notice> {
        self.seats.notices()
    }

    fn request(&self, verb: &str, _arguments: &Value, _now: u64) -> Result<Value, RequestError> {
        Err(RequestError(format!("{} knows no request '{verb}'", self.name)))
    }

    fn show(&self, what: &str, filter: Option<&str>, _now: u64) -> Result<Box<dyn ShowRows>, RequestError> {
        if what != TABLE {
            return Err(RequestError(format!("{} has no table '{what}'; it has '{TABLE}'", self.name)));
        }
        let all = self.seats.failures();
        let rows: Vec<Value> = all
            .iter()
            .filter(|(replica, _)| filter.is_none_or(|word| word == replica.to_string()))
            .map(|(replica, failures)| {
                let last = failures.last().map(|error| error.to_string());
                json!({
                    "replica": replica, "failures": failures.count(), "disabled": failures.disabled(), "last": last,
                })
            })
            .collect();
        match filter {
            Some(word) if rows.is_empty() => {
                let problem = format!("there is no replica '{word}'; expected a number below {}", all.len());
                Err(RequestError(problem))
            }
            _ => Ok(whole(rows)),
        }
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        let all = self.seats.failures();
        let failed: u64 = all.iter().map(|(_, failures)| failures.count()).sum();
        let disabled = all.iter().filter(|(_, failures)| failures.disabled()).count();
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
