//! Where a worker sits: on a thread of its own, or, under the virtual clock, in the hands of the engine.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_mem::{CacheAligned, Clock, Consumer, tsc};
use weir_packet::Held;

use crate::asked::{Asked, ThreadNumber};
use crate::bell::Bell;
use crate::moving::{Lifted, Ports};
use crate::observe::Observer;
use crate::plan::{Leftover, WorkerPlan};
use crate::reason::Reason;
use crate::snapshot::WorkerSnapshot;
use crate::worker::Worker;

/// What a worker does when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Looks again at once. Lowest latency, the core is never free.
    Spin,
    /// Looks again after a `pause` instruction, which leaves a sibling hyper-thread more of the core.
    Relax,
    /// Spins; once nothing came for 1 ms, nothing is held and nothing is due within 100 us, sleeps until something comes. Where all that
    /// comes wakes it (ports with a [descriptor](weir_stage::Rx::descriptor), links), that is at once; else it looks every 100 us, which adds up to
    /// about 0.2 ms to the latency of a packet that ends a pause.
    Sleep,
}

/// Nothing came for so long, nanoseconds, before a data-path worker sleeps.
pub(crate) const PATIENCE: u64 = 1_000_000;

/// The same for the control side, which is in nobody's way while it sleeps: it has no core of its own.
pub(crate) const CONTROL_PATIENCE: u64 = 0;

/// How long a worker sleeps that has to look for packets itself, nanoseconds. One that is woken sleeps longer, but wakes up so long before something
/// is due, so that it is not late.
const SLEEP: u64 = 100_000;

/// How long a worker sleeps at most that is woken, nanoseconds: so long waits what was left for it while it fell asleep, if nobody saw that.
pub(crate) const LONGEST: u64 = 10_000_000;

/// What the control side asks of a worker.
pub(crate) enum Command {
    Snapshot(Sender<WorkerSnapshot>),
    /// Gives up queues of ports, and waits for the plan that says how to go on.
    Lift(Ports, Sender<Lifted>),
    /// Gets them back, and goes on as before.
    PutBack(Lifted, Sender<()>),
    Install(Box<WorkerPlan>, Sender<Leftover>),
    DrainLink(String, Consumer<Held>, Sender<()>),
    Observe(Arc<dyn Observer>, Sender<()>),
    Unobserve(Arc<dyn Observer>, Sender<()>),
    StopReceiving(Sender<()>),
    /// Has every stage panic with the next batch, in builds for tests.
    Torment(Sender<()>),
    /// Drops what is in hand and does nothing any more.
    Halt(Sender<()>),
    /// Once all have halted: drops what is in the links that lead here, hands in the last numbers, and ends.
    Stop(Sender<WorkerSnapshot>),
}

/// Where commands lie until the worker's next loop, and where it shows that it is alive.
pub(crate) struct Mailbox {
    /// What wakes the worker.
    bell: Arc<Bell>,
    waiting: CacheAligned<AtomicBool>,
    beat: CacheAligned<AtomicU64>,
    /// The thread that looks into it.
    pub(crate) thread: ThreadNumber,
    commands: Mutex<Vec<Command>>,
}

impl Mailbox {
    pub(crate) fn new(bell: Arc<Bell>) -> Mailbox {
        let thread = ThreadNumber::default();
        Mailbox {
            bell,
            waiting: CacheAligned::default(),
            beat: CacheAligned::default(),
            thread,
            commands: Mutex::default(),
        }
    }

    pub(crate) fn post(&self, command: Command) {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).push(command);
        // M1: whoever sees the flag sees the command, by the lock.
        self.waiting.store(true, Ordering::Release);
        self.bell.ring_for_certain();
    }

    /// Times round the loop, as last shown.
    pub(crate) fn beat(&self) -> u64 {
        self.beat.load(Ordering::Relaxed)
    }

    /// Takes back the command to give up queues, if it was not carried out yet.
    pub(crate) fn do_not_lift(&self) {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.retain(|command| !matches!(command, Command::Lift(..)));
    }

    fn take(&self) -> Vec<Command> {
        // M1.
        self.waiting.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.commands.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Does what a command says; false when the worker is to end.
pub(crate) fn obey(worker: &mut Worker, command: Command) -> bool {
    // A receiver that went away does not want the answer any more.
    match command {
        Command::Snapshot(to) => drop(to.send(worker.snapshot())),
        Command::Lift(ports, to) => drop(to.send(worker.lift(&ports))),
        Command::PutBack(lifted, to) => {
            worker.put_back(lifted);
            done(&to);
        }
        Command::Install(plan, to) => drop(to.send(worker.install(*plan))),
        Command::DrainLink(name, consumer, to) => {
            worker.drain_link(&name, consumer, Reason::Reload);
            done(&to);
        }
        Command::Observe(observer, to) => {
            worker.fabric.observers.add(observer);
            done(&to);
        }
        Command::Unobserve(observer, to) => {
            worker.fabric.observers.remove(&observer);
            done(&to);
        }
        Command::StopReceiving(to) => {
            worker.receiving = false;
            done(&to);
        }
        Command::Torment(to) => {
            worker.nodes.iter_mut().for_each(|node| node.tormented = true);
            done(&to);
        }
        Command::Halt(to) => {
            worker.halt();
            done(&to);
        }
        Command::Stop(to) => {
            worker.halt();
            worker.drain_links();
            drop(to.send(worker.snapshot()));
            return false;
        }
    }
    true
}

fn done(to: &Sender<()>) {
    let _not_waited_for = to.send(());
}

/// A worker's place.
pub(crate) enum WorkerThread {
    Thread { mailbox: Arc<Mailbox>, thread: Option<JoinHandle<()>> },
    Inline(Box<Worker>),
}

impl WorkerThread {
    /// Asks a worker and waits for its answer, at most `wait` while it has a core; `None` when it does not answer.
    pub(crate) fn ask<R>(&mut self, wait: Duration, command: impl FnOnce(Sender<R>) -> Command) -> Option<R> {
        self.post(command).wait(wait)
    }

    /// Takes back the command to give up queues, if the worker has not begun with it.
    pub(crate) fn do_not_lift(&self) {
        if let WorkerThread::Thread { mailbox, .. } = self {
            mailbox.do_not_lift();
        }
    }

    /// What wakes the worker.
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        match self {
            WorkerThread::Thread { mailbox, .. } => &mailbox.bell,
            WorkerThread::Inline(worker) => &worker.bell,
        }
    }

    /// Asks a worker without waiting for its answer.
    pub(crate) fn post<R>(&mut self, command: impl FnOnce(Sender<R>) -> Command) -> Asked<R> {
        let (to, from) = channel();
        match self {
            WorkerThread::Thread { mailbox, .. } => {
                let theirs = Arc::clone(mailbox);
                let asked = Asked::new(from, move || theirs.thread.starved());
                mailbox.post(command(to));
                asked
            }
            WorkerThread::Inline(worker) => {
                obey(worker, command(to));
                Asked::new(from, || Duration::ZERO)
            }
        }
    }
}

/// How a worker's thread runs.
pub(crate) struct ThreadSettings {
    pub(crate) idle: Idle,
    /// How long nothing must have come before it sleeps, nanoseconds.
    pub(crate) patience: u64,
    /// How long it sleeps at most, nanoseconds.
    pub(crate) longest: u64,
    pub(crate) clock: Clock,
    /// Reading of the time stamp counter that is time 0.
    pub(crate) epoch: u64,
}

/// The loop of a worker's thread.
pub(crate) fn run(worker: &mut Worker, mailbox: &Mailbox, settings: &ThreadSettings) {
    let mut began = tsc::now();
    (worker.started, worker.accounted) = (began, began);
    let mut last_busy = began;
    let patience = settings.clock.cycles(settings.patience);
    // Whether it has said that it is about to sleep, and whether a port woke it and nothing has come since.
    let (mut announced, mut called) = (false, false);
    loop {
        // M1.
        if mailbox.waiting.load(Ordering::Acquire) {
            if announced {
                // It may have to give its ports away.
                worker.listen(false);
            }
            if mailbox.take().into_iter().any(|command| !obey(worker, command)) {
                return;
            }
            let after = tsc::now();
            worker.cycles.housekeeping += after.wrapping_sub(began);
            worker.accounted = after;
            began = after;
        }
        if worker.bell.is_roused() {
            worker.rouse();
        }
        if worker.waits {
            // A command ends it.
            worker.bell.announce();
            announced = true;
            (began, _) = sleep(worker, SLEEP, began);
            continue;
        }
        if announced {
            worker.listen(true);
        }
        let now = settings.clock.span_nanos(began.wrapping_sub(settings.epoch));
        let turn = worker.turn(now, began);
        began = turn.ended;
        mailbox.beat.store(worker.loops, Ordering::Relaxed);
        if turn.busy {
            last_busy = began;
            called = false;
            if std::mem::take(&mut announced) {
                worker.bell.withdraw();
                worker.listen(false);
            }
            continue;
        }
        // Who has nothing to run, because a reload moved it all elsewhere, is in nobody's way.
        match if worker.has_work() { settings.idle } else { Idle::Sleep } {
            Idle::Spin => {}
            Idle::Relax => std::hint::spin_loop(),
            Idle::Sleep if began.wrapping_sub(last_busy) >= patience => {
                let next = worker.next_at();
                if next <= now + SLEEP || worker.fabric.held() > 0 {
                    continue;
                }
                if !std::mem::replace(&mut announced, true) {
                    // What came until now is found in one more turn.
                    worker.bell.announce();
                    continue;
                }
                // A port that said it had something, and had nothing that could be taken, is not asked again at once.
                let longest = if called { SLEEP } else { (next - now - SLEEP).min(settings.longest) };
                (began, called) = sleep(worker, longest, began);
            }
            Idle::Sleep => std::hint::spin_loop(),
        }
    }
}

/// Has the worker wait, see [`Worker::wait`]. Returns the time stamp counter at its end, and whether a port woke it.
fn sleep(worker: &mut Worker, longest: u64, began: u64) -> (u64, bool) {
    let called = worker.wait(longest, SLEEP);
    let after = tsc::now();
    worker.cycles.asleep += after.wrapping_sub(began);
    worker.accounted = after;
    (after, called)
}

#[cfg(test)]
mod tests;
