//! What is so while Weir runs, for those who show it.

use weir_config::ConfigError;
use weir_engine::WorkerSnapshot;
use weir_stage::{DeviceStats, LinkSpeed, PortInfo};

use super::{RunningFunction, Supervisor, config};

impl Supervisor {
    /// Whether a port's link that was up is down, and nothing will be sent there any more.
    pub(crate) fn links_lost(&self) -> bool {
        self.ports.values().any(|open| !open.info.link_up)
    }

    /// Workers whose loop has not gone round for a second.
    pub(crate) fn stalled(&self) -> &[String] {
        &self.stalled
    }

    /// Whether all input has come to its end and nothing is on its way.
    pub(crate) fn drained(&mut self) -> bool {
        self.engine.drained()
    }

    /// Whether time is virtual: then [`Supervisor::tick`] drives everything.
    pub(crate) fn is_virtual(&self) -> bool {
        self.engine.is_virtual()
    }

    /// The engine's time, nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        self.engine.now()
    }

    /// Frequency of the time stamp counter, Hz.
    pub(crate) fn hz(&self) -> u64 {
        self.engine.hz()
    }

    /// The numbers of all workers.
    pub(crate) fn snapshots(&mut self) -> Vec<WorkerSnapshot> {
        self.engine.snapshot()
    }

    /// The ports, with their devices' own figures.
    pub(crate) fn port_figures(&self) -> Vec<(PortInfo, DeviceStats)> {
        let mut figures: Vec<(PortInfo, DeviceStats)> =
            self.ports.values().map(|open| (open.info.clone(), open.stats())).collect();
        figures.sort_by_key(|(info, _)| info.index);
        figures
    }

    /// Whether a port is promiscuous, see [`weir_stage::Port::promiscuous`].
    pub(crate) fn promiscuous(&self, port: &str) -> Option<bool> {
        self.ports.get(port)?.port.promiscuous()
    }

    /// Whether packets that come into a port wake a worker that sleeps, see [`weir_stage::Rx::descriptor`].
    pub(crate) fn wakes(&self, port: &str) -> bool {
        self.ports.get(port).is_some_and(|open| open.wakes)
    }

    /// How fast a port's link is, see [`weir_stage::Port::speed`].
    pub(crate) fn speed(&self, port: &str) -> LinkSpeed {
        self.ports.get(port).map(|open| open.speed).unwrap_or_default()
    }

    /// Indexes and names of the ports.
    pub(crate) fn port_names(&self) -> Vec<(u16, String)> {
        self.ports.values().map(|open| (open.info.index, open.info.name.clone())).collect()
    }

    /// Buffers in all, and those that are in neither the pool nor the hand of one of `workers`, whose numbers were just taken:
    /// packets, and what device rings hold.
    pub(crate) fn buffers(&self, workers: &[WorkerSnapshot]) -> (u64, u64) {
        let at_hand: u64 = workers.iter().map(|worker| worker.buffers_at_hand).sum();
        let pool = self.buffers.pool();
        (pool.capacity() as u64, (pool.taken() as u64).saturating_sub(pool.at_hand() as u64).saturating_sub(at_hand))
    }

    /// What a stage decided about a packet that left it by `way` at `then`, in words, if its function has anything to say.
    pub(crate) fn explain(&self, stage: &str, way: &str, packet: &[u8], then: u64) -> Option<String> {
        self.functions.iter().find_map(|running| running.instance.explain(stage, way, packet, then))
    }

    /// Names and devices of the ports, and whether their links are up.
    pub(crate) fn links(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        self.ports.values().map(|open| (open.info.name.as_str(), open.info.facts.device.as_str(), open.info.link_up))
    }

    /// The graphs that run, one replica of each function.
    pub(crate) fn graphs(&self) -> Vec<weir_stage::Graph> {
        self.functions.iter().filter_map(|running| running.instance.sketch(0).ok()).collect()
    }

    /// What is not wrong with the running configuration and hardly meant.
    pub(crate) fn warnings(&self) -> Vec<ConfigError> {
        let of = |running: &RunningFunction| {
            let graph = running.instance.sketch(0);
            graph.map_or_else(|_| Vec::new(), |graph| config::loose_ends(running.configured.element(), &graph))
        };
        self.functions.iter().flat_map(of).collect()
    }
}
