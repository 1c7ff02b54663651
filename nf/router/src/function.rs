//! The function `router` as the program sees it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use weir_config::{ConfigError, PortName, Table, Value};
use weir_ip::{ACL_SHOWS, ACL_VERBS, Described, EXAMPLES, FLOW_SHOWS, SHOWS, VERBS, flow_needs, linux_needs};
use weir_stage::{Case, Env, Function, Given, Layout, Need, Show, Verb};

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

    fn routes(&self) -> bool {
        true
    }

    /// A declaration may be wrong still: what is no list is left for its schema to tell.
    fn add_port(&self, keys: &mut Table, port: &str, _vlans: &BTreeSet<u16>) {
        if let Value::List(ports) = keys.0.entry("ports".into()).or_insert_with(|| Value::List(Vec::new())) {
            ports.push(port.into());
        }
    }

    fn needs(&self, given: &Given<'_, RouterConfig>) -> Vec<Need> {
        let mut all = linux_needs(given.config.linux.as_ref(), &given.config.vrfs);
        all.extend(flow_needs(given.config.flow_export.as_ref()));
        all
    }

    fn describe(&self, given: &Given<'_, RouterConfig>, env: &Env<'_>) -> Result<Described, Vec<ConfigError>> {
        let before = env.running.and_then(|running| running.downcast_ref());
        let is_parted = given.placement.layout == Layout::Pipeline;
        let described = Described::new((given.element, given.name()), given.config.settings(), env, before, is_parted)?;
        let guarded = described.with_acls(given.config.acls(), env)?.with_urpf(&given.config.urpf)?;
        guarded.with_flow_export(given.config.flow_export.as_ref())
    }

    fn verbs(&self) -> &'static [Verb] {
        static ALL: LazyLock<Vec<Verb>> = LazyLock::new(|| [VERBS, ACL_VERBS].concat());
        &ALL
    }

    fn examples(&self) -> &'static [&'static str] {
        EXAMPLES
    }

    fn shows(&self) -> &'static [Show] {
        static ALL: LazyLock<Vec<Show>> = LazyLock::new(|| [SHOWS, ACL_SHOWS, FLOW_SHOWS].concat());
        &ALL
    }

    fn cases(&self) -> Vec<Case> {
        cases::all()
    }
}
