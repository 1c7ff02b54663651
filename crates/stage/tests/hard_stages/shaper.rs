//! A shaper: packets leave when their time has come, and no sooner than there is room for them.

use std::collections::VecDeque;

use proptest::prelude::*;
use weir_packet::{Batch, Held};
use weir_stage::harness::Harness;
use weir_stage::{Declaration, Out, Stage, ways};

use crate::tally::{Tally, events};

ways! {
    /// Ways out of [`Shaper`].
    enum Way {
        /// At the shaped rate.
        Out => way "out",
        /// The queue is full.
        Full => drop "full",
    }
}

struct Shaper {
    queue: VecDeque<Held>,
    most: usize,
    nanos_per_byte: u64,
    /// When the next packet may leave.
    free_at: u64,
}

impl Shaper {
    fn new(most: usize) -> Shaper {
        Shaper { queue: VecDeque::new(), most, nanos_per_byte: 8, free_at: 0 } // 1 Gbit/s
    }
}

impl Stage for Shaper {
    fn declare(&self) -> Declaration {
        Declaration::of::<Way>().polled()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        for slot in batch.slots() {
            if self.queue.len() >= self.most {
                out.answer(slot, Way::Full);
            } else {
                self.queue.extend(batch.hold(slot));
            }
        }
    }

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        let mut room = out.room_at(Way::Out);
        while self.free_at <= out.now()
            && room > 0
            && let Some(held) = self.queue.pop_front()
        {
            // An idle line saves a microsecond up.
            let start = self.free_at.max(out.now().saturating_sub(1000));
            self.free_at = start + held.packet().len() as u64 * self.nanos_per_byte;
            out.send(held, Way::Out);
            room -= 1;
        }
        if self.queue.is_empty() { u64::MAX } else { self.free_at.max(out.now()) }
    }

    fn held(&self) -> u64 {
        self.queue.len() as u64
    }

    fn clear(&mut self, give: &mut dyn FnMut(Held)) {
        self.queue.drain(..).for_each(give);
    }
}

#[test]
fn packets_leave_at_the_rate_and_in_order() {
    let mut harness = Harness::new(Shaper::new(100));
    let packets: Vec<Vec<u8>> = (0..10).map(|n| vec![n; 125]).collect(); // 1 us each
    assert!(harness.run(10_000, &packets).ways.is_empty());
    let mut now = 10_000;
    let mut left = Vec::new();
    loop {
        let outcome = harness.poll(now);
        left.extend(outcome.way("out").iter().map(|packet| (now, packet[0])));
        match outcome.next_poll {
            Some(u64::MAX) => break,
            Some(next) => now = next,
            None => unreachable!(),
        }
    }
    // The first goes at once, one more from what an idle line may save up, the rest a microsecond apart.
    let times: Vec<u64> = left.iter().map(|&(time, _)| time).collect();
    assert_eq!(times, [10_000, 10_000, 11_000, 12_000, 13_000, 14_000, 15_000, 16_000, 17_000, 18_000]);
    assert!(left.iter().map(|&(_, number)| number).eq(0..10));
}

#[test]
fn without_room_packets_stay() {
    let mut harness = Harness::new(Shaper::new(100));
    harness.run(0, &vec![vec![0; 10]; 20]);
    harness.set_room("out", 0);
    let outcome = harness.poll(1_000_000);
    assert_eq!((outcome.ways.len(), outcome.next_poll, harness.stage.held()), (0, Some(1_000_000), 20));
    harness.set_room("out", 3);
    assert_eq!(harness.poll(1_000_000).way("out").len(), 3);
    assert_eq!(harness.clear().len(), 17);
}

proptest! {
    #[test]
    fn packets_are_conserved(events in events(1500), room in 0_u32..100, most in 0_usize..300, buffers in 1_usize..300) {
        let mut tally = Tally::new(Harness::small(Shaper::new(most), buffers));
        tally.harness.set_room("out", room);
        tally.play(events, |_, _| {});
    }

    #[test]
    fn the_rate_is_never_exceeded(waits in prop::collection::vec((0_u64..20_000, 0_usize..20, 1_usize..1500), 1..60)) {
        let mut harness = Harness::small(Shaper::new(1000), 1100);
        let (mut now, mut bytes, mut first) = (0, 0, None);
        for (wait, count, len) in waits {
            now += wait;
            harness.run(now, &vec![vec![0; len]; count]);
            let sent: Vec<usize> = harness.poll(now).way("out").iter().map(Vec::len).collect();
            if !sent.is_empty() {
                let start = *first.get_or_insert(now);
                // All but the last that left have been paid for, save what 1000 ns of idle line are worth.
                let paid: usize = bytes + sent[..sent.len() - 1].iter().sum::<usize>();
                prop_assert!(paid as u64 * 8 <= now - start + 1000, "{paid} bytes in {} ns", now - start);
                bytes += sent.iter().sum::<usize>();
            }
        }
        harness.clear();
    }
}
