//! `weir show --watch`: totals at first, then what happened per second since the last time.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Rows, data, is_of_numbers, numbers, once, print_numbers, print_rows, table};
use crate::cli;
use crate::client::Client;
use crate::commands::{print, print_json};
use crate::failure::Failed;
use crate::rates::table::Counters;
use crate::rates::{self, Rates};
use crate::render::{self, Style, View};
use crate::stats::Stats;

/// Shows it every so many seconds, until the program is ended.
pub(super) fn watch(client: &mut Client, options: &cli::Show, seconds: u32) -> Result<(), Failed> {
    let mut stats = None;
    let mut rows = None;
    loop {
        if matches!(options.what.as_str(), "graph" | "version" | "ports" | "services") {
            clear(options)?;
            once(client, options)?;
        } else if is_of_numbers(&options.what) {
            let now = numbers(client, options)?;
            clear(options)?;
            print_look(stats.as_ref(), &now, options)?;
            stats = Some(now);
        } else {
            let now = table(client, options)?;
            clear(options)?;
            print_table(rows.as_ref(), &now, options)?;
            rows = Some(now);
        }
        pause(seconds);
    }
}

#[allow(clippy::disallowed_methods, reason = "a person watches")]
fn pause(seconds: u32) {
    std::thread::sleep(Duration::from_secs(u64::from(seconds)));
}

fn clear(options: &cli::Show) -> Result<(), Failed> {
    if options.json { Ok(()) } else { print(Style::of_stdout().clear()) }
}

/// Prints the numbers: totals where there is nothing to compare them with.
fn print_look(before: Option<&Stats>, now: &Stats, options: &cli::Show) -> Result<(), Failed> {
    let style = Style::of_stdout();
    let Some(mut rates) = before.and_then(|before| Rates::between(before, now)) else {
        print_numbers(now, options, style)?;
        return print_note(options, style);
    };
    rates.sort(options.sort);
    if options.json {
        let (mut whole, part) = (data(now, &options.what)?, data(&rates, &options.what)?);
        if let Some(object) = whole.as_object_mut() {
            object.insert("rates".to_owned(), part);
        }
        return print_json(whole);
    }
    let view = View { style, all: options.all };
    let text = match options.what.as_str() {
        "cycles" => view.workers(&rates.workers),
        "drops" => view.drops(&rates.drops),
        "stages" => view.stages(&rates.stages),
        "links" => view.links(&rates.links),
        _ => view.overview(now, &rates),
    };
    print(if text.is_empty() { "nothing yet\n" } else { &text })
}

/// Prints a table; what counts in it as rates, where there is something to compare it with.
fn print_table(before: Option<&Rows>, now: &Rows, options: &cli::Show) -> Result<(), Failed> {
    let style = Style::of_stdout();
    let Some(counters) = Counters::of(&now.columns) else { return print_rows(now, options, style) };
    // A table of earlier than the one before is of a Weir that started meanwhile.
    let since = before.and_then(|before| Some((before, now.time.checked_sub(before.time)?)));
    let Some((before, nanoseconds)) = since else {
        print_rows(now, options, style)?;
        return print_note(options, style);
    };
    let mut rows = counters.rates(&before.rows, now.rows.clone(), nanoseconds as f64 / 1e9);
    rates::sort(&mut rows, options.sort);
    let columns = counters.columns(&now.columns);
    if options.json {
        let rows: Vec<Value> = rows.into_iter().map(|row| row.row).collect();
        return print_json(json!({ "columns": columns, "rows": rows }));
    }
    let (shown, said) = View { style, all: options.all }.choose(&rows);
    let shown: Vec<Value> = shown.into_iter().map(|row| row.row.clone()).collect();
    let text = if shown.is_empty() { String::new() } else { render::rows(&columns, &shown, style) };
    print(&(text + &said))
}

fn print_note(options: &cli::Show, style: Style) -> Result<(), Failed> {
    if options.json { Ok(()) } else { print(&format!("\n{}\n", style.dim("these are totals; rates follow"))) }
}
