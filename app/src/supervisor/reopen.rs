//! Opening ports again: those that a failed reload left closed, and those that nothing else mends.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_config::ConfigError;
use weir_stage::{Env, PortInfo};

use super::ports::OpenPort;
use super::reload::{close_all, differ};
use super::{Failure, Supervisor};

impl Supervisor {
    /// Opens ports again as they were, after a reload that failed. Those that do not open stay closed, and are tried again.
    pub(super) fn restore(&mut self, names: &BTreeSet<String>, failure: Failure) -> Failure {
        if names.is_empty() {
            return failure;
        }
        let still_closed: Vec<String> = names.iter().filter_map(|name| self.reopen(name).err()).collect();
        if still_closed.is_empty() { failure } else { Failure::Closed { cause: Box::new(failure), still_closed } }
    }

    /// Opens a closed port as the running configuration has it.
    fn reopen(&mut self, name: &str) -> Result<(), String> {
        let Some(closed) = self.ports.get(name).filter(|open| open.closed.is_some()) else { return Ok(()) };
        let opened = self.open_one(&self.loaded, &closed.config, &closed.info, &closed.owners);
        match opened {
            Ok(mut open) => {
                open.succeed(closed.stats());
                let is_other = differ(&open.info, &closed.info);
                let stand_in = self.ports.insert(name.to_owned(), open);
                if let Err(failure) = self.install_as_is() {
                    let open = stand_in.and_then(|stand_in| self.ports.insert(name.to_owned(), stand_in));
                    close_all(open.into_iter().collect());
                    return Err(failure.to_string());
                }
                self.tell_of_ports();
                if is_other { self.rebuild_on(name) } else { Ok(()) }
            }
            Err(why) => {
                if let Some(open) = self.ports.get_mut(name) {
                    open.closed = Some(why.clone());
                }
                Err(why)
            }
        }
    }

    /// Builds the functions of a port anew, because the port is not what it was.
    fn rebuild_on(&mut self, port: &str) -> Result<(), String> {
        let infos: Vec<PortInfo> = self.ports.values().map(|open| open.info.clone()).collect();
        let (interfaces, folder) = (self.loaded.interface_infos(), Some(&self.loaded.folder));
        let mut built = Vec::new();
        for (at, running) in self.functions.iter().enumerate().filter(|(_, it)| it.configured.has_port(port)) {
            let env = Env { ports: &infos, interfaces: &interfaces, folder, running: Some(&*running.instance) };
            let instance = running.configured.instantiate(&env, &self.ground());
            let told = |errors: Vec<ConfigError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            built.push((at, instance.map_err(told)?));
        }
        for (at, instance) in built {
            if let Some(running) = self.functions.get_mut(at) {
                (running.instance, running.keep) = (Arc::from(instance), false);
            }
        }
        self.install_as_is().map_err(|failure| failure.to_string())?;
        self.functions.iter_mut().for_each(|running| running.keep = true);
        self.tell_of_ports();
        Ok(())
    }

    /// Closes ports that only being opened again can mend.
    pub(super) fn close_ailing(&mut self) {
        let ailing = |open: &mut OpenPort| Some((open.info.name.clone(), open.port.ails()?));
        let ailing: Vec<(String, String)> = self.ports.values_mut().filter_map(ailing).collect();
        for (name, why) in ailing {
            crate::log::error("port", &format!("{why}: it is closed, and opened again"), &[("port", &name)]);
            if let Err(failure) = self.close_ports(&BTreeSet::from([name.clone()]), &why) {
                crate::log::error("port", &format!("it cannot be closed: {failure}"), &[("port", &name)]);
            }
        }
    }

    /// Tries again to open the ports that are closed and ought not to be.
    pub(super) fn reopen_closed(&mut self) {
        let closed = self.ports.values().filter(|open| open.closed.is_some());
        let closed: Vec<String> = closed.map(|open| open.info.name.clone()).collect();
        for name in closed {
            if self.reopen(&name).is_ok() {
                crate::log::info("port", "a port that was closed is open again", &[("port", &name)]);
            }
        }
    }
}
