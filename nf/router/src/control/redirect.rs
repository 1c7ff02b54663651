//! ICMP redirects: a source on the link of the next hop is told of it (RFC 1812 section 5.2.7.2).

use std::net::Ipv4Addr;

use weir_ip::InterfaceId;
use weir_net::icmp::Problem;
use weir_packet::Held;
use weir_wire::{Ethernet, Ipv4, View, ipv4};

use super::{Exit, Turn, ip_bytes};
use crate::routing::Decision;

impl Turn<'_, '_> {
    /// A copy came of a packet that leaves by the interface it came in by.
    pub(super) fn redirect(&mut self, copy: Held, interface: InterfaceId) {
        let gateway = self.shorter_way(&copy, interface);
        let redirect = gateway.and_then(|gateway| self.error_about(&copy, Problem::Redirect { gateway }));
        let told = redirect.is_some_and(|(redirect, reason)| self.originate(redirect, reason));
        self.out.send(copy, if told { Exit::Redirected } else { Exit::NoRedirect });
    }

    /// The next hop that the source could reach itself: "the packet is being forwarded out the same physical interface that it was
    /// received from, the IP source address in the packet is on the same Logical IP (sub)network as the next-hop IP address, and the
    /// packet does not contain an IP source route option".
    fn shorter_way(&self, copy: &Held, port: InterfaceId) -> Option<Ipv4Addr> {
        let own = self.control.interfaces.get(port)?;
        let to_us = Ethernet::view(copy.packet().bytes())?.destination == own.mac;
        let packet = ip_bytes(copy.packet());
        let ip = Ipv4::view(packet)?;
        let source_routed = ipv4::options(packet).flatten().any(|option| option.is_source_route());
        if !to_us || ip.ttl <= 1 || source_routed {
            return None;
        }
        let Decision::Via(next_hop) = self.decide(copy, ip.destination_addr()) else { return None };
        let gateway = next_hop.neighbor_in(ip.destination_addr())?;
        let shorter = next_hop.port == port && self.control.share_a_network(port, ip.source_addr(), gateway);
        shorter.then_some(gateway)
    }
}
