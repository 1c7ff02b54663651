//! What the log is told of workers and ports while they run.

use std::collections::BTreeMap;

use crate::log::{self, Level};
use crate::supervisor::{Sayings, Supervisor};

/// What was last told about workers that stand still, what ports have to say, and their links.
#[derive(Default)]
pub(crate) struct Watch {
    /// Whether the link of each port was up.
    links: BTreeMap<String, bool>,
    stalled: Vec<String>,
    sayings: Sayings,
}

impl Watch {
    /// Looks for what has changed since the last time.
    pub(crate) fn look(&mut self, supervisor: &Supervisor) {
        let told = supervisor.links().filter_map(|(port, device, up)| {
            let (level, message) = self.link(port, up)?;
            log::each(level, "port", message, &[("port", &port), ("device", &device)]);
            Some(port.to_owned())
        });
        // Ports that are gone are told of anew should they come back.
        let changed = told.count() > 0;
        if changed || self.links.len() != supervisor.links().count() {
            self.links = supervisor.links().map(|(port, _, up)| (port.to_owned(), up)).collect();
        }
        self.workers(supervisor);
        self.ports(supervisor.sayings());
    }

    /// What there is to say of the link of a port.
    fn link(&self, port: &str, up: bool) -> Option<(Level, &'static str)> {
        match (self.links.get(port), up) {
            (Some(true), false) => Some((Level::Warn, "the link went down")),
            (Some(false), true) => Some((Level::Info, "the link is up")),
            (None, false) => Some((Level::Warn, "the link is down")),
            (None, true) => Some((Level::Debug, "the link is up")),
            (Some(_), _) => None,
        }
    }

    fn workers(&mut self, supervisor: &Supervisor) {
        let now = supervisor.stalled();
        for id in now.iter().filter(|id| !self.stalled.contains(id)) {
            log::error(
                "worker",
                "a worker's loop stands still: it is stuck in a stage or gets no time",
                &[("worker", id)],
            );
        }
        for id in self.stalled.iter().filter(|id| !now.contains(id)) {
            log::info("worker", "a worker's loop goes round again", &[("worker", id)]);
        }
        if self.stalled != now {
            self.stalled = now.to_vec();
        }
    }

    fn ports(&mut self, now: &Sayings) {
        if self.sayings == *now {
            return;
        }
        // A remark that counts grows: it is told when it is new, and as it is at the end.
        let known = |port: &String| self.sayings.remarks.iter().find(|(known, _)| known == port);
        let remarks = now.remarks.iter().map(|remark| known(&remark.0).unwrap_or(remark).clone()).collect();
        self.hear(&Sayings { troubles: now.troubles.clone(), remarks });
    }

    /// Tells what ports have to say and have not said before.
    pub(crate) fn hear(&mut self, now: &Sayings) {
        for (port, sentence) in now.troubles.iter().filter(|trouble| !self.sayings.troubles.contains(trouble)) {
            log::error("port", sentence, &[("port", port)]);
        }
        for (port, sentence) in now.remarks.iter().filter(|remark| !self.sayings.remarks.contains(remark)) {
            log::warn("port", sentence, &[("port", port)]);
        }
        self.sayings = now.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_told_when_it_changes() {
        let mut watch = Watch::default();
        assert_eq!(watch.link("wan", false), Some((Level::Warn, "the link is down")));
        watch.links.insert("wan".to_owned(), true);
        assert_eq!(watch.link("wan", true), None);
        assert_eq!(watch.link("wan", false), Some((Level::Warn, "the link went down")));
        watch.links.insert("wan".to_owned(), false);
        assert_eq!(watch.link("wan", false), None);
        assert_eq!(watch.link("wan", true), Some((Level::Info, "the link is up")));
    }
}
