//! From the keys of a relay to those of its network layer.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use weir_config::{ConfigError, ErrorKind, PortName};
use weir_ip::{Function, Settings, TableKind, Virtual};
use weir_stage::{Env, Given};

use crate::config::LwaftrConfig;

/// The name of the interface that has the AFTR addresses which no other interface has.
pub(crate) fn tunnel_name(function: &str) -> String {
    format!("{function}.tunnels")
}

/// The addresses of the relay's ports and interfaces.
pub(crate) fn own_addresses(given: &Given<'_, LwaftrConfig>, env: &Env<'_>) -> Vec<IpAddr> {
    let ports = given.config.ports.iter().filter_map(|name: &PortName| env.port(name));
    let of_ports = ports.flat_map(|port| &port.addresses);
    let interfaces = env.interfaces.iter().filter(|interface| interface.of == given.name());
    of_ports.chain(interfaces.flat_map(|interface| &interface.addresses)).map(|address| address.address()).collect()
}

/// The interfaces that a relay has by itself.
pub(crate) fn own(given: &Given<'_, LwaftrConfig>, own: &[IpAddr]) -> Vec<Virtual> {
    let vrf = given.config.ipv6.vrf.clone();
    let mut seen: HashSet<IpAddr> = own.iter().copied().collect();
    let others = given.config.aftr.iter().copied().map(IpAddr::from).filter(|address| seen.insert(*address));
    let addresses: Vec<IpNet> = others.map(IpNet::from).collect();
    match addresses.is_empty() {
        true => Vec::new(),
        false => vec![Virtual { name: tunnel_name(given.name()), vrf, addresses, tunnel: None }],
    }
}

/// The relay as routes know it.
pub(crate) fn function(given: &Given<'_, LwaftrConfig>) -> Function {
    let config = given.config;
    Function::with_inlet(given.name(), [&config.ipv4, &config.ipv6].map(|side| side.vrf.clone()))
}

/// What the layer takes.
pub(crate) fn settings<'c>(config: &'c LwaftrConfig, own: &'c [Virtual], function: &'c Function) -> Settings<'c> {
    Settings {
        ports: &config.ports,
        routes: &config.routes,
        routes_csv: config.routes_csv.as_ref(),
        neighbors: &config.neighbors,
        vrfs: &config.vrfs,
        advertise: &config.advertise,
        proxy_arp: &config.proxy_arp,
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
        function,
        linux: config.linux.as_ref(),
    }
}

/// The address that ICMPv4 errors come from.
///
/// # Errors
///
/// There is none.
pub(crate) fn icmp_source(given: &Given<'_, LwaftrConfig>, own: &[IpAddr]) -> Result<Ipv4Addr, Box<ConfigError>> {
    let first = own.iter().find_map(|address| match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    });
    given.config.icmp_source.or(first).ok_or_else(|| {
        let (element, root) = (given.element, given.element.path());
        let problem = "is missing, and no interface of the relay has an IPv4 address that errors could come from";
        Box::new(element.error(ErrorKind::Missing, &root.field("icmp_source"), problem.to_owned()))
    })
}

/// What is wrong with the names of interfaces of both sides.
pub(crate) fn wrong_interfaces(given: &Given<'_, LwaftrConfig>, env: &Env<'_>) -> Vec<ConfigError> {
    let (element, config) = (given.element, given.config);
    let ports = config.ports.iter().map(PortName::as_str);
    let declared = env.interfaces.iter().filter(|interface| interface.of == given.name());
    let known: Vec<&str> = ports.chain(declared.map(|interface| interface.name.as_str())).collect();
    let mut wrong = Vec::new();
    for (key, side) in [("ipv4", &config.ipv4), ("ipv6", &config.ipv6)] {
        for name in side.interfaces.iter().filter(|name| !known.contains(&name.as_str())) {
            let root = element.path();
            let side = root.field(key);
            let problem = format!("\"{name}\" is no interface of this function");
            let error = element.error(ErrorKind::Dangling, &side.field("interfaces"), problem);
            wrong.push(error.allowed(format!("one of {}", known.join(", "))));
        }
    }
    wrong
}
