//! `weir flowstat`: what happened to every packet, from two captures.

mod progress;
mod text;

use std::path::{Path, PathBuf};

use weir_capture::Merged;
use weir_config::{Catalogue, ConfigError};
use weir_filter::Filter;
use weir_flowstat::models::{self, MatchConfig, Sources};
use weir_flowstat::{Clock, Fields, Options, Order, Profile, Report, analyse, output};
use weir_lua::Limits;

use crate::cli::Flowstat;
use crate::commands::{print, print_json};
use crate::failure::Failed;
use progress::Shown;

/// Streams in the table when nobody said how many.
const WORST: usize = 20;

/// `weir flowstat`.
pub(crate) fn flowstat(asked: &Flowstat) -> Result<(), Failed> {
    let options = options(asked)?;
    let sent: Vec<PathBuf> = std::iter::once(&asked.sent).chain(&asked.also_sent).cloned().collect();
    let received: Vec<PathBuf> = std::iter::once(&asked.received).chain(&asked.also_received).cloned().collect();
    let (mut before, mut behind) = open(&sent, &received)?;
    let mut shown = Shown::new();
    let found = analyse(&options, &mut before, &mut behind, &mut |side, done, all| shown.step(side, done, all));
    shown.clear();
    let mut report = found?;
    let names = |files: &[PathBuf]| files.iter().map(|file| file.display().to_string()).collect();
    report.sent.files = names(&sent);
    report.received.files = names(&received);
    tell(asked, &mut report)?;
    if report.partial.is_empty() { Ok(()) } else { Err(Failed::Incomplete(report.partial)) }
}

fn tell(asked: &Flowstat, report: &mut Report) -> Result<(), Failed> {
    if let Some(folder) = &asked.report {
        let command: Vec<String> = std::env::args().collect();
        for file in output::write_report(report, folder, &command, asked.worst.unwrap_or(WORST))? {
            eprintln!("wrote {}", file.display());
        }
    }
    if asked.json {
        report.streams.truncate(asked.worst.unwrap_or(usize::MAX));
        return print_json(serde_json::to_value(&*report).map_err(|error| error.to_string())?);
    }
    report.streams.truncate(asked.worst.unwrap_or(WORST));
    print(&text::report(report))
}

/// Everything that is wrong with the words, at once.
fn options(asked: &Flowstat) -> Result<Options, Failed> {
    let mut wrong = Vec::new();
    let mut filter = |option: &str, text: &Option<String>| {
        let text = text.as_ref()?;
        Filter::parse(text).map_err(|error| wrong.push(format!("{option}: {error}"))).ok()
    };
    let filter_sent = filter("--filter-sent", &asked.filter_sent);
    let filter_received = filter("--filter-received", &asked.filter_received);
    let by = Fields::parse(&asked.by).unwrap_or_else(|mistakes| {
        wrong.extend(mistakes.iter().map(|mistake| format!("--by: {mistake}")));
        Fields::default()
    });
    let keys = asked.keys.as_ref().and_then(|file| keys(file).map_err(|told| wrong.extend(told)).ok());
    let sources = Sources {
        bytes: asked.bytes.map(|bytes| bytes as usize),
        routes: asked.routes.clone(),
        captured: asked.captured.clone(),
        subscribers: asked.subscribers.clone(),
        softwires: asked.softwires.clone(),
        // What is wrong with a script is told once.
        keys: keys.or_else(|| asked.keys.as_ref().map(|_| MatchConfig { sent: Vec::new(), received: Vec::new() })),
    };
    let model = models::make(&asked.model, &sources).map_err(|mistakes| wrong.extend(mistakes)).ok();
    let Some(model) = model.filter(|_| wrong.is_empty()) else { return Err(Failed::Sentences(wrong)) };
    let order = Order::NAMES.iter().find(|(name, _)| *name == asked.order).map(|(_, order)| *order);
    Ok(Options {
        model,
        by,
        filter_sent,
        filter_received,
        window: asked.window,
        clock: match asked.clock.as_str() {
            "offset" => Clock::Offset,
            "drift" => Clock::Drift,
            _ => Clock::Same,
        },
        trim: asked.trim,
        profile: asked.rate.zip(asked.burst).map(|(rate, burst)| Profile { rate, burst }),
        order: order.unwrap_or_default(),
        memory: asked.memory,
        temp: asked.temp.clone().unwrap_or_else(std::env::temp_dir),
    })
}

/// What a script declares: it runs once, confined as any configuration.
fn keys(file: &Path) -> Result<MatchConfig, Vec<String>> {
    let told = |errors: Vec<ConfigError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    let kinds: Catalogue = std::iter::once(models::match_kind()).collect();
    let program = Path::new("/proc/self/exe");
    let document = weir_lua::evaluate(program, file, &kinds.names(), &Limits::default()).map_err(told)?;
    let checked = document.check(&kinds, None).map_err(told)?;
    match checked.elements() {
        [element] => element.read().map_err(told),
        all => Err(vec![format!(
            "{}: declares match {} times; write match {{ sent = {{ ... }}, received = {{ ... }} }} once",
            file.display(),
            all.len()
        )]),
    }
}

/// Opens all captures, or says what is wrong with each.
fn open(sent: &[PathBuf], received: &[PathBuf]) -> Result<(Merged, Merged), Failed> {
    match (Merged::open(sent), Merged::open(received)) {
        (Ok(sent), Ok(received)) => Ok((sent, received)),
        (sent, received) => {
            let problems = sent.err().into_iter().chain(received.err()).flatten();
            Err(Failed::Sentences(problems.map(|problem| problem.to_string()).collect()))
        }
    }
}
