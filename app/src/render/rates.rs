//! Rates as text.

use super::numbers::{count, fixed, rate, signed, span};
use super::parts::{link_heads, part, unaccounted, worker_heads, worker_row};
use super::{Align, Style, Table, clean, shortened};
use crate::rates::{DropRates, LinkRates, PortRates, Rates, Row, StageRates, WorkerRates, is_quiet};
use crate::stats::Stats;

/// Rows of one part that are shown unless all are asked for.
const TOP: usize = 20;

/// How rates are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// How text is marked.
    pub(crate) style: Style,
    /// Whether rows without traffic are shown, and more than the first few.
    pub(crate) all: bool,
}

impl View {
    /// The rows that are shown, and what is said of those that are not.
    pub(crate) fn choose<R: Row>(self, rows: &[R]) -> (Vec<&R>, String) {
        if self.all {
            return (rows.iter().collect(), String::new());
        }
        let busy: Vec<&R> = rows.iter().filter(|row| !is_quiet(*row)).collect();
        let (quiet, more) = (rows.len() - busy.len(), busy.len().saturating_sub(TOP));
        let said = match (more, quiet) {
            (0, 0) => String::new(),
            (0, quiet) => format!("  {} without traffic: --all\n", count(quiet as u64)),
            (more, 0) => format!("  {} more: --all\n", count(more as u64)),
            (more, quiet) => {
                format!("  {} more, and {} without traffic: --all\n", count(more as u64), count(quiet as u64))
            }
        };
        (
            busy.into_iter().take(TOP).collect(),
            self.style.dim(said.trim_end()) + if said.is_empty() { "" } else { "\n" },
        )
    }

    /// A table of the rows that are shown.
    fn table<R: Row>(self, rows: &[R], heads: &[(&str, Align)], cells: impl Fn(&R) -> Vec<String>) -> String {
        let (shown, said) = self.choose(rows);
        let mut table = Table::new(heads);
        shown.into_iter().for_each(|row| table.row(cells(row)));
        let text = if table.is_empty() { String::new() } else { table.text(2, self.style) };
        text + &said
    }

    /// Everything at a glance.
    pub(crate) fn overview(self, stats: &Stats, rates: &Rates) -> String {
        let title = format!("Running for {}, rates over {} s", span(stats.time), fixed(rates.seconds));
        let mut text = format!("{}\n", self.style.bold(&title));
        part(&mut text, "Ports", &self.ports(&rates.ports), self.style);
        part(&mut text, "Workers", &self.workers(&rates.workers), self.style);
        part(&mut text, "Drops", &self.drops(&rates.drops), self.style);
        part(&mut text, "All", &self.account(rates), self.style);
        text
    }

    fn ports(self, ports: &[PortRates]) -> String {
        let right = Align::Right;
        let heads = [
            ("port", Align::Left),
            ("link", Align::Left),
            ("received/s", right),
            ("bit/s", right),
            ("lost/s", right),
            ("transmitted/s", right),
            ("bit/s", right),
            ("dropped/s", right),
            ("device", Align::Left),
        ];
        self.table(ports, &heads, |port| {
            let link = if port.link_up { "up" } else { "down" }.to_owned();
            let numbers =
                [port.rx_pps, port.rx_bps, port.lost_pps, port.tx_pps, port.tx_bps, port.dropped_pps].map(rate);
            let ends = ([port.name.clone(), link], [shortened(&port.device)]);
            ends.0.into_iter().chain(numbers).chain(ends.1).collect()
        })
    }

    /// What workers spend their cycles on.
    pub(crate) fn workers(self, workers: &[WorkerRates]) -> String {
        self.table(workers, &worker_heads("packets/s", "backpressure/s"), |worker| {
            let last = [known(worker.cycles_per_packet), rate(worker.backpressure)];
            worker_row([worker.id.clone(), rate(worker.pps)], &worker.cycles, last).collect()
        })
    }

    /// Drops, by place and reason.
    pub(crate) fn drops(self, drops: &[DropRates]) -> String {
        let right = Align::Right;
        let heads = [("drop", Align::Left), ("packets/s", right), ("bit/s", right), ("why", Align::Left)];
        self.table(drops, &heads, |drop| vec![clean(&drop.name), rate(drop.pps), rate(drop.bps), clean(&drop.help)])
    }

    /// Each stage.
    pub(crate) fn stages(self, stages: &[StageRates]) -> String {
        let right = Align::Right;
        let heads = [
            ("stage", Align::Left),
            ("worker", Align::Left),
            ("packets/s", right),
            ("per batch", right),
            ("cycles/packet", right),
            ("held", right),
        ];
        self.table(stages, &heads, |stage| {
            let (name, worker) = (stage.name.clone(), stage.worker.clone());
            vec![
                name,
                worker,
                rate(stage.pps),
                known(stage.per_batch),
                known(stage.cycles_per_packet),
                count(stage.held),
            ]
        })
    }

    /// Links between workers.
    pub(crate) fn links(self, links: &[LinkRates]) -> String {
        self.table(links, &link_heads("packets/s"), |link| {
            vec![link.name.clone(), rate(link.pps), count(link.occupancy), count(link.capacity)]
        })
    }

    /// All together, and what must be 0.
    fn account(self, rates: &Rates) -> String {
        let account = &rates.account;
        let all = [
            ("received/s", account.received_pps),
            ("created/s", account.created_pps),
            ("transmitted/s", account.transmitted_pps),
            ("dropped/s", account.dropped_pps),
            ("consumed/s", account.consumed_pps),
        ];
        let now = [("held", account.held), ("unaccounted", account.unaccounted)];
        let lines: Vec<(&str, String)> = all
            .map(|(name, number)| (name, rate(number)))
            .into_iter()
            .chain(now.map(|(name, number)| (name, signed(number))))
            .collect();
        let width = lines.iter().map(|(_, number)| number.len()).max().unwrap_or_default();
        let line = |(name, number): &(&str, String)| {
            let number = match *name {
                "unaccounted" => unaccounted(account.unaccounted, width, self.style),
                _ => format!("{number:>width$}"),
            };
            format!("  {name:<13}  {number}\n")
        };
        lines.iter().map(line).collect()
    }
}

fn known(number: Option<f64>) -> String {
    number.map_or_else(|| "-".to_owned(), fixed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Sort;
    use crate::rates::tests::looks;

    fn shown(by: Sort, all: bool) -> String {
        let (before, now) = looks();
        let mut rates = Rates::between(&before, &now).unwrap();
        rates.sort(by);
        View { style: Style::PLAIN, all }.overview(&now, &rates)
    }

    #[test]
    fn the_screen_is_this() {
        let wanted = "\
Running for 4.5 s, rates over 2.0 s

Ports
  port  link  received/s   bit/s  lost/s  transmitted/s   bit/s  dropped/s  device
  wan   up         1,500  6.00 M    10.0              0       0          0  pcap:wan.pcap
  lan   down           0       0       0            500  2.00 M          0  pcap:lan.pcap

Workers
  worker  packets/s  receive  graph  transmit  housekeeping   idle  asleep  cycles/packet  backpressure/s
  1           1,500     0.0%  60.0%      0.0%          0.0%  40.0%    0.0%           20.0               0
  2 without traffic: --all

Drops
  drop          packets/s   bit/s  why
  toy.ttl.late        250  1.00 M  Why late.
  2 without traffic: --all

All
  received/s     1,500
  created/s          0
  transmitted/s    500
  dropped/s        250
  consumed/s         0
  held               4
  unaccounted        0
";
        assert_eq!(shown(Sort::Packets, false), wanted);
    }

    #[test]
    fn all_rows_come_when_asked_for() {
        let text = shown(Sort::Name, true);
        assert!(text.contains("toy.ttl.expired") && text.contains("  control ") && !text.contains("--all"), "{text}");
        assert!(text.find("  lan ") < text.find("  wan "), "{text}");
    }

    #[test]
    fn a_long_list_is_cut() {
        let row = |n: u32| DropRates { name: format!("d{n:02}"), pps: f64::from(n), ..DropRates::default() };
        let rows: Vec<DropRates> = (0..50).rev().map(row).collect();
        let view = View { style: Style::PLAIN, all: false };
        let (shown, said) = view.choose(&rows);
        assert_eq!((shown.len(), shown[0].name.as_str()), (TOP, "d49"));
        assert_eq!(said, "  29 more, and 1 without traffic: --all\n");
    }
}
