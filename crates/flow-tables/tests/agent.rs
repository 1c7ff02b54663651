//! Controllers drive the agent: OpenFlow 1.3.5 sections 6.1 to 6.3 and 7.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use weir_flow_tables::agent::{Agent, ClosedBecause, ConnectionId, FailMode, Options};
use weir_flow_tables::{Identity, Outcome, Packet, Switch};
use weir_openflow::error::*;
use weir_openflow::flow::{FlowMod, FlowQuery, NO_BUFFER, PacketOut, flags};
use weir_openflow::message::{AsyncConfig, Hello, Role, RoleMessage};
use weir_openflow::port::{Port, PortReason, number};
use weir_openflow::{Action, Body, Error, Framing, Instruction, Match, Message, Reassembly, Reply, Request};

const SECOND: u64 = 1_000_000_000;

struct Rig {
    agent: Agent,
}

impl Rig {
    fn new(options: Options) -> Rig {
        let mut agent = Agent::new(Switch::new(Identity::default()), options);
        for number in 1..=3 {
            agent.set_port(Port { number, ..Port::default() }, 0);
        }
        Rig { agent }
    }

    /// A controller that said hello.
    fn controller(&mut self) -> ConnectionId {
        let id = self.agent.connect(0).unwrap();
        self.send(id, Body::Hello(Hello::only(4)));
        assert!(matches!(&self.heard(id)[..], [Message { body: Body::Hello(hello), .. }] if hello.agree(4).is_some()));
        id
    }

    fn send(&mut self, id: ConnectionId, body: Body) {
        let bytes = Message::new(7, body).write().unwrap();
        assert_eq!(self.agent.receive(id, &bytes, 0), bytes.len());
    }

    /// What a connection was told.
    fn heard(&mut self, id: ConnectionId) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut framing = Framing::default();
        loop {
            let output = self.agent.output(id).to_vec();
            if output.is_empty() {
                return messages;
            }
            self.agent.sent(id, output.len(), 0);
            let mut rest = output.as_slice();
            while let Some(bytes) = framing.next(&mut rest).unwrap() {
                messages.push(Message::read(&bytes).unwrap());
            }
        }
    }

    /// The only answer to a request.
    #[track_caller]
    fn ask(&mut self, id: ConnectionId, body: Body) -> Body {
        self.send(id, body);
        let mut messages = self.heard(id);
        assert_eq!(messages.len(), 1, "{messages:?}");
        let message = messages.remove(0);
        assert_eq!(message.xid, 7);
        message.body
    }

    #[track_caller]
    fn refused(&mut self, id: ConnectionId, body: Body, error: impl Into<Error>) {
        let sent = Message::new(7, body.clone()).write().unwrap();
        let Body::Error { error: got, data } = self.ask(id, body) else { panic!("not refused") };
        assert_eq!(got, error.into());
        // The beginning of the request comes with it.
        assert_eq!(data, &sent[..sent.len().min(64)]);
    }

    fn role(&mut self, id: ConnectionId, role: Role, generation: u64) -> Body {
        self.ask(id, Body::RoleRequest(RoleMessage { role, generation }))
    }
}

fn flow(instructions: Vec<Instruction>) -> FlowMod {
    FlowMod::add(0, 1, Match::default(), instructions)
}

fn output(port: u32) -> Vec<Instruction> {
    vec![Instruction::ApplyActions(vec![Action::Output { port, max_len: 0 }])]
}

fn frame() -> Vec<u8> {
    vec![0x55; 60]
}

#[test]
fn versions_are_agreed_on() {
    let mut rig = Rig::new(Options::default());
    // One that speaks up to 1.5, without a list, is taken to speak 1.3 too; one with a list only what is in it.
    for (hello, agreed) in [
        (Hello { version: 6, versions: None }, true),
        (Hello { version: 6, versions: Some(vec![0b101_0010]) }, true),
        (Hello { version: 6, versions: Some(vec![0b110_0010]) }, false),
        (Hello { version: 1, versions: None }, false),
    ] {
        let id = rig.agent.connect(0).unwrap();
        rig.send(id, Body::Hello(hello));
        let heard = rig.heard(id);
        if agreed {
            assert_eq!((heard.len(), rig.agent.closing(id)), (1, None));
        } else {
            let Body::Error { error, data } = &heard[1].body else { panic!() };
            assert_eq!(*error, HelloFailed::Incompatible.into());
            assert!(std::str::from_utf8(data).is_ok());
            assert_eq!(rig.agent.closing(id), Some(ClosedBecause::Incompatible));
        }
        rig.agent.disconnect(id);
    }
    // Anything else before a hello ends it.
    let id = rig.agent.connect(0).unwrap();
    rig.send(id, Body::FeaturesRequest);
    assert_eq!(rig.agent.closing(id), Some(ClosedBecause::Incompatible));
    assert!(!rig.agent.has_controller());
}

#[test]
fn simple_requests_are_answered() {
    let mut rig = Rig::new(Options::default());
    let id = rig.controller();
    assert_eq!(rig.ask(id, Body::EchoRequest(b"x".to_vec())), Body::EchoReply(b"x".to_vec()));
    let Body::FeaturesReply(features) = rig.ask(id, Body::FeaturesRequest) else { panic!() };
    assert_eq!((features.datapath, features.buffers, features.tables), (1, 0, 254));
    assert_eq!(rig.ask(id, Body::BarrierRequest), Body::BarrierReply);
    let config = weir_openflow::message::Config { flags: 1, miss_send_len: 5 };
    rig.send(id, Body::SetConfig(config));
    assert_eq!(rig.ask(id, Body::GetConfigRequest), Body::GetConfigReply(config));
    assert_eq!(rig.ask(id, Body::QueueGetConfigRequest(1)), Body::QueueGetConfigReply { port: 1, queues: vec![] });
    rig.refused(id, Body::QueueGetConfigRequest(9), QueueOpFailed::BadPort);
    rig.refused(id, Body::Experimenter { experimenter: 1, kind: 2, data: vec![] }, BadRequest::BadExperimenter);
    rig.refused(id, Body::BarrierReply, BadRequest::BadType);
    rig.refused(
        id,
        Body::SetConfig(weir_openflow::message::Config { flags: 2, miss_send_len: 5 }),
        SwitchConfigFailed::BadFlags,
    );
    let bad_buffer = FlowMod { buffer: 5, ..flow(vec![]) };
    rig.refused(id, Body::FlowMod(bad_buffer), BadRequest::BufferUnknown);
    assert!(rig.agent.switch.tables.get(0).unwrap().is_empty());
}

#[test]
fn a_bad_message_does_not_end_the_connection_and_a_bad_frame_does() {
    let mut rig = Rig::new(Options::default());
    let id = rig.controller();
    // Version 1.0 within a conversation of 1.3; an unknown type; then all is well.
    for bytes in [[1, 5, 0, 8, 0, 0, 0, 9], [4, 99, 0, 8, 0, 0, 0, 9]] {
        rig.agent.receive(id, &bytes, 0);
        assert!(matches!(&rig.heard(id)[..], [Message { xid: 9, body: Body::Error { .. } }]));
    }
    assert_eq!(rig.ask(id, Body::BarrierRequest), Body::BarrierReply);
    rig.agent.receive(id, &[4, 5, 0, 3, 0, 0, 0, 9], 0);
    assert_eq!(rig.agent.closing(id), Some(ClosedBecause::BadFrame));
}

#[test]
fn roles() {
    let mut rig = Rig::new(Options::default());
    let (one, two) = (rig.controller(), rig.controller());
    let reply = |role, generation| Body::RoleReply(RoleMessage { role, generation });
    assert_eq!(rig.role(one, Role::NoChange, 0), reply(Role::Equal, u64::MAX));
    assert_eq!(rig.role(one, Role::Master, 10), reply(Role::Master, 10));
    // A second master makes the first a slave; an equal one stays.
    let three = rig.controller();
    assert_eq!(rig.role(two, Role::Master, 11), reply(Role::Master, 11));
    assert_eq!((rig.agent.role(one), rig.agent.role(three)), (Some(Role::Slave), Some(Role::Equal)));
    // An older claim is refused, and changes nothing; numbers go round.
    let stale = RoleMessage { role: Role::Master, generation: 10 };
    rig.refused(one, Body::RoleRequest(stale), RoleRequestFailed::Stale);
    assert_eq!(rig.agent.role(two), Some(Role::Master));
    assert_eq!(rig.role(one, Role::Slave, 11), reply(Role::Slave, 11));
    rig.role(one, Role::Slave, 11 + (1 << 62));
    rig.role(one, Role::Slave, 11 + (1 << 63));
    rig.role(one, Role::Slave, 11u64.wrapping_add(3 << 62));
    rig.role(one, Role::Slave, 12);
    // No claim is needed to be equal.
    assert_eq!(rig.role(one, Role::Equal, 0), reply(Role::Equal, 12));
}

#[test]
fn a_slave_may_look_and_not_change() {
    let mut rig = Rig::new(Options::default());
    let id = rig.controller();
    rig.role(id, Role::Slave, 1);
    rig.refused(id, Body::FlowMod(flow(vec![])), BadRequest::IsSlave);
    let out = PacketOut { buffer: NO_BUFFER, in_port: 1, actions: vec![], data: frame() };
    rig.refused(id, Body::PacketOut(out), BadRequest::IsSlave);
    assert!(rig.agent.switch.tables.get(0).unwrap().is_empty());
    let part = Request::Desc.parts().remove(0);
    assert!(matches!(rig.ask(id, Body::MultipartRequest(part)), Body::MultipartReply(_)));
    // By default a slave hears of ports only.
    rig.agent.remove_port(3);
    assert!(
        matches!(&rig.heard(id)[..], [Message { body: Body::PortStatus(status), .. }] if status.reason == PortReason::Delete)
    );
    rig.role(id, Role::Master, 2);
    rig.send(id, Body::FlowMod(flow(output(number::CONTROLLER))));
    rig.role(id, Role::Slave, 2);
    rig.agent.packet(Packet::new(1, frame()), 0);
    assert_eq!(rig.heard(id), []);
}

#[test]
fn each_controller_hears_what_it_wants() {
    let mut rig = Rig::new(Options::default());
    let (one, two) = (rig.controller(), rig.controller());
    let quiet = AsyncConfig { packet_in: [0, 0], port_status: [0b001, 0], flow_removed: [0b0100, 0] };
    rig.send(two, Body::SetAsync(quiet));
    assert_eq!(rig.ask(two, Body::GetAsyncRequest), Body::GetAsyncReply(quiet));
    rig.send(
        one,
        Body::FlowMod(FlowMod { flags: flags::SEND_FLOW_REM, hard_timeout: 1, ..flow(output(number::CONTROLLER)) }),
    );
    assert_eq!(rig.agent.packet(Packet::new(2, frame()), 0).outcomes, []);
    let heard = rig.heard(one);
    let [Message { xid: 0, body: Body::PacketIn(packet) }] = &heard[..] else { panic!("{heard:?}") };
    // Nothing is kept in buffers, so the whole packet comes, whatever was asked for.
    assert_eq!((packet.buffer, packet.total_len, packet.data.len()), (NO_BUFFER, 60, 60));
    assert_eq!(rig.heard(two), []);
    // A port that changes is news for the first only; a new one for both.
    rig.agent.set_port(Port { number: 2, mac: [2; 6], ..Port::default() }, 0);
    rig.agent.set_port(Port { number: 4, ..Port::default() }, 0);
    assert_eq!((rig.heard(one).len(), rig.heard(two).len()), (2, 1));
    rig.agent.tick(SECOND);
    assert!(matches!(&rig.heard(one)[..], [Message { body: Body::FlowRemoved(_), .. }]));
    // The second asked for those that were deleted, and this one's time was up.
    assert_eq!(rig.heard(two), []);
}

#[test]
fn packets_of_controllers_come_out() {
    let mut rig = Rig::new(Options::default());
    let id = rig.controller();
    let out = |actions| PacketOut { buffer: NO_BUFFER, in_port: number::CONTROLLER, actions, data: frame() };
    rig.send(id, Body::PacketOut(out(vec![Action::Output { port: 2, max_len: 0 }])));
    assert!(matches!(&rig.agent.outcomes()[..], [Outcome::Sent { port: 2, .. }]));
    assert_eq!(rig.agent.outcomes(), []);
    rig.refused(id, Body::PacketOut(out(vec![Action::Group(1)])), BadAction::BadOutGroup);
    let buffered = PacketOut { buffer: 1, ..out(vec![]) };
    rig.refused(id, Body::PacketOut(buffered), BadRequest::BufferUnknown);
}

#[test]
fn the_silent_are_asked_and_given_up() {
    let mut rig = Rig::new(Options::default());
    let id = rig.controller();
    assert_eq!(rig.agent.next_tick(), Some(5 * SECOND));
    rig.agent.tick(5 * SECOND - 1);
    assert_eq!(rig.heard(id), []);
    rig.agent.tick(5 * SECOND);
    assert!(matches!(&rig.heard(id)[..], [Message { body: Body::EchoRequest(_), .. }]));
    // An answer counts, as anything does.
    let reply = Message::new(0, Body::EchoReply(vec![])).write().unwrap();
    rig.agent.receive(id, &reply, 6 * SECOND);
    rig.agent.tick(11 * SECOND);
    assert_eq!(rig.heard(id).len(), 1);
    rig.agent.tick(16 * SECOND - 1);
    assert_eq!(rig.agent.closing(id), None);
    rig.agent.tick(16 * SECOND);
    assert_eq!(rig.agent.closing(id), Some(ClosedBecause::Silent));
    assert!(!rig.agent.has_controller());
}

#[test]
fn without_controllers() {
    let mut secure = Rig::new(Options::default());
    let mut standalone = Rig::new(Options { fail_mode: FailMode::Standalone, ..Options::default() });
    let id = standalone.controller();
    standalone.send(id, Body::FlowMod(flow(output(2))));
    secure.agent.switch.flow_mod(&flow(output(2)), 0).unwrap();
    let send = |rig: &mut Rig| rig.agent.packet(Packet::new(1, frame()), 0).outcomes;
    assert!(matches!(&send(&mut standalone)[..], [Outcome::Sent { .. }]));
    standalone.agent.disconnect(id);
    assert!(matches!(&send(&mut standalone)[..], [Outcome::Normal(_)]));
    // One that is set aside is none.
    let aside = standalone.controller();
    standalone.agent.set_aside(aside);
    assert!(matches!(&send(&mut standalone)[..], [Outcome::Normal(_)]));
    // Tables go on as they are.
    assert!(matches!(&send(&mut secure)[..], [Outcome::Sent { .. }]));
    standalone.controller();
    assert!(matches!(&send(&mut standalone)[..], [Outcome::Sent { .. }]));
}

/// 20,000 flows take many messages; while they wait nothing more is read, and memory stays small.
#[test]
fn long_replies_wait_for_their_reader() {
    let options = Options { high_water: 64 << 10, ..Options::default() };
    let mut rig = Rig::new(options);
    let id = rig.controller();
    for priority in 0..20_000 {
        rig.agent.switch.flow_mod(&FlowMod { priority, ..flow(output(2)) }, 0).unwrap();
    }
    let query = FlowQuery::all();
    rig.send(id, Body::MultipartRequest(Request::Flow(query).parts().remove(0)));
    let barrier = Message::new(8, Body::BarrierRequest).write().unwrap();
    assert_eq!(rig.agent.receive(id, &barrier, 0), 0, "read while a reply waits");
    let (mut framing, mut reassembly) = (Framing::default(), Reassembly::new(8 << 20));
    let mut flows = None;
    while flows.is_none() {
        let waits = rig.agent.output(id);
        assert!(!waits.is_empty() && waits.len() < 64 << 10 | 64 << 10 << 1, "{} bytes wait", waits.len());
        // It reads slowly.
        let piece = waits[..waits.len().min(10_000)].to_vec();
        rig.agent.sent(id, piece.len(), 0);
        let mut rest = piece.as_slice();
        while let Some(bytes) = framing.next(&mut rest).unwrap() {
            let Body::MultipartReply(part) = Message::read(&bytes).unwrap().body else { panic!() };
            flows = reassembly.add(7, part).unwrap().or(flows);
        }
    }
    let whole = flows.unwrap();
    let Reply::Flow(flows) = Reply::read(whole.kind, &whole.body).unwrap() else { panic!() };
    assert_eq!(flows.len(), 20_000);
    assert_eq!(rig.agent.receive(id, &barrier, 0), barrier.len());
    assert_eq!(rig.heard(id).last().unwrap().body, Body::BarrierReply);
}

#[test]
fn packets_for_a_slow_controller_are_dropped_and_counted() {
    let mut rig = Rig::new(Options { high_water: 10_000, ..Options::default() });
    let id = rig.controller();
    rig.send(id, Body::FlowMod(flow(output(number::CONTROLLER))));
    for _ in 0..1_000 {
        rig.agent.packet(Packet::new(1, frame()), 0);
    }
    let statistics = rig.agent.statistics(id).unwrap();
    assert_eq!(statistics.packets + statistics.packets_dropped, 1_000);
    assert!(statistics.packets_dropped > 800 && rig.agent.output(id).len() < 10_200);
    // News of ports are not dropped: the connection is closed when too many wait.
    let mut rig = Rig::new(Options { most_output: 10_000, ..Options::default() });
    let id = rig.controller();
    for at in 0..1_000u64 {
        rig.agent.set_port(Port { number: 5, mac: [0, 0, 0, 0, (at >> 8) as u8, at as u8], ..Port::default() }, 0);
    }
    assert_eq!(rig.agent.closing(id), Some(ClosedBecause::TooSlow));
}

#[test]
fn there_are_not_too_many_connections() {
    let mut rig = Rig::new(Options { max_connections: 2, ..Options::default() });
    let one = rig.controller();
    rig.controller();
    assert_eq!(rig.agent.connect(0), None);
    rig.agent.disconnect(one);
    assert!(rig.agent.connect(0).is_some());
}
