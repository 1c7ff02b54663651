//! The function `forward`: its configuration and its graph.

use weir_config::{ConfigError, ErrorKind, PortName, config};
use weir_stage::{Case, Env, Function, Given, Graph, Paths, PortInfo, Stateless, To, paths};

use crate::{NoPath, Swap, Untouched, cases};

config! {
    /// Forwards packets from port to port, whatever they are: a patch cable with counters.
    pub struct ForwardConfig {
        /// Ports joined in both directions: `{ { "a", "b" } }`.
        pub pairs: Vec<[PortName; 2]> = empty, rebuild;
        /// Paths in one direction: `{ "a -> b", "c -> b" }`. A port is the start of one path at most.
        pub paths: Vec<String> = empty, rebuild;
        /// Whether the source and destination MAC addresses are exchanged on the way.
        pub swap_macs: bool = default(false), rebuild;
    }
}

/// The function `forward`.
#[derive(Debug)]
pub struct Forward;

impl Function for Forward {
    type Config = ForwardConfig;
    type Description = Stateless;

    fn kind(&self) -> &'static str {
        "forward"
    }

    fn ports(&self, given: &Given<'_, ForwardConfig>) -> Vec<String> {
        let pairs = given.config.pairs.iter().flatten().map(PortName::as_str);
        let paths = given.config.paths.iter().filter_map(|path| paths::ends_of(path)).flatten();
        pairs.chain(paths).map(str::to_owned).collect()
    }

    fn describe(&self, given: &Given<'_, ForwardConfig>, env: &Env<'_>) -> Result<Stateless, Vec<ConfigError>> {
        let (element, config) = (given.element, given.config);
        let mut paths = Paths::new(element, env);
        for ([one, other], n) in config.pairs.iter().zip(1..) {
            let (one, other) = (one.as_str(), other.as_str());
            let root = element.path();
            let pairs = root.field("pairs");
            [[one, other], [other, one]].into_iter().for_each(|ends| paths.add(&pairs.index(n), ends));
        }
        paths.list("paths", &config.paths);
        let paths = paths.finish()?;
        if paths.is_empty() {
            let problem = "nothing to forward; expected `pairs`, `paths` or both";
            return Err(vec![element.error(ErrorKind::Missing, &element.path(), problem)]);
        }
        let (name, swap) = (given.name().to_owned(), config.swap_macs);
        let paths: Vec<[PortInfo; 2]> = paths.into_iter().map(|ends| ends.map(PortInfo::clone)).collect();
        Ok(Stateless::new(move |_replica| {
            let mut graph = Graph::new();
            for [from, to] in &paths {
                let name = format!("{name}.{}", from.name);
                let stage = if swap { graph.add(name, Swap) } else { graph.add(name, Untouched) };
                graph.wire(stage, "out", To::Port(to.index));
                graph.receive(from.index, stage);
            }
            for port in paths::ends_only(&paths) {
                let stage = graph.add(format!("{name}.{}", port.name), NoPath);
                graph.leave_open(stage, "out"); // never taken
                graph.receive(port.index, stage);
            }
            Ok(graph)
        }))
    }

    fn cases(&self) -> Vec<Case> {
        cases::all()
    }
}
