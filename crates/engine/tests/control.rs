//! The control side on several threads: each graph has its stages there on one of them, and none waits for what is on another.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Exit, Pass, Stuck, Wires, dropped, engine, frame, graph_part, settle, total, worker};
use weir_engine::{Blueprint, Engine, WorkerSnapshot};
use weir_packet::{Batch, Held};
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

/// Passes packets on but for those whose last byte says otherwise, and panics with some in each of the places where a packet may be.
#[derive(Default)]
struct Fragile {
    held: Vec<Held>,
}

/// What a packet makes of [`Fragile`].
const FINE: u8 = 0;
const HELD: u8 = 1;
const SENT: u8 = 2;
const PANIC: u8 = 3;
const PANIC_LATER: u8 = 4;

impl Stage for Fragile {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>().polled()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        for slot in batch.slots() {
            match batch.get(slot).and_then(|packet| packet.bytes().last().copied()) {
                Some(HELD | PANIC_LATER) => self.held.extend(batch.hold(slot)),
                Some(SENT) => batch.hold(slot).into_iter().for_each(|held| out.send(held, Exit::Out)),
                Some(PANIC) => {
                    // In nobody's hands but its own.
                    let _lost = batch.hold(slot);
                    panic!("a test asked for it");
                }
                _ => {}
            }
        }
    }

    fn poll(&mut self, _: &mut Out<'_>) -> u64 {
        let is_later = |held: &Held| held.packet().bytes().last() == Some(&PANIC_LATER);
        if let Some(at) = self.held.iter().position(is_later) {
            let _lost = self.held.remove(at);
            panic!("a test asked for it, later");
        }
        u64::MAX
    }

    fn held(&self) -> u64 {
        self.held.len() as u64
    }

    fn clear(&mut self, drop: &mut dyn FnMut(Held)) {
        std::mem::take(&mut self.held).into_iter().for_each(drop);
    }
}

/// A frame that ends in what it makes of [`Fragile`].
fn told(what: u8) -> Vec<u8> {
    let mut frame = frame(0, 0);
    if let Some(last) = frame.last_mut() {
        *last = what;
    }
    frame
}

/// A batch of packets comes to a stage that panics, then good ones: on whichever thread of the control side.
fn after_a_panic(batch: &[u8], thread: usize) -> (Vec<WorkerSnapshot>, usize) {
    let mut wires = Wires::new(3);
    let mut engine = with_controls(1, true, 2, &wires);
    let graphs =
        vec![graph_part(slow("a", 0, 2, Fragile::default()), &[0], &[]), graph_part(slow("b", 1, 2, Pass), &[0], &[])];
    let (ports, controls) = (wires.parts(0, 0, true), HashMap::from([(0, thread), (1, thread)]));
    engine.install(Blueprint { workers: 1, ports, graphs, controls, ..Blueprint::default() }).unwrap();
    wires.handles[0].send_all(batch.iter().map(|what| told(*what)));
    settle(&mut engine);
    // It goes on, and so does the other stage on its thread.
    (0..2).for_each(|port| wires.handles[port].send_all([told(FINE), told(SENT)]));
    settle(&mut engine);
    let arrived = wires.handles[2].received().len();
    let seen = engine.stop();
    assert_eq!(wires.missing(&[]), 0);
    (seen, arrived)
}

#[test]
fn a_panic_on_the_control_side_costs_what_the_stage_had_in_hand() {
    for thread in [0, 1] {
        for (batch, lost, arrived) in [
            (&[FINE, SENT, HELD, FINE][..], 0, 3),
            // What was sent before goes on, what is held stays; what was in its hands and what is left of the batch is lost.
            (&[FINE, SENT, HELD, PANIC, FINE, SENT][..], 4, 1),
            (&[PANIC][..], 1, 0),
            (&[PANIC_LATER, FINE][..], 1, 1),
        ] {
            let (seen, came) = after_a_panic(batch, thread);
            let account = total(&seen);
            assert_eq!(dropped(&seen, "a.control", "panicked"), lost, "{batch:?}");
            assert_eq!(came, arrived + 4, "{batch:?}");
            assert_eq!((account.received, account.held), (batch.len() as u64 + 4, 0), "{batch:?}");
        }
    }
}
