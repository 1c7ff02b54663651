//! All numbers of a running Weir, put together from the snapshots of its workers: what `weir show stats --json` prints, what
//! tables and metrics are made from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_engine::{Account, WorkerSnapshot};
use weir_stage::DeviceStats;

use crate::services::ServiceStats;
use weir_protocol::VERSION;

/// All numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stats {
    /// The version of the form.
    pub(crate) version: u32,
    /// Nanoseconds since the engine started, on its clock.
    pub(crate) time: u64,
    /// Frequency of the time stamp counter that cycles are counted in, Hz.
    pub(crate) tsc_hz: u64,
    /// The workers; the last is the control side.
    pub(crate) workers: Vec<WorkerStats>,
    /// The ports, by name.
    pub(crate) ports: BTreeMap<String, PortStats>,
    /// The stages, once for each worker that runs them.
    pub(crate) stages: Vec<StageStats>,
    /// Packets dropped, by place and reason, of all workers together; the most frequent first.
    pub(crate) drops: Vec<DropStats>,
    /// Packets consumed and created, by stage and reason, of all workers together; the most frequent first.
    pub(crate) fates: Vec<FateStats>,
    /// Links between workers.
    pub(crate) links: Vec<LinkStats>,
    /// Facts that functions tell.
    pub(crate) gauges: Vec<Gauge>,
    /// What the program does beside packets.
    #[serde(default)]
    pub(crate) services: Vec<ServiceStats>,
    /// The account of all workers together.
    pub(crate) account: AccountStats,
    /// The packet buffers: a check of the account by other books.
    pub(crate) buffers: BufferStats,
}

/// The packet buffers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct BufferStats {
    /// In all.
    pub(crate) capacity: u64,
    /// In packets and device rings now, by the pool's books.
    pub(crate) in_use: u64,
    /// In device rings now; null where a device cannot tell.
    pub(crate) in_rings: Option<u64>,
    /// In use beyond what the account holds, links and rings have: 0 when nothing moves; null where a device cannot tell.
    pub(crate) missing: Option<i64>,
}

/// One worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkerStats {
    /// `1` for the worker on core 1, or `control`.
    pub(crate) id: String,
    /// The core it is pinned to.
    pub(crate) core: Option<u64>,
    /// Where its time went.
    pub(crate) cycles: CycleStats,
    /// TSC cycles since it started.
    pub(crate) elapsed: u64,
    /// Packets that entered its graph.
    pub(crate) packets: u64,
    /// Times round its loop.
    pub(crate) loops: u64,
    /// Times it did not receive because a link that must not drop was full.
    pub(crate) backpressure: u64,
    /// Its own account, links included.
    pub(crate) account: WorkerAccount,
}

/// TSC cycles by what they were spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CycleStats {
    /// Receiving.
    pub(crate) receive: u64,
    /// The stages, and moving packets between them.
    pub(crate) graph: u64,
    /// Transmitting.
    pub(crate) transmit: u64,
    /// Commands, counters, grace periods.
    pub(crate) housekeeping: u64,
    /// Loops in which nothing happened.
    pub(crate) idle: u64,
    /// Waiting in the kernel.
    pub(crate) asleep: u64,
}

impl CycleStats {
    /// What was spent since `before`.
    pub(crate) fn since(&self, before: &CycleStats) -> CycleStats {
        CycleStats {
            receive: self.receive.saturating_sub(before.receive),
            graph: self.graph.saturating_sub(before.graph),
            transmit: self.transmit.saturating_sub(before.transmit),
            housekeeping: self.housekeeping.saturating_sub(before.housekeeping),
            idle: self.idle.saturating_sub(before.idle),
            asleep: self.asleep.saturating_sub(before.asleep),
        }
    }

    /// Each kind by its name.
    pub(crate) fn parts(&self) -> [(&'static str, u64); 6] {
        [
            ("receive", self.receive),
            ("graph", self.graph),
            ("transmit", self.transmit),
            ("housekeeping", self.housekeeping),
            ("idle", self.idle),
            ("asleep", self.asleep),
        ]
    }
}

/// The account of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkerAccount {
    /// Packets that ports handed over.
    pub(crate) received: u64,
    /// Packets that stages made.
    pub(crate) created: u64,
    /// Packets that came from other workers.
    pub(crate) links_in: u64,
    /// Packets that ports accepted.
    pub(crate) transmitted: u64,
    /// Packets dropped for a named reason.
    pub(crate) dropped: u64,
    /// Packets used up for a named reason.
    pub(crate) consumed: u64,
    /// Packets that went to other workers.
    pub(crate) links_out: u64,
    /// Packets in somebody's hands.
    pub(crate) held: u64,
    /// The difference: 0 unless packets were lost or doubled.
    pub(crate) unaccounted: i64,
}

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortStats {
    /// The device as the configuration names it.
    pub(crate) device: String,
    /// Whether its link is up.
    pub(crate) link_up: bool,
    /// Packets that it handed over.
    pub(crate) rx_packets: u64,
    /// Bytes of them.
    pub(crate) rx_bytes: u64,
    /// Packets lost because the receive ring was full; null where the device cannot tell.
    pub(crate) rx_missed: Option<u64>,
    /// Packets lost because no buffer was free; null where the device cannot tell.
    pub(crate) rx_nobuf: Option<u64>,
    /// Frames received with errors; null where the device cannot tell.
    pub(crate) rx_errors: Option<u64>,
    /// Packets that it accepted.
    pub(crate) tx_packets: u64,
    /// Bytes of them.
    pub(crate) tx_bytes: u64,
    /// Packets that the engine dropped because the port did not accept them.
    pub(crate) tx_dropped: u64,
    /// Frames that could not be sent; null where the device cannot tell.
    pub(crate) tx_errors: Option<u64>,
    /// Packets that wait to be accepted.
    pub(crate) tx_held: u64,
    /// Packets lost by software before they were received, by name.
    pub(crate) rx_lost: BTreeMap<String, u64>,
}

/// One stage on one worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StageStats {
    /// Its name.
    pub(crate) name: String,
    /// The worker's id.
    pub(crate) worker: String,
    /// Batches it was given.
    pub(crate) batches: u64,
    /// Packets it was given.
    pub(crate) packets: u64,
    /// TSC cycles, scaled up from the sampled batches to all.
    pub(crate) cycles: u64,
    /// Packets in the sampled batches.
    pub(crate) sampled: u64,
    /// Packets it holds now.
    pub(crate) held: u64,
    /// Packets per way that goes on; only those that occurred.
    pub(crate) ways: BTreeMap<String, u64>,
}

/// Packets dropped at one place for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DropStats {
    /// The stage, port or link.
    pub(crate) stage: String,
    /// The reason's name.
    pub(crate) reason: String,
    /// Packets.
    pub(crate) packets: u64,
    /// Bytes.
    pub(crate) bytes: u64,
    /// A sentence that explains it.
    pub(crate) help: String,
}

/// Packets consumed or created at one stage for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FateStats {
    /// The stage.
    pub(crate) stage: String,
    /// The reason's name.
    pub(crate) reason: String,
    /// `consumed` or `created`.
    pub(crate) fate: String,
    /// Packets.
    pub(crate) packets: u64,
    /// Bytes.
    pub(crate) bytes: u64,
    /// A sentence that explains it.
    pub(crate) help: String,
}

/// One link between workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkStats {
    /// `1 -> control: STAGE`.
    pub(crate) name: String,
    /// Packets put in.
    pub(crate) packets: u64,
    /// Packets in it now.
    pub(crate) occupancy: u64,
    /// Packets that fit.
    pub(crate) capacity: u64,
    /// Whether it drops when it is full.
    pub(crate) drops: bool,
}

/// A fact that a function tells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Gauge {
    /// The function's name.
    pub(crate) function: String,
    /// The fact's name.
    pub(crate) name: String,
    /// A sentence that explains it.
    pub(crate) help: String,
    /// Its value.
    pub(crate) value: f64,
}

/// The account: `received + created = transmitted + dropped + consumed + held + unaccounted`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AccountStats {
    /// Packets that ports handed over.
    pub(crate) received: u64,
    /// Packets that stages made.
    pub(crate) created: u64,
    /// Packets that ports accepted.
    pub(crate) transmitted: u64,
    /// Packets dropped for a named reason.
    pub(crate) dropped: u64,
    /// Packets used up for a named reason.
    pub(crate) consumed: u64,
    /// Packets in somebody's hands, links between workers included.
    ///
    /// While packets move this can be off by those that crossed a link between the snapshots of two workers, in either
    /// direction; hence the sign.
    pub(crate) held: i64,
    /// The difference: 0 unless packets were lost or doubled.
    pub(crate) unaccounted: i64,
}

/// What is known about a port beside its queues.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortInput {
    /// Its index in snapshots.
    pub(crate) index: u16,
    /// Its name.
    pub(crate) name: String,
    /// The device as the configuration names it.
    pub(crate) device: String,
    /// Whether its link is up.
    pub(crate) link_up: bool,
    /// The device's own figures.
    pub(crate) stats: DeviceStats,
}

/// Puts the numbers together. `time`, `tsc_hz` and `gauges` are left to the caller.
pub(crate) fn from_snapshots(workers: &[WorkerSnapshot], ports: &[PortInput]) -> Stats {
    Stats {
        version: VERSION,
        workers: workers.iter().map(worker).collect(),
        ports: ports.iter().map(|input| (input.name.clone(), port(input, workers))).collect(),
        stages: stages(workers),
        drops: drops(workers),
        fates: fates(workers),
        links: links(workers),
        account: account(workers),
        ..Stats::default()
    }
}

/// The packet buffers: of `capacity` so many are `in_use`.
pub(crate) fn buffers(stats: &Stats, ports: &[PortInput], capacity: u64, in_use: u64) -> BufferStats {
    let in_rings = ports.iter().map(|port| port.stats.in_rings).sum::<Option<u64>>();
    let missing = |rings: u64| signed(in_use) - stats.account.held - signed(rings);
    BufferStats { capacity, in_use, in_rings, missing: in_rings.map(missing) }
}

fn worker(worker: &WorkerSnapshot) -> WorkerStats {
    let (cycles, account) = (worker.cycles, worker.account);
    WorkerStats {
        id: worker.id.clone(),
        core: worker.core.map(|core| core as u64),
        cycles: CycleStats {
            receive: cycles.receive,
            graph: cycles.graph,
            transmit: cycles.transmit,
            housekeeping: cycles.housekeeping,
            idle: cycles.idle,
            asleep: cycles.asleep,
        },
        elapsed: worker.elapsed,
        packets: worker.packets,
        loops: worker.loops,
        backpressure: worker.backpressure,
        account: WorkerAccount {
            received: account.received,
            created: account.created,
            links_in: account.links_in,
            transmitted: account.transmitted,
            dropped: account.dropped,
            consumed: account.consumed,
            links_out: account.links_out,
            held: account.held,
            unaccounted: account.unaccounted(),
        },
    }
}

fn port(input: &PortInput, workers: &[WorkerSnapshot]) -> PortStats {
    let mut port = PortStats {
        device: input.device.clone(),
        link_up: input.link_up,
        rx_missed: input.stats.missed,
        rx_nobuf: input.stats.no_buffer,
        rx_errors: input.stats.rx_errors,
        tx_errors: input.stats.tx_errors,
        ..PortStats::default()
    };
    for worker in workers {
        for queue in worker.receive.iter().filter(|queue| queue.port == input.index) {
            port.rx_packets += queue.packets;
            port.rx_bytes += queue.bytes;
            for (reason, packets) in &queue.lost {
                *port.rx_lost.entry(reason.clone()).or_default() += packets;
            }
        }
        for queue in worker.transmit.iter().filter(|queue| queue.port == input.index) {
            port.tx_packets += queue.packets;
            port.tx_bytes += queue.bytes;
            port.tx_held += queue.held;
        }
        let dropped = worker.drops.iter().filter(|drop| drop.stage == input.name);
        port.tx_dropped += dropped.map(|drop| drop.packets).sum::<u64>();
    }
    port
}

fn stages(workers: &[WorkerSnapshot]) -> Vec<StageStats> {
    let of_worker = |worker: &WorkerSnapshot| {
        let stage = |stage: &weir_engine::snapshot::StageSnapshot| StageStats {
            name: stage.name.clone(),
            worker: worker.id.clone(),
            batches: stage.batches,
            packets: stage.packets,
            cycles: stage.cycles,
            sampled: stage.sampled,
            held: stage.held,
            ways: stage.ways.iter().cloned().collect(),
        };
        worker.stages.iter().map(stage).collect::<Vec<_>>()
    };
    workers.iter().flat_map(of_worker).collect()
}

fn drops(workers: &[WorkerSnapshot]) -> Vec<DropStats> {
    let mut sums: BTreeMap<(&str, &str), DropStats> = BTreeMap::new();
    for drop in workers.iter().flat_map(|worker| &worker.drops) {
        let sum = sums.entry((&drop.stage, &drop.reason)).or_insert_with(|| DropStats {
            stage: drop.stage.clone(),
            reason: drop.reason.clone(),
            help: drop.help.clone(),
            ..DropStats::default()
        });
        sum.packets += drop.packets;
        sum.bytes += drop.bytes;
    }
    let mut all: Vec<DropStats> = sums.into_values().collect();
    all.sort_by_key(|drop| std::cmp::Reverse(drop.packets));
    all
}

fn fates(workers: &[WorkerSnapshot]) -> Vec<FateStats> {
    let mut sums: BTreeMap<(&str, &str, &str), FateStats> = BTreeMap::new();
    for fate in workers.iter().flat_map(|worker| &worker.fates) {
        let sum = sums.entry((&fate.stage, &fate.reason, fate.fate)).or_insert_with(|| FateStats {
            stage: fate.stage.clone(),
            reason: fate.reason.clone(),
            fate: fate.fate.to_owned(),
            help: fate.help.clone(),
            ..FateStats::default()
        });
        sum.packets += fate.packets;
        sum.bytes += fate.bytes;
    }
    let mut all: Vec<FateStats> = sums.into_values().collect();
    all.sort_by_key(|fate| std::cmp::Reverse(fate.packets));
    all
}

fn links(workers: &[WorkerSnapshot]) -> Vec<LinkStats> {
    let all = workers.iter().flat_map(|worker| &worker.links);
    all.map(|link| LinkStats {
        name: link.name.clone(),
        packets: link.packets,
        occupancy: link.occupancy,
        capacity: link.capacity,
        drops: link.drops,
    })
    .collect()
}

/// The sum of the workers' accounts.
///
/// What went into links and did not come out of them is held there. Workers are asked one after the other, so while packets
/// move only this difference is right, not what the links themselves report; when all is quiet the links' own report counts,
/// so that a packet lost in a link shows as unaccounted.
fn account(workers: &[WorkerSnapshot]) -> AccountStats {
    let mut sum = Account::default();
    workers.iter().for_each(|worker| sum.add(&worker.account));
    let crossing = signed(sum.links_out) - signed(sum.links_in);
    let in_links = if workers.iter().all(|worker| worker.quiet) {
        let links = workers.iter().flat_map(|worker| &worker.links);
        signed(links.map(|link| link.occupancy).sum())
    } else {
        crossing
    };
    let own: i64 = workers.iter().map(|worker| worker.account.unaccounted()).sum();
    AccountStats {
        received: sum.received,
        created: sum.created,
        transmitted: sum.transmitted,
        dropped: sum.dropped,
        consumed: sum.consumed,
        held: signed(sum.held) + in_links,
        unaccounted: own + crossing - in_links,
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(crate) mod tests;
