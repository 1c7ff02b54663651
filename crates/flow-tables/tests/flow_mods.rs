//! Flow modifications: OpenFlow 1.3.5 sections 5.5, 6.4, 6.5 and 7.3.4.1.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use weir_flow_tables::{Identity, Packet, Switch, Used};
use weir_openflow::error::*;
use weir_openflow::flow::{ALL_TABLES, FlowCommand, FlowMod, FlowQuery, RemovedReason, flags};
use weir_openflow::group::{self, Bucket, Counted, GroupCommand, GroupKind, GroupMod};
use weir_openflow::port::number;
use weir_openflow::{Action, Error, Field, Instruction, Match, Oxm, Reply, Request};

const SECOND: u64 = 1_000_000_000;

fn switch() -> Switch {
    Switch::new(Identity { tables: 4, max_flows: 5, ..Identity::default() })
}

fn tcp(port: u128) -> Match {
    Match::new(vec![Oxm::exact(Field::EthType, 0x0800), Oxm::exact(Field::IpProto, 6), Oxm::exact(Field::TcpDst, port)])
        .unwrap()
}

fn ip() -> Match {
    Match::new(vec![Oxm::exact(Field::EthType, 0x0800)]).unwrap()
}

fn to(port: u32) -> Vec<Instruction> {
    vec![Instruction::ApplyActions(vec![Action::Output { port, max_len: 0 }])]
}

fn change(command: FlowCommand, priority: u16, matches: Match, instructions: Vec<Instruction>) -> FlowMod {
    FlowMod { command, ..FlowMod::add(0, priority, matches, instructions) }
}

fn add(priority: u16, matches: Match, port: u32) -> FlowMod {
    change(FlowCommand::Add, priority, matches, to(port))
}

/// Priority, cookie and output of each flow, in the order in which they are tried.
fn flows(switch: &Switch) -> Vec<(u16, u64, u32)> {
    let all = switch.tables.iter().flat_map(|(_, table)| table.iter());
    all.map(|(_, flow)| {
        let port = flow.actions().find_map(|action| match action {
            Action::Output { port, .. } => Some(*port),
            _ => None,
        });
        (flow.priority, flow.cookie, port.unwrap_or(0))
    })
    .collect()
}

#[track_caller]
/// What the flows of the first table have done, in their order.
fn all_used(switch: &Switch) -> Vec<Used> {
    let table = switch.tables.get(0).unwrap();
    table.iter().map(|(place, _)| table.used(place).unwrap()).collect()
}

fn refused(switch: &mut Switch, change: &FlowMod, error: impl Into<Error>) {
    let before = format!("{switch:?}");
    assert_eq!(switch.flow_mod(change, 0), Err(error.into()));
    assert_eq!(format!("{switch:?}"), before, "something changed");
}

/// A TCP packet over IPv4 to this port.
fn packet(port: u16) -> Packet {
    let mut bytes = vec![0; 54];
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14] = 0x45;
    bytes[17] = 40;
    bytes[22] = 64;
    bytes[23] = 6;
    bytes[36..38].copy_from_slice(&port.to_be_bytes());
    Packet::new(1, bytes)
}

#[test]
fn the_same_match_and_priority_replace() {
    let mut switch = switch();
    switch.flow_mod(&FlowMod { cookie: 1, flags: flags::SEND_FLOW_REM, ..add(5, tcp(80), 1) }, 0).unwrap();
    switch.process(packet(80), SECOND);
    // No news; the counters go on, the time begins anew.
    assert_eq!(switch.flow_mod(&FlowMod { cookie: 2, ..add(5, tcp(80), 2) }, 3 * SECOND), Ok(vec![]));
    assert_eq!(flows(&switch), [(5, 2, 2)]);
    let (_, flow) = switch.tables.get(0).unwrap().iter().next().unwrap();
    let used = Used { counted: Counted::one(54), last_used: 3 * SECOND };
    assert_eq!((all_used(&switch), flow.added), (vec![used], 3 * SECOND));
    switch.flow_mod(&FlowMod { flags: flags::RESET_COUNTS, ..add(5, tcp(80), 2) }, 0).unwrap();
    assert_eq!(all_used(&switch)[0].counted.packets, 0);
    // Another priority is another flow, and so is a mask that leaves something out.
    switch.flow_mod(&add(6, tcp(80), 3), 0).unwrap();
    assert_eq!(flows(&switch), [(6, 0, 3), (5, 0, 2)]);
}

#[test]
fn a_mask_of_all_ones_is_no_mask_and_none_at_all_no_field() {
    let with = |oxm| Match::new(vec![oxm]).unwrap();
    let mut switch = switch();
    switch.flow_mod(&add(1, with(Oxm::exact(Field::EthDst, 5)), 1), 0).unwrap();
    let masked = with(Oxm::masked(Field::EthDst, 5, Field::EthDst.ones()));
    switch.flow_mod(&add(1, masked.clone(), 2), 0).unwrap();
    assert_eq!(flows(&switch), [(1, 0, 2)]);
    // Yet each is shown as it was sent.
    let (_, flow) = switch.tables.get(0).unwrap().iter().next().unwrap();
    assert_eq!(flow.matches, masked);
    switch.flow_mod(&add(1, with(Oxm::masked(Field::EthDst, 0, 0)), 3), 0).unwrap();
    switch.flow_mod(&add(1, Match::default(), 4), 0).unwrap();
    assert_eq!(flows(&switch), [(1, 0, 2), (1, 0, 4)]);
}

#[test]
fn overlaps_are_refused_when_asked() {
    let mut switch = switch();
    switch.flow_mod(&add(5, tcp(80), 1), 0).unwrap();
    let check = |priority, matches| FlowMod { flags: flags::CHECK_OVERLAP, ..add(priority, matches, 2) };
    refused(&mut switch, &check(5, ip()), FlowModFailed::Overlap);
    refused(&mut switch, &check(5, tcp(80)), FlowModFailed::Overlap);
    switch.flow_mod(&check(5, tcp(81)), 0).unwrap();
    switch.flow_mod(&check(6, ip()), 0).unwrap();
    // Without the flag nobody minds.
    switch.flow_mod(&add(5, ip(), 3), 0).unwrap();
}

#[test]
fn modify_changes_instructions_alone() {
    let mut switch = switch();
    let first = FlowMod { cookie: 7, hard_timeout: 9, flags: flags::SEND_FLOW_REM, ..add(5, tcp(80), 1) };
    switch.flow_mod(&first, 0).unwrap();
    switch.process(packet(80), 0);
    switch.flow_mod(&add(6, tcp(81), 1), 0).unwrap();
    switch.flow_mod(&add(6, Match::default(), 1), 0).unwrap();
    let wanted = FlowMod { cookie: 99, hard_timeout: 1, ..change(FlowCommand::Modify, 0, ip(), to(2)) };
    switch.flow_mod(&wanted, 0).unwrap();
    // What the match covers changed, whatever its priority; what is wider did not.
    assert_eq!(flows(&switch), [(6, 0, 2), (6, 0, 1), (5, 7, 2)]);
    let flow = switch.tables.get(0).unwrap().iter().map(|(_, flow)| flow).find(|flow| flow.priority == 5).unwrap();
    assert_eq!((flow.hard_timeout, flow.flags), (9, flags::SEND_FLOW_REM));
    assert_eq!(all_used(&switch).iter().map(|used| used.counted.packets).collect::<Vec<_>>(), [0, 0, 1]);
    // Strict is the same match and priority; there is none, which is no error, and nothing is added.
    switch.flow_mod(&change(FlowCommand::ModifyStrict, 5, tcp(81), to(3)), 0).unwrap();
    switch.flow_mod(&change(FlowCommand::ModifyStrict, 6, tcp(81), to(4)), 0).unwrap();
    assert_eq!(flows(&switch), [(6, 0, 4), (6, 0, 1), (5, 7, 2)]);
    // Only flows with the cookie.
    let cookie = FlowMod { cookie: 7, cookie_mask: 7, ..change(FlowCommand::Modify, 0, Match::default(), to(3)) };
    switch.flow_mod(&cookie, 0).unwrap();
    assert_eq!(flows(&switch), [(6, 0, 4), (6, 0, 1), (5, 7, 3)]);
    switch.flow_mod(&FlowMod { flags: flags::RESET_COUNTS, ..cookie }, 0).unwrap();
    assert!(all_used(&switch).iter().all(|used| used.counted.packets == 0));
}

#[test]
fn delete_takes_what_is_named() {
    let mut switch = switch();
    switch.flow_mod(&FlowMod { cookie: 0x11, flags: flags::SEND_FLOW_REM, ..add(5, tcp(80), 1) }, 0).unwrap();
    switch.flow_mod(&FlowMod { cookie: 0x12, ..add(5, tcp(81), 2) }, 0).unwrap();
    switch.flow_mod(&FlowMod { table: 2, ..add(5, tcp(81), 3) }, 0).unwrap();
    let delete = |matches| change(FlowCommand::Delete, 0, matches, vec![]);
    // By port, by cookie, by table.
    switch.flow_mod(&FlowMod { out_port: 9, ..delete(Match::default()) }, 0).unwrap();
    assert_eq!(flows(&switch).len(), 3);
    switch.flow_mod(&FlowMod { out_port: 2, ..delete(Match::default()) }, 0).unwrap();
    assert_eq!(flows(&switch), [(5, 0x11, 1), (5, 0, 3)]);
    let news = switch.flow_mod(&FlowMod { cookie: 0x10, cookie_mask: 0xf0, ..delete(ip()) }, 2 * SECOND).unwrap();
    assert_eq!(news.len(), 1);
    assert_eq!((news[0].reason, news[0].cookie, news[0].duration.seconds), (RemovedReason::Delete, 0x11, 2));
    switch.flow_mod(&FlowMod { table: ALL_TABLES, ..delete(tcp(81)) }, 0).unwrap();
    assert_eq!(flows(&switch), []);
    // Instructions of a deletion are not looked at.
    switch.flow_mod(&change(FlowCommand::Delete, 0, ip(), vec![Instruction::GotoTable(0)]), 0).unwrap();
}

#[test]
fn strict_deletion_is_of_one_flow() {
    let mut switch = switch();
    for priority in [4, 5, 6] {
        switch.flow_mod(&add(priority, tcp(80), 1), 0).unwrap();
    }
    switch.flow_mod(&change(FlowCommand::DeleteStrict, 5, ip(), vec![]), 0).unwrap();
    assert_eq!(flows(&switch).len(), 3);
    switch.flow_mod(&change(FlowCommand::DeleteStrict, 5, tcp(80), vec![]), 0).unwrap();
    assert_eq!(flows(&switch).iter().map(|flow| flow.0).collect::<Vec<_>>(), [6, 4]);
}

#[test]
fn flows_end_when_their_time_is_up() {
    let mut switch = switch();
    let timed = |idle_timeout, hard_timeout, port| FlowMod {
        idle_timeout,
        hard_timeout,
        flags: flags::SEND_FLOW_REM,
        ..add(5, tcp(port), 1)
    };
    switch.flow_mod(&timed(10, 0, 80), 0).unwrap();
    switch.flow_mod(&timed(0, 15, 81), 0).unwrap();
    switch.flow_mod(&timed(10, 15, 82), 0).unwrap();
    assert_eq!(switch.tables.next_end(), Some(10 * SECOND));
    switch.process(packet(80), 9 * SECOND);
    switch.process(packet(82), 9 * SECOND);
    // Both are in use: nothing ends yet.
    assert_eq!(switch.tables.expire(10 * SECOND, 10), []);
    let news = switch.tables.expire(15 * SECOND, 10);
    assert_eq!(news.iter().map(|news| news.reason).collect::<Vec<_>>(), [RemovedReason::HardTimeout; 2]);
    assert_eq!(switch.tables.expire(19 * SECOND - 1, 10), []);
    let news = switch.tables.expire(19 * SECOND, 10);
    assert_eq!((news.len(), news[0].reason, news[0].packets), (1, RemovedReason::IdleTimeout, 1));
    assert_eq!(switch.tables.next_end(), None);
    // A flow without the flag ends in silence; no more are looked at than allowed.
    for port in 0..3 {
        switch.flow_mod(&FlowMod { flags: 0, ..timed(1, 0, port) }, 0).unwrap();
    }
    assert_eq!(switch.tables.expire(SECOND, 2), []);
    assert_eq!(flows(&switch).len(), 1);
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let mut switch = switch();
    switch.flow_mod(&add(1, ip(), 1), 0).unwrap();
    let with = |instructions| change(FlowCommand::Add, 5, ip(), instructions);
    let apply = |action| with(vec![Instruction::ApplyActions(vec![action])]);
    let set = |field, value| Action::SetField(Oxm::exact(field, value));
    refused(&mut switch, &FlowMod { table: 4, ..with(vec![]) }, FlowModFailed::BadTableId);
    refused(&mut switch, &FlowMod { table: ALL_TABLES, ..with(vec![]) }, FlowModFailed::BadTableId);
    refused(&mut switch, &with(vec![Instruction::GotoTable(0)]), BadInstruction::BadTableId);
    refused(&mut switch, &with(vec![Instruction::GotoTable(4)]), BadInstruction::BadTableId);
    refused(&mut switch, &with(vec![Instruction::GotoTable(1), Instruction::GotoTable(2)]), BadInstruction::UnsupInst);
    refused(&mut switch, &with(vec![Instruction::Meter(1)]), MeterModFailed::UnknownMeter);
    let experimenter = Instruction::Experimenter { experimenter: 1, data: vec![] };
    refused(&mut switch, &with(vec![experimenter]), BadInstruction::BadExperimenter);
    for port in [0, 256, number::ANY, number::TABLE, number::MAX] {
        refused(&mut switch, &apply(Action::Output { port, max_len: 0 }), BadAction::BadOutPort);
    }
    refused(&mut switch, &apply(Action::Group(1)), BadAction::BadOutGroup);
    refused(&mut switch, &apply(Action::PushVlan(0x9100)), BadAction::BadArgument);
    refused(&mut switch, &apply(Action::PushMpls(0x8100)), BadAction::BadArgument);
    refused(&mut switch, &apply(Action::PushPbb(0x88e7)), BadAction::BadType);
    refused(&mut switch, &apply(Action::PopPbb), BadAction::BadType);
    let experimenter = Action::Experimenter { experimenter: 1, data: vec![] };
    refused(&mut switch, &apply(experimenter), BadAction::BadExperimenter);
    // The match lets through what has no such field.
    refused(&mut switch, &apply(set(Field::TcpDst, 1)), BadAction::MatchInconsistent);
    refused(&mut switch, &apply(set(Field::Ipv6Dst, 1)), BadAction::MatchInconsistent);
    refused(&mut switch, &apply(set(Field::VlanPcp, 1)), BadAction::MatchInconsistent);
    switch.flow_mod(&apply(set(Field::Ipv4Dst, 1)), 0).unwrap();
    let pushed =
        vec![Action::PushVlan(0x8100), set(Field::VlanPcp, 1), Action::PushMpls(0x8847), set(Field::MplsLabel, 5)];
    switch.flow_mod(&with(vec![Instruction::ApplyActions(pushed.clone())]), 0).unwrap();
    switch.flow_mod(&with(vec![Instruction::WriteActions(pushed)]), 0).unwrap();
    refused(&mut switch, &apply(Action::Output { port: 300, max_len: 0 }), BadAction::BadOutPort);
    let pbb = Match::new(vec![Oxm::exact(Field::EthType, 0x88e7), Oxm::exact(Field::PbbIsid, 1)]).unwrap();
    refused(&mut switch, &add(1, pbb, 1), BadMatch::BadField);
}

#[test]
fn tables_are_full_at_some_point() {
    let mut switch = switch();
    for port in 0..5 {
        switch.flow_mod(&add(1, tcp(port), 1), 0).unwrap();
    }
    refused(&mut switch, &add(1, tcp(5), 1), FlowModFailed::TableFull);
    // What is there can still be replaced.
    switch.flow_mod(&add(1, tcp(4), 2), 0).unwrap();
}

#[test]
fn a_group_takes_its_flows_along() {
    let mut switch = switch();
    let bucket = Bucket { weight: 0, watch_port: number::ANY, watch_group: group::ANY, actions: vec![] };
    let mut group = GroupMod { command: GroupCommand::Add, kind: GroupKind::Indirect, group: 5, buckets: vec![bucket] };
    switch.group_mod(&group, 0).unwrap();
    let leads = vec![Instruction::WriteActions(vec![Action::Group(5)])];
    let flow = FlowMod { flags: flags::SEND_FLOW_REM, ..change(FlowCommand::Add, 1, ip(), leads) };
    switch.flow_mod(&flow, 0).unwrap();
    switch.flow_mod(&add(1, tcp(1), 1), 0).unwrap();
    group.command = GroupCommand::Delete;
    let news = switch.group_mod(&group, 0).unwrap();
    assert_eq!(news.iter().map(|news| news.reason).collect::<Vec<_>>(), [RemovedReason::GroupDelete]);
    assert_eq!(flows(&switch), [(1, 0, 1)]);
}

/// What is asked for is told as it was sent: order of fields and instructions, and masks of all ones.
#[test]
fn flows_are_told_as_they_were_sent() {
    let mut switch = switch();
    let matches = Match::new(vec![
        Oxm::masked(Field::Metadata, 1, u64::MAX.into()),
        Oxm::exact(Field::VlanVid, 0x1005),
        Oxm::exact(Field::EthType, 0x86dd),
        Oxm::exact(Field::InPort, 3),
    ])
    .unwrap();
    let instructions = vec![
        Instruction::GotoTable(2),
        Instruction::WriteActions(vec![Action::Output { port: 1, max_len: 77 }, Action::PopVlan]),
        Instruction::ClearActions,
    ];
    switch.flow_mod(&change(FlowCommand::Add, 1, matches.clone(), instructions.clone()), 0).unwrap();
    let query = FlowQuery::all();
    let Reply::Flow(told) = switch.reply(&Request::Flow(query.clone()), 5 * SECOND).unwrap() else { panic!() };
    assert_eq!((&told[0].matches, &told[0].instructions, told[0].duration.seconds), (&matches, &instructions, 5));
    let none = FlowQuery { out_port: 2, ..query.clone() };
    assert_eq!(switch.reply(&Request::Flow(none), 0), Ok(Reply::Flow(vec![])));
    let table = FlowQuery { table: 9, ..query };
    assert_eq!(switch.reply(&Request::Aggregate(table), 0), Err(BadRequest::BadTableId.into()));
}
