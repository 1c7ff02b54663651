//! The RIB against its slow twin: a list of routes, from which the table is worked out anew after each step.

mod flows;
mod six;
mod twin;

use super::*;
use crate::DEFAULT_VRF;
use crate::nexthop::{Inlet, NextHop};
use ipnet::{Ipv4Net, Ipv6Net};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use twin::{Fib, Twin, remove, replace};

/// A network of a VRF.
type Place = (VrfId, IpNet);

const VRFS: std::ops::Range<VrfId> = 0..3;

fn installed(rib: &Rib) -> BTreeMap<Place, Target> {
    let of = |vrf| {
        let v4 = rib.installed(vrf).map(|(prefix, target): (Ipv4Net, _)| (IpNet::V4(prefix), target));
        let v6 = rib.installed(vrf).map(|(prefix, target): (Ipv6Net, _)| (IpNet::V6(prefix), target));
        v4.chain(v6).map(move |(prefix, target)| ((vrf, prefix), target)).collect::<Vec<_>>()
    };
    VRFS.flat_map(of).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Replace(Place, RouteSource, Vec<Hop>),
    Remove(Place, RouteSource),
    Link(InterfaceId, bool),
    Recycle,
    CatchUp(usize),
}

fn prefixes() -> impl Strategy<Value = Place> {
    let nets = [
        "0.0.0.0/0",
        "10.0.0.0/8",
        "10.1.0.0/16",
        "10.1.1.0/24",
        "10.1.1.1/32",
        "192.0.2.0/24",
        "192.0.2.128/25",
        "::/0",
        "2001:db8::/32",
        "2001:db8:1::/48",
        "2001:db8:1::/64",
        "2001:db8:1::1/128",
    ];
    // Most of what happens, happens in one VRF.
    let vrf = prop_oneof![3 => Just(0), 1 => VRFS];
    (vrf, proptest::sample::select(nets.to_vec())).prop_map(|(vrf, net)| (vrf, net.parse().unwrap()))
}

fn hops() -> impl Strategy<Value = Hop> {
    let gateways = [
        "10.1.1.1",
        "10.1.1.2",
        "10.9.9.9",
        "192.0.2.1",
        "192.0.2.129",
        "203.0.113.1",
        "2001:db8::1",
        "2001:db8:1::1",
        "2001:db8:1:1::1",
        "fe80::1",
    ];
    let gateway = proptest::sample::select(gateways.to_vec()).prop_map(|text| text.parse::<IpAddr>().unwrap());
    prop_oneof![
        3 => (0u16..4).prop_map(Hop::On),
        6 => gateway.clone().prop_map(Hop::Via),
        3 => (gateway, 0u16..4).prop_map(|(gateway, interface)| Hop::ViaOn(gateway, interface)),
        2 => (0u16..2, 0u32..3).prop_map(|(number, argument)| Hop::Into(Inlet { number, argument })),
    ]
}

fn all_hops() -> impl Strategy<Value = Vec<Hop>> {
    let discard = proptest::sample::select(Discard::ALL.to_vec()).prop_map(Hop::Discard);
    prop_oneof![
        12 => proptest::collection::vec(hops(), 1..5),
        1 => discard.clone().prop_map(|hop| vec![hop]),
        1 => (discard, hops()).prop_map(|(discard, hop)| vec![discard, hop]),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let source = || proptest::sample::select(RouteSource::ALL.to_vec());
    let interfaces = proptest::collection::vec((0u16..4).prop_map(Hop::On), 1..3);
    prop_oneof![
        4 => (prefixes(), source(), all_hops()).prop_map(|(p, a, h)| Step::Replace(p, a, h)),
        2 => (prefixes(), interfaces).prop_map(|(prefix, hops)| Step::Replace(prefix, RouteSource::Connected, hops)),
        3 => (prefixes(), source()).prop_map(|(prefix, source)| Step::Remove(prefix, source)),
        3 => (0u16..4, any::<bool>()).prop_map(|(interface, up)| Step::Link(interface, up)),
        1 => Just(Step::Recycle),
        2 => (0usize..4).prop_map(Step::CatchUp),
    ]
}

/// The link of an interface goes up or down, and nothing is left behind.
fn set_link(rib: &mut Rib, interface: InterfaceId, up: bool, changes: &mut Vec<Change>) {
    rib.set_link(interface, up);
    rib.catch_up(usize::MAX, changes);
}

/// Carries steps out, each of them all at once or, `by_and_by`, as far as they say.
fn run(steps: Vec<Step>, limits: Limits, by_and_by: bool, check: impl Fn(&Fib, &Twin, &Rib)) {
    let (mut rib, mut twin, mut fib, mut changes) = (Rib::new(limits), Twin::default(), Fib::default(), Vec::new());
    for step in steps {
        match step {
            Step::Replace(place, source, hops) => {
                let before = fib.routes.clone();
                let result = replace(&mut rib, place, source, &hops, &mut changes);
                fib.apply(&mut changes);
                assert!(result.is_err() || !Twin::refuses(place.1, &hops));
                assert!(result.is_ok() || Twin::refuses(place.1, &hops) || limits != Limits::default());
                match result {
                    Ok(()) => drop(twin.routes.insert((place.0, place.1, source), hops)),
                    Err(_) => assert_eq!(before, fib.routes, "what is refused changes nothing"),
                }
            }
            Step::Remove(place, source) => {
                let there = twin.routes.remove(&(place.0, place.1, source)).is_some();
                let expected = if there { Ok(()) } else { Err(RouteError::NotFound) };
                assert_eq!(remove(&mut rib, place, source, &mut changes), expected);
            }
            Step::Link(interface, up) => {
                rib.set_link(interface, up);
                if up {
                    twin.up.insert(interface)
                } else {
                    twin.up.remove(&interface)
                };
            }
            Step::Recycle => rib.recycle(rib.retired()),
            Step::CatchUp(most) => {
                let done = rib.catch_up(most, &mut changes);
                assert!(done == most || done < most && !rib.is_behind());
            }
        }
        if !by_and_by {
            rib.catch_up(usize::MAX, &mut changes);
            assert!(!rib.is_behind());
        }
        fib.apply(&mut changes);
        assert_eq!(rib.len(), twin.routes.len());
        assert_eq!(installed(&rib), fib.routes);
        assert_eq!(rib.next_hops().collect::<BTreeMap<_, _>>(), fib.next_hops);
        if !rib.is_behind() {
            check(&fib, &twin, &rib);
        }
    }
    while rib.is_behind() {
        rib.catch_up(1, &mut changes);
        fib.apply(&mut changes);
    }
    check(&fib, &twin, &rib);
    let keys: Vec<_> = twin.routes.into_keys().collect();
    for (vrf, prefix, source) in keys {
        remove(&mut rib, (vrf, prefix), source, &mut changes).unwrap();
    }
    rib.catch_up(usize::MAX, &mut changes);
    fib.apply(&mut changes);
    assert!(fib.routes.is_empty() && fib.groups.is_empty() && fib.next_hops.is_empty(), "nothing is left behind");
    assert!(rib.is_empty() && rib.group_count() == 0);
}

proptest! {
    #[test]
    fn the_forwarding_table_is_what_the_definition_says(
        steps in proptest::collection::vec(steps(), 1..60), by_and_by: bool,
    ) {
        run(steps, Limits::default(), by_and_by, |fib, twin, rib| {
            let table: BTreeMap<_, _> =
                fib.routes.iter().map(|(place, target)| (*place, fib.reach(*target))).collect();
            assert_eq!(table, twin.table());
            for (place, expected) in &table {
                let next_hops = rib.next_hops_of(fib.routes[place]).into_iter().collect::<BTreeSet<_>>();
                assert_eq!(next_hops, expected.clone().unwrap_or_default());
            }
            views_agree::<Ipv4Net>(twin, rib);
            views_agree::<Ipv6Net>(twin, rib);
        });
    }

    #[test]
    fn small_limits_refuse_and_never_leave_anything_dangling(
        steps in proptest::collection::vec(steps(), 1..60), by_and_by: bool,
        routes in 1u32..8, next_hops in 1u32..8, groups in 0u32..4,
    ) {
        run(steps, Limits { routes, next_hops, groups }, by_and_by, |fib, _, rib| {
            assert!(rib.len() <= routes as usize);
            assert!(fib.next_hops.len() <= next_hops as usize && fib.groups.len() <= groups as usize);
        });
    }
}

/// What is shown of the routes of a family is what was stated.
fn views_agree<P: Routed>(twin: &Twin, rib: &Rib) {
    let expected = twin.routes.keys().filter(|(_, prefix, _)| P::of(*prefix).is_some()).count();
    assert_eq!(rib.routes::<P>().count(), expected);
    assert_eq!(rib.routes_at::<P>(0..rib.positions::<P>()).count(), expected);
    for view in rib.routes::<P>() {
        let stated: BTreeSet<_> = view.hops().map(|(hop, _)| hop).collect();
        let (vrf, prefix, source) = (view.vrf(), view.prefix().into(), view.source());
        assert_eq!(stated, twin.routes[&(vrf, prefix, source)].iter().copied().collect());
        assert!(view.hops().all(|(hop, next_hop)| next_hop == twin.resolve(vrf, hop)));
        let mut better = twin.routes.range((vrf, prefix, RouteSource::Connected)..(vrf, prefix, source));
        let beaten = better.any(|(_, hops)| twin.reach(vrf, hops).is_some());
        let reach = twin.reach(vrf, &stated.into_iter().collect::<Vec<_>>());
        assert_eq!(view.is_installed(), !beaten && reach.is_some());
        assert!(rib.routes_to(vrf, view.prefix()).any(|other| other.source() == source));
        let installed = rib.installed_at(vrf, view.prefix());
        if installed.is_some() {
            assert_eq!(installed, rib.installed::<P>(vrf).find(|(found, _)| *found == view.prefix()).map(|(_, to)| to));
        }
    }
}

/// A place in the default VRF.
fn at(prefix: Ipv4Net) -> Place {
    (DEFAULT_VRF, prefix.into())
}

fn net(text: &str) -> Ipv4Net {
    text.parse().unwrap()
}

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

/// A router by its address.
fn via(gateway: impl Into<IpAddr>) -> Hop {
    Hop::Via(gateway.into())
}

/// Two interfaces with connected networks 10.0.N.0/24, links up.
fn two_ports(fib: &mut Fib) -> Rib {
    let (mut rib, mut changes) = (Rib::new(Limits::default()), Vec::new());
    for interface in 1..=2 {
        set_link(&mut rib, interface, true, &mut changes);
        let network = net(&format!("10.0.{interface}.0/24"));
        rib.replace(DEFAULT_VRF, network, RouteSource::Connected, &[Hop::On(interface)], &mut changes).unwrap();
    }
    rib.catch_up(usize::MAX, &mut changes);
    fib.apply(&mut changes);
    rib
}

#[test]
fn an_equal_cost_set_shrinks_and_grows_by_its_group_alone() {
    let (mut fib, mut changes) = (Fib::default(), Vec::new());
    let mut rib = two_ports(&mut fib);
    let hops = [via(ip("10.0.1.9")), via(ip("10.0.2.9"))];
    for third in 0..100 {
        rib.replace(DEFAULT_VRF, net(&format!("198.51.{third}.0/24")), RouteSource::Config, &hops, &mut changes)
            .unwrap();
    }
    assert_eq!(rib.group_count(), 1, "equal sets are one");
    fib.apply(&mut changes);

    set_link(&mut rib, 2, false, &mut changes);
    let routes = changes.iter().filter(|change| matches!(change, Change::Route { .. })).count();
    let groups = changes.iter().filter(|change| matches!(change, Change::Group { .. })).count();
    assert_eq!((routes, groups), (1, 1), "the connected route of interface 2, and one group");
    fib.apply(&mut changes);
    let only = NextHop { interface: 1, gateway: Some(ip("10.0.1.9").into()) };
    assert_eq!(fib.next_hops_of(fib.routes[&at(net("198.51.7.0/24"))]), [only.into()].into());

    set_link(&mut rib, 1, false, &mut changes);
    fib.apply(&mut changes);
    assert!(fib.routes.is_empty());
    set_link(&mut rib, 2, true, &mut changes);
    set_link(&mut rib, 1, true, &mut changes);
    fib.apply(&mut changes);
    assert_eq!(fib.routes.len(), 102);
    assert_eq!(fib.next_hops_of(fib.routes[&at(net("198.51.7.0/24"))]).len(), 2);
    assert_eq!(rib.retired(), Retired { next_hops: 0, groups: 0 }, "flapping uses up no places");
}

#[test]
fn a_replaced_route_keeps_the_flows_of_the_hops_that_stay() {
    let (mut fib, mut changes) = (Fib::default(), Vec::new());
    let mut rib = two_ports(&mut fib);
    let prefix = net("198.51.100.0/24");
    let hops = |last: &[u8]| -> Vec<Hop> { last.iter().map(|n| via(Ipv4Addr::new(10, 0, 1, *n))).collect() };
    let buckets = |rib: &Rib| match rib.lookup(DEFAULT_VRF, ip("198.51.100.1")) {
        Some((_, Target::Group(id))) => *rib.buckets(id).unwrap(),
        other => panic!("{other:?}"),
    };
    rib.replace(DEFAULT_VRF, prefix, RouteSource::Cli, &hops(&[2, 3, 4, 5]), &mut changes).unwrap();
    let before = buckets(&rib);
    fib.apply(&mut changes);
    rib.replace(DEFAULT_VRF, prefix, RouteSource::Cli, &hops(&[2, 3, 4]), &mut changes).unwrap();
    fib.apply(&mut changes);
    let after = buckets(&rib);
    let gone = before.iter().find(|id| !after.contains(id)).unwrap();
    assert!(before.iter().zip(&after).all(|(old, new)| old == new || old == gone));
    // One more hop that is not usable changes no bucket, and the new group is told all the same.
    rib.replace(
        DEFAULT_VRF,
        prefix,
        RouteSource::Cli,
        &[hops(&[2, 3, 4]), vec![via(ip("203.0.113.1"))]].concat(),
        &mut changes,
    )
    .unwrap();
    fib.apply(&mut changes);
    assert_eq!(buckets(&rib), after);
    assert_eq!(fib.next_hops_of(fib.routes[&at(prefix)]).len(), 3);
}
#[test]
fn a_route_of_a_lesser_source_counts_while_the_better_one_has_no_link() {
    let (mut fib, mut changes) = (Fib::default(), Vec::new());
    let mut rib = two_ports(&mut fib);
    let default = net("0.0.0.0/0");
    rib.replace(DEFAULT_VRF, default, RouteSource::Learned, &[via(ip("10.0.2.1"))], &mut changes).unwrap();
    rib.replace(DEFAULT_VRF, default, RouteSource::Config, &[via(ip("10.0.1.1"))], &mut changes).unwrap();
    let interface = |rib: &Rib| {
        rib.lookup(DEFAULT_VRF, ip("8.8.8.8")).map(|(_, target)| rib.next_hops_of(target)[0].link().unwrap().interface)
    };
    assert_eq!(interface(&rib), Some(1));
    set_link(&mut rib, 1, false, &mut changes);
    assert_eq!(interface(&rib), Some(2));
    set_link(&mut rib, 1, true, &mut changes);
    assert_eq!(interface(&rib), Some(1));
    rib.remove(DEFAULT_VRF, default, RouteSource::Config, &mut changes).unwrap();
    assert_eq!(interface(&rib), Some(2));
    fib.apply(&mut changes);
    assert_eq!(rib.lookup(DEFAULT_VRF, ip("10.0.2.77")).map(|(prefix, _)| prefix), Some(net("10.0.2.0/24")));
}

#[test]
fn gateways_are_looked_up_among_connected_networks_only() {
    let (mut fib, mut changes) = (Fib::default(), Vec::new());
    let mut rib = two_ports(&mut fib);
    rib.replace(DEFAULT_VRF, net("172.16.0.0/12"), RouteSource::Config, &[via(ip("10.0.1.1"))], &mut changes).unwrap();
    rib.replace(DEFAULT_VRF, net("192.168.0.0/16"), RouteSource::Config, &[via(ip("172.16.0.1"))], &mut changes)
        .unwrap();
    fib.apply(&mut changes);
    assert!(!fib.routes.contains_key(&at(net("192.168.0.0/16"))));
    let view = rib.routes_to(DEFAULT_VRF, net("192.168.3.3/16")).next().unwrap();
    assert_eq!(view.hops().collect::<Vec<_>>(), [(via(ip("172.16.0.1")), None)]);
    // The gateway's network moves from one interface to the other.
    rib.replace(DEFAULT_VRF, net("10.0.1.0/24"), RouteSource::Connected, &[Hop::On(2)], &mut changes).unwrap();
    rib.catch_up(usize::MAX, &mut changes);
    fib.apply(&mut changes);
    let expected = NextHop { interface: 2, gateway: Some(ip("10.0.1.1").into()) };
    assert_eq!(fib.next_hops_of(fib.routes[&at(net("172.16.0.0/12"))]), [expected.into()].into());
}

#[test]
fn bad_routes_are_refused_by_name() {
    let mut changes = Vec::new();
    let mut rib = Rib::new(Limits { routes: 1, next_hops: 1, groups: 0 });
    let mut replace =
        |prefix: &str, hops: &[Hop]| rib.replace(DEFAULT_VRF, net(prefix), RouteSource::Cli, hops, &mut changes);
    assert_eq!(replace("10.0.0.0/8", &[]), Err(RouteError::NoHops));
    let many: Vec<_> = (0..65).map(Hop::On).collect();
    assert_eq!(replace("10.0.0.0/8", &many), Err(RouteError::TooManyHops { limit: 64 }));
    assert_eq!(replace("10.0.0.0/8", &[Hop::On(1), Hop::On(2)]), Err(RouteError::TooManyNextHops));
    let gateways = [via(ip("10.0.0.1")), via(ip("10.0.0.2"))];
    assert_eq!(replace("10.0.0.0/8", &gateways), Err(RouteError::TooManyGroups));
    assert_eq!(replace("10.0.0.0/8", &gateways[..1]), Ok(()));
    assert_eq!(replace("11.0.0.0/8", &gateways[..1]), Err(RouteError::TooManyRoutes { limit: 1 }));
    assert_eq!(replace("10.1.2.3/8", &gateways[1..]), Ok(()), "replaced, host bits do not count");
    assert_eq!(rib.len(), 1);
}

/// A place that is wanted and not free is filled as soon as it is recycled.
#[test]
fn a_starved_hop_is_served_after_recycling() {
    let (mut fib, mut changes) = (Fib::default(), Vec::new());
    let mut rib = Rib::new(Limits { next_hops: 2, ..Limits::default() });
    set_link(&mut rib, 1, true, &mut changes);
    rib.replace(
        DEFAULT_VRF,
        net("172.16.0.0/12"),
        RouteSource::Cli,
        &[Hop::ViaOn(ip("10.0.0.2").into(), 1)],
        &mut changes,
    )
    .unwrap();
    rib.replace(DEFAULT_VRF, net("192.168.0.0/16"), RouteSource::Cli, &[via(ip("10.0.0.1"))], &mut changes).unwrap();
    rib.replace(DEFAULT_VRF, net("10.0.0.0/8"), RouteSource::Connected, &[Hop::On(1)], &mut changes).unwrap();
    rib.catch_up(usize::MAX, &mut changes);
    fib.apply(&mut changes);
    assert!(!fib.routes.contains_key(&at(net("192.168.0.0/16"))));
    rib.remove(DEFAULT_VRF, net("172.16.0.0/12"), RouteSource::Cli, &mut changes).unwrap();
    rib.recycle(rib.retired());
    rib.catch_up(usize::MAX, &mut changes);
    fib.apply(&mut changes);
    assert!(fib.routes.contains_key(&at(net("192.168.0.0/16"))));
}

#[test]
fn when_groups_become_few_equal_sets_are_one() {
    let limits = Limits { groups: 4, ..Limits::default() };
    let (mut rib, mut changes) = (Rib::new(limits), Vec::new());
    set_link(&mut rib, 1, true, &mut changes);
    rib.replace(DEFAULT_VRF, net("10.0.1.0/24"), RouteSource::Connected, &[Hop::On(1)], &mut changes).unwrap();
    let hops: Vec<Hop> = (2..10).map(|last| via(Ipv4Addr::new(10, 0, 1, last))).collect();
    rib.replace(DEFAULT_VRF, net("198.51.100.0/24"), RouteSource::Config, &hops, &mut changes).unwrap();
    rib.replace(DEFAULT_VRF, net("203.0.113.0/24"), RouteSource::Config, &hops[1..], &mut changes).unwrap();
    rib.replace(DEFAULT_VRF, net("198.51.100.0/24"), RouteSource::Cli, &hops[1..], &mut changes).unwrap();
    assert_eq!(rib.group_count(), 2, "the last groups are for sets that are not there yet");
}

/// A link that carries many routes goes down and comes up, by the piece: no piece is larger than it may be, and everything that
/// happens in between finds its way.
#[test]
fn a_link_takes_its_routes_along_by_the_piece() {
    const ROUTES: u32 = 5000;
    const PIECE: usize = 64;
    let (mut fib, mut changes) = (Fib::default(), Vec::new());
    let mut rib = two_ports(&mut fib);
    let prefix = |n: u32| Ipv4Net::new(Ipv4Addr::from_bits((20 << 24) + (n << 8)), 24).unwrap();
    for n in 0..ROUTES {
        rib.replace(DEFAULT_VRF, prefix(n), RouteSource::Config, &[via(ip("10.0.1.9"))], &mut changes).unwrap();
    }
    fib.apply(&mut changes);
    for (up, left) in [(false, 1), (true, ROUTES as usize + 2)] {
        rib.set_link(1, up);
        let mut pieces = 0;
        while rib.is_behind() {
            assert!(rib.catch_up(PIECE, &mut changes) <= PIECE);
            assert!(changes.len() <= 2 * PIECE, "{} changes at once", changes.len());
            fib.apply(&mut changes);
            pieces += 1;
            // One that the walk has not met yet, or has, goes and comes: be it met first, last or never.
            let one = prefix(pieces * 37 % ROUTES);
            rib.remove(DEFAULT_VRF, one, RouteSource::Config, &mut changes).unwrap();
            rib.replace(DEFAULT_VRF, one, RouteSource::Config, &[via(ip("10.0.1.9"))], &mut changes).unwrap();
            fib.apply(&mut changes);
            assert_eq!(fib.routes.contains_key(&at(one)), up);
        }
        assert!(pieces as usize >= ROUTES as usize / PIECE);
        assert_eq!(fib.routes.len(), left);
        assert_eq!(installed(&rib), fib.routes);
    }
}
