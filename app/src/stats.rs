//! All numbers of a running Weir, put together from the snapshots of its workers: what `weir show stats --json` prints, what
//! tables and metrics are made from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_engine::{Account, WorkerSnapshot};
use weir_stage::DeviceStats;

use crate::protocol::VERSION;

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
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_engine::snapshot::{DropSnapshot, FateSnapshot, LinkSnapshot, QueueSnapshot, StageSnapshot};

    fn drop_of(stage: &str, reason: &str, packets: u64) -> DropSnapshot {
        let help = format!("Why {reason}.");
        DropSnapshot { stage: stage.into(), reason: reason.into(), packets, bytes: packets * 60, help }
    }

    fn queue(port: u16, packets: u64, held: u64) -> QueueSnapshot {
        QueueSnapshot { port, packets, bytes: packets * 60, held, lost: vec![("torn".into(), 1)], trouble: None }
    }

    /// Two workers and the control side: 100 packets came in, 10 went over a link, 9 of which came out of it.
    pub(crate) fn snapshots() -> Vec<WorkerSnapshot> {
        let stage = |name: &str, packets| StageSnapshot {
            name: name.into(),
            batches: packets / 10,
            packets,
            cycles: packets * 7,
            sampled: packets / 2,
            held: 0,
            ways: vec![("out".into(), packets)],
        };
        let mut one =
            WorkerSnapshot { id: "1".into(), core: Some(1), elapsed: 1000, packets: 60, ..Default::default() };
        one.cycles.graph = 400;
        one.cycles.receive = 300;
        one.cycles.transmit = 300;
        one.account.received = 60;
        one.account.links_out = 10;
        one.account.transmitted = 40;
        one.account.dropped = 7;
        one.account.held = 3;
        one.stages = vec![stage("toy.ttl", 60)];
        one.receive = vec![queue(0, 60, 0)];
        one.transmit = vec![queue(1, 40, 3)];
        one.drops = vec![drop_of("toy.ttl", "expired", 5), drop_of("lan", "tx-full", 2)];
        let name = "1 -> control: toy.slow".to_owned();
        one.links = vec![LinkSnapshot { name, packets: 10, occupancy: 1, capacity: 512, drops: false }];
        let mut two =
            WorkerSnapshot { id: "2".into(), core: Some(2), elapsed: 1000, packets: 40, ..Default::default() };
        two.cycles.idle = 900;
        two.cycles.asleep = 100;
        two.account.received = 40;
        two.account.transmitted = 31;
        two.account.dropped = 9;
        two.stages = vec![stage("toy.ttl", 40)];
        two.receive = vec![queue(0, 40, 0)];
        two.transmit = vec![queue(1, 31, 0)];
        two.drops = vec![drop_of("toy.ttl", "expired", 9)];
        let mut control = WorkerSnapshot { id: "control".into(), packets: 9, ..Default::default() };
        control.account.links_in = 9;
        control.account.created = 4;
        control.account.consumed = 9;
        control.account.transmitted = 4;
        control.stages = vec![stage("toy.slow", 9)];
        control.transmit = vec![queue(0, 4, 0)];
        let fate = |fate, reason: &str, packets| FateSnapshot {
            stage: "toy.slow".into(),
            reason: reason.into(),
            fate,
            packets,
            bytes: packets * 60,
            help: "An answer.".into(),
        };
        control.fates = vec![fate("created", "reply", 4), fate("consumed", "answered", 9)];
        vec![one, two, control]
    }

    pub(crate) fn inputs() -> Vec<PortInput> {
        let input = |index, name: &str| PortInput {
            index,
            name: name.into(),
            device: format!("pcap:{name}.pcap"),
            link_up: index == 0,
            stats: DeviceStats { missed: Some(5), ..DeviceStats::default() },
        };
        vec![input(0, "wan"), input(1, "lan")]
    }

    /// The numbers of [`snapshots`].
    pub(crate) fn example() -> Stats {
        let mut stats = from_snapshots(&snapshots(), &inputs());
        (stats.time, stats.tsc_hz) = (2_500_000_000, 2_100_000_000);
        let gauge = Gauge { function: "toy".into(), name: "routes".into(), help: "Routes.".into(), value: 7.0 };
        stats.gauges.push(gauge);
        stats
    }

    #[test]
    fn the_account_is_exact_over_links() {
        let account = example().account;
        let wanted = AccountStats {
            received: 100,
            created: 4,
            transmitted: 75,
            dropped: 16,
            consumed: 9,
            held: 4,
            unaccounted: 0,
        };
        assert_eq!(account, wanted);
    }

    #[test]
    fn a_leak_shows() {
        let mut workers = snapshots();
        workers[0].account.transmitted -= 1;
        assert_eq!(account(&workers).unaccounted, 1);
        workers[1].account.transmitted += 3;
        assert_eq!(account(&workers).unaccounted, -2);
    }

    #[test]
    fn a_leak_in_a_link_shows_when_all_is_quiet() {
        let mut workers = snapshots();
        workers[0].links[0].occupancy = 0;
        assert_eq!(account(&workers).unaccounted, 0, "a packet may just have come out");
        workers.iter_mut().for_each(|worker| worker.quiet = true);
        assert_eq!(account(&workers).unaccounted, 1);
    }

    #[test]
    fn ports_sum_their_queues() {
        let stats = example();
        let (wan, lan) = (&stats.ports["wan"], &stats.ports["lan"]);
        assert_eq!((wan.rx_packets, wan.rx_bytes, wan.tx_packets, wan.tx_bytes), (100, 6000, 4, 240));
        assert_eq!((lan.rx_packets, lan.tx_packets, lan.tx_dropped, lan.tx_held), (0, 71, 2, 3));
        assert_eq!((wan.rx_missed, wan.rx_nobuf, wan.link_up, lan.link_up), (Some(5), None, true, false));
        assert_eq!(wan.rx_lost["torn"], 2);
    }

    #[test]
    fn drops_of_all_workers_are_one_and_sorted() {
        let stats = example();
        let seen: Vec<_> = stats.drops.iter().map(|drop| (&*drop.stage, &*drop.reason, drop.packets)).collect();
        assert_eq!(seen, [("toy.ttl", "expired", 14), ("lan", "tx-full", 2)]);
        assert_eq!(stats.drops[0].help, "Why expired.");
        assert_eq!(stats.drops.iter().map(|drop| drop.packets).sum::<u64>(), stats.account.dropped);
    }

    #[test]
    fn json_has_what_is_promised() {
        let json = serde_json::to_value(example()).unwrap();
        let has = |pointer: &str| assert!(json.pointer(pointer).is_some(), "{pointer}");
        for part in ["receive", "graph", "transmit", "housekeeping", "idle", "asleep"] {
            has(&format!("/workers/0/cycles/{part}"));
        }
        for key in ["id", "packets"] {
            has(&format!("/workers/0/{key}"));
        }
        for key in ["rx_packets", "rx_bytes", "rx_missed", "rx_nobuf", "tx_packets", "tx_bytes", "tx_dropped"] {
            has(&format!("/ports/wan/{key}"));
        }
        for key in ["name", "worker", "batches", "packets", "cycles", "sampled"] {
            has(&format!("/stages/0/{key}"));
        }
        for key in ["stage", "reason", "packets", "bytes", "help"] {
            has(&format!("/drops/0/{key}"));
        }
        for key in ["received", "created", "transmitted", "dropped", "consumed", "held", "unaccounted"] {
            has(&format!("/account/{key}"));
        }
        assert_eq!(serde_json::from_value::<Stats>(json).unwrap(), example());
    }

    proptest! {
        /// Whatever the workers tell, the sum of the account is the sum of their own differences.
        #[test]
        fn the_identity_holds(counts in proptest::collection::vec((0..1000u64, 0..1000u64, 0..1000u64, 0..1000u64), 1..5)) {
            let workers: Vec<WorkerSnapshot> = counts.iter().map(|&(received, sent, links_in, links_out)| {
                let account = Account { received, transmitted: sent, links_in, links_out, ..Account::default() };
                WorkerSnapshot { account, ..WorkerSnapshot::default() }
            }).collect();
            let sum = account(&workers);
            let own: i64 = workers.iter().map(|worker| worker.account.unaccounted()).sum();
            prop_assert_eq!(sum.unaccounted, own);
            prop_assert_eq!(
                (sum.received + sum.created) as i64,
                (sum.transmitted + sum.dropped + sum.consumed) as i64 + sum.held + sum.unaccounted
            );
        }
    }
}
