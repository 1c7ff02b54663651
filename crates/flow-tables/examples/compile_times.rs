//! How long the code takes that tries the flows of a switch one by one: of tables with up to as many as are tried (24 in a table, 48 in all), which send, or route.
//! Milliseconds, the least of five.
//!
//! ```sh
//! cargo run --release -p weir-flow-tables --example compile_times
//! ```
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement reads the clock, and says what came of it"
)]

use std::time::Instant;

use weir_flow_tables::{CodeState, Identity, Switch};
use weir_openflow::flow::FlowMod;
use weir_openflow::port::Port;
use weir_openflow::{Action, Field, Instruction, Match, Oxm};

const RUNS: usize = 5;

type Failed = Box<dyn std::error::Error>;

fn out() -> Action {
    Action::Output { port: 2, max_len: 0 }
}

fn set(field: Field, value: u128) -> Action {
    Action::SetField(Oxm::exact(field, value))
}

type MakeActions = fn() -> Vec<Action>;

/// What flows do with packets.
const KINDS: [(&str, MakeActions); 2] = [
    ("send", || vec![out()]),
    ("route", || vec![set(Field::EthDst, 2), set(Field::EthSrc, 1), Action::DecNwTtl, out()]),
];

/// Flow number `n` of a table, of which each asks for something else.
fn asked(n: u32) -> Vec<Oxm> {
    let ip = Oxm::exact(Field::EthType, 0x0800);
    let mask = !(u32::MAX >> (1 + n % 30));
    match n % 4 {
        0 => vec![Oxm::exact(Field::EthDst, 0x0200_0000_0000 + u128::from(n))],
        1 => vec![ip, Oxm::masked(Field::Ipv4Dst, (0x0a00_0000 & mask).into(), mask.into())],
        2 => vec![ip, Oxm::exact(Field::IpProto, 6), Oxm::exact(Field::TcpDst, u128::from(n))],
        _ => vec![Oxm::exact(Field::VlanVid, 0x1000 | u128::from(n)), Oxm::exact(Field::VlanPcp, 3)],
    }
}

fn flow(table: u8, n: u32, made: Vec<Instruction>) -> Result<FlowMod, Failed> {
    let matches = Match::new(asked(n)).map_err(|error| format!("{error:?}"))?;
    Ok(FlowMod::add(table, n as u16, matches, made))
}

/// A switch with these flows, whose code is not made.
fn switch(flows: &[FlowMod]) -> Result<Switch, Failed> {
    let mut switch = Switch::new(Identity { tables: 2, ..Identity::default() });
    (1..=2).for_each(|number| drop(switch.set_port(Port { number, ..Port::default() }, 0)));
    for flow in flows {
        drop(switch.flow_mod(flow, 0).map_err(|error| format!("{error:?}"))?);
    }
    Ok(switch)
}

/// Milliseconds that the code of such a switch takes.
fn measure(flows: &[FlowMod]) -> Result<f64, Failed> {
    let mut least = f64::MAX;
    for _ in 0..RUNS {
        let mut switch = switch(flows)?;
        let recipe = switch.recipe().ok_or("there is nothing to be made")?;
        let begun = Instant::now();
        let made = recipe.compile();
        least = least.min(begun.elapsed().as_secs_f64() * 1e3);
        drop(switch.install(made));
        if switch.code_state() != CodeState::InUse {
            return Err(format!("the code is {}", switch.code_state()).into());
        }
    }
    Ok(least)
}

fn main() -> Result<(), Failed> {
    for (kind, actions) in KINDS {
        let made = || vec![Instruction::ApplyActions(actions())];
        for count in [1, 8, 24] {
            let flows: Vec<FlowMod> = (0..count).map(|n| flow(0, n, made())).collect::<Result<_, _>>()?;
            println!("{count:>2} flows of one table that {kind}: {:.2} ms", measure(&flows)?);
        }
        // All of the second table are tried behind the last one of the first.
        let mut flows: Vec<FlowMod> = (0..24).map(|n| flow(1, n, made())).collect::<Result<_, _>>()?;
        for n in 0..23 {
            flows.push(flow(0, n, made())?);
        }
        flows.push(flow(0, 23, vec![Instruction::GotoTable(1)])?);
        println!("24 flows of each of two tables that {kind}: {:.2} ms", measure(&flows)?);
    }
    Ok(())
}
