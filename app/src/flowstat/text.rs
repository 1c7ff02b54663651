//! A report for people.

use std::fmt::Write;

use weir_flowstat::{CaptureReport, Report, Stream, Total};
use weir_measure::Spread;

use crate::render::{Align, Style, Table, nanos};

/// The whole report.
pub(crate) fn report(report: &Report) -> String {
    let style = Style::of_stdout();
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "model {}, clocks {}, window {}\n",
        report.model,
        clocks(report),
        nanos(report.window_ns as i64)
    );
    text.push_str(&captures(report).text(0, style));
    text.push('\n');
    text.push_str(&totals(&report.total).text(0, style));
    text.push('\n');
    text.push_str(&spreads(&report.total).text(0, style));
    if !report.by.is_empty() && !report.streams.is_empty() {
        let (shown, all) = (report.streams.len(), report.stream_count);
        let _ =
            writeln!(text, "\nstreams by {}: {shown} of {all}, in order of {}\n", report.by.join(", "), report.order);
        text.push_str(&streams(report).text(0, style));
    }
    for note in &report.notes {
        let _ = writeln!(text, "\nnote: {note}");
    }
    text
}

fn clocks(report: &Report) -> String {
    let mut text = report.clock.mode.to_owned();
    if let Some(offset) = report.clock.offset_ns {
        let _ = write!(text, " (receiver ahead by {} and the least delay", nanos(offset));
        if let Some(drift) = report.clock.drift_ppm {
            let _ = write!(text, ", faster by {drift:.3} ppm");
        }
        text.push(')');
    }
    text
}

fn captures(report: &Report) -> Table {
    let right = Align::Right;
    let names =
        ["packets", "counted", "filtered", "elsewhere", "unidentified", "misaddressed", "cut", "corrupt", "outside"];
    let mut columns = vec![("capture", Align::Left)];
    columns.extend(names.map(|name| (name, right)));
    columns.push(("files", Align::Left));
    let mut table = Table::new(&columns);
    let mut row = |name: &str, capture: &CaptureReport| {
        let counts = [
            capture.packets,
            capture.counted,
            capture.filtered,
            capture.elsewhere,
            capture.unidentified,
            capture.misaddressed,
            capture.cut,
            capture.corrupt,
            capture.outside,
        ];
        let cells = std::iter::once(name.to_owned()).chain(counts.map(|count| count.to_string()));
        table.row(cells.chain([capture.files.join(" ")]));
    };
    row("sent", &report.sent);
    row("received", &report.received);
    table
}

fn totals(total: &Total) -> Table {
    let names = ["sent", "received", "matched", "lost", "loss", "duplicated", "reordered", "ambiguous", "unmatched"];
    let mut table = Table::new(&names.map(|name| (name, Align::Right)));
    table.row([
        total.sent.to_string(),
        total.received.to_string(),
        total.matched.to_string(),
        total.lost.to_string(),
        percent(total.loss_ratio),
        total.duplicated.to_string(),
        total.reordered.to_string(),
        total.ambiguous.to_string(),
        total.unmatched.to_string(),
    ]);
    table
}

/// How figures of all streams are distributed.
fn spreads(total: &Total) -> Table {
    let names = ["min", "p1", "p25", "p50", "p75", "p90", "p99", "p99.9", "max", "values"];
    let mut columns = vec![("", Align::Left)];
    columns.extend(names.map(|name| (name, Align::Right)));
    let mut table = Table::new(&columns);
    let mut row = |name: &str, spread: Option<&Spread>, show: fn(i64) -> String| {
        if let Some(s) = spread {
            let values = [s.min, s.p1, s.p25, s.p50, s.p75, s.p90, s.p99, s.p99_9, s.max].map(show);
            table.row(std::iter::once(name.to_owned()).chain(values).chain([s.count.to_string()]));
        }
    };
    row("latency", total.latency_ns.as_ref(), nanos);
    row("PDV", total.pdv_ns.as_ref(), nanos);
    row("IPDV", total.ipdv_ns.as_ref(), nanos);
    row("gaps", total.gaps_ns.as_ref(), nanos);
    row("gaps in packets", total.gap_packets.as_ref(), |packets| packets.to_string());
    row("losses in a row", total.loss_lengths.as_ref(), |packets| packets.to_string());
    row("reordering extent", total.reordering_extent.as_ref(), |packets| packets.to_string());
    table
}

fn streams(report: &Report) -> Table {
    let right = Align::Right;
    let mut columns: Vec<(&str, Align)> = report.by.iter().map(|name| (name.as_str(), Align::Left)).collect();
    let what = if report.clock.synchronised { "latency" } else { "PDV" };
    let delays = ["p50", "p99", "max"].map(|name| format!("{what} {name}"));
    columns.extend(["sent", "received", "lost", "loss", "dup.", "reord."].map(|name| (name, right)));
    columns.extend(delays.iter().map(|name| (name.as_str(), right)));
    columns.extend([("gap p50", right), ("gap p50, packets", right), ("sent bit/s", right), ("received bit/s", right)]);
    let held = report.streams.iter().any(|stream| stream.sent_conformance.is_some());
    if held {
        columns.extend([("exceeding", right), ("burst needed", right)]);
    }
    let mut table = Table::new(&columns);
    report.streams.iter().for_each(|stream| table.row(row(stream, held)));
    table
}

fn row(stream: &Stream, held: bool) -> Vec<String> {
    let report = &stream.report;
    let dash = || "-".to_owned();
    let delays = report.latency_ns.as_ref().or(report.pdv_ns.as_ref());
    let of = |spread: Option<&Spread>, of: fn(&Spread) -> i64| spread.map_or_else(dash, |spread| nanos(of(spread)));
    let mut cells: Vec<String> = stream.key.iter().map(|(_, value)| value.clone()).collect();
    cells.extend([report.sent, report.received, report.lost].map(|count| count.to_string()));
    cells.push(percent(report.loss_ratio));
    cells.push(report.duplicated.to_string());
    cells.push(report.order.as_ref().map_or_else(dash, |order| order.reordered.to_string()));
    cells.push(of(delays, |delays| delays.p50));
    cells.push(of(delays, |delays| delays.p99));
    cells.push(of(delays, |delays| delays.max));
    cells.push(of(report.gaps_ns.as_ref(), |gaps| gaps.p50));
    cells.push(report.gap_packets.as_ref().map_or_else(dash, |gaps| gaps.p50.to_string()));
    cells.extend([stream.sent_bps, stream.received_bps].map(|rate| rate.map_or_else(dash, bits)));
    if held {
        cells.push(stream.sent_conformance.map_or_else(dash, |found| found.exceeding.to_string()));
        cells.push(stream.sent_conformance.map_or_else(dash, |found| format!("{} B", found.burst_needed)));
    }
    cells
}

fn percent(ratio: f64) -> String {
    format!("{:.4} %", ratio * 100.0)
}

/// A rate, from bits per second.
fn bits(rate: f64) -> String {
    match rate {
        0.0..1e4 => format!("{rate:.0}"),
        1e4..1e7 => format!("{:.1} k", rate / 1e3),
        1e7..1e10 => format!("{:.1} M", rate / 1e6),
        _ => format!("{:.1} G", rate / 1e9),
    }
}
