//! Neighbours of the instance that another one replaces.

use std::net::IpAddr;

use weir_net::RouteSource;
use weir_net::neighbor::Neighbor;

use super::{Control, Routable};

use crate::InterfaceId;

impl Control {
    /// Takes over neighbours of the instance that this one replaces, on interfaces of these names: those that were added at run time or
    /// learned.
    pub(crate) fn adopt_neighbors(&mut self, old: &[(String, Neighbor<IpAddr>)], now: u64) {
        for (name, neighbor) in old {
            let Some(id) = self.interfaces.find(name).map(|found| found.id) else { continue };
            match neighbor.address {
                IpAddr::V4(address) => self.adopt_neighbor(id, address, neighbor, now),
                IpAddr::V6(address) => self.adopt_neighbor(id, address, neighbor, now),
            }
        }
    }

    fn adopt_neighbor<A: Routable>(&mut self, id: InterfaceId, address: A, old: &Neighbor<IpAddr>, now: u64) {
        let is_near = address.is_link_local() && !self.addresses_on::<A>(id).is_empty() || self.is_on_link(id, address);
        let Some(mac) = old.mac.filter(|_| is_near) else { return };
        match old.source {
            RouteSource::Cli => drop(self.add_static(now, id, address, mac, old.source)),
            RouteSource::Learned => {
                let mut events = Vec::new();
                A::side_mut(self).neighbors.learn_again(now, id, address, mac, &mut events);
                self.absorb(events);
            }
            RouteSource::Connected | RouteSource::Config | RouteSource::Function | RouteSource::Linux => {}
        }
    }
}
