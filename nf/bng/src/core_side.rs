//! The core side's neighbours: the Ethernet addresses of the next routers, asked for by ARP and kept fresh.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use weir_net::neighbor::duplicate::{Duplicate, Duplicates};
use weir_net::neighbor::{Event, Heard, Limits, Neighbors, Resolution, Timing};
use weir_net::{Interface, PortId};
use weir_wire::MacAddr;
use weir_wire::arp::ArpFields;

use crate::fib::Fib;
use crate::ports::{Ports, Side};

/// Time between two looks at the gateways, nanoseconds: each of them counts as in use.
const LOOK_INTERVAL: u64 = 1_000_000_000;

/// What is known of the links to the core.
#[derive(Debug)]
pub(crate) struct CoreSide {
    neighbors: Neighbors,
    interfaces: Vec<Interface>,
    /// By gateway, where its next router is to be asked for; `None` if its Ethernet address is fixed.
    routers: Vec<Option<(PortId, Ipv4Addr)>>,
    outbox: Vec<Event>,
    next_look: u64,
    /// Who else was heard using own addresses.
    duplicates: Duplicates,
}

impl CoreSide {
    /// With addresses by the position of their port, links down.
    pub(crate) fn new(ports: &Ports, addresses: &[(u8, Ipv4Net)], fib: &Fib, now: u64) -> CoreSide {
        let limits = Limits::default();
        let mut neighbors = Neighbors::new(Timing::default(), limits);
        for port in ports.list().iter().filter(|port| port.side == Side::Core) {
            neighbors.set_port(port.index, port.mac);
        }
        let index = |position: u8| ports.list().get(usize::from(position)).map(|port| port.index);
        let interfaces: Vec<Interface> =
            addresses.iter().filter_map(|(position, net)| Interface::new(index(*position)?, *net).ok()).collect();
        let mut outbox = Vec::new();
        for interface in &interfaces {
            neighbors.add_own(now, *interface, &mut outbox);
        }
        let gateways = fib.gateways().iter();
        let routers = gateways
            .map(|gateway| if gateway.mac.is_some() { None } else { Some((index(gateway.port)?, gateway.via)) })
            .collect();
        CoreSide { neighbors, interfaces, routers, outbox, next_look: 0, duplicates: Duplicates::default() }
    }

    /// A link went up or down.
    pub(crate) fn set_link(&mut self, port: PortId, up: bool, now: u64, fib: &mut Fib) {
        let mut events = Vec::new();
        if up {
            self.neighbors.link_up(now, port);
            self.next_look = 0;
        } else {
            self.neighbors.link_down(port, &mut events);
        }
        self.absorb(events, fib);
    }

    /// An ARP packet came in from the core.
    pub(crate) fn heard(&mut self, now: u64, port: PortId, arp: &ArpFields, fib: &mut Fib) -> Heard {
        let mut events = Vec::new();
        let heard = self.neighbors.arp_received(now, port, arp, &mut events);
        self.absorb(events, fib);
        heard
    }

    /// A packet wants to go to a gateway, by its position: the next router that it has to wait for, or what else.
    pub(crate) fn wanted(
        &mut self,
        now: u64,
        gateway: usize,
        fib: &mut Fib,
    ) -> Option<((PortId, Ipv4Addr), Resolution)> {
        let (port, via) = (*self.routers.get(gateway)?)?;
        let mut events = Vec::new();
        let resolution = self.neighbors.resolve(now, port, via, &mut events);
        self.absorb(events, fib);
        Some(((port, via), resolution))
    }

    /// Does what is due; answers when it wants to be called next.
    pub(crate) fn tick(&mut self, now: u64, fib: &mut Fib) -> u64 {
        let mut events = Vec::new();
        self.neighbors.timer(now, &mut events);
        if now >= self.next_look {
            self.next_look = now.saturating_add(LOOK_INTERVAL);
            for (port, via) in self.routers.iter().flatten() {
                self.neighbors.resolve(now, *port, *via, &mut events);
            }
        }
        self.absorb(events, fib);
        self.neighbors.next_deadline().unwrap_or(u64::MAX).min(self.next_look)
    }

    /// Brings forwarding up to what happened to neighbours, and leaves the rest to the slow path.
    fn absorb(&mut self, events: Vec<Event>, fib: &mut Fib) {
        for event in &events {
            match *event {
                Event::Resolved { port, address, mac } | Event::Changed { port, address, mac } => {
                    self.set_mac((port, address), Some(mac), fib);
                }
                Event::Failed { port, address } | Event::Removed { port, address } => {
                    self.set_mac((port, address), None, fib);
                }
                Event::DuplicateAddress { port, address, mac } => self.duplicates.heard(port, address, mac),
                Event::Send { .. } | Event::OwnAddress { .. } => {}
            }
        }
        self.outbox.extend(events);
    }

    fn set_mac(&self, router: (PortId, Ipv4Addr), mac: Option<MacAddr>, fib: &mut Fib) {
        for (gateway, _) in self.routers.iter().enumerate().filter(|(_, other)| **other == Some(router)) {
            fib.set_mac(gateway, mac);
        }
    }

    /// What the slow path has to do.
    pub(crate) fn take_outbox(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.outbox)
    }

    /// Stations that use own addresses, as far as they are to be told of now.
    pub(crate) fn duplicates(&mut self, now: u64) -> Vec<Duplicate> {
        self.duplicates.tell(now)
    }

    /// Whether an address is the broadcast or network address of a link to the core.
    pub(crate) fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        self.interfaces.iter().any(|interface| {
            interface.subnet_broadcast() == Some(address)
                || interface.network().network() == address && interface.net().prefix_len() < 31
        })
    }
}
