//! Groups: OpenFlow 1.3.5 sections 5.6 and 6.6.

use std::collections::BTreeMap;

use weir_openflow::Error;
use weir_openflow::error::GroupModFailed;
use weir_openflow::group::{self, Bucket, GroupCommand, GroupDesc, GroupFeatures, GroupKind, GroupMod, GroupStats};
use weir_openflow::port::{Duration, number};

use crate::compiled::Templates;
use crate::counts::Worker;
use crate::depth::{Depth, Depths};
use crate::fast::program::Leg;
use crate::fields::{Fields, select_hash};
use crate::needs::Needs;
use crate::ports::Ports;

mod one;

pub use one::Group;
pub(crate) use one::OnlyBucket;
use one::{Counts, next, shares, watched};

/// How many buckets a group may have.
pub const MAX_BUCKETS: usize = 1024;
/// How many groups may lead to each other in a row.
pub const MAX_CHAIN: usize = 16;

/// Where a group lies, as long as it is there.
pub(crate) type GroupSlot = u32;

/// The buckets of a group that a packet goes to: each has a packet of its own.
pub(crate) struct Chosen<'g> {
    pub(crate) slot: GroupSlot,
    /// The number of the first one.
    pub(crate) first: u16,
    /// What they do; nothing of those that take the interpreter.
    pub(crate) legs: &'g [Option<Leg>],
}

/// Groups with smaller numbers are found without a search.
const NEAR: usize = 1 << 16;

/// The groups of a switch.
#[derive(Clone, Debug)]
pub struct Groups {
    /// Where groups lie, by number.
    numbers: BTreeMap<u32, GroupSlot>,
    /// The same of numbers below [`NEAR`], as far as there are any; one more than the slot, or 0.
    near: Vec<GroupSlot>,
    slots: Vec<Option<Group>>,
    free: Vec<GroupSlot>,
    max: usize,
    /// How far groups look into frames.
    depths: Depths,
    /// What has to be known of packets for them; groups that are gone may have been among those that need it.
    needs: Needs,
    /// How many workers there are.
    workers: usize,
    /// What their buckets change.
    templates: Templates,
}

impl Groups {
    /// No groups yet, and room for `max`.
    pub fn new(max: usize) -> Groups {
        Groups {
            numbers: BTreeMap::new(),
            near: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            max,
            depths: Depths::default(),
            needs: Needs::default(),
            workers: 1,
            templates: Templates::default(),
        }
    }

    /// Counters for one worker more.
    pub(crate) fn add_worker(&mut self) {
        self.workers += 1;
        self.slots.iter_mut().flatten().for_each(|group| group.counts.add_worker());
    }

    /// What their buckets change.
    pub(crate) fn templates(&self) -> &Templates {
        &self.templates
    }

    #[inline]
    fn slot(&self, group: u32) -> Option<GroupSlot> {
        if (group as usize) < NEAR {
            return self.near.get(group as usize)?.checked_sub(1);
        }
        self.numbers.get(&group).copied()
    }

    #[inline]
    fn in_slot(&self, slot: GroupSlot) -> Option<&Group> {
        self.slots.get(slot as usize)?.as_ref()
    }

    /// A group.
    #[inline]
    pub fn get(&self, group: u32) -> Option<&Group> {
        self.in_slot(self.slot(group)?)
    }

    /// All groups, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.numbers.iter().filter_map(|(number, slot)| Some((*number, self.in_slot(*slot)?)))
    }

    /// How far the fast path looks into frames for any group.
    #[inline]
    pub(crate) fn depth(&self) -> Depth {
        self.depths.deepest()
    }

    /// What has to be known of packets for any group.
    pub(crate) fn needs(&self) -> Needs {
        self.needs
    }

    /// The buckets of a group that a packet with these fields goes to; nothing if there is none.
    #[inline]
    pub(crate) fn find(&self, group: u32, fields: &Fields, ports: &Ports) -> Option<Chosen<'_>> {
        let slot = self.slot(group)?;
        let group = self.in_slot(slot)?;
        if group.kind == GroupKind::All {
            return Some(Chosen { slot, first: 0, legs: &group.legs });
        }
        let bucket = self.one_of(group, fields, ports)?;
        let legs = std::slice::from_ref(group.legs.get(bucket)?);
        Some(Chosen { slot, first: u16::try_from(bucket).ok()?, legs })
    }

    /// The group of a number with the only bucket that a packet with these fields goes to; nothing if there is none, or there may be several.
    #[inline]
    pub(crate) fn find_one(&self, group: u32, fields: &Fields, ports: &Ports) -> Option<(&Group, usize)> {
        let group = self.get(group)?;
        Some((group, self.one_of(group, fields, ports)?))
    }

    /// The only bucket of a group that a packet with these fields goes to.
    #[inline]
    fn one_of(&self, group: &Group, fields: &Fields, ports: &Ports) -> Option<usize> {
        match group.kind {
            GroupKind::All => (group.buckets.len() == 1).then_some(0),
            GroupKind::Indirect => Some(0),
            GroupKind::Select => self.choose_one(group, select_hash(fields), ports),
            GroupKind::FastFailover => self.choose_one(group, 0, ports),
        }
    }

    /// What a bucket that was [found](Groups::find) does with a packet of so many bytes, which is counted.
    #[inline]
    pub(crate) fn take(&self, worker: Worker, slot: GroupSlot, bucket: u16, bytes: usize) -> Option<&Leg> {
        self.in_slot(slot)?.count_all(worker, bytes);
        self.take_too(worker, slot, bucket, bytes)
    }

    /// The same of a further bucket that the packet goes to: the group has counted it.
    #[inline]
    pub(crate) fn take_too(&self, worker: Worker, slot: GroupSlot, bucket: u16, bytes: usize) -> Option<&Leg> {
        let group = self.in_slot(slot)?;
        group.count_bucket(worker, bucket.into(), bytes);
        group.legs.get(usize::from(bucket))?.as_ref()
    }

    pub(crate) fn count_packet(&self, worker: Worker, group: u32, bucket: usize, bytes: usize) {
        if let Some(group) = self.get(group) {
            group.count_bucket(worker, bucket, bytes);
        }
    }

    pub(crate) fn count_group(&self, worker: Worker, group: u32, bytes: usize) {
        if let Some(group) = self.get(group) {
            group.count_all(worker, bytes);
        }
    }

    /// Adds or replaces a group whose actions were checked.
    ///
    /// # Errors
    ///
    /// The codes of [`GroupModFailed`]; nothing changed then.
    pub(crate) fn set(&mut self, change: &GroupMod, ports: &Ports, now: u64) -> Result<(), Error> {
        let before = self.get(change.group);
        match change.command {
            GroupCommand::Add if before.is_some() => return Err(GroupModFailed::GroupExists.into()),
            GroupCommand::Modify if before.is_none() => return Err(GroupModFailed::UnknownGroup.into()),
            GroupCommand::Add if self.numbers.len() >= self.max => return Err(GroupModFailed::OutOfGroups.into()),
            _ => {}
        }
        self.check(change, ports)?;
        let counts = Counts::new(self.workers, change.buckets.len());
        // What it got goes on; what its buckets got begins anew with them.
        if let Some(before) = before {
            counts.go_on(&before.counts);
        }
        let added = before.map_or(now, |before| before.added);
        let mut legs: Box<[Option<Leg>]> = change.buckets.iter().map(Leg::of_bucket).collect();
        legs.iter_mut().flatten().for_each(|leg| leg.prepare(&mut self.templates));
        let group = Group {
            kind: change.kind,
            buckets: change.buckets.clone(),
            added,
            counts,
            legs,
            shares: shares(&change.buckets),
        };
        self.put(change.group, group);
        Ok(())
    }

    fn put(&mut self, number: u32, group: Group) {
        self.depths.add(group.depth());
        self.needs = self.needs.and(group.needs());
        let slot = self.slot(number).or_else(|| self.free.pop()).unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as GroupSlot
        });
        if let Some(before) = self.slots.get_mut(slot as usize).and_then(|place| place.replace(group)) {
            self.depths.take(before.depth());
        }
        self.numbers.insert(number, slot);
        self.set_near(number, slot + 1);
    }

    fn set_near(&mut self, number: u32, slot: GroupSlot) {
        let number = number as usize;
        if number >= NEAR {
            return;
        }
        if self.near.len() <= number {
            self.near.resize(number + 1, 0);
        }
        if let Some(near) = self.near.get_mut(number) {
            *near = slot;
        }
    }

    fn check(&self, change: &GroupMod, ports: &Ports) -> Result<(), Error> {
        if change.group > group::MAX {
            return Err(GroupModFailed::InvalidGroup.into());
        }
        if change.buckets.len() > MAX_BUCKETS {
            return Err(GroupModFailed::OutOfBuckets.into());
        }
        if change.kind == GroupKind::Indirect && change.buckets.len() != 1 {
            return Err(GroupModFailed::InvalidGroup.into());
        }
        for bucket in &change.buckets {
            let watches = bucket.watch_port != number::ANY || bucket.watch_group != group::ANY;
            // A weight means something in select groups only, and fast failover needs something to watch (section 6.6).
            if change.kind != GroupKind::Select && bucket.weight != 0
                || change.kind == GroupKind::FastFailover && !watches
            {
                return Err(GroupModFailed::InvalidGroup.into());
            }
            if bucket.watch_port != number::ANY && !ports.may_exist(bucket.watch_port)
                || bucket.watch_group != group::ANY && self.get(bucket.watch_group).is_none()
            {
                return Err(GroupModFailed::BadWatch.into());
            }
        }
        let leads: Vec<u32> = next(&change.buckets).chain(watched(&change.buckets)).collect();
        if leads.iter().any(|first| *first == change.group || self.reaches(*first, change.group)) {
            return Err(GroupModFailed::Loop.into());
        }
        // What leads here, and what this leads to, make one chain.
        let below = leads.iter().map(|first| self.chain(*first)).max().unwrap_or(0);
        // Nothing leads to a group that is new.
        let above = if change.command == GroupCommand::Modify && below > 0 { self.above(change.group) } else { 0 };
        if above + below >= MAX_CHAIN {
            return Err(GroupModFailed::ChainingUnsupported.into());
        }
        Ok(())
    }

    fn leads(&self, group: u32) -> Vec<u32> {
        let Some(group) = self.get(group) else { return Vec::new() };
        let mut leads: Vec<u32> = group.next().chain(watched(&group.buckets)).collect();
        leads.sort_unstable();
        leads.dedup();
        leads
    }

    /// Whether `from` leads to `to`.
    fn reaches(&self, from: u32, to: u32) -> bool {
        let mut open = vec![from];
        let mut seen = std::collections::BTreeSet::new();
        while let Some(group) = open.pop() {
            if group == to {
                return true;
            }
            if seen.insert(group) {
                open.extend(self.leads(group));
            }
        }
        false
    }

    /// The length of the longest chain that begins with `group`. Every chain is shorter than [`MAX_CHAIN`], and each
    /// group is looked at once.
    fn chain(&self, group: u32) -> usize {
        self.chain_of(group, &mut BTreeMap::new())
    }

    fn chain_of(&self, group: u32, known: &mut BTreeMap<u32, usize>) -> usize {
        if let Some(length) = known.get(&group) {
            return *length;
        }
        let below = self.leads(group).into_iter().map(|next| self.chain_of(next, known)).max().unwrap_or(0);
        known.insert(group, below + 1);
        below + 1
    }

    /// The length of the longest chain that ends before `group`.
    fn above(&self, group: u32) -> usize {
        let mut length = 0;
        let mut ends = std::collections::BTreeSet::from([group]);
        loop {
            let leads = |number: &u32| self.leads(*number).iter().any(|next| ends.contains(next));
            let before: std::collections::BTreeSet<u32> = self.numbers.keys().copied().filter(leads).collect();
            if before.is_empty() {
                return length;
            }
            length += 1;
            ends = before;
        }
    }

    /// Removes groups; the numbers of those that are gone.
    ///
    /// # Errors
    ///
    /// [`GroupModFailed::ChainedGroup`] if another group leads to it; nothing changed then.
    pub(crate) fn delete(&mut self, group: u32) -> Result<Vec<u32>, Error> {
        if group == group::ALL {
            let empty = Groups { workers: self.workers, ..Groups::new(self.max) };
            let all = std::mem::replace(self, empty);
            return Ok(all.numbers.into_keys().collect());
        }
        let chained = |number: &u32| *number != group && self.leads(*number).contains(&group);
        if self.get(group).is_some() && self.numbers.keys().any(chained) {
            return Err(GroupModFailed::ChainedGroup.into());
        }
        let Some(slot) = self.numbers.remove(&group) else { return Ok(Vec::new()) };
        if let Some(removed) = self.slots.get_mut(slot as usize).and_then(Option::take) {
            self.depths.take(removed.depth());
        }
        self.free.push(slot);
        self.set_near(group, 0);
        if self.numbers.is_empty() {
            self.needs = Needs::default();
        }
        Ok(vec![group])
    }

    /// Whether a bucket is live (section 5.6): what it watches is, or it watches nothing.
    pub fn is_bucket_live(&self, bucket: &Bucket, ports: &Ports) -> bool {
        let watches_port = bucket.watch_port != number::ANY;
        let watches_group = bucket.watch_group != group::ANY;
        !watches_port && !watches_group
            || watches_port && ports.is_live(bucket.watch_port)
            || watches_group && self.is_live(bucket.watch_group, ports)
    }

    /// Whether a group is live: one of its buckets is. Groups do not lead to themselves, so this ends.
    fn is_live(&self, group: u32, ports: &Ports) -> bool {
        self.get(group).is_some_and(|group| group.buckets.iter().any(|bucket| self.is_bucket_live(bucket, ports)))
    }

    /// Which buckets of a group get a packet with this hash.
    pub fn choose(&self, group: &Group, hash: u32, ports: &Ports) -> Vec<usize> {
        match group.kind {
            GroupKind::All | GroupKind::Indirect => (0..group.buckets.len()).collect(),
            GroupKind::FastFailover | GroupKind::Select => self.choose_one(group, hash, ports).into_iter().collect(),
        }
    }

    /// The bucket of a group that chooses one.
    fn choose_one(&self, group: &Group, hash: u32, ports: &Ports) -> Option<usize> {
        let live = |bucket: &Bucket| self.is_bucket_live(bucket, ports);
        if group.kind == GroupKind::FastFailover {
            return group.buckets.iter().position(live);
        }
        // The hash's share of its range is the packet's share of all weights.
        if let Some(shares) = &group.shares {
            let point = (u64::from(hash) * shares.last()?) >> 32;
            return shares.iter().position(|end| point < *end);
        }
        let weight = |bucket: &Bucket| if live(bucket) { u64::from(bucket.weight) } else { 0 };
        let total: u64 = group.buckets.iter().map(weight).sum();
        let mut point = (u64::from(hash) * total) >> 32;
        group.buckets.iter().position(|bucket| {
            let weight = weight(bucket);
            let here = point < weight;
            point = point.saturating_sub(weight);
            here
        })
    }

    /// Groups, as they were sent.
    pub fn descs(&self) -> Vec<GroupDesc> {
        let descs = self.iter().map(|(number, group)| GroupDesc {
            kind: group.kind,
            group: number,
            buckets: group.buckets.clone(),
        });
        descs.collect()
    }

    /// What went through a group, or through all; `flows` says how many flows lead to a group.
    pub fn stats(&self, group: u32, flows: impl Fn(u32) -> usize, now: u64) -> Vec<GroupStats> {
        let mut groups: BTreeMap<u32, usize> = BTreeMap::new();
        for next in self.iter().flat_map(|(_, group)| group.next()) {
            *groups.entry(next).or_default() += 1;
        }
        let asked = self.iter().filter(|(number, _)| group == group::ALL || *number == group);
        let stats = asked.map(|(number, group)| {
            let references = flows(number) + groups.get(&number).copied().unwrap_or(0);
            GroupStats {
                group: number,
                references: u32::try_from(references).unwrap_or(u32::MAX),
                counted: group.counted(),
                duration: Duration::from_nanoseconds(now.saturating_sub(group.added)),
                buckets: group.bucket_counts(),
            }
        });
        stats.collect()
    }

    /// What groups can do.
    pub fn features(&self) -> GroupFeatures {
        let actions = crate::features::action_kinds().filter(|kind| *kind < 32).fold(0, |bits, kind| bits | 1 << kind);
        GroupFeatures {
            kinds: 0b1111,
            capabilities: GroupFeatures::WEIGHTS
                | GroupFeatures::LIVENESS
                | GroupFeatures::CHAINING
                | GroupFeatures::CHAINING_CHECKS,
            max_groups: [u32::try_from(self.max).unwrap_or(u32::MAX); 4],
            actions: [actions; 4],
        }
    }
}
