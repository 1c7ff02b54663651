//! Signals to a running Weir: SIGTERM and SIGINT stop it, SIGHUP reloads its configuration, and no other that can be caught ends it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use signal_hook::consts::signal::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGSYS, SIGTERM, SIGTRAP, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
    SIGXFSZ,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Origin;
use weir_protocol::{Request, Rights};

use crate::failure::Failed;
use crate::log;
use crate::server::{Job, reload_for_signal};

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

/// Listens to signals from here on. The first that asks for an end goes to `jobs`; the second ends the process at once.
pub(crate) fn listen(jobs: &SyncSender<Job>) -> Result<(), Failed> {
    let again = Arc::new(AtomicBool::new(false));
    let wrong = |error: std::io::Error| format!("cannot listen to signals: {error}");
    for signal in ENDS {
        // In this order: the first signal finds the flag clear, and sets it.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&again)).map_err(wrong)?;
        signal_hook::flag::register(signal, Arc::clone(&again)).map_err(wrong)?;
    }
    let all = ENDS.into_iter().chain([SIGHUP]).chain(MEANINGLESS).chain(REAL_TIME);
    let mut signals = SignalsInfo::<WithOrigin>::new(all).map_err(wrong)?;
    let reloads = reloader(jobs.clone()).map_err(wrong)?;
    let jobs = jobs.clone();
    let body = move || signals.forever().for_each(|origin| act(&origin, &jobs, &reloads));
    std::thread::Builder::new().name("weir-signals".to_owned()).spawn(body).map_err(wrong)?;
    Ok(())
}

fn act(origin: &Origin, jobs: &SyncSender<Job>, reloads: &SyncSender<Sender>) {
    let sender = Sender::of(origin);
    match origin.signal {
        signal if ENDS.contains(&signal) => {
            log::info("run", "a signal asks Weir to stop", &sender.facts());
            let (reply, _answer) = sync_channel(1);
            // When nobody is there to stop, the process is about to end anyway.
            let _ = jobs.send(Job::Ask { request: Request::Stop, rights: Rights::ALL, reply });
        }
        SIGHUP => match reloads.try_send(sender) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            // The file is going to be read after this.
            Err(TrySendError::Full(sender)) => {
                log::info("reload", "a signal asks for a reload that is about to begin anyway", &sender.facts());
            }
        },
        _ => log::warn("run", "a signal that means nothing here was ignored", &sender.facts()),
    }
}

/// Starts what carries out reloads, one after the other: meanwhile other signals are listened to. One more may wait.
fn reloader(jobs: SyncSender<Job>) -> std::io::Result<SyncSender<Sender>> {
    let (reloads, todo) = sync_channel::<Sender>(1);
    let body = move || todo.iter().for_each(|sender| reload_for_signal(&jobs, &sender.facts()));
    std::thread::Builder::new().name("weir-reload".to_owned()).spawn(body)?;
    Ok(reloads)
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
