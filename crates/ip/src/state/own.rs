//! The router's own addresses as they come and go, and what forwarding makes of them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_net::InterfaceAddress;
use weir_net::rib::Hop;
use weir_net::{Family, Prefix, RouteSource, VrfId};
use weir_wire::MacAddr;
use weir_wire::nd::{ALL_ROUTERS, link_local, solicited_node};

use crate::InterfaceId;
use crate::state::routing::{Network, Refusal};
use crate::state::{Control, Routable};
use crate::tables::fib::Leads;

/// 169.254.0.0/16: packets from and to there are not forwarded (RFC 3927 section 7).
const LINK_LOCAL: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16);

/// Bits of the network that link-local addresses of IPv6 are in (RFC 4291 section 2.5.6).
const LINK_LOCAL_BITS: u8 = 64;

/// The addresses of an interface, as somebody would want them: without the link-local one that it has by itself.
pub(crate) fn nets(control: &Control, id: InterfaceId) -> Vec<IpNet> {
    let automatic = control.ledger.automatic(id);
    let four = control.addresses_on::<Ipv4Addr>(id).iter().map(|own| IpNet::from(own.net()));
    let six = control.addresses_on::<Ipv6Addr>(id).iter().filter(|own| Some(own.address()) != automatic);
    let all = four.chain(six.map(|own| IpNet::from(own.net())));
    all.filter(|net| !control.hosts.is_of_linux(id, *net)).collect()
}

impl Control {
    /// Makes the addresses of an interface these. One with an address of IPv6 has a link-local one, too.
    pub(crate) fn set_addresses(&mut self, id: InterfaceId, wanted: &[IpNet], now: u64) {
        let wanted = self.hosts.join(id, wanted);
        let four: Vec<Ipv4Net> = wanted.iter().copied().filter_map(<Ipv4Net as Prefix>::of).collect();
        let mut six: Vec<Ipv6Net> = wanted.iter().copied().filter_map(<Ipv6Net as Prefix>::of).collect();
        let mac = self.link(id).map(|link| link.mac);
        let has_one = six.iter().any(|net| Family::is_link_local(net.addr()));
        let automatic = mac.filter(|_| !six.is_empty() && !has_one).map(link_local);
        six.extend(automatic.and_then(|address| Ipv6Net::new(address, LINK_LOCAL_BITS).ok()));
        self.ledger.set_automatic(id, automatic);
        self.set_nets::<Ipv4Addr>(id, &four, now);
        self.set_nets::<Ipv6Addr>(id, &six, now);
        self.interfaces.tell_addresses(id, !(four.is_empty() && six.is_empty()));
        self.advertise_on(id, now);
    }

    fn set_nets<A: Routable>(&mut self, id: InterfaceId, wanted: &[A::Prefix], now: u64) {
        let gone = self.addresses_on::<A>(id).iter().filter(|own| !wanted.contains(&own.net()));
        for own in gone.copied().collect::<Vec<InterfaceAddress<A>>>() {
            self.remove_address(own);
        }
        let vrf = self.vrf_of(id);
        for net in wanted {
            // Checked before: an address that no host can have does not come this far.
            let Ok(own) = InterfaceAddress::<A>::new(id, *net) else { continue };
            if A::side_mut(self).addresses_mut(vrf).is_some_and(|addresses| addresses.add(own)) {
                self.begin_address(own, now);
            }
        }
    }

    /// An address is new: neighbours and groups hear of it, and forwarding.
    fn begin_address<A: Routable>(&mut self, own: InterfaceAddress<A>, now: u64) {
        let (id, address) = (own.interface(), own.address());
        let mut events = Vec::new();
        if !A::side_mut(self).neighbors.add_own(now, own, &mut events) {
            // A loopback has no link on which anybody could have the same.
            A::side_mut(self).prove(id, address, true);
        }
        self.absorb(events);
        if let IpAddr::V6(address) = address.into() {
            if self.six.addresses(self.vrf_of(id)).of(id).len() == 1 {
                self.listeners.join(now, id, ALL_ROUTERS);
            }
            self.listeners.join(now, id, solicited_node(address));
        }
        self.settle_prefixes(own);
    }

    /// Takes all addresses of a family from an interface.
    pub(crate) fn remove_addresses<A: Routable>(&mut self, id: InterfaceId) {
        for own in self.addresses_on::<A>(id).to_vec() {
            self.remove_address(own);
        }
    }

    fn remove_address<A: Routable>(&mut self, own: InterfaceAddress<A>) {
        let (id, address, vrf) = (own.interface(), own.address(), self.vrf_of(own.interface()));
        let side = A::side_mut(self);
        if let Some(addresses) = side.addresses_mut(vrf) {
            addresses.remove(id, address);
        }
        side.neighbors.remove_own(id, address);
        side.duplicates.forget(id, address);
        side.prove(id, address, false);
        let now = self.routing.recent().now();
        if let IpAddr::V6(address) = address.into() {
            self.listeners.leave(now, id, solicited_node(address));
            if self.six.addresses(vrf).of(id).is_empty() {
                self.listeners.leave(now, id, ALL_ROUTERS);
            }
        }
        self.settle_prefixes(own);
    }

    /// The MAC address of an interface is this one: so is the link-local address that it has by itself.
    pub(crate) fn follow_mac(&mut self, id: InterfaceId, mac: MacAddr, now: u64) {
        self.four.neighbors.set_port(id, mac);
        self.six.neighbors.set_port(id, mac);
        if self.ledger.automatic(id).is_some_and(|automatic| automatic != link_local(mac)) {
            let wanted = nets(self, id);
            self.set_addresses(id, &wanted, now);
        }
    }

    /// An own address was found to be nobody else's, or to be somebody's.
    pub(crate) fn set_usable<A: Routable>(&mut self, id: InterfaceId, address: A, usable: bool) {
        let own = self.addresses_on::<A>(id).iter().find(|own| own.is_own(address)).copied();
        if let Some(own) = own
            && A::side_mut(self).prove(id, address, usable)
        {
            self.settle_prefixes(own);
            // Hosts are told of the router by its link-local address, and not without.
            if own.address().is_link_local() {
                self.advertise_on(id, self.routing.recent().now());
            }
        }
    }

    /// The link of an interface went up or down: its addresses have to be proven anew, where they have to be.
    pub(crate) fn unprove_all<A: Routable>(&mut self, id: InterfaceId) {
        if !A::MUST_BE_PROVEN {
            return;
        }
        for own in self.addresses_on::<A>(id).to_vec() {
            self.set_usable(id, own.address(), false);
        }
    }

    /// Lets forwarding know an address that came or went: itself, its broadcasts, its network.
    fn settle_prefixes<A: Routable>(&mut self, own: InterfaceAddress<A>) {
        // Nothing is connected by a link-local address: who knows an interface needs no route.
        if own.address().is_link_local() {
            return;
        }
        let vrf = self.vrf_of(own.interface());
        let network = own.network();
        let itself = Some(network.address()).filter(|address| own.is_network_address(*address));
        for address in [Some(own.address()), own.subnet_broadcast(), itself].into_iter().flatten() {
            let address: IpAddr = address.into();
            self.settle_prefix((vrf, address.into()));
        }
        self.settle_prefix((vrf, network.into()));
    }

    /// Lets the directed broadcasts of all networks lead where they are to lead.
    pub(crate) fn settle_broadcasts(&mut self) {
        let mut all: Vec<Network> = Vec::new();
        for (vrf, addresses) in self.four.all_addresses() {
            let broadcasts = addresses.iter().filter_map(|own| own.subnet_broadcast());
            all.extend(broadcasts.map(|broadcast| (vrf, IpAddr::V4(broadcast).into())));
        }
        all.into_iter().for_each(|network| self.settle_prefix(network));
    }

    /// Lets nothing be forwarded to link-local addresses.
    pub(crate) fn settle_link_local(&mut self) {
        let vrfs = 0..self.vrfs.len() as VrfId;
        vrfs.for_each(|vrf| self.settle_prefix((vrf, LINK_LOCAL.into())));
    }

    /// Tries own addresses, broadcasts and connected networks again that there was no room for.
    pub(crate) fn try_refused_again(&mut self) {
        let refused: Vec<Network> = self.refused.keys().copied().collect();
        refused.into_iter().for_each(|network| self.settle_prefix(network));
    }

    /// Makes forwarding hold what addresses say of a prefix: of one address whether it is one of the router's own or a broadcast, of others
    /// whether they are connected networks.
    fn settle_prefix(&mut self, network: Network) {
        let (vrf, net) = network;
        let settled = match net {
            IpNet::V4(LINK_LOCAL) => self.routing.set_special(network, Some(Leads::LINK_LOCAL)),
            IpNet::V4(net) => self.settle_in(vrf, net),
            IpNet::V6(net) => self.settle_in(vrf, net),
        };
        match settled {
            Ok(()) => drop(self.refused.remove(&network)),
            Err(refusal) => drop(self.refused.insert(network, refusal)),
        }
    }

    fn settle_in<P: Prefix<Address: Routable<Prefix = P>>>(&mut self, vrf: VrfId, net: P) -> Result<(), Refusal> {
        // A network of one address connects nothing: the address is the router's own.
        if net.length() == P::Address::BITS {
            let special = self.special_of(vrf, net.address());
            return self.routing.set_special((vrf, net.into()), special);
        }
        self.connect::<P::Address>(vrf, net)
    }

    /// What becomes of packets to an address, whatever routes say.
    fn special_of<A: Routable>(&self, vrf: VrfId, address: A) -> Option<Leads> {
        let (side, own) = (A::side(self), self.addresses::<A>(vrf));
        if own.owners(address).iter().any(|id| side.is_usable(*id, address)) {
            return Some(Leads::RECEIVE);
        }
        if A::OWNS_NETWORK_ADDRESS {
            let is_usable = |own: &InterfaceAddress<A>| side.is_usable(own.interface(), own.address());
            return own.around_with_network_address(address).any(is_usable).then_some(Leads::RECEIVE);
        }
        match own.with_broadcast(address).filter(|_| self.directed_broadcast) {
            Some(own) => Some(self.routing.fib().broadcast_on(own.interface())),
            None => own.is_broadcast(address).then_some(Leads::BROADCAST),
        }
    }

    fn connect<A: Routable>(&mut self, vrf: VrfId, network: A::Prefix) -> Result<(), Refusal> {
        let own = self.addresses::<A>(vrf).in_network(network);
        let ids: BTreeSet<InterfaceId> = own.iter().map(InterfaceAddress::interface).collect();
        let hops: Vec<Hop> = ids.into_iter().map(Hop::On).collect();
        let network = (vrf, network.into());
        if hops.is_empty() {
            // There may be none: what had no room was never there.
            _ = self.routing.remove(network, RouteSource::Connected);
            return Ok(());
        }
        self.routing.replace(network, RouteSource::Connected, &hops)
    }
}
