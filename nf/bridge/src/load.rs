//! From the configuration to what is wanted; everything that is wrong with it, at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_config::{ConfigError, Element, ErrorKind, Errors, MacAddress, Path};
use weir_stage::{Entry, Env, Given, PortInfo, Site, Wrong};
use weir_table::mac::Station;
use weir_wire::MacAddr;
use weir_wire::martian6::is_link_local;

use crate::acl::{self, WantedAcls};
use crate::config::{Accept, BridgeConfig, PortOfBridge, StaticMac, Tagging};
use crate::plan::NOWHERE;
use crate::request::MACS;

/// What tells an entry about a station from others.
pub(crate) type Key = <StaticMac as Entry>::Key;

/// Entries about stations.
pub(crate) type Fixed = BTreeMap<Key, StaticMac>;

/// What a checked configuration wants.
pub(crate) struct Wanted {
    pub(crate) config: Arc<BridgeConfig>,
    /// The ports of the bridge, by number.
    pub(crate) ports: Vec<PortInfo>,
    /// Stations that stay where they are said to be.
    pub(crate) fixed: Fixed,
    /// Access lists.
    pub(crate) acls: WantedAcls,
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
    loader.querier();
    let Loader { mut errors, .. } = loader;
    let acls = acl::load((element, env), config, &mut errors);
    let site = Site { element, path: root, folder: env.folder };
    let fixed = MACS.load(site, &config.macs, None, &mut errors, |entry, _| wrong(config, entry));
    // The schema has checked that there are such ports.
    let ports = config.ports.keys().filter_map(|name| env.port(name).cloned()).collect();
    errors.into_result(Wanted { config: Arc::clone(config), ports, fixed, acls })
}

struct Loader<'a> {
    element: &'a Element,
    config: &'a BridgeConfig,
    errors: Errors,
}

impl Loader<'_> {
    /// What the bridge asks with is an address that it may have, and leaves time for answers.
    fn querier(&mut self) {
        let (root, querier) = (self.element.path(), &self.config.snooping.querier);
        let path = root.field("snooping");
        let path = path.field("querier");
        if querier.enabled && !self.config.snooping.enabled {
            let remedy = "set snooping.enabled = true, or leave it out";
            self.error(ErrorKind::Conflict, &path.field("enabled"), "asks, and nobody hears answers", remedy);
        }
        if querier.response >= querier.interval {
            let problem =
                format!("{} is no shorter than the time between questions, {}", querier.response, querier.interval);
            self.error(ErrorKind::Conflict, &path.field("response"), problem, "make it shorter, or `interval` longer");
        }
        if let Some(address) = querier.address_ipv6.filter(|address| !is_link_local(address.to_bits())) {
            let remedy = "write one in fe80::/10";
            let problem = format!("{address} is not a link-local address, from which RFC 3810 has questions come");
            self.error(ErrorKind::OutOfRange, &path.field("address_ipv6"), problem, remedy);
        }
        if let Some(address) = querier.address.filter(|address| address.is_multicast() || address.is_broadcast()) {
            let problem = format!("{address} is no address of a station");
            self.error(ErrorKind::OutOfRange, &path.field("address"), problem, "write one that is, or leave it out");
        }
        if querier.vlans.is_some() && self.config.tagging == Tagging::None {
            let problem = "means nothing to a bridge that takes no notice of tags";
            self.error(ErrorKind::Conflict, &path.field("vlans"), problem, "leave it out");
        }
    }

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
        if !has_untagged && !has_tagged && !port.routed {
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
}

/// What is wrong with an entry.
pub(crate) fn wrong(config: &BridgeConfig, entry: &StaticMac) -> Vec<Wrong> {
    let station = station(config, entry.mac, entry.vlan).err();
    let place = entry.port.as_ref().and_then(|port| place(config, port.as_str(), entry.vlan).err());
    station.into_iter().chain(place).collect()
}

/// The station that an entry is about.
pub(crate) fn station(config: &BridgeConfig, mac: MacAddress, vlan: Option<u16>) -> Result<Station, Wrong> {
    let mac = MacAddr(mac.octets());
    if !mac.is_unicast() {
        let problem =
            format!("{mac} is no address of a station; the lowest bit of its first byte says that it is a group's");
        return Err(Wrong::field("mac", problem));
    }
    match (vlan, config.tagging) {
        (None, Tagging::None) => Ok(Station::new(mac.to_bits(), 0)),
        (Some(vlan), Tagging::Customer | Tagging::Service) => Ok(Station::new(mac.to_bits(), vlan)),
        (Some(_), Tagging::None) => {
            Err(Wrong::field("vlan", "means nothing to a bridge that takes no notice of tags").remedy("leave it out"))
        }
        (None, _) => Err(Wrong::field("vlan", "is missing: a station of this bridge is in a VLAN").remedy("name it")),
    }
}

/// What tells an entry about a station from others.
pub(crate) fn key_of(config: &BridgeConfig, station: Station) -> Key {
    let mac = MacAddress::new(MacAddr::from_bits(station.address()).0);
    (mac, (config.tagging != Tagging::None).then(|| station.vlan()))
}

/// The number of a port that a station may be behind.
pub(crate) fn place(config: &BridgeConfig, name: &str, vlan: Option<u16>) -> Result<u8, Wrong> {
    let found = (0..).zip(&config.ports).find(|(_, (known, _))| known.as_str() == name);
    let Some((number, (_, port))) = found else {
        let all: Vec<&str> = config.ports.keys().map(weir_config::PortName::as_str).collect();
        let problem = format!("\"{name}\" is no port of this bridge; it has {}", all.join(", "));
        return Err(Wrong::field("port", problem));
    };
    let is_in = |vlan| port.vlan == Some(vlan) || port.tagged.iter().flat_map(|all| all.iter()).any(|one| one == vlan);
    match vlan {
        Some(vlan) if config.tagging != Tagging::None && !is_in(vlan) => {
            let problem = format!("\"{name}\" is not in VLAN {vlan}");
            Err(Wrong::field("port", problem).remedy("put it there by `vlan` or `tagged`, or name another port"))
        }
        _ => Ok(number),
    }
}

/// The number of the port that an entry names, as it is known by its name; [`NOWHERE`] where it names none, nothing if there is no such port.
pub(crate) fn number(config: &BridgeConfig, entry: &StaticMac) -> Option<u8> {
    match &entry.port {
        None => Some(NOWHERE),
        Some(name) => config.ports.keys().zip(0..).find(|(known, _)| *known == name).map(|(_, number)| number),
    }
}
