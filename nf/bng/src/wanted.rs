//! From a configuration to what the gateway is made of, with all errors at once: ports, gateways, routes, addresses.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_config::{ConfigError, Element, ErrorKind, Errors, FilePath, InterfaceAddress, Path};
use weir_stage::{Argument, Collection, Env, Given, PortInfo, Site};
use weir_wire::{MacAddr, martian, mpls};

use crate::config::{BngConfig, CoreEncapsulation, GatewayConfig, TunnelDscp};
use crate::core::Tunnel;
use crate::encap::Outer;
use crate::ports::{BngPort, Ports, Side};
use crate::qos;

const PREFIX: Argument =
    Argument { name: "prefix", keyword: None, required: true, many: false, help: "The prefix, such as 10.1.0.0/16" };

/// The IPv4 routes of the file.
static ROUTES: Collection = Collection {
    noun: "route",
    key: "routes",
    is_list: false,
    file_key: "routes_csv",
    fields: &[PREFIX, Argument { name: "gateway", keyword: Some("via"), help: "The gateway", ..PREFIX }],
    has_labels: false,
};

/// The part of a checked configuration that the gateway is built from.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) ports: Arc<Ports>,
    /// By name.
    pub(crate) gateways: Vec<Gateway>,
    /// Prefixes of both families, and positions of their gateways.
    pub(crate) routes: Vec<(IpNet, Vec<u32>)>,
    /// The gateway's IPv6 addresses towards customers.
    pub(crate) addresses6: Vec<Ipv6Net>,
    /// The gateway's addresses towards customers.
    pub(crate) addresses: Vec<Ipv4Net>,
    /// Addresses of its ports, and of the interfaces on them.
    pub(crate) interface_addresses: Vec<IpAddr>,
    /// Its end of tunnels; 0.0.0.0 with plain IP.
    pub(crate) local: Ipv4Addr,
    /// What is wrong with all that, which is left out of it.
    pub(crate) wrong: Vec<ConfigError>,
}

/// A gateway of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gateway {
    pub(crate) name: String,
    /// The name of its port, or of its interface.
    pub(crate) port: String,
    /// The next router on the way to it.
    pub(crate) via: IpAddr,
    /// The next router's MAC address, where it is fixed.
    pub(crate) mac: Option<MacAddr>,
    /// What is behind its inlet, if it has one.
    pub(crate) tunnel: Option<Tunnel>,
    /// The end of its tunnel, if it has one: packets there go to the next router.
    pub(crate) end: Option<Ipv4Addr>,
}

/// What a configuration wants, and everything that is wrong with it beyond its schema, but for subscribers.
pub(crate) fn wanted(given: &Given<'_, BngConfig>, env: &Env<'_>) -> Wanted {
    let mut loader = Loader { element: given.element, env, config: given.config, errors: Errors::new() };
    let ports = loader.ports();
    let local = loader.local();
    let gateways = loader.gateways(&ports, local);
    let routes = loader.routes(&gateways);
    let (addresses, addresses6) = (loader.addresses(), loader.addresses6());
    let interface_addresses = loader.interface_addresses(&ports);
    loader.markings();
    let Loader { mut errors, .. } = loader;
    qos::faults(given).into_iter().for_each(|error| errors.push(error));
    let wrong = errors.into_result(()).err().unwrap_or_default();
    Wanted { ports: Arc::new(ports), gateways, routes, addresses, addresses6, interface_addresses, local, wrong }
}

/// A port, or an interface on one.
struct Link<'a> {
    side: Side,
    name: &'a str,
    /// Bytes of the longest IP packet.
    mtu: u16,
    addresses: &'a [InterfaceAddress],
}

struct Loader<'a> {
    element: &'a Element,
    env: &'a Env<'a>,
    config: &'a BngConfig,
    errors: Errors,
}

impl<'a> Loader<'a> {
    fn ports(&mut self) -> Ports {
        let mut list: Vec<BngPort> = Vec::new();
        let sides = [("access", &self.config.access, Side::Access), ("core", &self.config.core, Side::Core)];
        for (key, names, side) in sides {
            for (name, n) in names.iter().zip(1..) {
                let Some(info) = self.env.port(name) else { continue };
                if list.iter().any(|port| port.index == info.index) {
                    let problem = format!("\"{name}\" stands in access or core twice");
                    let error = self.at_item(ErrorKind::Duplicate, key, n, problem);
                    self.errors.push(error.remedy("leave one out"));
                    continue;
                }
                list.push(port(info, side));
            }
        }
        Ports::new(list)
    }

    /// The gateway's end of tunnels.
    fn local(&mut self) -> Ipv4Addr {
        let needed = self.config.core_encapsulation == CoreEncapsulation::GreMpls;
        match self.config.local_address {
            Some(address) if is_host(address) => address,
            Some(address) => {
                let error =
                    self.at(ErrorKind::OutOfRange, "local_address", format!("{address} is no address of a host"));
                self.errors.push(error);
                address
            }
            None if needed => {
                let error =
                    self.at(ErrorKind::Missing, "local_address", "is missing: gre+mpls needs an end of tunnels");
                self.errors.push(error.remedy("write local_address = \"192.0.2.1\" with an address of this gateway"));
                Ipv4Addr::UNSPECIFIED
            }
            None => Ipv4Addr::UNSPECIFIED,
        }
    }

    fn gateways(&mut self, ports: &Ports, local: Ipv4Addr) -> Vec<Gateway> {
        let config = self.config;
        config.gateways.iter().filter_map(|(name, gateway)| self.gateway(name, gateway, ports, local)).collect()
    }

    fn gateway(&mut self, name: &str, config: &GatewayConfig, ports: &Ports, local: Ipv4Addr) -> Option<Gateway> {
        let is_tunnel = self.config.core_encapsulation == CoreEncapsulation::GreMpls;
        let mut wrong: Vec<(&str, String, String)> = Vec::new();
        let mut is_wrong = |key, problem: String, remedy: &str| wrong.push((key, problem, remedy.to_owned()));
        let links: Vec<Link<'_>> = self.links(ports).into_iter().filter(|link| link.side == Side::Core).collect();
        let link = links.iter().find(|link| link.name == config.port);
        if link.is_none() {
            let problem = format!("\"{}\" is no core port, and no interface on one", config.port);
            is_wrong("port", problem, &format!("choose one of {}", names(links.iter().map(|link| link.name))));
        }
        for (key, address) in [("address", Some(config.address)), ("via", config.via)] {
            if let Some(address) = address.filter(|address| !may_be_asked(*address)) {
                is_wrong(key, format!("{address} is no address of a host"), "");
            }
        }
        let own = self.interface_addresses(ports);
        for (key, address) in [("address", Some(config.address)), ("via", config.via)] {
            // That of tunnels has words of its own.
            let is_local = |address: &IpAddr| key == "address" && is_tunnel && *address == IpAddr::V4(local);
            if let Some(address) = address.filter(|address| own.contains(address) && !is_local(address)) {
                is_wrong(key, format!("{address} is this gateway's own address"), "write the other station's");
            }
        }
        let end = match config.address {
            IpAddr::V4(address) => Some(address).filter(|_| is_tunnel),
            IpAddr::V6(address) if is_tunnel => {
                is_wrong("address", format!("{address} is of IPv6, and tunnels are of IPv4"), "write an IPv4 address");
                None
            }
            IpAddr::V6(_) => None,
        };
        if self.env.ports.iter().any(|port| port.name == name) {
            is_wrong("port", format!("a port has the name \"{name}\", too"), "give the gateway another");
        }
        if is_tunnel && config.address == local {
            is_wrong("address", format!("{local} is this end of the tunnel"), "write the other end's");
        }
        let mac = config.mac.map(|mac| MacAddr(mac.octets()));
        if let Some(mac) = mac.filter(|mac| !mac.is_unicast()) {
            is_wrong("mac", format!("{mac} is not the address of one station"), "");
        }
        if !is_tunnel && !config.labels.is_empty() {
            is_wrong(
                "labels",
                "has labels, and plain ip carries none".to_owned(),
                "leave them out, or choose gre+mpls",
            );
        }
        let entries: Vec<_> = config.labels.iter().map(crate::config::Label::entry).collect();
        for entry in &entries {
            if entry.label > 0xf_ffff || (1..16).contains(&entry.label) {
                let problem = format!("{} is a label that may not be pushed (RFC 3032 section 2.1)", entry.label);
                is_wrong("labels", problem, "choose 0 or 16 to 1048575");
            }
        }
        if let Some(link) = link.filter(|link| config.mtu.is_some_and(|mtu| mtu > link.mtu)) {
            let problem = format!("{} is more than the {} of \"{}\"", config.mtu.unwrap_or(0), link.mtu, link.name);
            is_wrong("mtu", problem, "lower it, or raise mtu of the port");
        }
        let is_right = wrong.is_empty();
        for (key, problem, remedy) in wrong {
            let root = self.element.path();
            let path = root.field("gateways");
            let path = path.entry(name);
            let error = self.element.error(ErrorKind::Conflict, &path.field(key), problem);
            self.errors.push(if remedy.is_empty() { error } else { error.remedy(remedy) });
        }
        let link = link.filter(|_| is_right)?;
        let bottom = entries.len();
        let labels =
            (1..).zip(&entries).map(|(n, entry)| mpls::Label::new(entry.label, entry.tc, n == bottom, entry.ttl));
        let (via, mtu) = (config.via.unwrap_or(config.address), config.mtu.unwrap_or(link.mtu));
        let labels: Vec<mpls::Label> = labels.collect();
        let tunnel = match (end, via) {
            (Some(end), _) => Some(Tunnel::new(&labels, self.outer(local, end), mtu)),
            (None, IpAddr::V4(_)) if config.mtu.is_some() || self.leads_six(name) => Some(Tunnel::plain(mtu)),
            (None, _) => None,
        };
        Some(Gateway { name: name.to_owned(), port: link.name.to_owned(), via, mac, tunnel, end })
    }

    /// Whether an IPv6 route leads to a gateway.
    fn leads_six(&self, name: &str) -> bool {
        self.config.routes_ipv6.values().any(|gateways| gateways.iter().any(|gateway| gateway == name))
    }

    fn outer(&self, local: Ipv4Addr, address: Ipv4Addr) -> Outer {
        let tunnel = &self.config.tunnel;
        Outer {
            source: local.to_bits(),
            destination: address.to_bits(),
            ttl: tunnel.ttl,
            dscp: match tunnel.dscp {
                TunnelDscp::Mode(_) => None,
                TunnelDscp::Value(dscp) => Some(dscp),
            },
            dont_fragment: tunnel.df,
        }
    }

    fn routes(&mut self, gateways: &[Gateway]) -> Vec<(IpNet, Vec<u32>)> {
        let known: HashMap<&str, u32> = gateways.iter().map(|gateway| gateway.name.as_str()).zip(0..).collect();
        let config = self.config;
        let mut routes: BTreeMap<IpNet, Vec<u32>> = BTreeMap::new();
        let four = config.routes.iter().map(|(prefix, names)| ("routes", IpNet::from(*prefix), names));
        let six = config.routes_ipv6.iter().map(|(prefix, names)| ("routes_ipv6", IpNet::from(*prefix), names));
        for (key, prefix, names) in four.chain(six) {
            let mut found = Vec::new();
            for name in names.iter() {
                match known.get(name.as_str()) {
                    Some(gateway) => found.push(*gateway),
                    // What is wrong with a gateway was said where it stands.
                    None if config.gateways.contains_key(name) => {}
                    None => {
                        let (root, text) = (self.element.path(), prefix.to_string());
                        let path = root.field(key);
                        let problem = format!("\"{name}\" is no gateway");
                        let error = self.element.error(ErrorKind::Dangling, &path.entry(&text), problem);
                        self.errors.push(error.allowed(self.names()));
                    }
                }
            }
            routes.insert(prefix, found);
        }
        if let Some(file) = &config.routes_csv {
            self.csv_routes(file, &known, &mut routes);
        }
        if routes.len() > config.limits.routes as usize {
            let problem = format!("{} routes, and limits.routes is {}", routes.len(), config.limits.routes);
            let error = self.at(ErrorKind::Limit, "routes", problem);
            self.errors.push(error.remedy("raise that limit"));
        }
        routes.into_iter().collect()
    }

    fn addresses6(&self) -> Vec<Ipv6Net> {
        let six = |net: IpNet| if let IpNet::V6(net) = net { Some(net) } else { None };
        self.config.addresses.iter().filter_map(|address| six(address.net())).collect()
    }

    /// Reads routes line by line; a wrong line does not keep the next ones from being looked at.
    fn csv_routes(&mut self, file: &FilePath, known: &HashMap<&str, u32>, routes: &mut BTreeMap<IpNet, Vec<u32>>) {
        let site = Site { element: self.element, path: self.element.path(), folder: self.env.folder };
        let mut errors = std::mem::take(&mut self.errors);
        ROUTES.read_file(file, site, &mut errors, |row, errors| {
            let Some(prefix) = row.read::<Ipv4Net>(ROUTES.column("prefix"), errors) else { return };
            let column = ROUTES.column("gateway");
            let mut found = Vec::new();
            for name in row.text(column).split(';').map(str::trim) {
                match known.get(name) {
                    Some(gateway) => found.push(*gateway),
                    None if self.config.gateways.contains_key(name) => {}
                    None => {
                        let error = row.error(column, ErrorKind::Dangling, "is no gateway");
                        errors.push(error.allowed(self.names()));
                    }
                }
            }
            if routes.insert(prefix.into(), found).is_some() {
                let error = row.error(ROUTES.column("prefix"), ErrorKind::Duplicate, "has a route already");
                errors.push(error.remedy("leave one out"));
            }
        });
        self.errors = errors;
    }

    /// The gateways that there are, for messages.
    fn names(&self) -> String {
        format!("one of {}", names(self.config.gateways.keys().map(String::as_str)))
    }

    /// The ports, and the interfaces on them.
    fn links(&self, ports: &Ports) -> Vec<Link<'a>> {
        let side = |index: u16| ports.list().iter().find(|port| port.index == index).map(|port| port.side);
        let ports = self.env.ports.iter().filter_map(|port| Some((port, side(port.index)?)));
        let ports: Vec<(&PortInfo, Side)> = ports.collect();
        let tagged = self.env.interfaces.iter().filter(|info| info.of == self.element.name() && !info.is_untagged());
        let tagged = tagged.filter_map(|info| {
            let (port, side) = *ports.iter().find(|(port, _)| info.on.as_deref() == Some(&*port.name))?;
            let mtu = info.mtu.unwrap_or(port.facts.mtu);
            Some(Link { side, name: &info.name, mtu, addresses: &info.addresses })
        });
        let untagged = ports.iter().map(|&(port, side)| {
            let PortInfo { name, facts, addresses, .. } = port;
            Link { side, name, mtu: facts.mtu, addresses }
        });
        untagged.chain(tagged).collect()
    }

    fn addresses(&mut self) -> Vec<Ipv4Net> {
        let mut found: Vec<Ipv4Net> = Vec::new();
        for (address, n) in self.config.addresses.iter().zip(1..) {
            match address.net() {
                IpNet::V4(net) if found.iter().any(|other| other.addr() == net.addr()) => {
                    let error = self.at_item(ErrorKind::Duplicate, "addresses", n, format!("{net} stands here twice"));
                    self.errors.push(error.remedy("leave one out"));
                }
                IpNet::V4(net) => found.push(net),
                IpNet::V6(_) => {}
            }
        }
        found
    }

    fn interface_addresses(&self, ports: &Ports) -> Vec<IpAddr> {
        let links = self.links(ports);
        links.iter().flat_map(|link| link.addresses).map(|address| address.net().addr()).collect()
    }

    /// Looks at the numbers in the maps of DSCPs and priorities, and at the outer header's.
    fn markings(&mut self) {
        const DSCP: u8 = 63;
        let mut wrong: Vec<(&str, u8, String)> = Vec::new();
        for (key, map, most) in [("pcp", &self.config.pcp, 7), ("dscp", &self.config.dscp, DSCP)] {
            for (from, to) in map {
                if *from > DSCP {
                    wrong.push((key, *from, format!("{from} is no DSCP, which are 0 to {DSCP}")));
                }
                if *to > most {
                    wrong.push((key, *from, format!("{to} is too much; the greatest is {most}")));
                }
            }
        }
        for (key, entry, problem) in wrong {
            let (root, text) = (self.element.path(), entry.to_string());
            let path = root.field(key);
            self.errors.push(self.element.error(ErrorKind::OutOfRange, &path.entry(&text), problem));
        }
        if self.config.tunnel.fragment && self.config.core_encapsulation == CoreEncapsulation::Ip {
            let root = self.element.path();
            let path = root.field("tunnel");
            let problem = "plain ip has no outer packet that could be fragmented";
            let error = self.element.error(ErrorKind::Conflict, &path.field("fragment"), problem);
            self.errors.push(error.remedy("leave it out, or choose gre+mpls"));
        }
        if let TunnelDscp::Value(value) = self.config.tunnel.dscp
            && value > DSCP
        {
            let root = self.element.path();
            let path = root.field("tunnel");
            let problem = format!("{value} is no DSCP, which are 0 to {DSCP}");
            self.errors.push(self.element.error(ErrorKind::OutOfRange, &path.field("dscp"), problem));
        }
    }

    fn at(&self, kind: ErrorKind, key: &str, problem: impl Into<String>) -> ConfigError {
        let root: Path<'_> = self.element.path();
        self.element.error(kind, &root.field(key), problem)
    }

    fn at_item(&self, kind: ErrorKind, key: &str, index: i64, problem: impl Into<String>) -> ConfigError {
        let root = self.element.path();
        let path = root.field(key);
        self.element.error(kind, &path.index(index), problem)
    }
}

/// Names for messages, the first few of them.
fn names<'a>(all: impl Iterator<Item = &'a str> + Clone) -> String {
    const SHOWN: usize = 8;
    let first: Vec<&str> = all.clone().take(SHOWN).collect();
    let more = if all.count() > SHOWN { ", ..." } else { "" };
    first.join(", ") + more
}

fn port(info: &PortInfo, side: Side) -> BngPort {
    BngPort { name: info.name.clone(), index: info.index, mac: MacAddr(info.facts.mac), mtu: info.facts.mtu, side }
}

/// Whether a router may have this address, which is asked for on its link.
fn may_be_asked(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_host(address),
        IpAddr::V6(address) => !(address.is_unspecified() || address.is_loopback() || address.is_multicast()),
    }
}

/// Whether a host may have this address.
fn is_host(address: Ipv4Addr) -> bool {
    !martian::is_martian_source(address.to_bits()) && !martian::is_link_local(address.to_bits())
}
