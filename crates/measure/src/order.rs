//! Reordering as RFC 4737 defines it.

use std::collections::VecDeque;

use crate::distribution::Distribution;

/// Where numbers were skipped, and what came when they turned up after all.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// The skips whose packets may still come, in rising order.
    skips: VecDeque<Skip>,
    /// Reordering extents of reordered packets (section 4.2.2), packets.
    pub(crate) extent: Distribution,
    /// Their late time offsets (section 4.3.1), ns.
    pub(crate) late_time: Distribution,
}

/// A packet whose number was greater than the next one expected.
#[derive(Clone, Copy, Debug)]
struct Skip {
    /// The first number that it skipped.
    first: u64,
    /// Its place among all packets that arrived.
    place: u64,
    /// When it arrived, ns.
    nanos: u64,
}

impl Order {
    /// `empty` is what a distribution starts as.
    pub(crate) fn new(empty: &Distribution) -> Order {
        Order { skips: VecDeque::new(), extent: empty.clone(), late_time: empty.clone() }
    }

    /// The packet that arrived as number `place` at `nanos` skipped `first` and maybe more. What lies before `horizon`
    /// will not come any more.
    pub(crate) fn skipped(&mut self, first: u64, place: u64, nanos: u64, horizon: u64) {
        while self.skips.get(1).is_some_and(|second| second.first <= horizon) {
            self.skips.pop_front();
        }
        self.skips.push_back(Skip { first, place, nanos });
    }

    /// The skipped packet `number` arrived after all, as number `place` at `nanos`.
    pub(crate) fn reordered(&mut self, number: u64, place: u64, nanos: u64) {
        // Section 4.2.2: the extent is the distance to the earliest packet that arrived with a greater number, which
        // is the one that skipped this one.
        let after = self.skips.partition_point(|skip| skip.first <= number);
        if let Some(skip) = after.checked_sub(1).and_then(|at| self.skips.get(at)) {
            self.extent.record_count(place - skip.place);
            self.late_time.record(nanos.wrapping_sub(skip.nanos) as i64);
        }
    }
}
