//! From the configuration to what is wanted; everything that is wrong with it, at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_config::{ConfigError, Element, ErrorKind, Errors, Path};
use weir_stage::{Env, Given, PortInfo};
use weir_table::mac::Station;
use weir_wire::MacAddr;

use crate::config::{Accept, BridgeConfig, PortOfBridge, StaticMac, Tagging};
use crate::plan::NOWHERE;

/// What a checked configuration wants.
pub(crate) struct Wanted {
    pub(crate) config: Arc<BridgeConfig>,
    /// The ports of the bridge, by number.
    pub(crate) ports: Vec<PortInfo>,
    /// Stations that stay where they are said to be.
    pub(crate) fixed: BTreeMap<Station, u8>,
}

/// What a configuration wants.
///
/// # Errors
///
/// Everything that is wrong with it beyond its schema.
pub(crate) fn load(given: &Given<'_, BridgeConfig>, env: &Env<'_>) -> Result<Wanted, Vec<ConfigError>> {
    let Given { element, config, .. } = given;
    let mut loader = Loader { element, config, errors: Errors::new() };
    let root = element.path();
    let of_ports = root.field("ports");
    for (name, port) in &config.ports {
        loader.port(&of_ports.field(name.as_str()), port);
    }
    let of_macs = root.field("macs");
    let mut fixed = BTreeMap::new();
    for (entry, n) in config.macs.iter().zip(1..) {
        let path = of_macs.index(n);
        if let Some((station, port)) = loader.station(&path, entry)
            && fixed.insert(station, port).is_some()
        {
            loader.error(ErrorKind::Conflict, &path, "says where a station is that was named before", "leave one out");
        }
    }
    // The schema has checked that there are such ports.
    let ports = config.ports.keys().filter_map(|name| env.port(name).cloned()).collect();
    loader.errors.into_result(Wanted { config: Arc::clone(config), ports, fixed })
}

struct Loader<'a> {
    element: &'a Element,
    config: &'a BridgeConfig,
    errors: Errors,
}

impl Loader<'_> {
    fn error(&mut self, kind: ErrorKind, path: &Path<'_>, problem: impl Into<String>, remedy: &str) {
        self.errors.push(self.element.error(kind, path, problem).remedy(remedy));
    }

    fn port(&mut self, path: &Path<'_>, port: &PortOfBridge) {
        const AWARE: &str = "set tagging = \"802.1q\" or \"802.1ad\", or leave it out";
        if self.config.tagging == Tagging::None {
            let keys = [
                ("vlan", port.vlan.is_some()),
                ("tagged", port.tagged.is_some()),
                ("accept", port.accept != Accept::All),
            ];
            for (key, _) in keys.iter().filter(|(_, is_set)| *is_set) {
                let problem = "means nothing to a bridge that takes no notice of tags";
                self.error(ErrorKind::Conflict, &path.field(key), problem, AWARE);
            }
            return;
        }
        let (has_untagged, has_tagged) = (port.vlan.is_some(), port.tagged.is_some());
        if !has_untagged && !has_tagged {
            self.error(ErrorKind::Missing, path, "is in no VLAN", "name one by `vlan`, or some by `tagged`");
        }
        let twice = port.vlan.filter(|vlan| port.tagged.iter().flat_map(|all| all.iter()).any(|one| one == *vlan));
        if let Some(vlan) = twice {
            let problem = format!("has VLAN {vlan}, whose frames have no tag here, as `vlan` says");
            self.error(ErrorKind::Conflict, &path.field("tagged"), problem, "leave it out of one of the two");
        }
        let remedy = match port.accept {
            Accept::Tagged if !has_tagged => "name some by `tagged`, or leave `accept` out",
            Accept::Untagged if !has_untagged => "name their VLAN by `vlan`, or leave `accept` out",
            _ => return,
        };
        let problem = format!("leaves only {} frames, for which the port has no VLAN", port.accept);
        self.error(ErrorKind::Conflict, &path.field("accept"), problem, remedy);
    }

    fn station(&mut self, path: &Path<'_>, entry: &StaticMac) -> Option<(Station, u8)> {
        let port = match &entry.port {
            None => Ok(NOWHERE),
            Some(name) => place(self.config, name.as_str(), entry.vlan),
        };
        let checked = station(self.config, MacAddr(entry.mac.octets()), entry.vlan).map_err(|told| (told.0, told.1));
        match (checked, port) {
            (Ok(station), Ok(port)) => Some((station, port)),
            (checked, port) => {
                for (key, problem) in checked.err().into_iter().chain(port.err()) {
                    self.error(ErrorKind::Conflict, &path.field(key), problem, "");
                }
                None
            }
        }
    }
}

/// The key, or field of a request, that is wrong, and what is wrong with it.
pub(crate) type Wrong = (&'static str, String);

/// The station that an entry is about.
pub(crate) fn station(config: &BridgeConfig, mac: MacAddr, vlan: Option<u16>) -> Result<Station, Wrong> {
    if !mac.is_unicast() {
        return Err((
            "mac",
            format!("{mac} is no address of a station; the lowest bit of its first byte says that it is a group's"),
        ));
    }
    match (vlan, config.tagging) {
        (None, Tagging::None) => Ok(Station::new(mac.to_bits(), 0)),
        (Some(vlan), Tagging::Customer | Tagging::Service) if (1..=crate::words::LAST_VLAN).contains(&vlan) => {
            Ok(Station::new(mac.to_bits(), vlan))
        }
        (Some(_), Tagging::None) => {
            Err(("vlan", "means nothing to a bridge that takes no notice of tags; leave it out".to_owned()))
        }
        (Some(vlan), _) => Err(("vlan", format!("{vlan} is no VLAN; expected 1 to 4094"))),
        (None, _) => Err(("vlan", "is missing: a station of this bridge is in a VLAN; name it".to_owned())),
    }
}

/// The number of a port that a station may be behind.
pub(crate) fn place(config: &BridgeConfig, name: &str, vlan: Option<u16>) -> Result<u8, Wrong> {
    let found = (0..).zip(&config.ports).find(|(_, (known, _))| known.as_str() == name);
    let Some((number, (_, port))) = found else {
        let all: Vec<&str> = config.ports.keys().map(weir_config::PortName::as_str).collect();
        return Err(("port", format!("\"{name}\" is no port of this bridge; it has {}", all.join(", "))));
    };
    let is_in = |vlan| port.vlan == Some(vlan) || port.tagged.iter().flat_map(|all| all.iter()).any(|one| one == vlan);
    match vlan {
        Some(vlan) if config.tagging != Tagging::None && !is_in(vlan) => Err((
            "port",
            format!("\"{name}\" is not in VLAN {vlan}; put it there by `vlan` or `tagged`, or name another port"),
        )),
        _ => Ok(number),
    }
}
