//! Trials of a device under test: a generator that runs in this process, between two ports.

use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_bench::rfc2544::{Device, Outage, frame_rate};
use weir_bench::search::{Latency, Stop, Trial, Trials};
use weir_config::{Document, Value};

use super::dut::Dut;
use crate::catalogue::{GENERATOR, GeneratorReport, StreamResult};
use crate::cli::Generate;
use crate::failure::Failed;
use crate::generate::{self, End, plan};
use crate::privileges;
use crate::socket;
use crate::stats;
use crate::supervisor::{Loaded, Options, Supervisor};

/// A stall of the generator's loop that is as long as this disturbs a trial: it sends too little for so long, and what waits for it may
/// be lost.
const LONG_STALL: Duration = Duration::from_micros(100);

/// So does a share of the trial that went to stalls of any length.
const STALLED: f64 = 0.001;

/// Before a device is restarted, packets flow for so long.
const BEFORE_RESTART: Duration = Duration::from_secs(1);

/// A device forwards again if packets came up to so many seconds before the end.
const RECOVERED: f64 = 0.1;

/// What is measured, and how.
pub(super) struct Setup {
    /// The generator: ports and packets. Rate, size and times are those of each trial.
    pub(super) generator: Generate,
    /// The generator's core.
    pub(super) core: u16,
    /// The device, if it runs in this process.
    pub(super) dut: Option<Dut>,
    /// Bits per second of the link.
    pub(super) link: u64,
    /// Packets per second to send at most.
    pub(super) max_rate: Option<u64>,
    /// How long to wait for late packets.
    pub(super) linger: Duration,
    /// The command that restarts the device, and how long to send meanwhile.
    pub(super) restart: Option<(String, Duration)>,
    /// Raised when no more trials shall be made.
    pub(super) stop: Arc<AtomicBool>,
}

/// A device under test with the generator around it. It keeps running from trial to trial; only streams are replaced.
pub(super) struct Bench {
    setup: Setup,
    supervisor: Option<Supervisor>,
    size: u32,
    max_load: f64,
    /// Trials so far: each has streams of its own name, else it would be none for a reload to start.
    trials: u64,
    /// Packets that the generator's own port has refused so far.
    refused: u64,
}

/// What a trial is to send.
struct Load {
    packets_per_second: f64,
    amount: Amount,
    /// Whether the device is restarted in the meantime.
    restarts: bool,
}

enum Amount {
    Frames(u64),
    Time(Duration),
}

/// What a trial sent and found.
struct Run {
    report: GeneratorReport,
    refused: u64,
    elapsed: f64,
}

impl Bench {
    pub(super) fn new(setup: Setup) -> Bench {
        Bench { setup, supervisor: None, size: 64, max_load: 0.0, trials: 0, refused: 0 }
    }

    /// Stops everything and checks the account.
    pub(super) fn end(self) -> Result<(), String> {
        let Some(supervisor) = self.supervisor else { return Ok(()) };
        let stopped = supervisor.stop();
        let unaccounted: i64 = stopped.workers.iter().map(|worker| worker.account.unaccounted()).sum();
        if unaccounted != 0 {
            return Err(format!("{unaccounted} packets are unaccounted for: this is a bug"));
        }
        Ok(())
    }

    fn document(&self, load: &Load) -> Document {
        let mut options = self.setup.generator.clone();
        options.size = Some(self.size.to_string());
        options.rate = Some(format!("{} pps", load.packets_per_second.round().max(1.0)));
        options.signature = true;
        match load.amount {
            Amount::Frames(frames) => options.count = Some(frames.max(1)),
            Amount::Time(time) => options.duration = Some(format!("{} ns", time.as_nanos())),
        }
        let mut document = plan::document(&options, self.setup.core);
        for declaration in &mut document.declarations {
            if declaration.kind == weir_stage::Function::kind(&GENERATOR) {
                name_streams(&mut declaration.table, &format!("trial-{}", self.trials));
            }
        }
        let spin = plan::table([("idle", Some(Value::from("spin")))]);
        document.declarations.push(plan::declaration("engine", spin));
        match &self.setup.dut {
            Some(dut) => dut.with(document),
            None => document,
        }
    }

    fn load(&self, load: &Load) -> Result<Loaded, Failed> {
        let folder = self.setup.dut.as_ref().map_or(Path::new("."), Dut::folder);
        generate::from_document(&self.document(load), folder)
    }

    /// Starts the streams of a trial.
    fn start(&mut self, load: &Load) -> Result<(), Stop> {
        self.trials += 1;
        let loaded = self.load(load).map_err(failed)?;
        let started = match &mut self.supervisor {
            Some(supervisor) => supervisor.reload(loaded),
            None => {
                let name = format!("bench-{}", std::process::id());
                let run_dir = socket::folder(&name).map_err(|error| failed(Failed::from(error)))?;
                let how = Options { name, run_dir };
                Supervisor::start(loaded, &how).map(|supervisor| self.supervisor = Some(supervisor))
            }
        };
        // A command that restarts a device may need what this program does not need any more.
        if self.trials == 1 && self.setup.restart.is_none() {
            privileges::drop_after_start().map_err(Stop::Failed)?;
        }
        started.map_err(|failure| failed(Failed::from(failure)))
    }

    /// Carries out a trial. `meanwhile` is called again and again with the time since it began.
    fn run(&mut self, load: &Load, meanwhile: &mut dyn FnMut(Duration) -> Result<(), Stop>) -> Result<Run, Stop> {
        if self.setup.stop.load(Ordering::Relaxed) {
            return Err(Stop::Interrupted);
        }
        self.start(load)?;
        let Some(supervisor) = &mut self.supervisor else { return Err(Stop::Interrupted) };
        let began = supervisor.now();
        let mut end = generate::wait_for_end(supervisor, &self.setup.stop, meanwhile)?;
        // A device that restarts may take the link with it.
        while end == End::LinkLost && load.restarts {
            end = generate::wait_for_end(supervisor, &self.setup.stop, meanwhile)?;
        }
        check(end, supervisor)?;
        generate::wait(supervisor, self.setup.linger);
        let report = generate::ask(supervisor).map_err(failed)?;
        let elapsed = supervisor.now().saturating_sub(began) as f64 / 1e9;
        let snapshots = supervisor.snapshots();
        let drops = stats::from_snapshots(&snapshots, &[]).drops;
        let own = drops.iter().filter(|drop| drop.stage.starts_with(plan::SENDER) && drop.reason == "tx-full");
        let refused: u64 = own.map(|drop| drop.packets).sum();
        let before = std::mem::replace(&mut self.refused, refused);
        Ok(Run { report, refused: refused.saturating_sub(before), elapsed })
    }

    fn trial(
        &mut self,
        load: Load,
        meanwhile: &mut dyn FnMut(Duration) -> Result<(), Stop>,
    ) -> Result<(Trial, StreamResult), Stop> {
        let run = self.run(&load, meanwhile)?;
        let stream =
            run.report.streams.first().ok_or_else(|| Stop::Failed("the generator has no stream".to_owned()))?;
        let (intended, duration) = match load.amount {
            Amount::Frames(frames) => (frames, frames as f64 / load.packets_per_second),
            Amount::Time(time) => ((load.packets_per_second * time.as_secs_f64()).round() as u64, time.as_secs_f64()),
        };
        let offered = stream.sent.packets.saturating_sub(run.refused);
        let received = stream.received.as_ref().map_or(0, |received| received.received);
        let trial = Trial {
            load: load.packets_per_second,
            duration,
            intended,
            offered,
            lost: offered.saturating_sub(received),
            elapsed: run.elapsed,
            disturbed: disturbance(&run.report, duration),
            latency: latency(stream),
        };
        Ok((trial, stream.clone()))
    }
}

/// Whether a trial came to its end.
fn check(end: End, supervisor: &mut Supervisor) -> Result<(), Stop> {
    let troubles = supervisor.find_troubles();
    match end {
        End::Stopped => Err(Stop::Interrupted),
        End::LinkLost => Err(Stop::Failed("a port has no link any more".to_owned())),
        End::Unresolved => {
            Err(Stop::Failed("the next hop of --via does not tell its Ethernet address; nothing was sent".to_owned()))
        }
        End::Finished => match troubles.into_iter().next() {
            Some((port, sentence)) => Err(Stop::Failed(format!("port {port}: {sentence}"))),
            None => Ok(()),
        },
    }
}

fn failed(failed: Failed) -> Stop {
    Stop::Failed(failed.to_string().trim_end().trim_start_matches("weir: ").to_owned())
}

/// Gives all streams of a generator a name.
fn name_streams(table: &mut Value, name: &str) {
    let Value::Table(table) = table else { return };
    let Some(Value::List(streams)) = table.0.get_mut(&"streams".into()) else { return };
    for stream in streams {
        if let Value::Table(stream) = stream {
            stream.set("name", Value::text(name));
        }
    }
}

/// What disturbed the generator, if anything did.
fn disturbance(report: &GeneratorReport, seconds: f64) -> Option<String> {
    let stalls = report.stalls;
    let long = u128::from(stalls.longest_ns) >= LONG_STALL.as_nanos();
    let often = stalls.total_ns as f64 / 1e9 > seconds * STALLED;
    (long || often).then(|| {
        format!(
            "the generator's loop stood still {} times for more than 5 us, {:.1} us at the longest, {:.3} ms in all",
            stalls.count,
            stalls.longest_ns as f64 / 1e3,
            stalls.total_ns as f64 / 1e6
        )
    })
}

fn latency(stream: &StreamResult) -> Option<Latency> {
    let all = stream.received.as_ref()?.latency_ns?;
    Some(Latency { all, calm: stream.calm_latency_ns, set_aside: stream.set_aside })
}

impl Trials for Bench {
    fn measure(&mut self, load: f64, duration: f64) -> Result<Trial, Stop> {
        // Loads are whole packets per second, and a trial has at least one.
        let packets_per_second = load.round().max(1.0);
        let amount = Amount::Time(Duration::from_secs_f64(duration));
        let (trial, _) = self.trial(Load { packets_per_second, amount, restarts: false }, &mut |_| Ok(()))?;
        Ok(Trial { load, ..trial })
    }
}

impl Device for Bench {
    fn frame_size(&mut self, bytes: u32) -> Result<f64, Stop> {
        self.size = bytes;
        let line = frame_rate(self.setup.link as f64, bytes).floor();
        self.max_load = self.setup.max_rate.map_or(line, |most| line.min(most as f64));
        Ok(self.max_load)
    }

    fn burst(&mut self, frames: u64) -> Result<Trial, Stop> {
        let load = Load { packets_per_second: self.max_load, amount: Amount::Frames(frames), restarts: false };
        Ok(self.trial(load, &mut |_| Ok(()))?.0)
    }

    fn restart(&mut self, load: f64) -> Result<Outage, Stop> {
        let Some((command, time)) = self.setup.restart.clone() else {
            return Err(Stop::Failed(
                "there is no command that restarts the device; name one with --restart".to_owned(),
            ));
        };
        let packets_per_second = load.round().max(1.0);
        let mut restarting = Restarting { command, child: None, ended: false };
        let load = Load { packets_per_second, amount: Amount::Time(time), restarts: true };
        let (trial, stream) = self.trial(load, &mut |passed| restarting.look(passed))?;
        restarting.check_ended()?;
        let received = stream.received.as_ref();
        let gap = received.and_then(|received| received.gaps_ns).map(|gaps| gaps.max as f64 / 1e9);
        let at_end = received.map_or(trial.offered, |received| received.lost_at_end);
        Ok(Outage { recovered: (at_end as f64) < packets_per_second * RECOVERED, gap, trial })
    }
}

/// The command that restarts the device.
struct Restarting {
    command: String,
    child: Option<Child>,
    ended: bool,
}

impl Restarting {
    fn look(&mut self, passed: Duration) -> Result<(), Stop> {
        if self.ended || passed < BEFORE_RESTART {
            return Ok(());
        }
        let wrong = |error: std::io::Error| Stop::Failed(format!("cannot run the command of --restart: {error}"));
        let child = match &mut self.child {
            Some(child) => child,
            None => self.child.insert(Command::new("/bin/sh").arg("-c").arg(&self.command).spawn().map_err(wrong)?),
        };
        match child.try_wait().map_err(wrong)? {
            Some(status) if !status.success() => {
                self.ended = true;
                Err(Stop::Failed(format!("the command of --restart failed: {status}")))
            }
            status => {
                self.ended = status.is_some();
                Ok(())
            }
        }
    }

    fn check_ended(&mut self) -> Result<(), Stop> {
        if self.ended {
            Ok(())
        } else {
            Err(Stop::Failed(
                "the command of --restart did not end in time; give it more with --restart-duration".to_owned(),
            ))
        }
    }
}

impl Drop for Restarting {
    fn drop(&mut self) {
        // A command that is still busy when the trial is over is not left behind.
        if let Some(child) = self.child.as_mut().filter(|_| !self.ended) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
