//! A neighbour queue: packets wait until somebody says where their next hop is, and then leave in the order they came.

use std::collections::VecDeque;

use proptest::prelude::*;
use weir_packet::{BATCH, Batch, Held, LaneId, Slot};
use weir_stage::harness::Harness;
use weir_stage::{Declaration, Out, Stage, ways};

use crate::tally::{Tally, events};

/// Neighbours of the toy.
const NEIGHBOURS: usize = 4;

/// Packets that wait for one neighbour at most.
const DEPTH: usize = 8;

ways! {
    /// Ways out of [`NeighbourQueue`].
    enum Way {
        /// To a neighbour that is known.
        Out => way "out",
        /// To a neighbour that is not: ask for it.
        Ask => way "ask",
        /// Too many packets wait for the neighbour.
        Overflow => drop "overflow",
        /// The neighbour did not answer.
        Unreachable => drop "unreachable",
        /// The question that is asked.
        Question => create "question",
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Unknown,
    Asked,
    Known,
    Failed,
}

struct NeighbourQueue {
    states: [State; NEIGHBOURS],
    queues: [VecDeque<Held>; NEIGHBOURS],
}

impl NeighbourQueue {
    fn new() -> NeighbourQueue {
        NeighbourQueue { states: [State::Unknown; NEIGHBOURS], queues: Default::default() }
    }

    fn wait(&mut self, held: Held, neighbour: usize, out: &mut Out<'_>) {
        if self.states[neighbour] == State::Unknown
            && let Some(mut question) = out.alloc()
        {
            question.fill(&[b'?', neighbour as u8]);
            out.emit(Held::fresh(question, 0, out.now()), Way::Ask, Way::Question);
            self.states[neighbour] = State::Asked;
        }
        let queue = &mut self.queues[neighbour];
        if queue.len() >= DEPTH {
            return out.send(held, Way::Overflow);
        }
        queue.push_back(held);
    }

    /// Sends what waits for neighbours whose state has become clear.
    fn release(&mut self, out: &mut Out<'_>) {
        for (queue, state) in self.queues.iter_mut().zip(self.states) {
            let way = match state {
                State::Known => Way::Out,
                State::Failed => Way::Unreachable,
                State::Unknown | State::Asked => continue,
            };
            queue.drain(..).for_each(|held| out.send(held, way));
        }
    }
}

impl Stage for NeighbourQueue {
    fn declare(&self) -> Declaration {
        Declaration::of::<Way>().reads(&[LaneId::Class]).polled()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        for slot in batch.slots() {
            let neighbour = batch.lanes.class[slot] as usize % NEIGHBOURS;
            // Behind packets that still wait others wait too, however well the neighbour is known by now.
            let straight = self.states[neighbour] == State::Known && self.queues[neighbour].is_empty();
            if !straight && let Some(held) = batch.hold(slot) {
                self.wait(held, neighbour, out);
            }
        }
        self.release(out);
    }

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        self.release(out);
        u64::MAX
    }

    fn held(&self) -> u64 {
        self.queues.iter().map(|queue| queue.len() as u64).sum()
    }

    fn clear(&mut self, give: &mut dyn FnMut(Held)) {
        self.queues.iter_mut().flat_map(|queue| queue.drain(..)).for_each(give);
    }
}

fn harness(buffers: usize) -> Harness<NeighbourQueue> {
    let mut harness = Harness::small(NeighbourQueue::new(), buffers);
    for slot in 0..BATCH {
        harness.lanes().class[Slot::new(slot)] = slot as u8 % NEIGHBOURS as u8;
    }
    harness
}

#[test]
fn packets_wait_and_leave_in_order() {
    let mut harness = harness(200);
    let first = harness.run(0, &[[0], [1], [2], [3], [4]]);
    assert_eq!((first.way("ask").len(), first.created["question"], harness.stage.held()), (4, 4, 5));
    harness.stage.states[0] = State::Known;
    // What arrives before the queue is polled does not overtake.
    let second = harness.run(1, &[[10], [11]]);
    assert_eq!(second.way("out"), [[0], [4], [10]]);
    assert_eq!(harness.run(2, &[[20]]).way("out"), [[20]]);
    harness.stage.states[1] = State::Failed;
    assert_eq!(harness.poll(3).way("unreachable"), [[1], [11]]);
    assert_eq!(harness.clear(), [[2], [3]]);
}

#[test]
fn a_full_queue_drops_what_comes_last() {
    let mut harness = harness(200);
    let packets: Vec<[u8; 1]> = (0..BATCH as u8).map(|n| [n]).collect();
    let outcome = harness.run(0, &packets);
    assert_eq!(outcome.way("overflow").len(), BATCH - NEIGHBOURS * DEPTH);
    harness.stage.states[2] = State::Known;
    let expected: Vec<[u8; 1]> = (0..DEPTH as u8).map(|n| [2 + 4 * n]).collect();
    assert_eq!(harness.poll(0).way("out"), expected);
    harness.clear();
}

proptest! {
    #[test]
    fn packets_are_conserved(events in events(100), buffers in 1_usize..300) {
        Tally::new(harness(buffers)).play(events, |stage, number| {
            let states = [State::Unknown, State::Asked, State::Known, State::Failed];
            stage.states[number as usize % NEIGHBOURS] = states[number as usize / 64];
        });
    }
}
