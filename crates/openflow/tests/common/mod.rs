//! Messages at random, each of them valid.

use proptest::collection::vec;
use proptest::prelude::*;
use weir_openflow::field::Field;
use weir_openflow::flow::{FlowCommand, FlowMod, FlowStats, PacketOut};
use weir_openflow::group::{Bucket, GroupCommand, GroupDesc, GroupKind, GroupMod};
use weir_openflow::meter::{Band, BandKind, MeterCommand, MeterConfig, MeterMod};
use weir_openflow::port::{Duration, Port, PortMod};
use weir_openflow::{Action, Body, Instruction, Match, Message, Oxm, Reply};

/// Numbers that other fields depend on come up often.
fn value(field: Field) -> BoxedStrategy<u128> {
    match field {
        Field::EthType => prop::sample::select(vec![0x0800, 0x86dd, 0x0806, 0x8847, 0x8848, 0x88e7, 0x1234]).boxed(),
        Field::IpProto => prop::sample::select(vec![1, 6, 17, 58, 132, 50]).boxed(),
        Field::Icmpv6Type => prop::sample::select(vec![128, 135, 136]).boxed(),
        _ => any::<u128>().prop_map(move |value| value & field.ones()).boxed(),
    }
}

pub(crate) fn oxm(field: Field) -> impl Strategy<Value = Oxm> {
    (value(field), any::<u128>(), any::<bool>()).prop_map(move |(value, mask, masked)| {
        let mask = (masked && field.has_mask()).then_some(mask & field.ones());
        Oxm { field, value: value & mask.unwrap_or(u128::MAX), mask }
    })
}

/// Each field stands or not; those whose prerequisite is missing do not.
pub(crate) fn matches() -> impl Strategy<Value = Match> {
    let fields: Vec<_> = Field::ALL.iter().map(|field| prop::option::of(oxm(*field))).collect();
    fields.prop_map(|fields| {
        let mut kept: Vec<Oxm> = Vec::new();
        for oxm in fields.into_iter().flatten() {
            kept.push(oxm);
            if Match::new(kept.clone()).is_err() {
                kept.pop();
            }
        }
        Match::new(kept).expect("checked one by one")
    })
}

pub(crate) fn action() -> impl Strategy<Value = Action> {
    let settable: Vec<Field> = Field::ALL.iter().copied().filter(|field| field.is_settable()).collect();
    prop_oneof![
        (any::<u32>(), any::<u16>()).prop_map(|(port, max_len)| Action::Output { port, max_len }),
        Just(Action::CopyTtlOut),
        Just(Action::CopyTtlIn),
        any::<u8>().prop_map(Action::SetMplsTtl),
        Just(Action::DecMplsTtl),
        any::<u16>().prop_map(Action::PushVlan),
        Just(Action::PopVlan),
        any::<u16>().prop_map(Action::PushMpls),
        any::<u16>().prop_map(Action::PopMpls),
        any::<u32>().prop_map(Action::SetQueue),
        any::<u32>().prop_map(Action::Group),
        any::<u8>().prop_map(Action::SetNwTtl),
        Just(Action::DecNwTtl),
        (prop::sample::select(settable), any::<u128>())
            .prop_map(|(field, value)| Action::SetField(Oxm::exact(field, value & field.ones()))),
        any::<u16>().prop_map(Action::PushPbb),
        Just(Action::PopPbb),
        (any::<u32>(), vec(any::<u64>(), 0..3)).prop_map(|(experimenter, words)| Action::Experimenter {
            experimenter,
            data: words.iter().flat_map(|word| word.to_be_bytes()).collect()
        }),
    ]
}

pub(crate) fn actions() -> impl Strategy<Value = Vec<Action>> {
    vec(action(), 0..5)
}

pub(crate) fn instructions() -> impl Strategy<Value = Vec<Instruction>> {
    vec(
        prop_oneof![
            any::<u8>().prop_map(Instruction::GotoTable),
            any::<(u64, u64)>().prop_map(|(metadata, mask)| Instruction::WriteMetadata { metadata, mask }),
            actions().prop_map(Instruction::WriteActions),
            actions().prop_map(Instruction::ApplyActions),
            Just(Instruction::ClearActions),
            any::<u32>().prop_map(Instruction::Meter),
        ],
        0..5,
    )
}

fn flow_mod() -> impl Strategy<Value = FlowMod> {
    use FlowCommand::{Add, Delete, DeleteStrict, Modify, ModifyStrict};
    let commands = prop::sample::select(vec![Add, Modify, ModifyStrict, Delete, DeleteStrict]);
    let numbers = any::<(u64, u64, u8, u16, u16, u16, u32, u32, u32)>();
    (commands, numbers, 0u16..32, matches(), instructions()).prop_map(
        |(command, numbers, flags, matches, instructions)| {
            let (cookie, cookie_mask, table, idle_timeout, hard_timeout, priority, buffer, out_port, out_group) =
                numbers;
            FlowMod {
                cookie,
                cookie_mask,
                table,
                command,
                idle_timeout,
                hard_timeout,
                priority,
                buffer,
                out_port,
                out_group,
                flags,
                matches,
                instructions,
            }
        },
    )
}

fn buckets() -> impl Strategy<Value = Vec<Bucket>> {
    let bucket = (any::<(u16, u32, u32)>(), actions())
        .prop_map(|((weight, watch_port, watch_group), actions)| Bucket { weight, watch_port, watch_group, actions });
    vec(bucket, 0..4)
}

fn kinds() -> impl Strategy<Value = GroupKind> {
    prop::sample::select(vec![GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover])
}

fn bands() -> impl Strategy<Value = Vec<Band>> {
    let kind = prop_oneof![
        Just(BandKind::Drop),
        any::<u8>().prop_map(BandKind::DscpRemark),
        (any::<u32>(), any::<u64>()).prop_map(|(who, data)| BandKind::Experimenter(who, data.to_be_bytes().to_vec())),
    ];
    vec((any::<u32>(), any::<u32>(), kind).prop_map(|(rate, burst, kind)| Band { rate, burst, kind }), 0..4)
}

pub(crate) fn message() -> impl Strategy<Value = Message> {
    let group_command = prop::sample::select(vec![GroupCommand::Add, GroupCommand::Modify, GroupCommand::Delete]);
    let meter_command = prop::sample::select(vec![MeterCommand::Add, MeterCommand::Modify, MeterCommand::Delete]);
    let body = prop_oneof![
        flow_mod().prop_map(Body::FlowMod),
        (group_command, kinds(), any::<u32>(), buckets())
            .prop_map(|(command, kind, group, buckets)| Body::GroupMod(GroupMod { command, kind, group, buckets })),
        (meter_command, 0u16..16, any::<u32>(), bands())
            .prop_map(|(command, flags, meter, bands)| Body::MeterMod(MeterMod { command, flags, meter, bands })),
        (any::<(u32, u32)>(), actions(), vec(any::<u8>(), 0..100)).prop_map(|((buffer, in_port), actions, data)| {
            Body::PacketOut(PacketOut { buffer, in_port, actions, data })
        }),
        any::<(u32, [u8; 6], u32, u32, u32)>().prop_map(|(port, mac, config, mask, advertise)| Body::PortMod(
            PortMod { port, mac, config, mask, advertise }
        )),
    ];
    (any::<u32>(), body).prop_map(|(xid, body)| Message::new(xid, body))
}

fn flow_stats() -> impl Strategy<Value = FlowStats> {
    (flow_mod(), any::<(u32, u32, u64, u64)>()).prop_map(|(flow, (seconds, nanoseconds, packets, bytes))| FlowStats {
        table: flow.table,
        duration: Duration { seconds, nanoseconds },
        priority: flow.priority,
        idle_timeout: flow.idle_timeout,
        hard_timeout: flow.hard_timeout,
        flags: flow.flags,
        cookie: flow.cookie,
        packets,
        bytes,
        matches: flow.matches,
        instructions: flow.instructions,
    })
}

/// Replies of up to `most` items.
pub(crate) fn reply(most: usize) -> impl Strategy<Value = Reply> {
    let port = (any::<(u32, [u8; 6], [u32; 4])>(), "[a-z0-9]{0,15}").prop_map(|((number, mac, bits), name)| Port {
        number,
        mac,
        name,
        config: bits[0],
        state: bits[1],
        current: bits[2],
        max_speed: bits[3],
        ..Port::default()
    });
    let group =
        (kinds(), any::<u32>(), buckets()).prop_map(|(kind, group, buckets)| GroupDesc { kind, group, buckets });
    let meter = (0u16..16, any::<u32>(), bands()).prop_map(|(flags, meter, bands)| MeterConfig { flags, meter, bands });
    prop_oneof![
        vec(flow_stats(), 0..most).prop_map(Reply::Flow),
        vec(port, 0..most).prop_map(Reply::PortDesc),
        vec(group, 0..most).prop_map(Reply::GroupDesc),
        vec(meter, 0..most).prop_map(Reply::MeterConfig),
    ]
}
