//! What runs: the engine, its ports and functions; started from a configuration, changed by requests and reloads.

mod aside;
mod changes;
mod closed;
mod config;
mod control;
mod facts;
mod failure;
mod interface;
mod joint;
mod meant;
mod neighbor;
mod placing;
mod ports;
mod reload;
mod reopen;
mod routed;
mod sayings;
mod shared;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_engine::{Engine, Idle, Observer, SAMPLE_EVERY, Settings, WorkerSnapshot};
use weir_mem::Domain;
use weir_stage::{AnyFunction, DeviceStats, Env, Ground, Instance, PortInfo, RequestError, ShowRows};

pub(crate) use aside::{Aside, Built};
pub(crate) use config::{
    ClockKind, EngineConfig, IdleMode, Loaded, Next, load, load_by, load_document, load_with_sides,
};
pub(crate) use control::ControlThreads;
pub(crate) use failure::Failure;
pub(crate) use joint::JointPort;
use placing::{Cores, too_few_queues, with_port};
pub(crate) use placing::{RunningFunction, blueprint, owners, parts};
use ports::Buffers;
pub(crate) use ports::{OpenPort, open};
pub(crate) use reload::{Changes, Pending};
pub(crate) use routed::{PORT_NAME, Sides};
pub(crate) use sayings::Sayings;
use sayings::sayings_of;

use crate::save;

/// How a Weir is started.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Its name.
    pub(crate) name: String,
    /// The folder of its files while it runs.
    pub(crate) run_dir: PathBuf,
}

/// A running Weir.
pub(crate) struct Supervisor {
    engine: Engine,
    // Declared before `buffers`: ports let go of their buffers before the pool goes.
    ports: BTreeMap<String, OpenPort>,
    functions: Vec<RunningFunction>,
    loaded: Arc<Loaded>,
    cores: Cores,
    controls: ControlThreads,
    domain: Domain,
    buffers: Buffers,
    /// Packets that stages may hold, for which there are buffers.
    held: usize,
    beats: Vec<(String, u64)>,
    beats_at: u64,
    stalled: Vec<String>,
    /// What is wrong or odd with ports, as it was last looked for.
    sayings: Sayings,
    looked: Instant,
}

/// How long a worker's loop may stand still, nanoseconds, before it is reported.
const STALL: u64 = 1_000_000_000;

/// How often ports are asked what is wrong with them, in the world's time whatever the engine's clock is.
const LOOK: Duration = Duration::from_secs(1);

/// The time of the world: under the virtual clock, files get into trouble in its time all the same.
#[allow(clippy::disallowed_methods, reason = "how often people are told something is their time")]
fn moment() -> Instant {
    Instant::now()
}

impl Supervisor {
    /// Starts what a configuration describes. Returns when all workers run.
    pub(crate) fn start(loaded: Loaded, options: &Options) -> Result<Supervisor, Failure> {
        let buffers = Buffers::make(&loaded, &options.name, &options.run_dir).map_err(Failure::one)?;
        let (cores, held) = (loaded.cores(), loaded.held());
        let domain = Domain::new();
        let virtual_clock = loaded.engine.clock == ClockKind::Virtual;
        let settings = Settings {
            cores: cores.iter().map(|core| (!virtual_clock).then_some(usize::from(*core))).collect(),
            idle: match loaded.engine.idle {
                IdleMode::Spin => Idle::Spin,
                IdleMode::Relax => Idle::Relax,
                IdleMode::Sleep => Idle::Sleep,
            },
            virtual_clock,
            hook: buffers.hook(),
            sample_every: SAMPLE_EVERY,
        };
        let mut engine = Engine::start(settings, buffers.pool(), &domain).map_err(Failure::one)?;
        for _ in 1..loaded.engine.control.threads {
            engine.add_control(buffers.pool()).map_err(Failure::one)?;
        }
        let controls = ControlThreads::new(&loaded.engine.control);
        let mut supervisor = Supervisor {
            engine,
            ports: BTreeMap::new(),
            functions: Vec::new(),
            loaded: Arc::new(loaded),
            cores,
            controls,
            domain,
            buffers,
            held,
            beats: Vec::new(),
            beats_at: 0,
            stalled: Vec::new(),
            sayings: Sayings::default(),
            looked: moment(),
        };
        supervisor.open_all()?;
        supervisor.buffers.tell_pages();
        Ok(supervisor)
    }

    fn open_all(&mut self) -> Result<(), Failure> {
        let attached = self.attach_ports()?;
        let infos: Vec<PortInfo> = attached.iter().map(|(info, ..)| info.clone()).collect();
        let mut functions = Vec::new();
        let mut errors = Vec::new();
        let interfaces = self.loaded.interface_infos();
        let folder = Some(&self.loaded.folder);
        let env = Env { ports: &infos, interfaces: &interfaces, folder, running: None };
        let ground = self.ground();
        for configured in self.loaded.functions() {
            match configured.instantiate(&env, &ground) {
                Err(more) => errors.extend(more),
                Ok(instance) => functions.push(RunningFunction::new(configured, instance)),
            }
        }
        if !errors.is_empty() {
            return Err(Failure::Config(errors));
        }
        let mut ports = BTreeMap::new();
        let mut wrong = Vec::new();
        for (info, config, port) in attached {
            let Some(running) = functions.iter().find(|running| running.configured.has_port(&info.name)) else {
                continue;
            };
            let owners = owners(&running.placement, &self.cores);
            wrong.extend(too_few_queues(&info, &owners));
            if wrong.is_empty() {
                match ports::open(port, info, config, owners, self.buffers.pool()) {
                    Ok(open) => drop(ports.insert(open.info.name.clone(), open)),
                    Err(sentence) => wrong.push(sentence),
                }
            }
        }
        if !wrong.is_empty() {
            return Err(Failure::Start(wrong));
        }
        let plan =
            blueprint(&functions, parts(&mut ports), (&self.cores, &mut self.controls), self.loaded.engine.links)
                .map_err(Failure::one)?;
        self.engine.install(plan).map_err(Failure::one)?;
        self.ports = ports;
        self.functions = functions;
        self.functions.iter_mut().for_each(|running| running.keep = true);
        self.tell_of_ports();
        Ok(())
    }

    /// What tables are built on.
    fn ground(&self) -> Ground<'_> {
        Ground { domain: &self.domain, now: self.engine.now() }
    }

    /// Tells functions how the links of their ports are, and how fast: many devices know only once they are open, after functions were built. And with whom
    /// they share ports, and to which of their neighbours others send.
    pub(crate) fn tell_of_ports(&self) {
        let now = self.engine.now();
        for open in self.ports.values() {
            for instance in with_port(&self.functions, &open.info.name) {
                instance.speed_changed(open.info.index, open.speed, now);
                instance.link_changed(open.info.index, open.info.link_up, now);
            }
        }
        shared::tell(&self.functions, &self.loaded.interface_infos(), now);
        shared::tell_of_far_ends(&self.functions, &self.ports);
        neighbor::tell(&self.functions, &self.loaded);
    }

    #[allow(clippy::type_complexity, reason = "a port on its way to being opened")]
    fn attach_ports(&self) -> Result<Vec<(PortInfo, weir_stage::PortConfig, Box<dyn weir_stage::Port>)>, Failure> {
        let (mut attached, mut wrong) = (Vec::new(), Vec::new());
        for (index, (name, config, _)) in self.loaded.ports.iter().enumerate() {
            match self.buffers.attach(name, config, &self.loaded) {
                Ok(mut port) => {
                    let info = ports::info(name, index as u16, config, &mut *port);
                    attached.push((info, config.clone(), port));
                }
                Err(sentence) => wrong.push(sentence),
            }
        }
        if wrong.is_empty() { Ok(attached) } else { Err(Failure::Start(wrong)) }
    }

    /// What has to be done every now and then: freeing what grace periods have passed, link state, stalled workers.
    /// Under the virtual clock also everything else. Returns whether there was anything to do.
    pub(crate) fn tick(&mut self) -> bool {
        self.tick_until(u64::MAX)
    }

    /// The same; virtual time does not leap beyond `until`.
    pub(crate) fn tick_until(&mut self, until: u64) -> bool {
        let busy = self.engine.step_until(until);
        self.domain.collect();
        let now = self.engine.now();
        let asks = self.looked.elapsed() >= LOOK;
        for open in self.ports.values_mut() {
            let up = open.port.link_up();
            let is_other = std::mem::replace(&mut open.info.link_up, up) != up;
            if (is_other || asks)
                && let Some(speed) = open.ask_speed()
            {
                let told = with_port(&self.functions, &open.info.name);
                told.for_each(|instance| instance.speed_changed(open.info.index, speed, now));
            }
            if is_other {
                let told = with_port(&self.functions, &open.info.name);
                told.for_each(|instance| instance.link_changed(open.info.index, up, now));
                self.engine.rouse();
            }
        }
        self.watch(now);
        busy
    }

    /// Finds workers whose loop stands still, and ports that are in trouble.
    fn watch(&mut self, now: u64) {
        if self.looked.elapsed() >= LOOK {
            self.looked = moment();
            let workers = self.engine.snapshot();
            self.sayings = sayings_of(&workers, &self.ports);
        }
        if self.engine.is_virtual() || now.saturating_sub(self.beats_at) < STALL {
            return;
        }
        let beats = self.engine.beats();
        let still = |(id, beat): &(String, u64)| self.beats.iter().any(|(other, before)| other == id && before == beat);
        self.stalled = beats.iter().filter(|beat| still(beat)).map(|(id, _)| id.clone()).collect();
        self.beats = beats;
        self.beats_at = now;
        self.close_ailing();
        self.reopen_closed();
    }

    /// Tells `observer` of every packet.
    pub(crate) fn observe(&mut self, observer: &Arc<dyn Observer>) {
        self.engine.observe(observer);
    }

    /// Tells `observer` no more.
    pub(crate) fn unobserve(&mut self, observer: &Arc<dyn Observer>) {
        self.engine.unobserve(observer);
    }

    /// The running functions that have something, or the one of a name.
    fn having(
        &self,
        name: Option<&str>,
        what: &str,
        has: impl Fn(&RunningFunction) -> bool,
    ) -> Result<&RunningFunction, RequestError> {
        let named = |running: &&RunningFunction| name.is_none_or(|name| running.configured.name() == name);
        let found: Vec<&RunningFunction> = self.functions.iter().filter(|running| has(running)).filter(named).collect();
        match found.as_slice() {
            [one] => Ok(one),
            [] => {
                let running: Vec<&str> = self.functions.iter().map(|running| running.configured.name()).collect();
                Err(RequestError(format!(
                    "no running function has {what}{}; running: {}",
                    name.map_or(String::new(), |name| format!(" and is called \"{name}\"")),
                    running.join(", ")
                )))
            }
            several => {
                let names: Vec<&str> = several.iter().map(|running| running.configured.name()).collect();
                Err(RequestError(format!("{} have {what}; name one with --function", names.join(" and "))))
            }
        }
    }

    /// The columns of a table of a function, and its rows, which are handed out in pieces.
    pub(crate) fn show(
        &mut self,
        what: &str,
        function: Option<&str>,
        filter: Option<&str>,
    ) -> Result<(&'static [&'static str], Box<dyn ShowRows>), RequestError> {
        self.engine.rouse();
        let shows =
            |running: &RunningFunction| running.configured.function().shows().iter().find(|show| show.what == what);
        let running = self.having(function, &format!("a table '{what}'"), |running| shows(running).is_some())?;
        let columns = shows(running).map_or(&[][..], |show| show.columns);
        Ok((columns, running.instance.show(what, filter, self.engine.now())?))
    }

    /// All numbers of the running instance of a function in one piece, under the name `report`.
    pub(crate) fn report_of(&mut self, function: &dyn AnyFunction) -> Result<Vec<Value>, RequestError> {
        self.engine.rouse();
        let is_it = |running: &RunningFunction| running.configured.function().kind() == function.kind();
        let running = self.having(None, "a report", is_it)?;
        Ok(running.instance.show("report", None, self.engine.now())?.piece())
    }

    /// Carries out changes in order, all of them or none; answers what the function answers to a single one.
    pub(crate) fn change(
        &mut self,
        verb: &str,
        function: Option<&str>,
        changes: Vec<Value>,
    ) -> Result<Option<Value>, RequestError> {
        self.engine.rouse();
        let running = self.carrying_out(verb, function)?;
        let now = self.engine.now();
        let answer = match changes.as_slice() {
            [] => Ok(None),
            [change] => running.instance.request(verb, change, now).map(Some),
            _ => running.instance.request(verb, &Value::Array(changes), now).map(|_| None),
        };
        if running.configured.has_interfaces() {
            shared::tell_of_far_ends(&self.functions, &self.ports);
        }
        answer
    }

    /// What was added at run time, per function, with the verbs that add it.
    pub(crate) fn saved(&self) -> Vec<save::Part> {
        let part = |running: &RunningFunction| save::Part {
            name: running.configured.name().to_owned(),
            verbs: running.configured.function().verbs(),
            entries: running.instance.save(),
        };
        self.functions.iter().map(part).collect()
    }

    /// What functions have to say in the log: (function, line).
    pub(crate) fn notices(&self) -> Vec<(String, weir_stage::Notice)> {
        let now = self.engine.now();
        let of = |running: &RunningFunction| {
            let name = running.configured.name().to_owned();
            running.instance.notices(now).into_iter().map(move |notice| (name.clone(), notice))
        };
        self.functions.iter().flat_map(of).collect()
    }

    /// The instance of a function, by its name.
    pub(crate) fn instance(&self, function: &str) -> Option<&dyn Instance> {
        let running = self.functions.iter().find(|running| running.configured.name() == function)?;
        Some(&*running.instance)
    }

    /// Facts of the functions for metrics: (function, name, help, value).
    pub(crate) fn gauges(&self) -> Vec<(String, &'static str, &'static str, f64)> {
        let of = |running: &RunningFunction| {
            let name = running.configured.name().to_owned();
            running.instance.gauges().into_iter().map(move |(gauge, help, value)| (name.clone(), gauge, help, value))
        };
        self.functions.iter().flat_map(of).collect()
    }

    /// Stops: nothing is received any more, what is on its way leaves, the rest is dropped by name. Returns the last numbers,
    /// and how many buffers did not come home.
    pub(crate) fn stop(self) -> Stopped {
        let figures = self.port_figures();
        let workers = self.engine.stop();
        let sayings = sayings_of(&workers, &self.ports);
        let stuck: Vec<String> =
            workers.iter().filter(|worker| worker.silent).map(|worker| worker.id.clone()).collect();
        if !stuck.is_empty() {
            // A thread that may go on has its hands on them: they end with the process.
            let _ports = ManuallyDrop::new(self.ports);
            let _buffers = ManuallyDrop::new(self.buffers);
            return Stopped { workers, figures, missing: 0, sayings, stuck };
        }
        for open in self.ports.into_values() {
            let mut open = open;
            open.port.close();
        }
        drop(self.functions);
        let pool = self.buffers.pool();
        let missing = pool.taken().saturating_sub(pool.at_hand());
        Stopped { workers, figures, missing, sayings, stuck }
    }
}

/// What is left of a Weir that stopped.
pub(crate) struct Stopped {
    /// The last numbers of the workers.
    pub(crate) workers: Vec<WorkerSnapshot>,
    /// The ports, with their devices' own figures.
    pub(crate) figures: Vec<(PortInfo, DeviceStats)>,
    /// Buffers that did not come home: 0 unless some were lost.
    pub(crate) missing: usize,
    /// What queues had to say at the end.
    pub(crate) sayings: Sayings,
    /// Workers that are stuck in a stage: what they hold was left to them.
    pub(crate) stuck: Vec<String>,
}
