//! `weir bench cpp`: cycles per packet of a function's real graph, on one pinned worker, over memory ports.

mod bare;
mod pattern;

use std::path::PathBuf;
use std::time::Duration;

use weir_bench::{CaseReport, Machine, Report, StageReport, Summary};
use weir_engine::{Blueprint, Engine, GraphPart, Idle, PortPart, SAMPLE_EVERY, Settings, WorkerSnapshot};
use weir_mem::Domain;
use weir_packet::HeapPool;
use weir_port_mem::{Loop, MemHandle, MemPort, Pace};
use weir_stage::{Case, Env, Function, Instance, Port, PortInfo};

use crate::catalogue;
use crate::supervisor::{Loaded, Next, load};
use pattern::Varying;

/// What to measure, and how.
#[derive(Clone, Debug)]
pub(crate) struct CppOptions {
    /// The function.
    pub(crate) function: String,
    /// Names of cases; all when empty.
    pub(crate) cases: Vec<String>,
    /// Interleaved runs of each case.
    pub(crate) runs: usize,
    /// The folder of the files that cases need.
    pub(crate) data: Option<PathBuf>,
    /// The core to measure on; the last one when absent.
    pub(crate) core: Option<usize>,
    /// Packets per receive.
    pub(crate) fill: usize,
    /// Whether stages are timed, as they always are in operation; without, the cost of the timing itself shows.
    pub(crate) sampling: bool,
}

/// One packet in so many is verified at the sink.
const VERIFY_EVERY: u64 = 1024;

/// How long each run of a case is measured.
const WINDOW: Duration = Duration::from_millis(300);

/// How long a case runs before it is measured.
const WARM_UP: Duration = Duration::from_millis(200);

/// Buffers of the process: what goes round, and enough for everything else.
const BUFFERS: usize = 16_384;

/// Addresses that the ports of a case have.
const ADDRESSES: [(&str, &str); 2] = [("in", "192.0.2.1/24"), ("out", "198.51.100.1/24")];

/// Measures the cases of a function. `progress` is told what is being done.
pub(crate) fn cpp(options: &CppOptions, progress: &mut dyn FnMut(&str)) -> Result<Report, String> {
    let function = catalogue::function(&options.function).ok_or_else(|| {
        let known: Vec<&str> = catalogue::FUNCTIONS.iter().map(|function| function.kind()).collect();
        format!("no function is called '{}'; choose one of {}", options.function, known.join(", "))
    })?;
    let cases = choose(function, options)?;
    let mut report = Report {
        version: 1,
        function: options.function.clone(),
        machine: Machine::here(weir_mem::Clock::calibrate().hz()),
        weir: env!("CARGO_PKG_VERSION").to_owned(),
        runs: options.runs,
        cases: Vec::new(),
    };
    for case in cases {
        progress(&format!("{}: {}", case.name, case.help));
        let measured = measure(function, &case, options, report.machine.tsc_mhz);
        report.cases.push(measured.map_err(|problem| format!("case {}: {problem}", case.name))?);
    }
    Ok(report)
}

/// The cases asked for, less those whose files are not at hand unless they were asked for by name.
fn choose(function: &'static dyn Function, options: &CppOptions) -> Result<Vec<Case>, String> {
    let all = function.cases();
    let names: Vec<&str> = all.iter().map(|case| case.name).collect();
    if let Some(unknown) = options.cases.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(format!("{} has no case '{unknown}'; choose from {}", options.function, names.join(", ")));
    }
    let missing = |case: &Case| {
        let present = |file: &&&str| options.data.as_ref().is_some_and(|folder| folder.join(file).exists());
        case.needs.iter().find(|file| !present(file)).copied()
    };
    let mut chosen = Vec::new();
    for case in all {
        let asked = options.cases.iter().any(|name| name == case.name);
        match missing(&case) {
            Some(file) if asked => return Err(format!("case {} needs {file}; name its folder with --data", case.name)),
            Some(_) => {}
            None if asked || options.cases.is_empty() => chosen.push(case),
            None => {}
        }
    }
    Ok(chosen)
}

/// A case that is set up and runs on its worker.
struct Rig {
    engine: Engine,
    input: MemHandle,
    output: MemHandle,
    bare: bare::Bare,
    // Their buffers go home when they are dropped, which is before the pool goes.
    _ports: Vec<MemPort>,
    _instance: Box<dyn Instance>,
    _pool: HeapPool,
}

fn measure(
    function: &'static dyn Function,
    case: &Case,
    options: &CppOptions,
    tsc_mhz: u64,
) -> Result<CaseReport, String> {
    let mut rig = Rig::new(function, case, options)?;
    let (mut whole, mut bare, mut own) = (Vec::new(), Vec::new(), Vec::new());
    let mut stages: Vec<(String, Vec<f64>)> = Vec::new();
    let (mut packets, mut fill) = (0, 0.0);
    pause(WARM_UP);
    for _ in 0..options.runs.max(1) {
        rig.input.set_link(false);
        let nothing_between = rig.bare.cycles_per_packet(WINDOW)?;
        rig.input.set_link(true);
        pause(WARM_UP / 4);
        let before = rig.worker();
        pause(WINDOW);
        let after = rig.worker();
        let (came, cycles) = (after.packets - before.packets, after.elapsed - before.elapsed);
        if came == 0 {
            return Err("no packets came".to_owned());
        }
        let all = cycles as f64 / came as f64;
        whole.push(all);
        bare.push(nothing_between);
        own.push(all - nothing_between);
        packets += came;
        fill = batch_fill(&before, &after);
        note_stages(&before, &after, &mut stages);
    }
    rig.verdict()?;
    let stages =
        stages.into_iter().map(|(name, values)| StageReport { name, cycles_per_packet: Summary::of(&values).median });
    let whole = Summary::of(&whole);
    Ok(CaseReport {
        name: case.name.to_owned(),
        help: case.help.to_owned(),
        packets,
        cycles_per_packet: Summary::of(&own),
        bare: Summary::of(&bare),
        mpps: tsc_mhz as f64 / whole.median,
        whole,
        batch_fill: fill,
        stages: stages.collect(),
        verified: rig.output.report().checked,
    })
}

#[allow(clippy::disallowed_methods, reason = "a measurement takes its time")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Packets per batch of the stage that had most batches.
fn batch_fill(before: &WorkerSnapshot, after: &WorkerSnapshot) -> f64 {
    let first = before.stages.first().zip(after.stages.first());
    first.map_or(0.0, |(b, a)| (a.packets - b.packets) as f64 / (a.batches - b.batches).max(1) as f64)
}

fn note_stages(before: &WorkerSnapshot, after: &WorkerSnapshot, into: &mut Vec<(String, Vec<f64>)>) {
    for (b, a) in before.stages.iter().zip(&after.stages) {
        let packets = a.packets - b.packets;
        if packets == 0 {
            continue;
        }
        let value = a.cycles.saturating_sub(b.cycles) as f64 / packets as f64;
        match into.iter_mut().find(|(name, _)| *name == a.name) {
            Some((_, values)) => values.push(value),
            None => into.push((a.name.clone(), vec![value])),
        }
    }
}

impl Rig {
    fn new(function: &'static dyn Function, case: &Case, options: &CppOptions) -> Result<Rig, String> {
        let core = options.core.unwrap_or_else(|| std::thread::available_parallelism().map_or(0, usize::from) - 1);
        let loaded = script(case)?;
        let pool = HeapPool::new(BUFFERS, weir_packet::DATA_ROOM);
        let infos = loaded.assumed_ports();
        let domain = Domain::new();
        let env = Env { ports: &infos, domain: &domain, folder: Some(&loaded.folder), now: 0 };
        let element = loaded.functions().next().ok_or("the case declares no function")?.1;
        let lines = |errors: Vec<weir_config::ConfigError>| {
            errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        let instance = function.build(element, &env, None).map_err(lines)?;
        let mut traffic = (case.prepare)(&*instance, &infos, options.data.as_deref())?;
        let pattern = Varying::new(&mut traffic);

        let round = Loop::new(Loop::DEPTH);
        let mac = infos.first().map_or([0; 6], |info| info.facts.mac);
        let pace = Pace { fill: Some(options.fill), ..Pace::default() };
        let mut input = MemPort::replay("in", vec![Box::new(pattern.clone())], pace).with_mac(mac).with_loop(&round);
        let output = MemPort::null("out").with_loop(&round).with_check(VERIFY_EVERY, traffic.check);
        let input_handle = input.handle();
        let output_handle = output.handle();
        let mut output = output;
        let bare = bare::Bare::new(pattern, options.fill, core, &pool)?;
        let mut parts = Vec::new();
        for (port, info) in [(&mut input, infos.first()), (&mut output, infos.get(1))] {
            let info: &PortInfo = info.ok_or("a case has two ports")?;
            let (rx, tx) = port.open(1, 1, &pool).map_err(|error| error.to_string())?;
            parts.push(PortPart {
                name: info.name.clone(),
                index: info.index,
                rx: rx.into_iter().map(|rx| (0, Some(rx))).collect(),
                tx: tx.into_iter().map(|tx| (0, Some(tx))).collect(),
            });
        }
        let settings = Settings {
            cores: vec![Some(core)],
            idle: Idle::Sleep,
            virtual_clock: false,
            hook: None,
            sample_every: options.sampling.then_some(SAMPLE_EVERY).flatten(),
        };
        let mut engine = Engine::start(settings, &pool, &domain).map_err(|error| error.to_string())?;
        let graph = instance.graph(0).map_err(|error| error.to_string())?;
        let graphs = vec![GraphPart { graph, workers: vec![0], receives: true, keep: Default::default() }];
        engine
            .install(Blueprint { workers: 1, ports: parts, graphs, distributors: Vec::new() })
            .map_err(|error| error.to_string())?;
        Ok(Rig {
            engine,
            input: input_handle,
            output: output_handle,
            bare,
            _ports: vec![input, output],
            _instance: instance,
            _pool: pool,
        })
    }

    fn worker(&mut self) -> WorkerSnapshot {
        self.engine.snapshot().into_iter().next().unwrap_or_default()
    }

    /// Whether what came out was right, and the account exact.
    fn verdict(&mut self) -> Result<(), String> {
        let report = self.output.report();
        if report.failed > 0 {
            let example = report.failures.first().cloned().unwrap_or_default();
            return Err(format!("{} of {} checked packets came out wrong: {example}", report.failed, report.checked));
        }
        if report.checked == 0 {
            return Err("no packet came out".to_owned());
        }
        let unaccounted: i64 = self.engine.snapshot().iter().map(|worker| worker.account.unaccounted()).sum();
        if unaccounted != 0 {
            return Err(format!("{unaccounted} packets are unaccounted for"));
        }
        Ok(())
    }
}

/// The case's configuration, as a script with its two ports.
fn script(case: &Case) -> Result<Loaded, String> {
    let ports = ADDRESSES.map(|(name, address)| {
        format!("port {{ name = \"{name}\", device = \"mem:null\", address = \"{address}\" }}\n")
    });
    let path = std::env::temp_dir().join(format!("weir-bench-{}-{}.lua", std::process::id(), case.name));
    std::fs::write(&path, format!("{}{}\n", ports.concat(), case.script))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let loaded = load(&path, Some(&[]), Next::Build);
    drop(std::fs::remove_file(&path));
    loaded.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}
