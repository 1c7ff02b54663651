//! What goes to the slow path, by kind, and how much of each: a flood of one kind must not take the others' share, nor the
//! slow path's time. Of a kind, whoever sends most must leave something to [others](origin).

mod origin;

use std::hash::{BuildHasher, RandomState};

use weir_net::limit::{Rate, TokenBucket};
use weir_packet::{Key, Lanes, Slot};
use weir_stage::{Out, Ways};

pub(crate) use origin::Origin;
use origin::Shares;

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
    /// By an interface of the layer, of functions that have packets first: nothing else is known of it yet.
    Interface = 15,
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
const KINDS: usize = 16;

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
            15 => PuntReason::Interface,
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
/// is with customers that are new, and with interfaces beside those of customers. New neighbours have twice what is left for others. What is never punted has none.
const fn share(kind: PuntReason) -> u64 {
    match kind {
        PuntReason::Arp
        | PuntReason::Nd
        | PuntReason::Local
        | PuntReason::Host
        | PuntReason::UnknownSource
        | PuntReason::Interface => 8,
        PuntReason::Unresolved => 2,
        PuntReason::Originated | PuntReason::TurnsRound => 0,
        _ => 1,
    }
}

/// Packets of a kind that may be saved up at least.
const LEAST_BURST: u64 = 16;

/// The rate of a kind among those that a stage punts, all together being `per_second`. Each may save up a tenth of a second, and at least 16
/// packets.
fn rate(kind: PuntReason, punted: &[PuntReason], per_second: u64) -> Rate {
    let whole: u64 = punted.iter().map(|kind| share(*kind)).sum();
    let rate = per_second.saturating_mul(share(kind)) / whole.max(1);
    Rate::saving_a_tenth(rate.max(1), LEAST_BURST)
}

/// Polices what one stage of a worker hands to the slow path.
#[derive(Debug)]
pub struct PuntPolicer {
    /// None for kinds that the stage does not punt.
    kinds: [Option<PolicedKind>; KINDS],
    /// Keys of buckets that nobody outside can find collisions for.
    secret: u64,
}

/// What of a kind may pass.
#[derive(Debug)]
struct PolicedKind {
    bucket: TokenBucket,
    /// What of it each interface and each prefix of sources may have where it is scarce.
    shares: Option<Shares>,
}

impl PuntPolicer {
    /// Lets `per_second` packets of all these kinds together through, and none of others.
    pub fn new(punted: &[PuntReason], per_second: u64) -> PuntPolicer {
        PuntPolicer::with(punted, per_second, |_| None, 0)
    }

    /// The same, with shares of all kinds for those who [cause](Origin) them.
    pub(crate) fn shared(punted: &[PuntReason], per_second: u64) -> PuntPolicer {
        PuntPolicer::shared_by(punted, per_second, RandomState::new().hash_one(per_second))
    }

    fn shared_by(punted: &[PuntReason], per_second: u64, secret: u64) -> PuntPolicer {
        PuntPolicer::with(punted, per_second, |rate| Some(Shares::new(rate)), secret)
    }

    fn with(
        punted: &[PuntReason],
        per_second: u64,
        shares: impl Fn(Rate) -> Option<Shares>,
        secret: u64,
    ) -> PuntPolicer {
        let of = |kind: PuntReason| {
            let rate = rate(kind, punted, per_second);
            let policed = || PolicedKind { bucket: TokenBucket::new(rate, 0), shares: shares(rate) };
            punted.contains(&kind).then(policed)
        };
        PuntPolicer { kinds: std::array::from_fn(|kind| of(PuntReason::from(kind as u32))), secret }
    }

    /// What may pass of one batch at time `now`.
    pub fn batch(&mut self, now: u64) -> BatchPolicer<'_> {
        BatchPolicer { policer: self, now, kinds: [None; KINDS] }
    }
}

/// What a bucket held at the first question, and what of it has not passed yet.
#[derive(Clone, Copy, Debug)]
struct Left {
    available: u64,
    left: u64,
    /// Where no more than this is left, it is scarce.
    scarce: u64,
}

impl Left {
    fn of(bucket: &mut TokenBucket, now: u64) -> Left {
        let available = bucket.available(now);
        Left { available, left: available, scarce: bucket.rate().burst() / 2 }
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

/// What may still pass of a batch. Under a flood a packet costs a comparison or two, and where there is something left, what tells its origin: the
/// clockwork of a bucket turns once per kind and batch.
#[derive(Debug)]
pub struct BatchPolicer<'p> {
    policer: &'p mut PuntPolicer,
    now: u64,
    kinds: [Option<Left>; KINDS],
}

impl BatchPolicer<'_> {
    /// Whether another packet of this kind may pass, whoever caused it.
    pub fn pass(&mut self, kind: PuntReason) -> bool {
        self.left(kind).is_some_and(|(left, _)| left.pass())
    }

    /// Whether another packet of this kind may pass that has this origin. While more than half is left of what a kind can save up, all may; the rest is
    /// for those who have not had [their share](Shares) yet. So a flood has whatever others leave, and takes nothing of theirs.
    pub(crate) fn pass_from(&mut self, kind: PuntReason, origin: impl FnOnce() -> Origin) -> bool {
        let (now, secret) = (self.now, self.policer.secret);
        let Some((left, policed)) = self.left(kind).filter(|(left, _)| left.left > 0) else { return false };
        if left.left <= left.scarce
            && let Some(shares) = &mut policed.shares
            && !shares.take(now, origin().places(secret))
        {
            return false;
        }
        left.pass()
    }

    /// What is left of a kind, if it is punted at all.
    fn left(&mut self, kind: PuntReason) -> Option<(&mut Left, &mut PolicedKind)> {
        let policed = self.policer.kinds.get_mut(kind as usize).and_then(Option::as_mut)?;
        let left = self.kinds.get_mut(kind as usize)?;
        Some((left.get_or_insert_with(|| Left::of(&mut policed.bucket, self.now)), policed))
    }
}

/// Ways out of a stage, some of which lead to the slow path.
pub trait Punts: Ways {
    /// What the slow path is asked for, and the reason if that is too much; `None` for drops.
    fn punted(self) -> Option<(PuntReason, Self)>;
}

impl BatchPolicer<'_> {
    /// Answers for a packet of this origin that leaves by `exit`, or is dropped where that asks too much of the slow path.
    #[inline(always)]
    pub(crate) fn answer<E: Punts>(
        &mut self,
        (exit, origin): (E, impl FnOnce() -> Origin),
        (slot, lanes): (Slot, &mut Lanes),
        key: Key<PuntReason>,
        out: &mut Out<'_>,
    ) {
        match exit.punted() {
            Some((kind, _)) if self.pass_from(kind, origin) => {
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
        for (policed, left) in self.policer.kinds.iter_mut().zip(self.kinds) {
            if let (Some(policed), Some(left)) = (policed, left) {
                left.settle(&mut policed.bucket, self.now);
            }
        }
    }
}

#[cfg(test)]
mod tests;
