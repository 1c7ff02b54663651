//! Replacing the running configuration: everything is built aside, then put in place, all or nothing.

use std::collections::{BTreeMap, BTreeSet};

use weir_config::{Change, ConfigError, KeyChange, Plan, What};
use weir_stage::{Env, PortInfo};

use super::config::Loaded;
use super::placing::{RunningFunction, blueprint, owners, too_few_queues};
use super::ports::{self, OpenPort, Owners};
use super::{Failure, Supervisor};
use crate::catalogue;

/// What a reload would do, as people read it, and whether it takes a restart of the whole process.
pub(crate) struct ReloadPlan {
    pub(crate) text: String,
    pub(crate) needs_restart: bool,
}

/// A live change that is ready to be put in place.
type Prepared = Box<dyn FnOnce(u64) + Send>;

/// What becomes of the ports.
#[derive(Default)]
struct PortChanges {
    /// To be attached and opened.
    fresh: BTreeSet<String>,
    /// To be closed.
    gone: BTreeSet<String>,
    /// Both, in this order.
    restart: BTreeSet<String>,
}

/// The functions of the new configuration: built, or kept with a change to be put in place.
struct Built {
    functions: Vec<NewFunction>,
    prepared: Vec<Prepared>,
}

enum NewFunction {
    /// The one at this place of the old list stays.
    Kept(usize, Box<weir_config::Element>),
    Fresh(Box<RunningFunction>),
}

impl Supervisor {
    /// What changing to `new` would do.
    pub(crate) fn plan(&self, new: &Loaded) -> ReloadPlan {
        let mut plan = Plan::between(&catalogue::kinds(), &self.loaded.checked, &new.checked);
        self.add_changed_files(&mut plan, new);
        let (held, room) = (new.held(), self.held);
        let mut text = plan.to_string();
        if held > room {
            text += &format!(
                "packets that schedulers may hold: {held}; the process has buffers for {room} (restart-process)\n"
            );
        }
        let needs_restart = held > room || plan.strongest() == Some(Change::RestartProcess);
        ReloadPlan { text, needs_restart }
    }

    /// Adds to a plan what no key tells: files whose contents are others now.
    fn add_changed_files(&self, plan: &mut Plan, new: &Loaded) {
        let ports = new.assumed_ports();
        let env = Env { ports: &ports, domain: &self.domain, folder: Some(&new.folder), now: self.engine.now() };
        for action in plan.actions.iter_mut().filter(|action| action.what == What::Unchanged) {
            let is_it = |kind: &str, name: &str| (kind, name) == (action.kind.as_str(), action.name.as_str());
            let running = self.functions.iter().find(|running| is_it(running.element.kind(), running.element.name()));
            let Some(running) = running else { continue };
            let Some(element) = new.checked.get(&action.kind, &action.name) else { continue };
            let key = |(path, file): (String, String)| KeyChange {
                path,
                from: Some(format!("\"{file}\" as it was")),
                to: Some("as it is now".to_owned()),
                change: Change::Live,
            };
            let keys: Vec<KeyChange> = running.instance.changed_files(element, &env).into_iter().map(key).collect();
            if !keys.is_empty() {
                action.what = What::Changed { strongest: Change::Live, keys };
            }
        }
    }

    /// Changes to `new`. On failure everything is as it was.
    pub(crate) fn reload(&mut self, new: Loaded) -> Result<(), Failure> {
        let plan = Plan::between(&catalogue::kinds(), &self.loaded.checked, &new.checked);
        let old_workers = self.cores.len();
        for core in new.cores() {
            if !self.cores.contains(&core) {
                let pinned = (!self.engine.is_virtual()).then_some(usize::from(core));
                self.engine.add_worker(pinned, self.buffers.pool()).map_err(Failure::one)?;
                self.cores.push(core);
            }
        }
        debug_assert!(self.cores.len() >= old_workers);
        let changes = self.port_changes(&new, &plan);
        let infos = self.infos(&new, &changes)?;
        let built = self.build(&new, &plan, &changes, &infos)?;
        let opened = self.open_fresh(&new, &changes.fresh, &infos)?;
        let restarted = match self.restart_ports(&new, &changes.restart, &infos) {
            Ok(restarted) => restarted,
            Err(failure) => {
                close_all(opened);
                return Err(failure);
            }
        };
        self.put_in_place(new, built, opened, restarted, &changes)
    }

    fn port_changes(&self, new: &Loaded, plan: &Plan) -> PortChanges {
        let mut changes = PortChanges::default();
        for action in plan.actions.iter().filter(|action| action.kind == "port") {
            match &action.what {
                What::Unchanged => {}
                What::Added => drop(changes.fresh.insert(action.name.clone())),
                What::Removed => drop(changes.gone.insert(action.name.clone())),
                What::Changed { strongest, .. } if *strongest >= Change::Rebuild => {
                    changes.restart.insert(action.name.clone());
                }
                What::Changed { .. } => {}
            }
        }
        for (name, owners) in self.wanted_owners(new) {
            match self.ports.get(&name) {
                Some(open) if open.owners != owners => drop(changes.restart.insert(name)),
                Some(_) => {}
                // Declared before, but no function had it.
                None => drop(changes.fresh.insert(name)),
            }
        }
        let wanted = self.wanted_owners(new);
        changes.fresh.retain(|name| wanted.contains_key(name));
        changes.restart.retain(|name| wanted.contains_key(name) && self.ports.contains_key(name));
        changes.gone.extend(self.ports.keys().filter(|name| !wanted.contains_key(*name)).cloned());
        changes
    }

    /// The owners of the queues of every port that a function of the new configuration has.
    fn wanted_owners(&self, new: &Loaded) -> BTreeMap<String, Owners> {
        let of = |(function, element): (&'static dyn weir_stage::Function, &weir_config::Element)| {
            let owners = owners(&function.placement(element), &self.cores);
            function.ports(element).into_iter().map(move |port| (port, owners.clone()))
        };
        new.functions().flat_map(of).collect()
    }

    /// The ports as the new configuration sees them. Those that are not open yet get a number of their own and are attached
    /// for their facts when they are opened.
    fn infos(&self, new: &Loaded, changes: &PortChanges) -> Result<Vec<PortInfo>, Failure> {
        let mut used: BTreeSet<u16> = self.ports.values().map(|open| open.info.index).collect();
        let assumed = new.assumed_ports();
        let mut infos = Vec::new();
        for (info, (name, config, _)) in assumed.into_iter().zip(&new.ports) {
            let mut info = info;
            match self.ports.get(name) {
                Some(open) => {
                    info.index = open.info.index;
                    if !changes.restart.contains(name) {
                        info.facts = open.info.facts.clone();
                        info.link_up = open.info.link_up;
                    }
                }
                None => {
                    let free = (0..u16::MAX).find(|index| !used.contains(index));
                    info.index = free.ok_or_else(|| Failure::one("too many ports"))?;
                    used.insert(info.index);
                }
            }
            info.addresses = config.address.0.clone();
            infos.push(info);
        }
        Ok(infos)
    }

    fn build(&self, new: &Loaded, plan: &Plan, changes: &PortChanges, infos: &[PortInfo]) -> Result<Built, Failure> {
        let env = Env { ports: infos, domain: &self.domain, folder: Some(&new.folder), now: self.engine.now() };
        let mut built = Built { functions: Vec::new(), prepared: Vec::new() };
        let mut errors: Vec<ConfigError> = Vec::new();
        for (function, element) in new.functions() {
            let old = self.functions.iter().position(|running| {
                running.element.kind() == element.kind() && running.element.name() == element.name()
            });
            let ports = function.ports(element);
            let device_changes =
                ports.iter().any(|port| changes.restart.contains(port) || changes.fresh.contains(port));
            let live = !device_changes && strength(plan, element) < Change::Rebuild;
            let running = old.and_then(|at| Some((at, self.functions.get(at)?)));
            match running {
                Some((at, running)) if live => match running.instance.prepare(element, &env) {
                    Ok(change) => {
                        built.prepared.push(change);
                        built.functions.push(NewFunction::Kept(at, Box::new(element.clone())));
                    }
                    Err(more) => errors.extend(more),
                },
                running => match function.build(element, &env, running.map(|(_, running)| &*running.instance)) {
                    Ok(instance) => built.functions.push(NewFunction::Fresh(Box::new(RunningFunction {
                        function,
                        element: element.clone(),
                        instance,
                        placement: function.placement(element),
                        ports,
                        keep: false,
                    }))),
                    Err(more) => errors.extend(more),
                },
            }
        }
        if errors.is_empty() { Ok(built) } else { Err(Failure::Config(errors)) }
    }

    fn open_one(&self, new: &Loaded, name: &str, infos: &[PortInfo]) -> Result<OpenPort, String> {
        let unknown = || format!("port \"{name}\" is not in the configuration");
        let config =
            new.ports.iter().find(|(other, ..)| other == name).map(|(_, config, _)| config).ok_or_else(unknown)?;
        let index = infos.iter().find(|info| info.name == name).map(|info| info.index).ok_or_else(unknown)?;
        let owners = self.wanted_owners(new).remove(name).ok_or_else(unknown)?;
        let mut port = self.buffers.attach(name, config, new.base())?;
        let info = ports::info(name, index, config, &mut *port);
        if let Some(sentence) = too_few_queues(&info, &owners) {
            return Err(sentence);
        }
        ports::open(port, info, config.clone(), owners, self.buffers.pool())
    }

    fn open_fresh(&self, new: &Loaded, fresh: &BTreeSet<String>, infos: &[PortInfo]) -> Result<Vec<OpenPort>, Failure> {
        let (mut opened, mut wrong) = (Vec::new(), Vec::new());
        for name in fresh {
            match self.open_one(new, name, infos) {
                Ok(port) => opened.push(port),
                Err(sentence) => wrong.push(sentence),
            }
        }
        if wrong.is_empty() {
            return Ok(opened);
        }
        close_all(opened);
        Err(Failure::Start(wrong))
    }

    /// Closes ports and opens them as the new configuration has them. If one does not open, they are opened as they were.
    fn restart_ports(
        &mut self,
        new: &Loaded,
        restart: &BTreeSet<String>,
        infos: &[PortInfo],
    ) -> Result<Vec<OpenPort>, Failure> {
        if restart.is_empty() {
            return Ok(Vec::new());
        }
        let closed: Vec<OpenPort> = restart.iter().filter_map(|name| self.ports.remove(name)).collect();
        let without =
            blueprint(&self.functions, &mut self.ports, &self.cores, self.loaded.engine.links).map_err(Failure::one)?;
        self.engine.install(without).map_err(Failure::one)?;
        let old_infos: Vec<PortInfo> = closed.iter().map(|open| open.info.clone()).collect();
        close_all(closed);
        let failure = match self.open_fresh(new, restart, infos) {
            Ok(opened) => return Ok(opened),
            Err(failure) => failure,
        };
        let back = self.open_fresh(&self.loaded, restart, &old_infos)?;
        self.ports.extend(back.into_iter().map(|open| (open.info.name.clone(), open)));
        let as_before =
            blueprint(&self.functions, &mut self.ports, &self.cores, self.loaded.engine.links).map_err(Failure::one)?;
        self.engine.install(as_before).map_err(Failure::one)?;
        Err(failure)
    }

    fn put_in_place(
        &mut self,
        new: Loaded,
        built: Built,
        opened: Vec<OpenPort>,
        restarted: Vec<OpenPort>,
        changes: &PortChanges,
    ) -> Result<(), Failure> {
        let gone: Vec<OpenPort> = changes.gone.iter().filter_map(|name| self.ports.remove(name)).collect();
        for open in opened.into_iter().chain(restarted) {
            self.ports.insert(open.info.name.clone(), open);
        }
        let mut old: Vec<Option<RunningFunction>> = std::mem::take(&mut self.functions).into_iter().map(Some).collect();
        for function in built.functions {
            match function {
                NewFunction::Fresh(running) => self.functions.push(*running),
                NewFunction::Kept(at, element) => {
                    if let Some(mut running) = old.get_mut(at).and_then(Option::take) {
                        running.element = *element;
                        self.functions.push(running);
                    }
                }
            }
        }
        for (name, config, _) in &new.ports {
            if let Some(open) = self.ports.get_mut(name) {
                open.config = config.clone();
                open.info.addresses = config.address.0.clone();
            }
        }
        let plan =
            blueprint(&self.functions, &mut self.ports, &self.cores, self.loaded.engine.links).map_err(Failure::one)?;
        self.engine.install(plan).map_err(Failure::one)?;
        let now = self.engine.now();
        built.prepared.into_iter().for_each(|change| change(now));
        self.functions.iter_mut().for_each(|running| running.keep = true);
        self.tell_links();
        self.loaded = new;
        close_all(gone);
        Ok(())
    }
}

/// The strongest change of an element; that of a rebuild when it is new.
fn strength(plan: &Plan, element: &weir_config::Element) -> Change {
    let action = plan.actions.iter().find(|action| action.kind == element.kind() && action.name == element.name());
    match action.map(|action| &action.what) {
        Some(What::Unchanged) => Change::Live,
        Some(What::Changed { strongest, .. }) => *strongest,
        _ => Change::Rebuild,
    }
}

fn close_all(ports: Vec<OpenPort>) {
    for mut open in ports {
        open.port.close();
    }
}
