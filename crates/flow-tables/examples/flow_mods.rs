//! How many flow-mods a second a switch takes from a controller: into a table that grows to a million flows, and then adding others and taking old ones out again,
//! which leaves a million. What is measured is the switch alone, on one core: from the bytes that a controller sends, read message by message, to the answer to
//! its barrier.
//!
//! ```sh
//! cargo run --release -p weir-flow-tables --example flow_mods [FLOWS]
//! ```
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement reads the clock, and says what came of it"
)]

use std::time::Instant;

use weir_flow_tables::agent::{Agent, ConnectionId, Options};
use weir_flow_tables::{Identity, Switch};
use weir_openflow::flow::{FlowCommand, FlowMod};
use weir_openflow::message::Hello;
use weir_openflow::port::Port;
use weir_openflow::{Action, Body, Field, Instruction, Match, Message, Oxm};

/// Flow-mods between two barriers.
const PIECE: u64 = 10_000;

type Failed = Box<dyn std::error::Error>;

/// What flows ask for: all of them one mask, prefixes of two lengths, or addresses and ports with eight masks.
const KINDS: [(&str, MakeMatch); 3] =
    [("exact addresses", exact), ("prefixes", prefix), ("addresses with masks", masked)];

type MakeMatch = fn(u64) -> (u16, Vec<Oxm>);

fn exact(n: u64) -> (u16, Vec<Oxm>) {
    (1, vec![Oxm::exact(Field::EthType, 0x0800), Oxm::exact(Field::Ipv4Dst, mixed(n).into())])
}

fn prefix(n: u64) -> (u16, Vec<Oxm>) {
    let length = 24 + (n % 3) as u32 * 4;
    let mask = !u32::MAX.checked_shr(length).unwrap_or(0);
    (length as u16, vec![Oxm::exact(Field::EthType, 0x0800), masked_by(Field::Ipv4Dst, mixed(n), mask)])
}

fn masked(n: u64) -> (u16, Vec<Oxm>) {
    let mask = !u32::MAX.checked_shr(25 + (n % 8) as u32).unwrap_or(0);
    let source = masked_by(Field::Ipv4Src, mixed(n), mask);
    (9, vec![Oxm::exact(Field::EthType, 0x0800), source, Oxm::exact(Field::Ipv4Dst, mixed(n + 7).into())])
}

fn masked_by(field: Field, address: u32, mask: u32) -> Oxm {
    Oxm::masked(field, (address & mask).into(), mask.into())
}

/// A number for each number, in no order.
fn mixed(n: u64) -> u32 {
    (n as u32).wrapping_mul(0x9e37_79b1).rotate_left(9)
}

/// The bytes of a flow-mod.
fn message(make: MakeMatch, n: u64, command: FlowCommand) -> Result<Vec<u8>, Failed> {
    let (priority, fields) = make(n);
    let actions = vec![
        Action::DecNwTtl,
        Action::SetField(Oxm::exact(Field::EthDst, 0x0200_0000_0000 | u128::from(n % 256))),
        Action::Output { port: 1 + (n % 2) as u32, max_len: 0 },
    ];
    let made = if command == FlowCommand::Add { vec![Instruction::ApplyActions(actions)] } else { Vec::new() };
    let matches = Match::new(fields).map_err(|error| error.to_string())?;
    let change = FlowMod { command, ..FlowMod::add(0, priority, matches, made) };
    written(Body::FlowMod(change))
}

fn written(body: Body) -> Result<Vec<u8>, Failed> {
    Ok(Message::new(1, body).write().map_err(|error| format!("{error:?}"))?)
}

/// A controller that sends bytes, and takes what is answered.
struct Controller {
    agent: Agent,
    id: ConnectionId,
}

impl Controller {
    fn new(flows: usize) -> Result<Controller, Failed> {
        let mut switch = Switch::new(Identity { max_flows: flows, ..Identity::default() });
        for number in 1..=2 {
            switch.set_port(Port { number, ..Port::default() }, 0);
        }
        let mut agent = Agent::new(switch, Options::default());
        let id = agent.connect(0).ok_or("no connection")?;
        let mut controller = Controller { agent, id };
        controller.send(&written(Body::Hello(Hello::only(4)))?)?;
        Ok(controller)
    }

    /// Sends bytes, and reads the answers; how many bytes these were.
    fn send(&mut self, mut bytes: &[u8]) -> Result<usize, Failed> {
        let mut answered = 0;
        while !bytes.is_empty() {
            let taken = self.agent.receive(self.id, bytes, 0);
            bytes = bytes.get(taken..).unwrap_or_default();
            let answers = self.agent.output(self.id).len();
            self.agent.sent(self.id, answers, 0);
            if taken + answers == 0 {
                return Err("the switch takes no more".into());
            }
            answered += answers;
        }
        Ok(answered)
    }

    /// Sends flow-mods, a barrier behind each piece; how many a second were taken. An error, or no answer, is a failure.
    fn rate(&mut self, pieces: &[Vec<u8>], count: u64) -> Result<f64, Failed> {
        let barrier = written(Body::BarrierRequest)?;
        let begun = Instant::now();
        for piece in pieces {
            let answered = self.send(&[&piece[..], &barrier].concat())?;
            // The answer to a barrier is a header.
            if answered != 8 {
                return Err(format!("{answered} bytes were answered, and not those of the barrier alone").into());
            }
        }
        Ok(count as f64 / begun.elapsed().as_secs_f64())
    }
}

fn main() -> Result<(), Failed> {
    let flows: u64 = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    for (name, make) in KINDS {
        let pieces = |from: u64, each: &dyn Fn(u64) -> Result<Vec<u8>, Failed>| -> Result<Vec<Vec<u8>>, Failed> {
            let begins = (from..from + flows).step_by(PIECE as usize);
            begins
                .map(|begin| (begin..(begin + PIECE).min(from + flows)).map(each).collect::<Result<Vec<_>, _>>())
                .map(|piece| Ok(piece?.concat()))
                .collect()
        };
        let mut controller = Controller::new(flows as usize + PIECE as usize)?;
        let added = pieces(0, &|n| message(make, n, FlowCommand::Add))?;
        let filled = controller.rate(&added, flows)?;
        let there = controller.agent.switch.tables.get(0).map_or(0, |table| table.len());
        drop(added);
        // One more, and an old one goes.
        let turns = pieces(flows, &|n| {
            Ok([message(make, n, FlowCommand::Add)?, message(make, n - flows, FlowCommand::DeleteStrict)?].concat())
        })?;
        let changed = controller.rate(&turns, 2 * flows)?;
        println!("{name}: {filled:.0}/s into a table that grows to {there} flows, then {changed:.0}/s");
    }
    Ok(())
}
