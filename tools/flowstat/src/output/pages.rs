//! A report as one page that needs nothing else.

use std::fmt::Write;

use weir_measure::Spread;
use weir_page::{Page, command_line, escaped};

use super::plots::{self, Figure};
use crate::report::{Report, Stream};

/// Streams whose plots are seen at once; those of the others that have some unfold.
const OPEN: usize = 3;

/// The page: what is true of all streams, the worst `worst` of them in a table, and plots of the first of these.
/// `command` is what it was made with, a word each.
///
/// # Errors
///
/// What the plotting library says.
pub fn page(report: &Report, command: &[String], worst: usize) -> Result<String, String> {
    let mut page = Page::new("What happened to every packet");
    page.muted(&format!(
        "sent: {}; received: {}; model {}",
        report.sent.files.join(", "),
        report.received.files.join(", "),
        report.model
    ));
    page.preformatted(&command_line(command));
    report.partial.iter().for_each(|reason| page.partial(reason));
    totals(&mut page, report);
    report.notes.iter().for_each(|note| page.paragraph(note));
    let series = &report.total.series;
    draw(&mut page, plots::rates(series).into_iter().chain(plots::losses(series)))?;
    table(&mut page, report, worst);
    streams(&mut page, report)?;
    Ok(page.finish())
}

fn draw(page: &mut Page, figures: impl Iterator<Item = Figure>) -> Result<(), String> {
    for figure in figures {
        if let Some(svg) = figure.chart.svg()? {
            page.figure(figure.title, &figure.beside, &svg);
        }
    }
    Ok(())
}

fn totals(page: &mut Page, report: &Report) {
    let total = &report.total;
    page.heading("All streams");
    let mut rows: Vec<(&str, String)> = vec![
        ("streams", thousands(report.stream_count)),
        ("sent", format!("{} packets, {} bytes", thousands(total.sent), thousands(total.sent_bytes))),
        ("received", format!("{} packets, {} bytes", thousands(total.received), thousands(total.received_bytes))),
        ("matched", thousands(total.matched)),
        ("lost", format!("{} ({})", thousands(total.lost), percent(total.loss_ratio))),
    ];
    let counts = [
        ("duplicated", total.duplicated),
        ("reordered", total.reordered),
        ("ambiguous", total.ambiguous),
        ("received, but not sent", total.unmatched),
        ("trimmed, sent", report.sent.outside),
        ("trimmed, received", report.received.outside),
        ("filtered, sent", total.filtered_sent),
        ("filtered, received", total.filtered_received),
    ];
    rows.extend(counts.into_iter().map(|(name, count)| (name, thousands(count))));
    let spreads = [("latency", &total.latency_ns), ("delay variation (PDV)", &total.pdv_ns), ("gaps", &total.gaps_ns)];
    rows.extend(spreads.into_iter().filter_map(|(name, spread)| Some((name, quantiles(spread.as_ref()?)))));
    let mut html = "<table>".to_owned();
    for (name, value) in rows {
        let _ = writeln!(html, "<tr><td>{}</td><td>{}</td></tr>", escaped(name), escaped(&value));
    }
    html.push_str("</table>\n");
    page.html(&html);
}

fn quantiles(spread: &Spread) -> String {
    let parts = [
        ("least", spread.min),
        ("median", spread.p50),
        ("99 %", spread.p99),
        ("99.9 %", spread.p99_9),
        ("most", spread.max),
    ];
    parts.map(|(name, value)| format!("{name} {}", time(value))).join(", ")
}

fn table(page: &mut Page, report: &Report, worst: usize) {
    if report.by.is_empty() || report.streams.is_empty() {
        return;
    }
    let shown = report.streams.len().min(worst);
    page.heading("Streams");
    page.muted(&format!("{} of {}, by {}", thousands(shown as u64), thousands(report.stream_count), report.order));
    let mut html = "<div class=\"wide\"><table><tr>".to_owned();
    for name in &report.by {
        let _ = write!(html, "<th>{}</th>", escaped(name));
    }
    let delay = if report.clock.synchronised { "latency" } else { "PDV" };
    for name in ["sent", "lost", "loss", "reordered", "duplicated", "rate sent", "rate received"] {
        let _ = write!(html, "<th class=\"n\">{name}</th>");
    }
    for part in ["median", "99 %", "most"] {
        let _ = write!(html, "<th class=\"n\">{delay}, {part}</th>");
    }
    html.push_str("</tr>\n");
    for stream in report.streams.iter().take(worst) {
        row(&mut html, stream);
    }
    html.push_str("</table></div>\n");
    page.html(&html);
}

fn row(html: &mut String, stream: &Stream) {
    html.push_str("<tr>");
    for (_, value) in &stream.key {
        let _ = write!(html, "<td class=\"k\">{}</td>", escaped(value));
    }
    let found = &stream.report;
    let reordered = found.order.as_ref().map(|order| order.reordered);
    let mut cells = vec![
        thousands(found.sent),
        thousands(found.lost),
        percent(found.loss_ratio),
        reordered.map_or_else(unknown, thousands),
        thousands(found.duplicated),
        stream.sent_bps.map_or_else(unknown, rate),
        stream.received_bps.map_or_else(unknown, rate),
    ];
    let delays = found.latency_ns.as_ref().or(found.pdv_ns.as_ref());
    let parts: [fn(&Spread) -> i64; 3] = [|spread| spread.p50, |spread| spread.p99, |spread| spread.max];
    cells.extend(parts.map(|part| delays.map_or_else(unknown, |delays| time(part(delays)))));
    for cell in cells {
        let _ = write!(html, "<td class=\"n\">{}</td>", escaped(&cell));
    }
    html.push_str("</tr>\n");
}

fn unknown() -> String {
    "-".to_owned()
}

fn streams(page: &mut Page, report: &Report) -> Result<(), String> {
    let plotted = |stream: &&Stream| !stream.delays.is_empty() || !stream.gaps.is_empty();
    let drawn = report.streams.iter().filter(plotted).count();
    if drawn < report.streams.len() {
        let (drawn, all) = (thousands(drawn as u64), thousands(report.stream_count));
        page.muted(&format!(
            "Plots are of {drawn} of {all} streams, the worst by {}; --order chooses by what.",
            report.order
        ));
    }
    for (n, stream) in report.streams.iter().filter(plotted).enumerate() {
        let name = if stream.key.is_empty() { "All packets".to_owned() } else { name(stream) };
        if n == OPEN {
            page.heading("More streams");
        }
        if n >= OPEN {
            page.html(&format!("<details><summary>{}</summary>\n", escaped(&name)));
        } else {
            page.heading(&name);
        }
        draw(page, plots::delays(stream, report.clock.synchronised).into_iter())?;
        draw(page, plots::gaps(stream).into_iter())?;
        draw(page, plots::arrivals(stream).into_iter())?;
        draw(page, plots::losses(&stream.series).into_iter())?;
        if n >= OPEN {
            page.html("</details>\n");
        }
    }
    Ok(())
}

fn name(stream: &Stream) -> String {
    stream.key.iter().map(|(field, value)| format!("{field} {value}")).collect::<Vec<_>>().join(", ")
}

/// A count with a space between thousands.
pub(super) fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent > 0.0 && percent < 0.01 { format!("{percent:.1e} %") } else { format!("{percent:.2} %") }
}

/// A time, from nanoseconds, with four digits.
pub(super) fn time(nanos: i64) -> String {
    let value = nanos as f64;
    let (unit, scale) = match value.abs() {
        0.0..1e3 => return format!("{nanos} ns"),
        1e3..1e6 => ("us", 1e3),
        1e6..1e9 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    format!("{} {unit}", digits(value / scale))
}

/// A rate, from bits per second, with four digits.
pub(super) fn rate(bps: f64) -> String {
    let (unit, scale) = match bps.abs() {
        0.0..1e3 => ("bit/s", 1.0),
        1e3..1e6 => ("kbit/s", 1e3),
        1e6..1e9 => ("Mbit/s", 1e6),
        _ => ("Gbit/s", 1e9),
    };
    format!("{} {unit}", digits(bps / scale))
}

/// A number with four digits that count.
fn digits(value: f64) -> String {
    let places = match value.abs() {
        0.0..10.0 => 3,
        10.0..100.0 => 2,
        _ => 1,
    };
    format!("{value:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!((thousands(0), thousands(999)), ("0".to_owned(), "999".to_owned()));
        assert_eq!((thousands(1000), thousands(12_345_678)), ("1 000".to_owned(), "12 345 678".to_owned()));
        assert_eq!((time(-7), time(1500), time(-2_345_678)), ("-7 ns".into(), "1.500 us".into(), "-2.346 ms".into()));
        assert_eq!((time(999_999_999), time(12_000_000_000)), ("1000.0 ms".into(), "12.00 s".into()));
        assert_eq!((rate(1_024_000.0), rate(12.0)), ("1.024 Mbit/s".into(), "12.00 bit/s".into()));
        assert_eq!(
            (percent(0.5), percent(0.00001), percent(0.0)),
            ("50.00 %".into(), "1.0e-3 %".into(), "0.00 %".into())
        );
    }
}
