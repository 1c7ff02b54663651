//! Connected networks, and what hops lead to.

use super::Hop;
use crate::interface::PortId;
use crate::nexthop::NextHop;
use ipnet::Ipv4Net;
use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;

/// The ports on which a network is connected, for each network.
#[derive(Debug, Default)]
pub(super) struct Connected {
    ports: HashMap<Ipv4Net, Vec<PortId>>,
    /// Lengths of the prefixes that occur, each with how often.
    lengths: HashMap<u8, usize>,
}

impl Connected {
    /// `network` is connected by these of `hops` that are ports; by none: not any more. Answers whether that is new.
    pub(super) fn set(&mut self, network: Ipv4Net, hops: &[Hop]) -> bool {
        let port = |hop: &Hop| if let Hop::On(port) = hop { Some(*port) } else { None };
        let ports: Vec<PortId> = hops.iter().filter_map(port).collect();
        let is_there = !ports.is_empty();
        let before = if is_there { self.ports.insert(network, ports.clone()) } else { self.ports.remove(&network) };
        if is_there != before.is_some() {
            let count = self.lengths.entry(network.prefix_len()).or_default();
            *count = if is_there { *count + 1 } else { *count - 1 };
            self.lengths.retain(|_, count| *count > 0);
        }
        before.unwrap_or_default() != ports
    }

    /// The next hop that `hop` is, and whether it can be used now. `None`: a gateway on no network whose link is up.
    pub(super) fn resolve(&self, hop: Hop, up: &BTreeSet<PortId>) -> (Option<NextHop>, bool) {
        match hop {
            Hop::On(port) => (Some(NextHop { port, gateway: None }), up.contains(&port)),
            Hop::ViaOn(gateway, port) => (Some(NextHop { port, gateway: Some(gateway) }), up.contains(&port)),
            Hop::Via(gateway) => {
                let port = self.port_of(gateway, up);
                (port.map(|port| NextHop { port, gateway: Some(gateway) }), port.is_some())
            }
        }
    }

    /// The port of the longest connected network around `address` whose link is up; of several ports the lowest.
    fn port_of(&self, address: Ipv4Addr, up: &BTreeSet<PortId>) -> Option<PortId> {
        let candidates = self.lengths.keys().filter_map(|&length| {
            let network = Ipv4Net::new(address, length).ok()?.trunc();
            let port = self.ports.get(&network)?.iter().copied().filter(|port| up.contains(port)).min()?;
            Some((length, port))
        });
        candidates.max_by_key(|&(length, _)| length).map(|(_, port)| port)
    }
}
