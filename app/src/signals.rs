//! Signals to a running Weir: SIGTERM and SIGINT stop it, SIGHUP reloads its configuration, and no other that can be caught ends it.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use signal_hook::consts::signal::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGSYS, SIGTERM, SIGTRAP, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
    SIGXFSZ,
};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Origin;
use weir_protocol::{Request, Rights};
use weir_stage::{Load, MakeService, Service, Waits};

use crate::failure::Failed;
use crate::log;
use crate::server::{Job, reload_for_signal};
use crate::services::{Bell, guarded};

/// Those that ask for an orderly end.
const ENDS: [i32; 2] = [SIGTERM, SIGINT];

/// Linux has these two for coprocessors and power supplies.
const SIGSTKFLT: i32 = 16;
const SIGPWR: i32 = 30;

/// Those that mean nothing here. Left alone each of them would end the process at once, with its account untold and its marks on
/// interfaces. Not among them are those that a fault raises: what comes after a fault cannot be trusted.
const MEANINGLESS: [i32; 13] = [
    SIGUSR1, SIGUSR2, SIGQUIT, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGXCPU, SIGXFSZ, SIGSYS, SIGTRAP, SIGSTKFLT, SIGPWR,
];

/// The signals for real time; the C library keeps those before for itself.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;

/// Listens to signals from here on; the service that is returned acts on them. The first that asks for an end goes to `jobs`; the second
/// ends the process at once.
pub(crate) fn listen(jobs: &SyncSender<Job>) -> Result<Box<dyn MakeService>, Failed> {
    let again = Arc::new(AtomicBool::new(false));
    let wrong = |error: io::Error| format!("cannot listen to signals: {error}");
    for signal in ENDS {
        // In this order: the first signal finds the flag clear, and sets it.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&again)).map_err(wrong)?;
        signal_hook::flag::register(signal, Arc::clone(&again)).map_err(wrong)?;
    }
    let delivery = Arc::new(Mutex::new(delivery().map_err(wrong)?));
    Ok(Box::new(Maker { delivery, jobs: jobs.clone() }))
}

/// Where signals arrive: a socket that is readable when there are any.
type Delivery = SignalDelivery<UnixStream, WithOrigin>;

fn delivery() -> io::Result<Delivery> {
    let all = ENDS.into_iter().chain([SIGHUP]).chain(MEANINGLESS).chain(REAL_TIME);
    let (read, write) = UnixStream::pair()?;
    SignalDelivery::with_pipe(read, write, WithOrigin::default(), all)
}

/// Makes the service that acts on signals; those that come meanwhile wait.
struct Maker {
    delivery: Arc<Mutex<Delivery>>,
    jobs: SyncSender<Job>,
}

impl MakeService for Maker {
    fn name(&self) -> &str {
        "signals"
    }

    fn make(&self, _now: u64) -> Result<Box<dyn Service>, String> {
        let wrong = |error: io::Error| format!("cannot listen to signals: {error}");
        let read = lock(&self.delivery).get_read().try_clone().map_err(wrong)?;
        Ok(Box::new(Signals {
            delivery: Arc::clone(&self.delivery),
            read,
            jobs: self.jobs.clone(),
            bell: Bell::new().map_err(wrong)?,
            stop: None,
            reload: None,
            next: None,
        }))
    }
}

fn lock(delivery: &Mutex<Delivery>) -> MutexGuard<'_, Delivery> {
    delivery.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long an end that nobody takes now waits until it is offered again, nanoseconds.
const BREATH: u64 = 50_000_000;

/// Acts on signals.
struct Signals {
    delivery: Arc<Mutex<Delivery>>,
    /// The same socket as that of the delivery.
    read: UnixStream,
    jobs: SyncSender<Job>,
    /// Rings when a reload has ended.
    bell: Bell,
    /// When an end that was asked for, and that nobody has taken yet, is offered again.
    stop: Option<u64>,
    /// The reload that is being carried out: whether it has ended.
    reload: Option<Arc<AtomicBool>>,
    /// Who asked for the one after it. One may wait.
    next: Option<Sender>,
}

impl Service for Signals {
    fn waits(&self) -> Waits<'_> {
        let readable = vec![self.read.as_fd(), self.bell.as_fd()];
        Waits { readable, until: self.stop, ..Waits::default() }
    }

    fn step(&mut self, now: u64) -> Result<(), String> {
        let arrived: Vec<Origin> = lock(&self.delivery).pending().collect();
        arrived.iter().for_each(|origin| self.act(origin, now));
        if self.stop.is_some_and(|due| due <= now) {
            self.offer_stop(now);
        }
        self.bell.hush();
        self.reload();
        self.check()
    }

    fn load(&self) -> Load {
        let now = u64::from(self.reload.is_some()) + u64::from(self.next.is_some());
        Load { unit: "reloads", now, most: 2 }
    }
}

impl Signals {
    fn act(&mut self, origin: &Origin, now: u64) {
        let sender = Sender::of(origin);
        match origin.signal {
            signal if ENDS.contains(&signal) => {
                log::info("run", "a signal asks Weir to stop", &sender.facts());
                self.stop = Some(now);
            }
            SIGHUP if self.next.is_none() => self.next = Some(sender),
            // The file is going to be read after this.
            SIGHUP => log::info("reload", "a signal asks for a reload that is about to begin anyway", &sender.facts()),
            _ => log::warn("run", "a signal that means nothing here was ignored", &sender.facts()),
        }
    }

    /// Asks for the end; later again where too many other requests wait.
    fn offer_stop(&mut self, now: u64) {
        let (reply, _answer) = sync_channel(1);
        let ask = Job::Ask { request: Request::Stop, rights: Rights::ALL, reply: reply.into() };
        // When nobody is there to stop, the process is about to end anyway.
        let is_full = matches!(self.jobs.try_send(ask), Err(TrySendError::Full(_)));
        self.stop = is_full.then_some(now + BREATH);
    }

    /// Begins the next reload when that before has ended, on a thread of its own: it takes as long as building functions does.
    fn reload(&mut self) {
        self.reload = self.reload.take().filter(|ended| !ended.load(Ordering::Acquire));
        if self.reload.is_some() {
            return;
        }
        let Some(sender) = self.next.take() else { return };
        let ended = Arc::new(AtomicBool::new(false));
        let (jobs, bell, told) = (self.jobs.clone(), self.bell.clone(), Arc::clone(&ended));
        let body = move || {
            let reloaded = guarded(|| {
                reload_for_signal(&jobs, &sender.facts());
                Ok(())
            });
            if let Err(why) = reloaded {
                log::error("reload", "a reload that a signal asked for was given up", &[("why", &why)]);
            }
            told.store(true, Ordering::Release);
            bell.ring();
        };
        match std::thread::Builder::new().name("weir-reload".to_owned()).spawn(body) {
            Ok(_) => self.reload = Some(ended),
            Err(error) => log::error("reload", "a reload that a signal asked for gets no thread", &[("cause", &error)]),
        }
    }

    /// Where signals would arrive no more, they are listened to anew.
    fn check(&self) -> Result<(), String> {
        use rustix::net::{RecvFlags, recv};
        let peeked = recv(&self.read, &mut [0_u8; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        if !matches!(peeked, Ok((0, _))) {
            return Ok(());
        }
        *lock(&self.delivery) = delivery().map_err(|error| format!("cannot listen to signals: {error}"))?;
        Err("the socket at which signals arrive was closed".to_owned())
    }
}

/// A signal, and who sent it.
struct Sender {
    signal: String,
    /// Its user and process; the kernel sends some by itself, as when somebody presses Ctrl-C.
    who: Option<(String, String)>,
}

impl Sender {
    fn of(origin: &Origin) -> Sender {
        let name = signal_hook::low_level::signal_name(origin.signal);
        Sender {
            signal: name.map_or_else(|| format!("signal {}", origin.signal), str::to_owned),
            who: origin.process.map(|process| (process.uid.to_string(), process.pid.to_string())),
        }
    }

    fn facts(&self) -> Vec<(&'static str, &dyn std::fmt::Display)> {
        let mut facts: Vec<(&'static str, &dyn std::fmt::Display)> = vec![("signal", &self.signal)];
        match &self.who {
            Some((user, process)) => facts.extend([("user", user as &dyn std::fmt::Display), ("process", process)]),
            None => facts.push(("by", &"the kernel")),
        }
        facts
    }
}
