//! Random pipelines with all that the fast path takes and with what it leaves to the interpreter, and frames for them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    dead_code,
    reason = "shared by tests; a failed unwrap fails the test"
)]

pub mod carried;
pub mod changed;
pub mod series;
pub mod simple;
mod ways;

use proptest::prelude::*;
use weir_flow_tables::{Identity, Switch, Why};
use weir_openflow::flow::{FlowMod, FlowQuery};
use weir_openflow::group::{self, Bucket, GroupCommand, GroupKind, GroupMod};
use weir_openflow::meter::{Band, BandKind, MeterCommand, MeterMod, flags};
use weir_openflow::port::{Port, number, state};
use weir_openflow::{Action, Field, Instruction, Match, Oxm, Reply, Request};

pub use ways::*;

pub const TABLES: u8 = 3;
/// The fourth has no link, and the fifth is blocked.
pub const PORTS: u32 = 6;

pub fn out(port: u32) -> Action {
    Action::Output { port, max_len: 0 }
}

pub fn set(field: Field, value: u128) -> Action {
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
        6 => labels(),
        // What the fast path has no part in.
        1 => Just(set(Field::IpProto, 17)),
    ]
}

/// Changes of MPLS entries, and of all TTLs.
pub fn labels() -> impl Strategy<Value = Action> {
    let few = |field: Field, most: u128| (0..most).prop_map(move |value| set(field, value));
    prop_oneof![
        2 => prop::sample::select(vec![0x8847, 0x8848]).prop_map(Action::PushMpls),
        3 => prop::sample::select(vec![0x0800, 0x0800, 0x86dd, 0x8847, 0x0806, 0x8100, 0x88b5]).prop_map(Action::PopMpls),
        2 => few(Field::MplsLabel, 3),
        1 => few(Field::MplsTc, 2),
        1 => few(Field::MplsBos, 2),
        1 => (0_u8..3).prop_map(Action::SetMplsTtl),
        2 => Just(Action::DecMplsTtl),
        1 => (0_u8..3).prop_map(Action::SetNwTtl),
        1 => Just(Action::CopyTtlOut),
        2 => Just(Action::CopyTtlIn),
    ]
}

/// What stands behind the type of an MPLS frame: up to three entries, of which the last one may not say so, and what they are of.
pub fn labelled() -> impl Strategy<Value = Vec<u8>> {
    let ttl = || prop::sample::select(vec![0_u8, 1, 2, 64]);
    let entry = (0_u8..3, 0_u8..2, prop::option::weighted(0.1, any::<bool>()), ttl());
    let entries = proptest::collection::vec(entry, 1..4);
    let inner = prop::sample::select(vec![0x45_u8, 0x45, 0x45, 0x46, 0x60, 0x60, 0x00, 0x77]);
    let rest = (ttl(), prop::sample::select(vec![0_u8, 10]), 0_u8..4, any::<bool>());
    (entries, inner, rest).prop_map(|(entries, inner, (ttl, net, to, udp))| {
        let (count, mut bytes) = (entries.len(), Vec::new());
        for (nth, (label, class, is_last, ttl)) in (1..).zip(entries) {
            let is_last = is_last.unwrap_or(nth == count);
            bytes.extend([0, 0, label << 4 | class << 1 | u8::from(is_last), ttl]);
        }
        let protocol = if udp { 17 } else { 6 };
        if inner == 0x60 {
            bytes.extend([inner, 0, 0, 0, 0, 28, protocol, ttl]);
            bytes.extend([&[0x20; 16][..], &[net; 16]].concat());
        } else {
            bytes.extend([inner, 0, 0, 48, 0, 0, 0, 0, ttl, protocol, 0x12, 0x34, 192, 0, 2, 1, net, 0, 0, to]);
        }
        bytes.extend([0, 53, 0, 53, 0, 28, to, 0x77]);
        bytes.extend([0x5a; 20]);
        bytes
    })
}

/// Ways out: those of lists, of which a packet takes one or several.
pub fn ports() -> Vec<Action> {
    [1, 2, 3, 4, 5, 6, 9, number::IN_PORT].map(out).to_vec()
}

/// All ports at once.
pub fn floods() -> Vec<Action> {
    [out(number::FLOOD), out(number::ALL), out(1)].to_vec()
}

/// Groups whose buckets have a packet each, beside others.
pub fn copying_groups() -> Vec<Action> {
    [7, 7, 8, 9, 6, 1, 3].map(Action::Group).to_vec()
}

/// All of them, and what takes the interpreter.
pub fn ways_out() -> Vec<Action> {
    let groups = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 70_000].map(Action::Group);
    [ports(), floods(), vec![out(number::CONTROLLER)], groups.to_vec()].concat()
}

/// A list with up to one of these ways out, or with several.
fn actions(ways: &[Action]) -> impl Strategy<Value = Vec<Action>> + use<> {
    let some = |most| proptest::collection::vec(change(), 0..most);
    let way_out = || prop::sample::select(ways.to_vec());
    let one = (some(4), prop::option::of(way_out()), some(2), 0..8).prop_map(|(mut all, way_out, behind, choice)| {
        all.extend(way_out);
        if choice == 0 {
            all.extend(behind);
        }
        all
    });
    let change = prop::option::weighted(0.3, change());
    let several = proptest::collection::vec((change, way_out()), 2..5)
        .prop_map(|legs| legs.into_iter().flat_map(|(change, way_out)| change.into_iter().chain([way_out])).collect());
    prop_oneof![one, several]
}

fn instructions(table: u8, ways: &[Action]) -> impl Strategy<Value = Vec<Instruction>> + use<> {
    let (metadata, meter) = (prop::option::of((0_u64..4, 0_u64..4)), prop::option::weighted(0.3, 1_u32..3));
    let lists = (actions(ways), prop::option::weighted(0.4, actions(ways)));
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
        2 => (0_u128..3).prop_map(|label| vec![Oxm::exact(Field::EthType, 0x8847), Oxm::exact(Field::MplsLabel, label)]),
        1 => Just(vec![Oxm::exact(Field::EthType, 0x8847), Oxm::exact(Field::MplsBos, 1)]),
        1 => Just(vec![Oxm::exact(Field::VlanVid, 0x1001), Oxm::exact(Field::VlanPcp, 0)]),
    ]
}

/// Flows with these ways out.
pub fn flows(ways: Vec<Action>) -> impl Strategy<Value = Vec<FlowMod>> {
    let one = (0..TABLES, 0_u16..4, fields()).prop_flat_map(move |(table, priority, fields)| {
        instructions(table, &ways)
            .prop_map(move |made| FlowMod::add(table, priority, Match::new(fields.clone()).unwrap(), made))
    });
    (proptest::collection::vec(one, 1..40), prop::option::weighted(0.3, routes()))
        .prop_map(|(flows, routes)| [routes.unwrap_or_default(), flows].concat())
}

/// Flows that change MPLS entries and lead on, by what is there then.
pub fn labelling() -> impl Strategy<Value = Vec<FlowMod>> {
    let ways =
        prop::sample::select(vec![out(1), out(2), out(3), Action::Group(3), Action::Group(5), Action::Group(14)]);
    let tags = prop::sample::select(vec![Action::PushVlan(0x8100), Action::PopVlan, Action::DecNwTtl]);
    let change = prop_oneof![4 => labels(), 1 => tags];
    let list = (proptest::collection::vec(change, 1..4), prop::option::weighted(0.95, ways));
    let one = (0..TABLES, 0_u16..4, fields(), list).prop_flat_map(|(table, priority, fields, (changes, way))| {
        (table + 1..=TABLES).prop_map(move |next| {
            let actions = changes.iter().cloned().chain(way.clone()).collect();
            let mut made = vec![Instruction::ApplyActions(actions)];
            made.extend((next < TABLES).then_some(Instruction::GotoTable(next)));
            FlowMod::add(table, priority, Match::new(fields.clone()).unwrap(), made)
        })
    });
    proptest::collection::vec(one, 3..30)
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
pub fn frame() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(vec![4_u8, 4, 4, 6, 0, 8, 8]);
    let tags = prop::sample::select(vec![vec![], vec![], vec![1_u8], vec![0], vec![2, 1]]);
    let rest =
        (any::<bool>(), prop::sample::select(vec![0_u8, 1, 2, 64]), prop::sample::select(vec![0_u8, 10]), 0_u8..4);
    let breaks_off = prop::option::weighted(0.2, 14_usize..80);
    ((kind, labelled()), tags, rest, 0_u8..4, breaks_off).prop_map(
        |((kind, labelled), tags, (udp, ttl, net, source), destination, breaks_off)| {
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
                8 => frame.extend([&[0x88, 0x47][..], &labelled].concat()),
                _ => frame.extend([0x88, 0xb5]),
            }
            frame.extend([0, 53, 0, 53, 0, 28, source, 0x77]);
            frame.extend([0x5a; 20]);
            frame.truncate(breaks_off.unwrap_or(usize::MAX));
            frame
        },
    )
}

pub fn groups() -> Vec<GroupMod> {
    let bucket = |actions, weight| Bucket { weight, watch_port: group::ANY, watch_group: group::ANY, actions };
    let add = |group, kind, buckets| GroupMod { command: GroupCommand::Add, kind, group, buckets };
    vec![
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
        // Buckets that change their packet in groups of such buckets: copies of copies, and of those again.
        add(
            7,
            GroupKind::All,
            vec![
                bucket(vec![set(Field::EthDst, 0x0200_0000_0002), out(1)], 0),
                bucket(vec![Action::DecNwTtl, Action::PushVlan(0x8100), out(2)], 0),
                bucket(vec![out(3)], 0),
                bucket(vec![set(Field::Ipv4Dst, 0x0a00_0009), out(number::FLOOD)], 0),
            ],
        ),
        add(
            8,
            GroupKind::All,
            vec![
                bucket(vec![Action::PopVlan, Action::Group(7)], 0),
                bucket(vec![Action::Group(3)], 0),
                bucket(vec![set(Field::EthSrc, 3), Action::Group(5)], 0),
                bucket(vec![out(4)], 0),
            ],
        ),
        add(
            9,
            GroupKind::All,
            vec![
                bucket(vec![Action::PushVlan(0x88a8), Action::Group(8)], 0),
                bucket(vec![], 0),
                bucket(vec![Action::PopVlan, out(number::IN_PORT)], 0),
            ],
        ),
        // One copy too deep; to controllers, too; without a bucket.
        add(
            10,
            GroupKind::All,
            vec![bucket(vec![set(Field::EthSrc, 1), Action::Group(9)], 0), bucket(vec![out(1)], 0)],
        ),
        add(11, GroupKind::All, vec![bucket(vec![out(1)], 0), bucket(vec![out(number::CONTROLLER)], 0)]),
        add(12, GroupKind::All, vec![]),
        add(
            13,
            GroupKind::Indirect,
            vec![bucket(vec![Action::PushMpls(0x8847), set(Field::MplsLabel, 2), Action::DecMplsTtl, out(2)], 0)],
        ),
        add(
            14,
            GroupKind::All,
            vec![
                bucket(vec![Action::CopyTtlIn, Action::PopMpls(0x0800), Action::DecNwTtl, out(1)], 0),
                bucket(vec![Action::PopMpls(0x8847), Action::Group(5)], 0),
                bucket(vec![Action::PushMpls(0x8848), Action::Group(3)], 0),
            ],
        ),
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
pub fn switch(flows: &[FlowMod]) -> Switch {
    switch_with(groups(), flows)
}

pub fn switch_with(mut groups: Vec<GroupMod>, flows: &[FlowMod]) -> Switch {
    let mut switch = Switch::new(Identity { tables: TABLES, ..Identity::default() });
    for number in 1..=PORTS {
        let state = match number {
            4 => state::LINK_DOWN,
            5 => state::BLOCKED,
            _ => 0,
        };
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
pub fn counted(switch: &Switch, now: u64) -> Vec<Reply> {
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

/// What left, in order, and then what controllers are told; or why nothing did.
pub type Became = Result<Vec<(u32, Vec<u8>)>, Why>;
