//! A configured `lua`: its graph, its table of failures, and the exchange of its script.
#![forbid(unsafe_code)]

use serde_json::{Value, json};
use weir_config::ConfigError;
use weir_stage::{
    Description, Env, Graph, GraphError, Ground, Instance, Notice, Place, Prepared, RequestError, Saved, ShowRows, To,
    whole,
};

use crate::machine::Terms;
use crate::paths::Paths;
use crate::request;
use crate::script::{Script, Seats};
use crate::stage::declaration;

/// The table that a running `lua` shows.
pub(crate) const TABLE: &str = "lua";

/// The columns of [`TABLE`].
pub(crate) const COLUMNS: &[&str] = &["replica", "failures", "disabled", "unmade", "last"];

/// Where packets go in a `lua`.
pub(crate) struct Shape {
    pub(crate) name: String,
    /// Indexes of ports: from, to.
    pub(crate) paths: Vec<(u16, u16)>,
    /// Indexes of the ports behind the indexed ways.
    pub(crate) ways: Vec<u16>,
    pub(crate) terms: Terms,
}

impl Shape {
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

    /// The graph of a replica; without seats its script does not run.
    fn draw(&self, replica: usize, seats: Option<&Seats>) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let (declared, place) = (declaration(self.terms), Place::Worker { section: 0 });
        let run = graph
            .add_of(format!("{}.run", self.name), declared, place, seats, |seats| Ok(Box::new(seats.stage(replica)?)));
        let stage = run?;
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
}

/// What a `lua` comes to: its script has been read, and not run.
pub struct Described {
    pub(crate) shape: Shape,
    pub(crate) script: Script,
}

impl Description for Described {
    type Running = Running;

    fn sketch(&self, replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(replica, None)
    }

    fn instantiate(self, ground: &Ground<'_>, old: Option<&Running>) -> Result<Running, Vec<ConfigError>> {
        let seats = Seats::new(self.script, ground.domain, old.map(|old| &old.seats))?;
        Ok(Running { shape: self.shape, seats })
    }

    fn change(self, running: &Running, _env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        running.seats.prepare(self.script)
    }
}

/// A configured `lua`.
pub struct Running {
    shape: Shape,
    seats: Seats,
}

impl Instance for Running {
    fn graph(&self, replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(replica, Some(&self.seats))
    }

    fn sketch(&self, replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(replica, None)
    }

    fn notices(&self, _now: u64) -> Vec<Notice> {
        self.seats.notices()
    }

    fn request(&self, verb: &str, arguments: &Value, now: u64) -> Result<Value, RequestError> {
        request::carry_out(&self.seats, verb, arguments, now)
    }

    fn save(&self) -> Box<dyn ShowRows<Saved>> {
        request::save(&self.seats.book())
    }

    fn show(&self, what: &str, filter: Option<&str>, _now: u64) -> Result<Box<dyn ShowRows>, RequestError> {
        if request::SHOWS.iter().any(|own| own.what == what) {
            return request::show(&self.seats.book(), what, filter);
        }
        if what != TABLE {
            return Err(RequestError(format!("{} has no table '{what}'; it has '{TABLE}'", self.shape.name)));
        }
        let all = self.seats.failures();
        let rows: Vec<Value> = all
            .iter()
            .filter(|(replica, _)| filter.is_none_or(|word| word == replica.to_string()))
            .map(|(replica, failures)| {
                let last = failures.last().map(|error| error.to_string());
                json!({
                    "replica": replica, "failures": failures.count(), "disabled": failures.disabled(),
                    "unmade": failures.unmade(), "last": last,
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
        let unmade: u64 = all.iter().map(|(_, failures)| failures.unmade()).sum();
        let disabled = all.iter().filter(|(_, failures)| failures.disabled()).count();
        vec![
            ("lua_failed_batches", "Batches that a script failed on", failed as f64),
            (
                "lua_disabled",
                "Replicas whose script is not called any more, because it failed too often",
                disabled as f64,
            ),
            ("lua_unmade_packets", "New packets of scripts for which there was no buffer", unmade as f64),
        ]
    }
}
