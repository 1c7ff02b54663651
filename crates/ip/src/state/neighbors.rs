//! Neighbours of both families: who enters them, whom packets ask for, and what forwarding is told of what happens to them.

use std::collections::HashSet;
use std::net::IpAddr;

use weir_net::neighbor::{Event, Neighbor, Resolution};
use weir_net::nexthop::NextHop;
use weir_net::rib::Hop;
use weir_net::{Family, RouteSource};
use weir_wire::MacAddr;

use super::{Control, Routable};
use crate::InterfaceId;
use crate::state::shared::CHANGES;

impl Control {
    /// Neighbours of the configuration that are not `wanted` any more.
    pub(crate) fn unwanted_neighbors(&self, wanted: &[(InterfaceId, IpAddr, MacAddr)]) -> Vec<(InterfaceId, IpAddr)> {
        let wanted: HashSet<_> = wanted.iter().map(|&(interface, address, _)| (interface, address)).collect();
        let ours = self.neighbors().filter(|neighbor| neighbor.source == RouteSource::Config);
        ours.map(|neighbor| (neighbor.interface, neighbor.address)).filter(|key| !wanted.contains(key)).collect()
    }

    /// Forgets neighbours.
    pub(crate) fn remove_neighbors(&mut self, gone: &[(InterfaceId, IpAddr)]) {
        for &(interface, address) in gone {
            match address {
                IpAddr::V4(address) => self.remove_neighbor(interface, address),
                IpAddr::V6(address) => self.remove_neighbor(interface, address),
            }
        }
    }

    fn remove_neighbor<A: Routable>(&mut self, interface: InterfaceId, address: A) {
        let mut events = Vec::new();
        A::side_mut(self).neighbors.remove(interface, address, &mut events);
        self.absorb(events);
    }

    /// Enters neighbours of the configuration.
    pub(crate) fn add_config_neighbors(&mut self, wanted: &[(InterfaceId, IpAddr, MacAddr)], now: u64) {
        for &(interface, address, mac) in wanted {
            self.add_neighbor(now, (interface, address), mac, RouteSource::Config);
        }
    }

    /// Enters a neighbour by hand. Answers whether it can be one, and there was room.
    pub(crate) fn add_neighbor(
        &mut self,
        now: u64,
        station: (InterfaceId, IpAddr),
        mac: MacAddr,
        source: RouteSource,
    ) -> bool {
        match station {
            (interface, IpAddr::V4(address)) => self.add_static(now, interface, address, mac, source),
            (interface, IpAddr::V6(address)) => self.add_static(now, interface, address, mac, source),
        }
    }

    pub(super) fn add_static<A: Routable>(
        &mut self,
        now: u64,
        interface: InterfaceId,
        address: A,
        mac: MacAddr,
        source: RouteSource,
    ) -> bool {
        let mut events = Vec::new();
        let added = A::side_mut(self).neighbors.add_static(now, interface, address, mac, source, &mut events);
        self.absorb(events);
        added
    }

    /// The neighbour that packets to an address go to by a next hop; it is asked for if it is not known.
    pub(crate) fn resolve(&mut self, now: u64, next_hop: NextHop, destination: IpAddr) -> Resolution {
        // The neighbour may be of another family than the packet (RFC 8950).
        match next_hop.neighbor(destination) {
            IpAddr::V4(address) => self.ask_for(now, next_hop.interface, address),
            IpAddr::V6(address) => self.ask_for(now, next_hop.interface, address),
        }
    }

    fn ask_for<A: Routable>(&mut self, now: u64, interface: InterfaceId, address: A) -> Resolution {
        let mut events = Vec::new();
        let resolution = A::side_mut(self).neighbors.resolve(now, interface, address, &mut events);
        self.absorb(events);
        resolution
    }

    /// All neighbours of both families, by interface and address.
    pub(crate) fn neighbors(&self) -> impl Iterator<Item = Neighbor<IpAddr>> {
        self.four.neighbors.iter().map(widen).chain(self.six.neighbors.iter().map(widen))
    }

    /// A neighbour's entry.
    pub(crate) fn neighbor(&self, interface: InterfaceId, address: IpAddr) -> Option<Neighbor<IpAddr>> {
        match address {
            IpAddr::V4(address) => self.four.neighbors.get(interface, address).map(widen),
            IpAddr::V6(address) => self.six.neighbors.get(interface, address).map(widen),
        }
    }

    /// Brings forwarding up to what happened to neighbours, and leaves the rest to the slow path. Where it is much, most of it waits for
    /// [`Control::catch_up`].
    pub(crate) fn absorb<A: Routable>(&mut self, events: Vec<Event<A>>) {
        let side = A::side_mut(self);
        let is_first = side.backlog.is_empty();
        side.backlog.extend(events);
        if is_first {
            self.work_backlog_off::<A>(CHANGES);
        }
    }

    /// Whether forwarding knows all that happened to neighbours.
    pub(crate) fn knows_neighbors(&self) -> bool {
        self.four.backlog.is_empty() && self.six.backlog.is_empty()
    }

    /// Tells forwarding of so many events of a family at most; answers of how many.
    pub(super) fn work_backlog_off<A: Routable>(&mut self, most: usize) -> usize {
        let backlog = &mut A::side_mut(self).backlog;
        let events: Vec<Event<A>> = backlog.drain(..most.min(backlog.len())).collect();
        events.iter().for_each(|event| self.absorb_one(event));
        let done = events.len();
        self.outbox.extend(events.into_iter().map(A::told));
        if self.knows_neighbors() {
            self.open_waiting();
        }
        done
    }

    fn absorb_one<A: Routable>(&mut self, event: &Event<A>) {
        match *event {
            Event::Resolved { interface, address, mac } | Event::Changed { interface, address, mac } => {
                self.routing.set_mac(interface, address.into(), Some(mac));
                if self.is_on_link(interface, address) {
                    // Without a route of its own a known neighbour is still reached, by way of the slow path.
                    let hop = Hop::ViaOn(address.into(), interface);
                    _ = self.routing.replace(self.host(interface, address), RouteSource::Learned, &[hop]);
                }
                self.publish_on(interface);
            }
            Event::Failed { interface, address } | Event::Removed { interface, address } => {
                _ = self.routing.remove(self.host(interface, address), RouteSource::Learned);
                self.routing.set_mac(interface, address.into(), None);
                self.publish_on(interface);
            }
            Event::DuplicateAddress { interface, address, mac } => {
                A::side_mut(self).duplicates.heard(interface, address, mac);
            }
            Event::OwnAddress { interface, address, usable } => self.set_usable(interface, address, usable),
            Event::Send { .. } => {}
        }
    }

    pub(super) fn tick_neighbors<A: Routable>(&mut self, now: u64) {
        let side = A::side_mut(self);
        let mut events = Vec::new();
        if side.backlog.is_empty() {
            side.neighbors.timer(now, &mut events);
        }
        self.absorb(events);
    }

    pub(super) fn note_used<A: Routable>(&mut self, now: u64, interface: InterfaceId, address: A) {
        let mut events = Vec::new();
        A::side_mut(self).neighbors.used(now, interface, address, &mut events);
        self.absorb(events);
    }
}

/// A neighbour of either family.
fn widen<A: Family>(neighbor: Neighbor<A>) -> Neighbor<IpAddr> {
    let Neighbor { interface, address, mac, state, source, since, router } = neighbor;
    Neighbor { interface, address: address.into(), mac, state, source, since, router }
}
