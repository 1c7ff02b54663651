//! The function of `docs/adding-a-function.md`: takes one hop off the TTL of what goes from one port to another.

use weir_config::{ConfigError, PortName, config};
use weir_stage::{Env, Function, Given, Graph, Stateless, To};

use crate::Ttl;

config! {
    /// Takes one hop off the TTL of IPv4 packets that go from one port to another.
    pub struct HopConfig {
        /// The port that packets come in by.
        pub from: PortName = required, rebuild;
        /// The port that they go out by.
        pub to: PortName = required, rebuild;
    }
}

/// The function `hop`.
pub struct Hop;

impl Function for Hop {
    type Config = HopConfig;
    type Description = Stateless;

    fn kind(&self) -> &'static str {
        "hop"
    }

    fn ports(&self, given: &Given<'_, HopConfig>) -> Vec<String> {
        vec![given.config.from.to_string(), given.config.to.to_string()]
    }

    fn describe(&self, given: &Given<'_, HopConfig>, env: &Env<'_>) -> Result<Stateless, Vec<ConfigError>> {
        // The schema has checked that the names are those of ports.
        let index = |name| env.port(name).map_or(0, |port| port.index);
        let (from, to) = (index(&given.config.from), index(&given.config.to));
        let name = format!("{}.ttl", given.name());
        Ok(Stateless::new(move |_replica| {
            let mut graph = Graph::new();
            let ttl = graph.add(&name, Ttl);
            graph.receive(from, ttl);
            graph.wire(ttl, "out", To::Port(to));
            Ok(graph)
        }))
    }
}
