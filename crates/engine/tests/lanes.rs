//! What is known about packets goes along to another worker where somebody reads it there, and nowhere else.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::*;
use weir_engine::{Blueprint, Engine, JointEnd};
use weir_packet::{Batch, Held, Key, LaneId, LaneSet};
use weir_stage::{Declaration, Graph, Out, Stage, To};

/// Writes each packet's number to a claimed lane, and its class.
struct Mark(Key<u32>);

impl Stage for Mark {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>().writes(&[self.0.into(), LaneId::Class])
    }

    fn run(&mut self, batch: &mut Batch, _: &mut Out<'_>) {
        let key = self.0;
        batch.each(|slot, packet, lanes| {
            lanes.set(key, slot, number(packet.bytes()) + 7);
            lanes.class[slot] = 5;
        });
    }
}

/// Writes what it knows into packets: the port, and what [`Mark`] wrote if it reads that.
struct Witness(Option<Key<u32>>);

impl Stage for Witness {
    fn declare(&self) -> Declaration {
        let declaration = Declaration::of::<Exit>().reads(&[LaneId::Port]);
        self.0.iter().fold(declaration, |declaration, key| declaration.reads(&[(*key).into()]))
    }

    fn run(&mut self, batch: &mut Batch, _: &mut Out<'_>) {
        let key = self.0;
        batch.each(|slot, packet, lanes| {
            let bytes = packet.bytes_mut();
            bytes[30..32].copy_from_slice(&lanes.port[slot].to_be_bytes());
            let marked = key.map_or(0, |key| lanes.get(key, slot));
            bytes[32..36].copy_from_slice(&marked.to_be_bytes());
        });
    }
}

/// Writes 9 in place of whatever [`Mark`] wrote.
struct Anew(Key<u32>);

impl Stage for Anew {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>().renews(&[self.0.into()])
    }

    fn run(&mut self, batch: &mut Batch, _: &mut Out<'_>) {
        let key = self.0;
        batch.each(|slot, _, lanes| lanes.set(key, slot, 9));
    }
}

/// A mark on worker 0, a stage that reads nothing on worker 1, a witness on worker 2, from p0 to p1.
fn pipeline(reads: bool) -> Graph {
    let mut graph = Graph::new();
    let key = graph.claim("number").unwrap();
    let mark = graph.add("mark", Mark(key));
    let pass = graph.add_at("pass", Box::new(Pass), worker(1));
    let witness = graph.add_at("witness", Box::new(Witness(reads.then_some(key))), worker(2));
    graph.wire(mark, "out", To::Stage(pass));
    graph.wire(pass, "out", To::Stage(witness));
    graph.wire(witness, "out", To::Port(1));
    graph.receive(0, mark);
    graph
}

/// What goes over each link, by what it leads to.
fn carried(engine: &mut Engine) -> BTreeMap<String, LaneSet> {
    let snapshots = engine.snapshot();
    snapshots.iter().flat_map(|worker| &worker.links).map(|link| (link.name.clone(), link.lanes)).collect()
}

fn sets(links: &[(&str, &[LaneId])]) -> BTreeMap<String, LaneSet> {
    links.iter().map(|(name, lanes)| ((*name).to_owned(), LaneSet::of(lanes))).collect()
}

#[test]
fn links_carry_what_is_read_behind_them() {
    for virtual_clock in [true, false] {
        let mut wires = Wires::new(2);
        let mut engine = engine(3, virtual_clock, &wires.pool);
        let (ports, graphs) = (wires.parts(0, 0, true), vec![graph_part(pipeline(true), &[0, 1, 2], &[])]);
        engine.install(Blueprint { workers: 3, ports, graphs, ..Blueprint::default() }).unwrap();
        // The class that nobody reads stays behind, and so does the time; to the port nothing goes.
        let both: &[LaneId] = &[LaneId::Port, LaneId::User(0)];
        let expected = [("0 -> 1: pass", both), ("1 -> 2: witness", both), ("2 -> 0: port p1", &[])];
        assert_eq!(carried(&mut engine), sets(&expected));
        wires.handles[0].send_all((0..500).map(|n| frame(0, n)));
        if virtual_clock {
            settle(&mut engine);
        } else {
            wait(|| engine.snapshot().iter().map(|worker| worker.account.transmitted).sum::<u64>() == 500);
        }
        let out = wires.handles[1].received();
        assert_eq!(out.len(), 500);
        for (n, frame) in (0_u32..).zip(&out) {
            assert_eq!((number(frame), &frame[30..32]), (n, &[0, 0][..]));
            assert_eq!(frame[32..36], (n + 7).to_be_bytes());
        }
        total(&engine.snapshot());
    }
}

#[test]
fn where_nobody_reads_nothing_is_saved() {
    let mut wires = Wires::new(2);
    let mut engine = engine(2, true, &wires.pool);
    let mut graph = Graph::new();
    let key = graph.claim("number").unwrap();
    let (mark, pass) = (graph.add("mark", Mark(key)), graph.add_at("pass", Box::new(Pass), worker(1)));
    graph.wire(mark, "out", To::Stage(pass));
    graph.wire(pass, "out", To::Port(1));
    graph.receive(0, mark);
    let (ports, graphs) = (wires.parts(0, 1, true), vec![graph_part(graph, &[0, 1], &[])]);
    engine.install(Blueprint { workers: 2, ports, graphs, ..Blueprint::default() }).unwrap();
    assert_eq!(carried(&mut engine), sets(&[("0 -> 1: pass", &[])]));
    wires.handles[0].send_all((0..300).map(|n| frame(0, n)));
    settle(&mut engine);
    assert_eq!(wires.handles[1].received().len(), 300);
    assert_eq!(total(&engine.snapshot()).transmitted, 300);
}

#[test]
fn what_is_written_anew_behind_a_link_does_not_go_over_it() {
    let mut wires = Wires::new(2);
    let mut engine = engine(2, true, &wires.pool);
    let mut graph = Graph::new();
    let key = graph.claim("number").unwrap();
    let (mark, anew) = (graph.add("mark", Mark(key)), graph.add_at("anew", Box::new(Anew(key)), worker(1)));
    let witness = graph.add_at("witness", Box::new(Witness(Some(key))), worker(1));
    graph.wire(mark, "out", To::Stage(anew));
    graph.wire(anew, "out", To::Stage(witness));
    graph.wire(witness, "out", To::Port(1));
    graph.receive(0, mark);
    let (ports, graphs) = (wires.parts(0, 1, true), vec![graph_part(graph, &[0, 1], &[])]);
    engine.install(Blueprint { workers: 2, ports, graphs, ..Blueprint::default() }).unwrap();
    assert_eq!(carried(&mut engine), sets(&[("0 -> 1: anew", &[LaneId::Port])]));
    wires.handles[0].send_all((0..300).map(|n| frame(0, n)));
    settle(&mut engine);
    let out = wires.handles[1].received();
    assert_eq!(out.len(), 300);
    assert!(out.iter().all(|frame| frame[32..36] == 9_u32.to_be_bytes()));
    total(&engine.snapshot());
}

/// How often a packet went round is known behind a link, if packets go round there.
#[test]
fn rounds_are_counted_behind_links() {
    let mut wires = Wires::new(2);
    let mut engine = engine(2, true, &wires.pool);
    let mut graph = Graph::new();
    let first = graph.add("first", Pass);
    let again = graph.add_at("again", Box::new(ByByte::default()), worker(1));
    graph.wire(first, "out", To::Stage(again));
    for way in ["out", "side"] {
        graph.wire(again, way, To::Port(1));
    }
    graph.wire(again, "again", To::Stage(again));
    graph.receive(0, first);
    let (ports, graphs) = (wires.parts(0, 1, true), vec![graph_part(graph, &[0, 1], &[])]);
    engine.install(Blueprint { workers: 2, ports, graphs, ..Blueprint::default() }).unwrap();
    assert_eq!(carried(&mut engine), sets(&[("0 -> 1: again", &[LaneId::Passes])]));
    wires.handles[0].send_all([frame(2, 1), frame(0, 2)]);
    settle(&mut engine);
    let snapshots = engine.snapshot();
    let account = total(&snapshots);
    assert_eq!((account.transmitted, account.dropped), (1, 1));
    let stage = snapshots[1].stages.iter().find(|stage| stage.name == "again").unwrap();
    // Four rounds, and the time before.
    assert_eq!(stage.packets, 1 + 5);
}

/// A hop writes the port: before it none has to come along, behind it the far end's does.
#[test]
fn hops_bring_the_port_of_their_far_end() {
    let witness = |name: &str, from| {
        let mut graph = Graph::new();
        let witness = graph.add(name, Witness(None));
        graph.wire(witness, "out", To::Port(1));
        graph.receive(from, witness);
        graph
    };
    let (near, far) = (10, 11);
    let joint = [near, far].map(|index| JointEnd { name: format!("j{index}"), index });
    // The second function on the worker of the first one's end, and on another.
    for reader in [1, 2] {
        let mut wires = Wires::new(2);
        let mut engine = engine(3, true, &wires.pool);
        let mut graph = Graph::new();
        let (first, second) = (graph.add("first", Pass), graph.add_at("second", Box::new(Pass), worker(1)));
        graph.wire(first, "out", To::Stage(second));
        graph.wire(second, "out", To::Port(near));
        graph.receive(0, first);
        let graphs = vec![graph_part(graph, &[0, 1], &[]), graph_part(witness("witness", far), &[reader], &[])];
        let (ports, joints) = (wires.parts(0, reader, true), vec![(joint[0].clone(), joint[1].clone())]);
        engine.install(Blueprint { workers: 3, ports, joints, graphs, ..Blueprint::default() }).unwrap();
        let mut expected = sets(&[("0 -> 1: second", &[])]);
        if reader == 2 {
            expected.extend(sets(&[("1 -> 2: joint j10 j11", &[LaneId::Port])]));
        }
        assert_eq!(carried(&mut engine), expected);
        wires.handles[0].send_all((0..100).map(|n| frame(0, n)));
        settle(&mut engine);
        let out = wires.handles[1].received();
        assert!(out.len() == 100 && out.iter().all(|frame| frame[30..32] == far.to_be_bytes()), "{out:?}");
        total(&engine.snapshot());
    }
}

/// A link stays as long as what goes over it is enough for whoever reads behind it; packets of one that does not are told as lost.
#[test]
fn a_link_over_which_more_is_to_go_is_another() {
    let mut wires = Wires::new(2);
    let mut engine = engine(3, true, &wires.pool);
    let mut install = |engine: &mut Engine, reads, fresh, keep: &[&str]| {
        let (ports, graphs) = (wires.parts(0, 0, fresh), vec![graph_part(pipeline(reads), &[0, 1, 2], keep)]);
        engine.install(Blueprint { workers: 3, ports, graphs, ..Blueprint::default() }).unwrap();
        carried(engine)["1 -> 2: witness"]
    };
    let (less, more) = (LaneSet::of(&[LaneId::Port]), LaneSet::of(&[LaneId::Port, LaneId::User(0)]));
    assert_eq!(install(&mut engine, false, true, &[]), less);
    assert_eq!(install(&mut engine, true, false, &["mark", "pass"]), more);
    // It goes on as it is where less would do.
    assert_eq!(install(&mut engine, false, false, &["mark", "pass"]), more);
    assert_eq!(install(&mut engine, true, false, &["mark", "pass"]), more);
    wires.handles[0].send_all((0..200).map(|n| frame(0, n)));
    settle(&mut engine);
    let out = wires.handles[1].received();
    assert!(out.len() == 200 && out.iter().all(|frame| frame[32..36] == (number(frame) + 7).to_be_bytes()));
    let account = total(&engine.snapshot());
    assert_eq!((account.received, account.transmitted, account.held), (200, 200, 0));
}

/// Holds every packet for a poll, or for as long as it is told, with the lanes that are read behind it.
struct Lean {
    key: Key<u32>,
    held: Vec<Held>,
    keeps: Arc<AtomicBool>,
}

impl Stage for Lean {
    fn declare(&self) -> Declaration {
        // Whatever it reads itself, it reads before it holds.
        Declaration::of::<Exit>().reads(&[self.key.into()]).polled().lean()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        for slot in batch.slots() {
            self.held.extend(out.hold(batch, slot));
        }
    }

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        if !self.keeps.load(Ordering::Relaxed) {
            self.held.drain(..).for_each(|held| out.send(held, Exit::Out));
        }
        out.look_again(1_000_000)
    }

    fn held(&self) -> u64 {
        self.held.len() as u64
    }

    fn clear(&mut self, give: &mut dyn FnMut(Held)) {
        self.held.drain(..).for_each(give);
    }
}

/// What a stage holds with fewer lanes than are to be read behind it after a reload is told as lost; else it stays, and has what is read.
#[test]
fn packets_are_held_with_what_is_read_behind() {
    let mut wires = Wires::new(2);
    let mut engine = engine(1, true, &wires.pool);
    let keeps = Arc::new(AtomicBool::new(true));
    let install = |wires: &mut Wires, engine: &mut Engine, reads: bool, fresh, keep: &[&str]| {
        let mut graph = Graph::new();
        let key = graph.claim("number").unwrap();
        let mark = graph.add("mark", Mark(key));
        let lean = graph.add("lean", Lean { key, held: Vec::new(), keeps: Arc::clone(&keeps) });
        let witness = graph.add("witness", Witness(reads.then_some(key)));
        graph.wire(mark, "out", To::Stage(lean));
        graph.wire(lean, "out", To::Stage(witness));
        graph.wire(witness, "out", To::Port(1));
        graph.receive(0, mark);
        let (ports, graphs) = (wires.parts(0, 0, fresh), vec![graph_part(graph, &[0], keep)]);
        engine.install(Blueprint { workers: 1, ports, graphs, ..Blueprint::default() }).unwrap();
    };
    install(&mut wires, &mut engine, false, true, &[]);
    wires.handles[0].send_all((0..100).map(|n| frame(0, n)));
    settle(&mut engine);
    assert_eq!(total(&engine.snapshot()).held, 100);
    install(&mut wires, &mut engine, true, false, &["mark", "lean"]);
    let account = total(&engine.snapshot());
    assert_eq!((account.held, account.dropped), (0, 100));
    wires.handles[0].send_all((0..100).map(|n| frame(0, n)));
    settle(&mut engine);
    // What is held stays where no more is to be read than before.
    install(&mut wires, &mut engine, true, false, &["mark", "lean"]);
    assert_eq!(total(&engine.snapshot()).held, 100);
    keeps.store(false, Ordering::Relaxed);
    wires.handles[0].send_all([frame(0, 100)]);
    settle(&mut engine);
    let out = wires.handles[1].received();
    assert!(out.len() == 101 && out.iter().all(|frame| frame[32..36] == (number(frame) + 7).to_be_bytes()), "{out:?}");
    total(&engine.snapshot());
}
