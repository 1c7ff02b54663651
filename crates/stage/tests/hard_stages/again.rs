//! An `again` way: a stage that takes one layer off a packet, and wants to see it again if there is another.

use proptest::prelude::*;
use weir_packet::Batch;
use weir_stage::harness::Harness;
use weir_stage::{Declaration, Fate, Graph, MAX_PASSES, Out, Stage, To, ways};

use crate::tally::{Event, Tally, events};

ways! {
    /// Ways out of [`Peel`].
    enum Way {
        /// Nothing left to take off.
        Out => way "out",
        /// Another layer lies below.
        Again => again "again",
        /// Nothing is in it.
        Empty => drop "empty",
    }
}

/// A layer is one byte of 0xff.
const LAYER: u8 = 0xff;

struct Peel;

impl Stage for Peel {
    fn declare(&self) -> Declaration {
        Declaration::of::<Way>()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        out.each(batch, |_, packet, _| {
            if packet.bytes().first() == Some(&LAYER) {
                packet.trim_front(1);
            }
            match packet.bytes().first() {
                Some(&LAYER) => Way::Again,
                Some(_) => Way::Out,
                None => Way::Empty,
            }
        });
    }
}

#[test]
fn layers_come_off_one_per_pass() {
    let mut harness = Harness::new(Peel);
    let mut packets = vec![[vec![LAYER; 4], vec![1; 20]].concat()];
    let mut passes = 0;
    loop {
        let outcome = harness.run(0, &packets);
        if !outcome.way("out").is_empty() {
            assert_eq!(outcome.way("out"), [vec![1; 20]]);
            break;
        }
        packets = outcome.way("again").to_vec();
        passes += 1;
    }
    assert_eq!(passes, 3);
    assert!(passes <= MAX_PASSES);
}

#[test]
fn only_an_again_way_may_go_round() {
    let round = |way: &str| {
        let mut graph = Graph::new();
        let first = graph.add("first", Peel);
        let second = graph.add("second", Peel);
        graph.receive(0, first);
        graph.wire(first, "out", To::Stage(second));
        graph.wire(second, way, To::Stage(first));
        graph.check()
    };
    assert!(round("again").is_ok());
    assert!(round("out").unwrap_err().to_string().contains("the graph has a cycle through or before first, second"));
    let mut graph = Graph::new();
    let peel = graph.add("peel", Peel);
    graph.receive(0, peel);
    graph.wire(peel, "again", To::Stage(peel));
    assert!(graph.check().is_ok(), "also to the stage itself");
    let mut graph = Graph::new();
    let peel = graph.add("peel", Peel);
    graph.receive(0, peel);
    graph.wire(peel, "again", To::Port(0));
    assert!(graph.check().unwrap_err().to_string().contains("an 'again' way cannot lead to a port"));
    assert_eq!(Peel.declare().fate_of(1), Fate::Again);
}

proptest! {
    #[test]
    fn packets_are_conserved(events in events(60)) {
        Tally::new(Harness::small(Peel, 100)).play(events.into_iter().map(with_layers).collect(), |_, _| {});
    }
}

/// The same events with some layers on every packet.
fn with_layers(event: Event) -> Event {
    match event {
        Event::Packets(packets) => {
            Event::Packets(packets.into_iter().map(|packet| [vec![LAYER; packet.len() % 5], packet].concat()).collect())
        }
        other => other,
    }
}
