//! The stage that lets so many packets a second through to the scheduler.
//!
//! Dropping costs a scheduler about what sending does, as it has to look up whose packet it is. Where more can come than it can look
//! at, what is too much is better dropped before, at the price that nobody knows whose packets these were.

use weir_net::limit::{Rate, TokenBucket};
use weir_packet::{BATCH, Batch};
use weir_stage::{Declaration, Out, Stage};

weir_stage::ways! {
    /// Ways out of [`Limit`].
    pub enum Exit {
        /// Within the limit.
        Out => way "out",
        /// More packets came than `limit` lets through to the scheduler.
        Limited => drop "limited",
    }
}

/// Limits packets.
#[derive(Debug)]
pub struct Limit(TokenBucket);

impl Limit {
    /// So many packets per second, from 1: a millisecond's worth of them at once, and at least a batch. `None` for 0. `now` is in nanoseconds.
    pub fn new(per_second: u64, now: u64) -> Option<Limit> {
        let rate = Rate::new(per_second, (per_second / 1_000).max(BATCH as u64))?;
        Some(Limit(TokenBucket::new(rate, now)))
    }
}

/// What [`Limit`] declares.
pub fn declaration() -> Declaration {
    Declaration::of::<Exit>()
}

impl Stage for Limit {
    fn declare(&self) -> Declaration {
        declaration()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let tokens = self.0.available(out.now()).min(batch.len() as u64);
        // It has that many.
        self.0.take(out.now(), tokens);
        batch.slots().skip(tokens as usize).for_each(|slot| out.answer(slot, Exit::Limited));
    }
}

#[cfg(test)]
mod tests {
    use weir_stage::harness::Harness;

    use super::*;

    #[test]
    fn no_more_go_through_than_have_come_due() {
        let mut harness = Harness::new(Limit::new(64_000, 0).unwrap());
        let frames = vec![[0; 60]; 64];
        let mut through = |now| {
            let outcome = harness.run(now, &frames);
            assert_eq!(outcome.way("out").len() + outcome.way("limited").len(), 64);
            outcome.way("out").len()
        };
        // One comes due every 15,625 ns.
        let times = [0, 0, 15_624, 15_625, 1_000_000, 3_000_000];
        assert_eq!(times.map(&mut through), [64, 0, 0, 1, 63, 64]);
    }
}
