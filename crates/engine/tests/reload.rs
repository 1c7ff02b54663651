//! Reloads under load: kept stages keep state and counters, replaced ones give their packets up by name, nothing is lost.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::*;
use weir_engine::Blueprint;
use weir_stage::{Graph, To};

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
