//! Building the functions of a new configuration beside those that run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_config::{Change, ConfigError, Element, Plan, What};
use weir_mem::Domain;
use weir_stage::{Configured, Env, Ground, InterfaceInfo, PortInfo, Prepared, Redrawn};

use super::Failure;
use super::changes::PortChanges;
use super::config::Loaded;
use super::placing::RunningFunction;
use super::ports::{OpenPort, Owners};
use super::reload::differ;

/// What functions are built from.
pub(crate) struct Aside {
    pub(super) new: Arc<Loaded>,
    pub(super) plan: Plan,
    pub(super) changes: PortChanges,
    pub(super) wanted: BTreeMap<String, Owners>,
    /// The ports as the new configuration sees them: as they are where that is known, else as they will be as far as can be told.
    pub(super) infos: Vec<PortInfo>,
    pub(super) interfaces: Vec<InterfaceInfo>,
    pub(super) running: Vec<RunningFunction>,
    pub(super) domain: Domain,
    pub(super) now: u64,
}

/// The functions of the new configuration: built, or kept with a change to be put in place.
pub(crate) struct Built {
    pub(super) functions: Vec<RunningFunction>,
    pub(super) prepared: Vec<Prepared>,
}

impl Aside {
    /// The second step of a reload: builds the functions of the new configuration.
    pub(crate) fn build(&self) -> Result<Built, Failure> {
        let mut built = Built { functions: Vec::new(), prepared: Vec::new() };
        let mut errors: Vec<ConfigError> = Vec::new();
        for configured in self.new.functions() {
            match self.build_one(configured, &mut built.prepared) {
                Ok(running) => built.functions.push(running),
                Err(more) => errors.extend(more),
            }
        }
        if errors.is_empty() { Ok(built) } else { Err(Failure::Config(errors)) }
    }

    /// The one of this name that runs, with a change that is ready; or another in its place.
    fn build_one(
        &self,
        configured: &Configured,
        prepared: &mut Vec<Prepared>,
    ) -> Result<RunningFunction, Vec<ConfigError>> {
        let running = self.running(configured);
        let env = self.env(&self.infos, running);
        // A port that it has not had yet is nothing that its tables were built on.
        let reopens = |running: &RunningFunction, port| self.changes.opens(port) && running.configured.has_port(port);
        let stays = |running: &&RunningFunction| {
            !configured.ports().any(|port| reopens(running, port))
                && self.strength(configured.element()) < Change::Rebuild
        };
        let described = configured.describe(&env)?;
        let redrawn = running.filter(stays).map(|running| (running, described.redraw(&env)));
        match redrawn {
            Some((running, Redrawn::Same)) => {
                prepared.push(described.change(&env)?);
                Ok(RunningFunction { configured: configured.clone(), ..running.clone() })
            }
            Some((running, Redrawn::As(instance))) => {
                prepared.push(described.change(&env)?);
                let instance = Arc::from(instance);
                Ok(RunningFunction { configured: configured.clone(), instance, ..running.clone() })
            }
            Some((_, Redrawn::Anew)) | None => {
                Ok(RunningFunction::new(configured, described.instantiate(&self.ground(), env.running)?))
            }
        }
    }

    /// Builds those functions anew whose ports are not what they were taken to be.
    pub(super) fn refit(&self, mut built: Built, opened: &[OpenPort]) -> Result<Built, Failure> {
        let mut infos = self.infos.clone();
        let mut others = BTreeSet::new();
        for info in &mut infos {
            let open = opened.iter().find(|open| open.info.name == info.name);
            if let Some(open) = open.filter(|open| differ(&open.info, info)) {
                *info = open.info.clone();
                others.insert(info.name.clone());
            }
        }
        let mut errors = Vec::new();
        for built in &mut built.functions {
            if !built.configured.ports().any(|port| others.contains(port)) {
                continue;
            }
            let env = self.env(&infos, self.running(&built.configured));
            match built.configured.instantiate(&env, &self.ground()) {
                Ok(instance) => (built.instance, built.keep) = (Arc::from(instance), false),
                Err(more) => errors.extend(more),
            }
        }
        if errors.is_empty() { Ok(built) } else { Err(Failure::Config(errors)) }
    }

    fn env<'a>(&'a self, ports: &'a [PortInfo], running: Option<&'a RunningFunction>) -> Env<'a> {
        let running = running.map(|running| &*running.instance);
        Env { ports, interfaces: &self.interfaces, folder: Some(&self.new.folder), running }
    }

    fn ground(&self) -> Ground<'_> {
        Ground { domain: &self.domain, now: self.now }
    }

    /// The function that runs by the name of this one.
    fn running(&self, configured: &Configured) -> Option<&RunningFunction> {
        let is_it = |running: &&RunningFunction| {
            let (one, other) = (running.configured.element(), configured.element());
            one.kind() == other.kind() && one.name() == other.name()
        };
        self.running.iter().find(is_it)
    }

    /// The strongest change of an element; that of a rebuild when it is new.
    fn strength(&self, element: &Element) -> Change {
        let mut actions = self.plan.actions.iter();
        let action = actions.find(|action| action.kind == element.kind() && action.name == element.name());
        match action.map(|action| &action.what) {
            Some(What::Unchanged) => Change::Live,
            Some(What::Changed { strongest, .. }) => *strongest,
            _ => Change::Rebuild,
        }
    }
}
