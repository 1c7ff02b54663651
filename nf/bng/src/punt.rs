//! What goes to the slow path, by kind, and how much of each: a flood of one kind must not take the others' share, and one customer
//! must not take another's.

use weir_mem::{HugeSlice, arena};
use weir_net::limit::{Rate, TokenBucket};

/// Why a packet goes to the slow path: the content of a claimed lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum PuntReason {
    /// ARP.
    Arp = 0,
    /// Neighbour discovery.
    Nd = 1,
    /// For one of the gateway's own addresses.
    Local = 2,
    /// From an address that the subscriber is not known to have.
    UnknownSource = 3,
    /// The MAC address that it is to be sent to is not known.
    Unresolved = 4,
    /// The TTL ends here.
    TtlExpired = 5,
    /// There is no route.
    NoRoute = 6,
    /// Too long for where it is to go.
    TooBig = 7,
    /// A fragment of an outer packet.
    Fragment = 8,
    /// Made by the slow path itself; never punted.
    Originated = 9,
}

/// Kinds that are punted.
const KINDS: usize = 9;

impl From<u32> for PuntReason {
    fn from(value: u32) -> PuntReason {
        match value {
            0 => PuntReason::Arp,
            1 => PuntReason::Nd,
            2 => PuntReason::Local,
            3 => PuntReason::UnknownSource,
            4 => PuntReason::Unresolved,
            5 => PuntReason::TtlExpired,
            6 => PuntReason::NoRoute,
            7 => PuntReason::TooBig,
            8 => PuntReason::Fragment,
            _ => PuntReason::Originated,
        }
    }
}

impl From<PuntReason> for u32 {
    fn from(kind: PuntReason) -> u32 {
        kind as u32
    }
}

/// Share of the whole rate in twentieths. Without ARP, neighbour discovery and learning nobody would be reached.
const fn share(kind: usize) -> u64 {
    match kind {
        0 => 4,
        1..=3 => 3,
        4 | 6 | 8 => 1,
        _ => 2,
    }
}

/// The rate of a kind, all together being `per_second`. Each may save up a tenth of a second, and at least 16 packets.
fn rate(kind: usize, per_second: u64) -> Rate {
    const LEAST_BURST: u64 = 16;
    let rate = per_second.saturating_mul(share(kind)) / 20;
    Rate::saving_a_tenth(rate.max(1), LEAST_BURST)
}

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
pub(crate) struct PuntPolicer {
    kinds: [TokenBucket; KINDS],
    /// By number of the subscriber, when its next packet would come if it kept its rate (GCRA, ITU-T I.371).
    due: HugeSlice<u64>,
    /// Nanoseconds between a subscriber's packets.
    interval: u64,
}

/// What policer says to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passes {
    /// To the slow path with it.
    Yes,
    /// Its subscriber has had enough.
    SubscriberTooMuch,
    /// There are too many of its kind.
    KindTooMuch,
}

impl PuntPolicer {
    /// Of these rates.
    ///
    /// # Errors
    ///
    /// No memory.
    pub(crate) fn new(rates: Rates) -> Result<PuntPolicer, arena::Error> {
        Ok(PuntPolicer {
            kinds: std::array::from_fn(|kind| TokenBucket::new(rate(kind, rates.all), 0)),
            due: HugeSlice::new(rates.subscribers as usize)?,
            interval: 1_000_000_000 / rates.each.max(1),
        })
    }

    /// The way that a packet takes in the end: where it is `punted`, as its kind and what it is if there is too much of that, it must pass.
    pub(crate) fn settle<E>(
        &mut self,
        now: u64,
        subscriber: Option<u32>,
        exit: E,
        punted: Option<(PuntReason, E)>,
        subscriber_too_much: E,
    ) -> E {
        let Some((kind, kind_too_much)) = punted else { return exit };
        match self.pass(now, kind, subscriber) {
            Passes::Yes => exit,
            Passes::SubscriberTooMuch => subscriber_too_much,
            Passes::KindTooMuch => kind_too_much,
        }
    }

    /// Whether another packet of this kind, caused by a subscriber if it is known, may pass at `now`. A subscriber's share is
    /// asked first, so that what it sends too much takes nothing of others'.
    pub(crate) fn pass(&mut self, now: u64, kind: PuntReason, subscriber: Option<u32>) -> Passes {
        if let Some(due) = subscriber.and_then(|number| self.due.get_mut(number as usize)) {
            let next = (*due).max(now);
            if next - now > self.interval.saturating_mul(BURST - 1) {
                return Passes::SubscriberTooMuch;
            }
            *due = next.saturating_add(self.interval);
        }
        let passes = self.kinds.get_mut(kind as usize).is_some_and(|bucket| bucket.take(now, 1));
        if passes { Passes::Yes } else { Passes::KindTooMuch }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn policer() -> PuntPolicer {
        PuntPolicer::new(Rates { all: 20_000, each: 100, subscribers: 4 }).unwrap()
    }

    fn passed(policer: &mut PuntPolicer, now: u64, kind: PuntReason, subscriber: Option<u32>, count: usize) -> usize {
        (0..count).filter(|_| policer.pass(now, kind, subscriber) == Passes::Yes).count()
    }

    #[test]
    fn kinds_survive_their_lane_and_share_the_whole() {
        for n in 0..=KINDS as u32 {
            assert_eq!(u32::from(PuntReason::from(n)), n);
        }
        assert_eq!((0..KINDS).map(share).sum::<u64>(), 20);
    }

    #[test]
    fn a_flood_of_one_kind_leaves_the_others_theirs() {
        let mut policer = policer();
        for kind in (0..KINDS as u32).map(PuntReason::from) {
            let rate = 1000 * share(kind as usize) as usize;
            assert_eq!(passed(&mut policer, SECOND, kind, None, 5000), rate / 10, "{kind:?}");
        }
        assert_eq!(policer.pass(SECOND, PuntReason::Originated, None), Passes::KindTooMuch, "it is never punted");
    }

    #[test]
    fn a_subscriber_has_its_own_share_and_no_more() {
        let mut policer = policer();
        assert_eq!(passed(&mut policer, SECOND, PuntReason::Arp, Some(1), 5000), BURST as usize);
        assert_eq!(policer.pass(SECOND, PuntReason::Arp, Some(1)), Passes::SubscriberTooMuch);
        assert_eq!(passed(&mut policer, SECOND, PuntReason::Arp, Some(2), 5), 5);
        // 100 per second: one each 10 ms.
        for step in 1..=20 {
            assert_eq!(passed(&mut policer, SECOND + step * SECOND / 100, PuntReason::Arp, Some(1), 50), 1);
        }
        // After a long time no more than a burst was saved up.
        assert_eq!(passed(&mut policer, 100 * SECOND, PuntReason::Nd, Some(1), 5000), BURST as usize);
    }

    #[test]
    fn numbers_beyond_the_limit_are_policed_by_kind_alone() {
        assert_eq!(passed(&mut policer(), SECOND, PuntReason::Arp, Some(4), 5000), 400);
    }
}
