//! What goes in at one end of a joint comes out at the other: in order, counted, and never waiting for itself.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use common::*;
use proptest::prelude::*;
use weir_engine::{Blueprint, Event, GraphPart, JointEnd, Observer, What, WorkerSnapshot};
use weir_stage::{Graph, To};

/// Where the ports of joints begin: joint `n` has the ends `JOINT + 2n` and `JOINT + 2n + 1`.
const JOINT: u16 = 10;

fn joint(n: u16) -> (JointEnd, JointEnd) {
    let end = |side: u16| JointEnd { name: format!("j{n}.{side}"), index: JOINT + 2 * n + side };
    (end(0), end(1))
}

/// One stage from one port to another.
fn step(name: &str, from: u16, to: u16) -> Graph {
    let mut graph = Graph::new();
    let stage = graph.add(name, Pass);
    graph.wire(stage, "out", To::Port(to));
    graph.receive(from, stage);
    graph
}

/// p0, then `workers.len()` functions with joints between them, then p1.
fn chain(workers: &[usize], keep: &[&str]) -> (Vec<GraphPart>, Vec<(JointEnd, JointEnd)>) {
    let last = workers.len() - 1;
    let graph = |(n, worker): (usize, &usize)| {
        let from = if n == 0 { 0 } else { JOINT + 2 * (n as u16 - 1) + 1 };
        let to = if n == last { 1 } else { JOINT + 2 * n as u16 };
        graph_part(step(&format!("f{n}"), from, to), &[*worker], keep)
    };
    (workers.iter().enumerate().map(graph).collect(), (0..last as u16).map(joint).collect())
}

/// Packets that a port sent and received, over all workers.
fn figures(snapshots: &[WorkerSnapshot], port: u16) -> (u64, u64) {
    let sum = |queues: &[weir_engine::snapshot::QueueSnapshot]| {
        queues.iter().filter(|queue| queue.port == port).map(|queue| queue.packets).sum::<u64>()
    };
    snapshots
        .iter()
        .fold((0, 0), |(sent, received), worker| (sent + sum(&worker.transmit), received + sum(&worker.receive)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// However many functions there are and whichever workers they are on: everything arrives, in order, counted once.
    #[test]
    fn a_chain_of_functions_is_a_cable(workers in prop::collection::vec(0_usize..3, 1..8), packets in 0_u32..900) {
        let mut wires = Wires::new(2);
        let mut engine = engine(3, true, &wires.pool);
        let (graphs, joints) = chain(&workers, &[]);
        let mut ports = wires.parts(workers[0], *workers.last().unwrap(), true);
        // What comes by p1 is nobody's.
        ports.iter_mut().for_each(|port| port.rx.truncate(usize::from(port.index == 0)));
        let ends = joints.len() as u16;
        engine.install(Blueprint { workers: 3, ports, joints, graphs, ..Blueprint::default() }).unwrap();
        wires.handles[0].send_all((0..packets).map(|n| frame(0, n)));
        settle(&mut engine);
        let snapshots = engine.snapshot();
        let account = total(&snapshots);
        prop_assert_eq!((account.received, account.transmitted), (packets.into(), packets.into()));
        prop_assert_eq!((account.dropped, account.held), (0, 0));
        let numbers: Vec<u32> = wires.handles[1].received().iter().map(|frame| number(frame)).collect();
        prop_assert_eq!(numbers, (0..packets).collect::<Vec<_>>());
        for n in 0..ends {
            prop_assert_eq!(figures(&snapshots, JOINT + 2 * n), (u64::from(packets), 0));
            prop_assert_eq!(figures(&snapshots, JOINT + 2 * n + 1), (0, u64::from(packets)));
        }
        engine.stop();
        prop_assert_eq!(wires.missing(&[]), 0);
    }
}

/// Two functions that send each other whatever comes.
fn circle(workers: [usize; 2]) -> (Vec<GraphPart>, Vec<(JointEnd, JointEnd)>) {
    let mut first = Graph::new();
    let stage = first.add("first", ByByte::default());
    first.wire(stage, "out", To::Port(JOINT));
    first.wire(stage, "side", To::Port(1));
    first.receive(0, stage);
    first.receive(JOINT, stage);
    let second = step("second", JOINT + 1, JOINT + 1);
    (vec![graph_part(first, &workers[..1], &[]), graph_part(second, &workers[1..], &[])], vec![joint(0)])
}

#[test]
fn what_goes_round_waits_for_the_next_loop_and_ends() {
    let mut wires = Wires::new(2);
    let mut engine = engine(1, true, &wires.pool);
    let (graphs, joints) = circle([0, 0]);
    let ports = wires.parts(0, 0, true);
    engine.install(Blueprint { workers: 1, ports, joints, graphs, ..Blueprint::default() }).unwrap();
    wires.handles[0].send_all((0..300).map(|n| frame(0, n)));
    settle(&mut engine);
    let snapshots = engine.snapshot();
    let account = total(&snapshots);
    assert_eq!((account.received, account.dropped, account.held), (300, 300, 0));
    assert_eq!(dropped(&snapshots, "second", "loop-limit"), 300);
    assert_eq!(figures(&snapshots, JOINT), (300 * 5, 300 * 5));
    engine.stop();
    assert_eq!(wires.missing(&[]), 0);
}

#[test]
fn workers_that_send_each_other_packets_do_not_wait_for_each_other() {
    let mut wires = Wires::new(2);
    let mut engine = engine(2, true, &wires.pool);
    // There and back: what second sends back leaves by p1.
    let (mut graphs, joints) = circle([0, 1]);
    let mut first = Graph::new();
    let there = first.add("there", Pass);
    let back = first.add("back", Pass);
    first.wire(there, "out", To::Port(JOINT));
    first.wire(back, "out", To::Port(1));
    first.receive(0, there);
    first.receive(JOINT, back);
    graphs[0] = graph_part(first, &[0], &[]);
    let ports = wires.parts(0, 0, true);
    engine.install(Blueprint { workers: 2, ports, joints, graphs, ..Blueprint::default() }).unwrap();
    wires.handles[0].send_all((0..12_000).map(|n| frame(0, n)));
    settle(&mut engine);
    let snapshots = engine.snapshot();
    let account = total(&snapshots);
    let links: Vec<_> = snapshots.iter().flat_map(|worker| &worker.links).collect();
    // One of the two drops what finds it full, so that neither worker ever waits for itself.
    assert_eq!(links.iter().filter(|link| link.drops).count(), 1, "{links:?}");
    assert_eq!((account.received, account.transmitted + account.dropped, account.held), (12_000, 12_000, 0));
    let numbers: Vec<u32> = wires.handles[1].received().iter().map(|frame| number(frame)).collect();
    assert!(numbers.is_sorted() && numbers.len() as u64 == account.transmitted);
    engine.stop();
    assert_eq!(wires.missing(&[]), 0);
}

#[test]
fn what_nobody_receives_is_dropped_by_name() {
    let mut wires = Wires::new(2);
    let mut engine = engine(1, true, &wires.pool);
    let (mut graphs, joints) = chain(&[0, 0], &[]);
    graphs.truncate(1);
    let ports = wires.parts(0, 0, true);
    engine.install(Blueprint { workers: 1, ports, joints, graphs, ..Blueprint::default() }).unwrap();
    wires.handles[0].send_all((0..100).map(|n| frame(0, n)));
    settle(&mut engine);
    let snapshots = engine.snapshot();
    assert_eq!(total(&snapshots).dropped, 100);
    assert_eq!(dropped(&snapshots, "j0.0", "link-down"), 100);
    assert_eq!(figures(&snapshots, JOINT), (0, 0));
    engine.stop();
}

#[test]
fn packets_that_stages_hold_make_and_split_cross_too() {
    let mut wires = Wires::new(2);
    let mut engine = engine(1, true, &wires.pool);
    let mut first = Graph::new();
    let stage = first.add("first", ByByte::default());
    first.wire(stage, "out", To::Port(JOINT));
    first.wire(stage, "side", To::Port(JOINT));
    first.wire(stage, "again", To::Stage(stage));
    first.receive(0, stage);
    let graphs = vec![graph_part(first, &[0], &[]), graph_part(step("second", JOINT + 1, 1), &[0], &[])];
    let ports = wires.parts(0, 0, true);
    engine.install(Blueprint { workers: 1, ports, joints: vec![joint(0)], graphs, ..Blueprint::default() }).unwrap();
    // 0: straight, 1: beside, 5: copied, 7: held and sent later.
    wires.handles[0].send_all((0..400).map(|n| frame([0, 1, 5, 7][n as usize % 4], n)));
    settle(&mut engine);
    let snapshots = engine.snapshot();
    let account = total(&snapshots);
    assert_eq!((account.received, account.created, account.transmitted), (400, 100, 500));
    assert_eq!(figures(&snapshots, JOINT + 1), (0, 500));
    engine.stop();
    assert_eq!(wires.missing(&[]), 0);
}

#[test]
fn replica_n_sends_to_replica_n() {
    let wires = Wires::new(2);
    let mut engine = engine(4, true, &wires.pool);
    let part = |name: &str, replica: usize, worker: usize, from, to| GraphPart {
        replica,
        ..graph_part(step(name, from, to), &[worker], &[])
    };
    let second = |replica, worker| part("second", replica, worker, JOINT + 1, 1);
    let graphs = vec![
        part("first", 0, 0, 0, JOINT),
        part("first", 1, 1, 0, JOINT),
        part("first", 2, 2, 0, JOINT),
        second(0, 3),
        second(1, 1),
    ];
    engine.install(Blueprint { workers: 4, joints: vec![joint(0)], graphs, ..Blueprint::default() }).unwrap();
    let snapshots = engine.snapshot();
    let links: Vec<&str> = snapshots.iter().flat_map(|worker| &worker.links).map(|link| link.name.as_str()).collect();
    // The second replica's partner is on the same worker; of two partners the third replica's is the first again.
    assert_eq!(links, ["0 -> 3: joint j0.0 j0.1", "2 -> 3: joint j0.0 j0.1"]);
    engine.stop();
}

#[test]
fn figures_of_joints_outlive_a_reload() {
    let mut wires = Wires::new(2);
    let mut engine = engine(2, true, &wires.pool);
    let mut fresh = true;
    for (round, workers) in [[0, 0, 0], [0, 1, 0], [0, 0, 0]].iter().enumerate() {
        let (graphs, joints) = chain(workers, &["f0", "f2"]);
        let ports = wires.parts(0, 0, std::mem::take(&mut fresh));
        engine.install(Blueprint { workers: 2, ports, joints, graphs, ..Blueprint::default() }).unwrap();
        wires.handles[0].send_all((0..500).map(|n| frame(0, n)));
        settle(&mut engine);
        let snapshots = engine.snapshot();
        let all = 500 * (round as u64 + 1);
        let account = total(&snapshots);
        assert_eq!((account.received, account.transmitted, account.dropped), (all, all, 0), "round {round}");
        assert_eq!(figures(&snapshots, JOINT), (all, 0));
        assert_eq!(figures(&snapshots, JOINT + 3), (0, all));
    }
    // Without the joint its figures are gone, and its way leads nowhere.
    let graphs = vec![graph_part(step("f0", 0, JOINT), &[0], &["f0"])];
    let ports = wires.parts(0, 0, false);
    engine.install(Blueprint { workers: 2, ports, graphs, ..Blueprint::default() }).unwrap();
    wires.handles[0].send_all((0..7).map(|n| frame(0, n)));
    settle(&mut engine);
    let snapshots = engine.snapshot();
    assert_eq!((total(&snapshots).transmitted, total(&snapshots).dropped), (1_500, 7));
    assert_eq!(figures(&snapshots, JOINT), (0, 0));
    engine.stop();
    assert_eq!(wires.missing(&[]), 0);
}

/// Which ports packets were seen at.
#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl Observer for Seen {
    fn event(&self, event: &Event<'_>) {
        self.0.lock().unwrap().push(word(event.what));
    }
}

fn word(what: What<'_>) -> String {
    match what {
        What::Received { port } => format!("received {port}"),
        What::Crossed { out, into } => format!("crossed {out} {into}"),
        What::Transmitted { port } => format!("transmitted {port}"),
        What::Left { stage, .. } => format!("left {stage}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn whoever_watches_sees_both_ends() {
    let mut wires = Wires::new(2);
    let mut engine = engine(1, true, &wires.pool);
    let (graphs, joints) = chain(&[0, 0], &[]);
    let ports = wires.parts(0, 0, true);
    engine.install(Blueprint { workers: 1, ports, joints, graphs, ..Blueprint::default() }).unwrap();
    let seen = Arc::new(Seen::default());
    let observer: Arc<dyn Observer> = Arc::<Seen>::clone(&seen);
    engine.observe(&observer);
    wires.handles[0].send_all([frame(0, 1)]);
    settle(&mut engine);
    let words = ["received 0", "left f0", "crossed 10 11", "left f1", "transmitted 1"];
    assert_eq!(*seen.0.lock().unwrap(), words);
    engine.stop();
}

/// What happened to each packet that was received after every worker told, by its number.
#[derive(Default)]
struct Followed {
    all_tell: AtomicBool,
    steps: Mutex<HashMap<u32, Vec<String>>>,
}

impl Observer for Followed {
    fn event(&self, event: &Event<'_>) {
        let mut all = self.steps.lock().unwrap();
        let number = number(event.bytes);
        match event.what {
            What::Received { .. } if self.all_tell.load(Ordering::Acquire) => drop(all.insert(number, Vec::new())),
            what => {
                if let Some(steps) = all.get_mut(&number) {
                    steps.push(word(what));
                }
            }
        }
    }

    fn all_tell(&self) {
        self.all_tell.store(true, Ordering::Release);
    }
}

#[test]
fn no_step_is_missed_of_what_comes_after_every_worker_tells() {
    const ROUNDS: u32 = 20;
    const EACH: u32 = 10_000;
    let mut wires = Wires::new(2);
    let mut engine = engine(3, false, &wires.pool);
    let (graphs, joints) = chain(&[0, 1, 2], &[]);
    let ports = wires.parts(0, 2, true);
    engine.install(Blueprint { workers: 3, ports, joints, graphs, ..Blueprint::default() }).unwrap();
    let whole = ["left f0", "crossed 10 11", "left f1", "crossed 12 13", "left f2", "transmitted 1"];
    let (mut seen, mut wrong) = (0, Vec::new());
    for round in 0..ROUNDS {
        let followed = Arc::new(Followed::default());
        let observer: Arc<dyn Observer> = Arc::<Followed>::clone(&followed);
        let send =
            |half| wires.handles[0].send_all((0..EACH / 2).map(|n| frame(0, round * EACH + half * EACH / 2 + n)));
        send(0);
        // While they are on their way.
        engine.observe(&observer);
        send(1);
        wait(|| wires.handles[1].report().packets == u64::from((round + 1) * EACH));
        engine.unobserve(&observer);
        let steps = followed.steps.lock().unwrap();
        seen += steps.len();
        wrong.extend(steps.iter().filter(|(_, steps)| **steps != whole).map(|(n, steps)| (*n, steps.clone())).take(5));
    }
    engine.stop();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(seen >= (ROUNDS * EACH / 2) as usize, "{seen} were followed, of all that came after each worker told");
    assert_eq!(wires.missing(&[]), 0);
}

#[test]
fn a_worker_that_is_added_tells_those_who_watch() {
    let mut wires = Wires::new(2);
    let mut engine = engine(1, true, &wires.pool);
    let seen = Arc::new(Seen::default());
    let observer: Arc<dyn Observer> = Arc::<Seen>::clone(&seen);
    engine.observe(&observer);
    engine.add_worker(None, &wires.pool).unwrap();
    let (graphs, joints) = chain(&[0, 1], &[]);
    let ports = wires.parts(0, 1, true);
    engine.install(Blueprint { workers: 2, ports, joints, graphs, ..Blueprint::default() }).unwrap();
    wires.handles[0].send_all([frame(0, 1)]);
    settle(&mut engine);
    let words = ["received 0", "left f0", "crossed 10 11", "left f1", "transmitted 1"];
    assert_eq!(*seen.0.lock().unwrap(), words);
    engine.unobserve(&observer);
    engine.add_worker(None, &wires.pool).unwrap();
    assert_eq!(Arc::strong_count(&observer), 2, "nobody keeps who watches no more");
    engine.stop();
}
