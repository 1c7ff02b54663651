//! Routes into a function, as workers and the slow path find them, beside a list of what was said.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_mem::Domain;
use weir_net::nexthop::Inlet;
use weir_table::lpm4;
use weir_table::lpm6::{self, Compiled};

use super::*;
use crate::config::TableKind;
use crate::tables::prefixes::PrefixTable;
use crate::{Egress, Ingress};

const VRFS: usize = 2;
const NEXT_HOPS: u32 = 8;

/// Tables of two VRFs, and what writes them.
fn routing(next_hops: u32, routes: u32) -> Routing {
    let domain = Domain::new();
    let (miss, kernel) = (Leads::NO_ROUTE.value(), weir_simd::Kernel::detect());
    let max_routes = routes as usize;
    let four = lpm4::Config { miss, max_routes, max_groups: 512, kernel };
    let six = lpm6::Config { miss, max_routes, max_lines: 4096 };
    let table = |_| VrfTables {
        four: PrefixTable::new(TableKind::Packed, &four, &domain).unwrap(),
        six: Compiled::new(&six, &domain).unwrap(),
    };
    let tables = (0..VRFS).map(table).collect();
    let egress: Arc<[Egress]> = (0..2).map(|_| Egress::default()).collect();
    let fib = Fib::new(next_hops, 4, &egress, &Arc::new(Ingress::untagged(0))).unwrap();
    let counters = Counters::new(fib.places());
    Routing::new(
        Limits { routes, next_hops, groups: 4 },
        Tables { tables, fib, counters, line_counters: Counters::new(0), domain },
    )
}

fn inlet(argument: u32) -> Inlet {
    Inlet { number: 3, argument }
}

fn into(routing: &mut Routing, vrf: VrfId, prefix: &str, argument: u32) -> Result<(), Refusal> {
    routing.replace((vrf, prefix.parse().unwrap()), RouteSource::Function, &[Hop::Into(inlet(argument))])
}

fn decide(routing: &Routing, vrf: VrfId, to: &str) -> Decision {
    routing.decide(vrf, to.parse().unwrap(), || 0)
}

/// What workers find: one word.
fn word(routing: &Routing, vrf: VrfId, to: &str) -> Option<Inlet> {
    let value = routing.table(vrf).unwrap().lookup(to.parse().unwrap());
    routing.fib().adjacency(routing.fib().place(value, || 0)).inlet()
}

#[test]
fn a_route_leads_into_a_function_from_any_vrf_and_in_both_families() {
    let mut routing = routing(NEXT_HOPS, 64);
    into(&mut routing, 0, "203.0.113.0/24", 7).unwrap();
    into(&mut routing, 0, "2001:db8:a::1/128", u32::MAX - 1).unwrap();
    for (to, argument) in [("203.0.113.9", 7), ("2001:db8:a::1", u32::MAX - 1)] {
        assert_eq!(decide(&routing, 0, to), Decision::Into(inlet(argument)));
        assert_eq!(word(&routing, 0, to), Some(inlet(argument)));
        assert_eq!((decide(&routing, 1, to), word(&routing, 1, to)), (Decision::NoRoute, None));
    }
    // A person leads a part of it there from another VRF, and another part nowhere.
    let leak = ((1, "203.0.113.0/25".parse().unwrap()), [Hop::Into(Inlet { number: 3, argument: Inlet::NOBODY })]);
    routing.replace(leak.0, RouteSource::Cli, &leak.1).unwrap();
    assert_eq!(decide(&routing, 1, "203.0.113.9"), Decision::Into(inlet(Inlet::NOBODY)));
    assert_eq!(decide(&routing, 1, "203.0.113.200"), Decision::NoRoute);
    let covered = (0, "203.0.113.0/24".parse().unwrap());
    routing.replace(covered, RouteSource::Config, &[Hop::Discard(Discard::Blackhole)]).unwrap();
    assert_eq!(decide(&routing, 0, "203.0.113.9"), Decision::Discard(Discard::Blackhole), "what a person wrote counts");
    routing.remove(covered, RouteSource::Config).unwrap();
    routing.replace(covered, RouteSource::Linux, &[Hop::Discard(Discard::Prohibit)]).unwrap();
    assert_eq!(decide(&routing, 0, "203.0.113.9"), Decision::Into(inlet(7)), "before what others say");
    routing.remove(covered, RouteSource::Function).unwrap();
    assert_eq!(decide(&routing, 0, "203.0.113.9"), Decision::Discard(Discard::Prohibit));
}

#[test]
fn packets_into_a_function_count_and_a_place_is_anothers_only_behind_a_grace_period() {
    let mut routing = routing(1, 64);
    let mut reader = routing.domain.reader().unwrap();
    into(&mut routing, 0, "192.0.2.1/32", 1).unwrap();
    let value = routing.table(0).unwrap().lookup("192.0.2.1".parse().unwrap());
    let counters = routing.counters.acquire().unwrap();
    counters.view(routing.fib().places()).count(value, 2, 120);
    let shown: Vec<_> = routing.traffic().map(|one| (one.towards, one.packets, one.bytes)).collect();
    assert_eq!(shown, [(Towards::Function(inlet(1)), 2, 120)]);
    assert_eq!(routing.sent([0, 1].into_iter()).into_values().max(), Some((0, 0)), "nothing left by an interface");
    routing.remove((0, "192.0.2.1/32".parse().unwrap()), RouteSource::Function).unwrap();
    let next = |routing: &mut Routing| into(routing, 0, "192.0.2.2/32", 2);
    routing.tidy(usize::MAX);
    assert_eq!(next(&mut routing), Err(Refusal::Routes(RouteError::TooManyNextHops)));
    assert_eq!(routing.fib().adjacency(value).inlet(), Some(inlet(1)), "a reader may still be on its way there");
    reader.quiescent();
    routing.tidy(usize::MAX);
    assert_eq!(next(&mut routing), Ok(()));
    assert_eq!(routing.fib().adjacency(value).inlet(), Some(inlet(2)));
    assert_eq!(routing.traffic().map(|one| one.packets).collect::<Vec<_>>(), [0], "it counts from the beginning");
}

#[test]
fn as_many_as_a_gateway_has_subscribers_come_and_go() {
    const ALL: u32 = 1 << 16;
    let mut routing = routing(ALL, ALL);
    let net = |n: u32| IpNet::from(IpAddr::from(std::net::Ipv4Addr::from_bits(0x0a00_0000 + n)));
    for n in 0..ALL {
        routing.replace((0, net(n)), RouteSource::Function, &[Hop::Into(inlet(n))]).unwrap();
    }
    for n in (0..ALL).step_by(101) {
        assert_eq!(routing.decide(0, net(n).addr(), || 0), Decision::Into(inlet(n)));
    }
    for n in (0..ALL).step_by(2) {
        routing.remove((0, net(n)), RouteSource::Function).unwrap();
    }
    for n in 0..ALL {
        let expected = if n % 2 == 0 { Decision::NoRoute } else { Decision::Into(inlet(n)) };
        assert_eq!(routing.decide(0, net(n).addr(), || 0), expected);
    }
}

proptest! {
    /// Against a list that is searched from end to end.
    #[test]
    fn the_longest_prefix_says_where_into_a_function(
        steps in proptest::collection::vec((0u16..2, 0u32..64, 24u8..=32, proptest::option::of(0u32..6)), 1..80),
    ) {
        let mut routing = routing(64, 256);
        let mut said: BTreeMap<(VrfId, ipnet::Ipv4Net), u32> = BTreeMap::new();
        for (vrf, host, length, argument) in steps {
            let address = std::net::Ipv4Addr::from_bits(0xc000_0200 | host);
            let net = ipnet::Ipv4Net::new(address, length).unwrap().trunc();
            match argument {
                Some(argument) => {
                    routing.replace((vrf, net.into()), RouteSource::Function, &[Hop::Into(inlet(argument))]).unwrap();
                    said.insert((vrf, net), argument);
                }
                None => {
                    let was_there = said.remove(&(vrf, net)).is_some();
                    assert_eq!(routing.remove((vrf, net.into()), RouteSource::Function).is_ok(), was_there);
                }
            }
            routing.tidy(usize::MAX);
            for host in 0..64 {
                let to = std::net::Ipv4Addr::from_bits(0xc000_0200 | host);
                let around = said.iter().filter(|((of, net), _)| *of == vrf && net.contains(&to));
                let longest = around.max_by_key(|((_, net), _)| net.prefix_len()).map(|(_, argument)| *argument);
                let expected = longest.map_or(Decision::NoRoute, |argument| Decision::Into(inlet(argument)));
                assert_eq!(routing.decide(vrf, to.into(), || 0), expected);
                assert_eq!(word(&routing, vrf, &to.to_string()).map(|inlet| inlet.argument), longest);
            }
        }
    }
}
