//! What a function has as routes into it: prefixes that come and go one by one, joined to as few as hold just them, and such as are said whole.
//!
//! Prefixes that are all there are one: 65,536 consecutive addresses are a /16, and a million customers, sixteen to an address, a handful of routes.
//! They are joined and parted as they come and go, so that at each moment some route leads each of them to the function, and no other.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_net::VrfId;
use weir_net::nexthop::Inlet;

/// A route of a function: in which VRF, to which prefix, and where it leads from now on, if it is there, as [`Running::set_routes`] takes them.
///
/// [`Running::set_routes`]: crate::Running::set_routes
pub type RouteChange = (VrfId, IpNet, Option<Inlet>);

/// The shortest prefixes that others are joined to.
const SHORTEST: [u8; 2] = [8, 16];

/// See the module.
#[derive(Debug)]
pub struct FunctionRoutes {
    /// Of IPv4 and of IPv6.
    vrfs: [VrfId; 2],
    into: Inlet,
    held: Joined,
    /// Those that are said whole. What of others lies in them needs no route of its own.
    whole: BTreeSet<IpNet>,
    /// What of these has changed since the last call of [`FunctionRoutes::follow`].
    pending: Vec<IpNet>,
}

impl FunctionRoutes {
    /// Without any, for routes in these VRFs of IPv4 and IPv6 that lead `into` an inlet.
    pub fn new(vrfs: [VrfId; 2], into: Inlet) -> FunctionRoutes {
        FunctionRoutes { vrfs, into, held: Joined::default(), whole: BTreeSet::new(), pending: Vec::new() }
    }

    /// Says which prefixes are there whole, whatever comes and goes in them. One of length 0 is none: all there is stays with the routes of the VRF.
    pub fn set_whole(&mut self, prefixes: impl IntoIterator<Item = IpNet>) {
        let whole: BTreeSet<IpNet> =
            prefixes.into_iter().map(|net| net.trunc()).filter(|net| net.prefix_len() > 0).collect();
        for net in self.whole.symmetric_difference(&whole) {
            let within = self.held.0.range(net..).take_while(|held| net.contains(*held));
            self.pending.extend(within.chain([net]));
        }
        self.whole = whole;
    }

    /// What follows for routes from prefixes that came (`true`) or went, none of which is part of another. All that comes stands before all
    /// that goes.
    pub fn follow(&mut self, changed: impl IntoIterator<Item = (IpNet, bool)>) -> Vec<RouteChange> {
        // What prefixes were before they were touched; `None` where that is to be said anew.
        let mut touched: BTreeMap<IpNet, Option<bool>> =
            std::mem::take(&mut self.pending).into_iter().map(|net| (net, None)).collect();
        let FunctionRoutes { vrfs, into, held, whole, .. } = self;
        for (net, is_there) in changed {
            held.set(net.trunc(), is_there, |net, is_there| {
                touched.entry(net).or_insert_with(|| Some(is_route(whole, &net, !is_there)));
            });
        }
        let now = |net: &IpNet| is_route(whole, net, held.0.contains(net));
        let vrf = |net: &IpNet| vrfs[usize::from(matches!(net, IpNet::V6(_)))];
        let changed = touched.iter().filter(|(net, before)| **before != Some(now(net)));
        let mut changes: Vec<RouteChange> =
            changed.map(|(net, _)| (vrf(net), *net, now(net).then_some(*into))).collect();
        changes.sort_by_key(|(.., into)| into.is_none());
        changes
    }
}

/// Whether a prefix has a route, of these that are `whole`, and as one that is `held` or not.
fn is_route(whole: &BTreeSet<IpNet>, net: &IpNet, is_held: bool) -> bool {
    whole.contains(net) || is_held && !whole.iter().any(|whole| whole.contains(net))
}

/// A set of addresses as the fewest prefixes that hold no others.
#[derive(Debug, Default)]
struct Joined(BTreeSet<IpNet>);

impl Joined {
    /// All of a prefix belongs to the set from now on, or nothing of it; before, the one or the other was so. What prefixes come and go is `told`.
    fn set(&mut self, net: IpNet, is_in: bool, mut told: impl FnMut(IpNet, bool)) {
        match (is_in, self.around(net)) {
            (true, None) => self.join(net, &mut told),
            (false, Some(around)) => self.part(around, net, &mut told),
            _ => {}
        }
    }

    /// The prefix of the set that has all of another.
    fn around(&self, net: IpNet) -> Option<IpNet> {
        // The last one that begins at or before it: prefixes of the set do not overlap.
        self.0.range(..=net).next_back().copied().filter(|around| around.contains(&net))
    }

    fn join(&mut self, mut net: IpNet, told: &mut impl FnMut(IpNet, bool)) {
        while net.prefix_len() > SHORTEST[usize::from(matches!(net, IpNet::V6(_)))]
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

    /// Takes a part out of one of the prefixes.
    fn part(&mut self, mut net: IpNet, gone: IpNet, told: &mut impl FnMut(IpNet, bool)) {
        self.0.remove(&net);
        told(net, false);
        while net != gone
            && let Some(half) = halves(net).into_iter().flatten().find(|half| half.contains(&gone))
            && let Some(other) = sibling(half, net)
        {
            self.0.insert(other);
            told(other, true);
            net = half;
        }
    }
}

/// Both halves of a prefix; none of a single address.
fn halves(net: IpNet) -> Option<[IpNet; 2]> {
    let length = net.prefix_len() + 1;
    match net {
        IpNet::V4(net) => {
            let second = net.network().to_bits() | 1_u32.checked_shl(u32::from(32_u8.checked_sub(length)?))?;
            Some([Ipv4Net::new(net.network(), length).ok()?.into(), Ipv4Net::new(second.into(), length).ok()?.into()])
        }
        IpNet::V6(net) => {
            let second = net.network().to_bits() | 1_u128.checked_shl(u32::from(128_u8.checked_sub(length)?))?;
            Some([Ipv6Net::new(net.network(), length).ok()?.into(), Ipv6Net::new(second.into(), length).ok()?.into()])
        }
    }
}

/// The other half of a whole.
fn sibling(half: IpNet, whole: IpNet) -> Option<IpNet> {
    halves(whole)?.into_iter().find(|other| *other != half)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use super::*;
    use proptest::prelude::*;

    const INTO: Inlet = Inlet { number: 0, argument: Inlet::NOBODY };

    /// The `n`th of 64 addresses of either family.
    fn nth(n: u32, is_six: bool) -> IpNet {
        match is_six {
            false => IpNet::from(IpAddr::V4(Ipv4Addr::from_bits(0xc633_6440 + n))),
            true => IpNet::from(IpAddr::V6(Ipv6Addr::from_bits((0x2001_0db8 << 96 | 0x40) + u128::from(n)))),
        }
    }

    /// All addresses of a short prefix, by number.
    fn addresses(net: &IpNet, is_six: bool) -> Vec<u32> {
        (0..64).filter(|n| net.contains(&nth(*n, is_six))).collect()
    }

    proptest! {
        /// After each step the prefixes hold just the addresses, and no two of them are halves of one: of addresses, and of prefixes of
        /// four that are whole or not at all.
        #[test]
        fn addresses_are_the_fewest_prefixes(
            steps in proptest::collection::vec((0u32..64, any::<bool>()), 1..200),
            is_six in any::<bool>(),
            by_four in any::<bool>(),
        ) {
            let (mut joined, mut twin, mut told) = (Joined::default(), BTreeSet::new(), BTreeSet::new());
            for (n, is_in) in steps {
                let (net, own) = match by_four {
                    false => (nth(n, is_six), n..n + 1),
                    true => {
                        let whole = nth(n, is_six).supernet().and_then(|net| net.supernet()).unwrap();
                        (whole, n / 4 * 4..n / 4 * 4 + 4)
                    }
                };
                own.for_each(|n| if is_in { twin.insert(n); } else { twin.remove(&n); });
                joined.set(net, is_in, |net, is_there| {
                    let changed = if is_there { told.insert(net) } else { told.remove(&net) };
                    assert!(changed, "{net} was so before");
                });
                assert_eq!(told, joined.0);
                let held: Vec<u32> = joined.0.iter().flat_map(|net| addresses(net, is_six)).collect();
                assert_eq!(held, twin.iter().copied().collect::<Vec<_>>());
                let is_joined = |net: &IpNet| net.supernet().and_then(|whole| sibling(*net, whole));
                assert!(joined.0.iter().filter_map(is_joined).all(|other| !joined.0.contains(&other)));
            }
        }
    }

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn routes_come_before_others_go_and_are_in_the_vrf_of_their_family() {
        let mut routes = FunctionRoutes::new([3, 5], INTO);
        let come = |vrf, text| (vrf, net(text), Some(INTO));
        let go = |vrf, text| (vrf, net(text), None);
        assert_eq!(routes.follow([(net("192.0.2.0/32"), true)]), [come(3, "192.0.2.0/32")]);
        let joined = [come(3, "192.0.2.0/31"), go(3, "192.0.2.0/32")];
        assert_eq!(routes.follow([(net("192.0.2.1/32"), true)]), joined);
        let six = [(net("2001:db8:0:8::/64"), true), (net("2001:db8:0:9::/64"), true)];
        assert_eq!(routes.follow(six), [come(5, "2001:db8:0:8::/63")]);
        assert_eq!(routes.follow([(net("192.0.2.0/32"), false)]), [come(3, "192.0.2.1/32"), go(3, "192.0.2.0/31")]);
        // Gone and there again, before anybody looked: nothing changes.
        let back = routes.follow([(net("192.0.2.1/32"), false), (net("192.0.2.1/32"), true)]);
        assert_eq!(back, []);
    }

    #[test]
    fn what_is_whole_stays_whatever_is_joined_to_it() {
        let mut routes = FunctionRoutes::new([0, 0], INTO);
        routes.set_whole(["10.0.0.0/31", "0.0.0.0/0", "2001:db8::/32"].map(net));
        let come = |text| (0, net(text), Some(INTO));
        assert_eq!(routes.follow([]), [come("10.0.0.0/31"), come("2001:db8::/32")]);
        let both = ["10.0.0.0/32", "10.0.0.1/32"].map(net);
        assert_eq!(routes.follow(both.map(|net| (net, true))), []);
        assert_eq!(routes.follow(both.map(|net| (net, false))), []);
        routes.follow(both.map(|net| (net, true)));
        // What lies in another needs none, but while that is not there.
        assert_eq!(routes.follow([(net("2001:db8:7::/48"), true)]), []);
        // It goes as a whole, and stays as what others are joined to.
        routes.set_whole([]);
        assert_eq!(routes.follow([]), [come("10.0.0.0/31"), come("2001:db8:7::/48"), (0, net("2001:db8::/32"), None)]);
        routes.set_whole([net("2001:db8::/32")]);
        assert_eq!(routes.follow([]), [come("2001:db8::/32"), (0, net("2001:db8:7::/48"), None)]);
        assert_eq!(routes.follow(both.map(|net| (net, false))), [(0, net("10.0.0.0/31"), None)]);
    }
}
