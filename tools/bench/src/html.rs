//! A record as one page that needs nothing else: no scripts, no fonts, no network.

use std::fmt::Write;

use crate::plot;
use crate::record::{Figure, Point, Record};
use crate::text::{columns, number, short};

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;color:#222;background:#fff;max-width:62rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.6rem;margin-bottom:.2rem}h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #ddd}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
th,td{text-align:left;padding:.2rem .8rem .2rem 0;border-bottom:1px solid #eee;vertical-align:top}\
td.n,th.n{text-align:right}td small{color:#777}.wide{overflow-x:auto}\
pre,code{font:13px/1.4 ui-monospace,monospace;background:#f6f6f6}pre{padding:.8rem;overflow-x:auto}\
.partial{background:#fff3cd;border-left:4px solid #e69f00;padding:.5rem .8rem}\
figure{margin:1rem 0}figcaption{font-weight:600}svg{max-width:100%;height:auto}summary{cursor:pointer;color:#0072b2}\
.muted{color:#777}";

/// The page.
///
/// # Errors
///
/// What the plotting library says.
pub fn page(record: &Record) -> Result<String, String> {
    let mut page = String::new();
    let title = escaped(&record.title);
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n\
         <p class=\"muted\">{} UTC, {:.0} s, {}</p>\n<pre>{}</pre>\n",
        escaped(&record.started),
        record.seconds,
        escaped(&record.machine.to_string()),
        escaped(&command_line(&record.command))
    );
    if let Some(reason) = &record.partial {
        let _ = writeln!(page, "<p class=\"partial\"><b>Partial result.</b> {}</p>", escaped(reason));
    }
    for drawn in &record.plots {
        if let Some(svg) = plot::svg(record, drawn)? {
            let _ = writeln!(page, "<figure><figcaption>{}</figcaption>\n{svg}</figure>", escaped(&drawn.title));
        }
    }
    figures(&mut page, record);
    remarks(&mut page, record);
    where_it_ran(&mut page, record);
    details(&mut page, record);
    page.push_str("</body></html>\n");
    Ok(page)
}

/// The words as a shell would take them.
pub(crate) fn command_line(words: &[String]) -> String {
    let plain =
        |word: &String| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./=:,+%@".contains(c));
    let quoted = |word: &String| if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
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
