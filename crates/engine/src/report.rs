//! A worker's counters as a snapshot.

use weir_stage::Fate;

use crate::counters::{Count, Drops};
use crate::node::RunNode;
use crate::retired::help_of;
use crate::snapshot::{
    Account, CycleAccount, DropSnapshot, FateSnapshot, LinkSnapshot, QueueSnapshot, StageSnapshot, WorkerSnapshot,
};
use crate::worker::{Source, Worker};

impl Worker {
    /// Everything counted so far. Between two loops only.
    pub(crate) fn snapshot(&mut self) -> WorkerSnapshot {
        self.cycles.settle();
        let mut snapshot = WorkerSnapshot {
            id: self.id.clone(),
            core: self.core,
            cycles: self.cycle_account(),
            elapsed: self.accounted.wrapping_sub(self.started),
            loops: self.loops,
            packets: self.entered,
            account: self.account(),
            backpressure: self.backpressure,
            stages: self.nodes.iter().map(stage_snapshot).collect(),
            buffers_at_hand: self.fabric.pool.at_hand() as u64,
            quiet: self.held() == 0 && self.links_empty() && self.fabric.next_pending().is_none(),
            exhausted: self.exhausted(),
            receiving: self.receiving,
            next_at: self.next_at(),
            ..WorkerSnapshot::default()
        };
        self.report_fates(&mut snapshot);
        self.report_queues(&mut snapshot);
        snapshot
    }

    /// Both sides of the account, from the counters of those who did it.
    pub(crate) fn account(&self) -> Account {
        let mut account = self.retired.account();
        for node in &self.nodes {
            account.add(&node.totals());
        }
        for source in &self.sources {
            match source {
                Source::Port { received, .. } => account.received += received.packets,
                Source::Link { packets, .. } => account.links_in += packets,
            }
        }
        for transmit_queue in &self.fabric.transmit_queues {
            account.transmitted += transmit_queue.sent.packets;
            account.dropped += transmit_queue.drops.packets();
        }
        for link in &self.fabric.links {
            account.links_out += link.packets;
            account.dropped += link.drops.packets();
        }
        account.dropped += self.fabric.hops.iter().map(|hop| hop.drops.packets()).sum::<u64>();
        account.held = self.held();
        account
    }

    fn cycle_account(&self) -> CycleAccount {
        let cycles = self.cycles;
        CycleAccount {
            receive: cycles.receive,
            graph: cycles.graph,
            transmit: cycles.transmit,
            housekeeping: cycles.housekeeping,
            idle: cycles.idle,
            asleep: cycles.asleep,
        }
    }

    fn report_fates(&self, snapshot: &mut WorkerSnapshot) {
        for node in &self.nodes {
            report_stage(node, snapshot);
            report_drops(&node.name, &node.drops, &mut snapshot.drops);
        }
        for transmit_queue in &self.fabric.transmit_queues {
            report_drops(&transmit_queue.name, &transmit_queue.drops, &mut snapshot.drops);
        }
        for link in &self.fabric.links {
            report_drops(&link.name, &link.drops, &mut snapshot.drops);
        }
        for hop in &self.fabric.hops {
            report_drops(&hop.out.0, &hop.drops, &mut snapshot.drops);
        }
        self.retired.report(&mut snapshot.drops, &mut snapshot.fates);
    }

    fn report_queues(&self, snapshot: &mut WorkerSnapshot) {
        (snapshot.receive, snapshot.transmit) = self.retired.queues(&self.ports);
        for source in &self.sources {
            if let Source::Port { port, rx, received, .. } = source {
                let lost = rx.lost().into_iter().map(|(reason, _, packets)| (reason.to_owned(), packets)).collect();
                let Count { packets, bytes } = *received;
                snapshot.receive.push(QueueSnapshot {
                    port: *port,
                    packets,
                    bytes,
                    held: 0,
                    lost,
                    trouble: rx.trouble(),
                    remark: rx.remark(),
                });
            }
        }
        for transmit_queue in &self.fabric.transmit_queues {
            let Count { packets, bytes } = transmit_queue.sent;
            let trouble = transmit_queue.tx.trouble();
            let (port, held, lost) = (transmit_queue.port, transmit_queue.held(), Vec::new());
            let queue = QueueSnapshot { port, packets, bytes, held, lost, trouble, remark: None };
            snapshot.transmit.push(queue);
        }
        for hop in &self.fabric.hops {
            let Count { packets, bytes } = hop.crossed;
            let end = |port| QueueSnapshot { port, packets, bytes, ..QueueSnapshot::default() };
            snapshot.transmit.push(end(hop.out.1));
            snapshot.receive.push(end(hop.into.1));
        }
        for link in &self.fabric.links {
            snapshot.links.push(LinkSnapshot {
                name: link.name.clone(),
                packets: link.packets,
                occupancy: link.occupancy(),
                capacity: link.capacity(),
                drops: link.may_drop,
                lanes: link.lanes,
            });
        }
    }
}

fn stage_snapshot(node: &RunNode) -> StageSnapshot {
    let counters = &node.counters;
    let scaled = u128::from(counters.sampled_cycles) * u128::from(counters.packets);
    let cycles = scaled.checked_div(u128::from(counters.sampled_packets)).unwrap_or(0);
    let ways = node.counted().filter(|(_, fate, _)| matches!(fate, Fate::Way | Fate::Again));
    StageSnapshot {
        name: node.name.clone(),
        type_name: node.stage.type_name(),
        batches: counters.batches,
        packets: counters.packets,
        cycles: u64::try_from(cycles).unwrap_or(u64::MAX),
        sampled: counters.sampled_packets,
        held: node.stage.held(),
        ways: ways.map(|(code, _, count)| (node.declaration.name_of(code), count.packets)).collect(),
    }
}

fn report_stage(node: &RunNode, snapshot: &mut WorkerSnapshot) {
    for (code, fate, Count { packets, bytes }) in node.counted() {
        let (stage, reason) = (node.name.clone(), node.declaration.name_of(code));
        let help = help_of(node, code);
        let fate = match fate {
            Fate::Drop => {
                snapshot.drops.push(DropSnapshot { stage, reason, packets, bytes, help });
                continue;
            }
            Fate::Consume => "consumed",
            Fate::Create => "created",
            Fate::Way | Fate::Again => continue,
        };
        snapshot.fates.push(FateSnapshot { stage, reason, fate, packets, bytes, help });
    }
}

fn report_drops(place: &str, drops: &Drops, into: &mut Vec<DropSnapshot>) {
    for (info, Count { packets, bytes }) in drops.iter().filter(|(_, count)| count.packets > 0) {
        into.push(DropSnapshot {
            stage: place.to_owned(),
            reason: info.name.to_owned(),
            packets,
            bytes,
            help: info.help.trim().to_owned(),
        });
    }
}
