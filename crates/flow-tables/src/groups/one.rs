//! One group, and what is counted of it.

use std::sync::Arc;

use weir_openflow::Action;
use weir_openflow::group::{self, Bucket, Counted, GroupKind};
use weir_openflow::port::number;

use crate::counts::{Traffic, Worker, sum};
use crate::depth::Depth;
use crate::fast::program::Leg;
use crate::needs::Needs;

/// A group. What packets need of it stands in its first line of the cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Group {
    /// How it chooses.
    pub kind: GroupKind,
    /// What each bucket does, for the fast path; nothing of those that take the interpreter.
    pub(super) legs: Box<[Option<Leg>]>,
    /// What it got.
    pub(super) counts: Counts,
    /// The weight of each bucket with those before it, if none watches anything: all are live then.
    pub(super) shares: Option<Box<[u64]>>,
    /// What it chooses from, as it was sent.
    pub buckets: Vec<Bucket>,
    /// When it was added.
    pub added: u64,
}

const _: () = assert!(std::mem::offset_of!(Group, buckets) == 64, "packets need one line");

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

/// What workers have counted of a group, and of its buckets behind it: four each in a line, and no worker writes the lines of another one.
#[derive(Debug)]
pub(super) struct Counts {
    /// Shared with those who [count](OnlyBucket) without the group.
    lines: Arc<[Line]>,
    /// How many of them each worker has.
    each: usize,
}

#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Line([Traffic; 4]);

impl Clone for Counts {
    fn clone(&self) -> Counts {
        Counts { lines: self.lines.iter().cloned().collect(), each: self.each }
    }
}

/// What is counted of a group with one bucket, and of that: a line for each worker.
#[derive(Clone, Debug)]
pub(crate) struct OnlyBucket(Arc<[Line]>);

impl OnlyBucket {
    /// Counts a packet of so many bytes.
    #[inline(always)]
    pub(crate) fn count(&self, worker: Worker, bytes: usize) {
        if let Some(Line([all, bucket, ..])) = self.0.get(worker.0) {
            all.add(Counted::one(bytes));
            bucket.add(Counted::one(bytes));
        }
    }
}

impl Counts {
    pub(super) fn new(workers: usize, buckets: usize) -> Counts {
        let each = (buckets + 1).div_ceil(4);
        Counts { lines: vec![Line::default(); workers * each].into(), each }
    }

    /// Counters for one worker more.
    pub(super) fn add_worker(&mut self) {
        let more = vec![Line::default(); self.each];
        self.lines = self.lines.iter().cloned().chain(more).collect();
    }

    /// What a worker has counted of the group, or of the bucket of a number, which is one more.
    #[inline]
    fn of(&self, worker: Worker, number: usize) -> Option<&Traffic> {
        let Line(line) = self.lines.get(worker.0 * self.each + number / 4)?;
        Some(&line[number % 4])
    }

    /// The same of all workers.
    pub(super) fn of_all(&self, number: usize) -> impl Iterator<Item = (Worker, &Traffic)> {
        let workers = (0..self.lines.len() / self.each.max(1)).map(Worker);
        workers.filter_map(move |worker| Some((worker, self.of(worker, number)?)))
    }

    /// Takes over what was counted of the group that this one replaces.
    pub(super) fn go_on(&self, before: &Counts) {
        for (worker, counted) in before.of_all(0) {
            if let Some(all) = self.of(worker, 0) {
                all.add(counted.get());
            }
        }
    }
}

impl Group {
    /// What it got.
    pub fn counted(&self) -> Counted {
        sum(self.counts.of_all(0).map(|(_, all)| all))
    }

    /// What its buckets got.
    pub fn bucket_counts(&self) -> Vec<Counted> {
        (1..=self.buckets.len()).map(|number| sum(self.counts.of_all(number).map(|(_, bucket)| bucket))).collect()
    }

    #[inline]
    pub(super) fn count_all(&self, worker: Worker, bytes: usize) {
        if let Some(all) = self.counts.of(worker, 0) {
            all.add(Counted::one(bytes));
        }
    }

    #[inline]
    pub(super) fn count_bucket(&self, worker: Worker, bucket: usize, bytes: usize) {
        if let Some(count) = self.counts.of(worker, bucket + 1) {
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

    /// What its only bucket does with all packets, whatever becomes of ports, and where these are counted; nothing if it may have another one for some of them.
    pub(crate) fn only_leg(&self) -> Option<(&Leg, OnlyBucket)> {
        let has_one = matches!(self.kind, GroupKind::All | GroupKind::Indirect) && self.buckets.len() == 1;
        let leg = self.leg(0).filter(|_| has_one)?;
        Some((leg, OnlyBucket(Arc::clone(&self.counts.lines))))
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
