//! Redirects: a source on the link of the next hop is told of it (RFC 1812 section 5.2.7.2, RFC 4861 section 8.2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_net::Family;
use weir_net::icmp::Problem;
use weir_net::nexthop::NextHop;
use weir_wire::nd::Redirect;
use weir_wire::{Ethernet, View, ipv4};

use super::parcel::{Header, Parcel};
use super::{Call, Exit, HEADER};
use crate::slow::answer::{ErrorKind, Trouble};
use crate::state::routing::Decision;

impl Call<'_, '_> {
    /// A copy came of a packet that leaves by the interface it came in by.
    pub(super) fn redirect(&mut self, copy: Parcel) {
        let redirect =
            self.shorter_way(&copy).and_then(|(header, next_hop)| match (header.source, header.destination) {
                (IpAddr::V4(source), IpAddr::V4(destination)) => {
                    self.redirect_four(&copy, source, next_hop.neighbor_in(destination)?)
                }
                (IpAddr::V6(source), IpAddr::V6(destination)) => {
                    self.redirect_six(&copy, source, destination, next_hop)
                }
                _ => None,
            });
        let told = redirect.is_some_and(|(redirect, reason)| self.originate(redirect, reason));
        self.out.send(copy.packet, if told { Exit::Redirected } else { Exit::NoRedirect });
    }

    /// The next hop by which a packet, which is for this router, leaves by the interface that it came in by.
    fn shorter_way(&self, copy: &Parcel) -> Option<(Header, NextHop)> {
        let own = self.control.interfaces.get(copy.origin.interface)?;
        let to_us = Ethernet::view(copy.packet.packet().bytes())?.destination == own.mac;
        let header = copy.header().filter(|header| to_us && header.hops > 1)?;
        let Decision::Via(next_hop) = self.decide(copy, header.destination) else { return None };
        (next_hop.interface == copy.origin.interface).then_some((header, next_hop))
    }

    /// "the packet is being forwarded out the same physical interface that it was received from, the IP source address in the packet is on
    /// the same Logical IP (sub)network as the next-hop IP address, and the packet does not contain an IP source route option".
    fn redirect_four(&mut self, copy: &Parcel, source: Ipv4Addr, gateway: Ipv4Addr) -> Option<(Parcel, Exit)> {
        let source_routed = ipv4::options(copy.ip()).flatten().any(|option| option.is_source_route());
        let is_near = self.control.share_a_network(copy.origin.interface, source, gateway);
        let problem = Trouble::Four(Problem::Redirect { gateway });
        if is_near && !source_routed { self.error_about(copy, copy.ip(), problem) } else { None }
    }

    /// "the Source Address field of the packet identifies a neighbor, and the router determines [...] that a better first-hop node resides
    /// on the same link as the sending node [...], and the Destination Address of the packet is not a multicast address". The target "MUST
    /// be the better router's link-local address", or the destination itself.
    fn redirect_six(
        &mut self,
        copy: &Parcel,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        next_hop: NextHop,
    ) -> Option<(Parcel, Exit)> {
        let interface = copy.origin.interface;
        let target: Ipv6Addr = next_hop.neighbor_in(destination)?;
        let is_told = target == destination || target.is_link_local();
        let is_near = self.is_on_link(interface, source);
        let own = self.link_local_of(interface).filter(|_| is_told && is_near && !destination.is_multicast())?;
        let from = (self.control.link(interface)?.mac, own);
        let to = (Ethernet::view(copy.packet.packet().bytes())?.source, source);
        let now = self.out.now();
        if !self.control.may_send_error(ErrorKind::Redirect6, now) {
            return None;
        }
        let link = self.control.six.neighbors.get(interface, target).and_then(|neighbor| neighbor.mac);
        let frame = Redirect { from, to, target, destination, link, packet: copy.ip() }.to_frame();
        Some((self.made_of(copy, frame.get(HEADER..)?)?, Exit::Redirect6))
    }
}
