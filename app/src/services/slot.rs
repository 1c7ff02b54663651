//! The books on one service: which instance counts, what it did, and what went wrong with it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_protocol::Fault;
use weir_stage::{Load, MakeService};

use super::Limits;
use super::bell::Bell;
use super::stats::{ServiceState, ServiceStats};
use crate::log::{self, Level};

/// A service, whichever instance of it runs.
pub(super) struct Slot {
    pub(super) maker: Box<dyn MakeService>,
    /// Wakes the thread that waits for it.
    pub(super) bell: Bell,
    limits: Limits,
    status: Mutex<Status>,
}

struct Status {
    state: ServiceState,
    /// The number of the thread that counts. One with another was given up.
    turn: u64,
    /// Whether the thread that counts has not ended.
    alive: bool,
    /// Whether it was ended for good.
    retired: bool,
    /// Threads that were given up and have not come back.
    abandoned: usize,
    /// Since when a step has been under way.
    stepping: Option<u64>,
    /// When it may be made.
    due: u64,
    /// When it was made.
    made: u64,
    /// Failures without a calm time in between.
    in_a_row: u32,
    steps: u64,
    longest: u64,
    restarts: u64,
    failure: Option<(String, Duration)>,
    load: Load,
    fault: Option<Fault>,
}

impl Slot {
    pub(super) fn new(maker: Box<dyn MakeService>, bell: Bell, limits: Limits) -> Slot {
        let status = Status {
            state: ServiceState::Waiting,
            turn: 0,
            alive: false,
            retired: false,
            abandoned: 0,
            stepping: None,
            due: 0,
            made: 0,
            in_a_row: 0,
            steps: 0,
            longest: 0,
            restarts: 0,
            failure: None,
            load: Load::default(),
            fault: None,
        };
        Slot { maker, bell, limits, status: Mutex::new(status) }
    }

    fn lock(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread of this number begins.
    pub(super) fn start(&self, turn: u64) {
        let mut status = self.lock();
        if status.turn == turn {
            (status.alive, status.state) = (true, ServiceState::Waiting);
        }
    }

    /// That thread ends, or could not begin.
    pub(super) fn end(&self, turn: u64) {
        let mut status = self.lock();
        if status.turn == turn {
            status.alive = false;
        }
    }

    /// Whether the thread that counts has not ended.
    pub(super) fn is_alive(&self) -> bool {
        self.lock().alive
    }

    /// How long that thread has to wait before it makes an instance; `None` if it was given up.
    pub(super) fn wait(&self, turn: u64, now: u64) -> Option<u64> {
        let status = self.lock();
        (status.turn == turn).then(|| status.due.saturating_sub(now))
    }

    /// A step begins. `None` if the thread was given up; else what the step is to suffer.
    pub(super) fn begin(&self, turn: u64, now: u64) -> Option<Option<Fault>> {
        let mut status = self.lock();
        if status.turn != turn {
            return None;
        }
        status.stepping = Some(now);
        let runs = status.state == ServiceState::Running;
        Some(status.fault.take_if(|_| runs))
    }

    /// A step has ended. False if the thread was given up meanwhile.
    pub(super) fn ended(&self, turn: u64, now: u64) -> bool {
        let mut status = self.lock();
        if status.turn != turn && status.retired {
            return false;
        }
        if status.turn != turn {
            status.abandoned = status.abandoned.saturating_sub(1);
            drop(status);
            log::each(
                Level::Info,
                "service",
                "a step that hung has come to its end",
                &[("service", &self.maker.name())],
            );
            return false;
        }
        status.note_step(now);
        true
    }

    /// An instance was made.
    pub(super) fn made(&self, now: u64) {
        let mut status = self.lock();
        (status.state, status.made) = (ServiceState::Running, now);
        let is_again = status.failure.is_some();
        if is_again {
            status.restarts += 1;
            drop(status);
            log::each(Level::Info, "service", "a service runs again", &[("service", &self.maker.name())]);
        }
    }

    /// How full it is.
    pub(super) fn loaded(&self, load: Load) {
        self.lock().load = load;
    }

    /// An instance has failed; another is made after a while.
    pub(super) fn failed(&self, why: &str, now: u64) {
        let pause = self.lock().fail(why, now, &self.limits);
        let facts: log::Facts<'_> =
            &[("service", &self.maker.name()), ("why", &why), ("again_in_ms", &(pause / 1_000_000))];
        log::each(Level::Error, "service", "a service failed and is started again", facts);
    }

    /// Looks after it: the thread of a step that does not end is given up. Whether another is to be started, and with what number.
    pub(super) fn look(&self, now: u64) -> Option<u64> {
        let mut status = self.lock();
        let hangs = status.give_up(now, &self.limits);
        let (abandoned, turn) = (status.abandoned, status.turn);
        let has_room = abandoned < self.limits.abandoned;
        let is_due = !status.alive && !status.retired && has_room && now >= status.due;
        drop(status);
        if hangs {
            let facts: log::Facts<'_> = &[("service", &self.maker.name()), ("abandoned", &abandoned)];
            log::each(
                Level::Error,
                "service",
                "a service hangs; its thread is given up, and another takes over",
                facts,
            );
        }
        if hangs && !has_room {
            let message = "a service is not started again before one of its threads comes back: too many hang";
            log::each(Level::Error, "service", message, &[("service", &self.maker.name())]);
        }
        is_due.then_some(turn)
    }

    /// Could not be given a thread.
    pub(super) fn no_thread(&self, why: &str, now: u64) {
        let mut status = self.lock();
        status.fail(why, now, &self.limits);
        drop(status);
        log::each(
            Level::Error,
            "service",
            "a service gets no thread",
            &[("service", &self.maker.name()), ("why", &why)],
        );
    }

    /// Has its next step suffer something.
    pub(super) fn torment(&self, fault: Fault) {
        self.lock().fault = Some(fault);
        self.bell.ring();
    }

    /// Ends it for good: its thread has no turn any more.
    pub(super) fn retire(&self) {
        let mut status = self.lock();
        status.turn += 1;
        status.retired = true;
        drop(status);
        self.bell.ring();
    }

    /// Its numbers.
    pub(super) fn stats(&self) -> ServiceStats {
        let status = self.lock();
        ServiceStats {
            name: self.maker.name().to_owned(),
            owner: self.maker.owner().to_owned(),
            state: status.state,
            restarts: status.restarts,
            failure: status.failure.as_ref().map(|(why, _)| why.clone()),
            failed_at: status.failure.as_ref().map(|(_, at)| log::timestamp(*at)),
            steps: status.steps,
            longest_step: status.longest,
            unit: status.load.unit.to_owned(),
            occupancy: status.load.now,
            capacity: status.load.most,
            abandoned: status.abandoned as u64,
        }
    }
}

impl Status {
    fn note_step(&mut self, now: u64) {
        if let Some(began) = self.stepping.take() {
            self.steps += 1;
            self.longest = self.longest.max(now.saturating_sub(began));
        }
    }

    /// Gives its thread up if a step does not end. Whether it did.
    fn give_up(&mut self, now: u64, limits: &Limits) -> bool {
        let Some(took) = self.stepping.map(|began| now.saturating_sub(began)).filter(|took| *took > limits.step) else {
            return false;
        };
        self.fail(&format!("a step has not ended within {} s", limits.step as f64 / 1e9), now, limits);
        self.longest = self.longest.max(took);
        self.turn += 1;
        self.alive = false;
        self.abandoned += 1;
        if self.abandoned >= limits.abandoned {
            self.state = ServiceState::Failed;
        }
        true
    }

    /// Notes a failure; returns after how long it is made again.
    fn fail(&mut self, why: &str, now: u64, limits: &Limits) -> u64 {
        let was_calm = self.state == ServiceState::Running && now.saturating_sub(self.made) >= limits.calm;
        self.in_a_row = if was_calm { 1 } else { self.in_a_row.saturating_add(1) };
        let doublings = (self.in_a_row - 1).min(u64::BITS - 1);
        let pause = limits.pause.saturating_mul(1 << doublings).min(limits.longest_pause);
        self.due = now.saturating_add(pause);
        self.stepping = None;
        self.state = ServiceState::Waiting;
        self.load = Load { now: 0, ..self.load };
        self.failure = Some((shortened(why), wall_clock()));
        pause
    }
}

/// Characters of a failure that are kept.
const LONGEST: usize = 500;

fn shortened(why: &str) -> String {
    match why.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", why.get(..end).unwrap_or_default()),
        None => why.to_owned(),
    }
}

/// Since 1970: people are told when something failed.
#[allow(clippy::disallowed_methods, reason = "people are told when in their time")]
fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
