use super::*;
use crate::server::{Answer, Job};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use weir_protocol::{Request, Response, Rights};
use weir_stage::{Load, Service, Waits};

/// What the next step of an instance does, or the next making of one.
enum Act {
    Fail,
    Panic,
    /// Until the other end is dropped.
    Hang(Receiver<()>),
}

/// A service that does what it is told, one thing each step, and counts.
#[derive(Default)]
struct Told {
    steps: Mutex<Vec<Act>>,
    makings: Mutex<Vec<Act>>,
    made: AtomicUsize,
    stepped: AtomicUsize,
    dropped: AtomicUsize,
}

struct Maker(Arc<Told>);
struct Instance(Arc<Told>);

fn carry_out(act: Option<Act>) -> Result<(), String> {
    match act {
        None => Ok(()),
        Some(Act::Fail) => Err("its time had come".to_owned()),
        Some(Act::Panic) => panic!("never {}", "more"),
        Some(Act::Hang(gate)) => {
            assert!(gate.recv().is_err());
            Ok(())
        }
    }
}

impl MakeService for Maker {
    fn name(&self) -> &str {
        "told"
    }

    fn make(&self, _now: u64) -> Result<Box<dyn Service>, String> {
        let act = self.0.makings.lock().unwrap().pop();
        carry_out(act)?;
        self.0.made.fetch_add(1, Ordering::AcqRel);
        Ok(Box::new(Instance(Arc::clone(&self.0))))
    }
}

impl Service for Instance {
    fn waits(&self) -> Waits<'_> {
        // Round and round.
        Waits { until: Some(0), ..Waits::default() }
    }

    fn step(&mut self, _now: u64) -> Result<(), String> {
        self.0.stepped.fetch_add(1, Ordering::AcqRel);
        let act = self.0.steps.lock().unwrap().pop();
        std::thread::yield_now();
        carry_out(act)
    }

    fn load(&self) -> Load {
        Load { unit: "things", now: 1, most: 3 }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::AcqRel);
    }
}

const MILLISECOND: u64 = 1_000_000;

const LIMITS: Limits = Limits {
    step: 500 * MILLISECOND,
    pause: MILLISECOND,
    longest_pause: 4 * MILLISECOND,
    calm: 100 * MILLISECOND,
    abandoned: 2,
};

fn start(told: &Arc<Told>) -> Services {
    Services::start(vec![Box::new(Maker(Arc::clone(told)))], LIMITS).unwrap()
}

fn one(services: &Services) -> ServiceStats {
    services.stats().remove(0)
}

/// Waits until something is so; a machine may be slow.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..12_000 {
        if is_so() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("not within two minutes: {what}");
}

/// Whether it goes round from here on.
fn goes_on(told: &Told) {
    let before = told.stepped.load(Ordering::Acquire);
    wait_until("it steps", || told.stepped.load(Ordering::Acquire) > before + 3);
}

fn hang() -> (Sender<()>, Act) {
    let (open, gate) = channel();
    (open, Act::Hang(gate))
}

#[test]
fn a_service_steps_until_it_is_stopped() {
    let told = Arc::new(Told::default());
    let services = start(&told);
    goes_on(&told);
    let now = one(&services);
    assert_eq!((now.name.as_str(), now.owner.as_str(), now.state), ("told", "weir", ServiceState::Running));
    assert_eq!((now.restarts, now.failure, now.abandoned), (0, None, 0));
    assert_eq!((now.unit.as_str(), now.occupancy, now.capacity), ("things", 1, 3));
    assert!(now.steps > 3 && now.longest_step > 0);
    drop(services);
    let made_and_dropped = [&told.made, &told.dropped].map(|count| count.load(Ordering::Acquire));
    assert_eq!(made_and_dropped, [1, 1]);
    let stepped = told.stepped.load(Ordering::Acquire);
    std::thread::yield_now();
    assert_eq!(told.stepped.load(Ordering::Acquire), stepped, "it steps no more");
}

#[test]
fn one_that_fails_or_panics_is_made_anew() {
    for (act, wanted) in [(Act::Fail, "its time had come"), (Act::Panic, "it panicked, which is a bug: never more")] {
        let told = Arc::new(Told::default());
        let services = start(&told);
        goes_on(&told);
        told.steps.lock().unwrap().push(act);
        wait_until("it runs again", || one(&services).restarts == 1);
        goes_on(&told);
        let now = one(&services);
        assert_eq!((now.state, now.failure.as_deref()), (ServiceState::Running, Some(wanted)));
        assert!(now.failed_at.is_some());
        assert_eq!(told.dropped.load(Ordering::Acquire), 1, "what failed was thrown away");
    }
}

#[test]
fn one_that_cannot_be_made_is_tried_again() {
    let told = Arc::new(Told::default());
    told.makings.lock().unwrap().extend([Act::Fail, Act::Panic, Act::Fail]);
    let services = start(&told);
    wait_until("it runs", || one(&services).state == ServiceState::Running);
    goes_on(&told);
    assert_eq!(one(&services).failure.as_deref(), Some("its time had come"));
    assert_eq!(told.made.load(Ordering::Acquire), 1);
}

#[test]
fn one_that_hangs_is_given_up_and_another_takes_over() {
    let told = Arc::new(Told::default());
    let services = start(&told);
    let (open, act) = hang();
    told.steps.lock().unwrap().push(act);
    wait_until("it runs again", || one(&services).restarts == 1);
    goes_on(&told);
    let now = one(&services);
    assert_eq!((now.state, now.abandoned), (ServiceState::Running, 1));
    assert_eq!(now.failure.as_deref(), Some("a step has not ended within 0.5 s"));
    assert!(now.longest_step >= LIMITS.step);
    drop(open);
    wait_until("it comes back", || one(&services).abandoned == 0);
    wait_until("it is dropped", || told.dropped.load(Ordering::Acquire) == 1);
    goes_on(&told);
    assert_eq!(one(&services).restarts, 1);
}

#[test]
fn threads_that_hang_are_few() {
    let told = Arc::new(Told::default());
    let services = start(&told);
    let (first, act) = hang();
    told.steps.lock().unwrap().push(act);
    wait_until("it is given up", || one(&services).abandoned == 1);
    // The making of one may hang as well as a step.
    let (_second, act) = hang();
    told.makings.lock().unwrap().push(act);
    told.steps.lock().unwrap().push(Act::Fail);
    wait_until("it is given up for good", || one(&services).state == ServiceState::Failed);
    assert_eq!(one(&services).abandoned, 2);
    let made = told.made.load(Ordering::Acquire);
    drop(first);
    wait_until("it runs again", || one(&services).state == ServiceState::Running);
    goes_on(&told);
    assert!(one(&services).abandoned == 1 && told.made.load(Ordering::Acquire) > made);
}

#[test]
fn pauses_grow_and_are_forgotten() {
    let slot = slot::Slot::new(Box::new(Maker(Arc::default())), Bell::new().unwrap(), LIMITS);
    let wait = |now| slot.wait(0, now).unwrap() / MILLISECOND;
    let mut now = 0;
    for wanted in [1, 2, 4, 4] {
        slot.made(now);
        slot.failed("why", now);
        assert_eq!(wait(now), wanted);
        now += 50 * MILLISECOND;
        assert_eq!(wait(now), 0);
    }
    slot.made(now);
    now += LIMITS.calm;
    slot.failed("why", now);
    assert_eq!(wait(now), 1, "it had been well for long");
    assert_eq!(slot.wait(1, now), None, "another thread's turn");
    // However many there were, nothing overflows.
    for _ in 0..100 {
        slot.failed(&"x".repeat(1000), u64::MAX);
    }
    assert_eq!(slot.stats().failure.unwrap().len(), 503);
}

#[test]
fn who_asks_is_woken_by_an_answer_and_by_none() {
    use rustix::event::{PollFd, PollFlags, poll};
    let (jobs, todo) = sync_channel(1);
    let asker = Asker::new(jobs).unwrap();
    let wakes = || poll(&mut [PollFd::new(&asker, PollFlags::IN)], Some(&Default::default())).unwrap() == 1;
    let ask = || asker.ask(Request::Stats, Rights::READ);
    let pending = ask().unwrap().unwrap();
    assert!(ask().unwrap().is_none(), "one more would have to wait");
    // What was not asked rang as well, for nobody answers it.
    asker.hush();
    assert!(matches!(pending.look(), Progress::Waits) && !wakes());
    let Ok(Job::Ask { reply, .. }) = todo.recv() else { panic!("it asks") };
    reply.send(Answer::Whole(Response::refused("no")));
    assert!(wakes() && matches!(pending.look(), Progress::Answered(_)));
    asker.hush();
    let pending = ask().unwrap().unwrap();
    assert!(!wakes());
    drop(todo);
    assert!(wakes() && matches!(pending.look(), Progress::Nobody));
    assert!(ask().is_err());
}
