//! From a configuration to what the gateway is made of, with all errors at once: ports, gateways, routes, addresses.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_config::{ConfigError, Element, ErrorKind, Errors, FilePath, Path, PortName};
use weir_stage::{Argument, Collection, Env, Given, PortInfo, Site};
use weir_wire::{MacAddr, martian, mpls};

use crate::config::{BngConfig, CoreEncapsulation, GatewayConfig, TunnelDscp};
use crate::encap::Outer;
use crate::fib::Gateway;
use crate::ports::{BngPort, Ports, Side};
use crate::qos;

const PREFIX: Argument =
    Argument { name: "prefix", keyword: None, required: true, many: false, help: "The prefix, such as 10.1.0.0/16" };

/// The IPv4 routes, which nothing but the configuration changes.
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
    /// Prefixes, and positions of their gateways.
    pub(crate) routes: Vec<(Ipv4Net, u32)>,
    /// The same for IPv6.
    pub(crate) routes6: Vec<(Ipv6Net, u32)>,
    /// The gateway's IPv6 addresses towards customers.
    pub(crate) addresses6: Vec<Ipv6Net>,
    /// The gateway's addresses towards customers.
    pub(crate) addresses: Vec<Ipv4Net>,
    /// Addresses of its core ports.
    pub(crate) core_addresses: Vec<(u8, Ipv4Net)>,
    /// Its end of tunnels; 0.0.0.0 with plain IP.
    pub(crate) local: Ipv4Addr,
    /// What is wrong with all that, which is left out of it.
    pub(crate) wrong: Vec<ConfigError>,
}

/// What a configuration wants, and everything that is wrong with it beyond its schema, but for subscribers.
pub(crate) fn wanted(given: &Given<'_, BngConfig>, env: &Env<'_>) -> Wanted {
    let mut loader = Loader { element: given.element, env, config: given.config, errors: Errors::new() };
    let ports = loader.ports();
    let local = loader.local();
    let gateways = loader.gateways(&ports, local);
    let routes = loader.routes(&gateways);
    let routes6 = loader.routes6(&gateways);
    let (addresses, addresses6) = (loader.addresses(), loader.addresses6());
    let core_addresses = loader.core_addresses(&ports);
    loader.markings();
    let Loader { mut errors, .. } = loader;
    qos::faults(given).into_iter().for_each(|error| errors.push(error));
    let wrong = errors.into_result(()).err().unwrap_or_default();
    Wanted { ports: Arc::new(ports), gateways, routes, routes6, addresses, addresses6, core_addresses, local, wrong }
}

struct Loader<'a> {
    element: &'a Element,
    env: &'a Env<'a>,
    config: &'a BngConfig,
    errors: Errors,
}

impl Loader<'_> {
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
        let mut positions = (0..).zip(ports.list());
        let port = positions.find(|(_, port)| port.side == Side::Core && port.name == config.port.as_str());
        if port.is_none() {
            let core: Vec<&str> = self.config.core.iter().map(PortName::as_str).collect();
            let problem = format!("\"{}\" is no core port", config.port);
            is_wrong("port", problem, &format!("choose one of {}", core.join(", ")));
        }
        for (key, address) in [("address", Some(config.address)), ("via", config.via)] {
            if let Some(address) = address.filter(|address| !is_host(*address)) {
                is_wrong(key, format!("{address} is no address of a host"), "");
            }
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
        if let Some((_, port)) = port.filter(|(_, port)| config.mtu.is_some_and(|mtu| mtu > port.mtu)) {
            let problem =
                format!("{} is more than the {} of port \"{}\"", config.mtu.unwrap_or(0), port.mtu, port.name);
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
        let (position, port) = port.filter(|_| is_right)?;
        let bottom = entries.len();
        let labels =
            (1..).zip(&entries).map(|(n, entry)| mpls::Label::new(entry.label, entry.tc, n == bottom, entry.ttl));
        Some(Gateway {
            name: name.to_owned(),
            port: position,
            source: port.mac,
            via: config.via.unwrap_or(config.address),
            mac,
            labels: labels.collect(),
            outer: is_tunnel.then(|| self.outer(local, config.address)),
            mtu: config.mtu.unwrap_or(port.mtu),
        })
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

    fn routes(&mut self, gateways: &[Gateway]) -> Vec<(Ipv4Net, u32)> {
        let known: HashMap<&str, u32> = gateways.iter().map(|gateway| gateway.name.as_str()).zip(0..).collect();
        let mut routes: HashMap<Ipv4Net, u32> = HashMap::new();
        for (prefix, name) in &self.config.routes {
            match known.get(name.as_str()) {
                Some(gateway) => drop(routes.insert(*prefix, *gateway)),
                // What is wrong with a gateway was said where it stands.
                None if self.config.gateways.contains_key(name) => {}
                None => {
                    let (root, text) = (self.element.path(), prefix.to_string());
                    let path = root.field("routes");
                    let problem = format!("\"{name}\" is no gateway");
                    let error = self.element.error(ErrorKind::Dangling, &path.entry(&text), problem);
                    self.errors.push(error.allowed(self.names()));
                }
            }
        }
        if let Some(file) = &self.config.routes_csv {
            self.csv_routes(file, &known, &mut routes);
        }
        if routes.len() > self.config.limits.routes as usize {
            let problem = format!("{} routes, and limits.routes is {}", routes.len(), self.config.limits.routes);
            let error = self.at(ErrorKind::Limit, "routes", problem);
            self.errors.push(error.remedy("raise that limit"));
        }
        let mut routes: Vec<_> = routes.into_iter().collect();
        routes.sort_unstable();
        routes
    }

    fn routes6(&mut self, gateways: &[Gateway]) -> Vec<(Ipv6Net, u32)> {
        let known: HashMap<&str, u32> = gateways.iter().map(|gateway| gateway.name.as_str()).zip(0..).collect();
        let mut routes = Vec::new();
        for (prefix, name) in &self.config.routes_ipv6 {
            match known.get(name.as_str()) {
                Some(gateway) => routes.push((*prefix, *gateway)),
                // What is wrong with a gateway was said where it stands.
                None if self.config.gateways.contains_key(name) => {}
                None => {
                    let (root, text) = (self.element.path(), prefix.to_string());
                    let path = root.field("routes_ipv6");
                    let problem = format!("\"{name}\" is no gateway");
                    let error = self.element.error(ErrorKind::Dangling, &path.entry(&text), problem);
                    self.errors.push(error.allowed(self.names()));
                }
            }
        }
        routes
    }

    fn addresses6(&self) -> Vec<Ipv6Net> {
        let six = |net: IpNet| if let IpNet::V6(net) = net { Some(net) } else { None };
        self.config.addresses.iter().filter_map(|address| six(address.net())).collect()
    }

    /// Reads routes line by line; a wrong line does not keep the next ones from being looked at.
    fn csv_routes(&mut self, file: &FilePath, known: &HashMap<&str, u32>, routes: &mut HashMap<Ipv4Net, u32>) {
        let site = Site { element: self.element, path: self.element.path(), folder: self.env.folder };
        let mut errors = std::mem::take(&mut self.errors);
        ROUTES.read_file(file, site, &mut errors, |row, errors| {
            let Some(prefix) = row.read::<Ipv4Net>(ROUTES.column("prefix"), errors) else { return };
            let column = ROUTES.column("gateway");
            let name = row.text(column);
            let Some(gateway) = known.get(&*name) else {
                if !self.config.gateways.contains_key(&*name) {
                    let error = row.error(column, ErrorKind::Dangling, "is no gateway");
                    errors.push(error.allowed(self.names()));
                }
                return;
            };
            if routes.insert(prefix, *gateway).is_some() {
                let error = row.error(ROUTES.column("prefix"), ErrorKind::Duplicate, "has a route already");
                errors.push(error.remedy("leave one out"));
            }
        });
        self.errors = errors;
    }

    /// The gateways that there are, for messages.
    fn names(&self) -> String {
        const SHOWN: usize = 8;
        let names: Vec<&str> = self.config.gateways.keys().take(SHOWN).map(String::as_str).collect();
        let more = if self.config.gateways.len() > SHOWN { ", ..." } else { "" };
        format!("one of {}{more}", names.join(", "))
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

    fn core_addresses(&mut self, ports: &Ports) -> Vec<(u8, Ipv4Net)> {
        let mut found = Vec::new();
        let core = (0..).zip(ports.list()).filter(|(_, port)| port.side == Side::Core);
        for ((position, port), n) in core.zip(1..) {
            let info = self.env.ports.iter().find(|info| info.index == port.index);
            for address in info.into_iter().flat_map(|info| &info.addresses) {
                match address.net() {
                    IpNet::V4(net) => found.push((position, net)),
                    IpNet::V6(net) => {
                        let problem =
                            format!("port \"{}\" has the address {net}, and the core side speaks IPv4", port.name);
                        let error = self.at_item(ErrorKind::Conflict, "core", n, problem);
                        self.errors.push(error.remedy("leave that address out"));
                    }
                }
            }
        }
        found
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

fn port(info: &PortInfo, side: Side) -> BngPort {
    BngPort { name: info.name.clone(), index: info.index, mac: MacAddr(info.facts.mac), mtu: info.facts.mtu, side }
}

/// Whether a host may have this address.
fn is_host(address: Ipv4Addr) -> bool {
    !martian::is_martian_source(address.to_bits()) && !martian::is_link_local(address.to_bits())
}
