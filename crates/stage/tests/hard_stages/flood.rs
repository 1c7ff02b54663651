//! A flood: one packet in, a packet for every port but the one it came in by.

use proptest::prelude::*;
use weir_packet::{BATCH, Batch, Held, Slot};
use weir_stage::harness::Harness;
use weir_stage::{Declaration, Out, Stage, ways};

use crate::tally::{Event, Tally, events};

ways! {
    /// Ways out of [`Flood`].
    enum Way {
        /// Not flooded: the first bit of the first byte (the group bit) is clear.
        Known => way "known",
        /// There is no port but the one it came in by.
        Alone => drop "alone",
        /// A copy for a further port.
        Copied => create "copied",
    }
}

struct Flood {
    ports: u8,
}

impl Flood {
    fn flood(&self, batch: &Batch, slot: Slot, out: &mut Out<'_>) {
        let Some(packet) = batch.get(slot) else { return };
        let from = batch.lanes.port[slot];
        let mut ports = (0..self.ports).filter(|&port| u16::from(port) != from);
        // The original takes the first port, so that one packet less is copied.
        match ports.next() {
            Some(first) => out.answer_indexed(slot, first),
            None => out.answer(slot, Way::Alone),
        }
        for port in ports {
            let Some(copy) = out.copy(packet) else { return };
            out.emit_indexed(Held::like(copy, &batch.lanes, slot), port, Way::Copied);
        }
    }
}

impl Stage for Flood {
    fn declare(&self) -> Declaration {
        Declaration::of::<Way>().indexed("port", self.ports as usize)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        for slot in batch.slots() {
            if batch.get(slot).is_some_and(|packet| packet.bytes().first().is_some_and(|first| first & 1 == 1)) {
                self.flood(batch, slot, out);
            }
        }
    }
}

#[test]
fn every_other_port_gets_a_copy_and_order_is_kept() {
    let mut harness = Harness::new(Flood { ports: 4 });
    harness.lanes().port.all_mut().fill(2);
    let packets: Vec<Vec<u8>> = (0..BATCH as u8).map(|n| vec![1, n, 9]).collect();
    let outcome = harness.run(0, &packets);
    for port in ["port[0]", "port[1]", "port[3]"] {
        assert_eq!(outcome.way(port), packets);
    }
    assert!(outcome.way("port[2]").is_empty() && outcome.way("known").is_empty());
    assert_eq!(outcome.created["copied"], 2 * BATCH as u64);
}

#[test]
fn a_full_batch_floods_to_64_ports_in_one_call() {
    let mut harness = Harness::new(Flood { ports: 65 });
    harness.lanes().port.all_mut().fill(64);
    let outcome = harness.run(0, &vec![vec![1; 60]; BATCH]);
    assert_eq!(outcome.counts().values().sum::<usize>(), 64 * BATCH);
    assert_eq!(outcome.created["copied"], 63 * BATCH as u64);
}

#[test]
fn a_port_by_itself_floods_nowhere() {
    let mut harness = Harness::new(Flood { ports: 1 });
    let outcome = harness.run(0, &[[1, 0], [0, 1]]);
    assert_eq!((outcome.way("alone").len(), outcome.way("known").len()), (1, 1));
}

#[test]
fn without_buffers_the_original_goes_all_the_same() {
    let mut harness = Harness::small(Flood { ports: 10 }, 12);
    harness.lanes().port.all_mut().fill(9);
    let outcome = harness.run(0, &vec![vec![1; 60]; 10]);
    assert_eq!((outcome.entered, outcome.way("port[0]").len(), outcome.created["copied"]), (10, 10, 2));
}

proptest! {
    #[test]
    fn packets_are_conserved(events in events(100), ports in 0_u8..20, buffers in 1_usize..600) {
        let mut tally = Tally::new(Harness::small(Flood { ports }, buffers));
        for slot in 0..BATCH {
            tally.harness.lanes().port[Slot::new(slot)] = slot as u16 % 21;
        }
        tally.play(events.into_iter().filter(|event| matches!(event, Event::Packets(_))).collect(), |_, _| {});
    }
}
