//! The function `gen`: its graph, its tables, its numbers.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

use ipnet::IpNet;
use serde_json::{Value, json};
use weir_config::{ConfigError, Element, ErrorKind, Schema};
use weir_stage::{
    Case, Env, Function, Graph, GraphError, Instance, Layout, Place, Placement, RequestError, Show, ShowRows, To, whole,
};

use crate::build::{self, ReadCapture, Ready};
use crate::config::GenConfig;
use crate::receive::Receive;
use crate::report::{self, About, Report};
use crate::send::Send;
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
    fn kind(&self) -> &'static str {
        "gen"
    }

    fn schema(&self) -> Schema {
        GenConfig::schema()
    }

    fn placement(&self, element: &Element) -> Placement {
        let workers = element.read::<GenConfig>().map_or(vec![0], |config| config.workers);
        Placement { layout: Layout::RunToCompletion, workers }
    }

    fn ports(&self, element: &Element) -> Vec<String> {
        let Ok(config) = element.read::<GenConfig>() else { return Vec::new() };
        let sending = config.streams.iter().map(|stream| stream.port.to_string());
        let names: BTreeSet<String> = sending.chain(config.receive.iter().map(ToString::to_string)).collect();
        names.into_iter().collect()
    }

    fn build(
        &self,
        element: &Element,
        env: &Env<'_>,
        _old: Option<&dyn Instance>,
    ) -> Result<Box<dyn Instance>, Vec<ConfigError>> {
        let config: GenConfig = element.read()?;
        let names = self.ports(element);
        let mut errors = Vec::new();
        let answer = element.path();
        let answer = answer.field("answer");
        for port in config.answer.keys().filter(|port| !names.contains(&port.to_string())) {
            let problem = format!("port \"{port}\" is neither sent to nor received from");
            let error = element.error(ErrorKind::Dangling, &answer.entry(port.as_str()), problem);
            errors.push(error.remedy("add it to `receive`"));
        }
        let built = build::build(element, env, &config, self.captures);
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
        let about = whole.streams.iter().map(|ready| ready.about.clone()).collect();
        Ok(Box::new(Running {
            name: element.name().to_owned(),
            ports: ports.collect(),
            replicas: config.workers.len(),
            shared: Shared::new(whole.hops, whole.streams.len()),
            streams: whole.streams,
            about,
        }))
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

/// A configured generator.
struct Running {
    name: String,
    ports: Vec<OwnPort>,
    replicas: usize,
    streams: Vec<Ready>,
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

    /// The streams of a replica that leave by a port.
    fn share(&self, replica: usize, port: u16) -> impl Iterator<Item = &Ready> {
        let mine = move |at: usize| at % self.replicas.max(1) == replica;
        self.streams
            .iter()
            .enumerate()
            .filter(move |(at, ready)| mine(*at) && ready.port == port)
            .map(|(_, ready)| ready)
    }
}

impl Instance for Running {
    fn graph(&self, replica: usize) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let watch = Arc::new(Watch::default());
        let place = Place::Worker { section: 0 };
        for port in &self.ports {
            let common = (Arc::clone(&self.shared), Arc::clone(&watch));
            let receive = Receive::new(port.index, port.mac, port.networks.clone(), self.about.len(), common.clone());
            let receive = graph.add_at(format!("{}.receive.{}", self.name, port.name), Box::new(receive), place);
            graph.wire(receive, "out", To::Port(port.index));
            graph.receive(port.index, receive);
            let streams: Vec<&Ready> = self.share(replica, port.index).collect();
            if streams.is_empty() {
                continue;
            }
            let hops = streams.iter().enumerate().filter_map(|(at, ready)| Some((at, ready.hop?))).collect();
            let streams = streams.into_iter().map(|ready| ready.stream.clone()).collect();
            let send = Send::new(port.index, port.mac, streams, hops, common);
            let send = graph.add_at(format!("{}.send.{}", self.name, port.name), Box::new(send), place);
            graph.wire(send, "out", To::Port(port.index));
        }
        Ok(graph)
    }

    fn prepare(
        &self,
        _element: &Element,
        _env: &Env<'_>,
    ) -> Result<Box<dyn FnOnce(u64) + std::marker::Send>, Vec<ConfigError>> {
        Ok(Box::new(|_| {})) // it has no key that changes without a rebuild
    }

    fn request(&self, verb: &str, _arguments: &Value, _now: u64) -> Result<Value, RequestError> {
        Err(RequestError(format!("{} knows no request '{verb}'", self.name)))
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
            _ => Err(RequestError(format!("{} has no table '{what}'", self.name))),
        }
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        let unresolved = self.shared.hops.iter().filter(|hop| hop.mac().is_none()).count();
        vec![
            ("unfinished_streams", "streams that have not come to their end", self.shared.unfinished() as f64),
            ("unresolved_next_hops", "next hops whose Ethernet address is not known", unresolved as f64),
        ]
    }

    fn as_any(&self) -> &dyn Any {
        self
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
