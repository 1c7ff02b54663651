//! Building the functions of a new configuration beside those that run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_config::{Change, ConfigError, Element, Plan, What};
use weir_mem::Domain;
use weir_stage::{Env, InterfaceInfo, PortInfo};

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

/// A live change that is ready to be put in place.
pub(super) type Prepared = Box<dyn FnOnce(u64) + Send>;

/// The functions of the new configuration: built, or kept with a change to be put in place.
pub(crate) struct Built {
    pub(super) functions: Vec<RunningFunction>,
    pub(super) prepared: Vec<Prepared>,
}

impl Aside {
    /// The second step of a reload: builds the functions of the new configuration.
    pub(crate) fn build(&self) -> Result<Built, Failure> {
        let env = self.env(&self.infos);
        let mut built = Built { functions: Vec::new(), prepared: Vec::new() };
        let mut errors: Vec<ConfigError> = Vec::new();
        for (function, element) in self.new.functions() {
            let running = self.running(element);
            let ports = function.ports(element);
            let is_live =
                !ports.iter().any(|port| self.changes.opens(port)) && self.strength(element) < Change::Rebuild;
            match running {
                Some(running) if is_live => match running.instance.prepare(element, &env) {
                    Ok(change) => {
                        built.prepared.push(change);
                        built.functions.push(RunningFunction { element: element.clone(), ..running.clone() });
                    }
                    Err(more) => errors.extend(more),
                },
                running => match function.build(element, &env, running.map(|running| &*running.instance)) {
                    Ok(instance) => built.functions.push(RunningFunction {
                        function,
                        element: element.clone(),
                        instance: Arc::from(instance),
                        placement: function.placement(element),
                        ports,
                        keep: false,
                    }),
                    Err(more) => errors.extend(more),
                },
            }
        }
        if errors.is_empty() { Ok(built) } else { Err(Failure::Config(errors)) }
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
        let env = self.env(&infos);
        let mut errors = Vec::new();
        for built in built.functions.iter_mut().filter(|built| built.ports.iter().any(|port| others.contains(port))) {
            let old = self.running(&built.element).map(|running| &*running.instance);
            match built.function.build(&built.element, &env, old) {
                Ok(instance) => built.instance = Arc::from(instance),
                Err(more) => errors.extend(more),
            }
        }
        if errors.is_empty() { Ok(built) } else { Err(Failure::Config(errors)) }
    }

    fn env<'a>(&'a self, ports: &'a [PortInfo]) -> Env<'a> {
        Env { ports, interfaces: &self.interfaces, domain: &self.domain, folder: Some(&self.new.folder), now: self.now }
    }

    /// The function that runs by the name of this one.
    fn running(&self, element: &Element) -> Option<&RunningFunction> {
        let is_it = |running: &&RunningFunction| {
            running.element.kind() == element.kind() && running.element.name() == element.name()
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
