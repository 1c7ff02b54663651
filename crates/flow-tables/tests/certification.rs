//! The switch certification patterns that come with os-ken 2.8.2, over the agent and the pipeline.
//!
//! They are made by `os-ken/patterns.py`, which needs os-ken: `pip install os-ken==2.8.2`. With `WEIR_OS_KEN_PYTHON` naming
//! a Python that has it the test runs; otherwise it is skipped. A rate is tried for three seconds of virtual time. The
//! checksums of SCTP are those of RFC 9260, and not os-ken's, which are wrong.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::{Command, Stdio};

use weir_flow_tables::agent::{Agent, ConnectionId, Options};
use weir_flow_tables::{Identity, Outcome, Packet, Switch};
use weir_openflow::message::Hello;
use weir_openflow::port::Port;
use weir_openflow::{Body, Framing, Match, Message};

const SECOND: u64 = 1_000_000_000;
const SECONDS: u64 = 3;

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

/// The patterns, or why there are none.
fn patterns() -> Result<String, String> {
    let python = std::env::var("WEIR_OS_KEN_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/os-ken/patterns.py");
    let output = Command::new(&python).arg(script).stderr(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(String::from_utf8(output.stdout).unwrap()),
        _ => Err(format!("{python} has no os-ken 2.8.2 (name one that has in WEIR_OS_KEN_PYTHON)")),
    }
}

/// A switch of three ports with a controller.
struct Target {
    agent: Agent,
    id: ConnectionId,
}

impl Target {
    fn new() -> Target {
        let mut agent = Agent::new(Switch::new(Identity::default()), Options::default());
        for number in 1..=3 {
            agent.set_port(Port { number, ..Port::default() }, 0);
        }
        let id = agent.connect(0).unwrap();
        let mut target = Target { agent, id };
        target.send(&Message::new(0, Body::Hello(Hello::only(4))).write().unwrap());
        target
    }

    /// Sends a message, and gives what came back.
    fn send(&mut self, bytes: &[u8]) -> Vec<Message> {
        assert_eq!(self.agent.receive(self.id, bytes, 0), bytes.len());
        self.heard()
    }

    fn heard(&mut self) -> Vec<Message> {
        let output = self.agent.output(self.id).to_vec();
        self.agent.sent(self.id, output.len(), 0);
        let (mut framing, mut rest) = (Framing::default(), output.as_slice());
        let mut messages = Vec::new();
        while let Some(bytes) = framing.next(&mut rest).unwrap() {
            messages.push(Message::read(&bytes).unwrap());
        }
        messages
    }
}

/// What must become of a frame: sent by port 2, sent to the controller, or nothing.
fn one_packet(target: &mut Target, frame: &[u8], expected: &str) -> Result<(), String> {
    let outcomes = target.agent.packet(Packet::new(1, frame.to_vec()), 0).outcomes;
    let told = target.heard();
    let mut got: Vec<String> = Vec::new();
    for outcome in outcomes {
        if let Outcome::Sent { port, bytes, .. } = outcome {
            got.push(format!("{} {}", if port == 2 { "O" } else { "another port" }, text(&bytes)));
        }
    }
    for message in told {
        if let Body::PacketIn(packet) = message.body {
            got.push(format!("P {}", text(&packet.data)));
        }
    }
    let wanted: Vec<String> = if expected == "D" { Vec::new() } else { vec![expected.to_owned()] };
    if got == wanted { Ok(()) } else { Err(format!("wanted {wanted:?}\n       got {got:?}")) }
}

fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends frames at a rate, and counts what comes out by each match.
fn rates(
    target: &mut Target,
    per_second: u64,
    frames: &[Vec<u8>],
    expected: &[(bool, u64, Match)],
) -> Result<(), String> {
    let mut counted = vec![(0u64, 0u64); expected.len()];
    // All frames once at least: what few random ones come to is random, too.
    let seconds = SECONDS.max((frames.len() as u64).div_ceil(per_second.max(1)));
    for at in 0..per_second * seconds {
        let frame = frames[at as usize % frames.len()].clone();
        let outcomes = target.agent.packet(Packet::new(1, frame), at * SECOND / per_second).outcomes;
        for outcome in outcomes {
            let Outcome::Sent { port, bytes, .. } = outcome else { continue };
            // What the tester sees at its port of the same number.
            let seen = Packet::new(port, bytes);
            let fields = seen.fields();
            for ((_, _, matches), (packets, bits)) in expected.iter().zip(&mut counted) {
                if fields.meet(matches) {
                    *packets += 1;
                    *bits += seen.bytes.len() as u64 * 8;
                }
            }
        }
    }
    for ((by_bits, rate, matches), (packets, bits)) in expected.iter().zip(counted) {
        let got = if *by_bits { bits / 1_000 } else { packets } / seconds;
        // The tester's own tolerance.
        if got.abs_diff(*rate) * 10 > *rate {
            return Err(format!("wanted {rate}, got {got} of {matches}"));
        }
    }
    Ok(())
}

fn run(lines: &[&str]) -> Result<(), String> {
    let mut target = Target::new();
    let mut frame = Vec::new();
    let (mut per_second, mut frames, mut expected) = (0, Vec::new(), Vec::new());
    for line in lines {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "M" => {
                let answers = target.send(&hex(rest));
                if let Some(Body::Error { error, .. }) = answers.into_iter().map(|answer| answer.body).next() {
                    return Err(format!("refused: {error}"));
                }
            }
            "I" => frame = hex(rest),
            "O" | "P" | "D" => one_packet(&mut target, &frame, line)?,
            "R" => per_second = rest.parse().unwrap(),
            "F" => {
                let (length, beginning) = rest.split_once(' ').unwrap();
                let mut bytes = hex(beginning);
                bytes.resize(length.parse().unwrap(), 0x11);
                frames.push(bytes);
            }
            "K" | "N" => {
                let (rate, flow) = rest.split_once(' ').unwrap();
                let Body::FlowMod(flow) = Message::read(&hex(flow)).unwrap().body else { panic!("no flow") };
                expected.push((kind == "K", rate.parse().unwrap(), flow.matches));
            }
            _ => panic!("unknown line {line}"),
        }
    }
    if expected.is_empty() { Ok(()) } else { rates(&mut target, per_second, &frames, &expected) }
}

#[test]
fn every_pattern_passes_but_those_of_provider_backbone_bridges() {
    let text = match patterns() {
        Ok(text) => text,
        Err(why) => {
            println!("skipped: {why}");
            return;
        }
    };
    let lines: Vec<&str> = text.lines().collect();
    let starts: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].starts_with("T ")).collect();
    let (mut passed, mut backbone, mut failed) = (0, 0, Vec::new());
    for (at, start) in starts.iter().enumerate() {
        let end = starts.get(at + 1).copied().unwrap_or(lines.len());
        let name = &lines[*start][2..];
        match run(&lines[start + 1..end]) {
            Ok(()) => passed += 1,
            Err(_) if name.to_lowercase().contains("pbb") => backbone += 1,
            Err(why) => failed.push(format!("{name}\n  {why}")),
        }
    }
    println!("{passed} passed, {} failed, {backbone} of provider backbone bridges", failed.len());
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
    assert_eq!(passed + backbone, 991);
}
