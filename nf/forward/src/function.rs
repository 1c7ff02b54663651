//! The function `forward`: its configuration and its graph.

use weir_config::{ConfigError, PortName, config};
use weir_stage::{Case, Env, Function, Given, Paths, Stage, Stateless, paths};

use crate::{Swap, Untouched, cases};

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
        paths::ports(&given.config.pairs, &given.config.paths)
    }

    fn describe(&self, given: &Given<'_, ForwardConfig>, env: &Env<'_>) -> Result<Stateless, Vec<ConfigError>> {
        let mut paths = Paths::new(given.element, env);
        paths.pairs("pairs", &given.config.pairs);
        paths.list("paths", &given.config.paths);
        let swap = given.config.swap_macs;
        let stage = move || -> Box<dyn Stage> { if swap { Box::new(Swap) } else { Box::new(Untouched) } };
        paths.along(given.name(), "`pairs`, `paths` or both", stage)
    }

    fn cases(&self) -> Vec<Case> {
        cases::all()
    }
}
