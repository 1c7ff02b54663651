//! The router's own addresses in a VRF, and the networks that are connected by them, each found without a search.

use std::collections::{BTreeMap, HashMap};

use weir_net::InterfaceAddress;
use weir_net::{Family, Prefix};

use crate::InterfaceId;

/// All addresses of a family on all interfaces of a VRF.
///
/// A link-local address says nothing without its interface: those of an interface are known, and nothing is connected by them.
#[derive(Debug)]
pub(crate) struct Addresses<A: Family> {
    by_interface: BTreeMap<InterfaceId, Vec<InterfaceAddress<A>>>,
    /// Interfaces that have an address, by the address.
    own: HashMap<A, Vec<InterfaceId>>,
    /// Addresses in each connected network.
    networks: HashMap<A::Prefix, Vec<InterfaceAddress<A>>>,
    /// Connected networks by the length of their prefixes.
    lengths: BTreeMap<u8, usize>,
    len: usize,
}

impl<A: Family> Default for Addresses<A> {
    fn default() -> Self {
        Addresses {
            by_interface: BTreeMap::new(),
            own: HashMap::new(),
            networks: HashMap::new(),
            lengths: BTreeMap::new(),
            len: 0,
        }
    }
}

impl<A: Family> Addresses<A> {
    /// Adds an address. Answers whether its interface did not have it.
    pub(crate) fn add(&mut self, address: InterfaceAddress<A>) -> bool {
        let list = self.by_interface.entry(address.interface()).or_default();
        if list.iter().any(|other| other.address() == address.address()) {
            return false;
        }
        list.push(address);
        self.len += 1;
        if address.address().is_link_local() {
            return true;
        }
        self.own.entry(address.address()).or_default().push(address.interface());
        let network = self.networks.entry(address.network()).or_default();
        if network.is_empty() {
            *self.lengths.entry(address.network().length()).or_default() += 1;
        }
        network.push(address);
        true
    }

    /// Removes an address; what it was, if it was there.
    pub(crate) fn remove(&mut self, interface: InterfaceId, address: A) -> Option<InterfaceAddress<A>> {
        let list = self.by_interface.get_mut(&interface)?;
        let gone = list.remove(list.iter().position(|own| own.address() == address)?);
        if list.is_empty() {
            self.by_interface.remove(&interface);
        }
        self.len -= 1;
        if address.is_link_local() {
            return Some(gone);
        }
        take(&mut self.own, gone.address(), |other| *other == interface);
        if take(&mut self.networks, gone.network(), |other| *other == gone) {
            let length = gone.network().length();
            let count = self.lengths.entry(length).or_default();
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&length);
            }
        }
        Some(gone)
    }

    /// The addresses of an interface, in the order in which they were added, but for gaps.
    pub(crate) fn of(&self, interface: InterfaceId) -> &[InterfaceAddress<A>] {
        self.by_interface.get(&interface).map_or(&[], Vec::as_slice)
    }

    /// All addresses, by interface.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &InterfaceAddress<A>> {
        self.by_interface.values().flatten()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether `address` is one of the router's own, but for link-local ones.
    pub(crate) fn is_own(&self, address: A) -> bool {
        self.own.contains_key(&address)
    }

    /// The interfaces that have the address, which is not link-local.
    pub(crate) fn owners(&self, address: A) -> &[InterfaceId] {
        self.own.get(&address).map_or(&[], Vec::as_slice)
    }

    /// The addresses in a network that is connected by them.
    pub(crate) fn in_network(&self, network: A::Prefix) -> &[InterfaceAddress<A>] {
        self.networks.get(&network).map_or(&[], Vec::as_slice)
    }

    /// The address with the longest network around another one.
    pub(crate) fn around(&self, address: A) -> Option<&InterfaceAddress<A>> {
        let networks = self.lengths.keys().rev().filter_map(|&length| A::Prefix::around(address, length));
        networks.map(|net| self.in_network(net)).find_map(<[InterfaceAddress<A>]>::first)
    }

    /// The address whose network has `address` as its broadcast address.
    pub(crate) fn with_broadcast(&self, address: A) -> Option<&InterfaceAddress<A>> {
        self.networks_around(address).find(|own| own.is_subnet_broadcast(address))
    }

    /// Whether `address` is the broadcast or network address of a connected network.
    pub(crate) fn is_broadcast(&self, address: A) -> bool {
        self.networks_around(address).any(|own| own.is_subnet_broadcast(address) || own.is_network_address(address))
    }

    /// The addresses of each network whose own address, all host bits zero, is this one.
    pub(crate) fn around_with_network_address(&self, address: A) -> impl Iterator<Item = &InterfaceAddress<A>> {
        let networks = self.lengths.keys().filter_map(move |&length| A::Prefix::around(address, length));
        networks.flat_map(|net| self.in_network(net)).filter(move |own| own.is_network_address(address))
    }

    /// An address in each connected network around another one.
    fn networks_around(&self, address: A) -> impl Iterator<Item = &InterfaceAddress<A>> {
        let networks = self.lengths.keys().filter_map(move |&length| A::Prefix::around(address, length));
        networks.filter_map(|net| self.in_network(net).first())
    }
}

/// Takes one of the values of a key; answers whether that was the last.
fn take<K: std::hash::Hash + Eq, T>(map: &mut HashMap<K, Vec<T>>, key: K, is: impl Fn(&T) -> bool) -> bool {
    let Some(list) = map.get_mut(&key) else { return false };
    if let Some(at) = list.iter().position(is) {
        list.remove(at);
    }
    let is_last = list.is_empty();
    if is_last {
        map.remove(&key);
    }
    is_last
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use ipnet::Ipv4Net;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_search_of_all_finds_the_same(
            steps in prop::collection::vec((any::<bool>(), 0u16..3, 0u32..64, 26u8..=32), 1..40),
            asked in 0u32..80,
        ) {
            let base = Ipv4Addr::new(10, 0, 0, 0).to_bits();
            let (mut addresses, mut twin): (Addresses<Ipv4Addr>, Vec<InterfaceAddress>) = Default::default();
            for (adds, interface, host, length) in steps {
                let net = Ipv4Net::new(Ipv4Addr::from_bits(base + host), length).unwrap();
                let Ok(address) = InterfaceAddress::new(interface, net) else { continue };
                let at = twin.iter().position(|own| own.interface() == interface && own.address() == address.address());
                if adds {
                    prop_assert_eq!(addresses.add(address), at.is_none());
                    twin.extend(Some(address).filter(|_| at.is_none()));
                } else {
                    let gone = at.map(|at| twin.remove(at));
                    prop_assert_eq!(addresses.remove(interface, address.address()), gone);
                }
            }
            let asked = Ipv4Addr::from_bits(base + asked);
            prop_assert_eq!(addresses.len(), twin.len());
            prop_assert_eq!(addresses.iter().count(), twin.len());
            prop_assert_eq!(addresses.is_own(asked), twin.iter().any(|own| own.is_own(asked)));
            let has = |id: InterfaceId| twin.iter().any(|own| own.interface() == id && own.is_own(asked));
            prop_assert!(addresses.owners(asked).iter().all(|id| has(*id)));
            let around = twin.iter().filter(|own| own.is_on_link(asked)).map(|own| own.net().prefix_len()).max();
            prop_assert_eq!(addresses.around(asked).map(|own| own.net().prefix_len()), around);
            let is_broadcast = |own: &InterfaceAddress| own.is_subnet_broadcast(asked) || own.is_network_address(asked);
            prop_assert_eq!(addresses.is_broadcast(asked), twin.iter().any(is_broadcast));
            prop_assert_eq!(addresses.with_broadcast(asked).is_some(), twin.iter().any(|own| own.is_subnet_broadcast(asked)));
            for id in 0..3 {
                prop_assert_eq!(addresses.of(id).len(), twin.iter().filter(|own| own.interface() == id).count());
            }
        }
    }

    #[test]
    fn link_local_addresses_are_their_interfaces_alone() {
        let mut addresses = Addresses::<Ipv6Addr>::default();
        let own = |port| InterfaceAddress::new(port, "fe80::1/64".parse().unwrap()).unwrap();
        assert!(addresses.add(own(1)) && addresses.add(own(2)) && !addresses.add(own(2)));
        let address = own(1).address();
        assert!(!addresses.is_own(address) && addresses.around(address).is_none());
        assert!(addresses.in_network(own(1).network()).is_empty());
        assert_eq!((addresses.of(1), addresses.len()), (&[own(1)][..], 2));
        assert_eq!(addresses.remove(1, address), Some(own(1)));
        assert_eq!((addresses.of(1).len(), addresses.of(2).len(), addresses.len()), (0, 1, 1));
    }
}
