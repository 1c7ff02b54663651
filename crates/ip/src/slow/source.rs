//! Which of its own addresses the router speaks from, and which packets are for it whatever routes say.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_net::Family;
use weir_net::InterfaceAddress;
use weir_net::nexthop::NextHop;
use weir_wire::nd::{ALL_NODES, ALL_ROUTERS, solicited_node};

use super::Call;
use super::parcel::Origin;
use crate::InterfaceId;
use crate::lines::{Line, Side};
use crate::state::Routable;
use crate::state::routing::Decision;

/// What IPv4 errors come from where the router has no IPv4 address at all: the dummy address of RFC 7600 section 4.8, for who forwards
/// IPv4 to next hops with IPv6 addresses only (RFC 8950).
const DUMMY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);

impl Call<'_, '_> {
    /// The next hop back to an address.
    fn way_back(&self, origin: Origin, back: IpAddr) -> Option<NextHop> {
        match self.control.routing.decide(origin.vrf, back, || 0) {
            Decision::Via(next_hop) => Some(next_hop),
            _ => None,
        }
    }

    /// The address that packets to another one come from, which came by an interface: one of the interface that they leave by; where that
    /// has none, of the one by which they came, or any other of the VRF. "the IP source address in an ICMP message originated by the router
    /// MUST be one of the IP addresses associated with the physical interface over which the ICMP message is transmitted" (RFC 1812 section
    /// 4.3.2.4); RFC 6724 section 5 agrees.
    fn source_to<A: Routable>(&self, origin: Origin, back: A) -> Option<A> {
        if back.is_link_local() {
            return self.source_on(origin.interface, back);
        }
        let next_hop = self.way_back(origin, back.into())?;
        // Whose packet goes beyond the link does not speak from a link-local address.
        let towards = next_hop.neighbor_in(back).filter(|near| !near.is_link_local()).unwrap_or(back);
        let on = |interface| self.source_on(interface, towards);
        let own = A::side(&self.control).addresses(origin.vrf).iter().map(|own| (own.interface(), own.address()));
        let any = || own.filter(|(_, address)| !address.is_link_local()).find(|own| self.is_usable(*own));
        on(next_hop.interface).or_else(|| on(origin.interface)).or_else(|| any().map(|(_, address)| address))
    }

    /// An address on an interface, of the same scope as another one.
    fn source_on<A: Routable>(&self, interface: InterfaceId, towards: A) -> Option<A> {
        let own = self.control.source_on(interface, towards)?;
        (own.is_link_local() == towards.is_link_local()).then_some(own)
    }

    fn is_usable<A: Routable>(&self, (interface, address): (InterfaceId, A)) -> bool {
        A::side(&self.control).is_usable(interface, address)
    }

    /// What an IPv4 error comes from.
    pub(super) fn source_to_four(&self, origin: Origin, back: Ipv4Addr, asked: Ipv4Addr) -> Option<Ipv4Addr> {
        if let Some(line) = origin.line {
            return self.control.lines.own_four(customer(line, back, asked));
        }
        let has_way = self.way_back(origin, back.into()).is_some();
        self.source_to(origin, back).or(has_way.then_some(DUMMY))
    }

    /// What an answer comes from that is about a packet to `asked`: "If the message is a response to a message sent to one of the node's
    /// unicast addresses, the Source Address of the reply MUST be that same address" (RFC 4443 section 2.2).
    pub(super) fn source_to_six(&self, origin: Origin, back: Ipv6Addr, asked: Ipv6Addr) -> Option<Ipv6Addr> {
        let is_own = match asked.is_link_local() {
            true => self.control.is_own_on(origin.interface, asked),
            false => {
                let owners = self.control.six.addresses(origin.looked_up_in()).owners(asked);
                owners.iter().any(|owner| self.is_usable((*owner, asked)))
            }
        };
        match origin.line {
            _ if is_own => Some(asked),
            // It comes from where the packet was to leave (RFC 1812 section 4.3.2.4), too.
            Some(line) => self.control.lines.own_six(customer(line, back, asked)),
            None => self.source_to(origin, back),
        }
    }

    /// The link-local address of an interface, once it is known to be nobody else's.
    pub(super) fn link_local_of(&self, interface: InterfaceId) -> Option<Ipv6Addr> {
        let own = self.control.addresses_on::<Ipv6Addr>(interface).iter().map(InterfaceAddress::address);
        own.filter(|address| address.is_link_local()).find(|address| self.is_usable((interface, *address)))
    }

    /// Whether a packet to an address that counts on its link only, which came in by an interface, is for the router: to its link-local
    /// address there, to that of the link's routers (RFC 4291 section 2.6.1), or to a group that it listens to.
    pub(super) fn is_for_us(&self, interface: InterfaceId, destination: Ipv6Addr) -> bool {
        let mut own = self.control.addresses_on::<Ipv6Addr>(interface).iter();
        if destination.is_multicast() {
            let is_all = destination == ALL_NODES || destination == ALL_ROUTERS;
            return is_all || own.any(|own| solicited_node(own.address()) == destination);
        }
        let is_usable = |own: &InterfaceAddress<Ipv6Addr>| self.is_usable((interface, own.address()));
        own.any(|own| is_usable(own) && (own.is_own(destination) || own.is_network_address(destination)))
    }

    /// Whether a packet may come from a host on the link of an interface.
    pub(super) fn is_on_link(&self, interface: InterfaceId, address: Ipv6Addr) -> bool {
        let mut own = self.control.addresses_on::<Ipv6Addr>(interface).iter();
        address.is_link_local() || own.any(|own| own.is_on_link(address))
    }
}

/// Which end of a packet between two addresses is that of who is on the line.
const fn customer<A: Copy>(line: Line, source: A, destination: A) -> A {
    match line.side {
        Side::From => source,
        Side::To => destination,
    }
}
