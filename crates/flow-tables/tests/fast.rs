//! The fast path against the definition: the same frames leave in the same order, for the same reasons none does, and everything has counted the same.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod pipelines;

use pipelines::series::until;
use pipelines::*;
use proptest::prelude::*;
use weir_flow_tables::index::Search;
use weir_flow_tables::{Packet, Why};
use weir_openflow::flow::FlowMod;
use weir_openflow::group::{self, Bucket, GroupCommand, GroupKind, GroupMod};
use weir_openflow::port::{Port, number, state};
use weir_openflow::{Action, Field, Instruction, Match, Oxm};

/// What packets of random pipelines met.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    packets: u32,
    /// Of them, those that went by the fast path.
    fast: u32,
    /// And of these, those that left as two frames or more, as different ones, and not at all.
    several: u32,
    different: u32,
    dropped: u32,
    by_prefixes: u32,
    by_rules: u32,
    /// Of those that went by the fast path, so many had an MPLS entry, or got one, and left as others.
    labelled: u32,
    /// Of those, so many had a TTL that ended.
    ended: u32,
    /// Code decided about.
    by_code: u64,
}

/// Whether MPLS is the first behind the addresses of a frame.
fn is_labelled(bytes: &[u8]) -> bool {
    matches!(bytes.get(12..14), Some([0x88, 0x47 | 0x48]))
}

/// Whether the TTL of a packet ended: controllers are told of it, or nothing became of it.
fn is_ended(became: &Became) -> bool {
    match became {
        Ok(all) => all.iter().any(|(_, said)| said.starts_with(b"InvalidTtl")),
        Err(why) => *why == Why::TtlEnded,
    }
}

/// Takes whole batches through such pipelines, by the fast path and by definition, until enough of them have met what they may.
fn both_ways(flows: impl Strategy<Value = Vec<FlowMod>>, cases: u32, enough: impl Fn(&Met) -> bool) {
    let packets = proptest::collection::vec((1..=PORTS, frame()), 1..20);
    until((file!(), cases), (flows, packets, prop::bool::weighted(0.15)), a_batch_both_ways, enough);
}

fn a_batch_both_ways(
    (flows, packets, by_code): (Vec<FlowMod>, Packets, bool),
    met: &mut Met,
) -> Result<(), TestCaseError> {
    let (mut fast, mut definition) = (switch(&flows), switch(&flows));
    if by_code {
        compile(&mut fast);
    }
    for (_, table) in fast.tables.iter() {
        met.by_prefixes += u32::from(matches!(table.search(), Search::Prefixes(..)));
        met.by_rules += u32::from(matches!(table.search(), Search::Classifier(_)));
    }
    let mut known = approach(&fast, &packets);
    for ((n, (port, bytes)), now) in packets.iter().enumerate().zip((0..).step_by(50_000_000)) {
        met.packets += 1;
        let Some(became) = forward(&mut fast, (n, &mut known), bytes, now) else {
            // Both the same way from here on: they stay in step.
            prop_assert_eq!(
                fast.judge(Packet::new(*port, bytes.clone()), now),
                definition.judge(Packet::new(*port, bytes.clone()), now)
            );
            continue;
        };
        met.fast += 1;
        met.dropped += u32::from(became.is_err());
        met.ended += u32::from(is_ended(&became));
        if let Ok([(_, first), others @ ..]) = became.as_deref() {
            met.several += u32::from(!others.is_empty());
            met.different += u32::from(others.iter().any(|(_, other)| other != first));
            let has_labels = is_labelled(bytes) || is_labelled(first);
            met.labelled += u32::from(has_labels && first != bytes);
        }
        prop_assert_eq!(became, by_definition(&mut definition, *port, bytes, now));
        prop_assert_eq!(counted(&fast, now), counted(&definition, now));
    }
    met.by_code += fast.decided_by_code();
    Ok(())
}

#[test]
fn the_fast_path_does_what_the_definition_does() {
    both_ways(flows(ways_out()), 1400, |met| {
        let takes_all = met.fast > met.packets / 4 && met.several > 400 && met.different > 100 && met.dropped > 400;
        takes_all && met.ended > 40 && met.by_prefixes > 60 && met.by_rules > 80 && met.by_code > 100
    });
}

/// MPLS entries come and go, and TTLs are copied, and what is behind them then is found by what it is.
#[test]
fn labels_are_changed_by_the_fast_path() {
    both_ways(labelling(), 400, |met| {
        met.fast > met.packets / 2 && met.labelled > met.packets / 20 && met.by_code > 60
    });
}

#[test]
fn several_ports_of_a_list_get_a_packet_each() {
    both_ways(flows(ports()), 400, |met| met.fast > met.packets / 2 && met.several > 300 && met.different > 80);
}

#[test]
fn floods_go_by_all_ports_but_one() {
    both_ways(flows(floods()), 400, |met| met.fast > met.packets / 2 && met.several > 300 && met.different > 80);
}

#[test]
fn every_bucket_of_a_group_of_all_has_a_packet_of_its_own() {
    both_ways(flows(copying_groups()), 800, |met| {
        met.fast > met.packets / 3 && met.several > 300 && met.different > 300
    });
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
        ends.push(became.map(|sent| sent.iter().map(|(port, bytes)| (*port, bytes.len())).collect::<Vec<_>>()));
    }
    let one = |port, length| Ok(vec![(port, length)]);
    assert_eq!(ends[..5], [one(2, 60), one(3, 60), one(1, 64), Err(Why::Miss), one(2, 60)]);
    // By its hash.
    assert!([one(1, 60), one(3, 64), Err(Why::NoAction)].contains(&ends[5]));
}

/// Controllers are told what tables have written into metadata, also where no flow asks for that, and code led the packet.
#[test]
fn controllers_are_told_of_metadata_that_nobody_asks_for() {
    let mark = Instruction::WriteMetadata { metadata: 0x5_0000_0007, mask: u64::MAX };
    let leads = FlowMod::add(0, 1, Match::default(), vec![mark, Instruction::GotoTable(1)]);
    let tells = FlowMod {
        cookie: 9,
        ..FlowMod::add(1, 1, Match::default(), vec![Instruction::ApplyActions(vec![out(number::CONTROLLER)])])
    };
    let by_group = FlowMod {
        cookie: 9,
        ..FlowMod::add(1, 1, Match::default(), vec![Instruction::ApplyActions(vec![Action::Group(9)])])
    };
    let bucket = vec![set(Field::EthDst, 7), out(number::CONTROLLER)];
    let bucket = Bucket { weight: 0, watch_port: group::ANY, watch_group: group::ANY, actions: bucket };
    let tells_too = GroupMod { command: GroupCommand::Add, kind: GroupKind::Indirect, group: 9, buckets: vec![bucket] };
    for last in [tells, by_group] {
        let flows = [leads.clone(), last];
        let [mut compiled, mut definition] = [0, 1].map(|_| switch_with(vec![tells_too.clone()], &flows));
        compile(&mut compiled);
        let bytes = [&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0x88, 0xb5][..], &[7; 46]].concat();
        let mut known = approach(&compiled, &[(1, bytes.clone())]);
        let became = forward(&mut compiled, (0, &mut known), &bytes, 0).expect("no interpreter");
        assert_eq!(became, by_definition(&mut definition, 1, &bytes, 0));
        let Ok([(number::CONTROLLER, text)]) = became.as_deref() else { panic!("{became:?}") };
        assert!(String::from_utf8_lossy(text).contains(&0x5_0000_0007_u64.to_string()), "{text:?}");
        assert_eq!((compiled.decided_by_code(), counted(&compiled, 0)), (1, counted(&definition, 0)));
    }
}

/// Where the TTL ends, controllers are told of the packet as it was changed until then (section 5.12), and nothing else becomes of it: by a list that is applied, one
/// behind a way out, a set of actions, and a group; with code and without, of either family, and by a port that tells controllers nothing.
#[test]
fn packets_whose_ttl_ends_go_by_the_fast_path() {
    let (mac, hop) = (set(Field::EthDst, 7), Action::DecNwTtl);
    let apply = |actions: &[Action]| vec![Instruction::ApplyActions(actions.to_vec())];
    let write = Instruction::WriteActions(vec![hop.clone(), set(Field::EthSrc, 9), out(2)]);
    let to_group = vec![Instruction::WriteActions(vec![Action::Group(9)])];
    let flow = |table, made| FlowMod { cookie: 5, ..FlowMod::add(table, 1, Match::default(), made) };
    let bucket = vec![set(Field::EthDst, 7), Action::DecNwTtl, out(2)];
    let bucket = Bucket { weight: 0, watch_port: group::ANY, watch_group: group::ANY, actions: bucket };
    let group = GroupMod { command: GroupCommand::Add, kind: GroupKind::Indirect, group: 9, buckets: vec![bucket] };
    let lists = [
        apply(&[hop.clone(), out(2)]),
        apply(&[mac.clone(), hop.clone(), set(Field::EthSrc, 9), out(2)]),
        apply(&[out(3), mac.clone(), hop.clone(), out(2)]),
        apply(&[Action::Group(9)]),
        [apply(&[mac]), to_group, vec![Instruction::GotoTable(1)]].concat(),
        vec![write, Instruction::GotoTable(1)],
    ];
    let four = [&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 9, 17, 5, 5, 192, 0, 2, 1, 10, 0, 0, 2][..], &[7; 26]].concat();
    let six = [&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 59, 9][..], &[0x20; 32], &[7; 20]].concat();
    for (made, by_code, port) in each_way(&lists) {
        let flows = [flow(0, made.clone()), flow(1, apply(&[]))];
        let [mut fast, mut definition] = [0, 1].map(|_| {
            let mut switch = switch_with(vec![group.clone()], &flows);
            let config = weir_openflow::port::config::NO_PACKET_IN;
            switch.set_port(Port { number: 6, config, ..Port::default() }, 0);
            switch
        });
        if by_code {
            compile(&mut fast);
        }
        for (ttl, ip, at) in
            [(0, &four, 22), (1, &four, 22), (2, &four, 22), (0, &six, 21), (1, &six, 21), (2, &six, 21)]
        {
            let mut frame = [&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1][..], ip].concat();
            frame[at] = ttl;
            let mut known = approach(&fast, &[(port, frame.clone())]);
            let became = forward(&mut fast, (0, &mut known), &frame, 0).expect("no interpreter");
            assert_eq!((is_ended(&became), &became), (ttl < 2, &by_definition(&mut definition, port, &frame, 0)));
            assert_eq!(counted(&fast, 0), counted(&definition, 0), "{made:?} {ttl}");
        }
    }
}

/// Each of these lists with code and without, and by a port that tells controllers something, and one that does not.
fn each_way(lists: &[Vec<Instruction>]) -> impl Iterator<Item = (&Vec<Instruction>, bool, u32)> {
    let ways = [(false, 1), (true, 1), (false, 6), (true, 6)];
    lists.iter().flat_map(move |made| ways.map(|(by_code, port)| (made, by_code, port)))
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
            assert_eq!(became.map(|sent| sent.iter().map(|(port, _)| *port).collect()), Ok(vec![port]));
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
            let wanted = by_definition(&mut definition, 3, &frame, 0);
            let Some(became) = forward(&mut fast, (0, &mut known), &frame, 0) else { continue };
            fast_ones += 1;
            assert_eq!(became, wanted, "{changes:?}, frame {n}");
        }
    }
    assert!(fast_ones > 250, "{fast_ones}");
}

/// One table, in which all packets meet a flow with these instructions.
fn made(instructions: &[Instruction]) -> Vec<FlowMod> {
    vec![
        FlowMod::add(0, 1, Match::new(vec![Oxm::exact(Field::EthType, 0x0800)]).unwrap(), instructions.to_vec()),
        FlowMod::add(1, 1, Match::default(), vec![Instruction::ApplyActions(vec![out(6)])]),
    ]
}

fn udp() -> Vec<u8> {
    let ip = [8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 9, 17, 0, 0, 192, 0, 2, 1, 10, 0, 0, 2, 1, 1, 0, 53, 0, 26];
    [&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1][..], &ip, &[0; 20]].concat()
}

/// What broadcasts and mirrors are made of does not take the interpreter, whatever changes between.
#[test]
fn packets_with_several_ways_out_go_by_the_fast_path() {
    let apply = |actions: &[Action]| vec![Instruction::ApplyActions(actions.to_vec())];
    let (address, next) = (set(Field::EthDst, 7), Instruction::GotoTable(1));
    let lists = [
        (apply(&[out(number::FLOOD)]), vec![2, 3, 6]),
        (apply(&[out(number::ALL)]), vec![2, 3, 5, 6]),
        (apply(&[out(1), out(3), out(2), out(4)]), vec![3, 2]),
        (apply(&[out(2), Action::PushVlan(0x8100), out(3), address.clone(), out(2)]), vec![2, 3, 2]),
        (vec![Instruction::WriteActions(vec![Action::Group(7)])], vec![1, 2, 3, 2, 3, 6]),
        (apply(&[Action::Group(7), address.clone(), out(6)]), vec![1, 2, 3, 2, 3, 6, 6]),
        (apply(&[Action::Group(1), out(number::IN_PORT)]), vec![3, 1]),
        ([apply(&[out(2), Action::DecNwTtl, out(3)]), vec![next.clone()]].concat(), vec![2, 3, 6]),
        ([apply(&[Action::Group(7)]), vec![next]].concat(), vec![1, 2, 3, 2, 3, 6, 6]),
    ];
    for (instructions, ports) in lists {
        let (mut fast, mut definition) = (switch(&made(&instructions)), switch(&made(&instructions)));
        let mut known = approach(&fast, &[(1, udp())]);
        let became = forward(&mut fast, (0, &mut known), &udp(), 0).expect("no interpreter");
        assert_eq!(became, by_definition(&mut definition, 1, &udp(), 0), "{instructions:?}");
        // The first bucket of group 7 names a port that is the packet's own here.
        let wanted: Vec<u32> = ports.into_iter().skip_while(|port| *port == 1).collect();
        assert_eq!(became.map(|sent| sent.iter().map(|(port, _)| *port).collect()), Ok(wanted), "{instructions:?}");
        assert_eq!(counted(&fast, 0), counted(&definition, 0));
    }
}

/// What there is no room for is left alone: longer lists than are prepared, more copies than may be, longer frames than are copied and changed.
#[test]
fn what_is_too_much_takes_the_interpreter() {
    let goes = |actions: Vec<Action>, frame: &[u8], ports: u32| {
        let made = made(&[Instruction::ApplyActions(actions)]);
        let [mut fast, mut definition] = [0, 1].map(|_| {
            let mut switch = switch(&made);
            (PORTS + 1..=ports).for_each(|number| drop(switch.set_port(Port { number, ..Port::default() }, 0)));
            switch
        });
        let mut known = approach(&fast, &[(1, frame.to_vec())]);
        let became = forward(&mut fast, (0, &mut known), frame, 0);
        let is_fast = became.is_some();
        if let Some(became) = became {
            assert_eq!(became, by_definition(&mut definition, 1, frame, 0));
            assert_eq!(counted(&fast, 0), counted(&definition, 0));
        }
        is_fast
    };
    let change = |port| [set(Field::EthDst, 7), out(port)];
    let changes = |count| (0..count).flat_map(|_| change(2)).collect::<Vec<_>>();
    assert!(goes(changes(200), &udp(), PORTS) && goes(vec![out(2); 257], &udp(), PORTS));
    // A leg is a step, and another one if it changes something.
    assert!(!goes(changes(257), &udp(), PORTS) && !goes(vec![out(2); 258], &udp(), PORTS));
    assert!(goes(vec![out(number::FLOOD); 50], &udp(), 60) && !goes(vec![out(number::FLOOD); 80], &udp(), 60));
    let deep = |group| goes(vec![Action::Group(group)], &udp(), PORTS);
    assert!(deep(9) && !deep(10) && deep(11) && !deep(12));
    let told = |count| goes(vec![out(number::CONTROLLER); count], &udp(), PORTS);
    assert!(told(4) && !told(5));
    let long = |length: usize| [udp(), vec![0x5a; length - udp().len()]].concat();
    let mirror = |length| goes([vec![out(2)], changes(1)].concat(), &long(length), PORTS);
    assert!(mirror(16 << 10) && !mirror((16 << 10) + 1) && goes(vec![out(2), out(3)], &long(17 << 10), PORTS));
}

/// The shortest frame with a tag is filled up when it loses it: zeroes become ports that were cut off, by which a group chooses.
#[test]
fn what_fills_a_frame_up_counts_as_its_headers() {
    let tagged = Match::new(vec![Oxm::masked(Field::VlanVid, 0x1000, 0x1000)]).unwrap();
    let actions = vec![Action::PopVlan, Action::Group(5)];
    let flows = [FlowMod::add(0, 0, tagged, vec![Instruction::ApplyActions(actions)])];
    let addresses = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x81, 0, 0, 1];
    let six = |port: u8| {
        [&addresses[..], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 28, 17, 2], &[32; 16], &[0; 16], &[0, port]].concat()
    };
    let with_options = |port: u8| {
        let ip = [8, 0, 0x4a, 0, 0, 60, 0, 0, 0, 0, 9, 17, 0, 0, 192, 0, 2, 1, 10, 0, 0, 2];
        [&addresses[..], &ip, &[1; 20], &[0, port]].concat()
    };
    let frames: Vec<Vec<u8>> = (0..40).flat_map(|port| [six(port), with_options(port)]).collect();
    let mut interpreted = 0;
    for frame in frames {
        assert_eq!(frame.len(), 60);
        let (mut fast, mut definition) = (switch(&flows), switch(&flows));
        let mut known = approach(&fast, &[(3, frame.clone())]);
        let became = forward(&mut fast, (0, &mut known), &frame, 0);
        let wanted = by_definition(&mut definition, 3, &frame, 0);
        assert_eq!(became.clone().unwrap_or(wanted.clone()), wanted);
        interpreted += u32::from(became.is_none());
    }
    assert_eq!(interpreted, 80);
}

/// Where all ports of a flood are down, that is the reason.
#[test]
fn a_flood_that_no_port_sends_ends_with_the_reason() {
    let flows = made(&[Instruction::ApplyActions(vec![out(number::FLOOD)])]);
    let [mut fast, mut definition] = [0, 1].map(|_| {
        let mut switch = switch(&flows);
        let down = |number| Port { number, state: state::LINK_DOWN, ..Port::default() };
        (2..=PORTS).for_each(|number| drop(switch.set_port(down(number), 0)));
        switch
    });
    let mut known = approach(&fast, &[(1, udp())]);
    assert_eq!(forward(&mut fast, (0, &mut known), &udp(), 0), Some(Err(Why::PortDown)));
    assert_eq!(by_definition(&mut definition, 1, &udp(), 0), Err(Why::PortDown));
    assert_eq!(counted(&fast, 0), counted(&definition, 0));
}

/// A group of all makes frames be looked into as far as its buckets need, though nothing else does.
#[test]
fn frames_are_looked_into_for_every_bucket_of_a_group_of_all() {
    let flows = [FlowMod::add(0, 1, Match::default(), vec![Instruction::ApplyActions(vec![Action::Group(7)])])];
    let [mut fast, mut definition] =
        [0, 1].map(|_| switch_with(groups().into_iter().filter(|made| made.group == 7).collect(), &flows));
    let mut known = approach(&fast, &[(3, udp())]);
    let became = forward(&mut fast, (0, &mut known), &udp(), 0).expect("no interpreter");
    assert_eq!(became, by_definition(&mut definition, 3, &udp(), 0));
}
