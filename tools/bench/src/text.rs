//! A record as a table for people.

use std::fmt::Write;

use crate::record::{Figure, Point, Record};

/// The record as text: where it comes from, what it comes to, a line for each point, and the remarks.
pub fn table(record: &Record) -> String {
    let mut text = format!("{}\n{}\n", record.title, record.machine);
    if let Some(reason) = &record.partial {
        let _ = writeln!(text, "partial: {reason}");
    }
    for sentence in &record.verdict {
        let _ = writeln!(text, "{sentence}");
    }
    text.push('\n');
    text.push_str(&aligned(&rows(record), record.parameters.len()));
    for point in &record.points {
        if let Some(trouble) = &point.trouble {
            let _ = writeln!(text, "{}: {trouble}", point.label(&record.parameters));
        }
    }
    if !record.remarks.is_empty() {
        let _ = write!(text, "\n{}\n", record.remarks.join("\n"));
    }
    text
}

/// The names of the figures that are no details, in the order in which they come.
pub(crate) fn columns(record: &Record) -> Vec<&str> {
    let mut names = Vec::new();
    for figure in record.points.iter().flat_map(|point| &point.figures).filter(|figure| !figure.detail) {
        if !names.contains(&figure.name.as_str()) {
            names.push(&figure.name);
        }
    }
    names
}

fn rows(record: &Record) -> Vec<Vec<String>> {
    let columns = columns(record);
    let details = record.points.iter().any(|point| point.figures.iter().any(|figure| figure.detail));
    let mut head: Vec<String> = record.parameters.clone();
    head.extend(columns.iter().map(|name| heading(name, record.unit(name))));
    head.extend(details.then(|| "details".to_owned()));
    let row = |point: &Point| {
        let value = |name: &String| point.parameters.get(name).map_or_else(String::new, ToString::to_string);
        let mut row: Vec<String> = record.parameters.iter().map(value).collect();
        row.extend(columns.iter().map(|name| point.figure(name).map_or_else(|| "-".to_owned(), short)));
        if details {
            let named = |figure: &Figure| format!("{} {}", figure.name, number(figure.summary.median));
            let named: Vec<String> = point.figures.iter().filter(|figure| figure.detail).map(named).collect();
            row.push(named.join(", "));
        }
        row
    };
    std::iter::once(head).chain(record.points.iter().map(row)).collect()
}

fn heading(name: &str, unit: &str) -> String {
    if unit.is_empty() { name.to_owned() } else { format!("{name}, {unit}") }
}

/// The median, with the least and the most where they differ.
pub(crate) fn short(figure: &Figure) -> String {
    let summary = figure.summary;
    match figure.samples.len() {
        0 => "-".to_owned(),
        _ if number(summary.min) == number(summary.max) => number(summary.median),
        _ => format!("{} ({} - {})", number(summary.median), number(summary.min), number(summary.max)),
    }
}

/// A number with as many digits as are worth reading.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 || size == 0.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Rows as columns of one width each: the first `left` of them and the last, if it is long, to the left.
fn aligned(rows: &[Vec<String>], left: usize) -> String {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let count = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (n, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match n < left || (n + 1 == count && *width > 24) {
                true => write!(line, "{cell:<width$}  "),
                false => write!(line, "{cell:>width$}  "),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
