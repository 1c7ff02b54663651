//! From the configuration to what the control side is to become; everything that is wrong with it, at once.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use weir_config::{ConfigError, Element, ErrorKind, Errors, PortName};
use weir_net::PortId;
use weir_net::interface::{AddressKind, Interface};
use weir_net::neighbor::Timing;
use weir_stage::{Env, Given, PortInfo};
use weir_wire::MacAddr;

use crate::config::RouterConfig;
use crate::state::{PortState, longest_around};
use crate::static_routes::{Sources, StaticRoute, different_sets, long_prefix_networks};

/// What a checked configuration wants of the control side.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) ports: Vec<PortState>,
    pub(crate) interfaces: Vec<Interface>,
    /// Sorted by prefix, each prefix once.
    pub(crate) routes: Vec<StaticRoute>,
    pub(crate) neighbors: Vec<(PortId, Ipv4Addr, MacAddr)>,
    pub(crate) proxy_arp: Vec<PortId>,
    pub(crate) directed_broadcast: bool,
    /// Errors per second, of each kind.
    pub(crate) icmp_rate: u64,
    pub(crate) timing: Timing,
}

/// What a configuration wants.
///
/// # Errors
///
/// Everything that is wrong with it beyond its schema.
pub(crate) fn load(given: &Given<'_, RouterConfig>, env: &Env<'_>) -> Result<Wanted, Vec<ConfigError>> {
    let Given { element, config, .. } = given;
    let mut loader = Loader { element, env, config, errors: Errors::new(), interfaces: Vec::new() };
    let ports = loader.ports();
    let neighbors = loader.neighbors();
    let proxy_arp = loader.proxy_arp();
    let routes = loader.routes();
    let Loader { errors, interfaces, .. } = loader;
    let wanted = Wanted {
        ports,
        interfaces,
        routes,
        neighbors,
        proxy_arp,
        directed_broadcast: config.directed_broadcast,
        icmp_rate: config.icmp_rate.packets_per_second(),
        timing: config.neighbor_timers.timing(),
    };
    errors.into_result(wanted)
}

struct Loader<'a> {
    element: &'a Element,
    env: &'a Env<'a>,
    config: &'a RouterConfig,
    errors: Errors,
    interfaces: Vec<Interface>,
}

impl Loader<'_> {
    /// The router's ports, and by the way their interfaces.
    fn ports(&mut self) -> Vec<PortState> {
        let mut ports: Vec<PortState> = Vec::new();
        for (name, n) in self.config.ports.iter().zip(1..) {
            let Some(info) = self.env.port(name) else { continue };
            if ports.iter().any(|port| port.index == info.index) {
                let error = self.error(ErrorKind::Duplicate, "ports", Some(n), format!("\"{name}\" stands here twice"));
                self.errors.push(error.remedy("leave one out"));
                continue;
            }
            self.add_interfaces(info, n);
            ports.push(PortState {
                name: info.name.clone(),
                index: info.index,
                mac: MacAddr(info.facts.mac),
                mtu: info.facts.mtu,
                up: info.link_up,
            });
        }
        ports
    }

    fn add_interfaces(&mut self, info: &PortInfo, n: i64) {
        let name = &info.name;
        let mut some = false;
        for address in &info.addresses {
            let (IpNet::V4(net), IpAddr::V4(_)) = (address.net(), address.address()) else {
                let problem =
                    format!("port \"{name}\" has the address {}, and this function routes IPv4 only", address.net());
                let error = self.error(ErrorKind::Conflict, "ports", Some(n), problem);
                self.errors.push(error.remedy("leave that address out"));
                continue;
            };
            some = true;
            let interface = match Interface::new(info.index, net) {
                Ok(interface) => interface,
                Err(bad) => {
                    let error = self.error(ErrorKind::Conflict, "ports", Some(n), format!("port \"{name}\": {bad}"));
                    self.errors.push(error);
                    continue;
                }
            };
            if let Some(other) = self.conflict_of(&interface) {
                let problem = format!("port \"{name}\" has the address {net}, and {other}");
                let error = self.error(ErrorKind::Conflict, "ports", Some(n), problem);
                self.errors.push(error.remedy("give each port a network of its own"));
                continue;
            }
            self.interfaces.push(interface);
        }
        if !some {
            let error =
                self.error(ErrorKind::Missing, "ports", Some(n), format!("port \"{name}\" has no IPv4 address"));
            self.errors.push(error.remedy("give it one, as in port { ..., address = \"192.0.2.1/24\" }"));
        }
    }

    /// What another interface has that this one must not have too.
    fn conflict_of(&self, interface: &Interface) -> Option<String> {
        let other = self.interfaces.iter().find(|other| {
            let same_network = other.network() == interface.network() && other.port() != interface.port();
            same_network || other.address() == interface.address()
        })?;
        let port = self.env.ports.iter().find(|port| port.index == other.port())?;
        let what = if other.address() == interface.address() { "address" } else { "network" };
        Some(format!("port \"{}\" has the same {what}", port.name))
    }

    fn neighbors(&mut self) -> Vec<(PortId, Ipv4Addr, MacAddr)> {
        let mut found = Vec::new();
        for (address, mac) in &self.config.neighbors {
            let mac = MacAddr(mac.octets());
            let path = self.element.path();
            let (path, text) = (path.field("neighbors"), address.to_string());
            let path = path.entry(&text);
            match self.gateway_port(*address) {
                Err(problem) => {
                    let error = self.element.error(ErrorKind::Conflict, &path, problem);
                    self.errors.push(error.remedy(self.networks()));
                }
                Ok(_) if !mac.is_unicast() => {
                    let problem = format!("{mac} is not the address of one station");
                    self.errors.push(self.element.error(ErrorKind::OutOfRange, &path, problem));
                }
                Ok(port) => found.push((port, *address, mac)),
            }
        }
        if found.len() > self.config.limits.neighbors as usize {
            let problem =
                format!("{} neighbours, and limits.neighbors is {}", found.len(), self.config.limits.neighbors);
            let error = self.error(ErrorKind::Limit, "neighbors", None, problem);
            self.errors.push(error.remedy("raise that limit"));
        }
        found
    }

    fn proxy_arp(&mut self) -> Vec<PortId> {
        let mut found = Vec::new();
        for (name, n) in self.config.proxy_arp.iter().zip(1..) {
            match self.env.port(name).filter(|_| self.config.ports.contains(name)) {
                Some(info) => found.push(info.index),
                None => {
                    let problem = format!("\"{name}\" is no port of this router");
                    let error = self.error(ErrorKind::Dangling, "proxy_arp", Some(n), problem);
                    let ours: Vec<&str> = self.config.ports.iter().map(PortName::as_str).collect();
                    self.errors.push(error.allowed(format!("one of {}", ours.join(", "))));
                }
            }
        }
        found
    }

    fn routes(&mut self) -> Vec<StaticRoute> {
        let sources = Sources {
            element: self.element,
            path: self.element.path(),
            script: &self.config.routes,
            csv: self.config.routes_csv.as_ref(),
            folder: self.env.folder,
        };
        let mut errors = std::mem::take(&mut self.errors);
        let routes = sources.read(&|gateway| self.gateway_port(gateway).map(drop), &self.networks(), &mut errors);
        self.errors = errors;
        self.check_limits(&routes);
        routes
    }

    fn check_limits(&mut self, routes: &[StaticRoute]) {
        let limits = &self.config.limits;
        let sets = different_sets(routes);
        let gateways: HashSet<Ipv4Addr> = routes.iter().flat_map(|route| route.via.iter().copied()).collect();
        let bounds = [
            ("routes", routes.len() + self.interfaces.len(), limits.routes),
            ("next_hops", gateways.len() + self.interfaces.len(), limits.next_hops),
            ("groups", sets, limits.groups),
            (
                "long_prefix_networks",
                long_prefix_networks(routes) + 2 * self.interfaces.len(),
                limits.long_prefix_networks,
            ),
        ];
        for (name, needed, most) in bounds {
            if needed > most as usize {
                let root = self.element.path();
                let path = root.field("limits");
                let problem = format!("{most} is too few: the routes of this configuration take {needed}");
                self.errors.push(self.element.error(ErrorKind::Limit, &path.field(name), problem));
            }
        }
    }

    fn gateway_port(&self, gateway: Ipv4Addr) -> Result<PortId, String> {
        check_gateway(&self.interfaces, gateway)
    }

    fn networks(&self) -> String {
        networks(&self.interfaces)
    }

    fn error(&self, kind: ErrorKind, key: &str, index: Option<i64>, problem: impl Into<String>) -> ConfigError {
        let root = self.element.path();
        let path = root.field(key);
        match index {
            Some(index) => self.element.error(kind, &path.index(index), problem),
            None => self.element.error(kind, &path, problem),
        }
    }
}

/// The port on whose network a gateway or neighbour is.
///
/// # Errors
///
/// Why it can not be one, as a sentence.
pub(crate) fn check_gateway(interfaces: &[Interface], gateway: Ipv4Addr) -> Result<PortId, String> {
    if interfaces.iter().any(|interface| interface.is_own(gateway)) {
        return Err(format!("{gateway} is an address of the router itself"));
    }
    let Some(interface) = longest_around(interfaces, gateway) else {
        return Err(format!("{gateway} is on no network that is connected to the router"));
    };
    match interface.kind(gateway) {
        AddressKind::SubnetBroadcast => Err(format!("{gateway} is the broadcast address of {}", interface.network())),
        AddressKind::Network => Err(format!("{gateway} is the address of the network {} itself", interface.network())),
        AddressKind::OnLink | AddressKind::Own | AddressKind::Elsewhere => Ok(interface.port()),
    }
}

/// The remedy for a gateway that is nowhere: the networks there are.
pub(crate) fn networks(interfaces: &[Interface]) -> String {
    let networks: Vec<String> = interfaces.iter().map(|interface| interface.network().to_string()).collect();
    format!("choose a host of one of the networks {}", networks.join(", "))
}
