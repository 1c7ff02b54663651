//! The counters of what a worker ran once and runs no more: an account never forgets.

use std::collections::BTreeMap;

use weir_stage::Fate;

use crate::counters::{Count, Drops};
use crate::node::RunNode;
use crate::reason::Reason;
use crate::snapshot::{Account, DropSnapshot, FateSnapshot};
use crate::transmit::Sink;

/// Sums over removed stages, ports and links, by place and reason.
#[derive(Default)]
pub(crate) struct Retired {
    account: Account,
    fates: BTreeMap<(String, String, &'static str), (Count, String)>,
}

impl Retired {
    /// Takes over the counters of a stage that was removed.
    pub(crate) fn stage(&mut self, node: &RunNode) {
        let totals = node.totals();
        self.account.add(&totals);
        for (code, count) in node.counters.codes.iter().enumerate().filter(|(_, count)| count.packets > 0) {
            let fate = match node.fate(code) {
                Fate::Drop => "dropped",
                Fate::Consume => "consumed",
                Fate::Create => "created",
                Fate::Way | Fate::Again => continue,
            };
            self.add(&node.name, &node.declaration.name_of(code), fate, *count, help_of(node, code));
        }
        self.drops(&node.name, &node.drops);
    }

    /// Takes over the counters of a transmit queue that was removed.
    pub(crate) fn sink(&mut self, sink: &Sink) {
        self.account.transmitted += sink.sent.packets;
        self.account.dropped += sink.drops.packets();
        self.drops(&sink.name, &sink.drops);
    }

    /// Takes over the counters of a receive queue that was removed.
    pub(crate) fn received(&mut self, packets: u64) {
        self.account.received += packets;
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
        for (code, count) in self.counters.codes.iter().enumerate() {
            match self.fate(code) {
                Fate::Drop => totals.dropped += count.packets,
                Fate::Consume => totals.consumed += count.packets,
                Fate::Create => totals.created += count.packets,
                Fate::Way | Fate::Again => {}
            }
        }
        totals
    }
}
