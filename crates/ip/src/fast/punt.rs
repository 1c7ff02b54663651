//! What goes to the slow path, by kind, and how much of each: a flood of one kind must not take the others' share, nor the
//! slow path's time.

use weir_net::limit::{Rate, TokenBucket};
use weir_packet::{Key, Lanes, Slot};
use weir_stage::{Out, Ways};

/// Why a packet goes to the slow path: the content of a claimed lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PuntReason {
    /// ARP.
    Arp = 0,
    /// Neighbour discovery (RFC 4861).
    Nd = 1,
    /// For one of the router's own addresses, or for whoever listens on the link that it came from.
    Local = 2,
    /// The next hop's Ethernet address is not known.
    Unresolved = 3,
    /// The TTL or hop limit ends here.
    TtlExpired = 4,
    /// There is no route.
    NoRoute = 5,
    /// Longer than the next hop's MTU.
    TooBig = 6,
    /// Has IP options, or hop-by-hop options.
    Options = 7,
    /// From a link-local address to one beyond the link.
    BeyondScope = 8,
    /// The route to it says that it is rejected.
    Rejected = 9,
    /// Control protocols of a link, for Linux.
    Host = 10,
    /// Made by the slow path itself; never punted.
    Originated = 11,
    /// A copy of one that leaves by the port it came in by; not punted, but sampled.
    TurnsRound = 12,
    /// From an address that its sender is not known to have: of functions that check that.
    UnknownSource = 13,
    /// A fragment of a packet that a function has to put together first.
    Fragment = 14,
}

impl PuntReason {
    /// What the layer itself punts.
    pub(crate) const OF_LAYER: [PuntReason; 11] = [
        PuntReason::Arp,
        PuntReason::Nd,
        PuntReason::Local,
        PuntReason::Unresolved,
        PuntReason::TtlExpired,
        PuntReason::NoRoute,
        PuntReason::TooBig,
        PuntReason::Options,
        PuntReason::BeyondScope,
        PuntReason::Rejected,
        PuntReason::Host,
    ];
}

/// Kinds that may be punted.
const KINDS: usize = 15;

impl From<u32> for PuntReason {
    fn from(value: u32) -> PuntReason {
        match value {
            0 => PuntReason::Arp,
            1 => PuntReason::Nd,
            2 => PuntReason::Local,
            3 => PuntReason::Unresolved,
            4 => PuntReason::TtlExpired,
            5 => PuntReason::NoRoute,
            6 => PuntReason::TooBig,
            7 => PuntReason::Options,
            8 => PuntReason::BeyondScope,
            9 => PuntReason::Rejected,
            10 => PuntReason::Host,
            12 => PuntReason::TurnsRound,
            13 => PuntReason::UnknownSource,
            14 => PuntReason::Fragment,
            _ => PuntReason::Originated,
        }
    }
}

impl From<PuntReason> for u32 {
    fn from(kind: PuntReason) -> u32 {
        kind as u32
    }
}

/// How many parts of the whole rate a kind has beside the others. ARP, neighbour discovery, the router's own addresses and the control protocols
/// of links have most, whatever else comes: without them a flood would take the neighbours, the operator's access and the routes with it; so it
/// is with customers that are new. New neighbours have twice what is left for others. What is never punted has none.
const fn share(kind: PuntReason) -> u64 {
    match kind {
        PuntReason::Arp | PuntReason::Nd | PuntReason::Local | PuntReason::Host | PuntReason::UnknownSource => 8,
        PuntReason::Unresolved => 2,
        PuntReason::Originated | PuntReason::TurnsRound => 0,
        _ => 1,
    }
}

/// The rate of a kind among those that a stage punts, all together being `per_second`. Each may save up a tenth of a second, and at least 16
/// packets.
fn rate(kind: PuntReason, punted: &[PuntReason], per_second: u64) -> Rate {
    const LEAST_BURST: u64 = 16;
    let whole: u64 = punted.iter().map(|kind| share(*kind)).sum();
    let rate = per_second.saturating_mul(share(kind)) / whole.max(1);
    Rate::saving_a_tenth(rate.max(1), LEAST_BURST)
}

/// Kinds that a link has a share of, too: ARP and neighbour discovery, without which neighbours of other links would be lost while one
/// is flooded.
const LINK_KINDS: usize = 2;

/// Polices what one stage of a worker hands to the slow path.
#[derive(Debug)]
pub struct PuntPolicer {
    /// None for kinds that the stage does not punt.
    kinds: [Option<TokenBucket>; KINDS],
    /// By index of the port: half of what of a kind may pass in all.
    links: Box<[[TokenBucket; LINK_KINDS]]>,
}

impl PuntPolicer {
    /// Lets `per_second` packets of all these kinds together through, and none of others, from ports with an index below `ports`.
    pub fn new(punted: &[PuntReason], per_second: u64, ports: usize) -> PuntPolicer {
        let bucket = |kind, per_second| TokenBucket::new(rate(kind, punted, per_second), 0);
        let of = |kind: PuntReason| punted.contains(&kind).then(|| bucket(kind, per_second));
        let link = || [PuntReason::Arp, PuntReason::Nd].map(|kind| bucket(kind, per_second / 2));
        PuntPolicer {
            kinds: std::array::from_fn(|kind| of(PuntReason::from(kind as u32))),
            links: (0..ports).map(|_| link()).collect(),
        }
    }

    /// What may pass of one batch at time `now`.
    pub fn batch(&mut self, now: u64) -> BatchPolicer<'_> {
        BatchPolicer { policer: self, now, kinds: [None; KINDS], links: [None; LINK_KINDS] }
    }
}

/// What a bucket held at the first question, and what of it has not passed yet.
#[derive(Clone, Copy, Debug)]
struct Left {
    available: u64,
    left: u64,
}

impl Left {
    fn of(bucket: &mut TokenBucket, now: u64) -> Left {
        let available = bucket.available(now);
        Left { available, left: available }
    }

    fn pass(&mut self) -> bool {
        let passes = self.left > 0;
        self.left = self.left.saturating_sub(1);
        passes
    }

    /// As much as there was at most, so that it is there.
    fn settle(self, bucket: &mut TokenBucket, now: u64) {
        bucket.take(now, self.available.saturating_sub(self.left));
    }
}

/// What may still pass of a batch. Under a flood a packet costs a comparison or two: the clockwork of a bucket turns once per kind, or
/// port, and batch.
#[derive(Debug)]
pub struct BatchPolicer<'p> {
    policer: &'p mut PuntPolicer,
    now: u64,
    kinds: [Option<Left>; KINDS],
    /// Of the port that packets of a kind came by last.
    links: [Option<(u16, Left)>; LINK_KINDS],
}

impl BatchPolicer<'_> {
    /// Whether another packet of this kind may pass that came in by a port.
    pub fn pass(&mut self, kind: PuntReason, port: u16) -> bool {
        self.has(kind) && self.pass_link(kind, port) && self.kinds.get_mut(kind as usize).is_some_and(pass_of)
    }

    /// Whether there is any left of a kind.
    fn has(&mut self, kind: PuntReason) -> bool {
        let bucket = self.policer.kinds.get_mut(kind as usize).and_then(Option::as_mut);
        let (Some(left), Some(bucket)) = (self.kinds.get_mut(kind as usize), bucket) else { return false };
        left.get_or_insert_with(|| Left::of(bucket, self.now)).left > 0
    }

    /// Whether another one may pass of what comes by a port; true for kinds that ports have no share of.
    fn pass_link(&mut self, kind: PuntReason, port: u16) -> bool {
        let Some(link) = self.links.get_mut(kind as usize) else { return true };
        if link.is_none_or(|(last, _)| last != port) {
            self.policer.settle_link(kind as usize, link.take(), self.now);
            let bucket = self.policer.link(kind as usize, port);
            *link = bucket.map(|bucket| (port, Left::of(bucket, self.now)));
        }
        link.as_mut().is_none_or(|(_, left)| left.pass())
    }
}

/// Takes one of what is left, if any was asked for.
fn pass_of(left: &mut Option<Left>) -> bool {
    left.as_mut().is_some_and(Left::pass)
}

impl PuntPolicer {
    fn link(&mut self, kind: usize, port: u16) -> Option<&mut TokenBucket> {
        self.links.get_mut(usize::from(port))?.get_mut(kind)
    }

    fn settle_link(&mut self, kind: usize, link: Option<(u16, Left)>, now: u64) {
        if let Some((port, left)) = link
            && let Some(bucket) = self.link(kind, port)
        {
            left.settle(bucket, now);
        }
    }
}

/// Ways out of a stage, some of which lead to the slow path.
pub trait Punts: Ways {
    /// What the slow path is asked for, and the reason if that is too much; `None` for drops.
    fn punted(self) -> Option<(PuntReason, Self)>;
}

impl BatchPolicer<'_> {
    /// Answers for a packet that leaves by `exit`, or is dropped where that asks too much of the slow path.
    #[inline(always)]
    pub fn answer<E: Punts>(
        &mut self,
        exit: E,
        slot: Slot,
        lanes: &mut Lanes,
        key: Key<PuntReason>,
        out: &mut Out<'_>,
    ) {
        match exit.punted() {
            Some((kind, _)) if self.pass(kind, lanes.port[slot]) => {
                lanes.set(key, slot, kind);
                out.answer(slot, exit);
            }
            Some((_, too_much)) => out.answer(slot, too_much),
            None => out.answer(slot, exit),
        }
    }
}

impl Drop for BatchPolicer<'_> {
    fn drop(&mut self) {
        for (bucket, left) in self.policer.kinds.iter_mut().zip(self.kinds) {
            if let (Some(bucket), Some(left)) = (bucket, left) {
                left.settle(bucket, self.now);
            }
        }
        for (link, kind) in self.links.into_iter().zip(0..) {
            self.policer.settle_link(kind, link, self.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [PuntReason; 11] = PuntReason::OF_LAYER;
    /// The parts that all of them have.
    const WHOLE: u64 = 40;

    /// How many of `count` packets pass, in batches of 64, that come by ports in turn.
    fn passed(policer: &mut PuntPolicer, now: u64, kind: PuntReason, count: usize) -> usize {
        passed_by(policer, now, kind, count, &[0, 1])
    }

    fn passed_by(policer: &mut PuntPolicer, now: u64, kind: PuntReason, count: usize, ports: &[u16]) -> usize {
        let mut passed = 0;
        for batch in 0..count.div_ceil(64) {
            let mut batch_policer = policer.batch(now);
            let batch = batch * 64..count.min(batch * 64 + 64);
            passed += batch.filter(|n| batch_policer.pass(kind, ports[n % ports.len()])).count();
        }
        passed
    }

    #[test]
    fn kinds_survive_their_lane() {
        for (n, kind) in ALL.into_iter().enumerate() {
            assert_eq!(PuntReason::from(u32::from(kind)), kind);
            assert_eq!(kind as usize, n);
        }
        for kind in [PuntReason::Originated, PuntReason::TurnsRound, PuntReason::UnknownSource, PuntReason::Fragment] {
            assert_eq!(PuntReason::from(u32::from(kind)), kind);
            assert!((kind as usize) < KINDS);
        }
        assert!(!PuntPolicer::new(&ALL, u64::MAX, 2).batch(0).pass(PuntReason::Originated, 0), "it is never punted");
        assert_eq!(ALL.into_iter().map(share).sum::<u64>(), WHOLE, "the shares are the whole");
        let mut learns = PuntPolicer::new(&[PuntReason::Arp, PuntReason::UnknownSource], 1_000, 1);
        assert_eq!(passed_by(&mut learns, 0, PuntReason::UnknownSource, 500, &[0]), 50, "half of a tenth of a second");
        assert_eq!(passed_by(&mut learns, 0, PuntReason::Local, 500, &[0]), 0, "nobody punts that");
    }

    #[test]
    fn a_flood_of_one_kind_leaves_the_others_their_share() {
        let mut policer = PuntPolicer::new(&ALL, 40_000, 2);
        let second = 1_000_000_000;
        for kind in ALL {
            // A tenth of a second in the bucket.
            let rate = 1_000 * share(kind) as usize;
            assert_eq!(passed(&mut policer, second, kind, 5_000), rate / 10, "{kind:?}");
            assert_eq!(passed(&mut policer, second, kind, 64), 0);
        }
        for step in 1..=100 {
            let now = second + step * second / 100;
            assert_eq!(passed(&mut policer, now, PuntReason::TtlExpired, 640), 10);
        }
        for kind in ALL.into_iter().filter(|kind| *kind != PuntReason::TtlExpired) {
            assert!(passed(&mut policer, 2 * second, kind, 64) > 16, "{kind:?}");
        }
    }

    #[test]
    fn kinds_in_one_batch_do_not_share() {
        let mut policer = PuntPolicer::new(&ALL, 1, 2);
        let mut batch_policer = policer.batch(0);
        for n in 0..32 {
            assert!(ALL.into_iter().all(|kind| batch_policer.pass(kind, n % 2) == (n < 16)), "packet {n}");
        }
    }

    #[test]
    fn the_smallest_rate_still_lets_something_through() {
        let mut policer = PuntPolicer::new(&ALL, 1, 2);
        for kind in ALL {
            assert_eq!(passed(&mut policer, 0, kind, 100), 16);
        }
    }

    #[test]
    fn a_flood_of_one_link_leaves_the_others_their_share_of_neighbours() {
        for kind in [PuntReason::Arp, PuntReason::Nd] {
            let mut policer = PuntPolicer::new(&ALL, 35_000, 3);
            // A tenth of a second in the bucket: of 7,000 a second half may come by one port.
            assert_eq!(passed_by(&mut policer, 0, kind, 5_000, &[0]), 350);
            assert_eq!(passed_by(&mut policer, 0, kind, 340, &[1]), 340);
            assert_eq!(passed_by(&mut policer, 0, kind, 100, &[2]), 10, "what all have together is the bound");
            for step in 1..=100 {
                let now = step * 10_000_000;
                assert_eq!(passed_by(&mut policer, now, kind, 640, &[0]), 35);
                assert_eq!(passed_by(&mut policer, now, kind, 30, &[1, 2]), 30);
            }
        }
        let mut policer = PuntPolicer::new(&ALL, 35_000, 1);
        assert_eq!(passed_by(&mut policer, 0, PuntReason::Local, 5_000, &[0]), 700, "others have no share of a link");
        assert_eq!(passed_by(&mut policer, 0, PuntReason::Nd, 5_000, &[7]), 700, "a port of another function");
    }
}
