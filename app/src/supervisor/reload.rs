//! Replacing the running configuration: everything is built aside, then put in place, all or nothing.
//!
//! A reload has four steps, so that the second and the last, which may take long, keep nobody waiting: [`Supervisor::begin`] finds out what
//! becomes of ports and attaches those that can be attached now; [`Aside::build`] builds functions on whatever thread;
//! [`Supervisor::finish`] opens ports and puts all in place; [`Changes::carry_out`] lets functions that go on change, on whatever thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_config::{Change, Plan};
use weir_stage::{Port, PortConfig, PortFacts, PortInfo, Prepared};

use super::aside::{Aside, Built};
use super::changes::PortChanges;
use super::config::Loaded;
use super::placing::{Cores, Parts, RunningFunction, blueprint, owners, too_few_queues};
use super::ports::{self, OpenPort, Owners};
use super::{Failure, Supervisor};

/// What a reload would do, as people read it, and whether it takes a restart of the whole process.
pub(crate) struct ReloadPlan {
    pub(crate) text: String,
    pub(crate) needs_restart: bool,
}

/// A port that is not open yet.
type Attached = (PortInfo, PortConfig, Box<dyn Port>);

/// A reload that has begun: nothing that runs has changed.
pub(crate) struct Pending {
    pub(crate) aside: Arc<Aside>,
    /// Ports that are opened early.
    attached: Vec<Attached>,
}

/// What is left of a reload that is in place: changes of functions that go on, a million routes perhaps.
pub(crate) struct Changes {
    prepared: Vec<Prepared>,
    now: u64,
}

impl Changes {
    /// The last step of a reload. It cannot fail.
    pub(crate) fn carry_out(self) {
        self.prepared.into_iter().for_each(|change| change(self.now));
    }
}

impl Supervisor {
    /// The configuration that runs.
    pub(crate) fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded)
    }

    /// What changing to `new` would do, by the difference of the two configurations.
    pub(crate) fn plan(&self, new: &Loaded, plan: &Plan) -> ReloadPlan {
        let (held, room) = (new.held(), self.held);
        let mut lacks = self.buffers.lacks(new);
        if held > room {
            lacks.push(format!("schedulers may hold {held} packets; the process has buffers for {room}"));
        }
        let needs_restart = !lacks.is_empty() || plan.strongest() == Some(Change::RestartProcess);
        let mut text = plan.to_string();
        for lack in lacks {
            text += &format!("{lack} (restart-process)\n");
        }
        if !needs_restart {
            text += &self.port_changes(new).1.to_string();
        }
        ReloadPlan { text, needs_restart }
    }

    /// Changes to `new`, in all its steps.
    pub(crate) fn reload(&mut self, new: Loaded) -> Result<(), Failure> {
        let plan = new.differs_from(&self.loaded);
        let pending = self.begin(Arc::new(new), plan)?;
        let built = pending.aside.build()?;
        let left = self.finish(pending, built)?;
        left.carry_out();
        self.tell_of_ports();
        Ok(())
    }

    /// The first step of a reload.
    pub(crate) fn begin(&mut self, new: Arc<Loaded>, plan: Plan) -> Result<Pending, Failure> {
        for core in self.new_cores(&new) {
            let pinned = (!self.engine.is_virtual()).then_some(usize::from(core));
            self.engine.add_worker(pinned, self.buffers.pool()).map_err(Failure::one)?;
            self.cores.push(core);
        }
        let (wanted, changes) = self.port_changes(&new);
        let mut infos = self.infos(&new, &changes);
        let attached = self.attach_early(&new, &changes, &mut infos)?;
        let wrong = |info: &PortInfo| too_few_queues(info, wanted.get(&info.name)?);
        let wrong: Vec<String> = infos.iter().filter(|info| changes.opens(&info.name)).filter_map(wrong).collect();
        if !wrong.is_empty() {
            return Err(Failure::Start(wrong));
        }
        let (running, domain, now) = (self.functions.clone(), self.domain.clone(), self.engine.now());
        let interfaces = new.interface_infos();
        let aside = Aside { new, plan, changes, wanted, infos, interfaces, running, domain, now };
        Ok(Pending { aside: Arc::new(aside), attached })
    }

    /// The third step of a reload. Answers the changes of functions that go on as they are, which whoever asked is to carry out: as they
    /// know the links of a while ago, they are told of those afterwards, see [`Supervisor::tell_of_ports`].
    pub(crate) fn finish(&mut self, pending: Pending, built: Built) -> Result<Changes, Failure> {
        let Pending { aside, attached } = pending;
        let mut opened = Vec::new();
        let placed = self
            .open_attached(&aside, attached, &mut opened)
            .and_then(|()| self.close_ports(&aside.changes.closes, "a reload opens its device anew"))
            .and_then(|()| self.open_late(&aside, &mut opened))
            .and_then(|()| aside.refit(built, &opened))
            .and_then(|built| self.put_in_place(&aside, built, &mut opened));
        match placed {
            Ok(changes) => {
                let before = std::mem::replace(&mut self.loaded, Arc::clone(&aside.new));
                drop_elsewhere((before, aside));
                Ok(changes)
            }
            Err(failure) => {
                close_all(opened);
                Err(self.restore(&aside.changes.closes, failure))
            }
        }
    }

    /// What functions have no room for though the configuration wants it, in sentences.
    pub(crate) fn lacks(&self) -> Vec<String> {
        let of = |running: &RunningFunction| {
            let name = running.configured.name();
            running.instance.lacks().into_iter().map(|lack| format!("{name}: {lack}")).collect::<Vec<String>>()
        };
        self.functions.iter().flat_map(of).collect()
    }

    fn open_attached(&self, aside: &Aside, attached: Vec<Attached>, opened: &mut Vec<OpenPort>) -> Result<(), Failure> {
        for (info, config, port) in attached {
            let owners = aside.wanted.get(&info.name).cloned().unwrap_or_default();
            let open = ports::open(port, info, config, owners, self.buffers.pool());
            opened.push(open.map_err(Failure::one)?);
        }
        Ok(())
    }

    /// Cores that the new configuration names and no worker runs on.
    fn new_cores(&self, new: &Loaded) -> Vec<u16> {
        new.cores().into_iter().filter(|core| !self.cores.contains(core)).collect()
    }

    /// The owners of the queues that are wanted, and what becomes of the ports.
    fn port_changes(&self, new: &Loaded) -> (BTreeMap<String, Owners>, PortChanges) {
        let mut cores = self.cores.clone();
        cores.extend(self.new_cores(new));
        let wanted = wanted_owners(new, &cores);
        let refronted = |port: &str| self.loaded.in_front(port) != new.in_front(port);
        let changes = PortChanges::between(&self.ports, &wanted, &configs(new), &refronted);
        (wanted, changes)
    }

    /// The ports as the new configuration sees them. Those that are opened late are taken to be as their devices are now.
    fn infos(&self, new: &Loaded, changes: &PortChanges) -> Vec<PortInfo> {
        let used: BTreeSet<u16> = self.ports.values().map(|open| open.info.index).collect();
        let mut free = (0..=u16::MAX).filter(|index| !used.contains(index));
        let on_device: BTreeMap<&str, &PortFacts> =
            self.ports.values().map(|open| (open.config.device.as_str(), &open.info.facts)).collect();
        let mut infos = new.assumed_ports();
        for (info, (name, config, _)) in infos.iter_mut().zip(&new.ports) {
            match self.ports.get(name) {
                Some(open) if !changes.opens(name) => *info = open.info.clone(),
                open => {
                    if let Some(facts) = on_device.get(config.device.as_str()) {
                        info.facts = PortFacts { mtu: config.mtu.unwrap_or(facts.mtu), ..(*facts).clone() };
                    }
                    // There are no more ports than numbers: that is checked when a configuration is read.
                    info.index = open.map_or_else(|| free.next().unwrap_or(u16::MAX), |open| open.info.index);
                }
            }
            info.addresses = config.address.0.clone();
        }
        infos
    }

    /// Attaches the devices that nobody has, for their facts.
    fn attach_early(
        &self,
        new: &Loaded,
        changes: &PortChanges,
        infos: &mut [PortInfo],
    ) -> Result<Vec<Attached>, Failure> {
        let (mut attached, mut wrong) = (Vec::new(), Vec::new());
        for (info, (name, config, _)) in infos.iter_mut().zip(&new.ports) {
            if !changes.early.contains(name) {
                continue;
            }
            match self.buffers.attach(name, config, new) {
                Ok(mut port) => {
                    *info = ports::info(name, info.index, config, &mut *port);
                    attached.push((info.clone(), config.clone(), port));
                }
                Err(sentence) => wrong.push(sentence),
            }
        }
        if wrong.is_empty() { Ok(attached) } else { Err(Failure::Start(wrong)) }
    }

    /// Closes ports whose devices are to be opened anew; the rest goes on.
    pub(super) fn close_ports(&mut self, names: &BTreeSet<String>, why: &str) -> Result<(), Failure> {
        if names.is_empty() {
            return Ok(());
        }
        let mut closed = Vec::new();
        for name in names {
            if let Some(open) = self.ports.get_mut(name) {
                let stand_in = open.stand_in(why.to_owned());
                closed.push(std::mem::replace(open, stand_in));
            }
        }
        let installed = self.install_as_is();
        if installed.is_err() {
            // The workers have the queues still.
            closed.into_iter().for_each(|open| drop(self.ports.insert(open.info.name.clone(), open)));
            return installed;
        }
        self.tell_of_ports();
        close_all(closed);
        Ok(())
    }

    /// Has the workers run the functions there are on the ports there are.
    pub(super) fn install_as_is(&mut self) -> Result<(), Failure> {
        let parts = super::placing::parts(&mut self.ports);
        let plan = blueprint(&self.functions, parts, (&self.cores, &mut self.controls), self.loaded.engine.links)
            .map_err(Failure::one)?;
        self.engine.install(plan).map_err(Failure::one)
    }

    fn open_late(&self, aside: &Aside, opened: &mut Vec<OpenPort>) -> Result<(), Failure> {
        let mut wrong = Vec::new();
        for (info, (name, config, _)) in aside.infos.iter().zip(&aside.new.ports) {
            let Some(owners) = aside.wanted.get(name).filter(|_| aside.changes.late.contains(name)) else { continue };
            match self.open_one(&aside.new, config, info, owners) {
                Ok(port) => opened.push(port),
                Err(sentence) => wrong.push(sentence),
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(Failure::Start(wrong)) }
    }

    pub(super) fn open_one(
        &self,
        loaded: &Loaded,
        config: &PortConfig,
        info: &PortInfo,
        owners: &Owners,
    ) -> Result<OpenPort, String> {
        let mut port = self.buffers.attach(&info.name, config, loaded)?;
        let info = ports::info(&info.name, info.index, config, &mut *port);
        if let Some(sentence) = too_few_queues(&info, owners) {
            return Err(sentence);
        }
        ports::open(port, info, config.clone(), owners.clone(), self.buffers.pool())
    }

    /// Has the workers run the new functions on the new ports. On failure everything is as it was, and what is in `opened` is
    /// not in use.
    fn put_in_place(&mut self, aside: &Aside, built: Built, opened: &mut Vec<OpenPort>) -> Result<Changes, Failure> {
        let Aside { new, wanted, .. } = aside;
        let mut fresh: BTreeMap<String, &mut OpenPort> =
            opened.iter_mut().map(|open| (open.info.name.clone(), open)).collect();
        let mut staying: BTreeMap<&String, &mut OpenPort> = self.ports.iter_mut().collect();
        let parts = Parts::of(wanted.iter().filter_map(|(name, owners)| {
            let open = fresh.remove(name).or_else(|| staying.remove(name))?;
            Some((open, owners.clone()))
        }));
        let plan = blueprint(&built.functions, parts, (&self.cores, &mut self.controls), new.engine.links)
            .map_err(Failure::one)?;
        self.engine.install(plan).map_err(Failure::one)?;
        drop_elsewhere(std::mem::replace(&mut self.functions, built.functions));
        let gone = self.take_ports(aside, std::mem::take(opened));
        self.functions.iter_mut().for_each(|running| running.keep = true);
        self.ports.iter_mut().for_each(|(name, open)| open.become_promiscuous(new.promiscuous(name)));
        self.tell_of_ports();
        close_all(gone);
        Ok(Changes { prepared: built.prepared, now: self.engine.now() })
    }

    /// Makes the ports those of the new configuration; returns the others.
    fn take_ports(&mut self, aside: &Aside, opened: Vec<OpenPort>) -> Vec<OpenPort> {
        let mut old = std::mem::take(&mut self.ports);
        for mut open in opened {
            if let Some(before) = old.get(&open.info.name) {
                open.succeed(before.stats());
            }
            self.ports.insert(open.info.name.clone(), open);
        }
        for (name, config, _) in &aside.new.ports {
            let Some(owners) = aside.wanted.get(name) else { continue };
            if !self.ports.contains_key(name)
                && let Some(mut open) = old.remove(name)
            {
                open.owners.clone_from(owners);
                open.config = config.clone();
                open.info.addresses.clone_from(&config.address.0);
                self.ports.insert(name.clone(), open);
            }
        }
        old.into_values().collect()
    }
}

/// Whether a function that was built on one port would be another on the other.
pub(super) fn differ(one: &PortInfo, other: &PortInfo) -> bool {
    (one.facts.mac, one.facts.mtu) != (other.facts.mac, other.facts.mtu)
}

/// The owners of the queues of every port that a function of a configuration has.
fn wanted_owners(loaded: &Loaded, cores: &Cores) -> BTreeMap<String, Owners> {
    let mut wanted = BTreeMap::new();
    for function in loaded.functions() {
        let owners = owners(function.placement(), cores);
        // Of several that share a port, the first one's workers receive.
        for port in function.ports() {
            wanted.entry(port.to_owned()).or_insert_with(|| owners.clone());
        }
    }
    wanted
}

fn configs(loaded: &Loaded) -> BTreeMap<&str, &PortConfig> {
    loaded.ports.iter().map(|(name, config, _)| (name.as_str(), config)).collect()
}

pub(super) fn close_all(ports: Vec<OpenPort>) {
    for mut open in ports {
        open.port.close();
    }
}

/// Drops large tables where nobody waits for it.
fn drop_elsewhere(old: impl Send + 'static) {
    // Where there is no thread to be had they are dropped here, when the closure is.
    let _thread = std::thread::Builder::new().name("weir-drop".to_owned()).spawn(move || drop(old));
}
