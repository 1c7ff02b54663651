//! The engine as the program sees it: workers that are started, given blueprints, asked for their numbers, and stopped.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weir_mem::{Clock, Domain, tsc};
use weir_packet::Pool;
use weir_stage::{EngineClock, GraphError};

use crate::cores::{keep_off, pin};
use crate::layout::{Blueprint, lay_out};
use crate::observe::Observer;
use crate::plan::Leftover;
use crate::seat::{CONTROL_PATIENCE, Command, Idle, Mailbox, PATIENCE, Seat, ThreadSettings, obey, run};
use crate::snapshot::WorkerSnapshot;
use crate::worker::Worker;

/// The name of the control side among the workers.
const CONTROL: &str = "control";

/// How long a worker may take to answer before it counts as stalled.
const ANSWER: Duration = Duration::from_secs(2);

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
    seats: Vec<(String, Seat)>,
    links: HashSet<String>,
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
    last: Vec<WorkerSnapshot>,
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
            seats: Vec::new(),
            links: HashSet::new(),
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
            last: Vec::new(),
        };
        let control = engine.seat(CONTROL.to_owned(), None, Idle::Sleep, pool)?;
        engine.seats.push(control);
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
        let seat = self.seat(id, core, self.idle, pool)?;
        self.seats.insert(n, seat);
        Ok(())
    }

    fn seat(
        &self,
        id: String,
        core: Option<usize>,
        idle: Idle,
        pool: &dyn Pool,
    ) -> Result<(String, Seat), EngineError> {
        let reader = self.domain.reader().map_err(|_| EngineError::TooManyWorkers)?;
        let clock = self.virtual_now.is_none().then_some(EngineClock { clock: self.clock, epoch: self.epoch });
        let worker = Worker::new(id.clone(), core, pool.another(), reader, self.sample_every, clock);
        let seat = if self.virtual_now.is_some() {
            Seat::Inline(Box::new(worker))
        } else {
            let patience = if id == CONTROL { CONTROL_PATIENCE } else { PATIENCE };
            let settings = ThreadSettings { idle, patience, clock: self.clock, epoch: self.epoch };
            start_thread(worker, settings, self.hook.clone(), self.pinned.clone())?
        };
        Ok((id, seat))
    }

    /// Data-path workers.
    pub fn workers(&self) -> usize {
        self.seats.len() - 1
    }

    /// Runs the blueprint from here on, keeping what it says to keep. Everything is laid out before any worker is told, so an
    /// error changes nothing. Returns once all workers run it.
    ///
    /// # Errors
    ///
    /// What [`weir_stage::Graph::check`] refuses, links that would wait for themselves, and a worker that does not answer.
    pub fn install(&mut self, blueprint: Blueprint) -> Result<(), EngineError> {
        let laid = lay_out(blueprint, &self.links).map_err(EngineError::Graph)?;
        let mut answers = Vec::new();
        for ((id, seat), plan) in self.seats.iter_mut().zip(laid.plans) {
            answers.push((id.clone(), seat.post(|to| Command::Install(Box::new(plan), to))));
        }
        self.links = laid.links;
        let mut left: Vec<Leftover> = Vec::new();
        for (id, answer) in answers {
            left.push(answer.recv_timeout(ANSWER).map_err(|_| EngineError::Stalled(id))?);
        }
        self.drain_old_links(left);
        Ok(())
    }

    /// Packets in links that are gone belong to the workers that would have got them.
    fn drain_old_links(&mut self, left: Vec<Leftover>) {
        for ((_, seat), leftover) in self.seats.iter_mut().zip(left) {
            for (name, consumer) in leftover.consumers {
                seat.ask(ANSWER, |to| Command::DrainLink(name, consumer, to));
            }
        }
    }

    /// The numbers of all workers, the control side's last: of each worker all of one moment. A worker that does not answer
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

    /// Asks each worker for its numbers.
    fn sweep(&mut self) -> Vec<WorkerSnapshot> {
        let asked: Vec<_> = self.seats.iter_mut().map(|(_, seat)| seat.post(Command::Snapshot)).collect();
        let last = std::mem::take(&mut self.last);
        let silent = |at| WorkerSnapshot { quiet: false, ..last.get(at).cloned().unwrap_or_default() };
        let answers = asked.into_iter().enumerate();
        self.last = answers.map(|(at, answer)| answer.recv_timeout(ANSWER).unwrap_or_else(|_| silent(at))).collect();
        self.last.clone()
    }

    /// Times round the loop of each worker, for a watchdog: a number that stays the same belongs to a worker that is stuck.
    pub fn beats(&self) -> Vec<(String, u64)> {
        let beat = |seat: &Seat| match seat {
            Seat::Thread { mailbox, .. } => mailbox.beat(),
            Seat::Inline(worker) => worker.loops,
        };
        self.seats.iter().map(|(id, seat)| (id.clone(), beat(seat))).collect()
    }

    /// Tells `observer` of every packet from here on.
    pub fn observe(&mut self, observer: &Arc<dyn Observer>) {
        for (_, seat) in &mut self.seats {
            seat.ask(ANSWER, |to| Command::Observe(Arc::clone(observer), to));
        }
    }

    /// Tells `observer` no more.
    pub fn unobserve(&mut self, observer: &Arc<dyn Observer>) {
        for (_, seat) in &mut self.seats {
            seat.ask(ANSWER, |to| Command::Unobserve(Arc::clone(observer), to));
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
        for (_, seat) in &mut self.seats {
            if let Seat::Inline(worker) = seat {
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
        self.snapshot().iter().all(|worker| worker.quiet && worker.exhausted)
    }

    /// Stops: no worker receives any more, what is on its way leaves, what cannot leave within a second is dropped by name.
    /// Returns the last numbers.
    pub fn stop(mut self) -> Vec<WorkerSnapshot> {
        for (_, seat) in &mut self.seats {
            seat.ask(ANSWER, Command::StopReceiving);
        }
        self.wait_until_quiet();
        for (_, seat) in &mut self.seats {
            seat.ask(ANSWER, Command::Halt);
        }
        let last: Vec<_> = self.seats.iter_mut().map(|(_, seat)| seat.ask(ANSWER, Command::Stop)).collect();
        for ((_, seat), answer) in self.seats.iter_mut().zip(&last) {
            // One that has answered is about to end; one that has not may never.
            if let (Seat::Thread { thread, .. }, Some(_)) = (seat, answer) {
                thread.take().map(std::thread::JoinHandle::join);
            }
        }
        last.into_iter().map(Option::unwrap_or_default).collect()
    }

    fn wait_until_quiet(&mut self) {
        let mut waited = Duration::ZERO;
        let pause = Duration::from_millis(1);
        while waited < DRAIN {
            if self.snapshot().iter().all(|worker| worker.quiet) {
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

/// The name of the thread of a worker, by the worker's name.
pub fn thread_name(worker: &str) -> String {
    format!("weir-{worker}")
}

/// Starts a worker's thread, and waits until it is pinned.
fn start_thread(
    worker: Worker,
    settings: ThreadSettings,
    hook: Option<ThreadHook>,
    busy: Vec<usize>,
) -> Result<Seat, EngineError> {
    let mailbox = Arc::new(Mailbox::default());
    let (started, starts) = std::sync::mpsc::channel();
    let theirs = Arc::clone(&mailbox);
    let name = thread_name(&worker.id);
    let body = move || {
        let mut worker = worker;
        let pinned = worker.core.map_or(Ok(()), pin);
        if worker.id == CONTROL {
            keep_off(&busy);
        }
        let failed = pinned.is_err();
        drop(started.send(pinned));
        if failed {
            return;
        }
        let _registered = hook.map(|hook| hook(&worker.id));
        run(&mut worker, &theirs, &settings);
    };
    let thread = std::thread::Builder::new().name(name).spawn(body);
    let thread = thread.map_err(|error| EngineError::Thread(error.to_string()))?;
    match starts.recv() {
        Ok(Ok(())) => Ok(Seat::Thread { mailbox, thread: Some(thread) }),
        Ok(Err(error)) => Err(error),
        Err(error) => Err(EngineError::Thread(error.to_string())),
    }
}

impl Drop for Engine {
    /// Ends the threads of an engine that was not stopped.
    fn drop(&mut self) {
        for (_, seat) in &mut self.seats {
            match seat {
                Seat::Thread { mailbox, thread: Some(thread) } => {
                    let (to, _) = std::sync::mpsc::channel();
                    mailbox.post(Command::Stop(to));
                    thread.thread().unpark();
                }
                Seat::Thread { .. } => {}
                Seat::Inline(worker) => {
                    let (to, _) = std::sync::mpsc::channel();
                    obey(worker, Command::Stop(to));
                }
            }
        }
    }
}

/// Whether a packet went into or out of a link between two sweeps over the same workers.
///
/// Workers are asked one after the other. One that was quiet may have got a packet by the time that the next is asked; then
/// all are quiet, and what went into the link has not come out. These counts only grow: where no worker's has changed
/// from one sweep to the next, all of them held at the moment in between.
fn has_crossed(before: &[WorkerSnapshot], after: &[WorkerSnapshot]) -> bool {
    let crossings = |worker: &WorkerSnapshot| (worker.account.links_in, worker.account.links_out);
    !before.iter().map(crossings).eq(after.iter().map(crossings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Account;

    /// Two workers, as what went in and out of their links.
    fn sweep(of: [(u64, u64); 2]) -> Vec<WorkerSnapshot> {
        let snapshot = |(links_in, links_out)| WorkerSnapshot {
            account: Account { links_in, links_out, ..Account::default() },
            ..WorkerSnapshot::default()
        };
        of.map(snapshot).to_vec()
    }

    /// The first worker was quiet when it was asked, then the second put two packets into a link, and the first took them
    /// before the second was asked: nobody holds them, and they are missing from the sum.
    #[test]
    fn what_crosses_during_a_sweep_is_seen_by_the_next() {
        let during = sweep([(0, 0), (0, 2)]);
        assert!(has_crossed(&during, &sweep([(2, 0), (0, 2)])));
        assert!(has_crossed(&sweep([(0, 0), (0, 0)]), &during));
        let after = sweep([(2, 0), (0, 2)]);
        assert!(!has_crossed(&after, &after.clone()));
    }
}
