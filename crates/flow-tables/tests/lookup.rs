//! How flows are found, against the definition: one flow after the other.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "pipelines/series.rs"]
mod series;

use proptest::prelude::*;
use series::until;
use weir_flow_tables::fields::Fields;
use weir_flow_tables::index::Search;
use weir_flow_tables::{Identity, Switch};
use weir_openflow::flow::{FlowCommand, FlowMod};
use weir_openflow::oxm::VLAN_PRESENT;
use weir_openflow::{Field, Match, Oxm};

/// A value of few, so that flows and packets often agree, with bits at both ends of the field.
fn value(field: Field, few: u8) -> u128 {
    let few = u128::from(few);
    (few & 3 | few >> 2 << (field.bits().saturating_sub(2))) & field.ones()
}

/// A mask: prefixes of all lengths, and others.
fn mask(field: Field, choice: u8) -> u128 {
    let ones = field.ones();
    match choice {
        0 => ones,
        1 => 3,
        length => ones & !(ones >> (u32::from(length) * field.bits() / 8).min(127)),
    }
}

/// What a kind of packet has: the values that say so, and the fields beside them.
type Kind = (&'static [(Field, u128)], &'static [Field]);

const KINDS: [Kind; 6] = [
    (&[], &[Field::InPort, Field::EthDst, Field::EthSrc, Field::VlanVid, Field::Metadata, Field::TunnelId]),
    (&[(Field::EthType, 0x0800)], &[Field::Ipv4Dst, Field::Ipv4Src, Field::IpDscp, Field::IpEcn, Field::EthDst]),
    (&[(Field::EthType, 0x0800), (Field::IpProto, 6)], &[Field::TcpDst, Field::Ipv4Dst, Field::TcpSrc]),
    (&[(Field::EthType, 0x0800), (Field::IpProto, 17)], &[Field::UdpDst, Field::Ipv4Src, Field::UdpSrc]),
    (
        &[(Field::EthType, 0x86dd), (Field::IpProto, 6)],
        &[Field::Ipv6Dst, Field::TcpDst, Field::Ipv6Src, Field::Ipv6Flabel],
    ),
    (&[(Field::EthType, 0x0806)], &[Field::ArpTpa, Field::ArpSpa, Field::ArpOp, Field::ArpSha, Field::ArpTha]),
];

fn matches() -> impl Strategy<Value = Match> {
    let one = (any::<prop::sample::Index>(), 0_u8..16, 0_u8..10);
    (0..KINDS.len(), proptest::collection::vec(one, 0..4)).prop_map(|(kind, asked)| {
        let (needed, fields) = KINDS[kind];
        let mut all: Vec<Oxm> = needed.iter().map(|(field, value)| Oxm::exact(*field, *value)).collect();
        for (which, few, choice) in asked {
            let field = fields[which.index(fields.len())];
            if all.iter().any(|oxm| oxm.field == field) {
                continue;
            }
            let mask = if field.has_mask() { mask(field, choice) } else { field.ones() };
            all.push(Oxm::masked(field, value(field, few) & mask, mask));
        }
        Match::new(all).unwrap()
    })
}

/// What a parser would find in a packet of one of these kinds.
fn packet() -> impl Strategy<Value = Fields> {
    (1..KINDS.len(), proptest::collection::vec(0_u8..16, 16), any::<bool>()).prop_map(|(kind, few, breaks_off)| {
        let mut fields = Fields::default();
        let (needed, inner) = KINDS[kind];
        for (field, value) in needed {
            fields.set(*field, *value);
        }
        // A packet that breaks off lacks what follows.
        let inner: &[Field] = if breaks_off { &[] } else { inner };
        for (field, few) in KINDS[0].1.iter().chain(inner).zip(few) {
            fields.set(*field, value(*field, few) | if *field == Field::VlanVid { VLAN_PRESENT } else { 0 });
        }
        fields
    })
}

#[derive(Clone, Debug)]
enum Change {
    Add(u16, Match),
    /// Removes one of those that are there.
    Remove(prop::sample::Index),
    /// Removes what a match covers.
    Clear(Match),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        12 => (0_u16..5, matches()).prop_map(|(priority, matches)| Change::Add(priority, matches)),
        5 => any::<prop::sample::Index>().prop_map(Change::Remove),
        1 => matches().prop_map(Change::Clear),
    ];
    proptest::collection::vec(change, 1..120)
}

fn carry_out(switch: &mut Switch, change: Change, cookie: u64) {
    let flow_mod = match change {
        Change::Add(priority, matches) => FlowMod { cookie, ..FlowMod::add(0, priority, matches, Vec::new()) },
        Change::Clear(matches) => FlowMod { command: FlowCommand::Delete, ..FlowMod::add(0, 0, matches, Vec::new()) },
        Change::Remove(which) => {
            let table = switch.tables.get(0).unwrap();
            if table.is_empty() {
                return;
            }
            let (_, flow) = table.iter().nth(which.index(table.len())).unwrap();
            let gone = FlowMod::add(0, flow.priority, flow.matches.clone(), Vec::new());
            FlowMod { command: FlowCommand::DeleteStrict, ..gone }
        }
    };
    switch.flow_mod(&flow_mod, 0).unwrap();
}

#[test]
fn the_flow_that_is_found_is_the_first_that_matches() {
    let packets = proptest::collection::vec(packet(), 1..30);
    let property = |(changes, packets): (Vec<Change>, Vec<Fields>), (all, by_rules): &mut (u32, u32)| {
        let mut switch = Switch::new(Identity::default());
        for (change, cookie) in changes.into_iter().zip(1..) {
            carry_out(&mut switch, change, cookie);
            let table = switch.tables.get(0).unwrap();
            *all += 1;
            *by_rules += u32::from(matches!(table.search(), Search::Classifier(_)));
            for packet in &packets {
                let found = table.lookup(packet).map(|flow| flow.cookie);
                prop_assert_eq!(found, table.lookup_by_definition(packet).map(|flow| flow.cookie));
            }
        }
        let table = switch.tables.get(0).unwrap();
        let met = packets.iter().filter(|packet| table.lookup_by_definition(packet).is_some()).count();
        prop_assert_eq!(table.find_all(&packets), met);
        let samples = table.samples(1024);
        prop_assert_eq!((samples.len(), table.find_all(&samples)), (table.len(), table.len()));
        Ok(())
    };
    // Either way of looking up.
    let enough = |(all, by_rules): &(u32, u32)| (all / 10..all * 9 / 10).contains(by_rules);
    until((file!(), 300), (changes(), packets), property, enough);
}

/// A change of a table of routes: most have the priority of their length, few another one, and some flows are no routes at all.
#[derive(Clone, Debug)]
enum Routing {
    Route { address: u32, length: u32, priority: Option<u16>, tag: bool },
    Other(u16, Match),
    Gone(prop::sample::Index),
}

fn routing() -> impl Strategy<Value = Vec<Routing>> {
    // In most tables nothing keeps routes from being looked up as prefixes; in the others something does, sooner or later.
    prop::bool::weighted(0.25).prop_flat_map(|is_odd| {
        // Few bits differ, so that prefixes nest.
        let address = (0_u32..16, 0_u32..8).prop_map(|(high, low)| high << 28 | (high & 3) << 14 | low << 6 | low);
        let odds = |odds| if is_odd { odds } else { 1e-9 };
        let priority = prop::option::weighted(odds(0.01), 0_u16..40);
        let route = (address, 1_u32..=32, priority, prop::bool::weighted(odds(0.005)))
            .prop_map(|(address, length, priority, tag)| Routing::Route { address, length, priority, tag });
        let other = (prop::sample::select(vec![0_u16, 0, 0, 20, 50]), matches());
        let change = prop_oneof![
            40 => route,
            1 => other.prop_map(|(priority, matches)| Routing::Other(priority, matches)),
            8 => any::<prop::sample::Index>().prop_map(Routing::Gone),
        ];
        proptest::collection::vec(change, 50..250)
    })
}

fn route_of(address: u32, length: u32, priority: Option<u16>, tag: bool) -> FlowMod {
    let mask = !(u32::MAX.checked_shr(length).unwrap_or(0));
    let mut fields =
        vec![Oxm::exact(Field::EthType, 0x0800), Oxm::masked(Field::Ipv4Dst, (address & mask).into(), mask.into())];
    if tag {
        fields.insert(0, Oxm::exact(Field::VlanVid, 0));
    }
    FlowMod::add(0, priority.unwrap_or(length as u16), Match::new(fields).unwrap(), Vec::new())
}

#[test]
fn the_flow_that_is_found_among_routes_is_the_first_that_matches() {
    let property = |changes: Vec<Routing>, by_prefix: &mut u32| {
        let mut switch = Switch::new(Identity::default());
        for (change, cookie) in changes.into_iter().zip(1..) {
            let mut near = (cookie as u32).wrapping_mul(0x2400_4041);
            match change {
                Routing::Route { address, length, priority, tag } => {
                    near = address;
                    let add = route_of(address, length, priority, tag);
                    switch.flow_mod(&FlowMod { cookie, ..add }, 0).unwrap();
                }
                Routing::Other(priority, matches) => carry_out(&mut switch, Change::Add(priority, matches), cookie),
                Routing::Gone(which) => carry_out(&mut switch, Change::Remove(which), cookie),
            }
            let table = switch.tables.get(0).unwrap();
            *by_prefix += u32::from(matches!(table.search(), Search::Prefixes(..)));
            for bit in 0..32 {
                let mut packet = destined(near ^ 1 << bit);
                packet.set(Field::VlanVid, u128::from(cookie & 1) << 12);
                let found = table.lookup(&packet).map(|flow| flow.cookie);
                prop_assert_eq!(found, table.lookup_by_definition(&packet).map(|flow| flow.cookie));
            }
        }
        // A copy finds the same.
        let (table, copy) = (switch.tables.get(0).unwrap(), switch.clone());
        for high in 0..64_u32 {
            let packet = destined(high << 26 | (high & 3) << 14);
            let found = copy.tables.get(0).unwrap().lookup(&packet).map(|flow| flow.cookie);
            prop_assert_eq!(found, table.lookup_by_definition(&packet).map(|flow| flow.cookie));
        }
        Ok(())
    };
    until((file!(), 24), routing(), property, |by_prefix| *by_prefix > 100);
}

/// A table with a route for each of some prefixes, longer ones first, and a flow for misses.
fn routes(switch: &mut Switch, prefixes: impl Iterator<Item = (u32, u32)>) {
    for (address, length) in prefixes {
        let mask = !(u32::MAX.checked_shr(length).unwrap_or(0));
        let fields =
            vec![Oxm::exact(Field::EthType, 0x0800), Oxm::masked(Field::Ipv4Dst, (address & mask).into(), mask.into())];
        let add = FlowMod::add(0, length as u16, Match::new(fields).unwrap(), Vec::new());
        switch.flow_mod(&FlowMod { cookie: u64::from(address & mask) << 8 | u64::from(length), ..add }, 0).unwrap();
    }
}

fn destined(address: u32) -> Fields {
    let mut fields = Fields::default();
    fields.set(Field::EthType, 0x0800);
    fields.set(Field::Ipv4Dst, address.into());
    fields
}

#[test]
fn a_large_table_of_prefixes_is_searched_by_length() {
    const PREFIXES: u32 = 100_000;
    let mut switch = Switch::new(Identity::default());
    let spread = |number: u32| number.wrapping_mul(0x9e37_79b9);
    routes(&mut switch, (0..PREFIXES).map(|number| (spread(number), 8 + number % 25)));
    let table = switch.tables.get(0).unwrap();
    assert_eq!(table.search(), Search::Prefixes(Field::Ipv4Dst, 0));
    // The longest of all prefixes of an address: each length is asked for in a set.
    let all: std::collections::HashSet<u64> = table.iter().map(|(_, flow)| flow.cookie).collect();
    for number in 0..200_000_u32 {
        let address = spread(number / 2) ^ (number & 1) << 3;
        let longest = (8..=32_u32).rev().find_map(|length| {
            let mask = !(u32::MAX.checked_shr(length).unwrap_or(0));
            let cookie = u64::from(address & mask) << 8 | u64::from(length);
            all.contains(&cookie).then_some(cookie)
        });
        assert_eq!(table.lookup(&destined(address)).map(|flow| flow.cookie), longest, "{address:08x}");
    }
}

/// Prefixes of one length are looked up as such, unless they are long: addresses stand in a hash table.
#[test]
fn one_length_is_enough_if_it_is_short() {
    for length in [1, 8, 16, 22, 24, 25, 32] {
        let mut switch = Switch::new(Identity::default());
        let first = length.min(8);
        routes(&mut switch, (0..1 << first).map(|network| (network << (32 - first), length)));
        let table = switch.tables.get(0).unwrap();
        let expected = match length {
            ..5 => Search::OneByOne,
            5..25 => Search::Prefixes(Field::Ipv4Dst, 0),
            _ => Search::Exact,
        };
        assert_eq!(table.search(), expected, "/{length}");
        // The first address of each network, and some on both sides of its end.
        let inside = [0, 1, 127, 128, 255, 256, 1_023, 1_024, 65_535, 65_536];
        for address in (0..256).flat_map(|network: u32| inside.map(|host| network << 24 | host)) {
            let packet = destined(address);
            let found = table.lookup(&packet).map(|flow| flow.cookie);
            assert_eq!(found, table.lookup_by_definition(&packet).map(|flow| flow.cookie), "{address:08x}");
        }
    }
}

#[test]
fn the_search_follows_the_flows() {
    let mut switch = Switch::new(Identity::default());
    let search = |switch: &Switch| switch.tables.get(0).unwrap().search();
    assert_eq!(search(&switch), Search::OneByOne);
    routes(&mut switch, (0..4).map(|number| (number << 8, 24)));
    assert_eq!(search(&switch), Search::OneByOne);
    routes(&mut switch, (4..63).map(|number| (number << 8, 24)));
    assert_eq!(search(&switch), Search::Exact);
    routes(&mut switch, (63..1_000).map(|number| (number << 8, 24)));
    assert_eq!(search(&switch), Search::Prefixes(Field::Ipv4Dst, 0));
    // Two lengths, one of them long.
    routes(&mut switch, [(1 << 8 | 1, 32)].into_iter());
    assert_eq!(search(&switch), Search::Masks(2));
    routes(&mut switch, (0..2_000).map(|number| (number << 12, 20)));
    assert_eq!(search(&switch), Search::Prefixes(Field::Ipv4Dst, 0));
    carry_out(&mut switch, Change::Add(0, Match::new(vec![]).unwrap()), 0);
    assert_eq!(search(&switch), Search::Prefixes(Field::Ipv4Dst, 1));
    assert_eq!(switch.tables.get(0).unwrap().lookup(&destined(1 << 8 | 1)).unwrap().priority, 32);
    let all = || Match::new(vec![]).unwrap();
    carry_out(&mut switch, Change::Clear(all()), 0);
    // Rules, each with bits of its own; then fewer, then so many words that a classifier has no room for them.
    let rule = |n: u32| {
        let mask = u128::from(0xff00_0000_u32 >> n);
        let fields = vec![Oxm::exact(Field::EthType, 0x0800), Oxm::masked(Field::Ipv4Src, mask, mask)];
        Match::new(fields).unwrap()
    };
    (0..5).for_each(|n| carry_out(&mut switch, Change::Add(1, rule(n)), 0));
    assert_eq!(search(&switch), Search::Masks(5));
    carry_out(&mut switch, Change::Add(1, rule(5)), 0);
    assert_eq!(search(&switch), Search::Classifier(6));
    let ipv6 = vec![
        Oxm::exact(Field::InPort, 1),
        Oxm::exact(Field::Metadata, u64::MAX.into()),
        Oxm::exact(Field::EthDst, 1),
        Oxm::exact(Field::EthSrc, 1),
        Oxm::exact(Field::EthType, 0x86dd),
        Oxm::exact(Field::Ipv6Src, u128::MAX),
        Oxm::exact(Field::Ipv6Dst, u128::MAX),
    ];
    carry_out(&mut switch, Change::Add(1, Match::new(ipv6.clone()).unwrap()), 0);
    assert_eq!(search(&switch), Search::Masks(7));
    carry_out(&mut switch, Change::Clear(Match::new(ipv6).unwrap()), 0);
    assert_eq!(search(&switch), Search::Masks(6), "it is not tried again with every change");
    (3..6).for_each(|n| carry_out(&mut switch, Change::Clear(rule(n)), 0));
    assert_eq!(search(&switch), Search::OneByOne);
    carry_out(&mut switch, Change::Clear(all()), 0);
    assert_eq!(search(&switch), Search::OneByOne);
    assert!(switch.tables.get(0).unwrap().lookup(&destined(1 << 8)).is_none());
}

/// With more flows than a classifier is chosen for anew, one that asks for what no other does has all of them entered again.
#[test]
fn a_flow_that_asks_for_something_new_leaves_many_in_the_classifier() {
    let mut switch = Switch::new(Identity::default());
    let source = |n: u32| {
        let mask = u32::MAX << (n % 8);
        let masked = Oxm::masked(Field::Ipv4Src, (n << 8 & mask).into(), mask.into());
        vec![Oxm::exact(Field::EthType, 0x0800), masked]
    };
    for n in 0..17_000 {
        carry_out(&mut switch, Change::Add(1, Match::new(source(n)).unwrap()), 0);
    }
    let search = |switch: &Switch| switch.tables.get(0).unwrap().search();
    assert_eq!(search(&switch), Search::Classifier(8));
    let more = [source(7), vec![Oxm::exact(Field::IpDscp, 46)]].concat();
    carry_out(&mut switch, Change::Add(2, Match::new(more).unwrap()), 7);
    assert_eq!(search(&switch), Search::Classifier(9));
    let mut packet = Fields::default();
    for (field, value) in [(Field::EthType, 0x0800), (Field::Ipv4Src, 7 << 8), (Field::IpDscp, 46)] {
        packet.set(field, value);
    }
    assert_eq!(switch.tables.get(0).unwrap().lookup(&packet).unwrap().priority, 2);
}
