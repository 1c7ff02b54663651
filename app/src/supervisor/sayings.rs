//! What ports have to say: what is wrong with them for good, and what is odd.

use std::collections::BTreeMap;

use weir_engine::WorkerSnapshot;

use super::Supervisor;
use super::ports::OpenPort;

/// What queues of ports have to say, each with its port.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sayings {
    /// What is wrong for good: a damaged file, a full disk.
    pub(crate) troubles: Vec<(String, String)>,
    /// What is odd and was coped with: stamps that run backwards.
    pub(crate) remarks: Vec<(String, String)>,
}

impl Supervisor {
    /// What ports have to say, as of the last second.
    pub(crate) fn sayings(&self) -> &Sayings {
        &self.sayings
    }

    /// What is wrong with ports for good, as it is now: each with its port.
    pub(crate) fn find_troubles(&mut self) -> Vec<(String, String)> {
        let workers = self.engine.snapshot();
        sayings_of(&workers, &self.ports).troubles
    }
}

/// What the queues of workers have to say, and ports that are closed and ought not to be.
pub(super) fn sayings_of(workers: &[WorkerSnapshot], ports: &BTreeMap<String, OpenPort>) -> Sayings {
    let name = |index: u16| {
        ports.values().find(|open| open.info.index == index).map_or_else(String::new, |open| open.info.name.clone())
    };
    let mut sayings = Sayings::default();
    for queue in workers.iter().flat_map(|worker| worker.receive.iter().chain(&worker.transmit)) {
        sayings.troubles.extend(queue.trouble.clone().map(|trouble| (name(queue.port), trouble)));
        sayings.remarks.extend(queue.remark.clone().map(|remark| (name(queue.port), remark)));
    }
    for open in ports.values() {
        let closed = open.closed.as_ref().map(|why| format!("it is closed and tried again every second: {why}"));
        sayings.troubles.extend(closed.map(|sentence| (open.info.name.clone(), sentence)));
    }
    sayings
}
