//! A record as one page that needs nothing else: no scripts, no fonts, no network.

use std::fmt::Write;

use weir_page::{Page, command_line, escaped};

use crate::plot;
use crate::record::{Figure, Point, Record};
use crate::text::{columns, number, short};

/// The page.
///
/// # Errors
///
/// What the plotting library says.
pub fn page(record: &Record) -> Result<String, String> {
    let mut page = Page::new(&record.title);
    page.muted(&format!("{} UTC, {:.0} s, {}", record.started, record.seconds, record.machine));
    page.preformatted(&command_line(&record.command));
    if let Some(reason) = &record.partial {
        page.partial(reason);
    }
    for sentence in &record.verdict {
        page.html(&format!("<p><b>{}</b></p>\n", escaped(sentence)));
    }
    for drawn in &record.plots {
        if let Some(svg) = plot::svg(record, drawn)? {
            page.figure(&drawn.title, "", &svg);
        }
    }
    let mut text = String::new();
    figures(&mut text, record);
    remarks(&mut text, record);
    where_it_ran(&mut text, record);
    details(&mut text, record);
    page.html(&text);
    Ok(page.finish())
}

fn figures(page: &mut String, record: &Record) {
    let columns = columns(record);
    page.push_str("<h2>Figures</h2>\n<p class=\"muted\">Medians, with the least and the most.</p>\n<div class=\"wide\"><table><tr>");
    for name in &record.parameters {
        let _ = write!(page, "<th>{}</th>", escaped(name));
    }
    for name in &columns {
        let _ = write!(page, "<th class=\"n\">{}<br><small>{}</small></th>", escaped(name), escaped(record.unit(name)));
    }
    page.push_str("</tr>\n");
    for point in &record.points {
        page.push_str("<tr>");
        for name in &record.parameters {
            let value = point.parameters.get(name).map_or_else(String::new, ToString::to_string);
            let _ = write!(page, "<td title=\"{}\">{}</td>", escaped(&point.help), escaped(&value));
        }
        for name in &columns {
            let cell = point.figure(name).map_or_else(|| "-".to_owned(), cell);
            let _ = write!(page, "<td class=\"n\">{cell}</td>");
        }
        page.push_str("</tr>\n");
        if let Some(trouble) = &point.trouble {
            let width = record.parameters.len() + columns.len();
            let _ = writeln!(
                page,
                "<tr><td colspan=\"{width}\"><div class=\"partial\">{}</div></td></tr>",
                escaped(trouble)
            );
        }
    }
    page.push_str("</table></div>\n");
}

fn cell(figure: &Figure) -> String {
    let text = short(figure);
    match text.split_once(' ') {
        Some((median, range)) => format!("{median}<br><small>{}</small>", range.trim_matches(['(', ')'])),
        None => text,
    }
}

fn remarks(page: &mut String, record: &Record) {
    if record.remarks.is_empty() && record.points.iter().all(|point| point.help.is_empty()) {
        return;
    }
    page.push_str("<h2>How to read this</h2>\n");
    for remark in &record.remarks {
        let _ = writeln!(page, "<p>{}</p>", escaped(remark));
    }
    let told: Vec<&Point> = record.points.iter().filter(|point| !point.help.is_empty()).collect();
    if !told.is_empty() {
        page.push_str("<table>");
        for point in told {
            let label = point.label(&record.parameters);
            let _ = writeln!(page, "<tr><td>{}</td><td>{}</td></tr>", escaped(&label), escaped(&point.help));
        }
        page.push_str("</table>\n");
    }
}

fn where_it_ran(page: &mut String, record: &Record) {
    page.push_str("<h2>Machine, versions, settings</h2>\n<table>");
    let mut rows = record.machine.facts();
    rows.extend(record.versions.iter().map(|(name, version)| (format!("version of {name}"), version.clone())));
    rows.extend(record.settings.iter().map(|(name, value)| (name.clone(), value.to_string())));
    for (name, value) in rows {
        let _ = writeln!(page, "<tr><td>{}</td><td>{}</td></tr>", escaped(&name), escaped(&value));
    }
    page.push_str("</table>\n");
    for (name, text) in &record.configurations {
        let _ = writeln!(
            page,
            "<details><summary>Configuration: {}</summary><pre>{}</pre></details>",
            escaped(name),
            escaped(text)
        );
    }
}

fn details(page: &mut String, record: &Record) {
    page.push_str("<h2>Every sample</h2>\n<details><summary>Samples</summary><div class=\"wide\"><table><tr>");
    for head in ["", "figure", "unit", "median", "least", "most", "samples"] {
        let _ = write!(page, "<th>{head}</th>");
    }
    page.push_str("</tr>\n");
    for point in &record.points {
        let label = escaped(&point.label(&record.parameters));
        for figure in &point.figures {
            let samples: Vec<String> = figure.samples.iter().map(|sample| number(*sample)).collect();
            let s = figure.summary;
            let _ = writeln!(
                page,
                "<tr><td>{label}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
                escaped(&figure.name),
                escaped(&figure.unit),
                number(s.median),
                number(s.min),
                number(s.max),
                samples.join(" ")
            );
        }
    }
    page.push_str("</table></div></details>\n");
}
