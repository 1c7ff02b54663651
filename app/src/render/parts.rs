//! What totals and rates are written alike in.

use super::numbers::{percent, signed};
use super::{Align, Style};
use crate::stats::CycleStats;

/// Adds a part below its title, if there is anything in it.
pub(super) fn part(text: &mut String, title: &str, body: &str, style: Style) {
    if !body.is_empty() {
        *text += &format!("\n{}\n{body}", style.bold(title));
    }
}

/// Heads of a table of workers, of which two say whether they count from the start or per second.
pub(super) fn worker_heads(packets: &'static str, backpressure: &'static str) -> [(&'static str, Align); 10] {
    let right = Align::Right;
    [
        ("worker", Align::Left),
        (packets, right),
        ("receive", right),
        ("graph", right),
        ("transmit", right),
        ("housekeeping", right),
        ("idle", right),
        ("asleep", right),
        ("cycles/packet", right),
        (backpressure, right),
    ]
}

/// The row of a worker below [`worker_heads`].
pub(super) fn worker_row(
    first: [String; 2],
    cycles: &CycleStats,
    last: [String; 2],
) -> impl Iterator<Item = String> + use<> {
    let parts = cycles.parts();
    let whole = parts.iter().map(|(_, cycles)| cycles).sum();
    let shares = parts.map(|(_, cycles)| percent(cycles, whole));
    first.into_iter().chain(shares).chain(last)
}

/// Heads of a table of links, of which one says what is counted.
pub(super) fn link_heads(packets: &'static str) -> [(&'static str, Align); 4] {
    [("link", Align::Left), (packets, Align::Right), ("in it", Align::Right), ("room for", Align::Right)]
}

/// What must be 0, as wide as other numbers.
pub(super) fn unaccounted(number: i64, width: usize, style: Style) -> String {
    let text = format!("{:>width$}", signed(number));
    if number == 0 { style.good(&text) } else { style.bad(&text) }
}
