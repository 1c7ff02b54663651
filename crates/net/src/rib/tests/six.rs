//! Both families and several VRFs in one RIB.

use super::*;

fn net6(text: &str) -> Ipv6Net {
    text.parse().unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// RFC 8950: a route of IPv4 by a router with an IPv6 address; both families have the same adjacency.
#[test]
fn an_ipv4_route_goes_by_an_ipv6_router_and_shares_its_next_hop() {
    let (mut fib, mut changes) = (Fib::default(), Vec::new());
    let mut rib = two_ports(&mut fib);
    rib.replace(DEFAULT_VRF, net6("2001:db8:1::/64"), RouteSource::Connected, &[Hop::On(1)], &mut changes).unwrap();
    let router = [via(address("2001:db8:1::9"))];
    rib.replace(DEFAULT_VRF, net("198.51.100.0/24"), RouteSource::Config, &router, &mut changes).unwrap();
    rib.replace(DEFAULT_VRF, net6("2001:db8:ff::/48"), RouteSource::Config, &router, &mut changes).unwrap();
    rib.catch_up(usize::MAX, &mut changes);
    fib.apply(&mut changes);
    let four = fib.routes[&at(net("198.51.100.0/24"))];
    assert_eq!(four, fib.routes[&(DEFAULT_VRF, net6("2001:db8:ff::/48").into())], "one index for both");
    let expected = NextHop { interface: 1, gateway: Some(address("2001:db8:1::9")) };
    assert_eq!(fib.next_hops_of(four), [expected.into()].into());
    set_link(&mut rib, 1, false, &mut changes);
    fib.apply(&mut changes);
    assert_eq!(fib.routes.len(), 1, "what is left is the network of the other interface");
}

/// RFC 4291 section 2.5.6, RFC 4007: link-local addresses say nothing without a link.
#[test]
fn link_local_routers_need_their_port() {
    let (mut fib, mut changes) = (Fib::default(), Vec::new());
    let mut rib = two_ports(&mut fib);
    let router = address("fe80::1");
    let mut replace = |hops: &[Hop]| rib.replace(DEFAULT_VRF, net6("::/0"), RouteSource::Config, hops, &mut changes);
    assert_eq!(replace(&[via(router)]), Err(RouteError::NeedsPort(router)));
    // The same address on two links is two routers.
    assert_eq!(replace(&[Hop::ViaOn(router, 1), Hop::ViaOn(router, 2)]), Ok(()));
    fib.apply(&mut changes);
    let next_hops = fib.next_hops_of(fib.routes[&(DEFAULT_VRF, net6("::/0").into())]);
    assert_eq!(next_hops, [1, 2].map(|interface| NextHop { interface, gateway: Some(router) }.into()).into());
    let (found, target) = rib.lookup(DEFAULT_VRF, "2001:db8::1".parse::<std::net::Ipv6Addr>().unwrap()).unwrap();
    assert_eq!((found, rib.next_hops_of(target).len()), (net6("::/0"), 2));
}

#[test]
fn routes_that_lead_nowhere_have_no_next_hops_and_win_as_others_do() {
    let (mut fib, mut changes) = (Fib::default(), Vec::new());
    let mut rib = two_ports(&mut fib);
    let before = rib.next_hop_count();
    for discard in Discard::ALL {
        let hops = [Hop::Discard(discard)];
        rib.replace(DEFAULT_VRF, net("203.0.113.0/24"), RouteSource::Config, &hops, &mut changes).unwrap();
        rib.replace(7, net6("2001:db8::/32"), RouteSource::Config, &hops, &mut changes).unwrap();
        fib.apply(&mut changes);
        assert_eq!(fib.routes[&at(net("203.0.113.0/24"))], Target::Discard(discard));
        assert_eq!(rib.installed_at(7, net6("2001:db8::/32")), Some(Target::Discard(discard)));
        let both = [hops[0], via(ip("10.0.1.1"))];
        let refused = rib.replace(DEFAULT_VRF, net("203.0.113.0/24"), RouteSource::Cli, &both, &mut changes);
        assert_eq!(refused, Err(RouteError::DiscardAndMore(discard)));
        assert_eq!(rib.next_hop_count(), before);
    }
    assert_eq!(rib.routes_to(DEFAULT_VRF, net("203.0.113.0/24")).next().unwrap().hops().count(), 1);
    // A better source's route covers it, as long as that one has a link.
    rib.replace(DEFAULT_VRF, net("203.0.113.0/24"), RouteSource::Cli, &[via(ip("10.0.1.1"))], &mut changes).unwrap();
    set_link(&mut rib, 1, false, &mut changes);
    fib.apply(&mut changes);
    assert_eq!(fib.routes[&at(net("203.0.113.0/24"))], Target::Discard(Discard::Prohibit));
}

#[test]
fn an_ipv6_route_cannot_go_by_an_ipv4_router() {
    let (mut fib, mut changes) = (Fib::default(), Vec::new());
    let mut rib = two_ports(&mut fib);
    for hop in [via(ip("10.0.1.1")), Hop::ViaOn(address("10.0.1.1"), 1)] {
        let refused = rib.replace(DEFAULT_VRF, net6("::/0"), RouteSource::Cli, &[hop], &mut changes);
        assert_eq!(refused, Err(RouteError::WrongFamily(address("10.0.1.1"))));
    }
    let text = RouteError::WrongFamily(address("10.0.1.1")).to_string();
    assert_eq!(text, "an IPv6 route cannot go by 10.0.1.1; write the router's IPv6 address");
}

/// VRFs know nothing of each other's routes and networks; what has an interface is the same next hop in all of them.
#[test]
fn vrfs_are_apart_and_share_next_hops() {
    let (mut fib, mut changes) = (Fib::default(), Vec::new());
    let mut rib = two_ports(&mut fib);
    let (network, default) = (net("10.0.1.0/24"), net("0.0.0.0/0"));
    // The same network on another interface of another VRF.
    rib.replace(1, network, RouteSource::Connected, &[Hop::On(2)], &mut changes).unwrap();
    for vrf in [DEFAULT_VRF, 1, 2] {
        rib.replace(vrf, default, RouteSource::Config, &[via(ip("10.0.1.9"))], &mut changes).unwrap();
    }
    rib.catch_up(usize::MAX, &mut changes);
    fib.apply(&mut changes);
    let port_in = |fib: &Fib, vrf| {
        let target = fib.routes.get(&(vrf, default.into())).copied();
        target.map(|target| fib.next_hops_of(target).first().unwrap().link().unwrap().interface)
    };
    assert_eq!([DEFAULT_VRF, 1, 2].map(|vrf| port_in(&fib, vrf)), [Some(1), Some(2), None]);
    // A leak: a route of one VRF by a router of another, by its interface.
    rib.replace(2, default, RouteSource::Config, &[Hop::ViaOn(address("10.0.1.9"), 2)], &mut changes).unwrap();
    fib.apply(&mut changes);
    assert_eq!(fib.routes[&(2, default.into())], fib.routes[&(1, default.into())], "the same adjacency");
    assert_eq!(rib.lookup(2, ip("192.0.2.1")).map(|(prefix, _)| prefix), Some(default));
}

/// A link whose routes are many, and that goes up and down for ever, keeps nobody else from following.
#[test]
fn a_link_that_flaps_does_not_hold_up_others() {
    let (mut fib, mut changes) = (Fib::default(), Vec::new());
    let mut rib = two_ports(&mut fib);
    let hop = |n: u32, interface| [Hop::ViaOn(Ipv4Addr::from_bits(0x0a00_0100 + n).into(), interface)];
    let prefix = |n: u32| Ipv4Net::new(Ipv4Addr::from_bits(0x1400_0000 + (n << 8)), 24).unwrap();
    for n in 0..200 {
        rib.replace(DEFAULT_VRF, prefix(n), RouteSource::Config, &hop(n, 1), &mut changes).unwrap();
    }
    rib.replace(DEFAULT_VRF, prefix(999), RouteSource::Config, &hop(7, 2), &mut changes).unwrap();
    fib.apply(&mut changes);
    rib.set_link(1, false);
    rib.set_link(2, false);
    // Interface 1 changes again before its hops are looked at.
    let mut pieces = 0;
    while fib.routes.contains_key(&at(prefix(999))) {
        rib.catch_up(100, &mut changes);
        fib.apply(&mut changes);
        rib.set_link(1, pieces % 2 == 0);
        pieces += 1;
        assert!(pieces < 40, "interface 2 is never followed");
    }
}

/// What does not depend on a change is not looked at.
#[test]
fn a_link_costs_what_depends_on_it() {
    let (mut fib, mut changes) = (Fib::default(), Vec::new());
    let mut rib = two_ports(&mut fib);
    for n in 0..5000 {
        let gateway = Ipv4Addr::from_bits(0x0a00_0100 + n % 200);
        let prefix = Ipv4Net::new(Ipv4Addr::from_bits(0x1400_0000 + (n << 8)), 24).unwrap();
        rib.replace(DEFAULT_VRF, prefix, RouteSource::Config, &[via(gateway)], &mut changes).unwrap();
    }
    for interface in 3..1000 {
        rib.set_link(interface, true);
        let network = Ipv4Net::new(Ipv4Addr::from_bits(0xac10_0000 + (u32::from(interface) << 4)), 28).unwrap();
        rib.replace(interface % 3, network, RouteSource::Connected, &[Hop::On(interface)], &mut changes).unwrap();
        assert!(rib.catch_up(usize::MAX, &mut changes) <= 1, "the network's own hop");
        rib.set_link(interface, false);
        assert!(rib.catch_up(usize::MAX, &mut changes) <= 3, "hop, set and route of the network");
    }
    fib.apply(&mut changes);
}
