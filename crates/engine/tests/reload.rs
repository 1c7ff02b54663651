//! Reloads under load: kept stages keep state and counters, replaced ones give their packets up by name, nothing is lost.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::*;
use weir_engine::Blueprint;
use weir_packet::Batch;
use weir_stage::{Declaration, Graph, Out, Stage, To};

fn graph(stages: &[&str]) -> Graph {
    let mut graph = Graph::new();
    let ids: Vec<_> = stages
        .iter()
        .enumerate()
        .map(|(n, name)| graph.add_at(*name, Box::new(ByByte::default()), worker(n.min(1) as u8)))
        .collect();
    for pair in ids.windows(2) {
        graph.wire(pair[0], "out", To::Stage(pair[1]));
    }
    graph.wire(*ids.last().unwrap(), "out", To::Port(1));
    for id in &ids {
        graph.wire(*id, "side", To::Port(1));
        graph.wire(*id, "again", To::Stage(*id));
    }
    graph.receive(0, ids[0]);
    graph
}

#[test]
fn a_hundred_reloads_under_load_lose_nothing() {
    let mut wires = Wires::new(2);
    let mut engine = engine(2, false, &wires.pool);
    let ports = wires.parts(0, 1, true);
    let graphs = vec![graph_part(graph(&["a", "b"]), &[0, 1], &[])];
    engine.install(Blueprint { workers: 2, ports, graphs, ..Blueprint::default() }).unwrap();

    let stop = Arc::new(AtomicBool::new(false));
    let feeder = {
        let (handle, stop) = (wires.handles[0].clone(), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                if handle.waiting() < 2000 {
                    handle.send_all((sent..sent + 100).map(|n| frame([0, 0, 1, 5, 2, 6, 7, 3][n as usize % 8], n)));
                    sent += 100;
                }
            }
            sent
        })
    };
    // Stages come and go, move between workers, and are kept or replaced.
    let shapes: [&[&str]; 4] = [&["a", "b"], &["a", "c", "b"], &["a"], &["d", "a", "b"]];
    for n in 0..100 {
        let ports = wires.parts(0, 1, false);
        let keep: &[&str] = if n % 3 == 0 { &["a", "b"] } else { &["a"] };
        let on: &[usize] = if n % 5 == 0 { &[0] } else { &[0, 1] };
        let graphs = vec![graph_part(graph(shapes[n % 4]), on, keep)];
        engine.install(Blueprint { workers: 2, ports, graphs, ..Blueprint::default() }).unwrap();
        total(&engine.snapshot());
    }
    stop.store(true, Ordering::Relaxed);
    let sent = feeder.join().unwrap();
    wait(|| wires.handles[0].waiting() == 0);
    let last = engine.stop();
    let account = total(&last);
    assert_eq!(account.received, u64::from(sent));
    assert_eq!(account.held, 0);
    assert_eq!(account.links_in, account.links_out);
    assert_eq!(account.transmitted, wires.handles[1].report().packets);
    assert_eq!(wires.missing(&[]), 0);
    assert!(last.iter().flat_map(|worker| &worker.drops).any(|drop| drop.reason == "reload" && drop.packets > 0));
}

#[test]
fn a_kept_stage_keeps_its_packets_and_counters() {
    let mut wires = Wires::new(2);
    let mut engine = engine(1, true, &wires.pool);
    let blueprint = |wires: &mut Wires, fresh, keep: &[&str]| Blueprint {
        workers: 1,
        ports: wires.parts(0, 0, fresh),
        graphs: vec![graph_part(graph(&["a", "b"]), &[0], keep)],
        ..Blueprint::default()
    };
    let first = blueprint(&mut wires, true, &[]);
    engine.install(first).unwrap();
    wires.handles[0].send_all((0..10).map(|n| frame(6, n)));
    settle(&mut engine);
    assert_eq!(total(&engine.snapshot()).held, 10);

    let second = blueprint(&mut wires, false, &["a"]);
    engine.install(second).unwrap();
    let snapshot = &engine.snapshot()[0];
    assert_eq!(snapshot.account.held, 10);
    assert_eq!(snapshot.stages.iter().find(|stage| stage.name == "a").unwrap().packets, 10);

    let third = blueprint(&mut wires, false, &["b"]);
    engine.install(third).unwrap();
    let snapshots = engine.snapshot();
    let account = total(&snapshots);
    assert_eq!((account.held, account.dropped), (0, 10));
    assert_eq!(snapshots[0].drops[0].reason, "reload");
}

/// Sends packets by the way that their second byte says.
struct ByWay(usize);

impl Stage for ByWay {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>().indexed("port", self.0)
    }
    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        batch.each(|slot, packet, _| out.answer_indexed(slot, packet.bytes()[1]));
    }
}

#[test]
fn a_kept_stage_gets_more_ways() {
    let mut wires = Wires::new(3);
    let mut engine = engine(1, true, &wires.pool);
    let install = |wires: &mut Wires, engine: &mut weir_engine::Engine, ways: usize, fresh| {
        let mut graph = Graph::new();
        let stage = graph.add("a", ByWay(ways));
        (0..ways).for_each(|n| graph.wire(stage, &format!("port[{n}]"), To::Port(n as u16 + 1)));
        graph.receive(0, stage);
        let (ports, graphs) = (wires.parts(0, 0, fresh), vec![graph_part(graph, &[0], &["a"])]);
        engine.install(Blueprint { workers: 1, ports, graphs, ..Blueprint::default() }).unwrap();
    };
    let send = |wires: &Wires, engine: &mut weir_engine::Engine, way: u8| {
        wires.handles[0].send_all((0..10).map(|n| {
            let mut frame = frame(0, n);
            frame[1] = way;
            frame
        }));
        settle(engine);
    };
    install(&mut wires, &mut engine, 1, true);
    send(&wires, &mut engine, 0);
    install(&mut wires, &mut engine, 2, false);
    send(&wires, &mut engine, 1);
    let snapshots = engine.snapshot();
    let stage = snapshots[0].stages.iter().find(|stage| stage.name == "a").unwrap();
    assert_eq!(stage.packets, 20, "it is the same stage");
    assert_eq!([1, 2].map(|port| wires.handles[port].received().len()), [10, 10]);
    let account = total(&snapshots);
    assert_eq!((account.received, account.transmitted, account.dropped), (20, 20, 0));
    // One that has fewer is another.
    install(&mut wires, &mut engine, 1, false);
    send(&wires, &mut engine, 0);
    let snapshots = engine.snapshot();
    assert_eq!(snapshots[0].stages.iter().find(|stage| stage.name == "a").unwrap().packets, 10);
    assert_eq!(total(&snapshots).transmitted, 30);
}

#[test]
fn packets_held_at_the_end_are_dropped_as_shutdown() {
    let mut wires = Wires::new(2);
    let mut engine = engine(1, false, &wires.pool);
    let ports = wires.parts(0, 0, true);
    let graphs = vec![graph_part(graph(&["a", "b"]), &[0], &[])];
    engine.install(Blueprint { workers: 1, ports, graphs, ..Blueprint::default() }).unwrap();
    wires.handles[0].send_all((0..2000).map(|n| frame(if n % 2 == 0 { 6 } else { 0 }, n)));
    wait(|| wires.handles[0].waiting() == 0);
    let last = engine.stop();
    let account = total(&last);
    assert_eq!((account.received, account.held), (2000, 0));
    assert_eq!(account.transmitted, wires.handles[1].report().packets);
    let shutdown: u64 = last[0].drops.iter().filter(|drop| drop.reason == "shutdown").map(|drop| drop.packets).sum();
    assert_eq!(shutdown, 1000);
    assert_eq!(wires.missing(&[]), 0);
}

/// A way that led to a port leads nowhere, and back: what went out went out, what was dropped was dropped.
#[test]
fn counts_keep_their_meaning_when_a_way_is_wired_otherwise() {
    let mut wires = Wires::new(2);
    let mut engine = engine(1, true, &wires.pool);
    let install = |engine: &mut weir_engine::Engine, wires: &mut Wires, fresh, is_wired| {
        let mut graph = Graph::new();
        let a = graph.add_at("a", Box::new(Pass), worker(0));
        if is_wired {
            graph.wire(a, "out", To::Port(1));
        }
        graph.receive(0, a);
        let ports = wires.parts(0, 0, fresh);
        let graphs = vec![graph_part(graph, &[0], &["a"])];
        engine.install(Blueprint { workers: 1, ports, graphs, ..Blueprint::default() }).unwrap();
    };
    let (mut transmitted, mut dropped) = (0, 0);
    for n in 0..6_u32 {
        let is_wired = n % 2 == 0;
        install(&mut engine, &mut wires, n == 0, is_wired);
        let count = 100 + u64::from(n);
        wires.handles[0].send_all((0..count as u32).map(|n| frame(0, n)));
        settle(&mut engine);
        *if is_wired { &mut transmitted } else { &mut dropped } += count;
        let snapshots = engine.snapshot();
        let account = total(&snapshots);
        assert_eq!((account.transmitted, account.dropped), (transmitted, dropped), "after step {n}");
        let ways: u64 = snapshots[0].stages[0].ways.iter().map(|(_, packets)| packets).sum();
        let drops: Vec<_> = snapshots[0].drops.iter().map(|drop| (drop.reason.as_str(), drop.packets)).collect();
        assert_eq!(ways, transmitted, "after step {n}");
        assert_eq!(drops.iter().map(|(_, packets)| packets).sum::<u64>(), dropped, "after step {n}: {drops:?}");
        assert!(drops.iter().all(|(reason, _)| *reason == "out") && drops.len() < 2, "{drops:?}");
    }
}

/// What one port received and sent, over all workers and queues.
fn port_totals(snapshots: &[weir_engine::WorkerSnapshot], port: u16) -> (u64, u64) {
    let sum = |queues: &[weir_engine::snapshot::QueueSnapshot]| {
        queues.iter().filter(|queue| queue.port == port).map(|queue| queue.packets).sum::<u64>()
    };
    snapshots.iter().fold((0, 0), |(rx, tx), worker| (rx + sum(&worker.receive), tx + sum(&worker.transmit)))
}

/// Queues go from worker to worker while packets run through them: none is lost, doubled or miscounted.
#[test]
fn queues_move_between_workers_under_load_and_lose_nothing() {
    let mut wires = Wires::new(2);
    let mut engine = engine(3, false, &wires.pool);
    let stop = Arc::new(AtomicBool::new(false));
    let feeder = {
        let (handle, stop) = (wires.handles[0].clone(), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut sent: u32 = 0;
            while !stop.load(Ordering::Relaxed) {
                if handle.waiting() < 2000 {
                    handle.send_all((sent..sent + 100).map(|n| frame(0, n)));
                    sent += 100;
                }
            }
            sent
        })
    };
    for n in 0..200_usize {
        let (rx, tx) = (n % 3, (n / 3) % 3);
        let ports = wires.parts(rx, tx, n == 0);
        let graphs = vec![graph_part(graph(&["a"]), &[rx], &["a"])];
        engine.install(Blueprint { workers: 3, ports, graphs, ..Blueprint::default() }).unwrap();
        let snapshots = engine.snapshot();
        let account = total(&snapshots);
        assert_eq!(port_totals(&snapshots, 0).0, account.received);
        assert_eq!(port_totals(&snapshots, 1).1, account.transmitted);
    }
    stop.store(true, Ordering::Relaxed);
    let sent = feeder.join().unwrap();
    wait(|| wires.handles[0].waiting() == 0);
    let last = engine.stop();
    let account = total(&last);
    assert_eq!(account.received, u64::from(sent));
    assert_eq!((account.held, account.links_in), (0, account.links_out));
    let dropped: Vec<_> = last.iter().flat_map(|worker| &worker.drops).collect();
    assert!(dropped.iter().all(|drop| drop.reason == "reload" && drop.stage.contains("->")), "{dropped:?}");
    assert_eq!(wires.missing(&[]), 0);
}

/// A graph that receives from a port no more leaves the port's queue as it is, for the next that does.
#[test]
fn a_queue_that_no_graph_receives_from_is_there_when_one_does() {
    let mut wires = Wires::new(2);
    let mut engine = engine(2, true, &wires.pool);
    for n in 0..6_usize {
        let mut graph = Graph::new();
        let a = graph.add_at("a", Box::new(Pass), worker(0));
        graph.wire(a, "out", To::Port(1));
        let receives = n % 2 == 1;
        if receives {
            graph.receive(0, a);
        }
        let ports = wires.parts(n % 2, n % 2, n == 0);
        let graphs = vec![graph_part(graph, &[n % 2], &[])];
        engine.install(Blueprint { workers: 2, ports, graphs, ..Blueprint::default() }).unwrap();
        wires.handles[0].send_all((0..10).map(|n| frame(0, n)));
        settle(&mut engine);
        let account = total(&engine.snapshot());
        assert_eq!(account.transmitted, if receives { 10 * (n as u64 + 1) } else { 10 * n as u64 }, "step {n}");
    }
}

/// Stands still until it is let go.
struct Stuck(Arc<AtomicBool>, Arc<AtomicBool>);

impl weir_stage::Stage for Stuck {
    fn declare(&self) -> weir_stage::Declaration {
        weir_stage::Declaration::of::<Exit>()
    }
    fn run(&mut self, _: &mut weir_packet::Batch, _: &mut weir_stage::Out<'_>) {
        self.0.store(true, Ordering::Release);
        while !self.1.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
}

/// A worker that does not answer keeps its queues, the others get theirs back, and the next attempt succeeds.
#[test]
fn a_stuck_worker_refuses_a_move_and_nothing_changes() {
    let mut wires = Wires::new(4);
    let mut engine = engine(2, false, &wires.pool);
    let (is_stuck, let_go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let blueprint = |wires: &mut Wires, swapped: bool, fresh| {
        let mut parts = wires.parts(0, 0, fresh);
        let on = |first: bool| usize::from(first == swapped);
        for (n, part) in parts.iter_mut().enumerate() {
            part.rx[0].0 = on(n < 2);
            part.tx[0].0 = on(n < 2);
        }
        let graph = |name: &str, stage: Box<dyn weir_stage::Stage>, from, to| {
            let mut graph = Graph::new();
            let id = graph.add_at(name, stage, worker(0));
            graph.wire(id, "out", To::Port(to));
            graph.receive(from, id);
            graph
        };
        let stuck = graph("stuck", Box::new(Stuck(Arc::clone(&is_stuck), Arc::clone(&let_go))), 0, 1);
        let pass = graph("pass", Box::new(Pass), 2, 3);
        let graphs = vec![graph_part(stuck, &[on(true)], &[]), graph_part(pass, &[on(false)], &[])];
        Blueprint { workers: 2, ports: parts, graphs, ..Blueprint::default() }
    };
    let first = blueprint(&mut wires, false, true);
    engine.install(first).unwrap();
    wires.handles[0].send_all((0..10).map(|n| frame(0, n)));
    wait(|| is_stuck.load(Ordering::Acquire));
    let swapped = blueprint(&mut wires, true, false);
    assert!(matches!(engine.install(swapped), Err(weir_engine::EngineError::Stalled(_))));
    wires.handles[2].send_all((0..10).map(|n| frame(0, n)));
    wait(|| wires.handles[3].report().packets == 10);
    let_go.store(true, Ordering::Release);
    wait(|| wires.handles[1].report().packets == 10);
    let swapped = blueprint(&mut wires, true, false);
    engine.install(swapped).unwrap();
    wires.handles[0].send_all((0..10).map(|n| frame(0, n)));
    wires.handles[2].send_all((0..10).map(|n| frame(0, n)));
    wait(|| wires.handles[1].report().packets == 20 && wires.handles[3].report().packets == 20);
    let account = total(&engine.stop());
    assert_eq!((account.received, account.transmitted, account.dropped), (40, 40, 0));
    assert_eq!(wires.missing(&[]), 0);
}
