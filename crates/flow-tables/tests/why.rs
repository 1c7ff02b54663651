//! Why nothing became of a packet, and what controllers have to do with it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use weir_flow_tables::agent::{Agent, Beside, Options};
use weir_flow_tables::pipeline::MAX_COPIES;
use weir_flow_tables::{Identity, Outcome, Packet, Switch, Why};
use weir_openflow::flow::FlowMod;
use weir_openflow::group::{Bucket, GroupCommand, GroupKind, GroupMod};
use weir_openflow::message::{AsyncConfig, Hello};
use weir_openflow::port::{Port, number, state};
use weir_openflow::{Action, Body, Instruction, Match, Message, group};

/// A switch whose first table does this with everything; its third port has no link.
fn switch(actions: &[Action]) -> Switch {
    let mut switch = Switch::new(Identity { tables: 2, ..Identity::default() });
    for number in 1..=3 {
        let state = if number == 3 { state::LINK_DOWN } else { 0 };
        switch.set_port(Port { number, state, ..Port::default() }, 0);
    }
    switch.flow_mod(&flow(actions), 0).unwrap();
    switch
}

fn flow(actions: &[Action]) -> FlowMod {
    FlowMod::add(0, 1, Match::default(), vec![Instruction::ApplyActions(actions.to_vec())])
}

fn out(port: u32) -> Action {
    Action::Output { port, max_len: 0 }
}

fn packet(port: u32) -> Packet {
    Packet::new(port, vec![0x55; 60])
}

#[test]
fn what_ended_a_packet_last_is_the_reason() {
    let why = |actions: &[Action]| {
        let verdict = switch(actions).judge(packet(1), 0);
        assert_eq!(verdict.outcomes, []);
        verdict.why
    };
    assert_eq!(why(&[]), Why::NoAction);
    assert_eq!(why(&[out(1)]), Why::SamePort);
    assert_eq!(why(&[out(3)]), Why::PortDown);
    assert_eq!(why(&[out(9)]), Why::NoPort);
    assert_eq!(why(&[out(9), out(3), out(1)]), Why::SamePort);
    let mut empty = Switch::new(Identity::default());
    empty.set_port(Port { number: 1, ..Port::default() }, 0);
    assert_eq!(empty.judge(packet(1), 0).why, Why::Miss);
    let bucket = Bucket { weight: 0, watch_port: number::ANY, watch_group: group::ANY, actions: vec![out(2)] };
    let group = GroupMod { command: GroupCommand::Add, kind: GroupKind::All, group: 1, buckets: vec![bucket; 9] };
    let mut many = switch(&[]);
    many.group_mod(&group, 0).unwrap();
    many.flow_mod(&flow(&vec![Action::Group(1); 900]), 0).unwrap();
    let verdict = many.judge(packet(1), 0);
    // A group counts, each bucket, and each port.
    assert_eq!(verdict.why, Why::TooManyCopies);
    assert!(verdict.outcomes.len() < MAX_COPIES / 2 && verdict.outcomes.len() > MAX_COPIES / 3);
}

#[test]
fn a_bridge_sends_by_one_port_or_by_all_others() {
    let mut switch = switch(&[]);
    let mut bridge = |port, to| {
        let verdict = switch.bridge(&packet(port), to, 0);
        let ports = verdict.outcomes.iter().map(|one| if let Outcome::Sent { port, .. } = one { *port } else { 0 });
        (ports.collect::<Vec<u32>>(), verdict.why)
    };
    assert_eq!(bridge(1, Some(2)).0, [2]);
    assert_eq!(bridge(1, None).0, [2]);
    assert_eq!(bridge(1, Some(1)), (vec![], Why::SamePort));
    assert_eq!(bridge(1, Some(3)), (vec![], Why::PortDown));
}

#[test]
fn who_was_told_is_known() {
    let options = Options { high_water: 1_000, ..Options::default() };
    let mut agent = Agent::new(switch(&[out(number::CONTROLLER)]), options);
    let beside = |agent: &mut Agent| {
        let taken = agent.packet(packet(1), 0);
        assert_eq!(taken.outcomes, []);
        taken.beside
    };
    assert_eq!(beside(&mut agent), Beside::NotWanted);
    let id = agent.connect(0).unwrap();
    let send = |agent: &mut Agent, body| agent.receive(id, &Message::new(1, body).write().unwrap(), 0);
    send(&mut agent, Body::Hello(Hello::only(4)));
    assert_eq!(beside(&mut agent), Beside::Told);
    while beside(&mut agent) == Beside::Told {}
    assert_eq!(beside(&mut agent), Beside::NoRoom);
    assert!(agent.output(id).len() < 1_200);
    // Another one takes it in its place.
    let other = agent.connect(0).unwrap();
    agent.receive(other, &Message::new(1, Body::Hello(Hello::only(4))).write().unwrap(), 0);
    assert_eq!(beside(&mut agent), Beside::Told);
    agent.disconnect(other);
    agent.sent(id, agent.output(id).len(), 0);
    send(&mut agent, Body::SetAsync(AsyncConfig { packet_in: [0, 0], port_status: [0, 0], flow_removed: [0, 0] }));
    assert_eq!(beside(&mut agent), Beside::NotWanted);
}
