//! `weir run`: starting, the loop that everything comes together in, and stopping.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::cli;
use crate::failure::Failed;
use crate::handle::{Running, Then, port_input};
use crate::log;
use crate::metrics;
use crate::privileges;
use crate::render::{self, Style};
use crate::server::{Answer, Job, Limits, Scene, Server};
use crate::services::{self, Services, guarded, tell_of_stages};
use crate::signals;
use crate::socket;
use crate::source::Source;
use crate::stats::{self, Stats};
use crate::supervisor::{Next, Options, Sayings, Sides, Supervisor};
use crate::trace::Decision;
use crate::watch::Watch;
use weir_protocol::{Request, Response};
use weir_stage::MakeService;

/// Jobs that wait while one is carried out.
const JOBS: usize = 64;

/// How often what is due is looked after while no job comes.
const TICK: Duration = Duration::from_millis(10);

/// The same under the virtual clock when nothing moves.
const VIRTUAL_TICK: Duration = Duration::from_millis(1);

/// Ticks between two looks at whether all input has come to its end.
const DRAINED_EVERY: u32 = 2;

/// Runs a configuration until it is told to stop.
pub(crate) fn run(options: &cli::Run) -> Result<(), Failed> {
    let done = run_to_the_end(options);
    log::finish();
    done
}

fn run_to_the_end(options: &cli::Run) -> Result<(), Failed> {
    privileges::drop_unneeded()?;
    log::set_level(options.log_level);
    if let Some(file) = &options.log {
        log::to_file(file)?;
    }
    tell_of_stages();
    let (jobs, todo) = sync_channel(JOBS);
    let signals = signals::listen(&jobs)?;
    let path = socket::path(options.target.socket.as_deref(), &options.target.name)?;
    let bound = socket::bind(&path)?;
    let source = Source::own(&options.file);
    let switches = options.allowed.switches();
    let loaded = source.load(&switches, Next::Build, &Sides::default())?;
    let run_dir = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let how = Options { name: options.target.name.clone(), run_dir: run_dir.to_owned() };
    let supervisor = Supervisor::start(loaded, &how).map_err(Failed::from)?;
    privileges::drop_after_start()?;
    let (server, socket) = Server::new(bound, jobs.clone(), Limits::default())
        .map_err(|error| format!("cannot serve the control socket: {error}"))?;
    let mut makers: Vec<Box<dyn MakeService>> = vec![Box::new(log::Maker), signals, socket];
    if let Some(address) = options.metrics {
        let (address, metrics) = metrics::listen(address, jobs.clone(), metrics::Limits::default())?;
        log::info("metrics", "metrics are served", &[("address", &address)]);
        makers.push(metrics);
    }
    let services = Services::start(makers, services::Limits::default())
        .map_err(|error| format!("cannot start the services: {error}"))?;
    say("ready\n");
    log::info("run", "all workers run", &[("file", &options.file.display()), ("socket", &path.display())]);
    let mut running =
        Running { supervisor, source, own: options.file.clone(), switches, reloading: None, services, jobs };
    running.serve_needs();
    running.warn();
    let mut watch = Watch::default();
    let then = go_on(&mut running, &todo, options.until_drained, &mut watch);
    tell(&running.supervisor);
    // In this order: who still waits for an answer gets none, and can take its leave.
    drop(todo);
    let Running { supervisor, services, .. } = running;
    drop(services);
    drop(server);
    let sayings = stop(supervisor, options.json)?;
    watch.hear(&sayings);
    match then {
        Then::Restart => Err(restart()),
        // What is wrong was said in the log; whoever takes the output files for whole must not.
        _ if !sayings.troubles.is_empty() => Err(Failed::Silent),
        _ => Ok(()),
    }
}

/// The loop: jobs as they come, and in between what is due.
fn go_on(running: &mut Running, todo: &Receiver<Job>, until_drained: bool, watch: &mut Watch) -> Then {
    let mut ticks: u32 = 0;
    let mut waiting: VecDeque<Job> = VecDeque::new();
    loop {
        let busy = running.supervisor.tick();
        let is_virtual = running.supervisor.is_virtual();
        // A run that ends by itself has nobody to be considerate of.
        let wait = match (is_virtual, busy || until_drained) {
            (true, true) => Duration::ZERO,
            (true, false) => VIRTUAL_TICK,
            (false, _) => TICK,
        };
        if !busy {
            ticks = ticks.wrapping_add(1);
            watch.look(&running.supervisor);
            tell(&running.supervisor);
            let look = until_drained && (is_virtual || ticks.is_multiple_of(DRAINED_EVERY));
            if look && running.supervisor.drained() {
                return Then::Stop;
            }
        }
        let is_reloading = running.is_reloading();
        let next = if is_reloading { None } else { waiting.pop_front() };
        match next.map_or_else(|| todo.recv_timeout(wait), Ok) {
            Ok(job) if is_reloading && changes_functions(&job) => waiting.push_back(job),
            Ok(job) => match carry_out(running, job) {
                Then::GoOn => {}
                then => return then,
            },
            Err(RecvTimeoutError::Timeout) => {}
            // What listens to signals has a sender too, so this is the end of everything.
            Err(RecvTimeoutError::Disconnected) => return Then::Stop,
        }
    }
}

/// Whether a job has to wait while functions are built for a reload, or changed by it: what it changed would be lost with the old
/// ones. As many wait as there are clients, each of which waits for its answer.
fn changes_functions(job: &Job) -> bool {
    matches!(job, Job::TakeOver(..) | Job::Ask { request: Request::Change { .. }, .. })
}

/// Carries a job out. One that panics is refused, and all others go on: packets do not stop for a bug in a request.
fn carry_out(running: &mut Running, job: Job) -> Then {
    // Who asked may have gone in the meantime; that is no reason to stop.
    match job {
        Job::Ask { request, rights, reply } => {
            let (answer, then) = answered(|| running.handle(request, rights));
            reply.send(answer);
            return then;
        }
        Job::TakeOver(candidate, reply) => {
            let (answer, then) = answered(|| running.adopt(*candidate));
            let _ = reply.send(answer);
            return then;
        }
        Job::PutInPlace(ready, reply) => {
            let (answer, _) = answered(|| (running.put_in_place(*ready), Then::GoOn));
            let _ = reply.send(answer);
        }
        Job::Finish(ticket, reply) => {
            let (answer, _) = answered(|| (running.finish(&ticket), Then::GoOn));
            let _ = reply.send(answer);
        }
        Job::Scene(reply) => {
            let ports = running.supervisor.port_names();
            let _ = reply.send(Scene { now: running.supervisor.now(), ports });
        }
        Job::Explain(decisions, reply) => {
            let explain = |decided: &Decision| {
                let Decision { stage, way, then, packet } = decided;
                running.supervisor.explain(stage, way, packet, *then)
            };
            let explained = guarded(|| Ok(decisions.iter().map(explain).collect()));
            // A packet is followed without such words, too.
            let _ = reply.send(explained.unwrap_or_else(|why| {
                log::error("run", "what stages decided cannot be told", &[("why", &why)]);
                Vec::new()
            }));
        }
        Job::Watch(observer, reply) => {
            running.supervisor.observe(&observer);
            let _ = reply.send(());
        }
        Job::Unwatch(observer, reply) => {
            running.supervisor.unobserve(&observer);
            let _ = reply.send(());
        }
    }
    Then::GoOn
}

/// An answer, which is a refusal where making it panicked.
fn answered(act: impl FnOnce() -> (Answer, Then)) -> (Answer, Then) {
    guarded(|| Ok(act())).unwrap_or_else(|why| {
        log::error("run", "a request failed; packets go on", &[("why", &why)]);
        let message = format!(
            "the request failed within Weir: {why}; part of it may be done: look at what it was about, and restart Weir when it suits"
        );
        (Answer::Whole(Response::refused(message)), Then::GoOn)
    })
}

/// Writes to the log what functions have to say, and what was held back of what was said before.
fn tell(supervisor: &Supervisor) {
    for (function, notice) in supervisor.notices() {
        let facts = notice.facts.iter().map(|(name, fact)| (*name, fact as &dyn Display));
        let facts: Vec<_> = [("function", &function as &dyn Display)].into_iter().chain(facts).collect();
        log::bounded("function", notice.message, &facts);
    }
    log::tell_held_back(false);
}

/// Stops what runs and prints the account; returns what ports had to say at the end. Fails where a worker is stuck, whose last
/// numbers are not those of the end.
fn stop(supervisor: Supervisor, json: bool) -> Result<Sayings, Failed> {
    let (time, hz) = (supervisor.now(), supervisor.hz());
    let stopped = supervisor.stop();
    let inputs: Vec<stats::PortInput> = stopped.figures.iter().map(port_input).collect();
    let stats = Stats { time, tsc_hz: hz, ..stats::from_snapshots(&stopped.workers, &inputs) };
    if json {
        let mut value = serde_json::to_value(&stats).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.insert("missing_buffers".to_owned(), stopped.missing.into());
        }
        say(&format!("{value}\n"));
    } else {
        say(&render::last(&stats, Style::of_stdout()));
    }
    let account = &stats.account;
    let facts: log::Facts<'_> = &[
        ("received", &account.received),
        ("transmitted", &account.transmitted),
        ("dropped", &account.dropped),
        ("unaccounted", &account.unaccounted),
    ];
    log::info("run", "Weir has stopped", facts);
    log::tell_held_back(true);
    if let [_, ..] = stopped.stuck.as_slice() {
        let ids = stopped.stuck.join(", ");
        log::error("worker", "a worker is stuck in a stage and was left behind", &[("worker", &ids)]);
        return Err(Failed::from(format!(
            "stuck in a stage and left behind: worker {ids}; its numbers are those that it told last, and its ports were not \
             closed; look for a loop without an end in a stage that is not bounded"
        )));
    }
    if stats.account.unaccounted != 0 {
        log::error("account", "packets are unaccounted for: this is a bug", &[("packets", &stats.account.unaccounted)]);
    }
    if stopped.missing != 0 {
        log::error("account", "buffers did not come back: this is a bug", &[("buffers", &stopped.missing)]);
    }
    Ok(stopped.sayings)
}

/// Starts this program anew in this process's place, with the same arguments. Returns only if that is impossible.
fn restart() -> Failed {
    log::finish();
    let error = Command::new("/proc/self/exe").args(std::env::args_os().skip(1)).exec();
    Failed::from(format!("cannot start again: {error}"))
}

/// Prints at once. Where the output is closed nobody wants to know.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
