//! How much of what goes to the slow path one subscriber may cause, so that one customer does not take another's share. What kinds of packets
//! share is the network layer's to say ([`weir_ip::PuntPolicer`]).

use weir_ip::{BatchPolicer, PuntPolicer, PuntReason, Punts};
use weir_mem::{HugeSlice, arena};
use weir_net::limit::Pace;
use weir_packet::{Key, Lanes, Slot};

/// How much one stage hands to the slow path, in all and for each subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rates {
    /// Packets per second of all kinds together.
    pub(crate) all: u64,
    /// Packets per second that one subscriber may cause.
    pub(crate) each: u64,
    /// Subscribers there may be.
    pub(crate) subscribers: u32,
}

/// Packets that a subscriber may cause at once.
const BURST: u64 = 16;

/// Polices what one stage of a worker hands to the slow path.
#[derive(Debug)]
pub(crate) struct Policer {
    kinds: PuntPolicer,
    subscribers: SubscriberPolicer,
}

/// What each subscriber may cause.
#[derive(Debug)]
struct SubscriberPolicer {
    /// By number of the subscriber, when its next packet is due.
    due: HugeSlice<u64>,
    pace: Pace,
}

/// What may still pass of a batch.
pub(crate) struct InBatch<'p> {
    kinds: BatchPolicer<'p>,
    subscribers: &'p mut SubscriberPolicer,
    now: u64,
}

impl Policer {
    /// Of these rates, for a stage that punts these kinds.
    ///
    /// # Errors
    ///
    /// No memory.
    pub(crate) fn new(punted: &[PuntReason], rates: Rates) -> Result<Policer, arena::Error> {
        let (due, pace) = (HugeSlice::new(rates.subscribers as usize)?, Pace::new(rates.each, BURST));
        // Interfaces and prefixes have no shares: subscribers do.
        let kinds = PuntPolicer::new(punted, rates.all);
        Ok(Policer { kinds, subscribers: SubscriberPolicer { due, pace } })
    }

    /// What may pass of one batch at time `now`.
    pub(crate) fn batch(&mut self, now: u64) -> InBatch<'_> {
        InBatch { kinds: self.kinds.batch(now), subscribers: &mut self.subscribers, now }
    }
}

impl InBatch<'_> {
    /// The way that a packet takes in the end, which a subscriber caused if it is known: where it is punted its lane says why, and where that is
    /// too much it is dropped. A subscriber's share is asked first, so that what it sends too much takes nothing of others'.
    pub(crate) fn settle<E: Punts>(
        &mut self,
        (exit, subscriber_too_much): (E, E),
        subscriber: Option<u32>,
        (key, slot, lanes): (Key<PuntReason>, Slot, &mut Lanes),
    ) -> E {
        let Some((kind, kind_too_much)) = exit.punted() else { return exit };
        if !self.subscribers.pass(self.now, subscriber) {
            return subscriber_too_much;
        }
        if !self.kinds.pass(kind) {
            return kind_too_much;
        }
        lanes.set(key, slot, kind);
        exit
    }
}

impl SubscriberPolicer {
    /// Whether another packet may pass that a subscriber caused, if it is known and has a share.
    fn pass(&mut self, now: u64, subscriber: Option<u32>) -> bool {
        let Some(due) = subscriber.and_then(|number| self.due.get_mut(number as usize)) else { return true };
        let passes = self.pace.has(*due, now);
        if passes {
            *due = self.pace.after(*due, now);
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn policer() -> SubscriberPolicer {
        let rates = Rates { all: 20_000, each: 100, subscribers: 4 };
        Policer::new(&[PuntReason::Arp], rates).unwrap().subscribers
    }

    fn passed(policer: &mut SubscriberPolicer, now: u64, subscriber: u32, count: usize) -> usize {
        (0..count).filter(|_| policer.pass(now, Some(subscriber))).count()
    }

    #[test]
    fn a_subscriber_has_its_own_share_and_no_more() {
        let mut policer = policer();
        assert_eq!((passed(&mut policer, SECOND, 1, 5000), passed(&mut policer, SECOND, 2, 5)), (BURST as usize, 5));
        // 100 per second: one each 10 ms.
        for step in 1..=20 {
            assert_eq!(passed(&mut policer, SECOND + step * SECOND / 100, 1, 50), 1);
        }
        // After a long time no more than a burst was saved up.
        assert_eq!(passed(&mut policer, 100 * SECOND, 1, 5000), BURST as usize);
    }

    #[test]
    fn what_nobody_is_known_to_cause_is_policed_by_kind_alone() {
        assert_eq!(passed(&mut policer(), SECOND, 4, 5000), 5000, "numbers beyond the limit");
        assert!((0..5000).all(|_| policer().pass(SECOND, None)));
    }
}
