//! The function `router` as the program sees it.

use weir_config::{ConfigError, PortName};
use weir_ip::{Described, EXAMPLES, SHOWS, VERBS};
use weir_stage::{Case, Env, Function, Given, Layout, Show, Verb};

use crate::cases;
use crate::config::RouterConfig;

/// The function `router`.
#[derive(Debug)]
pub struct Router;

impl Function for Router {
    type Config = RouterConfig;
    type Description = Described;

    fn kind(&self) -> &'static str {
        "router"
    }

    fn ports(&self, given: &Given<'_, RouterConfig>) -> Vec<String> {
        given.config.ports.iter().map(PortName::to_string).collect()
    }

    fn has_interfaces(&self, _given: &Given<'_, RouterConfig>, _port: &str) -> bool {
        true
    }

    /// Frames to other stations are dropped (RFC 1812 section 3.4).
    fn promiscuous(&self, _given: &Given<'_, RouterConfig>, _port: &str) -> bool {
        false
    }

    fn describe(&self, given: &Given<'_, RouterConfig>, env: &Env<'_>) -> Result<Described, Vec<ConfigError>> {
        let before = env.running.and_then(|running| running.downcast_ref());
        let is_parted = given.placement.layout == Layout::Pipeline;
        Described::new((given.element, given.name()), given.config.settings(), env, before, is_parted)
    }

    fn verbs(&self) -> &'static [Verb] {
        VERBS
    }

    fn examples(&self) -> &'static [&'static str] {
        EXAMPLES
    }

    fn shows(&self) -> &'static [Show] {
        SHOWS
    }

    fn cases(&self) -> Vec<Case> {
        cases::all()
    }
}
