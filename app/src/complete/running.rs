//! Names of what runs, asked for while somebody waits at a prompt.

use std::path::Path;
use std::time::Duration;

use weir_protocol::{Request, Response};

use super::{Kind, Names, Which};
use crate::client::Client;
use crate::graph::GraphView;
use crate::socket;
use crate::stats::Stats;

/// How long somebody may wait at a prompt.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks the Weirs that run. Who cannot be asked has no names.
pub(crate) struct Asker;

impl Names for Asker {
    fn weirs(&mut self) -> Vec<String> {
        let Ok(usual) = socket::path(None, socket::DEFAULT_NAME) else { return Vec::new() };
        let entries = usual.parent().and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".sock")?.to_owned())).collect();
        names.sort();
        names
    }

    fn of(&mut self, which: &Which, kind: Kind) -> Vec<String> {
        ask(which, kind).unwrap_or_default()
    }
}

fn ask(which: &Which, kind: Kind) -> Option<Vec<String>> {
    let name = which.name.as_deref().unwrap_or(socket::DEFAULT_NAME);
    let path = socket::path(which.socket.as_deref().map(Path::new), name).ok()?;
    let mut client = Client::connect(&path).ok()?;
    client.be_patient_for(PATIENCE).ok()?;
    let mut names: Vec<String> = match kind {
        Kind::Ports => ports(client.ask(Request::Ports).ok()?)?,
        Kind::Stages => graph(&mut client)?.stages.into_iter().map(|stage| stage.name).collect(),
        Kind::Ways => graph(&mut client)?.ways().collect(),
        // A stage is called by its function's name and its own.
        Kind::Functions => {
            let stages = graph(&mut client)?.stages.into_iter();
            stages.filter_map(|stage| Some(stage.name.rsplit_once('.')?.0.to_owned())).collect()
        }
        Kind::Workers => stats(&mut client)?.workers.into_iter().map(|worker| worker.id).collect(),
        Kind::Links => stats(&mut client)?.links.into_iter().map(|link| link.name).collect(),
    };
    names.sort();
    names.dedup();
    Some(names)
}

fn ports(answer: Response) -> Option<Vec<String>> {
    let Response::Rows { rows, .. } = answer else { return None };
    Some(rows.iter().filter_map(|row| Some(row.get("name")?.as_str()?.to_owned())).collect())
}

fn graph(client: &mut Client) -> Option<GraphView> {
    client.read(Request::Graph).ok()
}

fn stats(client: &mut Client) -> Option<Stats> {
    client.read(Request::Stats).ok()
}
