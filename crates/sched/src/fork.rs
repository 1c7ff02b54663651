//! The stage `fork`: behind a scheduler of both directions, it tells them apart again.

use weir_packet::{Batch, LaneId, Slot};
use weir_stage::{Declaration, Out, Stage};

weir_stage::ways! {
    /// Ways out of [`Fork`].
    pub enum Exit {
        /// Did not come in by [`Fork::far`].
        Forth => way "forth",
        /// Came in by it.
        Back => way "back",
    }
}

/// Tells directions apart.
#[derive(Debug)]
pub struct Fork {
    /// The index of the port from which packets go back.
    pub far: u16,
}

/// What [`Fork`] declares.
pub fn declaration() -> Declaration {
    Declaration::of::<Exit>().reads(&[LaneId::Port])
}

impl Stage for Fork {
    fn declare(&self) -> Declaration {
        declaration()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let is_back = |slot: &Slot| batch.lanes.port[*slot] == self.far;
        let back = batch.slots().filter(is_back).fold(0, |mask, slot| mask | slot.bit());
        out.answer_all(back, Exit::Back);
    }
}

#[cfg(test)]
mod tests {
    use weir_stage::harness::Harness;

    use super::*;

    #[test]
    fn what_came_in_by_the_far_port_goes_back() {
        let mut harness = Harness::new(Fork { far: 7 });
        let frames: Vec<[u8; 1]> = (0..64).map(|n| [n]).collect();
        let port = |n: u8| [7, 2, u16::MAX][usize::from(n) % 3];
        (0..64_u8).for_each(|n| harness.lanes().port[Slot::new(n.into())] = port(n));
        let outcome = harness.run(0, &frames);
        let numbers = |way: &str| outcome.way(way).iter().map(|frame| frame[0]).collect::<Vec<u8>>();
        let (back, forth): (Vec<u8>, Vec<u8>) = (0..64).partition(|n| port(*n) == 7);
        assert_eq!((numbers("back"), numbers("forth")), (back, forth));
    }
}
