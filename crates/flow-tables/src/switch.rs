//! A whole switch, without a wire: what requests change, and what they are answered.

use std::collections::{BTreeMap, BTreeSet};

use weir_openflow::action::{MAX_LEN, NO_BUFFER};
use weir_openflow::error::{
    BadAction, BadRequest, FlowModFailed, GroupModFailed, MeterModFailed, QueueOpFailed, SwitchConfigFailed,
    TableFeaturesFailed, TableModFailed,
};
use weir_openflow::flow::{ALL_TABLES, FlowCommand, FlowMod, FlowRemoved, RemovedReason};
use weir_openflow::group::{self, GroupCommand, GroupMod};
use weir_openflow::message::{Config, Features};
use weir_openflow::meter::{self, MeterCommand, MeterMod};
use weir_openflow::multipart::{Desc, MAX_BODY};
use weir_openflow::port::{Port, PortMod, PortStatus, number};
use weir_openflow::queue;
use weir_openflow::table::TableMod;
use weir_openflow::{Error, Instruction, Match, Reply, Request};

use crate::check::Checker;
use crate::compiled::{CodeState, Made, Recipe, Role, SampleFrame};
use crate::counts::Worker;
use crate::features;
use crate::flow::Flow;
use crate::groups::Groups;
use crate::meters::Meters;
use crate::ports::Ports;
use crate::tables::Tables;

/// What a switch is, and how much it may hold.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its number; an Ethernet address in the lower 48 bits.
    pub datapath: u64,
    /// What it says of itself.
    pub desc: Desc,
    /// How many tables it has: 1 to 254.
    pub tables: u8,
    /// How many flows a table may have.
    pub max_flows: usize,
    /// How many groups there may be.
    pub max_groups: usize,
    /// How many meters there may be.
    pub max_meters: usize,
    /// The largest number of a port.
    pub largest_port: u32,
}

impl Default for Identity {
    fn default() -> Identity {
        let desc = Desc {
            manufacturer: "Weir".to_owned(),
            hardware: "commodity server".to_owned(),
            software: concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned(),
            serial: "none".to_owned(),
            datapath: "none".to_owned(),
        };
        Identity {
            datapath: 1,
            desc,
            tables: 254,
            max_flows: 2_000_000,
            max_groups: 65_536,
            max_meters: 65_536,
            largest_port: 255,
        }
    }
}

/// A switch: its tables, groups, meters and ports.
#[derive(Clone, Debug)]
pub struct Switch {
    identity: Identity,
    /// Its flow tables.
    pub tables: Tables,
    /// Its groups.
    pub groups: Groups,
    /// Its meters.
    pub meters: Meters,
    /// Its ports.
    pub ports: Ports,
    config: Config,
    /// What was said of tables (section 7.3.3), which has no effect in version 1.3.
    table_configs: Vec<(u8, u32)>,
    /// How many workers there are.
    workers: usize,
}

impl Switch {
    /// A switch without ports and flows: it drops every packet.
    pub fn new(identity: Identity) -> Switch {
        Switch {
            tables: Tables::new(identity.tables.clamp(1, 254), identity.max_flows),
            groups: Groups::new(identity.max_groups),
            meters: Meters::new(identity.max_meters),
            ports: Ports::new(identity.largest_port),
            config: Config { flags: 0, miss_send_len: 128 },
            table_configs: Vec::new(),
            workers: 1,
            identity,
        }
    }

    /// What it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// How it treats fragments, and how much of a packet controllers get.
    pub fn config(&self) -> Config {
        self.config
    }

    /// Whether it drops fragments (section 7.3.2).
    #[inline]
    pub(crate) fn drops_fragments(&self) -> bool {
        self.config.flags == 1
    }

    /// Whether there may be machine code, while that goes: there may, unless told so. Everything becomes of packets that would without.
    pub fn allow_code(&mut self, is_allowed: bool) {
        self.tables.allow_code(is_allowed);
    }

    /// Whether there is machine code now, and why not.
    pub fn code_state(&self) -> CodeState {
        if self.drops_fragments() { CodeState::No("fragments are dropped") } else { self.tables.code().state() }
    }

    /// What machine code that is in use has to do with a table.
    pub fn code_role(&self, table: u8) -> Role {
        self.tables.code().role(table)
    }

    /// How many packets code decided about, alone or as far as a flow or table that it does not know; the others went the usual way.
    pub fn decided_by_code(&self) -> u64 {
        self.tables.code().decided()
    }

    /// Frames by which it is measured how long code takes, if it is in use and tries the flows of the first table: for each of them one that meets it, where
    /// one of the usual shape can.
    pub fn code_samples(&self) -> Option<Vec<SampleFrame>> {
        if self.is_compiled() { self.tables.code_samples() } else { None }
    }

    /// For how many of these code finds a flow. They are changed as it says, and not counted.
    pub fn find_all_by_code(&self, frames: &mut [SampleFrame]) -> usize {
        self.tables.code().find_all(frames)
    }

    /// What code is to be made of, where it is not there: to be [compiled](Recipe::compile) where there is time, and [installed](Switch::install) then.
    pub fn recipe(&self) -> Option<Recipe> {
        self.tables.recipe(self.groups.templates())
    }

    /// Takes in what came of a [`Recipe`]; if the tables have another shape by now, it is of no use, and does no harm. What it replaces is handed back, to be
    /// dropped where there is time.
    pub fn install(&mut self, made: Made) -> Option<Made> {
        self.tables.install(made)
    }

    /// Whether code decides about frames.
    #[inline]
    pub(crate) fn is_compiled(&self) -> bool {
        self.tables.code().is_in_use() && !self.drops_fragments()
    }

    /// One worker more that takes packets by the [fast path](crate::fast), at the same time as the others; there is one from the beginning, the default. The
    /// definition counts as that one, whose packets do not go on meanwhile.
    pub fn add_worker(&mut self) -> Worker {
        let Switch { tables, groups, ports, workers, .. } = self;
        tables.add_worker();
        groups.add_worker();
        tables.see_groups(groups);
        ports.add_worker();
        let worker = Worker(*workers);
        *workers += 1;
        worker
    }

    /// What it tells controllers first.
    pub fn features(&self) -> Features {
        Features {
            datapath: self.identity.datapath,
            buffers: 0,
            tables: self.tables.count(),
            auxiliary: 0,
            capabilities: Features::FLOW_STATS | Features::TABLE_STATS | Features::PORT_STATS | Features::GROUP_STATS,
        }
    }

    pub(crate) fn checker(&self) -> Checker<'_> {
        Checker { ports: &self.ports, groups: &self.groups, meters: &self.meters, tables: self.tables.count() }
    }

    /// Changes flows; the news of those that ended by it.
    ///
    /// # Errors
    ///
    /// The type and code of section 7.4.4; nothing changed then.
    pub fn flow_mod(&mut self, change: &FlowMod, now: u64) -> Result<Vec<FlowRemoved>, Error> {
        let deletes = matches!(change.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        if !self.tables.has(change.table, deletes) {
            return Err(FlowModFailed::BadTableId.into());
        }
        Checker::matches(&change.matches)?;
        if !deletes {
            self.checker().instructions(change.table, &change.matches, &change.instructions)?;
            fits(&change.matches, &change.instructions)?;
        }
        let ended = self.tables.change(change, now);
        self.tables.settle(&self.groups);
        ended
    }

    /// Changes a group; the news of flows that ended by it.
    ///
    /// # Errors
    ///
    /// As [`Switch::flow_mod`].
    pub fn group_mod(&mut self, change: &GroupMod, now: u64) -> Result<Vec<FlowRemoved>, Error> {
        if change.command == GroupCommand::Delete {
            let gone = self.groups.delete(change.group)?;
            self.tables.note_groups(&gone, &self.groups);
            if gone.is_empty() {
                return Ok(Vec::new());
            }
            let gone = BTreeSet::from_iter(gone);
            let uses = |flow: &Flow| flow.groups().any(|group| gone.contains(&group));
            return Ok(self.tables.remove_where(uses, RemovedReason::GroupDelete, now));
        }
        for bucket in &change.buckets {
            // A group that leads to itself is a loop, and not one that does not exist.
            let itself = |action: &_| *action == weir_openflow::Action::Group(change.group);
            if bucket.actions.iter().any(itself) && change.group <= group::MAX {
                return Err(GroupModFailed::Loop.into());
            }
            self.checker().actions(&bucket.actions, false)?;
        }
        let actions: usize = change.buckets.iter().map(|bucket| bucket.actions.len()).sum();
        if actions > 1_000 && !desc_fits(change) {
            return Err(GroupModFailed::OutOfBuckets.into());
        }
        self.groups.set(change, &self.ports, now)?;
        self.tables.note_groups(&[change.group], &self.groups);
        Ok(Vec::new())
    }

    /// Changes a meter; the news of flows that ended by it.
    ///
    /// # Errors
    ///
    /// As [`Switch::flow_mod`].
    pub fn meter_mod(&mut self, change: &MeterMod, now: u64) -> Result<Vec<FlowRemoved>, Error> {
        if change.command != MeterCommand::Delete {
            self.meters.set(change, now)?;
            return Ok(Vec::new());
        }
        let gone: BTreeSet<u32> = self.meters.delete(change.meter).into_iter().collect();
        if gone.is_empty() {
            return Ok(Vec::new());
        }
        let uses = |flow: &Flow| flow.meter().is_some_and(|meter| gone.contains(&meter));
        Ok(self.tables.remove_where(uses, RemovedReason::Delete, now))
    }

    /// Changes a port; the news of it.
    ///
    /// # Errors
    ///
    /// As [`Switch::flow_mod`].
    pub fn port_mod(&mut self, change: &PortMod) -> Result<Option<PortStatus>, Error> {
        self.ports.change(change)
    }

    /// Adds a port, or tells what is new about it.
    pub fn set_port(&mut self, port: Port, now: u64) -> Option<PortStatus> {
        self.ports.set(port, now)
    }

    /// Keeps what is said of a table.
    ///
    /// # Errors
    ///
    /// As [`Switch::flow_mod`].
    pub fn table_mod(&mut self, change: TableMod) -> Result<(), Error> {
        if !self.tables.has(change.table, true) {
            return Err(TableModFailed::BadTable.into());
        }
        // Only the two deprecated bits may be set.
        if change.config & !3 != 0 {
            return Err(TableModFailed::BadConfig.into());
        }
        if change.table == ALL_TABLES {
            self.table_configs = self.tables.iter().map(|(table, _)| (table, change.config)).collect();
        } else {
            self.table_configs.retain(|(table, _)| *table != change.table);
            self.table_configs.push((change.table, change.config));
        }
        Ok(())
    }

    /// Sets how fragments are treated, and how much of a packet controllers get.
    ///
    /// # Errors
    ///
    /// As [`Switch::flow_mod`].
    pub fn set_config(&mut self, config: Config) -> Result<(), Error> {
        // 0 is as any packet, 1 is dropping; nothing is reassembled.
        if config.flags > 1 {
            return Err(SwitchConfigFailed::BadFlags.into());
        }
        if config.miss_send_len > MAX_LEN && config.miss_send_len != NO_BUFFER {
            return Err(SwitchConfigFailed::BadLen.into());
        }
        self.config = config;
        Ok(())
    }

    /// Answers a request; flows are told all at once, for which [`crate::tables::Tables::find`] is better if they are many.
    ///
    /// # Errors
    ///
    /// As [`Switch::flow_mod`].
    pub fn reply(&self, request: &Request, now: u64) -> Result<Reply, Error> {
        Ok(match request {
            Request::Desc => Reply::Desc(self.identity.desc.clone()),
            Request::Flow(query) => {
                self.check_table(query.table)?;
                let found = self.tables.find(query).into_iter();
                Reply::Flow(found.filter_map(|id| self.tables.flow_stats(id, now)).collect())
            }
            Request::Aggregate(query) => {
                self.check_table(query.table)?;
                Reply::Aggregate(self.tables.aggregate(query))
            }
            Request::Table => Reply::Table(self.tables.stats()),
            Request::PortStats(port) => Reply::PortStats(self.ports.stats(*port, now).ok_or(BadRequest::BadPort)?),
            Request::Queue { port, queue } => self.queues(*port, *queue)?,
            Request::Group(group) => {
                let uses = self.uses(|flow| flow.groups().collect());
                Reply::Group(self.groups.stats(*group, |group| uses.get(&group).copied().unwrap_or(0), now))
            }
            Request::GroupDesc => Reply::GroupDesc(self.groups.descs()),
            Request::GroupFeatures => Reply::GroupFeatures(self.groups.features()),
            Request::Meter(meter) => {
                self.check_meter(*meter)?;
                let uses = self.uses(|flow| flow.meter().into_iter().collect());
                Reply::Meter(self.meters.stats(*meter, |meter| uses.get(&meter).copied().unwrap_or(0), now))
            }
            Request::MeterConfig(meter) => {
                self.check_meter(*meter)?;
                Reply::MeterConfig(self.meters.configs(*meter))
            }
            Request::MeterFeatures => Reply::MeterFeatures(self.meters.features()),
            Request::TableFeatures(wanted) => {
                let features = features::of(&self.tables, &self.table_configs);
                // What tables can do is fixed: whoever asks for just that gets it.
                if !wanted.is_empty() && *wanted != features {
                    return Err(TableFeaturesFailed::Eperm.into());
                }
                Reply::TableFeatures(features)
            }
            Request::PortDesc => Reply::PortDesc(self.ports.iter().cloned().collect()),
            Request::Experimenter(..) => return Err(BadRequest::BadExperimenter.into()),
        })
    }

    fn check_table(&self, table: u8) -> Result<(), Error> {
        if self.tables.has(table, true) { Ok(()) } else { Err(BadRequest::BadTableId.into()) }
    }

    fn check_meter(&self, meter: u32) -> Result<(), Error> {
        let exists = meter == meter::ALL || self.meters.get(meter).is_some();
        if exists { Ok(()) } else { Err(MeterModFailed::UnknownMeter.into()) }
    }

    /// Ports have no queues of their own.
    fn queues(&self, port: u32, queue: u32) -> Result<Reply, Error> {
        if port != number::ANY && self.ports.get(port).is_none() {
            return Err(QueueOpFailed::BadPort.into());
        }
        if queue != queue::ALL {
            return Err(QueueOpFailed::BadQueue.into());
        }
        Ok(Reply::Queue(Vec::new()))
    }

    /// How many flows use each of the numbers that `numbers` finds in a flow.
    fn uses(&self, numbers: impl Fn(&Flow) -> BTreeSet<u32>) -> BTreeMap<u32, usize> {
        let mut uses = BTreeMap::new();
        for (_, flow) in self.tables.iter().flat_map(|(_, table)| table.iter()) {
            for number in numbers(flow) {
                *uses.entry(number).or_default() += 1;
            }
        }
        uses
    }
}

/// Whether a flow can be told in one message: its description has 16 bytes more around it than the message that brought it.
fn fits(matches: &Match, instructions: &[Instruction]) -> Result<(), Error> {
    let actions: usize = instructions
        .iter()
        .map(|instruction| match instruction {
            Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) => actions.len(),
            _ => 1,
        })
        .sum();
    if actions < 1_000 {
        return Ok(());
    }
    let stats = weir_openflow::flow::FlowStats {
        table: 0,
        duration: weir_openflow::port::Duration::default(),
        priority: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        flags: 0,
        cookie: 0,
        packets: 0,
        bytes: 0,
        matches: matches.clone(),
        instructions: instructions.to_vec(),
    };
    let parts = Reply::Flow(vec![stats]).parts();
    if parts.iter().all(|part| part.body.len() <= MAX_BODY) { Ok(()) } else { Err(BadAction::TooMany.into()) }
}

fn desc_fits(change: &GroupMod) -> bool {
    let desc = group::GroupDesc { kind: change.kind, group: change.group, buckets: change.buckets.clone() };
    Reply::GroupDesc(vec![desc]).parts().iter().all(|part| part.body.len() <= MAX_BODY)
}
