//! Packets that leave one after the other: most go the way of the one before.

use super::{Leaving, OnwardView};
use crate::tables::fib::GROUP;

/// Remembers the way of the packet before, so that it is not found anew, and counts packets that go the same way together: counting packet after
/// packet to one place would wait for each store to come back.
///
/// Whoever uses it calls [`finish`](Departures::finish) in the end; what is not counted by then is lost.
pub struct Departures<'t> {
    view: OnwardView<'t>,
    /// Bytes of the longest IP packet that whoever uses it lets leave.
    limit: usize,
    /// What the way of the packet before was found by, if all packets with that key go one way; [`NONE`] otherwise.
    key: u64,
    last: Option<Leaving<'t>>,
    /// Of the last one: bytes of the longest IP packet, and what its tags need.
    longest: usize,
    room: usize,
    packets: u64,
    bytes: u64,
}

/// The key of nothing.
const NONE: u64 = u64::MAX;

impl<'t> Departures<'t> {
    pub(super) fn new(view: OnwardView<'t>) -> Departures<'t> {
        Departures { view, limit: usize::MAX, key: NONE, last: None, longest: 0, room: 0, packets: 0, bytes: 0 }
    }

    /// The same, of IP packets of at most so many bytes: [`longest`](Self::longest) is never more.
    #[inline(always)]
    #[must_use]
    pub fn up_to(self, limit: usize) -> Departures<'t> {
        Departures { limit, ..self }
    }

    /// How a packet leaves that routes gave this answer for, if it does; `hash` is asked for its flow's where routes are shared.
    #[inline(always)]
    pub fn leaving(&mut self, answer: u32, hash: impl FnOnce() -> u32) -> Option<Leaving<'t>> {
        self.leaving_by(answer.into(), || Some(answer), hash)
    }

    /// The same where the answer is to be had by a key only. It is not asked for where the packet before had the same key: who uses keys, which are
    /// less than [`u64::MAX`], uses nothing else, and has the same answer for one of them as long as this lasts.
    #[inline(always)]
    pub fn leaving_by(
        &mut self,
        key: u64,
        answer: impl FnOnce() -> Option<u32>,
        hash: impl FnOnce() -> u32,
    ) -> Option<Leaving<'t>> {
        if key != self.key {
            self.turn(key, answer()?, hash);
        }
        self.last
    }

    #[inline(always)]
    fn turn(&mut self, key: u64, answer: u32, hash: impl FnOnce() -> u32) {
        self.settle();
        self.last = self.view.leaving(answer, hash).ok();
        (self.longest, self.room) =
            self.last.map_or((0, 0), |leaving| (leaving.longest().min(self.limit), leaving.room()));
        // What next hops share goes another way the next time.
        self.key = if answer & GROUP == 0 { key } else { NONE };
    }

    /// Bytes of the longest IP packet that may leave by the way that was answered last.
    #[inline(always)]
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Bytes that its tags need in front of the packet.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.room
    }

    /// Counts the packet for which [`leaving`](Departures::leaving) was called last: it left.
    #[inline(always)]
    pub fn count(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }

    /// Counts what has left.
    pub fn finish(mut self) {
        self.settle();
    }

    #[inline(always)]
    fn settle(&mut self) {
        if let Some(leaving) = self.last.filter(|_| self.packets > 0) {
            self.view.counters.count(leaving.place, self.packets, self.bytes);
            (self.packets, self.bytes) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_table::counters::Counters;
    use weir_wire::MacAddr;

    use super::*;
    use crate::tables::fib::{Adjacency, Fib, Leads};
    use crate::{Egress, Ingress, Tags};

    /// Each packet leaves as if there had been none before it, and is counted once, at its own next hop.
    #[test]
    fn packets_leave_and_are_counted_as_one_by_one() {
        let egress: Arc<[Egress]> = (0..3).map(|_| Egress::default()).collect();
        egress.iter().zip(0..).for_each(|(egress, n)| egress.set(n, MacAddr([2, 0, 0, 0, 0, n]), Tags::NONE, 1500));
        let fib = Fib::new(4, 1, &egress, &Arc::new(Ingress::untagged(0))).unwrap();
        // The last next hop is not known.
        for n in 0..3 {
            fib.set(Leads::next_hop(n), Adjacency::forward(n as u16, MacAddr([4, 0, 0, 0, 0, n as u8])));
        }
        fib.set_group(0, (0..256).map(|n| Leads::next_hop(n % 2)));
        let [counters, expected] = [(); 2].map(|()| Counters::new(fib.places()));
        let [ours, slow] = [&counters, &expected].map(|counters| counters.acquire().unwrap());
        let view = |counters| OnwardView { fib: fib.view(fib.places()), groups: &fib, counters };
        let (places, one_by_one) = (fib.places(), view(slow.view(fib.places())));

        let next_hops = (0..4).map(|n| Leads::next_hop(n).value());
        let answers: Vec<u32> = next_hops.chain([Leads::group(0).value(), Leads::NO_ROUTE.value(), u32::MAX]).collect();
        let mut random = 1_u32;
        let mut departures = view(ours.view(places)).departures().up_to(1400);
        for n in 0..10_000_u32 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Runs of some length, and single ones.
            let answer = answers[(random >> 16) as usize % if n % 100 < 50 { answers.len() } else { 1 }];
            let hash = random >> 8;
            let leaving = departures.leaving(answer, || hash);
            let alone = one_by_one.leaving(answer, || hash).ok();
            assert_eq!(leaving.map(Leaving::place), alone.map(Leaving::place));
            assert_eq!(leaving.map(Leaving::port), alone.map(Leaving::port));
            if let Some(alone) = alone {
                assert_eq!((departures.longest(), departures.room()), (alone.longest().min(1400), alone.room()));
            }
            // Some do not leave after all.
            if let Some(alone) = alone.filter(|_| random >> 20 & 7 != 0) {
                departures.count(u64::from(n));
                one_by_one.count(alone, u64::from(n));
            }
        }
        departures.finish();
        let sums = |counters: &Counters| (0..places as u32).map(|place| counters.sum(place)).collect::<Vec<_>>();
        assert_eq!(sums(&counters), sums(&expected));
        assert_eq!(sums(&counters).iter().filter(|(packets, _)| *packets > 0).count(), 3);
    }
}
