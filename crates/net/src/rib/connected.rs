//! Connected networks, and what hops lead to.

use super::hop::{Bound, Hop};
use super::hops::Key;
use crate::interface::InterfaceId;
use crate::nexthop::{NextHop, Towards};
use crate::vrf::VrfId;
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

/// Networks of one length and family in one VRF.
type Length = (VrfId, bool, u8);

/// The interfaces on which a network is connected, for each network.
#[derive(Debug, Default)]
pub(super) struct Connected {
    interfaces: HashMap<(VrfId, IpNet), Vec<InterfaceId>>,
    /// The same by interface.
    networks: BTreeSet<(InterfaceId, VrfId, IpNet)>,
    /// Lengths of the prefixes that occur, each with how often.
    lengths: BTreeMap<Length, usize>,
}

impl Connected {
    /// `network` is connected by these of `hops` that are interfaces; by none: not any more. Answers whether that is new.
    pub(super) fn set(&mut self, vrf: VrfId, network: IpNet, hops: impl Iterator<Item = Hop>) -> bool {
        let interface = |hop| if let Hop::On(interface) = hop { Some(interface) } else { None };
        let interfaces: Vec<InterfaceId> = hops.filter_map(interface).collect();
        let is_there = !interfaces.is_empty();
        let at = (vrf, network);
        let before =
            if is_there { self.interfaces.insert(at, interfaces.clone()) } else { self.interfaces.remove(&at) };
        if is_there != before.is_some() {
            let length = length_of(vrf, network.addr(), network.prefix_len());
            let count = self.lengths.entry(length).or_default();
            *count = if is_there { *count + 1 } else { *count - 1 };
            if *count == 0 {
                self.lengths.remove(&length);
            }
        }
        let before = before.unwrap_or_default();
        for interface in &before {
            self.networks.remove(&(*interface, vrf, network));
        }
        self.networks.extend(interfaces.iter().map(|interface| (*interface, vrf, network)));
        before != interfaces
    }

    /// The next hop or inlet that a hop is, and whether it can be used now. `None`: a gateway on no network whose link is up, or a hop that
    /// leads nowhere, which can always be used.
    pub(super) fn resolve(&self, bound: Bound, up: &BTreeSet<InterfaceId>) -> (Option<Towards>, bool) {
        let link = |interface, gateway| Towards::Link(NextHop { interface, gateway });
        match bound.hop {
            Hop::On(interface) => (Some(link(interface, None)), up.contains(&interface)),
            Hop::ViaOn(gateway, interface) => (Some(link(interface, Some(gateway))), up.contains(&interface)),
            Hop::Via(gateway) => {
                let interface = self.interface_of(bound.vrf, gateway, up);
                (interface.map(|interface| link(interface, Some(gateway))), interface.is_some())
            }
            Hop::Into(inlet) => (Some(Towards::Function(inlet)), true),
            Hop::Discard(_) => (None, true),
        }
    }

    /// Gateways that may be reached by an interface.
    pub(super) fn gateways_on(&self, interface: InterfaceId) -> impl Iterator<Item = (Key, Key)> {
        // In order, the networks of an interface begin with those of VRF 0, and the lowest of them.
        let from = (interface, VrfId::MIN, IpNet::default());
        let on_interface = self.networks.range(from..).take_while(move |(other, ..)| *other == interface);
        on_interface.map(|&(_, vrf, network)| Key::gateways_in(vrf, network))
    }

    /// The interface of the longest connected network around `address` whose link is up; of several interfaces the lowest.
    fn interface_of(&self, vrf: VrfId, address: IpAddr, up: &BTreeSet<InterfaceId>) -> Option<InterfaceId> {
        let lengths = length_of(vrf, address, 0)..=length_of(vrf, address, u8::MAX);
        self.lengths.range(lengths).rev().find_map(|(&(.., length), _)| {
            let network = IpNet::new(address, length).ok()?.trunc();
            self.interfaces.get(&(vrf, network))?.iter().copied().filter(|interface| up.contains(interface)).min()
        })
    }
}

const fn length_of(vrf: VrfId, address: IpAddr, length: u8) -> Length {
    (vrf, address.is_ipv6(), length)
}
