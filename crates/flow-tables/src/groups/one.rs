//! One group, and what is counted of it.

use weir_openflow::Action;
use weir_openflow::group::{self, Bucket, Counted, GroupKind};
use weir_openflow::port::number;

use crate::counts::{PerWorker, Traffic, Worker, sum};
use crate::depth::Depth;
use crate::fast::program::Leg;
use crate::needs::Needs;

/// A group.
#[derive(Clone, Debug)]
pub struct Group {
    /// How it chooses.
    pub kind: GroupKind,
    /// What it chooses from, as it was sent.
    pub buckets: Vec<Bucket>,
    /// When it was added.
    pub added: u64,
    /// What it got.
    pub(super) counts: PerWorker<Counts>,
    /// What each bucket does, for the fast path; nothing of those that take the interpreter.
    pub(super) legs: Vec<Option<Leg>>,
    /// The weight of each bucket with those before it, if none watches anything: all are live then.
    pub(super) shares: Option<Box<[u64]>>,
}

/// The weight of each bucket with those before it; nothing if one of them watches something.
pub(super) fn shares(buckets: &[Bucket]) -> Option<Box<[u64]>> {
    let watches = |bucket: &Bucket| bucket.watch_port != number::ANY || bucket.watch_group != group::ANY;
    if buckets.iter().any(watches) {
        return None;
    }
    let mut sum = 0;
    let shares = buckets.iter().map(|bucket| {
        sum += u64::from(bucket.weight);
        sum
    });
    Some(shares.collect())
}

/// What a worker has counted of a group, and of its buckets behind it: four each in a line.
#[derive(Clone, Debug)]
pub(super) struct Counts(Box<[Line]>);

#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Line([Traffic; 4]);

impl Counts {
    pub(super) fn new(buckets: usize) -> Counts {
        Counts(vec![Line::default(); (buckets + 1).div_ceil(4)].into_boxed_slice())
    }

    #[inline]
    pub(super) fn all(&self) -> Option<&Traffic> {
        self.0.first().map(|Line([all, ..])| all)
    }

    #[inline]
    fn bucket(&self, bucket: usize) -> Option<&Traffic> {
        let at = bucket + 1;
        self.0.get(at / 4).map(|Line(line)| &line[at % 4])
    }
}

impl Group {
    /// What it got.
    pub fn counted(&self) -> Counted {
        sum(self.counts.iter().filter_map(Counts::all))
    }

    /// What its buckets got.
    pub fn bucket_counts(&self) -> Vec<Counted> {
        let of = |bucket| sum(self.counts.iter().filter_map(|counts| counts.bucket(bucket)));
        (0..self.buckets.len()).map(of).collect()
    }

    #[inline]
    pub(super) fn count_all(&self, worker: Worker, bytes: usize) {
        if let Some(all) = self.counts.of(worker).and_then(Counts::all) {
            all.add(Counted::one(bytes));
        }
    }

    #[inline]
    pub(super) fn count_bucket(&self, worker: Worker, bucket: usize, bytes: usize) {
        if let Some(count) = self.counts.of(worker).and_then(|counts| counts.bucket(bucket)) {
            count.add(Counted::one(bytes));
        }
    }

    /// How far the fast path looks into frames for it.
    pub(super) fn depth(&self) -> Depth {
        // What a flow is, by which such a group chooses, is all of it.
        let chooses = if self.kind == GroupKind::Select { Depth::Whole } else { Depth::Port };
        Depth::deepest(self.legs.iter().flatten().map(Leg::depth)).max(chooses)
    }

    /// What has to be known of packets for it.
    pub(super) fn needs(&self) -> Needs {
        let chooses = if self.kind == GroupKind::Select { Needs::of_hash() } else { Needs::default() };
        Needs::all(self.legs.iter().flatten().map(Leg::needs)).and(chooses)
    }

    /// The groups that it leads to itself.
    pub(super) fn next(&self) -> impl Iterator<Item = u32> {
        next(&self.buckets)
    }

    /// What a bucket does; nothing if that takes the interpreter.
    #[inline]
    pub(crate) fn leg(&self, bucket: usize) -> Option<&Leg> {
        self.legs.get(bucket)?.as_ref()
    }

    /// Counts a packet of so many bytes that goes to a bucket.
    #[inline]
    pub(crate) fn count(&self, worker: Worker, bucket: usize, bytes: usize) {
        self.count_all(worker, bytes);
        self.count_bucket(worker, bucket, bytes);
    }
}

pub(super) fn next(buckets: &[Bucket]) -> impl Iterator<Item = u32> {
    let actions = buckets.iter().flat_map(|bucket| &bucket.actions);
    actions.filter_map(|action| if let Action::Group(group) = action { Some(*group) } else { None })
}

/// The groups that a bucket of it watches.
pub(super) fn watched(buckets: &[Bucket]) -> impl Iterator<Item = u32> {
    buckets.iter().map(|bucket| bucket.watch_group).filter(|group| *group != group::ANY)
}
