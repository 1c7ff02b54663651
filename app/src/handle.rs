//! Carrying out requests on what runs.

use std::path::PathBuf;

use serde_json::{Value, json};
use weir_config::ConfigError;

use crate::catalogue;
use crate::graph::GraphView;
use crate::log;
use crate::save;
use crate::server::Answer;
use crate::source::{Candidate, Reload, Source};
use crate::stats::{self, Gauge, PortInput, Stats};
use crate::supervisor::{Failure, Supervisor};
use crate::version;
use weir_protocol::{Request, Response, Rights, Script, VERSION};

/// What becomes of the program after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// It goes on.
    GoOn,
    /// It stops.
    Stop,
    /// It stops, and starts again with its configuration file as it is now.
    Restart,
}

/// What runs, and from what.
pub(crate) struct Running {
    /// What runs.
    pub(crate) supervisor: Supervisor,
    /// The script that runs.
    pub(crate) source: Source,
    /// The script that was given on the command line.
    pub(crate) own: PathBuf,
    /// The switches that were given there for what a configuration may do.
    pub(crate) switches: Vec<&'static str>,
}

impl Running {
    /// Carries out a request. The rights of its sender have been checked.
    pub(crate) fn handle(&mut self, request: Request, rights: Rights) -> (Answer, Then) {
        if !rights.allow(&request) {
            return (Answer::Whole(Response::refused("this is not allowed")), Then::GoOn);
        }
        let (response, then) = match request {
            Request::Show { what, function, filter } => {
                return (self.show(&what, function.as_deref(), filter.as_deref()), Then::GoOn);
            }
            Request::Reload { script, dry_run, allow_restart } => {
                return (self.reload(script, dry_run, allow_restart), Then::GoOn);
            }
            Request::Save => return (Answer::Text(Box::new(save::Script::new(self.supervisor.saved()))), Then::GoOn),
            other => self.whole(other),
        };
        (Answer::Whole(response), then)
    }

    /// A table: its rows are made by whoever asked, so that others need not wait.
    fn show(&mut self, what: &str, function: Option<&str>, filter: Option<&str>) -> Answer {
        match self.supervisor.show(what, function, filter) {
            Ok((columns, rows)) => {
                Answer::Table { columns: columns.iter().map(|&column| column.to_owned()).collect(), rows }
            }
            Err(error) => Answer::Whole(Response::refused(error.0)),
        }
    }

    fn whole(&mut self, request: Request) -> (Response, Then) {
        match request {
            Request::Stop => (Response::Ok(Value::Null), Then::Stop),
            Request::Change { verb, function, changes } => {
                (self.change(&verb, function.as_deref(), &changes), Then::GoOn)
            }
            other => (self.look(other), Then::GoOn),
        }
    }

    fn look(&mut self, request: Request) -> Response {
        match request {
            Request::Stats => Response::data(&self.stats()),
            Request::Ports => self.ports(),
            Request::Graph => Response::data(&self.graph()),
            Request::Version => Response::data(&version::here(catalogue::FUNCTIONS.iter().map(|f| f.kind()))),
            // Those that change and those that are long are carried out by `handle`, watches by the server.
            Request::Show { .. }
            | Request::Save
            | Request::Change { .. }
            | Request::Reload { .. }
            | Request::Stop
            | Request::Trace { .. }
            | Request::Capture { .. } => Response::refused("this is no question"),
        }
    }

    /// All numbers of now.
    pub(crate) fn stats(&mut self) -> Stats {
        let workers = self.supervisor.snapshots();
        let figures = self.supervisor.port_figures();
        let inputs: Vec<PortInput> = figures.iter().map(port_input).collect();
        let mut stats = stats::from_snapshots(&workers, &inputs);
        let (capacity, in_use) = self.supervisor.buffers(&workers);
        stats.buffers = stats::buffers(&stats, &inputs, capacity, in_use);
        stats.time = self.supervisor.now();
        stats.tsc_hz = self.supervisor.hz();
        let gauges = self.supervisor.gauges().into_iter();
        stats.gauges = gauges
            .map(|(function, name, help, value)| Gauge { function, name: name.into(), help: help.into(), value })
            .collect();
        stats
    }

    fn ports(&self) -> Response {
        let columns = ["name", "device", "link_up", "mac", "mtu", "addresses", "rx_queues", "tx_queues", "offloads"];
        let rows = self.supervisor.port_figures().into_iter().map(|(info, figures)| {
            let facts = info.facts;
            let mac = facts.mac.map(|byte| format!("{byte:02x}")).join(":");
            let addresses: Vec<String> = info.addresses.iter().map(ToString::to_string).collect();
            json!({
                "name": info.name, "index": info.index, "device": facts.device, "link_up": info.link_up, "mac": mac,
                "mtu": facts.mtu, "addresses": addresses, "rx_queues": facts.max_rx_queues,
                "tx_queues": facts.max_tx_queues, "rss": facts.rss, "offloads": facts.offloads,
                "in_rings": figures.in_rings,
            })
        });
        Response::Rows { columns: columns.map(str::to_owned).to_vec(), rows: rows.collect(), more: false }
    }

    fn graph(&self) -> GraphView {
        let names = self.supervisor.port_names();
        let mut all = GraphView { version: VERSION, ..GraphView::default() };
        for graph in self.supervisor.graphs() {
            all.extend(GraphView::of(&graph, &names));
        }
        all
    }

    fn change(&mut self, verb: &str, function: Option<&str>, changes: &[Value]) -> Response {
        match self.supervisor.change(verb, function, changes) {
            (1, Ok(answers)) => Response::Ok(json!({ "done": 1, "answer": answers.first() })),
            (done, Ok(_)) => Response::Ok(json!({ "done": done })),
            (0, Err(error)) if changes.len() < 2 => Response::refused(error.0),
            (done, Err(error)) => {
                Response::refused(format!("change {} of {}: {error}; {done} are done", done + 1, changes.len()))
            }
        }
    }

    /// A reload: who asked for it reads the configuration, while others are answered, and comes back with it.
    fn reload(&self, script: Option<Script>, dry_run: bool, allow_restart: bool) -> Answer {
        match script.map(Source::of_client).transpose() {
            Ok(source) => {
                let source = source.unwrap_or_else(|| self.source.clone());
                Answer::Reload(Reload { source, switches: self.switches.clone(), dry_run, allow_restart })
            }
            Err(message) => Answer::Whole(Response::refused(message)),
        }
    }

    /// Lets a configuration that was read take over.
    pub(crate) fn take_over(&mut self, candidate: Candidate) -> (Response, Then) {
        let Reload { source, dry_run, allow_restart, .. } = candidate.reload;
        let new = match candidate.loaded {
            Ok(new) => new,
            Err(errors) => return (wrong(errors), Then::GoOn),
        };
        let plan = self.supervisor.plan(&new);
        let answer = |carried_out: bool| {
            Response::Ok(json!({ "plan": plan.text, "needs_restart": plan.needs_restart, "done": carried_out }))
        };
        if dry_run {
            return (answer(false), Then::GoOn);
        }
        if plan.needs_restart {
            let then = self.restart(&source, allow_restart);
            return (
                then.map_or_else(Response::refused, |()| answer(true)),
                then.map_or(Then::GoOn, |()| Then::Restart),
            );
        }
        match self.supervisor.reload(new) {
            Ok(()) => {
                log::info("reload", "the configuration was replaced", &[("file", &source.named.display())]);
                self.source = source;
                self.warn();
                (answer(true), Then::GoOn)
            }
            Err(Failure::Config(errors)) => {
                (wrong(errors.into_iter().map(|error| source.rename(error)).collect()), Then::GoOn)
            }
            Err(Failure::Start(sentences)) => {
                (Response::refused(format!("nothing has changed: {}", sentences.join("\n"))), Then::GoOn)
            }
        }
    }

    /// Tells the log what is hardly meant in the running configuration.
    pub(crate) fn warn(&self) {
        for warning in self.supervisor.warnings() {
            log::warn("configuration", &self.source.rename(warning).to_string(), &[]);
        }
    }

    /// Whether Weir may start anew for a configuration.
    fn restart(&self, source: &Source, allowed: bool) -> Result<(), &'static str> {
        if !allowed {
            return Err(
                "these changes take a restart of the whole process, which loses what is on its way and all that was \
                        learned; say --allow-restart, or leave them out (--dry-run shows them)",
            );
        }
        if source.path != self.own {
            return Err(
                "a restart starts with the file that Weir was started with; change that file, then reload without \
                        naming another",
            );
        }
        Ok(())
    }
}

fn wrong(errors: Vec<ConfigError>) -> Response {
    Response::Error { message: "the configuration is wrong; nothing has changed".to_owned(), errors }
}

/// What the statistics take of a port.
pub(crate) fn port_input((info, figures): &(weir_stage::PortInfo, weir_stage::DeviceStats)) -> PortInput {
    PortInput {
        index: info.index,
        name: info.name.clone(),
        device: info.facts.device.clone(),
        link_up: info.link_up,
        stats: *figures,
    }
}
