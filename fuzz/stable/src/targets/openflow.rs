//! What controllers say: streams of OpenFlow messages.

use weir_flow_tables::agent::{Agent, Options};
use weir_flow_tables::{Identity, Switch};
use weir_openflow::message::Hello;
use weir_openflow::port::Port;
use weir_openflow::{Body, Framing, Message, Reply, Request};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "openflow",
    help: "OpenFlow messages of controllers, one after the other",
    run,
    tokens: &[
        b"\x04\x0e\x00\x38",
        b"\x04\x0f\x00\x10",
        b"\x04\x12\x00\x10",
        b"\x04\x1d\x00\x20",
        b"\x00\x01\x00\x04\x00\x00\x00\x00",
        b"\x80\x00\x0a\x02\x08\x00",
        b"\x80\x00\x14\x01\x06",
        b"\x80\x00\x1a\x02\x00\x50",
        b"\x00\x04\x00\x18\x00\x00\x00\x00",
        b"\x00\x00\x00\x10\x00\x00\x00\x02",
        b"\x00\x19\x00\x10\x80\x00",
        b"\xff\xff\xff\xff",
    ],
    text: false,
    inputs: 100_000,
    deep: 30,
};

fn run(input: &[u8]) -> bool {
    let mut deep = false;
    let (mut framing, mut rest) = (Framing::default(), input);
    while let Ok(Some(bytes)) = framing.next(&mut rest) {
        deep |= again(&bytes);
    }
    drive(input);
    deep
}

/// What was read and is written is read as the same again. Whether it was read.
fn again(bytes: &[u8]) -> bool {
    let Ok(message) = Message::read(bytes) else { return false };
    let written = message.write().unwrap_or_default();
    assert_eq!(Message::read(&written), Ok(message.clone()));
    match message.body {
        Body::MultipartRequest(part) => {
            if let Ok(request) = Request::read(part.kind, &part.body) {
                let parts = request.parts();
                let body: Vec<u8> = parts.into_iter().flat_map(|part| part.body).collect();
                assert_eq!(Request::read(part.kind, &body), Ok(request));
            }
        }
        Body::MultipartReply(part) => {
            let _ = Reply::read(part.kind, &part.body);
        }
        _ => {}
    }
    true
}

/// A switch that is told so answers with messages, and keeps its bounds.
fn drive(input: &[u8]) {
    let options = Options::default();
    let mut agent = Agent::new(Switch::new(Identity { tables: 8, ..Identity::default() }), options);
    agent.set_port(Port { number: 1, ..Port::default() }, 0);
    let Some(id) = agent.connect(0) else { return };
    let hello = Message::new(0, Body::Hello(Hello::only(4))).write().unwrap_or_default();
    agent.receive(id, &hello, 0);
    let mut rest = input;
    let (mut framing, mut now) = (Framing::default(), 0);
    while !rest.is_empty() {
        now += 1_000_000_000;
        let taken = agent.receive(id, rest, now);
        rest = rest.get(taken..).unwrap_or_default();
        agent.outcomes();
        agent.tick(now);
        let output = agent.output(id).to_vec();
        assert!(output.len() < options.most_output);
        let mut answers = output.as_slice();
        while let Ok(Some(bytes)) = framing.next(&mut answers) {
            assert!(Message::read(&bytes).is_ok(), "an answer that cannot be read");
        }
        assert!(answers.is_empty());
        agent.sent(id, output.len(), now);
        if output.is_empty() && taken == 0 {
            break;
        }
    }
}
