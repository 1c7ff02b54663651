//! Configuration and graph of `forward`.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;
use weir_config::{ConfigError, Element, ErrorKind, PortName, Schema, config, nearest};
use weir_stage::function::Traffic;
use weir_stage::{
    Case, Env, Function, Graph, GraphError, Instance, Layout, Place, Placement, PortInfo, RequestError, ShowRows, To,
};

use crate::{NoPath, Swap, Untouched};

config! {
    /// Forwards packets from port to port, whatever they are: a patch cable with counters.
    pub struct ForwardConfig {
        /// Ports joined in both directions: `{ { "a", "b" } }`.
        pub pairs: Vec<Vec<PortName>> = empty, rebuild;
        /// Paths in one direction: `{ "a -> b", "c -> b" }`. A port is the start of one path at most.
        pub paths: Vec<String> = empty, rebuild;
        /// Whether the source and destination MAC addresses are exchanged on the way.
        pub swap_macs: bool = default(false), rebuild;
        /// Cores of the workers.
        pub workers: Vec<u16> = default(vec![0]), rebuild, length(1..=63);
        /// How the stages are spread over the workers.
        pub layout: Layout = default(Layout::RunToCompletion), rebuild;
    }
}

/// The function `forward`.
#[derive(Debug)]
pub struct Forward;

/// A path between ports by their names.
type Path = (String, String);

impl ForwardConfig {
    /// All paths, and what cannot be understood of them: (key, index, problem).
    fn all_paths(&self) -> (Vec<Path>, Vec<(&'static str, usize, String)>) {
        let (mut paths, mut wrong) = (Vec::new(), Vec::new());
        for (n, pair) in self.pairs.iter().enumerate() {
            if let [one, other] = pair.as_slice() {
                paths.push((one.to_string(), other.to_string()));
                paths.push((other.to_string(), one.to_string()));
            } else {
                wrong.push(("pairs", n, format!("{} ports; a pair has two", pair.len())));
            }
        }
        for (n, text) in self.paths.iter().enumerate() {
            match text.split_once("->") {
                Some((from, to)) => paths.push((from.trim().to_owned(), to.trim().to_owned())),
                None => wrong.push(("paths", n, format!("\"{text}\" is not a path; write it \"from -> to\""))),
            }
        }
        (paths, wrong)
    }
}

impl Function for Forward {
    fn kind(&self) -> &'static str {
        "forward"
    }

    fn schema(&self) -> Schema {
        ForwardConfig::schema()
    }

    fn placement(&self, element: &Element) -> Placement {
        let (workers, layout) = element
            .read::<ForwardConfig>()
            .map_or((vec![0], Layout::RunToCompletion), |config| (config.workers, config.layout));
        Placement { layout, workers }
    }

    fn ports(&self, element: &Element) -> Vec<String> {
        let paths = element.read::<ForwardConfig>().map(|config| config.all_paths().0).unwrap_or_default();
        let names: BTreeSet<String> = paths.into_iter().flat_map(|(from, to)| [from, to]).collect();
        names.into_iter().collect()
    }

    fn build(
        &self,
        element: &Element,
        env: &Env<'_>,
        _old: Option<&dyn Instance>,
    ) -> Result<Box<dyn Instance>, Vec<ConfigError>> {
        let config: ForwardConfig = element.read()?;
        let (paths, wrong) = config.all_paths();
        let mut errors: Vec<ConfigError> = wrong
            .into_iter()
            .map(|(key, n, problem)| {
                element.error(ErrorKind::Malformed, &element.path().field(key).index(n as i64 + 1), problem)
            })
            .collect();
        if paths.is_empty() && errors.is_empty() {
            let problem = "nothing to forward; expected `pairs`, `paths` or both";
            errors.push(element.error(ErrorKind::Missing, &element.path(), problem));
        }
        let mut wired = Vec::new();
        let mut starts = BTreeSet::new();
        for (from, to) in &paths {
            let found: Vec<Option<&PortInfo>> = [from, to].map(|name| find(name, env)).to_vec();
            for (name, port) in [from, to].into_iter().zip(&found) {
                if port.is_none() {
                    errors.push(unknown_port(element, name, env));
                }
            }
            if !starts.insert(from) {
                let problem = format!("port \"{from}\" is the start of two paths; a packet leaves by one");
                errors.push(element.error(ErrorKind::Conflict, &element.path(), problem));
            }
            if let [Some(from), Some(to)] = found.as_slice() {
                wired.push(((from.index, from.name.clone()), to.index));
            }
        }
        if errors.is_empty() {
            let ends = ends(&paths).into_iter().filter_map(|name| find(name, env));
            let ends = ends.map(|port| (port.index, port.name.clone())).collect();
            Ok(Box::new(Running { name: element.name().to_owned(), paths: wired, ends, swap: config.swap_macs }))
        } else {
            Err(errors)
        }
    }

    fn cases(&self) -> Vec<Case> {
        let case = |name, help, swap| Case {
            name,
            help,
            needs: &[],
            script: format!("forward {{ paths = {{ \"in -> out\" }}, swap_macs = {swap} }}"),
            knobs: &[],
            prepare: |_, _, _| Ok(plain_traffic()),
        };
        let chained = |name, help, functions, device| Case {
            name,
            help,
            script: chain(functions, device),
            ..case("", "", false)
        };
        vec![
            case("forward", "64-byte UDP packets from port to port, untouched", false),
            case("swap-macs", "the same, with the MAC addresses exchanged", true),
            chained("joints-2", "from port to port through 2 functions with a joint between them", 2, "joint:"),
            chained("joints-4", "through 4 functions with joints between them", 4, "joint:"),
            chained("joints-8", "through 8 functions with joints between them", 8, "joint:"),
            chained("cables-2", "through 2 functions with a cable in memory between them", 2, "mem:cable="),
            chained("cables-8", "through 8 functions with cables in memory between them", 8, "mem:cable="),
        ]
    }
}

/// So many functions one behind the other, with devices of this kind between them.
fn chain(functions: usize, device: &str) -> String {
    let mut script = String::new();
    for n in 1..functions {
        let _ = writeln!(script, "port {{ name = \"a{n}\", device = \"{device}{n}\" }}");
        let _ = writeln!(script, "port {{ name = \"b{n}\", device = \"{device}{n}\" }}");
    }
    for n in 0..functions {
        let from = if n == 0 { "in".to_owned() } else { format!("b{n}") };
        let to = if n + 1 == functions { "out".to_owned() } else { format!("a{}", n + 1) };
        let _ = writeln!(script, "forward {{ name = \"f{n}\", paths = {{ \"{from} -> {to}\" }} }}");
    }
    script
}

/// The ports that paths lead to and none starts from.
fn ends(paths: &[Path]) -> BTreeSet<&str> {
    let starts: BTreeSet<&str> = paths.iter().map(|(from, _)| from.as_str()).collect();
    paths.iter().map(|(_, to)| to.as_str()).filter(|to| !starts.contains(to)).collect()
}

fn find<'a>(name: &str, env: &'a Env<'_>) -> Option<&'a PortInfo> {
    env.ports.iter().find(|port| port.name == name)
}

fn unknown_port(element: &Element, name: &str, env: &Env<'_>) -> ConfigError {
    let names: Vec<&str> = env.ports.iter().map(|port| port.name.as_str()).collect();
    let error = element.error(ErrorKind::Dangling, &element.path().field("paths"), format!("\"{name}\" names no port"));
    let error = error.allowed(format!("one of {}", names.join(", ")));
    match nearest(name, names) {
        Some(near) => error.remedy(format!("did you mean \"{near}\"?")),
        None => error.remedy(format!("declare it with port {{ name = \"{name}\", ... }}")),
    }
}

/// A configured `forward`.
struct Running {
    name: String,
    /// ((index, name) of the port it comes in by, index of the port it goes out by)
    paths: Vec<((u16, String), u16)>,
    /// (index, name) of ports that paths only lead to.
    ends: Vec<(u16, String)>,
    swap: bool,
}

impl Instance for Running {
    fn graph(&self, _replica: usize) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        for ((from, name), to) in &self.paths {
            let name = format!("{}.{name}", self.name);
            let place = Place::Worker { section: 0 };
            let stage = if self.swap {
                graph.add_at(name, Box::new(Swap), place)
            } else {
                graph.add_at(name, Box::new(Untouched), place)
            };
            graph.wire(stage, "out", To::Port(*to));
            graph.receive(*from, stage);
        }
        for (port, name) in &self.ends {
            let stage = graph.add(format!("{}.{name}", self.name), NoPath);
            graph.leave_open(stage, "out"); // never taken
            graph.receive(*port, stage);
        }
        Ok(graph)
    }

    fn prepare(&self, _element: &Element, _env: &Env<'_>) -> Result<Box<dyn FnOnce(u64) + Send>, Vec<ConfigError>> {
        Ok(Box::new(|_| {})) // it has no key that changes without a rebuild
    }

    fn request(&self, verb: &str, _arguments: &Value, _now: u64) -> Result<Value, RequestError> {
        Err(RequestError(format!("{} knows no request '{verb}'", self.name)))
    }

    fn show(&self, what: &str, _filter: Option<&str>, _now: u64) -> Result<Box<dyn ShowRows>, RequestError> {
        Err(RequestError(format!("{} has no table '{what}'", self.name)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// One UDP packet of 60 bytes (64 with its frame check sequence), which must come out as it went in but for its addresses.
fn plain_traffic() -> Traffic {
    const FRAME: [u8; 60] = {
        let mut frame = [0; 60];
        // Ethernet, IPv4 without options, 46 bytes, TTL 64, UDP; addresses and ports are of no interest here.
        let header = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17];
        let mut n = 0;
        while n < header.len() {
            frame[n] = header[n];
            n += 1;
        }
        frame
    };
    let frame = |_: u64, bytes: &mut [u8; 64]| {
        bytes.iter_mut().zip(FRAME).for_each(|(to, from)| *to = from);
        FRAME.len()
    };
    let check = |bytes: &[u8]| match bytes.get(12..) {
        Some(rest) if rest == FRAME.get(12..).unwrap_or_default() => Ok(()),
        _ => Err(format!("{} bytes came out that are not those that went in", bytes.len())),
    };
    Traffic { frame: Box::new(frame), frames: 1, check: Box::new(check) }
}
