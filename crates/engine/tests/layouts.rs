//! Distributors, polled stages under the virtual clock, and observers.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::{Arc, Mutex};

use common::*;
use weir_engine::{Blueprint, Demultiplexer, Distributor, Event, Observer, What};
use weir_packet::{Batch, Held};
use weir_stage::{Declaration, Fate, Graph, Out, Stage, To};

/// Spreads packets by their second byte.
struct ByFlow(u8);

impl Stage for ByFlow {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>().indexed("replica", self.0.into())
    }
    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        for slot in batch.slots() {
            let flow = batch.get(slot).unwrap().bytes()[1];
            out.answer_indexed(slot, flow % self.0);
        }
    }
}

fn chain() -> Graph {
    let mut graph = Graph::new();
    let stage = graph.add("work", ByByte::default());
    graph.wire(stage, "out", To::Port(1));
    graph.wire(stage, "side", To::Port(1));
    graph.wire(stage, "again", To::Stage(stage));
    graph.receive(0, stage);
    graph
}

/// Worker 0 receives, and spreads packets over replicas of a graph on workers 1 and 2.
fn distributed(wires: &mut Wires, replica: impl Fn() -> Graph) -> Blueprint {
    let graphs = (1..=2).map(|worker| {
        let mut part = graph_part(replica(), &[worker], &[]);
        part.receives = false;
        part
    });
    let distributor = Distributor {
        name: "spread".into(),
        stage: Box::new(|| Box::new(ByFlow(2))),
        worker: 0,
        replicas: vec![0, 1],
        keep: false,
    };
    Blueprint {
        workers: 3,
        ports: wires.parts(0, 0, true),
        graphs: graphs.collect(),
        distributors: vec![distributor],
        ..Blueprint::default()
    }
}

#[test]
fn a_distributor_keeps_the_order_of_each_flow() {
    for virtual_clock in [true, false] {
        let mut wires = Wires::new(2);
        let mut engine = engine(3, virtual_clock, &wires.pool);
        engine.install(distributed(&mut wires, chain)).unwrap();
        let flow = |n: u32| (n % 7) as u8;
        wires.handles[0].send_all((0..5000).map(|n| {
            let mut frame = frame(0, n);
            frame[1] = flow(n);
            frame
        }));
        if virtual_clock {
            settle(&mut engine);
        } else {
            wait(|| wires.handles[0].waiting() == 0);
            wait(|| engine.snapshot().iter().all(|worker| worker.quiet));
        }
        let snapshots = engine.snapshot();
        let account = total(&snapshots);
        assert_eq!((account.received, account.transmitted), (5000, 5000));
        let both: Vec<u64> =
            snapshots[1..3].iter().map(|worker| worker.stages.first().map_or(0, |stage| stage.packets)).collect();
        assert_eq!(both.iter().sum::<u64>(), 5000);
        assert!(both.iter().all(|packets| *packets > 2000), "{both:?}");
        let out = wires.handles[1].received();
        for wanted in 0..7 {
            let numbers: Vec<u32> = out.iter().filter(|frame| frame[1] == wanted).map(|frame| number(frame)).collect();
            assert!(numbers.is_sorted(), "flow {wanted} was reordered");
        }
    }
}

/// Replicas whose packets enter by a stage for each port get what came by that port.
#[test]
fn a_distributor_leads_packets_of_each_port_to_their_own_entry() {
    let mut wires = Wires::new(2);
    let mut engine = engine(3, true, &wires.pool);
    let replica = || {
        let mut graph = Graph::new();
        for (from, to) in [(0, 1), (1, 0)] {
            let stage = graph.add(format!("from-{from}"), ByByte::default());
            graph.wire(stage, "out", To::Port(to));
            graph.wire(stage, "side", To::Port(to));
            graph.wire(stage, "again", To::Stage(stage));
            graph.receive(from, stage);
        }
        graph
    };
    engine.install(distributed(&mut wires, replica)).unwrap();
    let frames = |from: u8| (0..100).map(move |n| frame(0, u32::from(from) * 1000 + n));
    wires.handles[0].send_all(frames(0));
    wires.handles[1].send_all(frames(1));
    settle(&mut engine);
    for from in [0, 1_u8] {
        let mut out: Vec<u32> =
            wires.handles[1 - usize::from(from)].received().iter().map(|frame| number(frame)).collect();
        out.sort_unstable();
        let wanted: Vec<u32> = (0..100).map(|n| u32::from(from) * 1000 + n).collect();
        assert_eq!(out, wanted, "what came by port {from}");
    }
}

/// A port that three functions share: the first on the worker that receives, the second behind a distributor, the third on another worker.
#[test]
fn a_shared_port_leads_to_every_function_that_has_it() {
    for virtual_clock in [true, false] {
        let mut wires = Wires::new(2);
        let mut engine = engine(3, virtual_clock, &wires.pool);
        let named = |name: &str| {
            let mut graph = Graph::new();
            let stage = graph.add(name, Pass);
            graph.wire(stage, "out", To::Port(1));
            graph.receive(0, stage);
            graph
        };
        let mut blueprint = distributed(&mut wires, || named("second"));
        blueprint.graphs.push(graph_part(named("first"), &[0], &[]));
        blueprint.graphs.push(graph_part(named("third"), &[2], &[]));
        blueprint.demultiplexers.push(Demultiplexer {
            name: "shared".into(),
            port: 0,
            stage: Box::new(|| Box::new(ByFlow(3))),
            functions: vec![vec![2], vec![0, 1], vec![3]],
        });
        engine.install(blueprint).unwrap();
        wires.handles[0].send_all((0..3000).map(|n| {
            let mut frame = frame(0, n);
            frame[1] = (n % 6) as u8;
            frame
        }));
        if virtual_clock {
            settle(&mut engine);
        } else {
            wait(|| wires.handles[0].waiting() == 0);
            wait(|| engine.snapshot().iter().all(|worker| worker.quiet));
        }
        let snapshots = engine.snapshot();
        let account = total(&snapshots);
        assert_eq!((account.received, account.transmitted), (3000, 3000));
        let count = |name: &str| -> Vec<u64> {
            let stages = snapshots.iter().map(|worker| worker.stages.iter().find(|stage| stage.name == name));
            stages.map(|stage| stage.map_or(0, |stage| stage.packets)).collect()
        };
        assert_eq!(count("shared")[..3], [3000, 0, 0], "one stage, where packets are received");
        assert_eq!(count("first")[..3], [1000, 0, 0]);
        assert_eq!(count("spread")[..3], [1000, 0, 0]);
        assert_eq!(count("second")[..3], [0, 500, 500]);
        assert_eq!(count("third")[..3], [0, 0, 1000]);
    }
}

/// Releases each packet so many nanoseconds after it came.
struct Delay(u64, Vec<(u64, Held)>);

impl Stage for Delay {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>().polled()
    }
    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        for slot in batch.slots() {
            self.1.extend(batch.hold(slot).map(|held| (out.now() + self.0, held)));
        }
    }
    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        let due = self.1.iter().take_while(|(at, _)| *at <= out.now()).count();
        for (at, held) in self.1.drain(..due) {
            assert!(out.now() < at + 2_000, "released {} ns late", out.now() - at);
            out.send(held, Exit::Out);
        }
        self.1.first().map_or(u64::MAX, |(at, _)| *at)
    }
    fn held(&self) -> u64 {
        self.1.len() as u64
    }
    fn clear(&mut self, give: &mut dyn FnMut(Held)) {
        self.1.drain(..).for_each(|(_, held)| give(held));
    }
}

#[test]
fn the_virtual_clock_leaps_to_what_is_due() {
    let mut wires = Wires::new(2);
    let mut engine = engine(1, true, &wires.pool);
    let mut graph = Graph::new();
    let stage = graph.add("delay", Delay(5_000_000_123, Vec::new()));
    graph.wire(stage, "out", To::Port(1));
    graph.receive(0, stage);
    let ports = wires.parts(0, 0, true);
    let graphs = vec![graph_part(graph, &[0], &[])];
    engine.install(Blueprint { workers: 1, ports, graphs, ..Blueprint::default() }).unwrap();
    wires.handles[0].send_all((0..10).map(|n| frame(0, n)));
    let mut steps = 0;
    while wires.handles[1].report().packets < 10 {
        engine.step();
        steps += 1;
    }
    assert!(engine.now() >= 5_000_000_123 && engine.now() < 5_000_200_000, "{}", engine.now());
    assert!(steps < 1000, "{steps} steps for five seconds");
    total(&engine.snapshot());
}

#[test]
fn the_virtual_clock_leaps_over_days_and_not_beyond_what_is_asked_for() {
    const DAY: u64 = 86_400_000_000_000;
    let mut wires = Wires::new(2);
    let mut engine = engine(1, true, &wires.pool);
    let mut graph = Graph::new();
    let stage = graph.add("delay", Delay(3 * DAY, Vec::new()));
    graph.wire(stage, "out", To::Port(1));
    graph.receive(0, stage);
    let ports = wires.parts(0, 0, true);
    let graphs = vec![graph_part(graph, &[0], &[])];
    engine.install(Blueprint { workers: 1, ports, graphs, ..Blueprint::default() }).unwrap();
    wires.handles[0].send_all((0..10).map(|n| frame(0, n)));
    (0..100).for_each(|_| _ = engine.step_until(DAY));
    assert!(engine.now() >= DAY && engine.now() < DAY + 200_000, "{}", engine.now());
    (0..100).for_each(|_| _ = engine.step_until(4 * DAY));
    assert_eq!(wires.handles[1].report().packets, 10, "after 200 steps it is {} ns", engine.now());
    total(&engine.snapshot());
}

/// Hands to another stage, beside any packet, what it is told by one.
struct Tells(Arc<Mutex<Option<u64>>>);

impl Stage for Tells {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>()
    }
    fn run(&mut self, _: &mut Batch, out: &mut Out<'_>) {
        self.0.lock().unwrap().get_or_insert(out.now());
    }
}

/// Notes when it finds what it was left.
struct Listens(Arc<Mutex<Option<u64>>>, Arc<Mutex<Option<u64>>>);

impl Stage for Listens {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>().polled()
    }
    fn run(&mut self, _: &mut Batch, _: &mut Out<'_>) {}
    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        if self.0.lock().unwrap().take().is_some() {
            *self.1.lock().unwrap() = Some(out.now());
        }
        out.look_again(1_000_000)
    }
}

#[test]
fn virtual_time_does_not_leap_over_what_was_left_for_a_stage() {
    let mut wires = Wires::new(2);
    let mut engine = engine(2, true, &wires.pool);
    let (left, found) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)));
    let mut graph = Graph::new();
    // The one that listens has its turn first, so that it finds nothing in the round in which it is told.
    let listens = graph.add_at("listens", Box::new(Listens(Arc::clone(&left), Arc::clone(&found))), worker(0));
    let tells = graph.add_at("tells", Box::new(Tells(Arc::clone(&left))), worker(1));
    graph.wire(listens, "out", To::Stage(tells));
    graph.wire(tells, "out", To::Port(1));
    graph.receive(0, listens);
    let ports = wires.parts(0, 1, true);
    let graphs = vec![graph_part(graph, &[0, 1], &[])];
    engine.install(Blueprint { workers: 2, ports, graphs, ..Blueprint::default() }).unwrap();
    settle(&mut engine);
    wires.handles[0].send_all([frame(0, 1)]);
    let sent = engine.now();
    settle(&mut engine);
    let found = found.lock().unwrap().expect("nobody looked");
    assert!(found - sent < 10_100_000, "found {} ns after", found - sent);
    // What somebody outside leaves is found as soon as the engine is told of it.
    *left.lock().unwrap() = Some(0);
    engine.rouse();
    let roused = engine.now();
    (0..3).for_each(|_| _ = engine.step());
    assert!(left.lock().unwrap().is_none() && engine.now() < roused + 10_000_000 + 3_000, "{}", engine.now());
}

#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl Observer for Seen {
    fn event(&self, event: &Event<'_>) {
        let n = event.bytes.get(20..24).map_or(0, |_| number(event.bytes));
        let text = match event.what {
            What::Received { port } => format!("{n} received {port}"),
            What::Left { stage, way, fate } => format!("{n} {stage} {way} {}", fate == Fate::Drop),
            What::Taken { stage } => format!("taken {stage}"),
            What::Created { stage, reason } => format!("{n} {stage} created {reason}"),
            What::Transmitted { port } => format!("{n} transmitted {port}"),
            What::Crossed { out, into } => format!("{n} crossed {out} {into}"),
            What::Dropped { place, reason } => format!("{n} dropped {place} {reason}"),
        };
        self.0.lock().unwrap().push(text);
    }
}

#[test]
fn observers_are_told_everything_and_change_nothing() {
    let mut wires = Wires::new(2);
    let mut engine = engine(1, true, &wires.pool);
    let ports = wires.parts(0, 0, true);
    let graphs = vec![graph_part(chain(), &[0], &[])];
    engine.install(Blueprint { workers: 1, ports, graphs, ..Blueprint::default() }).unwrap();
    let seen = Arc::new(Seen::default());
    let observer: Arc<dyn Observer> = Arc::clone(&seen) as Arc<dyn Observer>;
    engine.observe(&observer);
    // 0 out, 3 dropped, 4 consumed, 5 copied, 6 held, 2 round until it is dropped.
    wires.handles[0].send_all([0, 3, 4, 5, 6, 2].into_iter().enumerate().map(|(n, what)| frame(what, n as u32)));
    settle(&mut engine);
    engine.unobserve(&observer);
    wires.handles[0].send(frame(0, 99));
    settle(&mut engine);
    let mut events = seen.0.lock().unwrap().clone();
    events.sort();
    let mut expected: Vec<String> = [
        "0 received 0",
        "1 received 0",
        "2 received 0",
        "3 received 0",
        "4 received 0",
        "5 received 0",
        "0 work out false",
        "0 transmitted 1",
        "1 work bad true",
        "2 work eaten false",
        "3 work out false",
        "3 transmitted 1",
        "3 work created copy",
        "3 work side false",
        "3 transmitted 1",
        "taken work",
        "5 work again false",
        "5 work again false",
        "5 work again false",
        "5 work again false",
        "5 work again false",
        "5 dropped work loop-limit",
    ]
    .map(str::to_owned)
    .to_vec();
    expected.sort();
    assert_eq!(events, expected);
    assert_eq!(total(&engine.snapshot()).transmitted, 4);
}

#[test]
fn the_real_clock_starts_at_zero_and_runs_like_the_world() {
    let wires = Wires::new(2);
    let engine = engine(1, false, &wires.pool);
    let began = std::time::Instant::now();
    let first = engine.now();
    assert!(first < 5_000_000_000, "{first} ns have passed since the start");
    wait(|| began.elapsed() >= std::time::Duration::from_millis(100));
    let passed = engine.now() - first;
    assert!((90_000_000..2_000_000_000).contains(&passed), "{passed} ns for 100 ms or a little more");
}
