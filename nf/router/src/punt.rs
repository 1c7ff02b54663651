//! Stage `NAME.punt`: lets through to the slow path only as much as it can bear, by kind.

use weir_net::limit::{Policer, Rate};
use weir_packet::{Batch, Key};
use weir_stage::{Declaration, Out, Stage};

weir_stage::ways! {
    /// Ways out of [`Punt`].
    pub enum Exit {
        /// To the slow path.
        Control => way "control",
        /// More ARP than the slow path takes from a worker.
        Arp => drop "punt-policed-arp",
        /// More for the router's own addresses than the slow path takes from a worker.
        Local => drop "punt-policed-local",
        /// More to hosts whose Ethernet address is not known than the slow path takes from a worker.
        Unresolved => drop "punt-policed-unresolved",
        /// More at the end of their TTL than the slow path takes from a worker.
        TtlExpired => drop "punt-policed-ttl-expired",
        /// More without a route than the slow path takes from a worker.
        NoRoute => drop "punt-policed-no-route",
        /// More beyond the next hop's MTU than the slow path takes from a worker.
        TooBig => drop "punt-policed-too-big",
        /// More with IP options than the slow path takes from a worker.
        Options => drop "punt-policed-options",
    }
}

/// Why a packet goes to the slow path: the content of a claimed lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// ARP.
    Arp = 0,
    /// For one of the router's own addresses.
    Local = 1,
    /// The next hop's Ethernet address is not known.
    Unresolved = 2,
    /// The TTL ends here.
    TtlExpired = 3,
    /// There is no route.
    NoRoute = 4,
    /// Longer than the next hop's MTU.
    TooBig = 5,
    /// Has IP options.
    Options = 6,
    /// Made by the slow path itself; never punted.
    Originated = 7,
}

/// Kinds that are punted.
const KINDS: usize = 7;

impl From<u32> for Kind {
    fn from(value: u32) -> Kind {
        match value {
            0 => Kind::Arp,
            1 => Kind::Local,
            2 => Kind::Unresolved,
            3 => Kind::TtlExpired,
            4 => Kind::NoRoute,
            5 => Kind::TooBig,
            6 => Kind::Options,
            _ => Kind::Originated,
        }
    }
}

impl From<Kind> for u32 {
    fn from(kind: Kind) -> u32 {
        kind as u32
    }
}

impl Kind {
    fn refusal(self) -> Exit {
        match self {
            Kind::Arp => Exit::Arp,
            Kind::Local | Kind::Originated => Exit::Local,
            Kind::Unresolved => Exit::Unresolved,
            Kind::TtlExpired => Exit::TtlExpired,
            Kind::NoRoute => Exit::NoRoute,
            Kind::TooBig => Exit::TooBig,
            Kind::Options => Exit::Options,
        }
    }

    /// Share of the whole rate in twentieths. ARP and the router's own addresses have theirs whatever else comes: without
    /// them a flood would take the neighbours and the operator's access with it.
    const fn share(kind: usize) -> u64 {
        match kind {
            0 | 1 => 5,
            _ => 2,
        }
    }
}

/// The rates of all kinds together being `per_second`. Each kind may save up a tenth of a second, and at least 16 packets.
fn rates(per_second: u64) -> [Rate; KINDS] {
    const LEAST_BURST: u64 = 16;
    std::array::from_fn(|kind| {
        let rate = per_second.saturating_mul(Kind::share(kind)) / 20;
        let burst = (rate / 10).clamp(LEAST_BURST, Rate::MAX_BURST);
        // The burst is within its bound, so the rate exists.
        Rate::new(rate.max(1), burst).unwrap_or(NOTHING)
    })
}

/// A rate that lets nothing pass.
pub(crate) const NOTHING: Rate = match Rate::new(0, 0) {
    Some(rate) => rate,
    None => panic!(),
};

/// Polices what goes to the slow path, for one worker.
pub(crate) struct Punt {
    policer: Policer<KINDS>,
    kind: Key<Kind>,
}

impl Punt {
    /// Lets `per_second` packets of all kinds together through.
    pub(crate) fn new(per_second: u64, kind: Key<Kind>) -> Punt {
        Punt { policer: Policer::new(rates(per_second), 0), kind }
    }
}

impl Stage for Punt {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>().reads(&[self.kind.into()])
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let now = out.now();
        for slot in batch.slots() {
            let kind = batch.lanes.get(self.kind, slot);
            if !self.policer.take(now, kind as usize) {
                out.answer(slot, kind.refusal());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::Slot;
    use weir_stage::Ways;
    use weir_stage::harness::Harness;

    use super::*;

    const ALL: [Kind; KINDS] =
        [Kind::Arp, Kind::Local, Kind::Unresolved, Kind::TtlExpired, Kind::NoRoute, Kind::TooBig, Kind::Options];

    fn let_through(harness: &mut Harness<Punt>, now: u64, kind: Kind, count: usize) -> usize {
        let key = harness.stage.kind;
        let mut passed = 0;
        let mut left = count;
        while left > 0 {
            let batch = left.min(64);
            (0..batch).for_each(|slot| harness.lanes().set(key, Slot::new(slot), kind));
            let outcome = harness.run(now, &vec![vec![0; 60]; batch]);
            let dropped = outcome.way(Exit::LIST[kind.refusal().code() as usize].name).len();
            passed += outcome.way("control").len();
            assert_eq!(outcome.way("control").len() + dropped, batch, "{outcome:?}");
            left -= batch;
        }
        passed
    }

    #[test]
    fn kinds_survive_their_lane_and_have_their_own_name() {
        for (n, kind) in ALL.into_iter().enumerate() {
            assert_eq!(Kind::from(u32::from(kind)), kind);
            assert_eq!(kind as usize, n);
            assert_eq!(kind.refusal().code() as usize, n + 1);
        }
        assert_eq!((0..KINDS).map(Kind::share).sum::<u64>(), 20, "the shares are the whole");
    }

    #[test]
    fn a_flood_of_one_kind_leaves_the_others_their_share() {
        let mut harness = Harness::new(Punt::new(10_000, Key::new(0).unwrap()));
        let second = 1_000_000_000;
        for kind in ALL {
            // 10,000 per second in twentieths, and a tenth of a second in the bucket.
            let rate = 500 * Kind::share(kind as usize) as usize;
            assert_eq!(let_through(&mut harness, second, kind, 5_000), rate / 10, "{kind:?}");
            assert_eq!(let_through(&mut harness, second, kind, 64), 0);
        }
        for step in 1..=100 {
            let now = second + step * second / 100;
            assert_eq!(let_through(&mut harness, now, Kind::TtlExpired, 640), 10);
        }
        for kind in ALL.into_iter().filter(|kind| *kind != Kind::TtlExpired) {
            assert!(let_through(&mut harness, 2 * second, kind, 64) > 16, "{kind:?}");
        }
    }

    #[test]
    fn the_smallest_rate_still_lets_something_through() {
        let mut harness = Harness::new(Punt::new(1, Key::new(0).unwrap()));
        for kind in ALL {
            assert_eq!(let_through(&mut harness, 0, kind, 100), 16);
        }
    }
}
