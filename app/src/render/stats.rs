//! The numbers of a running Weir as text.

use std::fmt::Write;

use super::numbers::{count, known, percent, ratio, signed, span};
use super::parts::{link_heads, part, unaccounted, worker_heads, worker_row};
use super::{Align, Style, Table, clean, services, shortened};
use crate::services::ServiceState;
use crate::stats::{AccountStats, Stats};

/// Drops that the overview shows.
const TOP_DROPS: usize = 10;

/// Everything at a glance.
pub(crate) fn stats(stats: &Stats, style: Style) -> String {
    overview(stats, TOP_DROPS, style)
}

/// Everything, when there is no later to ask for more.
pub(crate) fn last(stats: &Stats, style: Style) -> String {
    overview(stats, usize::MAX, style)
}

fn overview(stats: &Stats, most_drops: usize, style: Style) -> String {
    let mut text = format!("{}\n", style.bold(&format!("Running for {}", span(stats.time))));
    part(&mut text, "Ports", &ports(stats, style), style);
    part(&mut text, "Workers", &cycles(stats, style), style);
    part(&mut text, "Drops", &drops_up_to(stats, most_drops, style), style);
    let fail: Vec<_> = stats.services.iter().filter(|one| one.state != ServiceState::Running).cloned().collect();
    if !fail.is_empty() {
        part(&mut text, "Services that fail", &services(&fail, 2, style), style);
    }
    part(&mut text, "Account", &account(&stats.account, style), style);
    text
}

/// The account, line by line.
fn account(account: &AccountStats, style: Style) -> String {
    let plain = [
        ("received", count(account.received), ""),
        ("created", count(account.created), "by stages: answers, copies, fragments"),
        ("transmitted", count(account.transmitted), "accepted by ports"),
        ("dropped", count(account.dropped), "each with its name, above"),
        ("consumed", count(account.consumed), "answered, learned, delivered"),
        ("held", signed(account.held), "in queues, rings and links now"),
    ];
    let all = plain.iter().map(|(_, number, _)| number.len()).chain([signed(account.unaccounted).len()]);
    let width = all.max().unwrap_or(0);
    let mut text = String::new();
    for (name, number, help) in &plain {
        let line = format!("  {name:<12} {number:>width$}  {}", style.dim(help));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let _ = writeln!(text, "  {:<12} {}", "unaccounted", unaccounted(account.unaccounted, width, style));
    text
}

fn ports(stats: &Stats, style: Style) -> String {
    let left = Align::Left;
    let right = Align::Right;
    let mut table = Table::new(&[
        ("port", left),
        ("link", left),
        ("received", right),
        ("bytes", right),
        ("missed", right),
        ("no buffer", right),
        ("transmitted", right),
        ("bytes", right),
        ("dropped", right),
        ("device", left),
    ]);
    for (name, port) in &stats.ports {
        table.row([
            name.clone(),
            if port.link_up { "up" } else { "down" }.to_owned(),
            count(port.rx_packets),
            count(port.rx_bytes),
            known(port.rx_missed),
            known(port.rx_nobuf),
            count(port.tx_packets),
            count(port.tx_bytes),
            count(port.tx_dropped),
            shortened(&port.device),
        ]);
    }
    if table.is_empty() { String::new() } else { table.text(2, style) }
}

/// What workers spent their cycles on.
pub(crate) fn cycles(stats: &Stats, style: Style) -> String {
    let mut table = Table::new(&worker_heads("packets", "backpressure"));
    for worker in &stats.workers {
        let busy = worker.cycles.receive + worker.cycles.graph + worker.cycles.transmit;
        let (packets, per_packet) = (count(worker.packets), ratio(busy, worker.packets));
        let last = [per_packet, count(worker.backpressure)];
        table.row(worker_row([worker.id.clone(), packets], &worker.cycles, last));
    }
    table.text(2, style)
}

/// Packets dropped, by place and reason.
pub(crate) fn drops(stats: &Stats, style: Style) -> String {
    match drops_up_to(stats, usize::MAX, style) {
        text if text.is_empty() => "nothing was dropped\n".to_owned(),
        text => text,
    }
}

fn drops_up_to(stats: &Stats, most: usize, style: Style) -> String {
    let shown = stats.drops.iter().take(most);
    let width = shown.clone().map(|drop| drop.stage.len() + drop.reason.len() + 1).max().unwrap_or(0);
    let digits = shown.clone().map(|drop| count(drop.packets).len()).max().unwrap_or(0);
    let mut text = String::new();
    for drop in shown {
        let name = clean(&format!("{}.{}", drop.stage, drop.reason));
        let packets = count(drop.packets);
        let _ = writeln!(text, "  {name:<width$}  {packets:>digits$}  {}", style.dim(&clean(&drop.help)));
    }
    let more = stats.drops.len().saturating_sub(most);
    if more > 0 {
        let _ = writeln!(text, "  {more} more: weir show drops");
    }
    text
}

/// Cycles and packets of each stage.
pub(crate) fn stages(stats: &Stats, style: Style) -> String {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("stage", Align::Left),
        ("worker", Align::Left),
        ("packets", right),
        ("batches", right),
        ("per batch", right),
        ("cycles/packet", right),
        ("sampled", right),
        ("held", right),
    ]);
    for stage in &stats.stages {
        table.row([
            stage.name.clone(),
            stage.worker.clone(),
            count(stage.packets),
            count(stage.batches),
            ratio(stage.packets, stage.batches),
            ratio(stage.cycles, stage.packets),
            percent(stage.sampled, stage.packets),
            count(stage.held),
        ]);
    }
    if table.is_empty() { "none\n".to_owned() } else { table.text(0, style) }
}

/// Links between workers.
pub(crate) fn links(stats: &Stats, style: Style) -> String {
    let mut table = Table::new(&[&link_heads("packets")[..], &[("when full", Align::Left)]].concat());
    for link in &stats.links {
        table.row([
            link.name.clone(),
            count(link.packets),
            count(link.occupancy),
            count(link.capacity),
            if link.drops { "drops" } else { "pushes back" }.to_owned(),
        ]);
    }
    if table.is_empty() { "none\n".to_owned() } else { table.text(0, style) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::tests::example;

    #[test]
    fn the_overview_is_this() {
        let text = stats(&example(), Style::PLAIN);
        let wanted = "\
Running for 2.5 s

Ports
  port  link  received  bytes  missed  no buffer  transmitted  bytes  dropped  device
  lan   down         0      0       5          -           71  4,260        2  pcap:lan.pcap
  wan   up         100  6,000       5          -            4    240        0  pcap:wan.pcap

Workers
  worker   packets  receive  graph  transmit  housekeeping   idle  asleep  cycles/packet  backpressure
  1             60    30.0%  40.0%     30.0%          0.0%   0.0%    0.0%           16.7             0
  2             40     0.0%   0.0%      0.0%          0.0%  90.0%   10.0%            0.0             0
  control        9        -      -         -             -      -       -            0.0             0

Drops
  toy.ttl.expired  14  Why expired.
  lan.tx-full       2  Why tx-full.

Services that fail
  service  of    state    restarts  hanging  steps  longest step  holds            last failure
  metrics  weir  waiting         2        1  1,234       25.0 us  1 of 32 clients  2026-11-21T21:46:03.120Z it had to

Account
  received     100
  created        4  by stages: answers, copies, fragments
  transmitted   75  accepted by ports
  dropped       16  each with its name, above
  consumed       9  answered, learned, delivered
  held           4  in queues, rings and links now
  unaccounted    0
";
        assert_eq!(text, wanted);
    }

    #[test]
    fn what_is_unaccounted_stands_out() {
        let mut numbers = example();
        numbers.account.unaccounted = -3;
        let text = account(&numbers.account, Style { colour: true });
        assert!(text.contains("unaccounted  \x1b[31m -3\x1b[0m"), "{text:?}");
    }

    #[test]
    fn long_lists_are_cut_in_the_overview_only() {
        let mut numbers = example();
        let one = numbers.drops[0].clone();
        numbers.drops = vec![one; 25];
        let text = stats(&numbers, Style::PLAIN);
        assert!(text.contains("  15 more: weir show drops\n"));
        assert_eq!(drops(&numbers, Style::PLAIN).lines().count(), 25);
        assert!(last(&numbers, Style::PLAIN).lines().count() > 25 + 15);
        numbers.drops.clear();
        assert_eq!(drops(&numbers, Style::PLAIN), "nothing was dropped\n");
    }

    #[test]
    fn stages_and_links() {
        let text = stages(&example(), Style::PLAIN);
        assert!(
            text.contains("toy.ttl   1             60        6       10.0            7.0    50.0%     0\n"),
            "{text}"
        );
        let text = links(&example(), Style::PLAIN);
        assert!(text.contains("1 -> control: toy.slow       10      1       512  pushes back\n"), "{text}");
    }
}
