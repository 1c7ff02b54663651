//! From the keys of a gateway to those of its network layer: its ports, routes to gateways, and own addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use weir_config::{FilePath, MacAddress, OneOrMany, PacketRate, PortName};
use weir_ip::{
    Advertise, Function, Limits, LineLink, Lines, NO_FUNCTION, NamedNeighbor, NeighborTimers, Settings, TableKind, Via,
    Virtual, VrfConfig,
};

use super::SEED;
use crate::config::{BngConfig, CoreEncapsulation};
use crate::ports::Side;
use crate::wanted::Wanted;

/// What the network layer is to be.
#[derive(Debug)]
pub(crate) struct Keys {
    ports: Vec<PortName>,
    routes: BTreeMap<IpNet, OneOrMany<Via>>,
    neighbors: BTreeMap<NamedNeighbor, MacAddress>,
    own: Vec<Virtual>,
    icmp_rate: PacketRate,
    punt_rate: PacketRate,
    neighbor_timers: NeighborTimers,
    limits: Limits,
    vrfs: BTreeMap<String, VrfConfig>,
    advertise: BTreeMap<String, Advertise>,
    proxy_arp: Vec<PortName>,
    lines: Lines,
    function: Function,
}

/// The name of the interface that has the addresses towards customers.
pub(crate) fn access_name(function: &str) -> String {
    format!("{function}.access")
}

/// Next hops and interfaces that there is room for beside those of gateways: of routes that are added at run time.
const MORE: u32 = 4096;

impl Keys {
    /// Of a checked configuration of this name.
    pub(crate) fn new(name: &str, config: &BngConfig, wanted: &Wanted) -> Keys {
        let mut neighbors = BTreeMap::new();
        let mut hops: BTreeMap<IpNet, Vec<Via>> = BTreeMap::new();
        let mut lead = |net: IpNet, via: Via| {
            let vias = hops.entry(net).or_default();
            if !vias.contains(&via) {
                vias.push(via);
            }
        };
        let mut vias = Vec::new();
        for gateway in &wanted.gateways {
            let on: Box<str> = gateway.port.as_str().into();
            if let Some(mac) = gateway.mac {
                neighbors.insert(NamedNeighbor { address: gateway.via, on: Some(on.clone()) }, MacAddress::new(mac.0));
            }
            let router = Via::GatewayOn(gateway.via, on);
            let end = gateway.end.map(IpAddr::from).or(gateway.tunnel.as_ref().map(|_| gateway.via));
            if let Some(end) = end {
                lead(end.into(), router.clone());
            }
            vias.push(if gateway.tunnel.is_some() { Via::On(gateway.name.as_str().into()) } else { router });
        }
        for (net, gateways) in &wanted.routes {
            for via in gateways.iter().filter_map(|gateway| vias.get(*gateway as usize)) {
                lead(*net, via.clone());
            }
        }
        let routes = hops.into_iter().map(|(net, vias)| (net, OneOrMany(vias))).collect();
        Keys {
            // In the order of the gateway's positions.
            ports: config.access.iter().chain(&config.core).cloned().collect(),
            routes,
            neighbors,
            own: own(name, wanted),
            icmp_rate: config.icmp_rate,
            punt_rate: config.punt_rate,
            neighbor_timers: config.neighbor_timers.clone(),
            limits: limits(config, wanted),
            vrfs: config.vrfs.clone(),
            advertise: BTreeMap::new(),
            proxy_arp: Vec::new(),
            lines: lines(name, wanted),
            function: function(name, config),
        }
    }

    /// As the layer takes them.
    pub(crate) fn settings(&self) -> Settings<'_> {
        Settings {
            ports: &self.ports,
            routes: &self.routes,
            routes_csv: None::<&FilePath>,
            neighbors: &self.neighbors,
            vrfs: &self.vrfs,
            advertise: &self.advertise,
            proxy_arp: &self.proxy_arp,
            directed_broadcast: false,
            icmp_rate: self.icmp_rate,
            redirects: false,
            punt_rate: self.punt_rate,
            neighbor_timers: &self.neighbor_timers,
            table: TableKind::Dir24,
            limits: &self.limits,
            hash_seed: SEED,
            own: &self.own,
            needs_addresses: false,
            lines: Some(&self.lines),
            function: &self.function,
            linux: None,
        }
    }
}

/// Interfaces that are the gateway's own: one for each tunnel, and one with the addresses towards customers.
fn own(name: &str, wanted: &Wanted) -> Vec<Virtual> {
    let others: BTreeSet<IpAddr> = wanted.interface_addresses.iter().copied().collect();
    let four = wanted.addresses.iter().map(|net| IpAddr::from(net.addr()));
    let six = wanted.addresses6.iter().map(|net| IpAddr::from(net.addr()));
    let addresses: BTreeSet<IpAddr> = four.chain(six).filter(|address| !others.contains(address)).collect();
    let access = Virtual {
        name: access_name(name),
        addresses: addresses.into_iter().map(IpNet::from).collect(),
        vrf: None,
        tunnel: None,
    };
    let tunnels = wanted.gateways.iter().filter_map(|gateway| {
        let tunnel = gateway.tunnel.as_ref()?.as_interface(gateway.end.map_or(gateway.via, IpAddr::V4));
        Some(Virtual { name: gateway.name.clone(), vrf: None, addresses: Vec::new(), tunnel: Some(tunnel) })
    });
    tunnels.chain([access]).collect()
}

/// Customers' lines on the access ports.
fn lines(name: &str, wanted: &Wanted) -> Lines {
    let (four, six) = (wanted.addresses.iter().copied(), wanted.addresses6.iter().copied());
    let access = wanted.ports.list().iter().filter(|port| port.side == Side::Access);
    Lines {
        on: access_name(name),
        networks: four.map(IpNet::from).chain(six.map(IpNet::from)).collect(),
        links: access.map(|port| LineLink { mac: port.mac, mtu: port.mtu }).collect(),
    }
}

/// The gateway as routes know it: only where addresses alone say whose they are. In a tunnel two customers may have the same.
fn function(name: &str, config: &BngConfig) -> Function {
    match config.core_encapsulation {
        CoreEncapsulation::Ip => Function::with_silent_inlet(name, [None, None]),
        CoreEncapsulation::GreMpls => NO_FUNCTION.clone(),
    }
}

fn limits(config: &BngConfig, wanted: &Wanted) -> Limits {
    // Of customers: each route has an address, or a network, of its own.
    let own = if config.core_encapsulation == CoreEncapsulation::Ip { config.limits.bindings } else { 0 };
    let gateways = wanted.gateways.len() as u32;
    let six = wanted.routes.iter().filter(|(net, _)| matches!(net, IpNet::V6(_))).count();
    Limits {
        routes: config.limits.routes.saturating_add(own).saturating_add(2 * (gateways + MORE)),
        next_hops: 2 * (gateways + MORE),
        groups: 1024,
        long_prefix_networks: (own / 8).max(16_384),
        ipv6_lines: u32::try_from(64 * six + 4 * own as usize).unwrap_or(u32::MAX).clamp(1 << 17, 1 << 26),
        interfaces: (gateways + MORE) as u16,
        neighbors: 16_384,
        queue_per_neighbor: 8,
        queue: config.limits.queue,
        fragments: 256,
    }
}
