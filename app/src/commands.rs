//! Commands that talk to a running Weir, or need none.

mod capture;
mod change;
mod check;
mod import;
mod log;
mod reload;
mod save;
mod show;
mod trace;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

pub(crate) use capture::capture;
pub(crate) use change::change;
pub(crate) use check::check;
pub(crate) use import::import;
pub(crate) use log::log;
pub(crate) use reload::reload;
pub(crate) use save::save;
pub(crate) use show::show;
pub(crate) use trace::trace;

use crate::bench;
use crate::catalogue;
use crate::cli;
use crate::client::Client;
use crate::complete;
use crate::failure::Failed;
use crate::generate;
use crate::privileges;
use crate::socket;
use crate::version::{self, Version};
use weir_protocol::{Request, VERSION};

/// Connects to the Weir that is meant.
pub(crate) fn connect(target: &cli::Target) -> Result<Client, Failed> {
    Ok(Client::connect(&socket::path(target.socket.as_deref(), &target.name)?)?)
}

/// Prints. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failed> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(Failed::Silent),
        Err(error) => Err(Failed::from(format!("cannot print: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Prints data as JSON, an object with the version of its form.
pub(crate) fn print_json(mut value: Value) -> Result<(), Failed> {
    if let Some(object) = value.as_object_mut() {
        object.entry("version").or_insert_with(|| VERSION.into());
    }
    print(&format!("{value:#}\n"))
}

/// `weir version`.
pub(crate) fn version(options: &cli::Version) -> Result<(), Failed> {
    let here = version::here(catalogue::FUNCTIONS.iter().map(|function| function.kind()));
    // Not being able to ask is no failure: there may be nobody to ask.
    let running = connect(&options.target).and_then(|mut client| Ok(client.read::<Version>(Request::Version)?)).ok();
    if options.json {
        return print_json(json!({ "program": here, "running": running }));
    }
    let mut text = format!("weir {}\n{}\nfunctions: {}\n", here.weir, here.dpdk, here.functions.join(", "));
    match running {
        Some(running) => text.push_str(&format!("running: weir {}, process {}\n", running.weir, running.process)),
        None => text.push_str("running: none that can be asked\n"),
    }
    print(&text)
}

/// `weir manual`.
pub(crate) fn manual(options: &cli::Manual) -> Result<(), Failed> {
    let kinds = catalogue::kinds();
    let Some(word) = &options.kind else {
        return print(&kinds.kinds().iter().map(weir_config::Kind::manual).collect::<Vec<_>>().join("\n"));
    };
    match kinds.kind(word) {
        Some(kind) => print(&kind.manual()),
        None => {
            let remedy = match weir_config::nearest(word, kinds.names()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("there are {}", kinds.names().join(", ")),
            };
            Err(Failed::from(format!("nothing is declared with \"{word}\"; {remedy}")))
        }
    }
}

/// `weir completion`.
pub(crate) fn completion(options: &cli::Completion) -> Result<(), Failed> {
    print(complete::script(&options.shell))
}

/// `weir complete`: what the scripts of shells ask.
pub(crate) fn complete(options: &cli::Complete) -> Result<(), Failed> {
    let command = cli::command(catalogue::FUNCTIONS);
    let found = complete::candidates(command, catalogue::FUNCTIONS, &options.words, &mut complete::Asker);
    let line = |(word, help): &complete::Candidate| format!("{}\n", format!("{word}\t{help}").trim_end());
    print(&found.iter().map(line).collect::<String>())
}

/// `weir bench cpp`.
pub(crate) fn bench_cpp(options: &cli::Cpp) -> Result<(), Failed> {
    let measured = bench::CppOptions {
        function: options.function.clone(),
        cases: options.cases.clone(),
        runs: options.runs as usize,
        data: options.data.clone(),
        core: options.core,
        fill: options.fill as usize,
        sampling: !options.no_sampling,
        instructions: options.instructions,
        numbers: options.set.iter().cloned().collect(),
    };
    let mut stop = || generate::stop_on_signals().map_err(|problem| problem.to_string());
    let record = bench::cpp(&measured, &mut stop, &mut |text| eprintln!("{text}"))?;
    let short = weir_bench::CyclesPerPacket::of(&options.function, &record.points);
    report(&record, options.json.then_some(&short), options.report.as_deref(), "cpp")
}

/// `weir bench rfc2544`.
pub(crate) fn bench_rfc2544(options: &cli::Rfc2544) -> Result<(), Failed> {
    // The command that restarts a device may need what this program does not.
    if options.restart.is_none() {
        privileges::drop_unneeded()?;
    }
    let stop = generate::stop_on_signals()?;
    let found = bench::rfc2544(options, stop, &mut |text| eprintln!("{text}"))?;
    if let Some(folder) = &options.report {
        let trials = weir_bench::write_json(&found.report, folder, "rfc2544-trials")?;
        eprintln!("wrote {}", trials.display());
    }
    report(&found.record, options.json.then_some(&found.short()), options.report.as_deref(), "rfc2544")
}

/// `weir bench peers`.
pub(crate) fn bench_peers(options: &cli::Peers) -> Result<(), Failed> {
    let stop = generate::stop_on_signals()?;
    let wanted = bench::PeersOptions {
        peers: options.peers.clone(),
        works: options.works.clone(),
        runs: options.runs,
        window: Duration::from_secs_f64(options.seconds),
        core: options.core,
        data: options.data.clone(),
        patience: Duration::from_secs_f64(options.patience),
    };
    // Whoever reads along may have gone; peers must be ended all the same.
    let mut progress = |text: &str| drop(writeln!(std::io::stderr(), "{text}"));
    let record = bench::peers(&wanted, stop, &mut progress)?;
    let short = weir_bench::peers::Beside::of(&record.points);
    report(&record, options.json.then_some(&short), options.report.as_deref(), "peers")
}

/// `weir bench shaping`.
pub(crate) fn bench_shaping(options: &cli::Shaping) -> Result<(), Failed> {
    let stop = generate::stop_on_signals()?;
    let wanted = bench::ShapingOptions {
        checks: options.checks.clone(),
        users: options.users,
        time: Duration::from_secs_f64(options.seconds),
        core: options.core,
    };
    let (record, verdicts) = bench::shaping(&wanted, &stop, &mut |text| eprintln!("{text}"))?;
    report(&record, options.json.then_some(&verdicts), options.report.as_deref(), "shaping")?;
    match verdicts.verdicts.iter().filter(|verdict| !verdict.kept).count() {
        0 => Ok(()),
        missed => Err(Failed::Incomplete(vec![format!("{missed} of {} criteria are missed", verdicts.verdicts.len())])),
    }
}

/// `weir bench flowstat`.
pub(crate) fn bench_flowstat(options: &cli::FlowstatBench) -> Result<(), Failed> {
    let wanted = bench::FlowstatOptions {
        packets: options.packets.clone(),
        by: options.by.clone(),
        runs: options.runs,
        memory: options.memory,
        folder: options.folder.clone().unwrap_or_else(std::env::temp_dir),
        keep: options.keep,
    };
    let record = bench::flowstat(&wanted, &mut |text| eprintln!("{text}"))?;
    report(&record, options.json.then_some(&()), options.report.as_deref(), "flowstat")
}

/// A record as JSON, and beside its keys those of `short`.
#[derive(serde::Serialize)]
struct WithShort<'r, S> {
    #[serde(flatten)]
    record: &'r weir_bench::Record,
    #[serde(flatten)]
    short: &'r S,
}

/// Prints what was measured, as JSON with its short form if that is asked for, and writes the files of a report into a folder if
/// one is given.
fn report<S: serde::Serialize>(
    record: &weir_bench::Record,
    json: Option<&S>,
    folder: Option<&Path>,
    name: &str,
) -> Result<(), Failed> {
    match json {
        Some(short) => {
            print_json(serde_json::to_value(WithShort { record, short }).map_err(|error| error.to_string())?)?;
        }
        None => print(&weir_bench::table(record))?,
    }
    if let Some(folder) = folder {
        for file in weir_bench::write_report(record, folder, name)? {
            eprintln!("wrote {}", file.display());
        }
    }
    match &record.partial {
        Some(reason) => Err(Failed::Incomplete(vec![format!("the result is partial: {reason}")])),
        None => Ok(()),
    }
}

/// `weir bench run`.
pub(crate) fn bench_run(options: &cli::BenchRun) -> Result<(), Failed> {
    let folder = options.report.clone().unwrap_or_else(|| "results".into());
    let wanted = bench::RunOptions {
        file: options.file.clone(),
        folder: folder.clone(),
        data: options.data.clone(),
        runs: options.runs,
    };
    if options.check {
        return print(&format!("{}\n", bench::check_only(&wanted)?));
    }
    let ran = bench::run(&wanted, &mut |text| eprintln!("{text}"))?;
    report(&ran.record, options.json.then_some(&()), Some(&folder), &ran.name)
}

/// A sample of `weir bench run`, in its own process.
pub(crate) fn bench_sample(job: &str) -> Result<(), Failed> {
    print(&format!("{}\n", bench::sample_job(job)?))
}

/// What `weir bench cpp --instructions` runs under an emulator.
pub(crate) fn bench_count(job: &str) -> Result<(), Failed> {
    print(&format!("{}\n", bench::count_job(job)?))
}

/// `weir bench compare`.
pub(crate) fn bench_compare(options: &cli::Compare) -> Result<(), Failed> {
    let before = weir_bench::read_record(&options.before)?;
    let after = weir_bench::read_record(&options.after)?;
    let comparison = weir_bench::compare(&before, &after, options.level);
    if options.json {
        return print_json(serde_json::to_value(&comparison).map_err(|error| error.to_string())?);
    }
    print(&format!("{comparison}\n"))
}
