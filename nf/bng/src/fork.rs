//! Stages `NAME.fork.PORT` and `NAME.across.PORT`, where one scheduler shapes both directions: behind it, what came in by the access port goes on as from
//! a customer, and everything else out of the port. What customers send each other goes through it twice, and comes to it the second time as from no port.

use weir_ip::INSIDE;
use weir_packet::{Batch, LaneId, Slot};
use weir_stage::{Declaration, Out, Stage};

weir_stage::ways! {
    /// Ways out of [`Fork`].
    pub(crate) enum Exit {
        /// To a customer.
        Down => way "down",
        /// From a customer.
        Up => way "up",
    }
}

weir_stage::ways! {
    /// Ways out of [`Across`].
    pub(crate) enum Round {
        /// Every packet goes round: this is never taken.
        Out => way "out",
        /// To the customer that it is for, as from no port.
        Again => again "again",
    }
}

/// Tells directions apart.
pub(crate) struct Fork {
    /// The index of the access port.
    pub(crate) access: u16,
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
        let is_up = |slot: &Slot| batch.lanes.port[*slot] == self.access;
        let up = batch.slots().filter(is_up).fold(0, |mask, slot| mask | slot.bit());
        out.answer_all(up, Exit::Up);
    }
}

/// Sends round what a customer sent to another.
pub(crate) struct Across;

/// What [`Across`] declares.
pub(crate) fn across_declaration() -> Declaration {
    Declaration::of::<Round>().updates(&[LaneId::Port])
}

impl Stage for Across {
    fn declare(&self) -> Declaration {
        across_declaration()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        batch.lanes.port.all_mut().fill(INSIDE);
        out.answer_all(batch.live(), Round::Again);
    }
}

#[cfg(test)]
mod tests {
    use weir_stage::harness::Harness;

    use super::*;

    #[test]
    fn what_came_in_by_the_access_port_goes_up() {
        let mut harness = Harness::new(Fork { access: 7 });
        let frames: Vec<[u8; 1]> = (0..64).map(|n| [n]).collect();
        let port = |n: u8| [7, 2, INSIDE][usize::from(n) % 3];
        (0..64_u8).for_each(|n| harness.lanes().port[Slot::new(n.into())] = port(n));
        let outcome = harness.run(0, &frames);
        let numbers = |way: &str| outcome.way(way).iter().map(|frame| frame[0]).collect::<Vec<u8>>();
        let (up, down): (Vec<u8>, Vec<u8>) = (0..64).partition(|n| port(*n) == 7);
        assert_eq!((numbers("up"), numbers("down")), (up, down));
    }
}
