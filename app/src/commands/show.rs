//! `weir show`.

use std::time::Duration;

use serde_json::{Value, json};

use super::{connect, print, print_json};
use crate::cli;
use crate::client::Client;
use crate::failure::Failed;
use crate::graph::GraphView;
use crate::render::{self, Style};
use crate::stats::Stats;
use weir_protocol::{Request, Response};

/// Shows something, once or again and again.
pub(crate) fn show(options: &cli::Show) -> Result<(), Failed> {
    let mut client = connect(&options.target)?;
    let Some(seconds) = options.watch else { return once(&mut client, options) };
    let style = Style::of_stdout();
    loop {
        if !options.json {
            print(style.clear())?;
        }
        once(&mut client, options)?;
        pause(seconds);
    }
}

#[allow(clippy::disallowed_methods, reason = "a person watches")]
fn pause(seconds: u32) {
    std::thread::sleep(Duration::from_secs(u64::from(seconds)));
}

fn once(client: &mut Client, options: &cli::Show) -> Result<(), Failed> {
    let style = Style::of_stdout();
    match options.what.as_str() {
        "stats" => stats(client, options.json, |stats| render::stats(stats, style)),
        "cycles" => part(client, options, "workers", |stats| render::cycles(stats, style)),
        "drops" => part(client, options, "drops", |stats| render::drops(stats, style)),
        "stages" => part(client, options, "stages", |stats| render::stages(stats, style)),
        "links" => part(client, options, "links", |stats| render::links(stats, style)),
        "graph" => graph(client, options),
        "version" => super::version(&cli::Version { json: options.json, target: options.target.clone() }),
        "ports" => rows(client.ask(Request::Ports)?, options, style),
        _ => {
            let request = Request::Show {
                what: options.what.clone(),
                function: options.function.clone(),
                filter: options.filter.clone(),
            };
            rows(client.ask(request)?, options, style)
        }
    }
}

fn stats(client: &mut Client, json: bool, render: impl FnOnce(&Stats) -> String) -> Result<(), Failed> {
    if json {
        return print_json(client.data(Request::Stats)?);
    }
    print(&render(&client.read::<Stats>(Request::Stats)?))
}

/// A part of the numbers; a filter selects what has the word in its name.
fn part(
    client: &mut Client,
    options: &cli::Show,
    key: &str,
    render: impl FnOnce(&Stats) -> String,
) -> Result<(), Failed> {
    let mut stats = client.read::<Stats>(Request::Stats)?;
    if let Some(word) = &options.filter {
        stats.drops.retain(|drop| format!("{}.{}", drop.stage, drop.reason).contains(word));
        stats.stages.retain(|stage| stage.name.contains(word) || stage.worker == *word);
        stats.links.retain(|link| link.name.contains(word));
        stats.workers.retain(|worker| worker.id == *word);
    }
    if !options.json {
        return print(&render(&stats));
    }
    let whole = serde_json::to_value(&stats).map_err(|error| error.to_string())?;
    print_json(json!({ key: whole.get(key).cloned().unwrap_or_default() }))
}

fn graph(client: &mut Client, options: &cli::Show) -> Result<(), Failed> {
    if options.json {
        return print_json(client.data(Request::Graph)?);
    }
    let graph = client.read::<GraphView>(Request::Graph)?;
    print(&if options.dot { graph.dot() } else { graph.text() })
}

fn rows(response: Response, options: &cli::Show, style: Style) -> Result<(), Failed> {
    let Response::Rows { columns, rows, .. } = response else {
        return Err(Failed::from("Weir's answer is no table".to_owned()));
    };
    if options.json {
        return print_json(json!({ "columns": columns, "rows": Value::Array(rows) }));
    }
    print(&render::rows(&columns, &rows, style))
}
