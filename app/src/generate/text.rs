//! The outcome of a run for people.

use std::fmt::Write;

use weir_measure::Spread;

use super::Outcome;
use crate::catalogue::StreamResult;
use crate::render::{Align, Style, Table, nanos};

/// The outcome as text.
pub(super) fn outcome(outcome: &Outcome) -> String {
    let mut text = String::new();
    if !outcome.complete {
        text.push_str("PARTIAL RESULT: the streams did not come to their end\n\n");
    }
    let style = Style::of_stdout();
    text.push_str(&sent(outcome).text(0, style));
    let received = received(outcome);
    if !received.is_empty() {
        text.push('\n');
        text.push_str(&received.text(0, style));
        text.push('\n');
        text.push_str(&delays(outcome).text(0, style));
    }
    if !outcome.notes.is_empty() {
        text.push('\n');
    }
    for note in &outcome.notes {
        let _ = writeln!(text, "note: {note}"); // writing to a string does not fail
    }
    let account = &outcome.account;
    let _ = writeln!(
        text,
        "\naccount: {} created, {} received, {} transmitted, {} consumed, {} dropped, {} unaccounted",
        account.created, account.received, account.transmitted, account.consumed, account.dropped, account.unaccounted
    );
    text
}

fn sent(outcome: &Outcome) -> Table {
    let right = Align::Right;
    let columns = [
        ("stream", Align::Left),
        ("port", Align::Left),
        ("asked", right),
        ("sent", right),
        ("packets/s", right),
        ("Mbit/s on the wire", right),
        ("gap p50", right),
        ("gap p99", right),
        ("gap max", right),
        ("latest", right),
    ];
    let mut table = Table::new(&columns);
    for stream in &outcome.report.streams {
        let gap = |of: fn(&Spread) -> i64| stream.sent.gaps_ns.as_ref().map_or("-".to_owned(), |gaps| nanos(of(gaps)));
        table.row([
            stream.name.clone(),
            stream.port.clone(),
            stream.rate.clone(),
            stream.sent.packets.to_string(),
            format!("{:.0}", stream.sent.pps),
            format!("{:.3}", stream.sent.wire_bps / 1e6),
            gap(|gaps| gaps.p50),
            gap(|gaps| gaps.p99),
            gap(|gaps| gaps.max),
            nanos(stream.sent.late_ns as i64),
        ]);
    }
    table
}

fn received(outcome: &Outcome) -> Table {
    let names = ["received", "lost", "loss", "duplicated", "reordered", "late", "corrupt"];
    let mut columns = vec![("stream", Align::Left)];
    columns.extend(names.map(|name| (name, Align::Right)));
    let mut table = Table::new(&columns);
    for stream in &outcome.report.streams {
        let Some(found) = &stream.received else { continue };
        let reordered = found.order.as_ref().map_or("-".to_owned(), |order| order.reordered.to_string());
        table.row([
            stream.name.clone(),
            found.received.to_string(),
            found.lost.to_string(),
            format!("{:.4} %", found.loss_ratio * 100.0),
            found.duplicated.to_string(),
            reordered,
            found.late.to_string(),
            found.corrupt.to_string(),
        ]);
    }
    table
}

/// Latency and its variation; the rows of calm packets leave out those on whose way a stall was seen.
fn delays(outcome: &Outcome) -> Table {
    let names = ["min", "p50", "p90", "p99", "p99.9", "max"];
    let mut columns = vec![("stream", Align::Left), ("", Align::Left)];
    columns.extend(names.map(|name| (name, Align::Right)));
    columns.push(("packets", Align::Right));
    let mut table = Table::new(&columns);
    for stream in &outcome.report.streams {
        let Some(found) = &stream.received else { continue };
        let aside = format!("undisturbed ({:.2} % set aside)", stream.set_aside * 100.0);
        row(&mut table, stream, "latency", found.latency_ns.as_ref());
        row(&mut table, stream, &aside, stream.calm_latency_ns.as_ref());
        row(&mut table, stream, "PDV", found.pdv_ns.as_ref());
        row(&mut table, stream, "IPDV", found.ipdv_ns.as_ref());
    }
    table
}

fn row(table: &mut Table, stream: &StreamResult, what: &str, spread: Option<&Spread>) {
    let Some(spread) = spread else { return };
    let figures = [spread.min, spread.p50, spread.p90, spread.p99, spread.p99_9, spread.max].map(nanos);
    let start = [stream.name.clone(), what.to_owned()];
    table.row(start.into_iter().chain(figures).chain([spread.count.to_string()]));
}
