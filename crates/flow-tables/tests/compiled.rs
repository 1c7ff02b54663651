//! The first table as machine code, against the definition: the same frames leave by the same ports, for the same reasons none does, and everything
//! has counted the same, whatever frames look like and wherever they break off.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod pipelines;

use std::cell::Cell;

use pipelines::{Became, PORTS, by_definition, counted, out, set};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use weir_flow_tables::{CodeState, Forwarded, Frame, Frames, Packet, Switch, Why};
use weir_openflow::flow::{FlowCommand, FlowMod};
use weir_openflow::message::Config;
use weir_openflow::port::number;
use weir_openflow::{Action, Field, Instruction, Match, Oxm};

/// A frame in a buffer that goes on behind its end, with what was there before.
#[derive(Clone, Debug)]
struct Buffer {
    memory: Vec<u8>,
    length: usize,
}

/// How much is behind the longest frame of these tests.
const BUFFER: usize = 400;

impl Buffer {
    fn of(bytes: &[u8]) -> Buffer {
        // What looks like more of the same, and like addresses that flows ask for.
        let mut memory: Vec<u8> = (0..BUFFER).map(|at| [8, 0, 0x45, 10, 0, 0, 2, 17][at % 8]).collect();
        memory[..bytes.len()].copy_from_slice(bytes);
        Buffer { memory, length: bytes.len() }
    }
}

impl Frame for Buffer {
    fn bytes(&self) -> &[u8] {
        &self.memory[..self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.length]
    }

    fn window(&mut self) -> Option<&mut [u8; 128]> {
        self.memory.first_chunk_mut()
    }

    fn has_room(&self, _: usize, _: usize) -> bool {
        false
    }

    fn prepend(&mut self, _: usize) {}
    fn trim_front(&mut self, _: usize) {}
    fn lengthen(&mut self, _: usize) {}
    fn replace(&mut self, _: &[u8]) {}
}

/// Makes the code that a switch wants.
fn compile(switch: &mut Switch) {
    let recipe = switch.recipe().expect("nothing to compile");
    assert_eq!(switch.code_state(), CodeState::Wanted);
    switch.install(recipe.compile());
    assert_eq!(switch.code_state(), CodeState::InUse);
    assert!(switch.recipe().is_none());
}

/// Takes a frame by the fast path, where that goes.
fn forward(switch: &mut Switch, port: u32, bytes: &[u8], now: u64) -> Option<Became> {
    let (mut known, mut copies) = (Frames::new(1), Vec::new());
    switch.approach([(bytes, port)].into_iter(), &mut known);
    let mut frame = Buffer::of(bytes);
    let untouched = frame.memory[bytes.len()..].to_vec();
    let became = switch.forward(0, &mut frame, &mut known, &mut copies, now);
    assert_eq!(frame.memory[bytes.len()..], untouched, "something changed behind the frame");
    if became.is_none() {
        assert_eq!(frame.bytes(), bytes, "it gave up, and changed something");
    }
    became.map(|became| match became {
        Forwarded::Sent(port) => Ok([vec![(port, frame.bytes().to_vec())], copies].concat()),
        Forwarded::Dropped(why) => Err(why),
    })
}

/// Takes frames through a switch with code and through one that follows the definition; how many the code decided about.
fn both_ways(flows: &[FlowMod], packets: &[(u32, Vec<u8>)]) -> Result<u64, TestCaseError> {
    let [mut compiled, mut definition] = [0, 1].map(|_| pipelines::switch(flows));
    compile(&mut compiled);
    for ((port, bytes), now) in packets.iter().zip((0..).step_by(1_000_000)) {
        match forward(&mut compiled, *port, bytes, now) {
            Some(became) => prop_assert_eq!(became, by_definition(&mut definition, *port, bytes, now), "{:x?}", bytes),
            None => {
                let [mut one, mut other] = [&mut compiled, &mut definition];
                let [one, other] =
                    [&mut one, &mut other].map(|switch| switch.judge(Packet::new(*port, bytes.clone()), now));
                prop_assert_eq!(one, other);
            }
        }
    }
    prop_assert_eq!(counted(&compiled, 0), counted(&definition, 0));
    Ok(compiled.decided_by_code())
}

/// What flows ask: of one kind of packet, or of any.
fn asked() -> impl Strategy<Value = Vec<Oxm>> {
    let few = |field: Field, most: u128| (0..most).prop_map(move |value| Oxm::exact(field, value));
    let masked = |field: Field, base: u128, masks: Vec<u128>| {
        (0_u128..4, prop::sample::select(masks))
            .prop_map(move |(last, mask)| Oxm::masked(field, (base | last) & mask, mask))
    };
    let one =
        |field: Field, values: Vec<u128>| prop::sample::select(values).prop_map(move |value| Oxm::exact(field, value));
    let plain = prop_oneof![
        (1..=PORTS).prop_map(|port| Oxm::exact(Field::InPort, port.into())),
        masked(Field::EthDst, 0x0200_0000_0000, vec![3, 0xffff_ffff_ffff, 0xff00_0000_0000]),
        masked(Field::EthSrc, 0, vec![1, 0xffff_ffff_ffff]),
        masked(Field::Metadata, 0, vec![1, u64::MAX.into()]),
        one(Field::VlanVid, vec![0, 0x1000, 0x1001, 0x1002]),
        Just(Oxm::masked(Field::VlanVid, 0x1000, 0x1000)),
        Just(Oxm::masked(Field::VlanVid, 0x1001, 0x1001)),
        one(Field::EthType, vec![0x0800, 0x86dd, 0x0806, 0x8847, 0x88b5, 0x8100]),
    ];
    let ipv4 = prop_oneof![
        masked(Field::Ipv4Dst, 0x0a00_0000, vec![0xffff_ffff, 0xff00_0000, 0xffff_fffc, 1]),
        masked(Field::Ipv4Src, 0xc000_0200, vec![0xffff_ffff, 0x8000_0000]),
        few(Field::IpDscp, 2),
        few(Field::IpEcn, 2),
        one(Field::IpProto, vec![1, 2, 6, 17]),
    ];
    let ipv6 = prop_oneof![
        masked(Field::Ipv6Dst, 0x0a0a_0a0a_0a0a_0a0a_0a0a_0a0a_0a0a_0a08, vec![u128::MAX, 3, 0xff << 120]),
        masked(Field::Ipv6Src, 0, vec![1, 1 << 125]),
        few(Field::Ipv6Flabel, 3),
        few(Field::IpDscp, 2),
        one(Field::Ipv6Exthdr, vec![0, 1, 0x40]),
        one(Field::IpProto, vec![6, 17, 58]),
    ];
    let ports = prop_oneof![
        one(Field::TcpDst, vec![53, 80]),
        one(Field::TcpSrc, vec![53, 80]),
        one(Field::UdpDst, vec![53, 80]),
        one(Field::UdpSrc, vec![53, 80]),
        one(Field::SctpDst, vec![53, 80]),
        one(Field::Icmpv4Type, vec![0, 8]),
        one(Field::Icmpv4Code, vec![0, 53]),
        one(Field::Icmpv6Type, vec![0, 135]),
        one(Field::Icmpv6Code, vec![0, 53]),
        Just(Oxm::exact(Field::Ipv6NdTarget, 0)),
    ];
    let arp = prop_oneof![
        one(Field::ArpOp, vec![1, 2]),
        masked(Field::ArpTpa, 0x0a00_0000, vec![0xffff_ffff, 3]),
        masked(Field::ArpSpa, 0x0a00_0000, vec![0xffff_ffff, 3]),
        masked(Field::ArpSha, 0x0200_0000_0000, vec![0xffff_ffff_ffff, 3]),
        masked(Field::ArpTha, 0x0200_0000_0000, vec![0xffff_ffff_ffff, 3]),
    ];
    let mpls = prop_oneof![few(Field::MplsLabel, 3), few(Field::MplsTc, 2), few(Field::MplsBos, 2)];
    let kind = prop_oneof![
        2 => Just((vec![], None)),
        4 => proptest::collection::vec(ipv4, 0..3).prop_map(|asked| (asked, Some(0x0800))),
        2 => proptest::collection::vec(ipv6, 0..3).prop_map(|asked| (asked, Some(0x86dd))),
        3 => (ports, any::<bool>()).prop_map(|(asked, is_v6)| {
            // A port is of a protocol, and types of a protocol of one version.
            let (protocol, version) = match asked.field {
                Field::TcpDst | Field::TcpSrc => (6, None),
                Field::UdpDst | Field::UdpSrc => (17, None),
                Field::SctpDst => (132, None),
                Field::Icmpv4Type | Field::Icmpv4Code => (1, Some(0x0800)),
                _ => (58, Some(0x86dd)),
            };
            let version = version.unwrap_or(if is_v6 { 0x86dd } else { 0x0800 });
            let mut all = vec![Oxm::exact(Field::IpProto, protocol)];
            if asked.field == Field::Ipv6NdTarget {
                all.push(Oxm::exact(Field::Icmpv6Type, 135));
            }
            all.push(asked);
            (all, Some(version))
        }),
        1 => proptest::collection::vec(arp, 0..3).prop_map(|asked| (asked, Some(0x0806))),
        1 => proptest::collection::vec(mpls, 0..3).prop_map(|asked| (asked, Some(0x8847))),
    ];
    (proptest::collection::vec(plain, 0..3), kind).prop_map(|(any, (asked, kind))| {
        let mut all: Vec<Oxm> = kind.map(|kind| Oxm::exact(Field::EthType, kind)).into_iter().collect();
        for oxm in asked.into_iter().chain(any) {
            if all.iter().all(|known| known.field != oxm.field) {
                all.push(oxm);
            }
        }
        all
    })
}

/// What flows do: what code does, in any order.
fn made() -> impl Strategy<Value = Vec<Instruction>> {
    let change = |action: Action| prop::option::of(Just(action));
    let changes = (
        change(set(Field::EthDst, 0x0202_0202_0209)),
        change(set(Field::EthSrc, 0xfedc_ba98_7654)),
        change(Action::DecNwTtl),
        any::<prop::sample::Index>(),
    );
    let end = prop::sample::select(vec![
        out(1),
        out(2),
        out(3),
        out(4),
        out(9),
        out(number::IN_PORT),
        out(number::FLOOD),
        out(number::ALL),
    ]);
    (changes, prop::option::weighted(0.9, end)).prop_map(|((destination, source, ttl, turn), end)| {
        let mut actions: Vec<Action> = destination.into_iter().chain(source).chain(ttl).collect();
        if !actions.is_empty() {
            let by = turn.index(actions.len());
            actions.rotate_left(by);
        }
        actions.extend(end);
        vec![Instruction::ApplyActions(actions)]
    })
}

fn flow() -> impl Strategy<Value = FlowMod> {
    (0_u16..4, asked(), made())
        .prop_map(|(priority, fields, made)| FlowMod::add(0, priority + 1, Match::new(fields).unwrap(), made))
}

/// Flows of one table; those for misses may be told to controllers, or led on.
fn flows() -> impl Strategy<Value = Vec<FlowMod>> {
    let miss = prop_oneof![
        made(),
        Just(vec![Instruction::ApplyActions(vec![Action::PushVlan(0x8100), out(2)])]),
        Just(vec![Instruction::WriteActions(vec![Action::Group(7)])]),
    ];
    let miss = prop::option::of(miss.prop_map(|made| FlowMod::add(0, 0, Match::default(), made)));
    (proptest::collection::vec(flow(), 1..10), miss).prop_map(|(flows, miss)| flows.into_iter().chain(miss).collect())
}

/// An IPv4 packet: with options, of a length that is right or not, a fragment or none.
fn ipv4() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let odd = |odds: f64, usual: u8, others: Vec<u8>| {
        prop_oneof![
            ((1.0 - odds) * 100.0) as u32 => Just(usual),
            (odds * 100.0) as u32 => prop::sample::select(others)
        ]
    };
    let shape =
        (odd(0.15, 0x45, vec![0x46, 0x4f, 0x44, 0x65, 0x40]), odd(0.2, 46, vec![0, 10, 19, 20, 22, 23, 24, 255]));
    let fragment = prop_oneof![8 => Just([0_u8, 0]), 1 => Just([0x20, 0]), 1 => Just([0x20, 1]), 1 => Just([0x40, 0]), 1 => Just([0, 9])];
    let protocol = prop::sample::select(vec![6_u8, 17, 17, 132, 1, 2]);
    let rest = (0_u8..6, prop::sample::select(vec![0_u8, 1, 2, 3, 64, 255]), 0_u8..4, 0_u8..4, any::<[u8; 2]>());
    (shape, fragment, protocol, rest).prop_map(|((first, total), fragment, protocol, (class, ttl, source, to, sum))| {
        let mut packet = vec![first, class, 0, total, 1, 2, fragment[0], fragment[1], ttl, protocol, sum[0], sum[1]];
        packet.extend([192, 0, 2, source, 10, 0, 0, to]);
        if first & 0xf > 5 {
            packet.extend(vec![1; (usize::from(first & 0xf) - 5) * 4]);
        }
        (0x0800, [packet, vec![0, 53, 0, 80 - 27 * (source & 1)], vec![0; 30]].concat())
    })
}

/// An IPv6 packet, with extension headers or without.
fn ipv6() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let chain = prop::sample::select(vec![
        (6_u8, vec![]),
        (17, vec![]),
        (17, vec![]),
        (58, vec![]),
        (132, vec![]),
        (0, vec![17, 0, 1, 4, 0, 0, 0, 0]),
        (44, vec![6, 0, 0, 0, 0, 0, 0, 9]),
        (44, vec![6, 0, 0, 8, 0, 0, 0, 9]),
        (60, vec![58, 0, 1, 4, 0, 0, 0, 0]),
        (43, vec![17, 0, 0, 1, 0, 0, 0, 0]),
        (51, vec![17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (50, vec![1; 8]),
        (59, vec![]),
    ]);
    let length = prop_oneof![6 => Just(None), 1 => (0_u8..6).prop_map(Some)];
    let rest = (
        0_u8..4,
        prop::sample::select(vec![0_u8, 1, 2, 64]),
        0_u8..4,
        0_u8..3,
        prop::sample::select(vec![0_u8, 135, 136]),
    );
    (chain, length, prop_oneof![9 => Just(0x60_u8), 1 => Just(0x45)], rest).prop_map(
        |((next, headers), length, first, (class, hops, to, label, kind))| {
            let carried = [headers, vec![if next == 58 { kind } else { 0 }, 53, 0, 53], vec![0; 28]].concat();
            let mut packet =
                vec![first | class >> 2, class << 6, 0, label, 0, length.unwrap_or(carried.len() as u8), next, hops];
            packet.extend([[0x20; 16], [0x0a; 16]].concat());
            *packet.last_mut().unwrap() = 8 | to;
            (0x86dd, [packet, carried].concat())
        },
    )
}

/// Whole frames, behind up to three tags.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let arp = (0_u8..3, 0_u8..4, 0_u8..4, prop_oneof![8 => Just(6_u8), 1 => Just(8)]).prop_map(
        |(operation, from, to, length)| {
            let start = [
                0, 1, 8, 0, length, 4, 0, operation, 2, 0, 0, 0, 0, from, 10, 0, 0, from, 2, 0, 0, 0, 0, to, 10, 0, 0,
                to,
            ];
            (0x0806, [&start[..], &[0; 18]].concat())
        },
    );
    let mpls = (0_u8..3, 0_u8..4)
        .prop_map(|(label, class)| (0x8847, [&[0, 0, label << 4 | class, 64][..], &[0x45; 42]].concat()));
    let other = prop::sample::select(vec![0x88b5_u16, 0x0600, 5]).prop_map(|kind| (kind, vec![7; 46]));
    let carried = prop_oneof![6 => ipv4(), 3 => ipv6(), 1 => arp, 1 => mpls, 1 => other];
    let tag = (prop::sample::select(vec![0x8100_u16, 0x8100, 0x88a8]), 0_u16..3, 0_u16..2)
        .prop_map(|(kind, vid, priority)| (kind, priority << 13 | vid));
    let tags = prop_oneof![4 => Just(0_usize), 2 => Just(1), 1 => Just(2), 1 => Just(3)];
    let tags = tags.prop_flat_map(move |count| proptest::collection::vec(tag.clone(), count));
    (tags, carried, 0_u8..4, 0_u8..4).prop_map(|(tags, (kind, packet), to, from)| {
        let mut frame = vec![2, 0, 0, 0, 0, to, 0, 0, 0, 0, 0, from];
        tags.iter().for_each(|(kind, tag)| frame.extend([kind.to_be_bytes(), tag.to_be_bytes()].concat()));
        frame.extend(kind.to_be_bytes());
        [frame, packet].concat()
    })
}

/// Random tables of flows, and random frames, some of which break off.
#[test]
fn what_code_does_is_what_the_definition_does() {
    let broken = (frame(), prop::option::weighted(0.2, 0_usize..90)).prop_map(|(mut frame, length)| {
        frame.truncate(length.unwrap_or(usize::MAX).max(14));
        frame
    });
    let packets = proptest::collection::vec((1..=PORTS, broken), 1..30);
    let (all, by_code) = (Cell::new(0), Cell::new(0));
    let config = ProptestConfig { cases: 400, source_file: Some(file!()), ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&(flows(), packets), |(flows, packets)| {
        all.set(all.get() + packets.len() as u64);
        by_code.set(by_code.get() + both_ways(&flows, &packets)?);
        Ok(())
    });
    outcome.unwrap();
    // Else nothing was shown.
    assert!(by_code.get() * 5 > all.get(), "{} of {}", by_code.get(), all.get());
}

/// The same frames, cut off at every length.
#[test]
fn frames_that_break_off_anywhere_are_treated_by_definition() {
    let config = ProptestConfig { cases: 60, source_file: Some(file!()), ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&(flows(), frame()), |(flows, whole)| {
        let packets: Vec<(u32, Vec<u8>)> = (14..=whole.len()).map(|length| (1, whole[..length].to_vec())).collect();
        both_ways(&flows, &packets).map(drop)
    });
    outcome.unwrap();
}

fn matched(fields: Vec<Oxm>) -> Match {
    Match::new(fields).unwrap()
}

fn add(priority: u16, fields: Vec<Oxm>, actions: Vec<Action>) -> FlowMod {
    FlowMod::add(0, priority, matched(fields), vec![Instruction::ApplyActions(actions)])
}

fn udp(to: u8) -> Vec<u8> {
    let ip = [8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 9, 17, 0xab, 0xcd, 192, 0, 2, 1, 10, 0, 0, to, 1, 1, 0, 53, 0, 26];
    [&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1][..], &ip, &[0; 20]].concat()
}

fn to(address: u32, mask: u32) -> Vec<Oxm> {
    vec![Oxm::exact(Field::EthType, 0x0800), Oxm::masked(Field::Ipv4Dst, (address & mask).into(), mask.into())]
}

/// Other values are other data: the code stays, and does what the flows say from then on. Another shape takes other code, and until then the usual way.
#[test]
fn only_another_shape_takes_other_code() {
    let mut switch = pipelines::switch(&[add(1, to(0x0a00_0002, u32::MAX), vec![set(Field::EthDst, 7), out(2)])]);
    assert_eq!(switch.code_state(), CodeState::Wanted);
    compile(&mut switch);
    let sent = |switch: &mut Switch, address| {
        let before = switch.decided_by_code();
        let became = forward(switch, 1, &udp(address), 0)
            .unwrap()
            .map(|sent| sent.into_iter().map(|(port, frame)| (port, frame[5])).collect::<Vec<_>>());
        (became, switch.decided_by_code() - before)
    };
    assert_eq!(sent(&mut switch, 2), (Ok(vec![(2, 7)]), 1));
    // Another address to match, another to set, another port, another flow in its slot.
    let gone = FlowMod { command: FlowCommand::Delete, ..add(1, vec![], vec![]) };
    switch.flow_mod(&gone, 0).unwrap();
    assert_eq!(switch.code_state(), CodeState::No("it has no flows"));
    assert_eq!(sent(&mut switch, 2), (Err(Why::Miss), 0));
    let other = add(1, to(0x0a00_0003, u32::MAX), vec![set(Field::EthDst, 9), out(3)]);
    switch.flow_mod(&other, 0).unwrap();
    assert_eq!(switch.code_state(), CodeState::InUse);
    assert_eq!(sent(&mut switch, 3), (Ok(vec![(3, 9)]), 1));
    assert_eq!(sent(&mut switch, 2), (Err(Why::Miss), 0));
    let modify = FlowMod { command: FlowCommand::Modify, ..add(1, vec![], vec![set(Field::EthDst, 8), out(2)]) };
    switch.flow_mod(&modify, 0).unwrap();
    assert_eq!((switch.code_state(), sent(&mut switch, 3)), (CodeState::InUse, (Ok(vec![(2, 8)]), 1)));
    // Another mask; code of the shape before, made meanwhile, does no harm.
    let outdated = switch.clone().recipe().unwrap();
    switch.flow_mod(&add(2, to(0x0a00_0000, 0xff00_0000), vec![out(1)]), 0).unwrap();
    assert_eq!((switch.code_state(), sent(&mut switch, 3)), (CodeState::Wanted, (Err(Why::SamePort), 0)));
    switch.install(outdated.compile());
    assert_eq!((switch.code_state(), sent(&mut switch, 3)), (CodeState::Wanted, (Err(Why::SamePort), 0)));
    compile(&mut switch);
    assert_eq!(sent(&mut switch, 3), (Err(Why::SamePort), 1));
    // A flow that ends by itself.
    let short = FlowMod { hard_timeout: 1, ..add(3, to(0x0a00_0003, u32::MAX), vec![out(3)]) };
    switch.flow_mod(&short, 0).unwrap();
    compile(&mut switch);
    assert_eq!(sent(&mut switch, 3), (Ok(vec![(3, 1)]), 1));
    assert_eq!(switch.tables.expire(2_000_000_000, 9).len(), 0);
    assert_eq!((switch.code_state(), sent(&mut switch, 3)), (CodeState::Wanted, (Err(Why::SamePort), 0)));
}

/// Where code is not for a table, that is said, and packets go as before.
#[test]
fn tables_that_are_not_for_code_say_why() {
    let flow = |n: u32, actions| add(1, to(n << 8, 0xffff_ff00), actions);
    let few = |count: u32| (0..count).map(|n| flow(n, vec![out(2)])).collect::<Vec<_>>();
    let state = |flows: &[FlowMod]| pipelines::switch(flows).code_state();
    assert_eq!(state(&[]), CodeState::No("it has no flows"));
    assert_eq!((state(&few(24)), state(&few(25))), (CodeState::Wanted, CodeState::No("it has too many flows")));
    let more = CodeState::No("a flow does more than to change addresses and TTL and to send");
    let others = [
        vec![out(2), out(3)],
        vec![Action::Group(1)],
        vec![Action::PushVlan(0x8100), out(2)],
        vec![Action::DecNwTtl, Action::DecNwTtl, out(2)],
        vec![set(Field::EthDst, 1), set(Field::EthDst, 2), out(2)],
        vec![out(number::CONTROLLER)],
        vec![set(Field::Ipv4Dst, 9), out(2)],
    ];
    for actions in others {
        assert_eq!(state(&[flow(1, actions.clone())]), more, "{actions:?}");
        // For what no other flow matches, it is the usual way that takes it.
        let with_miss = [add(0, vec![], actions), few(1).remove(0)];
        assert_eq!(state(&with_miss), CodeState::Wanted);
    }
    for instruction in [Instruction::Meter(1), Instruction::GotoTable(1), Instruction::WriteActions(vec![out(2)])] {
        let leads_on = matches!(instruction, Instruction::GotoTable(_));
        let flow = |n| {
            FlowMod::add(0, n, Match::default(), vec![Instruction::ApplyActions(vec![out(1)]), instruction.clone()])
        };
        assert_eq!(state(&[flow(1)]), more);
        // What is for other tables is looked up there a batch at a time.
        assert_eq!(state(&[flow(0)]), if leads_on { more.clone() } else { CodeState::Wanted });
    }
    // A flow more or less does not change it back and forth.
    let mut switch = pipelines::switch(&few(24));
    compile(&mut switch);
    let remove = |n| FlowMod { command: FlowCommand::DeleteStrict, ..flow(n, vec![]) };
    switch.flow_mod(&flow(24, vec![out(2)]), 0).unwrap();
    assert_eq!(switch.code_state(), CodeState::No("it has too many flows"));
    for (n, wanted) in (16..25).rev().map(|n| (n, n == 16)) {
        switch.flow_mod(&remove(n), 0).unwrap();
        assert_eq!(switch.code_state() == CodeState::Wanted, wanted, "{n} flows");
    }
    // Its cost is measured by a frame for each flow.
    let switch = {
        let flows = [add(2, to(9, 0xff), vec![out(1)]), add(1, vec![Oxm::exact(Field::EthType, 0x86dd)], vec![out(2)])];
        let mut switch = pipelines::switch(&flows);
        assert!(switch.code_samples().is_none());
        compile(&mut switch);
        switch
    };
    let mut frames = switch.code_samples().unwrap();
    assert_eq!((frames.len(), switch.find_all_by_code(&mut frames), switch.decided_by_code()), (2, 2, 0));
    // It may be switched off and on, and fragments be dropped.
    let mut switch = pipelines::switch(&few(2));
    compile(&mut switch);
    switch.allow_code(false);
    assert_eq!((switch.code_state(), switch.recipe().is_none()), (CodeState::No("it is switched off"), true));
    forward(&mut switch, 1, &udp(1), 0).unwrap().unwrap_err();
    assert_eq!(switch.decided_by_code(), 0);
    switch.allow_code(true);
    assert_eq!(switch.code_state(), CodeState::InUse);
    switch.set_config(Config { flags: 1, miss_send_len: 0 }).unwrap();
    assert_eq!(switch.code_state(), CodeState::No("fragments are dropped"));
    let mut fragment = udp(0);
    fragment[20] = 0x20;
    assert_eq!(forward(&mut switch, 1, &fragment, 0), None);
    switch.set_config(Config { flags: 0, miss_send_len: 0 }).unwrap();
    assert_eq!(switch.code_state(), CodeState::InUse);
}
