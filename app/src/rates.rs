//! What happened per second between two looks at the numbers: what `weir show stats --watch` prints.

pub(crate) mod table;

use std::cmp::Ordering;

use serde::Serialize;

use crate::cli::Sort;
use crate::stats::{CycleStats, DropStats, LinkStats, PortStats, StageStats, Stats, WorkerStats};

/// All rates.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Rates {
    /// The time between the two looks.
    pub(crate) seconds: f64,
    /// Of each port.
    pub(crate) ports: Vec<PortRates>,
    /// Of each worker.
    pub(crate) workers: Vec<WorkerRates>,
    /// Of each stage on each worker.
    pub(crate) stages: Vec<StageRates>,
    /// Of each place and reason.
    pub(crate) drops: Vec<DropRates>,
    /// Of each link between workers.
    pub(crate) links: Vec<LinkRates>,
    /// Of all together.
    pub(crate) account: AccountRates,
}

/// A row that can be sorted and hidden.
pub(crate) trait Row {
    /// What tells it from others.
    fn name(&self) -> &str;
    /// Packets, bits and drops per second, all ways together.
    fn rates(&self) -> [f64; 3];
}

/// One port, per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct PortRates {
    /// Its name.
    pub(crate) name: String,
    /// The device as the configuration names it.
    pub(crate) device: String,
    /// Whether its link is up.
    pub(crate) link_up: bool,
    /// Packets that it handed over.
    pub(crate) rx_pps: f64,
    /// Bits of them.
    pub(crate) rx_bps: f64,
    /// Packets lost before they were received, as far as the device can tell.
    pub(crate) lost_pps: f64,
    /// Packets that it accepted.
    pub(crate) tx_pps: f64,
    /// Bits of them.
    pub(crate) tx_bps: f64,
    /// Packets that it did not accept.
    pub(crate) dropped_pps: f64,
}

impl Row for PortRates {
    fn name(&self) -> &str {
        &self.name
    }

    fn rates(&self) -> [f64; 3] {
        [self.rx_pps + self.tx_pps, self.rx_bps + self.tx_bps, self.lost_pps + self.dropped_pps]
    }
}

/// One worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct WorkerRates {
    /// Its id.
    pub(crate) id: String,
    /// Packets that entered its graph, per second.
    pub(crate) pps: f64,
    /// TSC cycles of that time, by what they were spent on.
    pub(crate) cycles: CycleStats,
    /// Cycles of receiving, the graph and transmitting, for each of those packets; null without any.
    pub(crate) cycles_per_packet: Option<f64>,
    /// Times that it did not receive because a link was full, per second.
    pub(crate) backpressure: f64,
}

impl Row for WorkerRates {
    fn name(&self) -> &str {
        &self.id
    }

    fn rates(&self) -> [f64; 3] {
        [self.pps, self.pps, self.backpressure]
    }
}

/// One stage on one worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct StageRates {
    /// Its name.
    pub(crate) name: String,
    /// The worker's id.
    pub(crate) worker: String,
    /// Packets that it was given, per second.
    pub(crate) pps: f64,
    /// Packets in a batch; null without any.
    pub(crate) per_batch: Option<f64>,
    /// Cycles for each packet; null without any.
    pub(crate) cycles_per_packet: Option<f64>,
    /// Packets that it holds now.
    pub(crate) held: u64,
}

impl Row for StageRates {
    fn name(&self) -> &str {
        &self.name
    }

    fn rates(&self) -> [f64; 3] {
        [self.pps, self.pps, self.pps]
    }
}

/// Packets dropped at one place for one reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct DropRates {
    /// `STAGE.REASON`.
    pub(crate) name: String,
    /// Packets per second.
    pub(crate) pps: f64,
    /// Bits per second.
    pub(crate) bps: f64,
    /// A sentence that explains it.
    pub(crate) help: String,
}

impl Row for DropRates {
    fn name(&self) -> &str {
        &self.name
    }

    fn rates(&self) -> [f64; 3] {
        [self.pps, self.bps, self.pps]
    }
}

/// One link between workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct LinkRates {
    /// Its name.
    pub(crate) name: String,
    /// Packets put in, per second.
    pub(crate) pps: f64,
    /// Packets in it now.
    pub(crate) occupancy: u64,
    /// Packets that fit.
    pub(crate) capacity: u64,
}

impl Row for LinkRates {
    fn name(&self) -> &str {
        &self.name
    }

    fn rates(&self) -> [f64; 3] {
        [self.pps, self.pps, self.pps]
    }
}

/// The account, per second, and what must be 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct AccountRates {
    /// Packets that ports handed over.
    pub(crate) received_pps: f64,
    /// Packets that stages made.
    pub(crate) created_pps: f64,
    /// Packets that ports accepted.
    pub(crate) transmitted_pps: f64,
    /// Packets dropped.
    pub(crate) dropped_pps: f64,
    /// Packets used up.
    pub(crate) consumed_pps: f64,
    /// Packets in somebody's hands now.
    pub(crate) held: i64,
    /// Packets lost or doubled since the start.
    pub(crate) unaccounted: i64,
}

/// Counts per second.
#[derive(Clone, Copy)]
struct Per(f64);

impl Per {
    /// What a counter went on by; one that began anew counts from there.
    fn rate(self, before: u64, now: u64) -> f64 {
        let more = if now < before { now } else { now - before };
        if self.0 > 0.0 { more as f64 / self.0 } else { 0.0 }
    }
}

impl Rates {
    /// What happened between two looks at one process; `None` if the second is of another, which started meanwhile.
    pub(crate) fn between(before: &Stats, now: &Stats) -> Option<Rates> {
        let nanoseconds = now.time.checked_sub(before.time)?;
        let seconds = nanoseconds as f64 / 1e9;
        let per = Per(seconds);
        let port = |(name, port): (&String, &PortStats)| port_rates(per, name, before.ports.get(name), port);
        let worker =
            |worker: &WorkerStats| worker_rates(per, before.workers.iter().find(|other| other.id == worker.id), worker);
        let stage = |stage: &StageStats| {
            let same = |other: &&StageStats| other.name == stage.name && other.worker == stage.worker;
            stage_rates(per, before.stages.iter().find(same), stage)
        };
        let drop = |drop: &DropStats| {
            let same = |other: &&DropStats| other.stage == drop.stage && other.reason == drop.reason;
            drop_rates(per, before.drops.iter().find(same), drop)
        };
        let link = |link: &LinkStats| link_rates(per, before.links.iter().find(|other| other.name == link.name), link);
        Some(Rates {
            seconds,
            ports: now.ports.iter().map(port).collect(),
            workers: now.workers.iter().map(worker).collect(),
            stages: now.stages.iter().map(stage).collect(),
            drops: now.drops.iter().map(drop).collect(),
            links: now.links.iter().map(link).collect(),
            account: account_rates(per, before, now),
        })
    }

    /// Sorts all rows.
    pub(crate) fn sort(&mut self, by: Sort) {
        sort(&mut self.ports, by);
        sort(&mut self.workers, by);
        sort(&mut self.stages, by);
        sort(&mut self.drops, by);
        sort(&mut self.links, by);
    }
}

/// Sorts rows: the greatest rate first, by name where they are equal.
pub(crate) fn sort(rows: &mut [impl Row], by: Sort) {
    let at = match by {
        Sort::Packets => Some(0),
        Sort::Bits => Some(1),
        Sort::Drops => Some(2),
        Sort::Name => None,
    };
    rows.sort_by(|a, b| {
        let of = |row: &dyn Row| at.and_then(|at| row.rates().get(at).copied()).unwrap_or_default();
        match of(b).total_cmp(&of(a)) {
            Ordering::Equal => a.name().cmp(b.name()),
            other => other,
        }
    });
}

/// Whether nothing happened in a row.
pub(crate) fn is_quiet(row: &impl Row) -> bool {
    row.rates().iter().all(|rate| *rate == 0.0)
}

fn port_rates(per: Per, name: &str, before: Option<&PortStats>, now: &PortStats) -> PortRates {
    let none = PortStats::default();
    let before = before.unwrap_or(&none);
    let rate = |of: fn(&PortStats) -> u64| per.rate(of(before), of(now));
    let lost = |port: &PortStats| {
        let told = [port.rx_missed, port.rx_nobuf, port.rx_errors].into_iter().flatten().sum::<u64>();
        told + port.rx_lost.values().sum::<u64>()
    };
    PortRates {
        name: name.to_owned(),
        device: now.device.clone(),
        link_up: now.link_up,
        rx_pps: rate(|port| port.rx_packets),
        rx_bps: rate(|port| port.rx_bytes) * 8.0,
        lost_pps: per.rate(lost(before), lost(now)),
        tx_pps: rate(|port| port.tx_packets),
        tx_bps: rate(|port| port.tx_bytes) * 8.0,
        dropped_pps: rate(|port| port.tx_dropped),
    }
}

fn worker_rates(per: Per, before: Option<&WorkerStats>, now: &WorkerStats) -> WorkerRates {
    let none = WorkerStats::default();
    let before = before.unwrap_or(&none);
    let cycles = now.cycles.since(&before.cycles);
    let packets = now.packets.saturating_sub(before.packets);
    let busy = cycles.receive + cycles.graph + cycles.transmit;
    WorkerRates {
        id: now.id.clone(),
        pps: per.rate(before.packets, now.packets),
        cycles,
        cycles_per_packet: (packets > 0).then(|| busy as f64 / packets as f64),
        backpressure: per.rate(before.backpressure, now.backpressure),
    }
}

fn stage_rates(per: Per, before: Option<&StageStats>, now: &StageStats) -> StageRates {
    let none = StageStats::default();
    let before = before.unwrap_or(&none);
    let more = |of: fn(&StageStats) -> u64| of(now).saturating_sub(of(before));
    let (packets, batches, cycles) =
        (more(|stage| stage.packets), more(|stage| stage.batches), more(|stage| stage.cycles));
    StageRates {
        name: now.name.clone(),
        worker: now.worker.clone(),
        pps: per.rate(before.packets, now.packets),
        per_batch: (batches > 0).then(|| packets as f64 / batches as f64),
        cycles_per_packet: (packets > 0).then(|| cycles as f64 / packets as f64),
        held: now.held,
    }
}

fn drop_rates(per: Per, before: Option<&DropStats>, now: &DropStats) -> DropRates {
    let (packets, bytes) = before.map_or((0, 0), |before| (before.packets, before.bytes));
    DropRates {
        name: format!("{}.{}", now.stage, now.reason),
        pps: per.rate(packets, now.packets),
        bps: per.rate(bytes, now.bytes) * 8.0,
        help: now.help.clone(),
    }
}

fn link_rates(per: Per, before: Option<&LinkStats>, now: &LinkStats) -> LinkRates {
    LinkRates {
        name: now.name.clone(),
        pps: per.rate(before.map_or(0, |before| before.packets), now.packets),
        occupancy: now.occupancy,
        capacity: now.capacity,
    }
}

fn account_rates(per: Per, before: &Stats, now: &Stats) -> AccountRates {
    let (before, now) = (&before.account, &now.account);
    AccountRates {
        received_pps: per.rate(before.received, now.received),
        created_pps: per.rate(before.created, now.created),
        transmitted_pps: per.rate(before.transmitted, now.transmitted),
        dropped_pps: per.rate(before.dropped, now.dropped),
        consumed_pps: per.rate(before.consumed, now.consumed),
        held: now.held,
        unaccounted: now.unaccounted,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::stats::tests::example;

    /// Two looks, two seconds apart: `wan` received 3,000 packets and 1,500,000 bytes more, `lan` sent 1,000; 500 were dropped
    /// at a new place, 20 were lost by the device, and worker 1 did it all.
    pub(crate) fn looks() -> (Stats, Stats) {
        let before = example();
        let mut now = example();
        now.time += 2_000_000_000;
        let wan = now.ports.get_mut("wan").unwrap();
        wan.rx_packets += 3000;
        wan.rx_bytes += 1_500_000;
        wan.rx_missed = Some(25);
        let lan = now.ports.get_mut("lan").unwrap();
        lan.tx_packets += 1000;
        lan.tx_bytes += 500_000;
        let drop = DropStats {
            stage: "toy.ttl".into(),
            reason: "late".into(),
            help: "Why late.".into(),
            packets: 500,
            bytes: 250_000,
        };
        now.drops.push(drop);
        let worker = &mut now.workers[0];
        worker.packets += 3000;
        worker.cycles.graph += 60_000;
        worker.cycles.idle += 40_000;
        now.stages[0].packets += 3000;
        now.stages[0].batches += 100;
        now.stages[0].cycles += 30_000;
        now.links[0].packets += 7;
        now.account.received += 3000;
        now.account.transmitted += 1000;
        now.account.dropped += 500;
        (before, now)
    }

    #[test]
    fn rates_are_differences_per_second() {
        let (before, now) = looks();
        let rates = Rates::between(&before, &now).unwrap();
        assert_eq!(rates.seconds, 2.0);
        let wan = rates.ports.iter().find(|port| port.name == "wan").unwrap();
        assert_eq!((wan.rx_pps, wan.rx_bps, wan.lost_pps, wan.tx_pps), (1500.0, 6_000_000.0, 10.0, 0.0));
        let lan = rates.ports.iter().find(|port| port.name == "lan").unwrap();
        assert_eq!((lan.rx_pps, lan.tx_pps, lan.tx_bps, lan.dropped_pps), (0.0, 500.0, 2_000_000.0, 0.0));
        assert_eq!((rates.workers[0].pps, rates.workers[0].cycles_per_packet), (1500.0, Some(20.0)));
        assert_eq!((rates.workers[1].pps, rates.workers[1].cycles_per_packet), (0.0, None));
        assert_eq!((rates.stages[0].per_batch, rates.stages[0].cycles_per_packet), (Some(30.0), Some(10.0)));
        let late = rates.drops.iter().find(|drop| drop.name == "toy.ttl.late").unwrap();
        assert_eq!((late.pps, late.bps), (250.0, 1_000_000.0));
        assert_eq!(rates.links[0].pps, 3.5);
        assert_eq!((rates.account.received_pps, rates.account.dropped_pps), (1500.0, 250.0));
    }

    #[test]
    fn the_most_come_first() {
        let (before, now) = looks();
        let mut rates = Rates::between(&before, &now).unwrap();
        let names = |rates: &Rates| rates.ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>();
        rates.sort(Sort::Packets);
        assert_eq!(names(&rates), ["wan", "lan"]);
        assert_eq!(rates.drops[0].name, "toy.ttl.late");
        rates.sort(Sort::Name);
        assert_eq!(names(&rates), ["lan", "wan"]);
        rates.ports[0].tx_bps = 1e9;
        rates.sort(Sort::Bits);
        assert_eq!(names(&rates), ["lan", "wan"]);
        rates.sort(Sort::Drops);
        assert_eq!(names(&rates), ["wan", "lan"]);
        assert!(is_quiet(&rates.workers[2]) && !is_quiet(&rates.ports[0]));
    }

    #[test]
    fn a_process_that_began_anew_has_no_rates_yet() {
        let (before, now) = looks();
        assert_eq!(Rates::between(&now, &before), None);
        let same = Rates::between(&now, &now).unwrap();
        assert!(same.ports.iter().all(is_quiet), "no time, no rate");
        assert_eq!(Per(2.0).rate(100, 40), 20.0, "a counter that began anew");
    }
}
