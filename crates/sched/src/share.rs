//! What each of several schedulers may send of what a port and its subports may: as much of it as its users may send of what all
//! users may.
//!
//! So if all users together may send no more than the port, those of each scheduler may send no more than its share.

use crate::class::MAX_CLASSES;
use crate::profile::{LEVELS, SubportProfile};
use crate::rate::Bucket;
use weir_stage::ownership::Owners;

/// The longest frame with overhead: what is saved up is not divided below it.
const FRAME: u64 = 9_300;

/// A rate in bit/s, and what may be saved up of it in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) rate: u64,
    pub(crate) size: u64,
}

impl Limit {
    fn whole(self) -> Bucket {
        Bucket::new(self.rate, self.size)
    }

    fn part(self, weight: u64, all: u64) -> Bucket {
        let part = |whole: u64| (u128::from(whole) * u128::from(weight) / u128::from(all.max(1))) as u64;
        Bucket::new(part(self.rate), part(self.size).max(self.size.min(FRAME)))
    }
}

/// What a port and its subports may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) port: Limit,
    pub(crate) subports: Vec<SubportLimits>,
}

/// What the users of a subport may send together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubportLimits {
    /// Guaranteed; nothing when absent.
    pub(crate) guaranteed: Option<Limit>,
    /// At most; what the port may when absent.
    pub(crate) most: Option<Limit>,
    pub(crate) weight: u8,
    /// The subport above it; the port when absent.
    pub(crate) parent: Option<u16>,
    /// Of each class at most; what it may send in all when absent.
    pub(crate) classes: [Option<Limit>; MAX_CLASSES],
    /// Guaranteed to each class of what is sent through it; nothing when absent.
    pub(crate) promises: [Option<Limit>; MAX_CLASSES],
}

impl SubportLimits {
    /// All of it.
    pub(crate) fn whole(&self) -> SubportProfile {
        self.profile(Limit::whole)
    }

    fn profile(&self, bucket: impl Fn(Limit) -> Bucket) -> SubportProfile {
        let profile = SubportProfile::new(self.most.map_or(Bucket::UNLIMITED, &bucket), self.weight);
        let profile = self.guaranteed.map_or(profile, |limit| profile.guaranteed(bucket(limit)));
        let profile = self.parent.map_or(profile, |parent| profile.below(parent));
        let limited = (0..).zip(&self.classes).filter_map(|(class, limit)| Some((class, (*limit)?)));
        let profile = limited.fold(profile, |profile, (class, limit)| profile.class(class, bucket(limit)));
        let promised = (0..).zip(&self.promises).filter_map(|(class, limit)| Some((class, (*limit)?)));
        promised.fold(profile, |profile, (class, limit)| profile.promising(class, bucket(limit)))
    }
}

/// Which subports are above each.
struct Levels<'a>(&'a [SubportLimits]);

impl Levels<'_> {
    fn new(subports: &[SubportLimits]) -> Levels<'_> {
        Levels(subports)
    }

    /// What each subport has, with all that is below it.
    fn sums(&self, own: &[u64]) -> Vec<u64> {
        let mut sums = own.to_vec();
        for (n, weight) in own.iter().enumerate() {
            let above = |n: usize| self.0.get(n)?.parent.map(usize::from);
            let path = std::iter::successors(above(n), |at| above(*at)).take(LEVELS - 1);
            path.for_each(|at| sums.iter_mut().skip(at).take(1).for_each(|sum| *sum = sum.saturating_add(*weight)));
        }
        sums
    }
}

/// The rates that users of each scheduler may send at together, bit/s.
#[derive(Debug)]
pub(crate) struct Shares {
    owners: Owners,
    /// By scheduler, then by subport.
    weights: Vec<Vec<u64>>,
}

impl Shares {
    /// Without users, of so many subports (at least one).
    pub(crate) fn new(owners: Owners, subports: usize) -> Shares {
        Shares { owners, weights: vec![vec![0; subports.max(1)]; usize::from(owners.parts())] }
    }

    /// Whether there is anything to divide.
    pub(crate) fn divides(&self) -> bool {
        self.weights.len() > 1
    }

    /// A user of a subport may send at another rate than before; 0 if it is none of its users.
    pub(crate) fn change(&mut self, user: u32, subport: u16, before: u64, now: u64) {
        let scheduler = self.weights.iter_mut().zip(0..).find(|(_, scheduler)| self.owners.at(*scheduler, user));
        let weight = scheduler.and_then(|(weights, _)| weights.get_mut(usize::from(subport)));
        if let Some(weight) = weight {
            *weight = weight.saturating_sub(before).saturating_add(now);
        }
    }

    /// What a scheduler may send of these limits.
    pub(crate) fn of(&self, scheduler: u8, limits: &Limits) -> (Bucket, Vec<SubportProfile>) {
        let levels = Levels::new(&limits.subports);
        let sum = |weights: &Vec<u64>| weights.iter().sum::<u64>();
        let port = match self.own(scheduler) {
            Some(own) => limits.port.part(sum(own), self.weights.iter().map(sum).sum()),
            None => limits.port.whole(),
        };
        // With all that is below each.
        let all: Vec<Vec<u64>> = match self.divides() {
            true => self.weights.iter().map(|weights| levels.sums(weights)).collect(),
            false => Vec::new(),
        };
        let weight = |weights: &Vec<u64>, number: usize| weights.get(number).copied().unwrap_or(0);
        let subport = |(n, limits): (usize, &SubportLimits)| {
            limits.profile(|limit: Limit| match all.get(usize::from(scheduler)) {
                None => limit.whole(),
                Some(own) => limit.part(weight(own, n), all.iter().map(|weights| weight(weights, n)).sum()),
            })
        };
        (port, limits.subports.iter().enumerate().map(subport).collect())
    }

    /// The weights of a scheduler, where there is anything to divide.
    fn own(&self, scheduler: u8) -> Option<&Vec<u64>> {
        self.weights.get(usize::from(scheduler)).filter(|_| self.divides())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limit = Limit { rate: 1_000_000_000, size: 100_000 };
    const LIMITED: SubportLimits = SubportLimits {
        guaranteed: None,
        most: Some(LIMITS),
        weight: 1,
        parent: None,
        classes: [None; MAX_CLASSES],
        promises: [None; MAX_CLASSES],
    };

    #[test]
    fn one_scheduler_has_everything() {
        let limits = Limits { port: LIMITS, subports: vec![SubportLimits::default(), LIMITED] };
        for owners in [Owners::ONE, Owners::sharing(5)] {
            let shares = Shares::new(owners, 2);
            let (port, subports) = shares.of(0, &limits);
            assert!(port == LIMITS.whole() && subports[1].bucket == port && subports[0].bucket.is_unlimited());
        }
    }

    #[test]
    fn shares_follow_the_rates_of_users() {
        let limits = Limits { port: LIMITS, subports: vec![SubportLimits::default(), LIMITED] };
        let mut shares = Shares::new(Owners::divided(3), 2);
        // Users 0 and 3 are the first scheduler's.
        for (user, subport, rate) in [(0, 0, 1_000), (3, 1, 2_000), (1, 1, 6_000), (2, 0, 500), (2, 0, 0)] {
            let before = if user == 2 && rate == 0 { 500 } else { 0 };
            shares.change(user, subport, before, rate);
        }
        let (first, subports) = shares.of(0, &limits);
        assert_eq!(first, Bucket::new(333_333_333, 33_333));
        assert_eq!(subports[1].bucket, Bucket::new(250_000_000, 25_000));
        assert_eq!(shares.of(1, &limits).0, Bucket::new(666_666_666, 66_666));
        // Who has no users may not do much, but a frame goes in the end.
        assert_eq!(shares.of(2, &limits).0, Bucket::new(0, FRAME));
    }

    #[test]
    fn shares_never_add_up_to_more_than_the_whole() {
        for schedulers in 2..=64_u8 {
            let mut shares = Shares::new(Owners::divided(schedulers), 1);
            (0..1000).for_each(|user| shares.change(user, 0, 0, u64::from(user) * 7919 % 100_000));
            let all: u64 = shares.weights.iter().flatten().sum();
            let rate = |own: &Vec<u64>| (u128::from(LIMITS.rate) * u128::from(own[0]) / u128::from(all)) as u64;
            let sum: u64 = shares.weights.iter().map(rate).sum();
            assert!(sum <= LIMITS.rate && sum + u64::from(schedulers) > LIMITS.rate, "{schedulers}: {sum}");
        }
    }
}
