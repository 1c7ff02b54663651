//! The fast path against the definition: the same frames leave, for the same reasons none does, and everything has counted the same.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use weir_flow_tables::index::Search;
use weir_flow_tables::{Forwarded, Frames, Identity, Outcome, Packet, Switch};
use weir_openflow::flow::{FlowMod, FlowQuery};
use weir_openflow::group::{self, Bucket, GroupCommand, GroupKind, GroupMod};
use weir_openflow::meter::{Band, BandKind, MeterCommand, MeterMod, flags};
use weir_openflow::port::{Port, number};
use weir_openflow::{Action, Field, Instruction, Match, Oxm, Reply, Request};

const TABLES: u8 = 3;
const PORTS: u32 = 4;

fn out(port: u32) -> Action {
    Action::Output { port, max_len: 0 }
}

fn set(field: Field, value: u128) -> Action {
    Action::SetField(Oxm::exact(field, value & field.ones()))
}

fn change() -> impl Strategy<Value = Action> {
    prop_oneof![
        2 => (0_u128..4).prop_map(|last| set(Field::EthDst, 0x0200_0000_0000 | last)),
        2 => (0_u128..4).prop_map(|last| set(Field::EthSrc, last)),
        2 => Just(Action::DecNwTtl),
        2 => Just(Action::PushVlan(0x8100)),
        1 => Just(Action::PushVlan(0x88a8)),
        2 => Just(Action::PopVlan),
        2 => (0_u128..4).prop_map(|vid| set(Field::VlanVid, 0x1000 | vid)),
        1 => (0_u128..8).prop_map(|pcp| set(Field::VlanPcp, pcp)),
        1 => any::<u32>().prop_map(|address| set(Field::Ipv4Dst, address.into())),
        1 => any::<u32>().prop_map(|address| set(Field::Ipv4Src, address.into())),
        1 => any::<u128>().prop_map(|address| set(Field::Ipv6Dst, address)),
        1 => any::<u16>().prop_map(|port| set(Field::UdpDst, port.into())),
        1 => any::<u16>().prop_map(|port| set(Field::TcpSrc, port.into())),
        1 => (0_u128..64).prop_map(|dscp| set(Field::IpDscp, dscp)),
        1 => Just(Action::SetQueue(3)),
        // What the fast path has no part in.
        1 => Just(Action::PushMpls(0x8847)),
        1 => Just(Action::SetNwTtl(9)),
        1 => Just(set(Field::IpProto, 17)),
    ]
}

fn way_out() -> impl Strategy<Value = Action> {
    prop::sample::select(vec![
        out(1),
        out(2),
        out(3),
        out(4),
        out(5),
        out(number::IN_PORT),
        out(number::FLOOD),
        out(number::CONTROLLER),
        Action::Group(1),
        Action::Group(2),
        Action::Group(3),
        Action::Group(4),
        Action::Group(5),
        Action::Group(6),
        Action::Group(70_000),
    ])
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let some = |most| proptest::collection::vec(change(), 0..most);
    (some(4), prop::option::of(way_out()), some(2), 0..8).prop_map(|(mut all, way_out, behind, choice)| {
        all.extend(way_out);
        if choice == 0 {
            all.extend(behind);
        }
        all
    })
}

fn instructions(table: u8) -> impl Strategy<Value = Vec<Instruction>> {
    let (metadata, meter) = (prop::option::of((0_u64..4, 0_u64..4)), prop::option::weighted(0.3, 1_u32..3));
    let lists = (actions(), prop::option::weighted(0.4, actions()));
    (lists, metadata, table + 1..=TABLES, any::<bool>(), meter).prop_map(
        |((applied, written), metadata, next, clear, meter)| {
            let mut all = vec![Instruction::ApplyActions(applied)];
            all.extend(written.map(Instruction::WriteActions));
            all.extend(metadata.map(|(metadata, mask)| Instruction::WriteMetadata { metadata, mask }));
            all.extend(clear.then_some(Instruction::ClearActions));
            all.extend((next < TABLES).then_some(Instruction::GotoTable(next)));
            all.extend(meter.map(Instruction::Meter));
            all
        },
    )
}

fn fields() -> impl Strategy<Value = Vec<Oxm>> {
    prop_oneof![
        3 => Just(vec![]),
        1 => (1_u32..=PORTS).prop_map(|port| vec![Oxm::exact(Field::InPort, port.into())]),
        2 => (0_u128..4).prop_map(|last| vec![Oxm::masked(Field::EthSrc, last, 3)]),
        2 => (0_u128..4).prop_map(|last| vec![Oxm::masked(Field::EthDst, last, 3)]),
        2 => Just(vec![Oxm::exact(Field::EthType, 0x0800), Oxm::masked(Field::Ipv4Dst, 0x0a00_0000, 0xff00_0000)]),
        1 => Just(vec![Oxm::exact(Field::EthType, 0x0800), Oxm::masked(Field::Ipv4Src, 0, 0x8000_0000)]),
        1 => Just(vec![Oxm::exact(Field::EthType, 0x86dd), Oxm::masked(Field::Ipv6Dst, 0, 1)]),
        1 => Just(vec![Oxm::exact(Field::EthType, 0x0800), Oxm::exact(Field::IpProto, 17), Oxm::exact(Field::UdpDst, 53)]),
        1 => Just(vec![Oxm::exact(Field::EthType, 0x0800), Oxm::exact(Field::IpDscp, 0)]),
        2 => (0_u128..4).prop_map(|value| vec![Oxm::masked(Field::Metadata, value, 3)]),
        1 => Just(vec![Oxm::masked(Field::VlanVid, 0x1000, 0x1000)]),
        1 => (0_u128..4).prop_map(|vid| vec![Oxm::exact(Field::VlanVid, 0x1000 | vid)]),
        1 => Just(vec![Oxm::exact(Field::VlanVid, 0)]),
        1 => Just(vec![Oxm::exact(Field::VlanVid, 0x1001), Oxm::exact(Field::VlanPcp, 0)]),
    ]
}

fn flows() -> impl Strategy<Value = Vec<FlowMod>> {
    let one = (0..TABLES, 0_u16..4, fields()).prop_flat_map(|(table, priority, fields)| {
        instructions(table)
            .prop_map(move |made| FlowMod::add(table, priority, Match::new(fields.clone()).unwrap(), made))
    });
    (proptest::collection::vec(one, 1..40), prop::option::weighted(0.3, routes()))
        .prop_map(|(flows, routes)| [routes.unwrap_or_default(), flows].concat())
}

/// Routes enough for a table to be searched by prefixes; the addresses of frames are behind some. Longer ones go first, and all before other flows.
fn routes() -> impl Strategy<Value = Vec<FlowMod>> {
    let ends = proptest::collection::vec((0_u32..3, change(), 1..=PORTS), 3);
    (0..TABLES, ends).prop_map(|(table, ends)| {
        let made = |length: u32, (choice, change, port): &(u32, Action, u32)| {
            let set = vec![change.clone(), out(*port)];
            let next = if table + 1 < TABLES { Instruction::GotoTable(table + 1) } else { Instruction::ClearActions };
            match choice {
                0 => vec![Instruction::ApplyActions(set)],
                1 => vec![Instruction::ApplyActions(vec![change.clone()]), next],
                _ => vec![Instruction::WriteActions(vec![Action::Group(1 + length % 2)]), next],
            }
        };
        let route = |address: u32, length: u32, end| {
            let mask = !(u32::MAX.checked_shr(length).unwrap_or(0));
            let to = Oxm::masked(Field::Ipv4Dst, (address & mask).into(), mask.into());
            let matches = Match::new(vec![Oxm::exact(Field::EthType, 0x0800), to]).unwrap();
            FlowMod::add(table, length as u16, matches, made(length, end))
        };
        let near = [(0x0a00_0000, 32), (0x0a00_0002, 31), (0x0a00_0000, 8)];
        let routes = near.into_iter().zip(&ends).map(|((address, length), end)| route(address, length, end));
        routes.chain((0..64).map(|far| route(0x2000_0000 | far << 8, 24, &ends[0]))).collect()
    })
}

/// A frame of IPv4 or IPv6 with UDP or TCP, or of neither, behind up to two tags; it may break off.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(vec![4_u8, 4, 4, 6, 0]);
    let tags = prop::sample::select(vec![vec![], vec![], vec![1_u8], vec![0], vec![2, 1]]);
    let rest =
        (any::<bool>(), prop::sample::select(vec![0_u8, 1, 2, 64]), prop::sample::select(vec![0_u8, 10]), 0_u8..4);
    (kind, tags, rest, 0_u8..4, prop::option::weighted(0.1, 14_usize..80)).prop_map(
        |(kind, tags, (udp, ttl, net, source), destination, breaks_off)| {
            let mut frame = vec![2, 0, 0, 0, 0, destination, 0, 0, 0, 0, 0, source];
            for tag in tags {
                frame.extend([0x81, 0x00, 0x00, tag]);
            }
            let protocol = if udp { 17 } else { 6 };
            match kind {
                4 => {
                    frame.extend([8, 0, 0x45, 0, 0, 48, 0, 0, 0, 0, ttl, protocol, 0x12, 0x34]);
                    frame.extend([192, 0, 2, 1, net, 0, 0, destination]);
                }
                6 => {
                    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 28, protocol, ttl]);
                    frame.extend([&[0x20; 16][..], &[net; 16]].concat());
                }
                _ => frame.extend([0x88, 0xb5]),
            }
            frame.extend([0, 53, 0, 53, 0, 28, source, 0x77]);
            frame.extend([0x5a; 20]);
            frame.truncate(breaks_off.unwrap_or(usize::MAX));
            frame
        },
    )
}

fn groups() -> [GroupMod; 7] {
    let bucket = |actions, weight| Bucket { weight, watch_port: group::ANY, watch_group: group::ANY, actions };
    let add = |group, kind, buckets| GroupMod { command: GroupCommand::Add, kind, group, buckets };
    [
        add(1, GroupKind::Indirect, vec![bucket(vec![out(3), Action::DecNwTtl, set(Field::EthDst, 7)], 0)]),
        add(2, GroupKind::Indirect, vec![bucket(vec![Action::Group(1), Action::PushVlan(0x8100)], 0)]),
        add(3, GroupKind::Select, vec![bucket(vec![out(1)], 1), bucket(vec![out(4)], 2)]),
        add(
            4,
            GroupKind::FastFailover,
            vec![
                Bucket { watch_port: 4, ..bucket(vec![out(4)], 0) },
                Bucket { watch_group: 5, ..bucket(vec![Action::DecNwTtl, out(2)], 0) },
            ],
        ),
        add(
            5,
            GroupKind::Select,
            vec![
                Bucket { watch_port: 4, ..bucket(vec![out(4)], 5) },
                bucket(vec![set(Field::EthDst, 5), out(1)], 3),
                bucket(vec![Action::PushVlan(0x8100), Action::Group(1)], 2),
                bucket(vec![], 1),
            ],
        ),
        add(6, GroupKind::All, vec![bucket(vec![out(2)], 0)]),
        add(70_000, GroupKind::FastFailover, vec![Bucket { watch_port: 4, ..bucket(vec![out(4)], 0) }]),
    ]
}

fn meters() -> [MeterMod; 2] {
    let band = |kind| Band { kind, rate: 3, burst: 4 };
    let add = |meter, kind| MeterMod {
        command: MeterCommand::Add,
        flags: flags::PKTPS | flags::BURST,
        meter,
        bands: vec![band(kind)],
    };
    [add(1, BandKind::Drop), add(2, BandKind::DscpRemark(1))]
}

/// A switch with the test's groups.
fn switch(flows: &[FlowMod]) -> Switch {
    switch_with(groups().to_vec(), flows)
}

fn switch_with(mut groups: Vec<GroupMod>, flows: &[FlowMod]) -> Switch {
    let mut switch = Switch::new(Identity { tables: TABLES, ..Identity::default() });
    for number in 1..=PORTS {
        let state = if number == 4 { weir_openflow::port::state::LINK_DOWN } else { 0 };
        switch.set_port(Port { number, state, ..Port::default() }, 0);
    }
    // A group is there before another one watches it.
    groups.sort_by_key(|group| group.kind == GroupKind::FastFailover);
    groups.iter().for_each(|group| drop(switch.group_mod(group, 0).unwrap()));
    meters().iter().for_each(|meter| drop(switch.meter_mod(meter, 0).unwrap()));
    for flow in flows {
        // Some make no sense: they are refused.
        let _ = switch.flow_mod(flow, 0);
    }
    switch
}

/// All that counts.
fn counted(switch: &Switch, now: u64) -> Vec<Reply> {
    let meters = weir_openflow::meter::ALL;
    [
        Request::Flow(FlowQuery::all()),
        Request::Table,
        Request::PortStats(number::ANY),
        Request::Group(group::ALL),
        Request::Meter(meters),
    ]
    .iter()
    .map(|request| switch.reply(request, now).unwrap())
    .collect()
}

/// Takes a frame of those that are known by the fast path where that goes; what became of it, and whether it did.
fn forward(
    switch: &mut Switch,
    (number, known): (usize, &mut Frames),
    bytes: &[u8],
    now: u64,
) -> Option<Result<(u32, Vec<u8>), weir_flow_tables::Why>> {
    let before = format!("{switch:?}");
    let mut frame = bytes.to_vec();
    let became = switch.forward(number, &mut frame, known, now);
    if became.is_none() {
        assert_eq!(format!("{switch:?}"), before, "it gave up, and changed something");
        assert_eq!(frame, bytes);
    }
    became.map(|became| match became {
        Forwarded::Sent(port) => Ok((port, frame.clone())),
        Forwarded::Dropped(why) => Err(why),
    })
}

/// Looks into frames as a batch.
fn approach(switch: &Switch, packets: &[(u32, Vec<u8>)]) -> Frames {
    let mut known = Frames::new(packets.len());
    switch.approach(packets.iter().map(|(port, bytes)| (bytes.as_slice(), *port)), &mut known);
    known
}

#[test]
fn the_fast_path_does_what_the_definition_does() {
    let (all, fast_ones) = (Cell::new(0_u32), Cell::new(0_u32));
    let (by_prefixes, by_rules) = (Cell::new(0_u32), Cell::new(0_u32));
    let config = ProptestConfig { cases: 600, source_file: Some(file!()), ..ProptestConfig::default() };
    let packets = proptest::collection::vec((1..=PORTS, frame()), 1..20);
    let outcome = TestRunner::new(config).run(&(flows(), packets), |(flows, packets)| {
        let (mut fast, mut definition) = (switch(&flows), switch(&flows));
        for (_, table) in fast.tables.iter() {
            let count = |count: &Cell<u32>, is_one| count.set(count.get() + u32::from(is_one));
            count(&by_prefixes, matches!(table.search(), Search::Prefixes(..)));
            count(&by_rules, matches!(table.search(), Search::Classifier(_)));
        }
        let mut known = approach(&fast, &packets);
        for ((n, (port, bytes)), now) in packets.iter().enumerate().zip((0..).step_by(50_000_000)) {
            all.set(all.get() + 1);
            let Some(became) = forward(&mut fast, (n, &mut known), bytes, now) else {
                // Both the same way from here on: they stay in step.
                prop_assert_eq!(
                    fast.judge(Packet::new(*port, bytes.clone()), now),
                    definition.judge(Packet::new(*port, bytes.clone()), now)
                );
                continue;
            };
            fast_ones.set(fast_ones.get() + 1);
            let verdict = definition.judge(Packet::new(*port, bytes.clone()), now);
            let wanted = match verdict.outcomes.as_slice() {
                [] => Err(verdict.why),
                [Outcome::Sent { port, bytes, .. }] => Ok((*port, bytes.clone())),
                more => panic!("{more:?}"),
            };
            prop_assert_eq!(became, wanted);
            prop_assert_eq!(counted(&fast, now), counted(&definition, now));
        }
        Ok(())
    });
    outcome.unwrap();
    // Else nothing was shown.
    assert!(fast_ones.get() > all.get() / 4, "{} of {}", fast_ones.get(), all.get());
    assert!(by_prefixes.get() > 80 && by_rules.get() > 80, "{} and {}", by_prefixes.get(), by_rules.get());
}

/// What a network is made of does not take the interpreter.
#[test]
fn common_flows_go_by_the_fast_path() {
    let matched = |fields: Vec<Oxm>| Match::new(fields).unwrap();
    let route = vec![Action::DecNwTtl, set(Field::EthSrc, 2), set(Field::EthDst, 3), out(2)];
    let to_ten = vec![Oxm::exact(Field::EthType, 0x0800), Oxm::masked(Field::Ipv4Dst, 0x0a00_0000, 0xff00_0000)];
    let tagged = vec![Oxm::masked(Field::VlanVid, 0x1001, 0x1fff)];
    let flows = [
        FlowMod::add(0, 2, matched(to_ten), vec![Instruction::ApplyActions(route)]),
        FlowMod::add(
            0,
            3,
            matched(tagged),
            vec![
                Instruction::ApplyActions(vec![Action::PopVlan]),
                Instruction::WriteMetadata { metadata: 1, mask: 1 },
                Instruction::GotoTable(1),
            ],
        ),
        FlowMod::add(
            1,
            1,
            matched(vec![Oxm::masked(Field::Metadata, 1, 1)]),
            vec![Instruction::WriteActions(vec![Action::Group(1)])],
        ),
        FlowMod::add(
            0,
            1,
            matched(vec![Oxm::exact(Field::InPort, 2)]),
            vec![Instruction::ApplyActions(vec![Action::PushVlan(0x8100), set(Field::VlanVid, 0x1005), out(1)])],
        ),
    ];
    let by_group = |port: u32, group| {
        let matches = matched(vec![Oxm::exact(Field::InPort, port.into())]);
        FlowMod::add(0, 1, matches, vec![Instruction::WriteActions(vec![Action::Group(group)])])
    };
    let mut switch = switch(&[&flows[..], &[by_group(3, 5), by_group(4, 4)]].concat());
    let mut ends = Vec::new();
    let ip = |to: u8| {
        [
            &[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 9, 17, 0, 0, 1, 1, 1, 1, to][..],
            &[0; 29],
        ]
        .concat()
    };
    let mut tagged = ip(11);
    tagged.splice(12..12, [0x81, 0, 0, 1]);
    for (port, frame) in [(1, ip(10)), (1, tagged), (2, ip(11)), (1, ip(11)), (4, ip(11)), (3, ip(11))] {
        let mut known = approach(&switch, &[(port, frame.clone())]);
        let became = forward(&mut switch, (0, &mut known), &frame, 0).expect("no interpreter");
        ends.push(became.map(|(port, bytes)| (port, bytes.len())));
    }
    let miss = weir_flow_tables::Why::Miss;
    assert_eq!(ends[..5], [Ok((2, 60)), Ok((3, 60)), Ok((1, 64)), Err(miss), Ok((2, 60))]);
    // By its hash.
    assert!([Ok((1, 60)), Ok((3, 64)), Err(weir_flow_tables::Why::NoAction)].contains(&ends[5]));
}

/// What a batch found counts until a packet is changed: then it meets other flows.
#[test]
fn packets_that_were_changed_are_looked_up_anew() {
    let to = |address: u32, length: u32| {
        let mask = !(u32::MAX.checked_shr(length).unwrap_or(0));
        vec![Oxm::exact(Field::EthType, 0x0800), Oxm::masked(Field::Ipv4Dst, (address & mask).into(), mask.into())]
    };
    let flow = |table, priority, fields, made| FlowMod::add(table, priority, Match::new(fields).unwrap(), made);
    let goes_by = |port| vec![Instruction::ApplyActions(vec![out(port)])];
    // Routes, searched by prefixes; frames are for 10.0.0.2.
    let mut by_routes = vec![flow(1, 32, to(0x0a00_0002, 32), goes_by(1)), flow(1, 8, to(0x1400_0000, 8), goes_by(2))];
    by_routes.extend((0..64).map(|n| flow(1, 24, to(0x2000_0000 | n << 8, 24), goes_by(3))));
    // Rules, searched by a classifier: those of another metadata send elsewhere.
    let rule = |n: u32, metadata: u64, port| {
        let mut fields = to(0x0a00_0002, 27 + n % 6);
        fields.insert(0, Oxm::exact(Field::Metadata, metadata.into()));
        flow(1, 9, fields, goes_by(port))
    };
    let by_rules: Vec<FlowMod> = (0..6).flat_map(|n| [rule(n, 0, 1), rule(n, 1, 2)]).collect();
    let set = Instruction::ApplyActions(vec![set(Field::Ipv4Dst, 0x1400_0001)]);
    let mark = Instruction::WriteMetadata { metadata: 1, mask: 1 };
    for (flows, change, is_one) in [
        (by_routes, set, (|search| matches!(search, Search::Prefixes(..))) as fn(Search) -> bool),
        (by_rules, mark, |search| matches!(search, Search::Classifier(_))),
    ] {
        for (change, port) in [(None, 1), (Some(change), 2)] {
            let first = change.into_iter().chain([Instruction::GotoTable(1)]).collect();
            let mut switch =
                switch(&[vec![flow(0, 1, vec![Oxm::exact(Field::EthType, 0x0800)], first)], flows.clone()].concat());
            assert!(is_one(switch.tables.get(1).unwrap().search()));
            let frame = [
                &[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 9, 17, 0, 0, 192, 0, 2, 1][..],
                &[10, 0, 0, 2],
                &[0; 26],
            ]
            .concat();
            let mut known = approach(&switch, &[(3, frame.clone())]);
            let became = forward(&mut switch, (0, &mut known), &frame, 0).expect("no interpreter");
            assert_eq!(became.map(|(port, _)| port), Ok(port));
        }
    }
}

/// A flow makes frames be looked into as far as what it does needs, though it asks for less.
#[test]
fn frames_are_looked_into_as_far_as_actions_need() {
    let all = [
        vec![Action::DecNwTtl],
        vec![Action::PopVlan],
        vec![Action::PushVlan(0x8100), set(Field::VlanVid, 0x1003)],
        vec![set(Field::VlanVid, 0x1002)],
        vec![set(Field::Ipv4Dst, 9)],
        vec![set(Field::UdpDst, 9)],
        vec![],
    ];
    let mut fast_ones = 0;
    for (changes, by_group) in all.into_iter().flat_map(|changes| [(changes.clone(), false), (changes, true)]) {
        // It asks for what the specification wants of such actions, and for nothing else.
        let way_out = if by_group { Action::Group(5) } else { out(1) };
        let made = vec![Instruction::ApplyActions([changes.clone(), vec![way_out]].concat())];
        let said: Vec<Oxm> = changes
            .iter()
            .flat_map(|action| match action {
                Action::SetField(Oxm { field: Field::VlanVid, .. }) if changes.len() == 1 => {
                    vec![Oxm::masked(Field::VlanVid, 0x1000, 0x1000)]
                }
                Action::SetField(Oxm { field: Field::Ipv4Dst, .. }) => vec![Oxm::exact(Field::EthType, 0x0800)],
                Action::SetField(Oxm { field: Field::UdpDst, .. }) => {
                    vec![Oxm::exact(Field::EthType, 0x0800), Oxm::exact(Field::IpProto, 17)]
                }
                Action::DecNwTtl => vec![Oxm::exact(Field::EthType, 0x0800)],
                _ => Vec::new(),
            })
            .collect();
        let flows = [FlowMod::add(0, 1, Match::new(said).unwrap(), made)];
        // Groups alone may ask for all of a frame.
        let made = || switch_with(if by_group { groups().to_vec() } else { Vec::new() }, &flows);
        let (mut fast, mut definition) = (made(), made());
        assert_eq!(fast.tables.get(0).unwrap().len(), 1, "it was refused: {changes:?}");
        for n in 0..32_u8 {
            let tag = if n & 1 == 0 { &[][..] } else { &[0x81, 0, 0, 1] };
            let ip = [8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 9, 17, 0, 0, 192, 0, 2, 1, 10, 0, 0, 2];
            let frame = [&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1][..], tag, &ip, &[n, 1, 0, 53, 0, 26], &[0; 20]].concat();
            let mut known = approach(&fast, &[(3, frame.clone())]);
            let verdict = definition.judge(Packet::new(3, frame.clone()), 0);
            let Some(became) = forward(&mut fast, (0, &mut known), &frame, 0) else { continue };
            fast_ones += 1;
            let wanted = match verdict.outcomes.as_slice() {
                [] => Err(verdict.why),
                [Outcome::Sent { port, bytes, .. }] => Ok((*port, bytes.clone())),
                more => panic!("{more:?}"),
            };
            assert_eq!(became, wanted, "{changes:?}, frame {n}");
        }
    }
    assert!(fast_ones > 250, "{fast_ones}");
}
