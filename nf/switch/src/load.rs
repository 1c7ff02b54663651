//! From the configuration to what is wanted; everything that is wrong with it, at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_config::{ConfigError, ErrorKind, Errors};
use weir_flow_tables::Identity;
use weir_flow_tables::agent::FailMode;
use weir_openflow::multipart::Desc;
use weir_stage::{Credentials, Env, Given, PortInfo};

use crate::config::{Fail, SwitchConfig, datapath};
use crate::core::Live;
use crate::credentials;

/// What a checked configuration wants.
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) config: Arc<SwitchConfig>,
    /// The ports of the switch; their numbers begin at 1.
    pub(crate) ports: Vec<PortInfo>,
    /// What it proves itself by to controllers.
    credentials: Option<Arc<Credentials>>,
}

/// What a configuration wants.
///
/// # Errors
///
/// Everything that is wrong with it beyond its schema.
pub(crate) fn load(given: &Given<'_, SwitchConfig>, env: &Env<'_>) -> Result<Wanted, Vec<ConfigError>> {
    let Given { element, config, .. } = given;
    let (root, mut errors) = (element.path(), Errors::new());
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, port) in (1..).zip(&config.ports) {
        if let Some(before) = first.insert(port.as_str(), at) {
            let problem = format!("names the port \"{}\" twice: as port {before} and as port {at}", port.as_str());
            let error = element.error(ErrorKind::Conflict, &root.field("ports"), problem);
            errors.push(error.remedy("leave one of them out"));
        }
    }
    // The schema has checked that there are such ports.
    let ports = config.ports.iter().filter_map(|name| env.port(name).cloned()).collect();
    let credentials = credentials::load(given, env, &mut errors);
    errors.into_result(Wanted { name: given.name().to_owned(), config: Arc::clone(config), ports, credentials })
}

impl Wanted {
    /// What it is to controllers.
    pub(crate) fn identity(&self) -> Identity {
        let SwitchConfig { limits, tables, .. } = &*self.config;
        let mac = self.ports.first().map_or([0; 6], |port| port.facts.mac);
        let [a, b, c, d, e, f] = mac;
        let from_port = u64::from_be_bytes([0, 0, a, b, c, d, e, f]).max(1);
        let desc = Desc { datapath: self.name.clone(), ..Identity::default().desc };
        Identity {
            datapath: self.config.datapath_id.as_deref().and_then(datapath).unwrap_or(from_port),
            desc,
            tables: *tables,
            max_flows: limits.flows as usize,
            max_groups: limits.groups as usize,
            max_meters: limits.meters as usize,
            largest_port: 200,
        }
    }

    /// What of it may change while it runs.
    pub(crate) fn live(&self) -> Live {
        let fail_mode = match self.config.fail {
            Fail::Secure => FailMode::Secure,
            Fail::Standalone => FailMode::Standalone,
        };
        Live {
            fail_mode,
            has_targets: !self.config.controllers.is_empty(),
            compiles: self.config.compile,
            credentials: self.credentials.clone(),
        }
    }
}
