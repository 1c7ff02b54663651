//! The account is exact whatever happens to packets, and shows it when a stage loses some.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use common::*;
use proptest::prelude::*;
use weir_engine::Blueprint;
use weir_port_mem::TxMode;
use weir_stage::{Graph, Place, To};

/// p0 -> first -> second -> p1, with side ways to p2 and rounds.
fn graph(second: Place) -> Graph {
    let mut graph = Graph::new();
    let first = graph.add_at("first", Box::new(ByByte::default()), worker(0));
    let last = graph.add_at("second", Box::new(Pass), second);
    graph.wire(first, "out", To::Stage(last));
    graph.wire(first, "side", To::Port(2));
    graph.wire(first, "again", To::Stage(first));
    graph.wire(last, "out", To::Port(1));
    graph.receive(0, first);
    graph.receive(1, first);
    graph.receive(2, first);
    graph
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// What a person would count with paper and pencil is what the engine reports, for one worker and for a pipeline.
    #[test]
    fn every_fate_is_counted(what in prop::collection::vec(0_u8..8, 0..3000), pipeline in any::<bool>(), control in any::<bool>()) {
        let mut wires = Wires::new(3);
        let mut engine = engine(if pipeline { 2 } else { 1 }, true, &wires.pool);
        let place = if control { Place::Control } else { worker(1) };
        let workers: &[usize] = if pipeline { &[0, 1] } else { &[0] };
        let blueprint = Blueprint {
            workers: workers.len(),
            ports: wires.parts(0, workers.len() - 1, true),
            graphs: vec![graph_part(graph(place), workers, &[])],
            ..Blueprint::default()
        };
        engine.install(blueprint).unwrap();
        wires.handles[0].send_all(what.iter().enumerate().map(|(n, what)| frame(*what, n as u32)));
        settle(&mut engine);
        let snapshots = engine.snapshot();
        let account = total(&snapshots);
        let count = |wanted: &[u8]| what.iter().filter(|what| wanted.contains(what)).count() as u64;
        prop_assert_eq!(account.received, what.len() as u64);
        prop_assert_eq!(account.created, count(&[5]));
        prop_assert_eq!(account.consumed, count(&[4]));
        prop_assert_eq!(account.held, count(&[6]));
        // 2 goes round until the loop limit; links to and from the control side may drop when full.
        let full: u64 = snapshots.iter().flat_map(|worker| &worker.drops).filter(|drop| drop.reason == "link-full").map(|drop| drop.packets).sum();
        prop_assert_eq!(account.dropped, count(&[2, 3]) + full);
        prop_assert_eq!(account.transmitted + full, count(&[0, 1, 5, 7]) + count(&[5]));
        // Something outside the account: what lies at the sinks, and in which order.
        let out: Vec<u32> = wires.handles[1].received().iter().map(|frame| number(frame)).collect();
        let side: Vec<u32> = wires.handles[2].received().iter().map(|frame| number(frame)).collect();
        prop_assert_eq!((out.len() + side.len()) as u64, account.transmitted);
        let straight: Vec<u32> = out.iter().copied().filter(|n| matches!(what[*n as usize], 0 | 5)).collect();
        prop_assert!(straight.is_sorted(), "a path changed the order");
        // And the pool's books.
        prop_assert_eq!(wires.missing(&snapshots) as u64, account.held);
        let last = engine.stop();
        let account = total(&last);
        prop_assert_eq!(account.held, 0);
        prop_assert_eq!(wires.missing(&[]), 0);
    }
}

#[test]
fn a_stage_that_leaks_is_found_out() {
    let mut wires = Wires::new(2);
    let mut engine = engine(1, true, &wires.pool);
    let mut graph = Graph::new();
    let leaky = graph.add("leaky", Leaky::default());
    graph.wire(leaky, "out", To::Port(1));
    graph.receive(0, leaky);
    let ports = wires.parts(0, 0, true);
    let graphs = vec![graph_part(graph, &[0], &[])];
    engine.install(Blueprint { workers: 1, ports, graphs, ..Blueprint::default() }).unwrap();
    wires.handles[0].send_all((0..1000).map(|n| frame(0, n)));
    settle(&mut engine);
    let snapshots = engine.snapshot();
    assert_eq!(snapshots[0].account.unaccounted(), 100);
    assert_eq!(wires.missing(&snapshots), 100);
}

#[test]
fn a_port_that_takes_nothing_drops_by_name_and_holds_what_it_says() {
    let mut wires = Wires::new(3);
    let mut engine = engine(1, true, &wires.pool);
    let ports = wires.parts(0, 0, true);
    let graphs = vec![graph_part(graph(worker(0)), &[0], &[])];
    engine.install(Blueprint { workers: 1, ports, graphs, ..Blueprint::default() }).unwrap();
    wires.handles[1].set_tx(TxMode::Stuck);
    wires.handles[0].send_all((0..1000).map(|n| frame(0, n)));
    for _ in 0..100 {
        engine.step();
    }
    let snapshots = engine.snapshot();
    let account = total(&snapshots);
    assert_eq!((account.received, account.transmitted), (1000, 0));
    let drop = snapshots[0].drops.iter().find(|drop| drop.reason == "tx-full").unwrap();
    assert_eq!((drop.stage.as_str(), drop.packets + account.held), ("p1", 1000));
    assert!(account.held > 0 && account.held <= 128);
    assert_eq!(wires.missing(&snapshots) as u64, account.held);
    // When it takes packets again, those that waited go first.
    wires.handles[1].set_tx(TxMode::Slow(7));
    settle(&mut engine);
    let out: Vec<u32> = wires.handles[1].received().iter().map(|frame| number(frame)).collect();
    assert_eq!(out.len() as u64, account.held);
    assert!(out.is_sorted());
    assert_eq!(total(&engine.snapshot()).held, 0);
}

#[test]
fn a_port_that_vanishes_drops_as_link_down() {
    let mut wires = Wires::new(3);
    let mut engine = engine(1, true, &wires.pool);
    let ports = wires.parts(0, 0, true);
    let graphs = vec![graph_part(graph(worker(0)), &[0], &[])];
    engine.install(Blueprint { workers: 1, ports, graphs, ..Blueprint::default() }).unwrap();
    wires.handles[0].send_all((0..500).map(|n| frame(0, n)));
    settle(&mut engine);
    wires.handles[1].disappear();
    wires.handles[0].send_all((0..700).map(|n| frame(0, n)));
    settle(&mut engine);
    let snapshots = engine.snapshot();
    let account = total(&snapshots);
    assert_eq!((account.received, account.transmitted, account.held), (1200, 500, 0));
    let reasons: Vec<(&str, u64)> =
        snapshots[0].drops.iter().map(|drop| (drop.reason.as_str(), drop.packets)).collect();
    assert_eq!(reasons.iter().map(|(_, packets)| packets).sum::<u64>(), 700, "{reasons:?}");
    assert!(reasons.iter().any(|(reason, packets)| *reason == "link-down" && *packets > 0), "{reasons:?}");
}

#[test]
fn a_full_no_drop_link_pushes_back_and_loses_nothing() {
    let mut wires = Wires::new(3);
    let mut engine = engine(2, false, &wires.pool);
    let blueprint = Blueprint {
        workers: 2,
        ports: wires.parts(0, 1, true),
        graphs: vec![graph_part(graph(worker(1)), &[0, 1], &[])],
        ..Blueprint::default()
    };
    engine.install(blueprint).unwrap();
    // The second worker cannot get rid of anything for a while: its port takes one packet per call.
    wires.handles[1].set_tx(TxMode::Slow(1));
    wires.handles[0].send_all((0..15_000).map(|n| frame(0, n)));
    wait(|| wires.handles[0].waiting() == 0);
    wires.handles[1].set_tx(TxMode::Normal);
    wait(|| engine.snapshot().iter().all(|worker| worker.quiet));
    let snapshots = engine.snapshot();
    let account = total(&snapshots);
    let dropped: Vec<&str> = snapshots.iter().flat_map(|w| &w.drops).map(|drop| drop.reason.as_str()).collect();
    assert!(dropped.iter().all(|reason| *reason == "tx-full"), "{dropped:?}");
    assert_eq!(account.received, 15_000);
    assert_eq!(account.transmitted + account.dropped, 15_000);
    assert_eq!(account.links_in, account.links_out);
    let out: Vec<u32> = wires.handles[1].received().iter().map(|frame| number(frame)).collect();
    assert!(out.is_sorted());
    assert_eq!(out.len() as u64, account.transmitted);
}

#[test]
fn links_may_drop_what_finds_them_full() {
    // Two queues give two packets in the time in which the link's far end takes one.
    let send = |wires: &Wires| {
        wires.handles[0].send_all((0..20_000).map(|n| frame(0, n)));
        wires.handles[2].send_all((0..20_000).map(|n| frame(0, n)));
    };
    for links_drop in [false, true] {
        let mut wires = Wires::new(3);
        let mut engine = engine(2, true, &wires.pool);
        let part = graph_part(graph(worker(1)), &[0, 1], &[]);
        let blueprint = Blueprint {
            workers: 2,
            ports: wires.parts(0, 1, true),
            graphs: vec![part],
            links_drop,
            ..Blueprint::default()
        };
        engine.install(blueprint).unwrap();
        send(&wires);
        settle(&mut engine);
        let snapshots = engine.snapshot();
        let account = total(&snapshots);
        assert_eq!((account.received, account.transmitted + account.dropped), (40_000, 40_000));
        let full = snapshots[0].drops.iter().find(|drop| drop.reason == "link-full");
        assert_eq!(full.map_or(0, |drop| drop.packets), account.dropped);
        assert_eq!((account.dropped > 0, snapshots[0].backpressure > 0), (links_drop, !links_drop));
    }
}

#[test]
fn a_graph_whose_links_lead_round_is_refused_and_nothing_changes() {
    let mut wires = Wires::new(3);
    let mut engine = engine(2, true, &wires.pool);
    let ports = wires.parts(0, 0, true);
    let round = || vec![graph_part(graph(worker(1)), &[0, 1], &[]), graph_part(renamed(), &[1, 0], &[])];
    let error = engine.install(Blueprint { workers: 2, ports, graphs: round(), ..Blueprint::default() }).unwrap_err();
    assert!(error.to_string().contains("lead from it back to it"), "{error}");
    assert!(engine.snapshot().iter().all(|worker| worker.stages.is_empty()));
}

fn renamed() -> Graph {
    let mut graph = Graph::new();
    let first = graph.add_at("third", Box::new(Pass), worker(0));
    let last = graph.add_at("fourth", Box::new(Pass), worker(1));
    graph.wire(first, "out", To::Stage(last));
    graph
}
