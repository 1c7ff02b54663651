//! The router's own addresses, and the networks that are connected by them, each found without a search.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use weir_ip::InterfaceId;
use weir_net::interface::Interface;

/// All addresses of all interfaces.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    by_interface: BTreeMap<InterfaceId, Vec<Interface>>,
    /// Interfaces that have an address, by the address.
    own: HashMap<Ipv4Addr, Vec<InterfaceId>>,
    /// Addresses in each connected network.
    networks: HashMap<Ipv4Net, Vec<Interface>>,
    /// Connected networks by the length of their prefixes.
    lengths: BTreeMap<u8, usize>,
    len: usize,
}

impl Addresses {
    /// Adds an address. Answers whether its interface did not have it.
    pub(crate) fn add(&mut self, address: Interface) -> bool {
        let list = self.by_interface.entry(address.port()).or_default();
        if list.iter().any(|other| other.address() == address.address()) {
            return false;
        }
        list.push(address);
        self.own.entry(address.address()).or_default().push(address.port());
        let network = self.networks.entry(address.network()).or_default();
        if network.is_empty() {
            *self.lengths.entry(address.network().prefix_len()).or_default() += 1;
        }
        network.push(address);
        self.len += 1;
        true
    }

    /// Removes an address; what it was, if it was there.
    pub(crate) fn remove(&mut self, interface: InterfaceId, address: Ipv4Addr) -> Option<Interface> {
        let list = self.by_interface.get_mut(&interface)?;
        let gone = list.remove(list.iter().position(|own| own.address() == address)?);
        if list.is_empty() {
            self.by_interface.remove(&interface);
        }
        take(&mut self.own, gone.address(), |other| *other == interface);
        if take(&mut self.networks, gone.network(), |other| *other == gone) {
            let length = gone.network().prefix_len();
            let count = self.lengths.entry(length).or_default();
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&length);
            }
        }
        self.len -= 1;
        Some(gone)
    }

    /// The addresses of an interface, in the order in which they were added, but for gaps.
    pub(crate) fn of(&self, interface: InterfaceId) -> &[Interface] {
        self.by_interface.get(&interface).map_or(&[], Vec::as_slice)
    }

    /// All addresses, by interface.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Interface> {
        self.by_interface.values().flatten()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether `address` is one of the router's own.
    pub(crate) fn is_own(&self, address: Ipv4Addr) -> bool {
        self.own.contains_key(&address)
    }

    /// An interface that has the address.
    pub(crate) fn owner(&self, address: Ipv4Addr) -> Option<InterfaceId> {
        self.own.get(&address)?.first().copied()
    }

    /// The addresses in a network that is connected by them.
    pub(crate) fn in_network(&self, network: Ipv4Net) -> &[Interface] {
        self.networks.get(&network).map_or(&[], Vec::as_slice)
    }

    /// The address with the longest network around another one.
    pub(crate) fn around(&self, address: Ipv4Addr) -> Option<&Interface> {
        let lengths = self.lengths.keys().rev();
        let networks = lengths.filter_map(|&length| Ipv4Net::new(address, length).ok());
        networks.map(|net| self.in_network(net.trunc())).find_map(<[Interface]>::first)
    }

    /// The address whose network has `address` as its broadcast address.
    pub(crate) fn with_broadcast(&self, address: Ipv4Addr) -> Option<&Interface> {
        self.networks_around(address).find(|own| own.is_subnet_broadcast(address))
    }

    /// Whether `address` is the broadcast or network address of a connected network.
    pub(crate) fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        self.networks_around(address).any(|own| own.is_subnet_broadcast(address) || own.is_network_address(address))
    }

    /// An address in each connected network around another one.
    fn networks_around(&self, address: Ipv4Addr) -> impl Iterator<Item = &Interface> {
        let networks = self.lengths.keys().filter_map(move |&length| Ipv4Net::new(address, length).ok());
        networks.filter_map(|net| self.in_network(net.trunc()).first())
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
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_search_of_all_finds_the_same(
            steps in prop::collection::vec((any::<bool>(), 0u16..3, 0u32..64, 26u8..=32), 1..40),
            asked in 0u32..80,
        ) {
            let base = Ipv4Addr::new(10, 0, 0, 0).to_bits();
            let (mut addresses, mut twin): (Addresses, Vec<Interface>) = Default::default();
            for (adds, interface, host, length) in steps {
                let net = Ipv4Net::new(Ipv4Addr::from_bits(base + host), length).unwrap();
                let Ok(address) = Interface::new(interface, net) else { continue };
                let at = twin.iter().position(|own| own.port() == interface && own.address() == address.address());
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
            let has = |id: InterfaceId| twin.iter().any(|own| own.port() == id && own.is_own(asked));
            prop_assert!(addresses.owner(asked).is_none_or(has));
            let around = twin.iter().filter(|own| own.is_on_link(asked)).map(|own| own.net().prefix_len()).max();
            prop_assert_eq!(addresses.around(asked).map(|own| own.net().prefix_len()), around);
            let is_broadcast = |own: &Interface| own.is_subnet_broadcast(asked) || own.is_network_address(asked);
            prop_assert_eq!(addresses.is_broadcast(asked), twin.iter().any(is_broadcast));
            prop_assert_eq!(addresses.with_broadcast(asked).is_some(), twin.iter().any(|own| own.is_subnet_broadcast(asked)));
            for id in 0..3 {
                prop_assert_eq!(addresses.of(id).len(), twin.iter().filter(|own| own.port() == id).count());
            }
        }
    }
}
