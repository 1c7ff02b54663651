//! `weir show`.

mod select;
mod watch;

use serde_json::{Value, json};
use weir_config::Shown;
use weir_engine::Reason;
use weir_stage::{Fate, Ways as _};

use super::{connect, print, print_json};
use crate::cli;
use crate::client::Client;
use crate::failure::Failed;
use crate::graph::GraphView;
use crate::render::{self, Style};
use crate::stats::Stats;
use weir_protocol::{Request, Response};

/// The rows of a table, and the keys of its columns.
struct Rows {
    columns: Vec<String>,
    rows: Vec<Value>,
    /// When it was asked for, nanoseconds on the engine's clock.
    time: u64,
}

/// Shows something, once or again and again.
pub(crate) fn show(options: &cli::Show) -> Result<(), Failed> {
    select::check(options)?;
    let mut client = connect(&options.target)?;
    match options.watch {
        Some(seconds) => watch::watch(&mut client, options, seconds),
        None => once(&mut client, options),
    }
}

fn once(client: &mut Client, options: &cli::Show) -> Result<(), Failed> {
    let style = Style::of_stdout();
    match options.what.as_str() {
        what if is_of_numbers(what) => print_numbers(&numbers(client, options)?, options, style),
        "graph" => graph(client, options),
        "version" => super::version(&cli::Version { json: options.json, target: options.target.clone() }),
        _ => print_rows(&table(client, options)?, options, style),
    }
}

/// Whether it is a part of the numbers, or all of them.
fn is_of_numbers(what: &str) -> bool {
    what == "stats" || key(what).is_some()
}

/// The key of a part of the numbers.
fn key(what: &str) -> Option<&'static str> {
    match what {
        "cycles" => Some("workers"),
        "drops" => Some("drops"),
        "stages" => Some("stages"),
        "links" => Some("links"),
        "services" => Some("services"),
        _ => None,
    }
}

/// The numbers that the filter selects.
fn numbers(client: &mut Client, options: &cli::Show) -> Result<Stats, Failed> {
    let mut stats = client.read::<Stats>(Request::Stats)?;
    let Some(word) = &options.filter else { return Ok(stats) };
    let names = select::stats(&mut stats, &options.what, word);
    let Some(mut names) = names else { return Ok(stats) };
    if options.what == "drops" {
        // What has not been dropped is not among the numbers, yet may be.
        names.extend(client.read::<GraphView>(Request::Graph)?.drops());
        names.extend(Reason::LIST.iter().filter(|way| way.fate == Fate::Drop).map(|way| way.name.to_owned()));
        if names.iter().any(|way| way.contains(word)) {
            return Ok(stats);
        }
    }
    Err(select::nothing(&options.what, word, &names))
}

fn print_numbers(stats: &Stats, options: &cli::Show, style: Style) -> Result<(), Failed> {
    if options.json {
        return print_json(data(stats, &options.what)?);
    }
    print(&match options.what.as_str() {
        "cycles" => render::cycles(stats, style),
        "drops" => render::drops(stats, style),
        "stages" => render::stages(stats, style),
        "links" => render::links(stats, style),
        "services" => render::services(&stats.services, 0, style),
        _ => render::stats(stats, style),
    })
}

/// The numbers as data, or the part of them that is shown.
fn data(stats: &impl serde::Serialize, what: &str) -> Result<Value, Failed> {
    let whole = serde_json::to_value(stats).map_err(|error| error.to_string())?;
    Ok(match key(what) {
        Some(key) => json!({ key: whole.get(key).cloned().unwrap_or_default() }),
        None => whole,
    })
}

fn graph(client: &mut Client, options: &cli::Show) -> Result<(), Failed> {
    let mut graph = client.read::<GraphView>(Request::Graph)?;
    if let Some(word) = &options.filter {
        select::graph(&mut graph, word)?;
    }
    if options.json {
        return print_json(serde_json::to_value(&graph).map_err(|error| error.to_string())?);
    }
    print(&if options.dot { graph.dot() } else { graph.text() })
}

/// The rows of a table that the filter selects.
fn table(client: &mut Client, options: &cli::Show) -> Result<Rows, Failed> {
    let ports = options.what == "ports";
    let request = if ports {
        Request::Ports
    } else {
        let what = match options.compare {
            Some(cli::OtherTable::Linux) => "route-differences".to_owned(),
            None => options.what.clone(),
        };
        Request::Show { what, function: options.function.clone(), filter: options.filter.clone() }
    };
    let Response::Rows { columns, mut rows, time, .. } = client.ask(request)? else {
        return Err(Failed::from("Weir's answer is no table".to_owned()));
    };
    // The tables of functions are selected from where they are.
    if let Some(word) = options.filter.as_ref().filter(|_| ports) {
        select::ports(&mut rows, word)?;
    }
    Ok(Rows { columns, rows, time })
}

fn print_rows(table: &Rows, options: &cli::Show, style: Style) -> Result<(), Failed> {
    if options.json {
        return print_json(json!({ "columns": table.columns, "rows": table.rows }));
    }
    match &options.filter {
        None if options.compare.is_some() && table.rows.is_empty() => print("nothing differs\n"),
        Some(word) if table.rows.is_empty() => {
            print(&format!("none: \"{}\" selects nothing at present\n", Shown::line(word)))
        }
        _ => print(&render::rows(&table.columns, &table.rows, style)),
    }
}
