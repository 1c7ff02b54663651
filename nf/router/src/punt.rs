//! What goes to the slow path, by kind, and how much of each: a flood of one kind must not take the others' share, nor the
//! slow path's time.

use weir_net::limit::{Rate, TokenBucket};
use weir_packet::{Key, Lanes, Slot};
use weir_stage::{Out, Ways};

/// Why a packet goes to the slow path: the content of a claimed lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
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
    /// Made by the slow path itself; never punted.
    Originated = 10,
    /// A copy of one that leaves by the port it came in by; not punted, but sampled.
    TurnsRound = 11,
}

/// Kinds that are punted.
const KINDS: usize = 10;

impl From<u32> for Kind {
    fn from(value: u32) -> Kind {
        match value {
            0 => Kind::Arp,
            1 => Kind::Nd,
            2 => Kind::Local,
            3 => Kind::Unresolved,
            4 => Kind::TtlExpired,
            5 => Kind::NoRoute,
            6 => Kind::TooBig,
            7 => Kind::Options,
            8 => Kind::BeyondScope,
            9 => Kind::Rejected,
            11 => Kind::TurnsRound,
            _ => Kind::Originated,
        }
    }
}

impl From<Kind> for u32 {
    fn from(kind: Kind) -> u32 {
        kind as u32
    }
}

/// Parts of the whole rate.
const WHOLE: u64 = 32;

/// How many parts of the whole rate a kind has. ARP, neighbour discovery and the router's own addresses have a quarter each, whatever else
/// comes: without them a flood would take the neighbours and the operator's access with it. New neighbours have twice what is left for others.
const fn share(kind: usize) -> u64 {
    match kind {
        0..3 => WHOLE / 4,
        3 => 2,
        _ => 1,
    }
}

/// The rate of a kind, all together being `per_second`. Each may save up a tenth of a second, and at least 16 packets.
fn rate(kind: usize, per_second: u64) -> Rate {
    const LEAST_BURST: u64 = 16;
    let rate = per_second.saturating_mul(share(kind)) / WHOLE;
    Rate::saving_a_tenth(rate.max(1), LEAST_BURST)
}

/// Polices what one worker hands to the slow path.
#[derive(Debug)]
pub(crate) struct Policing([TokenBucket; KINDS]);

impl Policing {
    /// Lets `per_second` packets of all kinds together through.
    pub(crate) fn new(per_second: u64) -> Policing {
        Policing(std::array::from_fn(|kind| TokenBucket::new(rate(kind, per_second), 0)))
    }

    /// What may pass of one batch at time `now`.
    pub(crate) fn batch(&mut self, now: u64) -> Allowance<'_> {
        Allowance { policing: self, now, left: [None; KINDS] }
    }
}

/// What may still pass of a batch. Under a flood a packet costs a comparison: the clockwork of a bucket turns once per kind
/// and batch.
#[derive(Debug)]
pub(crate) struct Allowance<'p> {
    policing: &'p mut Policing,
    now: u64,
    /// By kind: what was there at the first question, and what of it has not passed yet.
    left: [Option<(u64, u64)>; KINDS],
}

impl Allowance<'_> {
    /// Whether another packet of this kind may pass.
    pub(crate) fn pass(&mut self, kind: Kind) -> bool {
        let (Some(left), Some(bucket)) = (self.left.get_mut(kind as usize), self.policing.0.get_mut(kind as usize))
        else {
            return false;
        };
        let (_, left) = left.get_or_insert_with(|| {
            let available = bucket.available(self.now);
            (available, available)
        });
        let passes = *left > 0;
        *left = left.saturating_sub(1);
        passes
    }
}

/// Ways out of a stage, some of which lead to the slow path.
pub(crate) trait Punts: Ways {
    /// What the slow path is asked for, and the reason if that is too much; `None` for drops.
    fn punted(self) -> Option<(Kind, Self)>;
}

impl Allowance<'_> {
    /// Answers for a packet that leaves by `exit`, or is dropped where that asks too much of the slow path.
    #[inline(always)]
    pub(crate) fn answer<E: Punts>(
        &mut self,
        exit: E,
        slot: Slot,
        lanes: &mut Lanes,
        key: Key<Kind>,
        out: &mut Out<'_>,
    ) {
        match exit.punted() {
            Some((kind, _)) if self.pass(kind) => {
                lanes.set(key, slot, kind);
                out.answer(slot, exit);
            }
            Some((_, too_much)) => out.answer(slot, too_much),
            None => out.answer(slot, exit),
        }
    }
}

impl Drop for Allowance<'_> {
    fn drop(&mut self) {
        for (bucket, left) in self.policing.0.iter_mut().zip(self.left) {
            if let Some((available, left)) = left {
                // As much as there was at most, so that it is there.
                bucket.take(self.now, available.saturating_sub(left));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Kind; KINDS] = [
        Kind::Arp,
        Kind::Nd,
        Kind::Local,
        Kind::Unresolved,
        Kind::TtlExpired,
        Kind::NoRoute,
        Kind::TooBig,
        Kind::Options,
        Kind::BeyondScope,
        Kind::Rejected,
    ];

    /// How many of `count` packets pass, in batches of 64.
    fn passed(policing: &mut Policing, now: u64, kind: Kind, count: usize) -> usize {
        let mut passed = 0;
        for batch in 0..count.div_ceil(64) {
            let mut allowance = policing.batch(now);
            passed += (batch * 64..count.min(batch * 64 + 64)).filter(|_| allowance.pass(kind)).count();
        }
        passed
    }

    #[test]
    fn kinds_survive_their_lane() {
        for (n, kind) in ALL.into_iter().enumerate() {
            assert_eq!(Kind::from(u32::from(kind)), kind);
            assert_eq!(kind as usize, n);
        }
        for kind in [Kind::Originated, Kind::TurnsRound] {
            assert_eq!(Kind::from(u32::from(kind)), kind);
        }
        assert!(!Policing::new(u64::MAX).batch(0).pass(Kind::Originated), "it is never punted");
        assert_eq!((0..KINDS).map(share).sum::<u64>(), WHOLE, "the shares are the whole");
    }

    #[test]
    fn a_flood_of_one_kind_leaves_the_others_their_share() {
        let mut policing = Policing::new(32_000);
        let second = 1_000_000_000;
        for kind in ALL {
            // A tenth of a second in the bucket.
            let rate = 1_000 * share(kind as usize) as usize;
            assert_eq!(passed(&mut policing, second, kind, 5_000), rate / 10, "{kind:?}");
            assert_eq!(passed(&mut policing, second, kind, 64), 0);
        }
        for step in 1..=100 {
            let now = second + step * second / 100;
            assert_eq!(passed(&mut policing, now, Kind::TtlExpired, 640), 10);
        }
        for kind in ALL.into_iter().filter(|kind| *kind != Kind::TtlExpired) {
            assert!(passed(&mut policing, 2 * second, kind, 64) > 16, "{kind:?}");
        }
    }

    #[test]
    fn kinds_in_one_batch_do_not_share() {
        let mut policing = Policing::new(1);
        let mut allowance = policing.batch(0);
        for n in 0..32 {
            assert!(ALL.into_iter().all(|kind| allowance.pass(kind) == (n < 16)), "packet {n}");
        }
    }

    #[test]
    fn the_smallest_rate_still_lets_something_through() {
        let mut policing = Policing::new(1);
        for kind in ALL {
            assert_eq!(passed(&mut policing, 0, kind, 100), 16);
        }
    }
}
