//! What flows come to is found before packets come: changes, and one port, by themselves or by a group with one bucket. It follows what becomes of flows, groups, ports
//! and workers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod pipelines;

use pipelines::{Packets, by_definition, compile, counted, out, set, switch_with, take_all};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use weir_flow_tables::{Packet, Switch, Worker};
use weir_openflow::flow::{FlowCommand, FlowMod};
use weir_openflow::group::{self, Bucket, GroupCommand, GroupKind, GroupMod};
use weir_openflow::{Action, Field, Instruction, Match, Oxm};

/// Groups have these numbers, and one more that is found by a search.
const GROUPS: u32 = 4;
const FAR: u32 = 70_000;
/// Routes: enough for a table to be searched by prefixes, more than are asked for ahead.
const ROUTES: u32 = 96;

/// What happens between batches.
#[derive(Clone, Debug)]
enum Change {
    /// A flow of this route does this.
    Route(u32, Vec<Instruction>),
    /// It is gone.
    NoRoute(u32),
    /// A group is added, or becomes this.
    Group(u32, GroupKind, Vec<Vec<Action>>),
    /// It is gone, with the flows that led to it.
    NoGroup(u32),
    /// One worker more.
    Worker,
}

fn group_number() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 1..=GROUPS, 1 => Just(FAR)]
}

/// Changes, and one port.
fn list() -> impl Strategy<Value = Vec<Action>> {
    let change = prop_oneof![
        Just(Action::DecNwTtl),
        (0..3_u128).prop_map(|address| set(Field::EthDst, address)),
        (0..3_u128).prop_map(|address| set(Field::Ipv4Src, 0x0a00_0000 | address)),
        Just(Action::PopVlan),
    ];
    (prop::collection::vec(change, 0..3), 1..=pipelines::PORTS).prop_map(|(mut list, port)| {
        list.push(out(port));
        list
    })
}

fn instructions() -> impl Strategy<Value = Vec<Instruction>> {
    prop_oneof![
        list().prop_map(|list| vec![Instruction::ApplyActions(list)]),
        group_number().prop_map(|group| vec![Instruction::ApplyActions(vec![Action::Group(group)])]),
        group_number().prop_map(|group| vec![Instruction::WriteActions(vec![Action::Group(group)])]),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let kind = prop_oneof![
        3 => Just(GroupKind::Indirect),
        1 => Just(GroupKind::All),
        1 => Just(GroupKind::Select),
    ];
    let buckets = prop::collection::vec(list(), 1..3);
    prop_oneof![
        6 => (0..ROUTES, instructions()).prop_map(|(route, made)| Change::Route(route, made)),
        2 => (0..ROUTES).prop_map(Change::NoRoute),
        6 => (group_number(), kind, buckets).prop_map(|(number, kind, buckets)| Change::Group(number, kind, buckets)),
        1 => group_number().prop_map(Change::NoGroup),
        1 => Just(Change::Worker),
    ]
}

/// A route to one network of 256, or to 16 of them: longer ones go first.
fn route(number: u32, command: FlowCommand, made: Vec<Instruction>) -> FlowMod {
    let (network, length) = match number % 3 {
        0 => (number << 8, 24),
        1 => (number << 8, 28),
        _ => (number << 8, 20),
    };
    let mask = u32::MAX << (32 - length);
    let to = Oxm::masked(Field::Ipv4Dst, ((0x1400_0000 | network) & mask).into(), mask.into());
    let matches = Match::new(vec![Oxm::exact(Field::EthType, 0x0800), to]).unwrap();
    FlowMod { command, ..FlowMod::add(1, length as u16, matches, made) }
}

fn group_mod(number: u32, kind: GroupKind, buckets: &[Vec<Action>]) -> GroupMod {
    let most = if kind == GroupKind::Indirect { 1 } else { buckets.len() };
    let bucket = |actions: &Vec<Action>| Bucket {
        weight: u16::from(kind == GroupKind::Select),
        watch_port: group::ANY,
        watch_group: group::ANY,
        actions: actions.clone(),
    };
    let buckets = buckets.iter().take(most).map(bucket).collect();
    GroupMod { command: GroupCommand::Add, kind, group: number, buckets }
}

/// Makes a change, if it makes sense.
fn make(switch: &mut Switch, change: &Change) {
    match change {
        Change::Route(number, made) => _ = switch.flow_mod(&route(*number, FlowCommand::Add, made.clone()), 0),
        Change::NoRoute(number) => _ = switch.flow_mod(&route(*number, FlowCommand::DeleteStrict, Vec::new()), 0),
        Change::Group(number, kind, buckets) => {
            let add = group_mod(*number, *kind, buckets);
            if switch.group_mod(&add, 0).is_err() {
                let _ = switch.group_mod(&GroupMod { command: GroupCommand::Modify, ..add }, 0);
            }
        }
        Change::NoGroup(number) => {
            let gone = GroupMod { command: GroupCommand::Delete, ..group_mod(*number, GroupKind::All, &[]) };
            let _ = switch.group_mod(&gone, 0);
        }
        Change::Worker => {}
    }
}

/// A packet of UDP to one of the routes, by one of the ports.
fn packet() -> impl Strategy<Value = (u32, Vec<u8>)> {
    (1..=pipelines::PORTS, 0..ROUTES << 8, 1..3_u8, prop::bool::weighted(0.2)).prop_map(|(port, to, ttl, is_tagged)| {
        let tag: &[u8] = if is_tagged { &[0x81, 0, 0, 5] } else { &[] };
        let ip = [8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, ttl, 17, 1, 2, 192, 0, 2, 1];
        let to = (0x1400_0000 | to).to_be_bytes();
        let bytes = [&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1], tag, &ip, &to, &[1, 1, 0, 53, 0, 26, 5, 5], &[7; 18]];
        (port, bytes.concat())
    })
}

/// Takes a batch after each change by the fast path, and by definition; how many packets the fast path took.
fn follow(changes: &[(Change, Packets)]) -> usize {
    let groups =
        (1..=GROUPS).chain([FAR]).map(|number| group_mod(number, GroupKind::Indirect, &[vec![out(number % 3 + 1)]]));
    let leads = FlowMod::add(
        0,
        1,
        Match::new(vec![Oxm::exact(Field::EthType, 0x0800)]).unwrap(),
        vec![Instruction::GotoTable(1)],
    );
    let to_group = |number: u32| vec![Instruction::WriteActions(vec![Action::Group(number % GROUPS + 1)])];
    let routes = (0..ROUTES).map(|number| route(number, FlowCommand::Add, to_group(number)));
    let flows: Vec<FlowMod> = [leads].into_iter().chain(routes).collect();
    let [mut fast, mut definition] = [0, 1].map(|_| switch_with(groups.clone().collect(), &flows));
    let (mut workers, mut taken) = (vec![Worker::default()], 0);
    for (nth, (change, packets)) in changes.iter().enumerate() {
        make(&mut fast, change);
        make(&mut definition, change);
        if matches!(change, Change::Worker) {
            workers.push(fast.add_worker());
        }
        // What code there is to be for changes is known when packets have come for it.
        if nth % 3 == 0 {
            compile(&mut fast);
        }
        let became = take_all(&fast, workers[nth % workers.len()], packets, 64);
        for (became, (port, bytes)) in became.into_iter().zip(packets) {
            match became {
                Some(became) => {
                    assert_eq!(became, by_definition(&mut definition, *port, bytes, 0), "after {change:?}: {bytes:x?}");
                    taken += 1;
                }
                None => {
                    let [one, other] =
                        [&mut fast, &mut definition].map(|switch| switch.judge(Packet::new(*port, bytes.clone()), 0));
                    assert_eq!(one, other);
                }
            }
        }
        assert_eq!(counted(&fast, 0), counted(&definition, 0), "after {change:?}");
    }
    taken
}

#[test]
fn what_flows_come_to_follows_flows_groups_and_workers() {
    let mut runner = TestRunner::new(Config::default());
    let mut taken = 0;
    for _ in 0..24 {
        let packets = prop::collection::vec(packet(), 40..64);
        let changes = prop::collection::vec((change(), packets), 40).new_tree(&mut runner).unwrap().current();
        taken += follow(&changes);
    }
    assert!(taken > 24 * 40 * 40 * 3 / 4, "the fast path took {taken}");
}
