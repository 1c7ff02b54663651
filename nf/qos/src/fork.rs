//! Stage `qos.fork`: behind a scheduler of both directions, it tells them apart again.

use weir_packet::{Batch, LaneId};
use weir_stage::{Declaration, Out, Stage};

weir_stage::ways! {
    /// Ways out of [`Fork`].
    pub(crate) enum Exit {
        /// Came in by `from`, and leaves by `to`.
        Forth => way "forth",
        /// Came in by `to`, and leaves by `from`.
        Back => way "back",
    }
}

/// Tells directions apart.
#[derive(Debug)]
pub(crate) struct Fork {
    /// The index of the port `to`.
    pub(crate) to: u16,
}

/// What [`Fork`] declares.
pub(crate) fn declaration() -> Declaration {
    Declaration::of::<Exit>().reads(&[LaneId::Port])
}

impl Stage for Fork {
    fn declare(&self) -> Declaration {
        declaration()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let back = |slot: &weir_packet::Slot| batch.lanes.port[*slot] == self.to;
        let mask = batch.slots().filter(back).fold(0, |mask, slot| mask | slot.bit());
        out.answer_all(mask, Exit::Back);
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::Slot;
    use weir_stage::harness::Harness;

    use super::*;

    #[test]
    fn packets_leave_by_the_other_port() {
        let mut harness = Harness::new(Fork { to: 7 });
        let frames: Vec<[u8; 1]> = (0..64).map(|n| [n]).collect();
        let comes_back = |n: u8| n.is_multiple_of(3);
        (0..64_u8).for_each(|n| harness.lanes().port[Slot::new(n.into())] = if comes_back(n) { 7 } else { 2 });
        let outcome = harness.run(0, &frames);
        let (back, forth): (Vec<u8>, Vec<u8>) = (0..64).partition(|n| comes_back(*n));
        let numbers = |way: &str| outcome.way(way).iter().map(|frame| frame[0]).collect::<Vec<u8>>();
        assert_eq!((numbers("back"), numbers("forth")), (back, forth));
    }
}
