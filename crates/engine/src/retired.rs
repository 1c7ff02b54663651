//! The counters of what a worker ran once and runs no more: an account never forgets.

use std::collections::{BTreeMap, HashMap};

use weir_stage::{Fate, Rx};

use crate::counters::{Count, Drops};
use crate::hop::JointHop;
use crate::node::RunNode;
use crate::reason::Reason;
use crate::snapshot::{Account, DropSnapshot, FateSnapshot, QueueSnapshot};
use crate::transmit::TransmitQueue;

/// What queues of a port counted that are this worker's no more.
#[derive(Default)]
struct Queues {
    received: Count,
    lost: BTreeMap<&'static str, u64>,
    sent: Count,
}

/// Sums over removed stages, ports and links, by place and reason.
#[derive(Default)]
pub(crate) struct Retired {
    account: Account,
    /// By the name of the port.
    queues: BTreeMap<String, Queues>,
    fates: BTreeMap<(String, String, &'static str), (Count, String)>,
}

impl Retired {
    /// Takes over the counters of a stage that was removed.
    pub(crate) fn stage(&mut self, node: &RunNode) {
        let totals = node.totals();
        self.account.add(&totals);
        for (code, fate, count) in node.counted() {
            let fate = match fate {
                Fate::Drop => "dropped",
                Fate::Consume => "consumed",
                Fate::Create => "created",
                Fate::Way | Fate::Again => continue,
            };
            self.add(&node.name, &node.declaration.name_of(code), fate, count, help_of(node, code));
        }
        self.drops(&node.name, &node.drops);
    }

    /// Takes over the counters of a transmit queue that was removed.
    pub(crate) fn transmit_queue(&mut self, transmit_queue: &TransmitQueue) {
        self.account.transmitted += transmit_queue.sent.packets;
        self.account.dropped += transmit_queue.drops.packets();
        self.drops(&transmit_queue.name, &transmit_queue.drops);
        let sent = &mut self.queues.entry(transmit_queue.name.clone()).or_default().sent;
        sent.add(transmit_queue.sent.packets, transmit_queue.sent.bytes);
    }

    /// Takes over the figures of a hop over a joint that was removed.
    pub(crate) fn hop(&mut self, hop: &JointHop) {
        let Count { packets, bytes } = hop.crossed;
        self.queues.entry(hop.out.0.clone()).or_default().sent.add(packets, bytes);
        self.queues.entry(hop.into.0.clone()).or_default().received.add(packets, bytes);
        self.account.dropped += hop.drops.packets();
        self.drops(&hop.out.0, &hop.drops);
    }

    /// Takes over the counters of a receive queue of a port that was removed.
    pub(crate) fn received(&mut self, port: &str, received: Count, rx: &dyn Rx) {
        self.account.received += received.packets;
        let queues = self.queues.entry(port.to_owned()).or_default();
        queues.received.add(received.packets, received.bytes);
        for (reason, _, packets) in rx.lost() {
            *queues.lost.entry(reason).or_default() += packets;
        }
    }

    /// Counts packets that went to another worker with the queue they waited for.
    pub(crate) fn moved_out(&mut self, packets: u64) {
        self.account.links_out += packets;
    }

    /// Forgets the figures of ports that are gone, and of which others may get the names and indexes.
    pub(crate) fn keep_ports(&mut self, ports: &HashMap<String, u16>) {
        self.queues.retain(|port, _| ports.contains_key(port));
    }

    /// What removed queues of the ports there are counted: received, and transmitted.
    pub(crate) fn queues(&self, ports: &HashMap<String, u16>) -> (Vec<QueueSnapshot>, Vec<QueueSnapshot>) {
        let known = self.queues.iter().filter_map(|(name, queues)| Some((*ports.get(name)?, queues)));
        let figures =
            |port, Count { packets, bytes }| QueueSnapshot { port, packets, bytes, ..QueueSnapshot::default() };
        let lost =
            |queues: &Queues| queues.lost.iter().map(|(reason, packets)| ((*reason).to_owned(), *packets)).collect();
        known
            .map(|(port, queues)| {
                (QueueSnapshot { lost: lost(queues), ..figures(port, queues.received) }, figures(port, queues.sent))
            })
            .unzip()
    }

    /// Takes over the counters of an end of a link that was removed.
    pub(crate) fn link_in(&mut self, packets: u64) {
        self.account.links_in += packets;
    }

    /// Takes over the counters of the other end of a link that was removed.
    pub(crate) fn link_out(&mut self, name: &str, packets: u64, drops: &Drops) {
        self.account.links_out += packets;
        self.account.dropped += drops.packets();
        self.drops(name, drops);
    }

    /// Counts a packet that was found in a removed link and dropped.
    pub(crate) fn link_packet(&mut self, name: &str, reason: Reason, bytes: u64) {
        self.account.links_in += 1;
        self.dropped(name, reason, bytes);
    }

    /// Counts a packet that was dropped at a place that is gone.
    pub(crate) fn dropped(&mut self, place: &str, reason: Reason, bytes: u64) {
        let mut drops = Drops::new();
        drops.count(reason, 1, bytes);
        self.account.dropped += 1;
        self.drops(place, &drops);
    }

    pub(crate) fn account(&self) -> Account {
        self.account
    }

    pub(crate) fn report(&self, drops: &mut Vec<DropSnapshot>, fates: &mut Vec<FateSnapshot>) {
        for ((stage, reason, fate), (count, help)) in &self.fates {
            let (stage, reason, help) = (stage.clone(), reason.clone(), help.clone());
            let Count { packets, bytes } = *count;
            match *fate {
                "dropped" => drops.push(DropSnapshot { stage, reason, packets, bytes, help }),
                fate => fates.push(FateSnapshot { stage, reason, fate, packets, bytes, help }),
            }
        }
    }

    fn drops(&mut self, place: &str, drops: &Drops) {
        for (info, count) in drops.iter().filter(|(_, count)| count.packets > 0) {
            self.add(place, info.name, "dropped", count, info.help.trim().to_owned());
        }
    }

    fn add(&mut self, place: &str, reason: &str, fate: &'static str, count: Count, help: String) {
        let entry = self.fates.entry((place.to_owned(), reason.to_owned(), fate)).or_insert((Count::default(), help));
        entry.0.add(count.packets, count.bytes);
    }
}

/// What explains a code of a stage.
pub(crate) fn help_of(node: &RunNode, code: usize) -> String {
    let help = node.declaration.ways.get(code).map_or("", |way| way.help).trim().to_owned();
    match node.declaration.fate_of(code) {
        Fate::Way | Fate::Again => format!("{help} Dropped, because this way is not wired."),
        _ => help,
    }
}

impl RunNode {
    /// What this stage adds to the account of its worker, less what it holds.
    pub(crate) fn totals(&self) -> Account {
        let mut totals = Account { dropped: self.drops.packets(), ..Account::default() };
        for (_, fate, count) in self.counted() {
            match fate {
                Fate::Drop => totals.dropped += count.packets,
                Fate::Consume => totals.consumed += count.packets,
                Fate::Create => totals.created += count.packets,
                Fate::Way | Fate::Again => {}
            }
        }
        totals
    }
}
