//! A generator: packets from nothing, at their times.

use proptest::prelude::*;
use weir_packet::{Batch, Held};
use weir_stage::harness::Harness;
use weir_stage::{Declaration, Out, SEND_LIMIT, Stage, ways};

use crate::tally::{Tally, events};

ways! {
    /// Ways out of [`Generator`].
    enum Way {
        /// Generated packets, and whatever comes in.
        Out => way "out",
        /// A packet was due.
        Generated => create "generated",
    }
}

struct Generator {
    gap: u64,
    next: u64,
    number: u32,
}

impl Stage for Generator {
    fn declare(&self) -> Declaration {
        Declaration::of::<Way>().polled()
    }

    fn run(&mut self, _batch: &mut Batch, _out: &mut Out<'_>) {}

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        for _ in 0..out.room_at(Way::Out) {
            if self.next > out.now() {
                return self.next;
            }
            let Some(mut packet) = out.alloc() else { break };
            packet.fill(&self.number.to_be_bytes());
            out.emit(Held::fresh(packet, 0, self.next), Way::Out, Way::Generated);
            self.number += 1;
            self.next += self.gap;
        }
        // More is due than there was room or buffers for: as soon as may be.
        self.next.max(out.now())
    }
}

#[test]
fn packets_come_at_their_times() {
    let mut harness = Harness::new(Generator { gap: 100, next: 1000, number: 0 });
    assert_eq!(harness.poll(999).next_poll, Some(1000));
    let outcome = harness.poll(1250);
    assert_eq!((outcome.way("out").len(), outcome.created["generated"], outcome.next_poll), (3, 3, Some(1300)));
    assert_eq!(harness.run(1260, &[[9]]).way("out"), [[9]]);
}

#[test]
fn one_call_makes_no_more_than_may_be_sent() {
    let mut harness = Harness::new(Generator { gap: 1, next: 0, number: 0 });
    let outcome = harness.poll(1_000_000);
    assert_eq!((outcome.way("out").len(), outcome.next_poll), (SEND_LIMIT, Some(1_000_000)));
    harness.set_room("out", 10);
    assert_eq!(harness.poll(1_000_000).way("out").len(), 10);
    let numbers: Vec<Vec<u8>> = (SEND_LIMIT as u32 + 10..).take(10).map(|n| n.to_be_bytes().to_vec()).collect();
    assert_eq!(harness.poll(1_000_000).way("out"), numbers, "none is left out");
}

proptest! {
    #[test]
    fn packets_are_conserved(events in events(60), gap in 1000_u64..100_000, room in 0_u32..5000, buffers in 1_usize..300) {
        let generator = Generator { gap, next: 0, number: 0 };
        let mut tally = Tally::new(Harness::small(generator, buffers));
        tally.harness.set_room("out", room);
        tally.play(events, |_, _| {});
    }
}
