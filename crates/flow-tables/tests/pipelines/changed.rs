//! Flows and groups that change packets in any way that there is, and packets for them.

use proptest::prelude::*;
use weir_openflow::flow::FlowMod;
use weir_openflow::group::{self, Bucket, GroupCommand, GroupKind, GroupMod};
use weir_openflow::{Action, Field, Instruction, Match, Oxm};

use super::simple::frame;
use super::{PORTS, labels, out, set};

/// What packets are, so that their fields may be set.
pub fn kinds() -> Vec<(Vec<Oxm>, Vec<Field>)> {
    use Field::{IpDscp, IpEcn, IpProto, Ipv4Dst, Ipv4Src, Ipv6Dst, Ipv6Flabel, Ipv6Src};
    let (four, six) = (vec![IpDscp, IpEcn, Ipv4Src, Ipv4Dst], vec![IpDscp, IpEcn, Ipv6Src, Ipv6Dst, Ipv6Flabel]);
    let ports = [
        (6, [Field::TcpSrc, Field::TcpDst]),
        (17, [Field::UdpSrc, Field::UdpDst]),
        (132, [Field::SctpSrc, Field::SctpDst]),
    ];
    let mut all = vec![
        (vec![], vec![]),
        (vec![Oxm::masked(Field::VlanVid, 0x1000, 0x1000)], vec![Field::VlanVid, Field::VlanPcp]),
    ];
    for (kind, fields) in [(0x0800, four), (0x86dd, six)] {
        let is_one = Oxm::exact(Field::EthType, kind);
        all.push((vec![is_one], fields.clone()));
        for (protocol, ports) in ports {
            let fields = [&fields[..], &ports, &ports].concat();
            all.push((vec![is_one, Oxm::exact(IpProto, protocol)], fields));
        }
    }
    let of_icmp = |kind, protocol| vec![Oxm::exact(Field::EthType, kind), Oxm::exact(IpProto, protocol)];
    let of_neighbours = |kind| [of_icmp(0x86dd, 58), vec![Oxm::exact(Field::Icmpv6Type, kind)]].concat();
    all.extend([
        (of_icmp(0x0800, 1), vec![Ipv4Dst, Field::Icmpv4Type, Field::Icmpv4Code]),
        (of_icmp(0x86dd, 58), vec![Ipv6Dst, Field::Icmpv6Code]),
        (of_neighbours(135), vec![Field::Ipv6NdTarget, Field::Ipv6NdSll, Field::Ipv6NdSll, Ipv6Src, Field::Icmpv6Code]),
        (of_neighbours(136), vec![Field::Ipv6NdTarget, Field::Ipv6NdTll, Field::Ipv6NdTll, Ipv6Dst]),
        (
            vec![Oxm::exact(Field::EthType, 0x0806)],
            vec![Field::ArpOp, Field::ArpSha, Field::ArpSpa, Field::ArpTha, Field::ArpTpa],
        ),
    ]);
    let of_mpls = vec![Field::MplsLabel, Field::MplsTc, Field::MplsBos];
    all.extend([0x8847, 0x8847, 0x8848].map(|kind| (vec![Oxm::exact(Field::EthType, kind)], of_mpls.clone())));
    all
}

/// Values that are the same as those of frames now and then.
pub fn value() -> impl Strategy<Value = u128> {
    prop_oneof![Just(0), Just(u128::MAX), Just(53), Just(0x0a00_0001), any::<u128>()]
}

pub fn changes(fields: Vec<Field>, most: usize) -> impl Strategy<Value = Vec<Action>> {
    let others = prop_oneof![
        1 => value().prop_map(|value| set(Field::EthDst, value)),
        1 => value().prop_map(|value| set(Field::EthSrc, value)),
        3 => Just(Action::DecNwTtl),
        1 => Just(Action::PushVlan(0x8100)),
        1 => Just(Action::PushVlan(0x88a8)),
        2 => Just(Action::PopVlan),
        5 => labels(),
    ];
    let change = if fields.is_empty() {
        others.boxed()
    } else {
        let set = (prop::sample::select(fields), value()).prop_map(|(field, value)| {
            set(field, if field == Field::VlanVid { value & 0xfff | 0x1000 } else { value })
        });
        prop_oneof![set, others].boxed()
    };
    proptest::collection::vec(change, 0..most)
}

/// Mostly by a port that sends.
pub fn way_out() -> impl Strategy<Value = Action> {
    prop_oneof![4 => prop::sample::select(vec![1, 2, 3, 6]), 1 => 1..=PORTS].prop_map(out)
}

pub fn flow() -> impl Strategy<Value = FlowMod> {
    flow_of(kinds())
}

/// A flow for packets of such kinds.
pub fn flow_of(kinds: Vec<(Vec<Oxm>, Vec<Field>)>) -> impl Strategy<Value = FlowMod> {
    let made = prop::sample::select(kinds).prop_flat_map(|(asked, fields)| {
        let end = prop_oneof![3 => way_out(), 2 => (20_u32..28).prop_map(Action::Group)];
        (Just(asked), changes(fields, 5), end, any::<bool>())
    });
    (made, 0_u16..4).prop_map(|((asked, mut actions, end, is_written), priority)| {
        // A flow that changes its packets goes to a group on the longer way.
        if matches!(end, Action::Group(_)) && priority > 0 {
            actions.clear();
        }
        actions.push(end);
        let made = if is_written { Instruction::WriteActions(actions) } else { Instruction::ApplyActions(actions) };
        FlowMod::add(0, priority, Match::new(asked).unwrap(), vec![made])
    })
}

/// Groups of one bucket, or which choose one, that change anything.
pub fn groups() -> impl Strategy<Value = Vec<GroupMod>> {
    let fields: Vec<Field> = kinds().into_iter().flat_map(|(_, fields)| fields).collect();
    let bucket = move || {
        (changes(fields.clone(), 4), way_out()).prop_map(|(mut actions, end)| {
            actions.push(end);
            Bucket { weight: 0, watch_port: group::ANY, watch_group: group::ANY, actions }
        })
    };
    let indirect = proptest::collection::vec(bucket(), 3);
    let several = proptest::collection::vec(bucket(), 2..4);
    (indirect, proptest::option::of((bucket(), bucket())), several).prop_map(|(buckets, select, several)| {
        let add = |group, kind, buckets| GroupMod { command: GroupCommand::Add, kind, group, buckets };
        let one = (20..).zip(buckets).map(|(group, bucket)| add(group, GroupKind::Indirect, vec![bucket]));
        let weighed = |bucket| Bucket { weight: 1, ..bucket };
        let two = select.map(|(one, other)| add(23, GroupKind::Select, vec![weighed(one), weighed(other)]));
        let leads = |group, weight| {
            let actions = vec![Action::Group(group)];
            Bucket { weight, watch_port: group::ANY, watch_group: group::ANY, actions }
        };
        // Of which one leads to the other; the longest is too long for the short way.
        let chain = [
            add(24, GroupKind::All, vec![leads(20, 0)]),
            add(25, GroupKind::Select, vec![leads(24, 1), leads(22, 2)]),
            add(26, GroupKind::Indirect, vec![leads(25, 0)]),
        ];
        one.chain(two).chain(chain).chain([add(27, GroupKind::All, several)]).collect()
    })
}

/// Groups of one bucket that take tags and labels off, change what is below them, and put others on, in the order of a set of actions.
pub fn groups_below() -> impl Strategy<Value = Vec<GroupMod>> {
    use Field::{Icmpv4Code, IpDscp, Ipv4Dst, Ipv4Src, Ipv6Dst, SctpDst, SctpSrc, TcpDst, UdpSrc};
    let pops = vec![
        vec![Action::PopVlan],
        vec![Action::PopMpls(0x0800)],
        vec![Action::PopMpls(0x0800)],
        vec![Action::PopMpls(0x0800)],
        vec![Action::PopMpls(0x86dd)],
        vec![Action::PopMpls(0x8847)],
        vec![Action::PopVlan, Action::PopMpls(0x0800)],
    ];
    let pushes = vec![
        vec![],
        vec![],
        vec![Action::PushVlan(0x8100)],
        vec![Action::PushMpls(0x8847)],
        vec![Action::PushMpls(0x8847), Action::PushVlan(0x8100)],
    ];
    let fields =
        vec![Ipv4Src, Ipv4Dst, Ipv4Dst, Ipv6Dst, IpDscp, TcpDst, UdpSrc, SctpSrc, SctpDst, SctpDst, Icmpv4Code];
    let sets = (prop::sample::select(fields), value()).prop_map(|(field, value)| set(field, value));
    let ttl = prop::sample::select(vec![Action::DecNwTtl, Action::CopyTtlIn, Action::SetNwTtl(7), Action::SetQueue(1)]);
    let list = (prop::sample::select(pops), prop::sample::select(pushes), proptest::collection::vec(sets, 1..4));
    let bucket = (list, ttl, way_out()).prop_map(|((pops, pushes, sets), ttl, end)| {
        let actions = [pops, sets, vec![ttl], pushes, vec![end]].concat();
        Bucket { weight: 0, watch_port: group::ANY, watch_group: group::ANY, actions }
    });
    proptest::collection::vec(bucket, 6).prop_map(|buckets| {
        let add = |(group, bucket)| GroupMod {
            command: GroupCommand::Add,
            kind: GroupKind::Indirect,
            group,
            buckets: vec![bucket],
        };
        (20..).zip(buckets).map(add).collect()
    })
}

/// The flows behind a search: in a table with many others, which nobody meets.
pub fn behind_a_search(flows: Vec<FlowMod>) -> Vec<FlowMod> {
    let leads = FlowMod::add(0, 1, Match::default(), vec![Instruction::GotoTable(1)]);
    let others = (0..30).map(|n| {
        let asked = Match::new(vec![Oxm::exact(Field::EthDst, 0xffff_0000 | n)]).unwrap();
        FlowMod::add(1, 9, asked, vec![])
    });
    let flows = flows.into_iter().map(|flow| FlowMod { table: 1, ..flow });
    [leads].into_iter().chain(others).chain(flows).collect()
}

/// Frames whose checksums are anything, and which may break off.
pub fn packet() -> impl Strategy<Value = (u32, Vec<u8>)> {
    let end = proptest::collection::vec(prop_oneof![Just(0), Just(0xff), any::<u8>()], 26);
    (1..=PORTS, frame(), end, prop::option::weighted(0.1, 14_usize..90)).prop_map(|(port, mut frame, end, length)| {
        let at = frame.len().saturating_sub(end.len()).max(14);
        frame.truncate(at);
        frame.extend(end);
        frame.truncate(length.unwrap_or(usize::MAX));
        (port, frame)
    })
}
