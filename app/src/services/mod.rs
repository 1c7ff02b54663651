//! Services: what the program does beside packets, each on a thread of its own that is in no packet's way.
//!
//! An instance that fails or panics is thrown away, told in the log, and made anew after a pause that grows. A watchdog gives up the
//! thread of one whose step does not end, and starts another; of such threads there are only so many. What they did, and what went
//! wrong, is in `weir show services`.

mod asker;
mod bell;
mod channel;
mod export;
mod flows;
mod guard;
mod linux;
mod side;
mod slot;
mod stats;
mod thread;

pub(crate) use asker::{Asker, Pending, Progress, ReplyTo};
pub(crate) use bell::Bell;
pub(crate) use guard::{guarded, tell_of_stages};
pub(crate) use stats::{ServiceState, ServiceStats};

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use weir_protocol::Fault;
use weir_stage::{ChannelSide, FlowSource, HostSide, MakeService, Need};

use crate::log;
use crate::server::Job;
use side::SideSlot;
use slot::Slot;

/// How often the watchdog looks.
const LOOK: Duration = Duration::from_millis(100);

/// How long services may take to end.
const LEAVE: Duration = Duration::from_secs(2);

/// What a test calls the loop that carries requests out, which is no service.
const REQUESTS: &str = "requests";

/// Bounds of every service, times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long a step may take before it counts as hung.
    pub(crate) step: u64,
    /// The pause after the first failure; it doubles with each that follows.
    pub(crate) pause: u64,
    /// The longest pause.
    pub(crate) longest_pause: u64,
    /// How long an instance must have run for the next failure to be the first again.
    pub(crate) calm: u64,
    /// Threads of a service that may hang at once; with so many it is not started again.
    pub(crate) abandoned: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        const SECOND: u64 = 1_000_000_000;
        Limits { step: 5 * SECOND, pause: SECOND / 10, longest_pause: 10 * SECOND, calm: 10 * SECOND, abandoned: 4 }
    }
}

/// What the threads of all services have in common.
struct Common {
    began: Instant,
    stopping: AtomicBool,
}

impl Common {
    /// Nanoseconds since services were started.
    #[allow(clippy::disallowed_methods, reason = "clients and steps are waited for, not packets")]
    fn now(&self) -> u64 {
        u64::try_from(Instant::now().saturating_duration_since(self.began).as_nanos()).unwrap_or(u64::MAX)
    }

    fn stops(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// All services.
struct All {
    common: Common,
    /// The program's own.
    own: Vec<Arc<Slot>>,
    /// Those of functions, which come and go with the configuration.
    needed: Mutex<Vec<Needed>>,
}

impl All {
    fn needed(&self) -> MutexGuard<'_, Vec<Needed>> {
        self.needed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slots(&self) -> Vec<Arc<Slot>> {
        let needed = self.needed();
        self.own.iter().chain(needed.iter().map(|needed| &needed.slot)).map(Arc::clone).collect()
    }
}

/// A service of a function's.
struct Needed {
    wanted: Wanted,
    slot: Arc<Slot>,
    /// When it has something to do next; 0 at first.
    due: Arc<AtomicU64>,
    /// Of an export, the rounds of its function.
    rounds: Arc<export::Rounds>,
    sides: Sides,
}

/// A function's sides of what it needs done.
#[derive(Clone, Default)]
struct Sides {
    /// Where Linux speaks for it.
    host: SideSlot<dyn HostSide>,
    /// Where controllers drive it.
    channel: SideSlot<dyn ChannelSide>,
    /// Where flows are exported.
    flows: SideSlot<dyn FlowSource>,
}

impl Sides {
    /// Puts those of the running function in.
    fn set(&self, wanted: &Wanted, functions: &dyn Functions) {
        match &wanted.need {
            Need::Taps { vrf, .. } | Need::Routes { vrf, .. } => {
                self.host.set(functions.host_side(&wanted.function, vrf));
            }
            Need::Channel(_) => self.channel.set(functions.channel_side(&wanted.function)),
            Need::Flows(_) => self.flows.set(functions.flow_source(&wanted.function)),
            Need::Export { .. } => {}
        }
    }
}

/// What a function needs done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The function's name.
    pub(crate) function: String,
    /// What.
    pub(crate) need: Need,
    /// The configuration's folder, where files are needed: whoever needs none goes on when that is another one, as it is at every reload.
    pub(crate) folder: Option<PathBuf>,
}

/// The functions that run, by their names.
pub(crate) trait Functions {
    /// See [`Instance::host_side`](weir_stage::Instance::host_side).
    fn host_side(&self, function: &str, vrf: &str) -> Option<Arc<dyn HostSide>>;

    /// See [`Instance::channel_side`](weir_stage::Instance::channel_side).
    fn channel_side(&self, function: &str) -> Option<Arc<dyn ChannelSide>>;

    /// See [`Instance::flow_source`](weir_stage::Instance::flow_source).
    fn flow_source(&self, function: &str) -> Option<Arc<dyn FlowSource>>;
}

/// Services that run until this is dropped.
pub(crate) struct Services {
    all: Arc<All>,
    watchdog: JoinHandle<()>,
    limits: Limits,
}

impl Services {
    /// Starts them, in this order.
    ///
    /// # Errors
    ///
    /// There are no descriptors or threads for them.
    #[allow(clippy::disallowed_methods, reason = "clients and steps are waited for, not packets")]
    pub(crate) fn start(makers: Vec<Box<dyn MakeService>>, limits: Limits) -> io::Result<Services> {
        let common = Common { began: Instant::now(), stopping: AtomicBool::new(false) };
        let own = makers.into_iter().map(|maker| Ok(Arc::new(Slot::new(maker, Bell::new()?, limits))));
        let all = Arc::new(All { common, own: own.collect::<io::Result<_>>()?, needed: Mutex::default() });
        all.own.iter().try_for_each(|slot| begin(&all, slot, 0))?;
        let watched = Arc::clone(&all);
        let watchdog = Builder::new().name("weir-services".to_owned()).spawn(move || watch(&watched))?;
        Ok(Services { all, watchdog, limits })
    }

    /// Lets those of functions be these from here on: what is no longer wanted ends, what is new begins, and the others go on. They ask the
    /// loop that does `jobs`.
    pub(crate) fn reconcile(&self, wanted: Vec<Wanted>, functions: &dyn Functions, jobs: &SyncSender<Job>) {
        let mut needed = self.all.needed();
        let stays = |before: &mut Needed| wanted.contains(&before.wanted);
        let ended: Vec<Needed> = needed.extract_if(.., |before| !stays(before)).collect();
        ended.iter().for_each(|ended| ended.slot.retire());
        for new in wanted {
            if let Some(before) = needed.iter().find(|before| before.wanted == new) {
                before.sides.set(&new, functions);
                before.slot.bell.ring();
                continue;
            }
            // A reload, from another folder perhaps, does not put off what is due.
            let is_same = |ended: &&Needed| ended.wanted.function == new.function && ended.wanted.need == new.need;
            let due = ended.iter().find(is_same).map_or_else(Arc::default, |ended| Arc::clone(&ended.due));
            let is_of_it = |ended: &&Needed| {
                ended.wanted.function == new.function && matches!(ended.wanted.need, Need::Export { .. })
            };
            let rounds = ended.iter().find(is_of_it).map_or_else(Arc::default, |ended| Arc::clone(&ended.rounds));
            let bell = match Bell::new() {
                Ok(bell) => bell,
                Err(error) => {
                    let facts: log::Facts<'_> = &[("function", &new.function), ("why", &error)];
                    log::error("service", "what a function needs cannot be done before the next reload", facts);
                    continue;
                }
            };
            let sides = Sides::default();
            sides.set(&new, functions);
            let maker: Box<dyn MakeService> = match &new.need {
                Need::Taps { .. } | Need::Routes { .. } => {
                    Box::new(linux::Maker::new(&new.function, &new.need, sides.host.clone()))
                }
                Need::Channel(channel) => {
                    Box::new(channel::Maker::new(&new.function, channel.clone(), sides.channel.clone()))
                }
                Need::Flows(export) => Box::new(flows::Maker::new(&new.function, export.clone(), sides.flows.clone())),
                Need::Export { .. } => {
                    Box::new(export::Maker::new(&new, jobs.clone(), Arc::clone(&due), Arc::clone(&rounds)))
                }
            };
            // The watchdog gives it a thread.
            needed.push(Needed {
                wanted: new,
                slot: Arc::new(Slot::new(maker, bell, self.limits)),
                due,
                rounds,
                sides,
            });
        }
        drop(needed);
        self.watchdog.thread().unpark();
    }

    /// The numbers of all.
    pub(crate) fn stats(&self) -> Vec<ServiceStats> {
        self.all.slots().iter().map(|slot| slot.stats()).collect()
    }

    /// Has the next step of a service suffer something, in builds for tests.
    ///
    /// # Errors
    ///
    /// A sentence for whoever asks: this is another build, or there is no such service.
    pub(crate) fn torment(&self, service: &str, fault: Fault) -> Result<(), String> {
        if !cfg!(debug_assertions) {
            return Err("only builds for tests let services fail on demand".to_owned());
        }
        if (service, fault) == (REQUESTS, Fault::Panic) {
            guard::suffer(fault);
        }
        let slots = self.all.slots();
        let slot = slots.iter().find(|slot| slot.maker.name() == service);
        let names = || slots.iter().map(|slot| slot.maker.name()).collect::<Vec<_>>().join(", ");
        let slot = slot.ok_or_else(|| format!("there is no service \"{service}\"; there are {}", names()))?;
        slot.torment(fault);
        Ok(())
    }
}

impl Drop for Services {
    /// Waits for those that come to their end; who hangs is left behind.
    fn drop(&mut self) {
        self.all.common.stopping.store(true, Ordering::Release);
        self.all.slots().iter().for_each(|slot| slot.bell.ring());
        self.watchdog.thread().unpark();
        let pause = Duration::from_millis(5);
        let mut waited = Duration::ZERO;
        while self.all.slots().iter().any(|slot| slot.is_alive()) && waited < LEAVE {
            std::thread::park_timeout(pause);
            waited += pause;
        }
    }
}

/// Starts a thread for a service.
fn begin(all: &Arc<All>, slot: &Arc<Slot>, turn: u64) -> io::Result<()> {
    slot.start(turn);
    let (theirs, common) = (Arc::clone(slot), Arc::clone(all));
    let body = move || thread::run(&theirs, turn, &common.common);
    // Linux shows 15 characters of a thread's name.
    let begun = Builder::new().name(format!("weir-{}", slot.maker.name())).spawn(body);
    begun.map(drop).inspect_err(|_| slot.end(turn))
}

fn watch(all: &Arc<All>) {
    while !all.common.stops() {
        for slot in &all.slots() {
            let now = all.common.now();
            if let Some(turn) = slot.look(now)
                && let Err(error) = begin(all, slot, turn)
            {
                slot.no_thread(&error.to_string(), now);
            }
        }
        std::thread::park_timeout(LOOK);
    }
}

#[cfg(test)]
mod tests;
