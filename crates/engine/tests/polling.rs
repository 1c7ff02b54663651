//! What a stage does when it is polled: its time is the stage's, and it knows what there is room for before.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Exit, Wires, frame, graph_part, settle, total};
use weir_engine::{Blueprint, Engine, Idle, Settings};
use weir_mem::{Domain, tsc};
use weir_packet::Batch;
use weir_port_mem::TxMode;
use weir_stage::{Declaration, Graph, Out, Stage, To};

/// Cycles that a poll takes at least.
const LONG: u64 = 1_000_000;

/// Passes everything on, and then takes its time. Remembers what it was told of the room ahead.
struct Slow(Arc<AtomicUsize>);

impl Stage for Slow {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>().polled()
    }

    fn run(&mut self, _: &mut Batch, out: &mut Out<'_>) {
        self.0.store(out.room_at(Exit::Out), Ordering::Relaxed);
    }

    fn poll(&mut self, _: &mut Out<'_>) -> u64 {
        let began = tsc::now();
        while tsc::now() - began < LONG {}
        u64::MAX
    }
}

#[test]
fn polls_are_part_of_a_stages_time() {
    let mut wires = Wires::new(2);
    let settings = Settings {
        cores: vec![None],
        idle: Idle::Sleep,
        virtual_clock: true,
        hook: None,
        sample_every: NonZeroU32::new(1),
    };
    let mut engine = Engine::start(settings, &wires.pool, &Domain::new()).unwrap();
    let room = Arc::new(AtomicUsize::new(usize::MAX));
    let mut graph = Graph::new();
    let stage = graph.add("slow", Slow(Arc::clone(&room)));
    graph.wire(stage, "out", To::Port(1));
    graph.receive(0, stage);
    let (ports, graphs) = (wires.parts(0, 0, true), vec![graph_part(graph, &[0], &[])]);
    engine.install(Blueprint { workers: 1, ports, graphs, ..Blueprint::default() }).unwrap();
    wires.handles[1].set_tx(TxMode::Slow(100));
    for n in 0..5 {
        wires.handles[0].send_all([frame(0, n)]);
        settle(&mut engine);
    }
    let snapshots = engine.snapshot();
    total(&snapshots);
    let stages = snapshots.iter().flat_map(|worker| &worker.stages);
    let slow = stages.into_iter().find(|stage| stage.name == "slow").unwrap();
    assert_eq!((slow.packets, slow.sampled), (5, 5));
    assert!(slow.cycles >= 5 * LONG, "{} cycles", slow.cycles);
    // Not all that may be sent in a call, but what the port behind the way takes.
    assert_eq!(room.load(Ordering::Relaxed), 100);
}
