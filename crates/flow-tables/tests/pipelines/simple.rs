//! Random tables that machine code tries or leads to, and frames of all kinds for them.

use proptest::prelude::*;
use weir_openflow::flow::FlowMod;
use weir_openflow::port::number;
use weir_openflow::{Action, Field, Instruction, Match, Oxm};

use super::{PORTS, TABLES, labelled, out, set};

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
        few(Field::Ipv6NdTarget, 2),
        few(Field::Ipv6NdSll, 2),
        few(Field::Ipv6NdTll, 2),
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
            match asked.field {
                Field::Ipv6NdTarget | Field::Ipv6NdSll => all.push(Oxm::exact(Field::Icmpv6Type, 135)),
                Field::Ipv6NdTll => all.push(Oxm::exact(Field::Icmpv6Type, 136)),
                _ => {}
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
pub fn flows() -> impl Strategy<Value = Vec<FlowMod>> {
    let miss = prop_oneof![
        made(),
        Just(vec![Instruction::ApplyActions(vec![Action::PushVlan(0x8100), out(2)])]),
        Just(vec![Instruction::WriteActions(vec![Action::Group(7)])]),
    ];
    let miss = prop::option::of(miss.prop_map(|made| FlowMod::add(0, 0, Match::default(), made)));
    (proptest::collection::vec(flow(), 1..10), miss).prop_map(|(flows, miss)| flows.into_iter().chain(miss).collect())
}

/// What flows do in a table of several: what code does at once, what leads on, and what is carried out behind code.
fn made_in(table: u8) -> impl Strategy<Value = Vec<Instruction>> {
    let group = prop::sample::select(vec![1, 2, 5, 7, 12]).prop_map(Action::Group);
    let change = prop::sample::select(vec![
        set(Field::EthDst, 0x0202_0202_0209),
        Action::DecNwTtl,
        Action::PopVlan,
        Action::PushVlan(0x8100),
        set(Field::Ipv4Dst, 0x0a00_0001),
        set(Field::UdpDst, 80),
        Action::PushMpls(0x8847),
    ]);
    let changes = proptest::collection::vec(change, 0..3);
    let by_group = (changes, group, any::<bool>()).prop_map(|(mut actions, group, is_written)| {
        actions.push(group);
        vec![if is_written { Instruction::WriteActions(actions) } else { Instruction::ApplyActions(actions) }]
    });
    let written = made().prop_map(|made| {
        let written = made.into_iter().map(|instruction| match instruction {
            Instruction::ApplyActions(actions) => Instruction::WriteActions(actions),
            other => other,
        });
        written.collect()
    });
    let metadata = prop::option::of((0_u64..4, prop_oneof![Just(3_u64), Just(1 << 40 | 1)]));
    let leads = (table + 1..=TABLES, metadata).prop_map(|(next, metadata)| {
        let metadata = metadata.map(|(metadata, mask)| Instruction::WriteMetadata { metadata, mask });
        let next = (next < TABLES).then_some(Instruction::GotoTable(next));
        metadata.into_iter().chain(next).collect()
    });
    let both = (made(), table + 1..=TABLES).prop_map(|(mut made, next)| {
        made.extend((next < TABLES).then_some(Instruction::GotoTable(next)));
        made
    });
    prop_oneof![3 => made(), 5 => leads, 3 => by_group, 1 => written, 1 => both]
}

/// Flows of several tables, of which the last one may have many.
pub fn pipelines() -> impl Strategy<Value = Vec<FlowMod>> {
    let flow = (0..TABLES).prop_flat_map(|table| {
        (0_u16..4, prop_oneof![1 => Just(vec![]), 3 => asked()], made_in(table))
            .prop_map(move |(priority, fields, made)| FlowMod::add(table, priority, Match::new(fields).unwrap(), made))
    });
    let address = |n: u32| Oxm::exact(Field::Ipv4Dst, 0x0a00_0000 + u128::from(n));
    let many = prop::option::of(proptest::collection::vec(made_in(TABLES - 1), 40)).prop_map(move |all| {
        let all = all.into_iter().flatten().zip(0..);
        let flows = all.map(move |(made, n)| {
            let fields = vec![Oxm::exact(Field::EthType, 0x0800), address(n)];
            FlowMod::add(TABLES - 1, 2, Match::new(fields).unwrap(), made)
        });
        flows.collect::<Vec<_>>()
    });
    (proptest::collection::vec(flow, 3..16), many).prop_map(|(flows, many)| [flows, many].concat())
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
            let mut carried = [headers, vec![if next == 58 { kind } else { 0 }, 53, 0, 53], vec![0; 28]].concat();
            if next == 58 && kind > 0 {
                // A target, and an option with an address or another one.
                (carried[23], carried[24], carried[25], carried[31]) = (to & 1, kind - 134 + class / 3, 1, hops & 1);
            }
            let mut packet =
                vec![first | class >> 2, class << 6, 0, label, 0, length.unwrap_or(carried.len() as u8), next, hops];
            packet.extend([[0x20; 16], [0x0a; 16]].concat());
            *packet.last_mut().unwrap() = 8 | to;
            (0x86dd, [packet, carried].concat())
        },
    )
}

/// Whole frames, behind up to three tags.
pub fn frame() -> impl Strategy<Value = Vec<u8>> {
    let arp = (0_u8..3, 0_u8..4, 0_u8..4, prop_oneof![8 => Just(6_u8), 1 => Just(8)]).prop_map(
        |(operation, from, to, length)| {
            let start = [
                0, 1, 8, 0, length, 4, 0, operation, 2, 0, 0, 0, 0, from, 10, 0, 0, from, 2, 0, 0, 0, 0, to, 10, 0, 0,
                to,
            ];
            (0x0806, [&start[..], &[0; 18]].concat())
        },
    );
    let mpls = (prop::sample::select(vec![0x8847_u16, 0x8847, 0x8848]), labelled());
    let other = prop::sample::select(vec![0x88b5_u16, 0x0600, 5]).prop_map(|kind| (kind, vec![7; 46]));
    let carried = prop_oneof![6 => ipv4(), 3 => ipv6(), 2 => arp, 3 => mpls, 1 => other];
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
