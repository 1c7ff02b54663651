//! What of the addresses the relay owns as routes: those that softwires share, its ends of tunnels, and the prefixes of the configuration.
//!
//! Addresses that are all shared are one prefix: a million softwires, sixteen to an address, of consecutive addresses are a handful of routes. Prefixes
//! are joined and parted as addresses come and go, so that at each moment some route leads every shared address to the relay, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

use ipnet::{IpNet, Ipv4Net};
use weir_ip::Inlet;

use crate::config::LwaftrConfig;
use crate::registry::Registry;

/// A route of the relay: in which VRF, to which prefix, and whether it is there from now on.
type Change = (u16, IpNet, Option<Inlet>);

/// Where routes of the relay lead: it finds softwires by packets.
const INTO: Inlet = Inlet { number: 0, argument: Inlet::NOBODY };

/// The shortest prefix that addresses are joined to.
const SHORTEST: u8 = 8;

/// See the module.
pub(crate) struct Owned {
    /// Of IPv4 and of IPv6.
    vrfs: [u16; 2],
    shared: Joined,
    /// Those that do not come and go, until they have been told.
    fixed: Vec<IpNet>,
    /// Of those, the ones of IPv4: what addresses are joined to may be one of them, and stays then.
    kept: BTreeSet<Ipv4Net>,
}

impl Owned {
    /// What a configuration says beside softwires.
    pub(crate) fn new(vrfs: [u16; 2], config: &LwaftrConfig) -> Owned {
        let ends = config.aftr.iter().map(|end| IpNet::from(std::net::IpAddr::V6(*end)));
        // All there is stays with the routes of the VRF: a relay that has all that nobody else has does so on its own interfaces.
        let prefixes = config.prefixes.iter().map(|net| net.trunc()).filter(|net| net.prefix_len() > 0);
        let fixed: BTreeSet<IpNet> = ends.chain(prefixes).collect();
        let four = |net: &IpNet| if let IpNet::V4(net) = net { Some(*net) } else { None };
        let kept = fixed.iter().filter_map(four).collect();
        Owned { vrfs, shared: Joined::default(), fixed: fixed.into_iter().collect(), kept }
    }

    fn vrf_of(&self, net: IpNet) -> u16 {
        self.vrfs[usize::from(matches!(net, IpNet::V6(_)))]
    }

    /// What follows for routes from addresses that became shared, or are so no more. All that comes stands before all that goes.
    fn follow(&mut self, shared: impl Iterator<Item = (Ipv4Addr, bool)>) -> Vec<Change> {
        let mut wanted: BTreeMap<IpNet, bool> = BTreeMap::new();
        for (address, is_shared) in shared {
            self.shared.set(address, is_shared, |net, is_there| {
                wanted.insert(net.into(), is_there);
            });
        }
        wanted.extend(std::mem::take(&mut self.fixed).into_iter().map(|net| (net, true)));
        let is_kept = |net: &IpNet| matches!(net, IpNet::V4(net) if self.kept.contains(net));
        let of = |(net, is_there): (IpNet, bool)| (self.vrf_of(net), net, (is_there || is_kept(&net)).then_some(INTO));
        let mut changes: Vec<Change> = wanted.into_iter().map(of).collect();
        changes.sort_by_key(|(.., into)| into.is_none());
        changes
    }
}

/// Lets routes follow what has changed in the binding table.
pub(crate) fn settle(registry: &mut Registry, owned: &Mutex<Owned>, layer: &weir_ip::Running) {
    let shared = registry.take_shared();
    let mut owned = owned.lock().unwrap_or_else(PoisonError::into_inner);
    layer.set_routes(&owned.follow(shared.into_iter()));
}

/// A set of addresses as the fewest prefixes that hold no others.
#[derive(Debug, Default)]
struct Joined(BTreeSet<Ipv4Net>);

impl Joined {
    /// An address belongs to the set from now on, or not. What prefixes come and go is `told`.
    fn set(&mut self, address: Ipv4Addr, is_in: bool, mut told: impl FnMut(Ipv4Net, bool)) {
        let around = self.around(address);
        match (is_in, around) {
            (true, None) => self.join(Ipv4Net::from(address), &mut told),
            (false, Some(net)) => self.part(net, address, &mut told),
            _ => {}
        }
    }

    /// The prefix of the set that has an address.
    fn around(&self, address: Ipv4Addr) -> Option<Ipv4Net> {
        // The last one that begins at or before it: prefixes of the set do not overlap.
        let last = Ipv4Net::from(address);
        self.0.range(..=last).next_back().copied().filter(|net| net.contains(&address))
    }

    fn join(&mut self, mut net: Ipv4Net, told: &mut impl FnMut(Ipv4Net, bool)) {
        while net.prefix_len() > SHORTEST
            && let Some(whole) = net.supernet()
            && let Some(other) = sibling(net, whole)
            && self.0.remove(&other)
        {
            told(other, false);
            net = whole;
        }
        self.0.insert(net);
        told(net, true);
    }

    /// Takes an address out of one of the prefixes.
    fn part(&mut self, mut net: Ipv4Net, address: Ipv4Addr, told: &mut impl FnMut(Ipv4Net, bool)) {
        self.0.remove(&net);
        told(net, false);
        while let Some(half) = halves(net).find(|half| half.contains(&address))
            && let Some(other) = sibling(half, net)
        {
            self.0.insert(other);
            told(other, true);
            net = half;
        }
    }
}

/// Both halves of a prefix; none of a single address.
fn halves(net: Ipv4Net) -> impl Iterator<Item = Ipv4Net> {
    net.subnets(net.prefix_len().saturating_add(1).min(32)).into_iter().flatten().filter(move |half| *half != net)
}

/// The other half of a whole.
fn sibling(half: Ipv4Net, whole: Ipv4Net) -> Option<Ipv4Net> {
    halves(whole).find(|other| *other != half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// After each step the prefixes hold just the addresses, and no two of them are halves of one.
        #[test]
        fn addresses_are_the_fewest_prefixes(steps in proptest::collection::vec((0u32..64, any::<bool>()), 1..200)) {
            let (mut joined, mut twin, mut told) = (Joined::default(), BTreeSet::new(), BTreeSet::new());
            for (n, is_in) in steps {
                let address = Ipv4Addr::from_bits(0xc633_6440 + n);
                if is_in { twin.insert(address) } else { twin.remove(&address) };
                joined.set(address, is_in, |net, is_there| {
                    let changed = if is_there { told.insert(net) } else { told.remove(&net) };
                    assert!(changed, "{net} was so before");
                });
                assert_eq!(told, joined.0);
                let held: Vec<Ipv4Addr> = joined.0.iter().flat_map(|net| {
                    let first = net.network().to_bits();
                    (0..1 << (32 - net.prefix_len())).map(move |n| Ipv4Addr::from_bits(first + n))
                }).collect();
                assert_eq!(held, twin.iter().copied().collect::<Vec<_>>());
                let is_joined = |net: &Ipv4Net| net.supernet().and_then(|whole| sibling(*net, whole));
                assert!(joined.0.iter().filter_map(is_joined).all(|other| !joined.0.contains(&other)));
            }
        }
    }
}
