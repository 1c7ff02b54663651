//! Equal-cost sets: a fixed number of buckets, shared out among the members that are usable.
//!
//! A flow's hash picks a bucket, the bucket names a next hop. When a member goes, only its buckets are shared out among the
//! others; when one comes, it takes from each only what it is due. So flows stay where they are as far as that is
//! possible.

use crate::nexthop::NextHopId;
use crate::slots::{Place, Slots};

/// Buckets of a group.
pub const BUCKETS: usize = 256;

/// Most members of a group: at least four buckets for each, so that shares differ by at most a quarter.
pub const MAX_MEMBERS: usize = 64;

/// The next hop of each bucket; a flow with hash `h` takes bucket `h % BUCKETS`.
pub type Buckets = [NextHopId; BUCKETS];

/// The number of a group. As with next hops, a reused number has another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId {
    index: u32,
    generation: u32,
}

impl GroupId {
    /// The place, below the store's capacity.
    pub const fn index(self) -> u32 {
        self.index
    }

    /// How often the place was reused.
    pub const fn generation(self) -> u32 {
        self.generation
    }

    const fn place(self) -> Place {
        (self.index, self.generation)
    }
}

/// All groups.
#[derive(Debug)]
pub struct GroupStore {
    slots: Slots<Box<Buckets>>,
}

impl GroupStore {
    /// An empty store for up to `capacity` groups.
    pub fn new(capacity: u32) -> Self {
        GroupStore { slots: Slots::new(capacity) }
    }

    /// A new group, without members yet; `None` if all places are taken or wait for [`GroupStore::recycle`].
    pub fn create(&mut self) -> Option<GroupId> {
        self.create_like(None)
    }

    /// As [`GroupStore::create`], with the buckets that `model` has, if any: what [`GroupStore::update`] need not change of
    /// them stays.
    pub fn create_like(&mut self, model: Option<GroupId>) -> Option<GroupId> {
        let buckets = model.and_then(|model| self.slots.get(model.place()).cloned());
        let (index, generation) = self.slots.insert(buckets.unwrap_or_else(|| Box::new([NextHopId::NONE; BUCKETS])))?;
        Some(GroupId { index, generation })
    }

    /// Shares the buckets out among `members`, sorted and without duplicates, 1..=[`MAX_MEMBERS`] of them. Shares differ by at
    /// most one bucket. Answers how many buckets changed; 0 also if there is no such group, or no member.
    pub fn update(&mut self, id: GroupId, members: &[NextHopId]) -> usize {
        let Some(buckets) = self.slots.get_mut(id.place()) else { return 0 };
        if members.is_empty() { 0 } else { share_out(buckets, members) }
    }

    /// How many buckets [`GroupStore::update`] would change in a group with the buckets of `model`; `None` if that is gone.
    pub fn least(&self, model: GroupId, members: &[NextHopId]) -> Option<usize> {
        let mut buckets = self.buckets(model).copied()?;
        Some(if members.is_empty() { 0 } else { share_out(&mut buckets, members) })
    }

    /// How many buckets of two groups lead elsewhere; all of them if one is gone.
    pub fn distance(&self, one: GroupId, other: GroupId) -> usize {
        let both = self.buckets(one).zip(self.buckets(other));
        both.map_or(BUCKETS, |(one, other)| one.iter().zip(other).filter(|(one, other)| one != other).count())
    }

    /// Whether half of all places or more are taken, or wait for [`GroupStore::recycle`].
    pub fn is_half_taken(&self) -> bool {
        self.slots.is_half_taken()
    }

    /// The buckets of a group; `None` if it is gone.
    pub fn buckets(&self, id: GroupId) -> Option<&Buckets> {
        self.slots.get(id.place()).map(Box::as_ref)
    }

    /// Gives a group up. Answers whether it was there; its place is used again only after [`GroupStore::recycle`].
    pub fn remove(&mut self, id: GroupId) -> bool {
        self.slots.remove(id.place()).is_some()
    }

    /// Groups in use.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no group is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`crate::nexthop::NextHopStore::retired`], for groups.
    pub const fn retired(&self) -> u64 {
        self.slots.retired()
    }

    /// As [`crate::nexthop::NextHopStore::recycle`], for groups.
    pub fn recycle(&mut self, upto: u64) {
        self.slots.recycle(upto);
    }
}

/// What a member has and what it is due.
struct Share {
    member: NextHopId,
    held: usize,
    due: usize,
}

/// Every member gets `BUCKETS / n`, and those that hold most already get one more until all are given out.
fn shares(buckets: &Buckets, members: &[NextHopId]) -> Vec<Share> {
    let held = |member| buckets.iter().filter(|&&owner| owner == member).count();
    let mut shares: Vec<_> = members.iter().map(|&member| Share { member, held: held(member), due: 0 }).collect();
    shares.sort_by_key(|share| (std::cmp::Reverse(share.held), share.member));
    let even = BUCKETS / shares.len().max(1);
    let extra = BUCKETS % shares.len().max(1);
    for (rank, share) in shares.iter_mut().enumerate() {
        share.due = even + usize::from(rank < extra);
        share.held = 0;
    }
    shares.sort_by_key(|share| share.member);
    shares
}

fn share_out(buckets: &mut Buckets, members: &[NextHopId]) -> usize {
    let mut shares = shares(buckets, members);
    let mut open = Vec::new();
    for bucket in buckets.iter_mut() {
        let owner = shares.binary_search_by_key(bucket, |share| share.member).ok();
        match owner.and_then(|owner| shares.get_mut(owner)) {
            Some(share) if share.held < share.due => share.held += 1,
            _ => open.push(bucket),
        }
    }
    let changed = open.len();
    let mut open = open.into_iter();
    // One bucket to each in turn, so that a member's buckets are spread out.
    while open.len() > 0 {
        let before = open.len();
        for share in shares.iter_mut().filter(|share| share.held < share.due) {
            let Some(bucket) = open.next() else { break };
            *bucket = share.member;
            share.held += 1;
        }
        if open.len() == before {
            break;
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nexthop::{NextHop, NextHopStore};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn ids(count: u16) -> Vec<NextHopId> {
        let mut store = NextHopStore::new(100);
        (0..count).map(|interface| store.acquire(NextHop { interface, gateway: None }).unwrap().id).collect()
    }

    fn assert_fair(buckets: &Buckets, members: &[NextHopId]) {
        let counts: Vec<_> =
            members.iter().map(|member| buckets.iter().filter(|owner| *owner == member).count()).collect();
        assert_eq!(counts.iter().sum::<usize>(), BUCKETS, "no bucket is anyone else's");
        assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
    }

    #[test]
    fn losing_a_member_moves_only_its_buckets_for_every_size_and_member() {
        for count in 2..=MAX_MEMBERS {
            let members = ids(count as u16);
            for gone in 0..count {
                let mut store = GroupStore::new(1);
                let group = store.create().unwrap();
                assert_eq!(store.update(group, &members), BUCKETS);
                let before = *store.buckets(group).unwrap();
                assert_fair(&before, &members);
                let mut left = members.clone();
                left.remove(gone);
                let moved = store.update(group, &left);
                let after = store.buckets(group).unwrap();
                assert_fair(after, &left);
                for (before, after) in before.iter().zip(after) {
                    assert!(before == after || *before == members[gone]);
                }
                assert_eq!(moved, before.iter().filter(|owner| **owner == members[gone]).count());
            }
        }
    }

    proptest! {
        /// The least that must move is what leaving members held and what others hold beyond their share.
        #[test]
        fn no_more_moves_than_fairness_needs(
            changes in proptest::collection::vec(proptest::collection::btree_set(0usize..64, 1..64), 1..12),
        ) {
            let all = ids(64);
            let mut store = GroupStore::new(1);
            let group = store.create().unwrap();
            let mut present: BTreeSet<usize> = BTreeSet::new();
            for next in changes {
                let before = *store.buckets(group).unwrap();
                let members: Vec<_> = next.iter().map(|&index| all[index]).collect();
                let moved = store.update(group, &members);
                let after = *store.buckets(group).unwrap();
                assert_fair(&after, &members);
                prop_assert_eq!(moved, before.iter().zip(&after).filter(|(before, after)| before != after).count());
                let (even, extra) = (BUCKETS / next.len(), BUCKETS % next.len());
                let mut held: Vec<usize> =
                    members.iter().map(|member| before.iter().filter(|owner| *owner == member).count()).collect();
                held.sort_unstable_by(|a, b| b.cmp(a));
                let kept: usize = held.iter().enumerate().map(|(rank, &held)| held.min(even + usize::from(rank < extra))).sum();
                prop_assert_eq!(moved, BUCKETS - kept);
                if next.is_superset(&present) || next.is_subset(&present) {
                    for (before, after) in before.iter().zip(&after) {
                        let newcomer = members.contains(after) && !present.iter().any(|&index| all[index] == *after);
                        prop_assert!(before == after || newcomer || !members.contains(before));
                    }
                }
                present = next;
            }
        }
    }

    #[test]
    fn groups_that_are_gone_answer_nothing() {
        let members = ids(2);
        let mut store = GroupStore::new(1);
        let group = store.create().unwrap();
        assert_eq!(store.create(), None);
        assert_eq!(store.update(group, &[]), 0);
        assert!(store.remove(group) && !store.remove(group));
        assert_eq!((store.update(group, &members), store.buckets(group)), (0, None));
        store.recycle(store.retired());
        let next = store.create().unwrap();
        assert_eq!((next.index(), next.generation(), store.len()), (0, 1, 1));
        assert!(!store.is_empty());
    }
}
