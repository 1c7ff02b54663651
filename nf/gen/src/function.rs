//! The function `gen`: its graph, its tables, its numbers.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipnet::IpNet;
use serde_json::{Value, json};
use weir_config::{ConfigError, ErrorKind};
use weir_stage::{
    Case, Description, Env, Function, Given, Graph, GraphError, Ground, Instance, Place, RequestError, Show, ShowRows,
    To, whole,
};

use crate::build::{self, ReadCapture, Ready};
use crate::config::GenConfig;
use crate::receive::{self, Receive};
use crate::report::{self, About, Report};
use crate::send::{self, Send};
use crate::shared::{NextHop, Shared, Watch};

/// The function `gen`.
#[derive(Debug)]
pub struct Gen {
    /// Reads the capture files that streams replay.
    pub captures: ReadCapture,
}

const SHOWS: &[Show] = &[Show {
    what: "streams",
    columns: &[
        "name",
        "port",
        "rate",
        "sent",
        "pps",
        "received",
        "lost",
        "duplicated",
        "reordered",
        "corrupt",
        "latency_p50_ns",
    ],
    help: "streams of the generator: what was sent, and what came back. Filter: a stream, or a port",
}];

impl Function for Gen {
    type Config = GenConfig;
    type Description = Described;

    fn kind(&self) -> &'static str {
        "gen"
    }

    fn has_layouts(&self) -> bool {
        false
    }

    fn ports(&self, given: &Given<'_, GenConfig>) -> Vec<String> {
        let sending = given.config.streams.iter().map(|stream| stream.port.to_string());
        let names: BTreeSet<String> = sending.chain(given.config.receive.iter().map(ToString::to_string)).collect();
        names.into_iter().collect()
    }

    fn describe(&self, given: &Given<'_, GenConfig>, env: &Env<'_>) -> Result<Described, Vec<ConfigError>> {
        let (element, config) = (given.element, given.config);
        let names = self.ports(given);
        let mut errors = Vec::new();
        let answer = element.path();
        let answer = answer.field("answer");
        for port in config.answer.keys().filter(|port| !names.contains(&port.to_string())) {
            let problem = format!("port \"{port}\" is neither sent to nor received from");
            let error = element.error(ErrorKind::Dangling, &answer.entry(port.as_str()), problem);
            errors.push(error.remedy("add it to `receive`"));
        }
        let built = build::build(element, env, config, self.captures);
        let whole = match built {
            Ok(whole) if errors.is_empty() => whole,
            Ok(_) => return Err(errors),
            Err(more) => {
                errors.extend(more);
                return Err(errors);
            }
        };
        let ports = env.ports.iter().filter(|port| names.contains(&port.name)).map(|port| {
            let given = config.answer.iter().filter(|(name, _)| name.as_str() == port.name);
            let own = port.addresses.iter().map(|address| IpNet::from(address.address()));
            OwnPort {
                index: port.index,
                name: port.name.clone(),
                mac: port.facts.mac,
                networks: own.chain(given.flat_map(|(_, networks)| networks.iter().copied())).collect(),
            }
        });
        let shape = Shape {
            name: given.name().to_owned(),
            ports: ports.collect(),
            replicas: given.placement.workers.len(),
            streams: whole.streams,
        };
        Ok(Described { shape, hops: whole.hops })
    }

    fn shows(&self) -> &'static [Show] {
        SHOWS
    }

    fn cases(&self) -> Vec<Case> {
        crate::cases::all()
    }
}

/// A port of the generator.
struct OwnPort {
    index: u16,
    name: String,
    mac: [u8; 6],
    networks: Vec<IpNet>,
}

/// What goes out and comes in where.
struct Shape {
    name: String,
    ports: Vec<OwnPort>,
    replicas: usize,
    streams: Vec<Ready>,
}

impl Shape {
    /// The streams of a replica that leave by a port.
    fn share(&self, replica: usize, port: u16) -> impl Iterator<Item = &Ready> {
        let mine = move |at: usize| at % self.replicas.max(1) == replica;
        self.streams
            .iter()
            .enumerate()
            .filter(move |(at, ready)| mine(*at) && ready.port == port)
            .map(|(_, ready)| ready)
    }

    /// The graph of a replica, for a generator that runs, or to be looked at.
    fn draw(&self, replica: usize, running: Option<&Running>) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let watch = Arc::new(Watch::default());
        let place = Place::Worker { section: 0 };
        for port in &self.ports {
            let name = |stage: &str| format!("{}.{stage}.{}", self.name, port.name);
            let common = |running: &Running| (Arc::clone(&running.shared), Arc::clone(&watch));
            let receive = graph.add_of(name("receive"), receive::declaration(), place, running, |running| {
                let (networks, streams) = (port.networks.clone(), running.about.len());
                Ok(Box::new(Receive::new(port.index, port.mac, networks, streams, common(running))))
            })?;
            graph.wire(receive, "out", To::Port(port.index));
            graph.receive(port.index, receive);
            let streams: Vec<&Ready> = self.share(replica, port.index).collect();
            if streams.is_empty() {
                continue;
            }
            let send = graph.add_of(name("send"), send::declaration(), place, running, |running| {
                let hops = streams.iter().enumerate().filter_map(|(at, ready)| Some((at, ready.hop?))).collect();
                let streams = streams.iter().map(|ready| ready.stream.clone()).collect();
                Ok(Box::new(Send::new(port.index, port.mac, streams, hops, common(running))))
            })?;
            graph.wire(send, "out", To::Port(port.index));
        }
        Ok(graph)
    }
}

/// What a generator comes to.
pub struct Described {
    shape: Shape,
    hops: Vec<NextHop>,
}

impl Description for Described {
    type Running = Running;

    fn sketch(&self, replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(replica, None)
    }

    fn instantiate(self, _ground: &Ground<'_>, _old: Option<&Running>) -> Result<Running, Vec<ConfigError>> {
        let Described { shape, hops } = self;
        let about = shape.streams.iter().map(|ready| ready.about.clone()).collect();
        Ok(Running { shared: Shared::new(hops, shape.streams.len()), about, shape })
    }
}

/// A configured generator.
pub struct Running {
    shape: Shape,
    about: Vec<About>,
    shared: Arc<Shared>,
}

impl Running {
    fn report(&self) -> Report {
        let unresolved = self.shared.hops.iter().filter(|hop| hop.mac().is_none());
        let named = |hop: &NextHop| (hop.port_name.clone(), hop.address.to_string());
        let unresolved = unresolved.map(named).collect();
        report::report(&self.about, self.shared.ask(), unresolved, self.shared.started().is_some())
    }
}

impl Instance for Running {
    fn graph(&self, replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(replica, Some(self))
    }

    fn sketch(&self, replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(replica, None)
    }

    fn show(&self, what: &str, filter: Option<&str>, _now: u64) -> Result<Box<dyn ShowRows>, RequestError> {
        match what {
            "streams" => {
                let report = self.report();
                check_word(&report, filter)?;
                Ok(whole(rows(&report, filter)))
            }
            // All numbers in one piece, for the program's own command.
            "report" => serde_json::to_value(self.report())
                .map(|report| whole(vec![report]))
                .map_err(|error| RequestError(format!("the report cannot be written: {error}"))),
            _ => Err(RequestError(format!("{} has no table '{what}'", self.shape.name))),
        }
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        let unresolved = self.shared.hops.iter().filter(|hop| hop.mac().is_none()).count();
        vec![
            ("unfinished_streams", "streams that have not come to their end", self.shared.unfinished() as f64),
            ("unresolved_next_hops", "next hops whose Ethernet address is not known", unresolved as f64),
        ]
    }
}

/// Whether a filter means something: a stream, or a port that streams leave by.
fn check_word(report: &Report, filter: Option<&str>) -> Result<(), RequestError> {
    let Some(word) = filter else { return Ok(()) };
    let names = || report.streams.iter().map(|stream| stream.name.as_str());
    let ports: BTreeSet<&str> = report.streams.iter().map(|stream| stream.port.as_str()).collect();
    if names().chain(ports.iter().copied()).any(|known| known == word) {
        return Ok(());
    }
    Err(RequestError(format!(
        "\"{word}\" selects no streams; write the name of a stream ({}), or of a port that streams leave by ({})",
        listed(names()),
        listed(ports.iter().copied())
    )))
}

/// The first of some names.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 20;
    let mut names = names;
    let first: Vec<&str> = names.by_ref().take(SHOWN).collect();
    let more = if names.next().is_some() { ", ..." } else { "" };
    format!("{}{more}", first.join(", "))
}

/// The rows of the table of streams.
fn rows(report: &Report, filter: Option<&str>) -> Vec<Value> {
    let wanted = report
        .streams
        .iter()
        .filter(|stream| filter.is_none_or(|filter| filter == stream.name || filter == stream.port));
    wanted
        .map(|stream| {
            let received = stream.received.as_ref();
            json!({
                "name": stream.name,
                "port": stream.port,
                "rate": stream.rate,
                "sent": stream.sent.packets,
                "pps": stream.sent.pps.round(),
                "received": received.map(|received| received.received),
                "lost": received.map(|received| received.lost),
                "duplicated": received.map(|received| received.duplicated),
                "reordered": received.and_then(|received| received.order.as_ref()).map(|order| order.reordered),
                "corrupt": received.map(|received| received.corrupt),
                "latency_p50_ns": received.and_then(|received| received.latency_ns).map(|latency| latency.p50),
            })
        })
        .collect()
}
