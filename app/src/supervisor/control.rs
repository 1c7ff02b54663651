//! Which thread of the control side each function has its slow path on.

use std::collections::BTreeMap;

use weir_config::{ConfigError, ErrorKind};

use super::Supervisor;
use super::config::{ControlConfig, Loaded};

/// The threads, and who has which. A function keeps its thread as long as it is there, whatever others come and go: what its stages hold stays with them.
#[derive(Debug)]
pub(crate) struct ControlThreads {
    threads: usize,
    /// As the configuration says, from 0 on.
    said: BTreeMap<String, usize>,
    given: BTreeMap<String, usize>,
}

impl ControlThreads {
    /// As a configuration has them, which was checked.
    pub(crate) fn new(config: &ControlConfig) -> ControlThreads {
        let said = config.functions.iter().map(|(name, number)| (name.clone(), usize::from(*number).saturating_sub(1)));
        ControlThreads { threads: config.threads.into(), said: said.collect(), given: BTreeMap::new() }
    }

    /// The threads of these functions, those with a slow path, in the order of their declarations; all others are forgotten. Who has none gets one that fewest have.
    pub(crate) fn settle<'a>(&mut self, functions: impl Iterator<Item = &'a str>) -> Vec<usize> {
        let names: Vec<&str> = functions.collect();
        self.given.retain(|name, _| names.contains(&name.as_str()));
        // Those that are said come first, wherever they are declared.
        for name in &names {
            if let Some(thread) = self.said.get(*name) {
                self.given.insert((*name).to_owned(), *thread);
            }
        }
        names.into_iter().map(|name| self.thread_of(name)).collect()
    }

    fn thread_of(&mut self, name: &str) -> usize {
        if let Some(thread) = self.given.get(name) {
            return *thread;
        }
        let load = |thread: &usize| self.given.values().filter(|given| *given == thread).count();
        let thread = (0..self.threads).min_by_key(load).unwrap_or(0);
        self.given.insert(name.to_owned(), thread);
        thread
    }
}

impl Supervisor {
    /// Has the stages on a thread of the control side panic, in builds for tests; whether there is such a thread.
    pub(crate) fn torment(&mut self, control: &str) -> bool {
        cfg!(debug_assertions) && self.engine.torment(control)
    }
}

/// Whether there are the functions and threads that are named.
pub(super) fn check(loaded: &Loaded) -> Vec<ConfigError> {
    let Some(element) = loaded.checked.of_kind("engine").next() else { return Vec::new() };
    let (root, config) = (element.path(), &loaded.engine.control);
    let path = root.field("control");
    let path = path.field("functions");
    let mut errors = Vec::new();
    for (name, thread) in &config.functions {
        let known = loaded.functions().iter().map(weir_stage::Configured::name);
        if known.clone().all(|known| known != name) {
            let allowed = format!("one of {}", known.collect::<Vec<_>>().join(", "));
            let error =
                element.error(ErrorKind::Dangling, &path.entry(name), format!("there is no function \"{name}\""));
            errors.push(error.allowed(allowed));
        }
        if !(1..=config.threads).contains(thread) {
            let problem = format!("there is no thread {thread}; the control side has {}", config.threads);
            let error = element.error(ErrorKind::OutOfRange, &path.entry(name), problem);
            errors.push(error.remedy("raise `threads`, or name one that there is; the first is 1"));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(threads: u8, said: &[(&str, u8)]) -> ControlThreads {
        let functions = said.iter().map(|(name, thread)| ((*name).to_owned(), *thread)).collect();
        ControlThreads::new(&ControlConfig { threads, functions })
    }

    #[test]
    fn functions_are_spread_evenly_around_those_that_are_said() {
        assert_eq!(threads(1, &[]).settle(["a", "b", "c"].into_iter()), [0, 0, 0]);
        assert_eq!(threads(2, &[]).settle(["a", "b", "c", "d"].into_iter()), [0, 1, 0, 1]);
        assert_eq!(threads(2, &[("d", 1)]).settle(["a", "b", "c", "d"].into_iter()), [1, 0, 1, 0]);
        assert_eq!(threads(8, &[]).settle(["a", "b"].into_iter()), [0, 1]);
    }

    #[test]
    fn a_function_keeps_its_thread() {
        let mut two = threads(2, &[]);
        assert_eq!(two.settle(["a", "b"].into_iter()), [0, 1]);
        assert_eq!(two.settle(["x", "b", "a"].into_iter()), [0, 1, 0]);
        // Whoever comes back is new.
        assert_eq!(two.settle(["x", "b"].into_iter()), [0, 1]);
        assert_eq!(two.settle(["b"].into_iter()), [1]);
        assert_eq!(two.settle(["x", "b"].into_iter()), [0, 1]);
    }
}
