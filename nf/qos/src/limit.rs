//! Stage `qos.limit`: lets so many packets a second through to the scheduler.
//!
//! Dropping costs a scheduler about what sending does, as it has to look up whose packet it is. Where more can come than it can look
//! at, what is too much is better dropped before, at the price that nobody knows whose packets these were.

use weir_net::limit::TokenBucket;
use weir_packet::Batch;
use weir_stage::{Declaration, Out, Stage};

weir_stage::ways! {
    /// Ways out of [`Limit`].
    pub(crate) enum Exit {
        /// Within the limit.
        Out => way "out",
        /// More packets came than `limit` lets through to the scheduler.
        Limited => drop "limited",
    }
}

/// Limits packets.
#[derive(Debug)]
pub(crate) struct Limit(pub(crate) TokenBucket);

/// What [`Limit`] declares.
pub(crate) fn declaration() -> Declaration {
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
    use weir_net::limit::Rate;
    use weir_stage::harness::Harness;

    use super::*;

    #[test]
    fn no_more_go_through_than_have_come_due() {
        let rate = Rate::new(1_000_000, 32).unwrap();
        let mut harness = Harness::new(Limit(TokenBucket::new(rate, 0)));
        let frames = vec![[0; 60]; 64];
        let mut through = |now| {
            let outcome = harness.run(now, &frames);
            assert_eq!(outcome.way("out").len() + outcome.way("limited").len(), 64);
            outcome.way("out").len()
        };
        assert_eq!([through(0), through(0), through(999), through(10_000), through(1_000_000)], [32, 0, 0, 10, 32]);
    }
}
