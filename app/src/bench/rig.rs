//! A function that runs on its workers between ports in memory, to be measured.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_engine::snapshot::QueueSnapshot;
use weir_engine::{Engine, Idle, SAMPLE_EVERY, Settings, WorkerSnapshot};
use weir_mem::Domain;
use weir_packet::{Burst, HeapPool};
use weir_port_mem::{Loop, MemHandle, MemPort, Pace};
use weir_stage::{Case, Chosen, Configured, Env, Ground, Port};

use super::bare::Bare;
use super::chunks::Chunks;
use super::pattern::Varying;
use crate::catalogue;
use crate::supervisor::{
    ControlThreads, IdleMode, Loaded, Next, OpenPort, RunningFunction, blueprint, load_by, open, owners, parts,
};

/// One packet in so many is verified at the sink.
const VERIFY_EVERY: u64 = 1024;

/// Buffers of the process for each worker as usual, beside those for what stages may hold: what goes round, and enough for everything else.
const BUFFERS: usize = 16_384;

/// Puts something around a port of the rig, which is `in` or `out`.
pub(super) type Around<'a> = &'a dyn Fn(&str, Box<dyn Port>) -> Box<dyn Port>;

/// Addresses that the ports of a case have.
const ADDRESSES: [(&str, &str); 2] = [("in", "192.0.2.1/24"), ("out", "198.51.100.1/24")];

/// What a case is measured with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// The folder of the files that cases need.
    pub(crate) data: Option<PathBuf>,
    /// Cores of the workers.
    pub(crate) cores: Vec<usize>,
    /// Packets per receive.
    pub(crate) fill: usize,
    /// Packets in one call of a transmit queue; at its default, as many as the engine has.
    pub(crate) transmit: usize,
    /// Whether stages are timed, as they always are in operation; without, the cost of the timing itself shows.
    pub(crate) sampling: bool,
    /// Numbers for the case's knobs, by name.
    pub(crate) numbers: BTreeMap<String, u64>,
    /// Keys of the configuration beside those of the case: (kind of declaration, key, value as Lua writes it).
    pub(crate) keys: Vec<(String, String, String)>,
    /// So many packets under the virtual clock, in this thread; else for ever and in real time.
    pub(crate) count: Option<u64>,
    /// Packets per second; as fast as they are received when absent.
    pub(crate) rate: Option<u64>,
    /// Buffers of the process for each worker; when absent as many as usual, and as the program has for what stages may hold.
    pub(crate) buffers: Option<usize>,
}

impl Setup {
    /// What is usual, on one core.
    pub(crate) fn on(core: usize) -> Setup {
        Setup {
            data: None,
            cores: vec![core],
            fill: 64,
            transmit: Burst::ROOM,
            sampling: true,
            numbers: BTreeMap::new(),
            keys: Vec::new(),
            count: None,
            rate: None,
            buffers: None,
        }
    }
}

/// A case that is set up and runs on its workers.
pub(crate) struct Rig {
    engine: Engine,
    input: MemHandle,
    output: MemHandle,
    pub(super) bare: Bare,
    /// The text of its configuration.
    pub(super) configuration: String,
    // Their buffers go home when they are dropped, which is before the pool goes.
    _ports: BTreeMap<String, OpenPort>,
    _functions: Vec<RunningFunction>,
    _pool: HeapPool,
}

/// What the workers had done at a moment.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The data-path workers.
    pub(super) workers: Vec<WorkerSnapshot>,
}

impl Seen {
    fn sum(&self, value: impl Fn(&WorkerSnapshot) -> u64) -> u64 {
        self.workers.iter().map(value).sum()
    }

    /// Packets that the port `in` handed over.
    pub(super) fn received(&self) -> u64 {
        self.sum(|worker| packets_of(&worker.receive, 0))
    }

    /// Packets that stages made.
    pub(super) fn created(&self) -> u64 {
        self.sum(|worker| worker.account.created)
    }

    /// Packets that ports accepted, without those that lead from function to function.
    pub(super) fn transmitted(&self) -> u64 {
        self.sum(|worker| packets_of(&worker.transmit, 0) + packets_of(&worker.transmit, 1))
    }

    /// TSC cycles of all workers together.
    pub(super) fn elapsed(&self) -> u64 {
        self.sum(|worker| worker.elapsed)
    }

    /// Packets dropped for a named reason.
    pub(super) fn dropped(&self) -> u64 {
        self.sum(|worker| worker.account.dropped)
    }
}

/// Packets that went through the queues of a port: `in` is port 0, `out` port 1.
fn packets_of(queues: &[QueueSnapshot], port: u16) -> u64 {
    queues.iter().filter(|queue| queue.port == port).map(|queue| queue.packets).sum()
}

impl Rig {
    /// Sets a case up. The source is switched on.
    pub(crate) fn new(case: &Case, setup: &Setup) -> Result<Rig, String> {
        Rig::around(case, setup, &|_, port| port)
    }

    /// The same with something around its ports.
    pub(super) fn around(case: &Case, setup: &Setup, around: Around<'_>) -> Result<Rig, String> {
        let configuration = script(case, setup);
        let loaded = checked(case, &configuration)?;
        let buffers = match setup.buffers {
            Some(buffers) => buffers * setup.cores.len(),
            // Else what is received would wait for what is held, and the measurement with it.
            None => BUFFERS * setup.cores.len() + loaded.held(),
        };
        let pool = HeapPool::new(buffers, weir_packet::DATA_ROOM);
        let infos = loaded.assumed_ports();
        let domain = Domain::new();
        let interfaces = loaded.interface_infos();
        let env = Env { ports: &infos, interfaces: &interfaces, folder: Some(&loaded.folder), running: None };
        let cores: Vec<u16> = setup.cores.iter().map(|core| *core as u16).collect();
        let functions = functions(&loaded, &env, &domain, &cores)?;
        let measured = functions.first().ok_or("the case declares no function")?;
        let mut traffic = (case.prepare)(&*measured.instance, &infos, &chosen(case, setup)?)?;
        let pattern = Varying::new(&mut traffic);
        let owners = owners(&measured.placement, &cores);
        let queues = owners.rx.len();
        let rounds: Vec<Loop> = (0..queues).map(|_| Loop::new(Loop::DEPTH)).collect();
        let pace = Pace { rate: setup.rate, fill: Some(setup.fill), count: setup.count };
        let patterns = (0..queues).map(|n| Box::new(pattern.starting_at(n, queues)) as _).collect();
        let mac = infos.first().map_or([0; 6], |info| info.facts.mac);
        let input = MemPort::replay("in", patterns, pace).with_mac(mac).with_loops(&rounds);
        let output = MemPort::null("out").with_loops(&rounds).with_check(VERIFY_EVERY, traffic.check);
        let (input_handle, output_handle) = (input.handle(), output.handle());
        let bare = Bare::new(pattern, setup, &pool)?;
        let mut ports = BTreeMap::new();
        for (port, (info, (_, config, _))) in [input, output].into_iter().zip(infos.iter().zip(&loaded.ports)) {
            let port = around(&info.name, Box::new(Chunks::around(port, setup.transmit)));
            let port = open(port, info.clone(), config.clone(), owners.clone(), &pool)?;
            ports.insert(info.name.clone(), port);
        }
        // What leads from function to function, where a case has several.
        for (info, (name, config, _)) in infos.iter().zip(&loaded.ports).skip(ADDRESSES.len()) {
            let port = catalogue::port(name, &config.device, loaded.base());
            let port = port.ok_or_else(|| format!("a case has no device {}", config.device))?;
            let port = port.map_err(|error| error.to_string())?;
            ports.insert(name.clone(), open(port, info.clone(), config.clone(), owners.clone(), &pool)?);
        }
        let settings = Settings {
            cores: setup.cores.iter().map(|core| setup.count.is_none().then_some(*core)).collect(),
            idle: idle(&loaded),
            virtual_clock: setup.count.is_some(),
            hook: None,
            sample_every: setup.sampling.then_some(SAMPLE_EVERY).flatten(),
        };
        let mut engine = Engine::start(settings, &pool, &domain).map_err(|error| error.to_string())?;
        let mut controls = ControlThreads::new(&loaded.engine.control);
        let plan = blueprint(&functions, parts(&mut ports), (&cores, &mut controls), loaded.engine.links)?;
        engine.install(plan).map_err(|error| error.to_string())?;
        Ok(Rig {
            engine,
            input: input_handle,
            output: output_handle,
            bare,
            configuration,
            _ports: ports,
            _functions: functions,
            _pool: pool,
        })
    }

    /// Switches the source on or off.
    pub(super) fn feed(&self, on: bool) {
        self.input.set_link(on);
    }

    /// What the data-path workers have done so far.
    pub(super) fn seen(&mut self) -> Seen {
        let mut workers = self.engine.snapshot();
        workers.truncate(self.engine.workers());
        Seen { workers }
    }

    /// Under the virtual clock: goes on until everything that was to come has come and gone. Not inlined: the emulator that counts
    /// instructions counts those in here.
    #[inline(never)]
    pub(super) fn drain(&mut self) {
        // Asking costs more than going round.
        while (0..64).any(|_| self.engine.step()) || !self.engine.drained() {}
    }

    /// [`Rig::drain`]; answers the most packets that were seen to be held.
    pub(super) fn drain_watching(&mut self) -> u64 {
        let (mut most, mut turns) = (0, 0_u64);
        while (0..64).any(|_| self.engine.step()) || !self.engine.drained() {
            turns += 1;
            if turns.is_multiple_of(4096) {
                most = most.max(self.seen().sum(|worker| worker.account.held));
            }
        }
        most
    }

    /// Packets that were checked at the sink so far.
    pub(super) fn verified(&self) -> u64 {
        self.output.report().checked
    }

    /// Whether what came out was right, and the account exact.
    pub(super) fn verdict(&mut self) -> Result<(), String> {
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

/// The functions of a case, all on the same workers.
fn functions(loaded: &Loaded, env: &Env<'_>, domain: &Domain, cores: &[u16]) -> Result<Vec<RunningFunction>, String> {
    let ground = Ground { domain, now: 0 };
    let running = |configured: &Configured| {
        let instance = configured.instantiate(env, &ground).map_err(lines)?;
        let mut running = RunningFunction::new(configured, instance);
        running.placement.workers = cores.to_vec();
        Ok(running)
    };
    loaded.functions().iter().map(running).collect()
}

fn idle(loaded: &Loaded) -> Idle {
    match loaded.engine.idle {
        IdleMode::Spin => Idle::Spin,
        IdleMode::Relax => Idle::Relax,
        IdleMode::Sleep => Idle::Sleep,
    }
}

fn lines(errors: Vec<weir_config::ConfigError>) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Whether a case can be set up so, as far as that takes no tables; why not, if it cannot.
pub(super) fn check(case: &Case, setup: &Setup) -> Result<(), String> {
    chosen(case, setup)?;
    checked(case, &script(case, setup)).map(drop)
}

/// A number for each knob of the case: the one asked for, or its usual one.
fn chosen(case: &Case, setup: &Setup) -> Result<Chosen, String> {
    let mut numbers: BTreeMap<&'static str, u64> = case.knobs.iter().map(|knob| (knob.name, knob.usual)).collect();
    for (name, number) in &setup.numbers {
        let Some(knob) = case.knobs.iter().find(|knob| knob.name == name) else {
            let known: Vec<&str> = case.knobs.iter().map(|knob| knob.name).collect();
            return Err(match known.is_empty() {
                true => format!("the case {} has no number to choose, so not {name} either", case.name),
                false => format!("the case {} has no {name}; it has {}", case.name, known.join(", ")),
            });
        };
        if !(knob.least..=knob.most).contains(number) {
            return Err(format!("{name} is {number}; it may be {} to {} ({})", knob.least, knob.most, knob.help));
        }
        numbers.insert(knob.name, *number);
    }
    Ok(Chosen { folder: setup.data.clone(), numbers })
}

/// The case's configuration, as a script with its two ports and what the setup adds.
fn script(case: &Case, setup: &Setup) -> String {
    let mut text: String = ADDRESSES
        .map(|(name, address)| {
            let keys = case.port_keys;
            format!("port {{ name = \"{name}\", device = \"mem:null\", address = \"{address}\", {keys} }}\n")
        })
        .concat();
    let of_kind = |wanted: &str| {
        let keys = setup.keys.iter().filter(|(kind, ..)| kind == wanted);
        keys.map(|(_, key, value)| format!("{key} = {value}")).collect::<Vec<_>>()
    };
    let engine = of_kind("engine");
    if !engine.is_empty() {
        text.push_str(&format!("engine {{ {} }}\n", engine.join(", ")));
    }
    for function in catalogue::FUNCTIONS.iter().map(|function| function.kind()) {
        let keys: Vec<String> = of_kind(function).into_iter().map(|key| format!("  keys.{key}\n")).collect();
        if !keys.is_empty() {
            // What the case declares goes through here, with more keys.
            text.push_str(&format!("local {function} = function(keys)\n{}  {function}(keys)\nend\n", keys.concat()));
        }
    }
    text.push_str(&case.script);
    text.push('\n');
    text
}

fn checked(case: &Case, script: &str) -> Result<Loaded, String> {
    let path = std::env::temp_dir().join(format!("weir-bench-{}-{}.lua", std::process::id(), case.name));
    let written = weir_host::files::create(&path, 0o644).and_then(|mut file| file.write_all(script.as_bytes()));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let program = std::env::current_exe().map_err(|error| format!("cannot tell which program this is: {error}"))?;
    // The scripts of cases are the program's own.
    let loaded = load_by(&program, &path, Some(&[weir_lua::ALLOW_STAGES]), Next::Build);
    drop(std::fs::remove_file(&path));
    loaded.map_err(lines)
}
