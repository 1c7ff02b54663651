//! The engine as the program sees it: workers that are started, given blueprints, asked for their numbers, and stopped.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use weir_mem::{Clock, Domain, tsc};
use weir_packet::{LaneSet, Pool};
use weir_stage::{EngineClock, GraphError};

use crate::bell::Bell;
use crate::layout::{Blueprint, lay_out};
use crate::moving::{IdleQueues, Ports};
use crate::observe::{Observer, Observers};
use crate::plan::Leftover;
use crate::snapshot::WorkerSnapshot;
use crate::sweep::{has_crossed, told_or};
use crate::thread::start_thread;
use crate::worker::Worker;
use crate::worker_thread::{CONTROL_PATIENCE, Command, Idle, LONGEST, PATIENCE, ThreadSettings, WorkerThread};

/// The name of the control side among the workers: that of its first thread. Those that come after it have a number behind it, as `control-2`.
pub(crate) const CONTROL: &str = "control";

/// Whether a worker of this name is a thread of the control side: others are called by their cores.
pub(crate) fn is_control(id: &str) -> bool {
    id.strip_prefix(CONTROL).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// How long a worker that has a core may take to answer before it counts as stalled.
pub(crate) const ANSWER: Duration = Duration::from_secs(2);

/// The same where a start or a reload is refused otherwise: others may have the core for seconds.
pub(crate) const INSTALLED: Duration = Duration::from_secs(8);

/// How long one may take that did not answer when it was asked before, and answers at once if it goes round again.
const AGAIN: Duration = Duration::from_millis(10);

/// Virtual time of a round in which anybody had something to do, nanoseconds.
const BUSY: u64 = 1_000;

/// How far virtual time goes on in a round when nothing at all is due, nanoseconds: somebody may wait for it to pass.
const NOTHING_DUE: u64 = 10_000_000;

/// Rounds in which every stage is polled before virtual time leaps: one for what was left for another stage without a packet, one for
/// what that one left in answer.
const LOOKS: u32 = 2;

/// How long the engine waits for packets in flight when it stops.
const DRAIN: Duration = Duration::from_secs(1);

/// What workers do on their own thread before and as long as they run: registering with DPDK, for example.
pub type ThreadHook = Arc<dyn Fn(&str) -> Box<dyn std::any::Any> + Send + Sync>;

/// What an engine is started with.
pub struct Settings {
    /// Cores of the data-path workers, in order; `None` for a worker that is not pinned.
    pub cores: Vec<Option<usize>>,
    /// What workers do when there is nothing to do.
    pub idle: Idle,
    /// Whether time is that of the world, or runs as fast as the work allows, in this thread.
    pub virtual_clock: bool,
    /// Called on every worker's thread.
    pub hook: Option<ThreadHook>,
    /// One loop in so many with work in it has its stages timed; `None` for none, which only measurements of the timing's
    /// own cost want.
    pub sample_every: Option<std::num::NonZeroU32>,
}

/// One loop in 64 costs less than a cycle per packet and settles within milliseconds.
pub const SAMPLE_EVERY: Option<std::num::NonZeroU32> = std::num::NonZeroU32::new(64);

/// Why the engine refuses.
#[derive(Debug)]
pub enum EngineError {
    /// A worker cannot be pinned.
    Core {
        /// The core asked for.
        core: usize,
        /// What the system says.
        cause: String,
    },
    /// More workers than grace periods can watch.
    TooManyWorkers,
    /// A thread cannot be started.
    Thread(String),
    /// The graphs do not fit together.
    Graph(GraphError),
    /// A worker does not answer.
    Stalled(String),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineError::Core { core, cause } => {
                write!(
                    f,
                    "cannot run a worker on core {core}: {cause}; choose one of the cores that `weir doctor` lists"
                )
            }
            EngineError::TooManyWorkers => write!(f, "too many workers; 63 are possible"),
            EngineError::Thread(cause) => write!(f, "cannot start a worker's thread: {cause}"),
            EngineError::Graph(error) => error.fmt(f),
            EngineError::Stalled(id) => {
                write!(f, "worker {id} does not answer; it is stuck in a stage or gets no time")
            }
        }
    }
}

impl std::error::Error for EngineError {}

/// Running workers.
pub struct Engine {
    /// Data-path workers, then the control side.
    pub(crate) threads: Vec<(String, WorkerThread)>,
    /// How many threads the control side has.
    controls: usize,
    links: HashMap<String, LaneSet>,
    clock: Clock,
    epoch: u64,
    virtual_now: Option<u64>,
    /// Under the virtual clock: rounds that are still to be gone in which every stage is polled, before time may leap.
    looks: u32,
    /// Whether the next round is one of them.
    look_now: bool,
    domain: Domain,
    idle: Idle,
    hook: Option<ThreadHook>,
    sample_every: u32,
    /// Cores that workers are pinned to.
    pinned: Vec<usize>,
    /// Those who watch packets: a worker that is started tells them, too.
    observers: Observers,
    last: Vec<WorkerSnapshot>,
    /// The ports whose queues workers have, by the workers' names.
    pub(crate) queues: HashMap<String, Ports>,
    pub(crate) idle_queues: IdleQueues,
}

impl Engine {
    /// Starts the workers, without anything to do yet. `domain` is where tables are published, `pool` where buffers come from.
    ///
    /// # Errors
    ///
    /// A core that does not exist or may not be used, too many workers, no thread to be had.
    pub fn start(settings: Settings, pool: &dyn Pool, domain: &Domain) -> Result<Engine, EngineError> {
        let clock = Clock::calibrate();
        let epoch = tsc::now();
        let mut engine = Engine {
            threads: Vec::new(),
            controls: 0,
            links: HashMap::new(),
            clock,
            epoch,
            virtual_now: settings.virtual_clock.then_some(0),
            looks: LOOKS,
            look_now: false,
            domain: domain.clone(),
            idle: settings.idle,
            hook: settings.hook,
            pinned: settings.cores.iter().copied().flatten().collect(),
            sample_every: settings.sample_every.map_or(u32::MAX, std::num::NonZeroU32::get),
            observers: Observers::default(),
            last: Vec::new(),
            queues: HashMap::new(),
            idle_queues: IdleQueues::default(),
        };
        engine.add_control(pool)?;
        for core in settings.cores {
            engine.add_worker(core, pool)?;
        }
        Ok(engine)
    }

    /// Starts another data-path worker, without anything to do yet; it comes after those that are there.
    ///
    /// # Errors
    ///
    /// As [`Engine::start`].
    pub fn add_worker(&mut self, core: Option<usize>, pool: &dyn Pool) -> Result<(), EngineError> {
        let n = self.workers();
        let id = core.map_or_else(|| n.to_string(), |core| core.to_string());
        let worker_thread = self.worker_thread(id, core, self.idle, pool)?;
        self.threads.insert(n, worker_thread);
        Ok(())
    }

    /// Starts another thread of the control side, without anything to do yet: which graphs have their stages there is said by
    /// [`Blueprint::controls`]. It comes after those that are there.
    ///
    /// # Errors
    ///
    /// As [`Engine::start`].
    pub fn add_control(&mut self, pool: &dyn Pool) -> Result<(), EngineError> {
        let id = if self.controls == 0 { CONTROL.to_owned() } else { format!("{CONTROL}-{}", self.controls + 1) };
        let control = self.worker_thread(id, None, Idle::Sleep, pool)?;
        self.threads.push(control);
        self.controls += 1;
        Ok(())
    }

    fn worker_thread(
        &self,
        id: String,
        core: Option<usize>,
        idle: Idle,
        pool: &dyn Pool,
    ) -> Result<(String, WorkerThread), EngineError> {
        let reader = self.domain.reader().map_err(|_| EngineError::TooManyWorkers)?;
        let clock = self.virtual_now.is_none().then_some(EngineClock { clock: self.clock, epoch: self.epoch });
        let mut worker = Worker::new(id.clone(), core, pool.another(), reader, self.sample_every, clock);
        worker.fabric.observers = self.observers.clone();
        let worker_thread = if self.virtual_now.is_some() {
            WorkerThread::Inline(Box::new(worker))
        } else {
            let patience = if is_control(&id) { CONTROL_PATIENCE } else { PATIENCE };
            let settings = ThreadSettings { idle, patience, longest: LONGEST, clock: self.clock, epoch: self.epoch };
            start_thread(worker, settings, self.hook.clone(), self.pinned.clone())?
        };
        Ok((id, worker_thread))
    }

    /// Data-path workers.
    pub fn workers(&self) -> usize {
        self.threads.len() - self.controls
    }

    /// Runs the blueprint from here on, keeping what it says to keep. Queues of ports that are another worker's from now on are
    /// handed over, with what is in them. Everything is laid out before any worker is told, so an error changes nothing. Returns
    /// once all workers run it.
    ///
    /// # Errors
    ///
    /// What [`weir_stage::Graph::check`] refuses, links that would wait for themselves, and a worker that does not answer.
    pub fn install(&mut self, blueprint: Blueprint) -> Result<(), EngineError> {
        let names: Vec<String> = self.threads.iter().map(|(id, _)| id.clone()).collect();
        let mut layout_plan = lay_out(blueprint, &names, &self.links).map_err(EngineError::Graph)?;
        self.hand_over_queues(&mut layout_plan)?;
        let bells: Vec<Arc<Bell>> = self.threads.iter().map(|(_, thread)| Arc::clone(thread.bell())).collect();
        let mut answers = Vec::new();
        for ((id, worker_thread), mut plan) in self.threads.iter_mut().zip(layout_plan.plans) {
            plan.bells.clone_from(&bells);
            self.queues.insert(id.clone(), Ports::of(&plan));
            answers.push((id.clone(), worker_thread.post(|to| Command::Install(Box::new(plan), to))));
        }
        self.links = layout_plan.links;
        let mut left: Vec<Leftover> = Vec::new();
        for (id, answer) in answers {
            left.push(answer.wait(INSTALLED).ok_or(EngineError::Stalled(id))?);
        }
        self.drain_old_links(left);
        Ok(())
    }

    /// Packets in links that are gone belong to the workers that would have got them.
    fn drain_old_links(&mut self, left: Vec<Leftover>) {
        for ((_, worker_thread), leftover) in self.threads.iter_mut().zip(left) {
            for (name, consumer) in leftover.consumers {
                worker_thread.ask(ANSWER, |to| Command::DrainLink(name, consumer, to));
            }
        }
    }

    /// The numbers of all workers, those of the control side last: of each worker all of one moment. A worker that does not answer
    /// is shown as it was last seen.
    ///
    /// Where all say that they are quiet, all were at one moment: they are asked a second time to know that.
    pub fn snapshot(&mut self) -> Vec<WorkerSnapshot> {
        let mut seen = self.sweep();
        if seen.iter().all(|worker| worker.quiet) {
            let before = std::mem::replace(&mut seen, self.sweep());
            if has_crossed(&before, &seen) {
                seen.iter_mut().for_each(|worker| worker.quiet = false);
            }
        }
        seen
    }

    /// Asks each worker for its numbers. One that did not answer last time gets little time for it.
    fn sweep(&mut self) -> Vec<WorkerSnapshot> {
        let silent = self.as_last_told();
        self.last = told_or(self.ask_all(AGAIN, Command::Snapshot), silent);
        self.last.clone()
    }

    /// Asks every worker, then waits for the answers, `again` for one that did not answer last time; `None` of one that does not.
    fn ask_all<R>(&mut self, again: Duration, command: impl Fn(Sender<R>) -> Command) -> Vec<Option<R>> {
        let asked: Vec<_> = self.threads.iter_mut().map(|(_, worker_thread)| worker_thread.post(&command)).collect();
        let silent = |at: usize| self.last.get(at).is_some_and(|worker| worker.silent);
        let patience = |at| if silent(at) { again } else { ANSWER };
        asked.into_iter().enumerate().map(|(at, answer)| answer.wait(patience(at))).collect()
    }

    /// What is told of each worker if it does not answer: its numbers as it told them last.
    fn as_last_told(&self) -> Vec<WorkerSnapshot> {
        let before = |at| self.last.get(at).cloned().unwrap_or_default();
        let silent = |(at, (id, _)): (usize, &(String, WorkerThread))| WorkerSnapshot {
            id: id.clone(),
            quiet: false,
            silent: true,
            ..before(at)
        };
        self.threads.iter().enumerate().map(silent).collect()
    }

    /// Times round the loop of each worker, for a watchdog: a number that stays the same belongs to a worker that is stuck.
    pub fn beats(&self) -> Vec<(String, u64)> {
        let beat = |worker_thread: &WorkerThread| match worker_thread {
            WorkerThread::Thread { mailbox, .. } => mailbox.beat(),
            WorkerThread::Inline(worker) => worker.loops,
        };
        self.threads.iter().map(|(id, worker_thread)| (id.clone(), beat(worker_thread))).collect()
    }

    /// Has every stage on a thread of the control side panic with the next batch that comes to it, in builds for tests. Answers whether there is such a
    /// thread.
    pub fn torment(&mut self, control: &str) -> bool {
        let found = self.threads.iter_mut().find(|(id, _)| id == control && is_control(id));
        found.is_some_and(|(_, worker_thread)| worker_thread.ask(ANSWER, Command::Torment).is_some())
    }

    /// Tells `observer` of every packet from here on, also of those with workers that are added later.
    pub fn observe(&mut self, observer: &Arc<dyn Observer>) {
        self.observers.add(Arc::clone(observer));
        for (_, worker_thread) in &mut self.threads {
            worker_thread.ask(ANSWER, |to| Command::Observe(Arc::clone(observer), to));
        }
        observer.all_tell();
    }

    /// Tells `observer` no more.
    pub fn unobserve(&mut self, observer: &Arc<dyn Observer>) {
        self.observers.remove(observer);
        for (_, worker_thread) in &mut self.threads {
            worker_thread.ask(ANSWER, |to| Command::Unobserve(Arc::clone(observer), to));
        }
    }

    /// Now, nanoseconds of the engine's clock.
    pub fn now(&self) -> u64 {
        self.virtual_now.unwrap_or_else(|| self.clock.span_nanos(tsc::now().wrapping_sub(self.epoch)))
    }

    /// Frequency of the time stamp counter, Hz.
    pub fn hz(&self) -> u64 {
        self.clock.hz()
    }

    /// Whether the engine runs under the virtual clock.
    pub fn is_virtual(&self) -> bool {
        self.virtual_now.is_some()
    }

    /// Under the virtual clock: lets every worker go round once. Time moves on by a microsecond, or, when nobody has
    /// anything to do, to when something is due, however long that is; by 10 ms when nothing is. Returns whether anybody was busy.
    pub fn step(&mut self) -> bool {
        self.step_until(u64::MAX)
    }

    /// The same; time does not leap beyond `until`.
    pub fn step_until(&mut self, until: u64) -> bool {
        let Some(now) = self.virtual_now else { return false };
        let looks = std::mem::take(&mut self.look_now);
        let (mut busy, mut due) = (false, false);
        let mut next = u64::MAX;
        for (_, worker_thread) in &mut self.threads {
            if let WorkerThread::Inline(worker) = worker_thread {
                let began = tsc::now();
                // While the others had their turn, this one waited.
                worker.cycles.asleep += began.wrapping_sub(worker.accounted);
                due |= worker.next_at() <= now;
                if looks {
                    worker.rouse();
                }
                busy |= worker.turn(now, began).busy;
                next = next.min(worker.next_at());
            }
        }
        self.domain.collect();
        if busy || due {
            self.rouse();
        }
        let soon = now.saturating_add(BUSY);
        self.virtual_now = Some(if busy {
            soon
        } else if self.looks > 0 {
            self.looks -= 1;
            self.look_now = true;
            soon
        } else {
            let leap = if next == u64::MAX { now.saturating_add(NOTHING_DUE) } else { next };
            leap.min(until).max(soon)
        });
        busy
    }

    /// Under the virtual clock: somebody outside left something for stages, a request: they are polled before time goes on.
    pub fn rouse(&mut self) {
        self.looks = LOOKS;
    }

    /// Whether all input has come to its end and nothing is on its way.
    pub fn drained(&mut self) -> bool {
        // Workers are asked one after the other: what one sends to another meanwhile shows when both are asked again.
        let seen = self.at_rest();
        seen.is_some() && self.at_rest() == seen
    }

    /// Packets that came to each worker so far, if all are at rest.
    fn at_rest(&mut self) -> Option<Vec<u64>> {
        let came = |worker: WorkerSnapshot| {
            let came = worker.account.received + worker.account.created + worker.account.links_in;
            (worker.quiet && worker.exhausted).then_some(came)
        };
        self.snapshot().into_iter().map(came).collect()
    }

    /// Stops: no worker receives any more, what is on its way leaves, what cannot leave within a second is dropped by name.
    /// Returns the last numbers. A worker that is stuck in a stage does not hold this up: it is told as silent, and its thread is
    /// still there, with what it holds of ports and buffers.
    pub fn stop(mut self) -> Vec<WorkerSnapshot> {
        self.ask_all(ANSWER, Command::StopReceiving);
        self.wait_until_quiet();
        self.ask_all(ANSWER, Command::Halt);
        self.end()
    }

    /// Ends all workers, and waits for the threads of those that answer. Returns their last numbers.
    fn end(&mut self) -> Vec<WorkerSnapshot> {
        let answers = self.ask_all(ANSWER, Command::Stop);
        for ((_, worker_thread), answer) in self.threads.iter_mut().zip(&answers) {
            // One that has answered is about to end; one that has not may never.
            if let (WorkerThread::Thread { thread, .. }, Some(_)) = (worker_thread, answer) {
                drop(thread.take().map(std::thread::JoinHandle::join));
            }
        }
        let last = told_or(answers, self.as_last_told());
        self.threads.clear();
        last
    }

    fn wait_until_quiet(&mut self) {
        let mut waited = Duration::ZERO;
        let pause = Duration::from_millis(1);
        while waited < DRAIN {
            let seen = self.snapshot();
            if seen.iter().all(|worker| worker.quiet || worker.silent) {
                return;
            }
            if self.is_virtual() {
                self.step();
                waited += pause / 10;
            } else {
                std::thread::park_timeout(pause);
                waited += pause;
            }
        }
    }
}

impl Drop for Engine {
    /// Ends the threads of an engine that was not stopped. None is left that could be at work while the process ends.
    fn drop(&mut self) {
        self.end();
    }
}
