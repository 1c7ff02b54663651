//! Flows that move when the next hops of a route change, and those that stay.

use super::*;
use crate::group::BUCKETS;

/// The buckets that change when fair shares among `members` are made of `before` with the fewest changes: each member keeps what it
/// has up to its share, and those that have most may have one more than others.
fn fewest_moves(before: &Buckets, members: &BTreeSet<NextHopId>) -> usize {
    let held = |member: &NextHopId| before.iter().filter(|owner| *owner == member).count();
    let mut held: Vec<usize> = members.iter().map(held).collect();
    held.sort_unstable_by(|one, other| other.cmp(one));
    let (even, extra) = (BUCKETS / held.len(), BUCKETS % held.len());
    let kept = held.iter().zip(0..).map(|(&held, rank)| held.min(even + usize::from(rank < extra)));
    BUCKETS - kept.sum::<usize>()
}

/// The buckets behind a route to several next hops.
fn buckets_to(rib: &Rib, prefix: Ipv4Net) -> Option<Buckets> {
    match rib.lookup(DEFAULT_VRF, prefix.addr()) {
        Some((_, Target::Group(id))) => rib.buckets(id).copied(),
        _ => None,
    }
}

proptest! {
    /// Whoever replaces a route, and whatever sets of hops other routes have: no more flows move than fair shares need.
    #[test]
    fn a_replaced_route_moves_no_more_flows_than_it_must(
        steps in proptest::collection::vec(
            (0u8..3, prop_oneof![Just(RouteSource::Cli), Just(RouteSource::Config)], proptest::collection::btree_set(2u8..10, 2..8)), 1..40,
        ),
    ) {
        let (mut fib, mut changes) = (Fib::default(), Vec::new());
        let mut rib = two_ports(&mut fib);
        for (place, source, members) in steps {
            let prefix = net(&format!("198.51.{place}.0/24"));
            let hops: Vec<Hop> = members.iter().map(|&last| via(Ipv4Addr::new(10, 0, 1, last))).collect();
            let before = buckets_to(&rib, prefix);
            rib.replace(DEFAULT_VRF, prefix, source, &hops, &mut changes).unwrap();
            fib.apply(&mut changes);
            let Some((before, after)) = before.zip(buckets_to(&rib, prefix)) else { continue };
            let leads = rib.routes_to(DEFAULT_VRF, prefix).any(|route| route.source() == source && route.is_installed());
            let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
            if leads {
                prop_assert_eq!(moved, fewest_moves(&before, &after.iter().copied().collect()));
            } else {
                prop_assert_eq!(moved, 0, "a better source's route stays as it is");
            }
        }
    }
}

#[test]
fn a_command_that_leaves_out_a_hop_of_the_configuration_moves_its_flows_only() {
    let (mut fib, mut changes) = (Fib::default(), Vec::new());
    let mut rib = two_ports(&mut fib);
    let hops: Vec<Hop> = (2..10).map(|last| via(Ipv4Addr::new(10, 0, 1, last))).collect();
    let (prefix, other) = (net("198.51.100.0/24"), net("203.0.113.0/24"));
    rib.replace(DEFAULT_VRF, prefix, RouteSource::Config, &hops, &mut changes).unwrap();
    // Another route has just the hops that are to stay, with their flows spread in another way.
    rib.replace(DEFAULT_VRF, other, RouteSource::Config, &hops[1..], &mut changes).unwrap();
    let before = buckets_to(&rib, prefix).unwrap();
    rib.replace(DEFAULT_VRF, prefix, RouteSource::Cli, &hops[1..], &mut changes).unwrap();
    let after = buckets_to(&rib, prefix).unwrap();
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    assert_eq!(moved, BUCKETS / 8);
    rib.remove(DEFAULT_VRF, prefix, RouteSource::Cli, &mut changes).unwrap();
    assert_eq!(buckets_to(&rib, prefix).unwrap(), before, "what the command covered comes back");
    fib.apply(&mut changes);
}
