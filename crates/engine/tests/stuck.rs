//! A worker that is stuck in a stage: it holds up neither the numbers of the others nor the end.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Stuck, Wires, frame, graph_part};
use weir_engine::{Blueprint, Engine, Idle, SAMPLE_EVERY, Settings};
use weir_mem::Domain;
use weir_stage::{Graph, To};

/// How long anything may take that is to happen, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn a_stuck_worker_does_not_hold_up_the_end() {
    let mut wires = Wires::new(2);
    let settings = Settings {
        cores: vec![None, None],
        idle: Idle::Sleep,
        virtual_clock: false,
        hook: None,
        sample_every: SAMPLE_EVERY,
    };
    let mut engine = Engine::start(settings, &wires.pool, &Domain::new()).unwrap();
    let (open, gate) = channel();
    let (begun, begins) = channel();
    let mut graph = Graph::new();
    let stage = graph.add("stuck", Stuck { begun, gate: Arc::new(Mutex::new(gate)) });
    graph.wire(stage, "out", To::Port(1));
    graph.receive(0, stage);
    let (ports, graphs) = (wires.parts(0, 0, true), vec![graph_part(graph, &[0], &[])]);
    engine.install(Blueprint { workers: 2, ports, graphs, ..Blueprint::default() }).unwrap();
    wires.handles[0].send_all([frame(0, 1)]);
    begins.recv_timeout(PATIENCE).unwrap();

    let silent: Vec<bool> = engine.snapshot().iter().map(|worker| worker.silent).collect();
    assert_eq!(silent, [true, false, false]);
    let (ended, end) = channel();
    let stopping = std::thread::spawn(move || ended.send(engine.stop()));
    let last = end.recv_timeout(PATIENCE).unwrap();
    let silent: Vec<(&str, bool)> = last.iter().map(|worker| (worker.id.as_str(), worker.silent)).collect();
    assert_eq!(silent, [("0", true), ("1", false), ("control", false)]);
    open.send(()).unwrap();
    stopping.join().unwrap().unwrap();
}
