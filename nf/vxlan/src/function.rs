//! The function `vxlan` as the program sees it: its configuration, and what that comes to.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use ipnet::IpNet;
use weir_config::{ConfigError, ErrorKind, PortName};
use weir_ip::{NO_FUNCTION, Settings, TableKind, Virtual, VrfConfig, linux_needs};
use weir_stage::{Case, Description, Env, Function, Given, Graph, GraphError, Ground, Need, Prepared, Show, Verb};

use crate::cases;
use crate::config::{TunnelConfig, VxlanConfig};
use crate::running::{Running, SHOWS, Shape};
use crate::tunnels::Tunnels;

/// The function `vxlan`.
#[derive(Debug)]
pub struct Vxlan;

/// A function has its own network layer: that is its VRF.
static NO_VRFS: BTreeMap<String, VrfConfig> = BTreeMap::new();
static NOTHING_TOLD: BTreeMap<String, weir_ip::Advertise> = BTreeMap::new();

impl Function for Vxlan {
    type Config = VxlanConfig;
    type Description = Described;

    fn kind(&self) -> &'static str {
        "vxlan"
    }

    fn ports(&self, given: &Given<'_, VxlanConfig>) -> Vec<String> {
        let config = given.config;
        config.ports.iter().chain(config.tunnels.keys()).map(PortName::to_string).collect()
    }

    fn has_interfaces(&self, given: &Given<'_, VxlanConfig>, port: &str) -> bool {
        given.config.ports.iter().any(|one| one.as_str() == port)
    }

    /// Frames of tunnels are to whatever station; others are to the function, or dropped (RFC 1812 section 3.4).
    fn promiscuous(&self, given: &Given<'_, VxlanConfig>, port: &str) -> bool {
        !self.has_interfaces(given, port)
    }

    fn needs(&self, given: &Given<'_, VxlanConfig>) -> Vec<Need> {
        linux_needs(given.config.linux.as_ref(), &NO_VRFS)
    }

    fn describe(&self, given: &Given<'_, VxlanConfig>, env: &Env<'_>) -> Result<Described, Vec<ConfigError>> {
        let (element, config) = (given.element, given.config);
        let mut wrong = wrong(given);
        let running: Option<&Running> = env.running.and_then(|running| running.downcast_ref());
        let own = own(given, env);
        let settings = settings(config, &own);
        let before = running.map(|running| &running.layer);
        let layer = weir_ip::Described::new((element, given.name()), settings, env, before, false);
        let layer = layer.map_err(|more| wrong.extend(more));
        let (Ok(layer), true) = (layer, wrong.is_empty()) else { return Err(wrong) };
        let indices = |names: &mut dyn Iterator<Item = &PortName>| -> Vec<u16> {
            names.filter_map(|name| env.port(name)).map(|port| port.index).collect()
        };
        let ports = indices(&mut config.ports.iter());
        let ends = indices(&mut config.tunnels.keys());
        let tunnels = Arc::new(Tunnels::new(config.tunnels.values(), config.udp_port, &ends));
        let shape = Shape { name: given.name().to_owned(), ports, ends, layer: layer.stages().clone() };
        Ok(Described { config: Arc::clone(config), shape, tunnels, layer })
    }

    fn verbs(&self) -> &'static [Verb] {
        weir_ip::VERBS
    }

    fn cases(&self) -> Vec<Case> {
        cases::all()
    }

    fn shows(&self) -> &'static [Show] {
        static ALL: LazyLock<Vec<Show>> = LazyLock::new(|| [SHOWS, weir_ip::SHOWS].concat());
        &ALL
    }
}

/// What is wrong with tunnels beyond their schema.
fn wrong(given: &Given<'_, VxlanConfig>) -> Vec<ConfigError> {
    let (element, config) = (given.element, given.config);
    let root = element.path();
    let path = root.field("tunnels");
    let mut seen: HashMap<_, &PortName> = HashMap::new();
    let mut wrong = Vec::new();
    for (port, tunnel) in &config.tunnels {
        let at = path.entry(port.as_str());
        let mut refuse = |kind, field, problem: String, allowed: &str| {
            wrong.push(element.error(kind, &at.field(field), problem).allowed(allowed.to_owned()));
        };
        if config.ports.contains(port) {
            let problem = format!("\"{port}\" is one of `ports`, too");
            refuse(ErrorKind::Conflict, "vni", problem, "a port of its own, such as one end of a joint");
        }
        for (field, address) in [("source", tunnel.source), ("remote", tunnel.remote)] {
            if !is_end(address) {
                let problem = format!("{address} can be no end of a tunnel");
                refuse(ErrorKind::OutOfRange, field, problem, "the unicast address of one host, and none of a link");
            }
        }
        if tunnel.source.is_ipv4() != tunnel.remote.is_ipv4() {
            let problem = format!("{} is of another family than `source`, {}", tunnel.remote, tunnel.source);
            refuse(ErrorKind::Conflict, "remote", problem, "two addresses of IPv4, or two of IPv6");
        }
        if config.tunnels.values().any(|other| other.source == tunnel.remote) {
            let problem = format!("{} is an own end, the `source` of a tunnel", tunnel.remote);
            refuse(ErrorKind::Conflict, "remote", problem, "the address of the end point at the other place");
        }
        if let Some(other) = seen.insert((tunnel.vni, tunnel.source, tunnel.remote), port) {
            let problem = format!("{} leads from {} to {}", tunnel.vni, tunnel.source, tunnel.remote);
            let problem = format!("{problem} for \"{other}\" already");
            refuse(ErrorKind::Conflict, "vni", problem, "one tunnel for a segment between two ends");
        }
    }
    wrong
}

/// Whether an address can be one end of a tunnel.
fn is_end(address: IpAddr) -> bool {
    let is_special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    let is_of_link = match address {
        IpAddr::V4(address) => address.is_broadcast() || address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address.to_ipv4_mapped().is_some(),
    };
    !is_special && !is_of_link
}

/// The interface that has the own ends of tunnels which no other interface has.
fn own(given: &Given<'_, VxlanConfig>, env: &Env<'_>) -> Vec<Virtual> {
    let ports = given.config.ports.iter().filter_map(|name| env.port(name));
    let interfaces = env.interfaces.iter().filter(|interface| interface.of == given.name());
    let said = ports.flat_map(|port| &port.addresses);
    let said = said.chain(interfaces.flat_map(|interface| &interface.addresses)).map(|address| address.address());
    let mut seen: HashSet<IpAddr> = said.collect();
    let sources = given.config.tunnels.values().map(|tunnel: &TunnelConfig| tunnel.source);
    let addresses: Vec<IpNet> = sources.filter(|source| seen.insert(*source)).map(IpNet::from).collect();
    let name = format!("{}.ends", given.name());
    if addresses.is_empty() { Vec::new() } else { vec![Virtual { name, vrf: None, addresses, tunnel: None }] }
}

/// What the layer takes.
fn settings<'c>(config: &'c VxlanConfig, own: &'c [Virtual]) -> Settings<'c> {
    Settings {
        ports: &config.ports,
        routes: &config.routes,
        routes_csv: None,
        neighbors: &config.neighbors,
        vrfs: &NO_VRFS,
        advertise: &NOTHING_TOLD,
        proxy_arp: &[],
        directed_broadcast: false,
        icmp_rate: config.icmp_rate,
        redirects: false,
        punt_rate: config.punt_rate,
        neighbor_timers: &config.neighbor_timers,
        table: TableKind::Dir24,
        limits: &config.limits,
        hash_seed: config.hash_seed,
        own,
        needs_addresses: true,
        lines: None,
        function: &NO_FUNCTION,
        linux: config.linux.as_ref(),
    }
}

/// What tunnels come to.
pub struct Described {
    config: Arc<VxlanConfig>,
    shape: Shape,
    tunnels: Arc<Tunnels>,
    layer: weir_ip::Described,
}

impl Description for Described {
    type Running = Running;

    fn sketch(&self, _replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(None)
    }

    fn instantiate(self, ground: &Ground<'_>, old: Option<&Running>) -> Result<Running, Vec<ConfigError>> {
        let Described { config, shape, tunnels, layer } = self;
        let layer = layer.instantiate(ground, old.map(|old| &old.layer))?;
        Ok(Running { shape, config, layer, tunnels })
    }

    fn change(self, running: &Running, env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        let layer = self.layer.change(&running.layer, env)?;
        Ok(Box::new(move |now| {
            layer(now);
        }))
    }
}
