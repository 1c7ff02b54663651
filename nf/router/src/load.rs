//! From the configuration to what the control side is to become; everything that is wrong with it, at once.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use weir_config::{ConfigError, Element, ErrorKind, Errors, InterfaceAddress, PortName};
use weir_ip::{Fresh, InterfaceId, Port, Tags, tags_of};
use weir_net::interface::{AddressKind, Interface};
use weir_net::neighbor::Timing;
use weir_stage::{Env, Given, InterfaceInfo, PortInfo, TAG_LEN};
use weir_wire::MacAddr;

use crate::addresses::Addresses;
use crate::config::RouterConfig;
use crate::function::Running;
use crate::links::WantedInterface;
use crate::static_routes::{Sources, StaticRoute, different_sets, long_prefix_networks};

/// What a checked configuration wants of the control side.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) general: General,
    pub(crate) interfaces: Vec<WantedInterface>,
    /// Sorted by prefix, each prefix once.
    pub(crate) routes: Vec<StaticRoute>,
    /// Neighbours, on interfaces by their position in the list.
    pub(crate) neighbors: Vec<(usize, Ipv4Addr, MacAddr)>,
}

/// What of that is never long.
#[derive(Debug)]
pub(crate) struct General {
    pub(crate) ports: Vec<Port>,
    /// Indices of ports.
    pub(crate) proxy_arp: Vec<u16>,
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
    let mut loader =
        Loader { element, env, config, errors: Errors::new(), interfaces: Vec::new(), addresses: Addresses::default() };
    let ports = loader.ports();
    loader.declared(&ports);
    loader.check_addressed(&ports);
    let neighbors = loader.neighbors();
    let proxy_arp = loader.proxy_arp();
    let routes = loader.routes();
    let Loader { errors, interfaces, .. } = loader;
    let general = General {
        ports,
        proxy_arp,
        directed_broadcast: config.directed_broadcast,
        icmp_rate: config.icmp_rate.packets_per_second(),
        timing: config.neighbor_timers.timing(),
    };
    errors.into_result(Wanted { general, interfaces, routes, neighbors })
}

struct Loader<'a> {
    element: &'a Element,
    env: &'a Env<'a>,
    config: &'a RouterConfig,
    errors: Errors,
    interfaces: Vec<WantedInterface>,
    /// Those of the interfaces, whose numbers are their positions for now.
    addresses: Addresses,
}

impl Loader<'_> {
    /// The router's ports, and by the way their untagged interfaces.
    fn ports(&mut self) -> Vec<Port> {
        let mut ports: Vec<Port> = Vec::new();
        for (name, n) in names(self.config, self.env) {
            let Some(info) = self.env.port(name) else { continue };
            if ports.iter().any(|port| port.index == info.index) {
                let error = self.error(ErrorKind::Duplicate, "ports", Some(n), format!("\"{name}\" stands here twice"));
                self.errors.push(error.remedy("leave one out"));
                continue;
            }
            let position = ports.len() as u8;
            if self.has_untagged(&info.name) {
                let told = format!("port \"{name}\"");
                let addresses = self.addresses_of(&told, &info.addresses, |loader, kind, problem| {
                    loader.error(kind, "ports", Some(n), problem)
                });
                let fresh =
                    Fresh { name: info.name.clone(), port: Some(position), tags: Tags::NONE, mtu: None, enabled: true };
                self.interfaces.push(WantedInterface { fresh, addresses });
            }
            ports.push(Port {
                name: info.name.clone(),
                index: info.index,
                mac: MacAddr(info.facts.mac),
                mtu: info.facts.mtu,
                tag_room: tag_room(self.env, &info.name),
                link: info.link_up,
            });
        }
        ports
    }

    /// Whether the untagged packets of a port are the router's: another function may have them where the port is shared.
    fn has_untagged(&self, port: &str) -> bool {
        let untagged = self.env.interfaces.iter().find(|info| info.is_untagged() && info.on.as_deref() == Some(port));
        untagged.is_none_or(|info| info.of == self.element.name())
    }

    /// The declared interfaces that are the router's.
    fn declared(&mut self, ports: &[Port]) {
        let ours = self.env.interfaces.iter().filter(|info| info.of == self.element.name() && !info.is_untagged());
        for info in ours {
            let title = format!("interface[\"{}\"]", info.name);
            let error = |kind, key: &str, problem: String| {
                ConfigError::new(kind, &info.place, format!("{title}.{key}"), problem)
            };
            let port = info.on.as_ref().and_then(|on| ports.iter().zip(0..).find(|(port, _)| port.name == *on));
            if let (Some((port, _)), Some(mtu)) =
                (port, info.mtu.filter(|mtu| port.is_some_and(|(port, _)| *mtu > port.mtu)))
            {
                let problem = format!("{mtu} is more than the MTU of port \"{}\", which is {}", port.name, port.mtu);
                self.errors.push(
                    error(ErrorKind::OutOfRange, "mtu", problem)
                        .remedy("give the port a larger one, or this a smaller one"),
                );
            }
            let told = format!("interface \"{}\"", info.name);
            let addresses =
                self.addresses_of(&told, &info.addresses, |_, kind, problem| error(kind, "address", problem));
            let wide = addresses.iter().find(|net| info.on.is_none() && net.prefix_len() < 32);
            if let Some(net) = wide {
                let problem = format!("{net} is a network, and none is connected to a loopback");
                self.errors
                    .push(error(ErrorKind::Conflict, "address", problem).remedy(format!("write {}/32", net.addr())));
            }
            let fresh = Fresh {
                name: info.name.clone(),
                port: port.map(|(_, position)| position),
                tags: tags_of(&info.tags),
                mtu: info.mtu,
                enabled: info.up,
            };
            self.interfaces.push(WantedInterface { fresh, addresses });
        }
        let (count, limit) = (self.interfaces.len(), self.config.limits.interfaces);
        if count > usize::from(limit) {
            let root = self.element.path();
            let path = root.field("limits");
            let problem = format!("{limit} is too few: the configuration has {count}");
            self.errors.push(self.element.error(ErrorKind::Limit, &path.field("interfaces"), problem));
        }
    }

    /// Each port needs an address, its own or one of an interface on it: it would be of no use.
    fn check_addressed(&mut self, ports: &[Port]) {
        let mut addressed = [false; weir_ip::MAX_PORTS];
        for interface in self.interfaces.iter().filter(|interface| !interface.addresses.is_empty()) {
            if let Some(is) = interface.fresh.port.and_then(|port| addressed.get_mut(usize::from(port))) {
                *is = true;
            }
        }
        for (port, is_addressed) in ports.iter().zip(addressed) {
            // One whose addresses are wrong was told of.
            let untagged = self.has_untagged(&port.name);
            let has = |info: &PortInfo| info.name == port.name && untagged && !info.addresses.is_empty();
            let on_it = |info: &InterfaceInfo| info.of == self.element.name() && info.on.as_deref() == Some(&port.name);
            if is_addressed || self.env.ports.iter().any(has) || self.env.interfaces.iter().any(on_it) {
                continue;
            }
            let n = self.config.ports.iter().zip(1..).find(|(name, _)| name.as_str() == port.name).map(|(_, n)| n);
            let error =
                self.error(ErrorKind::Missing, "ports", n, format!("port \"{}\" has no IPv4 address", port.name));
            self.errors.push(error.remedy("give it one, as in port { ..., address = \"192.0.2.1/24\" }"));
        }
    }

    /// The IPv4 addresses of an interface, the next one in the list; what is wrong with them is told by `error`.
    fn addresses_of(
        &mut self,
        told: &str,
        addresses: &[InterfaceAddress],
        error: impl Fn(&Self, ErrorKind, String) -> ConfigError,
    ) -> Vec<Ipv4Net> {
        let id = self.interfaces.len() as u16;
        let mut found = Vec::new();
        for address in addresses {
            let (IpNet::V4(net), IpAddr::V4(_)) = (address.net(), address.address()) else {
                let problem = format!("{told} has the address {}, and this function routes IPv4 only", address.net());
                let error = error(self, ErrorKind::Conflict, problem);
                self.errors.push(error.remedy("leave that address out"));
                continue;
            };
            let own = match Interface::new(id, net) {
                Ok(own) => own,
                Err(bad) => {
                    let error = error(self, ErrorKind::Conflict, format!("{told}: {bad}"));
                    self.errors.push(error);
                    continue;
                }
            };
            if let Some((other, what)) = conflict_of(&self.addresses, &own) {
                let name = self.interfaces.get(usize::from(other)).map_or(told.to_owned(), |other| self.title(other));
                let problem = format!("{told} has the address {net}, and {name} has the same {what}");
                let error = error(self, ErrorKind::Conflict, problem);
                self.errors.push(error.remedy("give each interface a network of its own"));
                continue;
            }
            self.addresses.add(own);
            found.push(net);
        }
        found
    }

    /// An interface as people call it.
    fn title(&self, interface: &WantedInterface) -> String {
        let is_port = interface.fresh.port.is_some() && interface.fresh.tags == Tags::NONE;
        format!("{} \"{}\"", if is_port { "port" } else { "interface" }, interface.fresh.name)
    }

    fn neighbors(&mut self) -> Vec<(usize, Ipv4Addr, MacAddr)> {
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
                Ok(interface) => found.push((usize::from(interface), *address, mac)),
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

    fn proxy_arp(&mut self) -> Vec<u16> {
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
            ("routes", routes.len() + self.addresses.len(), limits.routes),
            ("next_hops", gateways.len() + self.addresses.len(), limits.next_hops),
            ("groups", sets, limits.groups),
            (
                "long_prefix_networks",
                long_prefix_networks(routes) + 2 * self.addresses.len(),
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

    fn gateway_port(&self, gateway: Ipv4Addr) -> Result<InterfaceId, String> {
        check_gateway(&self.addresses, gateway)
    }

    fn networks(&self) -> String {
        networks(&self.addresses)
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

/// The names of the ports, with their places in the configuration. What a router that runs has comes first, in its order, so that it goes on
/// where others are added.
fn names<'c>(config: &'c RouterConfig, env: &Env<'_>) -> Vec<(&'c PortName, i64)> {
    let running = env.running.and_then(|running| running.downcast_ref());
    let before = running.map_or_else(Vec::new, Running::port_names);
    let mut names: Vec<(&PortName, i64)> = config.ports.iter().zip(1..).collect();
    let position = |name: &PortName| before.iter().position(|before| before == name.as_str());
    names.sort_by_key(|(name, _)| position(name).unwrap_or(usize::MAX));
    names
}

/// Bytes of tags for which a port's device has room: as many as those of its declared interfaces take.
fn tag_room(env: &Env<'_>, port: &str) -> u16 {
    let on_it = env.interfaces.iter().filter(|info| info.on.as_deref() == Some(port));
    on_it.map(|info| TAG_LEN * info.tags.len() as u16).max().unwrap_or(0)
}

/// Another interface that has the same address, or the same network, and which of both.
pub(crate) fn conflict_of(addresses: &Addresses, own: &Interface) -> Option<(InterfaceId, &'static str)> {
    if let Some(owner) = addresses.owner(own.address()) {
        return Some((owner, "address"));
    }
    let other = addresses.in_network(own.network()).iter().find(|other| other.port() != own.port())?;
    Some((other.port(), "network"))
}

/// The interface on whose network a gateway or neighbour is.
///
/// # Errors
///
/// Why it can not be one, as a sentence.
pub(crate) fn check_gateway(addresses: &Addresses, gateway: Ipv4Addr) -> Result<InterfaceId, String> {
    if addresses.is_own(gateway) {
        return Err(format!("{gateway} is an address of the router itself"));
    }
    let Some(interface) = addresses.around(gateway) else {
        return Err(format!("{gateway} is on no network that is connected to the router"));
    };
    match interface.kind(gateway) {
        AddressKind::SubnetBroadcast => Err(format!("{gateway} is the broadcast address of {}", interface.network())),
        AddressKind::Network => Err(format!("{gateway} is the address of the network {} itself", interface.network())),
        AddressKind::OnLink | AddressKind::Own | AddressKind::Elsewhere => Ok(interface.port()),
    }
}

/// The remedy for a gateway that is nowhere: the networks there are.
pub(crate) fn networks(addresses: &Addresses) -> String {
    /// As many as people read.
    const NAMED: usize = 16;
    let networks: Vec<String> = addresses.iter().take(NAMED).map(|interface| interface.network().to_string()).collect();
    let more = if addresses.len() > NAMED { ", ..." } else { "" };
    format!("choose a host of one of the networks {}{more}", networks.join(", "))
}
