//! Workers on threads of their own: what wakes them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::fence;
use std::sync::mpsc::Receiver;
use std::task::Waker;

use rustix::event::{EventfdFlags, eventfd};
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

/// A packet for each byte of a pipe.
fn receive(pipe: &OwnedFd, batch: &mut Batch, pool: &mut dyn Pool, _: u64) -> Traffic {
    if rustix::io::read(pipe, &mut [0]).is_err() {
        return Traffic::default();
    }
    let mut packet = pool.alloc().unwrap();
    assert!(packet.fill(&[1; 60]) && batch.push(packet).is_ok());
    Traffic { packets: 1, bytes: 60 }
}

/// A port that a packet comes from for each byte of a pipe.
struct Piped(OwnedFd);

impl Rx for Piped {
    fn receive(&mut self, batch: &mut Batch, pool: &mut dyn Pool, now: u64) -> Traffic {
        receive(&self.0, batch, pool, now)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

/// A port that a packet comes from for each byte of a pipe, and that rings for those who listen, once.
struct Ringing(OwnedFd, Arc<Ring>);

struct Ring {
    event: OwnedFd,
    is_listened_to: AtomicBool,
}

impl Ring {
    /// What came has been left in the pipe.
    fn came(&self) {
        fence(Ordering::SeqCst);
        if self.is_listened_to.swap(false, Ordering::SeqCst) {
            rustix::io::write(&self.event, &1_u64.to_ne_bytes()).unwrap();
        }
    }
}

impl Rx for Ringing {
    fn receive(&mut self, batch: &mut Batch, pool: &mut dyn Pool, now: u64) -> Traffic {
        receive(&self.0, batch, pool, now)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.1.event.as_fd())
    }

    fn listen(&mut self, on: bool) {
        _ = rustix::io::read(&self.1.event, &mut [0; 8]);
        self.1.is_listened_to.store(on, Ordering::SeqCst);
        fence(Ordering::SeqCst);
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
    PlanStage { name, stage: Box::new(stage), declaration, exits: vec![exit], behind: LaneSet::default(), keep: false }
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

/// A worker that would sleep for an hour, at a port that rings only while it is listened to: at whatever moment of its falling asleep a packet
/// comes, it is received.
#[test]
fn a_port_that_rings_for_listeners_wakes_a_worker() {
    let (domain, pool) = (Domain::new(), HeapPool::new(64, 256));
    let mut threads = [start("only", &domain, &pool)];
    let (from, to) = pipe_with(PipeFlags::NONBLOCK).unwrap();
    let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    let ring = Arc::new(Ring { event, is_listened_to: AtomicBool::new(false) });
    let (tell, told) = channel();
    let rx = Box::new(Ringing(from, Arc::clone(&ring)));
    let sources = vec![PlanSource::Port { name: "ring".to_owned(), port: 0, rx: Some(rx), entry: 0 }];
    install(
        &mut threads[0],
        WorkerPlan { stages: vec![stage(Tell(tell), Exit::End)], sources, ..WorkerPlan::default() },
    );
    for packets in 1..=2_000_u64 {
        if packets % 100 == 0 {
            until_asleep(&threads[0]);
            assert!(ring.is_listened_to.load(Ordering::SeqCst));
        }
        // Some come while it is awake, some while it falls asleep.
        (0..packets * 37 % 4096).for_each(|_| std::hint::spin_loop());
        rustix::io::write(&to, &[1]).unwrap();
        ring.came();
        assert_eq!(next(&told), 1);
    }
    end(&mut threads);
    assert!(!ring.is_listened_to.load(Ordering::SeqCst), "it gave the port up");
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
        sources: vec![PlanSource::Port { name: "pipe".to_owned(), port: 0, rx: Some(Box::new(Piped(from))), entry: 0 }],
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
