//! Several workers take packets through one switch at the same time: what becomes of each, and what is counted of all, is as if one came after the other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod pipelines;

use pipelines::{Became, Packets, by_definition, compile, counted, flows, frame, take_all, ways_out};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use weir_flow_tables::Worker;
use weir_openflow::Instruction;
use weir_openflow::flow::FlowMod;

/// How many workers there are, of whom two and more run at the same time.
const WORKERS: usize = 4;
/// How often each takes its packets.
const ROUNDS: usize = 20;
/// A batch.
const BATCH: usize = 32;

/// Flows without meters: what those let through depends on the order in which packets come.
fn without_meters(mut flows: Vec<FlowMod>) -> Vec<FlowMod> {
    for flow in &mut flows {
        flow.instructions.retain(|instruction| !matches!(instruction, Instruction::Meter(_)));
    }
    flows
}

/// Runs all workers, and compares; how many packets the fast path took.
fn compare(flows: &[FlowMod], packets: &[Packets], by_code: bool) -> usize {
    let mut definition = pipelines::switch(flows);
    let mut switch = definition.clone();
    if by_code {
        compile(&mut switch);
    }
    let mut workers = vec![Worker::default()];
    workers.resize_with(WORKERS, || switch.add_worker());
    let switch = &switch;
    let all: Vec<Vec<Vec<Option<Became>>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = workers
            .into_iter()
            .zip(packets)
            .map(|(worker, packets)| {
                scope.spawn(move || (0..ROUNDS).map(|_| take_all(switch, worker, packets, BATCH)).collect())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut fast = 0;
    for (rounds, packets) in all.into_iter().zip(packets) {
        for became in rounds {
            for (became, (port, bytes)) in became.into_iter().zip(packets) {
                if let Some(became) = became {
                    assert_eq!(became, by_definition(&mut definition, *port, bytes, 0));
                    fast += 1;
                }
            }
        }
    }
    assert_eq!(counted(switch, 0), counted(&definition, 0));
    fast
}

#[test]
fn what_workers_do_at_the_same_time_is_what_one_does_after_the_other() {
    let mut runner = TestRunner::new(Config::default());
    let (mut fast, mut by_code) = (0, 0);
    for number in 0..8 {
        let packet = (1..=pipelines::PORTS, frame());
        let packets = prop::collection::vec(prop::collection::vec(packet, 2 * BATCH + 5), WORKERS);
        let drawn = (flows(ways_out()), packets).new_tree(&mut runner).unwrap();
        let (flows, packets) = drawn.current();
        fast += compare(&without_meters(flows), &packets, false);
        // Those have code.
        let packet = (1..=pipelines::PORTS, pipelines::simple::frame());
        let packets = prop::collection::vec(prop::collection::vec(packet, 2 * BATCH + 5), WORKERS);
        let pipelines =
            if number % 2 == 0 { pipelines::simple::flows().boxed() } else { pipelines::simple::pipelines().boxed() };
        let (flows, packets) = (pipelines, packets).new_tree(&mut runner).unwrap().current();
        by_code += compare(&without_meters(flows), &packets, true);
    }
    assert!(fast > 10_000 && by_code > 10_000, "{fast} and {by_code}");
}
