//! The function of `docs/adding-a-function.md`: takes one hop off the TTL of what goes from one port to another.

use std::any::Any;

use serde_json::Value;
use weir_config::{ConfigError, Element, PortName, Schema, config};
use weir_stage::{Env, Function, Graph, GraphError, Instance, Layout, Placement, RequestError, ShowRows, To};

use crate::Ttl;

config! {
    /// Takes one hop off the TTL of IPv4 packets that go from one port to another.
    pub struct HopConfig {
        /// The port that packets come in by.
        pub from: PortName = required, rebuild;
        /// The port that they go out by.
        pub to: PortName = required, rebuild;
        /// Cores of the workers.
        pub workers: Vec<u16> = default(vec![0]), rebuild, length(1..=63);
    }
}

/// The function `hop`.
pub struct Hop;

impl Function for Hop {
    fn kind(&self) -> &'static str {
        "hop"
    }

    fn schema(&self) -> Schema {
        HopConfig::schema()
    }

    fn placement(&self, element: &Element) -> Placement {
        let workers = element.read::<HopConfig>().map_or(vec![0], |config| config.workers);
        Placement { layout: Layout::RunToCompletion, workers }
    }

    fn ports(&self, element: &Element) -> Vec<String> {
        let config = element.read::<HopConfig>();
        config.map_or(vec![], |config| vec![config.from.to_string(), config.to.to_string()])
    }

    fn build(
        &self,
        element: &Element,
        env: &Env<'_>,
        _old: Option<&dyn Instance>,
    ) -> Result<Box<dyn Instance>, Vec<ConfigError>> {
        let config: HopConfig = element.read()?;
        // The schema has checked that the names are those of ports.
        let index = |name| env.port(name).map_or(0, |port| port.index);
        let (from, to) = (index(&config.from), index(&config.to));
        Ok(Box::new(Running { name: element.name().to_owned(), from, to }))
    }
}

/// A configured `hop`.
struct Running {
    name: String,
    from: u16,
    to: u16,
}

impl Instance for Running {
    fn graph(&self, _replica: usize) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let ttl = graph.add(format!("{}.ttl", self.name), Ttl);
        graph.receive(self.from, ttl);
        graph.wire(ttl, "out", To::Port(self.to));
        Ok(graph)
    }

    fn prepare(&self, _element: &Element, _env: &Env<'_>) -> Result<Box<dyn FnOnce(u64) + Send>, Vec<ConfigError>> {
        Ok(Box::new(|_now| {})) // no key is live
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
