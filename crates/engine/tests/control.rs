//! The control side on several threads: each graph has its stages there on one of them, and none waits for what is on another.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Exit, Pass, Stuck, Wires, engine, frame, graph_part, settle, total, worker};
use weir_engine::{Blueprint, Engine, WorkerSnapshot};
use weir_packet::Batch;
use weir_stage::{Declaration, Graph, Out, Place, Stage, To};

/// How long anything may take that is to happen, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(120);

/// Packets of a port pass a worker, then the control side, and leave by another port.
fn slow(name: &str, from: u16, to: u16, control: impl Stage + 'static) -> Graph {
    let mut graph = Graph::new();
    let first = graph.add_at(format!("{name}.forward"), Box::new(Pass), worker(0));
    let behind = graph.add_at(format!("{name}.control"), Box::new(control), Place::Control);
    graph.wire(first, "out", To::Stage(behind));
    graph.wire(behind, "out", To::Port(to));
    graph.receive(from, first);
    graph
}

/// An engine whose control side has so many threads.
fn with_controls(workers: usize, is_virtual: bool, controls: usize, wires: &Wires) -> Engine {
    let mut engine = engine(workers, is_virtual, &wires.pool);
    (1..controls).for_each(|_| engine.add_control(&wires.pool).unwrap());
    assert_eq!(engine.workers(), workers);
    engine
}

/// The worker that a stage runs on, and packets that it has had.
fn place(seen: &[WorkerSnapshot], stage: &str) -> Vec<(String, u64)> {
    let on = |worker: &WorkerSnapshot| {
        let found = worker.stages.iter().find(|known| known.name == stage)?;
        Some((worker.id.clone(), found.packets))
    };
    seen.iter().filter_map(on).collect()
}

#[test]
fn graphs_are_on_the_threads_that_are_said() {
    let mut wires = Wires::new(4);
    let mut engine = with_controls(2, true, 3, &wires);
    let blueprint = |wires: &mut Wires, workers, fresh: bool| {
        let part = |name: &str, from, to| {
            let stages = [format!("{name}.forward"), format!("{name}.control")];
            let keep = stages.iter().map(String::as_str).filter(|_| !fresh).collect::<Vec<&str>>();
            graph_part(slow(name, from, to, Pass), &[0], &keep)
        };
        let graphs = vec![part("a", 0, 1), part("b", 1, 2), part("c", 2, 3), part("d", 3, 0)];
        // The last is not named, and the one before it has a thread that there is not.
        let controls = HashMap::from([(0, 2), (1, 1), (2, 7)]);
        Blueprint { workers, ports: wires.parts(0, 0, fresh), graphs, controls, ..Blueprint::default() }
    };
    let first = blueprint(&mut wires, 2, true);
    engine.install(first).unwrap();
    (0..4).for_each(|port| wires.handles[port].send_all((0..100).map(|n| frame(0, n))));
    settle(&mut engine);
    let seen = engine.snapshot();
    let ids: Vec<&str> = seen.iter().map(|worker| worker.id.as_str()).collect();
    assert_eq!(ids, ["0", "1", "control", "control-2", "control-3"]);
    for (stage, thread) in
        [("a.control", "control-3"), ("b.control", "control-2"), ("c.control", "control"), ("d.control", "control")]
    {
        assert_eq!(place(&seen, stage), [(thread.to_owned(), 100)], "{stage}");
    }
    let account = total(&seen);
    assert_eq!((account.received, account.transmitted, account.dropped, account.held), (400, 400, 0, 0));
    assert_eq!(account.links_in, account.links_out);
    // Another worker comes in front of them: they go on as they are.
    engine.add_worker(None, &wires.pool).unwrap();
    assert_eq!(engine.workers(), 3);
    let second = blueprint(&mut wires, 3, false);
    engine.install(second).unwrap();
    (0..4).for_each(|port| wires.handles[port].send_all((0..10).map(|n| frame(0, n))));
    settle(&mut engine);
    let seen = engine.snapshot();
    assert_eq!(place(&seen, "a.control"), [("control-3".to_owned(), 110)]);
    let account = total(&engine.stop());
    assert_eq!((account.received, account.transmitted, account.held), (440, 440, 0));
    assert_eq!(wires.missing(&[]), 0);
}

#[test]
fn replicas_share_the_stages_of_their_thread() {
    let mut wires = Wires::new(4);
    let mut engine = with_controls(2, true, 2, &wires);
    let graphs = vec![graph_part(slow("a", 0, 2, Pass), &[0], &[]), graph_part(slow("a", 1, 3, Pass), &[1], &[])];
    let mut ports = wires.parts(0, 0, true);
    ports[1].rx[0].0 = 1;
    let controls = HashMap::from([(0, 1), (1, 1)]);
    engine.install(Blueprint { workers: 2, ports, graphs, controls, ..Blueprint::default() }).unwrap();
    (0..2).for_each(|port| wires.handles[port].send_all((0..50).map(|n| frame(0, n))));
    settle(&mut engine);
    let seen = engine.snapshot();
    assert_eq!(place(&seen, "a.control"), [("control-2".to_owned(), 100)]);
    // The stage is the first replica's.
    assert_eq!(wires.handles[2].received().len(), 100);
    total(&engine.stop());
}

/// Tells that it has packets.
struct Tells(Sender<()>);

impl Stage for Tells {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>()
    }

    fn run(&mut self, _: &mut Batch, _: &mut Out<'_>) {
        self.0.send(()).unwrap();
    }
}

#[test]
fn what_stands_still_on_one_thread_holds_up_no_other() {
    let mut wires = Wires::new(3);
    let mut engine = with_controls(1, false, 2, &wires);
    let ((open, gate), (begun, begins), (told, tells)) = (channel(), channel(), channel());
    let stuck = Stuck { begun, gate: Arc::new(Mutex::new(gate)) };
    let graphs =
        vec![graph_part(slow("a", 0, 2, stuck), &[0], &[]), graph_part(slow("b", 1, 2, Tells(told)), &[0], &[])];
    let (ports, controls) = (wires.parts(0, 0, true), HashMap::from([(1, 1)]));
    engine.install(Blueprint { workers: 1, ports, graphs, controls, ..Blueprint::default() }).unwrap();
    wires.handles[0].send_all([frame(0, 1)]);
    begins.recv_timeout(PATIENCE).unwrap();
    wires.handles[1].send_all([frame(0, 2)]);
    tells.recv_timeout(PATIENCE).unwrap();
    let silent: Vec<bool> = engine.snapshot().iter().map(|worker| worker.silent).collect();
    assert_eq!(silent, [false, true, false]);
    open.send(()).unwrap();
    let account = total(&engine.stop());
    assert_eq!((account.received, account.transmitted, account.dropped), (2, 2, 0));
}
