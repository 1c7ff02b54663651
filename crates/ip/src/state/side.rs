//! What the control side knows of one address family; the two are alike but for what their protocols make different.

use std::collections::{HashSet, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr};

use weir_net::VrfId;
use weir_net::neighbor::duplicate::Duplicates;
use weir_net::neighbor::{Event, Limits, Neighbors, Protocol, Timing};
use weir_net::rib::Routed;

use super::Control;
use crate::InterfaceId;
use crate::state::addresses::Addresses;

/// Something that the slow path has to do, or to know, of a neighbour or an own address.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told {
    Four(Event<Ipv4Addr>),
    Six(Event<Ipv6Addr>),
}

/// A family that the router routes.
pub(crate) trait Routable: Protocol<Prefix: Routed> {
    /// Whether the address of a network, all host bits zero, is the router's own: the anycast address of the network's routers (RFC 4291
    /// section 2.6.1). Else it is an old form of a broadcast (RFC 1812 section 4.2.3.1).
    const OWNS_NETWORK_ADDRESS: bool;

    /// What is known of this family.
    fn side(control: &Control) -> &Side<Self>;

    /// The same, to be changed.
    fn side_mut(control: &mut Control) -> &mut Side<Self>;

    /// An event for the slow path.
    fn told(event: Event<Self>) -> Told;
}

impl Routable for Ipv4Addr {
    const OWNS_NETWORK_ADDRESS: bool = false;

    fn side(control: &Control) -> &Side<Ipv4Addr> {
        &control.four
    }

    fn side_mut(control: &mut Control) -> &mut Side<Ipv4Addr> {
        &mut control.four
    }

    fn told(event: Event<Ipv4Addr>) -> Told {
        Told::Four(event)
    }
}

impl Routable for Ipv6Addr {
    const OWNS_NETWORK_ADDRESS: bool = true;

    fn side(control: &Control) -> &Side<Ipv6Addr> {
        &control.six
    }

    fn side_mut(control: &mut Control) -> &mut Side<Ipv6Addr> {
        &mut control.six
    }

    fn told(event: Event<Ipv6Addr>) -> Told {
        Told::Six(event)
    }
}

/// Addresses and neighbours of one family.
#[derive(Debug)]
pub(crate) struct Side<A: Protocol> {
    pub(crate) neighbors: Neighbors<A>,
    /// Who else was heard using own addresses.
    pub(crate) duplicates: Duplicates<A>,
    /// The router's own addresses, by VRF.
    addresses: Vec<Addresses<A>>,
    /// Those of a VRF that is not there.
    none: Addresses<A>,
    /// Own addresses that were found to be nobody else's, where that has to be.
    proven: HashSet<(InterfaceId, A)>,
    /// What happened to neighbours and forwarding does not know yet, the oldest first.
    pub(super) backlog: VecDeque<Event<A>>,
}

impl<A: Protocol> Side<A> {
    /// Nothing, in so many VRFs. Routers with different seeds do not speak at the same moments.
    pub(super) fn new(vrfs: usize, timing: Timing, limits: Limits, seed: u64) -> Side<A> {
        let mut neighbors = Neighbors::new(timing, limits);
        neighbors.set_seed(seed);
        Side {
            neighbors,
            duplicates: Duplicates::default(),
            addresses: (0..vrfs).map(|_| Addresses::default()).collect(),
            none: Addresses::default(),
            proven: HashSet::new(),
            backlog: VecDeque::new(),
        }
    }

    /// The router's own addresses in a VRF.
    pub(crate) fn addresses(&self, vrf: VrfId) -> &Addresses<A> {
        self.addresses.get(usize::from(vrf)).unwrap_or(&self.none)
    }

    /// The same, to be changed.
    pub(crate) fn addresses_mut(&mut self, vrf: VrfId) -> Option<&mut Addresses<A>> {
        self.addresses.get_mut(usize::from(vrf))
    }

    /// The router's own addresses of all VRFs.
    pub(crate) fn all_addresses(&self) -> impl Iterator<Item = (VrfId, &Addresses<A>)> {
        (0..).zip(&self.addresses)
    }

    /// Whether an own address may be used: of IPv4 always, of IPv6 once nobody else was found to have it (RFC 4862 section 5.4).
    pub(crate) fn is_usable(&self, interface: InterfaceId, address: A) -> bool {
        !A::MUST_BE_PROVEN || self.proven.contains(&(interface, address))
    }

    /// An own address may be used from now on, or not any more. Answers whether that is new.
    pub(crate) fn prove(&mut self, interface: InterfaceId, address: A, usable: bool) -> bool {
        match usable {
            true => self.proven.insert((interface, address)),
            false => self.proven.remove(&(interface, address)),
        }
    }
}
