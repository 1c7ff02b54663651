//! Connected networks, and what hops lead to.

use super::hop::{Bound, Hop};
use super::hops::Key;
use crate::interface::PortId;
use crate::nexthop::NextHop;
use crate::vrf::VrfId;
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

/// Networks of one length and family in one VRF.
type Length = (VrfId, bool, u8);

/// The ports on which a network is connected, for each network.
#[derive(Debug, Default)]
pub(super) struct Connected {
    ports: HashMap<(VrfId, IpNet), Vec<PortId>>,
    /// The same by port.
    networks: BTreeSet<(PortId, VrfId, IpNet)>,
    /// Lengths of the prefixes that occur, each with how often.
    lengths: BTreeMap<Length, usize>,
}

impl Connected {
    /// `network` is connected by these of `hops` that are ports; by none: not any more. Answers whether that is new.
    pub(super) fn set(&mut self, vrf: VrfId, network: IpNet, hops: impl Iterator<Item = Hop>) -> bool {
        let port = |hop| if let Hop::On(port) = hop { Some(port) } else { None };
        let ports: Vec<PortId> = hops.filter_map(port).collect();
        let is_there = !ports.is_empty();
        let at = (vrf, network);
        let before = if is_there { self.ports.insert(at, ports.clone()) } else { self.ports.remove(&at) };
        if is_there != before.is_some() {
            let length = length_of(vrf, network.addr(), network.prefix_len());
            let count = self.lengths.entry(length).or_default();
            *count = if is_there { *count + 1 } else { *count - 1 };
            if *count == 0 {
                self.lengths.remove(&length);
            }
        }
        let before = before.unwrap_or_default();
        for port in &before {
            self.networks.remove(&(*port, vrf, network));
        }
        self.networks.extend(ports.iter().map(|port| (*port, vrf, network)));
        before != ports
    }

    /// The next hop that a hop is, and whether it can be used now. `None`: a gateway on no network whose link is up, or a hop that
    /// leads nowhere, which can always be used.
    pub(super) fn resolve(&self, bound: Bound, up: &BTreeSet<PortId>) -> (Option<NextHop>, bool) {
        match bound.hop {
            Hop::On(port) => (Some(NextHop { port, gateway: None }), up.contains(&port)),
            Hop::ViaOn(gateway, port) => (Some(NextHop { port, gateway: Some(gateway) }), up.contains(&port)),
            Hop::Via(gateway) => {
                let port = self.port_of(bound.vrf, gateway, up);
                (port.map(|port| NextHop { port, gateway: Some(gateway) }), port.is_some())
            }
            Hop::Discard(_) => (None, true),
        }
    }

    /// Gateways that may be reached by a port.
    pub(super) fn gateways_on(&self, port: PortId) -> impl Iterator<Item = (Key, Key)> {
        // In order, the networks of a port begin with those of VRF 0, and the lowest of them.
        let from = (port, VrfId::MIN, IpNet::default());
        let on_port = self.networks.range(from..).take_while(move |(other, ..)| *other == port);
        on_port.map(|&(_, vrf, network)| Key::gateways_in(vrf, network))
    }

    /// The port of the longest connected network around `address` whose link is up; of several ports the lowest.
    fn port_of(&self, vrf: VrfId, address: IpAddr, up: &BTreeSet<PortId>) -> Option<PortId> {
        let lengths = length_of(vrf, address, 0)..=length_of(vrf, address, u8::MAX);
        self.lengths.range(lengths).rev().find_map(|(&(.., length), _)| {
            let network = IpNet::new(address, length).ok()?.trunc();
            self.ports.get(&(vrf, network))?.iter().copied().filter(|port| up.contains(port)).min()
        })
    }
}

const fn length_of(vrf: VrfId, address: IpAddr, length: u8) -> Length {
    (vrf, address.is_ipv6(), length)
}
