//! `weir gen`: streams sent and measured, from the command line or a configuration.
//!
//! [`run`] is what other commands measure with: it runs a configuration that holds a generator until its streams have come to
//! their end, and says what they found.

pub(crate) mod plan;
mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use weir_config::{Document, Folder, Nanos, Quantity};
use weir_stage::AnyFunction;

use crate::catalogue::{GENERATOR, GeneratorReport};
use crate::cli::Generate;
use crate::commands::{print, print_json};
use crate::failure::Failed;
use crate::privileges;
use crate::socket;
use crate::stats::{self, AccountStats};
use crate::supervisor::{Loaded, Next, Options, Supervisor, load, load_document};

/// How often the end of the streams is looked for.
const TICK: Duration = Duration::from_millis(5);

/// How long next hops are asked for before that is given up, nanoseconds.
const RESOLVE: u64 = 5_000_000_000;

/// How long the workers may take to give their numbers, nanoseconds.
const ANSWER: u64 = 10_000_000_000;

/// A packet that was later than this, nanoseconds, was held up; else a rate that differs is that of random gaps.
const LATE: u64 = 100_000;

/// A stream that keeps less than this share of its rate was held up.
const PRECISION: f64 = 0.999;

/// How a run of a generator went.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    /// The generator's numbers.
    #[serde(flatten)]
    pub(crate) report: GeneratorReport,
    /// Whether the streams came to their end: else the numbers are those of a part.
    pub(crate) complete: bool,
    /// What speaks against taking the numbers as they are, a sentence each.
    pub(crate) notes: Vec<String>,
    /// The account of all workers.
    pub(crate) account: AccountStats,
}

/// `weir gen`.
pub(crate) fn generate(options: &Generate) -> Result<(), Failed> {
    privileges::drop_unneeded()?;
    let loaded = match &options.file {
        Some(file) => load(file, Some(&[]), Next::Build)?,
        None => from_words(options)?,
    };
    let linger = Nanos::UNITS.parse(&options.linger).map_err(|malformed| {
        format!("--linger {}: {}; write it as in \"200 ms\"", options.linger, malformed.problem)
    })?;
    let stop = stop_on_signals()?;
    let mut outcome = run(loaded, Duration::from_nanos(linger), &stop)?;
    // From files that are only written nothing comes back: that is no loss.
    if options.file.is_none() && options.port.iter().chain(&options.rx).all(|device| device.starts_with("pcap:,")) {
        outcome.report.streams.iter_mut().for_each(|stream| stream.received = None);
    }
    let endless = outcome.report.streams.iter().any(|stream| !stream.sent.done) && stop.load(Ordering::Relaxed);
    if options.json {
        print_json(serde_json::to_value(&outcome).map_err(|error| error.to_string())?)?;
    } else {
        print(&text::outcome(&outcome))?;
    }
    // Who ends what has no end gets what he wanted.
    if outcome.complete || (endless && options.count.is_none() && options.duration.is_none()) {
        Ok(())
    } else {
        Err(Failed::Silent)
    }
}

fn from_words(options: &Generate) -> Result<Loaded, Failed> {
    let core = options.core.unwrap_or_else(|| weir_engine::last_core() as u16);
    for device in &options.port {
        if device.strip_prefix("pcap:").is_some_and(|files| !files.contains(',')) {
            let file = device.strip_prefix("pcap:").unwrap_or_default();
            return Err(Failed::from(format!(
                "--port {device}: reads {file} and writes nothing; write pcap:,{file} to write it"
            )));
        }
    }
    let mut options = options.clone();
    let mut folder = PathBuf::from(".");
    // Files of a configuration lie below its folder: here that is the folder of the capture file.
    if let Some(file) = options.replay.take() {
        folder = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(&folder).to_owned();
        options.replay = file.file_name().map(PathBuf::from);
        for device in options.port.iter_mut().chain(&mut options.rx) {
            *device = absolute(device);
        }
    }
    let document = plan::document(&options, core);
    from_document(&document, &folder)
}

/// Paths in a device text do not depend on the folder.
fn absolute(device: &str) -> String {
    let Some(files) = device.strip_prefix("pcap:") else { return device.to_owned() };
    let whole = |file: &str| {
        if file.is_empty() || file.contains('=') {
            return file.to_owned();
        }
        std::path::absolute(file).map_or_else(|_| file.to_owned(), |path| path.display().to_string())
    };
    format!("pcap:{}", files.split(',').map(whole).collect::<Vec<_>>().join(","))
}

/// Checks a configuration that the program itself has put together; relative paths start from `folder`.
pub(crate) fn from_document(document: &Document, folder: &Path) -> Result<Loaded, Failed> {
    let opened =
        Folder::open(folder).map_err(|error| format!("cannot open the folder {}: {error}", folder.display()))?;
    Ok(load_document(document, Path::new(&document.file), opened, Some(&[]), Next::Build)?)
}

/// A flag that the first SIGTERM or SIGINT raises; the second ends the process at once.
pub(crate) fn stop_on_signals() -> Result<Arc<AtomicBool>, Failed> {
    let stop = Arc::new(AtomicBool::new(false));
    let wrong = |error: std::io::Error| format!("cannot listen to signals: {error}");
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        // In this order: the first signal finds the flag clear, and sets it.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop)).map_err(wrong)?;
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(wrong)?;
    }
    Ok(stop)
}

/// Runs a configuration that holds one generator until its streams have come to their end or `stop` is raised, waits `linger` for
/// what is still on its way, and says what was found.
///
/// # Errors
///
/// The configuration holds no generator, or does not start.
pub(crate) fn run(loaded: Loaded, linger: Duration, stop: &AtomicBool) -> Result<Outcome, Failed> {
    let generators = loaded.functions().iter().filter(|function| function.element().kind() == GENERATOR.kind()).count();
    if generators != 1 {
        let problem =
            format!("the configuration declares {generators} functions \"{}\", and this needs one", GENERATOR.kind());
        return Err(Failed::from(problem));
    }
    let name = format!("generator-{}", std::process::id());
    let run_dir = socket::folder(&name)?;
    let how = Options { name, run_dir };
    let mut supervisor = Supervisor::start(loaded, &how).map_err(Failed::from)?;
    privileges::drop_after_start()?;
    let finished = wait_for_end(&mut supervisor, stop, &mut |_| Ok::<(), Failed>(()))? == End::Finished;
    wait(&mut supervisor, if finished { linger } else { Duration::ZERO });
    let report = ask(&mut supervisor)?;
    let stopped = supervisor.stop();
    let troubles: Vec<String> = stopped.sayings.troubles.iter().map(|(_, sentence)| sentence.clone()).collect();
    let inputs: Vec<stats::PortInput> = stopped.figures.iter().map(crate::handle::port_input).collect();
    let all = stats::from_snapshots(&stopped.workers, &inputs);
    let mut notes = troubles.clone();
    notes.extend(refused(&all));
    notes.extend(doubts(&report));
    if all.account.unaccounted != 0 {
        notes.push(format!("{} packets are unaccounted for: this is a bug", all.account.unaccounted));
    }
    let complete = finished && troubles.is_empty() && report.done;
    Ok(Outcome { report, complete, notes, account: all.account })
}

/// How the streams came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All was sent that was to be sent.
    Finished,
    /// Somebody asked for it.
    Stopped,
    /// A link was lost.
    LinkLost,
    /// A next hop does not tell its Ethernet address.
    Unresolved,
}

/// Waits until the streams of a generator have come to their end, one way or another. `meanwhile` is called every few milliseconds
/// with the time since the wait began; its error ends the wait.
pub(crate) fn wait_for_end<E>(
    supervisor: &mut Supervisor,
    stop: &AtomicBool,
    meanwhile: &mut dyn FnMut(Duration) -> Result<(), E>,
) -> Result<End, E> {
    let began = supervisor.now();
    // Some devices know only after a while that they are up.
    let mut was_up = false;
    loop {
        supervisor.tick();
        let elapsed = supervisor.now().saturating_sub(began);
        meanwhile(Duration::from_nanos(elapsed))?;
        let lost = supervisor.links_lost();
        if stop.load(Ordering::Relaxed) {
            return Ok(End::Stopped);
        }
        if lost && was_up {
            return Ok(End::LinkLost);
        }
        was_up |= !lost;
        if gauge(supervisor, "unfinished_streams") == 0.0 {
            return Ok(End::Finished);
        }
        if gauge(supervisor, "unresolved_next_hops") > 0.0 && elapsed > RESOLVE {
            return Ok(End::Unresolved);
        }
        if !supervisor.is_virtual() {
            std::thread::park_timeout(TICK);
        }
    }
}

fn gauge(supervisor: &Supervisor, wanted: &str) -> f64 {
    supervisor.gauges().into_iter().filter(|(_, name, ..)| *name == wanted).map(|(.., value)| value).sum()
}

/// Lets time pass.
pub(crate) fn wait(supervisor: &mut Supervisor, time: Duration) {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let end = supervisor.now().saturating_add(nanos);
    while supervisor.now() < end {
        supervisor.tick_until(end);
        if !supervisor.is_virtual() {
            std::thread::park_timeout(TICK);
        }
    }
}

/// The generator's numbers of this moment.
///
/// # Errors
///
/// Its workers do not give them.
pub(crate) fn ask(supervisor: &mut Supervisor) -> Result<GeneratorReport, Failed> {
    let began = supervisor.now();
    let mut report = ask_once(supervisor)?;
    if supervisor.is_virtual() {
        // Asked for by the first; the stages answer in the next rounds.
        wait(supervisor, Duration::from_millis(5));
        return ask_once(supervisor);
    }
    // On a machine that others use, a worker may not get its core for a while.
    while !report.current {
        if supervisor.now().saturating_sub(began) > ANSWER {
            return Err(Failed::from(
                "the generator's workers do not give their numbers: their cores are taken".to_owned(),
            ));
        }
        report = ask_once(supervisor)?;
    }
    Ok(report)
}

fn ask_once(supervisor: &mut Supervisor) -> Result<GeneratorReport, Failed> {
    let rows = supervisor.report_of(&GENERATOR).map_err(|error| Failed::from(error.0))?;
    let row = rows.into_iter().next().unwrap_or(Value::Null);
    serde_json::from_value(row).map_err(|error| Failed::from(format!("the generator's report cannot be read: {error}")))
}

/// Packets that were made and that a port refused.
fn refused(all: &stats::Stats) -> Vec<String> {
    let drops = all.drops.iter().filter(|drop| matches!(drop.reason.as_str(), "tx-full" | "link-down"));
    drops
        .map(|drop| {
            format!(
                "{} packets that count as sent were dropped at {} as {}: the port, not the device behind it, lost them",
                drop.packets, drop.stage, drop.reason
            )
        })
        .collect()
}

/// What speaks against the numbers.
fn doubts(report: &GeneratorReport) -> Vec<String> {
    let mut notes = Vec::new();
    for (port, hop) in &report.unresolved {
        notes.push(format!("{hop} on port {port} does not tell its Ethernet address; nothing was sent"));
    }
    for stream in &report.streams {
        let name = &stream.name;
        if stream.sent.slipped_ns > 0 {
            let millis = stream.sent.slipped_ns as f64 / 1e6;
            notes.push(format!(
                "stream {name}: the generator was the limit: its schedule was put off by {millis:.3} ms in all, because the core or \
                 the port did not keep up"
            ));
        }
        if let Some(asked) = stream.asked_pps
            && stream.sent.packets > 1000
            && stream.sent.late_ns > LATE
            && stream.sent.pps < asked * PRECISION
        {
            notes.push(format!(
                "stream {name}: {:.0} packets/s were sent of the {asked:.0} that were asked for",
                stream.sent.pps
            ));
        }
        if let Some(remark) = &stream.remark {
            notes.push(format!("stream {name}: of its capture file {remark}"));
        }
        if stream.sent.no_buffer > 0 {
            notes.push(format!("stream {name}: {} times no buffers were to be had", stream.sent.no_buffer));
        }
        if !stream.gives_up.is_empty() {
            notes.push(format!(
                "stream {name}: its packets have no room for all of the signature; not told: {}",
                stream.gives_up.join(", ")
            ));
        }
    }
    if report.stalls.count > 0 {
        let (total, longest) = (report.stalls.total_ns as f64 / 1e6, report.stalls.longest_ns as f64 / 1e3);
        notes.push(format!(
            "the machine was disturbed: the worker's loop stood still {} times for more than 5 us, {total:.3} ms in all, {longest:.1} us at \
             the longest",
            report.stalls.count
        ));
    }
    notes
}
