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
        let now = settings.clock.span_nanos(began.wrapping_sub(settings.epoch));
        let turn = worker.turn(now, began);
        began = turn.ended;
        mailbox.beat.store(worker.loops, Ordering::Relaxed);
        if turn.busy {
            last_busy = began;
            called = false;
            if std::mem::take(&mut announced) {
                worker.bell.withdraw();
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
mod tests {
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::sync::mpsc::Receiver;
    use std::task::Waker;

    use rustix::pipe::{PipeFlags, pipe_with};
    use weir_mem::{Domain, ring};
    use weir_packet::{Batch, HeapPool, LaneSet, Pool};
    use weir_stage::{Declaration, Out, Rx, Stage, Traffic};

    use super::*;
    use crate::node::Exit;
    use crate::plan::{Entry, PlanLink, PlanSource, PlanStage};
    use crate::thread::start_thread;

    weir_stage::ways! {
        enum Way {
            /// On.
            Out => way "out",
        }
    }

    /// A port that a packet comes from for each byte of a pipe.
    struct Piped(OwnedFd);

    impl Rx for Piped {
        fn receive(&mut self, batch: &mut Batch, pool: &mut dyn Pool, _: u64) -> Traffic {
            if rustix::io::read(&self.0, &mut [0]).is_err() {
                return Traffic::default();
            }
            let mut packet = pool.alloc().unwrap();
            assert!(packet.fill(&[1; 60]) && batch.push(packet).is_ok());
            Traffic { packets: 1, bytes: 60 }
        }

        fn descriptor(&self) -> Option<BorrowedFd<'_>> {
            Some(self.0.as_fd())
        }
    }

    /// Tells of each batch.
    struct Tell(Sender<u32>);

    impl Stage for Tell {
        fn declare(&self) -> Declaration {
            Declaration::of::<Way>()
        }

        fn run(&mut self, batch: &mut Batch, _: &mut Out<'_>) {
            // Whoever does not listen any more has seen enough.
            _ = self.0.send(batch.live().count_ones());
        }
    }

    fn stage(stage: impl Stage + 'static, exit: Exit) -> PlanStage {
        let (name, declaration) = ("tell".to_owned(), stage.declare());
        PlanStage {
            name,
            stage: Box::new(stage),
            declaration,
            exits: vec![exit],
            behind: LaneSet::default(),
            keep: false,
        }
    }

    fn beat(thread: &WorkerThread) -> u64 {
        match thread {
            WorkerThread::Thread { mailbox, .. } => mailbox.beat(),
            WorkerThread::Inline(_) => panic!("it has a thread"),
        }
    }

    /// Waits until a worker has not gone round for a while: it sleeps.
    fn until_asleep(thread: &WorkerThread) {
        for _ in 0..5_000 {
            let before = beat(thread);
            std::thread::park_timeout(Duration::from_millis(4));
            if beat(thread) == before {
                return;
            }
        }
        panic!("it never sleeps");
    }

    fn next(told: &Receiver<u32>) -> u32 {
        told.recv_timeout(Duration::from_secs(60)).expect("it was not woken")
    }

    /// Says that it was polled, and what wakes it.
    struct Polled(Sender<u32>, Sender<Waker>);

    impl Stage for Polled {
        fn declare(&self) -> Declaration {
            Declaration::of::<Way>().polled()
        }

        fn run(&mut self, _: &mut Batch, _: &mut Out<'_>) {}

        fn poll(&mut self, _: &mut Out<'_>) -> u64 {
            _ = self.0.send(0);
            u64::MAX
        }

        fn woken_by(&mut self, waker: &Waker) {
            self.1.send(waker.clone()).unwrap();
        }
    }

    fn settings() -> ThreadSettings {
        const HOUR: u64 = 3_600_000_000_000;
        let (clock, epoch) = (Clock::calibrate(), tsc::now());
        ThreadSettings { idle: Idle::Sleep, patience: 0, longest: HOUR, clock, epoch }
    }

    fn start(id: &str, domain: &Domain, pool: &HeapPool) -> WorkerThread {
        let worker = Worker::new(id.to_owned(), None, pool.another(), domain.reader().unwrap(), u32::MAX, None);
        start_thread(worker, settings(), None, Vec::new()).unwrap()
    }

    fn install(thread: &mut WorkerThread, plan: WorkerPlan) {
        assert!(thread.ask(Duration::from_secs(60), |to| Command::Install(Box::new(plan), to)).is_some());
    }

    /// Ends workers that sleep.
    fn end(threads: &mut [WorkerThread]) {
        for thread in &mut *threads {
            until_asleep(thread);
            assert!(thread.ask(Duration::from_secs(60), Command::Halt).is_some());
        }
        for thread in threads {
            assert!(thread.ask(Duration::from_secs(60), Command::Stop).is_some());
            let WorkerThread::Thread { thread, .. } = thread else { continue };
            thread.take().unwrap().join().unwrap();
        }
    }

    /// A stage that waits for nothing but what others leave for it is polled when they say so, and not before.
    #[test]
    fn a_stage_is_polled_when_somebody_wakes_it() {
        let (domain, pool) = (Domain::new(), HeapPool::new(64, 256));
        let mut threads = [start("only", &domain, &pool)];
        let ((polled, polls), (waker, wakers)) = (channel(), channel());
        let stages = vec![stage(Polled(polled, waker), Exit::End)];
        install(&mut threads[0], WorkerPlan { stages, ..WorkerPlan::default() });
        let waker = wakers.recv().unwrap();
        assert_eq!(next(&polls), 0, "it is polled when it is new");
        for _ in 0..20 {
            until_asleep(&threads[0]);
            assert!(polls.try_recv().is_err(), "nobody woke it");
            waker.wake_by_ref();
            assert_eq!(next(&polls), 0);
        }
        end(&mut threads);
    }

    /// Two workers that would sleep for an hour: packets of a port, those of a link, and commands wake them, each time.
    #[test]
    fn a_worker_that_sleeps_is_woken() {
        let (domain, pool) = (Domain::new(), HeapPool::new(64, 256));
        let mut threads = ["first", "second"].map(|id| start(id, &domain, &pool));
        let bells: Vec<_> = threads.iter().map(|thread| Arc::clone(thread.bell())).collect();
        let (from, to) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        let (producer, consumer) = ring(64);
        let [(left, left_told), (right, right_told)] = [channel(), channel()];
        let (link, lanes) = ("first -> second".to_owned(), LaneSet::default());
        let first = WorkerPlan {
            bells: bells.clone(),
            stages: vec![stage(Tell(left), Exit::Link(0))],
            sources: vec![PlanSource::Port {
                name: "pipe".to_owned(),
                port: 0,
                rx: Some(Box::new(Piped(from))),
                entry: 0,
            }],
            links: vec![PlanLink { name: link.clone(), to: 1, producer: Some(producer), may_drop: false, lanes }],
            ..WorkerPlan::default()
        };
        let second = WorkerPlan {
            bells,
            stages: vec![stage(Tell(right), Exit::End)],
            sources: vec![PlanSource::Link { name: link, consumer: Some(consumer), entry: Entry::Stage(0), lanes }],
            ..WorkerPlan::default()
        };
        for (thread, plan) in threads.iter_mut().zip([first, second]) {
            install(thread, plan);
        }
        for packets in 1..=20 {
            threads.iter().for_each(until_asleep);
            rustix::io::write(&to, &[1]).unwrap();
            assert_eq!((next(&left_told), next(&right_told)), (1, 1));
            threads.iter().for_each(until_asleep);
            for thread in &mut threads {
                let told: WorkerSnapshot = thread.ask(Duration::from_secs(60), Command::Snapshot).unwrap();
                assert_eq!(told.account.received + told.account.links_in, packets);
            }
        }
        end(&mut threads);
    }
}
