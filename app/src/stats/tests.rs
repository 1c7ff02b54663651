//! What the numbers must add up to.

use super::*;
use crate::services::ServiceState;
use proptest::prelude::*;
use weir_engine::snapshot::{DropSnapshot, FateSnapshot, LinkSnapshot, QueueSnapshot, StageSnapshot};

fn drop_of(stage: &str, reason: &str, packets: u64) -> DropSnapshot {
    let help = format!("Why {reason}.");
    DropSnapshot { stage: stage.into(), reason: reason.into(), packets, bytes: packets * 60, help }
}

fn queue(port: u16, packets: u64, held: u64) -> QueueSnapshot {
    QueueSnapshot {
        port,
        packets,
        bytes: packets * 60,
        held,
        lost: vec![("torn".into(), 1)],
        trouble: None,
        remark: None,
    }
}

/// Two workers and the control side: 100 packets came in, 10 went over a link, 9 of which came out of it.
pub(crate) fn snapshots() -> Vec<WorkerSnapshot> {
    let stage = |name: &str, packets| StageSnapshot {
        name: name.into(),
        type_name: "",
        batches: packets / 10,
        packets,
        cycles: packets * 7,
        sampled: packets / 2,
        held: 0,
        ways: vec![("out".into(), packets)],
    };
    let mut one = WorkerSnapshot { id: "1".into(), core: Some(1), elapsed: 1000, packets: 60, ..Default::default() };
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
    one.links =
        vec![LinkSnapshot { name, packets: 10, occupancy: 1, capacity: 512, drops: false, lanes: Default::default() }];
    let mut two = WorkerSnapshot { id: "2".into(), core: Some(2), elapsed: 1000, packets: 40, ..Default::default() };
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
    let service = |name: &str| ServiceStats {
        name: name.into(),
        owner: "weir".into(),
        steps: 1234,
        longest_step: 25_000,
        unit: "clients".into(),
        occupancy: 1,
        capacity: 32,
        ..ServiceStats::default()
    };
    let failed = ServiceStats {
        restarts: 2,
        failure: Some("it had to".into()),
        failed_at: Some("2026-11-21T21:46:03.120Z".into()),
        abandoned: 1,
        ..service("metrics")
    };
    stats.services = vec![ServiceStats { state: ServiceState::Running, ..service("socket") }, failed];
    stats
}

#[test]
fn the_account_is_exact_over_links() {
    let account = example().account;
    let wanted =
        AccountStats { received: 100, created: 4, transmitted: 75, dropped: 16, consumed: 9, held: 4, unaccounted: 0 };
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
    for key in ["name", "owner", "state", "restarts", "failure", "failed_at", "steps", "longest_step", "unit"] {
        has(&format!("/services/1/{key}"));
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
