//! A mirror: packets go on, and copies of them go where somebody watches, as long as there is room.

use proptest::prelude::*;
use weir_packet::{Batch, Held};
use weir_stage::harness::Harness;
use weir_stage::{Declaration, Out, Stage, ways};

use crate::tally::{Tally, events};

ways! {
    /// Ways out of [`Mirror`].
    enum Way {
        /// The packet itself.
        Out => way "out",
        /// The copy.
        Watched => way "watched",
        /// A copy for the watcher.
        Mirrored => create "mirrored",
    }
}

struct Mirror {
    /// Copies that were not made since the watcher had no room, or there was no buffer.
    missed: u64,
}

impl Stage for Mirror {
    fn declare(&self) -> Declaration {
        Declaration::of::<Way>()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let mut room = out.room_at(Way::Watched);
        for slot in batch.slots() {
            let copy = batch.get(slot).filter(|_| room > 0).and_then(|packet| out.copy(packet));
            match copy {
                Some(copy) => {
                    room -= 1;
                    out.emit(Held::like(copy, &batch.lanes, slot), Way::Watched, Way::Mirrored);
                }
                None => self.missed += 1,
            }
        }
    }
}

#[test]
fn copies_are_deep_and_the_watcher_never_pushes_back() {
    let mut harness = Harness::new(Mirror { missed: 0 });
    harness.set_room("watched", 3);
    let packets: Vec<[u8; 2]> = (0..10).map(|n| [n, n]).collect();
    let outcome = harness.run(0, &packets);
    assert_eq!(outcome.way("out"), packets);
    assert_eq!(outcome.way("watched"), &packets[..3]);
    assert_eq!((outcome.created["mirrored"], harness.stage.missed), (3, 7));
}

proptest! {
    #[test]
    fn packets_are_conserved(events in events(100), room in 0_u32..100, buffers in 1_usize..200) {
        let mut tally = Tally::new(Harness::small(Mirror { missed: 0 }, buffers));
        tally.harness.set_room("watched", room);
        tally.play(events, |_, _| {});
    }
}
