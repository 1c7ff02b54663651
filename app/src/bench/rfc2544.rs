//! `weir bench rfc2544`: the experiments of RFC 2544 on a device behind two ports, or on a configuration in this process.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::json;
use weir_bench::rfc2544::{Config, FrameReport, Report, Search, Test, run};
use weir_bench::{Record, Value};

use super::dut::{Dut, cable};
use super::trials::{Bench, Setup};
use crate::cli::{Generate, Rfc2544};
use crate::failure::Failed;

/// The longest frame of a port whose MTU nobody set, bytes with the check sequence.
const USUAL_FRAME: u32 = 1518;

/// What of that is no IP packet.
const ETHERNET: u32 = 18;

/// What was found: the figures, and every trial.
pub(crate) struct Found {
    /// In the form of all reports.
    pub(crate) record: Record,
    /// With all trials.
    pub(crate) report: Report,
}

impl Found {
    /// The throughput of each frame size, for whoever wants no more.
    pub(crate) fn short(&self) -> serde_json::Value {
        let one = |frame: &FrameReport| {
            let found = frame.throughput.as_ref();
            json!({
                "frame_size": frame.frame_size,
                "ndr": found.and_then(|found| found.ndr),
                "pdr": found.and_then(|found| found.pdr),
            })
        };
        json!({ "throughput": self.report.frames.iter().map(one).collect::<Vec<_>>() })
    }
}

/// Carries the experiments out. `progress` is told what comes next.
pub(crate) fn rfc2544(
    options: &Rfc2544,
    stop: Arc<AtomicBool>,
    progress: &mut dyn FnMut(&str),
) -> Result<Found, Failed> {
    let config = config(options)?;
    let dut = options.device.as_deref().map(|file| Dut::load(file, &options.tx, &options.rx)).transpose()?;
    let core = core(options, dut.as_ref())?;
    let (record, took) = super::begin("RFC 2544");
    let mut bench = Bench::new(Setup {
        generator: generator(options, dut.is_some()),
        core,
        dut,
        link: options.link_speed,
        max_rate: options.max_rate,
        linger: std::time::Duration::from_secs_f64(config.linger),
        restart: options.restart.clone().map(|command| (command, options.restart_duration)),
        stop,
    });
    let report = run(&config, &mut bench, progress).map_err(Failed::Sentences)?;
    let wrong = bench.end().err();
    let record = Record {
        settings: settings(options, &config, core),
        configurations: configurations(options.device.as_deref()),
        partial: wrong,
        ..record
    };
    Ok(Found { record: took.end(report.fill(record)), report })
}

fn config(options: &Rfc2544) -> Result<Config, Failed> {
    let usual = Config::default();
    let quick = Config {
        duration: 1.0,
        linger: 0.2,
        latency_duration: 1.0,
        latency_repeats: 3,
        burst_duration: 0.2,
        burst_repeats: 3,
        ..usual.clone()
    };
    let base = if options.quick { quick } else { usual };
    let seconds = |time: Option<std::time::Duration>, usual: f64| time.map_or(usual, |time| time.as_secs_f64());
    let sizes = |given: &[u32]| if given.is_empty() { base.frame_sizes.clone() } else { given.to_vec() };
    let config = Config {
        frame_sizes: sizes(&options.sizes),
        tests: tests(options, &base.tests),
        search: match options.search.as_str() {
            "binary" => Search::Binary,
            "mlr-strict" => Search::MlrStrict,
            _ => Search::Mlr,
        },
        duration: seconds(options.duration, base.duration),
        linger: seconds(options.linger, base.linger),
        relative_width: options.width / 100.0,
        min_load: options.min_rate as f64,
        latency_duration: seconds(options.latency_duration, base.latency_duration),
        latency_repeats: options.latency_runs.unwrap_or(base.latency_repeats),
        burst_duration: seconds(options.burst_duration, base.burst_duration),
        burst_repeats: options.burst_runs.unwrap_or(base.burst_repeats),
        reset_repeats: options.restart_runs,
        ..base
    };
    let mut mistakes = config.mistakes();
    if config.tests.contains(&Test::Reset) {
        match (&options.restart, &options.device) {
            (_, Some(_)) => {
                mistakes.push("a device in this process cannot be restarted alone; leave the test reset out".to_owned())
            }
            (None, None) => {
                mistakes.push("the test reset needs the command that restarts the device: --restart".to_owned())
            }
            (Some(_), None) => {}
        }
    }
    if mistakes.is_empty() { Ok(config) } else { Err(Failed::Sentences(mistakes)) }
}

/// The tests in the order in which they can be done.
fn tests(options: &Rfc2544, usual: &[Test]) -> Vec<Test> {
    let all = [
        ("throughput", Test::Throughput),
        ("latency", Test::Latency),
        ("frame-loss", Test::FrameLoss),
        ("back-to-back", Test::BackToBack),
        ("reset", Test::Reset),
    ];
    let asked = |name: &str| options.tests.iter().any(|test| test == name);
    if options.tests.is_empty() {
        return usual.to_vec();
    }
    all.into_iter().filter(|(name, _)| asked(name)).map(|(_, test)| test).collect()
}

/// The generator's core, which nobody else may use.
fn core(options: &Rfc2544, dut: Option<&Dut>) -> Result<u16, Failed> {
    let usable: Vec<u16> = weir_engine::usable_cores().into_iter().map(|core| core as u16).collect();
    let busy = dut.map_or(&[][..], Dut::cores);
    let free = usable.iter().rev().copied().find(|core| !busy.contains(core));
    match (options.core, free) {
        (Some(core), _) if busy.contains(&core) => Err(Failed::from(format!(
            "core {core} is one of the device's; give the generator one of its own with --core"
        ))),
        (Some(core), _) if !usable.contains(&core) => Err(Failed::from(format!(
            "core {core} is none that this process may run on: choose of {}",
            listed(&usable)
        ))),
        (Some(core), _) | (None, Some(core)) => Ok(core),
        (None, None) => Err(Failed::from(format!(
            "the generator needs a core of its own, and the device under test uses all of {}; give the device fewer \
             workers",
            listed(&usable)
        ))),
    }
}

fn listed(cores: &[u16]) -> String {
    cores.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

fn generator(options: &Rfc2544, in_process: bool) -> Generate {
    let device = |name: &String, side| if in_process { cable(side) } else { name.clone() };
    Generate {
        port: vec![device(&options.tx, "tx")],
        rx: vec![device(&options.rx, "rx")],
        address: options.address.iter().cloned().collect(),
        neighbors: options.neighbors.clone(),
        packets: options.packets.clone(),
        mtu: options.sizes.iter().max().filter(|&&size| size > USUAL_FRAME).map(|&size| (size - ETHERNET) as u16),
        ..Generate::default()
    }
}

fn settings(options: &Rfc2544, config: &Config, core: u16) -> BTreeMap<String, Value> {
    let text = |text: &str| Value::from(text);
    let settings = [
        ("tx", text(&options.tx)),
        ("rx", text(&options.rx)),
        ("search", text(&options.search)),
        ("link_speed", Value::from(options.link_speed as f64)),
        ("generator_core", Value::from(f64::from(core))),
        ("linger_s", Value::from(config.linger)),
    ];
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn configurations(file: Option<&Path>) -> BTreeMap<String, String> {
    let read = |file: &Path| Some((file.display().to_string(), std::fs::read_to_string(file).ok()?));
    file.and_then(read).into_iter().collect()
}
