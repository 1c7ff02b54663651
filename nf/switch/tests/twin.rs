//! Frames through the graph, with ports, batches and buffers, against the interpreter alone: the same come out of the same ports, and controllers
//! are told the same.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use crate::common;

use common::*;
use proptest::prelude::*;
use serde_json::json;
use weir_flow_tables::{Identity, Outcome, Packet, Switch};
use weir_openflow::flow::FlowMod;
use weir_openflow::group::{Bucket, GroupCommand, GroupKind, GroupMod};
use weir_openflow::port::{Port, number};
use weir_openflow::{Action, Body, Field, Instruction, Oxm, group};

const TABLES: u8 = 3;
const COUNT: u32 = 4;

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => prop::sample::select(vec![1, 2, 3, 4, 5, number::FLOOD, number::ALL, number::IN_PORT, number::CONTROLLER]).prop_map(out),
        1 => Just(Action::Group(1)),
        1 => Just(Action::Group(2)),
        1 => Just(Action::Group(3)),
        1 => Just(Action::SetField(Oxm::exact(Field::VlanVid, 0x1007))),
        1 => Just(Action::PushVlan(0x8100)),
        1 => Just(Action::PopVlan),
        1 => Just(Action::DecNwTtl),
        1 => Just(Action::PushMpls(0x8847)),
        1 => any::<u8>().prop_map(|byte| Action::SetField(Oxm::exact(Field::EthDst, byte.into()))),
    ]
}

fn instructions(table: u8) -> impl Strategy<Value = Vec<Instruction>> {
    let actions = || proptest::collection::vec(action(), 0..4);
    let metadata = prop::option::of((0_u64..4, 0_u64..4));
    (actions(), actions(), metadata, table + 1..=TABLES, any::<bool>()).prop_map(
        |(applied, written, metadata, next, clear)| {
            let mut all = vec![Instruction::ApplyActions(applied), Instruction::WriteActions(written)];
            all.extend(metadata.map(|(metadata, mask)| Instruction::WriteMetadata { metadata, mask }));
            all.extend(clear.then_some(Instruction::ClearActions));
            all.extend((next < TABLES).then_some(Instruction::GotoTable(next)));
            all
        },
    )
}

fn fields() -> impl Strategy<Value = Vec<Oxm>> {
    prop_oneof![
        2 => Just(vec![]),
        1 => (1_u32..4).prop_map(|port| vec![Oxm::exact(Field::InPort, port.into())]),
        1 => (0_u128..4).prop_map(|last| vec![Oxm::masked(Field::EthSrc, last, 3)]),
        1 => Just(vec![Oxm::exact(Field::EthType, 0x0800), Oxm::masked(Field::Ipv4Dst, 0x0a00_0000, 0xff00_0000)]),
        1 => (0_u128..4).prop_map(|value| vec![Oxm::masked(Field::Metadata, value, 3)]),
        1 => Just(vec![Oxm::masked(Field::VlanVid, 0x1000, 0x1000)]),
    ]
}

fn flows() -> impl Strategy<Value = Vec<FlowMod>> {
    let one = (0..TABLES, 0_u16..4, fields(), any::<u64>()).prop_flat_map(|(table, priority, fields, cookie)| {
        instructions(table)
            .prop_map(move |instructions| FlowMod { cookie, ..flow(table, priority, &fields, instructions) })
    });
    proptest::collection::vec(one, 1..12)
}

fn frames() -> impl Strategy<Value = Vec<(u32, Vec<u8>)>> {
    let bytes = prop_oneof![
        2 => (0_u8..4, 0_u8..3).prop_map(|(from, ttl)| {
            let mut frame = udp(ttl);
            frame[11] = from;
            frame
        }),
        1 => (0_u8..4, 0_u8..4).prop_map(|(to, from)| frame(to, from, 1)),
        1 => (0_u8..4).prop_map(|from| {
            let mut frame = udp(9);
            frame[11] = from;
            frame.splice(12..12, [0x81, 0, 0, 5]);
            frame
        }),
    ];
    proptest::collection::vec((1..=COUNT, bytes), 1..30)
}

fn groups() -> [GroupMod; 3] {
    let bucket =
        |port, weight| Bucket { weight, watch_port: group::ANY, watch_group: group::ANY, actions: vec![out(port)] };
    [
        GroupMod {
            command: GroupCommand::Add,
            kind: GroupKind::All,
            group: 1,
            buckets: vec![
                Bucket {
                    actions: vec![Action::SetField(Oxm::exact(Field::EthDst, 9)), Action::PushVlan(0x8100), out(2)],
                    ..bucket(0, 0)
                },
                bucket(3, 0),
            ],
        },
        GroupMod {
            command: GroupCommand::Add,
            kind: GroupKind::Select,
            group: 2,
            buckets: vec![bucket(1, 1), bucket(4, 2)],
        },
        GroupMod {
            command: GroupCommand::Add,
            kind: GroupKind::Indirect,
            group: 3,
            buckets: vec![Bucket { actions: vec![out(4), Action::DecNwTtl, Action::PopVlan], ..bucket(0, 0) }],
        },
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
    #[test]
    fn the_graph_does_what_the_interpreter_does(flows in flows(), frames in frames()) {
        let mut rig = switch(json!({ "ports": ["a", "b", "c", "d"], "tables": TABLES }));
        rig.run(MS);
        let mut controller = Controller::new(&*rig.instance);
        let mut twin = Switch::new(Identity { tables: TABLES, largest_port: 200, ..Identity::default() });
        for number in 1..=COUNT {
            twin.set_port(Port { number, ..Port::default() }, 0);
        }
        for group in groups() {
            twin.group_mod(&group, 0).unwrap();
            controller.does(Body::GroupMod(group));
        }
        for flow in flows {
            let refused = twin.flow_mod(&flow, 0).is_err();
            controller.send(Body::FlowMod(flow));
            prop_assert_eq!(controller.heard().len(), usize::from(refused));
        }
        let mut created = 0;
        for (port, bytes) in &frames {
            let (mut sent, mut told) = (vec![Vec::new(); COUNT as usize], Vec::new());
            for outcome in twin.process(Packet::new(*port, bytes.clone()), 0) {
                match outcome {
                    Outcome::Sent { port, bytes, .. } => sent[port as usize - 1].push(bytes),
                    // By default controllers hear of these reasons (section 6.1.1).
                    Outcome::Controller(told_of) if told_of.reason as u32 != 2 => {
                        let matches = told_of.matches();
                        told.push((told_of.reason, told_of.table, told_of.cookie, matches, told_of.packet.bytes));
                    }
                    Outcome::Controller(_) => {}
                    Outcome::Normal(_) => panic!("no flow says so"),
                }
            }
            created += sent.iter().map(Vec::len).sum::<usize>().saturating_sub(1);
            let came = rig.pass(*port as usize - 1, std::slice::from_ref(bytes));
            prop_assert_eq!(&came[..COUNT as usize], &sent[..]);
            let heard = controller.heard().into_iter().map(|message| match message.body {
                Body::PacketIn(packet) => (packet.reason, packet.table, packet.cookie, packet.matches, packet.data),
                other => panic!("{other:?}"),
            });
            prop_assert_eq!(heard.collect::<Vec<_>>(), told);
        }
        let stats = |table: u8| {
            let rows = rig.show("flow-tables", Some(&table.to_string()));
            rows.first().map_or((0, 0), |row| (row["lookup_packets"].as_u64().unwrap(), row["matched_packets"].as_u64().unwrap()))
        };
        for stat in twin.tables.stats() {
            prop_assert_eq!(stats(stat.table), (stat.lookups, stat.matched));
        }
        let account = rig.finish();
        prop_assert_eq!(account.created, created as u64);
        prop_assert_eq!(account.received, frames.len() as u64);
    }
}
