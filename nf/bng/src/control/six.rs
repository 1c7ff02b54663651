//! Neighbour discovery with customers (RFC 4861): where their networks are, and what the gateway tells them of itself.

use std::net::Ipv6Addr;

use weir_packet::Held;
use weir_wire::{Ethernet, MacAddr, View, nd};

use super::{Call, Customer, Exit, inside};
use crate::registry::{PREFIX_LENGTH, half};
use crate::table::{Address, BindingKey};
use crate::words::Source6;

impl Call<'_, '_> {
    /// Neighbour discovery of a customer (RFC 4861). Where his networks are follows from where he speaks from.
    pub(super) fn neighbor_discovery(&mut self, customer: Customer, packet: Held) {
        let bytes = inside(packet.packet());
        if let Some(nd::RouterSolicitation { source: from, link }) = nd::parse_router_solicitation(bytes) {
            let done = self.hear6(customer, from, link).map(|()| self.advertise(customer, from));
            return match done {
                Ok(true) => self.out.send(packet, Exit::NdAnswered),
                Ok(false) => self.lose(customer.subscriber, packet, Exit::NoBuffer),
                Err(exit) => self.lose(customer.subscriber, packet, exit),
            };
        }
        let message = nd::parse(bytes);
        match message.map(|message| (message.source, message.body)) {
            Some((from, nd::Body::Solicitation { target, link, .. })) => {
                // Whoever looks for doubles of his own address (RFC 4862) has none yet, and will not have the gateway's.
                let heard = if from.is_unspecified() { Ok(()) } else { self.hear6(customer, from, link) };
                match heard {
                    Err(exit) => self.lose(customer.subscriber, packet, exit),
                    Ok(()) if from.is_unspecified() || !self.is_own6(customer, target) => {
                        self.out.send(packet, Exit::NdLearned);
                    }
                    Ok(()) if self.answer6(customer, from, target) => self.out.send(packet, Exit::NdAnswered),
                    Ok(()) => self.lose(customer.subscriber, packet, Exit::NoBuffer),
                }
            }
            Some((_, nd::Body::Advertisement { target, link, .. })) => match self.hear6(customer, target, link) {
                Ok(()) => self.out.send(packet, Exit::NdLearned),
                Err(exit) => self.lose(customer.subscriber, packet, exit),
            },
            None => self.lose(customer.subscriber, packet, Exit::NdIgnored),
        }
    }

    /// Notes that a station of a subscriber speaks from an address: one of its networks, or a link-local one.
    fn hear6(&mut self, customer: Customer, from: Ipv6Addr, link: Option<MacAddr>) -> Result<(), Exit> {
        if link.is_some_and(|link| link != customer.station) || !customer.station.is_unicast() {
            return Err(Exit::NdSpoofed);
        }
        let subscriber = self.control.registry.subscriber(customer.subscriber);
        let ipv6 = subscriber.map(|subscriber| subscriber.fields().ipv6.clone()).unwrap_or_default();
        let is_local = from.is_unicast_link_local() || from.is_unspecified();
        if !is_local && !ipv6.iter().any(|network| network.0.contains(&from)) {
            return Err(Exit::SpoofedSource);
        }
        if !is_local {
            return self.hear(customer, Address::Host6(from));
        }
        // He is there, and says nothing of his addresses: his networks are his unless somebody else was heard.
        let registry = &self.control.registry;
        let scope = registry.subscriber(customer.subscriber).map_or(0, |one| one.scope(registry.settings()));
        let networks = ipv6.iter().flat_map(|Source6(network)| {
            let is_link = network.prefix_len() == PREFIX_LENGTH;
            (half(network.network())..=half(network.broadcast())).map(move |half| (Address::V6(half), is_link))
        });
        let is_others = |address| registry.host(BindingKey::new(scope, address)).is_some_and(|host| host.mac.is_some());
        let networks = networks.filter(|(address, is_link)| !is_link || !is_others(*address));
        let networks: Vec<Address> = networks.map(|(address, _)| address).collect();
        networks.into_iter().try_for_each(|address| self.hear(customer, address))
    }

    /// Asks who has an IPv6 address (RFC 4861 section 7.2.2): a station, or all on the line.
    pub(super) fn ask6(&mut self, customer: Customer, target: Ipv6Addr) {
        let Some(port) = self.access_port(customer.tags) else { return };
        let mut frame = [0; nd::FRAME_LEN];
        let written = nd::write_solicitation(&mut frame, port.mac, nd::link_local(port.mac), target);
        let (Some(_), Some(link)) = (written, Ethernet::view_mut(&mut frame)) else { return };
        if !customer.station.is_broadcast() {
            link.destination = customer.station;
        }
        self.send_line(customer, &frame, Exit::NeighborSolicitation);
    }

    /// Whether an address is the gateway's own towards a line.
    fn is_own6(&self, customer: Customer, address: Ipv6Addr) -> bool {
        let link_local = self.access_port(customer.tags).map(|port| nd::link_local(port.mac));
        link_local == Some(address) || self.control.addresses6.iter().any(|own| own.addr() == address)
    }

    fn answer6(&mut self, customer: Customer, asking: Ipv6Addr, target: Ipv6Addr) -> bool {
        let Some(port) = self.access_port(customer.tags) else { return false };
        let mut frame = [0; nd::FRAME_LEN];
        let answer = nd::Message::advertisement(target, port.mac, asking, true);
        let written = answer.write(&mut frame, port.mac, customer.station);
        written.is_some() && self.send_line(customer, &frame, Exit::NeighborAdvertisement)
    }

    /// Tells a customer of the gateway, and of his networks in which hosts may take addresses.
    fn advertise(&mut self, customer: Customer, from: Ipv6Addr) -> bool {
        /// RFC 4861 section 6.2.1: three times the longest time between two advertisements, here as they are asked for.
        const LIFETIME: u16 = 1800;
        let Some(port) = self.access_port(customer.tags) else { return false };
        let subscriber = self.control.registry.subscriber(customer.subscriber);
        let prefixes: Vec<nd::PrefixInformation> = subscriber
            .into_iter()
            .flat_map(|subscriber| subscriber.fields().ipv6.iter())
            .map(|source| source.0)
            .filter(|network| network.prefix_len() == 64)
            .map(|network| nd::PrefixInformation::new(network.network(), network.prefix_len()))
            .collect();
        let to = (customer.station, if from.is_unspecified() { nd::ALL_NODES } else { from });
        let says = nd::RouterAdvertisement {
            mtu: Some(u32::from(port.mtu)),
            prefixes: &prefixes,
            ..nd::RouterAdvertisement::new(port.mac, nd::link_local(port.mac), to, LIFETIME)
        };
        self.send_line(customer, &says.to_frame(), Exit::RouterAdvertisement)
    }
}
