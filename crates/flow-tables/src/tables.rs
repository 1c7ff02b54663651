//! The flow tables of a switch, and how they change: OpenFlow 1.3.5 sections 5.5, 6.4 and 6.5.

use std::collections::BTreeSet;

use weir_openflow::Error;
use weir_openflow::error::FlowModFailed;
use weir_openflow::flow::{ALL_TABLES, FlowCommand, FlowMod, FlowQuery, FlowRemoved, FlowStats, RemovedReason, flags};
use weir_openflow::group::Counted;
use weir_openflow::multipart::Aggregate;
use weir_openflow::table::TableStats;

use crate::compiled::{Compiled, Found, Made, Recipe, SampleFrame, Target, Templates, Then};
use crate::counts::{Used, Worker};
use crate::depth::{Depth, Depths};
use crate::fast::direct::Direct;
use crate::fast::program::Program;
use crate::fast::programs::{ProgramNumber, Programs};
use crate::fields::Key;
use crate::flow::Flow;
use crate::groups::Groups;
use crate::index::Slot;
use crate::table::{FlowTable, Place};

/// A flow's table and place.
pub type FlowId = (u8, Place);

/// The flow tables of a switch.
#[derive(Clone, Debug)]
pub struct Tables {
    tables: Vec<FlowTable>,
    /// How many flows a table may have.
    max_flows: usize,
    /// How many flows came so far.
    came: u64,
    /// When flows with timeouts are looked at.
    schedule: BTreeSet<(u64, FlowId)>,
    programs: Programs,
    /// Tables in which many packets can be looked up at the same time.
    approached: BTreeSet<u8>,
    /// How far flows look into frames.
    depths: Depths,
    /// Their machine code.
    compiled: Compiled,
}

impl Tables {
    /// `count` empty tables (at most 255) of up to `max_flows` flows each.
    pub fn new(count: u8, max_flows: usize) -> Tables {
        let tables = vec![FlowTable::default(); usize::from(count)];
        Tables {
            tables,
            max_flows,
            came: 0,
            schedule: BTreeSet::new(),
            programs: Programs::default(),
            approached: BTreeSet::new(),
            depths: Depths::default(),
            compiled: Compiled::default(),
        }
    }

    /// How many tables there are.
    pub fn count(&self) -> u8 {
        self.tables.len() as u8
    }

    /// How many flows a table may have.
    pub fn max_flows(&self) -> usize {
        self.max_flows
    }

    /// A table.
    pub fn get(&self, table: u8) -> Option<&FlowTable> {
        self.tables.get(usize::from(table))
    }

    pub(crate) fn get_mut(&mut self, table: u8) -> Option<&mut FlowTable> {
        self.tables.get_mut(usize::from(table))
    }

    /// All tables with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &FlowTable)> {
        (0..=u8::MAX).zip(&self.tables)
    }

    /// A flow.
    pub fn flow(&self, (table, place): FlowId) -> Option<&Flow> {
        self.get(table)?.get(place)
    }

    /// What a flow has done.
    pub fn used(&self, (table, place): FlowId) -> Option<Used> {
        self.get(table)?.used(place)
    }

    /// What controllers are told of a flow.
    pub fn flow_stats(&self, id: FlowId, now: u64) -> Option<FlowStats> {
        Some(self.flow(id)?.stats(id.0, self.used(id)?, now))
    }

    /// Counters for one worker more.
    pub(crate) fn add_worker(&mut self) {
        self.tables.iter_mut().for_each(FlowTable::add_worker);
        self.compiled.add_worker();
    }

    /// How far the fast path looks into frames for any flow.
    #[inline]
    pub(crate) fn depth(&self) -> Depth {
        self.depths.deepest()
    }

    /// The tables in which many packets can be looked up at the same time.
    #[inline]
    pub(crate) fn approached(&self) -> impl Iterator<Item = (u8, &FlowTable)> {
        self.approached.iter().filter_map(|number| Some((*number, self.get(*number)?)))
    }

    /// What programs come to, by their numbers: [`Programs::directs`].
    #[inline(always)]
    pub(crate) fn directs(&self) -> &[Option<Direct>] {
        self.programs.directs()
    }

    /// The program of a number.
    #[inline(always)]
    pub(crate) fn program(&self, number: ProgramNumber) -> Option<&Program> {
        self.programs.get(number)
    }

    /// Its machine code.
    #[inline]
    pub(crate) fn code(&self) -> &Compiled {
        &self.compiled
    }

    /// Frames by which it is measured how long code takes that tries the flows of the first table, if it is in use.
    pub(crate) fn code_samples(&self) -> Option<Vec<SampleFrame>> {
        self.compiled.samples(self.tables.first()?)
    }

    /// What is to be compiled now, with the changes of groups, if something is.
    pub(crate) fn recipe(&self, groups: &Templates) -> Option<Recipe> {
        self.compiled.recipe(self.programs.templates.wanted().chain(groups.wanted()).collect())
    }

    /// Takes in what was made; what it replaces.
    pub(crate) fn install(&mut self, made: Made) -> Option<Made> {
        self.compiled.install(made, &self.tables)
    }

    /// Whether there may be machine code.
    pub(crate) fn allow_code(&mut self, is_allowed: bool) {
        self.compiled.allow(is_allowed, &self.tables);
    }

    /// Sees what groups are now, after these were changed or removed.
    pub(crate) fn note_groups(&mut self, changed: &[u32], groups: &Groups) {
        self.compiled.see_groups(groups.needs(), &self.tables);
        changed.iter().for_each(|group| self.programs.see_group(*group, groups));
    }

    /// Sees what all groups are now.
    pub(crate) fn see_groups(&mut self, groups: &Groups) {
        self.programs.see_groups(groups);
    }

    /// Sees what flows do that are new: after every change of flows.
    pub(crate) fn settle(&mut self, groups: &Groups) {
        self.programs.settle(groups);
    }

    /// Counts packets that code decided about at the flows that they met.
    #[inline]
    pub(crate) fn meet_found(&self, worker: Worker, found: Found, packets: Counted, now: u64) {
        self.compiled.count(worker, packets.packets);
        let met = self.compiled.target(found).map_or(&[][..], Target::met);
        met.iter().for_each(|met| self.meet(worker, *met, packets, now));
    }

    /// Counts packets that code decided about, and for which a flow was found that counts them: at those that led them there, and at its table.
    pub(crate) fn meet_leading(&self, worker: Worker, found: Found, packets: Counted, now: u64) {
        self.compiled.count(worker, packets.packets);
        let Some(target) = self.compiled.target(found) else { return };
        target.parts().0.iter().for_each(|met| self.meet(worker, *met, packets, now));
        let number = match target.then {
            Then::Search(number) | Then::Go((number, _)) => number,
            Then::Leave(_) => return,
        };
        if let Some(table) = self.get(number) {
            table.pass(worker, packets.packets);
        }
    }

    /// Counts a packet that code decided about.
    #[inline]
    pub(crate) fn count_by_code(&self, worker: Worker) {
        self.compiled.count(worker, 1);
    }

    /// Notes what has changed about a table: whether it is one of those in which many packets can be looked up at the same time, and the code.
    fn note_change(&mut self, number: u8) {
        self.compiled.see_table(number, &self.tables);
        if self.get(number).is_some_and(FlowTable::can_approach) {
            self.approached.insert(number);
        } else {
            self.approached.remove(&number);
        }
    }

    /// Packets meet the flow of a slot.
    #[inline]
    pub(crate) fn meet(&self, worker: Worker, (table, slot): (u8, Slot), packets: Counted, now: u64) {
        if let Some(table) = self.get(table) {
            table.meet(worker, slot, packets, now);
        }
    }

    /// A packet meets no flow of a table.
    pub(crate) fn miss(&self, worker: Worker, table: u8) {
        if let Some(table) = self.get(table) {
            table.miss(worker);
        }
    }

    /// Which tables a request is about.
    fn named(&self, table: u8) -> std::ops::Range<u8> {
        if table == ALL_TABLES { 0..self.count() } else { table..table.saturating_add(1).min(self.count()).max(table) }
    }

    /// Whether there is such a table; where `all` is allowed, [`ALL_TABLES`] is too.
    pub(crate) fn has(&self, table: u8, all: bool) -> bool {
        self.get(table).is_some() || (all && table == ALL_TABLES)
    }

    /// Carries a change out whose instructions were checked. Gives the news of flows that ended by it.
    ///
    /// # Errors
    ///
    /// [`FlowModFailed::BadTableId`], [`FlowModFailed::Overlap`] and [`FlowModFailed::TableFull`]; nothing changed then.
    pub(crate) fn change(&mut self, change: &FlowMod, now: u64) -> Result<Vec<FlowRemoved>, Error> {
        let deletes = matches!(change.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        if !self.has(change.table, deletes) {
            return Err(FlowModFailed::BadTableId.into());
        }
        match change.command {
            FlowCommand::Add => self.add(change, now).map(|()| Vec::new()),
            FlowCommand::Modify | FlowCommand::ModifyStrict => {
                self.modify(change);
                Ok(Vec::new())
            }
            FlowCommand::Delete | FlowCommand::DeleteStrict => {
                let found = self.meant(change);
                let ends = found.into_iter().filter(|id| {
                    self.flow(*id).is_some_and(|flow| {
                        flow.is_named(change.cookie, change.cookie_mask, change.out_port, change.out_group)
                    })
                });
                let ends: Vec<FlowId> = ends.collect();
                Ok(self.remove(&ends, RemovedReason::Delete, now))
            }
        }
    }

    fn add(&mut self, change: &FlowMod, now: u64) -> Result<(), Error> {
        let max = self.max_flows;
        let Tables { tables, programs, depths, .. } = self;
        let table = tables.get_mut(usize::from(change.table)).ok_or(FlowModFailed::BadTableId)?;
        let key = Key::of(&change.matches);
        if change.flags & flags::CHECK_OVERLAP != 0 && table.overlaps(change.priority, &key) {
            return Err(FlowModFailed::Overlap.into());
        }
        let before = table.strict(change.priority, &key);
        if before.is_none() && table.len() >= max {
            return Err(FlowModFailed::TableFull.into());
        }
        let mut flow = Flow::new(change, key, programs, now);
        depths.add(flow.depth());
        let place = match before {
            Some(place) => {
                // The new flow stands where the old one stood, and goes on counting unless told not to; no news are sent.
                if let Some(old) = table.get_mut(place) {
                    flow.scheduled = old.scheduled;
                    depths.take(old.depth());
                    *old = flow;
                    table.note_change(place);
                }
                if change.flags & flags::RESET_COUNTS != 0 {
                    table.reset_counts(place);
                }
                place
            }
            None => {
                self.came += 1;
                table.insert(flow, self.came)
            }
        };
        self.reschedule((change.table, place));
        self.note_change(change.table);
        Ok(())
    }

    /// Only the instructions change, and the counters if that is asked for; timeouts, cookie and flags stay.
    fn modify(&mut self, change: &FlowMod) {
        let meant = self.meant(change);
        let changed: BTreeSet<u8> = meant.iter().map(|(table, _)| *table).collect();
        for (table, place) in meant {
            let Tables { tables, programs, depths, .. } = self;
            let Some(table) = tables.get_mut(usize::from(table)) else { continue };
            let Some(flow) = table.get_mut(place) else { continue };
            if (flow.cookie ^ change.cookie) & change.cookie_mask != 0 {
                continue;
            }
            depths.take(flow.depth());
            flow.set_instructions(&change.instructions, programs);
            depths.add(flow.depth());
            table.note_change(place);
            if change.flags & flags::RESET_COUNTS != 0 {
                table.reset_counts(place);
            }
        }
        changed.into_iter().for_each(|table| self.note_change(table));
    }

    /// The flows that the match of a change means: the one with just that match and priority, or all that it covers.
    fn meant(&self, change: &FlowMod) -> Vec<FlowId> {
        let key = Key::of(&change.matches);
        let strict = matches!(change.command, FlowCommand::ModifyStrict | FlowCommand::DeleteStrict);
        let mut found = Vec::new();
        for number in self.named(change.table) {
            let Some(table) = self.get(number) else { continue };
            if strict {
                found.extend(table.strict(change.priority, &key).map(|place| (number, place)));
            } else {
                let covered = table.iter().filter(|(_, flow)| key.covers(&flow.key));
                found.extend(covered.map(|(place, _)| (number, place)));
            }
        }
        found
    }

    fn remove(&mut self, ends: &[FlowId], reason: RemovedReason, now: u64) -> Vec<FlowRemoved> {
        let mut news = Vec::new();
        for (table, place) in ends {
            let Some(used) = self.used((*table, *place)) else { continue };
            let Some(flow) = self.get_mut(*table).and_then(|table| table.remove(*place)) else { continue };
            self.depths.take(flow.depth());
            if let Some(at) = flow.scheduled {
                self.schedule.remove(&(at, (*table, *place)));
            }
            news.extend(flow.removed(*table, used, reason, now));
        }
        ends.iter()
            .map(|(table, _)| *table)
            .collect::<BTreeSet<u8>>()
            .into_iter()
            .for_each(|table| self.note_change(table));
        news
    }

    /// Removes every flow that `which` names.
    pub(crate) fn remove_where(
        &mut self,
        which: impl Fn(&Flow) -> bool,
        reason: RemovedReason,
        now: u64,
    ) -> Vec<FlowRemoved> {
        let all = self.iter().flat_map(|(number, table)| table.iter().map(move |(place, flow)| (number, place, flow)));
        let ends: Vec<FlowId> =
            all.filter(|(.., flow)| which(flow)).map(|(number, place, _)| (number, place)).collect();
        self.remove(&ends, reason, now)
    }

    /// When a flow ends, unless another packet comes, and why.
    fn end_of(&self, id: FlowId) -> Option<(u64, RemovedReason)> {
        self.flow(id)?.end(self.used(id)?.last_used)
    }

    fn reschedule(&mut self, id: FlowId) {
        let after = self.end_of(id).map(|(at, _)| at);
        let Some(flow) = self.get_mut(id.0).and_then(|table| table.get_mut(id.1)) else { return };
        let before = flow.scheduled;
        flow.scheduled = after;
        if let Some(at) = before {
            self.schedule.remove(&(at, id));
        }
        if let Some(at) = after {
            self.schedule.insert((at, id));
        }
    }

    /// Ends flows whose time is up, and looks at no more than `most`: call again until [`Tables::next_end`] is later.
    pub fn expire(&mut self, now: u64, most: usize) -> Vec<FlowRemoved> {
        let mut news = Vec::new();
        for _ in 0..most {
            let Some((at, id)) = self.schedule.first().copied().filter(|(at, _)| *at <= now) else { break };
            match self.end_of(id) {
                Some((end, reason)) if end <= now => news.extend(self.remove(&[id], reason, now)),
                Some(_) => self.reschedule(id),
                None => {
                    self.schedule.remove(&(at, id));
                }
            }
        }
        news
    }

    /// When a flow may end next.
    pub fn next_end(&self) -> Option<u64> {
        self.schedule.first().map(|(at, _)| *at)
    }

    /// The flows that a query asks for.
    pub fn find(&self, query: &FlowQuery) -> Vec<FlowId> {
        let key = Key::of(&query.matches);
        let mut found = Vec::new();
        for number in self.named(query.table) {
            let Some(table) = self.get(number) else { continue };
            let asked = table.iter().filter(|(_, flow)| flow.is_asked_for(query, &key));
            found.extend(asked.map(|(place, _)| (number, place)));
        }
        found
    }

    /// What a query asks for, added up.
    pub fn aggregate(&self, query: &FlowQuery) -> Aggregate {
        let mut sum = Aggregate::default();
        for used in self.find(query).into_iter().filter_map(|id| self.used(id)) {
            sum.flows += 1;
            sum.counted.add_all(used.counted);
        }
        sum
    }

    /// What went through the tables.
    pub fn stats(&self) -> Vec<TableStats> {
        let stats = self.iter().map(|(number, table)| {
            let (lookups, matched) = table.passed();
            TableStats { table: number, active: u32::try_from(table.len()).unwrap_or(u32::MAX), lookups, matched }
        });
        stats.collect()
    }
}
