//! From the configuration to what the control side is to become; everything that is wrong with it, at once.

mod routes;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use weir_config::{
    ConfigError, Element, ErrorKind, Errors, FilePath, InterfaceAddress, MacAddress, NAME, OneOrMany, Path, PortName,
};
use weir_net::neighbor::Timing;
use weir_net::{DEFAULT_VRF, VrfId};
use weir_stage::{Env, InterfaceInfo, PortInfo};
use weir_wire::MacAddr;

use crate::config::{Settings, Virtual};
use crate::lines::Lines;
use crate::state::addresses::Addresses;
use crate::state::advertise::Advertise;
use crate::state::checks::{RAISE_MTU, Wrong, add, too_small, wrong_beside};
use crate::state::links::{WantedInterface, tag_room};
use crate::state::static_routes::StaticRoute;
use crate::state::via::{NamedNeighbor, Via};
use crate::{Fresh, Port, Tags, tags_of};

/// What a checked configuration wants of the control side.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) general: General,
    pub(crate) interfaces: Vec<WantedInterface>,
    /// By VRF; sorted by prefix, each prefix once.
    pub(crate) routes: Vec<Vec<StaticRoute>>,
    /// Neighbours, on interfaces by their position in the list.
    pub(crate) neighbors: Vec<(usize, IpAddr, MacAddr)>,
    pub(crate) lines: Option<Lines>,
}

/// What the default VRF is called.
pub(crate) const DEFAULT_NAME: &str = "default";

/// The names of a configuration's VRFs, by number.
pub(crate) fn vrf_names(config: Settings<'_>) -> Vec<String> {
    [DEFAULT_NAME.to_owned()].into_iter().chain(config.vrfs.keys().cloned()).collect()
}

/// Whether Linux speaks for each of them.
pub(crate) fn has_hosts(config: Settings<'_>) -> std::sync::Arc<[bool]> {
    [config.linux.is_some()].into_iter().chain(config.vrfs.values().map(|vrf| vrf.linux.is_some())).collect()
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
    /// What hosts are told, by interface.
    pub(crate) advertise: BTreeMap<String, Advertise>,
}

/// What a configuration wants; `before` are the ports of a running instance.
///
/// # Errors
///
/// Everything that is wrong with it beyond its schema.
pub(crate) fn load(
    element: &Element,
    config: Settings<'_>,
    env: &Env<'_>,
    before: &[String],
) -> Result<Wanted, Vec<ConfigError>> {
    let vrfs = vrf_names(config);
    let own = vrfs.iter().map(|_| Own::default()).collect();
    let mut loader = Loader { element, env, config, before, errors: Errors::new(), interfaces: Vec::new(), vrfs, own };
    loader.check_vrfs();
    for name in config.function.vrfs.iter().flatten() {
        loader.vrf_of(Some(name), "the function", |loader, kind, problem| loader.error(kind, "vrfs", None, problem));
    }
    let ports = loader.ports();
    loader.declared(&ports);
    loader.virtual_interfaces();
    // Where Linux speaks for the default VRF, addresses may come from there.
    if config.needs_addresses && config.linux.is_none() {
        loader.check_addressed(&ports);
    }
    loader.check_names_for_linux();
    loader.check_advertised();
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
        advertise: config.advertise.clone(),
    };
    errors.into_result(Wanted { general, interfaces, routes, neighbors, lines: config.lines.cloned() })
}

/// The router's own addresses in a VRF.
#[derive(Default)]
struct Own {
    four: Addresses<Ipv4Addr>,
    six: Addresses<Ipv6Addr>,
}

struct Loader<'a> {
    element: &'a Element,
    env: &'a Env<'a>,
    config: Settings<'a>,
    /// The names of the ports that a running instance has, in its order.
    before: &'a [String],
    errors: Errors,
    interfaces: Vec<WantedInterface>,
    /// By number.
    vrfs: Vec<String>,
    /// The addresses of the interfaces, whose numbers are their positions for now, by VRF.
    own: Vec<Own>,
}

/// Where routes and neighbours of a VRF stand.
struct Stated<'c> {
    vrf: VrfId,
    path: Path<'c>,
    routes: &'c BTreeMap<IpNet, OneOrMany<Via>>,
    routes_csv: Option<&'c FilePath>,
    neighbors: &'c BTreeMap<NamedNeighbor, MacAddress>,
}

impl Loader<'_> {
    /// Names of VRFs are as others are, and none is that of the default one.
    fn check_vrfs(&mut self) {
        let (element, root) = (self.element, self.element.path());
        for name in self.config.vrfs.keys() {
            let path = root.field("vrfs");
            let path = path.entry(name);
            if name == DEFAULT_NAME {
                let problem = "is what the default VRF is called, whose keys are the router's own";
                let error = element.error(ErrorKind::Conflict, &path, problem);
                self.errors.push(error.remedy("write its routes and neighbours beside vrfs"));
            } else if !(NAME.matches)(name) {
                let error = element.error(ErrorKind::Malformed, &path, format!("\"{name}\" is not {}", NAME.what));
                self.errors.push(error.remedy(format!("write one such as {}", NAME.example)));
            }
        }
    }

    /// The number of the VRF that an interface names; what is wrong with it is told by `error`.
    fn vrf_of(
        &mut self,
        name: Option<&str>,
        told: &str,
        error: impl Fn(&Self, ErrorKind, String) -> ConfigError,
    ) -> VrfId {
        let Some(name) = name else { return DEFAULT_VRF };
        match self.vrfs.iter().zip(0..).find(|(known, _)| *known == name) {
            Some((_, vrf)) => vrf,
            None => {
                let problem = format!("{told} names the VRF \"{name}\", which {} does not have", self.element.name());
                let error = error(self, ErrorKind::Dangling, problem);
                self.errors.push(error.allowed(format!("one of {}", self.vrfs.join(", "))));
                DEFAULT_VRF
            }
        }
    }

    /// Only interfaces that are there are advertised on.
    fn check_advertised(&mut self) {
        let (element, root) = (self.element, self.element.path());
        for (name, told) in self.config.advertise {
            let path = root.field("advertise");
            let path = path.entry(name);
            if !self.interfaces.iter().any(|interface| interface.fresh.name == *name) {
                let error = element.error(ErrorKind::Dangling, &path, format!("there is no interface \"{name}\""));
                let names: Vec<&str> =
                    self.interfaces.iter().take(16).map(|interface| interface.fresh.name.as_str()).collect();
                self.errors.push(error.allowed(format!("one of {}", names.join(", "))));
            }
            for (prefix, lifetimes) in told.prefixes.iter().filter(|(_, told)| told.preferred > told.valid) {
                let problem = format!("{prefix} is preferred for longer than it is valid ({})", lifetimes.valid);
                self.errors.push(element.error(ErrorKind::Conflict, &path, problem));
            }
        }
    }

    /// The router's ports, and by the way their untagged interfaces.
    fn ports(&mut self) -> Vec<Port> {
        let mut ports: Vec<Port> = Vec::new();
        for (name, n) in names(self.config.ports, self.before) {
            let Some(info) = self.env.port(name) else { continue };
            if ports.iter().any(|port| port.index == info.index) {
                let error = self.error(ErrorKind::Duplicate, "ports", Some(n), format!("\"{name}\" stands here twice"));
                self.errors.push(error.remedy("leave one out"));
                continue;
            }
            let position = ports.len() as u8;
            if self.has_untagged(&info.name) {
                self.untagged(info, position, n);
            }
            ports.push(Port {
                name: info.name.clone(),
                index: info.index,
                mac: MacAddr(info.facts.mac),
                mtu: info.facts.mtu,
                tag_room: tag_room(self.env, info),
                link: info.link_up,
            });
        }
        ports
    }

    /// The interface of the untagged packets of a port, which stands at place `n` among the ports.
    fn untagged(&mut self, info: &PortInfo, position: u8, n: i64) {
        let told = format!("port \"{}\"", info.name);
        let error = |loader: &Self, kind, problem| loader.error(kind, "ports", Some(n), problem);
        let vrf = self.vrf_of(info.vrf.as_deref(), &told, error);
        let addresses = self.addresses_of((&told, vrf), &info.addresses, error);
        if let Some(problem) = too_small(&told, info.facts.mtu, &addresses) {
            self.errors.push(error(self, ErrorKind::Conflict, problem).remedy(RAISE_MTU));
        }
        let (name, port) = (info.name.clone(), Some(position));
        let fresh = Fresh { name, port, tags: Tags::NONE, vrf, mtu: None, enabled: true, tunnel: None };
        self.interfaces.push(WantedInterface { fresh, addresses });
    }

    /// Whether the untagged packets of a port belong to an interface of its name that is the router's: another function may have them where
    /// the port is shared, or an interface of another name.
    fn has_untagged(&self, port: &str) -> bool {
        let untagged = self.env.interfaces.iter().find(|info| info.is_untagged() && info.on.as_deref() == Some(port));
        untagged.is_none_or(|info| info.of == self.element.name() && info.name == port)
    }

    /// The declared interfaces that are the router's.
    fn declared(&mut self, ports: &[Port]) {
        let of_port = |info: &InterfaceInfo| info.is_untagged() && info.on.as_deref() == Some(&info.name);
        let ours = self.env.interfaces.iter().filter(|info| info.of == self.element.name() && !of_port(info));
        for info in ours {
            let title = format!("interface[\"{}\"]", info.name);
            let error = |kind, key: &str, problem: String| {
                ConfigError::new(kind, &info.place, format!("{title}.{key}"), problem)
            };
            let port = info.on.as_ref().and_then(|on| ports.iter().zip(0..).find(|(port, _)| port.name == *on));
            let told = format!("interface \"{}\"", info.name);
            let vrf = self.vrf_of(info.vrf.as_deref(), &told, |_, kind, problem| error(kind, "vrf", problem));
            let addresses =
                self.addresses_of((&told, vrf), &info.addresses, |_, kind, problem| error(kind, "address", problem));
            let fresh = Fresh {
                name: info.name.clone(),
                port: port.map(|(_, position)| position),
                tags: tags_of(&info.tags),
                vrf,
                mtu: info.mtu,
                enabled: info.up,
                tunnel: None,
            };
            let wrong = wrong_beside(port.map(|(port, _)| port), &fresh, &addresses);
            let is_placed = info.on.is_none() || port.is_some();
            let wrong = wrong
                .into_iter()
                .filter(|_| is_placed)
                .map(|wrong| error(wrong.kind, wrong.field, wrong.problem).remedy(wrong.remedy));
            self.errors.extend(wrong);
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

    /// Those that the function has by itself.
    fn virtual_interfaces(&mut self) {
        for Virtual { name, vrf, addresses, tunnel } in self.config.own {
            let told = format!("interface \"{name}\"");
            let error = |loader: &Self, kind, problem| loader.error(kind, "vrfs", None, problem);
            let vrf = self.vrf_of(vrf.as_deref(), &told, error);
            let mut addressed = Vec::new();
            for address in addresses {
                match self.add_address(vrf, *address) {
                    Ok(()) => addressed.push(*address),
                    Err(wrong) => {
                        let problem = self.words_of(&told, *address, wrong);
                        self.errors.push(self.error(ErrorKind::Conflict, "addresses", None, problem));
                    }
                }
            }
            let fresh = Fresh {
                name: name.clone(),
                port: None,
                tags: Tags::NONE,
                vrf,
                mtu: None,
                enabled: true,
                tunnel: *tunnel,
            };
            self.interfaces.push(WantedInterface { fresh, addresses: addressed });
        }
    }

    /// What is wrong with an address of an interface.
    fn words_of(&self, told: &str, address: IpNet, wrong: Wrong) -> String {
        match wrong {
            Wrong::Bad(bad) => format!("{told}: {bad}"),
            Wrong::Conflict(other, what) => {
                let name = self.interfaces.get(usize::from(other)).map_or(told.to_owned(), |other| self.title(other));
                format!("{told} has the address {address}, and {name} has the same {what}")
            }
        }
    }

    /// Interfaces that Linux is to have too have names that it can have.
    fn check_names_for_linux(&mut self) {
        /// `IFNAMSIZ`, less the 0 behind it.
        const LONGEST: usize = 15;
        let hosts = has_hosts(self.config);
        let speaks = |vrf: VrfId| hosts.get(usize::from(vrf)).is_some_and(|has| *has);
        let long = self
            .interfaces
            .iter()
            .map(|wanted| &wanted.fresh)
            .find(|fresh| fresh.port.is_some() && speaks(fresh.vrf) && fresh.name.len() > LONGEST);
        if let Some(fresh) = long {
            let (name, length) = (&fresh.name, fresh.name.len());
            let problem =
                format!("\"{name}\" has {length} letters, and Linux takes {LONGEST} for the name of an interface");
            let error = self.error(ErrorKind::OutOfRange, "linux", None, problem);
            self.errors
                .push(error.remedy("give it a shorter name, or put it into a VRF that Linux does not speak for"));
        }
    }

    /// Each port needs an address, its own or one of an interface on it: it would be of no use.
    fn check_addressed(&mut self, ports: &[Port]) {
        let mut addressed = [false; crate::MAX_PORTS];
        for interface in self.interfaces.iter().filter(|interface| !interface.addresses.is_empty()) {
            if let Some(is) = interface.fresh.port.and_then(|port| addressed.get_mut(usize::from(port))) {
                *is = true;
            }
        }
        for (port, is_addressed) in ports.iter().zip(addressed) {
            // One whose addresses are wrong was told of.
            let untagged = self.has_untagged(&port.name);
            let has = |info: &PortInfo| info.name == port.name && untagged && !info.addresses.is_empty();
            // What nobody has is that of a routed side, whose interfaces may all be added at run time.
            let is_its = |info: &InterfaceInfo| info.of.is_empty() || info.of == self.element.name();
            let on_it = |info: &InterfaceInfo| is_its(info) && info.on.as_deref() == Some(&port.name);
            if is_addressed || self.env.ports.iter().any(has) || self.env.interfaces.iter().any(on_it) {
                continue;
            }
            let n = self.config.ports.iter().zip(1..).find(|(name, _)| name.as_str() == port.name).map(|(_, n)| n);
            let error = self.error(ErrorKind::Missing, "ports", n, format!("port \"{}\" has no address", port.name));
            self.errors.push(error.remedy("give it one, as in port { ..., address = \"192.0.2.1/24\" }"));
        }
    }

    /// The addresses of an interface, the next one in the list; what is wrong with them is told by `error`.
    fn addresses_of(
        &mut self,
        (told, vrf): (&str, VrfId),
        addresses: &[InterfaceAddress],
        error: impl Fn(&Self, ErrorKind, String) -> ConfigError,
    ) -> Vec<IpNet> {
        let mut found = Vec::new();
        for address in addresses {
            match self.add_address(vrf, address.net()) {
                Ok(()) => found.push(address.net()),
                Err(wrong) => {
                    let is_shared = matches!(wrong, Wrong::Conflict(..));
                    let problem = self.words_of(told, address.net(), wrong);
                    let error = error(self, ErrorKind::Conflict, problem);
                    self.errors.push(if is_shared {
                        error.remedy("give each interface a network of its own")
                    } else {
                        error
                    });
                }
            }
        }
        found
    }

    /// Adds an address of the next interface.
    fn add_address(&mut self, vrf: VrfId, net: IpNet) -> Result<(), Wrong> {
        let id = self.interfaces.len() as u16;
        let Some(own) = self.own.get_mut(usize::from(vrf)) else { return Ok(()) };
        match net {
            IpNet::V4(net) => add(&mut own.four, id, net),
            IpNet::V6(net) => add(&mut own.six, id, net),
        }
    }

    /// An interface as people call it.
    fn title(&self, interface: &WantedInterface) -> String {
        let is_port = interface.fresh.port.is_some() && interface.fresh.tags == Tags::NONE;
        format!("{} \"{}\"", if is_port { "port" } else { "interface" }, interface.fresh.name)
    }

    /// Does something with what is stated of each VRF.
    fn each_vrf(&mut self, mut look: impl FnMut(&mut Self, Stated<'_>)) {
        let (config, root) = (self.config, self.element.path());
        let (routes, neighbors) = (config.routes, config.neighbors);
        look(self, Stated { vrf: DEFAULT_VRF, path: root, routes, routes_csv: config.routes_csv, neighbors });
        for ((name, vrf), n) in config.vrfs.iter().zip(1..) {
            let root = self.element.path();
            let path = root.field("vrfs");
            let (routes, neighbors) = (&vrf.routes, &vrf.neighbors);
            look(
                self,
                Stated { vrf: n, path: path.entry(name), routes, routes_csv: vrf.routes_csv.as_ref(), neighbors },
            );
        }
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

    fn error(&self, kind: ErrorKind, key: &str, index: Option<i64>, problem: impl Into<String>) -> ConfigError {
        let root = self.element.path();
        let path = root.field(key);
        match index {
            Some(index) => self.element.error(kind, &path.index(index), problem),
            None => self.element.error(kind, &path, problem),
        }
    }
}

/// The names of the ports, with their places in the configuration. Those that a running instance had `before` come first, in its order, so
/// that it goes on where others are added.
fn names<'c>(ports: &'c [PortName], before: &[String]) -> Vec<(&'c PortName, i64)> {
    let mut names: Vec<(&PortName, i64)> = ports.iter().zip(1..).collect();
    let position = |name: &PortName| before.iter().position(|before| before == name.as_str());
    names.sort_by_key(|(name, _)| position(name).unwrap_or(usize::MAX));
    names
}
