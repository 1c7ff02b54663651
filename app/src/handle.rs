//! Carrying out requests on what runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use serde_json::{Value, json};

use crate::catalogue;
use crate::graph::GraphView;
use crate::log;
use crate::reload::Reloading;
use crate::save;
use crate::server::{Answer, Job};
use crate::services::{Functions, Services, Wanted};
use crate::source::Source;
use crate::stats::{self, Gauge, PortInput, Stats};
use crate::supervisor::Supervisor;
use crate::version;
use weir_protocol::{Fault, Request, Response, Rights, VERSION};
use weir_stage::{ChannelSide, Configured, FlowSource, HostSide, Need};

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
    /// The reload that has begun, if any.
    pub(crate) reloading: Option<Reloading>,
    /// What the program does beside packets.
    pub(crate) services: Services,
    /// Where services ask.
    pub(crate) jobs: SyncSender<Job>,
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
            Request::Change { verb, function, changes } => return (self.change(verb, function, changes), Then::GoOn),
            other => self.whole(other),
        };
        (Answer::Whole(response), then)
    }

    /// A table: its rows are made by whoever asked, so that others need not wait.
    fn show(&mut self, what: &str, function: Option<&str>, filter: Option<&str>) -> Answer {
        match self.supervisor.show(what, function, filter) {
            Ok((columns, rows)) => Answer::Table {
                columns: columns.iter().map(|&column| column.to_owned()).collect(),
                time: self.supervisor.now(),
                rows,
            },
            Err(error) => Answer::Whole(Response::refused(error.0)),
        }
    }

    fn whole(&mut self, request: Request) -> (Response, Then) {
        match request {
            Request::Stop => (Response::Ok(Value::Null), Then::Stop),
            Request::Log { level } => {
                level.into_iter().for_each(log::set_level);
                (Response::Ok(json!({ "level": log::level() })), Then::GoOn)
            }
            Request::Torment { service, fault } => {
                let is_stage = fault == Fault::Panic && self.supervisor.torment(&service);
                let told = if is_stage { Ok(()) } else { self.services.torment(&service, fault) };
                (told.map_or_else(Response::refused, |()| Response::Ok(Value::Null)), Then::GoOn)
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
            | Request::Log { .. }
            | Request::Stop
            | Request::Torment { .. }
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
        stats.services = self.services.stats();
        let gauges = self.supervisor.gauges().into_iter();
        stats.gauges = gauges
            .map(|(function, name, help, value)| Gauge { function, name: name.into(), help: help.into(), value })
            .collect();
        stats
    }

    fn ports(&self) -> Response {
        let columns = [
            "name",
            "device",
            "link_up",
            "speed_bps",
            "mac",
            "mtu",
            "addresses",
            "promiscuous",
            "rx_queues",
            "tx_queues",
            "offloads",
            "wakes",
        ];
        let rows = self.supervisor.port_figures().into_iter().map(|(info, figures)| {
            let facts = info.facts;
            let mac = facts.mac.map(|byte| format!("{byte:02x}")).join(":");
            // Nobody knows it where it is 0. Some devices tell one of a link that is down.
            let speed = u64::from(self.supervisor.speed(&info.name).now);
            let speed_bps = (speed > 0 && info.link_up).then(|| speed * 1_000_000);
            let addresses: Vec<String> = info.addresses.iter().map(ToString::to_string).collect();
            json!({
                "name": info.name, "index": info.index, "device": facts.device, "link_up": info.link_up, "speed_bps": speed_bps, "mac": mac,
                "mtu": facts.mtu, "addresses": addresses, "promiscuous": self.supervisor.promiscuous(&info.name), "rx_queues": facts.max_rx_queues,
                "tx_queues": facts.max_tx_queues, "rss": facts.rss, "offloads": facts.offloads,
                "wakes": self.supervisor.wakes(&info.name),
                "in_rings": figures.in_rings,
            })
        });
        let (columns, time) = (columns.map(str::to_owned).to_vec(), self.supervisor.now());
        Response::Rows { columns, rows: rows.collect(), time, more: false }
    }

    fn graph(&self) -> GraphView {
        let names = self.supervisor.port_names();
        let mut all = GraphView { version: VERSION, ..GraphView::default() };
        for graph in self.supervisor.graphs() {
            all.extend(GraphView::of(&graph, &names));
        }
        all
    }

    fn change(&mut self, verb: String, function: Option<String>, changes: Vec<Value>) -> Answer {
        match self.supervisor.sides_before(&verb, function.as_deref(), &changes) {
            Ok(sides) if sides.is_empty() => {}
            Ok(sides) => return Answer::First(Box::new(self.join(sides)), Request::Change { verb, function, changes }),
            Err(error) => return Answer::Whole(Response::refused(error.0)),
        }
        let count = changes.len();
        Answer::Whole(match self.supervisor.change(&verb, function.as_deref(), changes) {
            Ok(Some(answer)) => Response::Ok(json!({ "done": count, "answer": answer })),
            Ok(None) => Response::Ok(json!({ "done": count })),
            Err(error) => Response::refused(error.0),
        })
    }

    /// Lets services do what functions need now.
    pub(crate) fn serve_needs(&self) {
        let loaded = self.supervisor.loaded();
        let of = |configured: &Configured| {
            let wanted = |need: &Need| Wanted {
                function: configured.name().to_owned(),
                need: need.clone(),
                folder: matches!(need, Need::Export { .. }).then(|| loaded.base().to_owned()),
            };
            configured.needs().iter().map(wanted).collect::<Vec<Wanted>>()
        };
        self.services.reconcile(loaded.functions().iter().flat_map(of).collect(), &self.supervisor, &self.jobs);
    }

    /// Tells the log what is hardly meant in the running configuration.
    pub(crate) fn warn(&self) {
        for warning in self.supervisor.warnings() {
            log::warn("configuration", &self.source.rename(warning).to_string(), &[]);
        }
    }
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

impl Functions for Supervisor {
    fn host_side(&self, function: &str, vrf: &str) -> Option<Arc<dyn HostSide>> {
        self.instance(function)?.host_side(vrf)
    }

    fn channel_side(&self, function: &str) -> Option<Arc<dyn ChannelSide>> {
        self.instance(function)?.channel_side()
    }

    fn flow_source(&self, function: &str) -> Option<Arc<dyn FlowSource>> {
        self.instance(function)?.flow_source()
    }
}
